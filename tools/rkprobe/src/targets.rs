// SPDX-License-Identifier: GPL-2.0

//! The targets of `f` probes for the functions that the user chooses: a name or a pattern each, without a module.

use std::collections::{
    BTreeSet,
    HashSet, //
};

use crate::{
    failure::{
        note,
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
        exclude,
        parse,
        split,
        Part, //
    }, //
};

/// The most patterns and names that one event probes by ftrace. Enabling each of them takes some time.
const MAX_TARGETS: usize = 64;

/// What `f` probes.
#[derive(Debug, PartialEq)]
pub struct Targets {
    /// Names and patterns. No function has two of them.
    pub texts: Vec<String>,
    /// The functions of the answer. `None` if all are in it.
    only: Option<HashSet<String>>,
}

impl Targets {
    /// All functions of these names and patterns.
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
    /// The targets of `f` probes for a list. Such a target has no module.
    pub fn targets(&self, text: &str) -> Result<Targets> {
        if self.awaited(text).is_some() {
            return Ok(Targets::all(vec![text.into()]));
        }
        let parts = parse(text)?;
        let is_simple = |part: &Part<'_>| !part.is_excluded && !part.text.contains(':');
        if let ([Part { text, .. }], true) = (&parts[..], parts.iter().all(is_simple)) {
            match is_pattern(text) {
                true if self.traceable().next().is_some() => {
                    drop(self.include(&parts, Method::Ftrace)?)
                }
                true => {}
                false => self.check(text, Method::Ftrace)?,
            }
            return Ok(Targets::all(vec![text.trim_end_matches("%all").into()]));
        }
        let included = self.include(&parts, Method::Ftrace)?;
        let texts: BTreeSet<&str> = parts.iter().map(|part| split(part.text).1).collect();
        let is_in_one = |symbol: &Symbol<'_>| {
            let found = texts.iter().filter(|text| matches(text, symbol.name));
            found.count() == 1
        };
        if parts.iter().all(is_simple) && included.iter().all(is_in_one) {
            return Ok(Targets::all(texts.into_iter().map(String::from).collect()));
        }
        let mut chosen = included.clone();
        exclude(&mut chosen, &parts);
        if chosen.is_empty() {
            return Err(Failure::new(format!("no function is left of {text}")));
        }
        let mut texts = match parts.iter().any(|part| is_pattern(part.text)) {
            true => self.patterns(&chosen),
            false => chosen.iter().map(|symbol| symbol.name.into()).collect(),
        };
        if texts.len() > MAX_TARGETS {
            note("rkprobe: what the list excludes is probed, too, because the list has too many exceptions");
            texts = self.patterns(&included);
        }
        if texts.len() > MAX_TARGETS {
            let count = texts.len();
            return Err(Failure::new(format!(
                "{text} needs {count} patterns, and at most {MAX_TARGETS} can be"
            )));
        }
        let only = chosen.iter().map(Symbol::to_string).collect();
        Ok(Targets {
            texts,
            only: Some(only),
        })
    }

    /// Patterns for functions, none of which has two of them. Others have none, unless they have the same name.
    fn patterns(&self, chosen: &BTreeSet<Symbol<'_>>) -> Vec<String> {
        let names: BTreeSet<&str> = chosen.iter().map(|symbol| symbol.name).collect();
        let others = self.traceable().map(|symbol| symbol.name);
        let others: BTreeSet<&str> = others.filter(|name| !names.contains(name)).collect();
        cover(
            &names.into_iter().collect::<Vec<_>>(),
            &others.into_iter().collect::<Vec<_>>(),
        )
    }
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
            targets("vfs_write,vfs_read,vfs_write"),
            ["vfs_read", "vfs_write"]
        );
        assert_eq!(targets("vfs_*,do_int3"), ["do_int3", "vfs_*"]);
        assert_eq!(targets("vfs_*,vfs_read"), ["vfs_*"]);
        assert_eq!(targets("vfs_*,!vfs_read"), ["vfs_write"]);
        assert_eq!(targets("!*_*"), ["copied.isra.0"]);
        assert_eq!(targets("mod:*"), ["mod_write", "name_show"]);
        assert_eq!(targets("mod:mod_write"), ["mod_write"]);
        let unknown = functions::tests::of("", "", "");
        assert_eq!(unknown.targets("vfs_*").unwrap().texts, ["vfs_*"]);
        assert!(unknown.targets("vfs_*,!vfs_read").is_err());
    }

    #[test]
    fn the_answer_has_only_what_the_user_chose() {
        let text = "{ func: [ffff] name_show } hitcount: 1\n{ func: [fffe] name_show [mod] } hitcount: 2\n";
        for (list, expected) in [("mod:*", &[2][..]), ("name_*", &[1, 2]), ("!mod:*", &[1])] {
            let targets = functions().targets(list).unwrap();
            let hist = hist::parse(text, &["func"], None);
            let hits: Vec<u64> = targets.rows(&hist).map(|row| row.hits).collect();
            assert_eq!(hits, expected, "{list}");
        }
    }
}
