// SPDX-License-Identifier: GPL-2.0

//! Parses the arguments of a command: `[NAME=]BODY[:TYPE]`.
//!
//! C: `traceprobe_parse_probe_arg()` in `kernel/trace/trace_probe.c`.

use core::fmt::{
    self,
    Write as _, //
};

use crate::{
    argument::{
        Argument,
        Name, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
};

use super::{
    base::{
        BaseParser,
        Registers, //
    },
    body::BodyParser,
    error::{
        ArgumentError,
        Error, //
    },
    name::is_valid_field,
    parse_context::ParseContext,
    words::Words, //
};

/// Maximum number of arguments of a command.
pub const MAX_ARGUMENTS: usize = 128;

/// Maximum length of an argument's name, in bytes.
pub(super) const MAX_ARGUMENT_NAME: usize = 32;

/// The names of fields that rkprobe or the kernel adds to records.
const RESERVED: [&str; 8] = [
    "common_type",
    "common_flags",
    "common_preempt_count",
    "common_pid",
    "common_tgid",
    "__probe_ip",
    "__probe_ret_ip",
    "__probe_func",
];

/// An iterator over the arguments of a command. It ends after the first error.
pub struct Arguments<'a> {
    all: Words<'a>,
    rest: Words<'a>,
    /// The number of arguments that the iterator returned.
    index: usize,
    count: usize,
    parser: BodyParser<'a>,
    names: NameFilter,
}

impl<'a> Arguments<'a> {
    /// Counts the arguments. Fails if there are too many.
    pub(super) fn new(
        words: Words<'a>,
        context: ParseContext<'a>,
        registers: Option<Registers>,
    ) -> Result<Self, Error> {
        let count = count(&words)?;
        let names = NameFilter::new(words.clone());
        Ok(Self {
            all: words.clone(),
            rest: words,
            index: 0,
            count,
            parser: BodyParser {
                bases: BaseParser { context, registers },
                size: 0,
            },
            names,
        })
    }

    /// The number of arguments of the command, at most [`MAX_ARGUMENTS`].
    pub const fn count(&self) -> usize {
        self.count
    }

    fn argument(&mut self, word: &'a str, index: usize) -> Result<Argument<'a>, ArgumentError> {
        let (name, body) = split(word, index);
        self.check_name(word, name, index)?;
        let at = word.len().saturating_sub(body.len());
        let parsed = self.parser.parse(body, at)?;
        Ok(Argument {
            name,
            body,
            fetch: parsed.fetch,
            ty: parsed.ty,
            count: parsed.count,
        })
    }

    fn check_name(
        &mut self,
        word: &str,
        name: Name<'_>,
        index: usize,
    ) -> Result<(), ArgumentError> {
        if let Some((name, body)) = word.split_once('=') {
            // The listing also writes an implied name before the body. An implied name can be
            // longer.
            let is_too_long = name.len() > MAX_ARGUMENT_NAME && implied_name(body) != Some(name);
            let wrong = if is_too_long {
                Some(ErrorKind::ArgNameTooLong)
            } else if name.is_empty() {
                Some(ErrorKind::NoArgName)
            } else if !is_valid_field(name.as_bytes()) {
                Some(ErrorKind::BadArgName)
            } else {
                None
            };
            if let Some(kind) = wrong {
                return Err(ArgumentError::invalid(kind, 0));
            }
        }

        let is_used = matches!(name, Name::Given(name) if RESERVED.contains(&name))
            || self.names.add(name) && self.is_used(name, index);
        if is_used {
            return Err(ArgumentError::invalid(ErrorKind::UsedArgName, 0));
        }
        Ok(())
    }

    /// Whether an argument before `index` has the name.
    fn is_used(&self, name: Name<'_>, index: usize) -> bool {
        let earlier = self.all.clone().enumerate().take(index);
        earlier
            .map(|(index, word)| split(word, index).0)
            .any(|earlier| earlier.is_same(name))
    }
}

impl<'a> Iterator for Arguments<'a> {
    type Item = Result<Argument<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let word = self.rest.next()?;
        let index = self.index;
        self.index = index.saturating_add(1);
        Some(self.argument(word, index).map_err(|error| {
            self.rest = Words::new("");
            error.of_argument(index)
        }))
    }
}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments")
            .field("rest", &self.rest)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

/// Returns the number of arguments. Fails if there are too many.
pub(super) fn count(words: &Words<'_>) -> Result<usize, Error> {
    match words.clone().count() {
        count if count <= MAX_ARGUMENTS => Ok(count),
        _ => Err(Error::new(ErrorKind::TooManyArgs, 2, 0, Errno::E2BIG)),
    }
}

/// The name and the body of the argument `index`, counted from 0.
pub(super) fn split(word: &str, index: usize) -> (Name<'_>, &str) {
    if let Some((name, body)) = word.split_once('=') {
        return (Name::Given(name), body);
    }
    let name = implied_name(word).map_or(Name::Numbered(index.saturating_add(1)), Name::Given);
    (name, word)
}

/// The name of an argument without a given name: the name of the parameter or field that it reads.
///
/// C: `generate_probe_arg_name()`.
fn implied_name(body: &str) -> Option<&str> {
    let value = body.split_once(':').map_or(body, |(value, _)| value);
    is_valid_field(value.as_bytes()).then_some(value)
}

/// A Bloom filter of the names so far. The parser compares a name with the earlier names only if
/// the filter has the bit of the name.
struct NameFilter {
    bits: [u64; 16],
    /// The hash of the text of all arguments. A user cannot choose names that share a bit, because
    /// every choice of names changes the seed.
    seed: NameHash,
}

impl NameFilter {
    fn new(arguments: Words<'_>) -> Self {
        let mut seed = NameHash(0);
        for word in arguments {
            // Writing to a `NameHash` does not fail.
            let _ = seed.write_str(word);
        }
        let bits = [0; 16];
        Self { bits, seed }
    }

    /// Adds a name. Returns whether the filter already had the bit of the name.
    fn add(&mut self, name: Name<'_>) -> bool {
        let mut hash = self.seed;
        // Writing to a `NameHash` does not fail.
        let _ = write!(hash, "{name}");
        // The upper bits depend on all bytes.
        let (word, bit) = (hash.0 >> 28, (hash.0 >> 22) & 63);
        let Some(word) = self.bits.get_mut(word as usize) else {
            return true;
        };
        let bit = 1u64 << bit;
        let was_set = *word & bit != 0;
        *word |= bit;
        was_set
    }
}

/// The hash of a name with a seed.
#[derive(Clone, Copy)]
struct NameHash(u32);

impl fmt::Write for NameHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let product = (self.0 ^ u32::from(byte)).wrapping_mul(0x9e37_79b1);
            self.0 = product ^ product >> 15;
        }
        Ok(())
    }
}
