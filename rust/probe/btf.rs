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
//! use probe::btf::{Sections, Variable};
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

mod function;
mod member;
mod sections;
mod types;
mod value;
mod variable;

pub use function::Function;
pub use function::Param;
pub use member::Member;
pub use sections::Malformed;
pub use sections::Sections;
pub use types::Array;
pub use types::Int;
pub use types::Type;
pub use types::TypeId;
pub use types::TypeKind;
pub use value::StringSource;
pub use value::Value;
pub use variable::Error;
pub use variable::FieldRead;
pub use variable::Fields;
pub use variable::Variable;

/// The longest chain of typedefs and qualifiers that is followed. A kernel has some 6.
///
/// C: `MAX_RESOLVE_DEPTH`.
const MAX_CHAIN: usize = 32;

/// BTF with an index of its types.
///
/// Made by [`Sections::index`], and by [`Sections::indexed`] without the cost.
#[derive(Clone, Copy, Debug)]
pub struct Btf<'a> {
    sections: Sections<'a>,
    /// Of each type where it is among the types, in bytes. The first slot, which would be that of
    /// no type, is the slot of the first type with a name where the types are sorted by name, and
    /// 0 where they are not.
    index: &'a [u32],
}

impl<'a> Btf<'a> {
    /// The number of types, those of the base and `void` included: all ids are below.
    ///
    /// C: `btf_nr_types()`.
    pub fn type_count(&self) -> u32 {
        // One slot is that of no type.
        let own = (self.index.len() as u32).saturating_sub(1);
        self.sections.first_type.saturating_add(own)
    }

    /// The type with this id, in here or in the base. There is always [`TypeId::VOID`].
    ///
    /// C: `btf_type_by_id()`.
    pub fn get(&self, id: TypeId) -> Option<Type<'a>> {
        if id == TypeId::VOID {
            return Some(Type::VOID);
        }
        let mut btf = self;
        while id.get() < btf.sections.first_type {
            btf = btf.sections.base?;
        }
        let own = id.get().wrapping_sub(btf.sections.first_type) as usize;
        let at = btf.index.get(own.checked_add(1)?)?;
        btf.sections.type_at(*at as usize)
    }

    /// The type with this id, or what it is another name or a qualified form of.
    ///
    /// `None` where a type is missing, or more than 32 follow each other.
    ///
    /// C: `btf_type_skip_modifiers()`.
    pub fn resolve(&self, id: TypeId) -> Option<Type<'a>> {
        let mut ty = self.get(id)?;
        for _ in 0..=MAX_CHAIN {
            if !ty.kind().is_modifier() {
                return Some(ty);
            }
            ty = self.get(ty.target())?;
        }
        None
    }

    /// The name of a type; empty where it has none.
    ///
    /// `None` where it is out of bounds, longer than a symbol, or no UTF-8.
    ///
    /// C: `btf_name_by_offset()`.
    pub fn name(&self, ty: Type<'a>) -> Option<&'a str> {
        self.sections.text(ty.name)
    }

    /// The first type of this name and kind: of those in here, then of those in the base.
    ///
    /// C begins with the base, and so takes a function of the kernel for one of the module that
    /// has the same name. It takes about 17 comparisons where the types are sorted by name, as
    /// those of kernel and modules are, and else one for each type of this kind.
    ///
    /// C: `btf_find_by_name_kind()`.
    pub fn find(&self, name: &str, kind: TypeKind) -> Option<TypeId> {
        let mut btf = self;
        loop {
            if let Some(id) = btf.find_own(name.as_bytes(), kind) {
                return Some(id);
            }
            btf = btf.sections.base?;
        }
    }

    fn find_own(&self, name: &[u8], kind: TypeKind) -> Option<TypeId> {
        let (named, offsets) = self.index.split_first()?;
        let sections = &self.sections;
        let is_it = |at: u32| {
            sections
                .type_at(at as usize)
                .is_some_and(|ty| ty.kind() == kind && sections.is_text(ty.name, name))
        };

        if name.is_empty() {
            return None;
        }
        let own = match (*named as usize).checked_sub(1) {
            None => offsets.iter().position(|at| is_it(*at))?,
            Some(first) => {
                let name_at = |at: u32| {
                    sections
                        .type_at(at as usize)
                        .and_then(|ty| sections.bytes(ty.name))
                };
                let sorted = offsets.get(first..)?;
                let before = sorted.partition_point(|at| name_at(*at) < Some(name));
                let among = sorted
                    .get(before..)?
                    .iter()
                    .take_while(|at| name_at(**at) == Some(name))
                    .position(|at| is_it(*at))?;
                first.checked_add(before)?.checked_add(among)?
            }
        };
        let own = u32::try_from(own).ok()?;
        Some(TypeId::new(sections.first_type.checked_add(own)?))
    }
}
