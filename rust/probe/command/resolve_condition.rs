// SPDX-License-Identifier: GPL-2.0

//! Resolves a condition: finds the operands, and the numbers that fulfil the comparisons.
//!
//! C: `parse_pred()` in `kernel/trace/trace_events_filter.c`.

use crate::{
    argument::{
        Argument,
        Base,
        Name, //
    },
    condition::{
        self,
        Check,
        Keys,
        OneSpaced,
        Range,
        StringCheck, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
    types::{
        FetchType,
        Style,
        Width, //
    },
};

use super::{
    arguments::{
        WrittenArgument,
        COMMON_PID, //
    },
    condition::{
        Comparison,
        Condition,
        Operator, //
    },
    error::Error,
    fetch::ResolvedFetch,
    number,
    resolve_arguments::resolve_body,
    resolve_base::BaseResolver,
    target::{
        ProbeKind,
        Target, //
    },
    words::is_space, //
};

/// An iterator that resolves the comparisons of a condition.
pub(super) struct Comparisons<'a> {
    pub(super) kind: ProbeKind,
    pub(super) target: Target<'a>,
    pub(super) condition: &'a Condition<'a>,
    /// The [operands](Condition::operands) of the condition.
    pub(super) operands: &'a [WrittenArgument<'a>],
    /// The arguments of the command. An operand can be the name of one.
    pub(super) arguments: &'a [WrittenArgument<'a>],
    pub(super) bases: BaseResolver<'a>,
    /// The number of comparisons that the iterator returned.
    pub(super) index: usize,
}

impl<'a> Iterator for Comparisons<'a> {
    type Item = Result<condition::Comparison<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let comparison = self.condition.comparisons().get(self.index)?;
        let operand = self.operands.get(self.index)?;
        self.index = self.index.saturating_add(1);
        Some(self.resolve(comparison, operand))
    }
}

impl<'a> Comparisons<'a> {
    // The kernel's stack is small, so large frames must not add up in one function.
    #[inline(never)]
    fn resolve(
        &self,
        comparison: &Comparison,
        operand: &'a WrittenArgument<'a>,
    ) -> Result<condition::Comparison<'a>, Error> {
        let (text, value_at) = self.condition.value(comparison);
        let (operand, enumerator) = self.operand(operand, text)?;
        let value = Value {
            text,
            is_quoted: comparison.is_quoted,
            enumerator,
        };
        let mut branches = comparison.branches;
        if comparison.operator == Operator::NotEqual {
            branches.swap();
        }
        let check = value.check(comparison.operator, &operand);
        let check = check.map_err(|kind| self.condition.error(kind, value_at))?;
        Ok(condition::Comparison {
            operand,
            check,
            branches,
        })
    }

    /// Resolves an operand. Returns it, and the value of the enumerator `name` of its type.
    #[inline(never)]
    fn operand(
        &self,
        written: &'a WrittenArgument<'a>,
        name: &str,
    ) -> Result<(Argument<'a>, Option<i64>), Error> {
        if written.word() == COMMON_PID {
            return Ok((task_number(), None));
        }
        let known = (self.kind, self.target, self.arguments, &self.bases);
        resolve_operand(known, written, ErrorKind::ArrayOperand, |fetch| {
            fetch.value?.enumerator(&fetch.btf?, name)
        })
    }
}

/// The number of the task. No argument can have this name.
fn task_number() -> Argument<'static> {
    Argument::own_number(COMMON_PID, Base::Pid, Width::W4, Style::Signed)
}

/// The arguments that an operand can name, and the resolver of its base.
pub(super) type Known<'a, 'b> = (
    ProbeKind,
    Target<'a>,
    &'a [WrittenArgument<'a>],
    &'b BaseResolver<'a>,
);

/// Resolves an operand, which can be the name of an argument: of those of the target, or of those
/// that the user wrote. In an event probe, a field of the other event comes first, as in the
/// kernel's filters. Returns the operand, and what `f` finds out about its fetch. `array` is the
/// error for an array.
pub(super) fn resolve_operand<'a, R>(
    (kind, target, arguments, bases): Known<'a, '_>,
    written: &'a WrittenArgument<'a>,
    array: ErrorKind,
    f: impl FnOnce(&ResolvedFetch<'a, '_>) -> Option<R>,
) -> Result<(Argument<'a>, Option<R>), Error> {
    let field = Name::Given(written.word());
    if let Some(own) = own_argument(kind, target, field) {
        return Ok((own.clone(), None));
    }
    let named = match bases.has_field(written.word()) {
        true => None,
        false => arguments
            .iter()
            .find(|argument| argument.name().is_same(field)),
    };
    let source = named.unwrap_or(written);
    let resolved = resolve_body(bases, source, &mut 0, f);
    let (argument, found) = resolved.map_err(|error| source.error_in_body(error))?;
    match argument.count {
        None => Ok((argument, found)),
        Some(_) => Err(written.error(array, Errno::EINVAL)),
    }
}

/// The argument of this name at the start of each probe of this kind and target.
pub(super) fn own_argument(
    kind: ProbeKind,
    target: Target<'_>,
    name: Name<'_>,
) -> Option<&'static Argument<'static>> {
    // A call tree has its own fields only when it is written.
    let is_known = |own: &&Argument<'_>| own.fetch.base != Base::OfStep;
    let mut own = target.own_arguments(kind).iter().filter(is_known);
    own.find(|own| own.name.is_same(name))
}

/// The value that an operand is compared with.
struct Value<'a> {
    text: &'a str,
    is_quoted: bool,
    /// The number, if the text is the name of an enumerator of the operand's type.
    enumerator: Option<i64>,
}

impl<'a> Value<'a> {
    #[inline(never)]
    fn check(&self, operator: Operator, operand: &Argument<'_>) -> Result<Check<'a>, ErrorKind> {
        let (width, style, unused) = match operand.ty {
            FetchType::String(_) | FetchType::Symstr => {
                let string = |check: fn(OneSpaced<'a>) -> StringCheck<'a>| {
                    Ok(Check::String(check(OneSpaced(self.text))))
                };
                return match operator {
                    Operator::Equal | Operator::NotEqual => string(StringCheck::Equal),
                    Operator::Glob if !is_bounded(self.text) => Err(ErrorKind::SlowPattern),
                    Operator::Glob => string(StringCheck::Glob),
                    _ => Err(ErrorKind::BadStringOperator),
                };
            }
            // As in a record, the value of a bitfield has no sign.
            FetchType::Bitfield(width, _, bits) => (width, Style::Unsigned, bits.right),
            FetchType::Number(width, style) => (width, style, 0),
        };
        let is_signed = style.is_signed() && operator != Operator::Bits;
        let width_bits = (width.bytes() as u32).wrapping_mul(8);
        let bits = width_bits.saturating_sub(unused.into());
        let number = || self.number(bits, style, is_signed);
        let keys = Keys::new(width, is_signed);
        let key = |number| keys.of(number);
        // The keys of all numbers of the type.
        let unused = 64u32.wrapping_sub(width_bits);
        let step = 1u64.wrapping_shl(unused);
        let (min, max) = (0u64, mask(bits).wrapping_shl(unused));
        let never = ErrorKind::NeverTrue;
        let (first, last) = match operator {
            Operator::Glob => return Err(ErrorKind::GlobOnNumber),
            Operator::Bits => {
                return match number()? {
                    0 => Err(never),
                    mask => Ok(Check::Bits(mask)),
                }
            }
            Operator::Equal | Operator::NotEqual => {
                let key = key(number()?);
                (key, key)
            }
            Operator::Less => (min, key(number()?).checked_sub(step).ok_or(never)?),
            Operator::LessOrEqual => (min, key(number()?)),
            Operator::Greater => match key(number()?) {
                key if key < max => (key.saturating_add(step), max),
                _ => return Err(never),
            },
            Operator::GreaterOrEqual => (key(number()?), max),
        };
        Ok(Check::Range(Range::new(keys, first, last)))
    }

    /// The value as a number of this type, which has `bits` bits. The other bits of the result are
    /// 0.
    fn number(&self, bits: u32, style: Style, is_signed: bool) -> Result<u64, ErrorKind> {
        if self.is_quoted {
            let is_blank = self.text.trim_start_matches(is_space).is_empty();
            return match (style, self.text.as_bytes()) {
                // As between words, several spaces count as one.
                (Style::Char, [_, ..]) if is_blank => Ok(u64::from(b' ')),
                (Style::Char, [byte]) => Ok(u64::from(*byte)),
                _ => Err(ErrorKind::BadComparedValue),
            };
        }
        let number = match (self.enumerator, self.text.strip_prefix('-')) {
            (Some(value), _) => i128::from(value),
            (None, Some(digits)) => number::negative(digits).map(i128::from).map_err(wrong)?,
            (None, None) => number::unsigned(self.text, 0)
                .map(i128::from)
                .map_err(wrong)?,
        };
        let half = 1i128.wrapping_shl(bits.saturating_sub(1));
        // An enumeration and the type of its record can differ in the sign, so the bits count.
        let is_enumerator = self.enumerator.is_some();
        let min = match is_signed || is_enumerator {
            true => half.wrapping_neg(),
            false => 0,
        };
        let end = match is_signed && !is_enumerator {
            true => half,
            false => half.wrapping_shl(1),
        };
        match (min..end).contains(&number) {
            true => Ok(number as u64 & mask(bits)),
            false => Err(ErrorKind::ValueRange),
        }
    }
}

/// Maximum length of a pattern, in bytes.
///
/// C: `MAX_FILTER_STR_VAL`.
const MAX_PATTERN: usize = 255;

/// Whether the time to match a pattern has a bound: the product of the lengths of the pattern and
/// the string. For a `[` without `]`, `glob_match()` reads the rest of the pattern each time.
fn is_bounded(pattern: &str) -> bool {
    let mut rest = pattern.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => drop(rest.next()),
            b'[' => {
                // After `[` or `[!`, a `]` is a member of the class.
                if rest.next() == Some(b'!') {
                    rest.next();
                }
                if !rest.any(|byte| byte == b']') {
                    return false;
                }
            }
            _ => {}
        }
    }
    pattern.len() <= MAX_PATTERN
}

/// The lowest `bits` bits, of 1 to 64.
const fn mask(bits: u32) -> u64 {
    u64::MAX.wrapping_shr(64u32.wrapping_sub(bits))
}

/// The error for a text that is not a number.
fn wrong(errno: Errno) -> ErrorKind {
    match errno {
        Errno::ERANGE => ErrorKind::ValueRange,
        _ => ErrorKind::BadComparedValue,
    }
}
