// SPDX-License-Identifier: GPL-2.0

//! The kernel's switch that keeps hits from kprobes, for all users at once.
//!
//! One worker at a time may turn it off, and turns it on again. So whoever counts hits knows whether
//! the switch was on all the time.
//!
//! `kernel.ftrace_enabled` is not switched: a kprobe that is armed and disarmed meanwhile breaks
//! ftrace on a kernel that accepts the 0, see Documentation/kernel-reports.rst.

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

/// Its file.
pub const PATH: &str = "/sys/kernel/debug/kprobes/enabled";

/// The state of the switch, which all processes share.
#[repr(C)]
pub struct Gate {
    is_held: AtomicBool,
    /// How often it was closed and opened. Odd while it is closed, or may be.
    changes: AtomicU64,
}

/// When the gate was read.
pub struct Moment(u64);

impl Moment {
    pub fn now(gate: &Gate) -> Self {
        Self(gate.changes.load(SeqCst))
    }

    /// Whether the gate is open, and was so since that moment.
    pub fn was_open_since(&self, before: &Self) -> bool {
        before.0 % 2 == 0 && self.0 == before.0
    }
}

/// Closes the gate, unless another worker has done so, and opens it again. If it cannot be opened,
/// this ends the worker, and the storm with it.
pub fn close(gate: &Gate, meanwhile: impl FnOnce()) -> io::Result<()> {
    if gate.is_held.swap(true, SeqCst) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    gate.changes.fetch_add(1, SeqCst);
    let result = write(PATH, b"0");
    if result.is_ok() {
        meanwhile();
    }
    if let Err(error) = write(PATH, b"1") {
        println!("storm: {PATH} cannot be turned on: {error}");
        process::exit(2);
    }
    gate.changes.fetch_add(1, SeqCst);
    gate.is_held.store(false, SeqCst);
    result
}
