// SPDX-License-Identifier: GPL-2.0

//! `rkprobe fails FUNCTIONS`: which functions return errors, which errors, how often, and to whom?

use std::{
    cmp::Reverse,
    collections::BTreeMap, //
};

use serde::{
    Serialize,
    Serializer, //
};

use crate::{
    by::By,
    context::Context,
    counts::{
        self,
        Count,
        Table, //
    },
    draw::{
        self,
        Bar,
        Screen, //
    },
    errno,
    failure::{
        note,
        Result, //
    },
    flame::Stack,
    functions::Method,
    hist::{
        self,
        one_line,
        Hist,
        Row, //
    },
    lines::Lines,
    pattern::is_pattern,
    probes,
    record::{
        function_of_exit,
        Record, //
    },
    returns::{
        self,
        Returned,
        Returns,
        MIN_ERROR, //
    },
    selection::{
        is_list,
        parse,
        split, //
    },
    stream,
    syscalls,
    table::{
        self,
        Cell,
        Image,
        Options,
        Question,
        Source, //
    },
    tally::{
        self,
        Hit,
        Tally, //
    },
    targets::Targets,
    whom::Whom, //
};

/// The event of `f…%return`, which knows the function.
const FUNCTIONS: &str = "fails";
/// The event of `%retinsn`, which knows the return instruction.
const INSTRUCTIONS: &str = "exits";

/// The error of a function that returned only -1, which can be a number, too.
const DOUBTFUL: &str = "EPERM or -1";

/// How the errors are divided.
#[derive(Clone, Copy)]
struct Groups {
    who: Option<By>,
    has_stack: bool,
    /// Whether the stack traces are also those of programs. Then each error is a record.
    has_user_stack: bool,
}

impl Groups {
    /// The keys of a table of the errors of each place. `name` is the form of a key.
    fn keys<'a>(&self, place: &'a str, name: impl Fn(By) -> &'static str) -> Vec<&'a str> {
        let mut keys = vec![place, "value"];
        keys.extend(self.who.map(&name));
        keys.extend(self.has_stacks().then(|| name(By::Stack)));
        keys
    }

    fn has_stacks(&self) -> bool {
        self.has_stack || self.has_user_stack
    }

    /// The keys of a record with its stack.
    fn keys_of(&self, record: &Record<'_>) -> Vec<String> {
        let field = |name| {
            let value = record.field(name).unwrap_or("");
            value.trim_matches('"').to_string()
        };
        let who = self.who.map(|who| match who {
            By::Pid => record.pid.into(),
            By::Cpu => record.cpu.to_string(),
            By::Comm | By::Stack => field("comm"),
        });
        let keys = [record.function(), field("value")].into_iter();
        let stack = self.has_stacks().then(|| tally::callers(record));
        keys.chain(who).chain(stack).collect()
    }
}

/// The task, or what `--by` says, and its name.
struct Who(By, String);

impl Serialize for Who {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map([(self.0.name(), self.0.json(&self.1))])
    }
}

/// An error of a function.
#[derive(Serialize)]
struct Failed {
    function: String,
    error: String,
    /// Whether -1 is the only value of the function that can be an error.
    #[serde(skip)]
    is_doubtful: bool,
    /// The return instruction or its source line. Empty if it is unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    place: String,
    #[serde(flatten)]
    who: Option<Who>,
    count: u64,
    /// The functions that led to the error, with `--stack` or `--by stack`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stack: Vec<String>,
}

/// The question.
struct Errors<'a> {
    pattern: &'a str,
    targets: Targets,
    by: Groups,
    lines: Option<Lines>,
    returns: Returns,
}

impl Question for Errors<'_> {
    type Row = Failed;

    const ROWS: &'static str = "errors";

    const COLUMNS: &'static [&'static str] = &["count", "name", "error", "group"];

    fn title(&self) -> String {
        format!("fails {}", self.pattern)
    }

    /// An error with its stack, with `--user-stack`.
    fn take(&mut self, event: usize, record: &Record<'_>) -> Vec<Hit> {
        vec![Hit {
            table: event,
            keys: self.by.keys_of(record),
            ..Hit::default()
        }]
    }

    fn rows(&mut self, hists: &[Hist]) -> Vec<Failed> {
        let [hist, exits] = hists else {
            return Vec::new();
        };
        let chosen = self.targets.rows(hist);
        errors(
            chosen,
            exits,
            self.by.who,
            self.lines.as_ref(),
            &mut self.returns,
        )
    }

    fn cell<'r>(row: &'r Failed, column: &str) -> Cell<'r> {
        match column {
            "name" => Cell::Text(&row.function),
            "error" => Cell::Text(row.error()),
            "group" => Cell::Text(row.group()),
            _ => row.count.into(),
        }
    }

    fn cell_text(&self, row: &Failed, column: &str) -> String {
        match column {
            // The first frame stands for the stack.
            "group" if row.who.is_none() => row.stack.first().cloned().unwrap_or_default(),
            "group" => row.group().into(),
            "error" => row.error().into(),
            "name" => format!("{} {}", row.function, row.place).trim_end().into(),
            _ => row.count.to_string(),
        }
    }

    fn show(&self, rows: &[Failed], _: Screen) -> String {
        table(self.pattern, rows)
    }

    fn image<'r>(&'r self, rows: &'r [Failed]) -> (String, Image<'r>) {
        let image = match self.by.has_stacks() {
            true => Image::Flames("errors", rows.iter().map(Failed::stack).collect()),
            false => Image::Bars(rows.iter().map(Failed::bar).collect()),
        };
        (format!("{}: errors", self.pattern), image)
    }
}

/// The module of `MODULE:FUNCTION`, or nothing.
fn module(function: &str) -> &str {
    function.split_once(':').map_or("", |(module, _)| module)
}

/// The errors, the most frequent first, and the doubtful ones after the others. `rows` count by function, and `exits`
/// by return instruction. `who` is the third key, if it is no stack. The type that a function returns decides which of
/// its values are errors.
fn errors<'h>(
    rows: impl Iterator<Item = &'h Row>,
    exits: &'h Hist,
    who: Option<By>,
    lines: Option<&Lines>,
    returns: &mut Returns,
) -> Vec<Failed> {
    let by_function = rows.map(|row| {
        let function = hist::symbol(&row.keys[0]).to_string();
        (row, function, String::new())
    });
    let by_place = exits.rows.iter().map(|row| {
        let place = hist::symbol(&row.keys[0]);
        let line = lines.and_then(|lines| lines.find_return(place));
        (row, function_of_exit(place), line.unwrap_or(place.into()))
    });
    let rows: Vec<_> = by_function.chain(by_place).collect();
    returns.look_up(rows.iter().map(|(_, function, _)| &**function));
    // Different values of a register of 64 bits can be the same error of 32 bits.
    let mut counts: BTreeMap<_, u64> = BTreeMap::new();
    for (row, function, place) in rows {
        if let Some(error) = returns.of(&function).error(returns::value(&row.keys[1])) {
            let key = (function, errno::name(error.into()), place, &row.keys[2..]);
            *counts.entry(key).or_default() += row.hits;
        }
    }
    let mut only_minus_one: BTreeMap<String, bool> = BTreeMap::new();
    for (function, error, ..) in counts.keys() {
        let is_only = only_minus_one.entry(function.clone()).or_insert_with(|| {
            // An error can be the only reason for -1 from a system call, or as a pointer.
            syscalls::name(function).is_none() && returns.of(function) != Returned::Pointer
        });
        *is_only &= error == "EPERM";
    }
    let failed = |((function, error, place, keys), count): ((String, _, _, &[String]), _)| Failed {
        is_doubtful: only_minus_one.get(&function) == Some(&true),
        function,
        place,
        error,
        who: who.map(|who| Who(who, one_line(&keys[0]))),
        count,
        stack: keys
            .get(usize::from(who.is_some()))
            .map_or(Vec::new(), |stack| {
                hist::lines(stack).map(String::from).collect()
            }),
    };
    let mut errors: Vec<Failed> = counts.into_iter().map(failed).collect();
    // Errors with equal counts keep the order of their keys.
    errors.sort_by_key(|failed| (failed.is_doubtful, Reverse(failed.count)));
    errors
}

fn table(pattern: &str, errors: &[Failed]) -> String {
    if errors.is_empty() {
        return format!("{pattern}: 0 errors\n");
    }
    let width = |text: fn(&Failed) -> &str| {
        errors
            .iter()
            .map(|failed| draw::width(text(failed)))
            .max()
            .unwrap_or(0)
    };
    let (functions, names, places) = (
        width(|failed| &failed.function),
        width(Failed::error),
        width(|failed| &failed.place),
    );
    let mut text = String::new();
    for failed in errors {
        let place = match places {
            0 => String::new(),
            _ => draw::pad(&failed.place, places) + "  ",
        };
        let line = format!(
            "{:>8}  {}  {:names$}  {place}{}",
            failed.count,
            draw::pad(&failed.function, functions),
            failed.error(),
            failed.group(),
        );
        let stack = stream::show_stack(&failed.stack);
        text += &format!("{}\n{stack}", line.trim_end());
    }
    text
}

/// The end of a command that counts the errors of each place.
///
/// An error is in the lower half of the register, for a function that returns a `long` or a pointer, too. The type of
/// the function then decides about the whole value. An error is not 0. But with `error == 0`, the kernel looks at the
/// task only after an error, and not at the entry of each call.
fn errors_by(place: &str, by: Groups, whom: &Whom) -> String {
    let (not_own, and) = (counts::not_own(), whom.and());
    let count = Count {
        keys: &by.keys(place, |by| by.key()),
        sum: None,
        size: 8192,
        condition: format!("error < 0 && error >= {MIN_ERROR} && ({not_own} || error == 0){and}"),
    };
    let field = by.who.map_or("", By::field);
    if by.has_user_stack {
        let condition = count.condition;
        return format!("error=$retval:s32 value=$retval:s64{field} if {condition}");
    }
    format!(
        "error=$retval:s32 value=$retval:s64{field}{}",
        count.clauses()
    )
}

/// The command for the returns of functions.
fn at_return(group: &str, by: Groups, pattern: &str, whom: &Whom) -> String {
    let count = errors_by("func", by, whom);
    format!("f:{group}/{FUNCTIONS} {pattern}%return {count}")
}

/// Gives each function a probe of its own: at its return instructions, or else at its return. Returns the number of
/// functions that the kernel refuses.
fn define_each(context: &Context, group: &str, by: Groups, functions: &[String]) -> Result<u64> {
    let mut last = Ok(());
    let mut probed = 0;
    let mut refused = 0;
    for function in functions {
        let at_instructions = format!(
            "p:{group}/{INSTRUCTIONS} {function}%retinsn exit=$exit {}",
            errors_by("exit.sym-offset", by, &context.whom)
        );
        // `f` takes no module.
        let name = function.rsplit(':').next().unwrap_or(function);
        let at_return = at_return(group, by, name, &context.whom);
        match probes::define(&context.tracefs, &[at_instructions, at_return]) {
            Ok(()) => probed += 1,
            Err(failure) => {
                // Functions that return nothing have no errors.
                refused += u64::from(!probes::returns_nothing(&failure));
                last = Err(failure);
            }
        }
    }
    match last {
        Err(failure) if probed == 0 => Err(failure),
        _ => Ok(refused),
    }
}

/// Runs the command. `by` replaces the task, and `image` is the path of an image. If `has_source`, the errors have
/// their return instructions, with source lines if the kernel's debug information is present. If `has_stack`, they have
/// stack traces, and count for each stack trace on its own.
pub fn run(
    context: &Context,
    pattern: &str,
    by: Option<By>,
    has_source: bool,
    has_stack: bool,
    options: &Options<'_>,
) -> Result {
    let has_user_stack = options.has_user_stack;
    let mut returns = Returns::default();
    let pattern = &*context.functions.by_name(pattern)?;
    let targets = context.functions.targets(pattern)?;
    let is_awaited = context.functions.awaited(pattern).is_some();
    let symbol = |text| match split(text) {
        (Some(module), name) => format!("{name} [{module}]"),
        (None, name) => name.into(),
    };
    let parts = parse(pattern)?;
    let named = parts
        .iter()
        .filter(|part| !part.is_excluded && !is_pattern(part.text) && !is_awaited);
    let mut left = parts.iter().filter(|part| !part.is_excluded).count();
    for (symbol, text) in named.map(|part| (symbol(part.text), part.text)) {
        returns.look_up([&*symbol].into_iter());
        match returns.check_errors(&symbol, text) {
            // If no part is left, nothing can have an error.
            Err(failure) if left > 1 => {
                left -= 1;
                note(format!("rkprobe: left out: {}", failure.reason()));
            }
            checked => checked?,
        }
    }
    let who = by.unwrap_or(By::Comm);
    let by = Groups {
        who: Some(who).filter(|who| *who != By::Stack),
        has_stack: has_stack || who == By::Stack,
        has_user_stack,
    };
    let commands = |group: &str| -> Vec<Vec<String>> {
        let command = |target: &String| match is_awaited {
            // `f` does not wait for a module.
            true => {
                let count = errors_by("func", by, &context.whom);
                let starts = probes::at_return(target, group, FUNCTIONS);
                let starts = starts.into_iter();
                starts.map(|start| format!("{start} {count}")).collect()
            }
            false => vec![at_return(group, by, target, &context.whom)],
        };
        targets.texts.iter().map(command).collect()
    };
    probes::check_all(&commands("rkprobe"))?;
    let (functions, lines) = if has_source {
        let functions = context.functions.each(pattern, Method::Any)?;
        let modules: Vec<String> = match is_list(pattern) {
            true => functions.iter().map(|name| module(name).into()).collect(),
            false => vec![context.functions.module_of(pattern).unwrap_or_default()],
        };
        let lines = Lines::open(modules.iter().map(|module| &**module));
        (Some(functions), Some(lines))
    } else {
        (None, None)
    };
    let instance = context.start()?;
    let refused = match &functions {
        Some(functions) => define_each(context, instance.group(), by, functions)?,
        None => {
            probes::define_all(&context.tracefs, &commands(instance.group()))?;
            0
        }
    };
    let stacks = stream::Options::with_stacks(by.has_stack, has_user_stack);
    if has_user_stack {
        stacks.prepare(&context.tracefs, &instance, false)?;
    }
    for event in [FUNCTIONS, INSTRUCTIONS] {
        let directory = context.tracefs.path(&instance.event_file(event, ""));
        // A dry run shows the first command for each function, and takes it for accepted.
        let is_used = match (has_source, context.tracefs.is_dry()) {
            (true, true) => event == INSTRUCTIONS,
            (true, false) => directory.exists(),
            (false, _) => event == FUNCTIONS,
        };
        if !is_used {
            continue;
        }
        context.switch_on(&instance, event)?;
    }
    let keys = |place| by.keys(place, |by| by.name());
    let (functions_keys, exits_keys) = (keys("func"), keys("exit"));
    // An event that does not exist has an empty table.
    let events = [FUNCTIONS, INSTRUCTIONS];
    let source = match has_user_stack {
        true => Source::Records(Tally::new(&events, &stacks)),
        false => {
            let table = |event, keys| Table {
                event,
                keys,
                sum: None,
            };
            Source::Tables(vec![
                table(FUNCTIONS, &functions_keys),
                table(INSTRUCTIONS, &exits_keys),
            ])
        }
    };
    let question = Errors {
        pattern,
        targets,
        by,
        lines,
        returns,
    };
    table::run(context, &instance, source, refused, question, options)
}

impl Failed {
    /// Who got it, unless errors are divided by stack only.
    fn group(&self) -> &str {
        self.who.as_ref().map_or("", |who| &who.1)
    }

    fn error(&self) -> &str {
        match self.is_doubtful {
            true => DOUBTFUL,
            false => &self.error,
        }
    }

    fn stack(&self) -> Stack<'_> {
        Stack {
            frames: self.stack.iter().map(String::as_str).collect(),
            function: &self.function,
            result: Some(self.error()),
            value: self.count,
        }
    }

    fn bar(&self) -> Bar {
        let words = [&*self.function, self.error(), &self.place, self.group()];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        Bar {
            label: words.join("  "),
            value: self.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_errors_and_sorts_by_count() {
        let text = "{ func: [ffff] b, value: 18446744073709551614, comm: cat   } hitcount: 1\n\
            { func: [ffff] a, value: -13, comm: a, b } hitcount: 20\n";
        let hist = hist::parse(text, &["func", "value", "comm"], None);
        let none = Hist::default();
        assert_eq!(
            table(
                "x",
                &errors(
                    hist.rows.iter(),
                    &none,
                    Some(By::Comm),
                    None,
                    &mut Returns::default()
                )
            ),
            "      20  a  EACCES  a, b\n       1  b  ENOENT  cat\n"
        );
        assert_eq!(table("x", &[]), "x: 0 errors\n");
        let text = "{ func: [ffff] a, value: -2, comm: b, common_stacktrace:\n   f+0x1/0x2\n   g+0x1/0x2 [m]\n} \
            hitcount: 3\n";
        let hist = hist::parse(text, &["func", "value", "comm", "common_stacktrace"], None);
        let errors = errors(
            hist.rows.iter(),
            &none,
            Some(By::Comm),
            None,
            &mut Returns::default(),
        );
        assert_eq!(
            table("x", &errors),
            "       3  a  ENOENT  b\n          f+0x1/0x2\n          g+0x1/0x2 [m]\n"
        );
        let json = serde_json::to_string(&errors[0]).unwrap();
        assert!(json.ends_with(",\"count\":3,\"stack\":[\"f+0x1/0x2\",\"g+0x1/0x2 [m]\"]}"));
    }

    #[test]
    fn a_function_that_returns_only_minus_one_is_after_the_others() {
        let row = |function: &str, value: i32, hits: u32| {
            format!("{{ func: [ffff] {function}, value: {value}, comm: cat }} hitcount: {hits}\n")
        };
        let text = [
            row("compare", -1, 90),
            row("may_open", -1, 7),
            row("may_open", -13, 2),
            row("__x64_sys_kill", -1, 5),
            row("alloc", -1, 4),
            row("open", -2, 1),
        ];
        let hist = hist::parse(&text.concat(), &["func", "value", "comm"], None);
        let mut returns = Returns::of_functions(&[
            ("compare", Returned::Int),
            ("may_open", Returned::Int),
            ("__x64_sys_kill", Returned::Word),
            ("alloc", Returned::Pointer),
            ("open", Returned::Int),
        ]);
        let none = Hist::default();
        let errors = errors(hist.rows.iter(), &none, Some(By::Comm), None, &mut returns);
        assert_eq!(
            table("*", &errors),
            "       7  may_open        EPERM        cat\n       5  __x64_sys_kill  EPERM        cat\n       \
             4  alloc           EPERM        cat\n       2  may_open        EACCES       cat\n       \
             1  open            ENOENT       cat\n      90  compare         EPERM or -1  cat\n"
        );
        let json = serde_json::to_string(&errors[5]).unwrap();
        assert!(json.starts_with("{\"function\":\"compare\",\"error\":\"EPERM\",\"comm\""));
    }

    #[test]
    fn an_instruction_belongs_to_a_function() {
        assert_eq!(function_of_exit("vfs_read+0xf5/0x370"), "vfs_read");
        assert_eq!(function_of_exit("vfs_read.cold+0x5/0x10"), "vfs_read");
        assert_eq!(function_of_exit("a+0xf5/0x370 [ext4]"), "a [ext4]");
        let text = "{ exit: [ffff] f+0x5/0x10, value: -2, comm: cat } hitcount: 3\n";
        let exits = hist::parse(text, &["exit", "value", "comm"], None);
        let errors = errors(
            [].iter(),
            &exits,
            Some(By::Comm),
            None,
            &mut Returns::default(),
        );
        assert_eq!(
            table("x", &errors),
            "       3  f  ENOENT  f+0x5/0x10  cat\n"
        );
        assert_eq!(errors[0].bar().label, "f  ENOENT  f+0x5/0x10  cat");
        assert_eq!(
            serde_json::to_string(&errors[0]).unwrap(),
            "{\"function\":\"f\",\"error\":\"ENOENT\",\"place\":\"f+0x5/0x10\",\"comm\":\"cat\",\"count\":3}"
        );
    }
}
