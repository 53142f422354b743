// SPDX-License-Identifier: GPL-2.0

//! What the user may have meant by the name of a function that does not exist. It can always be probed.

use std::{
    collections::BTreeSet,
    fs, //
};

use crate::{
    debug_files::module_file,
    failure::Failure,
    functions::{
        Functions,
        Method,
        Symbol, //
    },
    inlined::Question,
    similar::similar, //
};

/// How the names of system calls start in the kernel.
const SYSTEM_CALL: &str = if cfg!(target_arch = "aarch64") {
    "__arm64_"
} else {
    "__x64_"
};

/// How many names a message has.
const MOST: usize = 3;

/// The failure for a function that does not exist, or not in this module.
pub fn no_function(functions: &Functions, module: Option<&str>, name: &str) -> Failure {
    let event = functions.trace_event(module, name);
    let event = event.map(|(system, name)| trace_event(system, name));
    if let Some(module) = module {
        if let Some(event) = event {
            return Failure::new(event);
        }
        if functions.all().all(|(_, symbol)| symbol.module != module) {
            return no_module(functions, module);
        }
    }
    let holders = || -> Result<Option<Vec<String>>, String> {
        let question = Question {
            function: name,
            is_wanted: &|name| functions.traceable().any(|symbol| symbol.name == name),
            most: MOST + 1,
        };
        question.ask(module.unwrap_or(""))
    };
    let exports = of_release("modules.symbols");
    let meant = meant(functions, module, name, &exports, holders);
    // The function can exist, too, as a copy that the compiler inlined.
    Failure::new(match event {
        Some(event) => format!("{meant}\n{event}"),
        None => meant,
    })
}

/// Says that a name is a trace event, and which commands take it.
fn trace_event(system: &str, name: &str) -> String {
    let command = match (system, name) {
        ("block", _) => "; see rkprobe disk",
        ("lock", _) => "; see rkprobe locks",
        ("sched", "sched_switch" | "sched_wakeup") => "; see rkprobe offcpu",
        ("skb" | "sock" | "tcp", _) => "; see rkprobe net",
        _ => "",
    };
    format!(
        "{system}:{name} is a trace event, and no function: count, args, hist and list take it{command}"
    )
}

/// The text of a file about the modules of the running kernel.
pub fn of_release(file: &str) -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    fs::read_to_string(format!("/lib/modules/{}/{file}", release.trim())).unwrap_or_default()
}

fn no_module(functions: &Functions, module: &str) -> Failure {
    let text = format!("no module {module} is loaded");
    if module_file(module, &of_release("modules.dep")).is_some() {
        return Failure::new(format!("{text}: modprobe {module}"));
    }
    let loaded: BTreeSet<&str> = functions.all().map(|(_, symbol)| symbol.module).collect();
    let names = loaded.into_iter().filter(|name| !name.is_empty());
    Failure::new(text + &list("; similar: ", &similar(module, names, MOST)))
}

/// `exports` has the functions that modules export, as the file `modules.symbols`. `holders` finds the functions that
/// contain copies of this one: `None` if the compiler did not inline it. The error says how to get
/// debug information.
fn meant(
    functions: &Functions,
    module: Option<&str>,
    name: &str,
    exports: &str,
    holders: impl FnOnce() -> Result<Option<Vec<String>>, String>,
) -> String {
    let unknown = match module {
        Some(module) => format!("the module {module} has no function {name}"),
        None => format!("the kernel has no function {name}"),
    };
    let is_here = |symbol: &Symbol<'_>| module.is_none_or(|module| symbol.module == module);
    let copies: Vec<&str> = functions
        .code()
        .filter(|(_, symbol)| is_here(symbol) && is_copy(symbol.name, name))
        .filter(|(address, symbol)| {
            functions
                .why_not(address, *symbol, Method::Kprobe)
                .is_none()
        })
        .map(|(_, symbol)| symbol.name)
        .collect();
    if !copies.is_empty() {
        return unknown + &list(": the compiler has made ", &copies);
    }
    let call = format!("{SYSTEM_CALL}{name}");
    if name.starts_with("sys_") && functions.traceable().any(|symbol| symbol.name == call) {
        return format!("{unknown}: it is {call}");
    }
    if let Some(module) = exporter(exports, name) {
        return format!(
            "{unknown}; the module {module} has it, which is not loaded: modprobe {module}"
        );
    }
    let is_data = functions
        .all()
        .any(|(_, symbol)| is_here(&symbol) && symbol.name == name);
    let unknown = match is_data {
        true => format!("{name} is data, and no function"),
        false => unknown,
    };
    let found = match is_data {
        true => Ok(None),
        false => holders(),
    };
    if let Ok(Some(holders)) = &found {
        let shown: Vec<&str> = holders.iter().take(MOST).map(String::as_str).collect();
        let more = match holders.len() > MOST {
            true => " and others",
            false => "",
        };
        let known = format!("{unknown}: the compiler inlined it") + &list(" into ", &shown) + more;
        return known + "; args, count and hist take its copies";
    }
    let names = functions
        .traceable()
        .filter(is_here)
        .map(|symbol| symbol.name);
    let advice = match found {
        Ok(_) => String::new(),
        Err(advice) => format!(
            "\nit may be inlined everywhere, or not in this kernel. To find its copies: {advice}"
        ),
    };
    unknown + &list("; similar: ", &similar(name, names, MOST)) + &advice
}

/// Whether the compiler gave this name to a copy or a part of a function, such as `NAME.isra.0`.
fn is_copy(symbol: &str, name: &str) -> bool {
    symbol
        .strip_prefix(name)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// The module that exports a function.
fn exporter<'e>(exports: &'e str, name: &str) -> Option<&'e str> {
    exports.lines().find_map(|line| {
        let (symbol, module) = line.strip_prefix("alias symbol:")?.split_once(' ')?;
        (symbol == name).then_some(module)
    })
}

fn list(start: &str, names: &[&str]) -> String {
    match names {
        [] => String::new(),
        names => start.to_string() + &names.join(", "),
    }
}

/// The failure for a name of several functions.
pub fn not_unique(module: Option<&str>, name: &str, found: &[(&str, Symbol<'_>)]) -> Failure {
    let count = found.len();
    let all = match module {
        Some(module) => format!("{module}:{name}"),
        None => name.into(),
    };
    let modules: BTreeSet<&str> = found.iter().map(|(_, symbol)| symbol.module).collect();
    let alone = |module: &&&str| {
        let of_module = found.iter().filter(|(_, symbol)| symbol.module == **module);
        !module.is_empty() && of_module.count() == 1
    };
    let single: Vec<String> = modules
        .iter()
        .filter(alone)
        .map(|module| format!("{module}:{name}"))
        .collect();
    let single: Vec<&str> = single.iter().map(String::as_str).collect();
    Failure::new(
        format!("{count} functions have the name {name}: write {all}%all for all of them")
            + &list(", or ", &single),
    )
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::functions;

    use super::*;

    #[test]
    fn suggestions_can_be_probed() {
        let call = format!("the kernel has no function sys_execve: it is {SYSTEM_CALL}sys_execve");
        for (module, name, expected) in [
            (None, "sys_execve", &*call),
            (
                None,
                "copied",
                "the kernel has no function copied: the compiler has made copied.isra.0",
            ),
            (None, "lost", "the kernel has no function lost"),
            (
                None,
                "vfs_raed",
                "the kernel has no function vfs_raed; similar: vfs_read",
            ),
            (
                None,
                "pfx_vfs_read",
                "the kernel has no function pfx_vfs_read; similar: vfs_read",
            ),
            (
                None,
                "vfs_data",
                "vfs_data is data, and no function",
            ),
            (
                Some("mod"),
                "mod_wirte",
                "the module mod has no function mod_wirte; similar: mod_write",
            ),
            (
                None,
                "far",
                "the kernel has no function far; the module away has it, which is not loaded: modprobe away",
            ),
        ] {
            let exports = "# Aliases\nalias symbol:near here\nalias symbol:far away\n";
            let meant = meant(&functions(), module, name, exports, || Ok(None));
            assert_eq!(meant, expected);
        }
    }

    #[test]
    fn an_inlined_function_is_in_others() {
        let inlined = "the kernel has no function vfs_raed: the compiler inlined it";
        for (holders, expected) in [
            (&[][..], ""),
            (&["a"], " into a"),
            (&["a", "b", "c"], " into a, b, c"),
            (&["a", "b", "c", "d"], " into a, b, c and others"),
        ] {
            let holders = || Ok(Some(holders.iter().map(|name| name.to_string()).collect()));
            let meant = meant(&functions(), None, "vfs_raed", "", holders);
            let end = "; args, count and hist take its copies";
            assert_eq!(meant, format!("{inlined}{expected}{end}"));
        }
    }

    #[test]
    fn without_debug_information_a_function_may_be_inlined() {
        let ask = |name| meant(&functions(), None, name, "", || Err("install it".into()));
        assert_eq!(
            ask("vfs_raed"),
            "the kernel has no function vfs_raed; similar: vfs_read\n\
             it may be inlined everywhere, or not in this kernel. To find its copies: install it"
        );
        assert_eq!(ask("vfs_data"), "vfs_data is data, and no function");
    }

    #[test]
    fn a_trace_event_is_no_function() {
        for (module, name, expected) in [
            (
                Some("sched"),
                "sched_switch",
                "sched:sched_switch is a trace event, and no function: count, args, hist and list \
                 take it; see rkprobe offcpu",
            ),
            (
                None,
                "f",
                "x:f is a trace event, and no function: count, args, hist and list take it",
            ),
            (Some("block"), "sched_switch", "no module block is loaded"),
        ] {
            let Failure::Message(text) = no_function(&functions(), module, name) else {
                panic!();
            };
            // What comes before the last line depends on the debug information of this machine.
            assert_eq!(text.lines().last(), Some(expected), "{text}");
            assert_eq!(text.lines().count() > 1, module.is_none(), "{text}");
        }
    }

    #[test]
    fn modules_have_similar_names() {
        let Failure::Message(text) = no_function(&functions(), Some("mob"), "f") else {
            panic!();
        };
        assert_eq!(text, "no module mob is loaded; similar: mod");
    }
}
