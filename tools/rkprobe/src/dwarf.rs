// SPDX-License-Identifier: GPL-2.0

//! The debug information of the kernel or of a module, in memory: its sections, and the symbols of the code.

use std::{
    cell::OnceCell,
    collections::BTreeSet,
    fs::{
        self,
        File, //
    },
    iter,
    ops::Range,
    os::unix::fs::FileExt,
    path::Path, //
};

use gimli::{
    AttributeValue,
    DebuggingInformationEntry,
    Dwarf,
    EndianSlice,
    NativeEndian,
    SectionId,
    Unit,
    UnitOffset, //
};
use memchr::memmem;
use object::{
    read::{
        elf::Sym,
        ReadCache,
        StringTable, //
    },
    CompressionFormat,
    Object,
    ObjectKind,
    ObjectSection,
    ReadRef, //
};

use crate::{
    debug_files::{
        Origin,
        Sought, //
    },
    relocate::{
        self,
        Placed, //
    },
    symbols::is_mapping, //
};

pub type Bytes<'d> = EndianSlice<'d, NativeEndian>;
pub type Entry<'a, 'd> = DebuggingInformationEntry<'a, 'a, Bytes<'d>>;

/// The sections that describe functions, lines and variables.
const SECTIONS: [SectionId; 12] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugFrame,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// The debug information of a file.
pub struct Information {
    sections: Vec<(SectionId, Vec<u8>)>,
    /// All symbols, in the order of their addresses.
    symbols: Vec<(u64, String)>,
    /// The positions of the symbols, in the order of their names.
    by_name: OnceCell<Vec<u32>>,
    /// Where the sections of a module start, which the kernel places independently.
    starts: BTreeSet<u64>,
}

impl Information {
    /// Reads the debug information of a module, or of the running kernel if `module` is empty. If there is none, the
    /// error is one line that says how to get it.
    pub fn open(module: &str, origin: Origin) -> Result<Self, String> {
        Sought::open(module, origin, Self::read).map(|(_, information)| information)
    }

    /// `None` if the file has another build ID, or no debug information.
    pub fn read(path: &Path, id: &[u8]) -> Option<Self> {
        let file = File::open(path).ok()?;
        let cache = ReadCache::new(&file);
        let object = object::File::parse(&cache).ok()?;
        if object.build_id().ok()?? != id {
            return None;
        }
        if object.kind() != ObjectKind::Relocatable {
            let symbols = symbols(&object)?;
            // The cache would keep a copy of each section.
            return Self::of(&object, symbols, BTreeSet::new(), |offset, length| {
                let mut data = vec![0; length];
                file.read_exact_at(&mut data, offset).ok()?;
                Some(data)
            });
        }
        let mut image = fs::read(path).ok()?;
        let Placed { symbols, starts } = relocate::place(&mut image)?;
        let object = object::File::parse(&*image).ok()?;
        Self::of(&object, symbols, starts, |offset, length| {
            let start = usize::try_from(offset).ok()?;
            Some(image.get(start..start.checked_add(length)?)?.to_vec())
        })
    }

    /// `read` reads bytes of the file.
    fn of<'d, R: ReadRef<'d>>(
        object: &object::File<'d, R>,
        symbols: Vec<(String, u64)>,
        starts: BTreeSet<u64>,
        read: impl Fn(u64, usize) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        let section = |id: SectionId| {
            let section = object.section_by_name(id.name())?;
            let range = section.compressed_file_range().ok()?;
            if range.format != CompressionFormat::None {
                return None;
            }
            let length = usize::try_from(range.uncompressed_size).ok()?;
            Some((id, read(range.offset, length)?))
        };
        let sections: Vec<(SectionId, Vec<u8>)> =
            SECTIONS.into_iter().filter_map(section).collect();
        let symbols = symbols.into_iter().filter(|(name, _)| !is_mapping(name));
        let symbols = symbols.map(|(name, address)| (address, name));
        let mut symbols: Vec<(u64, String)> = symbols.collect();
        symbols.sort_unstable();
        let has_information = sections.iter().any(|(id, _)| *id == SectionId::DebugInfo);
        has_information.then_some(Self {
            sections,
            symbols,
            by_name: OnceCell::new(),
            starts,
        })
    }

    /// A section. Empty if the file does not have it.
    pub fn section(&self, id: SectionId) -> &[u8] {
        let mut sections = self.sections.iter();
        let found = sections.find(|(other, _)| *other == id);
        found.map_or(&[], |(_, data)| data)
    }

    pub fn dwarf(&self) -> gimli::Result<Dwarf<Bytes<'_>>> {
        Dwarf::load(|id| Ok(Bytes::new(self.section(id), NativeEndian)))
    }

    /// The names of the last address with symbols that is not above this one, with that address.
    pub fn symbols_at(&self, address: u64) -> Option<(u64, impl Iterator<Item = &str>)> {
        let end = self.symbols.partition_point(|(other, _)| *other <= address);
        let start = self.symbols[..end].last()?.0;
        let names = self.symbols[..end].iter().rev();
        let names = names.take_while(move |(other, _)| *other == start);
        Some((start, names.map(|(_, name)| &**name)))
    }

    /// A symbol whose name belongs to one address alone, and the offset of an address from there: `symbol`, which the
    /// address is in, or one before it in the same section.
    pub fn anchor<'s>(&'s self, address: u64, symbol: &'s str) -> Option<(&'s str, u64)> {
        let section = self.starts.range(..=address).next_back().copied();
        let end = self.symbols.partition_point(|(other, _)| *other <= address);
        let before = self.symbols[..end].iter().rev();
        let before = before.take_while(|(other, _)| *other >= section.unwrap_or(0));
        let before = before.map(|(_, name)| &**name);
        let mut names = iter::once(symbol).chain(before);
        names.find_map(|name| {
            let mut starts = self.addresses(name);
            let start = starts.next().filter(|_| starts.next().is_none())?;
            Some((name, address.checked_sub(start)?))
        })
    }

    /// The addresses of a name, in order.
    pub fn addresses<'s>(&'s self, name: &str) -> impl Iterator<Item = u64> + 's {
        let name_of = |position: &u32| &*self.symbols[*position as usize].1;
        let all = self.by_name.get_or_init(|| {
            let mut all: Vec<u32> = (0..self.symbols.len() as u32).collect();
            // Equal names keep the order of their addresses.
            all.sort_by(|a, b| name_of(a).cmp(name_of(b)));
            all
        });
        let start = all.partition_point(|position| name_of(position) < name);
        let end = start + all[start..].partition_point(|position| name_of(position) == name);
        let named = all[start..end].iter();
        named.map(|position| self.symbols[*position as usize].0)
    }
}

/// Where a name can be in the debug information.
pub struct Mentions {
    /// In entries.
    entries: Vec<usize>,
    /// In the tables of strings of units.
    tables: Vec<usize>,
}

impl Mentions {
    /// Looks for a name.
    pub fn of(information: &Information, name: &str) -> Self {
        let name = [name.as_bytes(), b"\0"].concat();
        let strings = information.section(SectionId::DebugStr);
        let offsets = memmem::find_iter(strings, &name).filter_map(|at| u32::try_from(at).ok());
        let marks: Vec<Vec<u8>> = offsets.map(|offset| offset.to_ne_bytes().into()).collect();
        let places = |id: SectionId, marks: &[Vec<u8>]| {
            let data = information.section(id);
            let all = marks.iter().flat_map(|mark| memmem::find_iter(data, mark));
            let mut places: Vec<usize> = all.collect();
            places.sort_unstable();
            places
        };
        let tables = places(SectionId::DebugStrOffsets, &marks);
        let marks = [marks, vec![name]].concat();
        Self {
            entries: places(SectionId::DebugInfo, &marks),
            tables,
        }
    }

    /// Whether a unit can have the name.
    pub fn are_in(&self, information: &Information, unit: &Unit<Bytes<'_>>) -> bool {
        let has = |places: &[usize], range: Range<usize>| {
            let next = places.partition_point(|place| *place < range.start);
            places.get(next).is_some_and(|place| *place < range.end)
        };
        let Some(start) = unit.header.offset().as_debug_info_offset() else {
            return true;
        };
        let end = start.0 + unit.header.length_including_self();
        let table = unit.str_offsets_base.0;
        // The length is before the table, and counts the four bytes of its version, too.
        let table_end = || {
            let strings = information.section(SectionId::DebugStrOffsets);
            let bytes = strings.get(table.checked_sub(8)?..table - 4)?;
            Some(table + u32::from_ne_bytes(bytes.try_into().ok()?) as usize - 4)
        };
        has(&self.entries, start.0..end)
            || table_end().is_some_and(|end| has(&self.tables, table..end))
    }
}

/// The symbols of a file that is no module, with their addresses. Reads all names at once, because a kernel has very
/// many of them.
pub fn symbols<'d, R: ReadRef<'d>>(object: &object::File<'d, R>) -> Option<Vec<(String, u64)>> {
    let object::File::Elf64(elf) = object else {
        return None;
    };
    let (table, endian) = (elf.elf_symbol_table(), elf.endian());
    let names = object.section_by_index(table.string_section()).ok()?;
    let names = names.data().ok()?;
    let names = StringTable::new(names, 0, names.len() as u64);
    let defined = table.iter().filter(|symbol| symbol.is_definition(endian));
    let named = defined.filter_map(|symbol| {
        let name = symbol.name(endian, names).ok()?;
        let name = std::str::from_utf8(name).ok()?;
        Some((name.to_owned(), symbol.st_value(endian)))
    });
    Some(named.collect())
}

/// The entry to which an attribute refers.
pub fn reference(
    entry: &Entry<'_, '_>,
    attribute: gimli::DwAt,
) -> gimli::Result<Option<UnitOffset>> {
    Ok(match entry.attr_value(attribute)? {
        Some(AttributeValue::UnitRef(offset)) => Some(offset),
        _ => None,
    })
}

/// The number that an attribute has.
pub fn number(entry: &Entry<'_, '_>, attribute: gimli::DwAt) -> gimli::Result<Option<u64>> {
    let value = entry.attr_value(attribute)?;
    Ok(value.and_then(|value| value.udata_value()))
}

/// The constant value of a variable or an enumerator. A number without a sign has the same bits.
pub fn constant(entry: &Entry<'_, '_>) -> gimli::Result<Option<i64>> {
    let value = entry.attr_value(gimli::DW_AT_const_value)?;
    Ok(value.and_then(|value| {
        let unsigned = || value.udata_value().map(|number| number as i64);
        value.sdata_value().or_else(unsigned)
    }))
}

/// The entry that describes what a copy is of.
pub fn original(entry: &Entry<'_, '_>) -> gimli::Result<Option<UnitOffset>> {
    reference(entry, gimli::DW_AT_abstract_origin)
}

/// The name of an entry, or of the one that it is a copy of.
pub fn name<'d>(
    dwarf: &Dwarf<Bytes<'d>>,
    unit: &Unit<Bytes<'d>>,
    entry: &Entry<'_, 'd>,
) -> gimli::Result<Option<&'d str>> {
    let named = match entry.attr_value(gimli::DW_AT_name)? {
        Some(value) => Some(value),
        None => match original(entry)? {
            Some(original) => unit.entry(original)?.attr_value(gimli::DW_AT_name)?,
            None => None,
        },
    };
    let Some(named) = named else {
        return Ok(None);
    };
    let text = dwarf.attr_string(unit, named)?;
    Ok(std::str::from_utf8(text.slice()).ok())
}
