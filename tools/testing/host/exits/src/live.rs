// SPDX-License-Identifier: GPL-2.0

//! The text of the kernel that runs, and of its modules, from `/proc/kcore` and `/proc/kallsyms`.

use std::{
    collections::BTreeMap,
    fs::{
        self,
        File, //
    },
    io,
    os::unix::fs::FileExt, //
};

use object::{
    elf::FileHeader64,
    read::elf::{
        FileHeader,
        ProgramHeader, //
    },
    Architecture,
    Endianness, //
};

use crate::image::{
    Image,
    Section, //
};

const PAGE: u64 = 4096;

/// The memory of the kernel.
struct Core {
    file: File,
    /// Address, size, offset in the file.
    segments: Vec<(u64, u64, u64)>,
}

impl Core {
    fn open() -> io::Result<Self> {
        let file = File::open("/proc/kcore")?;
        let mut head = vec![0; 1 << 16];
        let len = file.read_at(&mut head, 0)?;
        let segments = |head: &[u8]| -> object::Result<_> {
            let header = FileHeader64::<Endianness>::parse(head)?;
            let endian = header.endian()?;
            let segment = |segment: &object::elf::ProgramHeader64<Endianness>| {
                let offset = segment.p_offset(endian);
                (segment.p_vaddr(endian), segment.p_memsz(endian), offset)
            };
            Ok(header
                .program_headers(endian, head)?
                .iter()
                .map(segment)
                .collect())
        };
        let segments = segments(&head[..len]).map_err(io::Error::other)?;
        Ok(Self { file, segments })
    }

    fn read(&self, address: u64, len: u64) -> io::Result<Vec<u8>> {
        let contains = |(start, size, _): &&(u64, u64, u64)| {
            let offset = address.checked_sub(*start);
            offset.is_some_and(|offset| offset + len <= *size)
        };
        let (start, _, offset) = self
            .segments
            .iter()
            .find(contains)
            .ok_or_else(|| io::Error::other(format!("/proc/kcore has no {address:#x}")))?;
        let mut bytes = vec![0; len as usize];
        self.file
            .read_exact_at(&mut bytes, offset + (address - start))?;
        Ok(bytes)
    }
}

/// A line of kallsyms.
struct Line<'a> {
    address: u64,
    is_text: bool,
    name: &'a str,
    module: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let is_text = matches!(words.next()?, "t" | "T" | "w" | "W");
        let name = words.next()?;
        let module = words.next();
        Some(Self {
            address,
            is_text,
            name,
            module,
        })
    }
}

/// Reads it all.
///
/// # Errors
///
/// Those of the files, and that kallsyms has no addresses.
pub fn image() -> io::Result<Image> {
    let core = Core::open()?;
    let kallsyms = fs::read_to_string("/proc/kallsyms")?;
    let loaded = fs::read_to_string("/proc/modules")?;
    let is_module = |name: &str| {
        loaded
            .lines()
            .any(|line| line.split(' ').next() == Some(name))
    };
    let lines: Vec<Line<'_>> = kallsyms.lines().filter_map(Line::parse).collect();

    let address = |name: &str| {
        let line = lines
            .iter()
            .find(|line| line.name == name && line.address != 0);
        let none = || io::Error::other(format!("/proc/kallsyms has no address of {name}"));
        line.map(|line| line.address).ok_or_else(none)
    };
    let (start, end) = (address("_stext")?, address("_etext")?);
    let mut sections = vec![Section {
        name: ".text".to_owned(),
        address: start,
        text: core.read(start, end - start)?,
    }];

    // Which modules have symbols in a page.
    let mut pages: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let mut modules: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for line in &lines {
        let Some(module) = line
            .module
            .and_then(|name| name.strip_prefix('[')?.strip_suffix(']'))
        else {
            continue;
        };
        let page = line.address & !(PAGE - 1);
        pages.entry(page).or_default().push(module);
        if line.is_text && is_module(module) {
            let (first, last) = modules.entry(module).or_insert((page, page));
            *first = page.min(*first);
            *last = page.max(*last);
        }
    }
    for (module, (first, last)) in modules {
        let mut text = core.read(first, last - first + PAGE)?;
        // The last function may go on in pages that no symbol is in: up to one that is another's, or filled.
        for page in (last + PAGE..).step_by(PAGE as usize) {
            let more = core.read(page, PAGE)?;
            if pages.contains_key(&page) || more.iter().all(|byte| *byte == more[0]) {
                break;
            }
            text.extend(more);
        }
        sections.push(Section {
            name: format!(".{module}"),
            address: first,
            text,
        });
    }

    let is_within = |address: u64| {
        let within = |s: &Section| (s.address..s.address + s.text.len() as u64).contains(&address);
        sections.iter().any(within)
    };
    let symbols: Vec<_> = lines
        .iter()
        .filter(|line| is_within(line.address))
        .map(|line| (line.address, line.name.to_owned()))
        .collect();
    let architecture = match std::env::consts::ARCH {
        "aarch64" => Architecture::Aarch64,
        _ => Architecture::X86_64,
    };
    Ok(Image::new(architecture, sections, symbols))
}
