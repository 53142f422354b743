// SPDX-License-Identifier: GPL-2.0

//! Hashes a name, as a whole or in parts.
//!
//! The hash is a polynomial of the bytes modulo 2^64. The hashes of two parts determine the hash of
//! the whole. So a caller needs to hash a frequent part only once.

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
    /// The hash of an empty part.
    pub(crate) const EMPTY: Self = Self { sum: 0, power: 1 };

    pub(crate) fn of(bytes: &[u8]) -> Self {
        bytes.iter().fold(Self::EMPTY, |part, &byte| {
            part.then(Self {
                sum: u64::from(byte),
                power: BASE,
            })
        })
    }

    /// The hash of this part followed by `next`.
    #[inline(always)]
    pub(crate) fn then(self, next: Self) -> Self {
        Self {
            sum: self.sum.wrapping_mul(next.power).wrapping_add(next.sum),
            power: self.power.wrapping_mul(next.power),
        }
    }

    /// The hash of a name that ends here. Never returns 0.
    #[inline(always)]
    pub(crate) fn end(self) -> u64 {
        // A table uses the low bits. Up to here, only the low bits of the bytes affect them.
        let hash = (self.sum ^ (self.sum >> 32)).wrapping_mul(BASE);
        (hash ^ (hash >> 29)).max(1)
    }
}

/// The hash of a name. Never returns 0.
pub fn hash(name: &[u8]) -> u64 {
    PartialHash::of(name).end()
}
