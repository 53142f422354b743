// SPDX-License-Identifier: GPL-2.0

//! The types of functions and structures, read from BTF.
//!
//! BTF is what `/sys/kernel/btf/vmlinux` holds: a list of types, which are numbered from 1 on and
//! of varying length, and their names. The BTF of a module continues that of the kernel. None of
//! its bytes is believed: what is not there is `None`, and every walk has an end.
//!
//! - [`Sections`] finds the parts and makes an index of the types, in memory of the caller's;
//! - [`Btf`] looks types and [`Function`]s up;
//! - [`Variable`] is a variable as written, `file->f_path.dentry->d_flags`, and [`Fields`] follows
//!   it from type to type;
//! - [`Value`] is what it leads to, and tells how to fetch it.
//!
//! All of it may be called in any context. The index is what costs: every type is passed, and its
//! name compared with the one before. It can be kept, and BTF put together again with it for
//! nothing.
//!
//! C: `kernel/bpf/btf.c`, `kernel/trace/trace_btf.c`, `include/uapi/linux/btf.h`;
//! `Documentation/bpf/btf.rst` for the format.
//!
//! # Examples
//!
//! ```no_run
//! use probe::btf::{
//!     Sections,
//!     Variable, //
//! };
//!
//! let bytes = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
//! let sections = Sections::parse(&bytes, None).unwrap();
//! let mut index = vec![0; sections.slots().unwrap()];
//! let btf = sections.index(&mut index).unwrap();
//!
//! let function = btf.function("vfs_read").unwrap();
//! let names: Vec<_> = function.params().map(|param| param.name).collect();
//! assert_eq!(names, ["file", "buf", "count", "pos"]);
//!
//! let variable = Variable::parse("file->f_path.dentry->d_flags").unwrap();
//! let param = variable.param(Some(&function)).unwrap();
//! for read in variable.fields(&btf, param.ty).unwrap() {
//!     let read = read.unwrap();
//!     println!("+{}, {:?}", read.offset, read.value.fetch_type());
//! }
//! ```

mod fields;
mod function;
mod header;
mod index;
mod member;
mod types;
mod value;
mod variable;

pub use fields::{
    field_offset,
    Error,
    FieldRead,
    Fields, //
};
pub use function::{
    Function,
    Param, //
};
pub use header::Malformed;
pub use index::{
    Btf,
    Sections, //
};
pub use member::Member;
pub use types::{
    Array,
    Int,
    Type,
    TypeId,
    TypeKind, //
};
pub use value::{
    StringSource,
    Value, //
};
pub use variable::Variable;
