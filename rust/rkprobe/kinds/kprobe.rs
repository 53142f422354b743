// SPDX-License-Identifier: GPL-2.0

//! Kprobes, kretprobes, kprobes on the return instructions or the blocks of a function, and paths.
//!
//! C: `__register_trace_kprobe()`, `validate_probe_symbol()`, `kprobe_dispatcher()`,
//! `kretprobe_dispatcher()` in `kernel/trace/trace_kprobe.c`.

mod refused;
mod registered;

use core::num::NonZero;

use kernel::{
    prelude::*,
    str::CString, //
};

use ktrace::{
    kprobe::{
        self,
        Kprobe, //
    },
    kretinsn::Kretinsn,
    security,
    symbol, //
};
use probe::{
    command::{
        self,
        Command,
        ProbeKind,
        ProbePoint,
        MAX_ARGUMENTS, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
    fetch::EntryArgument, //
};

use crate::{
    action::{
        Action,
        Purpose, //
    },
    block_probes::{
        forbid_jump,
        BlockProbes, //
    },
    compile::Compiled,
    entry_saver::FEW,
    exits,
    failure::{
        at_target,
        Failure, //
    },
    kind::{
        Kind,
        Start, //
    },
    reader,
    registered::{
        boxed,
        Awaited,
        Registered, //
    },
    resolve::{
        ResolvedTarget,
        TypeSource, //
    },
    symbols, //
};

use registered::{
    register_return,
    NotReplaced,
    OnBlocks,
    OnPath, //
};

/// `[MOD:]SYM[+OFFSET]`.
pub(super) struct Symbol<'a> {
    pub(super) symbol: &'a str,
    pub(super) offset: u32,
}

impl<'a> Kind<'a> for Symbol<'a> {
    fn resolve(&self, command: &Command<'a>) -> Result<ResolvedTarget<'a>, Failure> {
        let is_entry = self.check(command.kind)?;
        Ok(self.resolved(command, is_entry))
    }

    fn resolve_again(&self, command: &Command<'a>) -> Result<ResolvedTarget<'a>> {
        let is_entry = command.kind == ProbeKind::Kprobe && self.is_entry()? == Some(true);
        Ok(self.resolved(command, is_entry))
    }

    fn start(
        &self,
        command: &Command<'a>,
        compiled: Result<Compiled, Failure>,
        purpose: &Purpose,
    ) -> Result<Start, Failure> {
        security::kprobes_allowed().map_err(at_target)?;
        let register = |compiled| self.register(command, &compiled, purpose);
        let registered = self.check_address(compiled.and_then(register));
        if let Some(address) = registered.as_ref().ok().and_then(|probe| probe.address()) {
            self.log_other_function(address);
        }
        if self.module_symbol().is_none() {
            return Ok(Start::Once(registered?));
        }
        match registered {
            Err(failure) if failure.errno() == ENOENT && symbols::count(self.symbol)?.is_none() => {
                pr_info!("{}: the probe waits for the module\n", self.symbol);
                Ok(Start::WithModule(None))
            }
            registered => Ok(Start::WithModule(Some(registered?))),
        }
    }

    fn register_again(
        &self,
        command: &Command<'a>,
        compiled: &Compiled,
        purpose: &Purpose,
    ) -> Result<KBox<dyn Registered>, Failure> {
        self.check_address(self.register(command, compiled, purpose))
    }

    fn module_symbol(&self) -> Option<(&'a str, &'a str)> {
        self.symbol.split_once(':')
    }

    fn awaited(&self, _is_registered: bool) -> Option<Awaited<'a>> {
        let (module, _) = self.module_symbol()?;
        Some(Awaited::Module(module))
    }
}

impl<'a> Symbol<'a> {
    /// Checks that the symbol exists and is unique. Returns whether the target is the entry of a
    /// function. The target of a return probe must be an entry.
    ///
    /// C: `validate_probe_symbol()`, `kprobe_on_func_entry()`.
    fn check(&self, kind: ProbeKind) -> Result<bool, Failure> {
        let refuse = |kind| Err(command::Error::at_target(kind, Errno::EINVAL).into());
        let is_entry = match symbols::count(self.symbol)? {
            // The module is not loaded, so the place in its function is unknown.
            None => kind.is_return(),
            Some(0) => return refuse(ErrorKind::BadProbeAddr),
            // In no function, the kernel refuses a return probe at the registration.
            Some(1) => self.is_entry()?.unwrap_or(kind.is_return()),
            Some(_) => return refuse(ErrorKind::NonUniqSymbol),
        };
        if matches!(kind, ProbeKind::Blocks { .. } | ProbeKind::Path) && self.offset != 0 {
            return refuse(ErrorKind::BlocksInside);
        }
        if kind.is_return() && !is_entry {
            return refuse(ErrorKind::BadRetprobe);
        }
        Ok(is_entry)
    }

    /// Whether the target is the entry of a function. `None` if no function contains it.
    ///
    /// An offset can reach another function: perf probe counts from `_text`.
    fn is_entry(&self) -> Result<Option<bool>> {
        match self.offset {
            0 => Ok(Some(true)),
            offset => Ok(symbol::is_entry(symbols::address_at(self.symbol, offset)?)),
        }
    }

    /// Logs which function contains `address`, the address of the target, if it is not the function
    /// of the symbol: such an offset is most often a mistake. perf probe counts from the start of
    /// the kernel's text.
    #[inline(never)]
    fn log_other_function(&self, address: usize) {
        let symbol = address.wrapping_sub(self.offset as usize);
        if self.offset == 0
            || matches!(self.symbol, "_text" | "_stext")
            || symbol::start_of(address) == symbol::start_of(symbol)
        {
            return;
        }
        let place = exits::SymbolOffset(address as u64);
        reader::log_line(format_args!(
            "{}+{} is in another function: {place}",
            self.symbol, self.offset
        ));
    }

    fn resolved(&self, command: &Command<'_>, is_entry: bool) -> ResolvedTarget<'a> {
        ResolvedTarget {
            point: point(command, is_entry),
            types: TypeSource::Function(self.symbol),
        }
    }

    fn register(
        &self,
        command: &Command<'_>,
        compiled: &Compiled,
        purpose: &Purpose,
    ) -> Result<KBox<dyn Registered>, Failure> {
        let symbol = CString::try_from_fmt(format_args!("{}", self.symbol))?;
        let target = kprobe::Target::Symbol(&symbol, self.offset);
        register(command, target, compiled, purpose)
    }

    fn check_address(
        &self,
        registered: Result<KBox<dyn Registered>, Failure>,
    ) -> Result<KBox<dyn Registered>, Failure> {
        let find = || symbols::address_at(self.symbol, self.offset).ok();
        refused::check(Some(self.symbol), registered, find)
    }
}

/// An address.
pub(super) struct Address(pub(super) u64);

impl<'a> Kind<'a> for Address {
    /// As in C, the function of an address is unknown.
    fn resolve(&self, command: &Command<'a>) -> Result<ResolvedTarget<'a>, Failure> {
        Ok(ResolvedTarget {
            point: point(command, false),
            types: TypeSource::None,
        })
    }

    fn start(
        &self,
        command: &Command<'a>,
        compiled: Result<Compiled, Failure>,
        purpose: &Purpose,
    ) -> Result<Start, Failure> {
        security::kprobes_allowed().map_err(at_target)?;
        let register = |compiled| self.register(command, &compiled, purpose);
        Ok(Start::Once(self.check(compiled.and_then(register))?))
    }
}

impl Address {
    fn register(
        &self,
        command: &Command<'_>,
        compiled: &Compiled,
        purpose: &Purpose,
    ) -> Result<KBox<dyn Registered>, Failure> {
        let target = kprobe::Target::Address(self.0 as usize);
        register(command, target, compiled, purpose)
    }

    fn check(
        &self,
        registered: Result<KBox<dyn Registered>, Failure>,
    ) -> Result<KBox<dyn Registered>, Failure> {
        refused::check(None, registered, || Some(self.0 as usize))
    }
}

/// All functions with this name.
pub(super) struct AllNamed<'a>(pub(super) &'a str);

impl<'a> Kind<'a> for AllNamed<'a> {
    fn resolve(&self, command: &Command<'a>) -> Result<ResolvedTarget<'a>, Failure> {
        if symbols::count(self.0)?.unwrap_or(0) == 0 {
            let kind = ErrorKind::BadProbeAddr;
            return Err(command::Error::at_target(kind, Errno::EINVAL).into());
        }
        Ok(ResolvedTarget {
            point: point(command, true),
            types: TypeSource::Function(self.0),
        })
    }

    fn start(
        &self,
        command: &Command<'a>,
        compiled: Result<Compiled, Failure>,
        purpose: &Purpose,
    ) -> Result<Start, Failure> {
        security::kprobes_allowed().map_err(at_target)?;
        Ok(Start::Once(self.register(command, &compiled?, purpose)?))
    }
}

impl AllNamed<'_> {
    /// Leaves out functions that the kernel refuses. Fails if the kernel refuses all of them.
    fn register(
        &self,
        command: &Command<'_>,
        compiled: &Compiled,
        purpose: &Purpose,
    ) -> Result<KBox<dyn Registered>, Failure> {
        let addresses = symbol::addresses_of(self.0).map_err(at_target)?;
        let mut probes = KVec::with_capacity(addresses.len(), GFP_KERNEL)?;
        let mut first_failure = None;
        for address in &addresses {
            let address = Address(*address as u64);
            match address.check(address.register(command, compiled, purpose)) {
                Ok(probe) => probes.push(probe, GFP_KERNEL)?,
                Err(failure) if failure.errno() == ENOMEM => return Err(failure),
                Err(failure) => first_failure = first_failure.or(Some(failure)),
            }
        }
        let (name, all, probed) = (self.0, addresses.len(), probes.len());
        if probed == 0 {
            return Err(first_failure.unwrap_or(at_target(ENOENT)));
        }
        if probed < all {
            pr_info!("{name}%all: {probed} of {all} functions can be probed\n");
        }
        Ok(boxed(probes)?)
    }
}

/// The probe point. `is_entry` is whether the target is the entry of a function.
fn point(command: &Command<'_>, is_entry: bool) -> ProbePoint {
    match command.kind {
        ProbeKind::Kretprobe => ProbePoint::Return,
        ProbeKind::Kretinsn => ProbePoint::ReturnInsn,
        ProbeKind::Blocks { .. } => ProbePoint::Inside,
        ProbeKind::Path => ProbePoint::Path,
        _ if is_entry => ProbePoint::Entry,
        _ => ProbePoint::Inside,
    }
}

/// Registers a kprobe, a kretprobe, or a probe on return instructions or blocks at one target,
/// disabled.
#[inline(never)]
fn register(
    command: &Command<'_>,
    target: kprobe::Target<'_>,
    compiled: &Compiled,
    purpose: &Purpose,
) -> Result<KBox<dyn Registered>, Failure> {
    let (action, entry) = compiled.action(purpose)?;
    Ok(match command.kind {
        ProbeKind::Kretprobe => {
            let maxactive = command.maxactive.map_or(0, NonZero::get);
            register_return(target, maxactive, action, entry).map_err(at_target)?
        }
        ProbeKind::Kretinsn => register_kretinsn(target, action)?,
        ProbeKind::Blocks { is_once } => register_blocks(target, is_once, action)?,
        ProbeKind::Path => match entry.arguments.len() {
            ..FEW => register_path::<FEW>(command, target, action, entry.arguments)?,
            _ => register_path::<MAX_ARGUMENTS>(command, target, action, entry.arguments)?,
        },
        _ => match forbid_jump(target).map_err(at_target)? {
            true => register_kprobe(target, NotReplaced(action))?,
            false => register_kprobe(target, action)?,
        },
    })
}

#[inline(never)]
fn register_kprobe<H: kprobe::Handler + AsRef<Action> + 'static>(
    target: kprobe::Target<'_>,
    handler: H,
) -> Result<KBox<dyn Registered>, Failure> {
    let probe = Kprobe::register_disabled(target, handler);
    Ok(boxed(
        KBox::pin_init(probe, GFP_KERNEL).map_err(at_target)?,
    )?)
}

#[inline(never)]
fn register_kretinsn(
    target: kprobe::Target<'_>,
    action: Action,
) -> Result<KBox<dyn Registered>, Failure> {
    let registered = Kretinsn::register_disabled(target, action);
    Ok(boxed(registered.map_err(refused::of_retinsn)?)?)
}

#[inline(never)]
fn register_blocks(
    target: kprobe::Target<'_>,
    is_once: bool,
    action: Action,
) -> Result<KBox<dyn Registered>, Failure> {
    let registered = OnBlocks::register_disabled(target, is_once, action);
    let registered = registered.map_err(refused::of_blocks)?;
    log_gaps(&registered.probes);
    Ok(boxed(registered)?)
}

/// Registers the probes of a path, disabled. `N` is the number of words of entry data.
#[inline(never)]
fn register_path<const N: usize>(
    command: &Command<'_>,
    target: kprobe::Target<'_>,
    action: Action,
    arguments: KVec<EntryArgument>,
) -> Result<KBox<dyn Registered>, Failure> {
    let registered = OnPath::<N>::register_disabled(target, command.maxactive, action, arguments);
    let registered = registered.map_err(refused::of_blocks)?;
    log_gaps(&registered.blocks);
    Ok(boxed(registered)?)
}

/// Logs how many blocks of a function the kernel refuses to probe.
#[inline(never)]
fn log_gaps<P>(probes: &BlockProbes<P>) {
    let (all, refused) = (probes.blocks().len(), probes.refused());
    if refused > 0 {
        let entry = exits::SymbolOffset(probes.entry() as u64);
        reader::log_line(format_args!(
            "{entry}: {refused} of {all} blocks cannot be probed, see rkprobe_blocks"
        ));
    }
}
