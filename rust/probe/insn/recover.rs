// SPDX-License-Identifier: GPL-2.0

//! Recovers the instructions that kprobes replaced.
//!
//! C: `recover_probed_instruction()` in `arch/x86/kernel/kprobes/core.c`.

use super::decoder::{
    Decoder,
    Flow, //
};

/// The number of breakpoints in a row that can be padding between functions, which are aligned to
/// at most 64 bytes. C: `CONFIG_FUNCTION_ALIGNMENT`.
const MAX_PADDING: usize = 64;

/// Recovers the instructions of `text` that kprobes replaced. `text` is a copy of the memory at
/// `address`, the start of a function or of a part.
///
/// A kprobe is a breakpoint over the first bytes of an instruction. An optimized kprobe is a jump
/// over several instructions. This function calls `put_back` once for each breakpoint, and once for
/// each jump for which `may_hide` returns true. `may_hide` gets the address and the target of the
/// jump. `put_back` gets the address of the instruction and the whole text, and returns whether it
/// changed the text. If `put_back` did not change the text, the instruction is the function's own.
/// After 64 own breakpoints in a row, it is not called for those that follow directly: they fill
/// the space between two sections, which can be as long as a megabyte, and no function has them.
///
/// Decodes each instruction once, and a recovered instruction once more. Ends at the first
/// instruction that it cannot decode. [`sweep`](super::exits::SweptFunction::sweep) reports this
/// instruction.
///
/// # Errors
///
/// The errors of `put_back`.
///
/// # Examples
///
/// ```
/// use probe::insn::{
///     recover_probed_instructions,
///     x86::X86, //
/// };
///
/// // A probe on the mov of: mov $0xc3,%eax; ret; int3
/// let mut text = [0xcc, 0xc3, 0, 0, 0, 0xc3, 0xcc];
/// let mut asked = Vec::new();
/// let may_hide = |_address, _target| false;
/// recover_probed_instructions::<X86, ()>(0x1000, &mut text, may_hide, |address, text| {
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
pub fn recover_probed_instructions<D: Decoder, E>(
    address: u64,
    text: &mut [u8],
    may_hide: impl Fn(u64, u64) -> bool,
    mut put_back: impl FnMut(u64, &mut [u8]) -> Result<bool, E>,
) -> Result<(), E> {
    let mut offset = 0_usize;
    // The own breakpoints in a row.
    let mut padding = 0_usize;
    let decode = |text: &[u8], offset: usize| {
        let at = address.wrapping_add(offset as u64);
        Some((at, D::decode(text.get(offset..)?, at)?))
    };
    while let Some((at, mut insn)) = decode(text, offset) {
        let is_asked = match insn.flow {
            Flow::Breakpoint => padding < MAX_PADDING,
            Flow::Jump(target) => may_hide(at, target),
            _ => false,
        };
        padding = match insn.flow {
            Flow::Breakpoint => padding.saturating_add(1),
            _ => 0,
        };
        if is_asked && put_back(at, text)? {
            padding = 0;
            match decode(text, offset) {
                Some((_, shown)) => insn = shown,
                None => break,
            }
        }
        offset = offset.saturating_add(usize::from(insn.len));
    }
    Ok(())
}
