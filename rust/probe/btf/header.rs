// SPDX-License-Identifier: GPL-2.0

//! The header of BTF, which locates the sections.
//!
//! C: `btf_parse_hdr()`, `btf_check_sec_info()` in `kernel/bpf/btf.c`.

use super::types::word;

/// The first two bytes, in the byte order of the target machine.
const MAGIC: u16 = 0xeb9f;

/// The only known version.
const VERSION: u8 = 1;

/// The size of a header without a layout section, in bytes.
const HEADER: usize = 24;

/// The size of a header with a layout section, in bytes.
const HEADER_WITH_LAYOUT: usize = 32;

/// The reason why bytes are not readable BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes are not BTF.
    Magic,
    /// The bytes are for a machine with the other byte order.
    ByteOrder,
    /// The version is not 1, or the header has flags. No version has flags.
    Version,
    /// The header or a section exceeds the bytes.
    Sections,
    /// The first name is not empty, or the last name has no NUL.
    Strings,
    /// The type at this byte of the types section is incomplete, or has a kind of unknown size.
    Type(u32),
    /// The length of the index differs from [`Sections::slots`](super::Sections::slots).
    Index,
}

/// The content of the sections.
pub(super) struct RawSections<'a> {
    pub(super) types: &'a [u8],
    pub(super) strings: &'a [u8],
    /// The sizes of each kind of type. Older kernels have no such section, so the slice is empty.
    pub(super) layout: &'a [u8],
}

impl<'a> RawSections<'a> {
    /// Finds the sections in the bytes of BTF.
    ///
    /// # Errors
    ///
    /// [`Malformed::Magic`], [`Malformed::ByteOrder`], [`Malformed::Version`],
    /// [`Malformed::Sections`].
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let magic = bytes.first_chunk().ok_or(Malformed::Magic)?;
        match u16::from_ne_bytes(*magic) {
            MAGIC => {}
            magic if magic == MAGIC.swap_bytes() => return Err(Malformed::ByteOrder),
            _ => return Err(Malformed::Magic),
        }
        match bytes.get(2..4) {
            Some([VERSION, 0]) => {}
            Some(_) => return Err(Malformed::Version),
            None => return Err(Malformed::Sections),
        }
        Self::split(bytes).ok_or(Malformed::Sections)
    }

    /// Splits the bytes with the offsets and sizes from the header.
    fn split(bytes: &'a [u8]) -> Option<Self> {
        let header = word(bytes, 4)? as usize;
        let rest = bytes.get(header..)?;
        let section = |at: usize| {
            let start = word(bytes, at)? as usize;
            let len = word(bytes, at.wrapping_add(4))? as usize;
            rest.get(start..start.checked_add(len)?)
        };
        if header < HEADER {
            return None;
        }
        let layout = if header < HEADER_WITH_LAYOUT {
            &[]
        } else {
            section(24)?
        };
        Some(Self {
            types: section(8)?,
            strings: section(16)?,
            layout,
        })
    }
}
