// SPDX-License-Identifier: GPL-2.0

//! A handler at the instructions with which a function returns.
//!
//! The text of the function is decoded, and where all its ways out are returns there is a kprobe on
//! each of them. So nothing is kept for a call in flight, nothing runs out, and calls that were
//! made before the probe was armed are seen as well. But of the entry nothing is known, and a
//! function that also leaves by a tail call is refused: [`kretprobe`](crate::kretprobe) and
//! [`fprobe`](crate::fprobe) take any.
//!
//! While another probe keeps the return address of a call for itself (a kretprobe, an fprobe's
//! exit, the function graph tracer), the caller that is seen here is that probe's trampoline.

use kernel::{
    bindings,
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

use crate::{
    arch,
    exits::{
        BadText,
        Exit,
        ExitKind,
        Exits,
        Verdict, //
    },
    kprobe::{
        self,
        AnyKprobe,
        Batch,
        Hit,
        Unprobable, //
    },
    pointers::impl_for_pointers,
    symbol,
    trace_event::{
        EventMutexHeld,
        Switch, //
    },
};

pub use crate::{
    exits::IS_BUILT,
    registration::Target, //
};

/// The handler of a return.
pub trait Handler: Send + Sync + 'static {
    /// Called before the instruction that returns, in atomic context: see [`crate::context`].
    ///
    /// `hit` has its address, which tells how the function is left, and the registers.
    fn ret(&self, hit: &Hit<'_>, call: &Call);
}

impl_for_pointers! {
    #[inline(always)]
    fn ret(&self, hit: &Hit<'_>, call: &Call) {
        (**self).ret(hit, call);
    }
}

/// A call that is about to return.
pub struct Call {
    function: usize,
    caller: usize,
}

impl Call {
    /// The address of the function; behind its landing pad (ENDBR) where it has one.
    #[inline(always)]
    pub fn function(&self) -> usize {
        self.function
    }

    /// The address that the function returns to.
    #[inline(always)]
    pub fn caller(&self) -> usize {
        self.caller
    }
}

/// Why a function is not probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The function has another exit than returns. This is the first one.
    TailCall(Exit),
    /// The function never returns.
    NoReturn,
    /// Its text was not understood.
    BadText(BadText),
    /// The kernel refuses a kprobe on the return at this address.
    Unprobable(usize, Unprobable),
    /// The kernel is without it: see [`IS_BUILT`].
    NotBuilt,
    /// The kernel refuses, or there is no memory.
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let errno = match refusal {
            Refusal::TailCall(_) | Refusal::Unprobable(..) | Refusal::NotBuilt => {
                bindings::EOPNOTSUPP
            }
            Refusal::NoReturn => bindings::EINVAL,
            Refusal::BadText(_) => bindings::EILSEQ,
            Refusal::Failed(error) => return error,
        };
        Self::from_errno(-(errno as c_int))
    }
}

/// The data that all probes of a function share.
#[pin_data]
struct ProbedFunction<H> {
    address: usize,
    #[pin]
    handler: H,
}

/// The handler of the probe on one return.
struct ReturnHandler<H>(Arc<ProbedFunction<H>>);

#[vtable]
impl<H: Handler> kprobe::Handler for ReturnHandler<H> {
    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        let call = Call {
            function: self.0.address,
            // SAFETY: `Kretinsn` places this on instructions that return only, and nothing changes
            // one that has a kprobe.
            caller: unsafe { arch::return_address(hit.registers()) },
        };
        self.0.handler.ret(hit, &call);
    }
}

/// Registered probes on all returns of a function: unregistered when dropped.
///
/// Dropping waits until no handler runs any more (an RCU grace period): process context.
///
/// # Examples
///
/// Which of its returns a function takes:
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::{
///     kprobe::Hit,
///     kretinsn::{
///         Call,
///         Handler,
///         Kretinsn, //
///     },
/// };
///
/// struct Print;
///
/// impl Handler for Print {
///     fn ret(&self, hit: &Hit<'_>, call: &Call) {
///         let value = hit.ret::<isize>();
///         pr_info!("{:#x} returned {} to {:#x}\n", hit.address(), value, call.caller());
///     }
/// }
///
/// let probe = Kretinsn::new(c"vfs_fsync_range", Print)?;
/// # Ok::<(), Error>(())
/// ```
pub struct Kretinsn<H: Handler> {
    function: Arc<ProbedFunction<H>>,
    probes: Batch<ReturnHandler<H>>,
}

impl<H: Handler> Kretinsn<H> {
    /// Places and arms probes on all returns of the function at `target`, or none.
    ///
    /// Process context; sleeps. Fails for the reasons of [`Refusal`], and like
    /// [`Kprobe::new`](crate::kprobe::Kprobe::new). `EINVAL` if the target is not the entry of a
    /// function, `EAGAIN` if its text changes all the time.
    pub fn new<'a, E>(
        target: impl Into<Target<'a>>,
        handler: impl PinInit<H, E>,
    ) -> Result<Self, Refusal>
    where
        Error: From<E>,
    {
        let this = Self::register_disabled(target, handler)?;
        this.enable()?;
        Ok(this)
    }

    /// Places probes as [`new`](Self::new) does, but does not [arm](Self::enable) them.
    pub fn register_disabled<'a, E>(
        target: impl Into<Target<'a>>,
        handler: impl PinInit<H, E>,
    ) -> Result<Self, Refusal>
    where
        Error: From<E>,
    {
        const TRIES: usize = 5;

        if !IS_BUILT {
            return Err(Refusal::NotBuilt);
        }
        let target = target.into();
        let address = entry(target)?;
        let function = Arc::try_pin_init(
            try_pin_init!(ProbedFunction {
                address,
                handler <- handler,
            }? Error),
            GFP_KERNEL,
        )?;
        let mut before = Refusal::Failed(EAGAIN);
        for number in 0..TRIES {
            // Its module may have gone, and another one come.
            if number > 0 && entry(target)? != address {
                return Err(ENOENT.into());
            }
            match place(&function) {
                Ok(probes) => return Ok(Self { function, probes }),
                // Two equal readings show that nobody was changing the text.
                Err(refusal) if refusal == before && refusal != EAGAIN.into() => break,
                Err(refusal) => before = refusal,
            }
        }
        Err(before)
    }

    /// Arms all of them, or none. C: `enable_kprobe()`.
    ///
    /// Process context; sleeps. `EINVAL` where the probed code is gone.
    pub fn enable(&self) -> Result {
        self.probes.enable()
    }

    /// Disarms them: handlers that run already may still be running. C: `disable_kprobe()`.
    ///
    /// Process context; sleeps.
    pub fn disable(&self) -> Result {
        self.probes.disable()
    }

    /// Whether the probed code was unloaded. Such a probe cannot be enabled again. Any context.
    ///
    /// C: `kprobe_gone()`.
    pub fn is_gone(&self) -> bool {
        self.probes.probes().iter().any(kprobe::Kprobe::is_gone)
    }

    /// The address of the function; behind its landing pad (ENDBR) where it has one. Any context.
    pub fn address(&self) -> usize {
        self.function.address
    }

    /// The addresses of the probes. Any context.
    pub fn exits(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.probes.probes().iter().map(kprobe::Kprobe::address)
    }

    /// The number of returns that did not run the handler, because another handler was running on
    /// that CPU. Any context. C: `nmissed` in `struct kprobe`, of all the probes.
    pub fn missed(&self) -> u64 {
        let missed = self.probes.probes().iter().map(kprobe::Kprobe::missed);
        missed.fold(0, u64::wrapping_add)
    }

    /// The handler, which others may be running. Any context.
    pub fn handler(&self) -> &H {
        &self.function.handler
    }

    /// The probes, so that they can be unregistered together with others.
    pub fn into_kprobes(self) -> impl Iterator<Item = AnyKprobe> {
        self.probes.into_probes().into_iter().map(AnyKprobe::from)
    }
}

/// The probe is armed while its event has users.
impl<H: Handler> Switch for Kretinsn<H> {
    fn enable(&self, _: &EventMutexHeld) -> Result {
        self.enable()
    }

    fn disable(&self, _: &EventMutexHeld) {
        let _ = self.disable();
    }
}

fn is_return(kind: ExitKind) -> bool {
    matches!(kind, ExitKind::Return | ExitKind::ReturnThunk)
}

/// The address of a probe on the entry of the function that starts at `target`.
fn entry(target: Target<'_>) -> Result<usize> {
    let address = match target {
        Target::Symbol(name, offset) => symbol::address_of(name)?.wrapping_add(offset as usize),
        Target::Address(address) => address,
    };
    let start = symbol::start_of(address).ok_or(ENOENT)?;
    match symbol::is_entry(address) {
        Some(true) => Ok(arch::probe_entry(start)),
        _ => Err(EINVAL),
    }
}

/// Places probes on all its returns. `EAGAIN` where the text was changed meanwhile.
fn place<H: Handler>(
    function: &Arc<ProbedFunction<H>>,
) -> Result<Batch<ReturnHandler<H>>, Refusal> {
    let exits = Exits::find(function.address)?;
    match exits.verdict() {
        Ok(Verdict::Returns) => {}
        Ok(Verdict::TailCall(exit)) => return Err(Refusal::TailCall(exit)),
        Ok(Verdict::NoReturn) => return Err(Refusal::NoReturn),
        // `find` has brought all of them.
        Ok(Verdict::Part(_)) => return Err(EINVAL.into()),
        Err(bad) => return Err(Refusal::BadText(bad)),
    }
    let returns = exits.all().iter().filter(|exit| is_return(exit.kind));
    let returns = returns.map(|exit| exit.address as usize);
    let probes = Batch::register_disabled(returns.clone().map(|address| {
        let target = Target::Address(address);
        (target, ReturnHandler(function.clone()))
    }))
    .map_err(|error| unprobable(returns, error))?;
    // The kernel has passed through `text_mutex` for them.
    match exits.is_current()? {
        true => Ok(probes),
        false => Err(EAGAIN.into()),
    }
}

/// Why there are no probes on returns, which the kernel refused with `error`.
fn unprobable(mut returns: impl Iterator<Item = usize>, error: Error) -> Refusal {
    let why = |address| {
        let unprobable = kprobe::unprobable(address).ok()??;
        Some(Refusal::Unprobable(address, unprobable))
    };
    match error {
        ENOMEM | EPERM => error.into(),
        _ => returns.find_map(why).unwrap_or(error.into()),
    }
}
