// SPDX-License-Identifier: GPL-2.0

//! Reads the kernel's table of symbols from memory.
//!
//! The kernel publishes the address of the table for crash tools, in its note `VMCOREINFO`. It
//! exports a function that returns the address of the note. No header documents the format of the
//! table. So this file checks the format: a read of unmapped memory fails, each name must start
//! with a type, and the table must contain two symbols that every kernel has. The kernel exports
//! one of them, so this file also checks its address.
//!
//! This file only reads data at the addresses in the note. It calls no function there.
//!
//! C: `crash_save_vmcoreinfo_init()` in `kernel/vmcore_info.c`.

use kernel::{
    bindings,
    ffi::c_void,
    prelude::*,
    str::CStr, //
};

use probe::{
    hash::hash,
    kallsyms::{
        expand,
        token_texts,
        Names,
        Token,
        Tokens,
        MAX_COMPRESSED,
        TOKENS, //
    },
    vmcoreinfo::Vmcoreinfo, //
};

use crate::hit::nofault::{
    read_kernel,
    Fault, //
};

/// The name of an exported function, [`known_address`].
const KNOWN: &[u8] = b"register_ftrace_function";

/// The symbol at the end of the kernel image. Every kernel has it.
const END: &[u8] = b"_end";

/// A number of symbols that no kernel reaches.
const TOO_MANY: usize = 1 << 22;

extern "C" {
    fn ktrace_vmcoreinfo(len: &mut usize) -> *const c_void;
}

/// The address of [`KNOWN`].
fn known_address() -> usize {
    bindings::register_ftrace_function as *const () as usize
}

/// The reason why the table could not be read.
enum ReadError {
    /// The kernel does not publish the address of the table.
    Unknown,
    /// The table has an unknown format.
    Different,
    Other(Error),
}

impl From<Fault> for ReadError {
    fn from(_: Fault) -> Self {
        Self::Different
    }
}

impl<E: Into<Error>> From<E> for ReadError {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// A symbol in the table.
pub(super) struct TableSymbol<'a> {
    /// The [`hash`] of its name.
    pub(super) hash: u64,
    /// The position in the table.
    index: usize,
    table: &'a SymbolTable,
    /// The compressed name.
    name: &'a [u8],
    texts: &'a [&'a [u8]; TOKENS],
}

/// Calls `found` for each symbol, with the number of all symbols. Returns false if the table cannot
/// be found, or has an unknown format. Then the caller must ignore what `found` got. `ENOMEM`, and
/// the errors of `found`.
///
/// Process context; sleeps.
pub(super) fn each(found: impl FnMut(usize, TableSymbol<'_>) -> Result) -> Result<bool> {
    match find().and_then(|table| table.each(found)) {
        Ok(()) => Ok(true),
        Err(ReadError::Unknown) => Ok(false),
        Err(ReadError::Different) => {
            pr_info!(
                "the kernel's table of symbols looks different: reading /proc/kallsyms instead\n"
            );
            Ok(false)
        }
        Err(ReadError::Other(error)) => Err(error),
    }
}

/// The addresses of the kernel's table of symbols.
pub(super) struct SymbolTable {
    /// The number of symbols.
    len: usize,
    names: usize,
    token_table: usize,
    token_index: usize,
    offsets: usize,
}

/// Finds the table by the addresses in the note `VMCOREINFO`.
fn find() -> Result<SymbolTable, ReadError> {
    let mut len = 0;
    // SAFETY: The function has no requirements.
    let note = unsafe { ktrace_vmcoreinfo(&mut len) };
    let mut bytes = KVVec::from_elem(0, len, GFP_KERNEL)?;
    read_kernel(note as usize, &mut bytes).map_err(|_| ReadError::Unknown)?;
    let find = || {
        let info = Vmcoreinfo::parse(&bytes)?;
        Some((
            info.symbol("kallsyms_num_syms")?,
            SymbolTable {
                len: 0,
                names: info.symbol("kallsyms_names")?,
                token_table: info.symbol("kallsyms_token_table")?,
                token_index: info.symbol("kallsyms_token_index")?,
                offsets: info.symbol("kallsyms_offsets")?,
            },
        ))
    };
    let (len, table) = find().ok_or(ReadError::Unknown)?;
    let mut bytes = [0; size_of::<u32>()];
    read_kernel(len, &mut bytes)?;
    Ok(SymbolTable {
        len: u32::from_ne_bytes(bytes) as usize,
        ..table
    })
}

impl SymbolTable {
    /// The place of the offset of a symbol.
    fn offset_at(&self, index: usize) -> usize {
        self.offsets.wrapping_add(index.wrapping_mul(OFFSET_BYTES))
    }

    fn each(
        &self,
        mut found: impl FnMut(usize, TableSymbol<'_>) -> Result,
    ) -> Result<(), ReadError> {
        /// A chunk is longer than any name, so each read returns at least one whole name.
        const CHUNK: usize = 32 << 10;
        const { assert!(CHUNK > MAX_COMPRESSED) };

        let mut index = [0; 2 * TOKENS];
        read_kernel(self.token_index, &mut index)?;
        // The index directly follows the table.
        let len = self.token_index.wrapping_sub(self.token_table);
        if len > usize::from(u16::MAX) {
            return Err(ReadError::Different);
        }
        let mut token_table = KVVec::from_elem(0, len, GFP_KERNEL)?;
        read_kernel(self.token_table, &mut token_table)?;
        let mut tokens = KVVec::with_capacity(TOKENS, GFP_KERNEL)?;
        let mut texts = KVVec::with_capacity(TOKENS, GFP_KERNEL)?;
        for text in token_texts(&token_table, &index) {
            let text = text.ok_or(ReadError::Different)?;
            tokens.push(Token::new(text), GFP_KERNEL)?;
            texts.push(text, GFP_KERNEL)?;
        }
        let tokens = Tokens::new(&tokens).ok_or(ReadError::Different)?;
        let texts = texts.first_chunk().ok_or(ReadError::Different)?;
        if self.len > TOO_MANY {
            return Err(ReadError::Different);
        }
        // If the last offset can be read, all can.
        read_kernel(
            self.offset_at(self.len.wrapping_sub(1)),
            &mut [0; OFFSET_BYTES],
        )?;
        let (known, end) = (hash(KNOWN), hash(END));
        let (mut has_known, mut has_end) = (false, false);
        let mut chunk = KVVec::from_elem(0, CHUNK, GFP_KERNEL)?;
        let mut address = self.names;
        let mut left = self.len;
        while left > 0 {
            read_kernel(address, &mut chunk)?;
            let mut names = Names::new(&chunk);
            let before = left;
            for name in names.by_ref().take(before) {
                let symbol = TableSymbol {
                    hash: tokens.hash(name).ok_or(ReadError::Different)?,
                    index: self.len.wrapping_sub(left),
                    table: self,
                    name,
                    texts,
                };
                has_known |= symbol.hash == known && symbol.address() == Ok(known_address());
                has_end |= symbol.hash == end;
                found(self.len, symbol)?;
                left = left.wrapping_sub(1);
            }
            if left == before {
                return Err(ReadError::Different);
            }
            let read = CHUNK.wrapping_sub(names.rest().len());
            address = address.wrapping_add(read);
        }
        if has_known && has_end {
            Ok(())
        } else {
            Err(ReadError::Different)
        }
    }
}

/// The bytes of an offset, which is the distance of a symbol from the place of the offset.
const OFFSET_BYTES: usize = size_of::<i32>();

impl TableSymbol<'_> {
    /// Writes the name to `to`, and returns it. `None` if it does not begin with `prefix`, or is
    /// too long.
    pub(super) fn name<'a>(&self, prefix: &[u8], to: &'a mut [u8]) -> Option<&'a CStr> {
        let len = expand(self.name, self.texts, prefix, to)?.len();
        *to.get_mut(len)? = 0;
        CStr::from_bytes_with_nul(to.get(..=len)?).ok()
    }

    /// The address of the symbol.
    ///
    /// C: `kallsyms_sym_address()`.
    pub(super) fn address(&self) -> Result<usize> {
        let place = self.table.offset_at(self.index);
        let mut offset = [0; OFFSET_BYTES];
        read_kernel(place, &mut offset).map_err(|_| EFAULT)?;
        Ok(place.wrapping_add_signed(i32::from_ne_bytes(offset) as isize))
    }
}
