// SPDX-License-Identifier: GPL-2.0

//! The accounting of the osnoise sample.

#[path = "../../../../../samples/rust/osnoise_accounting.rs"]
mod accounting;

use std::cell::Cell;

use accounting::{
    Counts,
    Cpu,
    Gap,
    Noise,
    Source::{
        Irq,
        Nmi,
        Softirq,
        Thread, //
    },
    Watch, //
};

/// The order of an access. The tests have one thread.
struct Relaxed;

/// In place of `kernel::sync::atomic::Atomic`.
struct Atomic<T>(Cell<T>);

impl<T: Copy> Atomic<T> {
    const fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    fn load(&self, _: Relaxed) -> T {
        self.0.get()
    }

    fn store(&self, value: T, _: Relaxed) {
        self.0.set(value);
    }
}

fn noise(start: u64, duration: u64) -> Option<Noise> {
    Some(Noise { start, duration })
}

#[test]
fn a_source_has_the_cpu_from_its_beginning_to_its_end() {
    let cpu = Cpu::new();
    cpu.enter(Irq, || 100);
    assert_eq!(cpu.leave(Irq, || 130), noise(100, 30));
    cpu.enter(Irq, || 200);
    assert_eq!(cpu.leave(Irq, || 201), noise(200, 1));
    assert_eq!(
        cpu.counts(),
        Counts {
            irq: 2,
            ..Counts::default()
        }
    );
}

#[test]
fn an_end_without_a_beginning_is_no_noise() {
    let cpu = Cpu::new();
    for source in [Nmi, Irq, Softirq, Thread] {
        assert_eq!(cpu.leave(source, || 100), None);
    }
    cpu.enter(Irq, || 200);
    assert!(cpu.leave(Irq, || 210).is_some());
    assert_eq!(cpu.leave(Irq, || 220), None);
    assert_eq!(cpu.counts().irq, 1);
}

#[test]
fn an_interrupted_source_takes_the_time_without_the_interrupts() {
    let cpu = Cpu::new();
    cpu.enter(Thread, || 1000);
    cpu.enter(Softirq, || 1100);
    cpu.enter(Irq, || 1110);
    assert_eq!(
        cpu.add(Nmi, 1125, 5),
        Noise {
            start: 1120,
            duration: 5
        }
    );
    // 20 ns, of which 5 are the NMI's.
    assert_eq!(cpu.leave(Irq, || 1130), noise(1110, 15));
    // 100 ns, of which 20 are those of the interrupt and the NMI.
    assert_eq!(cpu.leave(Softirq, || 1200), noise(1100, 80));
    cpu.enter(Irq, || 1300);
    assert_eq!(cpu.leave(Irq, || 1350), noise(1300, 50));
    // 500 ns, of which 100 and 50 are those of others.
    assert_eq!(cpu.leave(Thread, || 1500), noise(1000, 350));
    assert_eq!(
        cpu.counts(),
        Counts {
            nmi: 1,
            irq: 2,
            softirq: 1,
            thread: 1
        }
    );
}

#[test]
fn noise_before_the_beginning_does_not_count() {
    let cpu = Cpu::new();
    cpu.enter(Irq, || 100);
    cpu.leave(Irq, || 900);
    cpu.enter(Thread, || 1000);
    assert_eq!(cpu.leave(Thread, || 1010), noise(1000, 10));
}

#[test]
fn an_interrupt_while_the_clock_is_read_is_left_out() {
    let cpu = Cpu::new();
    cpu.enter(Thread, || 1000);
    let time = Cell::new(1100);
    // The first reading is from before the interrupt, which ends before the thread's time is read.
    let end = cpu.leave(Thread, || {
        let now = time.get();
        if now == 1100 {
            cpu.enter(Irq, || 1100);
            cpu.leave(Irq, || 1160);
            time.set(1165);
        }
        now
    });
    assert_eq!(end, noise(1000, 105));
}

#[test]
fn interrupts_without_end_do_not_keep_a_reader() {
    let cpu = Cpu::new();
    let readings = Cell::new(0);
    let (now, _) = cpu.look(|| {
        readings.set(readings.get() + 1);
        cpu.enter(Irq, || 1);
        cpu.leave(Irq, || 2);
        readings.get()
    });
    assert_eq!(now, readings.get());
    assert!(readings.get() <= 8);
}

#[test]
fn the_clock_going_back_is_no_noise() {
    let cpu = Cpu::new();
    cpu.enter(Irq, || 100);
    assert_eq!(cpu.leave(Irq, || 90), noise(100, 0));
    let mut watch = Watch::new((100, 0), 10);
    assert_eq!(watch.look((50, 0)), None);
    assert_eq!(
        (watch.noise, watch.runtime(), watch.available()),
        (0, 0, 1_000_000)
    );
}

#[test]
fn a_gap_from_the_threshold_on_is_noise() {
    let mut watch = Watch::new((1000, 7), 10);
    assert_eq!(watch.look((1009, 7)), None);
    assert_eq!(
        watch.look((1019, 9)),
        Some(Gap {
            start: 1009,
            duration: 10,
            interference: 2
        })
    );
    assert_eq!(watch.hardware, 0);
    // Nobody began: it was the hardware.
    assert_eq!(
        watch.look((1119, 9)),
        Some(Gap {
            start: 1019,
            duration: 100,
            interference: 0
        })
    );
    assert_eq!(watch.look((1200, 9)).map(|gap| gap.duration), Some(81));
    assert_eq!((watch.noise, watch.max, watch.hardware), (191, 100, 2));
    assert_eq!(watch.runtime(), 200);
    // 9 ns of 200.
    assert_eq!(watch.available(), 45_000);
}

#[test]
fn numbers_of_beginnings_may_wrap() {
    let mut watch = Watch::new((0, u32::MAX), 1);
    assert_eq!(watch.look((5, 1)).map(|gap| gap.interference), Some(2));
    let before = Counts {
        irq: u32::MAX,
        ..Counts::default()
    };
    let after = Counts {
        irq: 1,
        thread: 3,
        ..Counts::default()
    };
    assert_eq!(
        after.since(before),
        Counts {
            irq: 2,
            thread: 3,
            ..Counts::default()
        }
    );
}
