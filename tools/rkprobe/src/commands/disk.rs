// SPDX-License-Identifier: GPL-2.0

//! `rkprobe disk`: which programs make which requests of block devices, and how long do these take?
//!
//! A request starts in the task that makes it, goes to its device, and ends in an interrupt of any task.

use std::{
    cmp::Reverse,
    collections::{
        BTreeMap,
        HashMap, //
    }, //
};

use serde::Serialize;
use serde_json::json;

use crate::{
    btf,
    by::{
        By,
        Who, //
    },
    context::Context,
    draw::Screen,
    duration,
    failure::Result,
    flags::Flags,
    hist::Hist,
    record::Record,
    spread::{
        Figures,
        Scale,
        Spread, //
    },
    stream,
    table::{
        self,
        Cell,
        Image,
        Options,
        Question,
        Slice, //
    },
    tally::{
        self,
        Hit, //
    },
    whom::Whom, //
};

/// The events, in the order in which they are enabled.
const EVENTS: [&str; 4] = ["done", "failed", "issue", "start"];
/// The operation and its flags are in one number. C: `REQ_OP_MASK`.
const OPERATION: u64 = 0xff;
/// The first keys of rows: the time until the device has the request, and the time until it has completed it.
const QUEUED: &str = "queued";
const DEVICE: &str = "device";

/// The errors of requests, with the status that stands for each. C: `blk_errors`.
const ERRORS: [(u64, &str); 15] = [
    (1, "EOPNOTSUPP"),
    (2, "ETIMEDOUT"),
    (3, "ENOSPC"),
    (4, "ENOLINK"),
    (5, "EREMOTEIO"),
    (6, "EBADE"),
    (7, "ENODATA"),
    (8, "EILSEQ"),
    (9, "ENOMEM"),
    (10, "EIO"),
    (12, "EAGAIN"),
    (13, "EBUSY"),
    (14, "EOVERFLOW"),
    (15, "ETOOMANYREFS"),
    (16, "EINVAL"),
];

fn error(status: u64) -> String {
    let name = ERRORS.iter().find(|(number, _)| *number == status);
    name.map_or(format!("error {status}"), |(_, name)| name.to_string())
}

/// The requests of a program to a device.
#[derive(Serialize)]
struct Requests {
    disk: String,
    operation: String,
    #[serde(flatten)]
    who: Who,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    bytes: u64,
    /// The average time until the device has the request.
    queued_ns: u64,
    #[serde(flatten)]
    figures: Figures,
    #[serde(skip)]
    spread: Spread,
}

impl Requests {
    fn show(&self) -> String {
        let spread = &self.spread;
        let mut text = format!("{:>8}  {:>8}", spread.count(), self.bytes.div_ceil(1024));
        for ns in [
            self.queued_ns,
            spread.percentile(50),
            spread.percentile(99),
            spread.max(),
        ] {
            text += &format!("  {:>7}", duration::show(ns));
        }
        text += &format!("  {} {}", self.disk, self.operation);
        for word in [&self.who.name, &self.error] {
            if !word.is_empty() {
                text += &format!(" {word}");
            }
        }
        text + "\n"
    }
}

/// The line above the requests.
fn head(by: Option<By>) -> String {
    let mut text = format!("{:>8}  {:>8}", "requests", "KiB");
    for column in ["queued", "50 %", "99 %", "longest"] {
        text += &format!("  {column:>7}");
    }
    let who = match by {
        None => "",
        Some(By::Pid) => " thread",
        Some(By::Cpu) => " CPU",
        Some(_) => " program",
    };
    format!("{text}  disk operation{who}\n")
}

/// A request that has not ended.
struct Open {
    start: u64,
    issue: Option<u64>,
    bytes: u64,
    error: String,
    keys: [String; 3],
}

/// A click on a request in a trace shows this.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    who: Who,
    request: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// The question.
struct Disks {
    /// How the requests to a disk are divided.
    by: Option<By>,
    operations: Flags,
    open: HashMap<String, Open>,
    all: Spread,
}

impl Disks {
    fn operation(&self, flags: u64) -> String {
        let name = self.operations.show(flags & OPERATION);
        name.strip_prefix("REQ_OP_").unwrap_or(&name).into()
    }
}

impl Question for Disks {
    type Row = Requests;

    const ROWS: &'static str = "requests";

    const COLUMNS: &'static [&'static str] = &[
        "total", "count", "disk", "name", "bytes", "queued", "p50", "p99", "max",
    ];

    fn title(&self) -> String {
        "disk".into()
    }

    fn take(&mut self, event: usize, record: &Record<'_>) -> Vec<Hit> {
        let request = record.field("rq").unwrap_or("");
        if EVENTS[event] == "start" {
            let open = Open {
                start: record.time,
                issue: None,
                bytes: 0,
                error: String::new(),
                keys: [
                    record.text("disk"),
                    self.operation(record.number("op")),
                    By::name_of(self.by, record),
                ],
            };
            self.open.insert(request.into(), open);
            return Vec::new();
        }
        let Some(open) = self.open.get_mut(request) else {
            return Vec::new();
        };
        match EVENTS[event] {
            // A device can give a request back, and get it again.
            "issue" => {
                open.issue = Some(record.time);
                open.bytes = record.number("bytes");
                return Vec::new();
            }
            "failed" => {
                open.error = error(record.number("error"));
                return Vec::new();
            }
            _ => {}
        }
        let Some(open) = self.open.remove(request) else {
            return Vec::new();
        };
        // Without an issue, the block layer has ended the request itself.
        let issue = open.issue.unwrap_or(record.time);
        let hit = |kind: &str, from: u64, until: u64, value| {
            let mut keys = vec![kind.to_string()];
            keys.extend(open.keys.iter().cloned());
            keys.push(open.error.clone());
            Hit {
                keys,
                ns: Some(until.saturating_sub(from)),
                value,
                ..Hit::default()
            }
        };
        vec![
            hit(QUEUED, open.start, issue, 0),
            hit(DEVICE, issue, record.time, open.bytes),
        ]
    }

    fn slice(&self, record: &Record<'_>, hit: &Hit) -> Option<Slice> {
        let [kind, disk, operation, who, error] = &hit.keys[..] else {
            return None;
        };
        let shown = Shown {
            who: Who::new(self.by, who.clone()),
            request: record.field("rq").unwrap_or(""),
            error,
            bytes: (kind == DEVICE).then_some(hit.value),
        };
        Some(Slice {
            name: format!("{disk} {operation} {kind}"),
            is_of_thread: false,
            arguments: json!(shown),
        })
    }

    /// The requests that took the longest time first, all together.
    fn rows(&mut self, hists: &[Hist]) -> Vec<Requests> {
        #[derive(Default)]
        struct Sums {
            bytes: u64,
            queued: Spread,
            spread: Spread,
        }
        let mut groups: BTreeMap<&[String], Sums> = BTreeMap::new();
        self.all = Spread::default();
        for row in hists.iter().flat_map(|hist| &hist.rows) {
            let ([kind, keys @ ..], ns) = tally::split(row) else {
                continue;
            };
            let sums = groups.entry(keys).or_default();
            if kind == QUEUED {
                sums.queued.add(ns, row.hits);
            } else {
                sums.bytes += row.sum;
                sums.spread.add(ns, row.hits);
                self.all.add(ns, row.hits);
            }
        }
        let requests = |(keys, sums): (&[String], Sums)| {
            let key = |index: usize| keys.get(index).cloned().unwrap_or_default();
            Requests {
                disk: key(0),
                operation: key(1),
                who: Who::new(self.by, key(2)),
                error: key(3),
                bytes: sums.bytes,
                queued_ns: sums.queued.average(),
                figures: sums.spread.figures(),
                spread: sums.spread,
            }
        };
        let mut rows: Vec<Requests> = groups.into_iter().map(requests).collect();
        rows.sort_by_key(|row| Reverse(row.spread.total()));
        rows
    }

    fn cell<'r>(row: &'r Requests, column: &str) -> Cell<'r> {
        match column {
            "disk" => Cell::Text(&row.disk),
            "name" => Cell::Text(&row.who.name),
            "count" => row.spread.count().into(),
            "bytes" => row.bytes.into(),
            "queued" => row.queued_ns.into(),
            "p50" => row.spread.percentile(50).into(),
            "p99" => row.spread.percentile(99).into(),
            "max" => row.spread.max().into(),
            _ => row.spread.total().into(),
        }
    }

    fn show(&self, rows: &[Requests], _: Screen) -> String {
        match rows {
            [] => "0 requests\n".into(),
            rows => head(self.by) + &rows.iter().map(Requests::show).collect::<String>(),
        }
    }

    fn image<'r>(&'r self, _: &'r [Requests]) -> (String, Image<'r>) {
        let title = format!("{} requests", self.all.count());
        (title, Image::Bars(self.all.bars(&Scale::Log2)))
    }
}

/// The commands of the events. Only the task that makes a request decides whether it counts.
fn commands(group: &str, disk: Option<&str>, whom: &Whom) -> Vec<Vec<String>> {
    const DISK: &str = "rq->q->disk->disk_name:string";

    let start = match disk {
        Some(disk) => format!(" if {DISK} ~ \"{disk}\"{}", whom.and()),
        None => whom.clause(),
    };
    vec![
        vec![format!("t:{group}/done block_io_done rq=rq")],
        vec![format!(
            "t:{group}/failed block_rq_complete rq=rq error=error:u8 if error != 0"
        )],
        vec![format!(
            "t:{group}/issue block_rq_issue rq=rq bytes=rq->__data_len"
        )],
        vec![format!(
            "t:{group}/start block_io_start rq=rq disk={DISK} op=rq->cmd_flags:u32 comm=$comm{start}"
        )],
    ]
}

/// Runs the command. `disk` is a pattern for the name of the disk.
pub fn run(context: &Context, disk: Option<&str>, by: Option<By>, options: &Options<'_>) -> Result {
    let stream = stream::Options {
        needs_clock: true,
        lacks_place: true,
        ..stream::Options::default()
    };
    let operations = btf::with(None, Flags::block_operation).flatten();
    let question = Disks {
        by,
        operations: operations.unwrap_or_default(),
        open: HashMap::new(),
        all: Spread::default(),
    };
    let commands = |_: &Disks, group: &str| commands(group, disk, &context.whom);
    table::run_records(context, &EVENTS, &stream, question, commands, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes;

    #[test]
    fn a_request_goes_from_its_program_to_its_device() {
        let mut question = Disks {
            by: Some(By::Comm),
            operations: Flags::default(),
            open: HashMap::new(),
            all: Spread::default(),
        };
        let lines = [
            "a-1 [000] ..... 1.000001: start: (f+0x4/0x10) rq=0xff01 disk=\"sda\" op=2048 comm=\"dd\"",
            "a-1 [000] ..... 1.000002: start: (f+0x4/0x10) rq=0xff02 disk=\"sda\" op=2048 comm=\"dd\"",
            "k-2 [000] ..... 1.000011: issue: (f+0x4/0x10) rq=0xff01 bytes=4096",
            "k-2 [000] ..... 1.000011: issue: (f+0x4/0x10) rq=0xff03 bytes=4096",
            "k-2 [000] ..... 1.000020: failed: (f+0x4/0x10) rq=0xff02 error=10",
            "i-0 [001] ..... 1.000031: done: (f+0x4/0x10) rq=0xff01",
            "i-0 [001] ..... 1.000032: done: (f+0x4/0x10) rq=0xff02",
            "i-0 [001] ..... 1.000032: done: (f+0x4/0x10) rq=0xff03",
        ];
        let mut take = |event: usize, record: &Record<'_>| question.take(event, record);
        let hist = tally::table_of(&EVENTS, &lines, &mut take);
        let rows = question.rows(&[hist]);
        let (_, end) = Record::parse_any(lines[5], &EVENTS.map(String::from)).unwrap();
        let keys = [DEVICE, "sda", "READ", "dd", "EIO"].map(String::from);
        let hit = Hit {
            keys: keys.into(),
            value: 4096,
            ..Hit::default()
        };
        let slice = question.slice(&end, &hit).unwrap();
        assert_eq!(slice.name, "sda READ device");
        assert_eq!(
            slice.arguments,
            json!({"comm": "dd", "request": "0xff01", "error": "EIO", "bytes": 4096})
        );
        let row = &rows[0];
        assert_eq!((&*row.disk, &*row.who.name, row.bytes), ("sda", "dd", 4096));
        assert_eq!((row.queued_ns, row.spread.max()), (10_000, 20_000));
        assert_eq!(rows[1].error, "EIO");
        assert_eq!(error(99), "error 99");
        assert!(head(Some(By::Comm)).len() < 80);
        for (by, expected) in [
            (None, None),
            (Some(By::Cpu), Some("\"common_cpu\":0,")),
            (Some(By::Pid), Some("\"common_pid\":1,")),
        ] {
            question.by = by;
            let mut take = |event: usize, record: &Record<'_>| question.take(event, record);
            let hist = tally::table_of(&EVENTS, &lines, &mut take);
            let row = &question.rows(&[hist])[0];
            let start = "{\"disk\":\"sda\",\"operation\":\"0\",";
            let start = format!("{start}{}\"bytes\"", expected.unwrap_or_default());
            let json = serde_json::to_string(row).unwrap();
            assert!(json.starts_with(&start), "{json}");
            assert_eq!(row.show().ends_with("  sda 0\n"), by.is_none());
        }
    }

    #[test]
    fn the_commands_are_right() {
        let all = commands("g", Some("sd*"), &Whom::default());
        probes::check_all(&all).unwrap();
        assert!(all[3][0].ends_with(" if rq->q->disk->disk_name:string ~ \"sd*\""));
    }
}
