// SPDX-License-Identifier: GPL-2.0

//! The counts of the handlers, and the file that shows them.

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use ktrace::{
    kretinsn, number, rethook,
    trace_event::{
        empty_traces,
        Comm,
        Origin, //
    },
    tracefs::ControlFile,
    tracing,
    watchpoint::{
        self,
        Access, //
    },
};

ktrace::trace_event! {
    /// A hit of a handler.
    pub(crate) struct Hit<'a> in "rust_everything" as "hit" {
        /// The name of the count.
        by: &'a str,
        number: i32,
        comm: Comm,
    }
}

/// The number of calls of a handler.
pub(crate) struct Count {
    name: &'static str,
    hits: Atomic<u64>,
    is_supported: fn() -> bool,
}

impl Count {
    const fn new(name: &'static str) -> Self {
        Self::supported_if(name, || true)
    }

    const fn supported_if(name: &'static str, is_supported: fn() -> bool) -> Self {
        Self {
            name,
            hits: Atomic::new(0),
            is_supported,
        }
    }

    /// Counts a hit. Any context.
    pub(crate) fn increment(&self) {
        self.hits.add(1, Relaxed);
    }

    /// Counts a hit if the handler saw the correct values. Any context.
    pub(crate) fn increment_if(&self, is_correct: bool) {
        if is_correct {
            self.increment();
        }
    }

    /// Counts a hit and records it. `number` is an argument of the function. Any context.
    pub(crate) fn hit(&self, origin: &impl Origin, number: i32) {
        self.increment();
        Hit {
            by: self.name,
            number,
            comm: Comm,
        }
        .record_at(origin);
    }

    /// Counts a hit and records it, in code that no probe called. Any context.
    pub(crate) fn hit_here(&self, number: i32) {
        self.increment();
        Hit {
            by: self.name,
            number,
            comm: Comm,
        }
        .record();
    }
}

/// Defines the counts, and the list of them.
macro_rules! counts {
    ($($name:ident: $value:expr,)*) => {
        $(pub(crate) static $name: Count = $value;)*

        static ALL: &[&Count] = &[$(&$name),*];
    };
}

counts! {
    // One hit for each call of the function.
    KPROBE: Count::new("kprobe"),
    KPROBE_POST: Count::new("kprobe_post"),
    BATCH: Count::new("batch"),
    KRETPROBE_ENTRY: Count::new("kretprobe_entry"),
    KRETPROBE: Count::new("kretprobe"),
    KRETINSN: Count::supported_if("kretinsn", || kretinsn::IS_BUILT),
    FPROBE_ENTRY: Count::new("fprobe_entry"),
    FPROBE_EXIT: Count::new("fprobe_exit"),
    FTRACE: Count::new("ftrace"),
    TRACEPOINT: Count::new("tracepoint"),
    WATCHPOINT: Count::supported_if("watchpoint", || watchpoint::slots(Access::Write) > 0),
    RETHOOK_ENTRY: Count::supported_if("rethook_entry", || rethook::IS_SUPPORTED),
    RETHOOK: Count::supported_if("rethook", || rethook::IS_SUPPORTED),
    NOFAULT: Count::new("nofault"),
    NUMBER: Count::supported_if("number", || number::READS_NUMBERS),
    PERCPU: Count::new("percpu"),
    SCRATCH: Count::new("scratch"),
    STACK: Count::new("stack"),
    SYMBOL: Count::new("symbol"),
    TRACING: Count::new("tracing"),
    // Two hits for each call of the function, and one for another write to a parameter.
    FTRACE_BOTH: Count::new("ftrace_both"),
    // Three hits for each call of the function.
    DEEP: Count::new("deep"),
    // One hit for each call of the function while the event `switched` is enabled.
    SWITCHED: Count::new("switched"),
    // One hit for each time that the other module loads or unloads.
    COMING: Count::new("coming"),
    LEAVING: Count::new("leaving"),
    GOING: Count::new("going"),
    // Two hits for each time that the other module unloads.
    REFUSED: Count::new("refused"),
    // One hit for each CPU, when this module loads and when the event `thread` is enabled.
    THREADS: Count::new("threads"),
    WOKEN: Count::new("woken"),
    // One hit for each time that this module loads.
    RECORDED: Count::new("recorded"),
    BTF: Count::new("btf"),
    EXITS: Count::supported_if("exits", || kretinsn::IS_BUILT),
    // One hit for each record of the event that the event probe is on.
    EVENT_PROBE: Count::new("event_probe"),
}

/// The file. It shows one count on each line. Truncating it sets the counts to 0.
pub(crate) struct Counts;

#[vtable]
impl ControlFile for Counts {
    fn next(&self, from: usize) -> Option<usize> {
        let mut counts = ALL.iter().enumerate().skip(from);
        counts
            .find(|(_, count)| (count.is_supported)())
            .map(|(number, _)| number)
    }

    fn show(&self, number: usize, to: &SeqFile) {
        if let Some(count) = ALL.get(number) {
            kernel::seq_print!(to, "{} {}\n", count.name, count.hits.load(Relaxed));
        }
    }

    fn clear(&self) -> Result {
        for count in ALL {
            count.hits.store(0, Relaxed);
        }
        Ok(())
    }

    fn write_line(&self, line: &[u8]) -> Result {
        match line {
            b"" => Ok(()),
            b"stop tracing" => {
                tracing::off();
                Ok(())
            }
            b"empty traces" => empty_traces(),
            _ => Err(EINVAL),
        }
    }
}
