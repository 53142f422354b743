// SPDX-License-Identifier: GPL-2.0

//! Tasks that exit in a call, which must not keep its memory.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use ktrace::tracepoint::{
    self,
    Tracepoint, //
};

/// Calls in progress, which tasks are in.
pub(crate) trait OfTasks: Send + Sync + 'static {
    /// Gives the memory of the calls of a task back. The task runs no more. Atomic context.
    fn abandon(&self, task: u64);
}

/// The handler of the tracepoint `sched_process_free`. The task has exited, and runs no more.
pub(crate) struct AtTaskFree<T>(Arc<T>);

impl<T: OfTasks> AtTaskFree<T> {
    /// Attaches the handler. Fails as [`Tracepoint::attach`].
    pub(crate) fn attach(calls: Arc<T>) -> Result<Tracepoint<Self>> {
        Tracepoint::attach(c"sched_process_free", Self(calls))
    }
}

impl<T: OfTasks> tracepoint::Handler for AtTaskFree<T> {
    #[inline(always)]
    fn hit(&self, hit: &tracepoint::Hit<'_>) {
        self.0.abandon(hit.arg::<u64>(0));
    }
}
