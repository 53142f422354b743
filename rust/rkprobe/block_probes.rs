// SPDX-License-Identifier: GPL-2.0

//! Kprobes at the first instruction of each basic block of a function.

use core::mem;

use kernel::prelude::*;

use ktrace::{
    exits::{
        BadText,
        Block,
        ExitKind,
        Exits,
        UnknownBlocks,
        UnseenJump,
        IS_BUILT,
        KPROBE_JUMP, //
    },
    kprobe,
    symbol, //
};
use probe::{
    insn::route::{
        Node,
        Plan,
        Route, //
    },
    path::MAX_BLOCKS, //
};

/// Maximum number of attempts while the text of the function changes.
const TRIES: usize = 5;

/// The reason why the blocks of a function cannot be probed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The text of the function cannot be decoded.
    BadText(BadText),
    /// The function jumps to an unknown address. This is the address of the jump.
    UnknownJump(u64),
    /// The function has more blocks than [`MAX_BLOCKS`].
    TooMany,
    /// The target is not the entry of a function.
    Inside,
    /// This build has no decoder.
    NotBuilt,
    /// The kernel refuses a probe at the entry of the function, or has another error.
    Failed(Error),
}

impl<E> From<E> for Refusal
where
    Error: From<E>,
{
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Which blocks of a function get a probe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All.
    All,
    /// Those that are not [implied](probe::insn::route).
    Needed,
}

/// Whether a block has a probe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probing {
    /// It needs none.
    Implied,
    /// It has one.
    Probed,
    /// The kernel refuses it.
    Refused,
}

/// Registered probes on the blocks of a function. `P` is a batch of kprobes.
pub(crate) struct BlockProbes<P> {
    entry: usize,
    blocks: KVec<(Block, Probing)>,
    route: OwnedRoute,
    probes: P,
}

/// The memory of a [`Route`].
#[derive(Default)]
pub(crate) struct OwnedRoute {
    nodes: KVVec<Node>,
    firsts: KVVec<u64>,
}

impl OwnedRoute {
    /// The route.
    #[inline(always)]
    pub(crate) fn get(&self) -> Route<'_> {
        Route::of(&self.nodes, &self.firsts)
    }
}

/// The address of a target.
fn address_of(target: kprobe::Target<'_>) -> Result<usize> {
    match target {
        kprobe::Target::Symbol(name, offset) => {
            Ok(symbol::address_of(name)?.wrapping_add(offset as usize))
        }
        kprobe::Target::Address(address) => Ok(address),
    }
}

/// Whether the kernel must not replace the breakpoint of a probe at this target by a jump: see
/// [`Exits::forbid_jump`]. Process context; sleeps.
pub(crate) fn forbid_jump(target: kprobe::Target<'_>) -> Result<bool> {
    if KPROBE_JUMP == 0 || matches!(target, kprobe::Target::Symbol(_, 0)) {
        return Ok(false);
    }
    let address = address_of(target)?;
    if symbol::is_entry(address) != Some(false) {
        return Ok(false);
    }
    match Exits::find(address) {
        Ok(exits) => exits.forbid_jump(address),
        Err(error) if error == ENOMEM => Err(error),
        // The kernel refuses the probe, too, or this build has no decoder.
        Err(_) => Ok(false),
    }
}

/// Whether a probe on this block keeps the kernel from replacing it by a part of a jump.
///
/// On x86-64, the kernel replaces the breakpoint of a kprobe by a jump of five bytes, which can
/// reach into the next block. It does so only if no jump leads between these bytes, but it looks
/// for jumps only in the symbol of the kprobe, and not in parts that the compiler has moved away.
/// It never replaces an instruction that has a kprobe of its own. C: `can_optimize()`,
/// `arch_check_optimized_kprobe()`.
///
/// `far_targets` are those of the function: see [`Exits::far_targets`].
fn guards(blocks: &[Block], far_targets: &[u64], block: &Block) -> bool {
    let is_near = |before: &Block| {
        let distance = block.address.wrapping_sub(before.address);
        (1..KPROBE_JUMP).contains(&distance)
    };
    far_targets.contains(&block.address) && blocks.iter().any(is_near)
}

impl<P> BlockProbes<P> {
    /// Registers disabled probes on the wanted blocks of the function at `target`, if the kernel
    /// allows to probe them. `new` makes an empty batch, and `add` adds a probe on a block to it,
    /// with whether the probe must stay armed while others are, and the index of the block, counted
    /// from 0. Process context; sleeps.
    pub(crate) fn register_disabled(
        target: kprobe::Target<'_>,
        wanted: Wanted,
        new: impl Fn() -> Result<P>,
        add: impl Fn(&mut P, bool, usize, &Block) -> Result,
    ) -> Result<Self, Refusal> {
        if !IS_BUILT {
            return Err(Refusal::NotBuilt);
        }
        let mut before = Refusal::Failed(EAGAIN);
        for _ in 0..TRIES {
            match Self::place(target, wanted, new()?, &add) {
                Ok(probes) => return Ok(probes),
                // If two attempts have the same result, no code was changing the text.
                Err(refusal) if refusal == before && refusal != EAGAIN.into() => break,
                Err(refusal) => before = refusal,
            }
        }
        Err(before)
    }

    /// Registers the probes once. `EAGAIN` if the text changed during the call.
    fn place(
        target: kprobe::Target<'_>,
        wanted: Wanted,
        probes: P,
        add: &impl Fn(&mut P, bool, usize, &Block) -> Result,
    ) -> Result<Self, Refusal> {
        let address = address_of(target)?;
        if symbol::is_entry(address) != Some(true) {
            return Err(Refusal::Inside);
        }
        let exits = Exits::find(address)?;
        exits.verdict().map_err(Refusal::BadText)?;
        let mut found = exits.blocks()?.map_err(|unknown| match unknown {
            UnknownBlocks::Jump(address) => Refusal::UnknownJump(address),
            UnknownBlocks::Memory => Refusal::Failed(ENOMEM),
        })?;
        if found.len() > MAX_BLOCKS {
            return Err(Refusal::TooMany);
        }
        let mut this = Self {
            entry: exits.probe_entry(),
            blocks: KVec::with_capacity(found.len(), GFP_KERNEL)?,
            route: OwnedRoute::default(),
            probes,
        };
        if let Some(first) = found.first_mut() {
            first.address = this.entry as u64;
        }
        let far_targets = exits.far_targets()?.map_err(Refusal::BadText)?;
        let mut stays = KVec::with_capacity(found.len(), GFP_KERNEL)?;
        for block in &found {
            this.blocks.push((*block, Probing::Implied), GFP_KERNEL)?;
            stays.push(guards(&found, &far_targets, block), GFP_KERNEL)?;
        }
        let jumps = match wanted {
            Wanted::All => None,
            Wanted::Needed => exits.unseen_jumps()?,
        };
        match jumps {
            Some(jumps) => this.add_needed(&exits, &found, &jumps, &stays, add)?,
            None => {
                for (index, stays) in stays.into_iter().enumerate() {
                    this.add(index, stays, add)?;
                }
            }
        }
        // To register the kprobes, the kernel took `text_mutex`, so a change of the text before
        // them is complete and visible now.
        match exits.is_current()? {
            true => Ok(this),
            false => Err(EAGAIN.into()),
        }
    }

    /// Adds probes on the blocks that need one, or must stay armed. One that the kernel refuses can
    /// make others necessary.
    fn add_needed(
        &mut self,
        exits: &Exits,
        blocks: &[Block],
        jumps: &[UnseenJump],
        stays: &[bool],
        add: &impl Fn(&mut P, bool, usize, &Block) -> Result,
    ) -> Result {
        let len = blocks.len();
        let mut nodes = KVVec::from_elem(Node::EMPTY, len, GFP_KERNEL)?;
        let mut firsts = KVVec::from_elem(0, Route::words(len), GFP_KERNEL)?;
        let leaves = |block: &Block| {
            let mut left = exits
                .all()
                .iter()
                .filter(|exit| exit.kind != ExitKind::NoReturn);
            left.any(|exit| (block.address..=block.last).contains(&exit.address))
        };
        let mut plan = Plan::new(blocks, leaves, jumps, &mut nodes, &mut firsts).ok_or(EINVAL)?;
        for (index, _) in stays.iter().enumerate().filter(|(_, stays)| **stays) {
            plan.keep(index);
        }
        let mut is_complete = false;
        while !is_complete {
            is_complete = true;
            plan.choose();
            for (index, stays) in stays.iter().enumerate() {
                let is_open = { self.blocks.get(index) }
                    .is_some_and(|(_, probing)| *probing == Probing::Implied);
                if is_open && plan.route().needs_probe(index) {
                    match self.add(index, *stays, add)? {
                        Probing::Refused => {
                            plan.refuse(index);
                            is_complete = false;
                        }
                        _ => plan.keep(index),
                    }
                }
            }
        }
        self.route = OwnedRoute { nodes, firsts };
        Ok(())
    }

    /// Adds a probe on the block with this index, if the kernel allows it.
    fn add(
        &mut self,
        index: usize,
        stays: bool,
        add: &impl Fn(&mut P, bool, usize, &Block) -> Result,
    ) -> Result<Probing> {
        let (block, probing) = self.blocks.get_mut(index).ok_or(EINVAL)?;
        *probing = match add(&mut self.probes, stays, index, block) {
            Ok(()) => Probing::Probed,
            Err(error) if index == 0 || error == ENOMEM || error == EPERM => return Err(error),
            Err(_) => Probing::Refused,
        };
        Ok(*probing)
    }

    /// The blocks, and whether each one has a probe.
    pub(crate) fn blocks(&self) -> &[(Block, Probing)] {
        &self.blocks
    }

    /// The number of blocks on which the kernel refuses a probe.
    pub(crate) fn refused(&self) -> usize {
        let refused = self
            .blocks
            .iter()
            .filter(|(_, probing)| *probing == Probing::Refused);
        refused.count()
    }

    /// The address of the probe at the entry of the function.
    pub(crate) fn entry(&self) -> usize {
        self.entry
    }

    /// Takes the memory of the route, which the probes do not need.
    pub(crate) fn take_route(&mut self) -> OwnedRoute {
        mem::take(&mut self.route)
    }

    /// Converts the value to its probes.
    pub(crate) fn into_probes(self) -> P {
        self.probes
    }

    /// The probes.
    pub(crate) fn probes(&self) -> &P {
        &self.probes
    }
}
