// SPDX-License-Identifier: GPL-2.0

//! The functions that a function calls, as far as its instructions name them.

use super::decoder::{
    Decoder,
    Flow, //
};

/// The targets of direct calls, jumps and branches in `text` that are outside of it, in the order
/// of the instructions. The text is at `address`, and is that of a function or of a part of one.
///
/// A target can be the start of a function, a part of the same function, or a thunk. After a
/// breakpoint, which can hide an instruction, targets may be missing or wrong until the decoder
/// finds the start of an instruction again. Ends at an undefined instruction.
///
/// # Examples
///
/// ```
/// use probe::insn::{
///     outside_targets,
///     x86::X86, //
/// };
///
/// // call 0x2000; je 0x1000; jmp 0x3000
/// let text = [
///     0xe8, 0xfb, 0x0f, 0, 0, 0x74, 0xf9, 0xe9, 0xf4, 0x1f, 0, 0,
/// ];
/// let targets: Vec<u64> = outside_targets::<X86>(&text, 0x1000).collect();
/// assert_eq!(targets, [0x2000, 0x3000]);
/// ```
pub fn outside_targets<D: Decoder>(text: &[u8], address: u64) -> impl Iterator<Item = u64> + '_ {
    let mut rest = text;
    let end = address.wrapping_add(text.len() as u64);
    core::iter::from_fn(move || loop {
        let at = end.wrapping_sub(rest.len() as u64);
        let insn = D::decode(rest, at)?;
        let len = match insn.flow {
            // The rest of the hidden instruction follows.
            Flow::Breakpoint => D::UNIT,
            _ => insn.len.into(),
        };
        rest = rest.get(len..)?;
        if let Some(target) = insn.flow.target() {
            if !(address..end).contains(&target) {
                return Some(target);
            }
        }
    })
}
