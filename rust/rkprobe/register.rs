// SPDX-License-Identifier: GPL-2.0

//! Register a probe with the kernel.
//!
//! rkprobe registers a probe by ftrace or at a tracepoint each time that its event is enabled, and
//! a kprobe of a module each time that the module is loaded. Nothing here reads a file, because the
//! kernel holds `event_mutex` while it enables an event.
//!
//! C: `__register_trace_kprobe()` in `kernel/trace/trace_kprobe.c`, `__register_trace_fprobe()` in
//! `kernel/trace/trace_fprobe.c`.

use core::{
    fmt,
    num::NonZero, //
};

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    event_probe::{
        Event,
        EventProbe, //
    },
    fprobe::{
        Fprobe,
        Functions, //
    },
    ftrace,
    kprobe::{
        self,
        Kprobe, //
    },
    kretinsn::{
        Kretinsn,
        Refusal, //
    },
    kretprobe::{
        self,
        Kretprobe, //
    },
    security,
    symbol,
    tracepoint::Tracepoint,
    watchpoint::{
        self,
        Watchpoint, //
    }, //
};
use probe::{
    command::{
        self,
        Command,
        ProbeKind,
        Target,
        MAX_ARGUMENTS, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
    fetch::EntryArgument, //
};

use crate::{
    compile::Compiled,
    entry_saver::{
        EntryLayout,
        EntrySaver,
        FEW, //
    },
    exits,
    failure::{
        at_target,
        Failure, //
    },
    object::Role,
    object_recorder::{
        AtObject,
        AtObjectReturn,
        ObjectSaver,
        MAX_WORDS, //
    },
    reader,
    recorder::{
        AtEntry,
        AtEvent,
        AtExit,
        Recorder, //
    },
    records::Records,
    registered::Registered,
    resolve::memory,
    symbols, //
};

/// Registers the probe of a command, disabled. A probe by ftrace or at a tracepoint is armed at
/// once. Not for an event probe.
///
/// As in C, errors of the address precede errors of the compilation. Process context; sleeps.
#[inline(never)]
pub(crate) fn register(
    command: &Command<'_>,
    compiled: Result<Compiled, Failure>,
    records: &Arc<Records>,
) -> Result<KBox<dyn Registered>, Failure> {
    security::kprobes_allowed().map_err(at_target)?;
    let registered = compiled.and_then(|compiled| register_kind(command, &compiled, records));
    check_address(&command.target, registered)
}

/// Registers the probe of an accepted command again, as [`register`] does. Process context; sleeps.
pub(crate) fn register_again(
    command: &Command<'_>,
    compiled: &Compiled,
    records: &Arc<Records>,
) -> Result<KBox<dyn Registered>, Failure> {
    security::kprobes_allowed().map_err(at_target)?;
    check_address(&command.target, register_kind(command, compiled, records))
}

/// Creates an event probe. It is attached to `event` while its own event is enabled. `ENOMEM`.
pub(crate) fn make_event_probe(
    event: Event,
    filter: Option<CString>,
    compiled: &Compiled,
    records: &Arc<Records>,
) -> Result<KBox<dyn Registered>> {
    let (recorder, _) = compiled.recorder(records)?;
    boxed(EventProbe::new(event, filter, AtEvent(recorder))?)
}

fn boxed(probe: impl Registered + 'static) -> Result<KBox<dyn Registered>> {
    Ok(KBox::new(probe, GFP_KERNEL)?)
}

/// Registers a probe with the mechanism of its kind.
#[inline(never)]
fn register_kind(
    command: &Command<'_>,
    compiled: &Compiled,
    records: &Arc<Records>,
) -> Result<KBox<dyn Registered>, Failure> {
    match command.target {
        Target::Address(address) => register_kprobe(
            command,
            kprobe::Target::Address(address as usize),
            compiled,
            records,
        ),
        Target::Symbol { symbol, offset } => {
            let symbol = CString::try_from_fmt(format_args!("{symbol}"))?;
            let target = kprobe::Target::Symbol(&symbol, offset);
            register_kprobe(command, target, compiled, records)
        }
        Target::AllNamed(name) => register_all(command, name, compiled, records),
        Target::Functions(name) | Target::Tracepoint(name) => {
            let (recorder, entry) = compiled.recorder(records)?;
            let name = CString::try_from_fmt(format_args!("{name}"))?;
            Ok(match command.kind {
                ProbeKind::FprobeEntry => {
                    let functions = Functions::Glob(&name, None);
                    boxed(Fprobe::new(functions, AtEntry(recorder))?)?
                }
                ProbeKind::Tracepoint => {
                    boxed(Tracepoint::attach_or_wait(&name, AtEntry(recorder))?)?
                }
                _ => register_exit(&name, recorder, entry)?,
            })
        }
        Target::Object(_) => Ok(register_object(command.kind, compiled, records)?),
        Target::Event { .. } => Err(EINVAL.into()),
        Target::Memory(_) => register_watchpoint(command, compiled, records),
    }
}

/// Watches memory from now on. A full error number says little, so the reason is in the kernel's
/// log.
#[inline(never)]
fn register_watchpoint(
    command: &Command<'_>,
    compiled: &Compiled,
    records: &Arc<Records>,
) -> Result<KBox<dyn Registered>, Failure> {
    let (recorder, _) = compiled.recorder(records)?;
    let target = memory(command, symbols::address_of)?;
    let registered = Watchpoint::new(target, recorder).inspect_err(|error| {
        if *error == ENOSPC {
            let slots = watchpoint::slots(target.access);
            reader::log(format_args!("{}", command.target), |text| {
                pr_info!("{text}: a processor watches at most {slots} places, and all are taken\n");
            });
        }
    });
    Ok(boxed(registered.map_err(at_target)?)?)
}

/// Registers a probe by ftrace for each parameter that may be an object: the handler need not look
/// up the function.
#[inline(never)]
fn register_object(
    kind: ProbeKind,
    compiled: &Compiled,
    records: &Arc<Records>,
) -> Result<KBox<dyn Registered>> {
    let Some(Role::Follow(following)) = records.schema.role() else {
        return Err(EINVAL);
    };
    let mut probes = KVec::with_capacity(following.functions.len(), GFP_KERNEL)?;
    for group in &following.functions {
        let (recorder, entry) = compiled.recorder(records)?;
        let handler = AtObject {
            recorder,
            objects: following.objects.clone(),
            position: group.position,
            selection: following.selection,
            values_at: records.schema.values_at(),
            register: group.register,
        };
        let functions = Functions::Addresses(&group.addresses);
        let probe = if kind.is_return() {
            register_object_return(functions, ObjectSaver::new(handler, entry))?
        } else {
            boxed(Fprobe::new(functions, handler)?)?
        };
        probes.push(probe, GFP_KERNEL)?;
    }
    boxed(probes)
}

/// Registers a probe by ftrace on the returns of functions that may receive an object. The kernel
/// has 32 words for the entry data of all probes of one call, so it is as small as possible.
fn register_object_return(
    functions: Functions<'_>,
    saver: ObjectSaver,
) -> Result<KBox<dyn Registered>> {
    fn register<const N: usize>(
        functions: Functions<'_>,
        saver: ObjectSaver,
    ) -> Result<KBox<dyn Registered>> {
        boxed(Fprobe::new(functions, AtObjectReturn::<N>(saver))?)
    }

    match saver.words() {
        1 => register::<1>(functions, saver),
        2 => register::<2>(functions, saver),
        3 => register::<3>(functions, saver),
        4 => register::<4>(functions, saver),
        5 => register::<5>(functions, saver),
        6 => register::<6>(functions, saver),
        7 => register::<7>(functions, saver),
        8 => register::<8>(functions, saver),
        MAX_WORDS => register::<MAX_WORDS>(functions, saver),
        _ => Err(E2BIG),
    }
}

/// Registers a kprobe, a kretprobe or a probe on return instructions at one target.
#[inline(never)]
fn register_kprobe(
    command: &Command<'_>,
    target: kprobe::Target<'_>,
    compiled: &Compiled,
    records: &Arc<Records>,
) -> Result<KBox<dyn Registered>, Failure> {
    let (recorder, entry) = compiled.recorder(records)?;
    Ok(match command.kind {
        ProbeKind::Kretprobe => {
            let maxactive = command.maxactive.map_or(0, NonZero::get);
            register_return(target, maxactive, recorder, entry).map_err(at_target)?
        }
        ProbeKind::Kretinsn => {
            boxed(Kretinsn::register_disabled(target, recorder).map_err(refused)?)?
        }
        _ => boxed(Kprobe::register_disabled(target, recorder).map_err(at_target)?)?,
    })
}

/// Registers a probe on each function of this name. Leaves out functions that the kernel refuses.
/// Fails if the kernel refuses all of them.
#[inline(never)]
fn register_all(
    command: &Command<'_>,
    name: &str,
    compiled: &Compiled,
    records: &Arc<Records>,
) -> Result<KBox<dyn Registered>, Failure> {
    let addresses = symbol::addresses_of(name).map_err(at_target)?;
    let mut probes = KVec::with_capacity(addresses.len(), GFP_KERNEL)?;
    let mut first_failure = None;
    for address in &addresses {
        let target = kprobe::Target::Address(*address);
        let registered = register_kprobe(command, target, compiled, records);
        match check_address(&Target::Address(*address as u64), registered) {
            Ok(probe) => probes.push(probe, GFP_KERNEL)?,
            Err(failure) if failure.errno() == ENOMEM => return Err(failure),
            Err(failure) => first_failure = first_failure.or(Some(failure)),
        }
    }
    let (all, probed) = (addresses.len(), probes.len());
    if probed == 0 {
        return Err(first_failure.unwrap_or(at_target(ENOENT)));
    }
    if probed < all {
        pr_info!("{name}%all: {probed} of {all} functions can be probed\n");
    }
    Ok(boxed(probes)?)
}

/// Registers a probe by ftrace on the exits of functions. The size of the entry data is a constant
/// of the handler's type. So the kernel reserves exactly this size for each call in flight, and the
/// handlers need no bounds check.
fn register_exit(
    name: &CStr,
    recorder: Recorder,
    EntryLayout {
        arguments,
        is_timed,
    }: EntryLayout,
) -> Result<KBox<dyn Registered>> {
    let functions = Functions::Glob(name, None);
    if is_timed {
        boxed(Fprobe::new(
            functions,
            EntrySaver::<FEW, true>::new(recorder, arguments)?,
        )?)
    } else if arguments.is_empty() {
        boxed(Fprobe::new(functions, AtExit(recorder))?)
    } else {
        boxed(Fprobe::new(
            functions,
            EntrySaver::<FEW, false>::new(recorder, arguments)?,
        )?)
    }
}

/// Registers a return probe, with the smallest handler that can save its entry data.
fn register_return(
    target: kprobe::Target<'_>,
    maxactive: u16,
    recorder: Recorder,
    EntryLayout {
        arguments,
        is_timed,
    }: EntryLayout,
) -> Result<KBox<dyn Registered>> {
    fn register_handler<H>(
        target: kprobe::Target<'_>,
        maxactive: u16,
        handler: H,
    ) -> Result<KBox<dyn Registered>>
    where
        H: kretprobe::Handler + AsRef<Recorder>,
    {
        boxed(Kretprobe::register_disabled(target, maxactive, handler)?)
    }

    fn register_saver<const N: usize, const IS_TIMED: bool>(
        target: kprobe::Target<'_>,
        maxactive: u16,
        recorder: Recorder,
        arguments: KVec<EntryArgument>,
    ) -> Result<KBox<dyn Registered>> {
        let saver = EntrySaver::<N, IS_TIMED>::new(recorder, arguments)?;
        register_handler(target, maxactive, saver)
    }

    match (arguments.len(), is_timed) {
        (0, false) => register_handler(target, maxactive, recorder),
        // The time alone.
        (0, true) => register_saver::<1, true>(target, maxactive, recorder, arguments),
        // For most probes.
        (..=2, false) => register_saver::<2, false>(target, maxactive, recorder, arguments),
        // For all arguments in registers.
        (..=FEW, false) => register_saver::<FEW, false>(target, maxactive, recorder, arguments),
        (..FEW, true) => register_saver::<FEW, true>(target, maxactive, recorder, arguments),
        // For any command. If the probe saves the time, one argument is `$elapsed`.
        (_, false) => {
            register_saver::<MAX_ARGUMENTS, false>(target, maxactive, recorder, arguments)
        }
        (_, true) => register_saver::<MAX_ARGUMENTS, true>(target, maxactive, recorder, arguments),
    }
}

/// Refuses a probe at an address that the kernel's own implementation refuses. As in C, this error
/// precedes errors of the registration. Looking an address up takes as long as a registration, so
/// this function does it only if the registration failed.
#[inline(never)]
fn check_address(
    target: &Target<'_>,
    registered: Result<KBox<dyn Registered>, Failure>,
) -> Result<KBox<dyn Registered>, Failure> {
    let address = match (&registered, *target) {
        (Ok(probe), _) => probe.address(),
        (Err(_), Target::Symbol { symbol, offset }) => symbols::address_at(symbol, offset).ok(),
        (Err(_), Target::Address(address)) => Some(address as usize),
        (Err(_), _) => None,
    };
    let Some(address) = address else {
        return registered;
    };
    if let Target::Symbol { symbol, .. } = *target {
        if !symbols::is_unique_at(symbol, address) {
            return Err(command::Error::at_target(ErrorKind::NonUniqSymbol, Errno::EINVAL).into());
        }
    }
    if !is_traceable(address)? {
        return Err(at_target(EINVAL));
    }
    if let Err(Failure::Command(error)) = &registered {
        if matches!(
            error.kind,
            ErrorKind::FailRegProbe | ErrorKind::BadInsnBndry
        ) {
            log_unprobable(address)?;
        }
    }
    registered
}

/// Logs why the kernel refuses a probe at this address, if the instruction is the reason.
#[inline(never)]
fn log_unprobable(address: usize) -> Result {
    if let Some(why) = kprobe::unprobable(address)? {
        let place = exits::SymbolOffset(address as u64);
        reader::log(format_args!("{place}: {why}"), |text| pr_info!("{text}\n"));
    }
    Ok(())
}

/// Whether this address is in a function that may be traced. Tracing itself uses the other
/// functions.
///
/// C: `within_notrace_func()`.
#[inline(never)]
fn is_traceable(address: usize) -> Result<bool> {
    if cfg!(CONFIG_KPROBE_EVENTS_ON_NOTRACE) {
        return Ok(true);
    }
    // The kernel refuses an address in no function.
    let Some(start) = symbol::start_of(address) else {
        return Ok(true);
    };
    if ftrace::is_traceable(start)? {
        return Ok(true);
    }
    // The compiler splits parts off functions (`.cold`, `.part`). The whole function decides.
    let mut buffer = [0; symbol::LEN];
    let name = core::str::from_utf8(symbol::format(start, false, &mut buffer)).unwrap_or("");
    match name.split_once('.') {
        Some((whole, _)) => Ok(symbols::address_of(whole)
            .and_then(ftrace::is_traceable)
            .unwrap_or(false)),
        None => Ok(false),
    }
}

/// Converts the reason why a function cannot have probes on its return instructions. Logs the
/// details.
#[inline(never)]
fn refused(refusal: Refusal) -> Failure {
    let log = |text: fmt::Arguments<'_>| reader::log(text, |text| pr_info!("{text}\n"));
    let kind = match refusal {
        Refusal::TailCall(exit) => {
            log(format_args!("{}; use %return", exits::Shown(&exit)));
            ErrorKind::TailCall
        }
        Refusal::NoReturn => ErrorKind::NoRetInsn,
        Refusal::BadText(bad) => {
            log(format_args!("{}", exits::Bad(&bad)));
            ErrorKind::BadText
        }
        Refusal::Unprobable(address, why) => {
            log(format_args!(
                "{}: {why}; use %return",
                exits::SymbolOffset(address as u64)
            ));
            ErrorKind::RetInsnRefused
        }
        Refusal::NotBuilt => {
            let kind = ErrorKind::NosupRetinsn;
            return command::Error::at_target(kind, Errno::EOPNOTSUPP).into();
        }
        Refusal::Failed(error) => return at_target(error),
    };
    command::Error::at_target(kind, Errno::EINVAL).into()
}
