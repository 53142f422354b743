// SPDX-License-Identifier: GPL-2.0

//! The functions, inlined copies and blocks of a compilation unit, and the variables in them, by the debug information.

use std::ops::Range;

use gimli::{
    AttributeValue,
    DwTag,
    Dwarf,
    Unit,
    UnitOffset, //
};

use crate::dwarf::{
    original,
    Bytes,
    Entry, //
};

/// A function, an inlined copy of one, or a block.
#[derive(Debug)]
pub struct Scope {
    pub entry: UnitOffset,
    pub tag: DwTag,
    /// The scope around it, as its position among all.
    pub parent: Option<usize>,
    /// Its code. Empty for a description that copies refer to.
    pub ranges: Vec<Range<u64>>,
    /// Where it begins.
    pub start: Option<u64>,
    /// What it is a copy of.
    pub original: Option<UnitOffset>,
    /// The file and the line of the call whose place the copy takes.
    pub call: Option<(u64, u64)>,
    /// Its variables and parameters, in their order.
    pub variables: Vec<UnitOffset>,
}

impl Scope {
    /// Whether it is a function, or a copy of one.
    fn is_function(&self) -> bool {
        self.tag != gimli::DW_TAG_lexical_block
    }

    fn contains(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }
}

/// All scopes of a unit. A scope comes before those in it.
pub struct Scopes(Vec<Scope>);

impl Scopes {
    pub fn of(dwarf: &Dwarf<Bytes<'_>>, unit: &Unit<Bytes<'_>>) -> gimli::Result<Self> {
        let mut all: Vec<Scope> = Vec::new();
        // The depth of each scope around the entry.
        let mut around: Vec<(isize, usize)> = Vec::new();
        let mut depth = 0;
        let mut entries = unit.entries();
        while let Some((down, entry)) = entries.next_dfs()? {
            depth += down;
            around.retain(|(above, _)| *above < depth);
            let parent = around.last();
            match entry.tag() {
                tag @ (gimli::DW_TAG_subprogram
                | gimli::DW_TAG_inlined_subroutine
                | gimli::DW_TAG_lexical_block) => {
                    let parent = parent.map(|(_, scope)| *scope);
                    around.push((depth, all.len()));
                    let ranges = ranges(dwarf, unit, entry)?;
                    all.push(Scope {
                        entry: entry.offset(),
                        tag,
                        parent,
                        start: start(dwarf, unit, entry, &ranges)?,
                        ranges,
                        original: original(entry)?,
                        call: call(entry)?,
                        variables: Vec::new(),
                    });
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    // Members of types have other parents.
                    if let Some((_, scope)) = parent.filter(|(above, _)| above + 1 == depth) {
                        all[*scope].variables.push(entry.offset());
                    }
                }
                _ => {}
            }
        }
        Ok(Self(all))
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &Scope)> {
        self.0.iter().enumerate()
    }

    pub fn get(&self, scope: usize) -> &Scope {
        &self.0[scope]
    }

    /// The scope of an entry.
    pub fn with_entry(&self, entry: UnitOffset) -> Option<&Scope> {
        let position = self.0.binary_search_by_key(&entry, |scope| scope.entry);
        position.ok().map(|position| &self.0[position])
    }

    /// The innermost scope with the code at an address.
    pub fn innermost(&self, address: u64) -> Option<usize> {
        self.0.iter().rposition(|scope| scope.contains(address))
    }

    /// A scope and all around it, the innermost first.
    pub fn around(&self, scope: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(scope), |scope| self.0[*scope].parent)
    }

    /// The function, or the copy of one, that a scope belongs to.
    pub fn function(&self, scope: usize) -> Option<usize> {
        self.around(scope)
            .find(|scope| self.0[*scope].is_function())
    }

    /// The function whose code has a scope.
    pub fn holder(&self, scope: usize) -> Option<usize> {
        let is_whole = |scope: &usize| self.0[*scope].tag == gimli::DW_TAG_subprogram;
        self.around(scope).find(is_whole)
    }

    /// The innermost scope around this one that is in no inlined copy.
    pub fn of_holder(&self, scope: usize) -> usize {
        let holder = self.holder(scope);
        let mut around = self.around(scope);
        let found = around.find(|scope| self.function(*scope) == holder);
        found.unwrap_or(scope)
    }

    /// The scopes whose variables have their names at a place in this scope, the innermost first: as in C, those up to
    /// the function.
    pub fn visible(&self, scope: usize) -> Vec<usize> {
        let function = self.function(scope);
        let mut visible = Vec::new();
        for scope in self.around(scope) {
            visible.push(scope);
            if Some(scope) == function {
                break;
            }
        }
        visible
    }
}

fn ranges(
    dwarf: &Dwarf<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
    entry: &Entry<'_, '_>,
) -> gimli::Result<Vec<Range<u64>>> {
    let mut all = Vec::new();
    let mut ranges = dwarf.die_ranges(unit, entry)?;
    while let Some(range) = ranges.next()? {
        // The linker gives the address 0 to what it removes.
        if range.begin > 0 && range.begin < range.end {
            all.push(range.begin..range.end);
        }
    }
    Ok(all)
}

/// The file and the line of the call whose place a copy takes.
fn call(entry: &Entry<'_, '_>) -> gimli::Result<Option<(u64, u64)>> {
    let file = match entry.attr_value(gimli::DW_AT_call_file)? {
        Some(AttributeValue::FileIndex(file)) => Some(file),
        _ => None,
    };
    let line = entry.attr_value(gimli::DW_AT_call_line)?;
    Ok(file.zip(line.and_then(|line| line.udata_value())))
}

/// The entry of a scope, or where its code begins.
fn start(
    dwarf: &Dwarf<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
    entry: &Entry<'_, '_>,
    ranges: &[Range<u64>],
) -> gimli::Result<Option<u64>> {
    let first = ranges.first().map(|range| range.start);
    let known = match entry.attr_value(gimli::DW_AT_entry_pc)? {
        // Relative to the start.
        Some(AttributeValue::Udata(offset)) => first.and_then(|first| first.checked_add(offset)),
        Some(value) => dwarf.attr_address(unit, value)?,
        None => None,
    };
    Ok(known.or(first))
}
