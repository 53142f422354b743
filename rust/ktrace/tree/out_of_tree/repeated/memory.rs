// SPDX-License-Identifier: GPL-2.0

//! The kernel's table of names, read where it is in memory.
//!
//! The kernel tells crash tools where the table is, in its note `VMCOREINFO`. It exports a function
//! that returns the address of the note. No header states the form of the table. So nothing here
//! relies on it: a read of memory that is not there fails, each name must start with a type, and
//! two names that every kernel has must be among them.
//!
//! Only data is read at the addresses in the note. No function is called there.
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

/// Names that every kernel has: of a function, and of the end of its memory.
const KNOWN: [&[u8]; 2] = [b"seq_read", b"_end"];

/// More symbols than any kernel has.
const TOO_MANY: usize = 1 << 22;

extern "C" {
    fn ktrace_vmcoreinfo(len: &mut usize) -> *const c_void;
}

/// Why the table could not be read.
enum Failure {
    /// The kernel does not say where the table is.
    Unknown,
    /// The table looks different than expected.
    Different,
    Other(Error),
}

impl From<Fault> for Failure {
    fn from(_: Fault) -> Self {
        Self::Different
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// Reads the names. `None` if the table cannot be found, or looks different. `ENOMEM`.
///
/// Process context; sleeps.
pub(super) fn read() -> Result<Option<Counted>> {
    match find().and_then(|place| place.read()) {
        Ok(counted) => Ok(Some(counted)),
        Err(Failure::Unknown) => Ok(None),
        Err(Failure::Different) => {
            pr_info!("the kernel's table of symbols looks different: /proc/kallsyms is read\n");
            Ok(None)
        }
        Err(Failure::Other(error)) => Err(error),
    }
}

/// Where the table is.
struct Place {
    /// The number of symbols.
    len: usize,
    names: usize,
    token_table: usize,
    token_index: usize,
}

fn find() -> Result<Place, Failure> {
    let mut len = 0;
    // SAFETY: The function has no requirements.
    let note = unsafe { ktrace_vmcoreinfo(&mut len) };
    let mut bytes = KVVec::from_elem(0, len, GFP_KERNEL)?;
    read_kernel(note as usize, &mut bytes).map_err(|_| Failure::Unknown)?;
    let find = || {
        let info = Vmcoreinfo::parse(&bytes)?;
        Some((
            info.symbol("kallsyms_num_syms")?,
            Place {
                len: 0,
                names: info.symbol("kallsyms_names")?,
                token_table: info.symbol("kallsyms_token_table")?,
                token_index: info.symbol("kallsyms_token_index")?,
            },
        ))
    };
    let (len, place) = find().ok_or(Failure::Unknown)?;
    let mut bytes = [0; size_of::<u32>()];
    read_kernel(len, &mut bytes)?;
    Ok(Place {
        len: u32::from_ne_bytes(bytes) as usize,
        ..place
    })
}

impl Place {
    fn read(&self) -> Result<Counted, Failure> {
        /// More than a name, so that each time at least one name is read.
        const CHUNK: usize = 32 << 10;
        const { assert!(CHUNK > MAX_COMPRESSED) };

        let tokens = self.tokens()?;
        let tokens = Tokens::new(&tokens).ok_or(Failure::Different)?;
        if self.len > TOO_MANY {
            return Err(Failure::Different);
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
                counted.add(tokens.hash(name).ok_or(Failure::Different)?)?;
                left = left.wrapping_sub(1);
            }
            if left == before {
                return Err(Failure::Different);
            }
            let read = CHUNK.wrapping_sub(names.rest().len());
            address = address.wrapping_add(read);
        }
        if KNOWN.iter().all(|name| counted.all.contains(name)) {
            Ok(counted)
        } else {
            Err(Failure::Different)
        }
    }

    fn tokens(&self) -> Result<KVVec<Token>, Failure> {
        let mut index = [0; 2 * TOKENS];
        read_kernel(self.token_index, &mut index)?;
        // The index is right behind the table.
        let len = self.token_index.wrapping_sub(self.token_table);
        if len > usize::from(u16::MAX) {
            return Err(Failure::Different);
        }
        let mut table = KVVec::from_elem(0, len, GFP_KERNEL)?;
        read_kernel(self.token_table, &mut table)?;
        let mut tokens = KVVec::with_capacity(TOKENS, GFP_KERNEL)?;
        for text in token_texts(&table, &index) {
            tokens.push(Token::new(text.ok_or(Failure::Different)?), GFP_KERNEL)?;
        }
        Ok(tokens)
    }
}
