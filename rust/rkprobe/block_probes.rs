// SPDX-License-Identifier: GPL-2.0

//! Kprobes at the first instruction of each basic block of a function.

use kernel::prelude::*;

use ktrace::{
    exits::{
        BadText,
        Block,
        Exits,
        UnknownBlocks,
        IS_BUILT, //
    },
    kprobe,
    symbol, //
};
use probe::path::MAX_BLOCKS;

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

/// Registered probes on the blocks of a function. `P` is a batch of kprobes.
pub(crate) struct BlockProbes<P> {
    entry: usize,
    /// The blocks, and whether the kernel allows a probe on each one.
    blocks: KVec<(Block, bool)>,
    probes: P,
}

impl<P> BlockProbes<P> {
    /// Registers disabled probes on all blocks of the function at `target` that the kernel allows
    /// to probe. `new` makes an empty batch, and `add` adds a probe on a block to it, with the
    /// address of the probe at the entry, and the index of the block, counted from 0.
    /// Process context; sleeps.
    pub(crate) fn register_disabled(
        target: kprobe::Target<'_>,
        new: impl Fn() -> Result<P>,
        add: impl Fn(&mut P, usize, usize, &Block) -> Result,
    ) -> Result<Self, Refusal> {
        if !IS_BUILT {
            return Err(Refusal::NotBuilt);
        }
        let mut before = Refusal::Failed(EAGAIN);
        for _ in 0..TRIES {
            match Self::place(target, new()?, &add) {
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
        probes: P,
        add: &impl Fn(&mut P, usize, usize, &Block) -> Result,
    ) -> Result<Self, Refusal> {
        let address = match target {
            kprobe::Target::Symbol(name, offset) => {
                symbol::address_of(name)?.wrapping_add(offset as usize)
            }
            kprobe::Target::Address(address) => address,
        };
        if symbol::is_entry(address) != Some(true) {
            return Err(Refusal::Inside);
        }
        let exits = Exits::find(address)?;
        exits.verdict().map_err(Refusal::BadText)?;
        let found = exits.blocks()?.map_err(|unknown| match unknown {
            UnknownBlocks::Jump(address) => Refusal::UnknownJump(address),
            UnknownBlocks::Memory => Refusal::Failed(ENOMEM),
        })?;
        if found.len() > MAX_BLOCKS {
            return Err(Refusal::TooMany);
        }
        let mut this = Self {
            entry: exits.probe_entry(),
            blocks: KVec::with_capacity(found.len(), GFP_KERNEL)?,
            probes,
        };
        for (index, mut block) in found.into_iter().enumerate() {
            if index == 0 {
                block.address = this.entry as u64;
            }
            let is_probed = match add(&mut this.probes, this.entry, index, &block) {
                Ok(()) => true,
                Err(error) if index == 0 || error == ENOMEM || error == EPERM => {
                    return Err(error.into());
                }
                Err(_) => false,
            };
            this.blocks.push((block, is_probed), GFP_KERNEL)?;
        }
        // To register the kprobes, the kernel took `text_mutex`, so a change of the text before
        // them is complete and visible now.
        match exits.is_current()? {
            true => Ok(this),
            false => Err(EAGAIN.into()),
        }
    }

    /// The blocks, and whether the kernel allows a probe on each one.
    pub(crate) fn blocks(&self) -> &[(Block, bool)] {
        &self.blocks
    }

    /// The number of blocks on which the kernel allows a probe.
    pub(crate) fn probed(&self) -> usize {
        let probed = self.blocks.iter().filter(|(_, is_probed)| *is_probed);
        probed.count()
    }

    /// The address of the probe at the entry of the function.
    pub(crate) fn entry(&self) -> usize {
        self.entry
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
