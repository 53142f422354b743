// SPDX-License-Identifier: GPL-2.0

//! Reads the kernel's table of names from memory.
//!
//! The kernel publishes the address of the table for crash tools, in its note `VMCOREINFO`. It
//! exports a function that returns the address of the note. No header documents the format of the
//! table. So this file checks the format: a read of unmapped memory fails, each name must start
//! with a type, and the table must contain two names that every kernel has.
//!
//! This file only reads data at the addresses in the note. It calls no function there.
//!
//! C: `crash_save_vmcoreinfo_init()` in `kernel/vmcore_info.c`.

use kernel::{
    ffi::c_void,
    prelude::*, //
};

use probe::{
    kallsyms::{
        token_texts,
        Names,
        Token,
        Tokens,
        MAX_COMPRESSED,
        TOKENS, //
    },
    vmcoreinfo::Vmcoreinfo, //
};

use crate::nofault::{
    read_kernel,
    Fault, //
};

use super::Counted;

/// Names that every kernel has: a function, and the symbol at the end of the kernel image.
const KNOWN: [&[u8]; 2] = [b"seq_read", b"_end"];

/// A number of symbols that no kernel reaches.
const TOO_MANY: usize = 1 << 22;

extern "C" {
    fn ktrace_vmcoreinfo(len: &mut usize) -> *const c_void;
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

/// Reads the names. `None` if the table cannot be found, or has an unknown format. `ENOMEM`.
///
/// Process context; sleeps.
pub(super) fn read() -> Result<Option<Counted>> {
    match find().and_then(|table| table.read()) {
        Ok(counted) => Ok(Some(counted)),
        Err(ReadError::Unknown) => Ok(None),
        Err(ReadError::Different) => {
            pr_info!(
                "the kernel's table of symbols looks different: reading /proc/kallsyms instead\n"
            );
            Ok(None)
        }
        Err(ReadError::Other(error)) => Err(error),
    }
}

/// The addresses of the kernel's table of symbols.
struct SymbolTable {
    /// The number of symbols.
    len: usize,
    names: usize,
    token_table: usize,
    token_index: usize,
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
    fn read(&self) -> Result<Counted, ReadError> {
        /// A chunk is longer than any name, so each read returns at least one whole name.
        const CHUNK: usize = 32 << 10;
        const { assert!(CHUNK > MAX_COMPRESSED) };

        let tokens = self.tokens()?;
        let tokens = Tokens::new(&tokens).ok_or(ReadError::Different)?;
        if self.len > TOO_MANY {
            return Err(ReadError::Different);
        }
        let mut counted = Counted::with_capacity(self.len)?;
        let mut chunk = KVVec::from_elem(0, CHUNK, GFP_KERNEL)?;
        let mut address = self.names;
        let mut left = self.len;
        while left > 0 {
            read_kernel(address, &mut chunk)?;
            let mut names = Names::new(&chunk);
            let before = left;
            for name in names.by_ref().take(before) {
                counted.add(tokens.hash(name).ok_or(ReadError::Different)?)?;
                left = left.wrapping_sub(1);
            }
            if left == before {
                return Err(ReadError::Different);
            }
            let read = CHUNK.wrapping_sub(names.rest().len());
            address = address.wrapping_add(read);
        }
        if KNOWN.iter().all(|name| counted.all.contains(name)) {
            Ok(counted)
        } else {
            Err(ReadError::Different)
        }
    }

    fn tokens(&self) -> Result<KVVec<Token>, ReadError> {
        let mut index = [0; 2 * TOKENS];
        read_kernel(self.token_index, &mut index)?;
        // The index directly follows the table.
        let len = self.token_index.wrapping_sub(self.token_table);
        if len > usize::from(u16::MAX) {
            return Err(ReadError::Different);
        }
        let mut table = KVVec::from_elem(0, len, GFP_KERNEL)?;
        read_kernel(self.token_table, &mut table)?;
        let mut tokens = KVVec::with_capacity(TOKENS, GFP_KERNEL)?;
        for text in token_texts(&table, &index) {
            tokens.push(Token::new(text.ok_or(ReadError::Different)?), GFP_KERNEL)?;
        }
        Ok(tokens)
    }
}
