// SPDX-License-Identifier: GPL-2.0

//! The target of an object probe, as the command names it.

use core::{
    fmt,
    num::NonZero, //
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

/// A field of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventField<'a> {
    /// The group of the event.
    pub group: &'a str,
    /// The name of the event.
    pub event: &'a str,
    /// The name of the field.
    pub field: &'a str,
    /// The position of the group.
    pub at: Position,
}

impl EventField<'_> {
    /// The position of the name of the field.
    pub const fn field_at(&self) -> Position {
        self.at
            .skip(self.group.len())
            .skip(self.event.len())
            .skip("/.".len())
    }
}

/// The option for records of changes only.
pub(super) const CHANGES: &str = "changes";

/// The option for records at the return, also a suffix of the patterns.
pub(super) const RETURN: &str = "%return";

/// The option for the fields with the address of an object that ends.
pub(super) const UNTIL: &str = "until=";

/// The first word of the target.
pub(super) const SOURCE: usize = 1;

/// The word of the command that has the patterns for functions, if it has them.
pub(super) const PATTERNS: usize = 2;

/// Fields of events, with commas between them: at least one. `Display` writes them as the user did.
/// Two lists are equal if they name the same fields in the same order, wherever the lists are.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventFields<'a> {
    pub(super) text: &'a str,
    /// The position of the list.
    pub(super) at: Position,
}

impl PartialEq for EventFields<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for EventFields<'_> {}

impl<'a> EventFields<'a> {
    /// The fields.
    pub fn iter(self) -> impl Iterator<Item = EventField<'a>> {
        let mut next = self.at;
        self.text.split(',').map(move |text| {
            let at = next;
            next = at.skip(text.len()).skip(",".len());
            Self::field(text, at)
        })
    }

    /// The first field.
    pub fn first(self) -> EventField<'a> {
        let (first, _) = self.text.split_once(',').unwrap_or((self.text, ""));
        Self::field(first, self.at)
    }

    /// The field that this part of the list names. The parser found the separators: a list comes
    /// from it only.
    fn field(text: &'a str, at: Position) -> EventField<'a> {
        let (group, rest) = text.split_once('/').unwrap_or_default();
        let (event, field) = rest.split_once('.').unwrap_or_default();
        EventField {
            group,
            event,
            field,
            at,
        }
    }
}

impl fmt::Display for EventFields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

/// The objects that an object probe follows, and the functions that may receive them. `Display`
/// writes it as the listing does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectTarget<'a> {
    /// The structure that the objects are. Without it, the type of the source fields by BTF.
    pub structure: Option<&'a str>,
    /// The fields with the address of a new object.
    pub sources: EventFields<'a>,
    /// A list of functions: see [`items`](Self::items). Without it, all functions
    /// that take a pointer to the structure.
    pub functions: Option<&'a str>,
    /// The word of the command with `%return`, if it has it: the probe hits at the return.
    pub returns: Option<usize>,
    /// The fields with the address of an object that ends.
    pub until: Option<EventFields<'a>>,
    /// The maximum number of live objects, if the command has it: at most
    /// [`MAX_OBJECTS`](crate::object_table::MAX_OBJECTS).
    pub objects: Option<NonZero<u32>>,
    /// The number of records of an object, if the command has it.
    pub hits: Option<NonZero<u32>>,
    /// The word of the command with `changes`, if it has it: an object has a record only when a
    /// value changed.
    pub changes: Option<usize>,
}

/// The arguments at the start of each object probe, which has the last one only with `changes`.
static OWN_ARGUMENTS: [Argument<'static>; 3] = [
    Argument::own_number("object", Base::Object, Width::W8, Style::Hex),
    Argument::own_number("parameter", Base::Parameter, Width::W1, Style::Unsigned),
    Argument::own_number("unchanged", Base::Unchanged, Width::W8, Style::Symbol),
];

impl ObjectTarget<'_> {
    /// The arguments at the start of each object probe: the object, the number of the parameter
    /// that contains it, and with `changes` the function that received it last.
    pub fn own_arguments(self) -> &'static [Argument<'static>] {
        match (self.changes, &OWN_ARGUMENTS) {
            (Some(_), all) => all,
            (None, [always @ .., _]) => always,
        }
    }

    /// The position of the structure. Without a structure, of the sources, which decide it.
    pub fn structure_at(&self) -> Position {
        Position {
            word: SOURCE,
            offset: usize::from(self.structure.is_some()),
        }
    }

    /// The items of the list of functions.
    pub fn items(&self) -> impl Iterator<Item = FunctionItem<'_>> {
        let list = self.functions.into_iter();
        list.flat_map(|list| function_list::items(list, PATTERNS))
    }

    /// The position of the patterns. Without patterns, of the structure, which decides the
    /// functions.
    pub fn functions_at(&self) -> Position {
        match self.functions {
            Some(_) => Position {
                word: PATTERNS,
                offset: 0,
            },
            None => self.structure_at(),
        }
    }

    /// The number of words of the target in the command.
    pub fn words(&self) -> usize {
        let options = [
            self.functions.is_some(),
            // After the patterns, it is no word of its own.
            match (self.functions, self.returns) {
                (Some(_), Some(word)) => word > PATTERNS,
                (None, returns) => returns.is_some(),
                (Some(_), None) => false,
            },
            self.until.is_some(),
            self.objects.is_some(),
            self.hits.is_some(),
            self.changes.is_some(),
        ];
        options
            .into_iter()
            .filter(|is_given| *is_given)
            .count()
            .saturating_add(1)
    }
}

impl fmt::Display for ObjectTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(structure) = self.structure {
            write!(f, "({structure})")?;
        }
        write!(f, "{}", self.sources)?;
        if let Some(functions) = self.functions {
            write!(f, " {functions}")?;
        }
        match (self.functions, self.returns) {
            (_, None) => {}
            (Some(_), Some(_)) => f.write_str(RETURN)?,
            (None, Some(_)) => write!(f, " {RETURN}")?,
        }
        if let Some(until) = self.until {
            write!(f, " {UNTIL}{until}")?;
        }
        if let Some(objects) = self.objects {
            write!(f, " objects={objects}")?;
        }
        if let Some(hits) = self.hits {
            write!(f, " hits={hits}")?;
        }
        if self.changes.is_some() {
            write!(f, " {CHANGES}")?;
        }
        Ok(())
    }
}
