// SPDX-License-Identifier: GPL-2.0

//! Handlers at the return of many functions.

use kernel::prelude::*;

#[kunit_tests(ktrace_rethook)]
mod tests {
    use super::*;

    use kernel::{
        new_mutex,
        sync::Mutex, //
    };

    use ktrace::{
        kprobe::Hit,
        rethook::{
            Call,
            Handler,
            Rethook,
            Target, //
        },
    };

    use crate::{
        kunit_targets::*, //
        seen::{
            errno,
            Dropped,
            Seen,
            NOWHERE, //
        },
    };

    /// Records the first argument and the return value. Skips calls with 100 and more.
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
            let first = hit.registers().arg::<u64>(0);
            (first < 100).then_some(first)
        }

        fn ret(&self, hit: &Hit<'_>, call: &Call<'_, Self::Data>) {
            self.0.push(hit.address() as u64);
            self.0.push(*call.data());
            self.0.push(hit.registers().ret::<u64>());
        }
    }

    /// Has a lock, which the handler does not use.
    #[pin_data]
    struct Locked {
        #[pin]
        lock: Mutex<u64>,
        first: First,
    }

    #[vtable]
    impl Handler for Locked {
        type Data = u64;

        fn entry(&self, hit: &Hit<'_>) -> Option<Self::Data> {
            self.first.entry(hit)
        }

        fn ret(&self, hit: &Hit<'_>, call: &Call<'_, Self::Data>) {
            self.first.ret(hit, call);
        }
    }

    /// Calls a function that has the probe when it returns.
    struct Again(&'static Seen);

    #[vtable]
    impl Handler for Again {
        type Data = ();
        const WITHOUT_ENTRY: Option<()> = Some(());

        fn ret(&self, hit: &Hit<'_>, _: &Call<'_, Self::Data>) {
            self.0.push(hit.registers().ret::<u64>());
            self.0.push(add(20, 30) as u64);
        }
    }

    #[test]
    fn functions_share_the_room() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = Rethook::new([ADD, SUBTRACT], 1, First::new(&SEEN))?;
        let sum = add(2, 3);
        let difference = subtract(9, 4);
        let skipped = add(100, 1);
        probe.disable()?;
        add(5, 5);
        let mut addresses = probe.addresses().map(|address| address as u64);
        let (first, second) = (addresses.next(), addresses.next());
        drop(addresses);
        let missed = probe.missed();
        drop(probe);
        assert_eq!((sum, difference, skipped), (5, 5, 101));
        let (first, second) = (first.unwrap_or(0), second.unwrap_or(0));
        assert!(SEEN.is(&[first, 2, 5, second, 9, 5]));
        assert_eq!(missed, 0);
        Ok(())
    }

    #[test]
    fn calls_without_room_are_counted() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = Rethook::new([DEPTH], 1, First::new(&SEEN))?;
        // The function calls itself, because each CPU may have some memory.
        let depth = depth(40);
        let missed = probe.missed();
        let calls = SEEN.len() as u64 / 3 + missed;
        drop(probe);
        assert_eq!(depth, 40);
        assert_eq!(calls, 41);
        assert!(missed > 0);
        Ok(())
    }

    #[test]
    fn a_call_within_the_handler_is_missed_and_counted() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = Rethook::new([ADD], 4, Again(&SEEN))?;
        let sum = add(2, 3);
        let missed = probe.missed();
        drop(probe);
        assert_eq!(sum, 5);
        assert!(SEEN.is(&[5, 50]));
        assert_eq!(missed, 1);
        Ok(())
    }

    #[test]
    fn a_call_in_flight_returns_when_the_probe_is_gone() -> Result {
        static SEEN: Seen = Seen::new();
        static GONE: Seen = Seen::new();
        let handler = First(&SEEN, Dropped(&GONE, 1));
        let probe = Rethook::new([WAIT], 4, handler)?;
        let result = during_a_call(move || drop(probe))?;
        assert_eq!(result, 8);
        assert!(SEEN.is(&[]));
        assert!(GONE.is(&[1]));
        Ok(())
    }

    #[test]
    fn a_handler_may_be_pinned() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let locked = |number| {
            pin_init!(Locked {
                lock <- new_mutex!(number),
                first: First(&SEEN, Dropped(&DROPPED, number)),
            })
        };
        let probe = Rethook::new([ADD], 1, locked(1))?;
        let address = probe.addresses().next().unwrap_or(0) as u64;
        let mut number = probe.handler().lock.lock();
        add(2, 3);
        *number += 1;
        drop(number);
        let number = *probe.handler().lock.lock();
        let no_room = errno(Rethook::new([ADD], 0, locked(3)).map(drop));
        let failing = try_pin_init!(Locked {
            first: First(&SEEN, Dropped(&DROPPED, 4)),
            lock <- Err::<Mutex<u64>, _>(EBUSY),
        }? Error);
        let failed = errno(Rethook::new([ADD], 1, failing).map(drop));
        let dropped_before = DROPPED.len();
        drop(probe);
        assert_eq!(number, 2);
        assert!(SEEN.is(&[address, 2, 5]));
        assert_eq!(no_room, EINVAL.to_errno());
        assert_eq!(failed, EBUSY.to_errno());
        assert_eq!(dropped_before, 2);
        assert!(DROPPED.is(&[3, 4, 1]));
        Ok(())
    }

    #[test]
    fn what_cannot_be_probed_is_refused() -> Result {
        static SEEN: Seen = Seen::new();
        let register = |target: Target<'_>, calls| {
            errno(Rethook::new(Some(target), calls, First::new(&SEEN)).map(drop))
        };
        let inside = Target::Symbol(ADD, 9);
        let not_entry = register(inside, 1);
        let no_room = register(ADD.into(), 0);
        let blacklisted = register(NO_PROBE.into(), 1);
        let unknown = register(UNKNOWN.into(), 1);
        let switch = register(c"__switch_to".into(), 1);
        assert_eq!(not_entry, EINVAL.to_errno());
        assert_eq!(no_room, EINVAL.to_errno());
        assert_eq!(blacklisted, EINVAL.to_errno());
        assert_eq!(unknown, ENOENT.to_errno());
        assert_eq!(switch, EINVAL.to_errno());
        // If one of several functions cannot be hooked, none is.
        let some = Rethook::new([ADD, UNKNOWN], 1, First::new(&SEEN));
        assert_eq!(errno(some.map(drop)), ENOENT.to_errno());
        add(1, 1);
        assert!(SEEN.is(&[]));
        Ok(())
    }
}
