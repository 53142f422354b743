// SPDX-License-Identifier: GPL-2.0

//! Answers with a record for each call of some functions. Each function has an event of its own.

use crate::{
    context::Context,
    failure::Result,
    late_texts::LateTexts,
    probes,
    record::Record,
    stream::Options, //
};

/// The names of this many events of a run: `event`, with a number after the first.
pub fn names(event: &str, count: usize) -> impl Iterator<Item = String> + '_ {
    let numbered = (2..=count).map(move |number| format!("{event}{number}"));
    std::iter::once(event.into()).chain(numbered)
}

/// Runs a question about the calls of `functions`. Their events have the name `event`, with a number after the first.
///
/// `commands` are the commands to try for a function: for a group, an event and the index of the function. `late` are those
/// for another event, at the return of the function, which has the strings that cannot be read at the entry. There can be
/// none. `show` is the text of a record of this function. Prints `none` if there is no record.
pub fn run(
    context: &Context,
    event: &str,
    functions: &[String],
    options: &Options,
    none: &str,
    commands: impl Fn(&str, &str, usize) -> Vec<String>,
    late: impl Fn(&str, &str, usize) -> Vec<String>,
    show: impl FnMut(usize, &Record<'_>) -> Result<String>,
) -> Result {
    let events: Vec<String> = names(event, functions.len()).collect();
    let all = |group: &str| -> Vec<Vec<String>> {
        let events = events.iter().enumerate();
        events
            .map(|(index, event)| commands(group, event, index))
            .collect()
    };
    probes::check_all(&all("rkprobe"))?;
    let instance = context.start()?;
    probes::define_all(&context.tracefs, &all(instance.group()))?;
    let mut returns = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let at_return = format!("{event}_return");
        let commands = late(instance.group(), &at_return, index);
        // A part of a function has no return of its own. Then the strings stay unknown.
        if !commands.is_empty() && probes::define(&context.tracefs, &commands).is_ok() {
            returns.push((at_return, event.clone()));
        }
    }
    options.prepare(&context.tracefs, &instance, context.is_json)?;
    match &events[..] {
        [event] if returns.is_empty() => context.enable(&instance, event, options)?,
        _ => context.enable_all(&instance, options)?,
    }
    let texts = &mut LateTexts::new(returns);
    context.print_records(&instance, &events, texts, options, none, show)
}
