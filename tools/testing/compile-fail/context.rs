// SPDX-License-Identifier: GPL-2.0

//! What may only be done in a handler, and what only a handler sees.

use kernel::prelude::*;

use ktrace::{
    context::Atomic,
    kprobe::Hit,
    nofault,
    percpu::{
        Counter,
        Scratch, //
    },
    registers::{
        register,
        Register,
        Registers, //
    },
};

pub fn is_send<T: Send>() {}
pub fn is_sync<T: Sync>() {}

pub fn handler(hit: &Hit<'_>, scratch: &Scratch<64>, counter: &Counter) {
    is_send::<&Scratch<64>>();
    is_sync::<Counter>();
    counter.increment();
    let mut buffer = [0; 8];
    let _ = nofault::read_kernel(0, &mut buffer);
    let ip: Option<Register> = register("ip");
    let _ = ip.map(|ip| hit.registers().get(ip));
    let atomic: &Atomic = hit.atomic();
    scratch.with(atomic, |area| {
        let _: Option<&mut [u8; 64]> = area;
    });

    //~ area_kept: error: lifetime may not live long enough
    #[cfg(case = "area_kept")]
    let _ = scratch.with(atomic, |area| area);

    //~ area_escapes: error[E0521]: borrowed data escapes outside of closure
    #[cfg(case = "area_escapes")]
    {
        let mut kept = None;
        scratch.with(atomic, |area| kept = area);
        let _ = kept;
    }

    //~ without_atomic: error[E0061]: this method takes 2 arguments but 1 argument was supplied
    #[cfg(case = "without_atomic")]
    scratch.with(|_| ());

    //~ atomic_constructed: error[E0423]: cannot initialize a tuple struct which contains private fields
    #[cfg(case = "atomic_constructed")]
    let _ = Atomic(kernel::types::NotThreadSafe);

    //~ atomic_new: error[E0624]: associated function `new` is private
    #[cfg(case = "atomic_new")]
    let _ = Atomic::new();

    //~ atomic_default: error[E0599]: no function or associated item named `default`
    #[cfg(case = "atomic_default")]
    let _ = Atomic::default();

    //~ atomic_copied: error[E0507]: cannot move out of `*atomic`
    #[cfg(case = "atomic_copied")]
    let _copy: Atomic = *atomic;

    //~ atomic_cloned: error[E0308]: expected `Atomic`, found `&Atomic`
    #[cfg(case = "atomic_cloned")]
    let _: Atomic = atomic.clone();

    //~ register_constructed: error[E0423]: cannot initialize a tuple struct which contains private fields
    #[cfg(case = "register_constructed")]
    let _ = Register(4096);

    //~ register_converted: error[E0277|E0308]: `Register`
    #[cfg(case = "register_converted")]
    let _ = Register::from(4096u16);

    //~ register_changed: error[E0616]: field `0` of struct
    #[cfg(case = "register_changed")]
    if let Some(mut ip) = ip {
        ip.0 = 4096;
    }

    //~ registers_from_raw: error[E0624]: associated function `from_raw` is private
    #[cfg(case = "registers_from_raw")]
    let _: &Registers = Registers::from_raw(core::ptr::null_mut());

    //~ registers_copied: error[E0507]: cannot move out of a shared reference
    #[cfg(case = "registers_copied")]
    let _copy: Registers = *hit.registers();

    //~ read_into_shared: error[E0308]: types differ in mutability
    #[cfg(case = "read_into_shared")]
    let _ = nofault::read_kernel(0, &buffer);

    //~ symbol_buffer: error[E0308]: expected an array
    #[cfg(case = "symbol_buffer")]
    let _ = ktrace::symbol::format(0, true, &mut buffer);

    //~ percpu_area: error[E0616]: field `0` of struct `Scratch` is private
    #[cfg(case = "percpu_area")]
    let _ = &scratch.0;
}

/// The per-CPU allocator complains about more.
pub fn scratch_too_large() -> Result {
    #[cfg(not(case = "scratch_too_large"))]
    const BYTES: usize = 6551;

    //~ scratch_too_large: error[E0080]: scratch areas must not be larger than 6551 bytes
    #[cfg(case = "scratch_too_large")]
    const BYTES: usize = 6552;

    Scratch::<BYTES>::new().map(drop)
}

/// Preemption is disabled on this CPU, for this task.
//~ atomic_sent: error[E0277]: `*mut ()` cannot be sent between threads safely
#[cfg(case = "atomic_sent")]
pub fn atomic_sent() {
    is_send::<Atomic>();
}

//~ atomic_shared: error[E0277]: `*mut ()` cannot be shared between threads safely
#[cfg(case = "atomic_shared")]
pub fn atomic_shared() {
    is_sync::<Atomic>();
}

//~ atomic_spawned: error[E0277]: `*mut ()` cannot be sent between threads safely
#[cfg(case = "atomic_spawned")]
pub fn atomic_spawned(atomic: Atomic) {
    let _ = kernel::workqueue::system().try_spawn(GFP_KERNEL, move || {
        let _ = atomic.comm();
    });
}

//~ hit_sent: error[E0277]: `*mut ()` cannot be sent between threads safely
#[cfg(case = "hit_sent")]
pub fn hit_sent() {
    is_send::<Hit<'static>>();
}

//~ registers_shared: error[E0277]: cannot be shared between threads safely
#[cfg(case = "registers_shared")]
pub fn registers_shared() {
    is_sync::<Registers>();
}

/// What the module that holds ktrace does once, nobody else does.
//~ init: error[E0133]: call to unsafe function `ktrace::init` is unsafe
#[cfg(case = "init")]
pub fn init() {
    ktrace::init();
}

//~ exit: error[E0133]: call to unsafe function `ktrace::exit` is unsafe
#[cfg(case = "exit")]
pub fn exit() {
    ktrace::exit();
}
