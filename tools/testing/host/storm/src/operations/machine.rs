// SPDX-License-Identifier: GPL-2.0

//! Operations that hit probes, kill processes, and change how the kernel works.

use std::{
    fs,
    io,
    thread::sleep,
    time::Duration, //
};

use crate::{
    grammar::{
        self,
        FILES, //
    },
    hits,
    rng::Rng,
    sys,
    worker::{
        random_event,
        write,
        Worker, //
    },
};

pub const CPUS: usize = 4;

pub fn hit(_worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    for _ in 0..1 + rng.below(10) {
        hits::hit(rng.below(hits::COUNT));
    }
    Ok(())
}

/// Kills a process that writes commands.
pub fn kill_writer(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let wait = Duration::from_micros(rng.below(20_000) as u64);
    worker.note(format_args!("after {wait:?}"));
    let mut rng = rng.clone();
    let child = sys::spawn(move || loop {
        let command = if rng.one_in(2) {
            grammar::append(&mut rng)
        } else {
            grammar::delete(&mut rng)
        };
        let _ = write(FILES[1], command.as_bytes());
        let _ = write(
            &(random_event(&mut rng) + "/enable"),
            rng.pick(&[b"0", b"1"]),
        );
    })?;
    sleep(wait);
    sys::kill(child);
    sys::wait(child, true);
    Ok(())
}

/// Leaves a process asleep in a probed function. The hitters wake it.
pub fn sleeper(_worker: &mut Worker, _rng: &mut Rng) -> io::Result<()> {
    const CALL: &str = "/sys/module/exits_target/call";
    fs::metadata(CALL)?;
    sys::spawn(|| {
        let _ = write(CALL, b"sleeps 1");
        0
    })
    .map(drop)
}

pub fn hotplug(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let cpu = 1 + rng.below(3);
    let value = rng.pick(&[b"0", b"1", b"1"]);
    worker.note(format_args!("{cpu} {}", value[0] - b'0'));
    write(&format!("/sys/devices/system/cpu/cpu{cpu}/online"), value)
}

/// Changes how the kernel waits for grace periods, whether it optimizes kprobes, and whether it
/// traces the depth of stacks.
pub fn knob(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let (path, value) = rng.pick(&[
        ("/sys/kernel/rcu_expedited", "0"),
        ("/sys/kernel/rcu_expedited", "1"),
        ("/sys/kernel/rcu_expedited", "1"),
        ("/proc/sys/debug/kprobes-optimization", "0"),
        ("/proc/sys/debug/kprobes-optimization", "1"),
        ("/proc/sys/kernel/stack_tracer_enabled", "0"),
        ("/proc/sys/kernel/stack_tracer_enabled", "1"),
    ]);
    worker.note(format_args!("{path} {value}"));
    write(path, value.as_bytes())
}
