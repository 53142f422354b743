// SPDX-License-Identifier: GPL-2.0

//! `rkprobe vars PLACE`: which variables can be read there, and where are they?

use serde::Serialize;

use crate::{
    context::Context,
    failure::Result,
    sites::{
        ProbedSite,
        ProbedSites, //
    },
    sources::Listed,
    value::Value, //
};

/// A variable in JSON.
#[derive(Serialize)]
struct Variable<'a> {
    name: &'a str,
    r#type: &'a str,
    /// The fetch argument that reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fetch: Option<&'a str>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'a str>,
    /// The next line where it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_line: Option<u64>,
}

/// A place in JSON.
#[derive(Serialize)]
struct Site<'a> {
    target: &'a str,
    function: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    variables: Vec<Variable<'a>>,
}

/// The answer in JSON.
#[derive(Serialize)]
struct Answer<'a> {
    place: &'a str,
    sites: Vec<Site<'a>>,
}

/// The fetch argument of a variable, without its name.
fn fetch(listed: &Listed) -> Option<&str> {
    listed.value.as_ref().ok().map(Value::without_name)
}

fn line(site: &ProbedSite) -> Option<String> {
    let line = site.site.line.as_ref();
    line.map(|(file, line)| format!("{file}:{line}"))
}

fn json(place: &ProbedSite) -> Site<'_> {
    let variables = place.site.variables.iter();
    let variables = variables.map(|listed| Variable {
        name: &listed.name,
        r#type: &listed.ty,
        fetch: fetch(listed),
        missing: listed.value.as_ref().err().map(String::as_str),
        next_line: listed.next,
    });
    Site {
        target: &place.target,
        function: &place.holder,
        source: line(place),
        variables: variables.collect(),
    }
}

fn show(place: &ProbedSite) -> String {
    let all = &place.site.variables;
    let width = |text: fn(&Listed) -> &str| {
        let widths = all.iter().map(|listed| text(listed).chars().count());
        widths.max().unwrap_or(0)
    };
    let (names, types) = (width(|listed| &listed.name), width(|listed| &listed.ty));
    let mut text = place.target.clone();
    text += &line(place).map_or_else(String::new, |line| format!("  {line}"));
    text.push('\n');
    for listed in all {
        let (name, ty) = (&listed.name, &listed.ty);
        let place = match (&listed.value, fetch(listed), listed.next) {
            (_, Some(fetch), _) => fetch.into(),
            (Err(why), _, Some(next)) => format!("- {why}; can be read at line {next}"),
            (Err(why), ..) => format!("- {why}"),
            _ => String::new(),
        };
        text += &format!("  {name:names$}  {ty:types$}  {place}\n");
    }
    if all.is_empty() {
        text += "  no variables\n";
    }
    text
}

/// Runs the command.
pub fn run(context: &Context, text: &str) -> Result {
    let ProbedSites { text, all, .. } = context.functions.any_sites(&context.tracefs, text, &[])?;
    if !context.is_json {
        return context.print(&all.iter().map(show).collect::<String>());
    }
    context.print_json(&Answer {
        place: &text,
        sites: all.iter().map(json).collect(),
    })
}
