// SPDX-License-Identifier: GPL-2.0

//! Functions that exist only as copies in other functions, by the debug information.
//!
//! BTF does not know them: it describes the functions that have symbols.

use std::collections::HashSet;

use gimli::{
    AttributeValue,
    Dwarf,
    Unit, //
};

use crate::{
    debug_files::Origin,
    dwarf::{
        name,
        Bytes,
        Entry,
        Information,
        Mentions, //
    },
    scopes::Scopes, //
};

/// What to find.
pub struct Question<'q> {
    pub function: &'q str,
    /// Which functions can be in the answer.
    pub is_wanted: &'q dyn Fn(&str) -> bool,
    /// How many functions end the search.
    pub most: usize,
}

impl Question<'_> {
    /// The functions that contain copies of a function. `module` is empty for the kernel. `None` if
    /// the debug information does not say that the compiler inlined the function. If there is none,
    /// the error says how to get it.
    pub fn ask(&self, module: &str) -> Result<Option<Vec<String>>, String> {
        let information = Information::open(module, Origin::Here);
        let information = information.map_err(|error| match error.split_once(": ") {
            Some((_, advice)) => advice.into(),
            None => error,
        })?;
        Ok(self.ask_information(&information))
    }

    fn ask_information(&self, debug: &Information) -> Option<Vec<String>> {
        let dwarf = debug.dwarf().ok()?;
        let mentions = Mentions::of(debug, self.function);
        let mut is_inlined = false;
        let mut found = Vec::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next().ok()? {
            let unit = dwarf.unit(header).ok()?;
            if !mentions.are_in(debug, &unit) {
                continue;
            }
            is_inlined |= self.search(&dwarf, &unit, &mut found).ok()?;
            if found.len() >= self.most {
                break;
            }
        }
        is_inlined.then_some(found)
    }

    /// Adds the functions of a unit that contain copies. Returns whether the unit has the function as an inlined one.
    fn search(
        &self,
        dwarf: &Dwarf<Bytes<'_>>,
        unit: &Unit<Bytes<'_>>,
        found: &mut Vec<String>,
    ) -> gimli::Result<bool> {
        let scopes = Scopes::of(dwarf, unit)?;
        let mut inlined = HashSet::new();
        for (_, scope) in scopes.iter() {
            if scope.tag == gimli::DW_TAG_subprogram {
                let entry = unit.entry(scope.entry)?;
                if is_inline(&entry)? && name(dwarf, unit, &entry)? == Some(self.function) {
                    inlined.insert(scope.entry);
                }
            }
        }
        let copies = scopes.iter().filter(|(_, scope)| {
            let is_copy = scope.tag == gimli::DW_TAG_inlined_subroutine;
            is_copy && scope.original.is_some_and(|of| inlined.contains(&of))
        });
        for function in copies.filter_map(|(index, _)| scopes.holder(index)) {
            let name = name(dwarf, unit, &unit.entry(scopes.get(function).entry)?)?;
            let Some(name) = name.filter(|name| (self.is_wanted)(name)) else {
                continue;
            };
            if found.len() < self.most && !found.iter().any(|other| other == name) {
                found.push(name.into());
            }
        }
        Ok(!inlined.is_empty())
    }
}

fn is_inline(entry: &Entry<'_, '_>) -> gimli::Result<bool> {
    let value = entry.attr_value(gimli::DW_AT_inline)?;
    Ok(matches!(
        value,
        Some(AttributeValue::Inline(
            gimli::DW_INL_inlined | gimli::DW_INL_declared_inlined
        ))
    ))
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        fs, //
    };

    use object::Object;

    use super::*;

    #[inline(always)]
    fn rkprobe_copied(number: u32) -> u32 {
        std::hint::black_box(number) + 1
    }

    /// This test is a program with debug information, and these are some of its functions.
    #[inline(never)]
    fn rkprobe_holder_of_copies(number: u32) -> u32 {
        rkprobe_copied(rkprobe_copied(number))
    }

    #[inline(never)]
    fn rkprobe_other_holder(number: u32) -> u32 {
        rkprobe_copied(number)
    }

    #[test]
    fn finds_the_functions_that_contain_copies() {
        assert_eq!(rkprobe_holder_of_copies(1) + rkprobe_other_holder(1), 5);
        let path = env::current_exe().unwrap();
        let bytes = fs::read(&path).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let id = object.build_id().unwrap().unwrap();
        let ask = |function: &str, most, except: &str| {
            let question = Question {
                function,
                is_wanted: &|name| name != except,
                most,
            };
            let found = question.ask_information(&Information::read(&path, id).unwrap());
            found.map(|mut names| {
                names.sort();
                names.join(" ")
            })
        };
        let both = "rkprobe_holder_of_copies rkprobe_other_holder";
        assert_eq!(ask("rkprobe_copied", 3, "").as_deref(), Some(both));
        let one = ask("rkprobe_copied", 3, "rkprobe_holder_of_copies");
        assert_eq!(one.as_deref(), Some("rkprobe_other_holder"));
        assert!(!ask("rkprobe_copied", 1, "").unwrap().contains(' '));
        assert_eq!(ask("rkprobe_other_holder", 3, ""), None);
        assert_eq!(ask("rkprobe_no_such_function", 3, ""), None);
        assert!(Information::read(&path, &id[1..]).is_none());
    }
}
