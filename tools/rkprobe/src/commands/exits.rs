// SPDX-License-Identifier: GPL-2.0

//! `rkprobe exits FUNCTION`: where does it leave?

use serde::Serialize;

use crate::{
    analysis,
    context::Context,
    failure::Result,
    functions::Method,
    lines::Lines, //
};

/// An exit, in JSON.
#[derive(Serialize)]
struct Exit<'a> {
    place: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

/// The answer in JSON.
#[derive(Serialize)]
struct Answer<'a> {
    function: &'a str,
    exits: Vec<Exit<'a>>,
    verdict: &'a str,
}

/// Adds the source line to each place in the answer.
fn with_lines(text: &str, find: impl Fn(&str) -> Option<String>) -> String {
    text.lines()
        .map(
            |line| match line.split_once(' ').and_then(|(place, _)| find(place)) {
                Some(source) => format!("{line}  {source}\n"),
                None => format!("{line}\n"),
            },
        )
        .collect()
}

/// Runs the command. If `has_source`, adds source lines.
pub fn run(context: &Context, function: &str, has_source: bool) -> Result {
    let function = &*context.functions.by_name(function)?;
    context.functions.check(function, Method::Read)?;
    // Others can ask while the debug information is read.
    let text = analysis::exits(&context.tracefs, function)?;
    if context.tracefs.is_dry() {
        return Ok(());
    }
    let module = match has_source {
        true => context.functions.module_of(function).unwrap_or_default(),
        false => String::new(),
    };
    let lines = has_source.then(|| Lines::open([&*module].into_iter()));
    let find = |place: &str| match &*module {
        "" => lines.as_ref()?.find_return(place),
        module => lines.as_ref()?.find_return(&format!("{place} [{module}]")),
    };
    if !context.is_json {
        return context.print(&with_lines(&text, find));
    }
    let exits = text
        .lines()
        .filter(|line| !line.starts_with("verdict: "))
        .filter_map(|line| line.split_once(' '))
        .map(|(place, kind)| Exit {
            place,
            kind,
            source: find(place),
        });
    let verdict = text
        .lines()
        .find_map(|line| line.strip_prefix("verdict: "))
        .unwrap_or("");
    context.print_json(&Answer {
        function,
        exits: exits.collect(),
        verdict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_lines() {
        let text = "f+0x1 ret\nf+0x5 no return\nverdict: returns\n";
        let find = |place: &str| (place == "f+0x1").then(|| "a/b.c:7".into());
        assert_eq!(
            with_lines(text, find),
            "f+0x1 ret  a/b.c:7\nf+0x5 no return\nverdict: returns\n"
        );
        assert_eq!(with_lines(text, |_| None), text);
    }
}
