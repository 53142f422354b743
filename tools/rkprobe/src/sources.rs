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
    /// The files that the text can mean, if it can mean several.
    pub files: Vec<String>,
    /// The next line that has code.
    pub next_line: Option<u64>,
}

/// A value that the user wants to see: `[NAME=]VARIABLE[:TYPE]`, with members behind the variable.
struct Choice<'c> {
    name: &'c str,
    variable: &'c str,
    path: &'c str,
    ty: Option<&'c str>,
}

impl<'c> Choice<'c> {
    fn parse(text: &'c str) -> Self {
        let (name, fetch) = match text.split_once('=') {
            Some((name, fetch)) => (Some(name), fetch),
            None => (None, text),
        };
        let (fetch, ty) = match fetch.split_once(':') {
            Some((fetch, ty)) => (fetch, Some(ty)),
            None => (fetch, None),
        };
        let end = fetch.find(['-', '.']).unwrap_or(fetch.len());
        let (variable, path) = fetch.split_at(end);
        let last = fetch.rsplit(['>', '.']).next().unwrap_or(fetch);
        Self {
            name: name.unwrap_or(last),
            variable,
            path,
            ty,
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

/// The wanted files of a unit, by their numbers.
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
        let directory = match file.directory_index() {
            0 => None,
            _ => file.directory(header),
        };
        let directory = directory.map(text).transpose()?.unwrap_or("");
        let path = match directory.trim_start_matches("./") {
            "" | "." => name.into(),
            directory => format!("{directory}/{name}"),
        };
        if is_wanted(&path) {
            found.insert(number, path);
        }
    }
    Ok(found)
}

/// The directory in front of a path that ends with the one that the user means.
fn directory<'p>(path: &'p str, wanted: &str) -> Option<&'p str> {
    let start = path.strip_suffix(wanted)?;
    (start.is_empty() || start.ends_with('/')).then_some(start)
}

/// The file that the user means: the one with this path in the directory of the source. If it can be one of several, all
/// of them.
fn meant<'p>(paths: &'p BTreeSet<String>, wanted: &str) -> Vec<&'p str> {
    let start = |path: &'p String| directory(path, wanted).unwrap_or(path);
    let is_first = |path: &&'p String| {
        paths
            .iter()
            .all(|other| start(other).starts_with(start(path)))
    };
    match paths.iter().find(is_first) {
        Some(path) => vec![path],
        None => paths.iter().map(String::as_str).collect(),
    }
}

/// The search in the debug information of the kernel or of a module.
pub struct Search<'s> {
    pub information: &'s Information,
    pub asked: Asked<'s>,
    /// The values that the user wants to see, as `[NAME=]VARIABLE[->MEMBER][:TYPE]`.
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
        let file = match self.asked.source {
            Source::Line(file, _) => {
                let paths = self.paths(&dwarf, file)?;
                found.is_known = !paths.is_empty();
                match meant(&paths, file)[..] {
                    [path] => path.to_owned(),
                    ref several => {
                        found.files = several.iter().map(|path| (*path).into()).collect();
                        return Ok(found);
                    }
                }
            }
            _ => String::new(),
        };
        let mut known = BTreeSet::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let unit = dwarf.unit(header)?;
            let is_in = |mentions: &Mentions| mentions.are_in(self.information, &unit);
            if !mentions.as_ref().is_none_or(is_in) {
                continue;
            }
            let sites = match self.asked.source {
                Source::Line(_, line) => self.of_line(&dwarf, &unit, &file, line, &mut found)?,
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
                    let place = (address, scope);
                    let site = self.site(&dwarf, &unit, &scopes, &rows, &file, place)?;
                    found.sites.extend(site);
                }
            }
        }
        found.sites.sort_by_key(|site| site.address);
        Ok(found)
    }

    /// The paths of the files that the user can mean.
    fn paths(&self, dwarf: &Dwarf<Bytes<'s>>, file: &str) -> gimli::Result<BTreeSet<String>> {
        let mut paths = BTreeSet::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let unit = dwarf.unit(header)?;
            let found = files(dwarf, &unit, |path| directory(path, file).is_some())?;
            paths.extend(found.into_values());
        }
        Ok(paths)
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
        let files = files(dwarf, unit, |path| path == file)?;
        if files.is_empty() {
            return Ok(None);
        }
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

    /// The site at an address, in a scope. `file` is that of a line.
    fn site(
        &self,
        dwarf: &Dwarf<Bytes<'s>>,
        unit: &Unit<Bytes<'s>>,
        scopes: &Scopes,
        rows: &Rows,
        file: &str,
        (address, scope): (u64, usize),
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
        let line = match self.asked.source {
            // Several lines, also those of other files, can begin at one instruction.
            Source::Line(_, number) => Some((file.into(), number)),
            _ => line,
        };
        let variables = visible(&place, scopes, scope)?;
        let listed = |variable: &Variable<'s>| -> gimli::Result<Listed> {
            let found = place.locate(variable, "");
            let value = found.and_then(|found| place.value(&found, variable.name, self.btf));
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
            let found = place.locate(variable, choice.path)?;
            match choice.ty {
                Some(ty) => place.typed(&found, choice.name, ty),
                None => place.value(&found, choice.name, self.btf),
            }
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
    use std::{
        env,
        fs,
        process::{
            self,
            Command, //
        }, //
    };

    use object::Object;

    use crate::kinds::Kind;

    use super::*;

    const PROGRAM: &str = "\
struct item { const char *name; int x : 3, y : 5; enum { RED = 1, GREEN } color; char tag[8];
    struct { short z; }; struct item *next; struct other *other; };
volatile int result;
static inline __attribute__((always_inline)) int copied(struct item *item, int n) {
    return result = item->z + n;
}
int one(struct item *item, int n) { return copied(item, n) + 1; }
int two(struct item *item, int n) { return copied(item->next, n) + copied(item, 7); }
int local(struct item *item, int n) {
    int gone = n + n;

    result = n;
    return item->z;
}
";

    /// What is found in a module with this program.
    fn of_program(asks: &[(Source<'_>, &[&str])]) -> Vec<Found> {
        let directory = env::temp_dir().join(format!("rkprobe-sources-{}", process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("m.c"), PROGRAM).unwrap();
        let status = Command::new("cc")
            .args(["-g", "-O2", "-fcf-protection=none", "-r", "-nostdlib"])
            .args(["-Wl,--build-id", "-o", "m.ko", "m.c"])
            .current_dir(&directory)
            .status();
        let path = directory.join("m.ko");
        let bytes = fs::read(&path).unwrap_or_default();
        let information = object::File::parse(&*bytes).ok().and_then(|object| {
            let id = object.build_id().ok()??;
            Information::read(&path, id)
        });
        fs::remove_dir_all(&directory).unwrap();
        assert!(status.unwrap().success());
        let information = information.unwrap();
        let find = |(source, chosen): &(Source<'_>, &[&str])| {
            let search = Search {
                information: &information,
                asked: Asked {
                    module: "m",
                    source: *source,
                },
                chosen,
                btf: None,
            };
            search.find().unwrap()
        };
        asks.iter().map(find).collect()
    }

    #[test]
    fn finds_lines_and_copies_with_their_variables() {
        let members = [
            "item->name",
            "item->x",
            "item->y",
            "item->color",
            "item->tag",
            "z=item->z",
            "item->next->z",
            "item.z",
            "item->none",
            "item->other->a",
            "n",
            "none",
            "item->name:x64",
            "t=item->tag:string",
            "s=item->name:string",
        ];
        let found = of_program(&[
            (Source::Copies("copied"), &[]),
            (Source::Offset("local", 0), &members),
            (Source::Line("m.c", 12), &["n"]),
            (Source::Line("m.c", 11), &[]),
            (Source::Line("n.c", 11), &[]),
            (Source::Copies("one"), &[]),
        ]);
        let [copies, entry, line, empty, other, whole] = &found[..] else {
            panic!();
        };
        let holders: Vec<&str> = copies.sites.iter().map(|site| &*site.symbol).collect();
        assert_eq!(holders, ["one", "two", "two"]);
        let second = copies.sites[2].variables.iter();
        let names: Vec<&str> = second.map(|listed| &*listed.name).collect();
        assert_eq!(names, ["item", "n"]);

        let chosen = &entry.sites[0].chosen;
        let kinds: Vec<Option<&Kind>> = chosen
            .iter()
            .map(|value| value.as_ref().ok().map(|value| &value.kind))
            .collect();
        let colors = Kind::Names(vec![("RED".into(), 1), ("GREEN".into(), 2)]);
        let plain = Some(&Kind::Plain);
        assert_eq!(
            kinds[..7],
            [
                Some(&Kind::Text(None)),
                plain,
                plain,
                Some(&colors),
                plain,
                plain,
                plain
            ]
        );
        let errors = chosen.iter().filter_map(|value| value.as_ref().err());
        let errors: Vec<&str> = errors.map(String::as_str).collect();
        assert_eq!(
            errors,
            [
                "item is a pointer: write -> instead of .",
                "struct item has no member none here",
                "struct other has no member a here",
                "no variable none",
            ]
        );
        let fetch = |index: usize| &*chosen[index].as_ref().unwrap().fetch;
        let register = fetch(10).strip_prefix("n=%").unwrap();
        assert!(register.ends_with(":s32"), "{register}");
        for (index, start, end) in [
            (0, "name_at=+0(%", "):string"),
            (1, "x=+8(%", "):b3@0/32"),
            (2, "y=+8(%", "):b5@3/32"),
            (3, "color=+12(%", "):u32"),
            (4, "tag=+16(%", "):string"),
            (5, "z=+24(%", "):s16"),
            (6, "z=+24(+32(%", ")):s16"),
            (12, "name=+0(%", "):x64"),
            (13, "t=+16(%", "):string"),
            (14, "s=+0(+0(%", ")):string"),
        ] {
            let fetch = fetch(index);
            assert!(fetch.starts_with(start) && fetch.ends_with(end), "{fetch}");
        }

        assert_eq!(line.sites.len(), 1);
        assert_eq!(line.sites[0].line, Some(("m.c".into(), 12)));
        assert!(line.sites[0].chosen[0].is_ok());
        let listed = line.sites[0].variables.iter();
        let types: Vec<&str> = listed.map(|listed| &*listed.ty).collect();
        assert_eq!(types, ["struct item *", "int", "int"]);

        assert_eq!((empty.sites.len(), empty.next_line), (0, Some(12)));
        assert!(empty.is_known && !other.is_known && !whole.is_known);
    }

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
        assert_eq!(directory("/b/fs/read.c", "fs/read.c"), Some("/b/"));
        assert_eq!(directory("fs/read.c", "fs/read.c"), Some(""));
        assert_eq!(directory("fs/read.c", "ead.c"), None);
        let paths = |all: &[&str]| all.iter().map(|path| (*path).to_string()).collect();
        let relative = paths(&["mm/mmap.c", "arch/x86/mm/mmap.c"]);
        assert_eq!(meant(&relative, "mm/mmap.c"), ["mm/mmap.c"]);
        assert_eq!(meant(&relative, "mmap.c").len(), 2);
        let whole = paths(&["/b/mm/mmap.c", "/b/arch/x86/mm/mmap.c"]);
        assert_eq!(meant(&whole, "mm/mmap.c"), ["/b/mm/mmap.c"]);
        assert!(meant(&paths(&[]), "mm/mmap.c").is_empty());
    }

    #[test]
    fn a_choice_has_the_name_of_its_last_member() {
        for (text, expected) in [
            ("file", ("file", "file", "", None)),
            ("sb->s_flags", ("s_flags", "sb", "->s_flags", None)),
            ("a.b->c:x8", ("c", "a", ".b->c", Some("x8"))),
            ("x=a->b", ("x", "a", "->b", None)),
        ] {
            let choice = Choice::parse(text);
            let parts = (choice.name, choice.variable, choice.path, choice.ty);
            assert_eq!(parts, expected);
        }
    }
}
