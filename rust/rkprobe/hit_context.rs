// SPDX-License-Identifier: GPL-2.0

//! A hit as the programs of a probe see it: its registers, the memory and the values of its call.

use ktrace::{
    nofault,
    number,
    registers::RegisterFile,
    symbol,
    trace_event::State, //
};
use probe::{
    arch::Register,
    fetch::{
        Context,
        Fault, //
    },
    types::{
        Space,
        Width, //
    },
};

/// Values of the call that a hit belongs to. Programs ask only for values that the probe has.
pub(crate) trait CallValues: Copy {
    /// The word of the entry data with this index.
    #[inline(always)]
    fn entry_data(self, _index: u8) -> u64 {
        0
    }

    /// The duration of the call, in ns.
    #[inline(always)]
    fn elapsed(self) -> u64 {
        0
    }

    /// The address of the return instruction.
    #[inline(always)]
    fn exit(self) -> u64 {
        0
    }

    /// The address of the text of a path.
    #[inline(always)]
    fn path(self) -> u64 {
        0
    }

    /// The number of blocks of a path.
    #[inline(always)]
    fn blocks(self) -> u64 {
        0
    }

    /// The watched address.
    #[inline(always)]
    fn watched(self) -> u64 {
        0
    }

    /// The record of the event that an event probe is attached to.
    #[inline(always)]
    fn record(&self) -> &[u8] {
        &[]
    }
}

/// No values.
impl CallValues for () {}

/// A hit as a program sees it.
#[derive(Clone, Copy)]
pub(crate) struct HitContext<R, K> {
    pub(crate) state: State<R>,
    /// Other values of the call.
    pub(crate) values: K,
}

impl<R: RegisterFile, K: CallValues> Context for HitContext<R, K> {
    #[inline(always)]
    fn register(&self, register: Register) -> u64 {
        self.state.register(register)
    }

    #[inline(always)]
    fn stack(&self, n: u16) -> u64 {
        self.state.stack(n)
    }

    #[inline(always)]
    fn comm(&self) -> u64 {
        self.state.atomic().comm() as u64
    }

    #[inline(always)]
    fn current(&self) -> u64 {
        self.state.atomic().current() as u64
    }

    #[inline(always)]
    fn pid(&self) -> u64 {
        self.state.atomic().pid().into()
    }

    #[inline(always)]
    fn this_cpu(&self, address: u64) -> u64 {
        self.state.atomic().this_cpu(address as usize) as u64
    }

    #[inline(always)]
    fn entry_data(&self, index: u8) -> u64 {
        self.values.entry_data(index)
    }

    #[inline(always)]
    fn elapsed(&self) -> u64 {
        self.values.elapsed()
    }

    #[inline(always)]
    fn caller(&self) -> u64 {
        self.state.caller() as u64
    }

    #[inline(always)]
    fn exit(&self) -> u64 {
        self.values.exit()
    }

    #[inline(always)]
    fn path(&self) -> u64 {
        self.values.path()
    }

    #[inline(always)]
    fn blocks(&self) -> u64 {
        self.values.blocks()
    }

    #[inline(always)]
    fn watched(&self) -> u64 {
        self.values.watched()
    }

    #[inline(always)]
    fn record(&self) -> &[u8] {
        self.values.record()
    }

    #[inline(always)]
    fn symbol(&self, address: u64, to: &mut [u8]) -> usize {
        match to.first_chunk_mut() {
            Some(room) => symbol::format(address as usize, true, room).len(),
            None => cut_symbol(address as usize, to),
        }
    }

    #[inline(always)]
    fn read(&self, space: Space, address: u64, to: &mut [u8]) -> Result<(), Fault> {
        copy(space, address as usize, to)
    }

    #[inline(always)]
    fn read_short<const N: usize>(
        &self,
        space: Space,
        address: u64,
        to: &mut [u8; N],
    ) -> Result<(), Fault> {
        if is_of_kernel(space, address as usize) {
            nofault::read_kernel(address as usize, to)
        } else {
            nofault::read_user_short(address as usize, to)
        }
        .map_err(|nofault::Fault| Fault)
    }

    #[inline(always)]
    fn number(&self, space: Space, address: u64, width: Width) -> u64 {
        if space == Space::Kernel {
            if let Some(number) = number::try_read(address as usize, width) {
                return number;
            }
        }
        if number::READS_NUMBERS {
            copy_rare_number(space, address as usize, width)
        } else {
            copy_number(space, address as usize, width)
        }
    }

    #[inline(always)]
    fn read_word(&self, space: Space, address: u64) -> Result<u64, Fault> {
        if space == Space::Kernel {
            // A word of 0 may be a fault.
            match number::try_read(address as usize, Width::W8) {
                None | Some(0) => {}
                Some(word) => return Ok(word),
            }
        }
        if number::READS_NUMBERS {
            copy_rare_word(space, address as usize)
        } else {
            copy_word(space, address as usize)
        }
    }
}

/// A number in memory that [`number::try_read`] does not read.
#[cold]
#[inline(never)]
fn copy_rare_number(space: Space, address: usize, width: Width) -> u64 {
    copy_number(space, address, width)
}

#[inline(always)]
fn copy_number(space: Space, address: usize, width: Width) -> u64 {
    let mut word = [0; 8];
    let number = word.get_mut(..width.bytes()).unwrap_or(&mut []);
    match copy(space, address, number) {
        Ok(()) => u64::from_le_bytes(word),
        Err(Fault) => 0,
    }
}

/// A word of memory that [`number::try_read`] does not read.
#[cold]
#[inline(never)]
fn copy_rare_word(space: Space, address: usize) -> Result<u64, Fault> {
    copy_word(space, address)
}

#[inline(always)]
fn copy_word(space: Space, address: usize) -> Result<u64, Fault> {
    let mut word = [0; 8];
    copy(space, address, &mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// Copies memory of any length.
#[inline(always)]
fn copy(space: Space, address: usize, to: &mut [u8]) -> Result<(), Fault> {
    if is_of_kernel(space, address) {
        nofault::read_kernel(address, to)
    } else {
        nofault::read_user(address, to)
    }
    .map_err(|nofault::Fault| Fault)
}

/// Whether a read must be one of kernel memory.
#[inline(always)]
fn is_of_kernel(space: Space, address: usize) -> bool {
    space == Space::Kernel && !is_user(address)
}

/// Writes as much of a symbol as fits, if the room is too small for the longest symbol.
#[cold]
#[inline(never)]
fn cut_symbol(address: usize, to: &mut [u8]) -> usize {
    let mut room = [0; symbol::LEN];
    let text = symbol::format(address, true, &mut room);
    to.iter_mut()
        .zip(text)
        .map(|(to, byte)| *to = *byte)
        .count()
}

/// Whether this is an address of user space, also if the command takes it for one of the kernel.
/// If the spaces do not overlap, each has one half of the addresses.
///
/// C: `probe_mem_read()`, which compares with `TASK_SIZE`.
#[inline(always)]
fn is_user(address: usize) -> bool {
    cfg!(CONFIG_ARCH_HAS_NON_OVERLAPPING_ADDRESS_SPACE) && (address as isize) >= 0
}
