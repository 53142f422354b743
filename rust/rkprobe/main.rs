// SPDX-License-Identifier: GPL-2.0

//! rkprobe: dynamic kernel tracing.
//!
//! Loading the module makes files in the root of tracefs ([`files`]). A command written there
//! becomes an event with a probe ([`commands`]), which the [`registry`] keeps; a hit of the probe
//! becomes a record ([`recorder`]), and a record a line of the trace ([`printer`]).
//!
//! Locks, outermost first: the kernel's of module notifiers, and of `dynamic_events`, `COMMANDS`,
//! `event_mutex`, `REGISTRY`, the list of an event's probes, the state of a probe, what is known of
//! [`signature`]s. What is known of [`symbols`], and what was asked of [`exits`], have locks right
//! below `COMMANDS`: a seq_file is read under it, and so under nothing that the showing of one
//! takes.

use kernel::prelude::*;
use kernel::ThisModule;
use ktrace::dyn_event;
use ktrace::module::Notifier;
use ktrace::trace_event::EventMutex;

use crate::commands::Modules;
use crate::dynamic::Dynamic;

mod armed;
mod commands;
mod dynamic;
mod error_log;
mod event;
#[cfg(CONFIG_RKPROBE_EXPORTS)]
mod event_probe;
mod exits;
mod failure;
mod files;
mod hook;
mod parameters;
mod plan;
mod printer;
mod reader;
mod recorder;
mod registry;
mod return_probe;
mod shape;
mod signature;
mod symbols;

module! {
    type: Rkprobe,
    name: "rkprobe",
    authors: ["rkprobe maintainers"],
    description: "Dynamic kernel tracing in Rust",
    license: "GPL v2",
}

struct Rkprobe {
    /// Dropped first: after that nobody writes commands.
    files: KVec<ktrace::tracefs::File>,
    /// After that nobody writes them into the kernel's file.
    dynamic: Option<dyn_event::Registration>,
    /// Dropped before the probes.
    modules: Option<Notifier<Modules>>,
}

impl kernel::Module for Rkprobe {
    fn init(module: &'static ThisModule) -> Result<Self> {
        // SAFETY: The kernel initialises a module once, and nothing else was used yet.
        unsafe {
            ktrace::init();
            commands::init();
            error_log::init();
            exits::init();
            registry::init();
            signature::init();
            symbols::init();
        }
        if EventMutex::with(|_| ()).is_err() {
            pr_err!("the kernel made no control event for this module\n");
            return Err(ENODEV);
        }
        // From here on `drop` undoes everything.
        let mut this = Self {
            files: KVec::new(),
            dynamic: None,
            modules: None,
        };
        this.modules = Some(Notifier::register(Modules)?);
        // SAFETY: All probes are removed when `this` is dropped.
        this.dynamic = Some(unsafe { dyn_event::register::<Dynamic>() }?);
        files::create(module, &mut this.files)?;
        parameters::apply()?;
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
        signature::clear();
        symbols::clear();
        // SAFETY: The module is unloaded once, and everything that it had was dropped above;
        // modules that use it were unloaded before.
        unsafe { ktrace::exit() };
    }
}
