// SPDX-License-Identifier: GPL-2.0

//! No event probe can exist. The methods are those of `in_tree.rs`.

use core::{
    convert::Infallible,
    marker::PhantomData, //
};

use kernel::{
    prelude::*,
    str::{
        CStr,
        CString, //
    },
};

use probe::{
    argument::RecordField,
    command::RecordFields, //
};

use crate::{
    event::{
        event_probe::handler::Handler,
        mutex::EventMutexHeld, //
    },
    support::unsupported, //
};

/// A held event.
#[derive(Debug)]
pub struct Event(Infallible);

impl Event {
    /// Fails with `EOPNOTSUPP`.
    pub fn get(_system: &CStr, _name: &CStr) -> Result<Self> {
        Err(unsupported())
    }
}

impl RecordFields for Event {
    fn find(&self, _name: &str) -> Option<RecordField> {
        match self.0 {}
    }
}

/// A handler that can be attached to an event.
pub struct EventProbe<H: Handler>(Event, PhantomData<H>);

impl<H: Handler> EventProbe<H> {
    /// Creates an event probe that is not attached. Process context.
    pub fn new<E>(
        event: Event,
        _filter: Option<CString>,
        _handler: impl PinInit<H, E>,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        match event.0 {}
    }

    /// Attaches the handler. Process context.
    pub fn attach(&self, _: &EventMutexHeld) -> Result {
        match self.0 .0 {}
    }

    /// Detaches the handler, if it is attached. Process context.
    pub fn detach(&self, _: &EventMutexHeld) {
        match self.0 .0 {}
    }

    /// The number of records for which the handler did not run. Any context.
    pub fn missed(&self) -> u64 {
        match self.0 .0 {}
    }

    /// The handler. Any context.
    pub fn handler(&self) -> &H {
        match self.0 .0 {}
    }
}
