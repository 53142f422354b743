// SPDX-License-Identifier: GPL-2.0

//! The accounting of the osnoise sample, without the kernel: who takes a CPU from a thread, and for
//! how long.
//!
//! `tools/testing/host/probe/tests/osnoise.rs` tests it.

use core::sync::atomic::{
    AtomicU32,
    AtomicU64,
    Ordering::Relaxed, //
};

/// How often the clock is read again because an interrupt came in between.
const ATTEMPTS: usize = 8;

/// The sources of noise. Each can interrupt those that follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Nmi,
    Irq,
    Softirq,
    Thread,
}

const SOURCES: usize = 4;

/// One time that a source had the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Noise {
    /// When it began, in ns.
    pub(crate) start: u64,
    /// How long it had the CPU, in ns, without those that interrupted it.
    pub(crate) duration: u64,
}

/// The noise of one source.
#[derive(Default)]
struct State {
    /// How many times it began.
    count: AtomicU32,
    /// When it began, in ns. 0 while it does not have the CPU.
    start: AtomicU64,
    /// The time that stronger sources had taken then, in ns.
    stolen_before: AtomicU64,
    /// All time that it has taken, in ns, without those that interrupted it.
    taken: AtomicU64,
}

/// The noise on one CPU. Only this CPU changes it. A source that interrupts another one ends before
/// the other one continues.
#[derive(Default)]
pub(crate) struct Cpu {
    states: [State; SOURCES],
}

impl Cpu {
    /// A source begins.
    pub(crate) fn enter(&self, source: Source, clock: impl Fn() -> u64) {
        let state = &self.states[source as usize];
        let (now, stolen) = self.now(source, clock);
        state.stolen_before.store(stolen, Relaxed);
        state.start.store(now, Relaxed);
        state
            .count
            .store(state.count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// A source ends. None if its beginning was not seen.
    pub(crate) fn leave(&self, source: Source, clock: impl Fn() -> u64) -> Option<Noise> {
        let state = &self.states[source as usize];
        let start = state.start.load(Relaxed);
        if start == 0 {
            return None;
        }
        let (now, stolen) = self.now(source, clock);
        state.start.store(0, Relaxed);
        let stolen = stolen.wrapping_sub(state.stolen_before.load(Relaxed));
        let duration = now.saturating_sub(start).saturating_sub(stolen);
        state
            .taken
            .store(state.taken.load(Relaxed).wrapping_add(duration), Relaxed);
        Some(Noise { start, duration })
    }

    /// A source that has just ended says itself how long it took.
    pub(crate) fn add(&self, source: Source, now: u64, duration: u64) -> Noise {
        let state = &self.states[source as usize];
        state
            .count
            .store(state.count.load(Relaxed).wrapping_add(1), Relaxed);
        state
            .taken
            .store(state.taken.load(Relaxed).wrapping_add(duration), Relaxed);
        Noise {
            start: now.saturating_sub(duration),
            duration,
        }
    }

    /// How many times each source began.
    pub(crate) fn counts(&self) -> Counts {
        let count = |source: Source| self.states[source as usize].count.load(Relaxed);
        Counts {
            nmi: count(Source::Nmi),
            irq: count(Source::Irq),
            softirq: count(Source::Softirq),
            thread: count(Source::Thread),
        }
    }

    /// The time, and how many times any source had begun at this time.
    pub(crate) fn look(&self, clock: impl Fn() -> u64) -> (u64, u32) {
        steady(clock, || self.counts().sum())
    }

    /// The time, and the time that sources stronger than this one had taken then.
    fn now(&self, source: Source, clock: impl Fn() -> u64) -> (u64, u64) {
        steady(clock, || {
            self.states[..source as usize]
                .iter()
                .fold(0, |sum: u64, state| {
                    sum.wrapping_add(state.taken.load(Relaxed))
                })
        })
    }
}

/// Reads the clock and a value that goes with it: an interrupt between both changes the value.
fn steady<T: PartialEq>(clock: impl Fn() -> u64, value: impl Fn() -> T) -> (u64, T) {
    let mut before = value();
    for _ in 1..ATTEMPTS {
        let now = clock();
        let after = value();
        if before == after {
            return (now, after);
        }
        before = after;
    }
    (clock(), before)
}

/// How many times each source began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) nmi: u32,
    pub(crate) irq: u32,
    pub(crate) softirq: u32,
    pub(crate) thread: u32,
}

impl Counts {
    fn sum(self) -> u32 {
        self.nmi
            .wrapping_add(self.irq)
            .wrapping_add(self.softirq)
            .wrapping_add(self.thread)
    }

    /// What was added since.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            nmi: self.nmi.wrapping_sub(before.nmi),
            irq: self.irq.wrapping_sub(before.irq),
            softirq: self.softirq.wrapping_sub(before.softirq),
            thread: self.thread.wrapping_sub(before.thread),
        }
    }
}

/// A time in which the thread that watches the clock did not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    /// When the thread last ran before, in ns.
    pub(crate) start: u64,
    /// In ns.
    pub(crate) duration: u64,
    /// How many sources of noise began in this time. If none, the hardware or a hypervisor took
    /// the CPU.
    pub(crate) interference: u32,
}

/// The watch of the clock, for one sample.
pub(crate) struct Watch {
    start: u64,
    last: u64,
    begun: u32,
    /// From this duration on, in ns, a gap is noise.
    threshold: u64,
    /// The sum of all noise, in ns.
    pub(crate) noise: u64,
    /// The longest single noise, in ns.
    pub(crate) max: u64,
    /// How many gaps had no interference.
    pub(crate) hardware: u32,
}

impl Watch {
    /// Begins at a time, when so many sources had begun: see [`Cpu::look`].
    pub(crate) fn new((now, begun): (u64, u32), threshold: u64) -> Self {
        Self {
            start: now,
            last: now,
            begun,
            threshold,
            noise: 0,
            max: 0,
            hardware: 0,
        }
    }

    /// Looks again, and returns the noise since the last look, if there was any.
    pub(crate) fn look(&mut self, (now, begun): (u64, u32)) -> Option<Gap> {
        let gap = Gap {
            start: self.last,
            duration: now.saturating_sub(self.last),
            interference: begun.wrapping_sub(self.begun),
        };
        self.last = now;
        self.begun = begun;
        if gap.duration < self.threshold {
            return None;
        }
        self.noise = self.noise.saturating_add(gap.duration);
        self.max = self.max.max(gap.duration);
        if gap.interference == 0 {
            self.hardware = self.hardware.wrapping_add(1);
        }
        Some(gap)
    }

    /// The time from the beginning to the last look, in ns.
    pub(crate) fn runtime(&self) -> u64 {
        self.last.saturating_sub(self.start)
    }

    /// How much of the runtime was without noise, in millionths.
    pub(crate) fn available(&self) -> u32 {
        const MILLION: u64 = 1_000_000;
        let runtime = self.runtime();
        let free = runtime.saturating_sub(self.noise);
        // A runtime that is so long that this overflows does not occur: some 5 hours.
        let millionths = free
            .saturating_mul(MILLION)
            .checked_div(runtime)
            .unwrap_or(MILLION);
        millionths.min(MILLION) as u32
    }
}
