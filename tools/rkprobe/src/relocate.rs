// SPDX-License-Identifier: GPL-2.0

//! The debug information of a module, as if the module had fixed addresses.
//!
//! In the file of a module, all sections start at 0, and relocations complete the debug information.

use std::collections::{
    BTreeSet,
    HashMap, //
};

use object::{
    elf::SHF_ALLOC,
    Object,
    ObjectKind,
    ObjectSection,
    ObjectSymbol,
    RelocationKind,
    RelocationTarget,
    SectionFlags,
    SectionIndex, //
};

/// The address of the first section. A function at 0 would be one that the linker removed.
const FIRST: u64 = 0x1000;

/// The addresses of the sections that the kernel loads, one after the other.
fn addresses(object: &object::File<'_>) -> Option<HashMap<SectionIndex, u64>> {
    let mut addresses = HashMap::new();
    let mut next = FIRST;
    for section in object.sections() {
        if matches!(section.flags(), SectionFlags::Elf { sh_flags } if sh_flags & u64::from(SHF_ALLOC) != 0)
        {
            next = next.checked_next_multiple_of(section.align().max(1))?;
            addresses.insert(section.index(), next);
            next = next.checked_add(section.size())?;
        }
    }
    Some(addresses)
}

/// The sections that the kernel loads.
pub struct Placed {
    /// Their symbols, with their addresses.
    pub symbols: Vec<(String, u64)>,
    /// Where they start.
    pub starts: BTreeSet<u64>,
}

/// Applies the relocations of the debug information to the file of a module. `None` if the file is no module.
pub fn place(image: &mut [u8]) -> Option<Placed> {
    let object = object::File::parse(&*image).ok()?;
    if object.kind() != ObjectKind::Relocatable {
        return None;
    }
    let addresses = addresses(&object)?;
    let symbols = object
        .symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| {
            let section = addresses.get(&symbol.section_index()?)?;
            let address = section.checked_add(symbol.address())?;
            Some((symbol.name().ok()?.into(), address))
        })
        .collect();
    let starts = addresses.values().copied().collect();
    let mut values = Vec::new();
    for section in object.sections() {
        let Some((start, _)) = section.file_range() else {
            continue;
        };
        if !section.name().is_ok_and(|name| name.starts_with(".debug_")) {
            continue;
        }
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(index) = relocation.target() else {
                continue;
            };
            if relocation.kind() != RelocationKind::Absolute {
                continue;
            }
            let symbol = object.symbol_by_index(index).ok()?;
            // Sections of the debug information itself start at 0.
            let section = symbol
                .section_index()
                .and_then(|index| addresses.get(&index));
            let value = section
                .unwrap_or(&0)
                .wrapping_add(symbol.address())
                .wrapping_add_signed(relocation.addend());
            let at = usize::try_from(start.checked_add(offset)?).ok()?;
            values.push((at, usize::from(relocation.size() / 8), value));
        }
    }
    for (at, bytes, value) in values {
        let place = image.get_mut(at..at.checked_add(bytes)?)?;
        place.copy_from_slice(value.to_le_bytes().get(..bytes)?);
    }
    Some(Placed { symbols, starts })
}
