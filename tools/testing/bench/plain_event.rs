// SPDX-License-Identifier: GPL-2.0

//! An event in plain code, for the benchmark. The same in C is in `plain_trace.h`.

use kernel::prelude::*;

use ktrace::trace_event::{
    Comm,
    TraceEvent, //
};

module! {
    type: Module,
    name: "plain_event",
    authors: ["rkprobe maintainers"],
    description: "an event in plain code",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

ktrace::trace_event! {
    struct PlainEvent<'a> in "bench" as "hit_plain" {
        flags: u64 = hex,
        pid: i32,
        comm: Comm,
        path: &'a str,
        addresses: &'a [u64; 4] = hex,
    }
}

type Function = unsafe extern "C" fn(u64, i32, *const [u64; 4]);

extern "C" {
    fn bench_set_plain(function: Option<Function>);
}

/// # Safety
///
/// `addresses` must be valid.
unsafe extern "C" fn plain(flags: u64, pid: i32, addresses: *const [u64; 4]) {
    PlainEvent {
        flags,
        pid,
        comm: Comm,
        path: "/dev/bench_plain",
        // SAFETY: The caller guarantees a valid pointer.
        addresses: unsafe { &*addresses },
    }
    .record();
}

struct Module(#[expect(dead_code)] TraceEvent);

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let event = PlainEvent::register()?;
        // SAFETY: `plain.c` calls it with valid addresses, until this module goes.
        unsafe { bench_set_plain(Some(plain)) };
        Ok(Self(event))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: Nobody reads the device while the module goes.
        unsafe { bench_set_plain(None) };
    }
}
