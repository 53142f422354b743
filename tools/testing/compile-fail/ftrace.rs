// SPDX-License-Identifier: GPL-2.0

//! Handlers on ftrace itself.

use kernel::prelude::*;

use ktrace::{
    ftrace::{
        Filter,
        FtraceOps,
        Handler, //
    },
    function::Call, //
};

pub struct Nothing;

impl Handler for Nothing {
    fn entry(&self, call: &Call<'_>) {
        let _: usize = call.caller();

        //~ call_kept: error: lifetime may not live long enough
        #[cfg(case = "call_kept")]
        let _: &'static Call<'static> = call;

        //~ call_constructed: error[E0624]: associated function `new` is private
        #[cfg(case = "call_constructed")]
        let _ = Call::new(0, 0, core::ptr::null_mut());
    }
}

pub fn register() -> Result<FtraceOps<Nothing>> {
    FtraceOps::new(Filter::Glob(c"vfs_*"), Nothing)
}

/// Nobody traces every function by forgetting the filter.
//~ all_functions: error[E0599]: named `All` found
#[cfg(case = "all_functions")]
pub fn register_all() -> Result<FtraceOps<Nothing>> {
    FtraceOps::new(Filter::All, Nothing)
}

pub fn use_ops(ops: FtraceOps<Nothing>) {
    let _: &Nothing = ops.handler();

    //~ cloned: error[E0599]: no method named `clone`
    #[cfg(case = "cloned")]
    let _ = ops.clone();

    //~ taken_apart: error[E0616]: field `inner` of struct `FtraceOps` is private
    #[cfg(case = "taken_apart")]
    let _ = &ops.inner;

    //~ used_after_drop: error[E0382]: borrow of moved value: `ops`
    #[cfg(case = "used_after_drop")]
    {
        drop(ops);
        ops.handler();
    }
}

/// A handler runs on every CPU at once.
#[cfg(case = "not_sync")]
pub struct NotSync(core::cell::Cell<u32>);

//~ not_sync: error[E0277]: `Cell<u32>` cannot be shared between threads safely
#[cfg(case = "not_sync")]
impl Handler for NotSync {
    fn entry(&self, _: &Call<'_>) {}
}

/// A handler is dropped where the probe is, which may be in another task.
#[cfg(case = "not_send")]
pub struct Locked(kernel::sync::lock::Guard<'static, u32, kernel::sync::lock::mutex::MutexBackend>);

//~ not_send: error[E0277]: `*mut ()` cannot be sent between threads safely
#[cfg(case = "not_send")]
impl Handler for Locked {
    fn entry(&self, _: &Call<'_>) {}
}

/// A probe may live for any time: so does what its handler has.
#[cfg(case = "borrowed")]
pub struct Borrowed<'a>(&'a u32);

//~ borrowed: error[E0478|E0495]: lifetime bound not satisfied
#[cfg(case = "borrowed")]
impl<'a> Handler for Borrowed<'a> {
    fn entry(&self, _: &Call<'_>) {}
}
