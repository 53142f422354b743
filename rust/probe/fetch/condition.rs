// SPDX-License-Identifier: GPL-2.0

//! Compiles a condition into tests, and runs them on a hit.
//!
//! A condition decides as the kernel's filter would decide on the record: memory that is not
//! readable is the number 0, or an empty string.
//!
//! C: `filter_match_preds()` in `kernel/trace/trace_events_filter.c`.

use crate::{
    argument::{
        Argument,
        Base, //
    },
    condition::{
        Branch,
        Branches,
        Check,
        Comparison,
        Range,
        StringCheck, //
    },
};

use super::{
    compile::{
        compile,
        Resolver, //
    },
    context::Context,
    program::Program,
    run::record,
    string::{
        place_of,
        LOCATION_BYTES, //
    },
};

/// Size of a buffer for the name of a task, in bytes.
pub const SMALL_BUFFER: usize = LOCATION_BYTES + 64;

/// A compiled comparison. `P` is the [string](MatchString) that an operand is compared with.
#[derive(Clone, Debug)]
pub struct Test<P> {
    operand: Operand<P>,
    branches: Branches,
}

#[derive(Clone, Debug)]
enum Operand<P> {
    /// A number in a range.
    Range(Program, Range),
    /// A number with a bit of a mask.
    Bits(Program, u64),
    /// A string.
    String(Program, P),
    /// Unknown. The test has the result that can fulfil the condition.
    Unknown,
}

/// A string, or a pattern for strings.
pub trait MatchString {
    /// Whether it matches `text`, which has one NUL, at its end.
    ///
    /// A test calls this in the context of the probe.
    fn matches(&self, text: &[u8]) -> bool;
}

/// Compiles a comparison. `operand` is its operand, or the operand
/// [at the entry](Comparison::operand_at_entry) of a call. Without an operand, the result of the
/// test is unknown. `string` makes the string.
///
/// # Errors
///
/// The errors of `resolver` and of `string`.
pub fn compile_test<'a, R: Resolver, P>(
    comparison: &Comparison<'a>,
    operand: Option<&Argument<'_>>,
    resolver: &mut R,
    string: impl FnOnce(StringCheck<'a>) -> Result<P, R::Error>,
) -> Result<Test<P>, R::Error> {
    Ok(Test {
        operand: match operand {
            None => Operand::Unknown,
            Some(operand) => {
                let program = compile(operand, resolver)?;
                match comparison.check {
                    Check::Range(range) => Operand::Range(program, range),
                    Check::Bits(mask) => Operand::Bits(program, mask),
                    Check::String(check) => Operand::String(program, string(check)?),
                }
            }
        },
        branches: comparison.branches,
    })
}

/// The size of the buffer that the comparison of an operand needs, in bytes: 0 for a number,
/// [`SMALL_BUFFER`] for the name of a task. `None` for any other string, which needs as much as
/// there is.
pub fn buffer_for(operand: &Argument<'_>) -> Option<usize> {
    if !operand.ty.is_text() {
        return Some(0);
    }
    let is_comm = operand.fetch.base == Base::Comm && operand.fetch.steps.as_slice().is_empty();
    is_comm.then_some(SMALL_BUFFER)
}

/// Whether tests exclude something: whether the tests whose operand is known can have results with
/// which the condition is not fulfilled.
pub fn decides<P>(tests: &[Test<P>]) -> bool {
    // Bit N is set if the way can lead to test N. All ways lead forward.
    let mut reached = 1u64;
    tests.iter().any(|test| {
        let is_reached = reached & 1 != 0;
        reached >>= 1;
        let ways = match test.operand {
            Operand::Unknown => [test.branches.hopeful(); 2],
            _ => [true, false].map(|result| test.branches.after(result)),
        };
        is_reached
            && ways.into_iter().any(|way| match way {
                Branch::Skip(count) => {
                    reached |= 1u64.wrapping_shl(count.into());
                    false
                }
                Branch::Leave(result) => !result,
            })
    })
}

/// Whether a hit fulfils a condition. `buffer` has the largest [size](buffer_for) that an operand
/// needs.
///
/// Runs in any context, like [`Context`]. Does not allocate. Each test runs at most once.
#[inline(always)]
pub fn holds<P: MatchString, C: Context + Copy>(
    mut tests: &[Test<P>],
    ctx: C,
    buffer: &mut [u8],
) -> bool {
    // This loop calls no function, so it need not save registers.
    while let [test, rest @ ..] = tests {
        let Some(result) = test.quick_result(ctx) else {
            return holds_slowly(tests, ctx, buffer);
        };
        match test.branches.after(result) {
            Branch::Skip(count) => tests = rest.get(usize::from(count)..).unwrap_or(&[]),
            Branch::Leave(result) => return result,
        }
    }
    // No condition is empty, and no branch leads beyond its end.
    true
}

/// Whether a hit fulfils a condition with operands of any kind.
#[inline(never)]
fn holds_slowly<P: MatchString, C: Context + Copy>(
    mut tests: &[Test<P>],
    ctx: C,
    buffer: &mut [u8],
) -> bool {
    while let [test, rest @ ..] = tests {
        match test.branch(ctx, buffer) {
            Branch::Skip(count) => tests = rest.get(usize::from(count)..).unwrap_or(&[]),
            Branch::Leave(result) => return result,
        }
    }
    true
}

impl<P: MatchString> Test<P> {
    /// The result of a test whose operand is a number that needs no function.
    #[inline(always)]
    fn quick_result<C: Context + Copy>(&self, ctx: C) -> Option<bool> {
        match &self.operand {
            Operand::Range(program, range) => Some(range.contains(program.quick_number(ctx)?)),
            _ => None,
        }
    }

    #[inline(always)]
    fn branch<C: Context + Copy>(&self, ctx: C, buffer: &mut [u8]) -> Branch {
        let result = match &self.operand {
            Operand::Range(program, range) => range.contains(program.number(ctx)),
            Operand::Bits(program, mask) => program.number(ctx) & mask != 0,
            Operand::String(program, pattern) => pattern.matches(text(program, ctx, buffer)),
            Operand::Unknown => return self.branches.hopeful(),
        };
        self.branches.after(result)
    }
}

/// The string of an operand, with its NUL. Only the NUL if it is not readable.
#[inline(never)]
pub(super) fn text<'b, C: Context + Copy>(
    program: &Program,
    ctx: C,
    buffer: &'b mut [u8],
) -> &'b [u8] {
    let programs = core::slice::from_ref(program);
    record(programs, LOCATION_BYTES, 0, ctx, buffer);
    let location = buffer
        .first_chunk()
        .map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let (start, len) = place_of(location);
    let text = buffer.get(start..).and_then(|rest| rest.get(..len));
    match text {
        Some(text @ [.., _]) => text,
        _ => &[0],
    }
}
