// SPDX-License-Identifier: GPL-2.0

//! Create an object probe, and its feeds: a probe for each probe of the events that it names.

use core::slice;

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use probe::{
    arch,
    argument::Name,
    btf::TypeKind,
    command::{
        self,
        Command,
        EventField,
        EventFields,
        ObjectTarget,
        ProbeKind,
        WrittenArgument, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
};

use crate::{
    action::Purpose,
    compile::{
        with_written,
        Resolved, //
    },
    failure::Failure,
    hook::Hook,
    kinds,
    new_probe::{
        create_with,
        NewHook, //
    },
    object::{
        self,
        Change,
        Feed,
        Following,
        Selection, //
    },
    object_probe::NewObjectProbe,
    patterns::Patterns,
    registry,
    resolve::{
        vmlinux,
        with_types, //
    },
    spec::{
        self,
        Spec, //
    },
};

/// Creates an object probe. Its feeds are probes like those of the events that it names, with one
/// argument each. So these events do not change.
#[inline(never)]
pub(crate) fn create_object(
    command: &Command<'_>,
    target: ObjectTarget<'_>,
) -> Result<(), Failure> {
    let sources = SourceField::all(target.sources)?;
    let ends = match target.until {
        Some(until) => SourceField::all(until)?,
        None => KVec::new(),
    };
    let structure = match target.structure {
        Some(name) => CString::try_from_fmt(format_args!("{name}"))?,
        None => structure_of(&sources)?,
    };
    let name = structure.to_str().map_err(Error::from)?;
    let following = follow(&target, name)?;
    let mut feeds = KVec::new();
    for end in &ends {
        end.add_feeds(&following, Change::Remove, &mut feeds)?;
    }
    for source in &sources {
        source.add_feeds(&following, Change::Add, &mut feeds)?;
    }
    let object = NewObjectProbe::new(following, feeds)?;
    create_with(&command.with_structure(name), Some(&object))
}

/// Finds the structure of this name and the functions that receive it, and makes the table of the
/// objects.
// The kernel's stack is small, so large frames must not add up in one function.
#[inline(never)]
fn follow(target: &ObjectTarget<'_>, structure: &str) -> Result<Following, Failure> {
    let at_structure = |kind| command::Error::at(kind, target.structure_at(), Errno::ENOENT);
    let vmlinux = vmlinux()?.ok_or(at_structure(ErrorKind::NosupBtfarg))?;
    let btf = vmlinux.btf(None)?;
    let structure = btf
        .find(structure, TypeKind::Struct)
        .ok_or(at_structure(ErrorKind::NoPtrStrct))?;
    let functions = object::functions(&btf, structure, &Patterns::new(target.items())?)?;
    let no_function = command::Error::at(
        ErrorKind::NoObjectFunction,
        target.functions_at(),
        Errno::ENOENT,
    );
    Ok(Following {
        objects: object::new_table(target)?,
        selection: Selection::of(target),
        functions: functions.ok_or(no_function)?,
    })
}

/// The name of the structure that the sources point to, as far as BTF knows their types.
#[inline(never)]
fn structure_of(sources: &[SourceField<'_>]) -> Result<CString, Failure> {
    let mut found = None::<CString>;
    for source in sources {
        match (&found, source.structure()?) {
            (None, name) => found = name,
            (Some(first), Some(name)) if *name != **first => {
                return Err(source.error(ErrorKind::DiffObjectType).into());
            }
            (Some(_), _) => {}
        }
    }
    let unknown = |source: &SourceField<'_>| source.error(ErrorKind::NoObjectType).into();
    let none = || sources.first().map_or(EINVAL.into(), unknown);
    found.ok_or_else(none)
}

/// A field that the command of an object probe names.
struct SourceField<'a> {
    field: EventField<'a>,
    /// The commands of the event's probes.
    probes: KVec<Spec>,
}

impl<'a> SourceField<'a> {
    /// The fields of a list.
    #[inline(never)]
    fn all(fields: EventFields<'a>) -> Result<KVec<Self>, Failure> {
        let mut all = KVec::new();
        for field in fields.iter() {
            let mut source = Self {
                field,
                probes: KVec::new(),
            };
            source.find_probes()?;
            all.push(source, GFP_KERNEL)?;
        }
        Ok(all)
    }

    fn error(&self, kind: ErrorKind) -> command::Error {
        command::Error::at(kind, self.field.at, Errno::ENOENT)
    }

    /// Finds the event and its probes.
    fn find_probes(&mut self) -> Result<(), Failure> {
        let EventField { group, event, .. } = self.field;
        let specs = &mut self.probes;
        let found = registry::with_event(group, event, |_, probes| {
            for probe in probes {
                specs.push(spec::try_clone(probe.spec())?, GFP_KERNEL)?;
            }
            Ok::<_, Error>(())
        });
        found.ok_or(self.error(ErrorKind::NoObjectEvent))??;
        let is_no_source = |spec: &Spec| {
            let kind = spec.kind();
            kind.is_object() || kind == ProbeKind::CallTree
        };
        if self.probes.iter().any(is_no_source) {
            return Err(self.error(ErrorKind::ObjectOfObject).into());
        }
        Ok(())
    }

    /// The argument for the field, of the command of a probe of the event.
    fn argument<'p>(&self, command: &Command<'p>) -> Result<WrittenArgument<'p>, Failure> {
        let name = Name::Given(self.field.field);
        let mut arguments = command.arguments();
        let found = arguments.find(|argument| argument.name().is_same(name));
        let kind = ErrorKind::NoObjectField;
        let none = command::Error::at(kind, self.field.field_at(), Errno::ENOENT);
        Ok(found.ok_or(none)?)
    }

    /// An error in the command of the event is one of the place that names the event.
    fn failure(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Command(error) => {
                command::Error::at(error.kind, self.field.at, error.errno).into()
            }
            failure => failure,
        }
    }

    /// The name of the structure that the field points to, if BTF knows it.
    #[inline(never)]
    fn structure(&self) -> Result<Option<CString>, Failure> {
        for probe in &self.probes {
            let command = probe.command();
            let argument = self.argument(&command)?;
            let target = kinds::with(command.target, |kind| kind.resolve(&command))
                .map_err(|failure| self.failure(failure))?;
            let name = with_types(&[slice::from_ref(&argument)], &target, |types| {
                let register = arch::current::register;
                let name = command::pointed_structure(&argument, types.context, register);
                let copy = |name| CString::try_from_fmt(format_args!("{name}"));
                Ok(name.map(copy).transpose()?)
            })?;
            if name.is_some() {
                return Ok(name);
            }
        }
        Ok(None)
    }

    /// Adds a probe for each probe of the event, which changes the table of the objects.
    #[inline(never)]
    fn add_feeds(
        &self,
        following: &Following,
        change: Change,
        feeds: &mut KVec<Hook>,
    ) -> Result<(), Failure> {
        let name = CString::try_from_fmt(format_args!("{}", self.field.field))?;
        let feed = Feed {
            objects: following.objects.clone(),
            change,
            field: Arc::new(name, GFP_KERNEL)?,
        };
        let purpose = Purpose::Feed(feed, registry::string_buffer()?);
        for probe in &self.probes {
            self.check_field(probe)?;
            let feed = self.feed(probe, &purpose);
            feeds.push(feed.map_err(|failure| self.failure(failure))?, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// Checks that a probe of the event has the field.
    #[inline(never)]
    fn check_field(&self, probe: &Spec) -> Result<(), Failure> {
        self.argument(&probe.command()).map(drop)
    }

    /// Creates a probe like `probe`, for another purpose.
    #[inline(never)]
    fn feed(&self, probe: &Spec, purpose: &Purpose) -> Result<Hook, Failure> {
        let command = probe.command();
        let target = kinds::with(command.target, |kind| kind.resolve(&command))?;
        with_written(&command, &target, |written, clauses, types| {
            let resolved =
                Resolved::for_purpose(&command, written, clauses, types.context, purpose)?;
            let new = NewHook {
                command: &command,
                resolved: resolved.ok_or(self.error(ErrorKind::BadObjectField))?,
                source: types.source,
            };
            new.hook(spec::try_clone(probe)?, purpose)
        })
    }
}
