// SPDX-License-Identifier: GPL-2.0

//! A line that was written becomes a probe, or takes some away.
//!
//! C: `create_or_delete_trace_kprobe()`, `trace_kprobe_create_internal()` and
//! `register_trace_kprobe()` in `kernel/trace/trace_kprobe.c`, `trace_fprobe_create_internal()` and
//! `register_trace_fprobe_event()` in `kernel/trace/trace_fprobe.c`.

use core::fmt;
use core::num::NonZero;

use kernel::bindings::ECANCELED;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use ktrace::fprobe;
use ktrace::ftrace;
use ktrace::kprobe;
use ktrace::kprobe::Kprobe;
use ktrace::kretinsn::Kretinsn;
use ktrace::kretinsn::Refusal;
use ktrace::module;
use ktrace::module::Module;
use ktrace::security;
use ktrace::symbol;
use ktrace::trace_event;
use ktrace::trace_event::Definition;
use ktrace::trace_event::Sink;
use ktrace::vfs;
use probe::arch;
use probe::command;
use probe::command::argument::split_symbol;
use probe::command::argument::Base;
use probe::command::argument::Place;
use probe::command::Command;
use probe::command::Delete;
use probe::command::Errno;
use probe::command::ErrorKind;
use probe::command::EventName;
use probe::command::File;
use probe::command::FileOffsets;
use probe::command::Kind;
use probe::command::Line;
use probe::command::Normalized;
use probe::command::Signature;
use probe::command::Site;
use probe::command::Target;
use probe::fetch;
use probe::fetch::Keep;
use probe::fetch::Layout;
use probe::fetch::Program;

use crate::error_log;
use crate::event::Armed;
use crate::event::Event;
use crate::event::Probe;
use crate::event::Probes;
use crate::event::Switch;
#[cfg(CONFIG_RKPROBE_EXPORTS)]
use crate::event_probe;
use crate::exits;
use crate::hook::Hook;
use crate::printer::Printer;
use crate::recorder::Parts;
use crate::recorder::FEW;
use crate::registry;
use crate::return_probe::Kept;
use crate::return_probe::ReturnProbe;
use crate::shape::Shape;
use crate::signature;
use crate::symbols;

kernel::sync::global_lock! {
    // One command at a time: what a command has looked up stays as it is until it is done.
    // SAFETY: Initialised by `init` when the module is loaded.
    unsafe(uninit) static COMMANDS: Mutex<()> = ();
}

/// # Safety
///
/// Once, before anything else here is used.
pub(crate) unsafe fn init() {
    // SAFETY: By the safety requirement.
    unsafe { COMMANDS.init() };
}

/// For `%pd` and `%pD`.
const FILE_OFFSETS: FileOffsets = FileOffsets {
    name: vfs::NAME_IN_DENTRY,
    dentry: vfs::DENTRY_IN_FILE,
};

/// Why a command fails.
pub(crate) enum Failure {
    /// Something in the command: it is told in the error log, with its place.
    Command(command::Error),
    /// Something else, such as no memory.
    Other(Error),
}

impl From<command::Error> for Failure {
    fn from(error: command::Error) -> Self {
        Self::Command(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<kernel::alloc::AllocError> for Failure {
    fn from(error: kernel::alloc::AllocError) -> Self {
        Self::Other(error.into())
    }
}

impl Failure {
    /// The kernel's error.
    pub(crate) fn errno(&self) -> Error {
        match self {
            Self::Command(error) => to_kernel(error.errno),
            Self::Other(error) => *error,
        }
    }
}

/// The kernel's error for a number of crate `probe`.
fn to_kernel(errno: Errno) -> Error {
    Error::from_errno(-i32::from(errno.0))
}

/// The number of a kernel's error, for crate `probe`.
fn from_kernel(error: Error) -> Errno {
    Errno(u16::try_from(error.to_errno().unsigned_abs()).unwrap_or(Errno::EINVAL.0))
}

/// Carries a line out that was written to `file`.
pub(crate) fn run(file: File, line: &[u8]) -> Result {
    carry_out(file, line, |line, failure| {
        if let Failure::Command(error) = failure {
            error_log::add(file, line, error);
        }
    })
}

/// Carries a line out that was written to the kernel's `dynamic_events`. `ECANCELED` for what is no
/// command of ours.
pub(crate) fn run_dynamic(line: &[u8]) -> Result {
    let mut is_ours = true;
    let result = carry_out(File::All, line, |line, failure| match failure {
        Failure::Command(error) if error.kind == ErrorKind::NoMatchingType => is_ours = false,
        Failure::Command(error) => error_log::add(File::All, line, error),
        Failure::Other(_) => {}
    });
    if is_ours {
        result
    } else {
        Err(Error::from_errno(-(ECANCELED as c_int)))
    }
}

/// Carries a line out that stands in the module's parameter: errors are told in the kernel's log.
pub(crate) fn run_at_load(line: &[u8]) -> Result {
    let tell = |text: fmt::Arguments<'_>| pr_err!("error: {text}");
    carry_out(File::All, line, |line, failure| match failure {
        Failure::Command(error) => tell(format_args!("{}", error.entry(line))),
        Failure::Other(error) => tell(format_args!("{error:?}\n  Command: {}\n", Normalized(line))),
    })
}

#[inline(never)]
fn carry_out(file: File, line: &[u8], report: impl FnOnce(&str, &Failure)) -> Result {
    let _commands = COMMANDS.lock();
    let line = line.split(|&byte| byte == b'#').next().unwrap_or(line);
    // Names of symbols, events and fields are ASCII anyway.
    let line = core::str::from_utf8(line).map_err(|_| {
        pr_warn!("a command is not UTF-8\n");
        EINVAL
    })?;
    let result = match file.parse(line) {
        _ if !cfg!(CONFIG_RKPROBE_EXPORTS) && is_event_probe(file, line) => {
            Err(command::Error::at_command(ErrorKind::NoMatchingType, Errno::EINVAL).into())
        }
        Ok(Line::Nothing) => Ok(()),
        Ok(Line::Create(command)) => create(&command),
        Ok(Line::Delete(delete)) => remove(file, &delete),
        Err(error) => Err(error.into()),
    };
    result.map_err(|failure| {
        report(line, &failure);
        failure.errno()
    })
}

/// Event probes take what only the kernel's own tree has; elsewhere there is no such command.
fn is_event_probe(file: File, line: &str) -> bool {
    file == File::All && line.trim_start().starts_with('e')
}

/// Removes everything that is listed in `file`, or nothing: `EBUSY` while something is in use.
pub(crate) fn clear(file: File) -> Result {
    let _commands = COMMANDS.lock();
    registry::remove(|probe| probe.is_in(file))?;
    Ok(())
}

/// Finds where a function leaves, for [`exits`].
pub(crate) fn find_exits(line: &[u8]) -> Result {
    let _commands = COMMANDS.lock();
    let symbol = core::str::from_utf8(line).map_err(|_| EINVAL)?.trim();
    if symbol.is_empty() {
        return Ok(());
    }
    exits::find(symbols::unique_address_of(symbol)?)
}

/// Told of modules that come.
pub(crate) struct Modules;

impl module::Handler for Modules {
    fn coming(&self, module: &Module) {
        // A probe that waits for it is in the registry before the command is over.
        let _commands = COMMANDS.lock();
        registry::module_came(module);
    }
}

fn remove(file: File, delete: &Delete<'_>) -> Result<(), Failure> {
    let is_meant = |probe: &Probe| {
        probe.is_in(file)
            && delete.matches(probe.shape().group(), probe.shape().name(), probe.command())
    };
    match registry::remove(is_meant) {
        Ok(0) => Err(command::Error::at_command(ErrorKind::NoSuchEvent, Errno::ENOENT).into()),
        Ok(_) => Ok(()),
        Err(error) if error == EBUSY => {
            Err(command::Error::at_command(ErrorKind::EventBusy, Errno::EBUSY).into())
        }
        Err(error) => Err(error.into()),
    }
}

#[inline(never)]
fn create(command: &Command<'_>) -> Result<(), Failure> {
    #[cfg(CONFIG_RKPROBE_EXPORTS)]
    if command.kind == Kind::Event {
        return event_probe::with_site(command, |site| {
            create_expanded(command, &command.name()?, site)
        });
    }
    let place = match place_of(command.kind) {
        Some(place) => place,
        None => check_target(command)?,
    };
    let name = command.name()?;
    signature::with_site(command, place, |site| {
        let arguments = match command.expand(site, FILE_OFFSETS)? {
            Some(arguments) => Some(CString::try_from_fmt(format_args!("{arguments}"))?),
            None => None,
        };
        let expanded = match &arguments {
            Some(arguments) => command.with_arguments(arguments.to_str().unwrap_or("")),
            None => command.clone(),
        };
        // An error is told of what was typed.
        create_expanded(&expanded, &name, site).map_err(|failure| match failure {
            Failure::Command(error) => command.typed_place(&expanded, error).into(),
            failure => failure,
        })
    })
}

#[inline(never)]
fn create_expanded(
    command: &Command<'_>,
    name: &EventName<'_>,
    site: Site<'_>,
) -> Result<(), Failure> {
    let mut shape = Shape::new(
        CString::try_from_fmt(format_args!("{}", name.group))?,
        CString::try_from_fmt(format_args!("{}", name.event))?,
        command.kind,
        match command.target {
            Target::Event { .. } => {
                Some(CString::try_from_fmt(format_args!("{}", command.target))?)
            }
            _ => None,
        },
    );
    let mut kept = KVec::new();
    let mut is_timed = false;
    for argument in command.arguments(site, arch::current::register)? {
        let argument = argument?;
        match argument.fetch.base {
            Base::EntryArgument(n) if !kept.contains(&n) => kept.push(n, GFP_KERNEL)?,
            Base::Elapsed => is_timed = true,
            _ => {}
        }
        shape.add(&argument)?;
    }
    let kind = command.kind;
    // There is no more room for what a function's probe by ftrace keeps of a call.
    if kind == Kind::Exit && kept.len() + usize::from(is_timed) > FEW {
        let error = command::Error::at_argument(0, ErrorKind::TooManyEargs, Errno::E2BIG);
        return Err(error.into());
    }
    register(command, name, site, shape).map_err(|failure| match failure {
        Failure::Command(error) => error.at_registration(kind).into(),
        failure => failure,
    })
}

/// Where a probe stands that is of a kind that stands in one place only.
fn place_of(kind: Kind) -> Option<Place> {
    match kind {
        Kind::Probe | Kind::Return | Kind::ReturnInsn => None,
        Kind::Entry => Some(Place::Entry),
        Kind::Exit => Some(Place::Return),
        Kind::Tracepoint => Some(Place::Tracepoint),
        Kind::Event => Some(Place::Event),
    }
}

/// Adds a probe to an event that there is, or makes one.
#[inline(never)]
fn register(
    command: &Command<'_>,
    name: &EventName<'_>,
    site: Site<'_>,
    shape: Shape,
) -> Result<(), Failure> {
    loop {
        let existing = registry::with_event(shape.group(), shape.name(), |event| {
            let shape = check_sibling(event, command, name, &shape)?;
            Ok::<_, Failure>((shape, event.sink.clone(), event.probes.clone()))
        });
        let Some(existing) = existing else {
            return create_event(command, name, site, shape);
        };
        let (shape, sink, probes) = existing?;
        let probe = make_probe(command, name, site, shape, sink)?;
        // Unless the event has gone meanwhile.
        if registry::append(&probes, probe)? {
            return Ok(());
        }
    }
}

/// Checks what the kernel says of the target, and finds out where in its function it is.
///
/// C: `validate_probe_symbol()`, `kprobe_on_func_entry()`.
fn check_target(command: &Command<'_>) -> Result<Place, Failure> {
    let at_target = |kind| command::Error::at_target(kind, Errno::EINVAL);
    let entry = match command.target {
        Target::Symbol { symbol, offset } => match symbols::count(symbol)? {
            // Where in its function it is turns out when the module comes.
            None => command.kind.is_return(),
            Some(0) => return Err(at_target(ErrorKind::BadProbeAddr).into()),
            // Where there is no function the kernel refuses it in the end.
            Some(1) => is_entry(symbol, offset)?.unwrap_or(command.kind.is_return()),
            Some(_) => return Err(at_target(ErrorKind::NonUniqSymbol).into()),
        },
        _ => false,
    };
    match (command.kind, command.target) {
        (Kind::Return | Kind::ReturnInsn, Target::Symbol { .. }) if !entry => {
            Err(at_target(ErrorKind::BadRetprobe).into())
        }
        (Kind::Return, _) => Ok(Place::Return),
        (Kind::ReturnInsn, _) => Ok(Place::ReturnInsn),
        _ if entry => Ok(Place::Entry),
        _ => Ok(Place::Inside),
    }
}

/// Is it the entry of a function? `None` where there is no function.
///
/// An offset may lead to another function: perf probe counts from `_text`.
fn is_entry(symbol: &str, offset: u32) -> Result<Option<bool>> {
    match offset {
        0 => Ok(Some(true)),
        _ => Ok(symbol::is_entry(address_of(symbol, offset)?)),
    }
}

/// May the command add a probe to an event that there is? It has to be of the same kind, with the
/// same fields, and not one that it has. Gives the shape of the event.
///
/// C: `append_trace_kprobe()`, `append_trace_fprobe_event()`.
fn check_sibling(
    event: &Event,
    command: &Command<'_>,
    name: &EventName<'_>,
    shape: &Shape,
) -> Result<Arc<Shape>, Failure> {
    // What comes before the target says how many instances there are, which does not matter.
    fn from_target(line: &str) -> Option<&str> {
        line.split_once(' ').map(|(_, rest)| rest)
    }

    let at_command = |kind| command::Error::at_command(kind, Errno::EEXIST);
    // One event probe is all that an event has.
    let is_event = |shape: &Shape| shape.kind() == Kind::Event;
    if event.shape.kind().is_kprobe() != shape.kind().is_kprobe()
        || is_event(&event.shape)
        || is_event(shape)
    {
        return Err(at_command(ErrorKind::EventExist).into());
    }
    if event.shape.kind() != shape.kind() {
        return Err(at_command(ErrorKind::DiffProbeType).into());
    }
    if let Some(index) = fetch::first_difference(shape.fields(), event.shape.fields()) {
        return Err(
            command::Error::at_argument(index, ErrorKind::DiffArgType, Errno::EEXIST).into(),
        );
    }
    let listing = listing(command, name)?;
    let wanted = listing.to_str().ok().and_then(from_target);
    if event
        .probes
        .any(|probe| from_target(probe.command()) == wanted)
    {
        return Err(at_command(ErrorKind::SameProbe).into());
    }
    Ok(event.shape.clone())
}

fn create_event(
    command: &Command<'_>,
    name: &EventName<'_>,
    site: Site<'_>,
    shape: Shape,
) -> Result<(), Failure> {
    let (group, event_name, fields, print_fmt) = shape.define()?;
    if trace_event::exists(&group, &event_name)? {
        return Err(command::Error::at_command(ErrorKind::EventExist, Errno::EEXIST).into());
    }
    let shape = Arc::new(shape, GFP_KERNEL)?;
    let sink = Arc::new(Sink::new(), GFP_KERNEL)?;
    let probe = make_probe(command, name, site, shape.clone(), sink.clone())?;
    let probes = Probes::new(probe)?;
    let definition = Definition {
        group,
        name: event_name,
        fields,
        print_fmt,
        operations: KBox::new(Switch(probes.clone()), GFP_KERNEL)?,
        print: KBox::new(Printer(shape.clone()), GFP_KERNEL)?,
        sink: sink.clone(),
    };
    registry::create(definition, |trace_event| Event {
        shape,
        probes,
        sink,
        trace_event,
    })?;
    Ok(())
}

/// Compiles the arguments; gives what the programs refer to, too.
#[inline(never)]
pub(crate) fn compile(
    command: &Command<'_>,
    site: Site<'_>,
) -> Result<(KVec<Program>, Resolver), Failure> {
    let mut resolver = Resolver {
        texts: KVec::new(),
        kept: Kept {
            values: KVec::new(),
            is_timed: false,
        },
    };
    let mut programs = KVec::new();
    for argument in command.arguments(site, arch::current::register)? {
        let argument = argument?;
        resolver.kept.is_timed |= argument.fetch.base == Base::Elapsed;
        programs.push(fetch::compile(&argument, &mut resolver)?, GFP_KERNEL)?;
    }
    Ok((programs, resolver))
}

/// Makes the probe: a kprobe is placed, disarmed, unless it has to wait for its module.
#[inline(never)]
fn make_probe(
    command: &Command<'_>,
    name: &EventName<'_>,
    site: Site<'_>,
    shape: Arc<Shape>,
    sink: Arc<Sink>,
) -> Result<Arc<Probe>, Failure> {
    let parts = Parts {
        sink,
        fixed: shape.layout().bytes(),
        room: if shape.layout().is_dynamic() {
            Some(registry::room()?)
        } else {
            None
        },
    };
    let armed = match command.target {
        Target::Address(_) => Some(arm(command, site, &parts)?),
        Target::Symbol { symbol, .. } => match arm(command, site, &parts) {
            Ok(armed) => Some(armed),
            Err(failure) if failure.errno() == ENOENT && symbols::count(symbol)?.is_none() => {
                pr_info!("{symbol}: the probe waits for the module\n");
                None
            }
            Err(failure) => return Err(failure),
        },
        Target::Functions(pattern) => {
            let pattern = CString::try_from_fmt(format_args!("{pattern}"))?;
            fprobe::exists(&pattern).map_err(at_target)?;
            None
        }
        Target::Tracepoint(_) => None,
        #[cfg(CONFIG_RKPROBE_EXPORTS)]
        Target::Event { system, name } => {
            Some(event_probe::place(command, (system, name), site, &parts)?)
        }
        #[cfg(not(CONFIG_RKPROBE_EXPORTS))]
        Target::Event { .. } => return Err(EINVAL.into()),
    };
    Ok(Probe::new(shape, listing(command, name)?, parts, armed)?)
}

/// Registers the probe of a command.
///
/// C: `__register_trace_kprobe()`, `__register_trace_fprobe()`.
#[inline(never)]
fn arm(command: &Command<'_>, site: Site<'_>, parts: &Parts) -> Result<Armed, Failure> {
    security::kprobes_allowed().map_err(at_target)?;
    check_place(&command.target, place(command, site, parts))
}

/// Places the probe, disarmed.
#[inline(never)]
fn place(command: &Command<'_>, site: Site<'_>, parts: &Parts) -> Result<Armed, Failure> {
    let (programs, Resolver { texts, kept }) = compile(command, site)?;
    let recorder = parts.recorder(programs, texts)?;
    let target = match command.target {
        Target::Address(address) => kprobe::Target::Address(address as usize),
        Target::Symbol { symbol, offset } => {
            kprobe::Target::Symbol(CString::try_from_fmt(format_args!("{symbol}"))?, offset)
        }
        Target::Functions(name) | Target::Tracepoint(name) => {
            let name = CString::try_from_fmt(format_args!("{name}"))?;
            let hook = Hook::register(command.kind, &name, recorder, kept)?;
            return Ok(Armed::Hook(hook));
        }
        // It is placed once and for all.
        Target::Event { .. } => return Err(EINVAL.into()),
    };
    Ok(match command.kind {
        Kind::Return => {
            let maxactive = command.maxactive.map_or(0, NonZero::get);
            let probe = ReturnProbe::register(target, maxactive, recorder, kept);
            Armed::Return(probe.map_err(at_target)?)
        }
        Kind::ReturnInsn => {
            let probe = Kretinsn::register(target, recorder);
            Armed::ReturnInsn(probe.map_err(refused)?)
        }
        _ => Armed::Entry(Kprobe::register(target, recorder).map_err(at_target)?),
    })
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

/// Registers the probe of a command that was accepted, from its listing: with the symbols where
/// they are now. `EINVAL` where its fields are not those of the event any more: a module that comes
/// back can have other types.
///
/// C: `traceprobe_update_arg()`.
#[inline(never)]
pub(crate) fn arm_again(listing: &str, shape: &Shape, parts: &Parts) -> Result<Armed> {
    let arm_line = || match File::All.parse(listing)? {
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
                arm(&command, site, parts)
            })
        }
        _ => Err(EINVAL.into()),
    };
    arm_line().map_err(|failure| failure.errno())
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

/// The address of `[MODULE:]SYMBOL+OFFSET`.
fn address_of(symbol: &str, offset: u32) -> Result<usize> {
    Ok(symbols::address_of(symbol)?.wrapping_add(offset as usize))
}

/// What the kernel said of a probe.
fn at_target(error: Error) -> Failure {
    if error == ENOMEM {
        return error.into();
    }
    let errno = from_kernel(error);
    let kind = match errno {
        Errno::EILSEQ => ErrorKind::BadInsnBndry,
        Errno::ENOENT => ErrorKind::BadProbeAddr,
        _ => ErrorKind::FailRegProbe,
    };
    command::Error::at_target(kind, errno).into()
}

/// The line of a probe in the files.
fn listing(command: &Command<'_>, name: &EventName<'_>) -> Result<CString> {
    struct Listing<'a>(&'a Command<'a>, &'a EventName<'a>);

    impl fmt::Display for Listing<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.write_listing(self.1, f)
        }
    }

    CString::try_from_fmt(format_args!("{}", Listing(command, name)))
}

/// Gives what programs refer to.
pub(crate) struct Resolver {
    /// The strings that they have the addresses of.
    pub(crate) texts: KVec<CString>,
    /// What is kept for them from the entry of a call.
    kept: Kept,
}

impl fetch::Resolver for Resolver {
    type Error = Failure;

    fn symbol(&mut self, name: &str) -> Result<u64, Failure> {
        let (symbol, offset) = split_symbol(name).map_err(|errno| at_target(to_kernel(errno)))?;
        let address = symbols::address_of(symbol).map_err(at_target)?;
        Ok((address as u64).wrapping_add_signed(offset))
    }

    fn text(&mut self, text: &str) -> Result<u64, Failure> {
        let text = CString::try_from_fmt(format_args!("{text}"))?;
        // It does not move when the list grows: the list holds pointers.
        let address = text.as_char_ptr().addr() as u64;
        self.texts.push(text, GFP_KERNEL)?;
        Ok(address)
    }

    fn keep(&mut self, value: Keep) -> Result<u8, Failure> {
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
