// SPDX-License-Identifier: GPL-2.0

//! Numbers that the kernel has counted by buckets: their figures, and their histogram.

use std::collections::BTreeMap;

use crate::{
    draw::Bar,
    hist::{
        self,
        Row, //
    },
    spread::{
        Bucket,
        Range,
        Scale,
        Spread, //
    },
};

/// Counted numbers. The figures are those of the numbers that are not negative.
#[derive(Default)]
pub struct Counted {
    /// The negative numbers.
    pub negative: u64,
    /// The sum.
    pub total: u64,
    /// The least and the greatest number. Unknown for an interval if an earlier number was less or greater.
    pub min: Option<u64>,
    pub max: Option<u64>,
    /// For each number, the upper bound of its bucket in the kernel.
    spread: Spread,
}

impl Counted {
    /// The numbers of rows whose last key is a bucket.
    pub fn new<'r>(rows: impl Iterator<Item = &'r Row>) -> Self {
        let mut counted = Self::default();
        let mut counts: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            let Some(bound) = row.keys.last().and_then(|key| hist::bound(key)) else {
                counted.negative += row.hits;
                continue;
            };
            counts.entry(bound).or_default().push(row);
            counted.spread.add(bound, row.hits);
            counted.total += row.sum;
        }
        let all = |rows: &[&Row], number: fn(&Row) -> Option<u64>| -> Option<Vec<u64>> {
            rows.iter().map(|row| number(row)).collect()
        };
        let (first, last) = (counts.first_key_value(), counts.last_key_value());
        counted.min = first.and_then(|(_, rows)| all(rows, |row| row.min)?.into_iter().min());
        counted.max = last.and_then(|(_, rows)| all(rows, |row| row.max)?.into_iter().max());
        counted
    }

    /// The number of all hits.
    pub fn hits(&self) -> u64 {
        self.spread.count() + self.negative
    }

    pub fn average(&self) -> u64 {
        self.total / self.spread.count().max(1)
    }

    /// The upper bound of the bucket of the number that `percent` of the numbers do not exceed.
    pub fn percentile(&self, percent: u64) -> u64 {
        self.spread.percentile(percent)
    }

    /// The greatest number, or the upper bound of its bucket.
    pub fn max_or_bound(&self) -> u64 {
        self.max.unwrap_or(self.spread.max())
    }

    /// The range of the buckets in the kernel.
    pub fn range(&self) -> Option<Range> {
        self.spread.range()
    }

    /// All buckets between the first and the last with a number.
    pub fn buckets(&self, scale: &Scale) -> Vec<Bucket> {
        self.spread.buckets(scale)
    }

    /// The buckets of a range of all numbers.
    pub fn buckets_of(&self, scale: &Scale, range: Option<Range>) -> Vec<Bucket> {
        self.spread.buckets_of(scale, range)
    }

    /// The buckets of durations as the rows of a diagram.
    pub fn bars(&self, scale: &Scale) -> Vec<Bar> {
        self.spread.bars(scale)
    }

    /// The buckets of a range of durations as the rows of a diagram.
    pub fn bars_of(&self, scale: &Scale, range: Option<Range>) -> Vec<Bar> {
        self.spread.bars_of(scale, range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Counted {
        Counted::new(hist::parse(text, &["x"], Some("x")).rows.iter())
    }

    fn buckets(counted: &Counted, scale: &str) -> Vec<(u64, Option<u64>, u64)> {
        let scale = Scale::parse_numbers(scale).unwrap();
        let buckets = counted.buckets(&scale).into_iter();
        buckets
            .map(|bucket| (bucket.over_ns, bucket.to_ns, bucket.count))
            .collect()
    }

    #[test]
    fn negative_numbers_are_not_in_the_figures() {
        let text = "{ x: ~ 2^64 } hitcount: 2 x: 18446744073709551594 min_x: -11 max_x: -11\n\
            { x: ~ 2^0  } hitcount: 3 x: 2 min_x: 0 max_x: 1\n\
            { x: ~ 2^3  } hitcount: 1 x: 8 min_x: 8 max_x: 8\n";
        let counted = counted(text);
        assert_eq!((counted.hits(), counted.negative), (6, 2));
        assert_eq!((counted.total, counted.average()), (10, 2));
        assert_eq!((counted.min, counted.max), (Some(0), Some(8)));
        assert_eq!([50, 99].map(|percent| counted.percentile(percent)), [1, 8]);
        assert_eq!(counted.buckets(&Scale::Log2).len(), 4);
        assert_eq!(Counted::default().percentile(99), 0);
    }

    #[test]
    fn the_rows_of_the_kernel_are_parts_of_those_of_the_scale() {
        let text = "{ x: ~ 0-99 } hitcount: 3 x: 9 min_x: 0 max_x: 9\n\
            { x: ~ 100-199 } hitcount: 1 x: 100 min_x: 100 max_x: 100\n\
            { x: ~ 400-499 } hitcount: 2 x: 800 min_x: 400 max_x: 400\n\
            { x: ~ 900-999 } hitcount: 1 x: 900 min_x: 900 max_x: 900\n";
        let counted = counted(text);
        assert_eq!(
            buckets(&counted, "100,400,500"),
            [
                (0, Some(100), 3),
                (100, Some(400), 1),
                (400, Some(500), 2),
                (500, None, 1)
            ]
        );
        assert_eq!(buckets(&counted, "500").len(), 2);
        assert_eq!((counted.max_or_bound(), counted.percentile(50)), (900, 200));
    }
}
