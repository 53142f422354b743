// SPDX-License-Identifier: GPL-2.0

//! Text at its addresses, with its symbols as kallsyms has them: each goes on to the next.

use std::collections::HashMap;

use object::{
    elf,
    Architecture,
    Object,
    ObjectKind,
    ObjectSection,
    ObjectSymbol,
    RelocationFlags,
    RelocationTarget,
    SectionKind,
    SymbolKind, //
};
use probe::insn::exits::Part;

/// Where the text of a module is laid, and what it calls outside: near enough for a branch of arm64.
const MODULE: u64 = 0xffff_ffff_c000_0000;
const OTHERS: u64 = MODULE + (64 << 20);
const EACH: u64 = 16;

/// Text and symbols.
pub struct Image {
    pub architecture: Architecture,
    /// Sorted by their addresses.
    pub sections: Vec<Section>,
    /// One for each address that has any, sorted.
    pub symbols: Vec<Symbol>,
}

/// A piece of text.
pub struct Section {
    pub name: String,
    pub address: u64,
    pub text: Vec<u8>,
}

/// What is at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    pub address: u64,
    /// At least one.
    pub names: Vec<String>,
}

impl Section {
    fn contains(&self, address: u64) -> bool {
        address
            .checked_sub(self.address)
            .is_some_and(|offset| offset < self.text.len() as u64)
    }
}

impl Symbol {
    /// By which it is told of.
    pub fn name(&self) -> &str {
        &self.names[0]
    }

    /// Whether it is a function: neither what precedes one, nor a part of one, nor a mere section.
    pub fn is_function(&self) -> bool {
        let is_other =
            |name: &String| name.starts_with("__pfx_") || name.starts_with('.') || is_cold(name);
        !self.names.iter().any(is_other)
    }
}

/// Whether a symbol is named as what compilers have moved away from a function.
pub fn is_cold(name: &str) -> bool {
    name.ends_with(".cold") || name.contains(".cold.")
}

impl Image {
    /// Of sections and symbols, in any order. Of the symbols those count that are in the text or, with
    /// an address of their own, outside of it.
    pub fn new(
        architecture: Architecture,
        mut sections: Vec<Section>,
        symbols: impl IntoIterator<Item = (u64, String)>,
    ) -> Self {
        sections.retain(|section| !section.text.is_empty());
        sections.sort_by_key(|section| section.address);
        // What a section begins with may have no symbol.
        let starts = sections.iter().map(|s| (s.address, s.name.clone()));
        let is_known = |name: &str| !name.is_empty() && !is_local_label(name);
        let mut all: Vec<(u64, String)> = symbols
            .into_iter()
            .filter(|(_, name)| is_known(name) && !name.starts_with('.'))
            .collect();
        all.extend(starts);
        // The name of a section is the last.
        all.sort_by(|a, b| {
            (a.0, a.1.starts_with('.'), &a.1).cmp(&(b.0, b.1.starts_with('.'), &b.1))
        });
        all.dedup();
        let mut symbols: Vec<Symbol> = vec![];
        for (address, name) in all {
            match symbols.last_mut() {
                Some(last) if last.address == address => {
                    if !name.starts_with('.') {
                        last.names.push(name);
                    }
                }
                _ => symbols.push(Symbol {
                    address,
                    names: vec![name],
                }),
            }
        }
        Self {
            architecture,
            sections,
            symbols,
        }
    }

    /// Of an ELF file. The sections of an object that is to be linked (a module) are laid one after the
    /// other, and its branches are relocated to them; what it calls outside gets an address of its own.
    /// Other relocations stay as they are: they change no instruction's length, nor where it leads.
    ///
    /// # Errors
    ///
    /// What the file is not.
    pub fn of_elf(bytes: &[u8]) -> Result<Self, String> {
        let file = object::File::parse(bytes).map_err(|error| error.to_string())?;
        let architecture = file.architecture();
        if !matches!(architecture, Architecture::X86_64 | Architecture::Aarch64) {
            return Err(format!("{architecture:?} is not decoded"));
        }
        let is_object = file.kind() == ObjectKind::Relocatable;
        let mut sections = vec![];
        let mut starts = HashMap::new();
        let mut end = MODULE;
        for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
            let address = match is_object {
                true => end.next_multiple_of(4096),
                false => section.address(),
            };
            end = address + section.size();
            starts.insert(section.index(), address);
            sections.push(Section {
                name: format!(
                    ".{}",
                    section.name().unwrap_or_default().trim_start_matches('.')
                ),
                address,
                text: section.data().map_err(|e| e.to_string())?.to_vec(),
            });
        }
        let address_of = |symbol: &object::Symbol<'_, '_>| match symbol.section_index() {
            _ if !is_object => Some(symbol.address()),
            Some(index) => Some(starts.get(&index)? + symbol.address()),
            None if symbol.is_undefined() => Some(OTHERS + symbol.index().0 as u64 * EACH),
            None => None,
        };
        if is_object {
            let texts = file.sections().filter(|s| s.kind() == SectionKind::Text);
            for (from, section) in texts.zip(&mut sections) {
                for (offset, relocation) in from.relocations() {
                    let RelocationTarget::Symbol(index) = relocation.target() else {
                        continue;
                    };
                    let symbol = file.symbol_by_index(index).map_err(|e| e.to_string())?;
                    let RelocationFlags::Elf { r_type } = relocation.flags() else {
                        continue;
                    };
                    if let Some(target) = address_of(&symbol) {
                        let target = target.wrapping_add_signed(relocation.addend());
                        relocate(section, offset, architecture, r_type, target)
                            .ok_or_else(|| format!("{}+{offset:#x}: relocation", section.name))?;
                    }
                }
            }
        }
        let symbols: Vec<_> = file
            .symbols()
            .filter(|s| !matches!(s.kind(), SymbolKind::Section | SymbolKind::File))
            .filter_map(|s| Some((address_of(&s)?, s.is_undefined(), s.name().ok()?.to_owned())))
            .filter(|(address, is_undefined, _)| {
                *is_undefined || sections.iter().any(|section| section.contains(*address))
            })
            .map(|(address, _, name)| (address, name))
            .collect();
        Ok(Self::new(architecture, sections, symbols))
    }

    /// As an ELF file, of which [`of_elf`](Self::of_elf) makes the same again, but for symbols that are
    /// outside of the text.
    pub fn to_elf(&self) -> Vec<u8> {
        const HEADER: usize = 64;
        let mut names = vec![0];
        let mut name = |text: &str| {
            let at = names.len() as u32;
            names.extend(text.bytes().chain([0]));
            at
        };
        let mut table = vec![0_u8; 24];
        for symbol in &self.symbols {
            let inside = |section: &Section| section.contains(symbol.address);
            let Some(index) = self.sections.iter().position(inside) else {
                continue;
            };
            for text in &symbol.names {
                table.extend(name(text).to_le_bytes());
                table.extend([elf::STT_FUNC, 0]);
                table.extend((index as u16 + 1).to_le_bytes());
                table.extend(symbol.address.to_le_bytes());
                table.extend([0; 8]);
            }
        }

        // Name, type, flags, address, data, link, info, size of an entry.
        type Head = (u32, u32, u32, u64, u32, u32, u64);
        let flags = elf::SHF_ALLOC | elf::SHF_EXECINSTR;
        let text =
            |s: &Section| -> Head { (name(&s.name), elf::SHT_PROGBITS, flags, s.address, 0, 0, 0) };
        let mut heads: Vec<Head> = vec![(0, elf::SHT_NULL, 0, 0, 0, 0, 0)];
        heads.extend(self.sections.iter().map(text));
        let strings = heads.len() as u32 + 1;
        let locals = table.len() as u32 / 24;
        heads.push((name(".symtab"), elf::SHT_SYMTAB, 0, 0, strings, locals, 24));
        heads.push((name(".strtab"), elf::SHT_STRTAB, 0, 0, 0, 0, 0));
        let mut contents: Vec<&[u8]> = vec![&[]];
        contents.extend(self.sections.iter().map(|section| &section.text[..]));
        contents.extend([&table[..], &names[..]]);

        let mut bytes = vec![0; HEADER];
        let mut headers = vec![];
        for (head, content) in heads.iter().zip(&contents) {
            let (name, kind, flags, address, link, info, entry) = *head;
            headers.extend([name, kind].map(u32::to_le_bytes).concat());
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let (offset, size) = (bytes.len() as u64, content.len() as u64);
            let words = [u64::from(flags), address, offset, size];
            headers.extend(words.map(u64::to_le_bytes).concat());
            headers.extend([link, info].map(u32::to_le_bytes).concat());
            headers.extend([1, entry].map(u64::to_le_bytes).concat());
            bytes.extend_from_slice(content);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let machine = match self.architecture {
            Architecture::Aarch64 => elf::EM_AARCH64,
            _ => elf::EM_X86_64,
        };
        let mut header = b"\x7fELF\x02\x01\x01".to_vec();
        header.resize(16, 0);
        header.extend([elf::ET_EXEC, machine].map(u16::to_le_bytes).concat());
        header.extend(1_u32.to_le_bytes());
        header.extend([0, 0, bytes.len() as u64].map(u64::to_le_bytes).concat());
        header.extend(0_u32.to_le_bytes());
        let counts = [
            HEADER as u16,
            0,
            0,
            HEADER as u16,
            heads.len() as u16,
            strings as u16,
        ];
        header.extend(counts.map(u16::to_le_bytes).concat());
        bytes[..HEADER].copy_from_slice(&header);
        bytes.extend(headers);
        bytes
    }

    /// The index of the symbol that an address belongs to.
    pub fn symbol(&self, address: u64) -> Option<usize> {
        self.symbols
            .partition_point(|symbol| symbol.address <= address)
            .checked_sub(1)
    }

    /// The names at exactly this address.
    pub fn names_at(&self, address: u64) -> &[String] {
        match self.symbol(address).map(|index| &self.symbols[index]) {
            Some(symbol) if symbol.address == address => &symbol.names,
            _ => &[],
        }
    }

    /// The text of a symbol, up to the next, if it has any.
    pub fn part(&self, index: usize) -> Option<Part<'_>> {
        let address = self.symbols[index].address;
        let section = self.sections.partition_point(|s| s.address <= address);
        let section = &self.sections[section.checked_sub(1)?];
        if !section.contains(address) {
            return None;
        }
        let end = section.address + section.text.len() as u64;
        let next = self
            .symbols
            .get(index + 1)
            .map_or(end, |next| next.address.min(end));
        let text =
            &section.text[(address - section.address) as usize..(next - section.address) as usize];
        Some(Part { address, text })
    }

    /// An address as people write it.
    pub fn place(&self, address: u64) -> String {
        match self.symbol(address) {
            Some(index) => {
                let symbol = &self.symbols[index];
                format!("{}+{:#x}", symbol.name(), address - symbol.address)
            }
            None => format!("{address:#x}"),
        }
    }
}

/// Labels that kallsyms leaves out: of assembly, and of arm64's sorts of text.
fn is_local_label(name: &str) -> bool {
    name.starts_with(".L") || name.starts_with("L0") || name.starts_with('$')
}

/// Writes a branch's or a load's distance to its target. Those that are neither are left alone.
fn relocate(
    section: &mut Section,
    offset: u64,
    architecture: Architecture,
    kind: u32,
    target: u64,
) -> Option<()> {
    let place = section.address + offset;
    let word = section
        .text
        .get_mut(usize::try_from(offset).ok()?..)?
        .first_chunk_mut()?;
    let distance = target.wrapping_sub(place);
    let bits = match (architecture, kind) {
        (Architecture::X86_64, elf::R_X86_64_PC32 | elf::R_X86_64_PLT32) => {
            *word = (distance as u32).to_le_bytes();
            return Some(());
        }
        (Architecture::Aarch64, elf::R_AARCH64_CALL26 | elf::R_AARCH64_JUMP26) => 0..26,
        (Architecture::Aarch64, elf::R_AARCH64_CONDBR19 | elf::R_AARCH64_LD_PREL_LO19) => 5..24,
        (Architecture::Aarch64, elf::R_AARCH64_TSTBR14) => 5..19,
        _ => return Some(()),
    };
    let mask = ((1 << bits.len()) - 1) << bits.start;
    let field = ((distance >> 2) as u32) << bits.start & mask;
    *word = (u32::from_le_bytes(*word) & !mask | field).to_le_bytes();
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_relocated() {
        use Architecture::{
            Aarch64,
            X86_64, //
        };
        let section = |word: u32| Section {
            name: ".text".to_owned(),
            address: 0x1000,
            text: [[0; 4], word.to_le_bytes()].concat(),
        };
        let cases = [
            (X86_64, elf::R_X86_64_PLT32, 0, 0x2000 - 4, 0xff8),
            (X86_64, elf::R_X86_64_PC32, 0, 0x1004, 0),
            // A number, or what is outside of the text.
            (X86_64, elf::R_X86_64_32S, 7, 0x2000, 7),
            // bl, b, b.ne, tbz, ldr, adrp
            (
                Aarch64,
                elf::R_AARCH64_CALL26,
                0x9400_0000,
                0x1000,
                0x97ff_ffff,
            ),
            (
                Aarch64,
                elf::R_AARCH64_JUMP26,
                0x1400_0000,
                0x1008,
                0x1400_0001,
            ),
            (
                Aarch64,
                elf::R_AARCH64_CONDBR19,
                0x5400_0001,
                0x1008,
                0x5400_0021,
            ),
            (
                Aarch64,
                elf::R_AARCH64_TSTBR14,
                0x3618_0000,
                0x1000,
                0x361f_ffe0,
            ),
            (
                Aarch64,
                elf::R_AARCH64_LD_PREL_LO19,
                0x5800_0000,
                0x1008,
                0x5800_0020,
            ),
            (
                Aarch64,
                elf::R_AARCH64_ADR_PREL_PG_HI21,
                0x9000_0000,
                0x9000,
                0x9000_0000,
            ),
        ];
        for (architecture, kind, word, target, expected) in cases {
            let mut section = section(word);
            relocate(&mut section, 4, architecture, kind, target).unwrap();
            let word = u32::from_le_bytes(*section.text[4..].first_chunk().unwrap());
            assert_eq!(word, expected, "{architecture:?} {kind}");
            assert_eq!(section.text[..4], [0; 4]);
        }
        assert!(relocate(&mut section(0), 5, X86_64, elf::R_X86_64_PC32, 0).is_none());
    }
}
