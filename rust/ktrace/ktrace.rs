// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the kernel's dynamic tracing.
//!
//! - [`kprobe`], [`kretprobe`]: a handler at an instruction, or at the return of a function;
//! - [`kretinsn`]: a handler at the return instructions of a function, which [`exits`] finds;
//! - [`rethook`]: a handler at the return of many functions, only in the kernel tree;
//! - [`fprobe`], [`ftrace`]: handlers at many functions at once;
//! - [`tracepoint`]: a handler on a tracepoint of the kernel;
//! - [`watchpoint`]: a handler for accesses to memory;
//! - [`event_probe`]: a handler for the records of an event, only in the kernel tree;
//! - [`registers`], [`nofault`], [`number`]: registers and memory that a handler may read;
//! - [`trace_event`](mod@trace_event): events under `events/` in tracefs, and records in the trace
//!   buffers. The macro [`trace_event!`] defines events of a module;
//! - [`tracefs`]: control files;
//! - [`dyn_event`], [`error_log`]: files of the kernel, only in the kernel tree;
//! - [`percpu`]: memory that handlers may write to;
//! - [`thread`]: threads, one for each CPU;
//! - [`stack`], [`tracing`]: stack traces, and the switch of the trace;
//! - [`symbol`]: names and addresses;
//! - [`btf`]: the types of functions and structures;
//! - [`module`]: loaded modules; [`module_notifier`]: notifications when modules load and unload;
//! - [`vfs`]: the offsets of a file's name;
//! - [`assumptions`]: checks of this crate's assumptions about the kernel.
//!
//! A handler runs in atomic context: see [`context`].

// The kernel's build system sets this attribute. rustdoc does not pass the build system's
// attributes to the search for examples.
#![cfg_attr(doctest, no_std)]

use kernel::error::Result;

pub mod assumptions;
pub mod btf;
pub mod context;
pub mod dyn_event;
pub mod error_log;
pub mod event_probe;
pub mod exits;
pub mod fprobe;
pub mod ftrace;
pub mod function;
pub mod kprobe;
pub mod kretinsn;
pub mod kretprobe;
pub mod module;
pub mod module_notifier;
pub mod nofault;
pub mod number;
pub mod percpu;
pub mod registers;
pub mod rethook;
pub mod security;
pub mod stack;
pub mod symbol;
pub mod thread;
pub mod trace_event;
pub mod tracefs;
pub mod tracepoint;
pub mod tracing;
pub mod vfs;
pub mod watchpoint;

/// The prefix of lines in the kernel's log.
pub(crate) const __LOG_PREFIX: &[u8] = b"ktrace\0";

mod arch;
mod bindings;
mod file;
mod ftrace_list;
mod kprobe_list;
mod leftover;
mod owner;
mod pointers;
mod readers;
mod registration;
mod text;
mod tree;
mod unsupported;
mod version;

#[allow(unused_imports)]
use version::LocalModule;

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
pub unsafe fn init() -> Result {
    // SAFETY: The caller calls this once, before any other use. The control event comes before the
    // notifier, because only `trace_event::init` can fail.
    unsafe {
        leftover::init();
        kprobe_list::init();
        ftrace_list::init();
        fprobe::init();
        tree::init();
        file::init();
        trace_event::init()?;
        watchpoint::init();
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
pub unsafe fn exit() {
    trace_event::exit();
    // SAFETY: The caller calls this once, after `init`.
    unsafe { module_notifier::exit() };
    ftrace_list::exit();
    kprobe_list::exit();
    leftover::exit();
    watchpoint::exit();
    fprobe::exit();
    tree::exit();
}
