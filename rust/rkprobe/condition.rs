// SPDX-License-Identifier: GPL-2.0

//! The condition of a probe: a hit that does not fulfil it makes no record.
//!
//! A return probe also checks a part of its condition at the entry of the call. If a call cannot
//! fulfil the condition any more, it costs nothing at its return.

use kernel::{
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    sync::Arc, //
};

use ktrace::{
    glob,
    percpu::Counters,
    registers::RegisterFile, //
};
use probe::{
    arch,
    argument::Argument,
    command::{
        self,
        Command,
        ParseContext,
        ProbeKind,
        WrittenArgument, //
    },
    condition::{
        Comparison,
        StringCheck, //
    },
    fetch::{
        self,
        MatchString,
        Test,
        SMALL_BUFFER, //
    },
};

use crate::{
    collect::{
        collect,
        try_collect, //
    },
    failure::Failure,
    hit_context::{
        CallValues,
        HitContext, //
    },
    schema::StringBuffer, //
};

/// The condition of a command, as the user wrote it.
#[derive(Default)]
pub(crate) struct WrittenCondition<'a> {
    /// `None` if the command has no condition.
    condition: Option<KBox<command::Condition<'a>>>,
    pub(crate) operands: KVVec<WrittenArgument<'a>>,
}

impl<'a> WrittenCondition<'a> {
    /// Parses the condition of a command. `ENOMEM`, and the errors of the condition.
    #[inline(never)]
    pub(crate) fn parse(command: &Command<'a>) -> Result<Self, Failure> {
        let Some(condition) = parse(command)? else {
            return Ok(Self::default());
        };
        Ok(Self {
            operands: collect(condition.operands())?,
            condition: Some(condition),
        })
    }

    /// Resolves the comparisons. `arguments` are the arguments of the command.
    #[inline(never)]
    pub(crate) fn resolve<'c>(
        &'c self,
        command: &'c Command<'c>,
        arguments: &'c [WrittenArgument<'c>],
        context: ParseContext<'c>,
    ) -> Result<KVVec<Comparison<'c>>, Failure> {
        let Some(condition) = &self.condition else {
            return Ok(KVVec::new());
        };
        let register = arch::current::register;
        let (operands, condition) = (&self.operands, &**condition);
        try_collect(command.resolve_condition(condition, operands, arguments, context, register))
    }
}

/// Parses the condition of a command, if it has one.
#[inline(never)]
fn parse<'a>(command: &Command<'a>) -> Result<Option<KBox<command::Condition<'a>>>, Failure> {
    let condition = command.condition()?;
    let boxed = condition.map(|condition| KBox::new(condition, GFP_KERNEL));
    Ok(boxed.transpose()?)
}

/// Gives the buffer that all events share. `ENOMEM`.
pub(crate) type SharedBuffer = fn() -> Result<Arc<StringBuffer>>;

/// The compiled condition of a probe. All registrations of the probe share it.
pub(crate) struct Conditions {
    /// For a return probe: the part that is checked at the entry of a call.
    at_entry: Option<Condition>,
    /// The whole condition.
    at_hit: Condition,
}

impl Conditions {
    /// Compiles comparisons for a probe of this kind. `strings` gives the buffer that all events
    /// share. `ENOMEM`, and the errors of `resolver`.
    #[inline(never)]
    pub(crate) fn new(
        comparisons: &[Comparison<'_>],
        kind: ProbeKind,
        resolver: &mut impl fetch::Resolver<Error = Failure>,
        strings: SharedBuffer,
    ) -> Result<Self, Failure> {
        let mut at_hit = Condition::default();
        let mut at_entry = Condition::default();
        for comparison in comparisons {
            at_hit.add(comparison, Some(&comparison.operand), resolver, strings)?;
            if kind.has_entry() {
                let operand = comparison.operand_at_entry();
                at_entry.add(comparison, operand.as_ref(), resolver, strings)?;
            }
        }
        Ok(Self {
            at_entry: fetch::decides(&at_entry.tests).then_some(at_entry),
            at_hit,
        })
    }
}

/// Tests, and the buffer that they need.
#[derive(Default)]
struct Condition {
    tests: KVec<Test<MatchedString>>,
    buffer: Buffer,
}

/// The buffer for the strings of a condition.
#[derive(Default)]
enum Buffer {
    /// No test needs one.
    #[default]
    None,
    /// On the stack.
    Small,
    /// The buffer that all events share.
    Shared(Arc<StringBuffer>),
}

impl Condition {
    fn add(
        &mut self,
        comparison: &Comparison<'_>,
        operand: Option<&Argument<'_>>,
        resolver: &mut impl fetch::Resolver<Error = Failure>,
        strings: SharedBuffer,
    ) -> Result<(), Failure> {
        let string = |check| Ok(MatchedString::new(check)?);
        let test = fetch::compile_test(comparison, operand, resolver, string)?;
        self.tests.push(test, GFP_KERNEL)?;
        match (operand.map(fetch::buffer_for), &self.buffer) {
            (Some(None), Buffer::None | Buffer::Small) => {
                self.buffer = Buffer::Shared(strings()?);
            }
            (Some(Some(1..)), Buffer::None) => self.buffer = Buffer::Small,
            _ => {}
        }
        Ok(())
    }

    /// Whether a hit fulfils the condition. `None` if the handlers that this one interrupts use all
    /// buffers.
    #[inline(always)]
    fn holds<R: RegisterFile, K: CallValues>(&self, context: HitContext<R, K>) -> Option<bool> {
        match &self.buffer {
            Buffer::None => Some(fetch::holds(&self.tests, context, &mut [])),
            Buffer::Small => Some(self.holds_with_small_buffer(context)),
            Buffer::Shared(buffer) => self.holds_with_buffer(buffer, context),
        }
    }

    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn holds_with_small_buffer<R: RegisterFile, K: CallValues>(
        &self,
        context: HitContext<R, K>,
    ) -> bool {
        fetch::holds(&self.tests, context, &mut [0; SMALL_BUFFER])
    }

    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn holds_with_buffer<R: RegisterFile, K: CallValues>(
        &self,
        buffer: &StringBuffer,
        context: HitContext<R, K>,
    ) -> Option<bool> {
        buffer.with(context.state.atomic(), |area| {
            let area = area?;
            Some(fetch::holds(&self.tests, context, area.as_mut_slice()))
        })
    }
}

/// A string or a pattern.
struct MatchedString {
    is_pattern: bool,
    text: CString,
}

impl MatchedString {
    fn new(check: StringCheck<'_>) -> Result<Self> {
        let (is_pattern, text) = match check {
            StringCheck::Equal(text) => (false, text),
            StringCheck::Glob(text) => (true, text),
        };
        Ok(Self {
            is_pattern,
            text: CString::try_from_fmt(format_args!("{text}"))?,
        })
    }
}

impl MatchString for MatchedString {
    #[inline(always)]
    fn matches(&self, text: &[u8]) -> bool {
        match CStr::from_bytes_with_nul(text) {
            Ok(text) if self.is_pattern => glob::matches(&self.text, text),
            Ok(text) => text == &*self.text,
            Err(_) => false,
        }
    }
}

/// The condition of one registration of a probe, and its count.
pub(crate) struct Gate {
    conditions: Arc<Conditions>,
    left_out: Counters<1>,
}

impl Gate {
    /// `ENOMEM`.
    pub(crate) fn new(conditions: &Arc<Conditions>) -> Result<Self> {
        Ok(Self {
            conditions: conditions.clone(),
            left_out: Counters::new()?,
        })
    }

    /// Whether a condition is checked at the entry of a call.
    pub(crate) fn checks_calls(&self) -> bool {
        self.conditions.at_entry.is_some()
    }

    /// Whether a call can fulfil the condition at its return. `None` without a buffer.
    #[inline(always)]
    pub(crate) fn admits_call<R: RegisterFile>(&self, context: HitContext<R, ()>) -> Option<bool> {
        match &self.conditions.at_entry {
            Some(condition) => self.admits_by(condition, context),
            None => Some(true),
        }
    }

    /// Whether a hit fulfils the condition. `None` without a buffer.
    #[inline(always)]
    pub(crate) fn admits<R: RegisterFile, K: CallValues>(
        &self,
        context: HitContext<R, K>,
    ) -> Option<bool> {
        self.admits_by(&self.conditions.at_hit, context)
    }

    #[inline(always)]
    fn admits_by<R: RegisterFile, K: CallValues>(
        &self,
        condition: &Condition,
        context: HitContext<R, K>,
    ) -> Option<bool> {
        let holds = condition.holds(context);
        if holds == Some(false) {
            self.left_out.increment::<0>();
        }
        holds
    }

    /// The number of hits that the condition left out.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.sum::<0>()
    }
}
