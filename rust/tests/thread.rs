// SPDX-License-Identifier: GPL-2.0

//! Threads that are bound to CPUs.

use kernel::prelude::*;

#[kunit_tests(ktrace_thread)]
mod tests {
    use super::*;

    use kernel::{
        cpu::CpuId,
        impl_has_hr_timer,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Arc,
            ArcBorrow, //
        },
        time::{
            delay::fsleep,
            hrtimer::{
                HrTimer,
                HrTimerCallback,
                HrTimerCallbackContext,
                HrTimerPointer,
                HrTimerRestart,
                RelativePinnedHardMode, //
            },
            Delta,
            Monotonic, //
        },
    };

    use ktrace::{
        thread::{
            OnDemand,
            Thread,
            Threads,
            Waker,
            Work, //
        },
        trace_event::{
            disable,
            enable, //
        },
    };

    use crate::{
        kunit_targets::{
            count_staying,
            is_bound_to,
            priority,
            visit_cpus, //
        },
        seen::{
            errno,
            Dropped,
            Seen,
            NOWHERE, //
        },
    };

    const NAME: &CStr = c"ktrace_kunit";

    /// Waits for a condition. If it never becomes true, the assertions of the test fail.
    fn wait_until(condition: impl Fn() -> bool) {
        for _ in 0..60_000 {
            if condition() {
                break;
            }
            fsleep(Delta::from_millis(1));
        }
    }

    /// The threads of a test.
    struct Ran {
        started: Atomic<u64>,
        /// The threads that were at the place that the test waits for.
        ready: Atomic<u64>,
        ended: Atomic<u64>,
    }

    impl Ran {
        const fn new() -> Self {
            Self {
                started: Atomic::new(0),
                ready: Atomic::new(0),
                ended: Atomic::new(0),
            }
        }

        /// Waits until so many threads are ready.
        fn wait_for(&self, threads: u32) {
            wait_until(|| self.ready.load(Relaxed) >= threads.into());
        }

        fn is(&self, started: u64, ready: u64, ended: u64) -> bool {
            let seen = [&self.started, &self.ready, &self.ended].map(|count| count.load(Relaxed));
            if seen != [started, ready, ended] {
                pr_err!("started, ready, ended: {:?}\n", seen);
            }
            seen == [started, ready, ended]
        }
    }

    /// Work that a function does.
    struct Do(
        &'static Ran,
        fn(&Thread) -> bool,
        #[expect(dead_code)] Dropped,
    );

    impl Do {
        fn new(ran: &'static Ran, work: fn(&Thread) -> bool) -> Result<Arc<Self>> {
            Ok(Arc::new(Self(ran, work, Dropped(&NOWHERE, 0)), GFP_KERNEL)?)
        }
    }

    impl Work for Do {
        fn run(&self, thread: &Thread) {
            self.0.started.add(1, Relaxed);
            if self.1(thread) {
                self.0.ready.add(1, Relaxed);
            }
            while !thread.should_stop() {
                thread.sleep();
            }
            self.0.ended.add(1, Relaxed);
        }
    }

    /// Runs one thread on each CPU. Returns the number of CPUs.
    fn run_on_each_cpu(ran: &'static Ran, work: fn(&Thread) -> bool) -> Result<u64> {
        let cpus = visit_cpus();
        let threads = Threads::start(NAME, Do::new(ran, work)?)?;
        ran.wait_for(cpus);
        let ended = ran.ended.load(Relaxed);
        drop(threads);
        if ended > 0 {
            pr_err!("{ended} threads ended before the drop\n");
            return Err(EIO);
        }
        Ok(cpus.into())
    }

    #[test]
    fn each_cpu_has_a_thread_until_they_are_dropped() -> Result {
        static RAN: Ran = Ran::new();
        static CPUS: Atomic<u64> = Atomic::new(0);
        let cpus = run_on_each_cpu(&RAN, |thread| {
            let cpu = thread.cpu();
            CPUS.add(1 << cpu, Relaxed);
            CpuId::current().as_u32() == cpu && is_bound_to(cpu)
        })?;
        assert!(RAN.is(cpus, cpus, cpus));
        assert_eq!(u64::from(CPUS.load(Relaxed).count_ones()), cpus);
        Ok(())
    }

    /// When a CPU goes offline, the kernel moves the other threads to another CPU.
    #[test]
    fn no_thread_can_leave_its_cpu_after_the_start() -> Result {
        static RAN: Ran = Ran::new();
        let cpus = visit_cpus();
        for _ in 0..20 {
            let threads = Threads::start(NAME, Do::new(&RAN, |_| true)?)?;
            let staying = count_staying(NAME);
            drop(threads);
            assert_eq!(staying, cpus);
        }
        Ok(())
    }

    #[test]
    fn dropping_frees_the_work() -> Result {
        static RAN: Ran = Ran::new();
        static DROPPED: Seen = Seen::new();
        let work = Arc::new(Do(&RAN, |_| true, Dropped(&DROPPED, 1)), GFP_KERNEL)?;
        let threads = Threads::start(NAME, work)?;
        RAN.wait_for(visit_cpus());
        let before = DROPPED.len();
        drop(threads);
        assert_eq!(before, 0);
        assert!(DROPPED.is(&[1]));
        Ok(())
    }

    /// Work that returns at once.
    struct Nothing(&'static Ran);

    impl Work for Nothing {
        fn run(&self, _: &Thread) {
            self.0.ready.add(1, Relaxed);
        }
    }

    #[test]
    fn work_may_return_before_the_thread_must_stop() -> Result {
        static RAN: Ran = Ran::new();
        let cpus = visit_cpus();
        let threads = Threads::start(NAME, Arc::new(Nothing(&RAN), GFP_KERNEL)?)?;
        RAN.wait_for(cpus);
        drop(threads);
        assert!(RAN.is(0, cpus.into(), 0));
        Ok(())
    }

    /// A timer that wakes a thread.
    #[pin_data]
    struct Alarm {
        #[pin]
        timer: HrTimer<Self>,
        waker: Waker,
        has_fired: Atomic<bool>,
    }

    impl_has_hr_timer! {
        impl HasHrTimer<Self> for Alarm {
            mode: RelativePinnedHardMode<Monotonic>, field: self.timer
        }
    }

    impl HrTimerCallback for Alarm {
        type Pointer<'a> = Arc<Self>;

        fn run(
            this: ArcBorrow<'_, Self>,
            context: HrTimerCallbackContext<'_, Self>,
        ) -> HrTimerRestart {
            this.waker.wake(&context);
            this.has_fired.store(true, Relaxed);
            HrTimerRestart::NoRestart
        }
    }

    impl Alarm {
        fn new(waker: Waker) -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    timer <- HrTimer::new(),
                    waker,
                    has_fired: Atomic::new(false),
                }),
                GFP_KERNEL,
            )
        }
    }

    /// Sleeps until a timer wakes the thread. Does `before` after the start of the timer.
    fn sleeps(thread: &Thread, before: fn(&Thread, &Alarm)) -> bool {
        let Ok(alarm) = Alarm::new(thread.waker()) else {
            return false;
        };
        let timer = alarm.clone().start(Delta::from_millis(2));
        before(thread, &alarm);
        thread.sleep();
        drop(timer);
        !thread.should_stop() && alarm.has_fired.load(Relaxed)
    }

    #[test]
    fn a_waker_ends_a_sleep() -> Result {
        static RAN: Ran = Ran::new();
        let cpus = run_on_each_cpu(&RAN, |thread| sleeps(thread, |_, _| ()))?;
        assert!(RAN.is(cpus, cpus, cpus));
        Ok(())
    }

    #[test]
    fn a_waker_before_the_sleep_is_not_lost() -> Result {
        static RAN: Ran = Ran::new();
        let cpus = run_on_each_cpu(&RAN, |thread| {
            sleeps(thread, |thread, alarm| {
                while !alarm.has_fired.load(Relaxed) && !thread.should_stop() {
                    thread.yield_now();
                }
            })
        })?;
        assert!(RAN.is(cpus, cpus, cpus));
        Ok(())
    }

    #[test]
    fn a_waker_may_outlive_its_thread() -> Result {
        static RAN: Ran = Ran::new();
        static ARE_DROPPED: Atomic<bool> = Atomic::new(false);
        static LATE: Atomic<u64> = Atomic::new(0);
        let cpus = run_on_each_cpu(&RAN, |thread| {
            let Ok(alarm) = Alarm::new(thread.waker()) else {
                return false;
            };
            kernel::workqueue::system_unbound()
                .try_spawn(GFP_KERNEL, move || {
                    wait_until(|| ARE_DROPPED.load(Relaxed));
                    let is_late = ARE_DROPPED.load(Relaxed);
                    let timer = alarm.clone().start(Delta::from_millis(1));
                    wait_until(|| alarm.has_fired.load(Relaxed));
                    drop(timer);
                    if is_late {
                        LATE.add(1, Relaxed);
                    }
                })
                .is_ok()
        });
        ARE_DROPPED.store(true, Relaxed);
        let cpus = cpus?;
        wait_until(|| LATE.load(Relaxed) >= cpus);
        assert!(RAN.is(cpus, cpus, cpus));
        assert_eq!(LATE.load(Relaxed), cpus);
        Ok(())
    }

    #[test]
    fn a_sleep_for_a_time_says_whether_it_was_ended() -> Result {
        static RAN: Ran = Ran::new();
        static ENDED: Atomic<u64> = Atomic::new(0);
        struct Sleep;

        impl Work for Sleep {
            fn run(&self, thread: &Thread) {
                RAN.started.add(1, Relaxed);
                if thread.sleep_for(Delta::from_micros(10)) {
                    RAN.ready.add(1, Relaxed);
                }
                // The stop ends the last sleep, or prevents it.
                let is_over = loop {
                    let is_over = thread.sleep_for(Delta::from_secs(10_000));
                    if thread.should_stop() {
                        break is_over;
                    }
                };
                if !is_over {
                    ENDED.add(1, Relaxed);
                }
                RAN.ended.add(1, Relaxed);
            }
        }

        let cpus = visit_cpus();
        let threads = Threads::start(NAME, Arc::new(Sleep, GFP_KERNEL)?)?;
        RAN.wait_for(cpus);
        drop(threads);
        let cpus = u64::from(cpus);
        assert!(RAN.is(cpus, cpus, cpus));
        assert_eq!(ENDED.load(Relaxed), cpus);
        Ok(())
    }

    #[test]
    fn a_thread_gets_a_priority_from_1_to_99() -> Result {
        static RAN: Ran = Ran::new();
        let cpus = run_on_each_cpu(&RAN, |thread| {
            [0, 100, u32::MAX]
                .iter()
                .all(|&priority| errno(thread.set_fifo(priority)) == EINVAL.to_errno())
                && priority() == 0
                && thread.set_fifo(1).is_ok()
                && priority() == 1
                && thread.set_fifo(99).is_ok()
                && priority() == 99
        })?;
        assert!(RAN.is(cpus, cpus, cpus));
        Ok(())
    }

    ktrace::trace_event! {
        struct DemandEvent in "ktrace_kunit" as "demand" {}
    }

    #[test]
    fn threads_run_while_their_event_is_enabled() -> Result {
        static RAN: Ran = Ran::new();
        let cpus = visit_cpus();
        let event = DemandEvent::register_with(OnDemand::new(NAME, Do::new(&RAN, |_| true)?)?)?;
        let before = RAN.is(0, 0, 0);
        enable(NAME, c"demand")?;
        RAN.wait_for(cpus);
        let count = u64::from(cpus);
        let running = RAN.is(count, count, 0);
        disable(NAME, c"demand")?;
        let once = RAN.is(count, count, count);
        enable(NAME, c"demand")?;
        RAN.wait_for(2 * cpus);
        // The event stops its threads.
        drop(event);
        assert!(before);
        assert!(running);
        assert!(once);
        assert!(RAN.is(2 * count, 2 * count, 2 * count));
        Ok(())
    }
}
