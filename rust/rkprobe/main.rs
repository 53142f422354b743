// SPDX-License-Identifier: GPL-2.0

//! rkprobe: dynamic kernel tracing.
//!
//! When the module loads, it creates files in the root of tracefs ([`files`]). A command that a
//! user writes to such a file creates an event with a probe ([`commands`]). The [`registry`] keeps
//! the event. A hit of the probe writes a record ([`recorder`]). A reader of the trace sees the
//! record as a line ([`printer`]).
//!
//! `Documentation/rust/rkprobe-internals.rst` lists all locks, their order, and the order of the
//! files.

use kernel::{
    prelude::*,
    ThisModule, //
};

use ktrace::{
    dyn_event,
    module_notifier::Notifier, //
};

use crate::commands::{
    Dynamic,
    Modules, //
};

mod action;
mod argument_words;
mod block_probes;
mod call_functions;
mod call_tree;
mod calls;
mod collect;
mod commands;
mod compile;
mod condition;
mod counting;
mod counts;
mod create;
mod create_object;
mod entry_saver;
mod error_log;
mod event;
mod exits;
mod failure;
mod files;
mod hit_context;
mod hook;
mod kind;
mod kinds;
mod new_probe;
mod object;
mod object_probe;
mod object_recorder;
mod parameters;
mod path;
mod patterns;
mod printer;
mod reader;
mod record_head;
mod records;
mod registered;
mod registry;
mod resolve;
mod schema;
mod seq_text;
mod spec;
mod symbols;
mod tally;
mod task_free;

module! {
    type: Rkprobe,
    name: "rkprobe",
    authors: ["rkprobe maintainers"],
    description: "Dynamic kernel tracing in Rust",
    license: "GPL v2",
}

/// The module, during or after its initialisation. `drop` drops the fields first, in this order.
struct Rkprobe {
    /// The control files. Through them, users can reach everything else.
    files: KVec<ktrace::tracefs::File>,
    /// The connection to the kernel's `dynamic_events`, to which users can write commands.
    dynamic: Option<dyn_event::Registration>,
    modules: Option<Notifier<Modules>>,
}

impl kernel::Module for Rkprobe {
    fn init(module: &'static ThisModule) -> Result<Self> {
        // SAFETY: The kernel initialises a module once. No other code has run before.
        unsafe {
            argument_words::init();
            commands::init();
            error_log::init();
            exits::init();
            registry::init();
            resolve::init();
            symbols::init();
            ktrace::init()
        }
        .inspect_err(|error| pr_err!("this kernel is not supported: {error:?}\n"))?;
        // From here on, `drop` undoes everything.
        let mut this = Self {
            files: KVec::new(),
            dynamic: None,
            modules: None,
        };
        ktrace::assumptions::check(module)?;
        this.modules = Some(Notifier::register(Modules)?);
        parameters::apply()?;
        // Late, because a failure after this step waits for users of the kernel's file.
        this.dynamic = Some(dyn_event::register::<Dynamic>()?);
        files::create(module, &mut this.files)?;
        Ok(this)
    }
}

impl Drop for Rkprobe {
    fn drop(&mut self) {
        self.files.clear();
        self.dynamic = None;
        self.modules = None;
        registry::shut_down();
        error_log::clear();
        exits::clear();
        argument_words::clear();
        resolve::clear();
        symbols::clear();
        // SAFETY: This is the last step of the module's exit, or of its failing initialisation. The
        // drops above have freed all objects of the module. The kernel unloaded the modules that
        // use this module before.
        unsafe { ktrace::exit() };
    }
}
