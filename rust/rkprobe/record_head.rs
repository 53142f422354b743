// SPDX-License-Identifier: GPL-2.0

//! The start of a record: where the hit was.

use probe::call_tree::StepRecord;

/// The place of a hit.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The address of the probe, or of the function that returns.
    pub(crate) address: usize,
    /// At a return, the address that the function returns to.
    pub(crate) caller: Option<usize>,
}

/// The addresses at the start of a record. Their size in the record is the size of this type.
pub(crate) trait RecordHead: Copy {
    /// Writes the addresses. Returns the rest of the record.
    fn put(self, record: &mut [u8]) -> Option<&mut [u8]>;

    /// The place of the hit.
    fn place(self) -> Place;
}

/// The record of an event probe starts with no address.
impl RecordHead for () {
    #[inline(always)]
    fn put(self, record: &mut [u8]) -> Option<&mut [u8]> {
        Some(record)
    }

    #[inline(always)]
    fn place(self) -> Place {
        let (address, caller) = (0, None);
        Place { address, caller }
    }
}

/// The fields of a step.
impl RecordHead for StepRecord {
    #[inline(always)]
    fn put(self, record: &mut [u8]) -> Option<&mut [u8]> {
        let (head, rest) = record.split_at_mut_checked(Self::BYTES)?;
        for (to, word) in head.chunks_exact_mut(size_of::<u64>()).zip(self.words()) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        Some(rest)
    }

    #[inline(always)]
    fn place(self) -> Place {
        let [address, ..] = *self.words();
        let (address, caller) = (address as usize, None);
        Place { address, caller }
    }
}

/// The address of the probe.
impl RecordHead for (usize,) {
    #[inline(always)]
    fn put(self, record: &mut [u8]) -> Option<&mut [u8]> {
        put_address(record, self.0)
    }

    #[inline(always)]
    fn place(self) -> Place {
        let (address, caller) = (self.0, None);
        Place { address, caller }
    }
}

/// The address of the function, and the address that it returns to.
impl RecordHead for (usize, usize) {
    #[inline(always)]
    fn put(self, record: &mut [u8]) -> Option<&mut [u8]> {
        put_address(put_address(record, self.0)?, self.1)
    }

    #[inline(always)]
    fn place(self) -> Place {
        let (address, caller) = (self.0, Some(self.1));
        Place { address, caller }
    }
}

#[inline(always)]
fn put_address(record: &mut [u8], address: usize) -> Option<&mut [u8]> {
    let (first, rest) = record.split_first_chunk_mut()?;
    *first = address.to_ne_bytes();
    Some(rest)
}
