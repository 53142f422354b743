// SPDX-License-Identifier: GPL-2.0

//! Handlers for accesses to memory.

use kernel::prelude::*;

use ktrace::{
    percpu::Scratch,
    trace_event::Origin,
    watchpoint::{
        Access,
        Handler,
        Hit,
        Target,
        Watchpoint, //
    },
};

pub struct Look(Scratch<64>);

impl Handler for Look {
    fn hit(&self, hit: &Hit<'_>) {
        let _: usize = hit.address();
        self.0.with(hit.state().atomic(), |_| ());

        //~ hit_kept: error: lifetime may not live long enough
        #[cfg(case = "hit_kept")]
        let _: &'static Hit<'static> = hit;

        //~ hit_constructed: error[E0423]: private fields
        #[cfg(case = "hit_constructed")]
        let _ = Hit(*hit);

        //~ not_atomic: error[E0308]: expected `&Atomic`, found `&Hit<'_>`
        #[cfg(case = "not_atomic")]
        self.0.with(hit, |_| ());
    }
}

pub fn register(target: Target) -> Result<Watchpoint<Look>> {
    let _ = Access::Write;
    Watchpoint::new(target, Look(Scratch::new()?))
}

pub fn use_watchpoint(watchpoint: Watchpoint<Look>) {
    let handler: &Look = watchpoint.handler();
    let _ = handler;

    //~ handler_outlives: error[E0505]: cannot move out of `watchpoint` because it is borrowed
    #[cfg(case = "handler_outlives")]
    {
        drop(watchpoint);
        let _: &Look = &*handler;
    }

    //~ cloned: error[E0599]: no method named `clone`
    #[cfg(case = "cloned")]
    let _ = watchpoint.clone();

    //~ taken_apart: error[E0616]: field `inner` of struct `Watchpoint` is private
    #[cfg(case = "taken_apart")]
    let _ = &watchpoint.inner;
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
