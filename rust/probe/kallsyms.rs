// SPDX-License-Identifier: GPL-2.0

//! The kernel's symbols: the symbol of an address ([`Location`]), and the names that several
//! symbols share. rkprobe reads the names from the kernel's memory ([`Names`]) or from
//! `/proc/kallsyms` ([`SymbolLine`]).
//!
//! A kernel has some 200,000 symbols. Only the few thousand repeated names matter. rkprobe stores
//! them as hashes. Two names have the same hash in one of some 10⁸ kernels.
//!
//! # Examples
//!
//! ```
//! use probe::{
//!     hash::hash,
//!     kallsyms::{
//!         insert,
//!         SymbolLine, //
//!     },
//! };
//!
//! let text = "ffff1 t show\nffff2 T vfs_read\nffff3 t show\nffff4 t vfs_read\t[video]\n";
//! let mut all = [0; 8];
//! let repeated: Vec<&[u8]> = text
//!     .lines()
//!     .filter_map(|line| SymbolLine::parse(line.as_bytes()))
//!     .filter(|symbol| symbol.module.is_none())
//!     .filter(|symbol| insert(&mut all, hash(symbol.name)))
//!     .map(|symbol| symbol.name)
//!     .collect();
//! assert_eq!(repeated, [b"show"]);
//! ```

mod compressed;

pub use compressed::{
    expand,
    token_texts,
    Names,
    Token,
    Tokens,
    MAX_COMPRESSED,
    TOKENS, //
};

/// Maximum length of a line, in bytes: an address, a type, a name (`KSYM_NAME_LEN`) and a module.
pub const MAX_LINE: usize = 1024;

/// A line of `/proc/kallsyms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolLine<'a> {
    /// The address of the symbol. 0 if the reader may not see addresses.
    pub address: u64,
    /// The name of the symbol.
    pub name: &'a [u8],
    /// The module of the symbol. `None` for a symbol of the kernel itself.
    pub module: Option<&'a [u8]>,
}

impl<'a> SymbolLine<'a> {
    /// Parses a line without its newline: `ADDRESS TYPE NAME[\t[MODULE]]`.
    ///
    /// C: `s_show()` in `kernel/kallsyms.c`.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = line.splitn(3, |&byte| byte == b' ');
        let address = core::str::from_utf8(words.next()?).ok()?;
        let rest = words.nth(1)?;
        let mut parts = rest.splitn(2, |&byte| byte == b'\t');
        let name = parts.next().filter(|name| !name.is_empty())?;
        let module = match parts.next() {
            Some(module) => Some(module.strip_prefix(b"[")?.strip_suffix(b"]")?),
            None => None,
        };
        Some(Self {
            address: u64::from_str_radix(address, 16).ok()?,
            name,
            module,
        })
    }
}

/// The symbol of an address: `NAME+0xOFFSET/0xSIZE[ [MODULE]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location<'a> {
    /// The name of the symbol.
    pub name: &'a str,
    /// The offset of the address in the symbol, in bytes.
    pub offset: usize,
    /// The distance from the symbol to the next symbol, in bytes.
    pub size: usize,
    /// The module of the symbol. `None` for a symbol of the kernel itself.
    pub module: Option<&'a str>,
}

impl<'a> Location<'a> {
    /// Parses a string that the kernel wrote. Returns `None` if the string is a number, and not a
    /// symbol.
    ///
    /// C: `sprint_symbol()`.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (text, module) = match text.strip_suffix(']') {
            Some(text) => {
                let (text, module) = text.rsplit_once(" [")?;
                (text, Some(module))
            }
            None => (text, None),
        };
        let (name, numbers) = text.rsplit_once("+0x")?;
        let (offset, size) = numbers.split_once("/0x")?;
        let number = |digits| usize::from_str_radix(digits, 16).ok();
        Some(Self {
            name,
            offset: number(offset)?,
            size: number(size)?,
            module,
        })
    }
}

/// Inserts a hash into a table whose length is a power of two and whose empty places are 0. Returns
/// whether the table already contained the hash. Ignores the hash if the table is full.
#[inline]
pub fn insert(table: &mut [u64], hash: u64) -> bool {
    let mask = table.len().wrapping_sub(1);
    for step in 0..table.len() {
        match table.get_mut((hash as usize).wrapping_add(step) & mask) {
            Some(place) if *place == hash => return true,
            Some(place) if *place == 0 => {
                *place = hash;
                return false;
            }
            _ => {}
        }
    }
    false
}

/// Whether the table contains this hash.
pub fn contains(table: &[u64], hash: u64) -> bool {
    let mask = table.len().wrapping_sub(1);
    (0..table.len())
        .map_while(|step| table.get((hash as usize).wrapping_add(step) & mask))
        .take_while(|place| **place != 0)
        .any(|place| *place == hash)
}
