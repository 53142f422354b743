// SPDX-License-Identifier: GPL-2.0

//! Handlers on tracepoints.

use kernel::prelude::*;

use ktrace::{
    percpu::Scratch,
    tracepoint::{
        Handler,
        Hit,
        Tracepoint, //
    },
};

pub struct Look(Scratch<64>);

impl Handler for Look {
    fn hit(&self, hit: &Hit<'_>) {
        let _: u64 = hit.arg::<u64>(0);
        self.0.with(hit.call().atomic(), |_| ());

        //~ hit_kept: error: lifetime may not live long enough
        #[cfg(case = "hit_kept")]
        let _: &'static Hit<'static> = hit;

        //~ hit_constructed: error[E0423]: private fields
        #[cfg(case = "hit_constructed")]
        let _ = Hit(hit.call());

        //~ not_atomic: error[E0308]: expected `&Atomic`, found `&Hit<'_>`
        #[cfg(case = "not_atomic")]
        self.0.with(hit, |_| ());
    }
}

pub fn attach() -> Result<Tracepoint<Look>> {
    Tracepoint::attach(c"sched_switch", Look(Scratch::new()?))
}

pub fn use_tracepoint(tracepoint: Tracepoint<Look>) {
    let handler: &Look = tracepoint.handler();
    let _ = handler;

    //~ handler_outlives: error[E0505]: cannot move out of `tracepoint` because it is borrowed
    #[cfg(case = "handler_outlives")]
    {
        drop(tracepoint);
        let _: &Look = &*handler;
    }

    //~ cloned: error[E0599]: no method named `clone`
    #[cfg(case = "cloned")]
    let _ = tracepoint.clone();

    //~ taken_apart: error[E0616]: field `inner` of struct `Tracepoint` is private
    #[cfg(case = "taken_apart")]
    let _ = &tracepoint.inner;
}

/// A handler runs on every CPU at once.
#[cfg(case = "not_sync")]
pub struct NotSync(core::cell::Cell<u32>);

//~ not_sync: error[E0277]: `Cell<u32>` cannot be shared between threads safely
#[cfg(case = "not_sync")]
impl Handler for NotSync {
    fn hit(&self, _: &Hit<'_>) {}
}

/// A handler is dropped where the probe is, which may be in another task.
#[cfg(case = "not_send")]
pub struct Locked(kernel::sync::lock::Guard<'static, u32, kernel::sync::lock::mutex::MutexBackend>);

//~ not_send: error[E0277]: `*mut ()` cannot be sent between threads safely
#[cfg(case = "not_send")]
impl Handler for Locked {
    fn hit(&self, _: &Hit<'_>) {}
}

/// A probe may live for any time: so does what its handler has.
#[cfg(case = "borrowed")]
pub struct Borrowed<'a>(&'a u32);

//~ borrowed: error[E0478|E0495]: lifetime bound not satisfied
#[cfg(case = "borrowed")]
impl<'a> Handler for Borrowed<'a> {
    fn hit(&self, _: &Hit<'_>) {}
}
