// SPDX-License-Identifier: GPL-2.0

//! The text of real kernels, against iced-x86: each instruction of modules and of a vmlinux, and the
//! exits of each function of the vmlinux.
//!
//! It takes minutes, and so is run only when it is asked for:
//!
//! ```text
//! INSN_FILES="vmlinux MODULE.ko DIRECTORY" cargo test --release --test insn -- --ignored --nocapture
//! ```
//!
//! Without INSN_FILES it takes what the toolroot's cache has.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use object::elf::R_X86_64_PC32;
use object::elf::R_X86_64_PLT32;
use object::Object;
use object::ObjectKind;
use object::ObjectSection;
use object::ObjectSymbol;
use object::RelocationFlags;
use object::RelocationTarget;
use object::SectionKind;
use object::SymbolKind;
use probe::insn::exits::is_cold_part;
use probe::insn::exits::Destination;
use probe::insn::exits::ExitKind;
use probe::insn::exits::Function;
use probe::insn::exits::Part;
use probe::insn::exits::Reason;
use probe::insn::exits::Verdict;
use probe::insn::x86;
use probe::insn::x86::X86;

use crate::oracle;
use crate::oracle::Outcome;

/// Where the text of a module is laid, and what it calls outside.
const MODULES: u64 = 0xffff_ffff_c000_0000;
const OTHERS: u64 = 0xffff_ffff_d000_0000;

/// The modules and kernels at a path.
fn find(path: &Path, found: &mut Vec<PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_symlink() {
        return;
    }
    if path.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        entries.sort();
        entries.iter().for_each(|entry| find(entry, found));
    } else if name.ends_with(".ko") || name.ends_with(".ko.xz") || name == "vmlinux" {
        found.push(path.to_owned());
    }
}

fn files() -> Vec<PathBuf> {
    let mut found = vec![];
    if let Ok(paths) = env::var("INSN_FILES") {
        for path in paths.split_whitespace() {
            find(Path::new(path), &mut found);
        }
        return found;
    }
    let cache = env::var_os("RKPROBE_CACHE").expect("neither INSN_FILES nor a toolroot");
    for entry in fs::read_dir(cache).unwrap() {
        let path = entry.unwrap().path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("kernel-") {
            find(&path.join("lib"), &mut found);
        } else if name.starts_with("debug-") && path.join("vmlinux").exists() {
            find(&path.join("vmlinux"), &mut found);
        }
    }
    found
}

fn read(path: &Path) -> Vec<u8> {
    match path.extension() {
        Some(extension) if extension == "xz" => {
            let output = Command::new("xz").arg("-dc").arg(path).output().unwrap();
            assert!(output.status.success(), "{path:?}");
            output.stdout
        }
        _ => fs::read(path).unwrap(),
    }
}

#[derive(Default)]
struct Count {
    files: u64,
    bytes: u64,
    insns: u64,
    differing: u64,
    functions: u64,
    verdicts: BTreeMap<String, u64>,
    returns: BTreeMap<usize, u64>,
    /// Parts that were moved away: those that a jump of their function leads to, of all.
    cold: (usize, usize),
}

impl Count {
    /// Each instruction of a section, one after the other.
    fn section(&mut self, path: &Path, name: &str, address: u64, text: &[u8]) {
        let mut offset = 0;
        self.bytes += text.len() as u64;
        while offset < text.len() {
            let rest = &text[offset..];
            let here = address.wrapping_add(offset as u64);
            let len = x86::decode(rest, here).map(|insn| usize::from(insn.len));
            match oracle::compare(rest, here) {
                Ok(Outcome::Same) => self.insns += 1,
                outcome => {
                    self.differing += 1;
                    let bytes = &rest[..rest.len().min(15)];
                    println!("{path:?} {name}+{offset:#x}: {bytes:02x?}: {outcome:?}");
                }
            }
            offset += len.unwrap_or(1);
        }
    }

    /// The exits of each function of a kernel.
    fn functions(&mut self, kernel: &Kernel) {
        let is_cold = |(_, name): &&(u64, String)| name.contains(".cold");
        self.cold.1 += kernel.symbols.iter().filter(is_cold).count();
        for (index, (address, name)) in kernel.symbols.iter().enumerate() {
            if name.starts_with("__pfx_") || name.contains(".cold") {
                continue;
            }
            let Some(part) = kernel.part(index) else {
                continue;
            };
            let mut parts = vec![part];
            let destination = |target| kernel.destination(name, target);
            self.functions += 1;
            let verdict = loop {
                let mut starts = vec![0; Function::<X86>::words(&parts)];
                let function = match Function::<X86>::sweep(&parts, &mut starts) {
                    Ok(function) => function,
                    Err(bad) => {
                        println!("{name}+{:#x}: {bad:x?}", bad.address.wrapping_sub(*address));
                        break match bad.reason {
                            Reason::Undefined => "bad text: undefined",
                            Reason::Target(_) => "bad text: target",
                            Reason::InnerCall(_) => "bad text: inner call",
                            _ => "bad text: other",
                        }
                        .to_owned();
                    }
                };
                match function.verdict(destination) {
                    Verdict::Part(target) => {
                        let index = kernel.index(target).unwrap();
                        self.cold.0 += 1;
                        parts.push(kernel.part(index).unwrap());
                    }
                    Verdict::Returns => {
                        let exits = function.exits(destination);
                        let is_return =
                            |kind| matches!(kind, ExitKind::Return | ExitKind::ReturnThunk);
                        let returns = exits.filter(|exit| is_return(exit.kind)).count();
                        *self.returns.entry(returns).or_default() += 1;
                        break "returns only".to_owned();
                    }
                    Verdict::NoReturn => break "no return".to_owned(),
                    Verdict::TailCall(exit) => {
                        break match exit.kind {
                            ExitKind::TailCall { target, .. } if target == *address => {
                                println!("{name}: to itself");
                                "tail call to itself"
                            }
                            ExitKind::TailCall {
                                is_conditional: true,
                                ..
                            } => "tail call, conditional",
                            ExitKind::TailCall { .. } => "tail call",
                            ExitKind::IndirectTailCall => "tail call, indirect",
                            ExitKind::FarReturn => "far return",
                            ExitKind::FallThrough => {
                                println!("{name}+{:#x}: falls", exit.address - address);
                                "falls through"
                            }
                            _ => unreachable!(),
                        }
                        .to_owned()
                    }
                }
            };
            *self.verdicts.entry(verdict).or_default() += 1;
        }
    }
}

/// A kernel or a module, with its symbols as kallsyms has them: each goes on to the next.
struct Kernel {
    /// Sorted.
    symbols: Vec<(u64, String)>,
    names: HashMap<u64, Vec<String>>,
    sections: Vec<(u64, Vec<u8>)>,
}

impl Kernel {
    fn new(file: &object::File<'_>) -> Self {
        let mut sections = vec![];
        let mut starts = HashMap::new();
        let mut end = MODULES;
        for section in text_sections(file) {
            let start = match file.kind() {
                ObjectKind::Executable => section.address(),
                _ => end.next_multiple_of(4096),
            };
            end = start + section.size();
            starts.insert(section.index(), start);
            sections.push((start, section.data().unwrap().to_vec()));
        }
        // Where a symbol is. Those of others are out of reach, each at a place of its own.
        let address = |symbol: &object::Symbol<'_, '_>| {
            let start = match symbol.section_index() {
                _ if file.kind() == ObjectKind::Executable => Some(0),
                Some(index) => starts.get(&index).copied(),
                None => Some(OTHERS + symbol.index().0 as u64 * 4096),
            };
            Some(start? + symbol.address())
        };
        if file.kind() == ObjectKind::Relocatable {
            let texts = text_sections(file).zip(&mut sections);
            for (section, (start, text)) in texts {
                for (offset, relocation) in section.relocations() {
                    let RelocationTarget::Symbol(index) = relocation.target() else {
                        continue;
                    };
                    let symbol = file.symbol_by_index(index).unwrap();
                    let is_branch = matches!(
                        relocation.flags(),
                        RelocationFlags::Elf {
                            r_type: R_X86_64_PC32 | R_X86_64_PLT32
                        }
                    );
                    if let Some(address) = address(&symbol).filter(|_| is_branch) {
                        let offset = offset as usize;
                        let place = *start + offset as u64;
                        let value = address
                            .wrapping_add_signed(relocation.addend())
                            .wrapping_sub(place) as u32;
                        text[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
                    }
                }
            }
        }
        let mut symbols = vec![];
        let mut names: HashMap<u64, Vec<String>> = HashMap::new();
        for symbol in file.symbols() {
            let name = symbol.name().unwrap();
            let is_named = !name.is_empty() && !name.starts_with(".L");
            let (true, Some(address)) = (is_named, address(&symbol)) else {
                continue;
            };
            let is_text = |(start, text): &(u64, Vec<u8>)| {
                (*start..start + text.len() as u64).contains(&address)
            };
            if symbol.kind() == SymbolKind::Section {
                continue;
            }
            if symbol.is_undefined() || sections.iter().any(is_text) {
                symbols.push((address, name.to_owned()));
                names.entry(address).or_default().push(name.to_owned());
            }
        }
        symbols.sort();
        symbols.dedup_by_key(|(address, _)| *address);
        Self {
            symbols,
            names,
            sections,
        }
    }

    fn index(&self, address: u64) -> Option<usize> {
        self.symbols
            .partition_point(|(start, _)| *start <= address)
            .checked_sub(1)
    }

    fn part(&self, index: usize) -> Option<Part<'_>> {
        let address = self.symbols[index].0;
        let within = |(start, text): &&(u64, Vec<u8>)| {
            (*start..start + text.len() as u64).contains(&address)
        };
        let (start, text) = self.sections.iter().find(within)?;
        let end = start + text.len() as u64;
        let next = self.symbols.get(index + 1).map_or(end, |(next, _)| *next);
        let text = &text[(address - start) as usize..(next.min(end) - start) as usize];
        Some(Part { address, text })
    }

    fn destination(&self, function: &str, target: u64) -> Destination {
        for name in self.names.get(&target).into_iter().flatten() {
            if x86::is_return_thunk(name) {
                return Destination::ReturnThunk;
            }
            if x86::is_indirect_thunk(name) {
                return Destination::IndirectThunk;
            }
        }
        match self.index(target) {
            Some(index) if is_cold_part(&self.symbols[index].1, function) => {
                // Else it is behind the last that there is.
                let offset = target - self.symbols[index].0;
                let is_within = |part: Part<'_>| offset < part.text.len() as u64;
                match self.part(index).is_some_and(is_within) {
                    true => Destination::Part,
                    false => Destination::Function,
                }
            }
            _ => Destination::Function,
        }
    }
}

fn text_sections<'a>(file: &'a object::File<'a>) -> impl Iterator<Item = object::Section<'a, 'a>> {
    file.sections()
        .filter(|section| section.kind() == SectionKind::Text)
}

#[test]
#[ignore = "takes minutes, and a kernel"]
fn real_code_is_decoded_as_iced_does() {
    let mut count = Count::default();
    for path in files() {
        let bytes = read(&path);
        let file = object::File::parse(&*bytes).unwrap();
        count.files += 1;
        for section in text_sections(&file) {
            let name = section.name().unwrap();
            count.section(&path, name, section.address(), section.data().unwrap());
        }
        count.functions(&Kernel::new(&file));
    }
    let Count {
        files,
        bytes,
        insns,
        differing,
        functions,
        ..
    } = count;
    println!("{files} files, {bytes} bytes of text, {insns} instructions, {differing} differing");
    println!("{functions} functions: {:?}", count.verdicts);
    println!("cold parts, named by a jump and all: {:?}", count.cold);
    println!("returns in a function: {:?}", count.returns);
    assert!(insns > 0);
    assert_eq!(differing, 0);
}
