// SPDX-License-Identifier: GPL-2.0

//! Names and addresses of the kernel's symbols.
//!
//! C header: [`include/linux/kallsyms.h`](srctree/include/linux/kallsyms.h)

use core::mem::MaybeUninit;

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::str::CStr;

use crate::bindings as tracing;
use crate::bindings::KSYM_SYMBOL_LEN;

/// Finds the address of a symbol, `NAME` or `MODULE:NAME`, of text or data.
///
/// Process context; sleeps. `ENOENT` where there is no such symbol.
///
/// The kernel exports no lookup, but `register_kprobe()` makes one and leaves the address in the
/// structure, also where it then refuses to place a probe there. It is asked for the second byte:
/// data is refused, and so is the middle of an instruction, so that there is rarely a probe to
/// take back; and a landing pad at the start of a function (ENDBR) is not skipped.
pub fn address_of(name: &CStr) -> Result<usize> {
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
    // SAFETY: As above.
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

/// The longest text that [`format`] writes, and a NUL, in bytes.
pub const LEN: usize = KSYM_SYMBOL_LEN;

/// Writes `address` as `NAME+OFFSET/SIZE [MODULE]`, or without the offset as `NAME [MODULE]`, and
/// as a number where it belongs to no symbol. Any context.
///
/// C: `sprint_symbol()`, `sprint_symbol_no_offset()`.
pub fn format(address: usize, with_offset: bool, buffer: &mut [u8; LEN]) -> &[u8] {
    let to = buffer.as_mut_ptr().cast::<c_char>();
    // SAFETY: The buffer has room for the longest symbol (`KSYM_SYMBOL_LEN`).
    let len = unsafe {
        if with_offset {
            bindings::sprint_symbol(to, address)
        } else {
            bindings::sprint_symbol_no_offset(to, address)
        }
    };
    buffer.get(..len.unsigned_abs() as usize).unwrap_or(&[])
}

/// The start of the symbol that `address` belongs to, if there is one. Any context.
pub fn start_of(address: usize) -> Option<usize> {
    let mut buffer = [0; LEN];
    let text = core::str::from_utf8(format(address, true, &mut buffer)).ok()?;
    let (_, offset_and_size) = text.rsplit_once("+0x")?;
    let (offset, _) = offset_and_size.split_once('/')?;
    address.checked_sub(usize::from_str_radix(offset, 16).ok()?)
}
