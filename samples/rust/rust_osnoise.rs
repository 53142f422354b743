// SPDX-License-Identifier: GPL-2.0

//! Rust osnoise sample: measures how much of a CPU interrupts and other tasks take from a thread.
//!
//! While the event `rust_osnoise/osnoise_sample` is enabled, each CPU has a thread that watches the
//! clock for a part of each period. Handlers on tracepoints measure what interrupts the thread.
//!
//! C: the tracer osnoise in `kernel/trace/trace_osnoise.c`, which Debian's kernels do not have. The
//! parameters and the fields have the same names as in C.

use core::{
    borrow::Borrow,
    mem::offset_of, //
};

use kernel::{
    bindings::irqaction,
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    current,
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
    task::Task,
    time::Delta, //
};

use ktrace::{
    context::local_clock,
    nofault,
    thread::{
        OnDemand,
        Thread,
        Work, //
    },
    trace_event::{
        Comm,
        EventMutexHeld,
        Switch,
        TraceEvent, //
    },
    tracepoint::{
        Handler,
        Hit,
        Tracepoint, //
    },
    tracing, //
};

mod osnoise_accounting;

use osnoise_accounting::{
    Cpu,
    Noise,
    Source,
    Watch, //
};

module! {
    type: RustOsnoise,
    name: "rust_osnoise",
    authors: ["rkprobe maintainers"],
    description: "Rust osnoise sample",
    license: "GPL",
    imports_ns: ["KTRACE"],
    params: {
        period_us: u64 {
            default: 1_000_000,
            description: "Period of the threads",
        },
        runtime_us: u64 {
            default: 1_000_000,
            description: "Time for which a thread watches the clock in each period",
        },
        tracing_thresh: u64 {
            default: 1,
            description: "Minimum duration of a gap that is noise, in us",
        },
        stop_tracing_us: u64 {
            default: 0,
            description: "Stop tracing if a single noise is longer than this; 0: do not",
        },
        stop_tracing_total_us: u64 {
            default: 0,
            description: "Stop tracing if the noise of a period is longer than this; 0: do not",
        },
    },
}

ktrace::trace_event! {
    /// One period of the thread of a CPU.
    struct Sample in "rust_osnoise" as "osnoise_sample" {
        /// The time for which the thread watched the clock, in us.
        runtime: u64,
        /// The total duration of noise in this time, in us.
        noise: u64,
        /// The longest single noise, in us.
        max_sample: u64,
        /// The number of gaps without a known source. The hardware or a hypervisor caused them.
        hw_count: u32,
        irq_count: u32,
        nmi_count: u32,
        softirq_count: u32,
        thread_count: u32,
        /// The part of the runtime without noise, in millionths.
        available_ppm: u32,
    }
}

ktrace::trace_event! {
    /// A gap in the clock that a thread watches.
    struct SampleThreshold in "rust_osnoise" as "sample_threshold" {
        start: u64,
        duration: u64,
        interference: u64,
    }
}

ktrace::trace_event! {
    /// An interrupt.
    struct IrqNoise<'a> in "rust_osnoise" as "irq_noise" {
        start: u64,
        duration: u64,
        desc: &'a CStr,
        vector: i32,
    }
}

ktrace::trace_event! {
    /// A soft interrupt.
    struct SoftirqNoise in "rust_osnoise" as "softirq_noise" {
        start: u64,
        duration: u64,
        vector: i32,
    }
}

ktrace::trace_event! {
    /// A task other than the thread of this CPU.
    struct ThreadNoise in "rust_osnoise" as "thread_noise" {
        comm: Comm,
        start: u64,
        duration: u64,
        pid: i32,
    }
}

ktrace::trace_event! {
    /// A non-maskable interrupt.
    struct NmiNoise in "rust_osnoise" as "nmi_noise" {
        start: u64,
        duration: u64,
    }
}

/// The state of one CPU. Only this CPU changes it.
struct Core {
    cpu: Cpu,
    /// The address of the task of the CPU's thread. 0 without a thread.
    thread: Atomic<usize>,
    /// Whether the CPU's thread watches the clock.
    is_sampling: Atomic<bool>,
}

impl Core {
    fn new() -> Self {
        Self {
            cpu: Cpu::new(),
            thread: Atomic::new(0),
            is_sampling: Atomic::new(false),
        }
    }

    /// Whether the sources of noise are measured: while the thread watches the clock, and always if
    /// the CPU has no thread.
    fn is_measured(&self) -> bool {
        self.is_sampling.load(Relaxed) || self.thread.load(Relaxed) == 0
    }
}

struct Cores(KVec<Core>);

impl Cores {
    fn new() -> Result<Arc<Self>> {
        let mut cores = KVec::new();
        for _ in 0..nr_cpu_ids() {
            cores.push(Core::new(), GFP_KERNEL)?;
        }
        Ok(Arc::new(Self(cores), GFP_KERNEL)?)
    }

    /// The state of the current CPU, if it is measured. Only handlers call this function, because
    /// they do not migrate.
    fn measured(&self) -> Option<&Core> {
        let core = self.0.get(CpuId::current().as_u32() as usize)?;
        core.is_measured().then_some(core)
    }
}

/// The beginning of an interrupt.
struct IrqEntry(Arc<Cores>);

impl Handler for IrqEntry {
    fn hit(&self, _: &Hit<'_>) {
        if let Some(core) = self.0.measured() {
            core.cpu.enter(Source::Irq, local_clock);
        }
    }
}

/// The end of a device's interrupt.
struct IrqExit(Arc<Cores>);

impl Handler for IrqExit {
    /// TP_PROTO(int irq, struct irqaction *action, int ret)
    fn hit(&self, hit: &Hit<'_>) {
        let Some(core) = self.0.measured() else {
            return;
        };
        if let Some(Noise { start, duration }) = core.cpu.leave(Source::Irq, local_clock) {
            let mut buffer = [0; 32];
            IrqNoise {
                start,
                duration,
                desc: name_of(hit.arg::<usize>(1), &mut buffer),
                vector: hit.arg::<i32>(0),
            }
            .record_at(hit.call());
        }
    }
}

/// The name of a `struct irqaction`, at most 31 bytes of it.
fn name_of(action: usize, buffer: &mut [u8; 32]) -> &CStr {
    let mut address = [0; size_of::<usize>()];
    let field = action.wrapping_add(offset_of!(irqaction, name));
    if nofault::read_kernel(field, &mut address).is_ok() {
        let mut from = usize::from_ne_bytes(address);
        // The last byte stays 0.
        for byte in buffer.iter_mut().take(31) {
            let mut next = [0];
            if nofault::read_kernel(from, &mut next).is_err() || next == [0] {
                break;
            }
            *byte = next[0];
            from = from.wrapping_add(1);
        }
    }
    CStr::from_bytes_until_nul(buffer).unwrap_or(c"")
}

/// The end of an interrupt of an x86 processor's local APIC.
struct VectorExit(Arc<Cores>, &'static CStr);

impl Handler for VectorExit {
    /// TP_PROTO(int vector)
    fn hit(&self, hit: &Hit<'_>) {
        let Some(core) = self.0.measured() else {
            return;
        };
        if let Some(Noise { start, duration }) = core.cpu.leave(Source::Irq, local_clock) {
            IrqNoise {
                start,
                duration,
                desc: self.1,
                vector: hit.arg::<i32>(0),
            }
            .record_at(hit.call());
        }
    }
}

struct SoftirqEntry(Arc<Cores>);

impl Handler for SoftirqEntry {
    fn hit(&self, _: &Hit<'_>) {
        if let Some(core) = self.0.measured() {
            core.cpu.enter(Source::Softirq, local_clock);
        }
    }
}

struct SoftirqExit(Arc<Cores>);

impl Handler for SoftirqExit {
    /// TP_PROTO(unsigned int vec_nr)
    fn hit(&self, hit: &Hit<'_>) {
        let Some(core) = self.0.measured() else {
            return;
        };
        if let Some(Noise { start, duration }) = core.cpu.leave(Source::Softirq, local_clock) {
            let vector = hit.arg::<i32>(0);
            SoftirqNoise {
                start,
                duration,
                vector,
            }
            .record_at(hit.call());
        }
    }
}

struct Switched(Arc<Cores>);

impl Handler for Switched {
    /// TP_PROTO(bool preempt, struct task_struct *prev, struct task_struct *next, ...): `prev` is
    /// still the current task.
    fn hit(&self, hit: &Hit<'_>) {
        let Some(core) = self.0.measured() else {
            return;
        };
        let thread = core.thread.load(Relaxed);
        if hit.arg::<usize>(1) != thread {
            if let Some(Noise { start, duration }) = core.cpu.leave(Source::Thread, local_clock) {
                ThreadNoise {
                    comm: Comm,
                    start,
                    duration,
                    pid: current!().pid(),
                }
                .record_at(hit.call());
            }
        }
        if hit.arg::<usize>(2) != thread {
            core.cpu.enter(Source::Thread, local_clock);
        }
    }
}

/// The end of a handler of a non-maskable interrupt. An interrupt can call several handlers. The
/// handler that the interrupt was for reports a number above 0 in `handled`.
struct Nmi(Arc<Cores>);

impl Handler for Nmi {
    /// TP_PROTO(void *handler, s64 delta_ns, int handled)
    fn hit(&self, hit: &Hit<'_>) {
        let Some(core) = self.0.measured() else {
            return;
        };
        if hit.arg::<i32>(2) > 0 {
            let duration = hit.arg::<i64>(1).max(0) as u64;
            let Noise { start, duration } = core.cpu.add(Source::Nmi, local_clock(), duration);
            NmiNoise { start, duration }.record_at(hit.call());
        }
    }
}

/// The interrupts of the local APIC: the tracepoints at the start and the end, and the name.
const VECTORS: [(&CStr, &CStr, &CStr); 11] = [
    (c"local_timer_entry", c"local_timer_exit", c"local_timer"),
    (c"reschedule_entry", c"reschedule_exit", c"reschedule"),
    (
        c"call_function_entry",
        c"call_function_exit",
        c"call_function",
    ),
    (
        c"call_function_single_entry",
        c"call_function_single_exit",
        c"call_function_single",
    ),
    (c"irq_work_entry", c"irq_work_exit", c"irq_work"),
    (c"thermal_apic_entry", c"thermal_apic_exit", c"thermal_apic"),
    (
        c"threshold_apic_entry",
        c"threshold_apic_exit",
        c"threshold_apic",
    ),
    (
        c"deferred_error_apic_entry",
        c"deferred_error_apic_exit",
        c"deferred_error",
    ),
    (
        c"x86_platform_ipi_entry",
        c"x86_platform_ipi_exit",
        c"x86_platform_ipi",
    ),
    (c"error_apic_entry", c"error_apic_exit", c"error_apic"),
    (
        c"spurious_apic_entry",
        c"spurious_apic_exit",
        c"spurious_apic",
    ),
];

/// Attaches a handler to a tracepoint that not every kernel has.
fn attach<H: Handler>(name: &CStr, handler: H) -> Result<Option<Tracepoint<H>>> {
    match Tracepoint::attach(name, handler) {
        Ok(tracepoint) => Ok(Some(tracepoint)),
        Err(error) if error == ENOENT => Ok(None),
        Err(error) => Err(error),
    }
}

/// All handlers.
struct Listeners {
    _switched: Tracepoint<Switched>,
    /// The starts of the interrupts of devices and of the local APIC.
    _irq_entries: KVec<Tracepoint<IrqEntry>>,
    _irq_exit: Tracepoint<IrqExit>,
    _vector_exits: KVec<Tracepoint<VectorExit>>,
    _softirqs: Option<(Tracepoint<SoftirqEntry>, Tracepoint<SoftirqExit>)>,
    _nmis: Option<Tracepoint<Nmi>>,
}

impl Listeners {
    fn attach(cores: &Arc<Cores>) -> Result<Self> {
        let (mut entries, mut exits) = (KVec::new(), KVec::new());
        entries.push(
            Tracepoint::attach(c"irq_handler_entry", IrqEntry(cores.clone()))?,
            GFP_KERNEL,
        )?;
        for (entry, exit, name) in VECTORS {
            if let Some(entry) = attach(entry, IrqEntry(cores.clone()))? {
                entries.push(entry, GFP_KERNEL)?;
            }
            if let Some(exit) = attach(exit, VectorExit(cores.clone(), name))? {
                exits.push(exit, GFP_KERNEL)?;
            }
        }
        // With PREEMPT_RT, soft interrupts run in threads.
        let softirqs = if cfg!(CONFIG_PREEMPT_RT) {
            None
        } else {
            Some((
                Tracepoint::attach(c"softirq_entry", SoftirqEntry(cores.clone()))?,
                Tracepoint::attach(c"softirq_exit", SoftirqExit(cores.clone()))?,
            ))
        };
        Ok(Self {
            _switched: Tracepoint::attach(c"sched_switch", Switched(cores.clone()))?,
            _irq_entries: entries,
            _irq_exit: Tracepoint::attach(c"irq_handler_exit", IrqExit(cores.clone()))?,
            _vector_exits: exits,
            _softirqs: softirqs,
            _nmis: attach(c"nmi_handler", Nmi(cores.clone()))?,
        })
    }
}

/// The handlers, and the number of enabled events that need them.
#[pin_data]
struct Shared {
    cores: Arc<Cores>,
    #[pin]
    state: Mutex<(usize, Option<Listeners>)>,
}

impl Shared {
    fn new(cores: Arc<Cores>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                cores,
                state <- new_mutex!((0, None)),
            }),
            GFP_KERNEL,
        )
    }
}

/// An event that needs the handlers.
struct Listen(Arc<Shared>);

impl Switch for Listen {
    fn enable(&self, _: &EventMutexHeld) -> Result {
        let (users, listeners) = &mut *self.0.state.lock();
        if listeners.is_none() {
            *listeners = Some(Listeners::attach(&self.0.cores)?);
        }
        *users = users.wrapping_add(1);
        Ok(())
    }

    fn disable(&self, _: &EventMutexHeld) {
        let (users, listeners) = &mut *self.0.state.lock();
        *users = users.wrapping_sub(1);
        if *users == 0 {
            drop(listeners.take());
        }
    }
}

/// The event with the samples, which needs the handlers and the threads.
struct Measure(Listen, OnDemand);

impl Switch for Measure {
    fn enable(&self, token: &EventMutexHeld) -> Result {
        self.0.enable(token)?;
        self.1.enable(token).inspect_err(|_| self.0.disable(token))
    }

    fn disable(&self, token: &EventMutexHeld) {
        self.1.disable(token);
        self.0.disable(token);
    }
}

const NANOS_PER_MICRO: u64 = 1000;

/// The threads. Times are in ns.
struct Osnoise {
    cores: Arc<Cores>,
    runtime: u64,
    /// The rest of the period.
    pause: u64,
    threshold: u64,
    /// Tracing stops after a single noise that is longer than this. 0 means never.
    stop: u64,
    stop_total: u64,
}

/// Converts the value of a parameter from us to ns. Before linux 7.3, the kernel returns a
/// reference to the value.
fn nanos(micros: impl Borrow<u64>) -> Result<u64> {
    let nanos = micros.borrow().checked_mul(NANOS_PER_MICRO).ok_or(EINVAL)?;
    i64::try_from(nanos).map(|_| nanos).map_err(|_| EINVAL)
}

/// Stops tracing, so that the trace buffer keeps the records up to this noise.
fn stop(cpu: u32, noise: u64) {
    if tracing::is_on() {
        tracing::off();
        pr_info!("CPU {cpu}: tracing stopped, noise of {noise} ns\n");
    }
}

impl Osnoise {
    fn from_parameters(cores: Arc<Cores>) -> Result<Self> {
        let runtime = nanos(module_parameters::runtime_us.value())?;
        let period = nanos(module_parameters::period_us.value())?;
        if runtime == 0 {
            return Err(EINVAL);
        }
        Ok(Self {
            cores,
            runtime,
            pause: period.checked_sub(runtime).ok_or(EINVAL)?,
            threshold: nanos(module_parameters::tracing_thresh.value())?.max(1),
            stop: nanos(module_parameters::stop_tracing_us.value())?,
            stop_total: nanos(module_parameters::stop_tracing_total_us.value())?,
        })
    }

    /// Measures one period.
    fn sample(&self, thread: &Thread, core: &Core) {
        let cpu = &core.cpu;
        let before = cpu.counts();
        core.is_sampling.store(true, Relaxed);
        let mut watch = Watch::new(cpu.look(local_clock), self.threshold);
        while watch.runtime() < self.runtime && !thread.should_stop() {
            if let Some(gap) = watch.look(cpu.look(local_clock)) {
                SampleThreshold {
                    start: gap.start,
                    duration: gap.duration,
                    interference: gap.interference.into(),
                }
                .record();
                if self.stop != 0 && gap.duration > self.stop {
                    stop(thread.cpu(), gap.duration);
                }
            }
            thread.yield_now();
        }
        core.is_sampling.store(false, Relaxed);
        let counts = cpu.counts().since(before);
        Sample {
            runtime: watch.runtime() / NANOS_PER_MICRO,
            noise: watch.noise / NANOS_PER_MICRO,
            max_sample: watch.max / NANOS_PER_MICRO,
            hw_count: watch.hardware,
            irq_count: counts.irq,
            nmi_count: counts.nmi,
            softirq_count: counts.softirq,
            thread_count: counts.thread,
            available_ppm: watch.available(),
        }
        .record();
        if self.stop_total != 0 && watch.noise > self.stop_total {
            stop(thread.cpu(), watch.noise);
        }
    }
}

impl Work for Osnoise {
    fn run(&self, thread: &Thread) {
        let Some(core) = self.cores.0.get(thread.cpu() as usize) else {
            return;
        };
        let task: &Task = current!();
        core.thread.store(core::ptr::from_ref(task).addr(), Relaxed);
        while !thread.should_stop() {
            let pause = if tracing::is_on() {
                self.sample(thread, core);
                self.pause
            } else {
                self.pause.saturating_add(self.runtime)
            };
            thread.sleep_for(Delta::from_nanos(pause as i64));
        }
        core.thread.store(0, Relaxed);
    }
}

/// Dropping the events removes them, and stops the threads.
struct RustOsnoise {
    _events: [TraceEvent; 6],
}

impl kernel::Module for RustOsnoise {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let cores = Cores::new()?;
        let osnoise = Arc::new(Osnoise::from_parameters(cores.clone())?, GFP_KERNEL)?;
        let shared = Shared::new(cores)?;
        let threads = OnDemand::new(c"rust_osnoise", osnoise)?;
        Ok(Self {
            _events: [
                Sample::register_with(Measure(Listen(shared.clone()), threads))?,
                SampleThreshold::register()?,
                IrqNoise::register_with(Listen(shared.clone()))?,
                SoftirqNoise::register_with(Listen(shared.clone()))?,
                ThreadNoise::register_with(Listen(shared.clone()))?,
                NmiNoise::register_with(Listen(shared))?,
            ],
        })
    }
}
