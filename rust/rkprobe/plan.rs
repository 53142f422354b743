// SPDX-License-Identifier: GPL-2.0

//! A probe that is ready to be registered.
//!
//! A command becomes a [`Plan`], and a plan a registered probe as often as that is needed: a probe
//! by ftrace or of a tracepoint is registered each time that its event is enabled, and a kprobe of
//! a module each time that the module comes. Making a plan looks up symbols and reads BTF from
//! files. Registering one reads no file, because the kernel holds `event_mutex` where it enables an
//! event. So a plan is made when the command is carried out, and again when a module comes or goes
//! that it depends on.
//!
//! C: `__register_trace_kprobe()` in `kernel/trace/trace_kprobe.c`, `__register_trace_fprobe()` in
//! `kernel/trace/trace_fprobe.c`, `traceprobe_update_arg()` in `kernel/trace/trace_probe.c`.

use core::fmt;
use core::num::NonZero;

use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use ktrace::ftrace;
use ktrace::kprobe;
use ktrace::kprobe::Kprobe;
use ktrace::kretinsn::Kretinsn;
use ktrace::kretinsn::Refusal;
use ktrace::module::Module;
use ktrace::security;
use ktrace::symbol;
use probe::arch;
use probe::argument::Base;
use probe::command;
use probe::command::split_symbol;
use probe::command::Command;
use probe::command::File;
use probe::command::Kind;
use probe::command::Line;
use probe::command::Place;
use probe::command::Signature;
use probe::command::Site;
use probe::command::Target;
use probe::error::Errno;
use probe::error::ErrorKind;
use probe::fetch;
use probe::fetch::EntryValue;
use probe::fetch::Layout;
use probe::fetch::Program;

use crate::armed::Armed;
use crate::exits;
use crate::failure::at_target;
use crate::failure::to_kernel;
use crate::failure::Failure;
use crate::hook::Hook;
use crate::recorder::Parts;
use crate::recorder::Recorder;
use crate::return_probe::Kept;
use crate::return_probe::ReturnProbe;
use crate::shape::Shape;
use crate::signature;
use crate::symbols;

/// Everything that is needed to register a probe.
pub(crate) struct Plan {
    kind: Kind,
    destination: Destination,
    maxactive: u16,
    compiled: Compiled,
}

/// Where a probe goes, as the command says.
enum Destination {
    Address(u64),
    Symbol(CString, u32),
    /// Functions or a tracepoint.
    Named(CString),
}

impl Plan {
    /// Makes the plan of a command. Symbols of the module that is `going` are not found.
    ///
    /// Process context; sleeps, and may read files.
    #[inline(never)]
    pub(crate) fn new(
        command: &Command<'_>,
        site: Site<'_>,
        going: Option<&Module>,
    ) -> Result<Self, Failure> {
        let destination = match command.target {
            Target::Address(address) => Destination::Address(address),
            Target::Symbol { symbol, offset } => {
                Destination::Symbol(CString::try_from_fmt(format_args!("{symbol}"))?, offset)
            }
            Target::Functions(name) | Target::Tracepoint(name) => {
                Destination::Named(CString::try_from_fmt(format_args!("{name}"))?)
            }
            // Its probe is made once, by its own module.
            Target::Event { .. } => return Err(EINVAL.into()),
        };
        Ok(Self {
            kind: command.kind,
            destination,
            maxactive: command.maxactive.map_or(0, NonZero::get),
            compiled: Compiled::new(command, site, going)?,
        })
    }

    /// Makes the plan of a command that was accepted, from its listing: with the symbols where they
    /// are now. `EINVAL` if its fields are not those of the event any more: a module that comes
    /// back can have other types.
    ///
    /// Process context; sleeps, and may read files. C: `traceprobe_update_arg()`.
    #[inline(never)]
    pub(crate) fn again(listing: &str, shape: &Shape, going: Option<&Module>) -> Result<Self> {
        let plan_line = || match File::All.parse(listing)? {
            Line::Create(command) => {
                let place = match (command.kind, command.target) {
                    (Kind::Return, _) => Place::Return,
                    (Kind::ReturnInsn, _) => Place::ReturnInsn,
                    (Kind::Probe, Target::Symbol { symbol, offset })
                        if is_entry(symbol, offset)? == Some(true) =>
                    {
                        Place::Entry
                    }
                    (kind, _) => place_of(kind).unwrap_or(Place::Inside),
                };
                signature::with_site(&command, place, |mut site| {
                    let has_fields = |site| match has_fields(&command, site, shape) {
                        Err(Failure::Command(_)) => Ok(false),
                        result => result,
                    };
                    // Where the module was not there its BTF was not used, and is not now.
                    if !has_fields(site)? {
                        site.signature = Signature::Unknown;
                        if !has_fields(site)? {
                            return Err(EINVAL.into());
                        }
                    }
                    Self::new(&command, site, going)
                })
            }
            _ => Err(EINVAL.into()),
        };
        plan_line().map_err(|failure: Failure| failure.errno())
    }

    /// Does the plan depend on this module: on its symbols, or on its types?
    pub(crate) fn needs(&self, module: &Module) -> bool {
        let mut names = self.compiled.needs.modules.iter();
        names.any(|name| name.to_bytes() == &**module.name())
    }

    /// Can a module that comes change the plan?
    pub(crate) fn is_open(&self) -> bool {
        self.compiled.needs.is_open
    }

    /// Registers the probe, disarmed; but one by ftrace or of a tracepoint hits from now on.
    ///
    /// Reads no file.
    pub(crate) fn arm(&self, parts: &Parts) -> Result<Armed, Failure> {
        security::kprobes_allowed().map_err(at_target)?;
        let target = match &self.destination {
            Destination::Address(address) => Target::Address(*address),
            Destination::Symbol(symbol, offset) => Target::Symbol {
                symbol: symbol.to_str().unwrap_or(""),
                offset: *offset,
            },
            Destination::Named(name) => Target::Functions(name.to_str().unwrap_or("")),
        };
        check_place(&target, self.place(parts))
    }

    #[inline(never)]
    fn place(&self, parts: &Parts) -> Result<Armed, Failure> {
        let (recorder, kept) = self.compiled.recorder(parts)?;
        let target = match &self.destination {
            Destination::Address(address) => kprobe::Target::Address(*address as usize),
            Destination::Symbol(symbol, offset) => {
                kprobe::Target::Symbol(CString::try_from(&**symbol)?, *offset)
            }
            Destination::Named(name) => {
                let hook = Hook::register(self.kind, name, recorder, kept)?;
                return Ok(Armed::Hook(hook));
            }
        };
        Ok(match self.kind {
            Kind::Return => {
                let probe = ReturnProbe::register(target, self.maxactive, recorder, kept);
                Armed::Return(probe.map_err(at_target)?)
            }
            Kind::ReturnInsn => {
                let probe = Kretinsn::register(target, recorder);
                Armed::ReturnInsn(probe.map_err(refused)?)
            }
            _ => Armed::Entry(Kprobe::register(target, recorder).map_err(at_target)?),
        })
    }
}

/// Registers the probe of a command, as [`Plan::arm`].
#[inline(never)]
pub(crate) fn arm(command: &Command<'_>, site: Site<'_>, parts: &Parts) -> Result<Armed, Failure> {
    security::kprobes_allowed().map_err(at_target)?;
    match Plan::new(command, site, None) {
        Ok(plan) => plan.arm(parts),
        // C looks at the place before the arguments.
        Err(failure) => check_place(&command.target, Err(failure)),
    }
}

/// The arguments of a command as programs, with everything that these refer to.
pub(crate) struct Compiled {
    programs: KVec<Program>,
    /// The strings that the programs have the addresses of.
    texts: Option<Arc<KVec<CString>>>,
    kept: Kept,
    needs: Needs,
}

/// The modules that a plan depends on.
struct Needs {
    /// Their names.
    modules: KVec<CString>,
    /// Whether there was no module for something, which a module that comes may have.
    is_open: bool,
}

impl Needs {
    fn add(&mut self, module: &str) -> Result {
        let name = CString::try_from_fmt(format_args!("{module}"))?;
        Ok(self.modules.push(name, GFP_KERNEL)?)
    }
}

impl Compiled {
    /// Compiles the arguments. Symbols of the module that is `going` are not found.
    #[inline(never)]
    pub(crate) fn new(
        command: &Command<'_>,
        site: Site<'_>,
        going: Option<&Module>,
    ) -> Result<Self, Failure> {
        let mut resolver = Resolver {
            texts: KVec::new(),
            kept: Kept {
                values: KVec::new(),
                is_timed: false,
            },
            needs: Needs {
                modules: KVec::new(),
                is_open: false,
            },
            going,
        };
        // Only a hook is registered again, with the plan that it has then.
        if command.kind.is_hook() {
            match signature::source_of(command)? {
                signature::Source::Kernel => {}
                signature::Source::Module(module) => {
                    resolver.needs.modules.push(module, GFP_KERNEL)?;
                }
                signature::Source::Unknown => resolver.needs.is_open = true,
            }
        }
        let mut programs = KVec::new();
        for argument in command.arguments(site, arch::current::register)? {
            let argument = argument?;
            resolver.kept.is_timed |= argument.fetch.base == Base::Elapsed;
            programs.push(fetch::compile(&argument, &mut resolver)?, GFP_KERNEL)?;
        }
        Ok(Self {
            programs,
            texts: match resolver.texts.is_empty() {
                true => None,
                false => Some(Arc::new(resolver.texts, GFP_KERNEL)?),
            },
            kept: resolver.kept,
            needs: resolver.needs,
        })
    }

    /// Makes the handler of one registration, and what it keeps from the entry of a call.
    pub(crate) fn recorder(&self, parts: &Parts) -> Result<(Recorder, Kept)> {
        let mut programs = KVec::new();
        programs.extend_from_slice(&self.programs, GFP_KERNEL)?;
        let mut values = KVec::new();
        values.extend_from_slice(&self.kept.values, GFP_KERNEL)?;
        let kept = Kept {
            values,
            is_timed: self.kept.is_timed,
        };
        Ok((parts.recorder(programs, self.texts.clone())?, kept))
    }
}

/// Gives what programs refer to.
struct Resolver<'a> {
    /// The strings that they have the addresses of.
    texts: KVec<CString>,
    /// What is kept for them from the entry of a call.
    kept: Kept,
    needs: Needs,
    /// The module whose symbols are not found, because it is about to be freed.
    going: Option<&'a Module>,
}

impl fetch::Resolver for Resolver<'_> {
    type Error = Failure;

    fn symbol(&mut self, name: &str) -> Result<u64, Failure> {
        let (symbol, offset) = split_symbol(name).map_err(|errno| at_target(to_kernel(errno)))?;
        let address = symbols::address_of(symbol).map_err(at_target)?;
        let mut buffer = [0; symbol::LEN];
        match symbol::location(address, &mut buffer) {
            Some(location) => {
                if let Some(module) = location.module {
                    let is_it = |going: &&Module| module.as_bytes() == &**going.name();
                    if self.going.as_ref().is_some_and(is_it) {
                        return Err(at_target(ENOENT));
                    }
                    self.needs.add(module)?;
                }
            }
            // Data of each processor of a module, perhaps.
            None => self.needs.is_open = true,
        }
        Ok((address as u64).wrapping_add_signed(offset))
    }

    fn text(&mut self, text: &str) -> Result<u64, Failure> {
        let text = CString::try_from_fmt(format_args!("{text}"))?;
        // It does not move when the list grows: the list holds pointers.
        let address = text.as_char_ptr().addr() as u64;
        self.texts.push(text, GFP_KERNEL)?;
        Ok(address)
    }

    fn keep(&mut self, value: EntryValue) -> Result<u8, Failure> {
        let values = &mut self.kept.values;
        let index = match values.iter().position(|kept| *kept == value) {
            Some(index) => index,
            None => {
                values.push(value, GFP_KERNEL)?;
                values.len() - 1
            }
        };
        Ok(u8::try_from(index).map_err(|_| E2BIG)?)
    }
}

/// Where a probe stands that is of a kind that stands in one place only.
pub(crate) fn place_of(kind: Kind) -> Option<Place> {
    match kind {
        Kind::Probe | Kind::Return | Kind::ReturnInsn => None,
        Kind::Entry => Some(Place::Entry),
        Kind::Exit => Some(Place::Return),
        Kind::Tracepoint => Some(Place::Tracepoint),
        Kind::Event => Some(Place::Event),
    }
}

/// Is it the entry of a function? `None` where there is no function.
///
/// An offset may lead to another function: perf probe counts from `_text`.
pub(crate) fn is_entry(symbol: &str, offset: u32) -> Result<Option<bool>> {
    match offset {
        0 => Ok(Some(true)),
        _ => Ok(symbol::is_entry(address_of(symbol, offset)?)),
    }
}

/// Does it have the fields of the event there?
fn has_fields(command: &Command<'_>, site: Site<'_>, shape: &Shape) -> Result<bool, Failure> {
    let mut layout = Layout::new();
    let arguments = command.arguments(site, arch::current::register)?;
    for (argument, (_, field)) in arguments.zip(shape.fields()) {
        if layout.add(&argument?) != Ok(field) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Refuses a probe for where it was placed. To ask for the address first takes the kernel as long
/// as to place the probe: only where it could not be placed that is done, for C looks at this
/// first.
#[inline(never)]
fn check_place(target: &Target<'_>, placed: Result<Armed, Failure>) -> Result<Armed, Failure> {
    let address = match (&placed, *target) {
        (Ok(Armed::Entry(probe)), _) => probe.address(),
        (Ok(Armed::Return(probe)), _) => probe.address(),
        (Ok(Armed::ReturnInsn(probe)), _) => probe.address(),
        (Err(_), Target::Symbol { symbol, offset }) => match address_of(symbol, offset) {
            Ok(address) => address,
            Err(_) => return placed,
        },
        (Err(_), Target::Address(address)) => address as usize,
        _ => return placed,
    };
    if let Target::Symbol { symbol, .. } = *target {
        if !symbols::is_unique_at(symbol, address) {
            return Err(command::Error::at_target(ErrorKind::NonUniqSymbol, Errno::EINVAL).into());
        }
    }
    if !is_traceable(address)? {
        return Err(at_target(EINVAL));
    }
    placed
}

/// Is this address in a function that may be traced? Those that may not are there for the tracing
/// itself to use.
///
/// C: `within_notrace_func()`.
#[inline(never)]
fn is_traceable(address: usize) -> Result<bool> {
    if cfg!(CONFIG_KPROBE_EVENTS_ON_NOTRACE) {
        return Ok(true);
    }
    // Where it belongs to no function the kernel refuses it.
    let Some(start) = symbol::start_of(address) else {
        return Ok(true);
    };
    if ftrace::is_traceable(start)? {
        return Ok(true);
    }
    // A part of a function that the compiler made (`.cold`, `.part`) is like the whole.
    let mut buffer = [0; symbol::LEN];
    let name = core::str::from_utf8(symbol::format(start, false, &mut buffer)).unwrap_or("");
    match name.split_once('.') {
        Some((whole, _)) => Ok(symbols::address_of(whole)
            .and_then(ftrace::is_traceable)
            .unwrap_or(false)),
        None => Ok(false),
    }
}

/// Why a function has no probes on its returns.
#[inline(never)]
fn refused(refusal: Refusal) -> Failure {
    let tell = |text: fmt::Arguments<'_>| pr_info!("{text}\n");
    let kind = match refusal {
        Refusal::TailCall(exit) => {
            tell(format_args!("{}; use %return", exits::Shown(&exit)));
            ErrorKind::TailCall
        }
        Refusal::NoReturn => ErrorKind::NoRetInsn,
        Refusal::BadText(bad) => {
            tell(format_args!("{}", exits::Bad(&bad)));
            ErrorKind::BadText
        }
        Refusal::NotBuilt => {
            let kind = ErrorKind::NosupRetinsn;
            return command::Error::at_target(kind, Errno::EOPNOTSUPP).into();
        }
        Refusal::Failed(error) => return at_target(error),
    };
    command::Error::at_target(kind, Errno::EINVAL).into()
}

/// The address of `[MODULE:]SYMBOL+OFFSET`.
fn address_of(symbol: &str, offset: u32) -> Result<usize> {
    Ok(symbols::address_of(symbol)?.wrapping_add(offset as usize))
}
