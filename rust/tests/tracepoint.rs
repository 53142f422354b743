// SPDX-License-Identifier: GPL-2.0

//! Handlers on tracepoints.

use kernel::prelude::*;

#[kunit_tests(ktrace_tracepoint)]
mod tests {
    use super::*;
    use ktrace::tracepoint::Arguments;
    use ktrace::tracepoint::Handler;
    use ktrace::tracepoint::Tracepoint;
    use ktrace::tracepoint::ARGUMENTS;

    use crate::seen::errno;
    use crate::seen::Dropped;
    use crate::seen::Seen;
    use crate::targets::*;

    /// A size that nobody else allocates, in bytes.
    const SIZE: usize = 4243;

    /// The addresses that are given for this size, and says when it is dropped.
    struct Allocations(&'static Seen, #[expect(dead_code)] Dropped);

    static NOWHERE: Seen = Seen::new();

    impl Handler for Allocations {
        // TP_PROTO(unsigned long call_site, const void *ptr, size_t bytes_req, ...)
        fn hit(&self, arguments: &Arguments) {
            if arguments.get(2) == Some(SIZE) {
                self.0.push(arguments.get(1).map_or(0, |ptr| ptr as u64));
                self.0
                    .push(u64::from(arguments.get(ARGUMENTS - 1).is_some()));
                self.0.push(u64::from(arguments.get(ARGUMENTS).is_some()));
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
        assert!(SEEN.is(&[first, 1, 0, second, 1, 0]));
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
        // A function is no tracepoint, nor is one named with its system.
        for name in [UNKNOWN, ADD, c"kmem:kmalloc", c""] {
            let handler = Allocations(&NOWHERE, Dropped(&NOWHERE, 0));
            let refused = errno(Tracepoint::attach(name, handler));
            assert_eq!(refused, ENOENT.to_errno());
        }
        Ok(())
    }
}
