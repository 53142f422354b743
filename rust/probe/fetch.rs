// SPDX-License-Identifier: GPL-2.0

//! Compiles fetch arguments, writes trace records on a hit, and prints them as text.
//!
//! [`compile()`] turns an [`Argument`](crate::argument::Argument) into a [`Program`]. [`Layout`]
//! gives each argument its [`Field`] in the record. On a hit, [`record`] runs the programs of an
//! event in order. They read from a [`Context`]: registers, memory and, for a return probe, the
//! entry data, which [`save_entry_data`] saved at the entry of the call. When a user reads the
//! trace, [`print`](print()) writes the fields of a record as text. [`Field`] and [`PrintFmt`]
//! provide the content of the event's `format` file.
//!
//! A record is the header of the event, the fields, each aligned to its size, and then the bytes of
//! the strings:
//!
//! ```text
//! | header | field | gap | string's place | field | "text\0" |
//!          |<----- Layout::bytes() ------------------>|
//! ```
//!
//! C: `kernel/trace/trace_probe.c`, `trace_probe_tmpl.h`, `trace_probe_kernel.h`.
//!
//! # Examples
//!
//! ```
//! use core::convert::Infallible;
//! use probe::{
//!     arch::{
//!         current,
//!         Register, //
//!     },
//!     argument::*,
//!     fetch::{
//!         self,
//!         Context,
//!         EntryArgument,
//!         Fault,
//!         Layout,
//!         Resolver, //
//!     },
//!     types::*, //
//! };
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
//!     fn current(&self) -> u64 {
//!         0
//!     }
//!     fn pid(&self) -> u64 {
//!         0
//!     }
//!     fn caller(&self) -> u64 {
//!         0
//!     }
//!     fn this_cpu(&self, address: u64) -> u64 {
//!         address
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
//!     fetch: Fetch {
//!         base: Base::Register(current::register("dx").unwrap()),
//!         steps: Steps::new(),
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
mod condition;
mod context;
mod entry_data;
mod field;
mod key;
mod place;
mod print;
mod print_fmt;
mod program;
mod run;
mod string;

pub(crate) use self::print::write_error_name;
pub use self::{
    compile::{
        compile,
        Resolver, //
        OBJECT,
        PARAMETER,
        UNCHANGED,
    },
    condition::{
        buffer_for,
        compile_test,
        decides,
        holds,
        MatchString,
        Test,
        SMALL_BUFFER, //
    },
    context::{
        Context,
        Fault, //
    },
    entry_data::{
        save_entry_data,
        EntryArgument, //
    },
    field::{
        first_difference,
        Field,
        Layout,
        TooBig,
        TypeText, //
    },
    key::{
        compile_key,
        compile_number,
        write_key,
        KeyContext,
        KeyProgram,
        NumberProgram, //
    },
    print::{
        print,
        Output, //
    },
    print_fmt::{
        ErrorName,
        FieldFormat, //
        Head,
        PlainPrintFmt,
        PrintFmt,
    },
    program::Program,
    run::{
        record,
        record_fixed, //
    },
    string::{
        write_empty_strings,
        MAX_STRING, //
    },
};
