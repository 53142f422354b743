// SPDX-License-Identifier: GPL-2.0

//! The threads.

use kernel::{
    impl_has_hr_timer,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    time::{
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

use ktrace::thread::{
    Thread,
    Waker,
    Work, //
};

use crate::everything_counts::*;

ktrace::trace_event! {
    /// A thread of a CPU begins. While this event is enabled, each CPU has a thread.
    pub(crate) struct ThreadEvent in "rust_everything" as "thread" {
        cpu: u32,
    }
}

/// Threads that only wait.
pub(crate) struct Wait;

impl Work for Wait {
    fn run(&self, thread: &Thread) {
        THREADS.hit_here(thread.cpu() as i32);
        while !thread.should_stop() {
            thread.sleep();
        }
    }
}

/// A timer that wakes a thread.
#[pin_data]
struct Alarm {
    #[pin]
    timer: HrTimer<Self>,
    waker: Waker,
}

impl_has_hr_timer! {
    impl HasHrTimer<Self> for Alarm {
        mode: RelativePinnedHardMode<Monotonic>, field: self.timer
    }
}

impl HrTimerCallback for Alarm {
    type Pointer<'a> = Arc<Self>;

    fn run(this: ArcBorrow<'_, Self>, context: HrTimerCallbackContext<'_, Self>) -> HrTimerRestart {
        this.waker.wake(&context);
        HrTimerRestart::NoRestart
    }
}

/// Threads that a timer wakes once.
pub(crate) struct Sleep;

impl Sleep {
    fn wait_for_timer(thread: &Thread) -> Result {
        let alarm = Arc::pin_init(
            pin_init!(Alarm {
                timer <- HrTimer::new(),
                waker: thread.waker(),
            }),
            GFP_KERNEL,
        )?;
        let timer = alarm.start(Delta::from_millis(1));
        thread.sleep();
        drop(timer);
        Ok(())
    }
}

impl Work for Sleep {
    fn run(&self, thread: &Thread) {
        ThreadEvent { cpu: thread.cpu() }.record();
        if Self::wait_for_timer(thread).is_ok() && !thread.should_stop() {
            WOKEN.hit_here(thread.cpu() as i32);
        }
        while !thread.should_stop() {
            thread.sleep();
        }
    }
}
