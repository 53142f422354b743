// SPDX-License-Identifier: GPL-2.0

//! The functions of the kernel and of its loaded modules: which of them can be probed, and why others cannot.

use std::{
    cell::{
        OnceCell,
        RefCell, //
    },
    collections::HashSet,
    fmt::{
        self,
        Display,
        Formatter, //
    },
    fs,
    path::PathBuf, //
};

use crate::{
    symbols::{
        Line,
        Listing, //
    },
    tracefs::Tracefs, //
};

/// The functions that no kprobe can probe.
const BLACKLIST: &str = "/sys/kernel/debug/kprobes/blacklist";
/// The functions that ftrace can trace.
const TRACEABLE: &str = "available_filter_functions";
/// The trace events of the kernel, as `SYSTEM:EVENT`.
const EVENTS: &str = "available_events";
/// How the names of the padding before functions start.
pub const PADDING: &str = "__pfx_";

/// How a command probes a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// By ftrace: `f`.
    Ftrace,
    /// By a kprobe: `p` and `r`.
    Kprobe,
    /// By one of them.
    Any,
    /// Not at all: the command only reads the function.
    Read,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol<'s> {
    pub name: &'s str,
    /// Its module. Empty for the kernel itself.
    pub module: &'s str,
}

impl Symbol<'_> {
    /// Whether the symbol is the padding before a function.
    pub fn is_padding(&self) -> bool {
        self.name.starts_with(PADDING)
    }

    /// How a command of the tool writes the function.
    pub fn full_name(&self) -> String {
        match self.module {
            "" => self.name.into(),
            module => format!("{module}:{}", self.name),
        }
    }
}

impl<'s> From<Line<'s>> for Symbol<'s> {
    fn from(line: Line<'s>) -> Self {
        symbol(line.name, line.module)
    }
}

/// As the kernel prints it.
impl Display for Symbol<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.module {
            "" => write!(f, "{}", self.name),
            module => write!(f, "{} [{module}]", self.name),
        }
    }
}

/// What the kernel says about its functions. The lists are read when they are needed.
pub struct Functions {
    /// Whether the run waits for a module that is not loaded.
    pub waits: bool,
    /// Whether the run asks the kernel for probes, which can refuse them.
    pub are_asked_for: bool,
    /// The functions that the kernel checks when it is asked for a probe. See [`Functions::explain`].
    pub left_to_kernel: RefCell<Vec<(String, Method)>>,
    traceable_file: PathBuf,
    listing: OnceCell<Listing>,
    traceable: OnceCell<String>,
    blacklist: OnceCell<String>,
    events_file: PathBuf,
    events: OnceCell<String>,
}

impl Functions {
    pub fn new(tracefs: &Tracefs) -> Self {
        Self {
            waits: false,
            are_asked_for: !tracefs.is_dry(),
            left_to_kernel: RefCell::default(),
            traceable_file: tracefs.path(TRACEABLE),
            listing: OnceCell::new(),
            traceable: OnceCell::new(),
            blacklist: OnceCell::new(),
            events_file: tracefs.path(EVENTS),
            events: OnceCell::new(),
        }
    }

    /// The kernel's list of symbols.
    pub fn listing(&self) -> &Listing {
        self.listing.get_or_init(Listing::read)
    }

    /// The text of the list. Empty if it cannot be read.
    pub fn symbols(&self) -> &str {
        &self.listing().text
    }

    /// The list of the functions that ftrace can trace. Empty if it cannot be read.
    fn traceable_list(&self) -> &str {
        self.traceable
            .get_or_init(|| fs::read_to_string(&self.traceable_file).unwrap_or_default())
    }

    /// The functions that ftrace can trace. Empty if this is unknown.
    pub fn traceable(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.traceable_list().lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?;
            let is_function = !name.starts_with("__ftrace_invalid_address__");
            is_function.then(|| symbol(name, words.next()))
        })
    }

    /// The functions that no kprobe can probe.
    pub fn blacklisted(&self) -> impl Iterator<Item = Symbol<'_>> {
        let read = || fs::read_to_string(BLACKLIST).unwrap_or_default();
        self.blacklist.get_or_init(read).lines().filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            Some(symbol(words.next()?, words.next()))
        })
    }

    /// The systems and the names of all trace events.
    pub fn trace_events(&self) -> impl Iterator<Item = (&str, &str)> {
        let read = || fs::read_to_string(&self.events_file).unwrap_or_default();
        let events = self.events.get_or_init(read).lines();
        events.filter_map(|line| line.split_once(':'))
    }

    /// The system and the name of a trace event.
    pub fn trace_event(&self, system: Option<&str>, name: &str) -> Option<(&str, &str)> {
        self.trace_events()
            .find(|event| event.1 == name && system.is_none_or(|system| system == event.0))
    }

    /// All symbols, with their addresses.
    pub fn all(&self) -> impl Iterator<Item = (&str, Symbol<'_>)> {
        self.lines().map(with_address)
    }

    /// The symbols of code, with their addresses. A few of them are data.
    pub fn code(&self) -> impl Iterator<Item = (&str, Symbol<'_>)> {
        self.lines().filter(Line::is_code).map(with_address)
    }

    /// The lines of the list of symbols.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.symbols().lines().filter_map(Line::parse)
    }

    /// The functions of a name, with their addresses.
    pub fn named<'s>(&'s self, name: &str, module: Option<&str>) -> Vec<(&'s str, Symbol<'s>)> {
        // To parse all lines takes ten times as long.
        lines_with(self.symbols(), name)
            .filter_map(Line::parse)
            .filter(Line::is_code)
            .map(with_address)
            .filter(|(_, symbol)| {
                symbol.name == name && module.is_none_or(|of| symbol.module == of)
            })
            .collect()
    }

    /// The module of a function, from `MODULE:FUNCTION` or the list of symbols. `None` if the kernel itself has it.
    pub fn module_of(&self, function: &str) -> Option<String> {
        if let Some((module, _)) = function.split_once(':') {
            return Some(module.into());
        }
        let all = self.named(function, None);
        let (_, first) = all.first()?;
        (!first.module.is_empty()).then(|| first.module.into())
    }

    /// Whether ftrace can trace a function. True if this is unknown.
    fn is_traceable(&self, address: &str, symbol: Symbol<'_>) -> bool {
        if self.traceable_list().is_empty() || self.traceable().any(|other| other == symbol) {
            return true;
        }
        // The list has one of several names of an address.
        let names: HashSet<Symbol<'_>> = self
            .code()
            .filter(|(other, _)| *other == address && address.contains(|digit| digit != '0'))
            .map(|(_, symbol)| symbol)
            .collect();
        self.traceable().any(|other| names.contains(&other))
    }

    /// Whether a kprobe can be in a function, as far as ftrace decides. The compiler splits parts off functions, and
    /// the whole function decides. C: `within_notrace_func()`.
    fn has_traceable_whole(&self, symbol: Symbol<'_>) -> bool {
        let whole = symbol.name.split_once('.').map(|(whole, _)| whole);
        whole.is_some_and(|whole| {
            let all = self.named(whole, None);
            all.iter()
                .any(|(address, symbol)| self.is_traceable(address, *symbol))
        })
    }

    /// Why a function cannot be probed, as the end of a sentence. `None` if it can.
    pub fn why_not(&self, address: &str, symbol: Symbol<'_>, method: Method) -> Option<String> {
        if let Some(name) = symbol.name.strip_prefix(PADDING) {
            return Some(format!("is padding before {name}, and no function"));
        }
        if method == Method::Read {
            return None;
        }
        let is_traceable = self.is_traceable(address, symbol);
        if method != Method::Kprobe && is_traceable {
            return None;
        }
        if method != Method::Ftrace && self.blacklisted().any(|other| other == symbol) {
            return Some(match is_traceable {
                true => "is on the kernel's blacklist of kprobes; count, fails, lat and slow can probe it",
                false => "is on the kernel's blacklist of kprobes, and ftrace cannot trace it",
            }.into());
        }
        let has_site =
            is_traceable || (method != Method::Ftrace && self.has_traceable_whole(symbol));
        (!has_site).then(|| {
            "cannot be probed: ftrace does not know it (notrace, assembly, or data)".into()
        })
    }
}

/// The lines of a text that contain a name.
fn lines_with<'t, 'n>(text: &'t str, name: &'n str) -> impl Iterator<Item = &'t str> + use<'t, 'n> {
    let mut end = 0;
    text.match_indices(name).filter_map(move |(at, _)| {
        let start = text[..at].rfind('\n').map_or(0, |before| before + 1);
        // A line can contain the name twice.
        (start >= end).then(|| {
            let line = text[start..].lines().next().unwrap_or_default();
            end = start + line.len() + 1;
            line
        })
    })
}

fn with_address(line: Line<'_>) -> (&str, Symbol<'_>) {
    (line.address, line.into())
}

fn symbol<'s>(name: &'s str, module: Option<&'s str>) -> Symbol<'s> {
    Symbol {
        name,
        module: module.map_or("", |module| module.trim_matches(['[', ']'])),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    #[test]
    fn knows_modules() {
        let module = |name| functions().module_of(name);
        assert_eq!(module("mod_write").unwrap(), "mod");
        assert_eq!(module("vfs_read"), None);
        assert_eq!(module("a:b").unwrap(), "a");
    }

    #[test]
    fn a_name_is_found_in_whole_words_only() {
        let all = of("10 t of_it\n11 t it\t[it]\n12 d it\n13 t it", "", "");
        let found = |name| -> Vec<&str> {
            let found = all.named(name, None).into_iter();
            found.map(|(address, _)| address).collect()
        };
        assert_eq!(found("it"), ["11", "13"]);
        assert_eq!(found("of_it"), ["10"]);
        assert!(found("").is_empty());
        assert_eq!(all.named("it", Some("it")).len(), 1);
    }

    /// What a small kernel says.
    pub fn functions() -> Functions {
        let symbols = "10 t vfs_read\n11 t __pfx_vfs_read\n12 T vfs_write\n13 t mod_write\t[mod]\n14 d vfs_data\n\
            15 T memcpy\n15 T __memcpy\n16 t name_show\n17 t name_show\n18 t name_show\t[mod]\n19 t do_int3\n\
            20 t copied.isra.0\n21 t vfs_read.cold\n22 t lost.cold\n23 t args__execve\n24 T __x64_sys_execve\n\
            25 T __arm64_sys_execve\n26 t exc_int3\n12 T alias_of_write\n";
        let traceable = "vfs_read\nvfs_write\nmod_write [mod]\nname_show\nname_show\nname_show [mod]\ndo_int3\n\
            copied.isra.0\n__x64_sys_execve\n__arm64_sys_execve\n__ftrace_invalid_address___5\n";
        let blacklist = "0x19-0x20\tdo_int3\n0x26-0x27\texc_int3\n";
        of(symbols, traceable, blacklist)
    }

    pub fn of(symbols: &str, traceable: &str, blacklist: &str) -> Functions {
        Functions {
            waits: false,
            are_asked_for: false,
            left_to_kernel: RefCell::default(),
            traceable_file: "/no/such/file".into(),
            listing: OnceCell::from(Listing::of(symbols)),
            traceable: OnceCell::from(traceable.to_string()),
            blacklist: OnceCell::from(blacklist.to_string()),
            events_file: "/no/such/file".into(),
            events: OnceCell::from("block:block_rq_issue\nx:f\nsched:sched_switch\n".to_string()),
        }
    }
}
