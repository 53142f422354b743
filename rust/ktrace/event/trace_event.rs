// SPDX-License-Identifier: GPL-2.0

//! Trace events that a module adds and removes at run time.
//!
//! A [`TraceEvent`] is a directory under `events/` in tracefs, with its `enable`, `filter`,
//! `trigger`, `format` and `hist`. A handler passes its records to the event's [`Sink`], which
//! delivers them to each user that enabled the event. An [`Output`] prints the records, even after
//! the event is removed.
//!
//! Most modules need only the macro [`trace_event!`](crate::trace_event!).
//!
//! C header: [`include/linux/trace_events.h`](srctree/include/linux/trace_events.h)

use kernel::prelude::*;

mod definition;
mod enabling;
mod event;
mod field;
mod field_list;
mod group;
mod here;
mod name;
mod operations;
pub(crate) mod origin;
mod output;
mod pinned_event;
mod record_type;
mod removal;
mod sink;
mod switch;

pub use super::mutex::{
    EventMutex,
    EventMutexHeld, //
};
pub use enabling::{
    disable,
    enable, //
};
pub use event::TraceEvent;
pub use field::{
    CowCStr,
    Field,
    Number, //
};
pub use group::Group;
pub use name::{
    exists,
    NewName, //
};
pub use operations::{
    Definition,
    Operations, //
};
pub use origin::{
    Origin,
    State, //
};
pub use output::{
    Output,
    Print,
    TraceSeq, //
};
pub use record_type::{
    Comm,
    RecordType, //
};
pub use removal::empty_traces;
pub use sink::{
    Fill,
    Sink,
    HEADER_LEN,
    MAX_LEN, //
};
pub use switch::Switch;

/// Implementation details of [`trace_event!`](crate::trace_event!).
#[doc(hidden)]
pub mod private {
    pub use super::{
        definition::{
            check,
            event_name,
            field_name,
            place,
            record,
            record_at,
            register,
            Event,
            Key,
            Names,
            StaticEvent, //
        },
        record_type::{
            Column,
            Fields,
            Hex,
            Kind,
            Plain,
            Strings,
            Symbol,
            Value, //
        },
    };
}

/// Initializes trace events, when the module that holds this crate loads.
///
/// # Errors
///
/// `ENOMEM`, and the kernel's error if it cannot add the control event.
///
/// # Safety
///
/// The caller calls this function once, before anything else of this module is used, and after
/// [`mutex::init`](super::mutex::init).
pub(crate) unsafe fn init() -> Result {
    // SAFETY: The caller calls this once, before any other use.
    unsafe {
        enabling::init();
        output::init();
    }
    removal::init()
}

/// Ends trace events: when the module unloads, and when its initialisation fails after [`init`]. No
/// event and no output of the module may exist.
pub(crate) fn exit() {
    removal::exit();
}
