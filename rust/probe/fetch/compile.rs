// SPDX-License-Identifier: GPL-2.0

//! A typed fetch argument becomes a [`Program`].
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

/// The index of the address of an object in the entry data of an object probe.
pub const OBJECT: u8 = 0;
/// The index of the number of its parameter.
pub const PARAMETER: u8 = 1;
/// The index of the address of the function that received it last.
pub const UNCHANGED: u8 = 2;

/// Gives the addresses that a program holds.
pub trait Resolver {
    /// What can go wrong.
    type Error;

    /// The address of `SYM[+OFF|-OFF]`, as it stands in the command.
    fn symbol(&mut self, name: &str) -> Result<u64, Self::Error>;

    /// The address of a copy of `text`, with a NUL behind it, in memory of the kernel that lives
    /// longer than the program.
    fn text(&mut self, text: &str) -> Result<u64, Self::Error>;

    /// The index of an argument in the entry data. Equal arguments have the same index.
    /// [`Context::entry_data`](super::Context::entry_data) gets the index.
    fn entry_index(&mut self, argument: EntryArgument) -> Result<u8, Self::Error>;
}

/// Compiles an argument.
///
/// The addresses of symbols become part of the program: it has to be compiled anew when the module
/// of a symbol comes.
///
/// Whatever an [`Argument`] can say has a meaning here: what C refuses, such as an array or a
/// string of a value that was never dereferenced, is in memory at this value. To refuse it as well
/// is for the parser.
///
/// # Errors
///
/// Those of the resolver.
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
        Base::EntryArgument(n) => {
            Load::EntryData(resolver.entry_index(EntryArgument(current::argument(n)))?)
        }
        Base::ReturnValue => Load::Register(current::RETURN_VALUE),
        Base::Elapsed => Load::Elapsed,
        Base::Exit => Load::Exit,
        Base::Watched => Load::Watched,
        Base::Field(field) => Load::Field(field),
        Base::Comm => Load::Comm,
        Base::Current => Load::Current,
        Base::Object => Load::EntryData(OBJECT),
        Base::Parameter => Load::EntryData(PARAMETER),
        Base::Unchanged => Load::EntryData(UNCHANGED),
        Base::Immediate(value) => Load::Value(value),
        Base::Text(text) => Load::Value(resolver.text(text)?),
        Base::Symbol(name) => Load::Value(resolver.symbol(name)?),
    };
    let steps = argument.fetch.steps.as_slice();
    let (path, last) = match (argument.ty, steps) {
        // It is the symbol of what the last one reads.
        (FetchType::Symstr, _) => (steps, None),
        (_, [path @ .., Step::Deref(last)]) => (path, Some(*last)),
        _ => (steps, None),
    };
    Ok(Program::new(load, Path::new(path), store(argument, last)))
}

/// The store of an argument of which `last` is the outermost dereference.
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

        // There are no arrays of them.
        (FetchType::Symstr, _, _) => Store::Symbol,

        // `+u0(...):string` is in user memory, and so is `+0(...):ustring`.
        (FetchType::String(space), None, _) => Store::String(match space {
            Space::Kernel => at,
            Space::User => Deref { space, ..at },
        }),
        // C takes a value that was never dereferenced for the address of the first string, and then
        // finds no pointer to a second one.
        (FetchType::String(space), Some(NonZeroU8::MIN), None) => {
            Store::String(Deref { space, ..at })
        }
        // Here the dereference is the one of the pointers, and says nothing of the strings.
        (FetchType::String(text), Some(count), _) => Store::Strings {
            pointers: at,
            text,
            count,
        },
    }
}
