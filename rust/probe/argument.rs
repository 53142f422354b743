// SPDX-License-Identifier: GPL-2.0

//! A parsed fetch argument `[NAME=]BODY[:TYPE]`: the source of a field, and the field's type.
//!
//! The parser creates an [`Argument`]. The compiler turns it into a program.
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
        Style,
        Width, //
    },
};

/// Maximum size of all fields of an event in a record, in bytes. A string counts as its locator.
///
/// C: `MAX_PROBE_EVENT_SIZE`.
pub const MAX_EVENT_SIZE: usize = 3072;

/// A fetch argument, borrowed from the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    /// The name of the field.
    pub name: Name<'a>,
    /// The source of the value.
    pub fetch: Fetch<'a>,
    /// The type of the stored value.
    pub ty: FetchType,
    /// The number of elements of an array, at most 64.
    pub count: Option<NonZeroU8>,
}

impl Argument<'static> {
    /// An argument that no command contains: the value of a base, under a name.
    pub(crate) const fn own(name: &'static str, base: Base<'static>, ty: FetchType) -> Self {
        Self {
            name: Name::Given(name),
            fetch: Fetch {
                base,
                steps: Steps::new(),
            },
            ty,
            count: None,
        }
    }

    /// An argument that no command contains, whose value is a number.
    pub(crate) const fn own_number(
        name: &'static str,
        base: Base<'static>,
        width: Width,
        style: Style,
    ) -> Self {
        Self::own(name, base, FetchType::Number(width, style))
    }
}

impl Argument<'_> {
    /// Whether the value is from the address that the function returns to.
    pub fn reads_caller(&self) -> bool {
        matches!(self.fetch.base, Base::Caller | Base::EntryCaller)
    }
}

/// The name of an argument. `Display` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// The name before the `=`, or the name of the variable that the argument reads.
    Given(&'a str),
    /// The argument has no name. Its name is `argN`, counted from 1.
    Numbered(usize),
}

impl Name<'_> {
    /// Whether two names are equal.
    pub fn is_same(self, other: Name<'_>) -> bool {
        match (self, other) {
            (Name::Given(a), Name::Given(b)) => a == b,
            (Name::Numbered(a), Name::Numbered(b)) => a == b,
            (Name::Given(name), Name::Numbered(n)) | (Name::Numbered(n), Name::Given(name)) => {
                // `arg01` does not equal `arg1`. `arg+1` is not a name.
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

/// The source of a value: a base, and the steps from the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch<'a> {
    /// The first value.
    pub base: Base<'a>,
    /// The steps, innermost first.
    pub steps: Steps,
}

/// The base of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base<'a> {
    /// `%REG`.
    Register(Register),
    /// `$stack`: the stack pointer.
    StackPointer,
    /// `$stackN`: the Nth word of the kernel stack.
    Stack(u16),
    /// `$argN`, counted from 0. For a tracepoint, counted over all arguments of its callback, whose
    /// first argument is not `$arg1`.
    Argument(u16),
    /// `$argN` of a return probe, counted from 0. The probe saves the value at the entry of the
    /// call.
    EntryArgument(u16),
    /// `$retval`.
    ReturnValue,
    /// `$elapsed`: the time from the entry of the call to its return, in ns. C has no such
    /// variable.
    Elapsed,
    /// `$caller`: the address that the function returns to, at its entry or at an instruction that
    /// returns. C has no such variable.
    Caller,
    /// `$caller` of a return probe. The probe saves the address at the entry of the call.
    EntryCaller,
    /// `$exit`: the address of the return instruction that the function executed. C has no such
    /// variable.
    Exit,
    /// The address of the text of a path. C has no such field.
    Path,
    /// The number of blocks of a path. C has no such field.
    Blocks,
    /// `$addr`: the address that a watchpoint watches.
    Watched,
    /// `$FIELD`: a field of the record. The event that the event probe is attached to writes the
    /// record.
    Field(RecordField),
    /// `$comm`: the address of the name of the current task.
    Comm,
    /// `$current`: the address of the current task.
    Current,
    /// `common_pid`: the number of the current task. Only conditions have it.
    Pid,
    /// `$obj`: the address of the object that an object probe follows. C has no such variable.
    Object,
    /// `$parameter`: the number of the parameter that contains the object, counted from 1. C has no
    /// such variable.
    Parameter,
    /// `$unchanged`: the address of the function that received the object last, before a value of
    /// it changed. C has no such variable.
    Unchanged,
    /// A field that the handler of a call tree writes itself. C has no such field.
    OfStep,
    /// `\IMM`, or the address of `@ADDR`. For `@ADDR`, the fetch has an additional dereference.
    Immediate(u64),
    /// `\"TEXT"`: the address of a copy of this string.
    Text(&'a str),
    /// `@SYM[+|-OFF]`: the address of a symbol. The fetch has an additional dereference. Contains
    /// the text of the command. [`split_symbol`](crate::command::split_symbol) splits it. C looks
    /// the symbol up at the registration of the probe. C then reports a malformed offset as
    /// `FailRegProbe` and a missing symbol as `BadProbeAddr`, both at the target.
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
    /// A signed number.
    Signed(Width),
    /// The address of the field, which contains a string.
    Text,
    /// The address of the field, which contains neither a number nor a string.
    Address,
    /// `__data_loc`: the address of a string. The field contains the string's offset from the start
    /// of the record.
    DataLoc,
    /// `__rel_loc`: the address of a string. The field contains the string's offset from the end of
    /// the field.
    RelLoc,
}

/// A step from a value to the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads memory at the value.
    Deref(Deref),
    /// Computes the address of the current CPU's copy of a per-CPU variable. The value is the
    /// address of the variable.
    ThisCpu,
}

/// A read of memory at a value plus an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deref {
    /// The address space.
    pub space: Space,
    /// The offset that the read adds to the value, in bytes.
    pub offset: i32,
}

/// The steps of a fetch.
///
/// A hit follows the steps in a loop, without recursion. So the number of steps bounds the time of
/// a hit and the size of a program, and adds nothing to the stack of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    items: [Step; Self::MAX],
    len: u8,
}

impl Steps {
    /// Maximum number of steps. C allows 16 fetch instructions, of which at most 14 are such steps.
    pub const MAX: usize = 16;

    /// Creates an empty list.
    pub const fn new() -> Self {
        Self {
            items: [Step::ThisCpu; Self::MAX],
            len: 0,
        }
    }

    /// Adds an outer step. Returns the step if the list is full.
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

    /// Removes and returns the outermost step.
    pub fn pop(&mut self) -> Option<Step> {
        self.len = self.len.checked_sub(1)?;
        // `PartialEq` compares the unused items, too, so these must all be equal.
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
