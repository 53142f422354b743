// SPDX-License-Identifier: GPL-2.0

//! A line that was written becomes a probe, or takes some away.
//!
//! C: `create_or_delete_trace_kprobe()`, `trace_kprobe_create_internal()` and
//! `register_trace_kprobe()` in `kernel/trace/trace_kprobe.c`, `trace_fprobe_create_internal()` and
//! `register_trace_fprobe_event()` in `kernel/trace/trace_fprobe.c`.

use core::fmt;

use kernel::bindings::ECANCELED;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use ktrace::fprobe;
use ktrace::module;
use ktrace::module::Module;
use ktrace::security;
use ktrace::trace_event;
use ktrace::trace_event::Definition;
use ktrace::trace_event::Sink;
use ktrace::vfs;
use probe::arch;
use probe::argument::Base;
use probe::command;
use probe::command::Command;
use probe::command::Delete;
use probe::command::EventName;
use probe::command::File;
use probe::command::FileOffsets;
use probe::command::Kind;
use probe::command::Line;
use probe::command::Masked;
use probe::command::Normalized;
use probe::command::Place;
use probe::command::Site;
use probe::command::Target;
use probe::error::Errno;
use probe::error::ErrorKind;
use probe::fetch;

use crate::error_log;
use crate::event::Event;
use crate::event::Probe;
use crate::event::Probes;
use crate::event::Switch;
#[cfg(CONFIG_RKPROBE_EXPORTS)]
use crate::event_probe;
use crate::exits;
use crate::failure::at_target;
use crate::failure::Failure;
use crate::plan;
use crate::plan::is_entry;
use crate::plan::place_of;
use crate::plan::Plan;
use crate::printer::Printer;
use crate::recorder::Parts;
use crate::recorder::FEW;
use crate::registry;
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
/// Called once, before anything else here is used.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, and nobody has used the lock yet.
    unsafe { COMMANDS.init() };
}

/// For `%pd` and `%pD`.
const FILE_OFFSETS: FileOffsets = FileOffsets {
    name: vfs::NAME_IN_DENTRY,
    dentry: vfs::DENTRY_IN_FILE,
};

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
    // Nobody knows who reads the log, so addresses are not in it.
    let tell = |text: fmt::Arguments<'_>| {
        if let Ok(text) = CString::try_from_fmt(text) {
            let text = Masked(text.to_str().unwrap_or(""));
            pr_err!("error: {}", format_args!("{text}"));
        }
    };
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

/// Handles modules that come and go.
pub(crate) struct Modules;

impl module::Handler for Modules {
    fn coming(&self, module: &Module) {
        // A probe that waits for it is in the registry before the command is over.
        let _commands = COMMANDS.lock();
        // Plans read files, so they are made before any other lock is taken.
        registry::each_probe(|probe| probe.module_comes(module));
        registry::module_came(module);
    }

    fn going(&self, module: &Module) {
        let _commands = COMMANDS.lock();
        registry::each_probe(|probe| probe.module_goes(module));
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
            create_expanded(command, &command.name(security::hash_address)?, site)
        });
    }
    let place = match place_of(command.kind) {
        Some(place) => place,
        None => check_target(command)?,
    };
    let name = command.name(security::hash_address)?;
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
        Target::Address(_) => Some(plan::arm(command, site, &parts)?),
        Target::Symbol { symbol, .. } => match plan::arm(command, site, &parts) {
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
    // Symbols that are missing are an error where the event is enabled, as in C.
    let plan = match command.kind.is_hook() {
        true => match Plan::new(command, site, None) {
            Err(failure) if failure.errno() == ENOMEM => return Err(failure),
            Err(failure) => Some(Err(failure.errno())),
            Ok(plan) => Some(Ok(KBox::new(plan, GFP_KERNEL)?)),
        },
        false => None,
    };
    let listing = listing(command, name)?;
    Ok(Probe::new(shape, listing, parts, armed, plan)?)
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
