// SPDX-License-Identifier: GPL-2.0

//! The accounting of the osnoise sample, without the kernel: what interrupts a thread, and for how
//! long.
//!
//! `tools/testing/host/probe/tests/osnoise.rs` tests this file.

// The kernel's in the sample, and the test's own in the test.
use super::{
    Atomic,
    Relaxed, //
};

/// The maximum number of reads of the clock. After an interrupt during a read, another one is
/// necessary.
const ATTEMPTS: usize = 8;

/// The sources of noise. Each source can interrupt the sources that follow it here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Nmi,
    Irq,
    Softirq,
    Thread,
}

const SOURCES: usize = 4;

/// One run of a source on the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Noise {
    /// The start time, in ns.
    pub(crate) start: u64,
    /// The duration without interruptions by other sources, in ns.
    pub(crate) duration: u64,
}

/// The noise of one source.
struct State {
    /// The number of runs.
    count: Atomic<u32>,
    /// The start time of the current run, in ns. 0 if the source does not run.
    start: Atomic<u64>,
    /// The total duration of stronger sources at the start of the current run, in ns.
    stolen_before: Atomic<u64>,
    /// The total duration of all runs without interruptions, in ns.
    taken: Atomic<u64>,
}

impl State {
    const fn new() -> Self {
        Self {
            count: Atomic::new(0),
            start: Atomic::new(0),
            stolen_before: Atomic::new(0),
            taken: Atomic::new(0),
        }
    }
}

/// The noise on one CPU. Only this CPU changes it. A source that interrupts another one ends before
/// the other one continues.
pub(crate) struct Cpu {
    states: [State; SOURCES],
}

impl Cpu {
    /// Creates the accounting of a CPU without noise.
    pub(crate) fn new() -> Self {
        Self {
            states: [const { State::new() }; SOURCES],
        }
    }

    /// Records the start of a run.
    pub(crate) fn enter(&self, source: Source, clock: impl Fn() -> u64) {
        let state = &self.states[source as usize];
        let (now, stolen) = self.now(source, clock);
        state.stolen_before.store(stolen, Relaxed);
        state.start.store(now, Relaxed);
        state
            .count
            .store(state.count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Records the end of a run. Returns `None` if its start was not recorded.
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

    /// Records a whole run that ends now. The source itself reports the duration.
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

    /// The number of runs of each source.
    pub(crate) fn counts(&self) -> Counts {
        let count = |source: Source| self.states[source as usize].count.load(Relaxed);
        Counts {
            nmi: count(Source::Nmi),
            irq: count(Source::Irq),
            softirq: count(Source::Softirq),
            thread: count(Source::Thread),
        }
    }

    /// Returns the time, and the number of runs of all sources at this time.
    pub(crate) fn look(&self, clock: impl Fn() -> u64) -> (u64, u32) {
        steady(clock, || self.counts().sum())
    }

    /// Returns the time, and the total duration of stronger sources at this time.
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

/// Reads the clock and a value at the same time. An interrupt between the two reads changes the
/// value, so this function then reads both again.
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

/// The number of runs of each source.
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

    /// The difference to earlier numbers.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            nmi: self.nmi.wrapping_sub(before.nmi),
            irq: self.irq.wrapping_sub(before.irq),
            softirq: self.softirq.wrapping_sub(before.softirq),
            thread: self.thread.wrapping_sub(before.thread),
        }
    }
}

/// A time during which the thread that watches the clock did not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    /// The last time at which the thread ran before the gap, in ns.
    pub(crate) start: u64,
    /// The duration, in ns.
    pub(crate) duration: u64,
    /// The number of runs of noise sources that began in the gap. If the number is 0, the hardware
    /// or a hypervisor used the CPU.
    pub(crate) interference: u32,
}

/// The watch of the clock, for one sample.
pub(crate) struct Watch {
    start: u64,
    last: u64,
    begun: u32,
    /// The minimum duration of a gap that is noise, in ns.
    threshold: u64,
    /// The sum of all noise, in ns.
    pub(crate) noise: u64,
    /// The longest single noise, in ns.
    pub(crate) max: u64,
    /// The number of gaps without interference.
    pub(crate) hardware: u32,
}

impl Watch {
    /// Starts a watch, with the result of [`Cpu::look`].
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

    /// Continues the watch, with the result of [`Cpu::look`]. Returns the gap since the previous
    /// call, if it is noise.
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

    /// The time from the start of the watch to the last [`look`](Self::look), in ns.
    pub(crate) fn runtime(&self) -> u64 {
        self.last.saturating_sub(self.start)
    }

    /// The part of the runtime without noise, in millionths.
    pub(crate) fn available(&self) -> u32 {
        const MILLION: u64 = 1_000_000;
        let runtime = self.runtime();
        let free = runtime.saturating_sub(self.noise);
        // The product saturates only for a runtime of more than 5 hours.
        let millionths = free
            .saturating_mul(MILLION)
            .checked_div(runtime)
            .unwrap_or(MILLION);
        millionths.min(MILLION) as u32
    }
}
