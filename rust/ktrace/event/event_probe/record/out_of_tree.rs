// SPDX-License-Identifier: GPL-2.0

//! Records of events. Outside the kernel tree, no event has an event probe, so no such record
//! exists.

use core::{
    convert::Infallible,
    marker::PhantomData, //
};

use kernel::{
    bindings::pt_regs,
    types::NotThreadSafe, //
};

use crate::{
    event::record::origin::{
        Origin,
        Sealed,
        State, //
    },
    hit::registers::Registers, //
};

/// A record of an event.
#[derive(Clone, Copy)]
pub struct Record<'a>(Infallible, PhantomData<&'a [u8]>, NotThreadSafe);

impl<'a> Record<'a> {
    /// The bytes of the record, from its header to the end of its fields.
    pub fn bytes(&self) -> &'a [u8] {
        match self.0 {}
    }
}

impl<'a> Origin for Record<'a> {
    fn state(&self) -> State<&'a Registers> {
        match self.0 {}
    }
}

impl<'a> Sealed for Record<'a> {
    type Registers = &'a Registers;

    const NEEDS_ROOM: bool = false;

    fn whole(&self) -> *mut pt_regs {
        match self.0 {}
    }

    /// # Safety
    ///
    /// The caller has no requirements to meet, because no value exists.
    unsafe fn for_perf(&self, _room: *mut pt_regs) -> *mut pt_regs {
        match self.0 {}
    }
}
