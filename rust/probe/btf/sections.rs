// SPDX-License-Identifier: GPL-2.0

//! The parts of BTF, and where each type starts.
//!
//! C: `btf_parse_hdr()`, `btf_check_sec_info()`, `btf_parse_str_sec()`, `btf_check_sorted()` in
//! `kernel/bpf/btf.c`.

use super::{
    types::{
        word,
        Type, //
    },
    Btf, //
};

/// The first two bytes, in the order of the machine that they are for.
const MAGIC: u16 = 0xeb9f;

/// The only version there is.
const VERSION: u8 = 1;

/// The bytes of a header without the place of the layout, which came later.
const HEADER: usize = 24;

/// The bytes of a header with the place of the layout.
const HEADER_WITH_LAYOUT: usize = 32;

/// The longest name, in bytes.
///
/// C: `KSYM_NAME_LEN`, with its NUL.
const MAX_NAME: usize = 511;

/// Why bytes are no BTF that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They are no BTF.
    Magic,
    /// They are for a machine of the other byte order.
    ByteOrder,
    /// Another version, or flags, which no version has.
    Version,
    /// The header, or a section, is not within the bytes.
    Sections,
    /// The names do not start with an empty one, or the last one has no end.
    Strings,
    /// The type that starts at this byte of the types is cut off, or of a kind of unknown size.
    Type(u32),
    /// The index has another length than [`Sections::slots`].
    Index,
}

/// The parts of BTF, within its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sections<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// The sizes of each kind, those included that are not known here.
    layout: &'a [u8],
    pub(super) base: Option<&'a Btf<'a>>,
    /// The id of the first type.
    pub(super) first_type: u32,
    /// The place of the first name.
    first_string: u32,
}

impl<'a> Sections<'a> {
    /// Finds the parts. BTF of a module has that of the kernel as its base.
    ///
    /// It looks at the header, and at the ends of the strings, alone.
    ///
    /// # Errors
    ///
    /// All of [`Malformed`] but [`Malformed::Type`] and [`Malformed::Index`].
    pub fn parse(bytes: &'a [u8], base: Option<&'a Btf<'a>>) -> Result<Self, Malformed> {
        let magic = bytes.first_chunk().ok_or(Malformed::Magic)?;
        match u16::from_ne_bytes(*magic) {
            MAGIC => {}
            magic if magic == MAGIC.swap_bytes() => return Err(Malformed::ByteOrder),
            _ => return Err(Malformed::Magic),
        }
        match bytes.get(2..4) {
            Some([VERSION, 0]) => {}
            Some(_) => return Err(Malformed::Version),
            None => return Err(Malformed::Sections),
        }

        let parts = Self::split(bytes).ok_or(Malformed::Sections)?;
        let (types, strings, layout) = parts;
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

    /// The types, the strings and the layout.
    fn split(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
        let header = word(bytes, 4)? as usize;
        let rest = bytes.get(header..)?;
        let section = |at: usize| {
            let start = word(bytes, at)? as usize;
            let len = word(bytes, at.wrapping_add(4))? as usize;
            rest.get(start..start.checked_add(len)?)
        };
        if header < HEADER {
            return None;
        }
        let layout = if header < HEADER_WITH_LAYOUT {
            &[]
        } else {
            section(24)?
        };
        Some((section(8)?, section(16)?, layout))
    }

    /// The length of an index, in words: one for each type, and one.
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

    /// Makes the index, in memory of [`Self::slots`] words.
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

    /// With an index that [`Self::index`] made of the same bytes.
    ///
    /// With any other, types are not what they are.
    pub const fn indexed(self, index: &'a [u32]) -> Btf<'a> {
        Btf {
            sections: self,
            index,
        }
    }

    /// The type that starts at this byte of the types.
    pub(super) fn type_at(&self, at: usize) -> Option<Type<'a>> {
        Type::read(self.types.get(at..)?, self.layout)
    }

    fn walk(&self) -> Walk<'a> {
        Walk {
            sections: *self,
            at: 0,
        }
    }

    /// The name at this place, and all that follow it.
    fn strings_at(&self, place: u32) -> Option<&'a [u8]> {
        let mut sections = self;
        while place < sections.first_string {
            sections = &sections.base?.sections;
        }
        let own = place.wrapping_sub(sections.first_string) as usize;
        sections.strings.get(own..)
    }

    /// The name at this place, without its NUL.
    ///
    /// C: `btf_str_by_offset()`.
    pub(super) fn bytes(&self, place: u32) -> Option<&'a [u8]> {
        let rest = self.strings_at(place)?;
        let len = rest
            .iter()
            .take(MAX_NAME.wrapping_add(1))
            .position(|byte| *byte == 0)?;
        rest.get(..len)
    }

    /// The name at this place as text.
    pub(super) fn text(&self, place: u32) -> Option<&'a str> {
        core::str::from_utf8(self.bytes(place)?).ok()
    }

    /// Whether this is the name at this place.
    pub(super) fn is_text(&self, place: u32, name: &[u8]) -> bool {
        self.strings_at(place)
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// Each type with the byte that it starts at, up to the first that is malformed.
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
        // The section has a length of 32 bits.
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
