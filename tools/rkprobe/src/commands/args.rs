// SPDX-License-Identifier: GPL-2.0

//! `rkprobe args FUNCTION`: with which arguments is it called?

use crate::{
    context::Context,
    failure::Result,
    json::Object,
    probes,
    record::Record, //
};

fn show(record: &Record<'_>, function: &str) -> String {
    let arguments: Vec<String> = record
        .fields
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!(
        "{}-{}  {function}({})\n",
        record.comm,
        record.pid,
        arguments.join(", ")
    )
}

fn json(record: &Record<'_>) -> String {
    let arguments = record
        .fields
        .iter()
        .fold(Object::new(), |object, (name, value)| {
            object.string(name, value)
        });
    let object = Object::new()
        .string("comm", record.comm)
        .raw("pid", record.pid);
    object.raw("arguments", &arguments.end()).end() + "\n"
}

/// Runs the command. `count` is the number of calls to show.
pub fn run(context: &Context, function: &str, count: Option<u64>) -> Result {
    probes::check_function(function)?;
    let command = |group: &str| format!("p:{group}/args {function} $arg*{}", context.whom.clause());
    probes::check_syntax(&command("rkprobe"))?;
    let instance = context.start()?;
    probes::define(&context.tracefs, &[command(instance.group())])?;
    context.enable(&instance, "args")?;
    let none = format!("{function}: 0 calls");
    context.print_records(&instance, "args", count, &none, |record| {
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

    #[test]
    fn shows_a_call_as_in_source() {
        let line = " cat-7 [001] ..... 6.1: args: (vfs_read+0x4/0x370) file=0x1 count=5";
        let record = Record::parse(line, "args").unwrap();
        assert_eq!(show(&record, "f"), "cat-7  f(file=0x1, count=5)\n");
        assert_eq!(
            json(&record),
            "{\"comm\":\"cat\",\"pid\":7,\"arguments\":{\"file\":\"0x1\",\"count\":\"5\"}}\n"
        );
    }
}
