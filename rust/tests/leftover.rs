// SPDX-License-Identifier: GPL-2.0

//! A module that forgets its registrations: safe code, and a mistake.
//!
//! It registers handlers of every kind and drops none of them. With `only=N` it registers the kind
//! number N alone, with `fail=1` its initialisation fails afterwards.

use core::{
    borrow::Borrow,
    mem::{
        forget,
        ManuallyDrop, //
    },
};

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    time::Delta, //
};

use ktrace::{
    event_probe::{
        self,
        Event,
        EventProbe,
        Record, //
    },
    fprobe::{
        Fprobe,
        Functions, //
    },
    ftrace::{
        Filter,
        FtraceOps, //
    },
    kprobe::{
        self,
        Kprobe, //
    },
    kretinsn::{
        self,
        Kretinsn, //
    },
    kretprobe::Kretprobe,
    module::Module,
    module_notifier::{
        self,
        Notifier, //
    },
    once::{
        self,
        OnceBatch, //
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
    trace_event::EventMutex,
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
    type: Leftover,
    name: "leftover",
    authors: ["rkprobe maintainers"],
    description: "Forgets its registrations",
    license: "GPL",
    imports_ns: ["KTRACE"],
    params: {
        only: i64 {
            default: -1,
            description: "Register this kind alone",
        },
        fail: i64 {
            default: 0,
            description: "Fail the initialisation",
        },
    },
}

/// The function that most probes are on.
const FUNCTION: &CStr = c"kernel_clone";

impl once::Handler for Counting {
    fn is_awaited(&self, _: &kprobe::Hit<'_>) -> bool {
        true
    }

    fn pre(&self, _: &kprobe::Hit<'_>) {
        self.add();
    }
}

impl event_probe::Handler for Counting {
    fn hit(&self, _: &Record<'_>) {
        self.add();
    }
}

impl module_notifier::Handler for Counting {
    fn coming(&self, _: &Module) {
        self.add();
    }
}

impl Work for Counting {
    fn run(&self, thread: &Thread) {
        while !thread.should_stop() {
            self.add();
            thread.sleep_for(Delta::from_millis(1));
        }
    }
}

ktrace::trace_event! {
    /// An event that nobody removes.
    struct LeftEvent in "leftover" as "left" {
        number: u32,
    }
}

/// Threads that drop themselves.
#[pin_data]
struct DropsItself {
    count: Counting,
    #[pin]
    threads: Mutex<Option<Threads>>,
}

impl Work for DropsItself {
    fn run(&self, thread: &Thread) {
        let mut is_dropped = false;
        while !thread.should_stop() {
            if !is_dropped {
                let threads = self.threads.lock().take();
                is_dropped = threads.is_some();
            }
            self.count.add();
            thread.sleep_for(Delta::from_millis(1));
        }
    }
}

fn forget_kprobe() -> Result {
    let probe = KBox::pin_init(Kprobe::new(FUNCTION, Counting::new()), GFP_KERNEL)?;
    forget(probe);
    Ok(())
}

fn forget_kprobes() -> Result {
    let targets = [c"vfs_read", c"vfs_write", c"vfs_open"];
    let mut probes = KVec::new();
    for name in targets {
        probes.push((name, Counting::new()), GFP_KERNEL)?;
    }
    let batch = kprobe::Batch::new(probes)?;
    forget(batch);
    Ok(())
}

/// The first call of each function asks for work in the code of this module.
fn forget_probes_that_hit_once() -> Result {
    for name in [c"vfs_read", c"vfs_write", c"vfs_open"] {
        let mut batch = OnceBatch::new()?;
        batch.add_disabled(name, false, Counting::new())?;
        batch.enable()?;
        forget(batch);
    }
    Ok(())
}

fn forget_kretprobe() -> Result {
    let probe = Arc::pin_init(Kretprobe::new(FUNCTION, 0, Counting::new()), GFP_KERNEL)?;
    forget(probe);
    Ok(())
}

fn forget_kretinsn() -> Result {
    if kretinsn::IS_BUILT {
        let probe = Kretinsn::new(FUNCTION, Counting::new())?;
        forget(probe);
    }
    Ok(())
}

fn forget_rethook() -> Result {
    if rethook::IS_SUPPORTED {
        let probe = Rethook::new([FUNCTION], 10, Counting::new())?;
        // Elsewhere than in the kernel's tree the type has no value, and nothing to drop.
        let _ = ManuallyDrop::new(probe);
    }
    Ok(())
}

fn forget_fprobe() -> Result {
    forget(Fprobe::new(
        Functions::Names(&[FUNCTION]),
        Entry(Counting::new()),
    )?);
    Ok(())
}

fn forget_fprobe_with_exit() -> Result {
    forget(Fprobe::new(Functions::Names(&[FUNCTION]), Counting::new())?);
    Ok(())
}

fn forget_ftrace_ops() -> Result {
    forget(FtraceOps::new(Filter::Glob(FUNCTION), Counting::new())?);
    Ok(())
}

fn forget_tracepoint() -> Result {
    forget(Tracepoint::attach(c"sched_process_fork", Counting::new())?);
    Ok(())
}

fn forget_tracepoint_of_module() -> Result {
    forget(Tracepoint::attach_or_wait(
        c"rkprobe_target_tp",
        Counting::new(),
    )?);
    Ok(())
}

fn forget_watchpoint() -> Result {
    static WATCHED: Atomic<u64> = Atomic::new(0);
    let target = Target {
        address: (&raw const WATCHED).addr(),
        is_per_cpu: false,
        len: 8,
        access: Access::Write,
    };
    if watchpoint::slots(target.access) > 0 {
        forget(Watchpoint::new(target, Counting::new())?);
    }
    WATCHED.store(1, Relaxed);
    Ok(())
}

fn forget_event_probe() -> Result {
    let event = Event::get(c"sched", c"sched_process_fork")?;
    let probe = EventProbe::new(event, Counting::new())?;
    EventMutex::with(|token| probe.attach(token))??;
    forget(probe);
    Ok(())
}

fn forget_notifier() -> Result {
    forget(Notifier::register(Counting::new())?);
    Ok(())
}

fn forget_threads() -> Result {
    forget(Threads::start(
        c"leftover",
        Arc::new(Counting::new(), GFP_KERNEL)?,
    )?);
    Ok(())
}

fn drop_threads_in_a_thread() -> Result {
    let work = Arc::pin_init(
        try_pin_init!(DropsItself {
            count: Counting::new(),
            threads <- new_mutex!(None),
        }? Error),
        GFP_KERNEL,
    )?;
    let threads = Threads::start(c"leftover", work.clone())?;
    *work.threads.lock() = Some(threads);
    Ok(())
}

fn forget_event() -> Result {
    forget(LeftEvent::register()?);
    LeftEvent { number: 1 }.record();
    Ok(())
}

const KINDS: [fn() -> Result; 17] = [
    forget_kprobe,
    forget_kprobes,
    forget_kretprobe,
    forget_kretinsn,
    forget_rethook,
    forget_fprobe,
    forget_fprobe_with_exit,
    forget_ftrace_ops,
    forget_tracepoint,
    forget_tracepoint_of_module,
    forget_notifier,
    forget_threads,
    drop_threads_in_a_thread,
    forget_watchpoint,
    forget_event,
    forget_probes_that_hit_once,
    forget_event_probe,
];

/// The value of a parameter. Before linux 7.3, the kernel returns a reference to it.
fn number(value: impl Borrow<i64>) -> i64 {
    *value.borrow()
}

struct Leftover;

impl kernel::Module for Leftover {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let only = number(module_parameters::only.value());
        for (number, forget_one) in KINDS.iter().enumerate() {
            if only < 0 || only == number as i64 {
                forget_one()?;
            }
        }
        match number(module_parameters::fail.value()) {
            0 => Ok(Self),
            _ => Err(EIO),
        }
    }
}
