// SPDX-License-Identifier: GPL-2.0

//! Tests of per-CPU memory.

use kernel::prelude::*;

#[kunit_tests(ktrace_percpu)]
mod tests {
    use super::*;

    use kernel::sync::Arc;

    use ktrace::{
        counter_array::CounterArray,
        kprobe::{
            Handler,
            Hit,
            Kprobe, //
        },
        percpu::{
            Counter,
            Counters,
            Histogram,
            Scratch, //
        },
        replaceable::Replaceable, //
    };

    use crate::{
        kunit_targets::*, //
        seen::{
            boxed,
            Seen, //
        },
    };

    #[test]
    fn a_counter_counts_from_zero() -> Result {
        let (counter, other) = (Counter::new()?, Counter::new()?);
        let mut sums = [counter.sum(), 0, other.sum()];
        for _ in 0..1000 {
            counter.increment();
        }
        sums[1] = counter.sum();
        assert_eq!(sums, [0, 1000, 0]);
        Ok(())
    }

    #[test]
    fn counters_of_one_allocation_are_separate() -> Result {
        let counters = Counters::<3>::new()?;
        for _ in 0..1000 {
            counters.increment::<2>();
        }
        counters.increment::<0>();
        let sums = [
            counters.sum::<0>(),
            counters.sum::<1>(),
            counters.sum::<2>(),
        ];
        assert_eq!(sums, [1, 0, 1000]);
        Ok(())
    }

    #[test]
    fn a_counter_adds_and_starts_anew() -> Result {
        let counters = Counters::<3>::new()?;
        counters.add::<1>(5);
        counters.add_to(1, 2);
        counters.add_to(2, u64::MAX);
        // There is no such counter.
        counters.add_to(3, 1);
        let sums = [0, 1, 2, 3].map(|index| counters.sum_of(index));
        counters.reset();
        counters.add::<2>(4);
        let after = [0, 1, 2].map(|index| counters.sum_of(index));
        let counter = Counter::new()?;
        counter.add(1000);
        counter.reset();
        counter.increment();
        assert_eq!(sums, [0, 7, u64::MAX, 0]);
        assert_eq!(after, [0, 0, 4]);
        assert_eq!(counter.sum(), 1);
        Ok(())
    }

    #[test]
    fn a_histogram_counts_by_powers_of_two() -> Result {
        let histogram = Histogram::new()?;
        for number in [0, 1, 2, 3, 4, 7, 8, 1 << 63, u64::MAX] {
            histogram.record(number);
        }
        let mut counts = [0; 65];
        let mut next = 0;
        let mut is_gapless = true;
        for ((range, count), place) in histogram.buckets().zip(&mut counts) {
            is_gapless &= *range.start() == next && range.start() <= range.end();
            next = range.end().wrapping_add(1);
            *place = count;
        }
        histogram.reset();
        let left: u64 = histogram.buckets().map(|(_, count)| count).sum();
        assert!(is_gapless);
        assert_eq!(next, 0);
        assert_eq!(counts[..5], [1, 1, 2, 2, 1]);
        assert_eq!(counts[64], 2);
        assert_eq!(counts.iter().sum::<u64>(), 9);
        assert_eq!(left, 0);
        Ok(())
    }

    /// Counts by CPU, in two ways.
    struct ByCpu(Counter, Counters<64>);

    #[vtable]
    impl Handler for ByCpu {
        fn pre(&self, hit: &Hit<'_>) {
            self.0.increment();
            self.1.add_to(hit.atomic().cpu() as usize, 1);
        }
    }

    #[test]
    fn a_hit_counts_on_its_cpu() -> Result {
        let probe = boxed(Kprobe::new(VISIT, ByCpu(Counter::new()?, Counters::new()?)))?;
        for _ in 0..10 {
            visit_cpus();
        }
        let ByCpu(counter, by_number) = probe.handler();
        let mut cpus = 0;
        let mut is_same = true;
        for (cpu, count) in counter.by_cpu() {
            cpus += u32::from(count > 0);
            is_same &= count == by_number.sum_of(cpu as usize);
        }
        counter.reset();
        let left: u64 = counter.by_cpu().map(|(_, count)| count).sum();
        drop(probe);
        assert!(is_same);
        assert!(cpus > 1);
        assert_eq!(left, 0);
        Ok(())
    }

    #[test]
    fn an_array_of_counters_counts_by_cpu() -> Result {
        struct ByNumber(CounterArray);

        #[vtable]
        impl Handler for ByNumber {
            fn pre(&self, hit: &Hit<'_>) {
                let atomic = hit.atomic();
                self.0.add(atomic, 1, 2);
                self.0.add(atomic, 9_999, u64::MAX);
                // There is no such counter.
                self.0.add(atomic, 10_000, 1);
            }
        }

        let probe = boxed(Kprobe::new(VISIT, ByNumber(CounterArray::new(10_000)?)))?;
        let mut calls = 0;
        for _ in 0..10 {
            calls += u64::from(visit_cpus());
        }
        let hits = calls - probe.missed();
        let counters = &probe.handler().0;
        let sums = [0, 1, 2, 9_999, 10_000].map(|index| counters.sum(index));
        drop(probe);
        assert!(hits > 0);
        assert_eq!(sums, [0, 2 * hits, 0, 0u64.wrapping_sub(hits), 0]);
        Ok(())
    }

    #[test]
    fn an_array_of_counters_has_the_greatest_number_of_all_cpus() -> Result {
        /// Raises counters to the number of the CPU, and of the hit.
        struct ByCpu(CounterArray, Counter);

        #[vtable]
        impl Handler for ByCpu {
            fn pre(&self, hit: &Hit<'_>) {
                let atomic = hit.atomic();
                self.1.increment();
                let cpu = u64::from(atomic.cpu()) + 1;
                let raised = [
                    self.0.raise(atomic, 0, cpu),
                    self.0.raise(atomic, 0, 1),
                    self.0.raise(atomic, 1, u64::MAX - cpu),
                    // There is no such counter.
                    self.0.raise(atomic, 3, 1),
                ];
                self.0
                    .add_release(atomic, 2, u64::from(raised == [true; 4]));
            }
        }

        let counters = CounterArray::new(3)?;
        let probe = boxed(Kprobe::new(VISIT, ByCpu(counters, Counter::new()?)))?;
        for _ in 0..10 {
            visit_cpus();
        }
        let ByCpu(counters, hits) = probe.handler();
        let cpus = || hits.by_cpu().filter(|(_, hits)| *hits > 0);
        let numbers = || cpus().map(|(cpu, _)| u64::from(cpu) + 1);
        let (first, last) = (numbers().min(), numbers().max());
        let found = [0, 1, 2, 3].map(|index| counters.greatest(index));
        let counted = counters.sum(2);
        let hits = hits.sum();
        drop(probe);
        let (first, last) = (first.ok_or(EINVAL)?, last.ok_or(EINVAL)?);
        assert!(last > first);
        assert_eq!(found[..2], [last, u64::MAX - first]);
        assert_eq!((found[3], counted), (0, hits));
        Ok(())
    }

    #[test]
    fn each_hit_counts_in_one_value_while_values_are_replaced() -> Result {
        struct Replaced(Replaceable<Counter>);

        #[vtable]
        impl Handler for Replaced {
            fn pre(&self, hit: &Hit<'_>) {
                self.0.get(hit.atomic()).increment();
            }
        }

        let new = || Arc::new(Counter::new()?, GFP_KERNEL).map_err(Error::from);
        let probe = boxed(Kprobe::new(VISIT, Replaced(Replaceable::new(new()?))))?;
        let value = &probe.handler().0;
        let (mut calls, mut sum) = (0, 0);
        for _ in 0..10 {
            calls += u64::from(visit_cpus());
            let before = value.replace(new()?);
            sum += before.sum();
        }
        calls += u64::from(visit_cpus());
        sum += value.load().sum();
        let missed = probe.missed();
        drop(probe);
        assert!(sum > 0);
        assert_eq!(sum + missed, calls);
        Ok(())
    }

    struct Count(Counter);

    #[vtable]
    impl Handler for Count {
        fn pre(&self, _: &Hit<'_>) {
            self.0.increment();
        }
    }

    #[test]
    fn a_counter_counts_on_all_cpus() -> Result {
        let probe = boxed(Kprobe::new(VISIT, Count(Counter::new()?)))?;
        let mut calls = 0;
        for _ in 0..10 {
            calls += u64::from(visit_cpus());
        }
        let (sum, missed) = (probe.handler().0.sum(), probe.missed());
        drop(probe);
        assert!(calls >= 10);
        assert_eq!(sum + missed, calls);
        assert!(sum > 0);
        Ok(())
    }

    /// Nests uses of scratch areas, one deeper than there are areas.
    struct Nest(Scratch<64>, &'static Seen);

    impl Nest {
        fn use_area(&self, hit: &Hit<'_>, level: u8) {
            self.0.with(hit.atomic(), |area| {
                let Some(area) = area else {
                    self.1.push(0xff);
                    return;
                };
                area.fill(level);
                self.use_area(hit, level + 1);
                // Handlers that interrupted this one used other areas.
                self.1
                    .push(u64::from(area.iter().all(|&byte| byte == level)));
            })
        }
    }

    #[vtable]
    impl Handler for Nest {
        fn pre(&self, hit: &Hit<'_>) {
            self.use_area(hit, 1);
        }
    }

    #[test]
    fn nested_uses_of_a_scratch_have_areas_of_their_own() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = boxed(Kprobe::new(ADD, Nest(Scratch::new()?, &SEEN)))?;
        add(0, 0);
        add(0, 0);
        drop(probe);
        // All areas are free again for the next handler.
        assert!(SEEN.is(&[0xff, 1, 1, 1, 1, 1, 0xff, 1, 1, 1, 1, 1]));
        Ok(())
    }
}
