// SPDX-License-Identifier: GPL-2.0

//! Sorts in place, without recursion.
//!
//! `slice::sort_unstable()` calls itself up to twice the logarithm of the length deep. For the
//! names of all functions, that can need more than the kernel's stack of 16 KiB. C: `sort()` in
//! `lib/sort.c`, which is a heapsort for the same reason.

/// Sorts a slice. Takes the time of a look at each value if it is sorted already.
pub fn sort<T: Ord>(values: &mut [T]) {
    sort_by(values, |a, b| a < b);
}

/// Sorts a slice. Moves the different values to the front, each once, and returns their number.
pub fn sort_unique<T: Ord + Copy>(values: &mut [T]) -> usize {
    sort(values);
    let mut count = 0usize;
    let mut last = None;
    for index in 0..values.len() {
        let value = values.get(index).copied();
        if value != last {
            if let (Some(to), Some(value)) = (values.get_mut(count), value) {
                *to = value;
            }
            count = count.saturating_add(1);
            last = value;
        }
    }
    count
}

/// Sorts a slice by a key.
pub fn sort_by_key<T, K: Ord>(values: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(values, |a, b| key(a) < key(b));
}

fn sort_by<T>(values: &mut [T], is_less: impl Fn(&T, &T) -> bool) {
    if values.is_sorted_by(|a, b| !is_less(b, a)) {
        return;
    }
    // A heap: no value is less than its two children, those at twice its index, plus 1 and 2.
    for index in (0..values.len() / 2).rev() {
        sift_down(values, index, &is_less);
    }
    for end in (1..values.len()).rev() {
        values.swap(0, end);
        if let Some(heap) = values.get_mut(..end) {
            sift_down(heap, 0, &is_less);
        }
    }
}

/// Moves a value down to its place in the heap.
fn sift_down<T>(heap: &mut [T], mut index: usize, is_less: &impl Fn(&T, &T) -> bool) {
    loop {
        let left = index.saturating_mul(2).saturating_add(1);
        let right = left.saturating_add(1);
        let child = match (heap.get(left), heap.get(right)) {
            (Some(a), Some(b)) if is_less(a, b) => right,
            (Some(_), _) => left,
            (None, _) => return,
        };
        match (heap.get(index), heap.get(child)) {
            (Some(parent), Some(value)) if is_less(parent, value) => heap.swap(index, child),
            _ => return,
        }
        index = child;
    }
}
