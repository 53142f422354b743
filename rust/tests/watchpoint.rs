// SPDX-License-Identifier: GPL-2.0

//! Handlers for accesses to memory.

use kernel::prelude::*;

#[kunit_tests(ktrace_watchpoint)]
mod tests {
    use super::*;

    use kernel::sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    };

    use ktrace::{
        kprobe::{
            self,
            Kprobe, //
        },
        nofault,
        percpu::Counter,
        symbol,
        watchpoint::{
            slots,
            Access,
            Handler,
            Hit,
            Target,
            Unwatchable,
            Watchpoint, //
        },
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

    /// Records the accessed memory, and whether the access was in this module.
    struct Look(&'static Seen, #[expect(dead_code)] Dropped);

    impl Handler for Look {
        fn hit(&self, hit: &Hit<'_>) {
            self.0.push(hit.address() as u64);
            let ip = hit.registers().instruction_pointer() as usize;
            self.0.push(u64::from(symbol::start_of(ip).is_some()));
        }
    }

    fn target(variable: &Atomic<u64>, len: u8, access: Access) -> Target {
        Target {
            address: core::ptr::from_ref(variable).addr(),
            is_per_cpu: false,
            len,
            access,
        }
    }

    #[test]
    fn writes_hit_and_reads_hit_if_they_are_watched() -> Result {
        static VARIABLE: Atomic<u64> = Atomic::new(0);
        static WRITES: Seen = Seen::new();
        static BOTH: Seen = Seen::new();
        // Use one after the other, because QEMU reports only one of two watchpoints at an address.
        for (access, seen) in [(Access::Write, &WRITES), (Access::ReadWrite, &BOTH)] {
            let target = target(&VARIABLE, 8, access);
            let watchpoint = Watchpoint::new(target, Look(seen, Dropped(&NOWHERE, 0)))?;
            VARIABLE.store(1, Relaxed);
            let read = VARIABLE.load(Relaxed);
            let is_same = watchpoint.target() == target;
            drop(watchpoint);
            VARIABLE.store(2, Relaxed);
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
    struct Nest(&'static Atomic<u64>, Counter);

    impl Handler for Nest {
        fn hit(&self, _: &Hit<'_>) {
            self.1.increment();
            self.0.add(1, Relaxed);
        }
    }

    #[test]
    fn a_handler_may_access_what_is_watched() -> Result {
        static VARIABLE: Atomic<u64> = Atomic::new(0);
        let nest = Nest(&VARIABLE, Counter::new()?);
        let watchpoint = Watchpoint::new(target(&VARIABLE, 8, Access::ReadWrite), nest)?;
        VARIABLE.store(10, Relaxed);
        let hits = watchpoint.handler().1.sum();
        drop(watchpoint);
        assert_eq!(hits, 1);
        assert_eq!(VARIABLE.load(Relaxed), 11);
        Ok(())
    }

    #[test]
    fn one_that_is_disarmed_hits_no_more_and_its_handler_is_dropped_once() -> Result {
        static VARIABLE: Atomic<u64> = Atomic::new(0);
        static SEEN: Seen = Seen::new();
        static DROPS: Seen = Seen::new();
        let look = Look(&SEEN, Dropped(&DROPS, 5));
        let watchpoint = Watchpoint::new(target(&VARIABLE, 8, Access::Write), look)?;
        watchpoint.disarm();
        watchpoint.disarm();
        VARIABLE.store(1, Relaxed);
        let before = DROPS.len();
        drop(watchpoint);
        assert_eq!(before, 0);
        assert!(SEEN.is(&[]));
        assert!(DROPS.is(&[5]));
        Ok(())
    }

    #[test]
    fn what_cannot_be_watched_is_refused_and_the_handler_is_dropped() -> Result {
        static VARIABLE: Atomic<u64> = Atomic::new(0);
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
    fn what_the_entry_of_exceptions_uses_is_refused() -> Result {
        if !cfg!(CONFIG_X86_64) {
            // Debug exceptions are masked there.
            return Ok(());
        }
        static VARIABLE: Atomic<u64> = Atomic::new(0);
        let local = Atomic::new(0);
        let heap = KBox::new(0_u64, GFP_KERNEL)?;
        let pages = VBox::new(0_u64, GFP_KERNEL)?;
        let unwatchable = |address: usize, is_per_cpu, access| {
            let target = Target {
                address,
                is_per_cpu,
                len: 8,
                access,
            };
            let look = Look(&NOWHERE, Dropped(&NOWHERE, 0));
            let reason = target.unwatchable()?;
            let expected = if reason.is_some() {
                EINVAL.to_errno()
            } else {
                0
            };
            let errors = (errno(target.check()), errno(Watchpoint::new(target, look)));
            Ok::<_, Error>((reason, errors == (expected, expected)))
        };
        let (read_write, write) = (Access::ReadWrite, Access::Write);
        let used = (Some(Unwatchable::UsedByEntry), true);
        let no_data = (Some(Unwatchable::NoData), true);
        let nmi = symbol::address_of(c"nmi_state")? & !7;
        let top = symbol::address_of(c"cpu_current_top_of_stack")?;
        let first = symbol::address_of(c"init_stack")?;
        // On x86-64, the stack has 16 KiB or more.
        let end = first + (16 << 10) - 8;
        let of_first_cpu = top.wrapping_add(first_cpu_offset()?);
        let found = [
            unwatchable(nmi, true, write)?,
            unwatchable(top, true, read_write)?,
            unwatchable(of_first_cpu, false, read_write)?,
            unwatchable(end, false, write)?,
        ];
        let stacks = [
            unwatchable((&raw const local).addr(), false, write)?,
            unwatchable((&raw const *pages).addr(), false, write)?,
        ];
        let good = [
            unwatchable((&raw const VARIABLE).addr(), false, read_write)?,
            unwatchable((&raw const *heap).addr(), false, read_write)?,
        ];
        assert_eq!(found, [used; 4]);
        assert_eq!(stacks, [no_data; 2]);
        // Without VMAP_STACK, the heap can become a stack.
        let heap_reason = (!cfg!(CONFIG_VMAP_STACK)).then_some(Unwatchable::NoData);
        assert_eq!(good, [(None, true), (heap_reason, true)]);
        Ok(())
    }

    /// The offset of the per-CPU variables of the first CPU.
    fn first_cpu_offset() -> Result<usize> {
        let offsets = symbol::address_of(c"__per_cpu_offset")?;
        let mut first = [0; size_of::<usize>()];
        nofault::read_kernel(offsets, &mut first).map_err(|_| EFAULT)?;
        Ok(usize::from_ne_bytes(first))
    }

    /// The context of a handler.
    struct Context(&'static Seen);

    impl Handler for Context {
        fn hit(&self, _: &Hit<'_>) {
            self.0.push(u64::from(is_in_nmi()));
        }
    }

    #[test]
    fn a_handler_runs_as_in_an_nmi_and_no_hit_is_missed() -> Result {
        static VARIABLE: Atomic<u64> = Atomic::new(0);
        static SEEN: Seen = Seen::new();
        let target = target(&VARIABLE, 8, Access::Write);
        let watchpoint = Watchpoint::new(target, Context(&SEEN))?;
        VARIABLE.store(1, Relaxed);
        let missed = watchpoint.missed();
        drop(watchpoint);
        let is_after = is_in_nmi();
        assert!(SEEN.is(&[1]));
        assert_eq!(missed, 0);
        assert!(!is_after);
        Ok(())
    }

    /// Writes to a variable while the kernel processes a kprobe.
    struct Write(&'static Atomic<u64>);

    #[vtable]
    impl kprobe::Handler for Write {
        fn pre(&self, _: &kprobe::Hit<'_>) {
            self.0.add(1, Relaxed);
        }
    }

    #[test]
    fn a_hit_in_a_kprobe_is_missed_and_counted() -> Result {
        static VARIABLE: Atomic<u64> = Atomic::new(0);
        let nest = Nest(&VARIABLE, Counter::new()?);
        let watchpoint = Watchpoint::new(target(&VARIABLE, 8, Access::Write), nest)?;
        let probe = boxed(Kprobe::new(
            kprobe::Target::Symbol(ADD, 0),
            Write(&VARIABLE),
        ))?;
        let sum = add(1, 2);
        drop(probe);
        let (hits, missed) = (watchpoint.handler().1.sum(), watchpoint.missed());
        VARIABLE.store(7, Relaxed);
        let later = watchpoint.handler().1.sum();
        drop(watchpoint);
        assert_eq!(sum, 3);
        // arm64 masks debug exceptions in kprobes, so there is no hit that it could count.
        let expected = u64::from(cfg!(CONFIG_X86_64));
        assert_eq!((hits, missed, later), (0, expected, 1));
        Ok(())
    }

    #[test]
    fn one_more_than_there_are_registers_is_refused() -> Result {
        static VARIABLE: Atomic<u64> = Atomic::new(0);
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
        static FIRST: Atomic<u64> = Atomic::new(0);
        static SECOND: Atomic<u64> = Atomic::new(0);
        static SEEN: Seen = Seen::new();
        let shared = Arc::new(Look(&SEEN, Dropped(&NOWHERE, 0)), GFP_KERNEL)?;
        let boxed = KBox::new(Look(&SEEN, Dropped(&NOWHERE, 0)), GFP_KERNEL)?;
        let shared = Watchpoint::new(target(&FIRST, 8, Access::Write), shared)?;
        let boxed = Watchpoint::new(target(&SECOND, 8, Access::Write), boxed)?;
        FIRST.store(1, Relaxed);
        SECOND.store(1, Relaxed);
        drop((shared, boxed));
        let [first, second] =
            [&FIRST, &SECOND].map(|place| core::ptr::from_ref(place).addr() as u64);
        assert!(SEEN.is(&[first, 1, second, 1]));
        Ok(())
    }
}
