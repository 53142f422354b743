// SPDX-License-Identifier: GPL-2.0

//! Threads, and what wakes them.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use ktrace::thread::{
    Thread,
    Threads,
    Waker,
    Work, //
};

pub struct Sleep;

impl Work for Sleep {
    fn run(&self, thread: &Thread) {
        let waker: Waker = thread.waker();
        thread.sleep();

        //~ kept: error: lifetime may not live long enough
        #[cfg(case = "kept")]
        let _: &'static Thread = thread;

        //~ sent: error[E0277]: `*mut ()` cannot be shared between threads safely
        #[cfg(case = "sent")]
        needs_send(thread);

        //~ woken_outside_of_a_timer: error[E0308]: expected `&HrTimerCallbackContext<'_, _>`, found `&Thread`
        #[cfg(case = "woken_outside_of_a_timer")]
        waker.wake(thread);

        needs_send(waker);
    }
}

fn needs_send(_: impl Send) {}

pub fn start() -> Result<Threads> {
    Threads::start(c"sleep", Arc::new(Sleep, GFP_KERNEL)?)
}

/// The threads of all CPUs run at once.
#[cfg(case = "not_sync")]
pub struct NotSync(core::cell::Cell<u32>);

//~ not_sync: error[E0277]: `Cell<u32>` cannot be shared between threads safely
#[cfg(case = "not_sync")]
impl Work for NotSync {
    fn run(&self, _: &Thread) {}
}
