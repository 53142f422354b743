// SPDX-License-Identifier: GPL-2.0

//! Handlers for accesses to memory.

use kernel::prelude::*;

#[kunit_tests(ktrace_watchpoint)]
mod tests {
    use super::*;

    use core::sync::atomic::{
        AtomicU64,
        Ordering, //
    };

    use kernel::sync::Arc;

    use ktrace::{
        percpu::Counter,
        symbol,
        watchpoint::{
            slots,
            Access,
            Handler,
            Hit,
            Target,
            Watchpoint, //
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

    /// Records the accessed memory, and whether the access was in this module.
    struct Look(&'static Seen, #[expect(dead_code)] Dropped);

    impl Handler for Look {
        fn hit(&self, hit: &Hit<'_>) {
            self.0.push(hit.address() as u64);
            let ip = hit.registers().instruction_pointer() as usize;
            self.0.push(u64::from(symbol::start_of(ip).is_some()));
        }
    }

    fn target(variable: &AtomicU64, len: u8, access: Access) -> Target {
        Target {
            address: core::ptr::from_ref(variable).addr(),
            is_per_cpu: false,
            len,
            access,
        }
    }

    #[test]
    fn writes_hit_and_reads_hit_if_they_are_watched() -> Result {
        static VARIABLE: AtomicU64 = AtomicU64::new(0);
        static WRITES: Seen = Seen::new();
        static BOTH: Seen = Seen::new();
        // Use one after the other, because QEMU reports only one of two watchpoints at an address.
        for (access, seen) in [(Access::Write, &WRITES), (Access::ReadWrite, &BOTH)] {
            let target = target(&VARIABLE, 8, access);
            let watchpoint = Watchpoint::new(target, Look(seen, Dropped(&NOWHERE, 0)))?;
            VARIABLE.store(1, Ordering::Relaxed);
            let read = VARIABLE.load(Ordering::Relaxed);
            let is_same = watchpoint.target() == target;
            drop(watchpoint);
            VARIABLE.store(2, Ordering::Relaxed);
            assert!(is_same);
            assert_eq!(read, 1);
        }
        let address = core::ptr::from_ref(&VARIABLE).addr() as u64;
        assert!(WRITES.is(&[address, 1]));
        assert!(BOTH.is(&[address, 1, address, 1]));
        Ok(())
    }

    #[test]
    fn an_instruction_that_runs_hits_with_its_own_address() -> Result {
        static SEEN: Seen = Seen::new();
        struct Here(&'static Seen);

        impl Handler for Here {
            fn hit(&self, hit: &Hit<'_>) {
                let ip = hit.registers().instruction_pointer();
                self.0.push(u64::from(ip == hit.address() as u64));
                self.0.push(hit.registers().arg::<u64>(1));
            }
        }

        let place = Target {
            address: address_of_add(),
            is_per_cpu: false,
            len: 1,
            access: Access::Execute,
        };
        let watchpoint = Watchpoint::new(place, Here(&SEEN))?;
        let sum = add(3, 4);
        drop(watchpoint);
        assert_eq!(sum, 7);
        assert!(SEEN.is(&[1, 4]));
        Ok(())
    }

    /// Counts, and accesses the watched memory.
    struct Nest(&'static AtomicU64, Counter);

    impl Handler for Nest {
        fn hit(&self, _: &Hit<'_>) {
            self.1.increment();
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_handler_may_access_what_is_watched() -> Result {
        static VARIABLE: AtomicU64 = AtomicU64::new(0);
        let nest = Nest(&VARIABLE, Counter::new()?);
        let watchpoint = Watchpoint::new(target(&VARIABLE, 8, Access::ReadWrite), nest)?;
        VARIABLE.store(10, Ordering::Relaxed);
        let hits = watchpoint.handler().1.sum();
        drop(watchpoint);
        assert_eq!(hits, 1);
        assert_eq!(VARIABLE.load(Ordering::Relaxed), 11);
        Ok(())
    }

    #[test]
    fn one_that_is_disarmed_hits_no_more_and_its_handler_is_dropped_once() -> Result {
        static VARIABLE: AtomicU64 = AtomicU64::new(0);
        static SEEN: Seen = Seen::new();
        static DROPS: Seen = Seen::new();
        let look = Look(&SEEN, Dropped(&DROPS, 5));
        let watchpoint = Watchpoint::new(target(&VARIABLE, 8, Access::Write), look)?;
        watchpoint.disarm();
        watchpoint.disarm();
        VARIABLE.store(1, Ordering::Relaxed);
        let before = DROPS.len();
        drop(watchpoint);
        assert_eq!(before, 0);
        assert!(SEEN.is(&[]));
        assert!(DROPS.is(&[5]));
        Ok(())
    }

    #[test]
    fn what_cannot_be_watched_is_refused_and_the_handler_is_dropped() -> Result {
        static VARIABLE: AtomicU64 = AtomicU64::new(0);
        static DROPS: Seen = Seen::new();
        let good = target(&VARIABLE, 8, Access::Write);
        let of = |target: Target| {
            let look = Look(&NOWHERE, Dropped(&DROPS, 1));
            let registered = errno(Watchpoint::new(target, look));
            (registered, errno(target.check()))
        };
        let refused = [
            of(Target {
                address: 0x1000,
                ..good
            }),
            of(Target { address: 0, ..good }),
            of(Target { len: 3, ..good }),
            of(Target { len: 0, ..good }),
            of(Target { len: 16, ..good }),
            of(Target {
                address: good.address + 1,
                ..good
            }),
        ];
        let accepted = errno(good.check());
        let einval = EINVAL.to_errno();
        assert!(refused.iter().all(|errors| *errors == (einval, einval)));
        assert_eq!(accepted, 0);
        assert_eq!(DROPS.len(), refused.len());
        Ok(())
    }

    #[test]
    fn one_more_than_there_are_registers_is_refused() -> Result {
        static VARIABLE: AtomicU64 = AtomicU64::new(0);
        let register = || {
            let nest = Nest(&VARIABLE, Counter::new()?);
            Watchpoint::new(target(&VARIABLE, 8, Access::Write), nest)
        };
        let mut all = KVec::new();
        for _ in 0..slots(Access::Write) {
            all.push(register()?, GFP_KERNEL)?;
        }
        let refused = errno(register());
        // If no register is free, the test cannot tell.
        let unknown = errno(target(&VARIABLE, 8, Access::Write).check());
        drop(all);
        let free = errno(register());
        assert_eq!(slots(Access::Write), 4);
        assert_eq!(refused, ENOSPC.to_errno());
        assert_eq!((unknown, free), (0, 0));
        Ok(())
    }

    #[test]
    fn pointers_to_handlers_are_handlers() -> Result {
        static FIRST: AtomicU64 = AtomicU64::new(0);
        static SECOND: AtomicU64 = AtomicU64::new(0);
        static SEEN: Seen = Seen::new();
        let shared = Arc::new(Look(&SEEN, Dropped(&NOWHERE, 0)), GFP_KERNEL)?;
        let boxed = KBox::new(Look(&SEEN, Dropped(&NOWHERE, 0)), GFP_KERNEL)?;
        let shared = Watchpoint::new(target(&FIRST, 8, Access::Write), shared)?;
        let boxed = Watchpoint::new(target(&SECOND, 8, Access::Write), boxed)?;
        FIRST.store(1, Ordering::Relaxed);
        SECOND.store(1, Ordering::Relaxed);
        drop((shared, boxed));
        let [first, second] =
            [&FIRST, &SECOND].map(|place| core::ptr::from_ref(place).addr() as u64);
        assert!(SEEN.is(&[first, 1, second, 1]));
        Ok(())
    }
}
