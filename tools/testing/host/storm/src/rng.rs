// SPDX-License-Identifier: GPL-2.0

//! Random numbers that a seed determines.

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of one operation. An operation draws from its own generator only, so its
    /// result cannot change a later operation.
    pub fn new(seed: u64, worker: usize, number: u64) -> Self {
        let mut rng = Self(seed);
        rng.0 = rng.next() ^ worker as u64;
        rng.0 = rng.next() ^ number;
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in `count` calls.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// One of the items.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A random byte.
    pub fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}
