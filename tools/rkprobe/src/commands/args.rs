// SPDX-License-Identifier: GPL-2.0

//! `rkprobe args FUNCTIONS`: with which arguments are they called?

use serde::Serialize;

use crate::{
    calls,
    context::Context,
    failure::{
        note,
        Failure,
        Result, //
    },
    functions::Method,
    perfetto::{
        Call,
        Trace, //
    },
    probes,
    record::Record,
    selection::is_list,
    sites::ProbedSites,
    stream::Options,
    trace_events::TraceEvent,
    values::{
        Members,
        More,
        Values, //
    }, //
};

/// A call in JSON.
#[derive(Serialize)]
struct Called<'a> {
    /// The place in the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    /// The function, if the run has several, or the one that contains the place.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    arguments: Members,
}

/// `holder` is the function that contains the place, if it is one in the source.
fn show(
    record: &Record<'_>,
    called: &str,
    holder: Option<&str>,
    values: &Values,
    options: &Options,
) -> String {
    let arguments = values.show(record, &[]);
    let lines = options.lines(record);
    let head = options.head(record);
    let holder = holder.map_or_else(String::new, |holder| format!(" in {holder}"));
    format!("{head}  {called}({arguments}){holder}\n{lines}")
}

fn json(
    record: &Record<'_>,
    place: Option<&str>,
    function: Option<&str>,
    values: &Values,
    options: &Options,
) -> String {
    let arguments = values.json(record, &[]);
    options.json(
        record,
        Called {
            place,
            function,
            arguments,
        },
    )
}

/// Adds a call to a trace. Its record has its time, and no duration.
fn add(
    trace: &mut Option<Trace>,
    record: &Record<'_>,
    called: &str,
    holder: Option<&str>,
    values: &Values,
) -> Result {
    let Some(trace) = trace else {
        return Ok(());
    };
    let call = Called {
        place: None,
        function: holder,
        arguments: values.json(record, &[]),
    };
    trace.add(Call::of_record(record, called, 0, call))
}

/// Says for which functions there are no arguments. Those of a module that is not loaded can become known.
fn say_unknown(context: &Context, functions: &[String], values: &[Values]) {
    let all = functions.iter().zip(values);
    let unknown: Vec<&str> = all
        .filter(|(name, values)| {
            !values.has_parameters() && context.functions.awaited(name).is_none()
        })
        .map(|(name, _)| name.as_str())
        .collect();
    if !unknown.is_empty() {
        let names = unknown.join(", ");
        note(format!(
            "rkprobe: BTF does not describe {names}: no arguments"
        ));
    }
}

/// An event of a run whose values are known, and how its records are shown.
struct Known<'a> {
    /// The kind of its probe, and what this takes.
    kind: char,
    target: String,
    values: Values,
    /// What the text of a record begins with.
    called: &'a str,
    /// The function that contains the place, if it is one in the source.
    holder: Option<&'a str>,
    /// The members of a record in JSON.
    place: Option<&'a str>,
    function: Option<&'a str>,
}

/// Shows the records of events whose values are known.
fn run_known(
    context: &Context,
    all: &[Known<'_>],
    none: &str,
    options: &Options,
    mut trace: Option<Trace>,
) -> Result {
    let clause = context.whom.clause();
    let commands = |group: &str, event: &str, index: usize| -> Vec<String> {
        let Known { kind, target, .. } = &all[index];
        let fetch = all[index].values.shown_arguments();
        vec![format!("{kind}:{group}/{event} {target}{fetch}{clause}")]
    };
    let targets: Vec<String> = all.iter().map(|known| known.target.clone()).collect();
    calls::run(
        context,
        "args",
        &targets,
        options,
        none,
        commands,
        |_, _, _| Vec::new(),
        |index, record| {
            let known = &all[index];
            let (called, holder, values) = (known.called, known.holder, &known.values);
            add(&mut trace, record, called, holder, values)?;
            Ok(if context.is_json {
                json(record, known.place, known.function, values, options)
            } else {
                show(record, called, holder, values, options)
            })
        },
    )?;
    trace.map_or(Ok(()), Trace::finish)
}

/// Shows the variables at a place in the source.
fn run_sites(
    context: &Context,
    sites: &ProbedSites,
    shown: &[&str],
    options: &Options,
    trace: Option<Trace>,
) -> Result {
    let text = &sites.text;
    let known = sites.all.iter().map(|site| Known {
        kind: 'p',
        target: site.target.clone(),
        values: Values::known(site.values(), shown),
        called: text,
        holder: Some(&site.holder),
        place: Some(text),
        function: Some(&site.holder),
    });
    let none = format!("{text}: never reached");
    run_known(context, &known.collect::<Vec<_>>(), &none, options, trace)
}

/// Shows the fields of trace events: those that are chosen, or all of them and those that are added.
fn run_events(
    context: &Context,
    text: &str,
    events: &[TraceEvent],
    chosen: &[&str],
    added: &[&str],
    options: &Options,
    trace: Option<Trace>,
) -> Result {
    let values = TraceEvent::values_of_each(events, &context.tracefs)?;
    let names: Vec<String> = events.iter().map(ToString::to_string).collect();
    let known = |((event, values), name)| -> Result<Known<'_>> {
        let (event, name): (&TraceEvent, &String) = (event, name);
        Ok(Known {
            kind: 'e',
            target: event.target(),
            values: Values::chosen(values, chosen, added)?,
            called: name,
            holder: None,
            place: None,
            function: is_list(text).then_some(name),
        })
    };
    let known: Result<Vec<Known<'_>>> = events.iter().zip(values).zip(&names).map(known).collect();
    let none = format!("{text}: 0 records");
    run_known(context, &known?, &none, options, trace)
}

/// Runs the command. `text` chooses functions or trace events, or it is a place in the source. `variables` are the fields of
/// the trace events, or the variables at the place, that the user wants to see. `perfetto` is the path of a trace.
pub fn run(
    context: &Context,
    text: &str,
    variables: &[&str],
    more: More<'_>,
    options: &Options,
    perfetto: Option<&String>,
) -> Result {
    let new_trace = || {
        Trace::wanted(context.tracefs.is_dry(), perfetto, || {
            format!("rkprobe args {text}")
        })
    };
    let options = &Options {
        lacks_place: true,
        needs_clock: perfetto.is_some(),
        ..*options
    };
    if let Some(events) = context.functions.each_event(text)? {
        if more.is_deep {
            return Err(Failure::new("--deep is for the parameters of functions"));
        }
        let trace = new_trace()?;
        return run_events(
            context,
            text,
            &events,
            variables,
            more.fields,
            options,
            trace,
        );
    }
    let sites = match variables {
        [] => context.functions.sites(&context.tracefs, text, &[])?,
        _ => Some(
            context
                .functions
                .any_sites(&context.tracefs, text, variables)?,
        ),
    };
    if let Some(sites) = sites {
        if more.is_deep {
            return Err(Failure::new(format!(
                "--deep is for the parameters of functions: at {text}, write the members as variables, such as file->f_flags"
            )));
        }
        return run_sites(context, &sites, more.fields, options, new_trace()?);
    }
    let functions = context.functions.each(text, Method::Kprobe)?;
    let values = Values::of_each(&context.functions, &functions, "", more)?;
    say_unknown(context, &functions, &values);
    let clause = context.whom.clause();
    let commands = |group: &str, event: &str, index: usize| -> Vec<String> {
        let all = values[index].fetch_arguments("", false).into_iter();
        all.map(|fetch| format!("p:{group}/{event} {}{fetch}{clause}", functions[index]))
            .collect()
    };
    let late = |group: &str, event: &str, index: usize| -> Vec<String> {
        let texts = values[index].text_arguments();
        // With the stack traces of programs, a record waits for its own stack already.
        if texts.is_empty() || options.has_user_stack {
            return Vec::new();
        }
        let all = probes::at_return(&functions[index], group, event).into_iter();
        all.map(|command| format!("{command}{texts}{clause}"))
            .collect()
    };
    let mut trace = new_trace()?;
    let none = format!("{text}: 0 calls");
    calls::run(
        context,
        "args",
        &functions,
        options,
        &none,
        commands,
        late,
        |index, record| {
            let (function, values) = (&functions[index], &values[index]);
            add(&mut trace, record, function, None, values)?;
            Ok(if context.is_json {
                let function = is_list(text).then_some(&**function);
                json(record, None, function, values, options)
            } else {
                show(record, function, None, values, options)
            })
        },
    )?;
    trace.map_or(Ok(()), Trace::finish)
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
        let text = show(&record, "f", None, &values, &options);
        assert_eq!(text, "cat-7  f(file=0x1, count=5)\n");
        let text = json(&record, None, None, &values, &options);
        assert!(text.starts_with("{\"time\":"));
        assert!(text.ends_with(
            ",\"cpu\":1,\"comm\":\"cat\",\"pid\":7,\"arguments\":{\"file\":\"0x1\",\"count\":5}}\n"
        ));
        options.has_stack = true;
        record.stack = vec!["g+0x1/0x2", "h+0x1/0x2 [m]"];
        assert_eq!(
            show(&record, "f", None, &values, &options),
            "cat-7  f(file=0x1, count=5)\n          g+0x1/0x2\n          h+0x1/0x2 [m]\n"
        );
        let text = json(&record, None, None, &values, &options);
        assert!(text.ends_with(",\"stack\":[\"g+0x1/0x2\",\"h+0x1/0x2 [m]\"]}\n"));
    }
}
