// SPDX-License-Identifier: GPL-2.0

//! A handler at the return of a function.
//!
//! At the entry the kernel puts its own return address in the place of the caller's; it takes a
//! node (`maxactive` of them are allocated) to keep the true one until the call returns. Where no
//! node is left the call is missed, and counted.
//!
//! Calls that are in flight when the probe is unregistered still return through the kernel's
//! address, but no longer reach the handler: unregistering does not wait for them.
//!
//! C headers: [`include/linux/kprobes.h`](srctree/include/linux/kprobes.h),
//! [`include/linux/rethook.h`](srctree/include/linux/rethook.h)

use core::mem::ManuallyDrop;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::ptr;

use kernel::bindings::pt_regs;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::bindings;
use crate::kprobe::is_gone;
use crate::kprobe::set_target;
use crate::kprobe::still_registered;
use crate::kprobe::Hit;
use crate::kprobe::Target;
use crate::security;

#[cfg(not(CONFIG_KRETPROBE_ON_RETHOOK))]
compile_error!("kretprobes must run on rethook (CONFIG_KRETPROBE_ON_RETHOOK)");

/// What happens at a return.
pub trait Handler: Send + Sync + 'static {
    /// Called when the function has returned, in atomic context: see [`crate::context`].
    ///
    /// `hit` has the address of the function; `caller` is the address that it returns to.
    fn ret(&self, hit: &Hit<'_>, caller: usize);
}

/// The part of a probe that the kernel knows: it must not move, and outlives the registration.
#[repr(C)]
struct Inner<H> {
    kretprobe: Opaque<bindings::kretprobe>,
    /// `kretprobe.kp.symbol_name` points into it.
    target: Target,
    handler: H,
}

impl<H> Inner<H> {
    fn kprobe(&self) -> *mut bindings::kprobe {
        // SAFETY: The projection stays within the allocation.
        unsafe { &raw mut (*self.kretprobe.get()).kp }
    }
}

/// A registered kretprobe: disabled at first, and unregistered when dropped.
///
/// Dropping waits until no handler runs any more (an RCU grace period): process context.
///
/// # Invariants
///
/// `inner` was registered successfully and not unregistered since.
pub struct Kretprobe<H: Handler> {
    inner: ManuallyDrop<Pin<KBox<Inner<H>>>>,
}

// SAFETY: The kernel's functions on a registered probe lock by themselves, and `H` is `Send`.
unsafe impl<H: Handler> Send for Kretprobe<H> {}
// SAFETY: As above; `H` is `Sync`.
unsafe impl<H: Handler> Sync for Kretprobe<H> {}

impl<H: Handler> Kretprobe<H> {
    /// Places a probe, disabled, with room for `maxactive` calls in flight (0: the kernel's own
    /// choice). C: `register_kretprobe()`.
    ///
    /// Process context; sleeps. Fails as [`crate::kprobe::Kprobe::register`], and with `EINVAL`
    /// where the target is not the entry of a function.
    pub fn register(target: Target, maxactive: u16, handler: H) -> Result<Self> {
        security::kprobes_allowed()?;
        let inner = KBox::pin(
            Inner {
                // SAFETY: All-zero is a valid `struct kretprobe`.
                kretprobe: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
                target,
                handler,
            },
            GFP_KERNEL,
        )?;
        let kretprobe = inner.kretprobe.get();
        // SAFETY: Nobody else has it yet. The name lives as long as `inner`, and does not move.
        unsafe {
            set_target(inner.kprobe(), &inner.target);
            (*kretprobe).handler = Some(return_handler::<H>);
            (*kretprobe).maxactive = c_int::from(maxactive);
        }
        // SAFETY: It is initialised, pinned, and unregistered before it is freed.
        to_result(unsafe { bindings::register_kretprobe(kretprobe) })?;
        // INVARIANT: Registered just now.
        Ok(Self {
            inner: ManuallyDrop::new(inner),
        })
    }

    /// Arms the probe. C: `enable_kretprobe()`.
    ///
    /// Process context; sleeps. `EINVAL` where the probed code is gone.
    pub fn enable(&self) -> Result {
        // SAFETY: Registered, by the type invariant.
        to_result(unsafe { bindings::enable_kprobe(self.inner.kprobe()) })
    }

    /// Disarms the probe: calls in flight still reach the handler. C: `disable_kretprobe()`.
    ///
    /// Process context; sleeps.
    pub fn disable(&self) -> Result {
        // SAFETY: Registered, by the type invariant.
        to_result(unsafe { bindings::disable_kprobe(self.inner.kprobe()) })
    }

    /// Was the probed code unloaded? C: `kprobe_gone()`.
    pub fn is_gone(&self) -> bool {
        // SAFETY: Registered, by the type invariant.
        unsafe { is_gone(self.inner.kprobe()) }
    }

    /// The address that the kernel found for the target.
    pub fn address(&self) -> usize {
        // SAFETY: Registered, by the type invariant: the address stays.
        unsafe { (*self.inner.kprobe()).addr as usize }
    }

    /// How many calls in flight there is room for.
    pub fn maxactive(&self) -> u32 {
        // SAFETY: Registered, by the type invariant: the number stays.
        unsafe { (*self.inner.kretprobe.get()).maxactive.unsigned_abs() }
    }

    /// How many calls were not seen: no room for another in flight, or another handler was
    /// running on that CPU at the entry.
    pub fn missed(&self) -> u64 {
        let kretprobe = self.inner.kretprobe.get();
        // SAFETY: Registered, by the type invariant; racing increments may be seen or not.
        unsafe {
            let at_entry = ptr::read_volatile(&raw const (*kretprobe).kp.nmissed) as u64;
            at_entry.wrapping_add(
                ptr::read_volatile(&raw const (*kretprobe).nmissed)
                    .unsigned_abs()
                    .into(),
            )
        }
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }

    /// Unregisters many probes and waits but once. C: `unregister_kretprobes()`.
    ///
    /// Process context; sleeps.
    pub fn unregister_all(probes: KVec<Self>) {
        let Ok(mut raw) = KVec::with_capacity(probes.len(), GFP_KERNEL) else {
            // One by one, then: each drop waits on its own.
            return;
        };
        for probe in &probes {
            // Cannot fail: there is room.
            let _ = raw.push(probe.inner.kretprobe.get(), GFP_KERNEL);
        }
        // SAFETY: Each is registered by the type invariant, and only freed after this.
        unsafe { bindings::unregister_kretprobes(raw.as_mut_ptr(), raw.len() as c_int) };
        for probe in probes {
            let mut probe = ManuallyDrop::new(probe);
            // SAFETY: `probe` is not used after this.
            release(unsafe { ManuallyDrop::take(&mut probe.inner) });
        }
    }
}

impl<H: Handler> Drop for Kretprobe<H> {
    fn drop(&mut self) {
        // SAFETY: Registered, by the type invariant, and only freed after this.
        unsafe { bindings::unregister_kretprobe(self.inner.kretprobe.get()) };
        // SAFETY: `self` is not used after this.
        release(unsafe { ManuallyDrop::take(&mut self.inner) });
    }
}

/// Frees a probe that was unregistered, unless the kernel could not let go of it.
fn release<H>(inner: Pin<KBox<Inner<H>>>) {
    // SAFETY: Unregistered: nobody else uses it.
    if unsafe { still_registered(inner.kprobe()) } {
        core::mem::forget(inner);
    }
}

/// Called by the kernel when a probed call returns.
///
/// # Safety
///
/// `instance` must be that of a call of a registered [`Inner`], and `regs` valid; preemption is
/// disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn return_handler<H: Handler>(
    instance: *mut bindings::kretprobe_instance,
    regs: *mut pt_regs,
) -> c_int {
    // SAFETY: By the safety requirement; the node belongs to this call until the handler returns.
    let (kretprobe, caller) = unsafe {
        let node = &(*instance).node;
        // C: `get_kretprobe()`. The rethook lives as long as one of its nodes is in use.
        let data = ptr::read_volatile(&raw const (*node.rethook).data);
        (data.cast::<bindings::kretprobe>(), node.ret_addr)
    };
    // SAFETY: The kernel calls the handler only while the probe is registered (or is being
    // unregistered, which waits for this), and `register` is the only one to pass this function.
    let inner =
        unsafe { &*kernel::container_of!(Opaque::cast_from(kretprobe), Inner<H>, kretprobe) };
    // SAFETY: The address does not change while the probe is registered.
    let address = unsafe { (*kretprobe).kp.addr as usize };
    // SAFETY: By the safety requirement, and `hit` does not outlive this function.
    let hit = unsafe { Hit::new(regs, address) };
    inner.handler.ret(&hit, caller as usize);
    0
}
