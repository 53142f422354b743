// SPDX-License-Identifier: GPL-2.0

//! Places in the source, and where their code is: lines, and functions that exist only as copies in others.

use std::collections::BTreeSet;

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
    epilogues::Return,
    locations::Place,
    rows::{
        files,
        Rows, //
    },
    scopes::Scopes,
    value::Value,
    variables::{
        visible,
        Variable, //
    }, //
};

/// How a name asks for the copies of a function.
const INLINE: &str = "%inline";
/// How it asks for the returns of a function.
pub const RETURN: &str = "%return";

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source<'t> {
    Line(&'t str, u64),
    /// The copies of a function.
    Copies(&'t str),
    /// So many bytes after the start of a function.
    Offset(&'t str, u64),
    /// Before the return instructions of a function.
    Returns(&'t str),
}

/// A place in the source, of the kernel or of a module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked<'t> {
    /// Empty for the kernel.
    pub module: &'t str,
    pub source: Source<'t>,
}

impl<'t> Asked<'t> {
    /// Reads `[MODULE:]FILE:LINE`, `[MODULE:]FUNCTION%inline` or `[MODULE:]FUNCTION[:]%return`.
    pub fn parse(text: &'t str) -> Option<Self> {
        let (module, rest) = text.split_once(':').unwrap_or(("", text));
        if let Some(function) = rest.strip_suffix(INLINE) {
            let source = Source::Copies(function);
            return Some(Self { module, source });
        }
        if let Some(function) = text.strip_suffix(RETURN) {
            let function = function.strip_suffix(':').unwrap_or(function);
            let (module, function) = function.split_once(':').unwrap_or(("", function));
            let source = Source::Returns(function);
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
            name: name.unwrap_or_else(|| field(last)),
            variable,
            path,
            ty,
        }
    }
}

/// The name that a variable has in an event.
fn field(variable: &str) -> &str {
    variable.trim_start_matches('$')
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
    /// The places of the returns, if the user asks for them.
    pub returns: &'s [Return],
    /// Types with names of their own.
    pub btf: Option<&'s Btf<'s>>,
}

impl<'s> Search<'s> {
    /// Finds all sites of the place.
    pub fn find(&self) -> gimli::Result<Found> {
        let dwarf = self.information.dwarf()?;
        let mut found = Found::default();
        let mut file = String::new();
        if let Source::Line(wanted, _) = self.asked.source {
            let paths = paths(&dwarf, wanted)?;
            found.is_known = !paths.is_empty();
            match meant(&paths, wanted)[..] {
                [path] => file = path.into(),
                ref several => {
                    found.files = several.iter().map(|path| (*path).into()).collect();
                    return Ok(found);
                }
            }
        }
        let mentions = match self.asked.source {
            Source::Copies(name) => Some(Mentions::of(self.information, name)),
            _ => None,
        };
        let addresses: Vec<u64> = match self.asked.source {
            Source::Offset(name, offset) => {
                let starts = self.information.addresses(name);
                starts.map(|start| start.wrapping_add(offset)).collect()
            }
            Source::Returns(_) => {
                let places = self.returns.iter();
                let addresses = places.flat_map(|place| {
                    let starts = self.information.addresses(&place.symbol);
                    starts.map(|start| start.wrapping_add(place.offset))
                });
                addresses.collect()
            }
            _ => Vec::new(),
        };
        found.is_known |= !addresses.is_empty();
        let mut known = BTreeSet::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let unit = dwarf.unit(header)?;
            // To read all of a unit takes long.
            let is_in = match self.asked.source {
                Source::Line(..) => !files(&dwarf, &unit, |path| path == file)?.is_empty(),
                Source::Copies(_) => mentions
                    .as_ref()
                    .is_some_and(|mentions| mentions.are_in(self.information, &unit)),
                Source::Offset(..) | Source::Returns(_) => has_one_of(&dwarf, &unit, &addresses)?,
            };
            if !is_in {
                continue;
            }
            let part = Part {
                search: self,
                scopes: Scopes::of(&dwarf, &unit)?,
                rows: Rows::of(&dwarf, &unit)?,
                dwarf: &dwarf,
                unit: &unit,
                file: &file,
            };
            let sites = match self.asked.source {
                Source::Line(_, line) => part.of_line(line, &mut found),
                Source::Copies(name) => part.of_copies(name, &mut found)?,
                Source::Offset(..) | Source::Returns(_) => part.of_addresses(&addresses),
            };
            for (address, scope) in sites {
                if known.insert(address) {
                    found.sites.extend(part.site(address, scope)?);
                }
            }
        }
        found.sites.sort_by_key(|site| site.address);
        Ok(found)
    }
}

/// The paths of the files that the user can mean.
fn paths(dwarf: &Dwarf<Bytes<'_>>, file: &str) -> gimli::Result<BTreeSet<String>> {
    let mut paths = BTreeSet::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let found = files(dwarf, &unit, |path| directory(path, file).is_some())?;
        paths.extend(found.into_values());
    }
    Ok(paths)
}

/// Whether a unit has the code at one of the addresses.
fn has_one_of(
    dwarf: &Dwarf<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
    addresses: &[u64],
) -> gimli::Result<bool> {
    let mut ranges = dwarf.unit_ranges(unit)?;
    while let Some(range) = ranges.next()? {
        let range = range.begin..range.end;
        if addresses.iter().any(|address| range.contains(address)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A unit that can have sites.
struct Part<'p, 's> {
    search: &'p Search<'s>,
    dwarf: &'p Dwarf<Bytes<'s>>,
    unit: &'p Unit<Bytes<'s>>,
    scopes: Scopes,
    rows: Rows,
    /// The path of the file of a line.
    file: &'p str,
}

impl<'s> Part<'_, 's> {
    /// The first instruction of a line in each function, and in each copy of one, with the scope.
    fn of_line(&self, line: u64, found: &mut Found) -> Vec<(u64, usize)> {
        let is_in = |file: &u64| {
            self.rows
                .files
                .get(file)
                .is_some_and(|path| path == self.file)
        };
        let rows = self.rows.rows.iter();
        let rows = rows.filter(|row| row.is_statement && is_in(&row.file));
        let rows = rows.map(|row| (row.line, row.address, self.scopes.innermost(row.address)));
        // The code of a call that the compiler inlined has the lines of the other function.
        let calls = self.scopes.iter().filter_map(|(_, scope)| {
            let (_, line) = scope.call.filter(|(file, _)| is_in(file))?;
            Some((line, scope.start?, scope.parent))
        });
        let mut places: Vec<(u64, u64, Option<usize>)> = rows.chain(calls).collect();
        places.sort_unstable();
        let after = places.iter().find(|place| place.0 > line);
        let after = after.map(|place| place.0);
        found.next_line = found.next_line.into_iter().chain(after).min();
        let mut functions = BTreeSet::new();
        let here = places.into_iter().filter(|place| place.0 == line);
        let here = here.filter_map(|(_, address, scope)| Some((address, scope?)));
        here.filter(|(_, scope)| functions.insert(self.scopes.function(*scope)))
            .collect()
    }

    /// Where the copies of a function begin.
    fn of_copies(&self, function: &str, found: &mut Found) -> gimli::Result<Vec<(u64, usize)>> {
        let mut sites = Vec::new();
        for (index, scope) in self.scopes.iter() {
            if scope.tag != gimli::DW_TAG_inlined_subroutine {
                continue;
            }
            let (Some(original), Some(start)) = (scope.original, scope.start) else {
                continue;
            };
            let original = self.unit.entry(original)?;
            if dwarf::name(self.dwarf, self.unit, &original)? == Some(function) {
                sites.push((start, index));
            }
        }
        found.is_known |= !sites.is_empty();
        Ok(sites)
    }

    /// The addresses that are in functions of this unit.
    fn of_addresses(&self, addresses: &[u64]) -> Vec<(u64, usize)> {
        let all = addresses.iter();
        all.filter_map(|address| Some((*address, self.scopes.innermost(*address)?)))
            .collect()
    }

    /// The site at an address, in a scope.
    fn site(&self, address: u64, scope: usize) -> gimli::Result<Option<Site>> {
        let Search {
            information,
            asked,
            chosen,
            btf,
            ..
        } = *self.search;
        let (Some(holder), Some((start, names))) =
            (self.scopes.holder(scope), information.symbols_at(address))
        else {
            return Ok(None);
        };
        let entry = self.unit.entry(self.scopes.get(holder).entry)?;
        let place = Place {
            information,
            dwarf: self.dwarf,
            unit: self.unit,
            holder: &entry,
            start,
            address,
        };
        // An address can have several names.
        let own = dwarf::name(self.dwarf, self.unit, &entry)?.unwrap_or("");
        let names: Vec<&str> = names.collect();
        let is_own = |name: &&&str| name.split('.').next() == Some(own);
        let Some(symbol) = names.iter().find(is_own).or(names.first()) else {
            return Ok(None);
        };
        let line = match asked.source {
            // Several lines, also those of other files, can begin at one instruction.
            Source::Line(_, number) => Some((self.file.into(), number)),
            _ => self.rows.line_at(address),
        };
        let is_return = matches!(asked.source, Source::Returns(_));
        let scope = match is_return {
            true => self.scopes.of_holder(scope),
            false => scope,
        };
        let mut variables = visible(&place, &self.scopes, scope)?;
        if is_return {
            variables.extend(place.result()?);
        }
        let listed = |variable: &Variable<'s>| -> gimli::Result<Listed> {
            let found = place.locate(variable, "");
            let value = found.and_then(|found| place.value(&found, field(variable.name), btf));
            let next = match (&variable.location, &line) {
                (Err(_), Some(line)) => next_line(&place, &self.rows, variable, line)?,
                _ => None,
            };
            Ok(Listed {
                name: variable.name.into(),
                ty: place.type_name(variable)?,
                value,
                next,
            })
        };
        let value = |choice: &&str| {
            let choice = Choice::parse(choice);
            let variable = variables.iter().find(|other| other.name == choice.variable);
            let variable = variable.ok_or_else(|| format!("no variable {}", choice.variable))?;
            let found = place.locate(variable, choice.path)?;
            match choice.ty {
                Some(ty) => place.typed(&found, choice.name, ty),
                None => place.value(&found, choice.name, btf),
            }
        };
        Ok(Some(Site {
            address,
            symbol: (*symbol).into(),
            offset: address - start,
            is_single: information.addresses(symbol).count() == 1,
            variables: variables.iter().map(listed).collect::<gimli::Result<_>>()?,
            chosen: chosen.iter().map(value).collect(),
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

    use crate::{
        kinds::Kind,
        locations::RESULT_REGISTER, //
    };

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
                returns: &[Return {
                    symbol: "local".into(),
                    offset: 0,
                }],
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
            (Source::Returns("local"), &["$retval", "r=$retval:x8", "n"]),
        ]);
        let [copies, entry, line, empty, other, whole, end] = &found[..] else {
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

        let [site] = &end.sites[..] else {
            panic!();
        };
        let chosen = site
            .chosen
            .iter()
            .map(|value| &*value.as_ref().unwrap().fetch);
        let chosen: Vec<&str> = chosen.collect();
        let result = RESULT_REGISTER;
        assert_eq!(
            chosen[..2],
            [format!("retval={result}:s32"), format!("r={result}:x8")]
        );
        assert_eq!(site.variables.last().unwrap().name, "$retval");
    }

    #[test]
    fn reads_places() {
        let asked = |text| Asked::parse(text).map(|asked| (asked.module, asked.source));
        assert_eq!(asked("fs/a.c:7"), Some(("", Source::Line("fs/a.c", 7))));
        assert_eq!(asked("m:a.c:7"), Some(("m", Source::Line("a.c", 7))));
        assert_eq!(asked("f%inline"), Some(("", Source::Copies("f"))));
        assert_eq!(asked("m:f%inline"), Some(("m", Source::Copies("f"))));
        for text in ["f%return", "f:%return"] {
            assert_eq!(asked(text), Some(("", Source::Returns("f"))));
        }
        assert_eq!(asked("m:f:%return"), Some(("m", Source::Returns("f"))));
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
