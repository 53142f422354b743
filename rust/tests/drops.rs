// SPDX-License-Identifier: GPL-2.0

//! A module that drops a file and an event while others use them.
//!
//! A write to `ktrace_drop` drops the file `ktrace_victim` or the event `ktrace_drops/victim`,
//! whichever is its line.

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    trace_event::{
        Definition,
        EventMutex,
        EventMutexHeld,
        Field,
        Group,
        NewName,
        Operations,
        Print,
        Sink,
        TraceEvent,
        TraceSeq, //
    },
    tracefs::{
        ControlFile,
        File, //
    },
};

module! {
    type: Drops,
    name: "drops",
    authors: ["rkprobe maintainers"],
    description: "Drops what others use",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

kernel::sync::global_lock! {
    // SAFETY: The module's initialisation initialises it before anything else.
    unsafe(uninit) static VICTIM_FILE: Mutex<Option<File>> = None;
}

kernel::sync::global_lock! {
    // SAFETY: The module's initialisation initialises it before anything else.
    unsafe(uninit) static VICTIM_EVENT: Mutex<Option<TraceEvent>> = None;
}

/// A file with one line.
struct Victim;

#[vtable]
impl ControlFile for Victim {
    fn next(&self, from: usize) -> Option<usize> {
        (from == 0).then_some(0)
    }

    fn show(&self, _: usize, to: &SeqFile) {
        kernel::seq_print!(to, "alive\n");
    }
}

/// The file that drops.
struct Drop;

#[vtable]
impl ControlFile for Drop {
    fn next(&self, _: usize) -> Option<usize> {
        None
    }

    fn show(&self, _: usize, _: &SeqFile) {}

    fn write_line(&self, line: &[u8]) -> Result {
        // The lock is free again when the value is dropped.
        match line {
            b"file" => {
                let file = VICTIM_FILE.lock().take();
                drop(file);
            }
            b"event" => {
                let event = VICTIM_EVENT.lock().take();
                drop(event);
            }
            _ => return Err(EINVAL),
        }
        Ok(())
    }
}

/// An event that nothing records.
struct Nothing(Sink);

impl Operations for Nothing {
    fn sink(&self) -> &Sink {
        &self.0
    }

    fn fields(&self) -> &[Field] {
        &[]
    }

    fn print_fmt(&self) -> &CStr {
        c"\"\""
    }

    fn enable(&self, _: &EventMutexHeld) -> Result {
        Ok(())
    }

    fn disable(&self, _: &EventMutexHeld) {}
}

impl Print for Nothing {
    fn print(&self, _: &CStr, _: &[u8], seq: &mut TraceSeq) {
        seq.bytes(b"victim\n");
    }
}

fn event(module: &'static ThisModule) -> Result<TraceEvent> {
    let event = Arc::new(Nothing(Sink::new()), GFP_KERNEL)?;
    let definition = Definition {
        name: NewName::new(
            Group::new(c"ktrace_drops", module)?,
            CString::try_from(c"victim")?,
        )?,
        operations: event.clone(),
        print: event,
    };
    EventMutex::with(|token| TraceEvent::register(token, definition))?
}

struct Drops {
    _file: File,
}

impl kernel::Module for Drops {
    fn init(module: &'static ThisModule) -> Result<Self> {
        // SAFETY: The kernel initialises a module once, and nothing else was used yet.
        unsafe {
            VICTIM_FILE.init();
            VICTIM_EVENT.init();
        }
        // Statics are never dropped: ktrace removes their registrations when the module is
        // unloaded.
        *VICTIM_FILE.lock() = Some(File::create(c"ktrace_victim", module, Victim)?);
        *VICTIM_EVENT.lock() = Some(event(module)?);
        Ok(Self {
            _file: File::create(c"ktrace_drop", module, Drop)?,
        })
    }
}
