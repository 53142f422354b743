// SPDX-License-Identifier: GPL-2.0

//! A handler for the records of a trace event.
//!
//! The kernel creates the record even if no user has enabled the event.
//!
//! - In the kernel's tree, an event probe is a trigger on the event, which users do not see.
//! - Elsewhere, it is a perf counter for each CPU. The counters exist from the creation of the
//!   event probe on, so the event's tracepoint then has a callback, which finds no counter until
//!   the handler is attached. perf makes no record, and counts no miss, if the event happens while
//!   perf works on another event in the same context. If a BPF program is on the event and returns
//!   0, perf makes no record either. In the handler, an event cannot make a record for perf. A CPU
//!   that comes online has its counter some milliseconds later.
//!
//! C: `kernel/trace/trace_eprobe.c`, `kernel/trace/trace_events_trigger.c`,
//! `perf_event_create_kernel_counter()`.

use core::ptr;

use kernel::{
    ffi::c_void,
    prelude::*, //
};

use crate::{
    event::mutex::EventMutexHeld,
    modules::leftover::{
        self,
        Entry,
        Kind, //
    },
    support::IN_TREE, //
};

pub(in crate::event) use event::finish_puts;
pub use event::Event;
pub(crate) use event::{
    exit,
    init, //
};
pub use handler::Handler;
pub use record::Record;

mod event;
pub(crate) mod handler;
mod record;

/// Whether perf can take records that a [`Handler`] makes: only in the kernel's tree.
pub const ALLOWS_PERF: bool = IN_TREE;

/// The handler and the other data of the callback. C has a pointer to it, so it must not move.
#[pin_data]
struct CallbackData<H> {
    /// The minimum length of a record, in bytes.
    len: usize,
    #[pin]
    handler: H,
}

/// A handler that can be attached to an event. Dropping the value detaches the handler.
///
/// If the handler is attached, the drop takes `event_mutex` and waits for RCU. Process context.
///
/// # Invariants
///
/// The handler of `event` is `hit` with `inner`. Only the task that claims `entry` ends the
/// handler.
pub struct EventProbe<H: Handler> {
    inner: Pin<KBox<CallbackData<H>>>,
    event: Event,
    entry: Entry,
}

impl<H: Handler> EventProbe<H> {
    /// Creates an event probe that is not attached.
    ///
    /// Process context; takes `event_mutex`, so the caller must not hold it. `ENOMEM`. Outside the
    /// kernel tree also the errors of perf, such as `EACCES`.
    pub fn new<E>(event: Event, handler: impl PinInit<H, E>) -> Result<Self>
    where
        Error: From<E>,
    {
        let len = event.len();
        let inner = KBox::try_pin_init(
            try_pin_init!(CallbackData {
                len,
                handler <- handler,
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: This is the first handler of the event. `hit` gets this `inner`, which lives as
        // long as the probe, and the drop detaches the handler.
        unsafe { event.set_handler(hit::<H>, ptr::from_ref(&*inner).cast_mut().cast()) }?;
        // INVARIANT: The handler was set above.
        let this = Self {
            inner,
            event,
            entry: Entry::none(),
        };
        let code = hit::<H> as *const () as usize;
        let event = this.event.as_ptr();
        // SAFETY: `end` detaches the handler and waits for it. Only a task with the claim calls it.
        let claim = unsafe { leftover::track(Kind::Other, &[code], event, Event::end) }?;
        this.entry.set(claim.keep());
        Ok(this)
    }

    /// Attaches the handler to the event. Process context. `EBUSY` if it is attached already, and
    /// the kernel's error if the kernel cannot create the event's records.
    pub fn attach(&self, token: &EventMutexHeld) -> Result {
        // SAFETY: By the type invariant, the handler is set. If it has ended, its module is gone,
        // and this code with it.
        unsafe { self.event.attach(token) }
    }

    /// Detaches the handler, if it is attached. The handler does not run any more when this
    /// function returns. Process context; waits for RCU.
    pub fn detach(&self, _: &EventMutexHeld) {
        // SAFETY: By the type invariant, the handler is set. The token proves that `event_mutex` is
        // held.
        unsafe { self.event.detach() };
    }

    /// The number of records for which the handler did not run, because a handler was already
    /// running on that CPU. Any context.
    pub fn missed(&self) -> u64 {
        self.event.missed()
    }

    /// The handler. Other CPUs may be running it. Any context.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }
}

impl<H: Handler> Drop for EventProbe<H> {
    fn drop(&mut self) {
        // Without the claim, `leftover` has detached the handler and waited for it.
        let Some(_claim) = self.entry.claim() else {
            return;
        };
        match EventMutexHeld::is_current() {
            // SAFETY: By the type invariant, the handler is set. The current task holds
            // `event_mutex`.
            true => unsafe { self.event.detach() },
            // SAFETY: By the type invariant, the handler is set, and only this task has the claim.
            // The current task does not hold `event_mutex` under a token, so it does not hold it.
            false => unsafe { Event::end(self.event.as_ptr()) },
        }
    }
}

/// C calls this function with a record.
///
/// # Safety
///
/// `data` must be the [`CallbackData`] of an [`EventProbe`] for `H`. `record` must be a record of
/// its event, with all fields written. Preemption must be disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn hit<H: Handler>(data: *mut c_void, record: *const c_void) {
    // SAFETY: The caller passes the `CallbackData` of an attached `EventProbe`. The `EventProbe`
    // frees it only after it has detached the handler and waited for handlers.
    let inner = unsafe { &*data.cast::<CallbackData<H>>() };
    // SAFETY: The caller passes a record with all fields of the event, so the record has at least
    // `len` bytes. No code changes the record before this function returns.
    let bytes = unsafe { core::slice::from_raw_parts(record.cast(), inner.len) };
    // SAFETY: The caller guarantees that preemption is disabled until this function returns.
    inner.handler.hit(&unsafe { Record::new(bytes) });
}
