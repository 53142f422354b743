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

use object::Object;
use object::ObjectKind;
use object::ObjectSection;
use object::ObjectSymbol;
use object::SectionKind;
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
    fn functions(&mut self, kernel: &Kernel<'_>) {
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

/// A kernel, with its symbols as kallsyms has them: each goes on to the next.
struct Kernel<'a> {
    symbols: Vec<(u64, &'a str)>,
    names: HashMap<u64, Vec<&'a str>>,
    sections: Vec<(u64, &'a [u8])>,
}

impl<'a> Kernel<'a> {
    fn new(file: &'a object::File<'a>) -> Self {
        let mut sections = vec![];
        for section in text_sections(file) {
            sections.push((section.address(), section.data().unwrap()));
        }
        let is_text = |address| {
            let within = |(start, text): &(u64, &[u8])| {
                (*start..start + text.len() as u64).contains(&address)
            };
            sections.iter().any(within)
        };
        let mut symbols = vec![];
        let mut names: HashMap<u64, Vec<&str>> = HashMap::new();
        for symbol in file.symbols() {
            let name = symbol.name().unwrap();
            if is_text(symbol.address())
                && !name.is_empty()
                && !name.starts_with(".L")
                && symbol.kind() != object::SymbolKind::Section
            {
                symbols.push((symbol.address(), name));
                names.entry(symbol.address()).or_default().push(name);
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

    fn part(&self, index: usize) -> Option<Part<'a>> {
        let address = self.symbols[index].0;
        let within =
            |(start, text): &&(u64, &[u8])| (*start..start + text.len() as u64).contains(&address);
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
            Some(index) if is_cold_part(self.symbols[index].1, function) => Destination::Part,
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
        if file.kind() == ObjectKind::Executable {
            count.functions(&Kernel::new(&file));
        }
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
    println!("returns in a function: {:?}", count.returns);
    assert!(insns > 0);
    assert_eq!(differing, 0);
}
