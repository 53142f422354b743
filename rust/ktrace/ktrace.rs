// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the kernel's dynamic tracing.
//!
//! - [`kprobe`], [`kretprobe`]: a handler at an instruction, or at the return of a function;
//! - [`kretinsn`]: a handler at the return instructions of a function, which [`exits`] finds;
//! - [`once`]: kprobes that are disarmed after a hit;
//! - [`rethook`]: a handler at the return of many functions, only in the kernel tree;
//! - [`fprobe`], [`ftrace`]: handlers at many functions at once;
//! - [`tracepoint`]: a handler on a tracepoint of the kernel;
//! - [`watchpoint`]: a handler for accesses to memory;
//! - [`event_probe`]: a handler for the records of an event;
//! - [`registers`], [`nofault`], [`number`]: registers and memory that a handler may read;
//! - [`trace_event`](mod@trace_event): events under `events/` in tracefs, and records in the trace
//!   buffers. The macro [`trace_event!`] defines events of a module;
//! - [`tracefs`]: control files;
//! - [`dyn_event`], [`error_log`]: files of the kernel, only in the kernel tree;
//! - [`percpu`], [`counter_array`]: memory that handlers may write to;
//! - [`replaceable`]: a value that a task can replace while handlers use it;
//! - [`thread`]: threads, one for each CPU;
//! - [`stack`], [`tracing`]: stack traces, and the switch of the trace;
//! - [`symbol`]: names and addresses;
//! - [`btf`]: the types of functions and structures;
//! - [`module`]: loaded modules; [`module_notifier`]: notifications when modules load and unload;
//! - [`vfs`]: the offsets of a file's name;
//! - [`assumptions`]: checks of this crate's assumptions about the kernel.
//!
//! A handler runs in atomic context: see [`context`].
//!
//! Other modules can use each function of this crate, except those whose `export_name` begins with
//! `ktrace_own_`. `rkprobe.ko` does not export these, so only rkprobe can use them.

// The kernel's build system sets this attribute. rustdoc does not pass the build system's
// attributes to the search for examples.
#![cfg_attr(doctest, no_std)]

use kernel::error::Result;

mod arch;
pub mod assumptions;
mod bindings;
mod event;
mod files;
mod hit;
mod modules;
mod probes;
pub mod security;
mod support;
mod symbols;
pub mod thread;

pub use event::{
    dyn_event,
    event_probe,
    trace_event,
    tracing, //
};
pub use files::{
    error_log,
    tracefs, //
};
pub use hit::{
    atomic,
    context,
    counter_array,
    function,
    glob,
    nofault,
    number,
    percpu,
    registers,
    replaceable,
    stack, //
};
pub use modules::{
    module,
    module_notifier, //
};
pub use probes::{
    callees,
    exits,
    fprobe,
    ftrace,
    kprobe,
    kretinsn,
    kretprobe,
    once,
    rethook,
    tracepoint,
    watchpoint, //
};
pub use symbols::{
    btf,
    symbol,
    vfs, //
};

#[allow(unused_imports)]
use modules::this_module::LocalModule;

/// The prefix of lines in the kernel's log.
pub(crate) const __LOG_PREFIX: &[u8] = b"ktrace\0";

/// Initialises the crate. The module that contains this crate calls this function when it loads,
/// before any other function of this crate.
///
/// # Errors
///
/// `ENOMEM`, and `EOPNOTSUPP` if the kernel does not call the control event of this crate.
///
/// # Safety
///
/// The caller calls this function at most once.
#[export_name = "ktrace_own_init"]
pub unsafe fn init() -> Result {
    // SAFETY: The caller calls this once, before any other use. The control event comes before the
    // notifier, because only `registration::init` can fail.
    unsafe {
        modules::leftover::init();
        modules::kprobe_list::init();
        modules::ftrace_list::init();
        event::mutex::init();
        files::file::init();
        event_probe::init()?;
        event::registration::init().inspect_err(|_| event_probe::exit())?;
        watchpoint::init();
        fprobe::init();
        module_notifier::init();
    }
    Ok(())
}

/// Cleans up the crate. The module that contains this crate calls this function when it unloads,
/// and when its initialisation fails after [`init`] succeeded. No other function of this crate runs
/// afterwards.
///
/// # Safety
///
/// The caller calls this function at most once. No probe and no event is registered, and none will
/// be registered later.
#[export_name = "ktrace_own_exit"]
pub unsafe fn exit() {
    event::registration::exit();
    event_probe::exit();
    // SAFETY: The caller calls this once, after `init`.
    unsafe { module_notifier::exit() };
    fprobe::exit();
    modules::ftrace_list::exit();
    modules::kprobe_list::exit();
    modules::leftover::exit();
    watchpoint::exit();
    dyn_event::exit();
}
