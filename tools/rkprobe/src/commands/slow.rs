// SPDX-License-Identifier: GPL-2.0

//! `rkprobe slow FUNCTIONS DURATION`: which calls take longer?

use serde::Serialize;

use crate::{
    asked::refuse_offset,
    calls,
    context::Context,
    duration,
    failure::Result,
    functions::Method,
    perfetto::{
        Call,
        Trace, //
    },
    probes,
    record::Record,
    selection::is_list,
    stream::Options,
    values::{
        Members,
        More,
        Returned,
        Values, //
    },
    whom::Whom, //
};

/// The field with the duration. A parameter can have the name `ns` or `ret`, so the fields have longer names.
const NS: &str = "rkprobe_ns";
/// The field with the return value.
const RESULT: &str = "rkprobe_ret";
/// The fields of a record that are no arguments.
const OWN: [&str; 2] = [NS, RESULT];

/// The commands to try: some functions return nothing, and BTF does not describe all of them.
fn commands(
    group: &str,
    event: &str,
    function: &str,
    values: &Values,
    limit: u64,
    whom: &Whom,
    has_stack: bool,
) -> Vec<String> {
    let commands = match has_stack {
        true => probes::at_return_with_stack(function, group, event),
        false => probes::at_return(function, group, event),
    };
    let and = whom.and();
    let all = values.fetch_arguments(RESULT, true).into_iter();
    all.flat_map(|fetch| {
        let with_fields =
            |command| format!("{command} {NS}=$elapsed{fetch} if {NS} > {limit}{and}");
        commands.iter().map(with_fields).collect::<Vec<_>>()
    })
    .collect()
}

/// A call in JSON.
#[derive(Serialize)]
struct Slow<'a> {
    /// The function, if the run has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    ns: u64,
    caller: &'a str,
    #[serde(flatten)]
    result: Option<Returned>,
    arguments: Members,
}

/// The duration of the call, in ns.
fn duration_of(record: &Record<'_>) -> u64 {
    record.field(NS).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn show(record: &Record<'_>, function: &str, values: &Values, options: &Options) -> String {
    let result = values.show_result(record, RESULT);
    format!(
        "{:>8}  {}  {function}({}){}  from {}\n{}",
        duration::show(duration_of(record)),
        options.head(record),
        values.show(record, &OWN),
        result.map_or(String::new(), |result| format!(" = {result}")),
        record.caller(),
        options.lines(record),
    )
}

fn json(record: &Record<'_>, function: Option<&str>, values: &Values, options: &Options) -> String {
    let call = Slow {
        function,
        ns: duration_of(record),
        caller: record.caller(),
        result: values.json_result(record, RESULT),
        arguments: values.json(record, &OWN),
    };
    options.json(record, call)
}

/// A click on the slice of a call shows this.
#[derive(Serialize)]
struct Slice<'a> {
    caller: &'a str,
    #[serde(flatten)]
    result: Option<Returned>,
    arguments: Members,
}

fn slice<'a>(record: &'a Record<'_>, values: &Values) -> Slice<'a> {
    Slice {
        caller: record.caller(),
        result: values.json_result(record, RESULT),
        arguments: values.json(record, &OWN),
    }
}

/// Runs the command. `text` chooses the functions, each of which gets an event. `limit` is in ns.
/// `perfetto` is the path of a trace.
pub fn run(
    context: &Context,
    text: &str,
    limit: u64,
    more: More<'_>,
    options: &Options,
    perfetto: Option<&String>,
) -> Result {
    refuse_offset(text)?;
    let functions = context.functions.each_whole(text, Method::Any)?;
    let values = Values::of_each(&context.functions, &functions, RESULT, more)?;
    let commands = |group: &str, event: &str, index: usize| {
        let (function, values) = (&functions[index], &values[index]);
        let (whom, has_stack) = (&context.whom, options.has_stack);
        commands(group, event, function, values, limit, whom, has_stack)
    };
    let mut trace = Trace::wanted(context.tracefs.is_dry(), perfetto, || {
        format!("rkprobe slow {text}")
    })?;
    let options = &Options {
        needs_clock: perfetto.is_some(),
        ..*options
    };
    let none = format!("{text}: 0 calls took more than {}", duration::show(limit));
    calls::run(
        context,
        "slow",
        &functions,
        options,
        &none,
        commands,
        |_, _, _| Vec::new(),
        |index, record| {
            let values = &values[index];
            let function = match is_list(text) {
                true => &*functions[index],
                false => text,
            };
            if let Some(trace) = &mut trace {
                let (ns, slice) = (duration_of(record), slice(record, values));
                trace.add(Call::of_record(record, function, ns, slice))?;
            }
            Ok(if context.is_json {
                let function = is_list(text).then_some(function);
                json(record, function, values, options)
            } else {
                show(record, function, values, options)
            })
        },
    )?;
    trace.map_or(Ok(()), Trace::finish)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = " cat-7 [001] ..... 6.1: slow: (ksys_read+0xbe/0xe0 <- vfs_read) rkprobe_ns=2500000 rkprobe_ret=-2 file=0x1 ret=5";

    #[test]
    fn shows_a_call_as_in_source() {
        let record = Record::parse(LINE, "slow").unwrap();
        let (values, options) = (Values::default(), Options::default());
        assert_eq!(
            show(&record, "f", &values, &options),
            " 2.50 ms  cat-7  f(file=0x1, ret=5) = -ENOENT  from ksys_read\n"
        );
        assert!(json(&record, None, &values, &options).ends_with(
            ",\"cpu\":1,\"comm\":\"cat\",\"pid\":7,\"ns\":2500000,\"caller\":\"ksys_read\",\"ret\":-2,\
             \"error\":\"ENOENT\",\"arguments\":{\"file\":\"0x1\",\"ret\":5}}\n"
        ));
    }
}
