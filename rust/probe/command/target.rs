// SPDX-License-Identifier: GPL-2.0

//! The kind and the target of a probe, as the command specifies them.

use core::fmt;

use crate::argument::Argument;

use super::{
    call_tree::CallTreeTarget,
    object::ObjectTarget,
    path, //
};

/// The kind of a probe. It decides when the probe hits, and which mechanism of the kernel the probe
/// uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A kprobe, which hits before an instruction.
    Kprobe,
    /// A kretprobe, which hits after the return of a function.
    Kretprobe,
    /// Kprobes at all return instructions of a function. C has no such kind.
    Kretinsn,
    /// Kprobes at the first instruction of all basic blocks of a function. C has no such kind.
    Blocks {
        /// Whether each hits once.
        is_once: bool,
    },
    /// A kretprobe, and kprobes at all basic blocks, which collect the path of a call. C has no
    /// such kind.
    Path,
    /// An fprobe at the entry of functions.
    FprobeEntry,
    /// An fprobe at the exit of functions.
    FprobeExit,
    /// A probe at a tracepoint.
    Tracepoint,
    /// An event probe, which hits when the kernel records a trace event.
    EventProbe,
    /// A watchpoint, which hits when the kernel accesses memory.
    Watchpoint,
    /// An fprobe that hits when a function receives an object. C has no such kind.
    Object,
    /// An fprobe that hits when a function that received an object returns. C has no such kind.
    ObjectReturn,
    /// An fprobe at the entry and the exit of functions, which collects the steps of a call. C has
    /// no such kind.
    CallTree,
}

impl ProbeKind {
    /// The letter that starts a command of this kind.
    pub const fn letter(self) -> char {
        match self {
            Self::Kprobe | Self::Kretinsn | Self::Blocks { .. } | Self::Path => 'p',
            Self::Kretprobe => 'r',
            Self::FprobeEntry | Self::FprobeExit => 'f',
            Self::Tracepoint => 't',
            Self::EventProbe => 'e',
            Self::Watchpoint => 'w',
            Self::Object | Self::ObjectReturn => 'o',
            Self::CallTree => 'c',
        }
    }

    /// The group of an event, if the command names no group.
    pub const fn default_group(self) -> &'static str {
        match self {
            Self::Kprobe | Self::Kretprobe | Self::Kretinsn | Self::Blocks { .. } | Self::Path => {
                "kprobes"
            }
            Self::FprobeEntry | Self::FprobeExit => "fprobes",
            Self::Tracepoint => "tracepoints",
            Self::EventProbe => "eprobes",
            Self::Watchpoint => "wprobes",
            Self::Object | Self::ObjectReturn => "objects",
            Self::CallTree => "calls",
        }
    }

    /// The subsystem that the error log names. C: `trace_probe_log_init()`.
    pub const fn subsystem(self) -> &'static str {
        match self {
            Self::Kprobe | Self::Kretprobe | Self::Kretinsn | Self::Blocks { .. } | Self::Path => {
                "trace_kprobe"
            }
            Self::FprobeEntry | Self::FprobeExit | Self::Tracepoint => "trace_fprobe",
            Self::EventProbe => "event_probe",
            Self::Watchpoint => "wprobe",
            Self::Object | Self::ObjectReturn => "object_probe",
            Self::CallTree => "call_tree",
        }
    }

    /// Whether the probe hits when a function returns, and its record says to where. A call tree
    /// also makes its records at a return.
    pub const fn is_return(self) -> bool {
        matches!(
            self,
            Self::Kretprobe | Self::Kretinsn | Self::Path | Self::FprobeExit | Self::ObjectReturn
        )
    }

    /// Whether the probe of a return also hits at the entry of the call.
    pub const fn has_entry(self) -> bool {
        self.is_return() && !matches!(self, Self::Kretinsn) || matches!(self, Self::CallTree)
    }

    /// Whether the probe follows objects.
    pub const fn is_object(self) -> bool {
        matches!(self, Self::Object | Self::ObjectReturn)
    }

    /// Whether an event has at most one probe of this kind.
    pub const fn is_alone(self) -> bool {
        self.is_object() || matches!(self, Self::EventProbe | Self::CallTree)
    }

    /// Whether an error at the registration always has the number EINVAL.
    ///
    /// C: `trace_fprobe_create_internal()`.
    pub const fn registration_is_einval(self) -> bool {
        self.is_object()
            || matches!(
                self,
                Self::FprobeEntry
                    | Self::FprobeExit
                    | Self::Tracepoint
                    | Self::Watchpoint
                    | Self::CallTree
            )
    }

    /// Whether `kprobe_events` lists the probe. Two probes can share an event only if this value is
    /// equal for both.
    pub const fn is_kprobe(self) -> bool {
        matches!(
            self,
            Self::Kprobe | Self::Kretprobe | Self::Kretinsn | Self::Blocks { .. } | Self::Path
        )
    }

    /// Whether the kernel saves all registers at a hit.
    pub const fn has_all_registers(self) -> bool {
        self.is_kprobe() || matches!(self, Self::Watchpoint)
    }
}

/// The accesses that hit a watchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads. Not every processor can watch them alone.
    Read,
    /// Writes.
    Write,
    /// Reads and writes.
    ReadWrite,
    /// The execution of an instruction. The kernel's proposed watchpoint probes lack this access.
    Execute,
}

impl Access {
    /// The text before the `@`.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::Write => "w",
            Self::ReadWrite => "rw",
            Self::Execute => "x",
        }
    }
}

/// The place of watched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// `[MOD:]SYM[+|-OFFSET]`.
    Symbol {
        /// The symbol, with its module if the user wrote it. Never empty.
        symbol: &'a str,
        /// The offset from the symbol, in bytes.
        offset: i32,
    },
    /// An address in the kernel's space.
    Address(u64),
}

/// The watched memory. `Display` writes it as in the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched<'a> {
    /// The accesses that hit.
    pub access: Access,
    /// The place.
    pub place: Place<'a>,
    /// The number of bytes: 1, 2, 4 or 8. `None` for [`Access::Execute`]. Also `None` for a symbol
    /// if the command has no length. Then the type of the symbol decides.
    pub len: Option<u8>,
}

impl fmt::Display for Watched<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@", self.access.text())?;
        match self.place {
            Place::Symbol { symbol, offset: 0 } => f.write_str(symbol)?,
            Place::Symbol { symbol, offset } => write!(f, "{symbol}{offset:+}")?,
            Place::Address(address) => write!(f, "0x{address:x}")?,
        }
        match self.len {
            Some(len) => write!(f, ":{len}"),
            None => Ok(()),
        }
    }
}

/// The target of a probe, as in the command. `Display` writes it as in the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `[MOD:]SYM[+OFFSET]`.
    Symbol {
        /// The symbol, with its module if the user wrote it. Never empty.
        symbol: &'a str,
        /// The offset from the symbol, in bytes.
        offset: u32,
    },
    /// `[MOD:]SYM%all`: all functions with this name. C has no such target.
    AllNamed(&'a str),
    /// An address.
    Address(u64),
    /// A list of functions: see [`target_functions`](super::target_functions). C has one pattern.
    Functions(&'a str),
    /// The name of a tracepoint.
    Tracepoint(&'a str),
    /// The trace event `SYSTEM.NAME`, or `SYSTEM/NAME`.
    Event {
        /// The group of the event.
        system: &'a str,
        /// The name of the event.
        name: &'a str,
    },
    /// The memory of a watchpoint.
    Memory(Watched<'a>),
    /// Objects, and the functions that can receive them. C has no such target.
    Object(ObjectTarget<'a>),
    /// A function whose calls become trees. C has no such target.
    CallTree(CallTreeTarget<'a>),
}

impl Target<'_> {
    /// The arguments at the start of each probe of this kind and target.
    pub(super) fn own_arguments(&self, kind: ProbeKind) -> &'static [Argument<'static>] {
        match *self {
            Self::Object(target) => target.own_arguments(),
            Self::CallTree(target) => target.own_arguments(),
            _ if kind == ProbeKind::Path => &path::OWN_ARGUMENTS,
            _ => &[],
        }
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Symbol { symbol, offset: 0 } => f.write_str(symbol),
            Self::Symbol { symbol, offset } => write!(f, "{symbol}+{offset}"),
            // C prints a hashed pointer, so a user cannot write its listing back.
            Self::Address(address) => write!(f, "0x{address:x}"),
            Self::AllNamed(name) | Self::Functions(name) | Self::Tracepoint(name) => {
                f.write_str(name)
            }
            Self::Event { system, name } => write!(f, "{system}.{name}"),
            Self::Memory(watched) => watched.fmt(f),
            Self::Object(target) => write!(f, "{target}"),
            Self::CallTree(target) => write!(f, "{target}"),
        }
    }
}
