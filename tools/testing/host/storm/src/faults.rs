// SPDX-License-Identifier: GPL-2.0

//! Allocations that fail (Documentation/fault-injection), on a kernel that can do so.
//!
//! A worker writes to its `fail-nth` which allocation of an operation fails. Only allocations with a
//! module on the stack count: not those of a system call itself.

use std::{
    fs,
    io,
    path::Path, //
};

use crate::worker::write;

const DIRECTORIES: [&str; 2] = [
    "/sys/kernel/debug/failslab",
    "/sys/kernel/debug/fail_page_alloc",
];
/// The kinds of operations that may fail so. The others may disable a probe, and the kernel warns if
/// it has no memory to disarm one that ftrace calls (`disarm_kprobe_ftrace()`).
pub const KINDS: [&str; 10] = [
    "invalid",
    "read",
    "hold",
    "define",
    "append",
    "empty_table",
    "filter",
    "exits",
    "write_back",
    "trigger",
];

const MODULES: [&str; 2] = ["0xffffffffa0000000", "0xffffffffff000000"];

/// Sets fault injection up, where the kernel has it.
pub fn prepare() -> io::Result<()> {
    for directory in DIRECTORIES {
        if !Path::new(directory).exists() {
            continue;
        }
        let set = |name: &str, value: &str| write(&format!("{directory}/{name}"), value.as_bytes());
        set("ignore-gfp-wait", "N")?;
        if directory.ends_with("page_alloc") {
            set("min-order", "0")?;
        }
        set("verbose", "0")?;
        set("stacktrace-depth", "32")?;
        set("require-start", MODULES[0])?;
        set("require-end", MODULES[1])?;
        // The kernel warns if it cannot register its own function graph tracer, for the first
        // fprobe with an exit handler.
        let [start, end] = extent_of("register_ftrace_graph")?;
        set("reject-start", &start)?;
        set("reject-end", &end)?;
        set("times", "-1")?;
        // The kernel ignores the failure to register the probe that records names of tasks, and
        // warns when it unregisters that probe.
        write("options/record-cmd", b"0")?;
    }
    Ok(())
}

/// Undoes it.
pub fn end() {
    for directory in DIRECTORIES {
        let _ = write(&format!("{directory}/times"), b"0");
    }
    let _ = write("options/record-cmd", b"1");
}

/// The addresses of a function and of the next symbol.
fn extent_of(function: &str) -> io::Result<[String; 2]> {
    let symbols = fs::read_to_string("/proc/kallsyms")?;
    let mut lines = symbols.lines().map(|line| line.split(' '));
    let start = lines.find_map(|mut words| {
        let address = words.next()?;
        (words.nth(1)? == function).then_some(address)
    });
    let start = start.ok_or(io::ErrorKind::NotFound)?;
    let end = lines.find_map(|mut words| words.next().filter(|address| *address != start));
    let end = end.ok_or(io::ErrorKind::NotFound)?;
    Ok([format!("0x{start}"), format!("0x{end}")])
}
