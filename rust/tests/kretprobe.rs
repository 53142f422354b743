// SPDX-License-Identifier: GPL-2.0

//! Handlers at the return of a function.

use kernel::prelude::*;

#[kunit_tests(ktrace_kretprobe)]
mod tests {
    use super::*;

    use kernel::sync::Arc;

    use ktrace::{
        kprobe::Hit,
        kretprobe::{
            AnyKretprobe,
            Call,
            Handler,
            Kretprobe,
            Target, //
        },
        symbol, //
    };

    use crate::{
        kunit_targets::*, //
        seen::{
            boxed,
            errno,
            Dropped,
            Seen,
            NOWHERE, //
        },
    };

    /// Records the values that the handlers receive. Skips calls with a first argument of 100 and
    /// more.
    struct Whole(&'static Seen);

    /// Data of more than a word, with several types.
    #[derive(Clone, Copy)]
    struct Arguments {
        first: u64,
        low: u8,
        second: u64,
    }

    #[vtable]
    impl Handler for Whole {
        type Data = Arguments;

        fn entry(&self, hit: &Hit<'_>) -> Option<Self::Data> {
            let registers = hit.registers();
            (registers.arg::<u64>(0) < 100).then(|| Arguments {
                first: registers.arg::<u64>(0),
                low: registers.arg::<u8>(1),
                second: registers.arg::<u64>(1),
            })
        }

        fn ret(&self, hit: &Hit<'_>, call: &Call<'_, Self::Data>) {
            let data = call.data();
            self.0.push(data.first);
            self.0.push(data.low.into());
            self.0.push(data.second);
            self.0.push(hit.registers().ret::<u64>());
            self.0.push(hit.address() as u64);
            self.0.push(call.caller() as u64);
        }
    }

    /// Keeps the first argument until the return, and records its drop.
    struct First(&'static Seen, #[expect(dead_code)] Dropped);

    impl First {
        fn new(seen: &'static Seen) -> Self {
            Self(seen, Dropped(&NOWHERE, 0))
        }
    }

    #[vtable]
    impl Handler for First {
        type Data = u64;

        fn entry(&self, hit: &Hit<'_>) -> Option<Self::Data> {
            Some(hit.registers().arg::<u64>(0))
        }

        fn ret(&self, _: &Hit<'_>, call: &Call<'_, Self::Data>) {
            self.0.push(*call.data());
        }
    }

    /// A probe without an entry handler.
    struct Returned(&'static Seen);

    #[vtable]
    impl Handler for Returned {
        type Data = ();
        const WITHOUT_ENTRY: Option<()> = Some(());

        fn ret(&self, hit: &Hit<'_>, _: &Call<'_, ()>) {
            self.0.push(hit.registers().ret::<u64>());
        }
    }

    #[test]
    fn the_return_has_the_data_of_the_entry() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = boxed(Kretprobe::new(ADD, 0, Whole(&SEEN)))?;
        let sum = add(2, 0x1_0203);
        let (address, missed) = (probe.address(), probe.missed());
        drop(probe);
        assert_eq!(sum, 0x1_0205);
        let caller = SEEN.get(5);
        assert!(SEEN.is(&[2, 3, 0x1_0203, 0x1_0205, address as u64, caller]));
        assert_eq!(symbol::start_of(address), Some(address_of_add()));
        // The address is in this module.
        let mut buffer = [0; symbol::LEN];
        let name = symbol::format(caller as usize, true, &mut buffer);
        assert!(name.ends_with(OF_MODULE));
        assert_eq!(missed, 0);
        Ok(())
    }

    #[test]
    fn a_call_that_the_entry_skips_does_not_return() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = boxed(Kretprobe::new(ADD, 1, Whole(&SEEN)))?;
        // There is memory for one call. Each skipped call gives it back.
        let mut sum = 0;
        for _ in 0..5 {
            sum += add(100, 1);
        }
        let seen = SEEN.len();
        add(99, 1);
        let missed = probe.missed();
        drop(probe);
        assert_eq!(sum, 505);
        assert_eq!(seen, 0);
        assert_eq!(SEEN.get(0), 99);
        assert_eq!(missed, 0);
        Ok(())
    }

    #[test]
    fn an_entry_handler_can_be_left_out() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = boxed(Kretprobe::new(SUBTRACT, 0, Returned(&SEEN)))?;
        let difference = subtract(2, 3);
        drop(probe);
        assert_eq!(difference, u64::MAX);
        assert!(SEEN.is(&[u64::MAX]));
        Ok(())
    }

    #[test]
    fn each_call_of_a_recursion_has_its_data() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = boxed(Kretprobe::new(DEPTH, 8, First::new(&SEEN)))?;
        let result = depth(7);
        let (room, missed) = (probe.maxactive(), probe.missed());
        drop(probe);
        assert_eq!(result, 7);
        // The innermost returns first.
        assert!(SEEN.is(&[0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(room, 8);
        assert_eq!(missed, 0);
        Ok(())
    }

    #[test]
    fn calls_beyond_maxactive_are_missed_and_counted() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = boxed(Kretprobe::new(DEPTH, 3, First::new(&SEEN)))?;
        let result = depth(7);
        let missed = probe.missed();
        // The probe has memory again.
        depth(1);
        let missed_later = probe.missed();
        drop(probe);
        assert_eq!(result, 7);
        // The probe had memory for the three outermost calls, which came first.
        assert!(SEEN.is(&[5, 6, 7, 0, 1]));
        assert_eq!([missed, missed_later], [5, 5]);
        Ok(())
    }

    #[test]
    fn without_a_maxactive_the_kernel_chooses() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = boxed(Kretprobe::register_disabled(ADD, 0, Returned(&SEEN)))?;
        let room = probe.maxactive();
        drop(probe);
        // C: max(10, 2 * num_possible_cpus()).
        assert!(room >= 10 && room % 2 == 0);
        Ok(())
    }

    #[test]
    fn calls_are_seen_while_enabled() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let handler = First(&SEEN, Dropped(&DROPPED, 1));
        let probe = boxed(Kretprobe::register_disabled(ADD, 0, handler))?;
        add(1, 0);
        probe.enable()?;
        add(2, 0);
        probe.disable()?;
        add(3, 0);
        probe.enable()?;
        add(4, 0);
        let dropped_before = DROPPED.len();
        drop(probe);
        add(5, 0);
        assert!(SEEN.is(&[2, 4]));
        assert_eq!(dropped_before, 0);
        assert!(DROPPED.is(&[1]));
        Ok(())
    }

    #[test]
    fn many_with_any_handlers_are_unregistered_at_once() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let first = First(&SEEN, Dropped(&DROPPED, 1));
        let first = boxed(Kretprobe::new(ADD, 0, first))?;
        let returned = boxed(Kretprobe::new(SUBTRACT, 0, Returned(&SEEN)))?;
        let mut probes = KVVec::<AnyKretprobe>::new();
        probes.push(first.into(), GFP_KERNEL)?;
        probes.push(returned.into(), GFP_KERNEL)?;
        add(1, 0);
        subtract(5, 2);
        AnyKretprobe::unregister_all(probes);
        add(3, 0);
        subtract(4, 0);
        assert!(SEEN.is(&[1, 3]));
        assert!(DROPPED.is(&[1]));
        Ok(())
    }

    #[test]
    fn a_call_in_flight_returns_when_the_probe_is_gone() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let handler = First(&SEEN, Dropped(&DROPPED, 1));
        let probe = boxed(Kretprobe::new(WAIT, 0, handler))?;
        let result = during_a_call(|| drop(probe))?;
        assert_eq!(result, 8);
        assert!(DROPPED.is(&[1]));
        assert!(SEEN.is(&[]));
        Ok(())
    }

    #[test]
    fn what_is_not_the_entry_of_a_function_is_refused() -> Result {
        let inside = Target::Symbol(ADD, 9);
        let address = address_of_add() + 9;
        for (target, error) in [
            (UNKNOWN.into(), ENOENT),
            (inside, EINVAL),
            (Target::Address(address), EINVAL),
            (NO_PROBE.into(), EINVAL),
            (DATA.into(), EINVAL),
        ] {
            let refused = errno(boxed(Kretprobe::new(target, 0, Returned(&NOWHERE))));
            assert_eq!(refused, error.to_errno());
        }
        // An address at the function's entry is valid.
        let accepted = boxed(Kretprobe::new(
            Target::Address(address_of_add()),
            0,
            Returned(&NOWHERE),
        ));
        assert_eq!(errno(accepted), 0);
        Ok(())
    }

    #[test]
    fn pointers_to_handlers_are_handlers() -> Result {
        static SEEN: Seen = Seen::new();
        static RETURNED: Seen = Seen::new();
        let shared = Arc::new(First::new(&SEEN), GFP_KERNEL)?;
        let handler = KBox::new(Returned(&RETURNED), GFP_KERNEL)?;
        let shared = boxed(Kretprobe::new(ADD, 0, shared))?;
        // It has no entry handler.
        let other = boxed(Kretprobe::new(SUBTRACT, 0, handler))?;
        add(2, 3);
        subtract(9, 4);
        drop((shared, other));
        assert!(SEEN.is(&[2]));
        assert!(RETURNED.is(&[5]));
        Ok(())
    }
}
