// SPDX-License-Identifier: GPL-2.0

//! A command becomes a probe of an event, in four steps:
//!
//! 1. parse: crate `probe` reads the text;
//! 2. [resolve](crate::resolve): what the kernel says of the target, and of its types; with these
//!    the arguments are read, and the event gets its fields;
//! 3. [compile](crate::compile): the arguments become programs;
//! 4. [register](crate::register): the kernel gets the probe, and the event if there is none yet.
//!
//! Each step has errors of its own, and the first error found is the one that is told. So the order
//! of what is done here is that of the kernel: the target, the name of the event, the arguments one
//! by one, the probes that the event has, and then the registration, with which symbols in
//! arguments are looked up.
//!
//! C: `trace_kprobe_create_internal()` and `register_trace_kprobe()` in
//! `kernel/trace/trace_kprobe.c`, `trace_fprobe_create_internal()` and
//! `register_trace_fprobe_event()` in `kernel/trace/trace_fprobe.c`, `__trace_eprobe_create()` in
//! `kernel/trace/trace_eprobe.c`.

use core::fmt;

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    security,
    trace_event::{
        self,
        Definition,
        Sink, //
    },
    vfs, //
};
use probe::{
    argument::{
        Argument,
        Base, //
    },
    command::{
        self,
        Command,
        EventName,
        Expansion,
        FileOffsets,
        Kind,
        LeftOut,
        Masked,
        Target, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
    fetch, //
};

use crate::{
    compile::{
        read_arguments,
        Compiled, //
    },
    entry_saver::FEW,
    event::{
        Event,
        Probe,
        Probes, //
    },
    failure::{
        at_target,
        Failure, //
    },
    recorder::Records,
    register::{
        make_event_probe,
        register, //
    },
    registered::Registered,
    registry,
    resolve::{
        check_functions,
        hold_event,
        with_length,
        ResolvedTarget,
        Source,
        Types, //
    },
    schema::Schema,
    spec::{
        self,
        Spec, //
    },
    symbols, //
};

/// For `%pd` and `%pD`.
const FILE_OFFSETS: FileOffsets = FileOffsets {
    name: vfs::NAME_IN_DENTRY,
    dentry: vfs::DENTRY_IN_FILE,
};

/// Makes the probe of a command, and its event if there is none of this name.
#[inline(never)]
pub(crate) fn create(command: &Command<'_>) -> Result<(), Failure> {
    let command = &with_length(command)?;
    let target = ResolvedTarget::of(command)?;
    let name = command.name(security::hash_address)?;
    let types = Types::of(command, &target)?;
    let kernel = types.kernel()?;
    let modules = types.modules(kernel.as_ref())?;
    let context = types.parse_context(kernel.as_ref(), &modules)?;
    let create = |command: &Command<'_>| {
        let new = NewProbe {
            command,
            name: &name,
            arguments: read_arguments(command, context)?,
            source: types.source(),
        };
        new.add()
    };
    let Some(expansion) = command.expand(context, FILE_OFFSETS)? else {
        return create(command);
    };
    let text = CString::try_from_fmt(format_args!("{expansion}"))?;
    let text = text.to_str().map_err(Error::from)?;
    create(&command.with_arguments(text)).map_err(|failure| match failure {
        // The position of an error is one in the user's command.
        Failure::Command(error) => expansion.original_error(error, text).into(),
        failure => failure,
    })?;
    // The probe is there, whether there is memory to tell this or not.
    let _ = tell_left_out(&expansion, &name);
    Ok(())
}

/// Tells in the kernel's log which members each `FETCH->*` leaves out, and why.
fn tell_left_out(expansion: &Expansion<'_>, name: &EventName<'_>) -> Result {
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
                let text = CString::try_from_fmt(format_args!("{text}"))?;
                // Nobody knows who reads the log, so addresses are not in it.
                let text = Masked(text.to_str()?);
                pr_info!("{}\n", format_args!("{text}"));
            }
        }
    }
    Ok(())
}

/// How many names fit in a line of the kernel's log, which has some 1,000 bytes.
const NAMES_IN_LINE: usize = 24;

/// Members that are left out: the argument as it was written, and the name of the member.
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

/// A probe whose command has no error in it.
struct NewProbe<'a> {
    command: &'a Command<'a>,
    name: &'a EventName<'a>,
    arguments: KVVec<Argument<'a>>,
    /// Where the types of the arguments come from.
    source: Source<'a>,
}

impl NewProbe<'_> {
    /// Adds it to its event, which is made if there is none.
    fn add(&self) -> Result<(), Failure> {
        let kind = self.command.kind;
        self.check_entry_data()?;
        self.add_to_event(self.schema()?)
            .map_err(|failure| match failure {
                Failure::Command(error) => error.at_registration(kind).into(),
                failure => failure,
            })
    }

    /// Checks that a probe of functions by ftrace can save its entry data.
    ///
    /// C: `traceprobe_get_entry_data_size()`.
    fn check_entry_data(&self) -> Result<(), Failure> {
        if self.command.kind != Kind::Exit {
            return Ok(());
        }
        let mut saved = KVec::new();
        let mut is_timed = false;
        for argument in &self.arguments {
            match argument.fetch.base {
                Base::EntryArgument(n) if !saved.contains(&n) => saved.push(n, GFP_KERNEL)?,
                Base::Elapsed => is_timed = true,
                _ => {}
            }
        }
        if saved.len() + usize::from(is_timed) > FEW {
            let error = command::Error::at_argument(0, ErrorKind::TooManyEargs, Errno::E2BIG);
            return Err(error.into());
        }
        Ok(())
    }

    /// The name and the fields that its event has.
    fn schema(&self) -> Result<Schema> {
        let attached = match self.command.target {
            Target::Event { .. } => Some(CString::try_from_fmt(format_args!(
                "{}",
                self.command.target
            ))?),
            _ => None,
        };
        let mut schema = Schema::new(self.command.kind, attached);
        for argument in &self.arguments {
            schema.add(argument)?;
        }
        Ok(schema)
    }

    #[inline(never)]
    fn add_to_event(&self, schema: Schema) -> Result<(), Failure> {
        loop {
            let spec = spec::new(self.command, self.name)?;
            let existing = registry::with_event(spec.group(), spec.event(), |event| {
                check_siblings(event, &spec, &schema)?;
                Ok::<_, Failure>(event.probes.clone())
            });
            let Some(existing) = existing else {
                return self.create_event(spec, schema);
            };
            let probes = existing?;
            let probe = self.make_probe(spec, probes.records().clone())?;
            // Unless the event has gone meanwhile.
            if registry::append(&probes, probe)? {
                return Ok(());
            }
        }
    }

    fn create_event(&self, spec: Spec, mut schema: Schema) -> Result<(), Failure> {
        let group = CString::try_from_fmt(format_args!("{}", spec.group()))?;
        let name = CString::try_from_fmt(format_args!("{}", spec.event()))?;
        schema.define()?;
        if trace_event::exists(&group, &name)? {
            return Err(command::Error::at_command(ErrorKind::EventExist, Errno::EEXIST).into());
        }
        let strings = match schema.layout().is_dynamic() {
            true => Some(registry::string_buffer()?),
            false => None,
        };
        let records = Records {
            sink: Sink::new(),
            schema,
            strings,
        };
        let records = Arc::new(records, GFP_KERNEL)?;
        let probe = self.make_probe(spec, records.clone())?;
        let probes = Probes::new(records.clone(), probe)?;
        let definition = Definition {
            group: registry::group(&group)?,
            name,
            operations: probes.clone(),
            print: records,
        };
        registry::create(definition, |trace_event| Event {
            probes,
            trace_event,
        })?;
        Ok(())
    }

    /// Makes the probe. One that is not registered with its event enabled is registered here.
    #[inline(never)]
    fn make_probe(&self, spec: Spec, records: Arc<Records>) -> Result<Arc<Probe>, Failure> {
        let compiled = Compiled::new(&self.arguments, self.source, None);
        let (registered, compiled) = match self.command.target {
            Target::Address(_) | Target::Symbol { .. } | Target::AllNamed(_) => {
                (self.register_kprobe(compiled, &records)?, None)
            }
            Target::Functions(pattern) => {
                check_functions(pattern).map_err(at_target)?;
                (None, Some(for_later(compiled)?))
            }
            Target::Tracepoint(_) | Target::Memory(_) => (None, Some(for_later(compiled)?)),
            Target::Event { system, name } => {
                // As in C, it is not told which symbol there is none of.
                let compiled = compiled.map_err(|failure| failure.errno())?;
                let filter = match self.command.filter()? {
                    Some(filter) => Some(CString::try_from_fmt(format_args!("{filter}"))?),
                    None => None,
                };
                let event = hold_event(system, name)?;
                (
                    Some(make_event_probe(event, filter, &compiled, &records)?),
                    None,
                )
            }
        };
        Ok(Probe::new(records, spec, registered, compiled)?)
    }

    /// Registers a kprobe; but one of a module that is not loaded waits for that.
    fn register_kprobe(
        &self,
        compiled: Result<Compiled, Failure>,
        records: &Arc<Records>,
    ) -> Result<Option<KBox<dyn Registered>>, Failure> {
        match (
            register(self.command, compiled, records),
            self.command.target,
        ) {
            (Err(failure), Target::Symbol { symbol, .. })
                if failure.errno() == ENOENT && symbols::count(symbol)?.is_none() =>
            {
                pr_info!("{symbol}: the probe waits for the module\n");
                Ok(None)
            }
            (registered, _) => registered.map(Some),
        }
    }
}

/// What is to be registered when the event is enabled. Symbols that are missing are an error then,
/// as in C.
fn for_later(compiled: Result<Compiled, Failure>) -> Result<Result<KBox<Compiled>>, Failure> {
    match compiled {
        Ok(compiled) => Ok(Ok(KBox::new(compiled, GFP_KERNEL)?)),
        Err(failure) if failure.errno() == ENOMEM => Err(failure),
        Err(failure) => Ok(Err(failure.errno())),
    }
}

/// May an event that there is have this probe, too? It has to be of the same kind, with the same
/// fields, and not one that the event has.
///
/// C: `append_trace_kprobe()`, `append_trace_fprobe_event()`.
fn check_siblings(event: &Event, spec: &Spec, schema: &Schema) -> Result<(), Failure> {
    let refuse = |kind| Err(command::Error::at_command(kind, Errno::EEXIST).into());
    let (kind, existing) = (spec.kind(), &event.probes.records().schema);
    let others = existing.kind();
    // One event probe is all that an event has.
    if others.is_kprobe() != kind.is_kprobe() || others == Kind::Event || kind == Kind::Event {
        return refuse(ErrorKind::EventExist);
    }
    if others != kind {
        return refuse(ErrorKind::DiffProbeType);
    }
    if let Some(index) = fetch::first_difference(schema.fields(), existing.fields()) {
        let kind = ErrorKind::DiffArgType;
        return Err(command::Error::at_argument(index, kind, Errno::EEXIST).into());
    }
    if event.probes.any(|probe| probe.spec().is_same_probe(spec)) {
        return refuse(ErrorKind::SameProbe);
    }
    Ok(())
}
