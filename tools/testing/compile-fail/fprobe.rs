// SPDX-License-Identifier: GPL-2.0

//! Fprobes: what may be kept of a call, and for how long it may be looked at.

use kernel::prelude::*;

use ktrace::{
    fprobe::{
        Fprobe,
        Functions,
        Handler, //
    },
    function::Call, //
};

/// The data goes into memory that is used again without being dropped.
#[cfg(not(any(
    case = "data_not_copy",
    case = "data_not_send",
    case = "data_too_large"
)))]
#[cfg(not(any(case = "data_overaligned", case = "data_call")))]
type Data = [u64; 14];

//~ data_too_large: error[E0080]: fprobe data must not be larger than 112 bytes
#[cfg(case = "data_too_large")]
type Data = [u64; 15];

//~ data_not_copy: error[E0277]: the trait bound `Box<u32, Kmalloc>:
#[cfg(case = "data_not_copy")]
type Data = KBox<u32>;

/// A call may return on another CPU.
//~ data_not_send: error[E0277]: `*mut u32` cannot be sent between threads safely
#[cfg(case = "data_not_send")]
type Data = *mut u32;

//~ data_call: error[E0277]: `*mut ()` cannot be sent between threads safely
#[cfg(case = "data_call")]
type Data = Call<'static>;

/// The data stands on a stack of words.
//~ data_overaligned: error[E0080]: fprobe data must not be aligned to more than a word
#[cfg(case = "data_overaligned")]
#[derive(Clone, Copy)]
#[repr(align(16))]
pub struct Data(u64);

pub struct Keep;

#[vtable]
impl Handler for Keep {
    type Data = Data;

    fn entry(&self, call: &Call<'_>) -> Option<Self::Data> {
        let _ = call.atomic();

        //~ call_kept: error: lifetime may not live long enough
        #[cfg(case = "call_kept")]
        let _: &'static Call<'static> = call;

        //~ atomic_kept: error: lifetime may not live long enough
        #[cfg(case = "atomic_kept")]
        let _: &'static ktrace::context::Atomic = call.atomic();

        //~ call_copied: error: lifetime may not live long enough
        #[cfg(case = "call_copied")]
        let _: Call<'static> = *call;

        //~ registers_partial: error[E0616]: field `registers` of struct `ktrace::function::Call` is private
        #[cfg(case = "registers_partial")]
        let _ = call.registers.by_name("r15");

        todo()
    }

    fn exit(&self, _: &Call<'_>, data: &Self::Data) {
        let _: &Data = data;

        //~ data_kept: error: lifetime may not live long enough
        #[cfg(case = "data_kept")]
        let _: &'static Data = data;

        //~ data_written: error[E0594]: cannot assign to
        #[cfg(case = "data_written")]
        {
            data[0] = 1;
        }
    }
}

pub fn register() -> Result<Fprobe<Keep>> {
    Fprobe::new(Functions::Globs(&[c"vfs_*"], &[]), Keep)
}

pub fn use_probe(probe: Fprobe<Keep>) {
    let handler: &Keep = probe.handler();
    let _ = handler;

    //~ handler_outlives: error[E0505]: cannot move out of `probe` because it is borrowed
    #[cfg(case = "handler_outlives")]
    {
        drop(probe);
        let _: &Keep = &*handler;
    }

    //~ cloned: error[E0599]: no method named `clone`
    #[cfg(case = "cloned")]
    let _ = probe.clone();

    //~ taken_apart: error[E0616]: field `slot` of struct `Fprobe` is private
    #[cfg(case = "taken_apart")]
    let _ = probe.slot;

    //~ used_after_drop: error[E0382]: borrow of moved value: `probe`
    #[cfg(case = "used_after_drop")]
    {
        drop(probe);
        probe.missed();
    }
}

/// A handler runs on every CPU at once.
#[cfg(case = "not_sync")]
pub struct NotSync(core::cell::Cell<u32>);

//~ not_sync: error[E0277]: `Cell<u32>` cannot be shared between threads safely
#[cfg(case = "not_sync")]
#[vtable]
impl Handler for NotSync {
    type Data = ();

    fn entry(&self, _: &Call<'_>) -> Option<()> {
        None
    }
}

/// A handler is dropped where the probe is, which may be in another task.
#[cfg(case = "not_send")]
pub struct Locked(kernel::sync::lock::Guard<'static, u32, kernel::sync::lock::mutex::MutexBackend>);

//~ not_send: error[E0277]: `*mut ()` cannot be sent between threads safely
#[cfg(case = "not_send")]
#[vtable]
impl Handler for Locked {
    type Data = ();

    fn entry(&self, _: &Call<'_>) -> Option<()> {
        None
    }
}

/// A probe may live for any time: so does what its handler has.
#[cfg(case = "borrowed")]
pub struct Borrowed<'a>(&'a u32);

//~ borrowed: error[E0478|E0495]: lifetime bound not satisfied
#[cfg(case = "borrowed")]
#[vtable]
impl<'a> Handler for Borrowed<'a> {
    type Data = ();

    fn entry(&self, _: &Call<'_>) -> Option<()> {
        None
    }
}

/// Anything.
pub fn todo<T>() -> T {
    loop {}
}
