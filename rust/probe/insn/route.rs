// SPDX-License-Identifier: GPL-2.0

//! Finds out which basic blocks of a function need a probe, so that the hits of a call tell all
//! blocks that it came through.
//!
//! A block is *implied* if its visits follow from those of other blocks. After an `if` without an
//! `else`, the join is implied, and of two branches one is. Such a block needs no probe: between
//! two hits of a call, [`Route::implied`] names the implied blocks that it came through.
//!
//! No block of a loop is implied, and none that follows such a block directly, because a path has
//! only the first visit of a block. Each other block runs at most once in a call. It can be implied
//! if the next hit always tells whether the call came through it: the first probed blocks after it
//! must be different from those after every other block to which its predecessors lead.
//!
//! # Examples
//!
//! ```
//! use probe::insn::{
//!     blocks::Block,
//!     route::{
//!         Node,
//!         Plan, //
//!     }, //
//! };
//!
//! let block = |address, next, target| Block { address, last: address, next, target };
//! // if (a) b(); return;
//! let blocks = [block(0, Some(1), Some(2)), block(1, Some(2), None), block(2, None, None)];
//! let (mut nodes, mut firsts) = ([const { Node::EMPTY }; 3], [0; 3]);
//!
//! let leaves = |block: &Block| block.address == 2;
//! let mut plan = Plan::new(&blocks, leaves, &[], &mut nodes, &mut firsts).unwrap();
//! plan.choose();
//! assert_eq!([0, 1, 2].map(|index| plan.route().needs_probe(index)), [true, true, false]);
//! // At the return, the call has come through the join.
//! assert_eq!(plan.route().implied(1, None), Some(2));
//! ```

use core::ops::Range;

use super::blocks::Block;

/// A jump that the text of a function does not show: the kernel makes a call go on elsewhere after
/// a fault, or it replaces an instruction by a jump or a jump by none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnseenJump {
    /// The address of the instruction that faults or is replaced.
    pub from: u64,
    /// Where the call goes on.
    pub to: u64,
}

impl UnseenJump {
    /// Whether the jump begins in this block.
    fn is_from(self, block: &Block) -> bool {
        (block.address..=block.last).contains(&self.from)
    }

    /// Whether a call can come to this block by the jump, or because the jump is no longer there.
    fn is_to(self, block: &Block) -> bool {
        const LONGEST: u64 = 5;

        let behind = self.from..=self.from.saturating_add(LONGEST);
        (block.address..=block.last).contains(&self.to) || behind.contains(&block.address)
    }
}

/// The index of no block.
const NONE: u16 = u16::MAX;

/// A block in the graph of its function.
#[derive(Clone, Debug)]
pub struct Node {
    /// The indices of the blocks that can follow, or [`NONE`].
    successors: [u16; 2],
    /// Whether a call can end with this block.
    leaves: bool,
    /// Whether the block is not implied in any plan.
    is_fixed: bool,
    is_implied: bool,
    /// Whether a successor is implied.
    is_before_implied: bool,
    /// Whether it is decided if the block is implied.
    is_decided: bool,
}

impl Node {
    /// A node for the memory of a [`Plan`].
    pub const EMPTY: Self = Self {
        successors: [NONE; 2],
        leaves: false,
        is_fixed: false,
        is_implied: false,
        is_before_implied: false,
        is_decided: false,
    };

    /// The indices of the blocks that can follow.
    fn successors(&self) -> impl Iterator<Item = u16> {
        self.successors.into_iter().filter(|index| *index != NONE)
    }

    fn leads_to(&self, index: u16) -> bool {
        self.successors.contains(&index)
    }
}

/// The blocks of a function, and which of them are implied.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    nodes: &'a [Node],
    /// For each implied block, a bit for each block that can be the next hit after it. The last bit
    /// is the end of the call.
    firsts: &'a [u64],
}

impl<'a> Route<'a> {
    /// The number of words of the memory for a function with this number of blocks.
    pub const fn words(blocks: usize) -> usize {
        blocks.wrapping_mul(row(blocks))
    }

    /// The route with the memory of a [`Plan`].
    pub const fn of(nodes: &'a [Node], firsts: &'a [u64]) -> Self {
        Self { nodes, firsts }
    }

    /// Whether the block with this index is not implied.
    pub fn needs_probe(self, index: usize) -> bool {
        self.nodes.get(index).is_none_or(|node| !node.is_implied)
    }

    /// The implied block that a call came through right after the block `before`, if the block
    /// `next` was hit next, or `None` if the call ended. To get all blocks in between, call it
    /// again with the block that it returns. Each call returns a later block, so this ends. Any
    /// context.
    #[inline(always)]
    pub fn implied(self, before: u16, next: Option<u16>) -> Option<u16> {
        let node = self.nodes.get(usize::from(before))?;
        if !node.is_before_implied {
            return None;
        }
        self.implied_successor(node, next.map_or(self.nodes.len(), usize::from))
    }

    #[inline(never)]
    fn implied_successor(self, node: &Node, next: usize) -> Option<u16> {
        let mut successors = node.successors();
        successors.find(|&successor| {
            let is_implied = !self.needs_probe(successor.into());
            is_implied && self.can_be_hit_after(successor, next)
        })
    }

    /// Whether `next` can be the first hit after this implied block.
    fn can_be_hit_after(self, implied: u16, next: usize) -> bool {
        let row = row(self.nodes.len()).wrapping_mul(implied.into());
        let word = self.firsts.get(row.wrapping_add(next / 64));
        word.is_some_and(|word| word >> (next % 64) & 1 != 0)
    }
}

/// The number of words for one bit for each block and one for the end of the call.
const fn row(blocks: usize) -> usize {
    (blocks / u64::BITS as usize).wrapping_add(1)
}

/// The choice of the blocks that need a probe.
#[derive(Debug)]
pub struct Plan<'a> {
    blocks: &'a [Block],
    nodes: &'a mut [Node],
    firsts: &'a mut [u64],
}

impl<'a> Plan<'a> {
    /// Plans for the blocks of a function. The first one is its entry. `leaves` tells
    /// whether a call can end with a block: one that never returns leads to nothing. `jumps` may be
    /// of other functions, too.
    ///
    /// `nodes` must have a node for each block, [`Node::EMPTY`], and `firsts`
    /// [`words`](Route::words), all 0. `None` if it has not, or if there are as many blocks as
    /// `u16` has values. Process context.
    pub fn new(
        blocks: &'a [Block],
        leaves: impl Fn(&Block) -> bool,
        jumps: &[UnseenJump],
        nodes: &'a mut [Node],
        firsts: &'a mut [u64],
    ) -> Option<Self> {
        let is_right = nodes.len() == blocks.len() && firsts.len() == Route::words(blocks.len());
        if !is_right || blocks.len() >= NONE.into() {
            return None;
        }
        let index = |address: Option<u64>| {
            let mut others = blocks.iter();
            let found = others.position(|block| Some(block.address) == address);
            found.map_or(NONE, |index| index as u16)
        };
        for (node, block) in nodes.iter_mut().zip(blocks) {
            node.successors = [index(block.next), index(block.target)];
            node.leaves = leaves(block);
        }
        let mut this = Self {
            blocks,
            nodes,
            firsts,
        };
        this.fix(0);
        for jump in jumps {
            for (index, block) in (0..).zip(blocks) {
                if jump.is_from(block) {
                    this.isolate(index);
                }
                if jump.is_to(block) {
                    this.fix(index);
                }
            }
        }
        this.fix_loops(jumps);
        for index in this.indices() {
            // A call comes to a block without predecessors in a way that the text does not show.
            if this.before(index).next().is_none() {
                this.fix(index);
            }
        }
        Some(this)
    }

    /// The plan as it is.
    pub fn route(&self) -> Route<'_> {
        Route::of(self.nodes, self.firsts)
    }

    /// Takes into account that the block with this index needs a probe, but cannot have one. All
    /// blocks around it are probed then, so that nothing is concluded from the missing hit. Has an
    /// effect on the next [`choose`](Self::choose).
    pub fn refuse(&mut self, index: usize) {
        let index = index as u16;
        self.isolate(index);
        for other in self.indices() {
            if self.node(other).leads_to(index) {
                self.isolate(other);
            }
        }
    }

    /// Takes into account that a block has a probe already.
    pub fn keep(&mut self, index: usize) {
        self.fix(index as u16);
    }

    /// Chooses the blocks that are implied. Blocks that a plan did not imply can be implied in the
    /// next one, unless they are [kept](Self::keep).
    pub fn choose(&mut self) {
        for node in &mut *self.nodes {
            node.is_implied = false;
            node.is_decided = node.is_fixed;
        }
        // Most jumps go to a higher address, so a few rounds are enough. Blocks that are not fixed
        // form no loop, so each round decides at least one.
        let mut is_complete = false;
        while !is_complete {
            is_complete = true;
            for index in self.indices().rev() {
                let mut successors = self.node(index).successors();
                if !self.node(index).is_decided && successors.all(|next| self.node(next).is_decided)
                {
                    self.decide(index);
                    is_complete = false;
                }
            }
        }
        for index in self.indices() {
            let mut successors = self.node(index).successors();
            let is_before_implied = successors.any(|next| self.node(next).is_implied);
            self.change(index, |node| node.is_before_implied = is_before_implied);
        }
    }

    /// Decides whether a block is implied. The successors are decided.
    fn decide(&mut self, index: u16) {
        for word in 0..self.row() {
            let firsts = self.firsts_after(self.node(index), NONE, word);
            self.set_word(index, word, firsts);
        }
        let is_certain = self.before(index).all(|before| {
            (0..self.row())
                .all(|word| self.word(index, word) & self.firsts_after(before, index, word) == 0)
        });
        self.change(index, |node| {
            node.is_implied = is_certain;
            node.is_decided = true;
        });
    }

    /// The blocks that can be the next hit after this one, if the call does not go to the successor
    /// `except`: a word of a row.
    fn firsts_after(&self, node: &Node, except: u16, word: usize) -> u64 {
        let successors = node.successors().filter(|next| *next != except);
        let firsts = successors.map(|next| match self.node(next).is_implied {
            true => self.word(next, word),
            false => bit(next.into(), word),
        });
        let end = match node.leaves {
            true => bit(self.nodes.len(), word),
            false => 0,
        };
        firsts.fold(end, |all, firsts| all | firsts)
    }

    /// Fixes the blocks of loops, and those that follow directly.
    fn fix_loops(&mut self, jumps: &[UnseenJump]) {
        // Collects in the rows the blocks to which each block leads.
        let mut is_complete = false;
        while !is_complete {
            is_complete = true;
            for index in self.indices().rev() {
                let [next, target] = self.node(index).successors;
                is_complete &= !(self.add_reached(index, next) | self.add_reached(index, target));
            }
            for jump in jumps {
                for (from, _) in (0..)
                    .zip(self.blocks)
                    .filter(|(_, block)| jump.is_from(block))
                {
                    for (to, _) in (0..)
                        .zip(self.blocks)
                        .filter(|(_, block)| jump.is_to(block))
                    {
                        is_complete &= !self.add_reached(from, to);
                    }
                }
            }
        }
        for index in self.indices() {
            if self.route().can_be_hit_after(index, index.into()) {
                self.isolate(index);
            }
        }
        self.firsts.fill(0);
    }

    /// Adds `to` and the blocks to which it leads to those to which `from` leads. Whether there was
    /// a new one.
    fn add_reached(&mut self, from: u16, to: u16) -> bool {
        (0..self.row()).fold(false, |is_new, word| {
            let before = self.word(from, word);
            let all = before | bit(to.into(), word) | self.word(to, word);
            self.set_word(from, word, all);
            is_new | (all != before)
        })
    }

    fn indices(&self) -> Range<u16> {
        0..self.nodes.len() as u16
    }

    fn node(&self, index: u16) -> &Node {
        self.nodes.get(usize::from(index)).unwrap_or(&Node::EMPTY)
    }

    fn change(&mut self, index: u16, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(usize::from(index)) {
            change(node);
        }
    }

    /// The blocks that this one can follow.
    fn before(&self, index: u16) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.leads_to(index))
    }

    fn fix(&mut self, index: u16) {
        self.change(index, |node| node.is_fixed = true);
    }

    /// Fixes a block and its successors.
    fn isolate(&mut self, index: u16) {
        let [first, second] = self.node(index).successors;
        [index, first, second].map(|index| self.fix(index));
    }

    fn row(&self) -> usize {
        row(self.nodes.len())
    }

    fn word(&self, index: u16, word: usize) -> u64 {
        let at = self.row().wrapping_mul(index.into()).wrapping_add(word);
        self.firsts.get(at).copied().unwrap_or(0)
    }

    fn set_word(&mut self, index: u16, word: usize, value: u64) {
        let at = self.row().wrapping_mul(index.into()).wrapping_add(word);
        if let Some(word) = self.firsts.get_mut(at) {
            *word = value;
        }
    }
}

/// The bit of a block, in this word of a row.
const fn bit(index: usize, word: usize) -> u64 {
    if index / 64 == word {
        1 << (index % 64)
    } else {
        0
    }
}
