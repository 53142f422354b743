// SPDX-License-Identifier: GPL-2.0

//! A module that uses all parts of ktrace which other modules can use, without unsafe code.
//!
//! Most probes are on a function of the module `tracepoint_target`, which must be loaded before.
//! The others are on the function of the kernel that calls it. The file `rust_everything` shows the
//! number of hits of each handler. With `fail=N`, the initialisation fails after the N-th
//! registration.

use core::borrow::Borrow;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

use ktrace::{
    btf,
    event_probe::{
        Event,
        EventProbe, //
    },
    exits::Exits,
    fprobe::{
        Fprobe,
        Functions, //
    },
    ftrace::{
        self,
        Filter,
        FtraceOps, //
    },
    kprobe::{
        Batch,
        Kprobe, //
    },
    kretinsn::{
        self,
        Kretinsn, //
    },
    kretprobe::Kretprobe,
    module_notifier::Notifier,
    percpu::{
        Counter,
        Scratch, //
    },
    rethook::{
        self,
        Rethook, //
    },
    security,
    stack::SavedStack,
    symbol,
    thread::{
        OnDemand,
        Threads, //
    },
    trace_event::{
        self,
        EventMutex,
        TraceEvent, //
    },
    tracefs::File,
    tracepoint::Tracepoint,
    watchpoint::{
        self,
        Access,
        Target,
        Watchpoint, //
    },
};

use probe::btf::TypeKind;

mod everything_counts;
mod everything_events;
mod everything_handlers;
mod everything_threads;

use everything_counts::*;
use everything_events::*;
use everything_handlers::*;
use everything_threads::*;

module! {
    type: Everything,
    name: "rust_everything",
    authors: ["rkprobe maintainers"],
    description: "Uses all parts of ktrace",
    license: "GPL",
    imports_ns: ["KTRACE"],
    params: {
        fail: i64 {
            default: 0,
            description: "Fail after this number of registrations; 0: do not",
        },
    },
}

ktrace::trace_event! {
    /// Nothing records this event. While it is enabled, its probe counts.
    struct SwitchedEvent in "rust_everything" as "switched" {}
}

/// The value of a parameter. Before linux 7.3, the kernel returns a reference to it.
fn number(value: impl Borrow<i64>) -> i64 {
    *value.borrow()
}

/// Counts the registrations.
struct Registrations {
    made: i64,
    /// The number of the registration that is followed by an error.
    fail: i64,
}

impl Registrations {
    /// Returns the new registration, or drops it and returns `EIO`.
    fn add<T>(&mut self, registration: Result<T>) -> Result<T> {
        let registration = registration?;
        self.made = self.made.wrapping_add(1);
        if self.made == self.fail {
            return Err(EIO);
        }
        Ok(registration)
    }

    /// The same for a registration that not all kernels support.
    fn add_if<T>(
        &mut self,
        is_supported: bool,
        register: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        let registration = is_supported.then(register).transpose()?;
        registration
            .map(|registration| self.add(Ok(registration)))
            .transpose()
    }
}

/// The registrations, in the order in which they are dropped.
struct Everything {
    _threads: Threads,
    _on_demand: TraceEvent,
    _switched: TraceEvent,
    _hit: TraceEvent,
    _addresses: TraceEvent,
    _event_probe: EventProbe<Records>,
    _watchpoint: Option<Watchpoint<Writes>>,
    _tracepoint: Tracepoint<AtTracepoint>,
    _rethook: Option<Rethook<Returns>>,
    _ftrace: FtraceOps<Arc<Entry>>,
    _ftrace_both: FtraceOps<BothEntries>,
    _fprobe: Fprobe<KBox<EntryAndExit>>,
    _kretinsn: Option<Kretinsn<ReturnInstruction>>,
    _kretprobe: Pin<KBox<Kretprobe<Returns>>>,
    _batch: Batch<First>,
    _kprobe: Pin<KBox<Kprobe<Instruction>>>,
    _notifier: Notifier<Loads>,
    _file: File,
}

impl kernel::Module for Everything {
    fn init(module: &'static ThisModule) -> Result<Self> {
        security::kprobes_allowed()?;
        if trace_event::exists(GROUP, c"hit")? {
            return Err(EEXIST);
        }
        let mut made = Registrations {
            made: 0,
            fail: number(module_parameters::fail.value()),
        };
        let addresses = Addresses::new()?;
        let this = Self {
            _file: made.add(File::create(c"rust_everything", module, Counts))?,
            _notifier: made.add(Notifier::register(Loads))?,
            _hit: made.add(Hit::register())?,
            _addresses: made.add(addresses.clone().register(module))?,
            _kprobe: made.add(kprobe())?,
            _batch: made.add(batch(&addresses))?,
            _kretprobe: made.add(kretprobe())?,
            _kretinsn: made.add_if(kretinsn::IS_BUILT, || {
                Ok(Kretinsn::new(FUNCTION, ReturnInstruction)?)
            })?,
            _fprobe: made.add(fprobe())?,
            _ftrace_both: made.add(FtraceOps::new(Filter::Glob(FUNCTION_OR_WRITE), BothEntries))?,
            _ftrace: made.add(ftrace_ops())?,
            _tracepoint: made.add(Tracepoint::attach_or_wait(TRACEPOINT_NAME, AtTracepoint))?,
            _watchpoint: made.add_if(watchpoint::slots(Access::Write) > 0, watchpoint)?,
            _rethook: made.add_if(rethook::IS_SUPPORTED, rethook)?,
            _event_probe: made.add(event_probe())?,
            _switched: made.add(switched(&addresses))?,
            _on_demand: made.add(on_demand())?,
            _threads: made.add(Threads::start(GROUP, Arc::new(Wait, GFP_KERNEL)?))?,
        };
        for event in [c"hit", c"function", c"switched", c"thread"] {
            made.add(trace_event::enable(GROUP, event))?;
        }
        RECORDED.hit_here(0);
        for event in [c"hit", c"function", c"switched", c"thread"] {
            made.add(trace_event::disable(GROUP, event))?;
        }
        read_facts(this._kprobe.address())?;
        Ok(this)
    }
}

fn kprobe() -> Result<Pin<KBox<Kprobe<Instruction>>>> {
    let handler = pin_init!(Instruction { address <- new_mutex!(0) });
    let kprobe = KBox::pin_init(Kprobe::new(FUNCTION, handler), GFP_KERNEL)?;
    *kprobe.handler().address.lock() = kprobe.address();
    ADDRESS.store(kprobe.address(), Relaxed);
    Ok(kprobe)
}

fn batch(addresses: &Arc<Addresses>) -> Result<Batch<First>> {
    Batch::new([
        (FUNCTION, First(&BATCH, addresses.clone())),
        (DEEP_FUNCTION, First(&DEEP, addresses.clone())),
    ])
}

fn kretprobe() -> Result<Pin<KBox<Kretprobe<Returns>>>> {
    let handler = Returns {
        entry: &KRETPROBE_ENTRY,
        ret: &KRETPROBE,
    };
    KBox::pin_init(Kretprobe::new(FUNCTION, 0, handler), GFP_KERNEL)
}

fn rethook() -> Result<Rethook<Returns>> {
    let handler = Returns {
        entry: &RETHOOK_ENTRY,
        ret: &RETHOOK,
    };
    Rethook::new([FUNCTION], 100, handler)
}

fn fprobe() -> Result<Fprobe<KBox<EntryAndExit>>> {
    let handler = KBox::new(EntryAndExit(Scratch::new()?), GFP_KERNEL)?;
    Fprobe::new(Functions::Names(&[WRITE]), handler)
}

fn ftrace_ops() -> Result<FtraceOps<Arc<Entry>>> {
    let entry = Entry {
        calls: Counter::new()?,
        stack: SavedStack::new(),
    };
    FtraceOps::new(Filter::Glob(FUNCTION), Arc::new(entry, GFP_KERNEL)?)
}

fn watchpoint() -> Result<Watchpoint<Writes>> {
    let target = Target {
        address: (&raw const WATCHED).addr(),
        is_per_cpu: false,
        len: 8,
        access: Access::Write,
    };
    target.check()?;
    Watchpoint::new(target, Writes)
}

/// On a task that changes its name, which each program does when it starts.
fn event_probe() -> Result<EventProbe<Records>> {
    let event = Event::get(c"task", c"task_rename")?;
    let probe = EventProbe::new(event, Records)?;
    EventMutex::with(|token| probe.attach(token))??;
    Ok(probe)
}

fn switched(addresses: &Arc<Addresses>) -> Result<TraceEvent> {
    let handler = First(&SWITCHED, addresses.clone());
    SwitchedEvent::register_with(KBox::pin_init(
        Kprobe::register_disabled(FUNCTION, handler),
        GFP_KERNEL,
    )?)
}

fn on_demand() -> Result<TraceEvent> {
    ThreadEvent::register_with(OnDemand::new(GROUP, Arc::new(Sleep, GFP_KERNEL)?)?)
}

/// Reads facts about the kernel and about the function that `address` is in.
fn read_facts(address: usize) -> Result {
    let start = symbol::start_of(address).ok_or(ENOENT)?;
    if symbol::is_entry(address) != Some(true) || !symbol::is_in_module(start) {
        return Err(EINVAL);
    }
    // 0 and 1 are no addresses of functions.
    if *ftrace::untraceable(&[0, start, 1])? != [0, 2] {
        return Err(EINVAL);
    }
    if kretinsn::IS_BUILT {
        EXITS.increment_if(!Exits::find(start)?.all().is_empty());
    }
    match btf::Object::read("vmlinux", None) {
        Ok(object) => {
            let types = object.btf(None)?;
            BTF.increment_if(types.find("task_struct", TypeKind::Struct).is_some());
        }
        // This kernel has no BTF.
        Err(ENOENT) => BTF.increment(),
        Err(error) => return Err(error),
    }
    Ok(())
}
