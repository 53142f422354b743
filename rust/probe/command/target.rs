// SPDX-License-Identifier: GPL-2.0

//! The kind and the target of a probe, as the command names them.

use core::fmt;

/// The kind of a probe: when it hits, and which mechanism of the kernel it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Before an instruction: a kprobe.
    Probe,
    /// After the return of a function: a kretprobe.
    Return,
    /// Before each return instruction of a function: kprobes. C has no such kind.
    ReturnInsn,
    /// An fprobe at the entry of functions.
    Entry,
    /// An fprobe at the exit of functions.
    Exit,
    /// A probe at a tracepoint.
    Tracepoint,
    /// When a trace event is recorded: an event probe.
    Event,
}

impl Kind {
    /// The letter that starts a command of this kind.
    pub const fn letter(self) -> char {
        match self {
            Self::Probe | Self::ReturnInsn => 'p',
            Self::Return => 'r',
            Self::Entry | Self::Exit => 'f',
            Self::Tracepoint => 't',
            Self::Event => 'e',
        }
    }

    /// The group of an event, if the command names no group.
    pub const fn default_group(self) -> &'static str {
        match self {
            Self::Probe | Self::Return | Self::ReturnInsn => "kprobes",
            Self::Entry | Self::Exit => "fprobes",
            Self::Tracepoint => "tracepoints",
            Self::Event => "eprobes",
        }
    }

    /// Whether the probe hits when a function returns.
    pub const fn is_return(self) -> bool {
        matches!(self, Self::Return | Self::ReturnInsn | Self::Exit)
    }

    /// Whether the probe is registered only while its event is enabled.
    pub const fn is_registered_with_event(self) -> bool {
        matches!(self, Self::Entry | Self::Exit | Self::Tracepoint)
    }

    /// Whether `kprobe_events` lists the probe. Probes can share an event only if this is the same
    /// for all of them.
    pub const fn is_kprobe(self) -> bool {
        matches!(self, Self::Probe | Self::Return | Self::ReturnInsn)
    }
}

/// The target of a probe, as the user wrote it. `Display` writes it as the listing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `[MOD:]SYM[+OFFSET]`.
    Symbol {
        /// The symbol, with its module if the user wrote it. Never empty.
        symbol: &'a str,
        /// The offset from the symbol, in bytes.
        offset: u32,
    },
    /// `[MOD:]SYM%all`: all functions of this name. Ours; C has no such.
    AllNamed(&'a str),
    /// An address.
    Address(u64),
    /// The functions whose names match a pattern.
    Functions(&'a str),
    /// The tracepoint of this name.
    Tracepoint(&'a str),
    /// The trace event `SYSTEM.NAME`, or `SYSTEM/NAME`.
    Event {
        /// The group of the event.
        system: &'a str,
        /// The name of the event.
        name: &'a str,
    },
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Symbol { symbol, offset: 0 } => f.write_str(symbol),
            Self::Symbol { symbol, offset } => write!(f, "{symbol}+{offset}"),
            // C prints a hashed pointer: its listing cannot be written back.
            Self::Address(address) => write!(f, "0x{address:x}"),
            Self::AllNamed(name) | Self::Functions(name) | Self::Tracepoint(name) => {
                f.write_str(name)
            }
            Self::Event { system, name } => write!(f, "{system}.{name}"),
        }
    }
}
