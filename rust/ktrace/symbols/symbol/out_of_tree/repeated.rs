// SPDX-License-Identifier: GPL-2.0

//! The names that more than one symbol of the kernel image has.
//!
//! The kernel exports no function that counts symbols. Its table of names is in memory: see
//! [`symbol_table`]. `kallsyms` in proc has the same names, but reading this file takes 16 times as
//! many instructions, because the kernel formats each line. So this file is read only if the table
//! cannot be found, or has an unknown format.

use kernel::prelude::*;

use probe::{
    hash::hash,
    kallsyms, //
};

use super::{
    kallsyms::Kallsyms,
    symbol_table, //
};

/// A set of the hashes of names.
struct NameHashes {
    /// The hash table. At most half of its slots are in use. The other slots are 0.
    table: KVVec<u64>,
    len: usize,
}

impl NameHashes {
    /// Creates a set with capacity for `len` names.
    fn with_capacity(len: usize) -> Result<Self> {
        let size = len.saturating_mul(2).max(1024).next_power_of_two();
        Ok(Self {
            table: KVVec::from_elem(0, size, GFP_KERNEL)?,
            len: 0,
        })
    }

    /// Adds a hash. Returns whether the set contained it already.
    #[inline(always)]
    fn add(&mut self, hash: u64) -> Result<bool> {
        if self.len >= self.table.len() / 2 {
            self.grow()?;
        }
        let was_there = kallsyms::insert(&mut self.table, hash);
        self.len = self.len.wrapping_add(usize::from(!was_there));
        Ok(was_there)
    }

    #[cold]
    fn grow(&mut self) -> Result {
        let mut larger = KVVec::from_elem(0, self.table.len().wrapping_mul(2), GFP_KERNEL)?;
        for &hash in self.table.iter().filter(|hash| **hash != 0) {
            kallsyms::insert(&mut larger, hash);
        }
        self.table = larger;
        Ok(())
    }

    fn contains(&self, name: &[u8]) -> bool {
        kallsyms::contains(&self.table, hash(name))
    }
}

/// All names, and the names that were added more than once.
struct Counted {
    all: NameHashes,
    repeated: NameHashes,
}

impl Counted {
    /// Creates a set with capacity for `len` names.
    fn with_capacity(len: usize) -> Result<Self> {
        Ok(Self {
            all: NameHashes::with_capacity(len)?,
            repeated: NameHashes::with_capacity(0)?,
        })
    }

    /// Makes room for this many names, before the first one is added.
    fn reserve(&mut self, len: usize) -> Result {
        if self.all.len == 0 {
            self.all = NameHashes::with_capacity(len)?;
        }
        Ok(())
    }

    /// Adds a name by its hash.
    fn add(&mut self, hash: u64) -> Result {
        if self.all.add(hash)? {
            self.repeated.add(hash)?;
        }
        Ok(())
    }
}

/// The names that more than one symbol of the kernel image has.
pub struct Repeated(NameHashes);

impl Repeated {
    /// Finds these names. The symbols of the kernel image do not change.
    ///
    /// Takes about 0.01 s, or 0.1 s if it must read `kallsyms` in proc, and 4 MB until it returns.
    /// Process context; sleeps. `ENOMEM`, and `ENODEV` if the kernel has no proc.
    #[export_name = "ktrace_own_read_repeated"]
    pub fn read() -> Result<Self> {
        let mut counted = Counted::with_capacity(0)?;
        let is_read = symbol_table::each(|len, symbol| {
            counted.reserve(len)?;
            counted.add(symbol.hash)
        })?;
        if !is_read {
            counted = read_file()?;
        }
        Ok(Self(counted.repeated))
    }

    /// Whether more than one symbol has this name.
    #[export_name = "ktrace_own_repeated_contains"]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name.as_bytes())
    }
}

/// Reads `kallsyms` in proc.
fn read_file() -> Result<Counted> {
    let mut counted = Counted::with_capacity(0)?;
    Kallsyms::open()?.each_of_kernel(|symbol| counted.add(hash(symbol.name)))?;
    Ok(counted)
}
