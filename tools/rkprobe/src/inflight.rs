// SPDX-License-Identifier: GPL-2.0

//! The calls of call-tree events that have not returned: the file `rkprobe_calls`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    duration,
    literal::unquote, //
    record::split_fields,
};

/// The file.
pub const CALLS: &str = "rkprobe_calls";

/// A call of a root that has not returned.
#[derive(Debug, PartialEq, Serialize)]
pub struct InFlight {
    pub comm: String,
    pub pid: u32,
    /// The time since the root was entered, in seconds.
    pub seconds: f64,
    /// The functions that have not returned, the root first.
    pub functions: Vec<String>,
}

impl InFlight {
    /// The call as a line of text.
    pub fn text(&self) -> String {
        let ns = (self.seconds * 1e9) as u64;
        format!(
            "{}-{}  for {}, in: {}\n",
            self.comm,
            self.pid,
            duration::show(ns),
            self.functions.join(" > ")
        )
    }
}

/// The calls of an event in the text of the file, those of the longest time first.
pub fn parse(text: &str, event: &str) -> Vec<InFlight> {
    let mut calls: BTreeMap<&str, InFlight> = BTreeMap::new();
    for line in text.lines() {
        let Some((_, rest)) = line.split_once(' ').filter(|(of, _)| *of == event) else {
            continue;
        };
        let fields: BTreeMap<&str, &str> = split_fields(rest).into_iter().collect();
        let field = |name| fields.get(name).copied().unwrap_or("");
        let call = calls.entry(field("call")).or_insert_with(|| InFlight {
            comm: unquote(field("comm")).unwrap_or("").into(),
            pid: field("pid").parse().unwrap_or(0),
            seconds: 0.0,
            functions: Vec::new(),
        });
        let seconds = field("since").trim_end_matches(" s").parse();
        call.seconds = call.seconds.max(seconds.unwrap_or(0.0));
        call.functions.push(field("func").into());
    }
    let mut calls: Vec<InFlight> = calls.into_values().collect();
    calls.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_the_functions_that_have_not_returned() {
        let text = "g/why pid=7 comm=\"a b\" call=18 depth=0 func=root since=2.500000 s\n\
            g/why pid=8 comm=\"c\" call=19 depth=0 func=root since=12.000000 s\n\
            g/why pid=7 comm=\"a b\" call=18 depth=1 func=f [m] since=2.000000 s\n\
            g/other pid=9 comm=\"d\" call=1 depth=0 func=root since=1.000000 s\n";
        let calls = parse(text, "g/why");
        let lines: String = calls.iter().map(InFlight::text).collect();
        assert_eq!(
            lines,
            "c-8  for 12.0 s, in: root\na b-7  for 2.50 s, in: root > f [m]\n"
        );
        assert!(parse("", "g/why").is_empty());
    }
}
