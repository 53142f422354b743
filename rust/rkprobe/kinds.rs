// SPDX-License-Identifier: GPL-2.0

//! All kinds of probes. No other file of rkprobe lists them.

mod call_tree;
mod event_probe;
mod fprobe;
mod kprobe;
mod object;
mod tracepoint;
mod watchpoint;

use probe::command::Target;

use crate::kind::Kind;

/// Calls `f` with the kind of a target.
pub(crate) fn with<'a, R>(target: Target<'a>, f: impl FnOnce(&dyn Kind<'a>) -> R) -> R {
    match target {
        Target::Symbol { symbol, offset } => f(&kprobe::Symbol { symbol, offset }),
        Target::AllNamed(name) => f(&kprobe::AllNamed(name)),
        Target::Address(address) => f(&kprobe::Address(address)),
        Target::Functions(pattern) => f(&fprobe::Functions(pattern)),
        Target::Tracepoint(name) => f(&tracepoint::Name(name)),
        Target::Event { system, name } => f(&event_probe::Attached { system, name }),
        Target::Memory(watched) => f(&watched),
        Target::Object(target) => f(&target),
        Target::CallTree(target) => f(&target),
    }
}
