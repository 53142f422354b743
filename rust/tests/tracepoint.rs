// SPDX-License-Identifier: GPL-2.0

//! Handlers on tracepoints.

use kernel::prelude::*;

#[kunit_tests(ktrace_tracepoint)]
mod tests {
    use super::*;

    use kernel::sync::Arc;

    use ktrace::{
        registers::register,
        symbol,
        trace_event::Origin,
        tracepoint::{
            Handler,
            Hit,
            Tracepoint, //
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

    /// A size that nobody else allocates, in bytes.
    const SIZE: usize = 4243;

    /// Records the addresses of allocations of this size, and its drop.
    struct Allocations(&'static Seen, #[expect(dead_code)] Dropped);

    impl Handler for Allocations {
        // TP_PROTO(unsigned long call_site, const void *ptr, size_t bytes_req, size_t bytes_alloc,
        // gfp_t gfp_flags, int node)
        fn hit(&self, hit: &Hit<'_>) {
            if hit.arg::<u64>(2) == SIZE as u64 {
                self.0.push(hit.arg::<u64>(1));
                self.0.push(u64::from(hit.arg::<u64>(3) >= SIZE as u64));
                // The argument is on the stack: NUMA_NO_NODE.
                self.0.push(u64::from(hit.arg::<u32>(5) == u32::MAX));
            }
        }
    }

    fn allocate() -> Result<u64> {
        let allocated = KVec::<u8>::with_capacity(SIZE, GFP_KERNEL)?;
        Ok(allocated.as_ptr().addr() as u64)
    }

    #[test]
    fn the_handler_sees_each_hit_and_its_arguments() -> Result {
        static SEEN: Seen = Seen::new();
        let handler = Allocations(&SEEN, Dropped(&NOWHERE, 0));
        let tracepoint = Tracepoint::attach(c"kmalloc", handler)?;
        let [first, second] = [allocate()?, allocate()?];
        let seen = tracepoint.handler().0.len();
        drop(tracepoint);
        assert_eq!(seen, 6);
        assert!(SEEN.is(&[first, 1, 1, second, 1, 1]));
        Ok(())
    }

    /// The parts of a call of the tracepoint's stub.
    struct Stub(&'static Seen);

    impl Handler for Stub {
        fn hit(&self, hit: &Hit<'_>) {
            if hit.arg::<u64>(2) != SIZE as u64 {
                return;
            }
            let call = hit.call();
            self.0.push(call.function() as u64);
            self.0
                .push(u64::from(call.arg::<u64>(1) == hit.arg::<u64>(0)));
            let caller = match register("lr") {
                Some(link) => call.state().register(link),
                None => call.stack(0),
            };
            self.0.push(u64::from(caller == call.caller() as u64));
            let second = register("si").or(register("x1"));
            let second = second.map(|second| call.state().register(second));
            self.0.push(u64::from(second == Some(hit.arg::<u64>(0))));
            let called_from = symbol::start_of(call.caller());
            self.0.push(u64::from(called_from.is_some()));
        }
    }

    #[test]
    fn the_handler_sees_a_call_of_the_stub() -> Result {
        static SEEN: Seen = Seen::new();
        let tracepoint = Tracepoint::attach(c"kmalloc", Stub(&SEEN))?;
        allocate()?;
        drop(tracepoint);
        let stub = symbol::address_of(c"__probestub_kmalloc")?;
        let behind = if cfg!(any(CONFIG_X86_KERNEL_IBT, CONFIG_ARM64)) {
            4
        } else {
            0
        };
        assert!(SEEN.is(&[(stub + behind) as u64, 1, 1, 1, 1]));
        Ok(())
    }

    /// Allocates.
    struct Again(&'static Seen);

    impl Handler for Again {
        fn hit(&self, hit: &Hit<'_>) {
            if hit.arg::<u64>(2) == SIZE as u64 {
                self.0.push(hit.arg::<u64>(1));
                // Only this call hits the tracepoint, because nobody else allocates this size.
                drop(KVec::<u8>::with_capacity(SIZE, GFP_NOWAIT));
            }
        }
    }

    #[test]
    fn a_hit_within_a_handler_is_missed_and_counted() -> Result {
        static OUTER: Seen = Seen::new();
        static OTHER: Seen = Seen::new();
        let other = Tracepoint::attach(c"kmalloc", Allocations(&OTHER, Dropped(&NOWHERE, 0)))?;
        let again = Tracepoint::attach(c"kmalloc", Again(&OUTER))?;
        let first = allocate()?;
        let missed = [other.missed(), again.missed()];
        let last = again.unregister(|handler, missed| (handler.0.len(), missed));
        drop(other);
        assert!(OUTER.is(&[first]));
        assert!(OTHER.is(&[first, 1, 1]));
        assert_eq!(missed, [1, 1]);
        assert_eq!(last, (1, 1));
        Ok(())
    }

    #[test]
    fn a_handler_can_wait_for_what_is_not_there() -> Result {
        static DROPPED: Seen = Seen::new();
        let handler = Allocations(&NOWHERE, Dropped(&DROPPED, 1));
        let waiting = Tracepoint::attach_or_wait(UNKNOWN, handler)?;
        assert!(!waiting.is_attached());
        drop(waiting);
        assert!(DROPPED.is(&[1]));
        let there = Tracepoint::attach_or_wait(c"kmalloc", Stub(&NOWHERE))?;
        assert!(there.is_attached());
        Ok(())
    }

    #[test]
    fn many_handlers_are_on_one_tracepoint() -> Result {
        static FIRST: Seen = Seen::new();
        static SECOND: Seen = Seen::new();
        let attach = |seen| Tracepoint::attach(c"kmalloc", Allocations(seen, Dropped(&NOWHERE, 0)));
        let first = attach(&FIRST)?;
        allocate()?;
        let second = attach(&SECOND)?;
        allocate()?;
        drop(first);
        allocate()?;
        drop(second);
        assert_eq!([FIRST.len(), SECOND.len()], [6, 6]);
        Ok(())
    }

    #[test]
    fn dropping_detaches_and_frees_the_handler() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let handler = Allocations(&SEEN, Dropped(&DROPPED, 1));
        let tracepoint = Tracepoint::attach(c"kmalloc", handler)?;
        let dropped_before = DROPPED.len();
        drop(tracepoint);
        allocate()?;
        assert_eq!(dropped_before, 0);
        assert!(DROPPED.is(&[1]));
        assert!(SEEN.is(&[]));
        Ok(())
    }

    #[test]
    fn what_is_not_there_is_enoent() -> Result {
        // The name of a function is no tracepoint, and neither is a name with a system.
        for name in [UNKNOWN, ADD, c"kmem:kmalloc", c""] {
            let handler = Allocations(&NOWHERE, Dropped(&NOWHERE, 0));
            let refused = errno(Tracepoint::attach(name, handler));
            assert_eq!(refused, ENOENT.to_errno());
        }
        Ok(())
    }

    #[test]
    fn pointers_to_handlers_are_handlers() -> Result {
        static SHARED: Seen = Seen::new();
        static BOXED: Seen = Seen::new();
        let shared = Arc::new(Allocations(&SHARED, Dropped(&NOWHERE, 0)), GFP_KERNEL)?;
        let boxed = KBox::new(Allocations(&BOXED, Dropped(&NOWHERE, 0)), GFP_KERNEL)?;
        let shared = Tracepoint::attach(c"kmalloc", shared)?;
        let boxed = Tracepoint::attach(c"kmalloc", boxed)?;
        let address = allocate()?;
        drop((shared, boxed));
        assert!(SHARED.is(&[address, 1, 1]));
        assert!(BOXED.is(&[address, 1, 1]));
        Ok(())
    }
}
