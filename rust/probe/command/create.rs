// SPDX-License-Identifier: GPL-2.0

//! A command that creates a probe: `LETTER[MAXACTIVE][:LABEL] TARGET [ARGS] [by KEYS] [if
//! CONDITION]`.
//!
//! C: `trace_kprobe_create_internal()` in `kernel/trace/trace_kprobe.c`,
//! `trace_fprobe_create_internal()` in `kernel/trace/trace_fprobe.c`, `__trace_eprobe_create()` in
//! `kernel/trace/trace_eprobe.c`.

use core::num::NonZero;

use crate::{
    argument::Argument,
    condition::Comparison,
    count_value::Value,
    counting::Key,
    error::{
        Errno,
        ErrorKind, //
    },
};

use super::{
    arguments::WrittenArgument,
    by::By,
    condition::Condition,
    error::{
        Error,
        Normalized, //
    },
    fetch::ResolvedFetch,
    name::{
        Event,
        EventName,
        Label, //
    },
    object::ObjectTarget,
    parse_context::ParseContext,
    resolve_arguments::Arguments,
    resolve_base::{
        BaseResolver,
        Registers, //
    },
    resolve_by::ByResolver,
    resolve_condition::Comparisons,
    target::{
        ProbeKind,
        Target, //
    },
    words::{
        Position,
        Words, //
    },
};

/// The maximum MAXACTIVE of a return probe.
pub const MAX_MAXACTIVE: u16 = 4096;

/// A command that creates a probe: `p`, `r`, `f`, `t`, `e`, `w`, `o` or `c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// The kind of the probe.
    pub kind: ProbeKind,
    /// The maximum number of instances of a return probe, at most [`MAX_MAXACTIVE`]. `None` if the
    /// command does not contain it.
    pub maxactive: Option<NonZero<u16>>,
    /// The target of the probe.
    pub target: Target<'a>,
    /// The position of the memory that a watchpoint watches. For other kinds, of the target.
    pub(super) place_at: Position,
    /// The text after the `:`.
    pub(super) label: Option<Label<'a>>,
    /// The words of the arguments.
    pub(super) arguments: Words<'a>,
    /// The words after `by`.
    pub(super) by: Option<Words<'a>>,
    /// The words after `if`.
    pub(super) filter: Option<Words<'a>>,
}

impl<'a> Command<'a> {
    /// Parses the label. Derives a missing group or event from the target. `hash` maps an address
    /// to a number that does not reveal the address.
    ///
    /// # Errors
    ///
    /// The kinds from [`ErrorKind::NoGroupName`] to [`ErrorKind::BadEventName`].
    #[inline(never)]
    pub fn name(&self, hash: impl FnOnce(u64) -> u32) -> Result<EventName<'a>, Error> {
        let (group, event) = match self.label {
            Some(label) => label.parse()?,
            None => (None, None),
        };
        let event = match (event, self.target) {
            (Some(name), _) => Event::Given(name),
            (None, Target::Address(address)) => Event::Hashed(self.kind, hash(address)),
            (None, target) => Event::Automatic(self.kind, target),
        };
        Ok(EventName {
            group: group.unwrap_or(self.kind.default_group()),
            event,
        })
    }

    /// The text of the condition after the `if`.
    pub fn condition_text(&self) -> Option<Normalized<'a>> {
        self.words_of_if().map(|(text, _)| Normalized(text))
    }

    /// Parses the condition after the `if`, which decides whether a hit counts.
    ///
    /// # Errors
    ///
    /// The condition is malformed (EINVAL).
    pub fn condition(&self) -> Result<Option<Condition<'a>>, Error> {
        match self.words_of_if() {
            Some((text, word)) => Condition::parse(text, word, self.is_event()).map(Some),
            None => Ok(None),
        }
    }

    /// The text after the `if`, and the index of the word after the `if`.
    fn words_of_if(&self) -> Option<(&'a str, usize)> {
        let text = self.filter.as_ref()?.text();
        let by = self.by.clone().map_or(0, |by| by.count().saturating_add(1));
        Some((
            text,
            self.after_arguments().saturating_add(by).saturating_add(1),
        ))
    }

    /// Parses the text after the `by`, which lets hits count in a table instead of making records.
    ///
    /// # Errors
    ///
    /// The text is malformed (EINVAL).
    pub fn by(&self) -> Result<Option<By<'a>>, Error> {
        let Some(words) = self.by.clone() else {
            return Ok(None);
        };
        let at = self.after_arguments();
        if let Target::Object(ObjectTarget {
            changes: Some(_), ..
        }) = self.target
        {
            return Err(Error::invalid(ErrorKind::ByOfChanges, at, 0));
        }
        if let Target::CallTree(_) = self.target {
            return Err(Error::invalid(ErrorKind::ByOfTree, at, 0));
        }
        By::parse(words, at.saturating_add(1), self.is_event()).map(Some)
    }

    fn is_event(&self) -> bool {
        self.kind == ProbeKind::EventProbe
    }

    /// The index of the word after the arguments.
    fn after_arguments(&self) -> usize {
        let arguments = self.arguments.clone().count();
        self.first_argument().saturating_add(arguments)
    }

    /// Parses the arguments, in order. An error in an argument is a part of it:
    /// [`resolve`](Self::resolve) reports it when it comes to this argument.
    pub fn arguments(&self) -> impl Iterator<Item = WrittenArgument<'a>> {
        let is_event = self.is_event();
        let first = self.first_argument();
        let words = self.arguments.clone().enumerate();
        words.map(move |(index, word)| {
            WrittenArgument::parse(word, first.saturating_add(index), index, is_event)
        })
    }

    /// The arguments at the start of each probe of this kind.
    pub fn own_arguments(&self) -> &'static [Argument<'static>] {
        self.target.own_arguments(self.kind)
    }

    /// Returns this command with `len`, in bytes, as the length of the watched memory.
    pub fn with_length(&self, len: u8) -> Self {
        let mut command = self.clone();
        if let Target::Memory(watched) = &mut command.target {
            watched.len = Some(len);
        }
        command
    }

    /// Creates an error about the watched memory: [`ErrorKind::BadAccessAddr`],
    /// [`ErrorKind::BadAccessLen`], [`ErrorKind::UnalignedAccess`], [`ErrorKind::EntryMemory`] or
    /// [`ErrorKind::NoDataMemory`], all EINVAL.
    pub const fn memory_error(&self, kind: ErrorKind) -> Error {
        Error::at(kind, self.place_at, Errno::EINVAL)
    }

    /// The index of the word that contains argument 0. The first word of the command has index 0.
    fn first_argument(&self) -> usize {
        match self.target {
            Target::Object(target) => target.words().saturating_add(1),
            Target::CallTree(target) => target.words().saturating_add(1),
            _ => 2,
        }
    }

    /// Creates an error of the argument `index` of `written`, counted from 0. If there is no such
    /// argument, the error is after the arguments.
    ///
    /// C: `append_trace_kprobe()`.
    pub fn argument_error(
        &self,
        written: &[WrittenArgument<'_>],
        index: usize,
        kind: ErrorKind,
        errno: Errno,
    ) -> Error {
        match written.get(index) {
            Some(argument) => argument.error(kind, errno),
            None => Error::new(kind, self.after_arguments(), 0, errno),
        }
    }

    /// Returns this command of an object probe with `structure` as the structure of the objects.
    pub fn with_structure<'c>(&self, structure: &'c str) -> Command<'c>
    where
        'a: 'c,
    {
        let target = match self.target {
            Target::Object(target) => Target::Object(ObjectTarget {
                structure: Some(structure),
                ..target
            }),
            target => target,
        };
        Command {
            target,
            ..self.clone()
        }
    }

    /// Resolves the arguments. The caller derives `context` from the kernel's data about the
    /// target. As in C, a target that is an address always has the point
    /// [`ProbePoint::Inside`](super::ProbePoint::Inside). `registers` finds a register by its name
    /// without the `%`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TooManyArgs`] (E2BIG). The iterator returns the errors of single arguments.
    pub fn resolve<'c>(
        &self,
        written: &'c [WrittenArgument<'c>],
        context: ParseContext<'c>,
        registers: Registers,
    ) -> Result<Arguments<'c>, Error> {
        Arguments::new(written, self.bases(context, registers))
    }

    /// The resolver of the bases of this command's arguments and operands.
    fn bases<'c>(&self, context: ParseContext<'c>, registers: Registers) -> BaseResolver<'c> {
        BaseResolver {
            context,
            // For other kinds of probes, the kernel saves only some registers.
            registers: self.kind.has_all_registers().then_some(registers),
        }
    }

    /// Resolves the keys of this command. `operands` are the [values](By::key_operands) of the
    /// keys, and `arguments` the arguments of the command.
    pub fn resolve_keys<'c>(
        &'c self,
        by: &'c By<'c>,
        operands: &'c [WrittenArgument<'c>],
        arguments: &'c [WrittenArgument<'c>],
        context: ParseContext<'c>,
        registers: Registers,
    ) -> impl Iterator<Item = Result<Key<'c>, Error>> {
        let resolver = self.by_resolver(arguments, context, registers);
        let keys = by.keys().zip(operands);
        keys.map(move |(item, operand)| resolver.key(&item, operand))
    }

    /// Resolves the fields of this command. `operands` are [their values](By::field_operands), and
    /// `arguments` the arguments of the command.
    pub fn resolve_values<'c>(
        &'c self,
        by: &'c By<'c>,
        operands: &'c [WrittenArgument<'c>],
        arguments: &'c [WrittenArgument<'c>],
        context: ParseContext<'c>,
        registers: Registers,
    ) -> impl Iterator<Item = Result<Value<'c>, Error>> {
        let resolver = self.by_resolver(arguments, context, registers);
        let fields = by.fields().zip(operands);
        fields.map(move |((operation, item), operand)| resolver.value(operation, &item, operand))
    }

    fn by_resolver<'c>(
        &'c self,
        arguments: &'c [WrittenArgument<'c>],
        context: ParseContext<'c>,
        registers: Registers,
    ) -> ByResolver<'c> {
        ByResolver {
            kind: self.kind,
            target: self.target,
            arguments,
            bases: self.bases(context, registers),
        }
    }

    /// Resolves the comparisons of this command's condition. `operands` are the
    /// [operands](Condition::operands) of the condition, and `arguments` the arguments of the
    /// command.
    pub fn resolve_condition<'c>(
        &'c self,
        condition: &'c Condition<'c>,
        operands: &'c [WrittenArgument<'c>],
        arguments: &'c [WrittenArgument<'c>],
        context: ParseContext<'c>,
        registers: Registers,
    ) -> impl Iterator<Item = Result<Comparison<'c>, Error>> {
        Comparisons {
            kind: self.kind,
            target: self.target,
            condition,
            operands,
            arguments,
            bases: self.bases(context, registers),
            index: 0,
        }
    }
}

/// The name of the structure that an argument points to, from BTF.
pub fn pointed_structure<'c>(
    argument: &'c WrittenArgument<'c>,
    context: ParseContext<'c>,
    registers: Registers,
) -> Option<&'c str> {
    let bases = BaseResolver {
        context,
        registers: Some(registers),
    };
    let fetch = ResolvedFetch::resolve(&bases, argument.body, &argument.written).ok()?;
    let btf = fetch.btf?;
    btf.name(btf.pointed_structure(fetch.value?.ty)?)
}
