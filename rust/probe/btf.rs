// SPDX-License-Identifier: GPL-2.0

//! The types of functions and structures, read from BTF.
//!
//! `/sys/kernel/btf/vmlinux` contains the kernel's BTF: a list of types and their names. The types
//! are numbered from 1, and vary in length. The BTF of a module continues that of the kernel. This
//! module trusts none of its bytes: a missing type is `None`, and every walk ends.
//!
//! - [`Sections`] finds the parts, and makes an index of the types in the caller's memory;
//! - [`Btf`] looks types and [`Function`]s up;
//! - [`Variable`] is a variable as written, `file->f_path.dentry->d_flags`, and [`Fields`] follows
//!   it from type to type;
//! - [`Value`] is the result, and describes how to fetch it.
//!
//! All functions may be called in any context. Only the index is expensive: it reads every type,
//! and compares its name with that of the type before. Callers can keep the index. With it,
//! creating a [`Btf`] again costs nothing.
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
mod receivers;
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
pub use receivers::Receiver;
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
