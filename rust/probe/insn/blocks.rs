// SPDX-License-Identifier: GPL-2.0

//! Finds the basic blocks of a function.
//!
//! A block starts at the entry of the function, at the start of another part, at the target of a
//! jump, after a jump, a return or a trap, and at a landing pad. So it runs as a whole, or not at
//! all, as long as every call in it returns and no instruction in it faults. Padding after a jump,
//! a return or a trap belongs to no block.
//!
//! The running text counts. If the kernel switches a jump label later, the text has other blocks.
//! Code at which the kernel continues after a fault usually follows a jump, so it is a block of its
//! own. No block names it as a successor.
//!
//! If the function jumps to an address in a register or in memory, its blocks are unknown, because
//! the jump may lead into the function.
//!
//! # Examples
//!
//! ```
//! use probe::insn::{
//!     blocks::{
//!         Block,
//!         Blocks, //
//!     },
//!     exits::{
//!         Destination,
//!         Part,
//!         SweptFunction, //
//!     },
//!     x86::X86, //
//! };
//!
//! // test %edi,%edi; je 1f; ret; int3; 1: push %rbx; ret
//! let text = [0x85, 0xff, 0x74, 0x02, 0xc3, 0xcc, 0x53, 0xc3];
//! let parts = [Part { address: 0x1000, text: &text }];
//! let words = SweptFunction::<X86>::words(&parts);
//! let (mut starts, mut targets) = (vec![0; words], vec![0; words]);
//! let function = SweptFunction::<X86>::sweep(&parts, &mut starts).unwrap();
//!
//! let blocks = Blocks::find(&function, &mut targets, |_target| Destination::Function).unwrap();
//! let blocks: Vec<Block> = blocks.collect();
//! let addresses: Vec<u64> = blocks.iter().map(|block| block.address).collect();
//! assert_eq!(addresses, [0x1000, 0x1004, 0x1006]);
//! assert_eq!(blocks[0].next, Some(0x1004));
//! assert_eq!(blocks[0].target, Some(0x1006));
//! ```

use core::slice;

use super::{
    decoder::{
        Decoder,
        Flow,
        Insn, //
    },
    exits::{
        Destination,
        Part,
        Sweep,
        SweptFunction, //
    },
};

/// A basic block of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The address of the first instruction.
    pub address: u64,
    /// The address of the last instruction.
    pub last: u64,
    /// The block that runs after this one without a jump. As a call is expected to return, there
    /// may be such a block although the called function never returns.
    pub next: Option<u64>,
    /// The block of this function to which the last instruction jumps. A jump to the entry is not
    /// in it, because it enters the function again.
    pub target: Option<u64>,
}

/// The reason why the blocks of a function are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownBlocks {
    /// The instruction at this address jumps to an unknown address, or to a part that the caller
    /// did not supply.
    Jump(u64),
    /// The supplied memory is smaller than [`SweptFunction::words`].
    Memory,
}

/// An iterator over the blocks of a function, in the order of the parts and of the addresses.
pub struct Blocks<'f, 'a, D> {
    function: &'f SweptFunction<'a, D>,
    /// A bit for each instruction to which a jump in the function leads.
    targets: &'f [u64],
    parts: slice::Iter<'a, Part<'a>>,
    sweep: Sweep<'a, D>,
    /// The instruction after the last block.
    ahead: Option<(u64, Insn)>,
    /// Whether padding may follow.
    may_be_padding: bool,
}

impl<'f, 'a, D: Decoder> Blocks<'f, 'a, D> {
    /// Finds the blocks of a function. `symbols` classifies targets, as for
    /// [`SweptFunction::exits`]. `memory` must have [`words`](SweptFunction::words) words. Their
    /// content does not matter.
    ///
    /// Decodes each instruction once, and the iterator decodes each one once more.
    ///
    /// # Errors
    ///
    /// The blocks are unknown.
    pub fn find(
        function: &'f SweptFunction<'a, D>,
        memory: &'f mut [u64],
        symbols: impl Fn(u64) -> Destination,
    ) -> Result<Self, UnknownBlocks> {
        let words = SweptFunction::<D>::words(function.parts());
        let targets = memory.get_mut(..words).ok_or(UnknownBlocks::Memory)?;
        targets.fill(0);
        for (address, insn) in function.instructions() {
            let target = match insn.flow {
                Flow::IndirectJump => return Err(UnknownBlocks::Jump(address)),
                Flow::Jump(target) | Flow::Branch(target) => target,
                _ => continue,
            };
            if function.stays(target) {
                function.set(target, targets);
            } else if !function.is_entry(target)
                && matches!(
                    symbols(target),
                    Destination::IndirectThunk | Destination::Part
                )
            {
                return Err(UnknownBlocks::Jump(address));
            }
        }
        Ok(Self {
            function,
            targets,
            parts: function.parts().iter(),
            sweep: Sweep::new(&Part::EMPTY),
            ahead: None,
            may_be_padding: false,
        })
    }

    fn is_target(&self, address: u64) -> bool {
        self.function.is_set(address, self.targets)
    }

    /// The next instruction of the part. Leaves out the padding at its end.
    fn instruction(&mut self) -> Option<(u64, Insn)> {
        loop {
            let (address, insn) = self.sweep.next()?.ok()?;
            if self.function.is_boundary(address) {
                return Some((address, insn));
            }
        }
    }

    /// Whether an instruction is padding. A breakpoint that is in no way of the flow always is.
    fn is_padding(&self, address: u64, insn: Insn) -> bool {
        let is_filling = match insn.flow {
            Flow::Breakpoint => true,
            Flow::Nop => self.may_be_padding,
            _ => false,
        };
        is_filling && !self.is_target(address)
    }

    /// The first instruction of the next block.
    fn first(&mut self) -> Option<(u64, Insn)> {
        loop {
            match self.ahead.take().or_else(|| self.instruction()) {
                // More padding may follow a breakpoint.
                Some((address, insn)) if self.is_padding(address, insn) => {
                    self.may_be_padding = true;
                }
                Some(found) => return Some(found),
                None => {
                    self.sweep = Sweep::new(self.parts.next()?);
                    self.may_be_padding = false;
                }
            }
        }
    }

    /// The address of the instruction that runs after a trap from which the kernel returns.
    fn after_trap(&mut self) -> Option<u64> {
        self.may_be_padding = true;
        let mut ahead = self.ahead.take();
        while let Some((address, insn)) = ahead {
            if insn.flow != Flow::Nop || self.is_target(address) {
                break;
            }
            ahead = self.instruction();
        }
        self.ahead = ahead;
        self.next_address()
    }

    /// The address of the instruction after the block, if it is no padding.
    fn next_address(&self) -> Option<u64> {
        let (address, insn) = self.ahead?;
        (!self.is_padding(address, insn)).then_some(address)
    }

    /// A jump's target, if the jump stays in the call.
    fn inner(&self, target: u64) -> Option<u64> {
        self.function.stays(target).then_some(target)
    }
}

impl<D: Decoder> Iterator for Blocks<'_, '_, D> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        let (address, mut insn) = self.first()?;
        let mut last = address;
        loop {
            self.ahead = self.instruction();
            self.may_be_padding = false;
            let (next, target) = match insn.flow {
                Flow::Branch(target) => (self.next_address(), self.inner(target)),
                Flow::Trap => (self.after_trap(), None),
                Flow::Jump(_)
                | Flow::IndirectJump
                | Flow::Return
                | Flow::ReturnPop
                | Flow::FarReturn
                | Flow::Breakpoint => {
                    self.may_be_padding = true;
                    let target = insn.flow.target();
                    (None, target.and_then(|target| self.inner(target)))
                }
                _ => match self.ahead {
                    Some((address, ahead))
                        if !self.is_target(address)
                            && !matches!(ahead.flow, Flow::Landing | Flow::Breakpoint) =>
                    {
                        (last, insn) = (address, ahead);
                        continue;
                    }
                    _ => (self.next_address(), None),
                },
            };
            return Some(Block {
                address,
                last,
                next,
                target,
            });
        }
    }
}
