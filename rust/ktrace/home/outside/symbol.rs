// SPDX-License-Identifier: GPL-2.0

//! Names and addresses: the kernel exports no lookup.
//!
//! But `register_kprobe()` makes one, and `kallsyms` in proc has them all.

use core::mem::MaybeUninit;

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CStr;

use probe::kallsyms;

use crate::bindings as tracing;
use crate::file::Kallsyms;

/// See [`crate::symbol::address_of`].
///
/// `register_kprobe()` looks the symbol up, and leaves the address in the
/// structure, also where it then refuses to place a probe there. It is asked for the second byte:
/// data is refused, and so is the middle of an instruction, so that there is rarely a probe to
/// take back; and a landing pad at the start of a function (ENDBR) is not skipped.
pub(crate) fn address_of(name: &CStr) -> Result<usize> {
    const SECOND_BYTE: u32 = 1;
    // On the heap: the kernel keeps the address of a probe that it accepts.
    let mut probe = KBox::new(MaybeUninit::<tracing::kprobe>::zeroed(), GFP_KERNEL)?;
    let probe = probe.as_mut_ptr();
    // SAFETY: All-zero is a valid `struct kprobe`, and nobody else has it yet.
    unsafe {
        (*probe).symbol_name = name.as_char_ptr();
        (*probe).offset = SECOND_BYTE;
        (*probe).flags = tracing::KPROBE_FLAG_DISABLED;
    }
    // SAFETY: A valid `struct kprobe` that stays in place until it is unregistered.
    let registered = to_result(unsafe { tracing::register_kprobe(probe) });
    // SAFETY: `probe` points at the box above, and the kernel has returned.
    let address = unsafe { (*probe).addr } as usize;
    if registered.is_ok() {
        // SAFETY: It was registered just now.
        unsafe { tracing::unregister_kprobe(probe) };
    }
    match address.checked_sub(SECOND_BYTE as usize) {
        Some(address) => Ok(address),
        None => Err(registered.err().unwrap_or(ENOENT)),
    }
}

/// See [`crate::symbol::exists`].
///
/// For [`address_of`] the kernel looks through all its jump labels. `register_kretprobe()` looks
/// the symbol up before all else, and then refuses a probe with more data than there is room for.
pub(crate) fn exists(name: &CStr) -> Result<bool> {
    let mut probe = KBox::new(MaybeUninit::<tracing::kretprobe>::zeroed(), GFP_KERNEL)?;
    let probe = probe.as_mut_ptr();
    // SAFETY: All-zero is a valid `struct kretprobe`, and nobody else has it yet.
    let registered = to_result(unsafe {
        (*probe).kp.symbol_name = name.as_char_ptr();
        // More than `KRETPROBE_MAX_DATA_SIZE`.
        (*probe).data_size = usize::MAX;
        tracing::register_kretprobe(probe)
    });
    if registered.is_ok() {
        // SAFETY: It was registered just now.
        unsafe { tracing::unregister_kretprobe(probe) };
    }
    Ok(registered != Err(ENOENT))
}

/// A set of the hashes of names.
struct Names {
    /// At most half of it is in use; the rest is 0.
    table: KVVec<u64>,
    len: usize,
}

impl Names {
    fn new() -> Result<Self> {
        const SIZE: usize = 1024;
        Ok(Self {
            table: KVVec::from_elem(0, SIZE, GFP_KERNEL)?,
            len: 0,
        })
    }

    /// Adds a hash, and says whether it was there.
    fn add(&mut self, hash: u64) -> Result<bool> {
        if self.len >= self.table.len() / 2 {
            let mut larger = KVVec::from_elem(0, self.table.len().wrapping_mul(2), GFP_KERNEL)?;
            for &hash in self.table.iter().filter(|hash| **hash != 0) {
                kallsyms::insert(&mut larger, hash);
            }
            self.table = larger;
        }
        let was_there = kallsyms::insert(&mut self.table, hash);
        self.len = self.len.wrapping_add(usize::from(!was_there));
        Ok(was_there)
    }
}

/// The names that more than one symbol of the kernel itself has.
pub struct Repeated(Names);

impl Repeated {
    /// Reads `/proc/kallsyms`, which takes some 0.1 s; the kernel's own symbols do not change.
    ///
    /// Process context; sleeps. `ENOMEM`, and `ENODEV` if the kernel has no proc.
    pub fn read() -> Result<Self> {
        const SIZE: usize = 64 << 10;
        let mut text = KVVec::from_elem(0, SIZE, GFP_KERNEL)?;
        let mut all = Names::new()?;
        let mut repeated = Names::new()?;
        let mut file = Kallsyms::open()?;
        let mut filled: usize = 0;
        loop {
            let room = text.get_mut(filled..).unwrap_or(&mut []);
            let len = file.read(room)?;
            filled = filled.saturating_add(len).min(SIZE);
            let lines = text.get(..filled).unwrap_or(&[]);
            let end = lines.iter().rposition(|&byte| byte == b'\n');
            let Some(end) = end.filter(|_| len > 0) else {
                break;
            };
            for line in lines.get(..end).unwrap_or(&[]).split(|&byte| byte == b'\n') {
                match kallsyms::Symbol::parse(line) {
                    Some(symbol) if symbol.module.is_none() => {
                        let hash = kallsyms::hash(symbol.name);
                        if all.add(hash)? {
                            repeated.add(hash)?;
                        }
                    }
                    _ => {}
                }
            }
            // The rest of a line that is cut.
            let end = end.wrapping_add(1);
            text.copy_within(end..filled, 0);
            filled = filled.wrapping_sub(end);
        }
        Ok(Self(repeated))
    }

    /// Has more than one symbol this name?
    pub fn contains(&self, name: &str) -> bool {
        kallsyms::contains(&self.0.table, kallsyms::hash(name.as_bytes()))
    }
}
