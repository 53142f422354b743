// SPDX-License-Identifier: GPL-2.0

//! The kernel's symbols: the symbol of an address ([`Location`]), and the names that several
//! symbols have. The names are in the kernel's memory ([`Names`]), and in `/proc/kallsyms`
//! ([`SymbolLine`]).
//!
//! Of some 200,000 symbols, only the few thousand repeated names matter. They are stored as hashes.
//! Two names have the same hash in one of some 10⁸ kernels.
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
    token_texts,
    Names,
    Token,
    Tokens,
    MAX_COMPRESSED,
    TOKENS, //
};

/// The longest line, in bytes: an address, a type, a name (`KSYM_NAME_LEN`), a module.
pub const MAX_LINE: usize = 1024;

/// A line of `/proc/kallsyms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolLine<'a> {
    /// Its address; 0 where the reader may not know it.
    pub address: u64,
    /// Its name.
    pub name: &'a [u8],
    /// The module that it belongs to, if it is not the kernel's own.
    pub module: Option<&'a [u8]>,
}

impl<'a> SymbolLine<'a> {
    /// Reads a line, without its newline: `ADDRESS TYPE NAME[\t[MODULE]]`.
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
    /// The symbol's name.
    pub name: &'a str,
    /// The offset of the address in the symbol, in bytes.
    pub offset: usize,
    /// The size of the symbol, in bytes: up to the next one.
    pub size: usize,
    /// The module that it belongs to, if it is not the kernel's own.
    pub module: Option<&'a str>,
}

impl<'a> Location<'a> {
    /// Parses a string that the kernel has written. `None` if it is not a symbol, but a number.
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

/// Puts a hash into a table, a power of two of them that were 0 at first. Says whether it was
/// there, and does nothing where the table is full.
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
