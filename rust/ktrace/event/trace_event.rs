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

pub use super::{
    definition::{
        record_type::{
            Comm,
            RecordType, //
        },
        switch::Switch, //
    },
    mutex::{
        EventMutex,
        EventMutexHeld, //
    },
    record::{
        callers::prepare_callers,
        origin::{
            Origin,
            State, //
        },
        print::{
            error_name,
            Print,
            TraceSeq, //
        },
        sink::{
            Fill,
            Sink,
            HEADER_LEN,
            MAX_LEN, //
        },
    },
    registration::{
        enabling::{
            disable,
            enable, //
        },
        event::TraceEvent,
        field::{
            CowCStr,
            Field,
            Number, //
        },
        group::Group,
        name::{
            exists,
            NewName, //
        },
        operations::{
            Definition,
            Operations, //
        },
        output::Output,
        removal::empty_traces,
        users::EventUsers, //
    },
};

/// Implementation details of [`trace_event!`](crate::trace_event!).
#[doc(hidden)]
pub mod private {
    pub use crate::event::definition::{
        check,
        event_name,
        field_name,
        place,
        record,
        record_at,
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
        register,
        Event,
        Key,
        Names,
        StaticEvent, //
    };
}
