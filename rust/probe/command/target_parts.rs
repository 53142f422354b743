// SPDX-License-Identifier: GPL-2.0

//! A target without its text: spans of the text, and numbers. With the text, it is the target
//! again, and nothing is parsed.

use core::num::NonZero;

use super::{
    call_tree::CallTreeTarget,
    object::{
        EventFields,
        ObjectTarget,
        PATTERNS,
        RETURN,
        SOURCE,
        UNTIL, //
    },
    target::{
        Access,
        Place,
        Target,
        Watched, //
    },
    words::Position, //
};

/// The parts of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetParts {
    /// Names only: most targets.
    Names(NameParts),
    /// An address.
    Address(u64),
    /// The memory of a watchpoint.
    Memory(MemoryParts),
    /// Objects.
    Object(ObjectParts),
    /// A call tree.
    CallTree(CallTreeParts),
}

/// The parts of a target of names: the length of the first name, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameParts {
    /// A symbol.
    Symbol {
        /// Length of the symbol, in bytes.
        len: u16,
        /// The offset from the symbol, in bytes.
        offset: u32,
    },
    /// All functions with this name.
    AllNamed(u16),
    /// A pattern for the names of functions.
    Functions(u16),
    /// The name of a tracepoint.
    Tracepoint(u16),
    /// A trace event. The name follows after the group and one byte.
    Event(u16),
}

/// The parts of the memory of a watchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryParts {
    access: Access,
    len: Option<u8>,
    place: MemoryPlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryPlace {
    Symbol { len: u16, offset: i32 },
    Address(u64),
}

/// The parts of objects: lengths in bytes, or 0 for a part that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectParts {
    structure: u16,
    sources: u16,
    functions: u16,
    until: u16,
    objects: Option<NonZero<u32>>,
    hits: Option<NonZero<u32>>,
    is_return: bool,
    is_of_changes: bool,
}

/// The parts of a call tree: lengths in bytes, or 0 for a part that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTreeParts {
    root: u16,
    functions: u16,
    calls: Option<NonZero<u32>>,
    steps: Option<NonZero<u32>>,
}

impl TargetParts {
    /// The parts of a target.
    pub(super) fn of(target: &Target<'_>) -> Self {
        let len = |text: &str| to_u16(text.len());
        Self::Names(match *target {
            Target::Symbol { symbol, offset } => NameParts::Symbol {
                len: len(symbol),
                offset,
            },
            Target::AllNamed(name) => NameParts::AllNamed(len(name)),
            Target::Functions(pattern) => NameParts::Functions(len(pattern)),
            Target::Tracepoint(name) => NameParts::Tracepoint(len(name)),
            Target::Event { system, .. } => NameParts::Event(len(system)),
            Target::Address(address) => return Self::Address(address),
            Target::Memory(watched) => {
                return Self::Memory(MemoryParts {
                    access: watched.access,
                    len: watched.len,
                    place: match watched.place {
                        Place::Address(address) => MemoryPlace::Address(address),
                        Place::Symbol { symbol, offset } => MemoryPlace::Symbol {
                            len: len(symbol),
                            offset,
                        },
                    },
                });
            }
            Target::Object(target) => {
                return Self::Object(ObjectParts {
                    structure: target.structure.map_or(0, len),
                    sources: len(target.sources.text),
                    functions: target.functions.map_or(0, len),
                    until: target.until.map_or(0, |until| len(until.text)),
                    objects: target.objects,
                    hits: target.hits,
                    is_return: target.returns.is_some(),
                    is_of_changes: target.changes.is_some(),
                });
            }
            Target::CallTree(target) => {
                return Self::CallTree(CallTreeParts {
                    root: len(target.root),
                    functions: target.functions.map_or(0, len),
                    calls: target.calls,
                    steps: target.steps,
                });
            }
        })
    }

    /// The target. `text` starts with its `Display`.
    pub(super) fn target(self, text: &str) -> Target<'_> {
        match self {
            Self::Names(NameParts::Symbol { len, offset }) => Target::Symbol {
                symbol: span(text, 0, len),
                offset,
            },
            Self::Names(NameParts::AllNamed(len)) => Target::AllNamed(span(text, 0, len)),
            Self::Names(NameParts::Functions(len)) => Target::Functions(span(text, 0, len)),
            Self::Names(NameParts::Tracepoint(len)) => Target::Tracepoint(span(text, 0, len)),
            Self::Names(NameParts::Event(len)) => {
                let name = len.saturating_add(1);
                Target::Event {
                    system: span(text, 0, len),
                    name: span(text, name, to_u16(text.len()).saturating_sub(name)),
                }
            }
            Self::Address(address) => Target::Address(address),
            Self::Memory(parts) => Target::Memory(parts.watched(text)),
            Self::Object(parts) => Target::Object(parts.target(text)),
            Self::CallTree(parts) => Target::CallTree(parts.target(text)),
        }
    }
}

impl MemoryParts {
    fn watched(self, text: &str) -> Watched<'_> {
        let start = to_u16(self.access.text().len()).saturating_add(1);
        Watched {
            access: self.access,
            place: match self.place {
                MemoryPlace::Address(address) => Place::Address(address),
                MemoryPlace::Symbol { len, offset } => Place::Symbol {
                    symbol: span(text, start, len),
                    offset,
                },
            },
            len: self.len,
        }
    }
}

impl CallTreeParts {
    fn target(self, text: &str) -> CallTreeTarget<'_> {
        let functions_at = self.root.saturating_add(1);
        CallTreeTarget {
            root: span(text, 0, self.root),
            functions: (self.functions > 0).then(|| span(text, functions_at, self.functions)),
            calls: self.calls,
            steps: self.steps,
        }
    }
}

impl ObjectParts {
    fn target(self, text: &str) -> ObjectTarget<'_> {
        let structure = (self.structure > 0).then(|| span(text, 1, self.structure));
        // The parentheses around the structure.
        let sources_at = structure.map_or(0, |_| self.structure.saturating_add(2));
        let mut end = sources_at.saturating_add(self.sources);
        let mut word = SOURCE;
        let mut next = |len: usize| {
            let start = end.saturating_add(1);
            end = start.saturating_add(to_u16(len));
            word = word.saturating_add(1);
            (start, word)
        };
        let functions = (self.functions > 0).then(|| {
            let suffix = if self.is_return { RETURN.len() } else { 0 };
            let (start, _) = next(usize::from(self.functions).saturating_add(suffix));
            span(text, start, self.functions)
        });
        let returns = self.is_return.then(|| match functions {
            Some(_) => PATTERNS,
            None => next(RETURN.len()).1,
        });
        let until = (self.until > 0).then(|| {
            let (start, word) = next(usize::from(self.until).saturating_add(UNTIL.len()));
            EventFields {
                text: span(text, start.saturating_add(to_u16(UNTIL.len())), self.until),
                at: Position {
                    word,
                    offset: UNTIL.len(),
                },
            }
        });
        // Nothing after them is a span, so their lengths do not matter.
        let _ = self.objects.map(|_| next(0));
        let _ = self.hits.map(|_| next(0));
        ObjectTarget {
            structure,
            sources: EventFields {
                text: span(text, sources_at, self.sources),
                at: Position {
                    word: SOURCE,
                    offset: sources_at.into(),
                },
            },
            functions,
            returns,
            until,
            objects: self.objects,
            hits: self.hits,
            changes: self.is_of_changes.then(|| next(0).1),
        }
    }
}

/// A part of a text. The spans of a text that is not of this target would be a mistake in this
/// crate, and give empty parts.
fn span(text: &str, start: u16, len: u16) -> &str {
    let start = usize::from(start);
    let end = start.saturating_add(len.into());
    text.get(start..end).unwrap_or("")
}

/// A length in a command. A line is shorter than 64 KiB, so nothing is lost.
pub(super) fn to_u16(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}
