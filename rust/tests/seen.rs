// SPDX-License-Identifier: GPL-2.0

//! The values that a handler saw, for assertions after the probe is removed.
//!
//! A test stores them in a static, because a handler runs on any CPU, and a failed assertion ends
//! the test without a drop.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

/// The number of words that are stored. Further words are only counted.
const ROOM: usize = 20;

/// Words, in the order in which they came.
pub(crate) struct Seen {
    len: Atomic<usize>,
    words: [Atomic<u64>; ROOM],
}

impl Seen {
    pub(crate) const fn new() -> Self {
        Self {
            len: Atomic::new(0),
            words: [const { Atomic::new(0) }; ROOM],
        }
    }

    /// Adds a word. Any context, for handlers.
    pub(crate) fn push(&self, word: u64) {
        let index = self.len.fetch_add(1, Relaxed);
        if let Some(place) = self.words.get(index) {
            place.store(word, Relaxed);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// The word of this index, or 0.
    pub(crate) fn get(&self, index: usize) -> u64 {
        let word = self.words.get(index);
        word.map_or(0, |word| word.load(Relaxed))
    }

    /// Whether exactly these values were seen. If not, logs the values that were seen, because an
    /// assertion does not report them.
    pub(crate) fn is(&self, expected: &[u64]) -> bool {
        let len = self.len();
        let same = len == expected.len()
            && expected
                .iter()
                .enumerate()
                .all(|(index, word)| self.get(index) == *word);
        if !same {
            pr_err!("expected {:x?}, but there are {}:\n", expected, len);
            for index in 0..len.min(ROOM) {
                pr_err!("    {:#x}\n", self.get(index));
            }
        }
        same
    }
}

/// A place that no test reads.
pub(crate) static NOWHERE: Seen = Seen::new();

/// Records its drop: then the handler that contains it is freed.
pub(crate) struct Dropped(pub(crate) &'static Seen, pub(crate) u64);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.push(self.1);
    }
}

/// Initialises a probe in a box.
pub(crate) fn boxed<P>(probe: impl PinInit<P, Error>) -> Result<Pin<KBox<P>>> {
    KBox::pin_init(probe, GFP_KERNEL)
}

/// The errno of a failure, or 0.
pub(crate) fn errno<T>(result: Result<T>) -> i32 {
    result.err().map_or(0, |error| error.to_errno())
}
