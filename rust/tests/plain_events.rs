// SPDX-License-Identifier: GPL-2.0

//! A module with events of its own, which plain code records in every context.
//!
//! A write to `ktrace_plain` makes records. `0` to `3` records `ktrace_plain/every`, which has a
//! field of every type, in a process, a softirq, a hardirq and an NMI. `strings N` records
//! `ktrace_plain/strings` with two strings of N bytes. `unregister` and `register` remove the first
//! event and add it again.

use kernel::{
    prelude::*,
    seq_file::SeqFile, //
};

use ktrace::{
    trace_event::{
        Comm,
        TraceEvent, //
    },
    tracefs::{
        ControlFile,
        File, //
    },
};

module! {
    type: PlainEvents,
    name: "plain_events_test",
    authors: ["rkprobe maintainers"],
    description: "Events in plain code",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

ktrace::trace_event! {
    /// An event with a field of every type.
    struct EveryEvent<'a> in "ktrace_plain" as "every" {
        context: u8,
        one: u8 = hex,
        two: u16,
        three: u16 = hex,
        four: u32,
        five: u32 = hex,
        eight: u64,
        nine: u64 = hex,
        size: usize,
        minus_one: i8,
        minus_two: i16,
        minus_four: i32,
        minus_eight: i64,
        minus_size: isize,
        is_true: bool,
        comm: Comm,
        at: usize = symbol,
        bytes: [u8; 3] = hex,
        numbers: &'a [i16; 2],
        text: &'a str,
        path: &'a CStr,
    }
}

ktrace::trace_event! {
    /// An event with strings.
    struct StringsEvent<'a> in "ktrace_plain" as "strings" {
        first: &'a str,
        len: u64,
        second: &'a str,
    }
}

kernel::sync::global_lock! {
    // SAFETY: The module's initialisation initialises it before anything else.
    unsafe(uninit) static EVERY: Mutex<Option<TraceEvent>> = None;
}

extern "C" {
    fn ktrace_run_in(context: u32, function: extern "C" fn(u32)) -> bool;
}

extern "C" fn record(context: u32) {
    EveryEvent {
        context: context as u8,
        one: 0xa1,
        two: 60_002,
        three: 0xa3a3,
        four: 4_000_000_004,
        five: 0xa5a5_a5a5,
        eight: 18_000_000_000_000_000_008,
        nine: 0xa9a9_a9a9_a9a9_a9a9,
        size: 1 << 40,
        minus_one: -1,
        minus_two: -2,
        minus_four: -4,
        minus_eight: -8_000_000_000,
        minus_size: -9,
        is_true: true,
        comm: Comm,
        at: kernel::bindings::schedule as *const () as usize,
        bytes: [0xb0, 0xb1, 0xb2],
        numbers: &[-7, 7],
        text: "a text",
        path: c"/a/path",
    }
    .record();
}

/// The file that makes records.
struct Make;

#[vtable]
impl ControlFile for Make {
    fn next(&self, _: usize) -> Option<usize> {
        None
    }

    fn show(&self, _: usize, _: &SeqFile) {}

    fn write_line(&self, line: &[u8]) -> Result {
        let line = core::str::from_utf8(line).map_err(|_| EINVAL)?;
        if let Some(len) = line.strip_prefix("strings ") {
            let len = len.parse().map_err(|_| EINVAL)?;
            let mut bytes = KVec::new();
            bytes.resize(len, b'x', GFP_KERNEL)?;
            let text = core::str::from_utf8(&bytes).map_err(|_| EINVAL)?;
            StringsEvent {
                first: text,
                len: len as u64,
                second: text,
            }
            .record();
            return Ok(());
        }
        match line {
            "register" => {
                let event = EveryEvent::register()?;
                *EVERY.lock() = Some(event);
            }
            "unregister" => {
                let event = EVERY.lock().take();
                drop(event);
            }
            _ => {
                let context = line.parse().map_err(|_| EINVAL)?;
                let _running = RUNNING.lock();
                // SAFETY: `record` takes any number, in any context. The lock excludes other tasks.
                if !unsafe { ktrace_run_in(context, record) } {
                    return Err(ENODEV);
                }
            }
        }
        Ok(())
    }
}

kernel::sync::global_lock! {
    // SAFETY: The module's initialisation initialises it before anything else.
    unsafe(uninit) static RUNNING: Mutex<()> = ();
}

struct PlainEvents {
    _file: File,
    _strings: TraceEvent,
}

impl kernel::Module for PlainEvents {
    fn init(module: &'static ThisModule) -> Result<Self> {
        // SAFETY: The kernel initialises a module once, and nothing else was used yet.
        unsafe {
            EVERY.init();
            RUNNING.init();
        }
        *EVERY.lock() = Some(EveryEvent::register()?);
        Ok(Self {
            _strings: StringsEvent::register()?,
            _file: File::create(c"ktrace_plain", module, Make)?,
        })
    }
}

impl Drop for PlainEvents {
    fn drop(&mut self) {
        let event = EVERY.lock().take();
        drop(event);
    }
}
