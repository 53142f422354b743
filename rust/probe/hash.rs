// SPDX-License-Identifier: GPL-2.0

//! The hash of a name, in one piece or in several.
//!
//! The hash is a polynomial of the bytes modulo 2^64. So the hash of a whole follows from the
//! hashes of its parts, and a part that occurs often is hashed once.

/// A random odd number.
const BASE: u64 = 0x9e6c_63d0_876a_3f6b;

/// The hash of a part of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartialHash {
    sum: u64,
    /// `BASE` to the power of the part's length.
    power: u64,
}

impl PartialHash {
    /// No bytes.
    pub(crate) const EMPTY: Self = Self { sum: 0, power: 1 };

    pub(crate) fn of(bytes: &[u8]) -> Self {
        bytes.iter().fold(Self::EMPTY, |part, &byte| {
            part.then(Self {
                sum: u64::from(byte),
                power: BASE,
            })
        })
    }

    /// This part, and then the next one.
    #[inline(always)]
    pub(crate) fn then(self, next: Self) -> Self {
        Self {
            sum: self.sum.wrapping_mul(next.power).wrapping_add(next.sum),
            power: self.power.wrapping_mul(next.power),
        }
    }

    /// The hash of a name that ends here, never 0.
    #[inline(always)]
    pub(crate) fn end(self) -> u64 {
        // A table uses the low bits, on which only the low bits of the bytes have an effect so far.
        let hash = (self.sum ^ (self.sum >> 32)).wrapping_mul(BASE);
        (hash ^ (hash >> 29)).max(1)
    }
}

/// The hash of a name, never 0.
pub fn hash(name: &[u8]) -> u64 {
    PartialHash::of(name).end()
}
