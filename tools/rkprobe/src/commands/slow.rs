// SPDX-License-Identifier: GPL-2.0

//! `rkprobe slow FUNCTION DURATION`: which calls take longer?

use crate::{
    context::Context,
    duration,
    failure::Result,
    json::Object,
    probes,
    record::Record,
    whom::Whom, //
};

/// The commands to try: some functions return nothing, and BTF does not describe all of them. A parameter can have the
/// name `ns` or `ret`, so the other fields have longer names.
fn commands(group: &str, function: &probes::Function<'_>, limit: u64, whom: &Whom) -> Vec<String> {
    let all_fields = [
        " rkprobe_ret=$retval $arg*",
        " $arg*",
        " rkprobe_ret=$retval",
        "",
    ];
    let commands = function.at_return(group, "slow");
    let and = &whom.and();
    let all = all_fields.iter().flat_map(|fields| {
        let with_fields = move |command| {
            format!("{command} rkprobe_ns=$elapsed{fields} if rkprobe_ns > {limit}{and}")
        };
        commands.iter().map(with_fields)
    });
    all.collect()
}

/// The arguments of a record, without the fields `rkprobe_ns` and `rkprobe_ret`, which come first.
fn arguments<'a, 'b>(record: &'b Record<'a>) -> impl Iterator<Item = (&'a str, &'a str)> + 'b {
    let own = 1 + usize::from(
        record
            .fields
            .get(1)
            .is_some_and(|(name, _)| *name == "rkprobe_ret"),
    );
    record.fields.iter().copied().skip(own)
}

fn show(record: &Record<'_>, function: &str) -> String {
    let ns = record
        .field("rkprobe_ns")
        .and_then(|ns| ns.parse().ok())
        .unwrap_or(0);
    let arguments: Vec<String> = arguments(record)
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let ret = record
        .field("rkprobe_ret")
        .map_or(String::new(), |ret| format!(" = {ret}"));
    format!(
        "{:>8}  {}-{}  {function}({}){ret}  from {}\n",
        duration::show(ns),
        record.comm,
        record.pid,
        arguments.join(", "),
        record.caller(),
    )
}

fn json(record: &Record<'_>) -> String {
    let arguments = arguments(record).fold(Object::new(), |object, (name, value)| {
        object.string(name, value)
    });
    let mut object = Object::new()
        .string("comm", record.comm)
        .raw("pid", record.pid);
    object = object
        .raw("ns", record.field("rkprobe_ns").unwrap_or("0"))
        .string("caller", record.caller());
    if let Some(ret) = record.field("rkprobe_ret") {
        object = object.string("ret", ret);
    }
    object.raw("arguments", &arguments.end()).end() + "\n"
}

/// Runs the command. `limit` is in ns, and `count` is the number of calls to show.
pub fn run(context: &Context, function: &str, limit: u64, count: Option<u64>) -> Result {
    let probed = probes::check_function(function)?;
    for command in commands("rkprobe", &probed, limit, &context.whom) {
        probes::check_syntax(&command)?;
    }
    let instance = context.start()?;
    probes::define(
        &context.tracefs,
        &commands(instance.group(), &probed, limit, &context.whom),
    )?;
    context.enable(&instance, "slow")?;
    let none = format!(
        "{function}: 0 calls took more than {}",
        duration::show(limit)
    );
    context.print_records(&instance, "slow", count, &none, |record| {
        if context.is_json {
            json(record)
        } else {
            show(record, function)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = " cat-7 [001] ..... 6.1: slow: (ksys_read+0xbe/0xe0 <- vfs_read) rkprobe_ns=2500000 rkprobe_ret=-2 file=0x1 ret=5";

    #[test]
    fn shows_a_call_as_in_source() {
        let record = Record::parse(LINE, "slow").unwrap();
        assert_eq!(
            show(&record, "f"),
            " 2.50 ms  cat-7  f(file=0x1, ret=5) = -2  from ksys_read\n"
        );
        assert_eq!(
            json(&record),
            "{\"comm\":\"cat\",\"pid\":7,\"ns\":2500000,\"caller\":\"ksys_read\",\"ret\":\"-2\",\
             \"arguments\":{\"file\":\"0x1\",\"ret\":\"5\"}}\n"
        );
    }
}
