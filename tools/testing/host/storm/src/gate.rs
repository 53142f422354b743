// SPDX-License-Identifier: GPL-2.0

//! The kernel's switches that keep hits from probes, for all users at once.
//!
//! One worker at a time may turn such a switch off, and it turns it on again. So whoever counts hits
//! knows whether the switch was on all the time.

use std::{
    io,
    process,
    sync::atomic::{
        AtomicBool,
        AtomicU64,
        Ordering::SeqCst, //
    }, //
};

use crate::worker::write;

/// The number of gates, and each of them: an index into their arrays.
pub const COUNT: usize = 2;
pub const KPROBES: usize = 0;
pub const FTRACE: usize = 1;

/// Their files.
pub const PATHS: [&str; COUNT] = [
    "/sys/kernel/debug/kprobes/enabled",
    "/proc/sys/kernel/ftrace_enabled",
];

/// The state of a switch, which all processes share.
#[repr(C)]
pub struct Gate {
    is_held: AtomicBool,
    /// How often it was closed and opened. Odd while it is closed, or may be.
    changes: AtomicU64,
}

/// When the gates were read.
pub struct Moment([u64; COUNT]);

impl Moment {
    pub fn now(gates: &[Gate; COUNT]) -> Self {
        Self(gates.each_ref().map(|gate| gate.changes.load(SeqCst)))
    }

    /// Whether these gates are open, and were so since that moment.
    pub fn was_open_since(&self, before: &Self, gates: &[usize]) -> bool {
        gates
            .iter()
            .all(|&gate| before.0[gate] % 2 == 0 && self.0[gate] == before.0[gate])
    }
}

/// Closes a gate, unless another worker has done so, and opens it again. If it cannot be opened,
/// this ends the worker, and the storm with it.
pub fn close(gates: &[Gate; COUNT], number: usize, meanwhile: impl FnOnce()) -> io::Result<()> {
    let (gate, path) = (&gates[number], PATHS[number]);
    if gate.is_held.swap(true, SeqCst) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    gate.changes.fetch_add(1, SeqCst);
    let result = write(path, b"0");
    if result.is_ok() {
        meanwhile();
    }
    if let Err(error) = write(path, b"1") {
        println!("storm: {path} cannot be turned on: {error}");
        process::exit(2);
    }
    gate.changes.fetch_add(1, SeqCst);
    gate.is_held.store(false, SeqCst);
    result
}
