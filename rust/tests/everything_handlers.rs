// SPDX-License-Identifier: GPL-2.0

//! The handlers. Each counts a hit only if it finds the values that it expects.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};

use ktrace::{
    event_probe,
    fprobe::{
        self,
        Fprobe,
        Functions, //
    },
    ftrace::{
        self,
        Filter,
        FtraceOps, //
    },
    function,
    kprobe,
    kretinsn,
    kretprobe,
    module::Module,
    module_notifier,
    nofault::{
        self,
        KernelPtr, //
    },
    number,
    percpu::{
        Counter,
        Scratch, //
    },
    stack::SavedStack,
    symbol,
    tracepoint,
    tracing,
    watchpoint, //
};

use probe::types::Width;

use crate::{
    everything_counts::*,
    everything_events::Addresses, //
};

/// The module with the function that most probes are on.
pub(crate) const MODULE: &CStr = c"tracepoint_target";
pub(crate) const FUNCTION: &CStr = c"rkprobe_target_function";
/// A function that each call of [`FUNCTION`] comes with three calls of.
pub(crate) const DEEP_FUNCTION: &CStr = c"rkprobe_target_deep";
/// A function of the kernel that calls [`FUNCTION`] once: the write to a parameter of a module. Its
/// arguments 2 and 3 are the string that was written, and the length of the string. It returns the
/// length.
pub(crate) const WRITE: &CStr = c"param_attr_store";
/// A pattern that matches only [`FUNCTION`] and [`WRITE`].
pub(crate) const FUNCTION_OR_WRITE: &CStr = c"[pr][ak][rp]*_[at]*_[fs][tu][on][rc]*";
/// A tracepoint that each call of [`FUNCTION`] comes with one hit of.
pub(crate) const TRACEPOINT_NAME: &CStr = c"rkprobe_target_tp";

/// The start of the string that the first argument of the function points to.
const TEXT: [u8; 4] = *b"data";
/// The string that the second argument of the tracepoint points to.
const TRACEPOINT_TEXT: [u8; 4] = *b"text";

/// The variable that the watchpoint watches. The tracepoint's handler writes it.
pub(crate) static WATCHED: Atomic<u64> = Atomic::new(0);

/// Whether the function returned the correct value. It adds the first byte of the string to its
/// second argument.
fn is_sum(returned: i32, number: i32) -> bool {
    returned == number.wrapping_add(TEXT[0].into())
}

/// Before and after the first instruction of the function.
#[pin_data]
pub(crate) struct Instruction {
    /// The address, for other code of this module.
    #[pin]
    pub(crate) address: Mutex<usize>,
}

#[vtable]
impl kprobe::Handler for Instruction {
    fn pre(&self, hit: &kprobe::Hit<'_>) {
        let text: KernelPtr<[u8; 4]> = hit.arg(0);
        KPROBE.hit(hit, hit.arg(1));
        NOFAULT.increment_if(text.read().is_ok_and(|text| text == TEXT));
        NUMBER.increment_if(number::try_read(text.addr(), Width::W1) == Some(TEXT[0].into()));
        TRACING.increment_if(tracing::is_on());
    }

    fn post(&self, hit: &kprobe::Hit<'_>) {
        KPROBE_POST.hit(hit, 0);
    }
}

/// At the first instruction of a function. Also records the address of the instruction.
pub(crate) struct First(pub(crate) &'static Count, pub(crate) Arc<Addresses>);

#[vtable]
impl kprobe::Handler for First {
    fn pre(&self, hit: &kprobe::Hit<'_>) {
        self.0.hit(hit, 0);
        self.1.record(hit, hit.address());
    }
}

/// At the entry and the return of the function.
pub(crate) struct Returns {
    pub(crate) entry: &'static Count,
    pub(crate) ret: &'static Count,
}

#[vtable]
impl kretprobe::Handler for Returns {
    type Data = i32;

    fn entry(&self, hit: &kprobe::Hit<'_>) -> Option<Self::Data> {
        let number = hit.arg(1);
        self.entry.hit(hit, number);
        Some(number)
    }

    fn ret(&self, hit: &kprobe::Hit<'_>, call: &kretprobe::Call<'_, Self::Data>) {
        if is_sum(hit.ret(), *call.data()) {
            self.ret.hit(hit, *call.data());
        }
    }
}

/// At the return instructions of the function.
pub(crate) struct ReturnInstruction;

impl kretinsn::Handler for ReturnInstruction {
    fn ret(&self, hit: &kprobe::Hit<'_>, call: &kretinsn::Call) {
        KRETINSN.hit(hit, hit.ret());
        let mut buffer = [0; symbol::LEN];
        let location = symbol::location(call.function(), &mut buffer);
        let is_function =
            |location: symbol::Location<'_>| location.name.as_bytes() == FUNCTION.to_bytes();
        SYMBOL.increment_if(location.is_some_and(is_function));
    }
}

/// At the entry and the exit of the write. Reads the string into per-CPU memory.
pub(crate) struct EntryAndExit(pub(crate) Scratch<64>);

#[vtable]
impl fprobe::Handler for EntryAndExit {
    /// The length of the string.
    type Data = usize;

    fn ignores(&self, call: &function::Call<'_>) -> bool {
        call.arg::<usize>(3) == 0
    }

    fn entry(&self, call: &function::Call<'_>) -> Option<Self::Data> {
        let len: usize = call.arg(3);
        FPROBE_ENTRY.hit(call, len as i32);
        self.0.with(call.atomic(), |area| {
            let first = area.and_then(|area| {
                let text = area.first_chunk_mut::<1>()?;
                nofault::read_kernel(call.arg(2), text).ok()?;
                text.first().copied()
            });
            SCRATCH.increment_if(first.is_some_and(|first| first.is_ascii_digit()));
        });
        Some(len)
    }

    fn exit(&self, call: &function::Call<'_>, len: &Self::Data) {
        if call.ret::<usize>() == *len {
            FPROBE_EXIT.hit(call, *len as i32);
        }
    }
}

/// At the entry of the function, as ftrace calls it.
pub(crate) struct Entry {
    pub(crate) calls: Counter,
    pub(crate) stack: SavedStack<4>,
}

impl ftrace::Handler for Entry {
    fn entry(&self, call: &function::Call<'_>) {
        FTRACE.hit(call, call.arg(1));
        let before = self.calls.sum();
        self.calls.increment();
        PERCPU.increment_if(self.calls.sum() > before);
        self.stack.save();
        STACK.increment_if(self.stack.addresses()[0] != 0);
    }
}

/// At the entry of the write and of the function.
pub(crate) struct BothEntries;

impl ftrace::Handler for BothEntries {
    fn entry(&self, call: &function::Call<'_>) {
        FTRACE_BOTH.hit(call, 0);
    }
}

#[vtable]
impl fprobe::Handler for BothEntries {
    type Data = ();

    fn entry(&self, call: &function::Call<'_>) -> Option<()> {
        FTRACE_BOTH.hit(call, 0);
        Some(())
    }
}

/// At the tracepoint. Writes the variable that the watchpoint watches.
pub(crate) struct AtTracepoint;

impl tracepoint::Handler for AtTracepoint {
    fn hit(&self, hit: &tracepoint::Hit<'_>) {
        let number: i32 = hit.arg(0);
        let text: KernelPtr<[u8; 4]> = hit.arg(1);
        if text.read().is_ok_and(|text| text == TRACEPOINT_TEXT) {
            TRACEPOINT.hit(hit.call(), number);
        }
        WATCHED.store(number as u64, Relaxed);
    }
}

/// At the writes of the variable.
pub(crate) struct Writes;

impl watchpoint::Handler for Writes {
    fn hit(&self, hit: &watchpoint::Hit<'_>) {
        if hit.address() == (&raw const WATCHED).addr() {
            WATCHPOINT.hit(hit, WATCHED.load(Relaxed) as i32);
        }
    }
}

/// At the records of an event. In the kernel's tree only.
pub(crate) struct Records;

impl event_probe::Handler for Records {
    fn hit(&self, _: &event_probe::Record<'_>) {
        EVENT_PROBE.increment();
    }
}

/// When the other module loads and unloads.
pub(crate) struct Loads;

/// The address of [`FUNCTION`].
pub(crate) static ADDRESS: Atomic<usize> = Atomic::new(0);

/// Whether ftrace and fprobe refuse handlers on [`FUNCTION`].
fn is_refused() -> bool {
    let fprobe = |functions| Fprobe::new(functions, BothEntries).err();
    FtraceOps::new(Filter::Glob(FUNCTION), BothEntries).err() == Some(EINVAL)
        && fprobe(Functions::Globs(&[FUNCTION], &[])) == Some(ENOENT)
        && fprobe(Functions::Names(&[WRITE, FUNCTION])) == Some(ENOENT)
        && fprobe(Functions::Addresses(&[ADDRESS.load(Relaxed)])) == Some(ENOENT)
}

/// Whether this is the other module, with its function.
fn is_target(module: &Module) -> bool {
    **module.name() == *MODULE.to_bytes()
        && FUNCTION
            .to_str()
            .is_ok_and(|name| module.count_symbols(name) == 1)
}

impl module_notifier::Handler for Loads {
    fn coming(&self, module: &Module) {
        COMING.increment_if(is_target(module));
    }

    fn leaving(&self, module: &Module) {
        REFUSED.increment_if(is_target(module) && is_refused());
        LEAVING.increment_if(is_target(module));
    }

    fn going(&self, module: &Module) {
        REFUSED.increment_if(is_target(module) && is_refused());
        GOING.increment_if(is_target(module));
    }
}
