// SPDX-License-Identifier: GPL-2.0

//! Parses a condition, which is the text after `if`: comparisons of an operand with a value, joined
//! by `&&`, `||`, `!` and parentheses.
//!
//! The kernel's grammar of filters, with fetch arguments as operands. The parser needs no data from
//! the kernel: see [`Command::resolve_condition`](super::Command::resolve_condition).
//!
//! C: `predicate_parse()` and `parse_pred()` in `kernel/trace/trace_events_filter.c`.

use crate::{
    condition::{
        Branch,
        Branches, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
};

use super::{
    arguments::WrittenArgument,
    error::Error,
    level::{
        Span,
        Text, //
    },
    words::{
        is_space,
        Position,
        Words, //
    },
};

/// Maximum number of comparisons of a condition, and of open operators and parentheses at any place
/// in it.
pub const MAX_COMPARISONS: usize = 32;

/// The operator of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Operator {
    /// `==`
    #[default]
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `&`: a bit is set in both.
    Bits,
    /// `~`: the string matches a pattern.
    Glob,
}

impl Operator {
    /// Parses the operator at the start of `text`. Returns it and its length in bytes.
    fn parse(text: &str) -> Option<(Self, usize)> {
        const ALL: [(&str, Operator); 8] = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
            ("&", Operator::Bits),
            ("~", Operator::Glob),
        ];
        let is_connective = text.starts_with("&&");
        let mut found = ALL.iter().filter(|(name, _)| text.starts_with(name));
        let (name, operator) = found.find(|_| !is_connective)?;
        Some((*operator, name.len()))
    }
}

/// A comparison, as the user wrote it: spans of the condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    operand: Span,
    pub(super) operator: Operator,
    value: Span,
    /// Whether the value is in quotes, which are not in `value`.
    pub(super) is_quoted: bool,
    pub(super) branches: Branches,
}

/// A condition, as the user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    text: &'a str,
    /// Index in the command of the first word of `text`.
    first_word: usize,
    /// Whether the probe is an event probe.
    is_event: bool,
    comparisons: [Comparison; MAX_COMPARISONS],
    len: u8,
}

impl<'a> Condition<'a> {
    /// Parses `text`, whose first word has the index `first_word` in the command. `is_event` is
    /// whether the probe is an event probe.
    ///
    /// # Errors
    ///
    /// The kinds from [`ErrorKind::NoOperand`] to [`ErrorKind::ConditionTooLong`], and
    /// [`ErrorKind::NoEpFilter`] for an empty condition, all EINVAL.
    #[inline(never)]
    pub(super) fn parse(text: &'a str, first_word: usize, is_event: bool) -> Result<Self, Error> {
        let mut condition = Self {
            text,
            first_word,
            is_event,
            comparisons: Default::default(),
            len: 0,
        };
        let mut parser = Parser {
            rest: Text { text, at: 0 },
            condition: &mut condition,
            open: Default::default(),
            depth: 0,
        };
        match parser.parse() {
            Ok(()) => Ok(condition),
            Err((kind, at)) => Err(condition.error(kind, at)),
        }
    }

    /// Creates an error at byte `at` of the condition.
    pub(super) fn error(&self, kind: ErrorKind, at: usize) -> Error {
        Error::at(kind, self.position(at), Errno::EINVAL)
    }

    /// The position in the command of byte `at` of the condition. Between two words, this is the
    /// start of the second one.
    fn position(&self, at: usize) -> Position {
        let mut rest = Words::new(self.text);
        let mut word = self.first_word;
        while let Some(next) = rest.next() {
            let end = self.text.len().saturating_sub(rest.text().len());
            if at < end {
                let start = end.saturating_sub(next.len());
                let offset = at.saturating_sub(start);
                return Position { word, offset };
            }
            word = word.saturating_add(1);
        }
        Position { word, offset: 0 }
    }

    pub(super) fn comparisons(&self) -> &[Comparison] {
        let len = usize::from(self.len);
        self.comparisons.get(..len).unwrap_or(&[])
    }

    /// Whether the condition has the maximum number of comparisons.
    fn is_full(&self) -> bool {
        usize::from(self.len) == MAX_COMPARISONS
    }

    /// The operands of the comparisons, in their order.
    pub fn operands(&self) -> impl Iterator<Item = WrittenArgument<'a>> + use<'a, '_> {
        self.comparisons().iter().map(|comparison| {
            let operand = comparison.operand.of_body(self.text);
            WrittenArgument::operand(operand.text, self.position(operand.at), self.is_event)
        })
    }

    /// The value of a comparison, without its quotes, and its byte offset in the condition.
    pub(super) fn value(&self, comparison: &Comparison) -> (&'a str, usize) {
        let value = comparison.value.of_body(self.text);
        (value.text, value.at)
    }
}

/// The reason why a condition is malformed, and its byte offset in the condition.
type Malformed = (ErrorKind, usize);

/// An operator or a parenthesis whose right side is not complete.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    kind: OpenKind,
    /// Index of the first comparison after it.
    right: u8,
    /// Byte offset in the condition.
    at: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OpenKind {
    #[default]
    Parenthesis,
    Not,
    And,
    Or,
}

/// The state of the parser. It keeps a stack of its own, because the kernel's stack is small.
///
/// A comparison begins with two branches that leave the condition. An operator that joins two
/// parts changes the branches of its left part that end up in the right part.
struct Parser<'a, 'c> {
    rest: Text<'a>,
    condition: &'c mut Condition<'a>,
    open: [Open; MAX_COMPARISONS],
    /// The number of elements of `open` in use.
    depth: usize,
}

impl<'a> Parser<'a, '_> {
    fn parse(&mut self) -> Result<(), Malformed> {
        self.skip_space();
        if self.rest.text.is_empty() {
            return Err((ErrorKind::NoEpFilter, 0));
        }
        loop {
            self.parse_operand()?;
            self.skip_space();
            while self.rest.text.starts_with(')') {
                self.close()?;
                self.skip_space();
            }
            let kind = match self.rest.text.get(..2) {
                Some("&&") => OpenKind::And,
                Some("||") => OpenKind::Or,
                _ if self.rest.text.is_empty() => break,
                _ => return Err((ErrorKind::NoConnective, self.rest.at)),
            };
            // `&&` binds closer than `||`.
            while let Some(top) = self.top() {
                let is_complete = match top.kind {
                    OpenKind::And => true,
                    OpenKind::Or => kind == OpenKind::Or,
                    OpenKind::Parenthesis | OpenKind::Not => false,
                };
                if !is_complete {
                    break;
                }
                self.join(top);
            }
            self.push(kind)?;
            self.take(2);
        }
        while let Some(top) = self.top() {
            if top.kind == OpenKind::Parenthesis {
                return Err((ErrorKind::OpenParenthesis, top.at.into()));
            }
            self.join(top);
        }
        Ok(())
    }

    /// Parses `!`, `(` and the comparison after them.
    fn parse_operand(&mut self) -> Result<(), Malformed> {
        loop {
            self.skip_space();
            let text = self.rest.text;
            let kind = if text.starts_with('!') && !text.starts_with("!=") {
                OpenKind::Not
            } else if text.starts_with('(') && !is_cast(text) {
                OpenKind::Parenthesis
            } else {
                break;
            };
            self.push(kind)?;
            self.take(1);
        }
        self.parse_comparison()?;
        self.complete_nots();
        Ok(())
    }

    fn parse_comparison(&mut self) -> Result<(), Malformed> {
        if self.condition.is_full() {
            return Err((ErrorKind::ConditionTooLong, self.rest.at));
        }
        let operand = self.take(operand_len(self.rest.text));
        if operand.text.is_empty() {
            return Err((ErrorKind::NoOperand, self.rest.at));
        }
        self.skip_space();
        let no_operator = (ErrorKind::NoOperator, self.rest.at);
        let (operator, len) = Operator::parse(self.rest.text).ok_or(no_operator)?;
        self.take(len);
        self.skip_space();
        let quote = self
            .rest
            .text
            .chars()
            .next()
            .filter(|c| matches!(c, '"' | '\''));
        let value = match quote {
            Some(quote) => {
                self.take(1);
                let no_close = (ErrorKind::OpenQuote, self.rest.end());
                let len = self.rest.text.find(quote).ok_or(no_close)?;
                let value = self.take(len);
                self.take(1);
                value
            }
            None => {
                let is_end = |c| is_space(c) || matches!(c, ')' | '&' | '|');
                let text = self.rest.text;
                let value = self.take(text.find(is_end).unwrap_or(text.len()));
                if value.text.is_empty() {
                    return Err((ErrorKind::NoComparedValue, value.at));
                }
                value
            }
        };
        let comparison = Comparison {
            operand: Span::of(operand),
            operator,
            value: Span::of(value),
            is_quoted: quote.is_some(),
            branches: Branches::default(),
        };
        let len = usize::from(self.condition.len);
        if let Some(slot) = self.condition.comparisons.get_mut(len) {
            *slot = comparison;
            self.condition.len = self.condition.len.saturating_add(1);
        }
        Ok(())
    }

    /// Completes the part in parentheses that ends here.
    fn close(&mut self) -> Result<(), Malformed> {
        while let Some(top) = self.top() {
            if top.kind == OpenKind::Parenthesis {
                self.depth = self.depth.saturating_sub(1);
                self.take(1);
                self.complete_nots();
                return Ok(());
            }
            self.join(top);
        }
        Err((ErrorKind::ClosedParenthesis, self.rest.at))
    }

    /// Negates the part that is complete now, once for each `!` before it.
    fn complete_nots(&mut self) {
        while let Some(top) = self.top().filter(|top| top.kind == OpenKind::Not) {
            self.depth = self.depth.saturating_sub(1);
            for comparison in self.part(top.right, self.condition.len) {
                comparison.branches.negate();
            }
        }
    }

    /// Joins the parts on both sides of `top`, which is on top of the stack.
    fn join(&mut self, top: Open) {
        self.depth = self.depth.saturating_sub(1);
        let left = self.top().map_or(0, |before| before.right);
        // `&&` goes on after a fulfilled left part, and `||` after another one.
        let is_and = top.kind == OpenKind::And;
        for (index, comparison) in (left..).zip(self.part(left, top.right)) {
            let skip = top.right.saturating_sub(index).saturating_sub(1);
            comparison.branches.go_on(is_and, Branch::Skip(skip));
        }
    }

    /// The comparisons with the indices from `start` to `end`.
    fn part(&mut self, start: u8, end: u8) -> &mut [Comparison] {
        let all = &mut self.condition.comparisons;
        all.get_mut(start.into()..end.into()).unwrap_or(&mut [])
    }

    fn top(&self) -> Option<Open> {
        self.open.get(self.depth.checked_sub(1)?).copied()
    }

    fn push(&mut self, kind: OpenKind) -> Result<(), Malformed> {
        let full = (ErrorKind::ConditionTooLong, self.rest.at);
        *self.open.get_mut(self.depth).ok_or(full)? = Open {
            kind,
            right: self.condition.len,
            at: self.rest.offset(),
        };
        self.depth = self.depth.saturating_add(1);
        Ok(())
    }

    fn skip_space(&mut self) {
        let text = self.rest.text;
        self.take(
            text.len()
                .saturating_sub(text.trim_start_matches(is_space).len()),
        );
    }

    /// Takes the first `len` bytes.
    fn take(&mut self, len: usize) -> Text<'a> {
        let at = self.rest.at;
        let (text, rest) = self.rest.split(len);
        self.rest = rest;
        Text { text, at }
    }
}

/// Whether the `(` at the start of `text` begins a typecast, and not a part of the condition: the
/// rest of an operand follows `(STRUCT[,FIELD])` directly.
fn is_cast(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',');
    let inside = text.strip_prefix('(').unwrap_or("");
    let behind = inside.trim_start_matches(is_name).strip_prefix(')');
    let is_operand = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '@' | '(' | '+' | '-' | '\\')
    };
    behind.is_some_and(|behind| behind.starts_with(is_operand))
}

/// Length of the operand at the start of `text`, in bytes. It ends before an operator or a space.
/// Operators in its own parentheses, and `->`, are parts of it.
fn operand_len(text: &str) -> usize {
    let mut depth = 0usize;
    let mut last = ' ';
    for (at, c) in text.char_indices() {
        let is_arrow = c == '>' && last == '-';
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' if depth > 0 => depth = depth.saturating_sub(1),
            ')' => return at,
            '=' | '!' | '<' | '>' | '&' | '|' | '~' if depth == 0 && !is_arrow => return at,
            c if is_space(c) => return at,
            _ => {}
        }
        last = c;
    }
    text.len()
}
