// SPDX-License-Identifier: GPL-2.0

//! `rkprobe args FUNCTION`: with which arguments is it called?

use serde::Serialize;

use crate::{
    context::Context,
    failure::Result,
    functions::Method,
    probes,
    record::Record,
    stream::Options,
    values::{
        Members,
        Values, //
    }, //
};

/// A call in JSON.
#[derive(Serialize)]
struct Call {
    arguments: Members,
}

fn show(record: &Record<'_>, function: &str, values: &Values, options: &Options) -> String {
    let arguments = values.show(record, &[]);
    let lines = options.lines(record);
    format!("{}  {function}({arguments})\n{lines}", options.head(record))
}

fn json(record: &Record<'_>, values: &Values, options: &Options) -> String {
    let arguments = values.json(record, &[]);
    options.json(record, Call { arguments })
}

/// Runs the command. `shown` are fetch arguments that the user wants to see.
pub fn run(context: &Context, function: &str, shown: &[&str], options: &Options) -> Result {
    context.functions.check(function, Method::Kprobe)?;
    let values = Values::of(function, "", shown);
    let clause = context.whom.clause();
    let commands = |group: &str| -> Vec<String> {
        let all = values.fetch_arguments("", false).into_iter();
        all.map(|fetch| format!("p:{group}/args {function}{fetch}{clause}"))
            .collect()
    };
    for command in commands("rkprobe") {
        probes::check_syntax(&command)?;
    }
    let instance = context.start()?;
    probes::define(&context.tracefs, &commands(instance.group()))?;
    options.prepare(&context.tracefs, &instance, context.is_json)?;
    context.enable(&instance, "args")?;
    let none = format!("{function}: 0 calls");
    context.print_records(&instance, "args", options, &none, |record| {
        if context.is_json {
            json(record, &values, options)
        } else {
            show(record, function, &values, options)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_a_call_as_in_source() {
        let line = " cat-7 [001] ..... 6.1: args: (vfs_read+0x4/0x370) file=0x1 count=5";
        let mut record = Record::parse(line, "args").unwrap();
        let values = Values::default();
        let mut options = Options::default();
        let text = show(&record, "f", &values, &options);
        assert_eq!(text, "cat-7  f(file=0x1, count=5)\n");
        let text = json(&record, &values, &options);
        assert!(text.starts_with("{\"time\":"));
        assert!(text.ends_with(
            ",\"cpu\":1,\"comm\":\"cat\",\"pid\":7,\"arguments\":{\"file\":\"0x1\",\"count\":5}}\n"
        ));
        options.has_stack = true;
        record.stack = vec!["g+0x1/0x2", "h+0x1/0x2 [m]"];
        assert_eq!(
            show(&record, "f", &values, &options),
            "cat-7  f(file=0x1, count=5)\n          g+0x1/0x2\n          h+0x1/0x2 [m]\n"
        );
        let text = json(&record, &values, &options);
        assert!(text.ends_with(",\"stack\":[\"g+0x1/0x2\",\"h+0x1/0x2 [m]\"]}\n"));
    }
}
