// SPDX-License-Identifier: GPL-2.0

//! Modules that the storm loads and unloads.

use std::{
    fs::File,
    io, //
};

use crate::sys;

/// Where the machine has the modules.
const DIRECTORY: &str = "/storm";

/// Modules with functions to probe.
pub const MODULES: [&str; 3] = ["tracepoint_target", "exits_target", "dummy"];

/// Modules that use ktrace.
pub const SAMPLES: [&str; 6] = [
    "rust_kprobe",
    "rust_kretprobe",
    "rust_kretinsn",
    "rust_fprobe",
    "rust_tracepoint",
    "rust_trace_event",
];

/// Loads a module.
pub fn load(name: &str, parameters: &str) -> io::Result<()> {
    sys::load_module(&File::open(format!("{DIRECTORY}/{name}.ko"))?, parameters)
}

/// Unloads a module.
pub fn unload(name: &str) -> io::Result<()> {
    sys::unload_module(name)
}
