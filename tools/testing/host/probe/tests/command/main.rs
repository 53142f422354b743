// SPDX-License-Identifier: GPL-2.0

//! The commands: what they say, what is wrong with them, how they are listed.

mod arguments;
#[allow(dead_code)]
#[path = "../btf/builder.rs"]
mod builder;
mod by;
mod call_trees;
mod casts;
mod conditions;
mod delete;
mod dynamic;
mod errors;
mod events;
mod expansion;
mod functions;
mod grammar;
mod hints;
mod limits;
mod listing;
mod masked;
mod members;
mod names;
mod objects;
mod properties;
mod watch;

use std::convert::Infallible;

use probe::{
    arch::x86_64::register,
    argument::{
        Argument,
        Deref,
        Fetch,
        Step, //
    },
    command::{
        Command,
        Condition,
        Error,
        EventName,
        EventsFile,
        Expansion,
        FileOffsets,
        Line,
        ParseContext,
        ProbeKind,
        ProbePoint,
        ProbeSpec,
        Target,
        TargetParts,
        TypeInfo,
        WrittenArgument, //
    },
    condition::Comparison,
    error::{
        Errno,
        ErrorKind, //
    },
};

/// The string of a probe, with the parts of its target.
type Text = (String, TargetParts);

/// A command with all its parts read.
#[derive(Debug, PartialEq)]
struct Whole<'a> {
    command: Command<'a>,
    written: Vec<WrittenArgument<'a>>,
    name: EventName<'a>,
    arguments: Vec<Argument<'a>>,
    /// The condition, without comparisons if there is none.
    condition: Vec<Comparison<'a>>,
}

impl Whole<'_> {
    fn spec(&self) -> ProbeSpec<Text> {
        spec(&self.command, &self.written, &self.name)
    }

    fn listing(&self) -> String {
        self.spec().to_string()
    }
}

fn spec(
    command: &Command<'_>,
    written: &[WrittenArgument<'_>],
    name: &EventName<'_>,
) -> ProbeSpec<Text> {
    let make =
        |text: std::fmt::Arguments<'_>, target| Ok::<_, Infallible>((text.to_string(), target));
    let Ok(spec) = ProbeSpec::new(command, written, name, make);
    spec
}

/// The probe of a line, where the kernel says nothing of it.
fn probe_of(line: &str) -> ProbeSpec<Text> {
    let Ok(Line::Create(command)) = EventsFile::DynamicEvents.parse(line) else {
        panic!("creates nothing: {line}");
    };
    let written: Vec<_> = command.arguments().collect();
    spec(
        &command,
        &written,
        &command.name(|address| address as u32).unwrap(),
    )
}

/// Does the line delete the probe?
fn deletes(line: &str, probe: &ProbeSpec<Text>) -> bool {
    match EventsFile::DynamicEvents.parse(line) {
        Ok(Line::Delete(delete)) => probe.is_deleted_by(&delete),
        other => panic!("{line}: {other:?}"),
    }
}

/// Reads the parts of a command in their order, as the module does. The kernel of these tests has
/// every function but those that start with `non_exist`, `dup` twice, and finds offset 3 within an
/// instruction.
fn create(line: &str) -> Result<Whole<'_>, Error> {
    create_in(EventsFile::KprobeEvents, line)
}

/// The same in one of the files.
fn create_in(file: EventsFile, line: &str) -> Result<Whole<'_>, Error> {
    create_at(file, line, TypeInfo::Unsupported)
}

const OFFSETS: FileOffsets = FileOffsets {
    name: 0x28,
    dentry: 0x48,
};

/// The same where BTF says something of the function.
fn create_at<'a>(file: EventsFile, line: &'a str, types: TypeInfo<'a>) -> Result<Whole<'a>, Error> {
    let Line::Create(command) = file.parse(line)? else {
        panic!("creates nothing: {line}");
    };
    let is_return = command.kind.is_return();
    let point = match command.target {
        Target::Symbol { symbol, .. } if symbol.starts_with("non_exist") => {
            return Err(Error::at_target(ErrorKind::BadProbeAddr, Errno::EINVAL));
        }
        Target::Symbol { symbol: "dup", .. } => {
            return Err(Error::at_target(ErrorKind::NonUniqSymbol, Errno::EINVAL));
        }
        Target::Symbol { offset: 0, .. } if command.kind == ProbeKind::Kretinsn => {
            ProbePoint::ReturnInsn
        }
        Target::Symbol { offset: 0, .. } if matches!(command.kind, ProbeKind::Blocks { .. }) => {
            ProbePoint::Inside
        }
        Target::Symbol { offset: 0, .. } if command.kind == ProbeKind::Path => ProbePoint::Path,
        Target::Symbol { offset: 0, .. } if is_return => ProbePoint::Return,
        Target::Symbol { offset: 0, .. } => ProbePoint::Entry,
        Target::Symbol { .. } if command.kind == ProbeKind::Path => {
            return Err(Error::at_target(ErrorKind::BlocksInside, Errno::EINVAL));
        }
        Target::Symbol { .. } if is_return => {
            return Err(Error::at_target(ErrorKind::BadRetprobe, Errno::EINVAL));
        }
        Target::AllNamed(_) if is_return => ProbePoint::Return,
        Target::AllNamed(_) => ProbePoint::Entry,
        Target::Symbol { .. } | Target::Address(_) => ProbePoint::Inside,
        Target::Functions(_) if command.kind.is_return() => ProbePoint::Return,
        Target::Functions(_) => ProbePoint::Entry,
        Target::Tracepoint(_) => ProbePoint::Tracepoint,
        Target::Event { system, .. } if system.starts_with("non_exist") => {
            return Err(Error::at_target(ErrorKind::BadAttachEvent, Errno::ENODEV));
        }
        Target::Event { .. } => ProbePoint::Event,
        Target::Memory(_) => ProbePoint::Memory,
        Target::Object(target) => {
            let of_changes = target.changes.is_some();
            match is_return {
                true => ProbePoint::ObjectReturn { of_changes },
                false => ProbePoint::Object { of_changes },
            }
        }
        Target::CallTree(_) => ProbePoint::Return,
    };
    if command.kind == ProbeKind::EventProbe {
        // As in C, an empty condition is an error before those of the arguments.
        command.condition()?;
    }
    let name = command.name(|address| address as u32)?;
    let context = ParseContext {
        point,
        types,
        modules: &[],
    };
    let written = written(&command, context)?.leak();
    let arguments = command
        .resolve(written, context, register)?
        .collect::<Result<Vec<_>, _>>()?;
    let condition = condition(&command, written, context)?;
    match command.target {
        Target::Symbol { offset: 3, .. } => {
            Err(Error::at_target(ErrorKind::BadInsnBndry, Errno::EILSEQ))
        }
        Target::Functions(name) if name.starts_with("non_exist") => {
            let error = Error::at_target(ErrorKind::BadProbeAddr, Errno::ENOENT);
            Err(error.at_registration(command.kind))
        }
        _ => Ok(Whole {
            command,
            written: written.to_vec(),
            name,
            arguments,
            condition,
        }),
    }
}

/// The comparisons of a command's condition, resolved.
fn condition<'a>(
    command: &Command<'a>,
    arguments: &'a [WrittenArgument<'a>],
    context: ParseContext<'a>,
) -> Result<Vec<Comparison<'a>>, Error> {
    let command: &'a Command<'a> = Box::leak(Box::new(command.clone()));
    let Some(condition) = command.condition()? else {
        return Ok(vec![]);
    };
    let condition: &'a Condition<'a> = Box::leak(Box::new(condition));
    let operands = condition.operands().collect::<Vec<_>>().leak();
    command
        .resolve_condition(condition, operands, arguments, context, register)
        .collect()
}

/// The arguments of a command, expanded.
fn written<'a>(
    command: &Command<'a>,
    context: ParseContext<'a>,
) -> Result<Vec<WrittenArgument<'a>>, Error> {
    let written = command.arguments().collect::<Vec<_>>().leak();
    let Some(expansion) = Expansion::new(written, context, OFFSETS)? else {
        return Ok(written.to_vec());
    };
    let mut expanded = Vec::new();
    expansion.arguments(expansion.to_string().leak(), |argument| {
        expanded.push(argument)
    });
    Ok(expanded)
}

/// The reads of memory on the way to a value, innermost first. There are no other steps.
fn derefs(fetch: &Fetch<'_>) -> Vec<Deref> {
    let deref = |step: &Step| match step {
        Step::Deref(deref) => *deref,
        Step::ThisCpu => panic!("{fetch:?}"),
    };
    fetch.steps.as_slice().iter().map(deref).collect()
}

/// The arguments of a probe at the entry of a function.
fn arguments(text: &str) -> Result<Vec<Argument<'static>>, Error> {
    create(format!("p vfs_read {text}").leak()).map(|whole| whole.arguments)
}

/// The only argument of a probe at the entry of a function.
fn argument(text: &str) -> Result<Argument<'static>, Error> {
    arguments(text).map(|mut arguments| arguments.pop().unwrap())
}
