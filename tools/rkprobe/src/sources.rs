// SPDX-License-Identifier: GPL-2.0

//! Places in the source, and where their code is: lines, and functions that exist only as copies in others.

use std::{
    collections::{
        BTreeMap,
        BTreeSet, //
    },
    iter,
    ops::Range, //
};

use gimli::{
    AttributeValue,
    Dwarf,
    Unit,
    UnitOffset, //
};
use probe::btf::Btf;

use crate::{
    asked::{
        Asked,
        Named,
        Point,
        Source, //
    },
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
    scopes::{
        Scope,
        Scopes, //
    },
    shown::last_name,
    value::Value,
    variables::{
        visible,
        Variable, //
    }, //
};

/// The most sites that are looked at. No command can have probes at so many.
pub const MAX_SITES: usize = 1024;

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
    /// The function that contains it.
    pub symbol: String,
    /// What a probe takes: the function and an offset, or another symbol if several functions have the name.
    pub anchor: Option<(String, u64)>,
    pub line: Option<(String, u64)>,
    pub variables: Vec<Listed>,
    /// The values that the user wants to see, or why they cannot be read.
    pub chosen: Vec<Result<Value, String>>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    pub sites: Vec<Site>,
    /// The number of all sites, of which more than [`MAX_SITES`] are left out.
    pub count: usize,
    /// Whether the file or the function exists.
    pub is_known: bool,
    /// The files that the text can mean, if it can mean several.
    pub files: Vec<String>,
    /// The next line that has code, counted as the user counts.
    pub next_line: Option<u64>,
}

impl Found {
    fn add_next(&mut self, line: Option<u64>) {
        self.next_line = self.next_line.into_iter().chain(line).min();
    }

    /// Takes what was found of the function that the user means, from all that have its name, by their files.
    fn choose(&mut self, mut defined: BTreeMap<String, Self>, named: Named<'_>, point: Point) {
        self.is_known |= !defined.is_empty();
        let paths: BTreeSet<String> = defined.keys().cloned().collect();
        let chosen = match named.file {
            // A name alone has the copies of all functions.
            None if point == Point::Copies => paths.iter().map(String::as_str).collect(),
            file => meant(&paths, file.unwrap_or("")),
        };
        if point != Point::Copies && chosen.len() > 1 {
            self.files = chosen.into_iter().map(String::from).collect();
            return;
        }
        for of_file in chosen.into_iter().filter_map(|path| defined.remove(path)) {
            self.add_next(of_file.next_line);
            self.sites.extend(of_file.sites);
        }
    }
}

/// A value that the user wants to see: `[NAME=]VARIABLE[:TYPE]`, with members after the variable.
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
        Self {
            name: name.unwrap_or_else(|| last_name(fetch)),
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
        let addresses = self.addresses();
        found.is_known |= addresses.iter().any(|all| !all.is_empty());
        let mentions = match self.asked.source {
            Source::Function(named, _) if addresses.is_none() => {
                Some(Mentions::of(self.information, named.name))
            }
            _ => None,
        };
        // By the file that defines the function.
        let mut defined: BTreeMap<String, Found> = BTreeMap::new();
        let mut known = BTreeSet::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let unit = dwarf.unit(header)?;
            // To read all of a unit takes long.
            let is_in = match (&addresses, &mentions) {
                (Some(addresses), _) => has_one_of(&dwarf, &unit, addresses)?,
                (_, Some(mentions)) => mentions.are_in(self.information, &unit),
                _ => !files(&dwarf, &unit, |path| path == file)?.is_empty(),
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
            };
            let sites = match (self.asked.source, &addresses) {
                (Source::Line(_, line), _) => {
                    let (sites, next) = part.of_line(&file, line, |_, _| true);
                    found.add_next(next);
                    sites
                }
                (_, Some(addresses)) => part.of_addresses(addresses),
                (Source::Function(named, point), None) => {
                    for function in part.definitions(named)? {
                        let (sites, next) = part.of_function(&function, point);
                        let line = function.line_of(point);
                        let of_file = defined.entry(function.file).or_default();
                        of_file.add_next(next);
                        for (address, scope) in sites {
                            if known.insert(address) && known.len() <= MAX_SITES {
                                let site = part.site(address, scope, line.clone())?;
                                of_file.sites.extend(site);
                            }
                        }
                    }
                    continue;
                }
            };
            let line = match self.asked.source {
                // Several lines, also those of other files, can begin at one instruction.
                Source::Line(_, number) => Some((file.clone(), number)),
                Source::Function(..) => None,
            };
            for (address, scope) in sites {
                if known.insert(address) && known.len() <= MAX_SITES {
                    found.sites.extend(part.site(address, scope, line.clone())?);
                }
            }
        }
        if let Source::Function(named, point) = self.asked.source {
            found.choose(defined, named, point);
        }
        found.sites.sort_by_key(|site| site.address);
        found.count = known.len();
        Ok(found)
    }

    /// The addresses of the place, if the symbols tell them.
    fn addresses(&self) -> Option<Vec<u64>> {
        match self.asked.source {
            Source::Function(_, Point::Returns) => Some(self.returns()),
            Source::Function(Named { name, file: None }, Point::Offset(offset)) => {
                let starts = self.information.addresses(name);
                Some(starts.map(|start| start.wrapping_add(offset)).collect())
            }
            _ => None,
        }
    }

    fn returns(&self) -> Vec<u64> {
        let places = self.returns.iter().flat_map(|place| {
            let starts = self.information.addresses(&place.symbol);
            starts.map(|start| start.wrapping_add(place.offset))
        });
        places.collect()
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

/// A function in a unit, with its copies there.
struct Function {
    /// The path of the file that defines it.
    file: String,
    /// The lines from its declaration to that of the next function.
    lines: Range<u64>,
    /// Its entries. Copies refer to one of them.
    entries: Vec<UnitOffset>,
}

impl Function {
    /// Whether a scope is the function, or a copy of it.
    fn is(&self, scope: &Scope) -> bool {
        let mut own = iter::once(scope.entry).chain(scope.original);
        own.any(|entry| self.entries.contains(&entry))
    }

    /// The line that the user asks for.
    fn line_of(&self, point: Point) -> Option<(String, u64)> {
        match point {
            Point::Line(number) => {
                Some((self.file.clone(), self.lines.start.saturating_add(number)))
            }
            _ => None,
        }
    }
}

/// Addresses, with the scopes that contain them, and the next line that has code.
type Starts = (Vec<(u64, usize)>, Option<u64>);

/// A unit that can have sites.
struct Part<'p, 's> {
    search: &'p Search<'s>,
    dwarf: &'p Dwarf<Bytes<'s>>,
    unit: &'p Unit<Bytes<'s>>,
    scopes: Scopes,
    rows: Rows,
}

impl<'s> Part<'_, 's> {
    /// The first instruction of a line in each function, and in each copy of one. `is_wanted` chooses the functions and
    /// the lines that count.
    fn of_line(&self, file: &str, line: u64, is_wanted: impl Fn(&Scope, u64) -> bool) -> Starts {
        let is_in = |number: &u64| self.rows.files.get(number).is_some_and(|path| path == file);
        let rows = self.rows.rows.iter();
        let rows = rows.filter(|row| row.is_statement && is_in(&row.file));
        let rows = rows.map(|row| (row.line, row.address, self.scopes.innermost(row.address)));
        // The code of a call that the compiler inlined has the lines of the other function.
        let calls = self.scopes.iter().filter_map(|(_, scope)| {
            let (_, line) = scope.call.filter(|(file, _)| is_in(file))?;
            Some((line, scope.start?, scope.parent))
        });
        let own = rows.chain(calls).filter_map(|(line, address, scope)| {
            let function = self.scopes.function(scope?)?;
            is_wanted(self.scopes.get(function), line).then_some((line, address, scope?, function))
        });
        let mut places: Vec<(u64, u64, usize, usize)> = own.collect();
        places.sort_unstable();
        let next = places.iter().find(|place| place.0 > line);
        let next = next.map(|place| place.0);
        let mut functions = BTreeSet::new();
        let here = places.iter().filter(|place| place.0 == line);
        let first = here.filter(|place| functions.insert(place.3));
        let first = first.map(|(_, address, scope, _)| (*address, *scope));
        (first.collect(), next)
    }

    /// The functions with this name that the unit defines.
    fn definitions(&self, named: Named<'_>) -> gimli::Result<Vec<Function>> {
        let mut found: Vec<Function> = Vec::new();
        let mut all: BTreeSet<(&str, u64)> = BTreeSet::new();
        for (_, scope) in self.scopes.iter() {
            if scope.tag != gimli::DW_TAG_subprogram {
                continue;
            }
            let entry = self.unit.entry(scope.entry)?;
            if entry.attr(gimli::DW_AT_declaration)?.is_some() {
                continue;
            }
            let name = dwarf::name(self.dwarf, self.unit, &entry)?;
            let described = match scope.original {
                Some(original) => self.unit.entry(original)?,
                None => entry,
            };
            let file = match described.attr_value(gimli::DW_AT_decl_file)? {
                Some(AttributeValue::FileIndex(file)) => self.rows.files.get(&file),
                _ => None,
            };
            let file = file.map_or("", String::as_str);
            let line = dwarf::number(&described, gimli::DW_AT_decl_line)?.unwrap_or(0);
            all.insert((file, line));
            let is_in = |wanted| directory(file, wanted).is_some();
            if name != Some(named.name) || !named.file.is_none_or(is_in) {
                continue;
            }
            let mut others = found.iter_mut();
            match others.find(|other| (&*other.file, other.lines.start) == (file, line)) {
                Some(function) => function.entries.push(scope.entry),
                None => found.push(Function {
                    file: file.into(),
                    lines: line..u64::MAX,
                    entries: vec![scope.entry],
                }),
            }
        }
        for function in &mut found {
            let mut after = all.range((&*function.file, function.lines.start + 1)..);
            if let Some((_, next)) = after.next().filter(|(file, _)| *file == function.file) {
                function.lines.end = *next;
            }
        }
        Ok(found)
    }

    /// The addresses of a point of a function, and for a line the next one that has code, counted as the user counts.
    fn of_function(&self, function: &Function, point: Point) -> Starts {
        let of_tag = |tag| {
            let all = self.scopes.iter();
            let own = all.filter(move |(_, scope)| scope.tag == tag && function.is(scope));
            own.filter_map(|(index, scope)| Some((scope.start?, index)))
        };
        match point {
            Point::Offset(offset) => {
                let starts = of_tag(gimli::DW_TAG_subprogram);
                let addresses = starts.filter_map(|(start, _)| start.checked_add(offset));
                (self.of_addresses(&addresses.collect::<Vec<u64>>()), None)
            }
            Point::Line(number) => {
                let Function { file, lines, .. } = function;
                // The code of a copy can have lines of the function around it.
                let is_own = |scope: &Scope, line: u64| function.is(scope) && lines.contains(&line);
                let line = lines.start.saturating_add(number);
                let (sites, next) = self.of_line(file, line, is_own);
                (sites, next.map(|next| next - lines.start))
            }
            Point::Copies => (of_tag(gimli::DW_TAG_inlined_subroutine).collect(), None),
            Point::Returns => (Vec::new(), None),
        }
    }

    /// The addresses that are in functions of this unit.
    fn of_addresses(&self, addresses: &[u64]) -> Vec<(u64, usize)> {
        let all = addresses.iter();
        all.filter_map(|address| Some((*address, self.scopes.innermost(*address)?)))
            .collect()
    }

    /// The site at an address, in a scope. `line` is the line that the user asks for.
    fn site(
        &self,
        address: u64,
        scope: usize,
        line: Option<(String, u64)>,
    ) -> gimli::Result<Option<Site>> {
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
        // Several lines, also those of other files, can begin at one instruction.
        let line = line.or_else(|| self.rows.line_at(address));
        let is_return = matches!(asked.source, Source::Function(_, Point::Returns));
        let scope = match is_return {
            true => self.scopes.of_holder(scope),
            false => scope,
        };
        let anchor = information.anchor(address, symbol);
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
            anchor: anchor.map(|(name, offset)| (name.into(), offset)),
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
        flags::Flags,
        kinds::Kind,
        locations::RESULT_REGISTER, //
    };

    use super::*;

    const PROGRAM: &str = "\
struct file { unsigned f_flags; }; struct item { const char *name; int x : 3, y : 5; enum { RED = 1, GREEN } color; char tag[8];
    struct { short z; }; struct item *next; struct other *other; const struct file *file; };
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
__attribute__((noinline)) static int same(int n) { return result = n; }
int call_same(int n) { return same(n) + 1; }
";

    /// Another file of the same module.
    const OTHER: &str = "\
int before_other(int n) { return n * 5; }
__attribute__((noinline)) static int same(int *n) { return *n += 2; }
int call_other(int *n) { return same(n) + 1; }
";

    fn of(name: &str, point: Point) -> Source<'_> {
        Source::Function(Named { name, file: None }, point)
    }

    /// What is found in a module with this program.
    fn of_program(test: &str, asks: &[(Source<'_>, &[&str])]) -> Vec<Found> {
        let name = format!("rkprobe-{test}-{}", process::id());
        let directory = env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("m.c"), PROGRAM).unwrap();
        fs::write(directory.join("other.c"), OTHER).unwrap();
        let status = Command::new("cc")
            .args(["-g", "-O2", "-fcf-protection=none", "-r", "-nostdlib"])
            .args(["-Wl,--build-id", "-o", "m.ko", "m.c", "other.c"])
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
            "item->file->f_flags",
        ];
        let found = of_program(
            "variables",
            &[
                (of("copied", Point::Copies), &[]),
                (of("local", Point::Offset(0)), &members),
                (Source::Line("m.c", 12), &["n"]),
                (Source::Line("m.c", 11), &[]),
                (Source::Line("n.c", 11), &[]),
                (of("one", Point::Copies), &[]),
                (
                    of("local", Point::Returns),
                    &["$retval", "r=$retval:x8", "n"],
                ),
            ],
        );
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
        assert_eq!(kinds[15], Some(&Kind::Flags(Flags::open())));
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
        assert!(empty.is_known && !other.is_known);
        assert!(whole.is_known && whole.sites.is_empty());

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
    fn counts_the_lines_of_a_function_from_its_declaration() {
        let line = |name, number| (of(name, Point::Line(number)), &[][..]);
        let found = of_program(
            "lines",
            &[
                line("local", 0),
                line("local", 2),
                line("local", 3),
                line("local", 5),
                line("local", u64::MAX),
                line("copied", 1),
                line("one", 0),
                line("none", 0),
            ],
        );
        let sites = |found: &Found| {
            let of_site =
                |site: &Site| format!("{} {}", site.symbol, site.line.as_ref().unwrap().1);
            found
                .sites
                .iter()
                .map(of_site)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let all: Vec<(String, Option<u64>, bool)> = found
            .iter()
            .map(|found| (sites(found), found.next_line, found.is_known))
            .collect();
        let expected = [
            ("local 9", Some(1), true),
            ("", Some(3), true),
            ("local 12", Some(4), true),
            ("", None, true),
            ("", None, true),
            // The next line with code is in another function.
            ("one 5, two 5, two 5", None, true),
            // Its code, but not that of the copy in it.
            ("one 7", None, true),
            ("", None, false),
        ];
        assert_eq!(
            all,
            expected.map(|(text, next, is_known)| (text.into(), next, is_known))
        );
        assert_eq!(found[0].sites[0].anchor, Some(("local".into(), 0)));
    }

    #[test]
    fn a_file_chooses_one_of_several_functions() {
        let named = |file, point| {
            let named = Named { name: "same", file };
            (Source::Function(named, point), &[][..])
        };
        let entry = Point::Offset(0);
        let found = of_program(
            "files",
            &[
                named(Some("other.c"), entry),
                named(Some("m.c"), entry),
                named(Some("ther.c"), entry),
                named(None, entry),
                named(None, Point::Line(0)),
                named(Some("other.c"), Point::Line(0)),
                named(Some("m.c"), Point::Copies),
                (Source::Line("other.c", 2), &[]),
            ],
        );
        let types = |found: &Found| -> Vec<String> {
            let parameter = |site: &Site| site.variables[0].ty.clone();
            found.sites.iter().map(parameter).collect()
        };
        assert_eq!(types(&found[0]), ["int *"]);
        let site = &found[0].sites[0];
        assert_eq!(site.symbol, "same");
        let (anchor, offset) = site.anchor.clone().unwrap();
        assert!(anchor != "same" && offset > 0, "{anchor}");
        assert_eq!(types(&found[1]), ["int"]);
        assert!(found[2].sites.is_empty() && !found[2].is_known);
        assert_eq!(found[3].sites.len(), 2);
        assert!(found[4].sites.is_empty());
        assert_eq!(found[4].files, ["m.c", "other.c"]);
        assert_eq!(types(&found[5]), ["int *"]);
        assert!(found[6].sites.is_empty() && found[6].is_known);
        assert_eq!(found[7].sites.len(), 1);
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
