// SPDX-License-Identifier: GPL-2.0

//! Parses the note in which the kernel describes itself to crash tools.
//!
//! Documentation: `Documentation/admin-guide/kdump/vmcoreinfo.rst` of the kernel.

/// The name of the note, with its NUL and padding.
const NAME: &[u8; 12] = b"VMCOREINFO\0\0";
/// The length of the name with its NUL, in bytes.
const NAME_LEN: u32 = 11;

/// The lines of the note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vmcoreinfo<'a>(&'a [u8]);

impl<'a> Vmcoreinfo<'a> {
    /// Finds the lines of the ELF note at the start of `note`. More bytes can follow the note.
    /// Returns `None` if the note has another name or is incomplete.
    ///
    /// C: `append_elf_note()`.
    pub fn parse(note: &'a [u8]) -> Option<Self> {
        let (name_len, note) = note.split_first_chunk()?;
        let (len, note) = note.split_first_chunk()?;
        let (_type, note) = note.split_first_chunk::<4>()?;
        let (name, note) = note.split_first_chunk()?;
        if u32::from_ne_bytes(*name_len) != NAME_LEN || name != NAME {
            return None;
        }
        let len = usize::try_from(u32::from_ne_bytes(*len)).ok()?;
        Some(Self(note.get(..len)?))
    }

    /// The address of a variable, from the line `SYMBOL(NAME)=ADDRESS`.
    ///
    /// C: `VMCOREINFO_SYMBOL()`.
    pub fn symbol(&self, name: &str) -> Option<usize> {
        self.0.split(|&byte| byte == b'\n').find_map(|line| {
            let line = line.strip_prefix(b"SYMBOL(")?;
            let address = line.strip_prefix(name.as_bytes())?.strip_prefix(b")=")?;
            usize::from_str_radix(core::str::from_utf8(address).ok()?, 16).ok()
        })
    }
}
