// SPDX-License-Identifier: GPL-2.0

//! Reads the types of functions and structures from BTF.
//!
//! `/sys/kernel/btf/vmlinux` contains the kernel's BTF: a list of types and their names. The ids of
//! types start at 1. Types vary in length. The BTF of a module continues the kernel's BTF. This
//! module trusts none of the bytes: a missing type is `None`, and every loop ends.
//!
//! - [`Sections`] finds the sections, and writes an index of the types to the caller's memory.
//! - [`Btf`] finds types and [`Function`]s.
//! - [`Variable`] is a parsed variable, such as `file->f_path.dentry->d_flags`. [`Fields`] follows
//!   the variable from type to type.
//! - [`Value`] is the result, and describes how to fetch the value.
//!
//! Callers may call all functions in any context. Only the index is expensive: it reads every type,
//! and compares its name with the name of the previous type. A caller can keep the index. With the
//! index, creating a [`Btf`] again costs nothing.
//!
//! C: `kernel/bpf/btf.c`, `kernel/trace/trace_btf.c`, `include/uapi/linux/btf.h`.
//! `Documentation/bpf/btf.rst` describes the format.
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
