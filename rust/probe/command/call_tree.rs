// SPDX-License-Identifier: GPL-2.0

//! The target of a call tree, as the command names it, and the fields of its records.

use core::{
    fmt,
    num::{
        NonZero,
        NonZeroU8, //
    },
};

use crate::{
    argument::{
        Argument,
        Base, //
    },
    types::{
        Style,
        Width, //
    },
};

use super::{
    function_list::{
        self,
        FunctionItem, //
    },
    words::Position, //
};

/// The option for the number of calls that can be in progress at the same time.
pub(super) const CALLS: &str = "calls=";

/// The option for the number of steps of a call.
pub(super) const STEPS: &str = "steps=";

/// The word of the command that has the functions, if it has them.
pub(super) const FUNCTIONS: usize = 2;

/// The functions if the command names none.
const DEFAULT_FUNCTIONS: &str = "*4";

/// The maximum number of calls that can be in progress at the same time.
pub const MAX_CALLS: u32 = 1024;

/// The maximum number of steps of all calls together.
pub const MAX_STEPS: u32 = 1 << 20;

/// The maximum depth of callees.
pub const MAX_CALL_DEPTH: u32 = 16;

/// The function whose calls become trees, and the functions that can be steps. `Display` writes it
/// as the listing does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTreeTarget<'a> {
    /// The function `[MOD:]SYM` at the root of each tree, or a pattern for the names of functions.
    pub root: &'a str,
    /// The list of the functions that can be steps, with commas between its items.
    pub functions: Option<&'a str>,
    /// The number of calls that can be in progress at the same time: at most [`MAX_CALLS`].
    pub calls: Option<NonZero<u32>>,
    /// The maximum number of steps of a call. All calls have at most [`MAX_STEPS`].
    pub steps: Option<NonZero<u32>>,
}

/// The fields at the start of each record. They have the layout of
/// [`StepRecord`](crate::call_tree::StepRecord).
static OWN_ARGUMENTS: [Argument<'static>; 10] = [
    of_step("call", Width::W8, Style::Unsigned),
    of_step("depth", Width::W4, Style::Unsigned),
    of_step("func", Width::W8, Style::Function),
    of_step("enter", Width::W8, Style::Unsigned),
    of_step("ns", Width::W8, Style::Unsigned),
    of_step("ret", Width::W8, Style::Hex),
    of_step("has", Width::W1, Style::Unsigned),
    Argument {
        count: NonZeroU8::new(4),
        ..of_step("args", Width::W8, Style::Hex)
    },
    of_step("steps", Width::W4, Style::Unsigned),
    of_step("lost", Width::W4, Style::Unsigned),
];

const fn of_step(name: &'static str, width: Width, style: Style) -> Argument<'static> {
    Argument::own_number(name, Base::OfStep, width, style)
}

/// An item of the list of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallItem<'a> {
    /// `*`: all functions.
    All,
    /// `*N`: the functions that the root calls, those that these call, and so on, N times.
    Callees(u32),
    /// The functions whose names match a pattern.
    Pattern(&'a str),
    /// `!PATTERN`: not the functions whose names match.
    Except(&'a str),
}

impl<'a> CallItem<'a> {
    /// Parses an item. `None` if `*N` has a wrong number.
    pub(super) fn parse(item: &FunctionItem<'a>) -> Option<Self> {
        let pattern = item.pattern;
        Some(match pattern.strip_prefix('*') {
            _ if item.is_excepted => Self::Except(pattern),
            Some("") => Self::All,
            Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                let depth = number.parse().ok()?;
                (1..=MAX_CALL_DEPTH)
                    .contains(&depth)
                    .then_some(Self::Callees(depth))?
            }
            _ => Self::Pattern(pattern),
        })
    }
}

impl<'a> CallTreeTarget<'a> {
    /// The items of the list of functions, each with its position.
    pub fn items(self) -> impl Iterator<Item = (CallItem<'a>, Position)> {
        let list = self.functions.unwrap_or(DEFAULT_FUNCTIONS);
        function_list::items(list, FUNCTIONS)
            .filter_map(|item| Some((CallItem::parse(&item)?, item.at)))
    }

    /// Whether functions that match a pattern are roots.
    pub fn is_pattern(self) -> bool {
        self.root.contains(['*', '?', '['])
    }

    /// The number of calls that can be in progress at the same time.
    pub fn max_calls(self) -> u32 {
        self.calls.map_or(64, NonZero::get)
    }

    /// The maximum number of steps of a call.
    pub fn max_steps(self) -> u32 {
        self.steps.map_or(1024, NonZero::get)
    }

    /// The number of words of the target in the command.
    pub fn words(&self) -> usize {
        [
            self.functions.is_some(),
            self.calls.is_some(),
            self.steps.is_some(),
        ]
        .into_iter()
        .filter(|is_given| *is_given)
        .count()
        .saturating_add(1)
    }

    /// The arguments at the start of each call tree.
    pub fn own_arguments(self) -> &'static [Argument<'static>] {
        &OWN_ARGUMENTS
    }
}

impl fmt::Display for CallTreeTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.root)?;
        if let Some(functions) = self.functions {
            write!(f, " {functions}")?;
        }
        if let Some(calls) = self.calls {
            write!(f, " {CALLS}{calls}")?;
        }
        if let Some(steps) = self.steps {
            write!(f, " {STEPS}{steps}")?;
        }
        Ok(())
    }
}
