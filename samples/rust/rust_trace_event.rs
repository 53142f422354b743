// SPDX-License-Identifier: GPL-2.0

//! Rust trace event sample: `events/rust_sample/clone`, an event of a module's own. Enabling it
//! arms a kprobe on `kernel_clone`, whose flags it records.

use kernel::prelude::*;

use ktrace::{
    kprobe::{
        Handler,
        Hit,
        Kprobe, //
    },
    nofault::KernelPtr,
    trace_event::{
        Comm,
        TraceEvent, //
    },
};

module! {
    type: RustTraceEvent,
    name: "rust_trace_event",
    authors: ["rkprobe maintainers"],
    description: "Rust trace event sample",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

ktrace::trace_event! {
    /// A task is cloned.
    struct CloneEvent in "rust_sample" as "clone" {
        flags: u64 = hex,
        comm: Comm,
    }
}

/// `kernel_clone` takes a `struct kernel_clone_args *`, which begins with the flags.
struct Record;

#[vtable]
impl Handler for Record {
    fn pre(&self, hit: &Hit<'_>) {
        let flags = hit.arg::<KernelPtr<u64>>(0).read().unwrap_or(0);
        CloneEvent { flags, comm: Comm }.record_at(hit);
    }
}

/// Dropping the event removes it, and the probe.
struct RustTraceEvent(#[expect(dead_code)] TraceEvent);

impl kernel::Module for RustTraceEvent {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let probe = Kprobe::register_disabled(c"kernel_clone", Record);
        let probe = KBox::pin_init(probe, GFP_KERNEL)?;
        Ok(Self(CloneEvent::register_with(probe)?))
    }
}
