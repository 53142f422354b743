// SPDX-License-Identifier: GPL-2.0

//! ktrace in an out-of-tree module, which has only the kernel's own exports.

use kernel::str::CStr;

mod arguments;
mod dyn_event;
mod event_mutex;
mod event_probe;
mod event_record;
mod kallsyms;
mod repeated;
mod rethook;
mod symbol;
mod symbol_table;

pub use arguments::Arguments;
pub(crate) use dyn_event::{
    register_dyn_events,
    unregister_dyn_events,
    DynEvent, //
};
pub(crate) use event_mutex::{
    init,
    with_event_mutex, //
};
pub use event_probe::{
    Event,
    EventProbe, //
};
pub use event_record::Record;
pub use repeated::Repeated;
pub use rethook::Rethook;
pub(crate) use symbol::{
    address_of,
    addresses_in_kernel,
    each_named,
    exists, //
};

/// The kernel's BTF, if it is available without a file. An out-of-tree module must read the file.
pub(crate) fn kernel_btf() -> Option<&'static [u8]> {
    None
}

/// See [`crate::exit`].
pub(crate) fn exit() {}

/// See [`crate::event_probe::ARE_SUPPORTED`].
pub(crate) const HAS_EVENT_PROBES: bool = false;

/// See [`crate::rethook::IS_SUPPORTED`].
pub(crate) const HAS_RETHOOK: bool = false;

/// See [`crate::error_log::IS_OPEN`].
pub(crate) const HAS_ERROR_LOG: bool = false;

/// See [`crate::error_log::add`].
pub(crate) fn log_error(_subsystem: &CStr, _command: &CStr, _text: &CStr, _caret: u16) {}
