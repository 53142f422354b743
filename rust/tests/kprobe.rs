// SPDX-License-Identifier: GPL-2.0

//! Handlers at an instruction.

use kernel::prelude::*;

#[kunit_tests(ktrace_kprobe)]
mod tests {
    use super::*;

    use kernel::{
        new_mutex,
        sync::{
            Arc,
            Mutex, //
        }, //
    };

    use ktrace::{
        kprobe::{
            Batch,
            Handler,
            Hit,
            Kprobe,
            Target, //
        },
        nofault,
        symbol, //
    };

    use crate::{
        kunit_targets::{
            self,
            *, //
        },
        seen::{
            boxed,
            errno,
            Dropped,
            Seen, //
        },
    };

    /// C: -EILSEQ. The kernel's Rust has no name for this error.
    const EILSEQ: i32 = -(kernel::bindings::EILSEQ as i32);

    /// Calls a closure before the instruction.
    struct Pre<F: Fn(&Hit<'_>) + Send + Sync + 'static>(F);

    #[vtable]
    impl<F: Fn(&Hit<'_>) + Send + Sync + 'static> Handler for Pre<F> {
        fn pre(&self, hit: &Hit<'_>) {
            (self.0)(hit)
        }
    }

    /// Keeps the address and the instruction pointer, before the instruction and after it.
    struct Both(&'static Seen);

    #[vtable]
    impl Handler for Both {
        fn pre(&self, hit: &Hit<'_>) {
            self.0.push(hit.address() as u64);
            self.0.push(hit.registers().instruction_pointer());
        }

        fn post(&self, hit: &Hit<'_>) {
            self.0.push(hit.address() as u64);
            self.0.push(hit.registers().instruction_pointer());
        }
    }

    /// Keeps the first argument, and records its drop.
    struct First(&'static Seen, #[expect(dead_code)] Dropped);

    #[vtable]
    impl Handler for First {
        fn pre(&self, hit: &Hit<'_>) {
            self.0.push(hit.registers().arg::<u64>(0));
        }
    }

    fn at_offset(name: &CStr, offset: usize) -> Target<'_> {
        Target::Symbol(name, offset as u32)
    }

    /// The error of an address within an instruction. On arm64, ftrace's instruction has it, too:
    /// no kprobe can be there.
    const BETWEEN: i32 = if cfg!(CONFIG_ARM64) {
        -(kernel::bindings::EINVAL as i32)
    } else {
        EILSEQ
    };

    /// The offset of the first instruction after the one that is probed at the entry, and after
    /// ftrace's.
    fn second_instruction(name: &CStr) -> Result<usize> {
        let entry = boxed(Kprobe::register_disabled(name, Pre(|_| ())))?;
        let first = entry.address() - symbol::address_of(name)?;
        for offset in first + 1..first + 16 {
            match boxed(Kprobe::new(at_offset(name, offset), Pre(|_| ()))) {
                Ok(_) => return Ok(offset),
                Err(error) if error.to_errno() == BETWEEN => (),
                Err(error) => return Err(error),
            }
        }
        Err(ENOENT)
    }

    #[test]
    fn pre_sees_the_call() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = boxed(Kprobe::new(
            ADD,
            Pre(|hit| {
                SEEN.push(hit.registers().arg::<u64>(0));
                SEEN.push(hit.registers().arg::<u64>(1));
                SEEN.push(hit.address() as u64);
            }),
        ))?;
        let sum = add(2, 3);
        let address = probe.address();
        let (missed, is_gone) = (probe.missed(), probe.is_gone());
        drop(probe);
        assert!(SEEN.is(&[2, 3, address as u64]));
        // The instructions of the function run as before.
        assert_eq!(sum, 5);
        assert_eq!(symbol::start_of(address), Some(address_of_add()));
        assert_eq!(missed, 0);
        assert!(!is_gone);
        Ok(())
    }

    #[test]
    fn other_functions_are_not_seen() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = boxed(Kprobe::new(ADD, Pre(|_| SEEN.push(0))))?;
        let difference = subtract(3, 2);
        drop(probe);
        assert!(SEEN.is(&[]));
        assert_eq!(difference, 1);
        Ok(())
    }

    #[test]
    fn post_follows_pre_and_the_instruction() -> Result {
        static SEEN: Seen = Seen::new();
        static INSIDE: Seen = Seen::new();
        let offset = second_instruction(ADD)?;
        for (seen, target) in [(&SEEN, ADD.into()), (&INSIDE, at_offset(ADD, offset))] {
            let probe = boxed(Kprobe::new(target, Both(seen)))?;
            let sum = add(2, 3);
            let address = probe.address() as u64;
            drop(probe);
            assert_eq!(sum, 5);
            assert_eq!(seen.len(), 4);
            assert_eq!([seen.get(0), seen.get(2)], [address; 2]);
            // The address is that of the breakpoint, or follows it as on x86. Later it follows the
            // instruction.
            assert!(seen.get(1) - address <= 1);
            assert!((1..16).contains(&(seen.get(3) - address)));
        }
        // On arm64, ftrace's instruction can precede it.
        assert!(SEEN.get(3) <= INSIDE.get(0));
        assert!(cfg!(CONFIG_ARM64) || SEEN.get(3) == INSIDE.get(0));
        Ok(())
    }

    #[test]
    fn hits_are_seen_while_enabled() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = boxed(Kprobe::register_disabled(
            ADD,
            Pre(|hit| SEEN.push(hit.registers().arg::<u64>(0))),
        ))?;
        add(1, 0);
        probe.enable()?;
        add(2, 0);
        probe.disable()?;
        add(3, 0);
        probe.enable()?;
        add(4, 0);
        drop(probe);
        assert!(SEEN.is(&[2, 4]));
        Ok(())
    }

    #[test]
    fn offset_and_address_are_the_same_place() -> Result {
        static SEEN: Seen = Seen::new();
        let offset = second_instruction(ADD)?;
        let address = symbol::address_of(ADD)? + offset;
        let push = |hit: &Hit<'_>| SEEN.push(hit.address() as u64);
        let by_offset = boxed(Kprobe::new(at_offset(ADD, offset), Pre(push)))?;
        let by_address = boxed(Kprobe::register_disabled(
            Target::Address(address),
            Pre(push),
        ))?;
        add(2, 3);
        by_address.enable()?;
        // Now a call hits both. They are dropped one by one.
        add(2, 3);
        drop(by_offset);
        add(2, 3);
        drop(by_address);
        add(2, 3);
        assert!(SEEN.is(&[address as u64; 4]));
        Ok(())
    }

    #[test]
    fn a_module_can_be_named() -> Result {
        let inside = boxed(Kprobe::register_disabled(ADD_OF_MODULE, Pre(|_| ())))?;
        let address = inside.address();
        drop(inside);
        let elsewhere = boxed(Kprobe::new(c"rkprobe:ktrace_target_add", Pre(|_| ())));
        assert_eq!(symbol::start_of(address), Some(address_of_add()));
        assert_eq!(errno(elsewhere), ENOENT.to_errno());
        Ok(())
    }

    #[test]
    fn hits_from_within_a_handler_are_missed_and_counted() -> Result {
        static OUTER: Seen = Seen::new();
        static INNER: Seen = Seen::new();
        let offset = second_instruction(SUBTRACT)?;
        let outer = boxed(Kprobe::new(
            ADD,
            Pre(|_| OUTER.push(kunit_targets::subtract(9, 4))),
        ))?;
        let entry = boxed(Kprobe::new(SUBTRACT, Pre(|_| INNER.push(0))))?;
        let inside = boxed(Kprobe::new(
            at_offset(SUBTRACT, offset),
            Pre(|_| INNER.push(1)),
        ))?;
        add(0, 0);
        add(0, 0);
        let missed = [outer.missed(), entry.missed(), inside.missed()];
        let seen_by_inner = INNER.len();
        // The call does not come from a handler, so both see it.
        subtract(0, 0);
        drop((outer, entry, inside));
        assert!(OUTER.is(&[5, 5]));
        assert_eq!(seen_by_inner, 0);
        assert_eq!(missed, [0, 2, 2]);
        assert!(INNER.is(&[0, 1]));
        Ok(())
    }

    #[test]
    fn dropping_unregisters_and_frees_the_handler() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let probe = boxed(Kprobe::new(ADD, First(&SEEN, Dropped(&DROPPED, 1))))?;
        add(1, 0);
        let dropped_before = DROPPED.len();
        drop(probe);
        add(2, 0);
        assert_eq!(dropped_before, 0);
        assert!(DROPPED.is(&[1]));
        assert!(SEEN.is(&[1]));
        Ok(())
    }

    /// Has probes in its own memory.
    #[pin_data]
    struct TwoProbes {
        #[pin]
        first: Kprobe<Pre<fn(&Hit<'_>)>>,
        #[pin]
        second: Kprobe<First>,
    }

    #[test]
    fn the_caller_chooses_the_memory() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let handler = |number| First(&SEEN, Dropped(&DROPPED, number));
        let push: fn(&Hit<'_>) = |_| SEEN.push(0);
        let two = |second| {
            try_pin_init!(TwoProbes {
                first <- Kprobe::new(ADD, Pre(push)),
                second <- Kprobe::new(second, handler(3)),
            }? Error)
        };
        let refused = errno(boxed(two(UNKNOWN)));
        {
            pin_init::stack_try_pin_init!(let on_stack = Kprobe::new(ADD, handler(1)));
            let on_stack = on_stack?;
            let shared = Arc::pin_init(Kprobe::new(SUBTRACT, handler(2)), GFP_KERNEL)?;
            let two = boxed(two(DEPTH))?;
            add(7, 0);
            subtract(8, 0);
            assert!(on_stack.missed() + shared.missed() + two.second.missed() == 0);
        }
        add(9, 0);
        subtract(9, 0);
        assert_eq!(refused, ENOENT.to_errno());
        // The last field of the refused one, then the values in reverse order.
        assert!(DROPPED.is(&[3, 3, 2, 1]));
        assert_eq!(SEEN.len(), 3);
        Ok(())
    }

    #[test]
    fn a_batch_is_placed_and_goes_together() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let mut probes = KVec::new();
        for (name, number) in [(ADD, 1), (SUBTRACT, 2), (DEPTH, 3)] {
            let handler = First(&SEEN, Dropped(&DROPPED, number));
            probes.push((name, handler), GFP_KERNEL)?;
        }
        let batch = Batch::register_disabled(probes)?;
        let call = |number| {
            add(number, 0);
            subtract(number, 0);
            depth(0);
        };
        call(1);
        batch.enable()?;
        call(2);
        batch.disable()?;
        call(3);
        batch.enable()?;
        let len = batch.probes().len();
        let first = batch.probes().next().map(Kprobe::address);
        let dropped_before = DROPPED.len();
        drop(batch);
        call(4);
        assert_eq!(len, 3);
        assert_eq!(first.and_then(symbol::start_of), Some(address_of_add()));
        assert!(SEEN.is(&[2, 2, 0]));
        assert_eq!(dropped_before, 0);
        assert!(DROPPED.is(&[1, 2, 3]));
        Ok(())
    }

    #[test]
    fn a_new_batch_is_armed() -> Result {
        static SEEN: Seen = Seen::new();
        let mut probes = KVec::new();
        for name in [ADD, SUBTRACT] {
            let push = |hit: &Hit<'_>| SEEN.push(hit.registers().arg::<u64>(0));
            probes.push((name, Pre(push)), GFP_KERNEL)?;
        }
        let batch = Batch::new(probes)?;
        add(1, 0);
        subtract(2, 0);
        drop(batch);
        add(3, 0);
        assert!(SEEN.is(&[1, 2]));
        Ok(())
    }

    #[test]
    fn a_batch_is_placed_as_a_whole_or_not_at_all() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let mut probes = KVec::new();
        for name in [ADD, SUBTRACT, UNKNOWN, DEPTH] {
            let handler = First(&SEEN, Dropped(&DROPPED, 0));
            probes.push((name, handler), GFP_KERNEL)?;
        }
        let refused = errno(Batch::new(probes));
        add(1, 0);
        assert_eq!(refused, ENOENT.to_errno());
        assert!(SEEN.is(&[]));
        assert_eq!(DROPPED.len(), 4);
        Ok(())
    }

    #[test]
    fn many_are_unregistered_at_once() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let mut probes = KVVec::new();
        for name in [ADD, SUBTRACT] {
            let handler = First(&SEEN, Dropped(&DROPPED, 0));
            let probe = boxed(Kprobe::new(name, handler))?;
            probes.push(probe, GFP_KERNEL)?;
        }
        add(1, 0);
        subtract(2, 0);
        Kprobe::unregister_all(probes);
        add(3, 0);
        subtract(4, 0);
        assert!(SEEN.is(&[1, 2]));
        assert_eq!(DROPPED.len(), 2);
        Ok(())
    }

    #[test]
    fn the_handler_knows_its_task() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = boxed(Kprobe::new(
            ADD,
            Pre(|hit| {
                let mut name = [0; 8];
                let read = nofault::read_kernel(hit.atomic().comm(), &mut name);
                SEEN.push(u64::from(read.is_ok()));
                SEEN.push(u64::from_ne_bytes(name));
            }),
        ))?;
        add(0, 0);
        drop(probe);
        // KUnit has a thread for each test: kunit_try_catch_thread.
        assert!(SEEN.is(&[1, u64::from_ne_bytes(*b"kunit_tr")]));
        Ok(())
    }

    #[test]
    fn what_is_not_there_is_enoent() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let heap = KBox::new(0u64, GFP_KERNEL)?;
        for target in [
            UNKNOWN.into(),
            Target::Address(core::ptr::from_ref(&*heap).addr()),
        ] {
            let refused = boxed(Kprobe::register_disabled(
                target,
                First(&SEEN, Dropped(&DROPPED, 0)),
            ));
            assert_eq!(errno(refused), ENOENT.to_errno());
        }
        assert_eq!(DROPPED.len(), 2);
        Ok(())
    }

    #[test]
    fn between_two_instructions_no_probe_can_be() -> Result {
        let first = boxed(Kprobe::register_disabled(ADD, Pre(|_| ())))?.address();
        let second = address_of_add() + second_instruction(ADD)?;
        assert!(second - first > 1);
        for middle in first + 1..second {
            let refused = errno(boxed(Kprobe::new(Target::Address(middle), Pre(|_| ()))));
            assert_eq!(refused, BETWEEN);
        }
        let refused = errno(boxed(Kprobe::new(
            at_offset(ADD, second - 1 - address_of_add()),
            Pre(|_| ()),
        )));
        assert_eq!(refused, BETWEEN);
        Ok(())
    }

    #[test]
    fn where_no_probe_may_be_is_einval() -> Result {
        for target in [NO_PROBE.into(), DATA.into(), Target::Address(0)] {
            let refused = errno(boxed(Kprobe::new(target, Pre(|_| ()))));
            assert_eq!(refused, EINVAL.to_errno());
        }
        Ok(())
    }

    #[test]
    fn pointers_to_handlers_are_handlers() -> Result {
        static SEEN: Seen = Seen::new();
        static BOTH: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let shared = Arc::new(First(&SEEN, Dropped(&DROPPED, 1)), GFP_KERNEL)?;
        let first = boxed(Kprobe::new(ADD, shared.clone()))?;
        let second = boxed(Kprobe::new(SUBTRACT, shared.clone()))?;
        let handler = KBox::new(Both(&BOTH), GFP_KERNEL)?;
        let third = boxed(Kprobe::new(DEPTH, handler))?;
        add(1, 0);
        subtract(2, 0);
        depth(0);
        drop((first, second, third));
        let dropped_before = DROPPED.len();
        drop(shared);
        assert!(SEEN.is(&[1, 2]));
        // `post` of the handler in the box was called, too.
        assert_eq!(BOTH.len(), 4);
        // The module had the last reference.
        assert_eq!(dropped_before, 0);
        assert!(DROPPED.is(&[1]));
        Ok(())
    }

    /// Has a lock, which the handler does not use.
    #[pin_data]
    struct Locked {
        #[pin]
        lock: Mutex<u64>,
        seen: &'static Seen,
        dropped: Dropped,
    }

    #[vtable]
    impl Handler for Locked {
        fn pre(&self, hit: &Hit<'_>) {
            self.seen.push(hit.registers().arg::<u64>(0));
        }
    }

    #[test]
    fn a_handler_may_be_pinned() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let locked = |number| {
            pin_init!(Locked {
                lock <- new_mutex!(number),
                seen: &SEEN,
                dropped: Dropped(&DROPPED, number),
            })
        };
        let probe = boxed(Kprobe::new(ADD, locked(1)))?;
        let mut number = probe.handler().lock.lock();
        add(2, 0);
        *number += 1;
        drop(number);
        let number = *probe.handler().lock.lock();
        let refused = errno(boxed(Kprobe::new(UNKNOWN, locked(3))));
        let dropped_before = DROPPED.len();
        drop(probe);
        assert_eq!(number, 2);
        assert!(SEEN.is(&[2]));
        assert_eq!(refused, ENOENT.to_errno());
        assert_eq!(dropped_before, 1);
        assert!(DROPPED.is(&[3, 1]));
        Ok(())
    }

    #[test]
    fn where_a_handler_cannot_be_made_there_is_no_probe() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let handler = try_pin_init!(Locked {
            dropped: Dropped(&DROPPED, 1),
            seen: &SEEN,
            lock <- Err::<Mutex<u64>, _>(EBUSY),
        }? Error);
        let refused = errno(boxed(Kprobe::new(ADD, handler)));
        add(1, 0);
        assert_eq!(refused, EBUSY.to_errno());
        assert!(SEEN.is(&[]));
        assert!(DROPPED.is(&[1]));
        Ok(())
    }
}
