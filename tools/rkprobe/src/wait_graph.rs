// SPDX-License-Identifier: GPL-2.0

//! Who waits for whom. Each thread waits for at most one other thread.

use std::collections::{
    BTreeMap,
    BTreeSet, //
};

/// The thread for which each thread waits.
#[derive(Default)]
pub struct Graph(pub BTreeMap<u32, u32>);

impl Graph {
    /// The threads that wait for each other in a circle, each circle from its lowest thread on.
    pub fn cycles(&self) -> Vec<Vec<u32>> {
        let mut cycles = Vec::new();
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        for start in self.0.keys() {
            let mut path = Vec::new();
            let mut at = *start;
            while seen.insert(at) {
                path.push(at);
                match self.0.get(&at) {
                    Some(next) => at = *next,
                    None => break,
                }
            }
            let Some(first) = path.iter().position(|pid| *pid == at) else {
                continue;
            };
            // The last thread of a path that ends is no circle.
            if self.0.contains_key(&at) {
                let mut cycle = path.split_off(first);
                let lowest = cycle.iter().enumerate().min_by_key(|(_, pid)| **pid);
                let lowest = lowest.map_or(0, |(index, _)| index);
                cycle.rotate_left(lowest);
                cycles.push(cycle);
            }
        }
        cycles.sort();
        cycles
    }

    /// The threads that wait for a thread.
    pub fn waiters(&self, of: u32) -> impl Iterator<Item = u32> + '_ {
        let all = self.0.iter();
        all.filter(move |(_, holder)| **holder == of)
            .map(|(waiter, _)| *waiter)
    }

    /// All threads that the given ones wait for, and that wait for them, directly or not, with the given ones.
    pub fn connected(&self, threads: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
        let mut found: BTreeSet<u32> = BTreeSet::new();
        let mut open: Vec<u32> = threads.into_iter().collect();
        while let Some(pid) = open.pop() {
            if found.insert(pid) {
                open.extend(self.0.get(&pid));
                open.extend(self.waiters(pid));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u32, u32)]) -> Graph {
        Graph(edges.iter().copied().collect())
    }

    #[test]
    fn finds_circles() {
        assert!(graph(&[(1, 2), (2, 3), (4, 2)]).cycles().is_empty());
        let all = graph(&[
            (9, 5),
            (5, 3),
            (3, 9),
            (1, 5),
            (7, 8),
            (8, 7),
            (2, 2),
            (4, 6),
        ]);
        assert_eq!(all.cycles(), [vec![2], vec![3, 9, 5], vec![7, 8]]);
        assert!(Graph::default().cycles().is_empty());
    }

    #[test]
    fn threads_are_connected_through_their_waits() {
        let all = graph(&[(1, 2), (3, 2), (2, 4), (5, 6)]);
        let of = |pid| all.connected([pid]).into_iter().collect::<Vec<_>>();
        assert_eq!(of(3), [1, 2, 3, 4]);
        assert_eq!(of(6), [5, 6]);
        assert_eq!(of(7), [7]);
        assert_eq!(all.waiters(2).collect::<Vec<_>>(), [1, 3]);
    }
}
