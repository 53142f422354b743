// SPDX-License-Identifier: GPL-2.0

//! The steps of creation that all kinds of probes share: see [`create`](crate::create).

use core::fmt;

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    security,
    trace_event::{
        NewName,
        Sink, //
    },
    vfs, //
};
use probe::{
    command::{
        self,
        Command,
        EventName,
        Expansion,
        FileOffsets,
        LeftOut,
        WrittenArgument, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
    fetch, //
};

use crate::{
    action::Purpose,
    compile::{
        with_written,
        Clauses,
        Compiled,
        Resolved, //
    },
    event::Probe,
    failure::Failure,
    hook::Hook,
    kind::Start,
    kinds,
    object_probe::NewObjectProbe,
    reader,
    records::{
        EventState,
        Records, //
    },
    registry,
    resolve::{
        Source,
        Types, //
    },
    schema::Schema,
    spec::{
        self,
        Spec, //
    },
};

/// For `%pd` and `%pD`.
const FILE_OFFSETS: FileOffsets = FileOffsets {
    name: vfs::NAME_IN_DENTRY,
    dentry: vfs::DENTRY_IN_FILE,
};

/// Creates a probe. An object probe also has its parts.
pub(crate) fn create_with(
    command: &Command<'_>,
    object: Option<&NewObjectProbe>,
) -> Result<(), Failure> {
    let target = kinds::with(command.target, |kind| kind.resolve(command))?;
    let name = command.name(security::hash_address)?;
    with_written(command, &target, |written, clauses, types| {
        create_typed(command, written, clauses, &name, types, object)
    })
}

/// Creates a probe whose target and whose types are known.
#[inline(never)]
fn create_typed(
    command: &Command<'_>,
    written: &[WrittenArgument<'_>],
    clauses: &Clauses<'_>,
    name: &EventName<'_>,
    types: &Types<'_>,
    object: Option<&NewObjectProbe>,
) -> Result<(), Failure> {
    let create = |written: &[WrittenArgument<'_>]| {
        create_resolved(command, written, clauses, name, types, object)
    };
    match expand(written, types)? {
        None => create(written),
        Some(expansion) => create_expanded(&expansion, name, create),
    }
}

/// The expansion of the arguments, if an argument has one.
#[inline(never)]
fn expand<'a>(
    written: &'a [WrittenArgument<'a>],
    types: &Types<'a>,
) -> Result<Option<KBox<Expansion<'a>>>, Failure> {
    let expansion = Expansion::new(written, types.context, FILE_OFFSETS)?;
    let boxed = expansion.map(|expansion| KBox::new(expansion, GFP_KERNEL));
    Ok(boxed.transpose()?)
}

/// Creates a probe whose arguments have expansions.
#[inline(never)]
fn create_expanded(
    expansion: &Expansion<'_>,
    name: &EventName<'_>,
    create: impl FnOnce(&[WrittenArgument<'_>]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let text = CString::try_from_fmt(format_args!("{expansion}"))?;
    let text = text.to_str().map_err(Error::from)?;
    create(&parse_expanded(expansion, text)?)?;
    // The probe exists, even if there is no memory for the message.
    let _ = log_left_out(expansion, name);
    Ok(())
}

/// Creates a probe whose arguments have no expansion.
// The kernel's stack is small, so large frames must not add up in one function.
#[inline(never)]
fn create_resolved(
    command: &Command<'_>,
    written: &[WrittenArgument<'_>],
    clauses: &Clauses<'_>,
    name: &EventName<'_>,
    types: &Types<'_>,
    object: Option<&NewObjectProbe>,
) -> Result<(), Failure> {
    let new = NewProbe {
        written,
        name,
        object,
        hook: NewHook {
            command,
            resolved: Resolved::new(command, written, clauses, types.context)?,
            source: types.source,
        },
    };
    new.add()
}

/// Parses the arguments of a command whose expansions are `text`. `ENOMEM`.
#[inline(never)]
fn parse_expanded<'a>(
    expansion: &Expansion<'a>,
    text: &'a str,
) -> Result<KVVec<WrittenArgument<'a>>> {
    let mut expanded = KVVec::new();
    let mut result = Ok(());
    expansion.arguments(text, |argument| {
        if result.is_ok() {
            result = expanded.push(argument, GFP_KERNEL);
        }
    });
    result?;
    Ok(expanded)
}

/// Logs which members each `FETCH->*` leaves out, and why.
#[inline(never)]
fn log_left_out(expansion: &Expansion<'_>, name: &EventName<'_>) -> Result {
    let (mut no_scalars, mut too_long, mut no_room) = (KVec::new(), KVec::new(), KVec::new());
    let mut result = Ok(());
    expansion.each_left_out(|word, member, reason| {
        let members = match reason {
            LeftOut::NoScalar => &mut no_scalars,
            LeftOut::TooLong => &mut too_long,
            LeftOut::NoRoom => &mut no_room,
        };
        if result.is_ok() {
            result = members.push((word, member), GFP_KERNEL);
        }
    });
    result?;
    for (why, members) in [
        ("not a number or a pointer", &no_scalars),
        ("a name that is too long", &too_long),
        ("no room beside 128 arguments", &no_room),
    ] {
        for of_word in members.chunk_by(|(a, _), (b, _)| a == b) {
            for line in of_word.chunks(NAMES_IN_LINE) {
                let text = Omission { name, why, line };
                reader::log_line(format_args!("{text}"));
            }
        }
    }
    Ok(())
}

/// Maximum number of names in a line of the kernel's log, which has some 1,000 bytes.
const NAMES_IN_LINE: usize = 24;

/// Members that an expansion leaves out. Each has the argument as the user wrote it, and the name.
struct Omission<'a> {
    name: &'a EventName<'a>,
    why: &'static str,
    line: &'a [(&'a str, &'a str)],
}

impl fmt::Display for Omission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventName { group, event } = self.name;
        let word = self.line.first().map_or("", |(word, _)| word);
        write!(f, "{group}/{event}: {word} leaves out ({}):", self.why)?;
        for (_, member) in self.line {
            write!(f, " {member}")?;
        }
        Ok(())
    }
}

/// The name of a new event. The outer error is `ENOMEM` or one of the group, and the inner one is
/// that of [`NewName::new`].
#[inline(never)]
fn new_name(spec: &Spec) -> Result<Result<NewName>> {
    let group = CString::try_from_fmt(format_args!("{}", spec.group()))?;
    let name = CString::try_from_fmt(format_args!("{}", spec.event()))?;
    Ok(NewName::new(registry::group(&group)?, name))
}

/// A probe whose command was read without an error.
struct NewProbe<'a> {
    hook: NewHook<'a>,
    /// The arguments as the user wrote them, expanded.
    written: &'a [WrittenArgument<'a>],
    name: &'a EventName<'a>,
    /// For an object probe.
    object: Option<&'a NewObjectProbe>,
}

/// The part of a probe that the kernel is to call.
pub(crate) struct NewHook<'a> {
    pub(crate) command: &'a Command<'a>,
    pub(crate) resolved: Resolved<'a>,
    /// The source of the types.
    pub(crate) source: Source<'a>,
}

impl NewHook<'_> {
    /// Compiles the command, and starts it for a purpose.
    pub(crate) fn hook(&self, spec: Spec, purpose: &Purpose) -> Result<Hook, Failure> {
        let (kind, strings) = (self.command.kind, registry::string_buffer);
        let compiled = Compiled::new(kind, &self.resolved, self.source, strings, None);
        Ok(Hook::new(spec, self.start(compiled, purpose)?, purpose)?)
    }

    #[inline(never)]
    fn start(
        &self,
        compiled: Result<Compiled, Failure>,
        purpose: &Purpose,
    ) -> Result<Start, Failure> {
        kinds::with(self.command.target, |kind| {
            kind.start(self.command, compiled, purpose)
        })
    }
}

impl NewProbe<'_> {
    /// Adds the probe to its event. Creates the event unless it exists.
    #[inline(never)]
    fn add(&self) -> Result<(), Failure> {
        let kind = self.hook.command.kind;
        self.check_entry_data()?;
        self.add_to_event(self.schema()?)
            .map_err(|failure| match failure {
                Failure::Command(error) => error.at_registration(kind).into(),
                failure => failure,
            })
    }

    /// Creates an error of the argument `index`, counted from 0.
    fn argument_error(&self, index: usize, kind: ErrorKind, errno: Errno) -> command::Error {
        self.hook
            .command
            .argument_error(self.written, index, kind, errno)
    }

    /// Checks that a probe of functions by ftrace can save its entry data.
    fn check_entry_data(&self) -> Result<(), Failure> {
        let Some(max) = kinds::with(self.hook.command.target, |kind| kind.max_entry_words()) else {
            return Ok(());
        };
        if self.hook.resolved.entry_layout()?.words() > max {
            return Err(self
                .argument_error(0, ErrorKind::TooManyEargs, Errno::E2BIG)
                .into());
        }
        Ok(())
    }

    /// Lays out the fields of the event.
    #[inline(never)]
    fn schema(&self) -> Result<KBox<Schema>> {
        let attached = kinds::with(self.hook.command.target, |kind| kind.attached())?;
        let schema = Schema::new(self.hook.command.kind, attached)?;
        let mut schema = KBox::new(schema, GFP_KERNEL)?;
        for argument in &self.hook.resolved.arguments {
            schema.add(argument)?;
        }
        Ok(schema)
    }

    #[inline(never)]
    fn add_to_event(&self, schema: KBox<Schema>) -> Result<(), Failure> {
        loop {
            let spec = spec::new(self.hook.command, self.written, self.name)?;
            let Some(existing) = self.find_existing(&spec, &schema) else {
                return self.create_event(spec, schema);
            };
            // If the event was removed meanwhile, try again.
            if registry::append(self.make_probe(spec, existing?)?)? {
                return Ok(());
            }
        }
    }

    /// The records of the probe's event, if it exists. Checks that it can have this probe.
    #[inline(never)]
    fn find_existing(&self, spec: &Spec, schema: &Schema) -> Option<Result<Arc<Records>, Failure>> {
        registry::with_event(spec.group(), spec.event(), |records, probes| {
            self.check_siblings(records, probes, spec, schema)?;
            Ok(records.clone())
        })
    }

    /// Checks whether an event can have this probe, too. The probe must have the kind and the
    /// fields of the other probes, and differ from each of them.
    ///
    /// C: `append_trace_kprobe()`, `append_trace_fprobe_event()`.
    #[inline(never)]
    fn check_siblings<'p>(
        &self,
        records: &Records,
        mut probes: impl Iterator<Item = &'p Probe>,
        spec: &Spec,
        schema: &Schema,
    ) -> Result<(), Failure> {
        let refuse = |kind| Err(command::Error::at_command(kind, Errno::EEXIST).into());
        let (kind, existing) = (spec.kind(), &records.schema);
        let others = existing.kind();
        if others.is_kprobe() != kind.is_kprobe() || others.is_alone() || kind.is_alone() {
            return refuse(ErrorKind::EventExist);
        }
        if others != kind {
            return refuse(ErrorKind::DiffProbeType);
        }
        if let Some(index) = fetch::first_difference(schema.fields(), existing.fields()) {
            let kind = ErrorKind::DiffArgType;
            return Err(self.argument_error(index, kind, Errno::EEXIST).into());
        }
        match (&self.hook.resolved.counted, existing.tally()) {
            (None, None) => {}
            (Some(counted), Some(tally)) if counted.fit(tally) => {}
            _ => return refuse(ErrorKind::DiffKeys),
        }
        if probes.any(|probe| probe.spec().is_same_probe(spec)) {
            return refuse(ErrorKind::SameProbe);
        }
        Ok(())
    }

    #[inline(never)]
    fn create_event(&self, spec: Spec, mut schema: KBox<Schema>) -> Result<(), Failure> {
        schema.define()?;
        let name = new_name(&spec)?;
        if matches!(name, Err(EEXIST)) {
            return Err(command::Error::at_command(ErrorKind::EventExist, Errno::EEXIST).into());
        }
        let records = self.new_records(&spec, schema)?;
        let probe = self.make_probe(spec, records.clone())?;
        // The kernel reports an error of the target before one of the name that comes from it.
        registry::create(name?, records, probe)?;
        Ok(())
    }

    /// The records of a new event.
    #[inline(never)]
    fn new_records(&self, spec: &Spec, mut schema: KBox<Schema>) -> Result<Arc<Records>, Failure> {
        let compares = kinds::with(self.hook.command.target, |kind| kind.compares_records());
        if schema.layout().is_dynamic() || compares {
            schema.set_strings(registry::string_buffer()?)?;
        }
        if let Some(counted) = &self.hook.resolved.counted {
            schema.set_tally(Arc::new(counted.tally()?, GFP_KERNEL)?)?;
        }
        let records = Records {
            sink: Sink::new(),
            schema: KBox::into_inner(schema),
            state: EventState::new(spec.group(), spec.event()),
        };
        Ok(Arc::new(records, GFP_KERNEL)?)
    }

    /// Creates the probe. Registers it, unless it is registered each time that its event is
    /// enabled.
    #[inline(never)]
    fn make_probe(&self, spec: Spec, records: Arc<Records>) -> Result<Probe, Failure> {
        let purpose = match self.object {
            None => Purpose::Record(records.clone()),
            Some(object) => object.purpose(records.clone()),
        };
        let hook = self.hook.hook(spec, &purpose)?;
        let hook = match self.object {
            None => hook,
            Some(object) => object.hook(hook)?,
        };
        Ok(Probe::new(records, hook)?)
    }
}
