// SPDX-License-Identifier: GPL-2.0

//! A handler at an instruction.
//!
//! C header: [`include/linux/kprobes.h`](srctree/include/linux/kprobes.h)
//!
//! Reference: <https://docs.kernel.org/trace/kprobes.html>

use kernel::{
    bindings::pt_regs,
    ffi::{
        c_int,
        c_ulong, //
    },
    prelude::*,
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

use probe::insn::Decoder as _;

use crate::{
    arch::{
        self,
        Decoder, //
    },
    bindings,
    hit::{
        context::Atomic,
        nofault,
        registers::{
            replace_instruction_pointer,
            Registers,
            Value, //
        },
    },
    probes::{
        ftrace,
        pointers::impl_for_pointers,
        readers,
        registration::{
            into_any,
            is_on_ftrace,
            unregister_all,
            AnyProbe,
            Probe,
            Raw,
            Registration, //
        },
    },
    symbols::symbol, //
};

pub use crate::probes::registration::Target;
pub use probe::insn::Unprobable;

/// The handler of a hit.
#[vtable]
pub trait Handler: Send + Sync + 'static {
    /// Called before the probed instruction runs, in atomic context: see [`crate::context`].
    fn pre(&self, hit: &Hit<'_>);

    /// Called after the probed instruction ran, in atomic context: see [`crate::context`].
    ///
    /// The kernel never optimizes a probe that has this handler into a jump. If the instruction
    /// faults, the kernel does not call this handler. If ftrace calls the probe, at the start of a
    /// function, no instruction runs, and this handler is called right after [`pre`](Self::pre).
    fn post(&self, _hit: &Hit<'_>) {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

impl_for_pointers! {
    #[vtable]
    const HAS_PRE: bool = H::HAS_PRE;
    const HAS_POST: bool = H::HAS_POST;

    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        (**self).pre(hit);
    }

    #[inline(always)]
    fn post(&self, hit: &Hit<'_>) {
        (**self).post(hit);
    }
}

/// One hit of a probe.
///
/// # Invariants
///
/// Preemption is disabled for `'a`.
#[derive(Clone, Copy)]
pub struct Hit<'a> {
    registers: &'a Registers,
    address: usize,
    _here: NotThreadSafe,
}

impl<'a> Hit<'a> {
    /// # Safety
    ///
    /// For `'a`, preemption must be disabled, and `regs` must be valid and must not change.
    #[inline(always)]
    pub(crate) unsafe fn new(regs: *mut pt_regs, address: usize) -> Self {
        // INVARIANT: The caller guarantees that preemption is disabled for `'a`.
        Self {
            // SAFETY: The caller guarantees that `regs` is valid and does not change for `'a`.
            registers: unsafe { Registers::from_raw(regs) },
            address,
            _here: NotThreadSafe,
        }
    }

    /// The registers before the instruction. At a return, the registers as the function left them.
    #[inline(always)]
    pub fn registers(&self) -> &'a Registers {
        self.registers
    }

    /// Argument `n` of the function, counted from 0. Only valid at the entry of the function.
    ///
    /// C: `regs_get_kernel_argument()`.
    #[inline(always)]
    pub fn arg<T: Value>(&self, n: u16) -> T {
        self.registers.arg(n)
    }

    /// The return value of a function that has just returned. C: `regs_return_value()`.
    #[inline(always)]
    pub fn ret<T: Value>(&self) -> T {
        self.registers.ret()
    }

    /// The address of the probe: [`Kprobe::address`].
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.address
    }

    /// A token for functions that need atomic context.
    #[inline(always)]
    pub fn atomic(&self) -> &Atomic {
        // SAFETY: By the type invariant, preemption is disabled for `'a`.
        unsafe { Atomic::new() }
    }
}

// SAFETY: All-zero is valid: no functions, no address. The kprobe is the structure itself. C's
// `unregister_kprobes()` waits for an RCU grace period, and clears the address of each kprobe that
// the kernel keeps.
unsafe impl Raw for bindings::kprobe {
    fn kprobe(this: *mut Self) -> *mut bindings::kprobe {
        this
    }

    unsafe fn code(this: *const Self) -> usize {
        // SAFETY: The caller guarantees that no code changes the functions.
        unsafe { (*this).pre_handler }.map_or(0, |handler| handler as usize)
    }

    unsafe fn register(this: *mut Self) -> c_int {
        // SAFETY: The caller guarantees that the kprobe is initialised, and that it does not move
        // until it has been unregistered.
        unsafe { bindings::register_kprobe(this) }
    }

    unsafe fn unregister(these: &mut [*mut Self]) {
        // SAFETY: The caller guarantees that all kprobes are registered.
        unsafe { bindings::unregister_kprobes(these.as_mut_ptr(), these.len() as c_int) }
    }
}

/// A registered kprobe. Dropping it unregisters it.
///
/// Dropping waits for an RCU grace period, until no handler runs. Process context.
///
/// The caller chooses the memory of the probe: a box, an `Arc`, or a field of a pinned structure
/// such as a module.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::kprobe::{
///     Handler,
///     Hit,
///     Kprobe, //
/// };
///
/// struct Print;
///
/// #[vtable]
/// impl Handler for Print {
///     fn pre(&self, hit: &Hit<'_>) {
///         pr_info!("hit at {:#x}\n", hit.address());
///     }
/// }
///
/// let probe = KBox::pin_init(Kprobe::new(c"kernel_clone", Print), GFP_KERNEL)?;
/// # Ok::<(), Error>(())
/// ```
#[pin_data]
pub struct Kprobe<H: Handler> {
    /// The first field to drop, so that no handler runs when `handler` is dropped.
    #[pin]
    registration: Registration<bindings::kprobe>,
    #[pin]
    handler: H,
}

impl<H: Handler> Kprobe<H> {
    /// Registers a probe and arms it. The handler may run before this initialiser returns.
    /// C: `register_kprobe()`.
    ///
    /// The probe ends when its memory is dropped. So keep the box that
    /// `KBox::pin_init(Kprobe::new(...), GFP_KERNEL)?` returns.
    ///
    /// Process context; sleeps. Fails with:
    ///
    /// - `ENOENT` for an unknown symbol, and for an address that no symbol contains
    /// - `EILSEQ` for an address within an instruction (`EINVAL` on arm64)
    /// - `EINVAL` for an address that is not text, where the kernel forbids kprobes, and after the
    ///   entry of a function by which handlers read memory
    /// - `EPERM` under lockdown
    pub fn new<'a, E>(
        target: impl Into<Target<'a>>,
        handler: impl PinInit<H, E> + 'a,
    ) -> impl PinInit<Self, Error> + 'a
    where
        Error: From<E>,
    {
        Self::register_disabled(target, handler).pin_chain(|this| this.enable())
    }

    /// Registers a probe as [`new`](Self::new) does, but does not [arm](Self::enable) it.
    pub fn register_disabled<'a, E>(
        target: impl Into<Target<'a>>,
        handler: impl PinInit<H, E> + 'a,
    ) -> impl PinInit<Self, Error> + 'a
    where
        Error: From<E>,
    {
        let target = target.into();
        let pre = |kprobe: &mut bindings::kprobe| kprobe.pre_handler = Some(pre_handler::<H>);
        try_pin_init!(Self {
            handler <- handler,
            registration <- Registration::new(target, pre),
        }? Error)
        .pin_chain(move |this| {
            // If ftrace calls the probe, `pre_handler` calls both handlers, and the kprobe has no
            // `post_handler`. If a kprobe with a `post_handler` joins one without, the kernel later
            // looks for both in the wrong `ftrace_ops`, and cannot disarm them.
            if !H::HAS_POST || this.is_on_ftrace() {
                return Ok(());
            }
            // SAFETY: This initialiser has pinned the value, and has not returned, so no other code
            // has the value.
            unsafe {
                this.registration.register_again(|kprobe| {
                    pre(kprobe);
                    kprobe.post_handler = Some(post_handler::<H>);
                })
            }
        })
    }

    /// Arms the probe. C: `enable_kprobe()`.
    ///
    /// Process context; sleeps. `EINVAL` if the probed code was unloaded.
    pub fn enable(&self) -> Result {
        self.registration.enable()
    }

    /// Disarms the probe. Does not wait for handlers that run. C: `disable_kprobe()`.
    ///
    /// Process context; sleeps.
    pub fn disable(&self) -> Result {
        self.registration.disable()
    }

    /// Whether the probed code was unloaded or is being unloaded. Such a probe cannot be enabled
    /// again. Process context.
    ///
    /// C: `kprobe_gone()`.
    pub fn is_gone(&self) -> bool {
        self.registration.is_gone()
    }

    /// Whether ftrace calls the probe. Any context.
    pub(crate) fn is_on_ftrace(&self) -> bool {
        self.registration.is_on_ftrace()
    }

    /// The first bytes of the instruction, which the probe hides while it is armed. Any context.
    pub(crate) fn opcode(&self) -> bindings::kprobe_opcode_t {
        self.registration.opcode()
    }

    /// The address that the kernel found for the target. Any context.
    ///
    /// If the target is the start of a function that begins with a landing pad (ENDBR), the address
    /// is that of the next instruction.
    pub fn address(&self) -> usize {
        self.registration.address()
    }

    /// The number of hits that did not run the handler, because another handler was running on that
    /// CPU. Any context. C: `nmissed` in `struct kprobe`, which is counted without a lock.
    pub fn missed(&self) -> u64 {
        self.registration.missed()
    }

    /// The handler. Other CPUs may run it at the same time. Any context.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Unregisters many probes, and waits once for all of them. C: `unregister_kprobes()`.
    ///
    /// Process context; sleeps.
    pub fn unregister_all(probes: KVVec<Pin<KBox<Self>>>) {
        unregister_all(probes, |probe| &probe.registration);
    }
}

impl<H: Handler> Probe<bindings::kprobe> for Kprobe<H> {
    fn registration(&self) -> &Registration<bindings::kprobe> {
        &self.registration
    }
}

/// A registered kprobe with a handler of any type. Dropping it unregisters it.
pub struct AnyKprobe(AnyProbe<bindings::kprobe>);

impl<H: Handler> From<Pin<KBox<Kprobe<H>>>> for AnyKprobe {
    fn from(probe: Pin<KBox<Kprobe<H>>>) -> Self {
        Self(into_any(probe))
    }
}

impl AnyKprobe {
    /// Unregisters many probes, and waits once for all of them. C: `unregister_kprobes()`.
    ///
    /// Process context; sleeps.
    pub fn unregister_all(probes: KVVec<Self>) {
        unregister_all(probes, |probe| probe.0.registration());
    }
}

/// Several kprobes with handlers of one type. Either all are registered or none.
///
/// Dropping the batch unregisters all kprobes together, and waits once for an RCU grace period.
/// Process context.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::{
///     kprobe::{
///         Batch,
///         Handler,
///         Hit, //
///     },
///     percpu::Counter, //
/// };
///
/// struct Count(Counter);
///
/// #[vtable]
/// impl Handler for Count {
///     fn pre(&self, _: &Hit<'_>) {
///         self.0.increment();
///     }
/// }
///
/// let mut probes = KVec::new();
/// for name in [c"vfs_read", c"vfs_write"] {
///     probes.push((name, Count(Counter::new()?)), GFP_KERNEL)?;
/// }
/// let batch = Batch::new(probes)?;
/// let calls: u64 = batch.probes().map(|probe| probe.handler().0.sum()).sum();
/// # Ok::<(), Error>(())
/// ```
#[must_use = "dropping the batch unregisters its probes"]
pub struct Batch<H: Handler>(KVVec<Pin<KBox<Kprobe<H>>>>);

impl<H: Handler> Batch<H> {
    /// Registers and arms all probes, or none. C: `register_kprobes()`.
    ///
    /// Process context; sleeps. Fails as [`Kprobe::new`].
    pub fn new<'a, T, I, E>(probes: impl IntoIterator<Item = (T, I)>) -> Result<Self>
    where
        T: Into<Target<'a>>,
        I: PinInit<H, E> + 'a,
        Error: From<E>,
    {
        let this = Self::register_disabled(probes)?;
        this.enable()?;
        Ok(this)
    }

    /// Registers all probes or none, as [`new`](Self::new) does, but does not [arm](Self::enable)
    /// them.
    pub fn register_disabled<'a, T, I, E>(probes: impl IntoIterator<Item = (T, I)>) -> Result<Self>
    where
        T: Into<Target<'a>>,
        I: PinInit<H, E> + 'a,
        Error: From<E>,
    {
        let mut batch = Self::empty();
        for (target, handler) in probes {
            batch.add_disabled(target, handler)?;
        }
        Ok(batch)
    }

    /// A batch without probes.
    pub const fn empty() -> Self {
        Self(KVVec::new())
    }

    /// Registers one more probe, as [`Kprobe::register_disabled`] does. If this fails, the batch
    /// stays as it is.
    pub fn add_disabled<'a, E>(
        &mut self,
        target: impl Into<Target<'a>>,
        handler: impl PinInit<H, E> + 'a,
    ) -> Result
    where
        Error: From<E>,
    {
        // A push that fails would drop the probe alone, so the list grows first.
        self.0.reserve(1, GFP_KERNEL)?;
        let probe = Kprobe::register_disabled(target, handler);
        let probe = KBox::pin_init::<Error>(probe, GFP_KERNEL)?;
        Ok(self.0.push(probe, GFP_KERNEL)?)
    }

    /// Arms all probes, or none.
    ///
    /// Process context; sleeps. Fails as [`Kprobe::enable`].
    pub fn enable(&self) -> Result {
        for (index, probe) in self.probes().enumerate() {
            if let Err(error) = probe.enable() {
                for armed in self.probes().take(index) {
                    // This loop has armed the probe.
                    let _ = armed.disable();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Disarms all probes. Returns the first error.
    ///
    /// Process context; sleeps.
    pub fn disable(&self) -> Result {
        self.probes().map(Kprobe::disable).fold(Ok(()), Result::and)
    }

    /// Whether the code of a probe was unloaded or is being unloaded: see [`Kprobe::is_gone`].
    /// Process context.
    pub fn is_gone(&self) -> bool {
        self.probes().any(Kprobe::is_gone)
    }

    /// The number of hits of all probes that did not run the handler: see [`Kprobe::missed`]. Any
    /// context.
    pub fn missed(&self) -> u64 {
        self.probes().map(Kprobe::missed).fold(0, u64::wrapping_add)
    }

    /// The probes, in the order of registration.
    pub fn probes(&self) -> impl ExactSizeIterator<Item = &Kprobe<H>> {
        self.0.iter().map(|probe| &**probe)
    }

    /// Converts the batch to a list of its probes.
    pub fn into_probes(mut self) -> KVVec<Pin<KBox<Kprobe<H>>>> {
        core::mem::take(&mut self.0)
    }

    /// Converts the batch to its kprobes, which can be unregistered together with others.
    pub fn into_kprobes(self) -> impl Iterator<Item = AnyKprobe> {
        self.into_probes().into_iter().map(AnyKprobe::from)
    }
}

impl<H: Handler> Drop for Batch<H> {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            Kprobe::unregister_all(core::mem::take(&mut self.0));
        }
    }
}

/// Returns the reason why no kprobe can be at `address`, if the instruction is the reason. `None`
/// if the kernel has another reason, or none.
///
/// Process context; sleeps. `ENOMEM`. C: `arch_prepare_kprobe()`.
pub fn unprobable(address: usize) -> Result<Option<Unprobable>> {
    const MAX_BEHIND: usize = 16;

    if readers::contain(address) {
        return Ok(Some(Unprobable::Reader));
    }
    let Some((start, size)) = symbol::extent(address) else {
        return Ok(None);
    };
    if !cfg!(CONFIG_KPROBES_ON_FTRACE)
        && address == arch::ftrace_site(start)
        && ftrace::is_traceable(address)?
    {
        return Ok(Some(Unprobable::FtraceSite));
    }
    let offset = address.wrapping_sub(start);
    let first = offset
        .saturating_sub(Unprobable::BYTES_BEFORE)
        .next_multiple_of(Decoder::UNIT);
    let mut buffer = [0; Unprobable::BYTES_BEFORE + MAX_BEHIND];
    let end = size.min(offset.saturating_add(MAX_BEHIND));
    let text = buffer
        .get_mut(..end.saturating_sub(first))
        .unwrap_or(&mut []);
    match nofault::read_kernel(start.wrapping_add(first), text) {
        Ok(()) => Ok(Decoder::unprobable(text, offset.wrapping_sub(first))),
        Err(nofault::Fault) => Ok(None),
    }
}

/// The kernel calls this function before the instruction.
///
/// # Safety
///
/// `kprobe` must be the kprobe of a registered [`Kprobe`] for `H`. `regs` must be valid. Preemption
/// must be disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn pre_handler<H: Handler>(
    kprobe: *mut bindings::kprobe,
    regs: *mut pt_regs,
) -> c_int {
    // SAFETY: `Kprobe<H>` has set this function for `H`. The kernel passes a registered probe, and
    // unregistering waits for this call. `regs` is valid during this call.
    let (handler, hit) = unsafe { (handler_of::<H>(kprobe), hit_of(kprobe, regs)) };
    handler.pre(&hit);
    // SAFETY: The kernel calls this function only for registered probes.
    if H::HAS_POST && unsafe { is_on_ftrace(kprobe) } {
        // C's `kprobe_ftrace_handler()` sets the instruction pointer to the same address.
        // SAFETY: The kernel passes valid registers and a registered probe. `hit`, which borrows
        // the registers, is not used any more.
        unsafe {
            let behind = (*kprobe).addr as u64 + u64::from(bindings::MCOUNT_INSN_SIZE);
            let before = replace_instruction_pointer(regs, behind);
            post_handler::<H>(kprobe, regs, 0);
            replace_instruction_pointer(regs, before);
        }
    }
    // 0: the kernel continues with the instruction.
    0
}

/// The kernel calls this function after the instruction.
///
/// # Safety
///
/// The requirements of [`pre_handler`].
#[link_section = ".kprobes.text"]
unsafe extern "C" fn post_handler<H: Handler>(
    kprobe: *mut bindings::kprobe,
    regs: *mut pt_regs,
    _flags: c_ulong,
) {
    // SAFETY: `Kprobe<H>` has set this function for `H`, or `pre_handler::<H>` calls it. The probe
    // is registered, and unregistering waits for this call. `regs` is valid during this call.
    let (handler, hit) = unsafe { (handler_of::<H>(kprobe), hit_of(kprobe, regs)) };
    handler.post(&hit);
}

/// # Safety
///
/// For `'a`, `kprobe` must be the kprobe of a registered [`Kprobe`] with a handler of type `H`.
#[inline(always)]
unsafe fn handler_of<'a, H: Handler>(kprobe: *mut bindings::kprobe) -> &'a H {
    // SAFETY: The caller guarantees that the kprobe is the field of a `Kprobe<H>`, which lives for
    // `'a`. No code borrows the handler mutably while the probe is registered.
    unsafe {
        let raw = Opaque::cast_from(kprobe);
        &(*kernel::container_of!(raw, Kprobe<H>, registration.raw)).handler
    }
}

/// # Safety
///
/// The requirements of [`pre_handler`], for `'a`.
#[inline(always)]
unsafe fn hit_of<'a>(kprobe: *mut bindings::kprobe, regs: *mut pt_regs) -> Hit<'a> {
    // SAFETY: The address does not change while the probe is registered. The caller guarantees that
    // `regs` is valid and preemption is disabled for `'a`.
    unsafe { Hit::new(regs, (*kprobe).addr as usize) }
}
