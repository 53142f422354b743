// SPDX-License-Identifier: GPL-2.0

//! The kernel does not offer its `dynamic_events` to an out-of-tree module. Nothing in this file
//! has an effect.

use kernel::prelude::*;

use crate::event::{
    dyn_event::handler::{
        Commands,
        Entries, //
    },
    mutex::EventMutex, //
};

/// See [`super::exit`].
pub(crate) fn exit() {}

/// See [`crate::dyn_event::DynEvent`].
pub(crate) struct DynEvent;

impl DynEvent {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self)
    }

    pub(crate) fn add<E: Entries>(&self, _: &EventMutex, _number: usize) {}

    pub(crate) fn remove(&self, _: &EventMutex) {}
}

/// See [`crate::dyn_event::register`].
// In the kernel tree, the type parameter selects the handler.
#[allow(clippy::extra_unused_type_parameters)]
pub(crate) fn register_dyn_events<C: Commands>() -> Result {
    Ok(())
}

/// See [`crate::dyn_event::Registration`].
pub(crate) fn unregister_dyn_events() {}
