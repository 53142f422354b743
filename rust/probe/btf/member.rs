// SPDX-License-Identifier: GPL-2.0

//! The members of structures and unions.
//!
//! C: `btf_find_struct_member()` in `kernel/trace/trace_btf.c`.

use super::{
    index::Btf,
    types::{
        Type,
        TypeId, //
    },
};

/// The maximum nesting of unnamed structures. A kernel has at most 7 levels.
const MAX_DEPTH: usize = 16;

/// Maximum number of members that a search visits. A structure of the kernel has up to 273.
const MAX_MEMBERS: usize = 1 << 12;

/// A member of a structure or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The name of the member. Empty if the member has no name.
    pub name: &'a str,
    /// The type of the member.
    pub ty: TypeId,
    /// Offset from the start of the structure, in bits.
    pub bit_offset: u32,
    /// The number of bits of a bitfield. 0 for other members.
    pub bitfield: u8,
}

/// A structure that a search is visiting.
#[derive(Clone, Copy)]
struct Level {
    id: TypeId,
    /// The number of visited members.
    done: usize,
    /// Offset from the start of the outermost structure, in bits.
    bit_offset: u32,
}

/// Splits the last word of a member into its offset in bits and the number of bits of a bitfield.
///
/// C: `__btf_member_bit_offset()`, `__btf_member_bitfield_size()`.
const fn place(container: &Type<'_>, word: u32) -> (u32, u8) {
    if container.flag() {
        (word & 0xff_ffff, (word >> 24) as u8)
    } else {
        (word, 0)
    }
}

impl<'a> Btf<'a> {
    /// The members of a structure or union. Other types have none.
    pub fn members(&self, ty: Type<'a>) -> impl Iterator<Item = Member<'a>> + use<'a> {
        let sections = self.sections;
        let count = if ty.kind().has_members() {
            ty.count()
        } else {
            0
        };
        ty.elements(0).take(count).map(move |[name, id, word]| {
            let (bit_offset, bitfield) = place(&ty, word);
            Member {
                name: sections.text(name).unwrap_or(""),
                ty: TypeId::new(id),
                bit_offset,
                bitfield,
            }
        })
    }

    /// Finds a member by its name in the structure or union `id`, including the members of unnamed
    /// structures in it.
    pub fn find_member(&self, id: TypeId, name: &str) -> Option<Member<'a>> {
        self.visit_members(id, |place_of_name, member| {
            let is_it = self.sections.is_text(place_of_name, name.as_bytes());
            is_it.then(|| self.named(place_of_name, member))
        })
    }

    /// Calls `f` for each named member of the structure or union `id`, including the members of
    /// unnamed structures in it. Stops when `f` returns `Some`.
    pub fn find_any_member<R>(
        &self,
        id: TypeId,
        mut f: impl FnMut(Member<'a>) -> Option<R>,
    ) -> Option<R> {
        self.visit_members(id, |place_of_name, member| {
            f(self.named(place_of_name, member))
        })
    }

    fn named(&self, place_of_name: u32, member: Member<'a>) -> Member<'a> {
        Member {
            name: self.sections.text(place_of_name).unwrap_or(""),
            ..member
        }
    }

    /// Calls `f` for each member with the offset of its name. Does not look the name up.
    ///
    /// Visits unnamed structures up to 16 levels deep, and up to 4096 members. C has room for only
    /// 16 unnamed structures in total. `struct net_device_stats` has more.
    fn visit_members<R>(
        &self,
        id: TypeId,
        mut f: impl FnMut(u32, Member<'a>) -> Option<R>,
    ) -> Option<R> {
        let outermost = Level {
            id,
            done: 0,
            bit_offset: 0,
        };
        let mut levels = [outermost; MAX_DEPTH];
        let mut depth = 0usize;
        let mut left = MAX_MEMBERS;
        loop {
            let level = levels.get_mut(depth)?;
            let (inner, seen) = match self.visit_level(*level, left, &mut f) {
                VisitResult::Found(result) => return Some(result),
                VisitResult::Inner(inner, seen) => (Some(inner), seen),
                VisitResult::End(seen) => (None, seen),
            };
            level.done = level.done.saturating_add(seen);
            left = left.checked_sub(seen)?;
            match inner {
                Some(inner) => {
                    if let Some(slot) = levels.get_mut(depth.wrapping_add(1)) {
                        *slot = inner;
                        depth = depth.wrapping_add(1);
                    }
                }
                None => depth = depth.checked_sub(1)?,
            }
        }
    }

    /// Visits the next members of one structure, at most `left`.
    fn visit_level<R>(
        &self,
        level: Level,
        left: usize,
        f: &mut impl FnMut(u32, Member<'a>) -> Option<R>,
    ) -> VisitResult<R> {
        let Some(container) = self.resolve(level.id).filter(|ty| ty.kind().has_members()) else {
            return VisitResult::End(0);
        };
        let mut seen = 0usize;
        for [place_of_name, id, word] in container.elements(level.done).take(left) {
            seen = seen.wrapping_add(1);
            let ty = TypeId::new(id);
            let (bit_offset, bitfield) = place(&container, word);
            let Some(bit_offset) = bit_offset.checked_add(level.bit_offset) else {
                continue;
            };
            if place_of_name == 0 {
                if self.resolve(ty).is_some_and(|ty| ty.kind().has_members()) {
                    let inner = Level {
                        id: ty,
                        done: 0,
                        bit_offset,
                    };
                    return VisitResult::Inner(inner, seen);
                }
                continue;
            }
            let member = Member {
                name: "",
                ty,
                bit_offset,
                bitfield,
            };
            if let Some(result) = f(place_of_name, member) {
                return VisitResult::Found(result);
            }
        }
        VisitResult::End(seen)
    }
}

/// The result of a visit of one structure's members, with the number of visited members.
enum VisitResult<R> {
    Found(R),
    /// The search must visit this unnamed structure next.
    Inner(Level, usize),
    End(usize),
}
