// SPDX-License-Identifier: GPL-2.0

//! A module that drops an object from its own code while ktrace removes what the module left.
//!
//! The object is in a static. `object=N` selects its type. Threads drop it when they stop. With
//! `disable=1`, an event drops it instead, when it is disabled. `early=1` registers the object
//! before them, and `fail=1` lets the initialisation fail. The module forgets the threads and the
//! event, so only ktrace removes them.

use core::{
    borrow::Borrow,
    mem::forget, //
};

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    sync::{
        aref::ARef,
        atomic::Atomic,
        Arc, //
    },
    time::Delta, //
};

use ktrace::{
    fprobe::{
        Fprobe,
        Functions, //
    },
    ftrace::{
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
    module_notifier::{
        self,
        Notifier, //
    },
    rethook::{
        self,
        Rethook, //
    },
    thread::{
        Thread,
        Threads,
        Work, //
    },
    trace_event::{
        self,
        EventMutex,
        EventMutexHeld,
        Output,
        Switch,
        TraceEvent, //
    },
    tracefs::{
        ControlFile,
        File, //
    },
    tracepoint::Tracepoint,
    watchpoint::{
        self,
        Access,
        Target,
        Watchpoint, //
    },
};

use counting::{
    Counting,
    Entry, //
};

mod counting;

module! {
    type: LateDrops,
    name: "late_drops",
    authors: ["rkprobe maintainers"],
    description: "Drops objects while they are removed",
    license: "GPL",
    imports_ns: ["KTRACE"],
    params: {
        object: i64 {
            default: 0,
            description: "The number of the object",
        },
        disable: i64 {
            default: 0,
            description: "1: an event drops the object when it is disabled; 0: threads do",
        },
        early: i64 {
            default: 0,
            description: "Register the object first",
        },
        fail: i64 {
            default: 0,
            description: "Fail the initialisation",
        },
    },
}

ktrace::trace_event! {
    /// The event that drops the object when it is disabled.
    struct Dropping in "late_drops" as "dropping" {
        number: u32,
    }
}

ktrace::trace_event! {
    /// An object.
    struct Dropped in "late_drops" as "dropped" {
        number: u32,
    }
}

const FUNCTION: &CStr = c"kernel_clone";

/// A handler without a size, whose address can be that of another object.
#[repr(align(256))]
struct Empty;

impl module_notifier::Handler for Empty {
    fn coming(&self, _: &ktrace::module::Module) {}
}

#[vtable]
impl ControlFile for Empty {
    fn next(&self, from: usize) -> Option<usize> {
        (from < 3).then_some(from)
    }

    fn show(&self, number: usize, to: &SeqFile) {
        kernel::seq_print!(to, "{number}\n");
    }
}

impl Work for Empty {
    fn run(&self, thread: &Thread) {
        while !thread.should_stop() {
            thread.sleep_for(Delta::from_millis(1));
        }
    }
}

/// Registers and drops objects until it stops.
struct Churn;

impl Work for Churn {
    fn run(&self, thread: &Thread) {
        while !thread.should_stop() {
            // Fails when the module is being unloaded.
            let probe = KBox::pin_init(Kprobe::new(FUNCTION, Counting::new()), GFP_KERNEL);
            let fprobe = Fprobe::new(Functions::Names(&[FUNCTION]), Counting::new());
            let notifier = Notifier::register(Empty);
            drop((probe, fprobe, notifier));
            thread.yield_now();
        }
    }
}

/// Uses the handler of a probe that may have been removed.
fn show(handler: &Counting) {
    pr_debug!("{} calls\n", handler.calls());
}

/// An object that is used once more before it is dropped.
trait Object: Send {
    fn use_late(&self) {}
}

impl<T: Object> Object for Pin<KBox<T>> {
    fn use_late(&self) {
        (**self).use_late();
    }
}

impl Object for Kprobe<Counting> {
    fn use_late(&self) {
        let _ = (self.enable(), self.disable(), self.enable());
        let _ = (self.is_gone(), self.address(), self.missed());
        show(self.handler());
    }
}

impl Object for Batch<Counting> {
    fn use_late(&self) {
        let _ = (self.disable(), self.enable());
        self.probes().for_each(Object::use_late);
    }
}

impl Object for Kretprobe<Counting> {
    fn use_late(&self) {
        let _ = (self.disable(), self.enable());
        let _ = (self.is_gone(), self.maxactive(), self.missed());
        show(self.handler());
    }
}

impl Object for Kretinsn<Counting> {
    fn use_late(&self) {
        let _ = (self.disable(), self.enable());
        let _ = (self.is_gone(), self.exits().len(), self.missed());
        show(self.handler());
    }
}

impl Object for Rethook<Counting> {
    fn use_late(&self) {
        let _ = (self.disable(), self.enable());
        let _ = (self.addresses().count(), self.missed());
        show(self.handler());
    }
}

impl Object for Fprobe<Entry> {
    fn use_late(&self) {
        let _ = (self.disable(), self.enable(), self.missed());
        show(&self.handler().0);
    }
}

impl Object for Fprobe<Counting> {
    fn use_late(&self) {
        let _ = (self.disable(), self.enable(), self.missed());
        show(self.handler());
    }
}

impl Object for FtraceOps<Counting> {
    fn use_late(&self) {
        show(self.handler());
    }
}

impl Object for Tracepoint<Counting> {
    fn use_late(&self) {
        let _ = (self.is_attached(), self.missed());
        show(self.handler());
    }
}

impl Object for Watchpoint<Counting> {
    fn use_late(&self) {
        self.disarm();
        show(self.handler());
    }
}

impl Object for TraceEvent {
    fn use_late(&self) {
        // Fails in a callback of an event.
        let is_busy = EventMutex::with(|token| self.is_busy(token));
        pr_debug!("{:?} {:?}\n", self.names(), is_busy);
        self.output().use_late();
    }
}

impl Object for ARef<Output> {
    fn use_late(&self) {
        let copy = self.clone();
        let (number, is_recorded) = (copy.number(), copy.is_recorded());
        pr_debug!("{:?} {number} {is_recorded}\n", copy.name());
        let _ = copy.has_directory();
    }
}

impl Object for Notifier<Empty> {}
impl Object for Threads {}
impl Object for File {}
impl Object for KVec<KBox<dyn Object>> {}
impl Object for () {}

fn boxed(object: impl Object + 'static) -> Result<KBox<dyn Object>> {
    let object: KBox<dyn Object> = KBox::new(object, GFP_KERNEL)?;
    Ok(object)
}

/// Notifiers without a size, with a forgotten probe after each.
fn notifiers_and_probes() -> Result<KVec<KBox<dyn Object>>> {
    let mut notifiers = KVec::new();
    for _ in 0..20 {
        notifiers.push(boxed(Notifier::register(Empty)?)?, GFP_KERNEL)?;
        forget(KBox::pin_init(
            Kprobe::new(FUNCTION, Counting::new()),
            GFP_KERNEL,
        )?);
    }
    Ok(notifiers)
}

fn watchpoint() -> Result<Watchpoint<Counting>> {
    static WATCHED: Atomic<u64> = Atomic::new(0);
    let target = Target {
        address: (&raw const WATCHED).addr(),
        is_per_cpu: false,
        len: 8,
        access: Access::Write,
    };
    Watchpoint::new(target, Counting::new())
}

/// The output of an event that was recorded, maybe, and removed.
fn output() -> Result<ARef<Output>> {
    let event = Dropped::register()?;
    trace_event::enable(c"late_drops", c"dropped")?;
    Dropped { number: 1 }.record();
    trace_event::disable(c"late_drops", c"dropped")?;
    Ok(event.output())
}

/// Creates the object of a number, or nothing if this kernel does not support the object.
fn create(number: i64, module: &'static ThisModule) -> Result<KBox<dyn Object>> {
    match number {
        0 => boxed(KBox::pin_init(
            Kprobe::new(FUNCTION, Counting::new()),
            GFP_KERNEL,
        )?),
        1 => boxed(Batch::new(
            [c"vfs_read", c"vfs_write"].map(|name| (name, Counting::new())),
        )?),
        2 => boxed(KBox::pin_init(
            Kretprobe::new(FUNCTION, 0, Counting::new()),
            GFP_KERNEL,
        )?),
        3 if kretinsn::IS_BUILT => boxed(Kretinsn::new(FUNCTION, Counting::new())?),
        4 if rethook::IS_SUPPORTED => boxed(Rethook::new([FUNCTION], 10, Counting::new())?),
        5 => boxed(Fprobe::new(
            Functions::Names(&[FUNCTION]),
            Entry(Counting::new()),
        )?),
        6 => boxed(Fprobe::new(Functions::Names(&[FUNCTION]), Counting::new())?),
        7 => boxed(FtraceOps::new(Filter::Glob(FUNCTION), Counting::new())?),
        8 => boxed(Tracepoint::attach(c"sched_process_fork", Counting::new())?),
        9 => boxed(Tracepoint::attach_or_wait(
            c"no_such_tracepoint",
            Counting::new(),
        )?),
        10 if watchpoint::slots(Access::Write) > 0 => boxed(watchpoint()?),
        11 => boxed(Notifier::register(Empty)?),
        12 => boxed(Threads::start(c"late", Arc::new(Empty, GFP_KERNEL)?)?),
        13 => boxed(File::create(c"late_drops", module, Empty)?),
        14 => boxed(Dropped::register()?),
        15 => boxed(output()?),
        16 => boxed(notifiers_and_probes()?),
        17 => boxed(Threads::start(c"late", Arc::new(Churn, GFP_KERNEL)?)?),
        3 | 4 | 10 => boxed(()),
        _ => Err(EINVAL),
    }
}

kernel::sync::global_lock! {
    // SAFETY: The module's initialisation initialises it before anything else.
    unsafe(uninit) static OBJECT: Mutex<Option<KBox<dyn Object>>> = None;
}

/// Uses and drops the object.
fn drop_object() {
    let object = OBJECT.lock().take();
    if let Some(object) = object {
        object.use_late();
        drop(object);
        pr_info!("the object is dropped\n");
    }
}

/// Drops the object when it stops.
struct DropAtStop;

impl Work for DropAtStop {
    fn run(&self, thread: &Thread) {
        while !thread.should_stop() {
            thread.sleep();
        }
        drop_object();
    }
}

/// Drops the object when the event is disabled.
struct DropAtDisable;

impl Switch for DropAtDisable {
    fn enable(&self, _: &EventMutexHeld) -> Result {
        Ok(())
    }

    fn disable(&self, _: &EventMutexHeld) {
        drop_object();
    }
}

/// The value of a parameter. Before linux 7.3, the kernel returns a reference to it.
fn number(value: impl Borrow<i64>) -> i64 {
    *value.borrow()
}

struct LateDrops;

impl kernel::Module for LateDrops {
    fn init(module: &'static ThisModule) -> Result<Self> {
        // SAFETY: The kernel initialises a module once, and nothing else was used yet.
        unsafe { OBJECT.init() };
        let object = number(module_parameters::object.value());
        let is_early = number(module_parameters::early.value()) != 0;
        if is_early {
            *OBJECT.lock() = Some(create(object, module)?);
        }
        if number(module_parameters::disable.value()) == 0 {
            forget(Threads::start(
                c"late_drops",
                Arc::new(DropAtStop, GFP_KERNEL)?,
            )?);
        } else {
            forget(Dropping::register_with(DropAtDisable)?);
            trace_event::enable(c"late_drops", c"dropping")?;
        }
        if !is_early {
            *OBJECT.lock() = Some(create(object, module)?);
        }
        match number(module_parameters::fail.value()) {
            0 => Ok(Self),
            _ => Err(EIO),
        }
    }
}
