// SPDX-License-Identifier: GPL-2.0

//! The symbols of the kernel: a record has addresses, and an answer has names, with the same text that the kernel would
//! print.

use std::{
    cell::{
        RefCell,
        RefMut, //
    },
    collections::HashMap,
    fs,
    rc::Rc, //
};

use crate::{
    failure::note,
    format::Names, //
};

/// The code to which a function returns if a return probe has replaced its return address, on x86-64 and on arm64.
const RETURN_TRAMPOLINES: [&str; 2] = ["arch_rethook_trampoline", "__kretprobe_trampoline"];
/// The kernel prints this text instead.
const RETURN_PROBE: &str = "[unknown/kretprobe'd]";
/// How `/proc/kallsyms` names the owners of code that has no symbols for the kernel: trampolines.
const WITHOUT_SYMBOLS: &str = "__builtin__";
/// How it names the owner of BPF programs, which the kernel does not print.
const BPF: &str = "bpf";
/// The memory of a module ends at the end of a page.
const PAGE: u64 = 4096;
/// The most bytes from the last symbol of a module to an address in it.
const MAX_LAST: u64 = 64 * 1024;
/// The most texts that are kept.
const MAX_KNOWN: usize = 1 << 16;

/// A line `ADDRESS TYPE NAME[\t[MODULE]]` of `/proc/kallsyms`.
#[derive(Debug, PartialEq)]
pub struct Line<'t> {
    pub address: &'t str,
    /// The letter that says what the symbol is.
    pub ty: &'t str,
    pub name: &'t str,
    /// Its module. `None` for the kernel itself.
    pub module: Option<&'t str>,
}

impl<'t> Line<'t> {
    /// Parses a line.
    pub fn parse(line: &'t str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        Some(Self {
            address: words.next()?,
            ty: words.next()?,
            name: words.next()?,
            module: words.next().map(|module| module.trim_matches(['[', ']'])),
        })
    }

    /// Whether the symbol is one of code. A few of these are data.
    pub fn is_code(&self) -> bool {
        matches!(self.ty, "t" | "T" | "w" | "W")
    }
}

/// A symbol.
#[derive(Clone, Copy)]
struct Symbol {
    address: u64,
    /// The start of its line in the text.
    line: u32,
    is_code: bool,
    is_of_module: bool,
}

/// The symbols of `/proc/kallsyms`.
#[derive(Default)]
struct Table {
    text: String,
    /// By address. Those of the same address have the order of the text.
    symbols: Vec<Symbol>,
    /// The addresses of the kernel image.
    image: (u64, u64),
}

/// What is at an address.
#[derive(Debug, PartialEq)]
struct Found<'t> {
    name: &'t str,
    module: Option<&'t str>,
    offset: u64,
    size: u64,
}

impl Table {
    fn parse(text: String) -> Self {
        let mut symbols = Vec::new();
        let mut image = (0, u64::MAX);
        let mut end = 0;
        for text in text.split_inclusive('\n') {
            let start = end;
            end += text.len();
            let Some(line) = Line::parse(text) else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(line.address, 16) else {
                continue;
            };
            match line.name {
                "_stext" => image.0 = address,
                "_end" => image.1 = address,
                _ => {}
            }
            let (Ok(start), false) = (u32::try_from(start), is_mapping(line.name)) else {
                continue;
            };
            symbols.push(Symbol {
                address,
                line: start,
                is_code: line.is_code(),
                is_of_module: line.module.is_some(),
            });
        }
        symbols.sort_by_key(|symbol| symbol.address);
        Self {
            text,
            symbols,
            image,
        }
    }

    /// The name and the module of a symbol.
    fn name(&self, symbol: Symbol) -> (&str, Option<&str>) {
        let line = self.text[symbol.line as usize..].lines().next();
        let line = line.and_then(Line::parse);
        line.map_or(("", None), |line| (line.name, line.module))
    }

    /// The symbol at or before an address, if the address belongs to it.
    fn find(&self, address: u64) -> Option<Found<'_>> {
        let next = self
            .symbols
            .partition_point(|symbol| symbol.address <= address);
        let start = self.symbols.get(next.checked_sub(1)?)?.address;
        let first = self
            .symbols
            .partition_point(|symbol| symbol.address < start);
        let symbol = self.symbols[first];
        let (name, module) = self.name(symbol);
        let next = self.symbols.get(next).copied();
        let end = match module {
            None if address < self.image.0 || address >= self.image.1 => return None,
            None => next?.address,
            Some(module) if module.starts_with(WITHOUT_SYMBOLS) => return None,
            Some(module) => match next {
                Some(next) if next.is_code && self.name(next).1 == Some(module) => next.address,
                // The kernel knows where the memory of the module ends, and the tool does not.
                next => {
                    let end = (address / PAGE + 1).checked_mul(PAGE)?;
                    next.map_or(end, |next| end.min(next.address))
                }
            },
        };
        if symbol.is_of_module && address - start >= MAX_LAST {
            return None;
        }
        Some(Found {
            name,
            module: module.filter(|module| *module != BPF),
            offset: address - start,
            size: end - start,
        })
    }
}

/// Whether a symbol is one of the assembler, which the kernel skips. C: `is_mapping_symbol()`.
pub fn is_mapping(name: &str) -> bool {
    name.starts_with(".L") || name.starts_with("L0") || name.starts_with('$')
}

/// What the kernel has loaded: the names, the states and the addresses of its modules.
fn loaded() -> String {
    let text = fs::read_to_string("/proc/modules").unwrap_or_default();
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let part = |at: usize| words.get(at).copied().unwrap_or("");
        format!("{} {} {}\n", part(0), part(4), part(5))
    };
    text.lines().map(of_line).collect()
}

/// What the kernel lists: its symbols, and the modules that were loaded before it began.
#[derive(Clone)]
pub struct Listing {
    modules: String,
    pub text: String,
}

impl Listing {
    /// The list that the kernel has now. It takes long to print. Empty if it cannot be read.
    pub fn read() -> Self {
        Self {
            modules: loaded(),
            text: fs::read_to_string("/proc/kallsyms").unwrap_or_default(),
        }
    }

    /// A list of the kernel alone, for tests.
    #[cfg(test)]
    pub fn of(text: &str) -> Self {
        Self {
            modules: String::new(),
            text: text.into(),
        }
    }
}

/// The symbols, as the kernel has them now.
#[derive(Default)]
struct Current {
    table: Table,
    /// The modules whose symbols the table has.
    modules: Option<String>,
    known: HashMap<u64, Rc<str>>,
}

impl Current {
    fn refresh(&mut self) {
        if self.modules.as_ref() != Some(&loaded()) {
            self.take(Listing::read());
        }
    }

    fn take(&mut self, listing: Listing) {
        let is_first = self.modules.is_none();
        self.modules = Some(listing.modules);
        self.known.clear();
        self.table = Table::parse(listing.text);
        let is_hidden = self
            .table
            .symbols
            .last()
            .is_none_or(|symbol| symbol.address == 0);
        if is_first && is_hidden {
            note("rkprobe: /proc/kallsyms hides addresses, so functions are shown as numbers");
        }
    }
}

/// The symbols of the kernel.
#[derive(Default)]
pub struct Symbols(RefCell<Current>);

impl Symbols {
    /// Takes the symbols of a list, unless there are some already.
    pub fn load(&self, listing: &Listing) {
        let mut current = self.0.borrow_mut();
        if current.modules.is_none() {
            current.take(listing.clone());
        }
    }

    /// Reads the symbols, unless they are those of the modules that the kernel has now.
    pub fn refresh(&self) {
        self.0.borrow_mut().refresh();
    }

    /// The names of addresses.
    pub fn names(&self) -> impl Names + '_ {
        Known(self.0.borrow_mut())
    }
}

/// The names of addresses, some of which are known.
struct Known<'s>(RefMut<'s, Current>);

impl Names for Known<'_> {
    fn symbol(&mut self, address: u64) -> Rc<str> {
        let Current { table, known, .. } = &mut *self.0;
        if let Some(text) = known.get(&address) {
            return Rc::clone(text);
        }
        let text: Rc<str> = match table.find(address) {
            Some(found) => {
                let module = found
                    .module
                    .map_or(String::new(), |name| format!(" [{name}]"));
                format!(
                    "{}+{:#x}/{:#x}{module}",
                    found.name, found.offset, found.size
                )
                .into()
            }
            None => format!("{address:#x}").into(),
        };
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(address, Rc::clone(&text));
        text
    }

    fn code(&mut self, address: u64) -> Rc<str> {
        if address == 0 {
            return "0".into();
        }
        let text = self.symbol(address);
        let is_text = |name| {
            let rest = text.strip_prefix(name);
            rest.is_some_and(|rest: &str| rest.starts_with("+0x0/"))
        };
        match RETURN_TRAMPOLINES.into_iter().any(is_text) {
            true => RETURN_PROBE.into(),
            false => text,
        }
    }

    fn function(&mut self, address: u64) -> Rc<str> {
        let text = self.code(address);
        match text.starts_with("0x") {
            true => format!("{address:#010x}").into(),
            false => text.split('+').next().unwrap_or("").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0000000000000000 A percpu\n\
        ffffffff81000000 T _stext\n\
        ffffffff81000000 T alias\n\
        ffffffff81000100 t f\n\
        ffffffff81000180 T arch_rethook_trampoline\n\
        ffffffff81000200 d data\n\
        ffffffff81000300 B _end\n\
        ffffffffc0000010 t g\t[m]\n\
        ffffffffc0000018 t $x\t[m]\n\
        ffffffffc0002020 t h\t[m]\n\
        ffffffffc0004000 d rest\t[m]\n\
        ffffffffc0005000 t ftrace_trampoline\t[__builtin__ftrace]\n\
        ffffffffc0006000 t bpf_prog_1\t[bpf]\n";

    fn symbols() -> Symbols {
        let current = Current {
            table: Table::parse(TEXT.into()),
            ..Current::default()
        };
        Symbols(RefCell::new(current))
    }

    #[test]
    fn names_are_those_that_the_kernel_prints() {
        let symbols = symbols();
        let mut names = symbols.names();
        for (address, symbol) in [
            (0xffff_ffff_8100_0000, "_stext+0x0/0x100"),
            (0xffff_ffff_8100_0104, "f+0x4/0x80"),
            (0xffff_ffff_8100_0300, "0xffffffff81000300"),
            (0x10, "0x10"),
            (0, "0x0"),
            (0xffff_ffff_c000_0000, "0xffffffffc0000000"),
            (0xffff_ffff_c000_0019, "g+0x9/0x2010 [m]"),
            (0xffff_ffff_c000_2021, "h+0x1/0xfe0 [m]"),
            (0xffff_ffff_c000_5010, "0xffffffffc0005010"),
            (0xffff_ffff_c000_6010, "bpf_prog_1+0x10/0x1000"),
            (0xffff_ffff_d000_0000, "0xffffffffd0000000"),
            (u64::MAX, "0xffffffffffffffff"),
        ] {
            assert_eq!(&*names.symbol(address), symbol);
            assert_eq!(&*names.symbol(address), symbol);
        }
    }

    #[test]
    fn functions_have_no_offset() {
        let symbols = symbols();
        let mut names = symbols.names();
        for (address, code, function) in [
            (0, "0", "0"),
            (0x10, "0x10", "0x00000010"),
            (0xffff_ffff_8100_0104, "f+0x4/0x80", "f"),
            (0xffff_ffff_c000_0019, "g+0x9/0x2010 [m]", "g"),
            (0xffff_ffff_8100_0180, RETURN_PROBE, RETURN_PROBE),
        ] {
            assert_eq!(
                (&*names.code(address), &*names.function(address)),
                (code, function)
            );
        }
    }

    #[test]
    fn any_text_has_symbols_or_none() {
        for text in [
            "",
            "x\n",
            "0 t\n",
            "zz t f\n",
            "10 t f\t\n",
            "10 t f\t[m]",
            "\n\n",
        ] {
            let table = Table::parse(text.into());
            for address in [0, 1, 0x10, 0x11, u64::MAX] {
                table.find(address);
            }
        }
    }
}
