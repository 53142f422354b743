// SPDX-License-Identifier: GPL-2.0

//! Rust trace event sample: `events/rust_sample/clone`, an event of a module's own. Enabling it
//! arms a kprobe on `kernel_clone`, whose flags it records.

use core::fmt::Write as _;

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    kprobe::{
        Handler,
        Hit,
        Kprobe,
        Target, //
    },
    nofault,
    trace_event::{
        Definition,
        EventMutex,
        EventMutexHeld,
        Field,
        Group,
        Operations,
        Print,
        Sink,
        TraceEvent,
        TraceSeq,
        HEADER_LEN, //
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

/// `kernel_clone` takes a `struct kernel_clone_args *`, which begins with the flags.
const FLAGS_LEN: usize = size_of::<u64>();

struct Record(Arc<Sink>);

#[vtable]
impl Handler for Record {
    fn pre(&self, hit: &Hit<'_>) {
        let mut flags = [0; FLAGS_LEN];
        let _ = nofault::read_kernel(hit.registers().argument(0) as usize, &mut flags);
        self.0.record(hit, HEADER_LEN + FLAGS_LEN, |record| {
            if let Some(to) = record.first_chunk_mut() {
                *to = flags;
            }
        });
    }
}

/// The event. Enabling it arms the probe.
struct CloneEvent {
    probe: Kprobe<Record>,
    sink: Arc<Sink>,
    fields: [Field; 1],
}

impl Operations for CloneEvent {
    fn sink(&self) -> &Sink {
        &self.sink
    }

    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn print_fmt(&self) -> &CStr {
        c"\"flags=0x%Lx\", REC->flags"
    }

    fn enable(&self, _token: &EventMutexHeld) -> Result {
        self.probe.enable()
    }

    fn disable(&self, _token: &EventMutexHeld) {
        let _ = self.probe.disable();
    }
}

struct Line;

impl Print for Line {
    fn print(&self, _name: &CStr, record: &[u8], seq: &mut TraceSeq) {
        let flags = record
            .get(HEADER_LEN..)
            .and_then(|fields| fields.first_chunk());
        let _ = match flags {
            Some(flags) => writeln!(seq, "clone: flags={:#x}", u64::from_ne_bytes(*flags)),
            None => writeln!(seq, "clone: (too short)"),
        };
    }
}

/// Dropping the event removes it.
struct RustTraceEvent {
    _event: TraceEvent,
}

impl kernel::Module for RustTraceEvent {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let sink = Arc::new(Sink::new(), GFP_KERNEL)?;
        let clone = CloneEvent {
            probe: Kprobe::register(Target::function(c"kernel_clone")?, Record(sink.clone()))?,
            sink,
            fields: [Field::new(c"flags", c"u64", HEADER_LEN, FLAGS_LEN, false)?],
        };
        let definition = Definition {
            group: Group::new(c"rust_sample", module)?,
            name: CString::try_from(c"clone")?,
            operations: Arc::new(clone, GFP_KERNEL)?,
            print: Arc::new(Line, GFP_KERNEL)?,
        };
        Ok(Self {
            _event: EventMutex::with(|token| TraceEvent::register(token, definition))??,
        })
    }
}
