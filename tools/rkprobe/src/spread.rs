// SPDX-License-Identifier: GPL-2.0

//! Durations, each of which is known: their exact percentiles, and their histogram.

use std::{
    collections::BTreeMap,
    ops::Bound, //
};

use serde::Serialize;

use crate::{
    draw::Bar,
    duration, //
};

/// The number of buckets of one width. The last bucket has all longer durations.
const MAX_LINEAR: u64 = 50;

/// The buckets of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Between powers of two of a ns.
    Log2,
    /// Each has this width in ns.
    Linear(u64),
    /// Up to each of these durations in ns, which increase, and above the last.
    Edges(Vec<u64>),
}

impl Scale {
    /// Parses the durations of `--buckets`. A single duration is the width of all buckets.
    pub fn parse(text: &str) -> Result<Self, String> {
        let edges: Result<Vec<u64>, String> = text
            .split(',')
            .map(|edge| duration::parse(edge, "ms"))
            .collect();
        Self::new(text, edges?, "durations")
    }

    /// Parses the numbers of `--buckets`. A single number is the width of all buckets.
    pub fn parse_numbers(text: &str) -> Result<Self, String> {
        let number = |edge: &str| {
            let number: Result<u64, _> = edge.parse();
            number.map_err(|_| format!("{edge}: no decimal number"))
        };
        let edges: Result<Vec<u64>, String> = text.split(',').map(number).collect();
        Self::new(text, edges?, "numbers")
    }

    fn new(text: &str, edges: Vec<u64>, what: &str) -> Result<Self, String> {
        if edges[0] == 0 || edges.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(format!(
                "{text}: the {what} must be more than 0, and increase"
            ));
        }
        Ok(match edges[..] {
            [width] => Self::Linear(width),
            _ => Self::Edges(edges),
        })
    }

    /// The modifier of a key by which the kernel counts. Each of the kernel's buckets is in one bucket of this scale.
    pub fn modifier(&self) -> String {
        match self {
            Self::Log2 => "log2".into(),
            Self::Linear(width) => format!("buckets={width}"),
            Self::Edges(edges) => {
                let divisor = edges.iter().copied().fold(0, greatest_divisor);
                format!("buckets={divisor}")
            }
        }
    }

    /// The number of rows of the kernel's table, for one or many functions, with or without groups.
    pub fn table_size(&self, has_functions: bool, has_groups: bool) -> u32 {
        match (self, has_functions, has_groups) {
            (Self::Log2, false, false) => 128,
            (Self::Log2, false, true) => 4096,
            _ => 8192,
        }
    }

    /// The upper bounds of the buckets that are necessary for durations from `min` to `max`, with the bound below them.
    fn bounds(&self, min: u64, max: u64) -> (u64, Vec<u64>) {
        let above = |bounds: Vec<u64>| {
            let below = bounds.iter().rev().find(|bound| **bound < min);
            let mut needed: Vec<u64> = Vec::new();
            for bound in bounds.iter().filter(|bound| **bound >= min) {
                needed.push(*bound);
                if *bound >= max {
                    break;
                }
            }
            (below.copied().unwrap_or(0), needed)
        };
        match self {
            Self::Log2 => above((0..64).map(|exponent| 1 << exponent).collect()),
            Self::Linear(width) => {
                let first = min.saturating_sub(1) / width;
                let count = (max.saturating_sub(1) / width).saturating_sub(first) + 1;
                let bound = |index: u64| width.saturating_mul(first + index);
                (bound(0), (1..=count.min(MAX_LINEAR)).map(bound).collect())
            }
            Self::Edges(edges) => above(edges.clone()),
        }
    }
}

/// The greatest number that divides both.
fn greatest_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => greatest_divisor(b, a % b),
    }
}

/// The durations between two bounds.
#[derive(Debug, PartialEq, Serialize)]
pub struct Bucket {
    pub over_ns: u64,
    /// Nothing in the bucket above the last bound.
    pub to_ns: Option<u64>,
    pub count: u64,
}

impl Bucket {
    /// A row of a diagram of durations.
    pub fn bar(&self) -> Bar {
        let to = self.to_ns.map_or("more".into(), duration::show);
        Bar {
            label: format!("{:>7} .. {to:>7}", duration::show(self.over_ns)),
            value: self.count,
        }
    }
}

/// The shortest and the longest duration.
pub type Range = (u64, u64);

/// The range of all ranges.
pub fn range_of(ranges: impl Iterator<Item = Option<Range>>) -> Option<Range> {
    let ranges = ranges.flatten();
    ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Durations, in ns.
#[derive(Clone, Default)]
pub struct Spread {
    counts: BTreeMap<u64, u64>,
    count: u64,
    total: u64,
}

/// The figures of durations, in JSON.
#[derive(Serialize)]
pub struct Figures {
    count: u64,
    total_ns: u64,
    min_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

impl Spread {
    /// Adds the same duration `count` times.
    pub fn add(&mut self, ns: u64, count: u64) {
        *self.counts.entry(ns).or_default() += count;
        self.count += count;
        self.total = self.total.saturating_add(ns.saturating_mul(count));
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all durations.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The average. 0 if there is no duration, as for the other figures.
    pub fn average(&self) -> u64 {
        self.total / self.count.max(1)
    }

    /// The shortest duration.
    pub fn min(&self) -> u64 {
        self.counts.keys().next().copied().unwrap_or(0)
    }

    /// The longest duration.
    pub fn max(&self) -> u64 {
        self.counts.keys().next_back().copied().unwrap_or(0)
    }

    /// The shortest of the durations that `percent` of the durations do not exceed.
    pub fn percentile(&self, percent: u64) -> u64 {
        let rank = u128::from(self.count) * u128::from(percent);
        let mut seen = 0;
        let is_it = |(_, count): &(&u64, &u64)| {
            seen += u128::from(**count) * 100;
            seen >= rank
        };
        self.counts.iter().find(is_it).map_or(0, |(ns, _)| *ns)
    }

    /// The shortest and the longest duration, if there is one.
    pub fn range(&self) -> Option<Range> {
        (self.count > 0).then(|| (self.min(), self.max()))
    }

    /// All buckets from the first to the last that has a duration.
    pub fn buckets(&self, scale: &Scale) -> Vec<Bucket> {
        self.buckets_of(scale, self.range())
    }

    /// All buckets from that of the first to that of the last duration of a range, which contains all durations.
    pub fn buckets_of(&self, scale: &Scale, range: Option<Range>) -> Vec<Bucket> {
        let Some((min, max)) = range else {
            return Vec::new();
        };
        let (mut below, bounds) = scale.bounds(min, max);
        // The first bucket also has the duration 0.
        let mut from = match below {
            0 => Bound::Unbounded,
            below => Bound::Excluded(below),
        };
        let mut buckets = Vec::new();
        let mut seen = 0;
        for bound in bounds {
            let count = self.counts.range((from, Bound::Included(bound)));
            let count = count.map(|(_, count)| count).sum();
            seen += count;
            buckets.push(Bucket {
                over_ns: below,
                to_ns: Some(bound),
                count,
            });
            (below, from) = (bound, Bound::Excluded(bound));
        }
        if below < max {
            buckets.push(Bucket {
                over_ns: below,
                to_ns: None,
                count: self.count - seen,
            });
        }
        buckets
    }

    /// The buckets as the rows of a diagram.
    pub fn bars(&self, scale: &Scale) -> Vec<Bar> {
        self.bars_of(scale, self.range())
    }

    /// The buckets of a range as the rows of a diagram.
    pub fn bars_of(&self, scale: &Scale, range: Option<Range>) -> Vec<Bar> {
        let buckets = self.buckets_of(scale, range);
        buckets.iter().map(Bucket::bar).collect()
    }

    /// The figures for JSON.
    pub fn figures(&self) -> Figures {
        Figures {
            count: self.count,
            total_ns: self.total,
            min_ns: self.min(),
            p50_ns: self.percentile(50),
            p90_ns: self.percentile(90),
            p99_ns: self.percentile(99),
            max_ns: self.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(durations: &[u64]) -> Spread {
        let mut spread = Spread::default();
        for ns in durations {
            spread.add(*ns, 1);
        }
        spread
    }

    fn counts(spread: &Spread, scale: &Scale) -> Vec<(u64, Option<u64>, u64)> {
        let buckets = spread.buckets(scale);
        let tuple = |bucket: &Bucket| (bucket.over_ns, bucket.to_ns, bucket.count);
        buckets.iter().map(tuple).collect()
    }

    #[test]
    fn percentiles_are_durations_that_occurred() {
        let hundred: Vec<u64> = (1..=100).map(|n| n * 1000).collect();
        let spread = spread(&hundred);
        let percentiles = [1, 50, 90, 99, 100].map(|percent| spread.percentile(percent));
        assert_eq!(percentiles, [1000, 50_000, 90_000, 99_000, 100_000]);
        assert_eq!((spread.min(), spread.max()), (1000, 100_000));
        assert_eq!((spread.count(), spread.average()), (100, 50_500));
        let one = self::spread(&[7]);
        assert_eq!((one.percentile(1), one.percentile(99)), (7, 7));
        assert_eq!(Spread::default().percentile(50), 0);
    }

    #[test]
    fn each_duration_is_in_one_bucket() {
        let spread = spread(&[0, 1, 2, 3, 4, 9]);
        assert_eq!(
            counts(&spread, &Scale::Log2),
            [
                (0, Some(1), 2),
                (1, Some(2), 1),
                (2, Some(4), 2),
                (4, Some(8), 0),
                (8, Some(16), 1)
            ]
        );
        assert_eq!(
            counts(&spread, &Scale::Linear(4)),
            [(0, Some(4), 5), (4, Some(8), 0), (8, Some(12), 1)]
        );
        let edges = Scale::Edges(vec![1, 5]);
        assert_eq!(
            counts(&spread, &edges),
            [(0, Some(1), 2), (1, Some(5), 3), (5, None, 1)]
        );
        let high = self::spread(&[20, 22]);
        assert_eq!(counts(&high, &edges), [(5, None, 2)]);
        assert_eq!(
            counts(&high, &Scale::Linear(10)),
            [(10, Some(20), 1), (20, Some(30), 1)]
        );
        assert_eq!(counts(&high, &Scale::Log2), [(16, Some(32), 2)]);
        let wide = self::spread(&[1, 1000]);
        let rows = counts(&wide, &Scale::Linear(1));
        assert_eq!(
            (rows.len() as u64, rows[50]),
            (MAX_LINEAR + 1, (50, None, 1))
        );
        assert!(counts(&Spread::default(), &Scale::Log2).is_empty());
        let range = range_of([high.range(), None, spread.range()].into_iter());
        let rows = |spread: &Spread, scale| -> Vec<u64> {
            let buckets = spread.buckets_of(scale, range);
            buckets.iter().map(|bucket| bucket.count).collect()
        };
        assert_eq!(rows(&high, &Scale::Log2), [0, 0, 0, 0, 0, 2]);
        assert_eq!(rows(&spread, &Scale::Log2), [2, 1, 2, 0, 1, 0]);
        assert_eq!(rows(&spread, &edges), [2, 3, 1]);
        assert_eq!(rows(&high, &edges), [0, 0, 2]);
        assert_eq!(rows(&Spread::default(), &Scale::Linear(20)), [0, 0]);
        assert_eq!(high.bars(&edges)[0].label, "   5 ns ..    more");
    }

    #[test]
    fn buckets_increase() {
        assert_eq!(Scale::parse("2ms"), Ok(Scale::Linear(2_000_000)));
        assert_eq!(
            Scale::parse("1us,1ms"),
            Ok(Scale::Edges(vec![1000, 1_000_000]))
        );
        for wrong in ["", "0", "1ms,1ms", "2ms,1ms", "1ms,", "x"] {
            assert!(Scale::parse(wrong).is_err(), "{wrong}");
        }
    }
}
