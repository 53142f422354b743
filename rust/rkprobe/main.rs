// SPDX-License-Identifier: GPL-2.0

//! rkprobe: dynamic kernel tracing.
//!
//! Loading the module makes files in the root of tracefs ([`files`]). A command written there
//! becomes an event with a probe ([`commands`]), which the [`registry`] keeps; a hit of the probe
//! becomes a record ([`recorder`]), and a record a line of the trace ([`printer`]).
//!
//! Locks, outermost first: the kernel's of module notifiers, and of `dynamic_events`; `COMMANDS`;
//! the locks of [`resolve`] and [`symbols`], and the one that `ktrace` holds while it opens a
//! file; `event_mutex`; `REGISTRY`. What was asked of [`exits`] has a lock right below `COMMANDS`.
//!
//! A file is never opened with `event_mutex` held or with a lock that is taken under it: lockdep
//! reports who does. `Documentation/rust/rkprobe-internals.rst` has all locks, and the order of the
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

mod commands;
mod compile;
mod create;
mod entry_saver;
mod error_log;
mod event;
mod exits;
mod failure;
mod files;
mod object;
mod parameters;
mod printer;
mod reader;
mod recorder;
mod register;
mod registered;
mod registry;
mod resolve;
mod schema;
mod spec;
mod symbols;

module! {
    type: Rkprobe,
    name: "rkprobe",
    authors: ["rkprobe maintainers"],
    description: "Dynamic kernel tracing in Rust",
    license: "GPL v2",
}

/// The module, initialised or being so. The fields are dropped, in this order, before anything else
/// is removed.
struct Rkprobe {
    /// Others can reach the files, and through them everything else.
    files: KVec<ktrace::tracefs::File>,
    /// Others can write commands into the kernel's file.
    dynamic: Option<dyn_event::Registration>,
    modules: Option<Notifier<Modules>>,
}

impl kernel::Module for Rkprobe {
    fn init(module: &'static ThisModule) -> Result<Self> {
        // SAFETY: The kernel initialises a module once, and nothing else was used yet.
        unsafe {
            commands::init();
            error_log::init();
            exits::init();
            registry::init();
            resolve::init();
            symbols::init();
            ktrace::init()
        }
        .inspect_err(|error| pr_err!("this kernel is not supported: {error:?}\n"))?;
        // From here on `drop` undoes everything.
        let mut this = Self {
            files: KVec::new(),
            dynamic: None,
            modules: None,
        };
        ktrace::assumptions::check(module)?;
        this.modules = Some(Notifier::register(Modules)?);
        parameters::apply()?;
        // Last, for a failure after this would have to wait for others.
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
        resolve::clear();
        symbols::clear();
        // SAFETY: This is the last step of the module's exit, or of its failing initialisation.
        // Everything that the module had was dropped above; modules that use it were unloaded
        // before.
        unsafe { ktrace::exit() };
    }
}
