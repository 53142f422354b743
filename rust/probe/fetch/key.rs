// SPDX-License-Identifier: GPL-2.0

//! Compiles keys and fields, and reads their values at a hit.
//!
//! As in a record, memory that is not readable is the number 0, or an empty string.

use crate::{
    argument::{
        Argument,
        Base, //
    },
    counting::{
        cut_comm,
        write_string,
        Extend,
        Key,
        KeyNumber,
        KeySource,
        KeyValue,
        Modifier,
        COMM_WORDS,
        STACK_WORDS, //
    },
    types::{
        FetchType,
        Width, //
    },
};

use super::{
    compile::{
        compile,
        Resolver, //
    },
    condition::{
        text,
        SMALL_BUFFER, //
    },
    context::Context,
    program::Program, //
};

/// A hit, for the keys that are not arguments.
///
/// A key calls the methods in the context of the probe, like those of [`Context`].
pub trait KeyContext {
    /// The address of the probed function. For a probe inside a function, of the probe.
    fn function(&self) -> u64;

    /// The number of the task.
    ///
    /// C: `current->pid`.
    fn pid(&self) -> u64;

    /// The name of the task: its bytes in the order of memory. What follows the first NUL has no
    /// meaning.
    ///
    /// C: `current->comm`.
    fn comm(&self) -> [u64; COMM_WORDS];

    /// Writes the addresses of the callers to `to`, the innermost first, and 0 after the last one.
    ///
    /// C: `stack_trace_save()`.
    fn callers(&self, to: &mut [u64]);
}

/// A compiled key.
#[derive(Clone, Debug)]
pub struct KeyProgram(KeyOp);

#[derive(Clone, Debug)]
enum KeyOp {
    /// The address of the function.
    Function,
    /// The duration of the call.
    Elapsed(KeyNumber),
    /// Any other number.
    Number(Program, KeyNumber),
    /// The name of the task.
    Comm,
    /// Any other key.
    Slow(SlowKeyOp),
}

#[derive(Clone, Debug)]
enum SlowKeyOp {
    /// The number of the task.
    Pid,
    /// The number and the name of the task.
    Task,
    /// The addresses of the callers.
    Stack,
    /// A string of this number of words.
    String(Program, usize),
}

impl KeyProgram {
    /// Whether the key is [`function`](KeyContext::function).
    pub fn is_function(&self) -> bool {
        matches!(self.0, KeyOp::Function)
    }

    /// Whether the key is [`comm`](KeyContext::comm), in the form of [`cut_comm`].
    pub fn is_comm(&self) -> bool {
        matches!(self.0, KeyOp::Comm)
    }
}

/// Compiles a key.
///
/// # Errors
///
/// The errors of `resolver`.
pub fn compile_key<R: Resolver>(key: &Key<'_>, resolver: &mut R) -> Result<KeyProgram, R::Error> {
    let form = key.form();
    Ok(KeyProgram(match (&key.source, form.value) {
        (KeySource::Function, _) => KeyOp::Function,
        (KeySource::Stack, _) => KeyOp::Slow(SlowKeyOp::Stack),
        (KeySource::Pid, _) if key.modifier == Modifier::Execname => KeyOp::Slow(SlowKeyOp::Task),
        (KeySource::Pid, _) => KeyOp::Slow(SlowKeyOp::Pid),
        (KeySource::Argument(_), KeyValue::Comm) => KeyOp::Comm,
        (KeySource::Argument(argument), KeyValue::Number) if is_elapsed(argument) => {
            KeyOp::Elapsed(key.number())
        }
        (KeySource::Argument(argument), KeyValue::Number | KeyValue::Error) => {
            KeyOp::Number(compile(argument, resolver)?, key.number())
        }
        (KeySource::Argument(argument), _) => KeyOp::Slow(SlowKeyOp::String(
            compile(argument, resolver)?,
            form.words(),
        )),
    }))
}

/// Whether the argument is `$elapsed`, whole.
fn is_elapsed(argument: &Argument<'_>) -> bool {
    argument.fetch.base == Base::Elapsed
        && argument.fetch.steps.as_slice().is_empty()
        && matches!(argument.ty, FetchType::Number(Width::W8, _))
}

/// Writes the words of all keys to `words`, which has the number of words of all
/// [forms](Key::form).
///
/// Runs in any context, like [`Context`]. Does not allocate.
#[inline(always)]
pub fn write_key<C: Context + Copy>(
    mut programs: &[KeyProgram],
    ctx: C,
    hit: &impl KeyContext,
    mut words: &mut [u64],
) {
    while let [KeyProgram(op), rest @ ..] = programs {
        words = match op {
            KeyOp::Function => put(words, hit.function()),
            KeyOp::Elapsed(number) => put(words, number.word(ctx.elapsed())),
            KeyOp::Number(program, number) => put(words, number.word(program.number(ctx))),
            KeyOp::Comm => put_comm(words, hit),
            KeyOp::Slow(op) => op.write(ctx, hit, words),
        };
        programs = rest;
    }
}

impl SlowKeyOp {
    /// Writes the words of the key. Returns the place after them.
    #[inline(never)]
    fn write<'w, C: Context + Copy>(
        &self,
        ctx: C,
        hit: &impl KeyContext,
        words: &'w mut [u64],
    ) -> &'w mut [u64] {
        match self {
            Self::Pid => put(words, hit.pid()),
            Self::Task => put_comm(put(words, hit.pid()), hit),
            Self::Stack => {
                let (stack, rest) = take(words, STACK_WORDS);
                hit.callers(stack);
                rest
            }
            Self::String(program, len) => {
                let (string, rest) = take(words, *len);
                let mut buffer = [0; SMALL_BUFFER];
                write_string(text(program, ctx, &mut buffer), string);
                rest
            }
        }
    }
}

/// Writes a word. Returns the place after it.
#[inline(always)]
fn put(words: &mut [u64], word: u64) -> &mut [u64] {
    match words {
        [first, rest @ ..] => {
            *first = word;
            rest
        }
        [] => &mut [],
    }
}

/// Writes the name of the task. Returns the place after it.
#[inline(always)]
fn put_comm<'w>(words: &'w mut [u64], hit: &impl KeyContext) -> &'w mut [u64] {
    match words.split_first_chunk_mut() {
        Some((comm, rest)) => {
            *comm = cut_comm(hit.comm());
            rest
        }
        None => &mut [],
    }
}

/// The first `len` words, and the place after them.
#[inline(always)]
fn take(words: &mut [u64], len: usize) -> (&mut [u64], &mut [u64]) {
    words.split_at_mut_checked(len).unwrap_or_default()
}

/// A compiled field.
#[derive(Clone, Debug)]
pub struct NumberProgram(Program, Extend);

impl NumberProgram {
    /// The number at a hit, with 64 bits. Any context, like [`Context`].
    #[inline(always)]
    pub fn number<C: Context + Copy>(&self, ctx: C) -> u64 {
        let Self(program, extend) = self;
        extend.extend(program.number(ctx))
    }
}

/// Compiles a field, which is a number.
///
/// # Errors
///
/// The errors of `resolver`.
pub fn compile_number<R: Resolver>(
    field: &Argument<'_>,
    resolver: &mut R,
) -> Result<NumberProgram, R::Error> {
    Ok(NumberProgram(
        compile(field, resolver)?,
        Extend::of(field.ty),
    ))
}
