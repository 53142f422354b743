// SPDX-License-Identifier: GPL-2.0

//! The text of `/proc/kallsyms`: which names stand for more than one place.
//!
//! There are some 200,000 symbols, and only the few thousand names that repeat are of interest: they
//! are kept as hashes. Two names with one hash are found once in some 10⁸ kernels.
//!
//! # Examples
//!
//! ```
//! use probe::kallsyms::{hash, keep_repeated, Symbol};
//!
//! let text = "ffff1 t show\nffff2 T vfs_read\nffff3 t show\nffff4 t show\t[video]\n";
//! let mut hashes: Vec<u64> = text
//!     .lines()
//!     .filter_map(|line| Symbol::parse(line.as_bytes()))
//!     .filter(|symbol| symbol.module.is_none())
//!     .map(|symbol| hash(symbol.name))
//!     .collect();
//! let kept = keep_repeated(&mut hashes);
//! hashes.truncate(kept);
//! assert_eq!(hashes, [hash(b"show")]);
//! ```

/// The longest line, in bytes: an address, a type, a name (`KSYM_NAME_LEN`), a module.
pub const MAX_LINE: usize = 1024;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The module that it belongs to, if it is not the kernel's own.
    pub module: Option<&'a [u8]>,
}

impl<'a> Symbol<'a> {
    /// Reads a line, without its newline: `ADDRESS TYPE NAME[\t[MODULE]]`.
    ///
    /// C: `s_show()` in `kernel/kallsyms.c`.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = line.splitn(3, |&byte| byte == b' ');
        let rest = words.nth(2)?;
        let mut parts = rest.splitn(2, |&byte| byte == b'\t');
        let name = parts.next().filter(|name| !name.is_empty())?;
        let module = match parts.next() {
            Some(module) => Some(module.strip_prefix(b"[")?.strip_suffix(b"]")?),
            None => None,
        };
        Some(Self { name, module })
    }
}

/// The hash of a name: FNV-1a, 64 bits.
pub fn hash(name: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    name.iter().fold(OFFSET, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

/// Moves those that occur more than once to the front, sorted, each once, and gives their number.
pub fn keep_repeated(hashes: &mut [u64]) -> usize {
    sort(hashes);
    let mut kept = 0;
    let mut last = None;
    let mut was_kept = false;
    for index in 0..hashes.len() {
        let Some(&hash) = hashes.get(index) else {
            break;
        };
        if last != Some(hash) {
            was_kept = false;
        } else if !was_kept {
            was_kept = true;
            if let Some(place) = hashes.get_mut(kept) {
                *place = hash;
                kept = kept.wrapping_add(1);
            }
        }
        last = Some(hash);
    }
    kept
}

/// Heapsort: in place, and never slow. `core` has better ones, that can panic in a way which objtool
/// does not know.
fn sort(values: &mut [u64]) {
    let len = values.len();
    for root in (0..len / 2).rev() {
        sift_down(values, root, len);
    }
    for end in (1..len).rev() {
        values.swap(0, end);
        sift_down(values, 0, end);
    }
}

/// Makes a heap, the largest first, of `values[root..end]`, of which only the root is out of place.
fn sift_down(values: &mut [u64], mut root: usize, end: usize) {
    let Some(values) = values.get_mut(..end) else {
        return;
    };
    loop {
        let left = root.wrapping_mul(2).wrapping_add(1);
        let right = left.wrapping_add(1);
        let larger = match (values.get(left), values.get(right)) {
            (Some(a), Some(b)) if b > a => right,
            (Some(_), _) => left,
            (None, _) => return,
        };
        if values.get(larger) <= values.get(root) {
            return;
        }
        values.swap(root, larger);
        root = larger;
    }
}
