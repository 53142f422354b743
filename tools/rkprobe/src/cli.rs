// SPDX-License-Identifier: GPL-2.0

//! The command line.

use std::{
    ffi::OsString,
    fs,
    io,
    path::Path,
    time::Duration, //
};

use clap::{
    builder::PossibleValuesParser,
    value_parser,
    Arg,
    ArgAction,
    ArgMatches,
    Command, //
};

use crate::{
    commands::{
        args,
        between,
        count,
        disk,
        doctor,
        events,
        exits,
        fails,
        follow,
        hist,
        lat,
        leaks,
        list,
        locks,
        names,
        net,
        offcpu,
        slow,
        stuck,
        tree,
        watch,
        why, //
    },
    context::Context,
    duration,
    errno,
    failure::{
        Failure,
        Result, //
    },
    spread::Scale,
    stream,
    syscalls,
    table,
    tracefs::Tracefs,
    trees,
    whom::{
        Options,
        Whom, //
    }, //
};

fn option(name: &'static str, short: char, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .short(short)
        .help(help)
        .global(true)
}

fn word(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(name).required(true).help(help)
}

fn number() -> Arg {
    Arg::new("number")
        .short('n')
        .long("number")
        .value_name("N")
        .value_parser(value_parser!(u64).range(1..))
        .help("End after N calls")
}

fn by(help: &'static str) -> Arg {
    Arg::new("by")
        .long("by")
        .value_name("WHAT")
        .value_parser(["comm", "pid", "cpu", "stack"])
        .help(help)
}

/// The option of a question about tasks. The last of its values makes rows that are not divided by tasks.
fn by_task(values: [&'static str; 4], help: &'static str) -> Arg {
    by(help).value_parser(values)
}

fn svg() -> Arg {
    Arg::new("svg")
        .long("svg")
        .value_name("FILE")
        .help("Also draw the answer into FILE: stacks as a flame graph, and others as bars")
}

fn perfetto() -> Arg {
    Arg::new("perfetto")
        .long("perfetto")
        .value_name("FILE")
        .help("Also write the calls into FILE, which ui.perfetto.dev opens")
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

fn place(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("FUNCTION[=FETCHARG],...")
        .help(help)
}

fn least() -> Arg {
    Arg::new("min")
        .long("min")
        .value_name("TIME")
        .value_parser(|text: &str| duration::parse(text, "ms"))
        .help("Only waits of at least this duration, such as 10ms")
}

fn source() -> Arg {
    flag(
        "source",
        "Show source lines, from the debug information of the kernel",
    )
}

fn show() -> Arg {
    Arg::new("show")
        .long("show")
        .value_name("NAME=FETCHARG")
        .action(ArgAction::Append)
        .help("Also show a value, such as 'name=file:%pD'")
}

fn stack() -> Arg {
    flag("stack", "Show the functions that led to it, one a line")
}

fn user_stack() -> Arg {
    flag(
        "user-stack",
        "Show the functions of the program that led to it, one a line",
    )
}

fn time() -> Arg {
    flag("time", "Show the time of day and the CPU")
}

/// Adds the options of a command whose answer is call trees.
fn draws_trees(command: Command) -> Command {
    command.args([
        Arg::new("FUNCTIONS").value_name("FUNCTIONS").help(
            "The functions that are steps: a list as in other commands, or *N for direct callees to depth N. Without \
             it, all functions",
        ),
        number(),
        time(),
        svg().help("Also draw a flame graph of the functions' own time into FILE"),
        perfetto(),
    ])
}

/// Adds the option of a command that can wait for a module.
fn waits(command: Command) -> Command {
    command.arg(flag(
        "wait",
        "Wait for the module of MODULE:FUNCTION if it is not loaded",
    ))
}

/// The question about call trees that the options ask.
fn trees<'a>(
    matches: &'a ArgMatches,
    event: &'static str,
    root: &'a str,
    wanted: trees::Wanted,
) -> trees::Question<'a> {
    let functions = text(matches, "FUNCTIONS");
    let is_whole = event == "tree" || matches.get_flag("whole");
    trees::Question {
        event,
        root,
        functions: match functions {
            "" => trees::ALL,
            functions => functions,
        },
        wanted,
        is_whole,
        is_late: false,
        options: stream::Options {
            count: count(matches),
            has_stack: false,
            stack_of: None,
            has_user_stack: false,
            has_time: matches.get_flag("time"),
            needs_clock: false,
        },
        has_source: event == "why" && matches.get_flag("source"),
        svg: matches.get_one("svg"),
        perfetto: matches.get_one("perfetto"),
    }
}

/// Asks why calls fail or are slow.
fn ask_why(context: &Context, matches: &ArgMatches) -> Result {
    let wanted = match (
        matches.get_one::<u64>("slow"),
        matches.get_one::<String>("fails"),
    ) {
        (Some(ns), _) => trees::Wanted::Slow(*ns),
        (_, Some(name)) if name != ANY => {
            trees::Wanted::Failed(Some(errno::number(name).map_err(Failure::new)?))
        }
        _ => trees::Wanted::Failed(None),
    };
    let root = text(matches, "ROOT");
    let question = |root| trees(matches, "why", root, wanted);
    match root {
        "" => {
            let is_late = count(matches).is_none() && !context.whom.command.is_empty();
            let question = trees::Question {
                is_late,
                ..question(syscalls::ALL)
            };
            why::run(context, &question)
        }
        root => {
            let question = question(root);
            let is_late = question.has_source;
            why::run(
                context,
                &trees::Question {
                    is_late,
                    ..question
                },
            )
        }
    }
}

/// The words of `lat STRUCT from FUNCTION until FUNCTION`, and the options about the object.
fn from_until() -> [Arg; 6] {
    let keyword = |name: &'static str| {
        Arg::new(name)
            .value_name(name)
            .value_parser([name])
            .hide_possible_values(true)
    };
    let function =
        |name: &'static str, help: &'static str| Arg::new(name).value_name(name).help(help);
    let object = |name: &'static str, long: &'static str, help: &'static str| {
        Arg::new(name)
            .long(long)
            .value_name("FETCHARG")
            .requires("from")
            .help(help)
    };
    [
        keyword("from")
            .requires("END")
            .help("The word from: FUNCTIONS is the structure that the object is, such as request"),
        function(
            "START",
            "The function that returns or takes the object first",
        ),
        keyword("until").help("The word until"),
        function("END", "The function that returns or takes the object last"),
        object(
            "object",
            "object",
            "The object at START, if BTF does not say it: a parameter, or $retval",
        ),
        object("end-object", "end", "The object at END"),
    ]
}

/// What `--by` divides calls by. `None` without the option, or if its value is nothing of a task.
fn divided_by(matches: &ArgMatches) -> Option<lat::By> {
    lat::By::parse(matches.get_one::<String>("by")?)
}

/// What divides the rows of a question about tasks: without `--by`, the name of the task.
fn task(matches: &ArgMatches) -> Option<lat::By> {
    match matches.contains_id("by") {
        true => divided_by(matches),
        false => Some(lat::By::Comm),
    }
}

/// The buckets of a histogram.
fn scale(matches: &ArgMatches) -> Scale {
    matches.get_one("buckets").cloned().unwrap_or(Scale::Log2)
}

/// Asks how long calls take, or objects from one function to another.
fn ask_lat(context: &Context, matches: &ArgMatches) -> Result {
    let (by, scale) = (divided_by(matches), scale(matches));
    let given = |name| matches.get_one::<String>(name).map(String::as_str);
    let first = text(matches, "FUNCTIONS");
    let (Some(from), Some(until)) = (given("START"), given("END")) else {
        return lat::run(context, first, by, scale, &table(matches));
    };
    let asked = between::Asked {
        structure: first,
        from,
        until,
        object: given("object"),
        end: given("end-object"),
        by,
        scale,
    };
    between::run(context, asked, &table(matches))
}

/// The value of `--fails` for all errors.
const ANY: &str = "any error";

/// Whether a flag is given, which other commands may lack.
fn has_flag(matches: &ArgMatches, name: &str) -> bool {
    matches
        .try_get_one(name)
        .is_ok_and(|value| value == Some(&true))
}

/// The number of `-n`.
fn count(matches: &ArgMatches) -> Option<u64> {
    matches.get_one("number").copied()
}

/// The options of a stream of records.
fn stream(matches: &ArgMatches) -> stream::Options {
    stream::Options {
        count: count(matches),
        has_stack: matches.get_flag("stack"),
        stack_of: None,
        has_user_stack: matches.get_flag("user-stack"),
        has_time: matches.get_flag("time"),
        needs_clock: false,
    }
}

/// Adds the options of a command whose answer is a table with these columns.
fn tabulates(command: Command, columns: &'static [&'static str]) -> Command {
    sorts(command, columns).arg(
        Arg::new("interval")
            .long("interval")
            .short('i')
            .value_name("SECONDS")
            .value_parser(interval)
            .help("Print a table each SECONDS, of the calls since the table before"),
    )
}

/// Adds the options of a command whose answer is a table with these columns, and has no intervals.
fn sorts(command: Command, columns: &'static [&'static str]) -> Command {
    command.args([
        svg(),
        Arg::new("sort")
            .long("sort")
            .value_name("COLUMN")
            .value_parser(PossibleValuesParser::new(columns))
            .help("Sort the rows by this column"),
        Arg::new("top")
            .long("top")
            .value_name("N")
            .value_parser(value_parser!(u64).range(1..))
            .help("Show the first N rows, and the number of the others"),
        flag(
            "plain",
            "Print the answer on a terminal, too, instead of a table that fills it",
        ),
    ])
}

/// Parses the value of `-i`.
fn interval(text: &str) -> std::result::Result<Duration, String> {
    match duration::parse(text, "s")? {
        0 => Err("an interval is longer than 0".into()),
        ns => Ok(Duration::from_nanos(ns)),
    }
}

/// The options of a table.
fn table(matches: &ArgMatches) -> table::Options<'_> {
    let top = matches.get_one::<u64>("top");
    table::Options {
        sort: matches.get_one::<String>("sort").map(String::as_str),
        top: top.map(|top| usize::try_from(*top).unwrap_or(usize::MAX)),
        interval: matches.try_get_one("interval").ok().flatten().copied(),
        image: matches.get_one("svg"),
        heat: matches.try_get_one("heat").ok().flatten(),
        has_user_stack: has_flag(matches, "user-stack"),
    }
}

/// The fetch arguments of `--show`.
fn shown(matches: &ArgMatches) -> Vec<&str> {
    let all = matches.get_many::<String>("show").into_iter().flatten();
    all.map(String::as_str).collect()
}

fn duration_option() -> Arg {
    Arg::new("duration")
        .long("duration")
        .short('d')
        .value_name("TIME")
        .value_parser(|text: &str| duration::parse(text, "s"))
        .help("End after this time: 10, 500ms, 2m. Otherwise ctrl-C ends the run")
}

/// Adds the options of a command that traces: when it ends, and whom it traces.
fn traces(command: Command) -> Command {
    const HEADING: &str = "Whom";

    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .help_heading(HEADING)
            .help(help)
    };
    command
        .arg(duration_option())
        .arg(
            text(
                "pid",
                "PID,...",
                "Only these processes. Their end ends the run",
            )
            .short('p')
            .value_delimiter(',')
            .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            flag("children", "With -p: also their children, now and later")
                .requires("pid")
                .help_heading(HEADING),
        )
        .arg(text(
            "comm",
            "GLOB",
            "Only tasks with this name, which can have *, ? and [...]",
        ))
        .arg(text(
            "cgroup",
            "PATH",
            "Only tasks of this cgroup and of those below it",
        ))
        .arg(text(
            "cpu",
            "LIST",
            "Only calls on these CPUs, such as 0,2-3",
        ))
        .arg(text(
            "if",
            "CONDITION",
            "Only calls with this condition of the command language, such as 'count > 100'",
        ))
        .arg(
            Arg::new("COMMAND")
                .value_name("COMMAND")
                .last(true)
                .num_args(1..)
                .conflicts_with("pid")
                .value_parser(value_parser!(OsString))
                .help("Start this command, trace it and its children, and end with it"),
        )
}

/// Whom the options of a command choose.
fn whom(matches: &ArgMatches) -> Result<Whom> {
    // The other commands lack these options.
    let Ok(Some(with_children)) = matches.try_get_one::<bool>("children") else {
        return Ok(Whom::default());
    };
    let text = |name| matches.get_one::<String>(name).map(String::as_str);
    Whom::new(Options {
        processes: matches
            .get_many("pid")
            .into_iter()
            .flatten()
            .copied()
            .collect(),
        with_children: *with_children,
        comm: text("comm"),
        cgroup: text("cgroup"),
        cpus: text("cpu"),
        condition: text("if"),
        command: matches
            .get_many("COMMAND")
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
    })
}

/// The commands and their options.
fn command() -> Command {
    let function = || word("FUNCTION", "A function of the kernel, or MODULE:FUNCTION");
    let functions = || {
        word(
            "FUNCTIONS",
            "Functions: names and patterns with *, ? and [...], with commas between them. MODULE: can be in front, and ! \
             excludes: 'vfs_*,!vfs_stat*'",
        )
    };
    Command::new("rkprobe")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Answers questions about the running kernel, with the kernel module rkprobe")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(
            option("verbose", 'v', "Print the shell commands that do the same")
                .action(ArgAction::SetTrue),
        )
        .arg(
            flag(
                "dry-run",
                "Print the shell commands that do the same, and change nothing",
            )
            .global(true),
        )
        .arg(flag("json", "Answer in JSON").global(true))
        .subcommand(traces(tabulates(
            waits(Command::new("lat"))
                .about("How long do calls of functions take, or an object from one function to another?")
                .override_usage(
                    "rkprobe lat [OPTIONS] FUNCTIONS\n       \
                     rkprobe lat [OPTIONS] STRUCT from FUNCTION until FUNCTION",
                )
                .arg(functions())
                .args(from_until())
                .arg(
                    Arg::new("buckets")
                        .long("buckets")
                        .value_name("TIME,...")
                        .value_parser(Scale::parse)
                        .conflicts_with("heat")
                        .help(
                            "The rows of the histogram end at these durations: 1ms,5ms,20ms. One duration is the \
                             width of all rows",
                        ),
                )
                .arg(by(
                    "One histogram for each program name, thread, CPU or stack",
                ))
                .arg(
                    Arg::new("heat")
                        .long("heat")
                        .value_name("FILE")
                        .help("Also draw a heat map into FILE: the durations in each second, or each interval of -i"),
                ),
            &["count", "name", "avg", "total", "p50", "p99", "max"],
        )))
        .subcommand(traces(tabulates(
            waits(Command::new("hist"))
                .about("How are the values of an argument or of the result of functions distributed?")
                .arg(functions())
                .arg(word(
                    "VALUE",
                    "A fetch argument: a parameter, $retval, or another one such as 'file->f_inode->i_size'",
                ))
                .arg(
                    Arg::new("buckets")
                        .long("buckets")
                        .value_name("NUMBER,...")
                        .value_parser(Scale::parse_numbers)
                        .help(
                            "The rows of the histogram begin at 0 and at these values: 512,4096. One number is the \
                             width of all rows",
                        ),
                )
                .arg(by(
                    "One histogram for each program name, thread, CPU or stack",
                )),
            &["count", "name", "avg", "total", "p50", "p99", "max"],
        )))
        .subcommand(traces(
            waits(Command::new("slow"))
                .about("Which calls of functions take longer than a limit?")
                .arg(functions())
                .arg(
                    word("LIMIT", "A duration, such as 10ms")
                        .value_parser(|text: &str| duration::parse(text, "ms")),
                )
                .args([number(), show(), stack(), user_stack(), time(), perfetto()]),
        ))
        .subcommand(traces(tabulates(
            waits(Command::new("fails"))
                .about("Which functions return errors, which errors, how often, and to whom?")
                .arg(functions())
                .arg(by(
                    "Whom: a program name (the default), thread, CPU or stack",
                ))
                .args([source(), stack(), user_stack().conflicts_with("source")]),
            &["count", "name", "error", "group"],
        )))
        .subcommand(traces(
            waits(Command::new("args"))
                .about("With which arguments are functions called?")
                .arg(functions())
                .args([number(), show(), stack(), user_stack(), time()]),
        ))
        .subcommand(
            Command::new("exits")
                .about("Where does a function leave?")
                .arg(function())
                .arg(source()),
        )
        .subcommand(traces(
            Command::new("follow")
                .about("What happens to an object, from its start to its end?")
                .override_usage("rkprobe follow [OPTIONS] STRUCT from FUNCTION [until FUNCTION]")
                .arg(word(
                    "STRUCT",
                    "The structure that the object is, such as inode",
                ))
                .arg(
                    word("from", "The word from")
                        .value_parser(["from"])
                        .hide_possible_values(true),
                )
                .arg(word(
                    "START",
                    "The function that returns or takes a new object",
                ))
                .arg(
                    Arg::new("until")
                        .value_name("until")
                        .value_parser(["until"])
                        .hide_possible_values(true)
                        .requires("END")
                        .help("The word until"),
                )
                .arg(
                    Arg::new("END")
                        .value_name("END")
                        .help("The function that returns or takes the object last"),
                )
                .arg(
                    Arg::new("object")
                        .long("object")
                        .value_name("FETCHARG")
                        .help(
                            "The object at START, if BTF does not say it: a parameter, or $retval",
                        ),
                )
                .arg(
                    Arg::new("end-object")
                        .long("end")
                        .value_name("FETCHARG")
                        .requires("END")
                        .help("The object at END"),
                )
                .arg(
                    Arg::new("only")
                        .long("only")
                        .value_name("PATTERN,...")
                        .help("Show the calls of these functions only"),
                )
                .arg(
                    show().help("Show a value at each call, such as 'mode=$obj->i_mode:x16'"),
                )
                .arg(
                    flag(
                        "changes",
                        "Show a call only if one of these values has changed",
                    )
                    .requires("show"),
                )
                .arg(perfetto().help("Also write the steps into FILE, which ui.perfetto.dev opens"))
                .arg(
                    number()
                        .requires("END")
                        .help("End after N objects have ended"),
                ),
        ))
        .subcommand(traces(tabulates(
            Command::new("watch")
                .about("Who writes some memory of the kernel?")
                .arg(word(
                    "MEMORY",
                    "[MODULE:]SYMBOL[+OFFSET][:LENGTH] or ADDRESS[:LENGTH]",
                ))
                .arg(flag(
                    "each",
                    "Print each write with the new value (on arm64, the old one), instead of counting",
                )
                .conflicts_with_all(["svg", "sort", "top", "interval"]))
                .arg(number().requires("each").help("End after N writes"))
                .args([stack(), user_stack(), time()].map(|arg| arg.requires("each"))),
            &["count", "name", "comm"],
        )))
        .subcommand(traces(tabulates(
            waits(Command::new("count"))
                .about("Which functions are called how often?")
                .arg(functions())
                .arg(by("Divide the calls by program name, thread, CPU or stack"))
                .arg(user_stack().help("With --by stack: also the functions of the program")),
            &["count", "name", "group"],
        )))
        .subcommand(traces(tabulates(
            Command::new("offcpu")
                .about("Where do threads wait, and how long?")
                .arg(flag("threads", "Each thread counts on its own, and not each program name"))
                .arg(flag("kernel", "Threads of the kernel count, too"))
                .arg(least()),
            &["total", "count", "name", "avg", "max"],
        )))
        .subcommand(traces(tabulates(
            Command::new("disk")
                .about("Which programs make requests of disks, and how long do these take?")
                .arg(
                    Arg::new("disk")
                        .long("disk")
                        .value_name("GLOB")
                        .help("Only disks with this name, which can have *, ? and [...]"),
                )
                .arg(by_task(
                    ["comm", "pid", "cpu", "disk"],
                    "Divide the requests to a disk by program name (the default), thread or CPU, or not",
                )),
            &[
                "total", "count", "disk", "name", "bytes", "queued", "p50", "p99", "max",
            ],
        )))
        .subcommand(traces(tabulates(
            Command::new("net")
                .about(
                    "Which programs make and accept TCP connections, what is sent again, and what is dropped?",
                )
                .arg(by_task(
                    ["comm", "pid", "cpu", "place"],
                    "Divide the connections to a place by program name (the default), thread or CPU, or not",
                )),
            &["count", "name", "place", "avg", "max"],
        )))
        .subcommand(traces(tabulates(
            Command::new("locks")
                .about("Who waits for which mutex or semaphore, how long, and who holds it?")
                .arg(flag("stack", "Each stack counts on its own"))
                .arg(by_task(
                    ["comm", "pid", "cpu", "holder"],
                    "Divide the waits for a holder by program name (the default), thread or CPU, or not",
                ))
                .arg(least()),
            &["total", "count", "name", "holder", "place", "avg", "max"],
        )))
        .subcommand(traces(sorts(
            Command::new("leaks")
                .about("Which objects have more gets than puts, and where are the gets without a put?")
                .arg(word(
                    "STRUCT",
                    "The structure that the object is, such as inode",
                ))
                .args([
                    place("get", "The functions that get a reference, such as ihold"),
                    place("put", "The functions that put a reference, such as iput").required(true),
                    place(
                        "from",
                        "The functions where an object begins, with a reference. Only such objects count",
                    ),
                    place("until", "The functions where an object ends"),
                ])
                .arg(
                    Arg::new("older")
                        .long("older")
                        .value_name("TIME")
                        .value_parser(|text: &str| duration::parse(text, "s"))
                        .help("Only gets that had no put for this time, such as 10s"),
                ),
            &["count", "name", "age"],
        )))
        .subcommand(traces(draws_trees(
            Command::new("tree")
                .about("What happens below the calls of a function?")
                .arg(word("ROOT", "The function whose calls are shown")),
        )))
        .subcommand(traces(draws_trees(
            Command::new("why")
                .about("Why do calls fail, or take so long?")
                .arg(
                    Arg::new("ROOT")
                        .value_name("ROOT")
                        .required_unless_present_any(["COMMAND", "pid", "comm", "cgroup"])
                        .help(
                            "The function whose calls fail or are slow. Without it, all system calls of COMMAND, or \
                             of the tasks that -p, --comm or --cgroup choose",
                        ),
                )
                .arg(
                    Arg::new("fails")
                        .long("fails")
                        .value_name("ERROR")
                        .num_args(0..=1)
                        .default_missing_value(ANY)
                        .help("Only calls that return this error, such as EACCES. The default is any error"),
                )
                .arg(
                    Arg::new("slow")
                        .long("slow")
                        .value_name("TIME")
                        .value_parser(|text: &str| duration::parse(text, "ms"))
                        .conflicts_with("fails")
                        .help("Only calls that take longer than this, such as 10ms"),
                )
                .args([
                    flag("whole", "Show all steps, and not only those that tell why"),
                    flag(
                        "source",
                        "Run the command a second time, without its output, to find where the functions return the \
                         errors: source lines, if the kernel's debug information is present",
                    )
                    .requires("COMMAND"),
                ]),
        )))
        .subcommand(
            Command::new("stuck")
                .about("What does not move, since when, where, and who holds what it waits for?")
                .arg(
                    Arg::new("PID")
                        .value_name("PID")
                        .num_args(0..)
                        .value_parser(value_parser!(u32).range(1..))
                        .help(
                            "Processes or threads. Without them, all threads that wait for a lock, or cannot be \
                             interrupted",
                        ),
                )
                .arg(
                    Arg::new("min")
                        .long("for")
                        .value_name("TIME")
                        .value_parser(|text: &str| duration::parse(text, "s"))
                        .help("Only threads that wait for at least this time, such as 10s"),
                )
                .args([
                    flag("stack", "Show the functions in which the threads wait, one a line"),
                    flag("until-it-moves", "Then wait until these calls return"),
                ])
                .arg(duration_option().requires("until-it-moves")),
        )
        .subcommand(
            Command::new("events")
                .about("Which events exist, where are they enabled, what do they miss?")
                .arg(flag(
                    "live",
                    "On a terminal, show a table that fills it and changes each second",
                )),
        )
        .subcommand(
            Command::new("list")
                .about("Which functions can be probed, and why not the others?")
                .arg(functions()),
        )
        .subcommand(
            Command::new("doctor")
                .about("Does the kernel have what the tool needs, and what to do if not?"),
        )
        .subcommand(
            Command::new("names")
                .about("Print names that a shell completes")
                .hide(true)
                .arg(word("KIND", "What has the names").value_parser([
                    "functions",
                    "structures",
                    "symbols",
                ]))
                .arg(Arg::new("PREFIX").help("How the names start")),
        )
        .subcommand(
            Command::new("completion")
                .about("Print the completion script of a shell")
                .arg(
                    word("SHELL", "bash, zsh, fish, elvish or powershell")
                        .value_parser(value_parser!(clap_complete::Shell)),
                ),
        )
        .subcommand(
            Command::new("man")
                .about("Write the man pages")
                .arg(word("DIRECTORY", "The directory of the pages")),
        )
}

fn write_man_pages(directory: &Path) -> Result {
    let mut all = command();
    all.build();
    let subcommands: Vec<Command> = all.get_subcommands().cloned().collect();
    for page in [all].into_iter().chain(subcommands) {
        // The name of a subcommand is its own word. Its page has the name of the program in front.
        let name = match page.get_name() {
            "rkprobe" => "rkprobe".into(),
            "help" | "names" => continue,
            name => format!("rkprobe-{name}"),
        };
        let path = directory.join(format!("{name}.8"));
        let mut text = Vec::new();
        clap_mangen::Man::new(page)
            .title(name)
            .section("8")
            .render(&mut text)?;
        fs::write(&path, text).map_err(|error| Failure::file(path.display(), &error))?;
    }
    Ok(())
}

fn text<'a>(matches: &'a ArgMatches, name: &str) -> &'a str {
    matches.get_one::<String>(name).map_or("", |text| text)
}

/// Whether a question is about the time between two events, whose second one another task may cause.
fn is_between(name: &str, matches: &ArgMatches) -> bool {
    match name {
        "lat" => matches.contains_id("from"),
        name => matches!(name, "disk" | "net" | "leaks"),
    }
}

/// Carries out the command of the command line. Returns the exit status.
pub fn run() -> Result<u8> {
    let matches = command().get_matches();
    let Some((name, matches)) = matches.subcommand() else {
        return Ok(0);
    };
    match name {
        "completion" => {
            if let Some(shell) = matches.get_one::<clap_complete::Shell>("SHELL") {
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut command(), "rkprobe", &mut script);
                if *shell == clap_complete::Shell::Bash {
                    script.extend(names::BASH.bytes());
                }
                io::Write::write_all(&mut io::stdout(), &script)?;
            }
            return Ok(0);
        }
        "man" => {
            write_man_pages(Path::new(text(matches, "DIRECTORY")))?;
            return Ok(0);
        }
        _ => {}
    }
    // These commands change nothing, and say themselves what is missing.
    let changes_nothing = match name {
        "stuck" => !matches.get_flag("until-it-moves"),
        name => matches!(name, "list" | "doctor" | "names"),
    };
    let is_dry = matches.get_flag("dry-run") || changes_nothing;
    let tracefs = Tracefs::find(matches.get_flag("verbose"), is_dry)?;
    let duration = matches.try_get_one::<u64>("duration").ok().flatten();
    let is_json = matches.get_flag("json");
    let mut whom = whom(matches)?;
    whom.with_others = is_between(name, matches);
    if matches!(name, "tree" | "why") || whom.with_others {
        whom.mark_command();
    }
    let mut context = Context::new(tracefs, is_json, duration.copied(), whom);
    context.is_plain = has_flag(matches, "plain");
    if has_flag(matches, "wait") {
        context.functions.check_wait(text(matches, "FUNCTIONS"))?;
        context.functions.waits = true;
    }
    let result = match name {
        "lat" => ask_lat(&context, matches),
        "hist" => {
            let asked = hist::Asked {
                functions: text(matches, "FUNCTIONS"),
                value: text(matches, "VALUE"),
                by: divided_by(matches),
                scale: scale(matches),
            };
            hist::run(&context, &asked, &table(matches))
        }
        "slow" => {
            let limit = matches.get_one::<u64>("LIMIT").copied().unwrap_or(0);
            slow::run(
                &context,
                text(matches, "FUNCTIONS"),
                limit,
                &shown(matches),
                &stream(matches),
                matches.get_one("perfetto"),
            )
        }
        "fails" => fails::run(
            &context,
            text(matches, "FUNCTIONS"),
            divided_by(matches),
            matches.get_flag("source"),
            matches.get_flag("stack"),
            &table(matches),
        ),
        "args" => args::run(
            &context,
            text(matches, "FUNCTIONS"),
            &shown(matches),
            &stream(matches),
        ),
        "follow" => {
            let given = |name| matches.get_one::<String>(name).map(String::as_str);
            let question = follow::Question {
                structure: text(matches, "STRUCT"),
                from: text(matches, "START"),
                until: given("END"),
                object: given("object"),
                end: given("end-object"),
                only: given("only"),
                fields: shown(matches),
                only_changes: matches.get_flag("changes"),
                count: count(matches),
                perfetto: matches.get_one("perfetto"),
            };
            follow::run(&context, &question)
        }
        "watch" => watch::run(
            &context,
            text(matches, "MEMORY"),
            matches.get_flag("each").then(|| stream(matches)).as_ref(),
            &table(matches),
        ),
        "exits" => exits::run(
            &context,
            text(matches, "FUNCTION"),
            matches.get_flag("source"),
        ),
        "count" => count::run(
            &context,
            text(matches, "FUNCTIONS"),
            divided_by(matches),
            &table(matches),
        ),
        "offcpu" => {
            let asked = offcpu::Asked {
                by_thread: matches.get_flag("threads"),
                with_kernel: matches.get_flag("kernel"),
                min: matches.get_one("min").copied().unwrap_or(0),
            };
            offcpu::run(&context, asked, &table(matches))
        }
        "disk" => disk::run(
            &context,
            matches.get_one::<String>("disk").map(String::as_str),
            task(matches),
            &table(matches),
        ),
        "net" => net::run(&context, task(matches), &table(matches)),
        "locks" => {
            let asked = locks::Asked {
                by: task(matches),
                with_stack: matches.get_flag("stack"),
                min: matches.get_one("min").copied().unwrap_or(0),
            };
            locks::run(&context, asked, &table(matches))
        }
        "leaks" => {
            let given = |name| matches.get_one::<String>(name).map(String::as_str);
            let asked = leaks::Asked {
                structure: text(matches, "STRUCT"),
                get: given("get"),
                put: text(matches, "put"),
                from: given("from"),
                until: given("until"),
                min_age: matches.get_one("older").copied().unwrap_or(0),
            };
            leaks::run(&context, asked, &table(matches))
        }
        "stuck" => {
            let asked = stuck::Asked {
                pids: matches
                    .get_many("PID")
                    .into_iter()
                    .flatten()
                    .copied()
                    .collect(),
                min: matches.get_one("min").copied().unwrap_or(0),
                has_stack: matches.get_flag("stack"),
                until_moves: matches.get_flag("until-it-moves"),
                is_dry: matches.get_flag("dry-run"),
            };
            stuck::run(&context, &asked)
        }
        "tree" => tree::run(
            &context,
            &trees(matches, "tree", text(matches, "ROOT"), trees::Wanted::All),
        ),
        "why" => ask_why(&context, matches),
        "list" => list::run(&context, text(matches, "FUNCTIONS")),
        "names" => names::run(&context, text(matches, "KIND"), text(matches, "PREFIX")),
        "doctor" => return doctor::run(&context),
        _ => events::run(&context, matches.get_flag("live")),
    };
    result.map_err(|failure| context.functions.explain(failure))?;
    Ok(context.status())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_command_comes_last() {
        let parse = |words: &[&str]| {
            let all = command().try_get_matches_from([&["rkprobe", "count", "f"], words].concat());
            all.ok()
                .and_then(|all| whom(all.subcommand().unwrap().1).ok())
        };
        let started = parse(&["--comm", "a", "--", "cat", "-d", "--json"]).unwrap();
        assert_eq!(started.command, ["cat", "-d", "--json"]);
        assert_eq!(started.clause(), " if $comm ~ \"a\"");
        assert!(parse(&[]).unwrap().command.is_empty());
        for wrong in [
            &["cat"][..],
            &["-p", "1", "--", "cat"],
            &["-p", "1,,2"],
            &["--children"],
        ] {
            assert!(parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn commands_that_trace_nothing_lack_options() {
        for words in [&["exits", "f"][..], &["events"]] {
            let all = command().try_get_matches_from([&["rkprobe"], words].concat());
            assert!(whom(all.unwrap().subcommand().unwrap().1).is_ok());
            for option in [&["-d", "1"][..], &["-p", "1"], &["--", "cat"]] {
                let all = [&["rkprobe"], words, option].concat();
                assert!(command().try_get_matches_from(all).is_err());
            }
        }
    }

    #[test]
    fn options_stand_anywhere() {
        let matches = command()
            .try_get_matches_from(["rkprobe", "lat", "vfs_read", "-d", "3", "--json"])
            .unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        assert_eq!(matches.get_one::<u64>("duration"), Some(&3_000_000_000));
        assert!(matches.get_flag("json"));
        for words in [
            "",
            "--buckets 1ms,5ms",
            "--object $arg1 --end $arg2 --by comm",
        ] {
            let all = ["rkprobe lat inode from f until g", words].join(" ");
            let parsed = command().try_get_matches_from(all.split_whitespace());
            assert!(is_between("lat", parsed.unwrap().subcommand().unwrap().1));
        }
        for right in [&["-p", "1"][..], &["f", "g", "--fails"], &["--", "cat"]] {
            let all = [&["rkprobe", "why"], right].concat();
            assert!(command().try_get_matches_from(all).is_ok());
        }
        for wrong in [
            &["rkprobe"][..],
            &["rkprobe", "lat"],
            &["rkprobe", "slow", "f", "10x"],
            &["rkprobe", "follow", "inode", "of", "f"],
            &["rkprobe", "follow", "inode", "from", "f", "until"],
            &["rkprobe", "lat", "inode", "from", "f"],
            &["rkprobe", "lat", "inode", "from", "f", "until"],
            &["rkprobe", "lat", "f", "--buckets", "1ms", "--heat", "x"],
            &[
                "rkprobe",
                "lat",
                "inode",
                "from",
                "f",
                "until",
                "g",
                "--buckets",
                "2,1",
            ],
            &["rkprobe", "why"],
            &["rkprobe", "why", "f", "--fails", "--slow", "1s"],
        ] {
            assert!(command().try_get_matches_from(wrong).is_err());
        }
    }
}
