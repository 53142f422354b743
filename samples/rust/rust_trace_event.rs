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

/// What enabling the event switches on.
struct Switch(Kprobe<Record>);

impl Operations for Switch {
    fn enable(&self, _token: &EventMutexHeld) -> Result {
        self.0.enable()
    }

    fn disable(&self, _token: &EventMutexHeld) {
        let _ = self.0.disable();
    }
}

struct Line;

impl Print for Line {
    fn print(&self, record: &[u8], seq: &mut TraceSeq) {
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
        let mut fields = KVec::new();
        fields.push(
            Field::new(c"flags", c"u64", HEADER_LEN, FLAGS_LEN, false)?,
            GFP_KERNEL,
        )?;
        let sink = Arc::new(Sink::new(), GFP_KERNEL)?;
        let probe = Kprobe::register(Target::function(c"kernel_clone")?, Record(sink.clone()))?;
        let definition = Definition {
            group: CString::try_from(c"rust_sample")?,
            name: CString::try_from(c"clone")?,
            fields,
            print_fmt: CString::try_from(c"\"flags=0x%Lx\", REC->flags")?,
            operations: KBox::new(Switch(probe), GFP_KERNEL)?,
            print: KBox::new(Line, GFP_KERNEL)?,
            sink,
        };
        Ok(Self {
            _event: EventMutex::with(|token| TraceEvent::register(token, definition, module))??,
        })
    }
}
