// SPDX-License-Identifier: GPL-2.0

//! A fetch argument `[NAME=]BODY[:TYPE]` as a value: the source of a field, and its type in the
//! record.
//!
//! The parser creates it, and the compiler turns it into a program.
//!
//! C: `traceprobe_parse_probe_arg()` in `kernel/trace/trace_probe.c`.

use core::{
    fmt,
    mem,
    num::NonZeroU8, //
};

use crate::{
    arch::Register,
    types::{
        FetchType,
        Space,
        Width, //
    },
};

/// The most bytes that the fields of all arguments of an event take in a record. A string counts as
/// its locator.
///
/// C: `MAX_PROBE_EVENT_SIZE`.
pub const MAX_EVENT_SIZE: usize = 3072;

/// One fetch argument, borrowed from the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    /// The name that the field gets.
    pub name: Name<'a>,
    /// The part after the name, as written, for the listing.
    pub body: &'a str,
    /// The source of the value.
    pub fetch: Fetch<'a>,
    /// The type of the stored value.
    pub ty: FetchType,
    /// The number of elements of an array, at most 64.
    pub count: Option<NonZeroU8>,
}

/// The name of an argument. `Display` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// Written in front of a `=`, or the variable that is the argument.
    Given(&'a str),
    /// Left out: `argN`, counted from 1.
    Numbered(usize),
}

impl Name<'_> {
    /// Whether two names are equal.
    pub fn is_same(self, other: Name<'_>) -> bool {
        match (self, other) {
            (Name::Given(a), Name::Given(b)) => a == b,
            (Name::Numbered(a), Name::Numbered(b)) => a == b,
            (Name::Given(name), Name::Numbered(n)) | (Name::Numbered(n), Name::Given(name)) => {
                // `arg01` is another name than `arg1`, and `arg+1` is none.
                name.strip_prefix("arg")
                    .filter(|number| !number.starts_with(['0', '+']))
                    .and_then(|number| number.parse().ok())
                    == Some(n)
            }
        }
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Name::Given(name) => f.write_str(name),
            Name::Numbered(n) => write!(f, "arg{n}"),
        }
    }
}

/// The source of a value: a base, and the steps from there on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch<'a> {
    /// The first value.
    pub base: Base<'a>,
    /// The steps, innermost first.
    pub steps: Steps,
}

/// The start of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base<'a> {
    /// `%REG`.
    Register(Register),
    /// `$stack`: the stack pointer.
    StackPointer,
    /// `$stackN`: the Nth word of the kernel stack.
    Stack(u16),
    /// `$argN`, counted from 0. What a tracepoint calls has an argument of its own in front.
    Argument(u16),
    /// `$argN` of a return probe, counted from 0. The probe saves it at the entry of the call.
    EntryArgument(u16),
    /// `$retval`.
    ReturnValue,
    /// `$elapsed`: the time from the entry of the call to its return, in ns. Ours; C has no such.
    Elapsed,
    /// `$exit`: the address of the instruction with which the function returns. Ours; C has no
    /// such.
    Exit,
    /// `$addr`: the address that a watchpoint watches.
    Watched,
    /// `$FIELD`: a field of the record of the event that an event probe is attached to.
    Field(RecordField),
    /// `$comm`: the address of the name of the current task.
    Comm,
    /// `$current`: the address of the current task.
    Current,
    /// `$obj`: the address of the object that an object probe follows. Ours; C has no such.
    Object,
    /// `$parameter`: the number of the parameter that is the object, counted from 1. Ours; C has no
    /// such.
    Parameter,
    /// `$unchanged`: the address of the function that received the object last, before a value of
    /// it changed. Ours; C has no such.
    Unchanged,
    /// `\IMM`, or the address of `@ADDR` (which adds a dereference).
    Immediate(u64),
    /// `\"TEXT"`: the address of this text.
    Text(&'a str),
    /// `@SYM[+|-OFF]`: the address of a symbol (with a dereference), as written; see
    /// [`split_symbol`](crate::command::split_symbol). C looks it up when it registers the probe:
    /// a malformed offset is `FailRegProbe`, a missing symbol `BadProbeAddr`, both at the target.
    Symbol(&'a str),
}

/// A field in the record of an event: its position and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordField {
    /// The offset in bytes from the start of the record.
    pub offset: u16,
    /// The kind of the field.
    pub value: RecordValue,
}

/// The kind of a record's field.
///
/// C: `get_event_field()` in `kernel/trace/trace_eprobe.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordValue {
    /// A number.
    Number(Width),
    /// One with a sign.
    Signed(Width),
    /// The address of the field: of a string in it, or of whatever is no number.
    Address,
    /// `__data_loc`: the address of a string. The field holds its offset from the start of the
    /// record.
    DataLoc,
    /// `__rel_loc`: the address of a string. The field holds its offset from the end of the field.
    RelLoc,
}

/// One step from a value to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads memory at the value.
    Deref(Deref),
    /// Takes the value as the address of a per-CPU variable, and gives the address of the current
    /// CPU's copy.
    ThisCpu,
}

/// One read of memory at a value plus an offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deref {
    /// The address space.
    pub space: Space,
    /// Added to the address, in bytes.
    pub offset: i32,
}

/// The steps of a fetch. The kernel allows 16 instructions for an argument. Three of them load,
/// store and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    items: [Step; Self::MAX],
    len: u8,
}

impl Steps {
    /// The most there can be.
    pub const MAX: usize = 14;

    /// None.
    pub const fn new() -> Self {
        Self {
            items: [Step::ThisCpu; Self::MAX],
            len: 0,
        }
    }

    /// Adds an outer step. Returns the step if there is no room.
    pub fn push(&mut self, step: Step) -> Result<(), Step> {
        match self.items.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = step;
                self.len = self.len.saturating_add(1);
                Ok(())
            }
            None => Err(step),
        }
    }

    /// Takes the outermost away.
    pub fn pop(&mut self) -> Option<Step> {
        self.len = self.len.checked_sub(1)?;
        // Equal steps have equal items behind them.
        let slot = self.items.get_mut(usize::from(self.len))?;
        Some(mem::replace(slot, Step::ThisCpu))
    }

    /// The steps, innermost first.
    pub fn as_slice(&self) -> &[Step] {
        self.items.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self::new()
    }
}
