// SPDX-License-Identifier: GPL-2.0

//! A handler at an instruction.
//!
//! C header: [`include/linux/kprobes.h`](srctree/include/linux/kprobes.h)
//!
//! Reference: <https://docs.kernel.org/trace/kprobes.html>

use core::mem::ManuallyDrop;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::ptr;

use kernel::bindings::pt_regs;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::types::Opaque;

use crate::bindings;
use crate::context::Atomic;
use crate::registers::Registers;
use crate::security;

/// Where to place a probe.
pub enum Target {
    /// At a symbol, `NAME` or `MODULE:NAME`, plus an offset in bytes.
    Symbol(CString, u32),
    /// At an address.
    Address(usize),
}

/// What happens at a hit.
pub trait Handler: Send + Sync + 'static {
    /// Called before the probed instruction runs, in atomic context: see [`crate::context`].
    fn pre(&self, hit: &Hit<'_>);
}

/// One hit of a probe.
pub struct Hit<'a> {
    registers: &'a Registers,
    address: usize,
    atomic: Atomic,
}

impl<'a> Hit<'a> {
    /// # Safety
    ///
    /// Only for the time of a handler: preemption is disabled, and `regs` stays as it is, for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(regs: *mut pt_regs, address: usize) -> Self {
        Self {
            // SAFETY: By the safety requirement.
            registers: unsafe { Registers::from_raw(regs) },
            address,
            // SAFETY: By the safety requirement.
            atomic: unsafe { Atomic::new() },
        }
    }

    /// The registers before the instruction (at a return: when the function returned).
    #[inline(always)]
    pub fn registers(&self) -> &'a Registers {
        self.registers
    }

    /// The address of the probe.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.address
    }

    /// Evidence of the context.
    #[inline(always)]
    pub fn atomic(&self) -> &Atomic {
        &self.atomic
    }
}

/// The part of a probe that the kernel knows: it must not move, and outlives the registration.
#[repr(C)]
struct Inner<H> {
    kprobe: Opaque<bindings::kprobe>,
    /// `kprobe.symbol_name` points into it.
    target: Target,
    handler: H,
}

/// A registered kprobe: disabled at first, and unregistered when dropped.
///
/// Dropping waits until no handler runs any more (an RCU grace period): process context.
///
/// # Invariants
///
/// `inner` was registered successfully and not unregistered since.
pub struct Kprobe<H: Handler> {
    inner: ManuallyDrop<Pin<KBox<Inner<H>>>>,
}

// SAFETY: The kernel's functions on a registered kprobe lock by themselves, and `H` is `Send`.
unsafe impl<H: Handler> Send for Kprobe<H> {}
// SAFETY: As above; `H` is `Sync`.
unsafe impl<H: Handler> Sync for Kprobe<H> {}

impl<H: Handler> Kprobe<H> {
    /// Places a probe, disabled. C: `register_kprobe()`.
    ///
    /// Process context; sleeps. Fails with `ENOENT` for an unknown symbol, `EILSEQ` for an address
    /// within an instruction, `EINVAL` where probes are not allowed (not text, blacklisted) and
    /// `EPERM` under lockdown.
    pub fn register(target: Target, handler: H) -> Result<Self> {
        security::kprobes_allowed()?;
        let inner = KBox::pin(
            Inner {
                // SAFETY: All-zero is a valid `struct kprobe`.
                kprobe: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
                target,
                handler,
            },
            GFP_KERNEL,
        )?;
        let kprobe = inner.kprobe.get();
        // SAFETY: Nobody else has it yet. The name lives as long as `inner`, and does not move.
        unsafe {
            set_target(kprobe, &inner.target);
            (*kprobe).pre_handler = Some(pre_handler::<H>);
        }
        // SAFETY: It is initialised, pinned, and unregistered before it is freed.
        to_result(unsafe { bindings::register_kprobe(kprobe) })?;
        // INVARIANT: Registered just now.
        Ok(Self {
            inner: ManuallyDrop::new(inner),
        })
    }

    /// Arms the probe. C: `enable_kprobe()`.
    ///
    /// Process context; sleeps. `EINVAL` where the probed code is gone.
    pub fn enable(&self) -> Result {
        // SAFETY: Registered, by the type invariant.
        to_result(unsafe { bindings::enable_kprobe(self.inner.kprobe.get()) })
    }

    /// Disarms the probe: handlers that run already may still be running. C: `disable_kprobe()`.
    ///
    /// Process context; sleeps.
    pub fn disable(&self) -> Result {
        // SAFETY: Registered, by the type invariant.
        to_result(unsafe { bindings::disable_kprobe(self.inner.kprobe.get()) })
    }

    /// Was the probed code unloaded? C: `kprobe_gone()`.
    pub fn is_gone(&self) -> bool {
        // SAFETY: Registered, by the type invariant. The flag is only ever set.
        unsafe { is_gone(self.inner.kprobe.get()) }
    }

    /// The address that the kernel found for the target.
    pub fn address(&self) -> usize {
        // SAFETY: Registered, by the type invariant: the address stays.
        unsafe { (*self.inner.kprobe.get()).addr as usize }
    }

    /// How many hits did not run the handler, for another handler was running on that CPU.
    pub fn missed(&self) -> u64 {
        // SAFETY: Registered, by the type invariant; a racing increment may be seen or not.
        unsafe { ptr::read_volatile(&raw const (*self.inner.kprobe.get()).nmissed) as u64 }
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }

    /// Unregisters many probes and waits but once. C: `unregister_kprobes()`.
    ///
    /// Process context; sleeps.
    pub fn unregister_all(probes: KVec<Self>) {
        let Ok(mut raw) = KVec::with_capacity(probes.len(), GFP_KERNEL) else {
            // One by one, then: each drop waits on its own.
            return;
        };
        for probe in &probes {
            // Cannot fail: there is room.
            let _ = raw.push(probe.inner.kprobe.get(), GFP_KERNEL);
        }
        // SAFETY: Each is registered by the type invariant, and only freed after this.
        unsafe { bindings::unregister_kprobes(raw.as_mut_ptr(), raw.len() as c_int) };
        for probe in probes {
            let mut probe = ManuallyDrop::new(probe);
            // SAFETY: `probe` is not used after this.
            release(unsafe { ManuallyDrop::take(&mut probe.inner) });
        }
    }
}

impl<H: Handler> Drop for Kprobe<H> {
    fn drop(&mut self) {
        // SAFETY: Registered, by the type invariant, and only freed after this.
        unsafe { bindings::unregister_kprobe(self.inner.kprobe.get()) };
        // SAFETY: `self` is not used after this.
        release(unsafe { ManuallyDrop::take(&mut self.inner) });
    }
}

/// Frees a probe that was unregistered, unless the kernel could not let go of it.
fn release<H>(inner: Pin<KBox<Inner<H>>>) {
    // SAFETY: Unregistered: nobody else uses it.
    if unsafe { still_registered(inner.kprobe.get()) } {
        core::mem::forget(inner);
    }
}

/// Whether the kernel still holds on to a probe after it was told to unregister it: it could not
/// disarm it, and says so by clearing the address. Such a probe must stay where it is for good.
///
/// # Safety
///
/// `kprobe` must be valid, and was passed to an unregistering function.
pub(crate) unsafe fn still_registered(kprobe: *const bindings::kprobe) -> bool {
    // SAFETY: By the safety requirement.
    let held = unsafe { (*kprobe).addr.is_null() };
    if held {
        pr_err!("a probe could not be disarmed; its memory is kept for good\n");
    }
    held
}

/// Points a zeroed, unregistered `kprobe` at its target, disabled.
///
/// # Safety
///
/// `kprobe` must be valid, and `target` live and stay in place as long as it.
pub(crate) unsafe fn set_target(kprobe: *mut bindings::kprobe, target: &Target) {
    // SAFETY: By the safety requirement.
    unsafe {
        match target {
            Target::Symbol(name, offset) => {
                (*kprobe).symbol_name = name.as_ptr().cast();
                (*kprobe).offset = *offset;
            }
            Target::Address(address) => (*kprobe).addr = *address as *mut _,
        }
        (*kprobe).flags = bindings::KPROBE_FLAG_DISABLED;
    }
}

/// # Safety
///
/// `kprobe` must be registered.
pub(crate) unsafe fn is_gone(kprobe: *const bindings::kprobe) -> bool {
    // SAFETY: By the safety requirement.
    unsafe { ptr::read_volatile(&raw const (*kprobe).flags) & bindings::KPROBE_FLAG_GONE != 0 }
}

/// Called by the kernel at a hit.
///
/// # Safety
///
/// `kprobe` must be that of a registered [`Inner`], and `regs` valid; preemption is disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn pre_handler<H: Handler>(
    kprobe: *mut bindings::kprobe,
    regs: *mut pt_regs,
) -> c_int {
    // SAFETY: It is embedded in an `Inner<H>`, as only `register` passes this function.
    let inner = unsafe { &*kernel::container_of!(Opaque::cast_from(kprobe), Inner<H>, kprobe) };
    // SAFETY: The address does not change while the probe is registered.
    let address = unsafe { (*kprobe).addr as usize };
    // SAFETY: By the safety requirement, and `hit` does not outlive this function.
    let hit = unsafe { Hit::new(regs, address) };
    inner.handler.pre(&hit);
    // The instruction pointer was not changed: go on with the instruction.
    0
}
