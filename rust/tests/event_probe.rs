// SPDX-License-Identifier: GPL-2.0

//! Handlers for the records of an event.

use kernel::prelude::*;

#[kunit_tests(ktrace_event_probe)]
mod tests {
    use super::*;

    use kernel::{
        new_mutex,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Mutex, //
        },
        time::{
            delay::fsleep,
            Delta, //
        },
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
        errno,
        Dropped,
        Seen, //
    };

    static HITS: Atomic<usize> = Atomic::new(0);

    struct Count(#[expect(dead_code)] Dropped);

    impl Handler for Count {
        fn hit(&self, _: &Record<'_>) {
            HITS.add(1, Relaxed);
        }
    }

    /// Has a lock, which the handler does not use.
    #[pin_data]
    struct Locked {
        #[pin]
        lock: Mutex<u64>,
        count: Count,
    }

    impl Handler for Locked {
        fn hit(&self, record: &Record<'_>) {
            self.count.hit(record);
        }
    }

    /// Makes this task sleep, which causes an event.
    fn hits() -> usize {
        let before = HITS.load(Relaxed);
        for _ in 0..3 {
            fsleep(Delta::from_millis(10));
        }
        HITS.load(Relaxed) - before
    }

    #[test]
    fn dropping_detaches() -> Result {
        static SEEN: Seen = Seen::new();
        let event = Event::get(c"sched", c"sched_switch")?;
        let probe = EventProbe::new(event, Count(Dropped(&SEEN, 1)))?;
        EventMutex::with(|token| probe.attach(token))??;
        let attached = hits();
        drop(probe);
        assert!(SEEN.is(&[1]));
        assert!(attached > 0);
        assert_eq!(hits(), 0);
        Ok(())
    }

    #[test]
    fn a_handler_may_be_pinned() -> Result {
        static SEEN: Seen = Seen::new();
        let handler = pin_init!(Locked {
            lock <- new_mutex!(1),
            count: Count(Dropped(&SEEN, 1)),
        });
        let failing = try_pin_init!(Locked {
            count: Count(Dropped(&SEEN, 2)),
            lock <- Err::<Mutex<u64>, _>(EBUSY),
        }? Error);
        let probe = EventProbe::new(Event::get(c"sched", c"sched_switch")?, handler)?;
        EventMutex::with(|token| probe.attach(token))??;
        let attached = hits();
        *probe.handler().lock.lock() += 1;
        let number = *probe.handler().lock.lock();
        let event = Event::get(c"sched", c"sched_switch")?;
        let failed = errno(EventProbe::new(event, failing));
        let dropped_before = SEEN.len();
        drop(probe);
        assert!(attached > 0);
        assert_eq!(number, 2);
        assert_eq!(failed, EBUSY.to_errno());
        assert_eq!(dropped_before, 1);
        assert!(SEEN.is(&[2, 1]));
        assert_eq!(hits(), 0);
        Ok(())
    }
}
