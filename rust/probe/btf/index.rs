// SPDX-License-Identifier: GPL-2.0

//! An index of the types in BTF, which finds types by id and by name.
//!
//! The sections of a module's BTF continue the sections of the kernel's BTF. So [`Sections`] refers
//! to a [`Btf`], which consists of sections and their index.
//!
//! C: `btf_parse_str_sec()`, `btf_check_sorted()`, `btf_type_by_id()`, `btf_find_by_name_kind()` in
//! `kernel/bpf/btf.c`.

use super::{
    header::{
        Malformed,
        RawSections, //
    },
    types::{
        Type,
        TypeId,
        TypeKind, //
    },
};

/// Maximum length of a name, in bytes.
///
/// C: `KSYM_NAME_LEN`, which includes the NUL.
const MAX_NAME: usize = 511;

/// Maximum length of a chain of typedefs and qualifiers. A kernel has chains of some 6.
///
/// C: `MAX_RESOLVE_DEPTH`.
const MAX_CHAIN: usize = 32;

/// The sections of BTF.
#[derive(Clone, Copy, Debug)]
pub struct Sections<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// The sizes of each kind of type.
    layout: &'a [u8],
    base: Option<&'a Btf<'a>>,
    /// The id of the first type.
    first_type: u32,
    /// The offset of the first name, in bytes.
    first_string: u32,
}

impl<'a> Sections<'a> {
    /// Finds the sections. The BTF of a module has the kernel's BTF as its base.
    ///
    /// Reads only the header and the first and last byte of the strings.
    ///
    /// # Errors
    ///
    /// All of [`Malformed`] but [`Malformed::Type`] and [`Malformed::Index`].
    pub fn parse(bytes: &'a [u8], base: Option<&'a Btf<'a>>) -> Result<Self, Malformed> {
        let RawSections {
            types,
            strings,
            layout,
        } = RawSections::parse(bytes)?;
        let is_whole = match base {
            Some(_) => matches!(strings, [] | [.., 0]),
            None => matches!(strings, [0] | [0, .., 0]),
        };
        if !is_whole {
            return Err(Malformed::Strings);
        }
        let first_string = match base {
            Some(Btf { sections, .. }) => u32::try_from(sections.strings.len())
                .ok()
                .and_then(|len| len.checked_add(sections.first_string))
                .ok_or(Malformed::Sections)?,
            None => 0,
        };
        Ok(Self {
            types,
            strings,
            layout,
            base,
            first_type: base.map_or(1, Btf::type_count),
            first_string,
        })
    }

    /// The length of an index, in words: one more than the number of types.
    ///
    /// # Errors
    ///
    /// [`Malformed::Type`].
    pub fn slots(&self) -> Result<usize, Malformed> {
        let mut slots = 1usize;
        for record in self.walk() {
            record?;
            slots = slots.wrapping_add(1);
        }
        Ok(slots)
    }

    /// Writes the index to `index`, which must have [`Self::slots`] words.
    ///
    /// # Errors
    ///
    /// [`Malformed::Type`], [`Malformed::Index`].
    pub fn index(self, index: &'a mut [u32]) -> Result<Btf<'a>, Malformed> {
        let mut slots = index.iter_mut().zip(0u32..u32::MAX);
        let (named, _) = slots.next().ok_or(Malformed::Index)?;
        *named = 0;
        let mut is_sorted = true;
        let mut last: &[u8] = &[];

        for record in self.walk() {
            let (at, ty) = record?;
            let (slot, number) = slots.next().ok_or(Malformed::Index)?;
            *slot = at;
            if !is_sorted {
                continue;
            }
            let name = self.bytes(ty.name);
            is_sorted = name >= Some(last);
            last = name.unwrap_or(&[]);
            if *named == 0 && !last.is_empty() {
                *named = number;
            }
        }
        if slots.next().is_some() {
            return Err(Malformed::Index);
        }
        if !is_sorted {
            *named = 0;
        }
        Ok(self.indexed(index))
    }

    /// Creates a [`Btf`] with an index that [`Self::index`] wrote for the same bytes.
    ///
    /// With any other index, lookups return wrong types.
    pub const fn indexed(self, index: &'a [u32]) -> Btf<'a> {
        Btf {
            sections: self,
            index,
        }
    }

    /// The type at byte `at` of the types section.
    fn type_at(&self, at: usize) -> Option<Type<'a>> {
        Type::read(self.types.get(at..)?, self.layout)
    }

    fn walk(&self) -> Walk<'a> {
        Walk {
            sections: *self,
            at: 0,
        }
    }

    /// The name at the offset `place`, and all names after it.
    fn strings_at(&self, place: u32) -> Option<&'a [u8]> {
        let mut sections = self;
        while place < sections.first_string {
            sections = &sections.base?.sections;
        }
        let own = place.wrapping_sub(sections.first_string) as usize;
        sections.strings.get(own..)
    }

    /// The name at the offset `place`, without its NUL.
    ///
    /// C: `btf_str_by_offset()`.
    fn bytes(&self, place: u32) -> Option<&'a [u8]> {
        let rest = self.strings_at(place)?;
        let len = rest
            .iter()
            .take(MAX_NAME.wrapping_add(1))
            .position(|byte| *byte == 0)?;
        rest.get(..len)
    }

    /// The name at the offset `place`, as UTF-8.
    pub(super) fn text(&self, place: u32) -> Option<&'a str> {
        core::str::from_utf8(self.bytes(place)?).ok()
    }

    /// Whether the name at the offset `place` is `name`.
    pub(super) fn is_text(&self, place: u32, name: &[u8]) -> bool {
        self.strings_at(place)
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// An iterator over the types and their byte offsets. It ends at the first malformed type.
struct Walk<'a> {
    sections: Sections<'a>,
    at: usize,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<(u32, Type<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let types = self.sections.types;
        let at = self.at;
        if at >= types.len() {
            return None;
        }
        // The length of the section has 32 bits.
        let start = at as u32;
        match self.sections.type_at(at) {
            Some(ty) => {
                self.at = at.saturating_add(ty.bytes());
                Some(Ok((start, ty)))
            }
            None => {
                self.at = types.len();
                Some(Err(Malformed::Type(start)))
            }
        }
    }
}

/// BTF with an index of its types.
///
/// [`Sections::index`] creates it. [`Sections::indexed`] creates it without the cost of an index.
#[derive(Clone, Copy, Debug)]
pub struct Btf<'a> {
    pub(super) sections: Sections<'a>,
    /// The offset of each type in the types section, in bytes. The first slot belongs to no type.
    /// If the types are sorted by name, it contains the number of the first type with a name.
    /// Otherwise it contains 0.
    index: &'a [u32],
}

impl<'a> Btf<'a> {
    /// The number of types, including `void` and the types of the base. All ids are less.
    ///
    /// C: `btf_nr_types()`.
    pub fn type_count(&self) -> u32 {
        // The first slot belongs to no type.
        let own = (self.index.len() as u32).saturating_sub(1);
        self.sections.first_type.saturating_add(own)
    }

    /// The type with this id, in this BTF or in its base. [`TypeId::VOID`] always exists.
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

    /// The type with this id, without typedefs and qualifiers.
    ///
    /// `None` if a type is missing, or if the chain of typedefs and qualifiers has more than 32
    /// links.
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

    /// The size of the variable with this name, in bytes. `None` if BTF contains no such variable
    /// or no complete type of it. The kernel's BTF contains almost only per-CPU variables.
    ///
    /// C: `btf_type_id_size()`.
    pub fn variable_size(&self, name: &str) -> Option<u32> {
        let variable = self.get(self.find(name, TypeKind::Var)?)?;
        let mut count = 1u32;
        let mut ty = self.resolve(variable.target())?;
        for _ in 0..=MAX_CHAIN {
            let size = match ty.kind() {
                TypeKind::Ptr => 8,
                TypeKind::Int
                | TypeKind::Enum
                | TypeKind::Enum64
                | TypeKind::Float
                | TypeKind::Struct
                | TypeKind::Union => ty.size(),
                TypeKind::Array => {
                    let array = ty.array()?;
                    count = count.checked_mul(array.len)?;
                    ty = self.resolve(array.element)?;
                    continue;
                }
                _ => return None,
            };
            return size.checked_mul(count);
        }
        None
    }

    /// Whether the qualifiers of the type with this id include the type tag `tag`.
    ///
    /// C: `__attribute__((btf_type_tag("tag")))`.
    pub fn has_tag(&self, mut id: TypeId, tag: &str) -> bool {
        for _ in 0..=MAX_CHAIN {
            let Some(ty) = self.get(id).filter(|ty| ty.kind().is_modifier()) else {
                return false;
            };
            if ty.kind() == TypeKind::TypeTag && self.name(ty) == Some(tag) {
                return true;
            }
            id = ty.target();
        }
        false
    }

    /// The name of a type. Empty if the type has no name.
    ///
    /// `None` if the name is out of bounds, longer than a symbol, or not UTF-8.
    ///
    /// C: `btf_name_by_offset()`.
    pub fn name(&self, ty: Type<'a>) -> Option<&'a str> {
        self.sections.text(ty.name)
    }

    /// Finds the first type with this name and kind. Searches this BTF first, and then its base.
    ///
    /// C searches the base first. So C confuses a function of a module with a function of the
    /// kernel that has the same name. If the types are sorted by name, as in the kernel and its
    /// modules, a search takes about 17 comparisons. Otherwise it takes one comparison for each
    /// type of this kind.
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
        let sections = &self.sections;
        let is_it = |at: u32| {
            sections
                .type_at(at as usize)
                .is_some_and(|ty| ty.kind() == kind && sections.is_text(ty.name, name))
        };

        if name.is_empty() {
            return None;
        }
        let own = match self.sorted_from(name) {
            None => {
                let (_, offsets) = self.index.split_first()?;
                offsets.iter().position(|at| is_it(*at))?
            }
            Some((first, sorted)) => {
                let among = sorted
                    .iter()
                    .take_while(|at| self.name_at(**at) == Some(name))
                    .position(|at| is_it(*at))?;
                first.checked_add(among)?
            }
        };
        let own = u32::try_from(own).ok()?;
        Some(TypeId::new(sections.first_type.checked_add(own)?))
    }

    /// The types of this BTF that are sorted by name, starting at `name`. Also returns the number
    /// of the first of these types. `None` if the types are not sorted by name.
    fn sorted_from(&self, name: &[u8]) -> Option<(usize, &'a [u32])> {
        let (named, offsets) = self.index.split_first()?;
        let first = (*named as usize).checked_sub(1)?;
        let sorted = offsets.get(first..)?;
        let before = sorted.partition_point(|at| self.name_at(*at) < Some(name));
        Some((first.checked_add(before)?, sorted.get(before..)?))
    }

    /// The name of the type at byte `at` of the types section.
    fn name_at(&self, at: u32) -> Option<&'a [u8]> {
        self.sections
            .bytes(self.sections.type_at(at as usize)?.name)
    }

    /// The ids of this BTF's types, without the types of the base.
    pub(super) fn own_types(&self) -> impl Iterator<Item = TypeId> + use<> {
        (self.sections.first_type..self.type_count()).map(TypeId::new)
    }

    /// The names of this BTF's functions that start with `prefix`, without the functions of the
    /// base. Returns no names if the types are not sorted by name.
    pub fn functions_from<'n>(
        &self,
        prefix: &'n str,
    ) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        let sections = self.sections;
        let sorted = self.sorted_from(prefix.as_bytes());
        sorted
            .map_or(&[][..], |(_, sorted)| sorted)
            .iter()
            .filter_map(move |at| sections.type_at(*at as usize))
            .map(move |ty| (ty.kind(), sections.text(ty.name).unwrap_or("")))
            .take_while(move |(_, name)| name.starts_with(prefix))
            .filter_map(|(kind, name)| (kind == TypeKind::Func).then_some(name))
    }
}
