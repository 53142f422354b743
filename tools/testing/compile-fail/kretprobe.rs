// SPDX-License-Identifier: GPL-2.0

//! Kretprobes: what may be kept of a call, and for how long it may be looked at.

use kernel::prelude::*;

use ktrace::{
    kprobe::Hit,
    kretprobe::{
        Call,
        Handler,
        Kretprobe, //
    },
};

/// The data goes into memory that is used again without being dropped.
#[cfg(not(any(
    case = "data_not_copy",
    case = "data_not_send",
    case = "data_too_large"
)))]
#[cfg(not(any(case = "data_overaligned", case = "data_registers", case = "data_hit")))]
type Data = [u64; 512];

//~ data_too_large: error[E0080]: kretprobe data must not be larger than 4096 bytes
#[cfg(case = "data_too_large")]
type Data = [u64; 513];

//~ data_not_copy: error[E0277]: the trait bound `Box<u32, Kmalloc>:
#[cfg(case = "data_not_copy")]
type Data = KBox<u32>;

/// A call may return on another CPU.
//~ data_not_send: error[E0277]: `*mut u32` cannot be sent between threads safely
#[cfg(case = "data_not_send")]
type Data = *mut u32;

//~ data_registers: error[E0277]: cannot be shared between threads safely
#[cfg(case = "data_registers")]
type Data = &'static ktrace::registers::Registers;

//~ data_hit: error[E0277]: `*mut ()` cannot be sent between threads safely
#[cfg(case = "data_hit")]
type Data = Hit<'static>;

/// The data follows a node that is aligned to a word.
//~ data_overaligned: error[E0080]: kretprobe data must not be aligned to more than a word
#[cfg(case = "data_overaligned")]
#[derive(Clone, Copy)]
#[repr(align(16))]
pub struct Data(u64);

pub struct Keep;

#[vtable]
impl Handler for Keep {
    type Data = Data;

    #[cfg(not(case = "data_without_entry"))]
    fn entry(&self, _: &Hit<'_>) -> Option<Self::Data> {
        todo()
    }

    fn ret(&self, _: &Hit<'_>, call: &Call<'_, Self::Data>) {
        let _: &Data = call.data();

        //~ call_kept: error: lifetime may not live long enough
        #[cfg(case = "call_kept")]
        let _: &'static Call<'static, Data> = call;

        //~ data_kept: error: lifetime may not live long enough
        #[cfg(case = "data_kept")]
        let _: &'static Data = call.data();

        //~ data_written: error[E0594]: cannot assign to
        #[cfg(case = "data_written")]
        {
            call.data()[0] = 1;
        }

        //~ call_constructed: error[E0451]: Call` is private
        #[cfg(case = "call_constructed")]
        let _: Call<'_, u32> = Call {
            caller: 0,
            data: &0,
        };
    }
}

/// There is nothing to look at where nobody gave it.
//~ data_without_entry: error[E0080]: kretprobe data needs an entry handler, or WITHOUT_ENTRY
pub fn register() -> Result<Pin<KBox<Kretprobe<Keep>>>> {
    KBox::pin_init(Kretprobe::new(c"kernel_clone", 0, Keep), GFP_KERNEL)
}

/// Without an entry handler somebody has to give a value: it may not be made of nothing.
pub mod forged {
    use super::*;

    /// Of another module, which alone can make one.
    pub mod other {
        #[derive(Clone, Copy)]
        pub struct Proof(());

        impl Proof {
            pub(super) const ONE: Option<Self> = Some(Self(()));
        }
    }

    #[derive(Clone, Copy)]
    pub enum Never {}

    #[derive(Clone, Copy)]
    pub struct Nothing;

    #[cfg(not(any(case = "data_uninhabited", case = "data_nothing")))]
    type Data = other::Proof;

    //~ data_uninhabited: error[E0080]: kretprobe data needs an entry handler, or WITHOUT_ENTRY
    #[cfg(case = "data_uninhabited")]
    type Data = Never;

    //~ data_nothing: error[E0080]: kretprobe data needs an entry handler, or WITHOUT_ENTRY
    #[cfg(case = "data_nothing")]
    type Data = Nothing;

    struct Forge;

    #[vtable]
    impl Handler for Forge {
        type Data = Data;

        //~ data_proof: error[E0080]: kretprobe data needs an entry handler, or WITHOUT_ENTRY
        #[cfg(not(any(
            case = "data_proof",
            case = "data_proof_made",
            case = "data_uninhabited",
            case = "data_nothing"
        )))]
        const WITHOUT_ENTRY: Option<Data> = Data::ONE;

        //~ data_proof_made: error[E0423|E0603]: Proof` is private
        #[cfg(case = "data_proof_made")]
        const WITHOUT_ENTRY: Option<Data> = Some(other::Proof(()));

        fn ret(&self, _: &Hit<'_>, _: &Call<'_, Data>) {}
    }

    pub fn register() -> Result {
        KBox::pin_init(Kretprobe::new(c"kernel_clone", 0, Forge), GFP_KERNEL).map(drop)
    }
}

pub fn use_probe(probe: Pin<KBox<Kretprobe<Keep>>>) {
    let _: &Keep = probe.handler();

    //~ cloned: error[E0599]: the method `clone` exists for struct
    #[cfg(case = "cloned")]
    let _ = probe.clone();

    //~ taken_apart: error[E0616]: Kretprobe` is private
    #[cfg(case = "taken_apart")]
    let _ = &probe.registration;

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
    const WITHOUT_ENTRY: Option<()> = Some(());

    fn ret(&self, _: &Hit<'_>, _: &Call<'_, ()>) {}
}

/// A handler is dropped where the probe is, which may be in another task.
#[cfg(case = "not_send")]
pub struct Locked(kernel::sync::lock::Guard<'static, u32, kernel::sync::lock::mutex::MutexBackend>);

//~ not_send: error[E0277]: `*mut ()` cannot be sent between threads safely
#[cfg(case = "not_send")]
#[vtable]
impl Handler for Locked {
    type Data = ();

    fn ret(&self, _: &Hit<'_>, _: &Call<'_, ()>) {}
}

/// A probe may live for any time: so does what its handler has.
#[cfg(case = "borrowed")]
pub struct Borrowed<'a>(&'a u32);

//~ borrowed: error[E0478|E0495]: lifetime bound not satisfied
#[cfg(case = "borrowed")]
#[vtable]
impl<'a> Handler for Borrowed<'a> {
    type Data = ();

    fn ret(&self, _: &Hit<'_>, _: &Call<'_, ()>) {}
}

/// Anything.
pub fn todo<T>() -> T {
    loop {}
}
