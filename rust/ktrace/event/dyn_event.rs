// SPDX-License-Identifier: GPL-2.0

//! The kernel's `dynamic_events` in tracefs: commands that users write to this file, and entries in
//! its listing. The kernel offers this interface only to code in its own tree. In other builds, the
//! functions in this file do nothing.
//!
//! Only rkprobe uses this file. Other modules cannot use it.
//!
//! C: `kernel/trace/trace_dynevent.h`.

use kernel::prelude::*;

use crate::{
    event::mutex::EventMutex,
    support::tree_variants, //
};

pub use arguments::Arguments;
pub use handler::{
    Commands,
    Entries, //
};

mod arguments;
pub(crate) mod handler;

tree_variants!();

/// Cleans up the interface. The module that contains this crate calls this function when it
/// unloads, in process context.
pub(crate) fn exit() {
    tree::exit();
}

/// An entry of the listing, for the probe with a number. Dropping the entry removes it from the
/// listing.
pub struct DynEvent(tree::DynEvent);

impl DynEvent {
    /// Creates an entry that is not in the listing. `ENOMEM`.
    #[export_name = "ktrace_own_new_dyn_event"]
    pub fn new() -> Result<Self> {
        Ok(Self(tree::DynEvent::new()?))
    }

    /// Adds the entry to the listing, if it is not there yet. The kernel then calls `E` with this
    /// number.
    pub fn add<E: Entries>(&self, token: &EventMutex, number: usize) {
        self.0.add::<E>(token, number);
    }

    /// Removes the entry, if it is in the listing. Afterwards, the kernel no longer calls `E` for
    /// it.
    #[export_name = "ktrace_own_remove_dyn_event"]
    pub fn remove(&self, token: &EventMutex) {
        self.0.remove(token);
    }
}

/// A registered handler of commands. Dropping the registration waits for a running command, and no
/// command runs afterwards. So [`Commands::create`] must not drop it.
///
/// The registration can be dropped before or after its [entries](DynEvent).
pub struct Registration(());

/// Registers the handler of commands. `EBUSY` if a handler is registered already. Process context.
pub fn register<C: Commands>() -> Result<Registration> {
    tree::register_dyn_events::<C>()?;
    Ok(Registration(()))
}

impl Drop for Registration {
    #[export_name = "ktrace_own_unregister_dyn_events"]
    fn drop(&mut self) {
        tree::unregister_dyn_events();
    }
}
