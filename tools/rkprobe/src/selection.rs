// SPDX-License-Identifier: GPL-2.0

//! The functions that the user chooses.

use crate::{
    failure::{
        Failure,
        Result, //
    },
    functions::{
        Functions,
        Method, //
    },
    pattern::{
        is_pattern,
        matches, //
    },
    probes::{
        self,
        Function, //
    },
    suggest,
    tracefs::Tracefs, //
};

impl Functions {
    /// Checks that a function exists and can be probed. `name` can start with the name of a module and a colon, and can
    /// end with an offset or a suffix such as `%all`.
    pub fn check<'n>(&self, name: &'n str, method: Method) -> Result<Function<'n>> {
        if is_pattern(name) {
            return Err(Failure::new(format!(
                "{name} is a pattern: this command takes one function"
            )));
        }
        let (module, function) = split(name);
        if self.symbols().is_empty() {
            return Ok(Function {
                name,
                is_unique: true,
            });
        }
        let found = self.named(function, module);
        let Some((address, symbol)) = found.first() else {
            return Err(suggest::no_function(self, module, function));
        };
        if let Some(why) = self.why_not(address, *symbol, method) {
            return Err(Failure::new(format!("{function} {why}")));
        }
        let is_unique = found.len() == 1;
        let takes_all = method == Method::Ftrace || name.ends_with("%all");
        if !is_unique && !takes_all {
            return Err(suggest::not_unique(name, &found));
        }
        Ok(Function { name, is_unique })
    }

    /// Checks a pattern, or that the function exists. The commands with patterns use `f`, which takes no module.
    pub fn check_pattern(&self, pattern: &str) -> Result {
        if let Some((_, name)) = pattern.split_once(':') {
            return Err(Failure::new(format!(
                "{pattern}: this command takes no module: write {name}"
            )));
        }
        match is_pattern(pattern) {
            true => Ok(()),
            false => self.check(pattern, Method::Ftrace).map(|_| ()),
        }
    }

    /// The functions that a pattern matches, or the function itself. More than `limit` are a failure.
    pub fn matching(&self, pattern: &str, limit: usize) -> Result<Vec<String>> {
        if !is_pattern(pattern) {
            return Ok(vec![pattern.into()]);
        }
        let names = self
            .traceable()
            .filter(|symbol| matches(pattern, symbol.name));
        let mut found: Vec<String> = names.map(|symbol| symbol.full_name()).collect();
        // A name of several functions is refused anyway.
        found.sort();
        found.dedup();
        match found.len() {
            0 => Err(Failure::new(format!("no function matches {pattern}"))),
            count if count > limit => Err(Failure::new(format!(
                "{count} functions match {pattern}: with --source, at most {limit} can"
            ))),
            _ => Ok(found),
        }
    }
}

/// Defines a probe of all functions that a pattern matches. The failure says if no function matches.
pub fn define_pattern(
    tracefs: &Tracefs,
    functions: &Functions,
    pattern: &str,
    command: String,
) -> Result {
    probes::define(tracefs, &[command]).map_err(|failure| {
        functions
            .matching(pattern, usize::MAX)
            .err()
            .unwrap_or(failure)
    })
}

/// Splits `MODULE:FUNCTION+OFFSET` or the like. Leaves out what is behind the name.
pub fn split(name: &str) -> (Option<&str>, &str) {
    let (module, function) = match name.split_once(':') {
        Some((module, function)) => (Some(module), function),
        None => (None, name),
    };
    (
        module,
        function.split(['+', '%']).next().unwrap_or(function),
    )
}

#[cfg(test)]
mod tests {
    use crate::functions::{
        self,
        tests::functions, //
    };

    use super::*;

    fn error(name: &str, method: Method) -> String {
        match functions().check(name, method) {
            Err(Failure::Message(text)) => text,
            other => format!("{:?}", other.is_ok()),
        }
    }

    #[test]
    fn functions_that_can_be_probed() {
        use Method::{
            Any,
            Ftrace,
            Kprobe,
            Read, //
        };

        let functions = functions();
        for (name, methods) in [
            ("vfs_read", &[Ftrace, Kprobe, Any, Read][..]),
            ("vfs_read+5", &[Kprobe]),
            ("mod:mod_write", &[Kprobe, Any]),
            ("mod_write", &[Ftrace]),
            ("do_int3", &[Ftrace, Any, Read]),
            ("name_show", &[Ftrace]),
            ("name_show%all", &[Kprobe, Any]),
            ("mod:name_show", &[Kprobe]),
            ("vfs_read.cold", &[Kprobe, Any]),
            ("copied.isra.0", &[Ftrace]),
            ("memcpy", &[Read]),
            ("alias_of_write", &[Ftrace]),
        ] {
            for method in methods {
                assert!(functions.check(name, *method).is_ok(), "{name} {method:?}");
            }
        }
        assert!(!functions.check("name_show", Ftrace).unwrap().is_unique);
        assert!(functions.check("mod:name_show", Kprobe).unwrap().is_unique);
    }

    #[test]
    fn others_have_a_reason() {
        for (name, method, expected) in [
            ("vfs_*", Method::Any, "vfs_* is a pattern: this command takes one function"),
            (
                "__pfx_vfs_read",
                Method::Read,
                "__pfx_vfs_read is padding before vfs_read, and no function",
            ),
            (
                "memcpy",
                Method::Ftrace,
                "memcpy cannot be probed: ftrace does not know it (notrace, assembly, or data)",
            ),
            (
                "do_int3",
                Method::Kprobe,
                "do_int3 is on the kernel's blacklist of kprobes; count, fails, lat and slow can probe it",
            ),
            (
                "exc_int3",
                Method::Any,
                "exc_int3 is on the kernel's blacklist of kprobes, and ftrace cannot trace it",
            ),
            (
                "name_show",
                Method::Any,
                "3 functions have the name name_show: write name_show%all for all of them, or mod:name_show",
            ),
            (
                "vfs_read.cold",
                Method::Ftrace,
                "vfs_read.cold cannot be probed: ftrace does not know it (notrace, assembly, or data)",
            ),
            (
                "lost.cold",
                Method::Kprobe,
                "lost.cold cannot be probed: ftrace does not know it (notrace, assembly, or data)",
            ),
        ] {
            assert_eq!(error(name, method), expected);
        }
    }

    #[test]
    fn a_pattern_has_no_module() {
        assert!(functions().check_pattern("vfs_*").is_ok());
        let Err(Failure::Message(text)) = functions().check_pattern("mod:mod_*") else {
            panic!();
        };
        assert_eq!(text, "mod:mod_*: this command takes no module: write mod_*");
    }

    #[test]
    fn finds_the_functions_of_a_pattern() {
        let found = |pattern| functions().matching(pattern, 2).unwrap();
        assert_eq!(found("vfs_*"), ["vfs_read", "vfs_write"]);
        assert_eq!(found("name_[s]how"), ["mod:name_show", "name_show"]);
        assert!(functions().matching("*", 2).is_err());
        assert!(functions().matching("no_*", 2).is_err());
    }

    #[test]
    fn without_lists_nothing_is_refused() {
        let empty = functions::tests::of("10 t vfs_read\n", "", "");
        assert!(empty.check("vfs_read", Method::Kprobe).is_ok());
        assert!(empty.check("vfs_raed", Method::Kprobe).is_err());
    }
}
