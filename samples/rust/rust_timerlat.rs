// SPDX-License-Identifier: GPL-2.0

//! Rust timerlat sample: measures the delay of a timer, and of the thread that the timer wakes, on
//! each CPU.
//!
//! While the event `rust_timerlat/timerlat_sample` is enabled, each CPU has a thread, and a timer
//! of this CPU wakes the thread once in a period. First the timer's interrupt and then the thread
//! record their delay.
//!
//! C: the tracer timerlat in `kernel/trace/trace_osnoise.c`, which Debian's kernels do not have.
//! The parameters and the fields have the same names as in C.

use core::borrow::Borrow;

use kernel::{
    cpu::CpuId,
    impl_has_hr_timer,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    },
    time::{
        hrtimer::{
            AbsolutePinnedHardMode,
            HrTimer,
            HrTimerCallback,
            HrTimerCallbackContext,
            HrTimerPointer,
            HrTimerRestart, //
        },
        Delta,
        Instant,
        Monotonic, //
    },
};

use ktrace::{
    stack::SavedStack,
    thread::{
        OnDemand,
        Thread,
        Waker,
        Work, //
    },
    trace_event::TraceEvent,
    tracing, //
};

module! {
    type: RustTimerlat,
    name: "rust_timerlat",
    authors: ["rkprobe maintainers"],
    description: "Rust timerlat sample",
    license: "GPL",
    imports_ns: ["KTRACE"],
    params: {
        timerlat_period_us: u64 {
            default: 1000,
            description: "Period of the threads, from 100 to 1000000 us",
        },
        stop_tracing_us: u64 {
            default: 0,
            description: "Stop tracing after an interrupt with this delay or more, in us; 0: never",
        },
        stop_tracing_total_us: u64 {
            default: 0,
            description: "Stop tracing after a thread with this delay or more, in us; 0: never",
        },
        print_stack: u64 {
            default: 0,
            description: "Record the interrupt's stack if its thread is this late, in us; 0: never",
        },
    },
}

/// The priority of the threads, which is that of the C tracer.
const PRIORITY: u32 = 95;

/// The values of the field `context`.
const IRQ: i32 = 0;
const THREAD: i32 = 1;

/// The number of addresses in a record of a stack.
const STACK_LEN: usize = 24;

ktrace::trace_event! {
    /// The latency of an interrupt or of a thread.
    struct Sample in "rust_timerlat" as "timerlat_sample" {
        /// The delay after the expected time, in ns.
        timer_latency: u64,
        /// The number of the period on this CPU, counted from 1.
        seqnum: u32,
        context: i32,
    }
}

ktrace::trace_event! {
    /// The stack of the interrupt whose thread was late.
    struct Stack in "rust_timerlat" as "timerlat_stack" {
        seqnum: u32,
        /// The addresses, starting with the innermost one, followed by zeros.
        stack: [usize; STACK_LEN] = symbol,
    }
}

/// Records a latency. No timer expires early, so the latency is not negative.
fn record(latency: Delta, seqnum: u32, context: i32) {
    Sample {
        timer_latency: latency.as_nanos().max(0) as u64,
        seqnum,
        context,
    }
    .record();
}

fn record_stack(seqnum: u32, stack: &SavedStack<STACK_LEN>) {
    let stack = stack.addresses();
    Stack { seqnum, stack }.record();
}

/// The minimum latency for an action. `None` means never.
#[derive(Clone, Copy)]
struct Threshold(Option<Delta>);

impl Threshold {
    /// `EINVAL` if the number of ns does not fit in 64 bits. 0 means never.
    fn from_micros(micros: u64) -> Result<Self> {
        let nanos = i64::try_from(micros)?.checked_mul(1000).ok_or(EINVAL)?;
        Ok(Self((nanos != 0).then_some(Delta::from_nanos(nanos))))
    }

    fn is_reached(self, latency: Delta) -> bool {
        self.0.is_some_and(|threshold| latency >= threshold)
    }
}

/// The parameters of the module.
#[derive(Clone, Copy)]
struct Settings {
    period: Delta,
    stop_irq: Threshold,
    stop_thread: Threshold,
    print_stack: Threshold,
}

/// The value of a parameter. Before linux 7.3, the kernel returns a reference to the value.
fn number(value: impl Borrow<u64>) -> u64 {
    *value.borrow()
}

impl Settings {
    fn from_parameters() -> Result<Self> {
        let period = number(module_parameters::timerlat_period_us.value());
        if !(100..=1_000_000).contains(&period) {
            return Err(EINVAL);
        }
        let stop_irq = number(module_parameters::stop_tracing_us.value());
        let stop_thread = number(module_parameters::stop_tracing_total_us.value());
        let print_stack = number(module_parameters::print_stack.value());
        Ok(Self {
            period: Delta::from_micros(period.try_into()?),
            stop_irq: Threshold::from_micros(stop_irq)?,
            stop_thread: Threshold::from_micros(stop_thread)?,
            print_stack: Threshold::from_micros(print_stack)?,
        })
    }
}

/// The timer of one CPU.
#[pin_data]
struct Period {
    #[pin]
    timer: HrTimer<Self>,
    /// The number of the period, counted from 1.
    seqnum: Atomic<u32>,
    stack: SavedStack<STACK_LEN>,
    waker: Waker,
    settings: Settings,
}

impl_has_hr_timer! {
    impl HasHrTimer<Self> for Period {
        mode: AbsolutePinnedHardMode<Monotonic>, field: self.timer
    }
}

impl HrTimerCallback for Period {
    type Pointer<'a> = Arc<Self>;

    fn run(this: ArcBorrow<'_, Self>, context: HrTimerCallbackContext<'_, Self>) -> HrTimerRestart {
        let latency = Instant::now() - this.timer.expires();
        let seqnum = this.seqnum.fetch_add(1, Relaxed).wrapping_add(1);
        record(latency, seqnum, IRQ);
        if this.settings.print_stack.0.is_some() {
            this.stack.save();
        }
        if this.settings.stop_irq.is_reached(latency) {
            // The thread cannot record the stack after tracing has stopped.
            if this.settings.print_stack.0.is_some() {
                record_stack(seqnum, &this.stack);
            }
            stop(latency, "interrupt");
        }
        this.waker.wake(&context);
        HrTimerRestart::NoRestart
    }
}

/// Stops tracing, so that the trace buffer keeps the records up to this latency.
fn stop(latency: Delta, what: &str) {
    if tracing::is_on() {
        tracing::off();
        let cpu = CpuId::current().as_u32();
        let ns = latency.as_nanos();
        pr_info!("CPU {cpu}: tracing stopped, the {what} was {ns} ns late\n");
    }
}

/// The first time after `now` that is a whole number of periods after `last`.
fn next(last: Instant<Monotonic>, now: Instant<Monotonic>, period: Delta) -> Instant<Monotonic> {
    let late = (now - last).as_nanos();
    let periods = late.checked_div(period.as_nanos()).unwrap_or(0);
    last + period * periods.saturating_add(1)
}

struct Timerlat(Settings);

impl Timerlat {
    fn measure(&self, thread: &Thread) -> Result {
        let period = Arc::pin_init(
            pin_init!(Period {
                timer <- HrTimer::new(),
                seqnum: Atomic::new(0),
                stack: SavedStack::new(),
                waker: thread.waker(),
                settings: self.0,
            }),
            GFP_KERNEL,
        )?;
        thread.set_fifo(PRIORITY)?;
        let mut expected = Instant::now();
        while !thread.should_stop() {
            expected = next(expected, Instant::now(), self.0.period);
            let timer = period.clone().start(expected);
            thread.sleep();
            let latency = Instant::now() - expected;
            // The timer has expired, unless the thread must stop.
            drop(timer);
            if thread.should_stop() {
                break;
            }
            let seqnum = period.seqnum.load(Relaxed);
            record(latency, seqnum, THREAD);
            if self.0.print_stack.is_reached(latency) {
                record_stack(seqnum, &period.stack);
            }
            if self.0.stop_thread.is_reached(latency) {
                stop(latency, "thread");
            }
        }
        Ok(())
    }
}

impl Work for Timerlat {
    fn run(&self, thread: &Thread) {
        if let Err(error) = self.measure(thread) {
            pr_err!("CPU {}: {:?}\n", thread.cpu(), error);
        }
    }
}

/// Dropping the events removes them, and stops the threads.
struct RustTimerlat {
    _sample: TraceEvent,
    _stack: TraceEvent,
}

impl kernel::Module for RustTimerlat {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let timerlat = Timerlat(Settings::from_parameters()?);
        let threads = OnDemand::new(c"rust_timerlat", Arc::new(timerlat, GFP_KERNEL)?)?;
        Ok(Self {
            _sample: Sample::register_with(threads)?,
            _stack: Stack::register()?,
        })
    }
}
