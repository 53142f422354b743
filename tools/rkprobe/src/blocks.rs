// SPDX-License-Identifier: GPL-2.0

//! The basic blocks of functions, from the kernel.

use std::collections::BTreeSet;

use crate::{
    analysis::Analysis,
    context::Context,
    failure::Result, //
};

const FILE: &str = "rkprobe_blocks";
/// What a module without a decoder lacks.
const LACKING: &str = "the module cannot find blocks";

/// A basic block of a function.
#[derive(Debug, PartialEq)]
pub struct Block {
    /// `FUNCTION+OFFSET`, or `FUNCTION.cold+OFFSET`.
    pub place: String,
    /// The places of the blocks that can follow.
    pub next: Vec<String>,
    pub is_probed: bool,
}

/// A function and its blocks.
pub struct Function {
    /// As the user writes it.
    pub name: String,
    pub module: String,
    /// In the order of the file.
    pub blocks: Vec<Block>,
}

impl Function {
    /// The name without a module.
    pub fn short_name(&self) -> &str {
        self.name.rsplit(':').next().unwrap_or(&self.name)
    }

    /// The name as records have it.
    pub fn symbol(&self) -> String {
        match &*self.module {
            "" => self.name.clone(),
            module => format!("{} [{module}]", self.short_name()),
        }
    }

    /// The place of a block as the kernel prints it, without the size of the function.
    pub fn full_place(&self, place: &str) -> String {
        match &*self.module {
            "" => place.into(),
            module => format!("{place} [{module}]"),
        }
    }

    /// The block that a path has at this place.
    pub fn block(&self, short: &str) -> Option<&Block> {
        let mut blocks = self.blocks.iter();
        blocks.find(|block| self.short_place(&block.place) == short)
    }

    /// The places of the blocks that can follow a block, as a path has them.
    pub fn next(&self, short: &str) -> Vec<String> {
        let next = self.block(short).into_iter().flat_map(|block| &block.next);
        next.map(|place| self.short_place(place).into()).collect()
    }

    /// The full place of a block, and the place of the next one in the file, where its code ends.
    pub fn range(&self, short: &str) -> Option<(String, Option<&str>)> {
        let mut places = self.blocks.iter().map(|block| &*block.place);
        let place = places.find(|place| self.short_place(place) == short)?;
        Some((self.full_place(place), places.next()))
    }

    /// The places of all blocks that a call can come to after a block. All blocks if this block is unknown.
    pub fn all_after(&self, short: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        if self.block(short).is_none() {
            let all = self.blocks.iter();
            return all
                .map(|block| self.short_place(&block.place).into())
                .collect();
        }
        let mut left = self.next(short);
        while let Some(place) = left.pop() {
            if !found.contains(&place) {
                left.extend(self.next(&place));
                found.insert(place);
            }
        }
        found
    }

    /// The place of a block as a path has it: without the name of the function.
    pub fn short_place<'p>(&self, place: &'p str) -> &'p str {
        place.strip_prefix(self.short_name()).unwrap_or(place)
    }
}

/// Parses the answer of the kernel about a function. Empty if its blocks are unknown.
pub fn parse(text: &str) -> Vec<Block> {
    let is_known = text.lines().any(|line| line.starts_with("blocks: "));
    let blocks = text.lines().filter(|line| !line.starts_with("blocks: "));
    let block = |line: &str| {
        let (places, gap) = line.split_once("; not probed").unzip();
        let (place, next) = places.unwrap_or(line).split_once(" -> ").unzip();
        Block {
            place: place.or(places).unwrap_or(line).into(),
            next: { next.unwrap_or("").split_whitespace() }
                .map(String::from)
                .collect(),
            is_probed: gap.is_none(),
        }
    };
    blocks.filter(|_| is_known).map(block).collect()
}

/// Checks that the module can find blocks.
pub fn check(context: &Context) -> Result {
    Analysis::open(&context.tracefs, FILE, LACKING).map(drop)
}

/// Asks the kernel for the blocks of functions. If the run is dry, they have none.
pub fn find(context: &Context, names: Vec<String>) -> Result<Vec<Function>> {
    let tracefs = &context.tracefs;
    let analysis = Analysis::open(tracefs, FILE, LACKING)?;
    let ask = |name: String| -> Result<Function> {
        let blocks = match tracefs.is_dry() {
            true => Vec::new(),
            false => parse(&analysis.ask(&name)?),
        };
        let module = context.functions.module_of(&name).unwrap_or_default();
        Ok(Function {
            name,
            module,
            blocks,
        })
    };
    names.into_iter().map(ask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_successors_and_gaps() {
        let text = "f+0x4 -> f+0x10 f+0x20\nf+0x10\nf+0x20; not probed: a reason\n\
            f.cold+0x0 -> f+0x10; not probed: x\nblocks: 4, 2 can be probed\n";
        let block = |place: &str, next: &[&str], is_probed| Block {
            place: place.into(),
            next: next.iter().map(|place| (*place).into()).collect(),
            is_probed,
        };
        assert_eq!(
            parse(text),
            [
                block("f+0x4", &["f+0x10", "f+0x20"], true),
                block("f+0x10", &[], true),
                block("f+0x20", &[], false),
                block("f.cold+0x0", &["f+0x10"], false),
            ]
        );
    }

    #[test]
    fn a_block_ends_where_the_next_one_begins() {
        let function = Function {
            name: "m:f".into(),
            module: "m".into(),
            blocks: parse("f+0x4\nf+0x10\nf.cold+0x0\nblocks: 3, 3 can be probed\n"),
        };
        let range = |short| function.range(short);
        assert_eq!(range("+0x4"), Some(("f+0x4 [m]".into(), Some("f+0x10"))));
        assert_eq!(
            range("+0x10"),
            Some(("f+0x10 [m]".into(), Some("f.cold+0x0")))
        );
        assert_eq!(range(".cold+0x0"), Some(("f.cold+0x0 [m]".into(), None)));
        assert_eq!(range("+0x5"), None);
    }

    #[test]
    fn unknown_blocks_are_none() {
        assert!(parse("not understood: f+0x1 jumps to an unknown address\n").is_empty());
        assert!(parse("too many blocks\n").is_empty());
    }

    #[test]
    fn places_have_their_module() {
        let function = Function {
            name: "m:f".into(),
            module: "m".into(),
            blocks: Vec::new(),
        };
        assert_eq!(function.symbol(), "f [m]");
        assert_eq!(function.full_place("f.cold+0x1"), "f.cold+0x1 [m]");
        assert_eq!(function.short_place("f.cold+0x1"), ".cold+0x1");
    }
}
