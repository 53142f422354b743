// SPDX-License-Identifier: GPL-2.0

//! `rkprobe offcpu`: where do threads wait, and how long? The kernel adds up the durations of `schedule()` by stack.

use std::cmp::Reverse;

use serde::Serialize;

use crate::{
    context::Context,
    counts::{
        Count,
        Table, //
    },
    draw::{
        Bar,
        Screen, //
    },
    duration,
    failure::Result,
    flame::Stack,
    functions::Method,
    hist::{
        self,
        Hist, //
    },
    probes,
    stream,
    table::{
        self,
        Cell,
        Image,
        Options,
        Question,
        Source, //
    },
    threads,
    whom::Whom, //
};

/// A thread calls this function when it gives its CPU away.
const FUNCTION: &str = "schedule";
/// The number of stacks that have room.
const SIZE: u32 = 8192;

/// The options of the question.
#[derive(Clone, Copy)]
pub struct Asked {
    /// Whether each thread of a program has a row.
    pub by_thread: bool,
    /// Whether threads of the kernel count.
    pub with_kernel: bool,
    /// The shortest wait that counts, in ns.
    pub min: u64,
}

/// The waits at one place.
#[derive(Serialize)]
struct Waits {
    comm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    count: u64,
    total_ns: u64,
    /// Unknown for an interval if an earlier wait was longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ns: Option<u64>,
    /// The functions that waited, the innermost first.
    stack: Vec<String>,
}

impl Waits {
    fn thread(&self) -> String {
        match self.pid {
            Some(pid) => format!("{}-{pid}", self.comm),
            None => self.comm.clone(),
        }
    }

    /// The head, which has the same width in all rows, and a line for each function.
    fn show(&self) -> String {
        let longest = self.max_ns.map_or("?".into(), duration::show);
        format!(
            "{:>8}  {:>6} waits, longest {longest:>8}  {}\n{}",
            duration::show(self.total_ns),
            self.count,
            self.thread(),
            stream::show_stack(&self.stack),
        )
    }
}

/// The question.
struct Waiting {
    asked: Asked,
}

impl Question for Waiting {
    type Row = Waits;

    const ROWS: &'static str = "waits";

    const COLUMNS: &'static [&'static str] = &["total", "count", "name", "avg", "max"];

    fn title(&self) -> String {
        "offcpu".into()
    }

    /// The places with the longest total time first.
    fn rows(&mut self, hists: &[Hist]) -> Vec<Waits> {
        let rows = hists.iter().flat_map(|hist| &hist.rows);
        let mut rows: Vec<Waits> = rows
            .map(|row| Waits {
                comm: row.keys[0].clone(),
                pid: match self.asked.by_thread {
                    true => row.keys[1].parse().ok(),
                    false => None,
                },
                count: row.hits,
                total_ns: row.sum,
                max_ns: row.max,
                stack: row.keys.last().map_or(Vec::new(), |stack| {
                    hist::lines(stack)
                        .filter(|line| !line.is_empty())
                        .map(String::from)
                        .collect()
                }),
            })
            .collect();
        rows.sort_by_cached_key(|row| (Reverse(row.total_ns), row.thread(), row.stack.clone()));
        rows
    }

    fn cell<'r>(row: &'r Waits, column: &str) -> Cell<'r> {
        match column {
            "name" => Cell::Text(&row.comm),
            "count" => row.count.into(),
            "avg" => (row.total_ns / row.count.max(1)).into(),
            "max" => row.max_ns.unwrap_or(0).into(),
            _ => row.total_ns.into(),
        }
    }

    fn show(&self, rows: &[Waits], _: Screen) -> String {
        match rows {
            [] => "0 waits\n".into(),
            rows => rows.iter().map(Waits::show).collect(),
        }
    }

    /// The program is below the functions.
    fn image<'r>(&'r self, rows: &'r [Waits]) -> (String, Image<'r>) {
        if rows.is_empty() {
            return ("0 waits".into(), Image::Bars(Vec::<Bar>::new()));
        }
        let stack = |row: &'r Waits| {
            let frames = row.stack.iter().map(String::as_str);
            Stack {
                frames: frames.chain([&*row.comm]).collect(),
                function: FUNCTION,
                result: None,
                value: row.total_ns,
            }
        };
        let total = rows.iter().map(|row| row.total_ns).sum();
        (
            format!("waits: {} in all threads", duration::show(total)),
            Image::Flames("ns", rows.iter().map(stack).collect()),
        )
    }
}

/// The commands to try. If the machine `is_crowded`, a probe is better that has memory for the calls of all threads.
fn commands(group: &str, asked: Asked, is_crowded: bool, whom: &Whom) -> Vec<String> {
    let mut condition = whom.counted();
    if !asked.with_kernel {
        condition = format!("$current->mm != 0 && {condition}");
    }
    if asked.min > 0 {
        condition = format!("ns >= {} && {condition}", asked.min);
    }
    let count = Count {
        keys: match asked.by_thread {
            true => &["comm", "common_pid", "stack"],
            false => &["comm", "stack"],
        },
        sum: Some("ns"),
        size: SIZE,
        condition,
    };
    let commands = match is_crowded {
        true => probes::at_return(FUNCTION, group, "offcpu"),
        false => probes::at_return_with_stack(FUNCTION, group, "offcpu"),
    };
    let rest = count.clauses();
    let commands = commands.into_iter();
    commands
        .map(|command| format!("{command} ns=$elapsed comm=$comm{rest}"))
        .collect()
}

/// Runs the command.
pub fn run(context: &Context, asked: Asked, options: &Options<'_>) -> Result {
    context.functions.check(FUNCTION, Method::Any)?;
    let is_crowded = threads::all().len() > (probes::MAXACTIVE / 2) as usize;
    let commands = |group: &str| [commands(group, asked, is_crowded, &context.whom)];
    probes::check_all(&commands("rkprobe"))?;
    let instance = context.start()?;
    probes::define_all(&context.tracefs, &commands(instance.group()))?;
    context.switch_on(&instance, "offcpu")?;
    let names: &[&str] = match asked.by_thread {
        true => &["comm", "common_pid", "common_stacktrace"],
        false => &["comm", "common_stacktrace"],
    };
    let table = Table {
        event: "offcpu",
        keys: names,
        sum: Some("ns"),
    };
    table::run(
        context,
        &instance,
        Source::Tables(vec![table]),
        0,
        Waiting { asked },
        options,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked = Asked {
        by_thread: true,
        with_kernel: false,
        min: 5,
    };

    #[test]
    fn a_place_has_its_waits() {
        let text = "{ comm: a, common_pid: 7, common_stacktrace:\n   f+0x1/0x2\n   g+0x1/0x2\n} \
            hitcount: 2  ns: 10  min_ns: 3  max_ns: 7\n\
            { comm: b, common_pid: 8, common_stacktrace:\n   h+0x1/0x2\n} hitcount: 1  ns: 5000  \
            min_ns: 5000  max_ns: 5000\n";
        let hist = hist::parse(
            text,
            &["comm", "common_pid", "common_stacktrace"],
            Some("ns"),
        );
        let mut question = Waiting { asked: ASKED };
        let rows = question.rows(&[hist]);
        let screen = Screen {
            columns: None,
            has_color: false,
            has_blocks: false,
        };
        assert_eq!(
            question.show(&rows, screen),
            " 5.00 us       1 waits, longest  5.00 us  b-8\n          h+0x1/0x2\n   \
             10 ns       2 waits, longest     7 ns  a-7\n          f+0x1/0x2\n          g+0x1/0x2\n"
        );
        let (title, Image::Flames(_, stacks)) = question.image(&rows) else {
            panic!();
        };
        assert_eq!(title, "waits: 5.01 us in all threads");
        assert_eq!(stacks[1].frames, ["f+0x1/0x2", "g+0x1/0x2", "a"]);
    }

    #[test]
    fn the_kernel_adds_up() {
        let all = commands("g", ASKED, true, &Whom::default());
        assert!(all[0].starts_with(
            "f:g/offcpu schedule%return ns=$elapsed comm=$comm by comm,common_pid,stack sum ns min ns max ns \
             size=8192 if ns >= 5 && $current->mm != 0 && "
        ));
        let asked = Asked {
            by_thread: false,
            with_kernel: true,
            min: 0,
        };
        let all = commands("g", asked, false, &Whom::default());
        assert!(all[0].starts_with("r4096:g/offcpu schedule "));
        assert!(all[0].contains(" by comm,stack sum ns min ns max ns size=8192 if common_pid != "));
    }
}
