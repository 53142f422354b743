// SPDX-License-Identifier: GPL-2.0

//! Handlers for the records of an event. In the kernel's own tree only.

use kernel::prelude::*;

#[kunit_tests(ktrace_event_probe)]
mod tests {
    use super::*;

    use core::sync::atomic::{
        AtomicUsize,
        Ordering, //
    };

    use kernel::time::{
        delay::fsleep,
        Delta, //
    };

    use ktrace::{
        event_probe::{
            Event,
            EventProbe,
            Handler,
            Record, //
        },
        trace_event::EventMutex, //
    };

    use crate::seen::{
        Dropped,
        Seen, //
    };

    static HITS: AtomicUsize = AtomicUsize::new(0);

    struct Count(#[expect(dead_code)] Dropped);

    impl Handler for Count {
        fn hit(&self, _: &Record<'_>) {
            HITS.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes this task sleep, which causes an event.
    fn hits() -> usize {
        let before = HITS.load(Ordering::Relaxed);
        for _ in 0..3 {
            fsleep(Delta::from_millis(10));
        }
        HITS.load(Ordering::Relaxed) - before
    }

    #[test]
    fn dropping_detaches() -> Result {
        static SEEN: Seen = Seen::new();
        let event = Event::get(c"sched", c"sched_switch")?;
        let probe = EventProbe::new(event, None, Count(Dropped(&SEEN, 1)))?;
        EventMutex::with(|token| probe.attach(token))??;
        let attached = hits();
        drop(probe);
        assert!(SEEN.is(&[1]));
        assert!(attached > 0);
        assert_eq!(hits(), 0);
        Ok(())
    }
}
