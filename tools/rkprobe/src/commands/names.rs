// SPDX-License-Identifier: GPL-2.0

//! `rkprobe names KIND PREFIX`: the names that a shell completes. The script of `rkprobe completion` runs it, so it is
//! hidden.

use std::collections::{
    BTreeSet,
    HashSet, //
};

use probe::btf::TypeId;

use crate::{
    btf,
    context::Context,
    failure::Result,
    functions::{
        Functions,
        Symbol, //
    }, //
};

/// The part of the script for bash that clap does not generate. `@FLAGS@` are the options without a value.
pub const BASH: &str = include_str!("names.bash");

/// The names of functions with a prefix. Without root, some of them cannot be probed.
fn functions<'s>(functions: &'s Functions, prefix: &str) -> BTreeSet<&'s str> {
    let has_prefix = |name: &&str| name.starts_with(prefix);
    let found: BTreeSet<&str> = functions
        .traceable()
        .map(|symbol| symbol.name)
        .filter(has_prefix)
        .collect();
    if functions.traceable().next().is_some() {
        return found;
    }
    let code = functions.code().map(|(_, symbol)| symbol);
    code.filter(|symbol| !symbol.is_padding())
        .map(|symbol| symbol.name)
        .filter(has_prefix)
        .collect()
}

/// The trace events with a prefix, or their systems if the prefix has no colon.
fn trace_events(functions: &Functions, prefix: &str) -> BTreeSet<String> {
    let name = |(system, name): (&str, &str)| match prefix.contains(':') {
        true => format!("{system}:{name}"),
        false => format!("{system}:"),
    };
    let names = functions.trace_events().map(name);
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// The names of data that can be written, with a prefix. Some kernels mark data as code in the list of symbols. So all
/// that ftrace cannot trace is taken for data there.
fn symbols<'s>(functions: &'s Functions, prefix: &str) -> BTreeSet<&'s str> {
    let code: HashSet<Symbol<'_>> = functions.traceable().collect();
    functions
        .lines()
        .filter(|line| !matches!(line.ty, "r" | "R"))
        .map(Symbol::from)
        .filter(|symbol| symbol.name.starts_with(prefix))
        .filter(|symbol| !symbol.is_padding() && !code.contains(symbol))
        .map(|symbol| symbol.name)
        .collect()
}

/// The names of structures with a prefix.
fn structures(prefix: &str) -> BTreeSet<String> {
    btf::with(None, |btf| {
        let all = (1..btf.type_count()).filter_map(|id| btf.get(TypeId::new(id)));
        let names = all
            .filter(|ty| ty.kind().has_members())
            .filter_map(|ty| btf.name(ty));
        names
            .filter(|name| name.starts_with(prefix))
            .map(String::from)
            .collect()
    })
    .unwrap_or_default()
}

/// Runs the command. An empty prefix has too many names.
pub fn run(context: &Context, kind: &str, prefix: &str) -> Result {
    let names: Vec<String> = match kind {
        _ if prefix.is_empty() => Vec::new(),
        "structures" => structures(prefix).into_iter().collect(),
        "symbols" => symbols(&context.functions, prefix)
            .into_iter()
            .map(String::from)
            .collect(),
        "events" => trace_events(&context.functions, prefix)
            .into_iter()
            .collect(),
        _ => functions(&context.functions, prefix)
            .into_iter()
            .map(String::from)
            .collect(),
    };
    let lines = names.iter().map(|name| format!("{name}\n"));
    context.print_as_is(&lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use crate::functions::tests;

    use super::*;

    #[test]
    fn names_have_the_prefix() {
        let known = tests::functions();
        let found: Vec<&str> = functions(&known, "vfs_").into_iter().collect();
        assert_eq!(found, ["vfs_read", "vfs_write"]);
        let events = |prefix| -> Vec<String> { trace_events(&known, prefix).into_iter().collect() };
        assert_eq!(events("s"), ["sched:"]);
        assert_eq!(events("sched:sched_s"), ["sched:sched_switch"]);
        assert!(events("sched:x").is_empty());
        let found: Vec<&str> = symbols(&known, "vfs_").into_iter().collect();
        assert_eq!(found, ["vfs_data", "vfs_read.cold"]);
        let unprivileged = tests::of("0 t vfs_read\n0 t __pfx_vfs_read\n0 d vfs_data\n", "", "");
        let found: Vec<&str> = functions(&unprivileged, "").into_iter().collect();
        assert_eq!(found, ["vfs_read"]);
    }
}
