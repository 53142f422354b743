// SPDX-License-Identifier: GPL-2.0

//! A handler of every kind of probe, for modules that leave their probes to ktrace.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use ktrace::{
    fprobe,
    ftrace,
    function,
    kprobe,
    kretinsn,
    kretprobe,
    tracepoint,
    watchpoint, //
};

/// Counts the calls of its functions.
pub(crate) struct Counting(Atomic<u64>);

impl Counting {
    pub(crate) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Counts a call. Any context, for handlers.
    pub(crate) fn add(&self) {
        self.0.add(1, Relaxed);
    }

    /// The number of calls.
    pub(crate) fn calls(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[vtable]
impl kprobe::Handler for Counting {
    fn pre(&self, _: &kprobe::Hit<'_>) {
        self.add();
    }

    fn post(&self, _: &kprobe::Hit<'_>) {
        self.add();
    }
}

#[vtable]
impl kretprobe::Handler for Counting {
    type Data = u64;

    fn entry(&self, _: &kprobe::Hit<'_>) -> Option<u64> {
        Some(self.calls())
    }

    fn ret(&self, _: &kprobe::Hit<'_>, _: &kretprobe::Call<'_, u64>) {
        self.add();
    }
}

impl kretinsn::Handler for Counting {
    fn ret(&self, _: &kprobe::Hit<'_>, _: &kretinsn::Call) {
        self.add();
    }
}

#[vtable]
impl fprobe::Handler for Counting {
    type Data = u64;

    fn entry(&self, _: &function::Call<'_>) -> Option<u64> {
        Some(self.calls())
    }

    fn exit(&self, _: &function::Call<'_>, _: &u64) {
        self.add();
    }
}

impl ftrace::Handler for Counting {
    fn entry(&self, _: &function::Call<'_>) {
        self.add();
    }
}

impl tracepoint::Handler for Counting {
    fn hit(&self, _: &tracepoint::Hit<'_>) {
        self.add();
    }
}

impl watchpoint::Handler for Counting {
    fn hit(&self, _: &watchpoint::Hit<'_>) {
        self.add();
    }
}

/// An fprobe that is at the entry only.
pub(crate) struct Entry(pub(crate) Counting);

#[vtable]
impl fprobe::Handler for Entry {
    type Data = ();

    fn entry(&self, _: &function::Call<'_>) -> Option<()> {
        self.0.add();
        Some(())
    }
}
