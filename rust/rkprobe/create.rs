// SPDX-License-Identifier: GPL-2.0

//! Create the probe of a command, in four steps:
//!
//! 1. parse: crate `probe` parses the text;
//! 2. resolve: rkprobe asks the kernel about the target ([`Kind::resolve`](crate::kind::Kind)) and
//!    its [types](crate::resolve), reads the arguments, and lays out the fields of the event;
//! 3. [compile](crate::compile): it compiles the arguments into programs;
//! 4. register: it registers the probe ([`Kind::start`](crate::kind::Kind)), and the event unless
//!    it exists.
//!
//! Each step has errors of its own, and rkprobe reports the first error found. So
//! [`new_probe`](crate::new_probe) does everything in the same order as the kernel: the target, the
//! name of the event, the arguments one by one, the other probes of the event, the registration.
//! Symbols in arguments belong to the registration.
//!
//! C: `trace_kprobe_create_internal()` and `register_trace_kprobe()` in
//! `kernel/trace/trace_kprobe.c`, `trace_fprobe_create_internal()` and
//! `register_trace_fprobe_event()` in `kernel/trace/trace_fprobe.c`, `__trace_eprobe_create()` in
//! `kernel/trace/trace_eprobe.c`.

use kernel::prelude::*;

use probe::command::{
    Command,
    Target, //
};

use crate::{
    create_object::create_object,
    failure::Failure,
    kinds,
    new_probe::create_with, //
};

/// Creates the probe of a command, and its event unless it exists. Process context; reads files.
#[inline(never)]
pub(crate) fn create(command: &Command<'_>) -> Result<(), Failure> {
    match command.target {
        Target::Object(target) => create_object(command, target),
        _ => create_with(&*complete(command)?, None),
    }
}

/// Completes a command by what the kernel knows about its target.
#[inline(never)]
fn complete<'a>(command: &Command<'a>) -> Result<KBox<Command<'a>>, Failure> {
    let command = kinds::with(command.target, |kind| kind.complete(command))?;
    Ok(KBox::new(command, GFP_KERNEL)?)
}
