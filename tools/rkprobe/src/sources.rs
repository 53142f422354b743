// SPDX-License-Identifier: GPL-2.0

//! Places in the source, and where their code is: lines, and functions that exist only as copies in others.

use std::collections::{
    BTreeMap,
    BTreeSet, //
};

use gimli::{
    Dwarf,
    Unit, //
};
use probe::btf::Btf;

use crate::{
    dwarf::{
        self,
        Bytes,
        Information,
        Mentions, //
    },
    locations::Place,
    scopes::Scopes,
    value::Value,
    variables::{
        visible,
        Variable, //
    }, //
};

/// How a name asks for the copies of a function.
const INLINE: &str = "%inline";

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source<'t> {
    Line(&'t str, u64),
    /// The copies of a function.
    Copies(&'t str),
    /// So many bytes after the start of a function.
    Offset(&'t str, u64),
}

/// A place in the source, of the kernel or of a module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked<'t> {
    /// Empty for the kernel.
    pub module: &'t str,
    pub source: Source<'t>,
}

impl<'t> Asked<'t> {
    /// Reads `[MODULE:]FILE:LINE` or `[MODULE:]FUNCTION%inline`.
    pub fn parse(text: &'t str) -> Option<Self> {
        let (module, rest) = text.split_once(':').unwrap_or(("", text));
        if let Some(function) = rest.strip_suffix(INLINE) {
            let source = Source::Copies(function);
            return Some(Self { module, source });
        }
        let (start, line) = text.rsplit_once(':')?;
        let line = line.parse().ok()?;
        let (module, file) = start.split_once(':').unwrap_or(("", start));
        let source = Source::Line(file, line);
        // Names of functions have neither, unless the compiler made them.
        (file.contains(['.', '/']) && line > 0).then_some(Self { module, source })
    }
}

/// A variable at a site.
#[derive(Debug)]
pub struct Listed {
    pub name: String,
    pub ty: String,
    /// How to read it, or why it cannot be read.
    pub value: Result<Value, String>,
    /// The next line of the function where it can be read.
    pub next: Option<u64>,
}

/// Where code of a place in the source begins.
#[derive(Debug)]
pub struct Site {
    /// The address in the file of the debug information.
    pub address: u64,
    /// The function that contains it, and the offset.
    pub symbol: String,
    pub offset: u64,
    /// Whether no other symbol has the name.
    pub is_single: bool,
    pub line: Option<(String, u64)>,
    pub variables: Vec<Listed>,
    /// The values that the user wants to see, or why they cannot be read.
    pub chosen: Vec<Result<Value, String>>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    pub sites: Vec<Site>,
    /// Whether the file or the function exists.
    pub is_known: bool,
    /// The next line that has code.
    pub next_line: Option<u64>,
}

/// A value that the user wants to see: `[NAME=]VARIABLE`, with members behind it.
struct Choice<'c> {
    name: &'c str,
    variable: &'c str,
    path: &'c str,
}

impl<'c> Choice<'c> {
    fn parse(text: &'c str) -> Self {
        let (name, fetch) = match text.split_once('=') {
            Some((name, fetch)) => (Some(name), fetch),
            None => (None, text),
        };
        let end = fetch.find(['-', '.']).unwrap_or(fetch.len());
        let (variable, path) = fetch.split_at(end);
        let last = fetch.rsplit(['>', '.']).next().unwrap_or(fetch);
        Self {
            name: name.unwrap_or(last),
            variable,
            path,
        }
    }
}

/// A row of the table of lines.
struct Row {
    address: u64,
    file: u64,
    line: u64,
    is_statement: bool,
}

/// The rows of a unit, in the order of their addresses, and the names of its files.
struct Rows {
    rows: Vec<Row>,
    files: BTreeMap<u64, String>,
}

impl Rows {
    fn of<'d>(dwarf: &Dwarf<Bytes<'d>>, unit: &Unit<Bytes<'d>>) -> gimli::Result<Self> {
        let mut all = Self {
            rows: Vec::new(),
            files: files(dwarf, unit, |_| true)?,
        };
        let Some(program) = unit.line_program.clone() else {
            return Ok(all);
        };
        let mut rows = program.rows();
        while let Some((_, row)) = rows.next_row()? {
            // The linker gives the address 0 to what it removes.
            if row.address() > 0 {
                all.rows.push(Row {
                    address: row.address(),
                    file: row.file_index(),
                    line: row.line().map_or(0, |line| line.get()),
                    is_statement: row.is_stmt() && !row.end_sequence(),
                });
            }
        }
        all.rows.sort_by_key(|row| row.address);
        Ok(all)
    }

    /// The line of the code at an address.
    fn line_at(&self, address: u64) -> Option<(String, u64)> {
        let end = self.rows.partition_point(|row| row.address <= address);
        let row = self.rows[..end].last()?;
        let file = self.files.get(&row.file)?;
        (row.line > 0).then(|| (file.clone(), row.line))
    }
}

/// The files of a unit that have a wanted name, by their numbers.
fn files<'d>(
    dwarf: &Dwarf<Bytes<'d>>,
    unit: &Unit<Bytes<'d>>,
    is_wanted: impl Fn(&str) -> bool,
) -> gimli::Result<BTreeMap<u64, String>> {
    let mut found = BTreeMap::new();
    let Some(program) = &unit.line_program else {
        return Ok(found);
    };
    let header = program.header();
    let text = |value| -> gimli::Result<&'d str> {
        let text = dwarf.attr_string(unit, value)?;
        Ok(std::str::from_utf8(text.slice()).unwrap_or(""))
    };
    // Before version 5, the files are counted from 1.
    let first = u64::from(header.version() < 5);
    for (number, file) in (first..).zip(header.file_names()) {
        let name = text(file.path_name())?;
        if !is_wanted(name) {
            continue;
        }
        let directory = match file.directory_index() {
            0 => None,
            _ => file.directory(header),
        };
        let directory = directory.map(text).transpose()?.unwrap_or("");
        let path = match directory.trim_start_matches("./") {
            "" | "." => name.into(),
            directory => format!("{directory}/{name}"),
        };
        found.insert(number, path);
    }
    Ok(found)
}

/// Whether the path of a source file is the one that the user means, or ends with it.
fn is_file(path: &str, wanted: &str) -> bool {
    path.strip_suffix(wanted)
        .is_some_and(|start| start.is_empty() || start.ends_with('/'))
}

/// The search in the debug information of the kernel or of a module.
pub struct Search<'s> {
    pub information: &'s Information,
    pub asked: Asked<'s>,
    /// The values that the user wants to see, as `[NAME=]VARIABLE[->MEMBER]`.
    pub chosen: &'s [&'s str],
    /// Types with names of their own.
    pub btf: Option<&'s Btf<'s>>,
}

impl<'s> Search<'s> {
    /// Finds all sites of the place.
    pub fn find(&self) -> gimli::Result<Found> {
        let dwarf = self.information.dwarf()?;
        let mut found = Found::default();
        let function = match self.asked.source {
            Source::Copies(name) => Some(name),
            _ => None,
        };
        let mentions = function.map(|name| Mentions::of(self.information, name));
        let mut known = BTreeSet::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let unit = dwarf.unit(header)?;
            let is_in = |mentions: &Mentions| mentions.are_in(self.information, &unit);
            if !mentions.as_ref().is_none_or(is_in) {
                continue;
            }
            let sites = match self.asked.source {
                Source::Line(file, line) => self.of_line(&dwarf, &unit, file, line, &mut found)?,
                Source::Copies(name) => self.of_copies(&dwarf, &unit, name, &mut found)?,
                Source::Offset(name, offset) => {
                    self.of_offset(&dwarf, &unit, name, offset, &mut found)?
                }
            };
            let Some((scopes, sites)) = sites else {
                continue;
            };
            let rows = Rows::of(&dwarf, &unit)?;
            for (address, scope) in sites {
                if known.insert(address) {
                    let site = self.site(&dwarf, &unit, &scopes, &rows, address, scope)?;
                    found.sites.extend(site);
                }
            }
        }
        found.sites.sort_by_key(|site| site.address);
        Ok(found)
    }

    /// The first instruction of a line in each function, and in each copy of one.
    fn of_line(
        &self,
        dwarf: &Dwarf<Bytes<'s>>,
        unit: &Unit<Bytes<'s>>,
        file: &str,
        line: u64,
        found: &mut Found,
    ) -> gimli::Result<Option<(Scopes, Vec<(u64, usize)>)>> {
        let last = file.rsplit('/').next().unwrap_or(file);
        let mut files = files(dwarf, unit, |name| name.ends_with(last))?;
        files.retain(|_, path| is_file(path, file));
        if files.is_empty() {
            return Ok(None);
        }
        found.is_known = true;
        let scopes = Scopes::of(dwarf, unit)?;
        let mut places = Vec::new();
        for row in &Rows::of(dwarf, unit)?.rows {
            if row.is_statement && files.contains_key(&row.file) {
                places.push((row.line, row.address, scopes.innermost(row.address)));
            }
        }
        // The code of a call that the compiler inlined has the lines of the other function.
        for (_, scope) in scopes.iter() {
            let call = scope.call.filter(|(file, _)| files.contains_key(file));
            if let (Some((_, line)), Some(address)) = (call, scope.start) {
                places.push((line, address, scope.parent));
            }
        }
        places.sort_unstable();
        let next = places.iter().map(|place| place.0);
        let next = next.filter(|other| *other > line).min();
        found.next_line = found.next_line.into_iter().chain(next).min();
        let mut functions = BTreeSet::new();
        let mut sites = Vec::new();
        for (_, address, scope) in places.iter().filter(|place| place.0 == line) {
            if let Some(scope) = scope.filter(|scope| functions.insert(scopes.function(*scope))) {
                sites.push((*address, scope));
            }
        }
        Ok((!sites.is_empty()).then_some((scopes, sites)))
    }

    /// Where the copies of a function begin.
    fn of_copies(
        &self,
        dwarf: &Dwarf<Bytes<'s>>,
        unit: &Unit<Bytes<'s>>,
        function: &str,
        found: &mut Found,
    ) -> gimli::Result<Option<(Scopes, Vec<(u64, usize)>)>> {
        let scopes = Scopes::of(dwarf, unit)?;
        let mut sites = Vec::new();
        for (index, scope) in scopes.iter() {
            if scope.tag != gimli::DW_TAG_inlined_subroutine {
                continue;
            }
            let (Some(original), Some(start)) = (scope.original, scope.start) else {
                continue;
            };
            if dwarf::name(dwarf, unit, &unit.entry(original)?)? == Some(function) {
                sites.push((start, index));
            }
        }
        found.is_known |= !sites.is_empty();
        Ok((!sites.is_empty()).then_some((scopes, sites)))
    }

    fn of_offset(
        &self,
        dwarf: &Dwarf<Bytes<'s>>,
        unit: &Unit<Bytes<'s>>,
        function: &str,
        offset: u64,
        found: &mut Found,
    ) -> gimli::Result<Option<(Scopes, Vec<(u64, usize)>)>> {
        let mut sites = Vec::new();
        let mut ranges = Vec::new();
        let mut all = dwarf.unit_ranges(unit)?;
        while let Some(range) = all.next()? {
            ranges.push(range.begin..range.end);
        }
        for start in self.information.addresses(function) {
            found.is_known = true;
            let address = start.wrapping_add(offset);
            if ranges.iter().any(|range| range.contains(&address)) {
                sites.push(address);
            }
        }
        if sites.is_empty() {
            return Ok(None);
        }
        let scopes = Scopes::of(dwarf, unit)?;
        let sites = sites.into_iter();
        let sites = sites.filter_map(|address| Some((address, scopes.innermost(address)?)));
        let sites = sites.collect();
        Ok(Some((scopes, sites)))
    }

    /// The site at an address, in a scope.
    fn site(
        &self,
        dwarf: &Dwarf<Bytes<'s>>,
        unit: &Unit<Bytes<'s>>,
        scopes: &Scopes,
        rows: &Rows,
        address: u64,
        scope: usize,
    ) -> gimli::Result<Option<Site>> {
        let (Some(holder), Some((start, names))) =
            (scopes.holder(scope), self.information.symbols_at(address))
        else {
            return Ok(None);
        };
        let entry = unit.entry(scopes.get(holder).entry)?;
        let place = Place {
            information: self.information,
            dwarf,
            unit,
            holder: &entry,
            start,
            address,
        };
        // An address can have several names.
        let own = dwarf::name(dwarf, unit, &entry)?.unwrap_or("");
        let names: Vec<&str> = names.collect();
        let is_own = |name: &&&str| name.split('.').next() == Some(own);
        let Some(symbol) = names.iter().find(is_own).or(names.first()) else {
            return Ok(None);
        };
        let line = rows.line_at(address);
        let variables = visible(&place, scopes, scope)?;
        let listed = |variable: &Variable<'s>| -> gimli::Result<Listed> {
            let value = place.value(variable, "", variable.name, self.btf);
            let next = match (&variable.location, &line) {
                (Err(_), Some(line)) => next_line(&place, rows, variable, line)?,
                _ => None,
            };
            Ok(Listed {
                name: variable.name.into(),
                ty: place.type_name(variable)?,
                value,
                next,
            })
        };
        let chosen = |choice: &&str| {
            let choice = Choice::parse(choice);
            let variable = variables.iter().find(|other| other.name == choice.variable);
            let variable = variable.ok_or_else(|| format!("no variable {}", choice.variable))?;
            place.value(variable, choice.path, choice.name, self.btf)
        };
        Ok(Some(Site {
            address,
            symbol: (*symbol).into(),
            offset: address - start,
            is_single: self.information.addresses(symbol).count() == 1,
            variables: variables.iter().map(listed).collect::<gimli::Result<_>>()?,
            chosen: self.chosen.iter().map(chosen).collect(),
            line,
        }))
    }
}

/// The next line of the same file where a variable can be read.
fn next_line(
    place: &Place<'_, '_>,
    rows: &Rows,
    variable: &Variable<'_>,
    line: &(String, u64),
) -> gimli::Result<Option<u64>> {
    let entry = place.unit.entry(variable.entry)?;
    let starts = place.starts(&entry)?.into_iter();
    let lines = starts.filter_map(|address| {
        let there = Place { address, ..*place };
        let (file, other) = rows.line_at(address)?;
        (file == line.0 && other > line.1 && there.find(&entry).is_ok()).then_some(other)
    });
    Ok(lines.min())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_places() {
        let asked = |text| Asked::parse(text).map(|asked| (asked.module, asked.source));
        assert_eq!(asked("fs/a.c:7"), Some(("", Source::Line("fs/a.c", 7))));
        assert_eq!(asked("m:a.c:7"), Some(("m", Source::Line("a.c", 7))));
        assert_eq!(asked("f%inline"), Some(("", Source::Copies("f"))));
        assert_eq!(asked("m:f%inline"), Some(("m", Source::Copies("f"))));
        for text in ["m:f", "m:7", "a.c", "a.c:x", "a.c:0", "f", "f%all", "vfs_*"] {
            assert_eq!(asked(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_has_the_end_of_its_path() {
        assert!(is_file("/build/fs/read_write.c", "fs/read_write.c"));
        assert!(is_file("fs/read_write.c", "fs/read_write.c"));
        assert!(is_file("fs/read_write.c", "read_write.c"));
        assert!(!is_file("fs/read_write.c", "write.c"));
    }

    #[test]
    fn a_choice_has_the_name_of_its_last_member() {
        for (text, expected) in [
            ("file", ("file", "file", "")),
            ("sb->s_flags", ("s_flags", "sb", "->s_flags")),
            ("a.b->c", ("c", "a", ".b->c")),
            ("x=a->b", ("x", "a", "->b")),
        ] {
            let choice = Choice::parse(text);
            assert_eq!((choice.name, choice.variable, choice.path), expected);
        }
    }
}
#[cfg(test)]
mod scratch {
    use super::*;
    use object::Object;
    #[test]
    fn scratch() {
        let Ok(path) = std::env::var("VMLINUX") else {
            return;
        };
        let bytes = std::fs::read(&path).unwrap();
        let id = object::File::parse(&*bytes)
            .unwrap()
            .build_id()
            .unwrap()
            .unwrap()
            .to_vec();
        drop(bytes);
        let t = std::time::Instant::now();
        let information = Information::read(path.as_ref(), &id).unwrap();
        println!("read {:?}", t.elapsed());
        for text in std::env::var("ASK").unwrap().split_whitespace() {
            let mut words = text.split(',');
            let text = words.next().unwrap();
            let chosen: Vec<&str> = words.collect();
            let asked = Asked::parse(text).unwrap_or_else(|| {
                let (f, o) = text.split_once('+').unwrap_or((text, "0"));
                Asked {
                    module: "",
                    source: Source::Offset(f, o.parse().unwrap()),
                }
            });
            let t = std::time::Instant::now();
            let search = Search {
                information: &information,
                asked,
                chosen: &chosen,
                btf: None,
            };
            let found = search.find().unwrap();
            println!(
                "{text}: {} sites, known {}, next {:?}, {:?}",
                found.sites.len(),
                found.is_known,
                found.next_line,
                t.elapsed()
            );
            for site in found.sites.iter().take(6) {
                println!(
                    "  {}+{} single {} {:?}",
                    site.symbol, site.offset, site.is_single, site.line
                );
                for v in &site.variables {
                    match &v.value {
                        Ok(value) => println!("    {} {}: {}", v.ty, v.name, value.fetch),
                        Err(why) => println!("    {} {}: -- {why} next {:?}", v.ty, v.name, v.next),
                    }
                }
                for v in &site.chosen {
                    println!("    chosen {:?}", v.as_ref().map(|v| &v.fetch));
                }
            }
        }
    }
}
