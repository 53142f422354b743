// SPDX-License-Identifier: GPL-2.0

//! Outside of the kernel's tree.

use kernel::prelude::*;
use kernel::str::CStr;

use crate::dyn_event::Handler;
use crate::trace_event::EventMutex;

mod event_mutex;
mod kallsyms;
mod repeated;
mod symbol;

pub(crate) use event_mutex::init;
pub(crate) use event_mutex::with_event_mutex;
pub use repeated::Repeated;
pub(crate) use symbol::address_of;
pub(crate) use symbol::exists;

/// The types of the kernel, where they can be had without a file.
pub(crate) fn kernel_btf() -> Option<&'static [u8]> {
    None
}

/// See [`crate::exit`].
pub(crate) fn exit() {}

/// See [`crate::error_log::IS_OPEN`].
pub(crate) const HAS_ERROR_LOG: bool = false;

/// See [`crate::error_log::add`].
pub(crate) fn log_error(_subsystem: &CStr, _command: &CStr, _text: &CStr, _caret: u16) {}

/// See [`crate::dyn_event::DynEvent`].
pub(crate) struct DynEvent;

impl DynEvent {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self)
    }

    pub(crate) fn add<H: Handler>(&self, _: &EventMutex, _number: usize) {}

    pub(crate) fn remove(&self, _: &EventMutex) {}
}

/// See [`crate::dyn_event::register`].
// In the kernel's tree the parameter says who is called.
#[allow(clippy::extra_unused_type_parameters)]
pub(crate) fn register_dyn_events<H: Handler>() -> Result {
    Ok(())
}

/// See [`crate::dyn_event::Registration`].
pub(crate) fn unregister_dyn_events() {}
