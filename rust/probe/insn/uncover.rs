// SPDX-License-Identifier: GPL-2.0

//! Instructions that kprobes have hidden.

use super::Decoder;
use super::Flow;

/// Puts back what kprobes have changed in `text`, which was read from `address`, the start of a
/// function or of a part of one.
///
/// A kprobe is a breakpoint over the first bytes of an instruction, or, optimized, a jump over
/// several instructions. At each breakpoint, and each jump of which `may_hide` says so by its
/// address and its target, `put_back` is called, once, with the address and the whole text; it says
/// whether it has changed it. Where it has not, the instruction is the function's own.
///
/// Each instruction is decoded once, and once more where something was put back. It ends where
/// something cannot be decoded: [`sweep`](super::exits::Function::sweep) tells.
///
/// # Errors
///
/// Those of `put_back`.
///
/// # Examples
///
/// ```
/// use probe::insn::{uncover, x86::X86};
///
/// // A probe on the mov of: mov $0xc3,%eax; ret; int3
/// let mut text = [0xcc, 0xc3, 0, 0, 0, 0xc3, 0xcc];
/// let mut asked = Vec::new();
/// uncover::<X86, ()>(0x1000, &mut text, |_address, _target| false, |address, text| {
///     asked.push(address);
///     if address == 0x1000 {
///         text[0] = 0xb8;
///     }
///     Ok(address == 0x1000)
/// })?;
/// assert_eq!(text, [0xb8, 0xc3, 0, 0, 0, 0xc3, 0xcc]);
/// assert_eq!(asked, [0x1000, 0x1006]);
/// # Ok::<(), ()>(())
/// ```
pub fn uncover<D: Decoder, E>(
    address: u64,
    text: &mut [u8],
    may_hide: impl Fn(u64, u64) -> bool,
    mut put_back: impl FnMut(u64, &mut [u8]) -> Result<bool, E>,
) -> Result<(), E> {
    let mut offset = 0_usize;
    let decode = |text: &[u8], offset: usize| {
        let at = address.wrapping_add(offset as u64);
        Some((at, D::decode(text.get(offset..)?, at)?))
    };
    while let Some((at, mut insn)) = decode(text, offset) {
        let is_asked = match insn.flow {
            Flow::Breakpoint => true,
            Flow::Jump(target) => may_hide(at, target),
            _ => false,
        };
        if is_asked && put_back(at, text)? {
            match decode(text, offset) {
                Some((_, shown)) => insn = shown,
                None => break,
            }
        }
        offset = offset.saturating_add(usize::from(insn.len));
    }
    Ok(())
}
