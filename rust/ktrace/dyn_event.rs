// SPDX-License-Identifier: GPL-2.0

//! The kernel's `dynamic_events` in tracefs: commands that are written there, and entries in its
//! listing. It is open in the kernel's tree alone; elsewhere nothing here does anything.
//!
//! For rkprobe alone: it is not exported to other modules.
//!
//! C: `kernel/trace/trace_dynevent.h`.

use kernel::prelude::*;

use crate::{
    trace_event::EventMutex,
    tree, //
};

pub use crate::tree::Arguments;
pub use handler::{
    Commands,
    Entries, //
};

pub(crate) mod handler;

/// An entry of the listing: of the probe of a number. Dropping it takes it out of the listing.
pub struct DynEvent(tree::DynEvent);

impl DynEvent {
    /// One that is not in the listing. `ENOMEM`.
    pub fn new() -> Result<Self> {
        Ok(Self(tree::DynEvent::new()?))
    }

    /// Puts it into the listing, if it is not there: `E` is asked about this number from now on.
    pub fn add<E: Entries>(&self, token: &EventMutex, number: usize) {
        self.0.add::<E>(token, number);
    }

    /// Removes the entry, if it is in the list. Afterwards, nobody calls `E` for it.
    pub fn remove(&self, token: &EventMutex) {
        self.0.remove(token);
    }
}

/// A registered handler: no command comes after it was dropped. Dropping waits for a command that
/// is being carried out, so it is not for use in [`Commands::create`].
///
/// It does not matter whether [entries](DynEvent) go before or after it.
pub struct Registration(());

/// Registers who takes commands: there can be one, else `EBUSY`. Process context.
pub fn register<C: Commands>() -> Result<Registration> {
    tree::register_dyn_events::<C>()?;
    Ok(Registration(()))
}

impl Drop for Registration {
    fn drop(&mut self) {
        tree::unregister_dyn_events();
    }
}
