// SPDX-License-Identifier: GPL-2.0

//! The targets of `f` probes for the functions that the user chooses.

use std::collections::{
    BTreeSet,
    HashSet, //
};

use probe::command::MAX_PATTERNS;

use crate::{
    failure::{
        Failure,
        Result, //
    },
    functions::{
        Functions,
        Method,
        Symbol, //
    },
    hist::{
        self,
        Hist,
        Row, //
    },
    pattern::{
        cover,
        is_pattern,
        matches, //
    },
    selection::{
        parse,
        split,
        Part, //
    }, //
};

/// The targets of probes, and the functions that the answer shows.
#[derive(Debug, PartialEq)]
pub struct Targets {
    /// A name, a list for `f`, or a place in the source, for each probe. No function is in two of them.
    pub texts: Vec<String>,
    /// The functions of the answer. `None` if all are in it.
    only: Option<HashSet<String>>,
}

impl Targets {
    /// All functions of these targets.
    pub fn all(texts: Vec<String>) -> Self {
        Self { texts, only: None }
    }

    /// The rows of the functions that the user chose. The function is the first key, unless all functions are in the
    /// table.
    pub fn rows<'h>(&'h self, hist: &'h Hist) -> impl Iterator<Item = &'h Row> {
        let is_chosen = |row: &&Row| {
            let only = self.only.as_ref();
            only.is_none_or(|only| only.contains(hist::symbol(&row.keys[0])))
        };
        hist.rows.iter().filter(is_chosen)
    }
}

impl Functions {
    /// The targets of `f` probes for a list.
    pub fn targets(&self, text: &str) -> Result<Targets> {
        if self.awaited(text).is_some() {
            return Ok(Targets::all(vec![text.into()]));
        }
        let parts = parse(text)?;
        let has_module = |part: &Part<'_>| part.text.contains(':');
        let included: Vec<_> = parts.iter().filter(|part| !part.is_excluded).collect();
        let has_patterns = included.iter().any(|part| is_pattern(part.text));
        let has_modules = parts.iter().any(has_module);
        if parts.len() == 1 && !has_patterns && !has_modules {
            self.check(text, Method::Ftrace)?;
            return Ok(Targets::all(vec![text.trim_end_matches("%all").into()]));
        }
        // If nobody may read which functions there are, only the kernel can say which ones match.
        if has_patterns && !has_modules && self.traceable().next().is_none() {
            return Ok(Targets::all(vec![list(parts.iter())]));
        }
        let chosen = self.choose(text, Method::Ftrace)?;
        let texts = if !has_patterns {
            // Each one alone, because a list has no types of parameters.
            names_alone(&parts)
        } else if included.into_iter().any(has_module) {
            vec![self.covering_list(text, &chosen)?]
        } else {
            vec![list(parts.iter().filter(|part| !has_module(part)))]
        };
        let only = || chosen.iter().map(Symbol::to_string).collect();
        Ok(Targets {
            texts,
            only: has_modules.then(only),
        })
    }

    /// A list of patterns for functions of modules, which `f` cannot tell apart: no other names match.
    fn covering_list(&self, text: &str, chosen: &BTreeSet<Symbol<'_>>) -> Result<String> {
        let names: BTreeSet<&str> = chosen.iter().map(|symbol| symbol.name).collect();
        let others = self.traceable().map(|symbol| symbol.name);
        let others: BTreeSet<&str> = others.filter(|name| !names.contains(name)).collect();
        let patterns = cover(
            &names.into_iter().collect::<Vec<_>>(),
            &others.into_iter().collect::<Vec<_>>(),
        );
        match patterns.len() {
            count if count > MAX_PATTERNS => Err(Failure::new(format!(
                "{text} needs {count} patterns, and at most {MAX_PATTERNS} can be"
            ))),
            _ => Ok(patterns.join(",")),
        }
    }
}

/// The names of a list without patterns to include. The kernel says which ones do not exist.
fn names_alone(parts: &[Part<'_>]) -> Vec<String> {
    let (excluded, included): (Vec<_>, Vec<_>) = parts.iter().partition(|part| part.is_excluded);
    // `MODULE:` excludes only what the answer shows.
    let excludes = |part: &Part<'_>, name: &str| match split(part.text) {
        (None, text) => matches(text, name),
        (Some(_), _) => false,
    };
    let is_excluded = |name: &&str| excluded.iter().any(|part| excludes(part, name));
    let names = included.into_iter().map(|part| split(part.text).1);
    let names: BTreeSet<&str> = names.filter(|name| !is_excluded(name)).collect();
    names.into_iter().map(String::from).collect()
}

/// The parts as a list for `f`.
fn list<'p>(parts: impl Iterator<Item = &'p Part<'p>>) -> String {
    let of_part = |part: &Part<'_>| {
        let excluded = if part.is_excluded { "!" } else { "" };
        format!("{excluded}{}", split(part.text).1)
    };
    parts.map(of_part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use crate::functions::{
        self,
        tests::functions, //
    };

    use super::*;

    #[test]
    fn ftrace_takes_names_and_patterns() {
        let targets = |text| functions().targets(text).unwrap().texts;
        assert_eq!(targets("vfs_*"), ["vfs_*"]);
        assert_eq!(targets("name_show%all"), ["name_show"]);
        assert_eq!(
            targets("vfs_write,vfs_*,!vfs_read"),
            ["vfs_write,vfs_*,!vfs_read"]
        );
        assert_eq!(targets("vfs_*, do_int3,!x+4"), ["vfs_*,do_int3,!x"]);
        assert_eq!(targets("!*_*"), ["!*_*,*"]);
        // Names alone keep their types.
        assert_eq!(
            targets("vfs_write,vfs_read,vfs_write"),
            ["vfs_read", "vfs_write"]
        );
        assert_eq!(targets("vfs_write,vfs_read,!*_read"), ["vfs_write"]);
        assert_eq!(targets("mod:*"), ["mod_write,name_show"]);
        assert_eq!(targets("mod:*,!mod_*"), ["name_show"]);
        assert_eq!(targets("mod:mod_write,vfs_read"), ["mod_write", "vfs_read"]);
        assert_eq!(targets("name_*,vfs_*,!mod:*"), ["name_*,vfs_*"]);
        let refused = |text| functions().targets(text).is_err();
        assert!(refused("vfs_read,!vfs_*") && refused("nosuch_*,vfs_read"));
        let unknown = functions::tests::of("", "", "");
        assert_eq!(unknown.targets("vfs_*,!x").unwrap().texts, ["vfs_*,!x"]);
        assert!(unknown.targets("mod:*").is_err());
    }

    #[test]
    fn the_answer_has_only_what_the_user_chose() {
        let text = "{ func: [ffff] name_show } hitcount: 1\n{ func: [fffe] name_show [mod] } hitcount: 2\n";
        for (list, expected) in [
            ("mod:*", &[2][..]),
            ("name_*", &[1, 2]),
            ("name_*,!mod:*", &[1]),
            ("!mod:*", &[1]),
        ] {
            let targets = functions().targets(list).unwrap();
            let hist = hist::parse(text, &["func"], None);
            let hits: Vec<u64> = targets.rows(&hist).map(|row| row.hits).collect();
            assert_eq!(hits, expected, "{list}");
        }
    }
}
