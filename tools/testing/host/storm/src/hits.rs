// SPDX-License-Identifier: GPL-2.0

//! Calls of the functions that probes are on.

use std::{
    fs,
    io,
    sync::atomic::Ordering::Relaxed,
    thread::sleep,
    time::Duration, //
};

use crate::{
    shared::Shared,
    sys,
    worker::write, //
};

/// How many sorts of calls there are.
pub const COUNT: usize = 9;

/// Calls probed functions.
pub fn hit(sort: usize) {
    match sort {
        0 => drop(sys::call(libc::SYS_getppid, [0; 3])),
        1 => drop(sys::call(libc::SYS_kill, [5_000_000, 0, 0])),
        2 => drop(fs::remove_dir("/tmp/nosuch")),
        3 => drop(fs::remove_file("/tmp/nosuch")),
        4 => drop(fs::read("/etc/hostname")),
        5 => sys::set_name("storm"),
        6 => drop(write("/sys/module/tracepoint_target/parameters/hit", b"3")),
        7 => drop(write("/sys/module/exits_target/call", b"deep 3")),
        _ => drop(write("/sys/module/exits_target/call", b"eight 1")),
    }
}

/// Calls probed functions on a CPU until the storm ends.
pub fn run(shared: &Shared, cpu: usize) {
    sys::be_nice();
    for round in 0usize.. {
        if shared.stop.load(Relaxed) {
            break;
        }
        let _ = sys::run_on(Some(cpu));
        for sort in 0..COUNT {
            hit(sort);
        }
        if round % 100 == cpu * 20 {
            let _ = fs::read("/proc/net/dev");
            let _ = sys::spawn(|| 0);
            wake();
        }
        sleep(Duration::from_millis(10));
    }
}

/// Wakes the sleeping calls.
pub fn wake() {
    let _: io::Result<()> = write("/sys/module/exits_target/sleepers", b"1");
}
