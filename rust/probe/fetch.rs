// SPDX-License-Identifier: GPL-2.0

//! From a fetch argument to the bytes of a trace record, and from these to text.
//!
//! [`compile()`] turns an [`Argument`](crate::argument::Argument) into a [`Program`], and
//! [`Layout`] gives it its [`Field`] in the record. On a hit, [`record`] runs the programs of an
//! event one after the other over a [`Context`]: registers and memory, and for a return probe the
//! entry data, which [`save_entry_data`] saved at the entry of the call. When the trace is read,
//! [`print`](print()) makes text of the fields of a record. What the event's `format` file says is
//! in [`Field`] and [`PrintFmt`].
//!
//! A record is a header of the event, the fields without a gap, then the bytes of the strings:
//!
//! ```text
//! | header | field | field | string's place | field | "text\0" |
//!          |<----- Layout::bytes() ------------------>|
//! ```
//!
//! C: `kernel/trace/trace_probe.c`, `trace_probe_tmpl.h`, `trace_probe_kernel.h`.
//!
//! # Examples
//!
//! ```
//! use core::convert::Infallible;
//! use probe::arch::{current, Register};
//! use probe::argument::*;
//! use probe::fetch::{self, Context, EntryArgument, Fault, Layout, Resolver};
//! use probe::types::*;
//!
//! struct NoSymbols;
//! impl Resolver for NoSymbols {
//!     type Error = Infallible;
//!     fn symbol(&mut self, _: &str) -> Result<u64, Infallible> {
//!         Ok(0)
//!     }
//!     fn text(&mut self, _: &str) -> Result<u64, Infallible> {
//!         Ok(0)
//!     }
//!     fn entry_index(&mut self, _: EntryArgument) -> Result<u8, Infallible> {
//!         Ok(0)
//!     }
//! }
//!
//! struct Hit;
//! impl Context for Hit {
//!     fn register(&self, register: Register) -> u64 {
//!         0x1000 + register.offset() as u64
//!     }
//!     fn stack(&self, _: u16) -> u64 {
//!         0
//!     }
//!     fn comm(&self) -> u64 {
//!         0
//!     }
//!     fn symbol(&self, _: u64, _: &mut [u8]) -> usize {
//!         0
//!     }
//!     fn read(&self, _: Space, _: u64, _: &mut [u8]) -> Result<(), Fault> {
//!         Err(Fault)
//!     }
//! }
//!
//! // `count=%dx:u16`
//! let argument = Argument {
//!     name: Name::Given("count"),
//!     body: "%dx",
//!     fetch: Fetch {
//!         base: Base::Register(current::register("dx").unwrap()),
//!         derefs: Derefs::new(),
//!     },
//!     ty: FetchType::Number(Width::W2, Style::Unsigned),
//!     count: None,
//! };
//!
//! let mut layout = Layout::new();
//! let field = layout.add(&argument).unwrap();
//! let Ok(program) = fetch::compile(&argument, &mut NoSymbols);
//!
//! let mut data = [0; 2];
//! let used = fetch::record(&[program], layout.bytes(), 0, &Hit, &mut data);
//! assert_eq!((used, data), (2, [0x60, 0x10]));
//! assert_eq!(field.type_text().to_string(), "u16");
//! ```

mod compile;
mod entry_data;
mod field;
mod print;
mod print_fmt;
mod program;
mod string;

pub use self::compile::compile;
pub use self::compile::Resolver;
pub use self::entry_data::save_entry_data;
pub use self::entry_data::EntryArgument;
pub use self::field::first_difference;
pub use self::field::Field;
pub use self::field::Layout;
pub use self::field::TooBig;
pub use self::field::TypeText;
pub use self::print::print;
pub use self::print::Output;
pub use self::print_fmt::Head;
pub use self::print_fmt::PrintFmt;
pub use self::program::record;
pub use self::program::record_fixed;
pub use self::program::Program;
pub use self::string::MAX_STRING;

use crate::{
    arch::Register,
    types::Space, //
};

// Numbers are read into, and cut out of, the low end of a word.
const _: () = assert!(cfg!(target_endian = "little"));

/// What a program sees of a hit.
///
/// The methods are called in the context of the probe, which may be an NMI: they must not sleep,
/// lock, allocate or panic. They are called once for each value, hence should be inlined.
pub trait Context {
    /// The value of a register.
    ///
    /// C: `regs_get_register()`.
    fn register(&self, register: Register) -> u64;

    /// The Nth word of the kernel's stack, counted from 0 at the stack pointer, or 0 where the
    /// stack has no such word.
    ///
    /// C: `regs_get_kernel_stack_nth()`.
    fn stack(&self, n: u16) -> u64;

    /// The address of the name of the current task, in the kernel's space.
    fn comm(&self) -> u64;

    /// The word of the entry data with this index. Only the programs of return probes ask for it.
    ///
    /// C: `FETCH_OP_EDATA`.
    #[inline(always)]
    fn entry_data(&self, _index: u8) -> u64 {
        0
    }

    /// The time from the entry of the call to its return, in ns. Only the programs of return probes
    /// with `$elapsed` ask for it.
    #[inline(always)]
    fn elapsed(&self) -> u64 {
        0
    }

    /// The address of the instruction with which the function returns. Only the programs of probes
    /// on such instructions ask for it.
    #[inline(always)]
    fn exit(&self) -> u64 {
        0
    }

    /// The record of the event that is hit, as far as its fields go. Only the programs of event
    /// probes ask for it.
    #[inline(always)]
    fn record(&self) -> &[u8] {
        &[]
    }

    /// Writes the symbol that an address is in, with offset and size, to `to`, or as much of it as
    /// fits; returns how many bytes that is. There is no NUL behind it, but what else is in `to` is
    /// undefined.
    ///
    /// C: `sprint_symbol()`.
    fn symbol(&self, address: u64, to: &mut [u8]) -> usize;

    /// Fills `to` from memory at `address`, without a page fault.
    ///
    /// Nothing is said of the content of `to` after a fault.
    ///
    /// C: `copy_from_kernel_nofault()`, `copy_from_user_nofault()`.
    fn read(&self, space: Space, address: u64, to: &mut [u8]) -> Result<(), Fault>;

    /// Reads a word of memory: what [`read`](Self::read) does for 8 bytes, where that can be done
    /// faster.
    #[inline]
    fn read_word(&self, space: Space, address: u64) -> Result<u64, Fault> {
        let mut word = [0; 8];
        self.read(space, address, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }
}

impl<C: Context> Context for &C {
    #[inline(always)]
    fn register(&self, register: Register) -> u64 {
        (**self).register(register)
    }

    #[inline(always)]
    fn stack(&self, n: u16) -> u64 {
        (**self).stack(n)
    }

    #[inline(always)]
    fn comm(&self) -> u64 {
        (**self).comm()
    }

    #[inline(always)]
    fn entry_data(&self, index: u8) -> u64 {
        (**self).entry_data(index)
    }

    #[inline(always)]
    fn elapsed(&self) -> u64 {
        (**self).elapsed()
    }

    #[inline(always)]
    fn exit(&self) -> u64 {
        (**self).exit()
    }

    #[inline(always)]
    fn record(&self) -> &[u8] {
        (**self).record()
    }

    #[inline(always)]
    fn symbol(&self, address: u64, to: &mut [u8]) -> usize {
        (**self).symbol(address, to)
    }

    #[inline(always)]
    fn read(&self, space: Space, address: u64, to: &mut [u8]) -> Result<(), Fault> {
        (**self).read(space, address, to)
    }

    #[inline(always)]
    fn read_word(&self, space: Space, address: u64) -> Result<u64, Fault> {
        (**self).read_word(space, address)
    }
}

/// Memory could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;
