// SPDX-License-Identifier: GPL-2.0

//! Compiles a parsed fetch argument into a [`Program`].
//!
//! C: `finalize_fetch_insn()`, `traceprobe_update_arg()`.

use core::num::NonZeroU8;

use crate::{
    arch::{
        current,
        Slot, //
    },
    argument::{
        Argument,
        Base,
        Deref,
        Step, //
    },
    types::{
        FetchType,
        Space, //
    },
};

use super::{
    entry_data::EntryArgument,
    program::{
        Load,
        Path,
        Program,
        Store, //
    },
};

/// The index of the object's address in the entry data of an object probe. The arguments of the
/// entry have lower indices than this and the next two values: there are at most
/// [`MAX_ARGUMENTS`](crate::command::MAX_ARGUMENTS).
pub const OBJECT: u8 = u8::MAX;
/// The index of the number of the object's parameter.
pub const PARAMETER: u8 = u8::MAX - 1;
/// The index of the address of the function that received it last.
pub const UNCHANGED: u8 = u8::MAX - 2;

/// Provides the addresses that a program contains.
pub trait Resolver {
    /// The error of the resolver.
    type Error;

    /// The address of `SYM[+OFF|-OFF]`. `name` is the text of the command.
    fn symbol(&mut self, name: &str) -> Result<u64, Self::Error>;

    /// The address of a copy of `text` with a NUL at its end. The copy is in kernel memory, and
    /// lives longer than the program.
    fn text(&mut self, text: &str) -> Result<u64, Self::Error>;

    /// The index of an argument in the entry data. Equal arguments have the same index. The program
    /// passes the index to [`Context::entry_data`](super::Context::entry_data).
    fn entry_index(&mut self, argument: EntryArgument) -> Result<u8, Self::Error>;
}

/// Compiles an argument.
///
/// The program contains the addresses of symbols. So the caller must compile again when the module
/// of a symbol loads.
///
/// Every [`Argument`] compiles. The parser refuses the arguments that C refuses, such as an array
/// or a string of a value without a dereference. A program reads such an array or string from
/// memory at the value.
///
/// # Errors
///
/// The errors of the resolver.
pub fn compile<R: Resolver>(
    argument: &Argument<'_>,
    resolver: &mut R,
) -> Result<Program, R::Error> {
    let load = match argument.fetch.base {
        Base::Register(register) => Load::Register(register),
        Base::StackPointer => Load::Register(current::STACK_POINTER),
        Base::Stack(n) => Load::Stack(n),
        Base::Argument(n) => match current::argument(n) {
            Slot::Register(register) => Load::Register(register),
            Slot::Stack(n) => Load::Stack(n),
        },
        Base::EntryArgument(n) => Load::EntryData(resolver.entry_index(EntryArgument::nth(n))?),
        Base::ReturnValue => Load::Register(current::RETURN_VALUE),
        Base::Elapsed => Load::Elapsed,
        Base::Caller => Load::Caller,
        Base::EntryCaller => Load::EntryData(resolver.entry_index(EntryArgument::CALLER)?),
        Base::Exit => Load::Exit,
        Base::Path => Load::Path,
        Base::Blocks => Load::Blocks,
        Base::Watched => Load::Watched,
        Base::Field(field) => Load::Field(field),
        Base::Comm => Load::Comm,
        Base::Current => Load::Current,
        Base::Pid => Load::Pid,
        Base::Object => Load::EntryData(OBJECT),
        Base::Parameter => Load::EntryData(PARAMETER),
        Base::Unchanged => Load::EntryData(UNCHANGED),
        // The handler writes the field, so no program of it runs.
        Base::OfStep => Load::Value(0),
        Base::Immediate(value) => Load::Value(value),
        Base::Text(text) => Load::Value(resolver.text(text)?),
        Base::Symbol(name) => Load::Value(resolver.symbol(name)?),
    };
    let steps = argument.fetch.steps.as_slice();
    let (path, last) = match (argument.ty, steps) {
        // `symstr` stores the symbol of the value after the last read.
        (FetchType::Symstr, _) => (steps, None),
        (_, [path @ .., Step::Deref(last)]) => (path, Some(*last)),
        _ => (steps, None),
    };
    Ok(Program::new(load, Path::new(path), store(argument, last)))
}

/// The store of an argument. `last` is its outermost dereference.
fn store(argument: &Argument<'_>, last: Option<Deref>) -> Store {
    let at = last.unwrap_or(Deref {
        space: Space::Kernel,
        offset: 0,
    });
    match (argument.ty, argument.count, last) {
        (FetchType::Number(width, _), None, None) => Store::Value(width),
        (FetchType::Number(width, _), count, _) => {
            Store::Numbers(at, width, count.unwrap_or(NonZeroU8::MIN))
        }

        (FetchType::Bitfield(width, _, bits), None, None) => Store::ValueBits(width, bits),
        (FetchType::Bitfield(width, _, bits), count, _) => {
            Store::Bits(at, width, count.unwrap_or(NonZeroU8::MIN), bits)
        }

        // `symstr` has no arrays.
        (FetchType::Symstr, _, _) => Store::Symbol,

        // Both `+u0(...):string` and `+0(...):ustring` read user memory.
        (FetchType::String(space), None, _) => Store::String(match space {
            Space::Kernel => at,
            Space::User => Deref { space, ..at },
        }),
        // Without a dereference, C takes the value as the address of the first string, and then
        // finds no pointer to a second string.
        (FetchType::String(space), Some(NonZeroU8::MIN), None) => {
            Store::String(Deref { space, ..at })
        }
        // The dereference reads the pointers. It does not decide the address space of the strings.
        (FetchType::String(text), Some(count), _) => Store::Strings {
            pointers: at,
            text,
            count,
        },
    }
}
