// SPDX-License-Identifier: GPL-2.0

//! `rkprobe list FUNCTIONS`: which functions can be probed, and why not the others?

use std::collections::{
    BTreeMap,
    HashMap,
    HashSet, //
};

use serde::Serialize;

use crate::{
    context::Context,
    failure::Result,
    functions::{
        Functions,
        Symbol,
        PADDING, //
    },
    rust_names,
    trace_events::TraceEvent,
    value::Value, //
};

/// A function in JSON.
#[derive(Serialize)]
struct Line<'a> {
    function: &'a str,
    module: &'a str,
    ftrace: bool,
    kprobe: bool,
    same_name: usize,
    /// The name in the source, of a function in Rust.
    #[serde(skip_serializing_if = "Option::is_none")]
    rust_name: Option<String>,
    remark: String,
}

/// A trace event in JSON.
#[derive(Serialize)]
struct Event {
    event: String,
    fields: Vec<String>,
}

/// A function, and what can probe it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    by_ftrace: bool,
    is_blacklisted: bool,
    by_kprobe: bool,
    /// The number of functions of this name in this module.
    count: usize,
    is_padding: bool,
}

impl Entry {
    /// The remark for the user. Empty if all commands can probe the function.
    fn remark(&self, symbol: &Symbol<'_>, named: usize) -> String {
        if self.is_padding {
            return "no: padding before a function".into();
        }
        match (self.by_ftrace, self.by_kprobe, self.is_blacklisted) {
            (false, false, true) => {
                "no: on the kernel's blacklist of kprobes, and ftrace cannot trace it".into()
            }
            (false, false, false) => {
                "no: ftrace does not know it (notrace, assembly, or data)".into()
            }
            (true, false, _) => "not by args: on the kernel's blacklist of kprobes".into(),
            (false, true, _) => "only by args: a part of a function".into(),
            (true, true, _) if named == 1 => String::new(),
            (true, true, _) if self.count == 1 && !symbol.module.is_empty() => {
                format!(
                    "one of {named} functions: args, lat and slow need {} or %all",
                    symbol.full_name()
                )
            }
            (true, true, _) => format!(
                "one of {named} functions: args, lat and slow need {}%all",
                symbol.name
            ),
        }
    }
}

/// The functions that a list chooses, also those that cannot be probed.
fn entries(
    functions: &Functions,
    chosen: impl Fn(&Symbol<'_>) -> bool,
) -> BTreeMap<Symbol<'_>, Entry> {
    let traceable: HashSet<Symbol<'_>> = functions.traceable().collect();
    let blacklisted: HashSet<Symbol<'_>> = functions.blacklisted().collect();
    // The kernel's list has one of several names of an address. Without root, all addresses are 0.
    let addresses: HashSet<&str> = functions
        .code()
        .filter(|(address, symbol)| {
            traceable.contains(symbol) && address.contains(|digit| digit != '0')
        })
        .map(|(address, _)| address)
        .collect();
    let is_traceable = |address: &str, symbol: &Symbol<'_>| {
        traceable.contains(symbol) || addresses.contains(address)
    };
    // The compiler splits parts off functions, and the whole function decides, as in `Functions::why_not`, which would
    // search all lists for each part.
    let wholes: HashSet<&str> = functions
        .code()
        .filter(|(address, symbol)| is_traceable(address, symbol))
        .map(|(_, symbol)| symbol.name)
        .collect();
    let has_traceable_whole = |symbol: &Symbol<'_>| {
        let whole = symbol.name.split_once('.').map(|(whole, _)| whole);
        whole.is_some_and(|whole| wholes.contains(whole))
    };
    let mut entries: BTreeMap<Symbol<'_>, Entry> = BTreeMap::new();
    for (address, symbol) in functions.code().filter(|(_, symbol)| chosen(symbol)) {
        if let Some(entry) = entries.get_mut(&symbol) {
            entry.count += 1;
            continue;
        }
        let by_ftrace = is_traceable(address, &symbol);
        let is_blacklisted = blacklisted.contains(&symbol);
        let by_kprobe = !is_blacklisted && (by_ftrace || has_traceable_whole(&symbol));
        let entry = Entry {
            by_ftrace,
            is_blacklisted,
            by_kprobe,
            count: 1,
            is_padding: symbol.is_padding(),
        };
        entries.insert(symbol, entry);
    }
    entries
}

/// Whether a list asks for the padding before functions, which no command can probe.
fn asks_for_padding(text: &str) -> bool {
    text.contains(PADDING.trim_end_matches('_'))
}

/// Lists trace events, with the fields of their records.
fn list_events(context: &Context, events: &[TraceEvent]) -> Result {
    let values = TraceEvent::values_of_each(events, &context.tracefs)?;
    let fields = |values: &Vec<Value>| -> Vec<String> {
        values.iter().map(|value| value.name.to_string()).collect()
    };
    let rows = events
        .iter()
        .map(ToString::to_string)
        .zip(values.iter().map(fields));
    if context.is_json {
        let all = rows.map(|(event, fields)| Event { event, fields });
        return context.print_json(&BTreeMap::from([("events", all.collect::<Vec<_>>())]));
    }
    let lines = rows.map(|(event, fields)| format!("{event}  {}\n", fields.join(" ")));
    context.print_as_is(&lines.collect::<String>())
}

/// Runs the command. `text` chooses the functions, or the trace events.
pub fn run(context: &Context, text: &str) -> Result {
    let functions = &context.functions;
    if let Some(events) = functions.chosen_events(text)? {
        return list_events(context, &events);
    }
    functions.need_traceable()?;
    let selected = functions.selected(text)?;
    let has_padding = asks_for_padding(text);
    let entries = entries(functions, |symbol| {
        selected(symbol) && (has_padding || !symbol.is_padding())
    });
    if entries.is_empty() {
        return Err(functions.none_of(text));
    }
    let mut named: HashMap<&str, usize> = HashMap::new();
    for (_, symbol) in functions.code() {
        *named.entry(symbol.name).or_default() += 1;
    }
    let named = |symbol: &Symbol<'_>| named.get(symbol.name).copied().unwrap_or(1);
    let rows = entries
        .iter()
        .map(|(symbol, entry)| (symbol, entry, entry.remark(symbol, named(symbol))));
    if context.is_json {
        let all = rows.map(|(symbol, entry, remark)| Line {
            function: symbol.name,
            module: symbol.module,
            ftrace: entry.by_ftrace && !entry.is_padding,
            kprobe: entry.by_kprobe && !entry.is_padding,
            same_name: named(symbol),
            rust_name: rust_names::name(symbol.name),
            remark,
        });
        return context.print_json(&BTreeMap::from([("functions", all.collect::<Vec<_>>())]));
    }
    let width = entries
        .keys()
        .map(|symbol| symbol.to_string().len())
        .max()
        .unwrap_or(0);
    let lines = rows.map(|(symbol, _, remark)| {
        let name = rust_names::name(symbol.name);
        let name = name.map_or(String::new(), |name| format!("{name}  "));
        let line = format!("{:width$}  {name}{remark}", symbol.to_string());
        format!("{}\n", line.trim_end())
    });
    // The commands of the tool take the symbols.
    context.print_as_is(&lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::functions;

    use super::*;

    #[test]
    fn only_its_name_asks_for_padding() {
        for text in ["__pfx_vfs_read", "__pfx*", "vfs_*,mod:__pfx_*"] {
            assert!(asks_for_padding(text), "{text}");
        }
        for text in ["*", "vfs_*", "mod:*,!*_read", "__p*"] {
            assert!(!asks_for_padding(text), "{text}");
        }
    }

    #[test]
    fn each_function_has_a_remark() {
        let functions = functions();
        let all = entries(&functions, |_| true);
        let symbol = |name, module| Symbol { name, module };
        for (symbol, named, expected) in [
            (symbol("vfs_read", ""), 1, ""),
            (symbol("alias_of_write", ""), 1, ""),
            (
                symbol("__pfx_vfs_read", ""),
                1,
                "no: padding before a function",
            ),
            (
                symbol("memcpy", ""),
                1,
                "no: ftrace does not know it (notrace, assembly, or data)",
            ),
            (
                symbol("do_int3", ""),
                1,
                "not by args: on the kernel's blacklist of kprobes",
            ),
            (
                symbol("exc_int3", ""),
                1,
                "no: on the kernel's blacklist of kprobes, and ftrace cannot trace it",
            ),
            (
                symbol("vfs_read.cold", ""),
                1,
                "only by args: a part of a function",
            ),
            (
                symbol("name_show", ""),
                3,
                "one of 3 functions: args, lat and slow need name_show%all",
            ),
            (
                symbol("name_show", "mod"),
                3,
                "one of 3 functions: args, lat and slow need mod:name_show or %all",
            ),
        ] {
            assert_eq!(all[&symbol].remark(&symbol, named), expected);
        }
        assert!(!all.contains_key(&symbol("vfs_data", "")));
    }
}
