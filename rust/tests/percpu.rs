// SPDX-License-Identifier: GPL-2.0

//! Tests of per-CPU memory.

use kernel::prelude::*;

#[kunit_tests(ktrace_percpu)]
mod tests {
    use super::*;

    use ktrace::{
        kprobe::{
            Handler,
            Hit,
            Kprobe, //
        },
        percpu::{
            Counter,
            Counters,
            Scratch, //
        },
    };

    use crate::{
        kunit_targets::*, //
        seen::Seen,
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

    struct Count(Counter);

    #[vtable]
    impl Handler for Count {
        fn pre(&self, _: &Hit<'_>) {
            self.0.increment();
        }
    }

    #[test]
    fn a_counter_counts_on_all_cpus() -> Result {
        let probe = Kprobe::new(VISIT, Count(Counter::new()?))?;
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
        let probe = Kprobe::new(ADD, Nest(Scratch::new()?, &SEEN))?;
        add(0, 0);
        add(0, 0);
        drop(probe);
        // All areas are free again for the next handler.
        assert!(SEEN.is(&[0xff, 1, 1, 1, 1, 1, 0xff, 1, 1, 1, 1, 1]));
        Ok(())
    }
}
