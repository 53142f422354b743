// SPDX-License-Identifier: GPL-2.0

//! Kprobes: what a handler is, what it may do with a hit, and who owns a probe.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic as Word,
        Relaxed, //
    },
};

use ktrace::{
    context::Atomic,
    kprobe::{
        Batch,
        Handler,
        Hit,
        Kprobe,
        Target, //
    },
    nofault::{
        KernelPtr,
        UserPtr, //
    },
    registers::Registers, //
};

pub struct Count(Word<u32>);

#[vtable]
impl Handler for Count {
    fn pre(&self, hit: &Hit<'_>) {
        self.0.add(1, Relaxed);
        let _: (&Registers, &Atomic) = (hit.registers(), hit.atomic());

        let pointer: KernelPtr<u32> = hit.arg(0);
        let _: Result<u32, _> = pointer.read();

        //~ pointer_followed: error[E0614]: type `KernelPtr<u32>` cannot be dereferenced
        #[cfg(case = "pointer_followed")]
        let _ = *pointer;

        //~ pointer_of_user: error[E0308]: expected `UserPtr<u32>`, found `KernelPtr<u32>`
        #[cfg(case = "pointer_of_user")]
        let _: UserPtr<u32> = pointer;

        //~ reference_read: error[E0277]: the trait bound `&u32: kernel::transmute::FromBytes` is not
        #[cfg(case = "reference_read")]
        let _ = pointer.at::<&u32>(0).read();

        //~ reference_argument: error[E0277]: a register does not hold a value of type `&u32`
        #[cfg(case = "reference_argument")]
        let _ = hit.arg::<&u32>(0);

        //~ registers_kept: error: lifetime may not live long enough
        #[cfg(case = "registers_kept")]
        let _: &'static Registers = hit.registers();

        //~ hit_kept: error: lifetime may not live long enough
        #[cfg(case = "hit_kept")]
        let _: &'static Hit<'static> = hit;

        //~ atomic_kept: error: lifetime may not live long enough
        #[cfg(case = "atomic_kept")]
        let _: &'static Atomic = hit.atomic();

        //~ hit_copied: error: lifetime may not live long enough
        #[cfg(case = "hit_copied")]
        let _: Hit<'static> = *hit;

        //~ hit_taken: error[E0308]: types differ in mutability
        #[cfg(case = "hit_taken")]
        let _ = core::mem::replace::<Hit<'_>>(hit, todo());

        //~ hit_constructed: error[E0451]: of struct `ktrace::kprobe::Hit` is private
        #[cfg(case = "hit_constructed")]
        let _ = Hit {
            registers: hit.registers(),
            address: 0,
            _here: todo(),
        };

        //~ registers_mutable: error[E0308]: types differ in mutability
        #[cfg(case = "registers_mutable")]
        let _: &mut Registers = hit.registers();

        //~ registers_written: error[E0599]: no method named `set`
        #[cfg(case = "registers_written")]
        hit.registers().set(ktrace::registers::register("ip"), 0);

        //~ registers_pointer: error[E0624]: method `as_ptr` is private
        #[cfg(case = "registers_pointer")]
        let _ = hit.registers().as_ptr();

        //~ registers_field: error[E0616]: field `0` of struct `Registers` is private
        #[cfg(case = "registers_field")]
        let _ = &hit.registers().0;
    }
}

pub fn register() -> impl PinInit<Kprobe<Count>, Error> {
    Kprobe::new(c"kernel_clone", Count(Word::new(0)))
}

pub fn use_probe(probe: Pin<KBox<Kprobe<Count>>>) -> Result {
    let handler: &Count = probe.handler();
    handler.0.add(1, Relaxed);

    //~ not_kept: error: unused implementer of `pin_init::PinInit` that must be used
    #[cfg(case = "not_kept")]
    #[deny(unused_must_use)]
    {
        register();
    }

    //~ not_pinned: error[E0308]: mismatched types
    #[cfg(case = "not_pinned")]
    let _: KBox<Kprobe<Count>> = probe;

    //~ moved_out: error[E0507]: cannot move out of dereference of
    #[cfg(case = "moved_out")]
    let _probe: Kprobe<Count> = *probe;

    //~ mutable: error[E0277]: cannot be unpinned
    #[cfg(case = "mutable")]
    let _: &mut Kprobe<Count> = Pin::get_mut(probe.as_mut());

    //~ handler_outlives: error[E0505]: cannot move out of `probe` because it is borrowed
    #[cfg(case = "handler_outlives")]
    {
        drop(probe);
        handler.0.add(1, Relaxed);
    }

    //~ used_after_drop: error[E0382]: borrow of moved value: `probe`
    #[cfg(case = "used_after_drop")]
    {
        drop(probe);
        probe.enable()?;
    }

    //~ cloned: error[E0599]: the method `clone` exists for struct
    #[cfg(case = "cloned")]
    let _ = probe.clone();

    //~ handler_moved_out: error[E0507]: cannot move out of a shared reference
    #[cfg(case = "handler_moved_out")]
    let _handler: Count = *probe.handler();

    //~ handler_mutable: error[E0308]: types differ in mutability
    #[cfg(case = "handler_mutable")]
    let _: &mut Count = probe.handler();

    //~ taken_apart: error[E0616]: field `registration` of struct `Kprobe` is private
    #[cfg(case = "taken_apart")]
    let _ = &probe.registration;

    //~ constructed: error[E0451]: of struct `Kprobe` is private
    #[cfg(case = "constructed")]
    let _ = Kprobe {
        ..todo::<Kprobe<Count>>()
    };

    Ok(())
}

/// The probes of a batch go together, for their memory is freed after one wait.
pub fn use_batch(batch: Batch<Count>) -> Result {
    batch.enable()?;

    //~ taken_from_batch: error[E0507]: cannot move out of `*probe` which is behind
    #[cfg(case = "taken_from_batch")]
    for probe in batch.probes() {
        let _probe: Kprobe<Count> = *probe;
    }

    Ok(())
}

/// A handler runs on every CPU at once.
#[cfg(case = "not_sync")]
pub struct NotSync(core::cell::Cell<u32>);

//~ not_sync: error[E0277]: `Cell<u32>` cannot be shared between threads safely
#[cfg(case = "not_sync")]
#[vtable]
impl Handler for NotSync {
    fn pre(&self, _: &Hit<'_>) {
        self.0.set(self.0.get() + 1);
    }
}

/// A handler is dropped where the probe is, which may be in another task.
#[cfg(case = "not_send")]
pub struct Locked(kernel::sync::lock::Guard<'static, u32, kernel::sync::lock::mutex::MutexBackend>);

//~ not_send: error[E0277]: `*mut ()` cannot be sent between threads safely
#[cfg(case = "not_send")]
#[vtable]
impl Handler for Locked {
    fn pre(&self, _: &Hit<'_>) {}
}

/// A probe may live for any time: so does what its handler has.
#[cfg(case = "borrowed")]
pub struct Borrowed<'a>(&'a u32);

//~ borrowed: error[E0478|E0495]: lifetime bound not satisfied
#[cfg(case = "borrowed")]
#[vtable]
impl<'a> Handler for Borrowed<'a> {
    fn pre(&self, _: &Hit<'_>) {}
}

//~ local_borrowed: error[E0597]: `local` does not live long enough
#[cfg(case = "local_borrowed")]
pub mod local_borrowed {
    use super::*;

    pub struct Borrowing<T: 'static>(&'static T);

    #[vtable]
    impl Handler for Borrowing<u32> {
        fn pre(&self, _: &Hit<'_>) {}
    }

    pub fn borrow() -> Result<Pin<KBox<Kprobe<Borrowing<u32>>>>> {
        let local = 1;
        let handler = Borrowing(&*core::hint::black_box(&local));
        KBox::pin_init(Kprobe::new(Target::Address(0), handler), GFP_KERNEL)
    }
}

/// A pointer is a handler if it points to one.
//~ pointer_to_nothing: error[E0277]: the trait bound `u32: ktrace::kprobe::Handler` is not satisfied
#[cfg(case = "pointer_to_nothing")]
pub struct OfNothing(Kprobe<kernel::sync::Arc<u32>>);

/// Which functions a handler has is what the attribute says, not the author.
#[cfg(any(case = "without_pre", case = "without_vtable"))]
pub struct Incomplete;

//~ without_pre: error[E0046]: not all trait items implemented, missing: `pre`
#[cfg(case = "without_pre")]
#[vtable]
impl Handler for Incomplete {}

//~ without_vtable: error[E0046]: not all trait items implemented, missing: `USE_VTABLE_ATTR`
#[cfg(case = "without_vtable")]
impl Handler for Incomplete {
    fn pre(&self, _: &Hit<'_>) {}
}

/// Only ktrace says which structures of the kernel are probes.
//~ raw_trait: error[E0603]: module `probes` is private
#[cfg(case = "raw_trait")]
pub use ktrace::probes::registration::Raw;

/// The C interface is ktrace's own.
//~ bindings: error[E0603]: module `bindings` is private
#[cfg(case = "bindings")]
pub use ktrace::bindings::register_kprobe;

/// Anything.
pub fn todo<T>() -> T {
    loop {}
}
