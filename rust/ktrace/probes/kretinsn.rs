// SPDX-License-Identifier: GPL-2.0

//! A handler at the return instructions of a function.
//!
//! ktrace decodes the text of the function. If all exits are returns, ktrace registers a kprobe on
//! each of them. So a call in flight needs no memory, and the number of calls in flight has no
//! limit. The handler also runs for calls that began before the probe was armed. But the probe
//! cannot save data at the entry, and ktrace refuses a function that has a tail call.
//! [`kretprobe`](crate::kretprobe) and [`fprobe`](crate::fprobe) accept every function.
//!
//! A kretprobe, the exit handler of an fprobe, or the function graph tracer replaces the return
//! address of a call. For such a call, [`Call::caller`] returns the address of their trampoline.

use kernel::{
    bindings,
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

use crate::{
    arch,
    probes::{
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
        pointers::impl_for_pointers, //
    },
    symbols::symbol, //
};

pub use crate::probes::{
    exits::IS_BUILT,
    registration::Target, //
};

/// The handler of a return.
pub trait Handler: Send + Sync + 'static {
    /// Called before the instruction that returns, in atomic context: see [`crate::context`].
    ///
    /// `hit` has the address of this instruction, and the registers.
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
    /// The address of the function. If the function begins with a landing pad (ENDBR), the address
    /// after it.
    #[inline(always)]
    pub fn function(&self) -> usize {
        self.function
    }

    /// The return address of the function.
    #[inline(always)]
    pub fn caller(&self) -> usize {
        self.caller
    }
}

/// The reason why ktrace does not probe a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The function has an exit that is not a return. This is the first one.
    TailCall(Exit),
    /// The function never returns.
    NoReturn,
    /// ktrace cannot decode the text of the function.
    BadText(BadText),
    /// The kernel refuses a kprobe on the return at this address.
    Unprobable(usize, Unprobable),
    /// This build of ktrace has no decoder: see [`IS_BUILT`].
    NotBuilt,
    /// Another error of the kernel.
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
            // SAFETY: `Kretinsn` registers this handler only on return instructions. No code
            // changes an instruction that has a kprobe.
            caller: unsafe { arch::return_address(hit.registers()) },
        };
        self.0.handler.ret(hit, &call);
    }
}

/// Registered probes on all returns of a function. Dropping the value unregisters them.
///
/// Dropping waits for an RCU grace period, until no handler runs. Process context.
///
/// # Examples
///
/// Prints the return instruction of each call:
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
#[must_use = "dropping the probe unregisters it"]
pub struct Kretinsn<H: Handler> {
    function: Arc<ProbedFunction<H>>,
    probes: Batch<ReturnHandler<H>>,
}

impl<H: Handler> Kretinsn<H> {
    /// Registers and arms probes on all returns of the function at `target`, or none.
    ///
    /// Process context; sleeps. Fails for the reasons of [`Refusal`], and as
    /// [`Kprobe::new`](crate::kprobe::Kprobe::new). `EINVAL` if the target is not the entry of a
    /// function, `EAGAIN` if the text of the function changes during each attempt.
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

    /// Registers probes as [`new`](Self::new) does, but does not [arm](Self::enable) them.
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
            // Another module may be at this address now.
            if number > 0 && entry(target)? != address {
                return Err(ENOENT.into());
            }
            match place(&function) {
                Ok(probes) => return Ok(Self { function, probes }),
                // If two attempts have the same result, no code was changing the text.
                Err(refusal) if refusal == before && refusal != EAGAIN.into() => break,
                Err(refusal) => before = refusal,
            }
        }
        Err(before)
    }

    /// Arms all probes, or none. C: `enable_kprobe()`.
    ///
    /// Process context; sleeps. `EINVAL` if the probed code was unloaded.
    pub fn enable(&self) -> Result {
        self.probes.enable()
    }

    /// Disarms all probes. Does not wait for handlers that run. C: `disable_kprobe()`.
    ///
    /// Process context; sleeps.
    pub fn disable(&self) -> Result {
        self.probes.disable()
    }

    /// Whether the probed code was unloaded or is being unloaded. Such a probe cannot be enabled
    /// again. Process context.
    ///
    /// C: `kprobe_gone()`.
    pub fn is_gone(&self) -> bool {
        self.probes.is_gone()
    }

    /// The address of the function. If the function begins with a landing pad (ENDBR), the address
    /// after it. Any context.
    pub fn address(&self) -> usize {
        self.function.address
    }

    /// The addresses of the probes. Any context.
    pub fn exits(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.probes.probes().map(kprobe::Kprobe::address)
    }

    /// The number of returns that did not run the handler, because another handler was running on
    /// that CPU. Any context. C: the sum of `nmissed` in each `struct kprobe`.
    pub fn missed(&self) -> u64 {
        self.probes.missed()
    }

    /// The handler. Other CPUs may run it at the same time. Any context.
    pub fn handler(&self) -> &H {
        &self.function.handler
    }

    /// Converts the value to its kprobes, which can be unregistered together with others.
    pub fn into_kprobes(self) -> impl Iterator<Item = AnyKprobe> {
        self.probes.into_kprobes()
    }
}

fn is_return(kind: ExitKind) -> bool {
    matches!(kind, ExitKind::Return | ExitKind::ReturnThunk)
}

/// Returns the address of a probe on the entry of the function that starts at `target`.
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

/// Registers probes on all returns of a function. `EAGAIN` if the text changed during the call.
fn place<H: Handler>(
    function: &Arc<ProbedFunction<H>>,
) -> Result<Batch<ReturnHandler<H>>, Refusal> {
    let exits = Exits::find(function.address)?;
    match exits.verdict() {
        Ok(Verdict::Returns) => {}
        Ok(Verdict::TailCall(exit)) => return Err(Refusal::TailCall(exit)),
        Ok(Verdict::NoReturn) => return Err(Refusal::NoReturn),
        // `find` has read the whole function.
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
    // To register the kprobes, the kernel took `text_mutex`, so a change of the text before them is
    // complete and visible now.
    match exits.is_current()? {
        true => Ok(probes),
        false => Err(EAGAIN.into()),
    }
}

/// Returns the reason for which the kernel refused kprobes on these returns with `error`.
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
