// SPDX-License-Identifier: GPL-2.0

//! Probes at places in the source: lines, and copies of functions that the compiler inlined.

use std::collections::{
    BTreeMap,
    BTreeSet,
    HashSet, //
};

use probe::btf::Btf;

use crate::{
    asked::{
        refuse_offset,
        Asked,
        Named,
        Point,
        Source, //
    },
    btf,
    debug_files::{
        owner,
        Origin, //
    },
    dwarf::Information,
    epilogues::{
        self,
        Return, //
    },
    failure::{
        note,
        Failure,
        Result, //
    },
    functions::{
        Functions,
        Method,
        Symbol, //
    },
    kinds::Kind,
    selection::{
        is_list,
        leave_out,
        split,
        MAX_EACH, //
    },
    sources::{
        Found,
        Listed,
        Search,
        Site,
        MAX_SITES, //
    },
    suggest,
    tracefs::Tracefs,
    value::Value,
    variables::RESULT, //
};

/// A site that can have a probe.
pub struct ProbedSite {
    /// What a probe takes for it.
    pub target: String,
    /// The function that contains it, as the kernel prints it.
    pub holder: String,
    pub site: Site,
}

/// The sites of a place in the source.
pub struct ProbedSites {
    /// As the user wrote it, without what only says that it is one.
    pub text: String,
    /// Whether they are copies of a function.
    pub is_copy: bool,
    pub all: Vec<ProbedSite>,
}

impl Functions {
    /// Finds a place in the source, with the values that the user wants to see. `None` if the text chooses functions.
    pub fn sites(
        &self,
        tracefs: &Tracefs,
        text: &str,
        chosen: &[&str],
    ) -> Result<Option<ProbedSites>> {
        if let Some(asked) = Asked::parse(text) {
            let (named, point) = match asked.source {
                // A module can have copies of a function of the kernel.
                Source::Line(..) | Source::Function(_, Point::Copies) => {
                    return self.find(text, asked, chosen, &[]).map(Some);
                }
                Source::Function(named, point) => (named, point),
            };
            let module = self.holding(asked.module, named.name);
            let asked = Asked {
                module: &module,
                ..asked
            };
            let returns = match point {
                Point::Returns => {
                    let function = Symbol {
                        name: named.name,
                        module: &module,
                    };
                    let function = function.full_name();
                    let function = match named.file {
                        Some(file) => self.by_name(&format!("{function}@{file}"))?,
                        None => function,
                    };
                    epilogues::find(tracefs, self, &function)?
                }
                _ => Vec::new(),
            };
            return self.find(text, asked, chosen, &returns).map(Some);
        }
        let Some(asked) = self.unknown(text) else {
            return Ok(None);
        };
        // The debug information alone can tell whether a function without a symbol has copies. A wrong name is no reason to
        // download it.
        let found = Information::open(asked.module, Origin::Here).ok();
        let found = found.and_then(|information| search(&information, asked, chosen, &[]).ok());
        match found.filter(|found| !found.sites.is_empty()) {
            Some(found) => self.probed(text, asked, chosen, found).map(Some),
            None => {
                let (module, name) = split(text);
                Err(suggest::no_function(self, module, name))
            }
        }
    }

    /// Finds any place in the code: also `[MODULE:]FUNCTION[+OFFSET]`.
    pub fn any_sites(&self, tracefs: &Tracefs, text: &str, chosen: &[&str]) -> Result<ProbedSites> {
        if let Some(sites) = self.sites(tracefs, text, chosen)? {
            return Ok(sites);
        }
        let (module, name) = split(text);
        let offset = text.split_once('+').map_or("0", |(_, offset)| offset);
        let number = match offset.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => offset.parse(),
        };
        let number = number.map_err(|_| Failure::new(format!("{text}: {offset} is no offset")))?;
        self.check(text, Method::Read)?;
        let module = self.holding(module.unwrap_or(""), name);
        let named = Named { name, file: None };
        let asked = Asked {
            module: &module,
            source: Source::Function(named, Point::Offset(number)),
        };
        self.find(text, asked, chosen, &[])
    }

    /// What a probe takes for a whole function: a text that names one by its file becomes its name, or another symbol
    /// with an offset if several functions have the name. Others stay as they are.
    pub fn whole(&self, text: &str) -> Result<String> {
        let Some(Asked {
            module,
            source: source @ Source::Function(named, Point::Offset(0)),
        }) = Asked::parse(text)
        else {
            return Ok(text.into());
        };
        let module = &*self.holding(module, named.name);
        let sites = self.find(text, Asked { module, source }, &[], &[])?;
        let [only] = &sites.all[..] else {
            let problem = match sites.is_copy {
                true => "only copies of it in others",
                false => "several such functions",
            };
            return Err(Failure::new(format!("{text}: the kernel has {problem}")));
        };
        Ok(match &only.site.anchor {
            Some((name, offset)) if *name == only.site.symbol && *offset == 0 => {
                Symbol { name, module }.full_name()
            }
            _ => only.target.clone(),
        })
    }

    /// What probes take for the functions of a list, or for a function that the user names by its file.
    pub fn each_whole(&self, text: &str, method: Method) -> Result<Vec<String>> {
        let whole = self.whole(text)?;
        // The site of such a function has been checked.
        match whole != text && whole.contains('+') {
            true => Ok(vec![whole]),
            false => self.each(&whole, method),
        }
    }

    /// The same for a command that needs a function with a name of its own.
    pub fn by_name(&self, text: &str) -> Result<String> {
        refuse_offset(text)?;
        let whole = self.whole(text)?;
        match whole == text || !whole.contains('+') {
            true => Ok(whole),
            false => Err(Failure::new(format!(
                "{text}: several functions have the name, and this command needs one of its own; args, count, hist, \
                 lat and slow do not"
            ))),
        }
    }

    /// Finds a place in the source with a value of each site: a variable, or a fetch argument, which is the same
    /// everywhere. `None` if the text chooses functions.
    pub fn sites_with(
        &self,
        tracefs: &Tracefs,
        text: &str,
        value: &str,
    ) -> Result<Option<Vec<(ProbedSite, String)>>> {
        let is_result = value == RESULT;
        let is_fetch = value.starts_with(['%', '+', '-', '@', '$', '\\', '(']) && !is_result;
        let chosen = match is_fetch {
            true => &[][..],
            false => &[value],
        };
        let Some(sites) = self.sites(tracefs, text, chosen)? else {
            return Ok(None);
        };
        let fetch = |site: &ProbedSite| match site.site.chosen.first() {
            Some(Ok(known)) if matches!(known.kind, Kind::Text(_)) => Some(Err(Failure::new(
                format!("{text}: {value} is a string, and no number"),
            ))),
            Some(Ok(known)) => Some(Ok(known.without_name().into())),
            Some(Err(_)) => None,
            None => Some(Ok(value.into())),
        };
        let all = sites.all.into_iter();
        let known = all.filter_map(|site| Some(fetch(&site)?.map(|fetch: String| (site, fetch))));
        let known: Vec<_> = known.collect::<Result<_>>()?;
        match known.is_empty() {
            true => Err(Failure::new(format!(
                "{text}: {value} is known only where no probe can be"
            ))),
            false => Ok(Some(known)),
        }
    }

    /// The places in the source where an object is, each with the fetch argument that has it: the variable that the user
    /// names, or the only one that points to the structure. `None` if the text chooses functions.
    pub fn objects(
        &self,
        tracefs: &Tracefs,
        text: &str,
        structure: &str,
        given: Option<&str>,
    ) -> Result<Option<Vec<(ProbedSite, String)>>> {
        if let Some(given) = given {
            return self.sites_with(tracefs, text, given);
        }
        let Some(sites) = self.sites(tracefs, text, &[])? else {
            return Ok(None);
        };
        let pointer = format!("struct {structure} *");
        let is_object = |listed: &&Listed| listed.ty == pointer && listed.value.is_ok();
        let all = sites.all.iter().flat_map(|site| &site.site.variables);
        let names: BTreeSet<&str> = all.filter(is_object).map(|listed| &*listed.name).collect();
        let names: Vec<&str> = names.into_iter().collect();
        match names[..] {
            [name] => self.sites_with(tracefs, text, name),
            [] => Err(Failure::new(format!(
                "{text}: no variable that can be read there points to struct {structure}"
            ))),
            _ => Err(Failure::new(format!(
                "{text}: several variables point to struct {structure}: choose one of {}",
                names.join(", ")
            ))),
        }
    }

    /// The module of a function: the one that the user names, or the one that has the function. Empty for the kernel.
    fn holding(&self, module: &str, function: &str) -> String {
        let is_in_kernel = || btf::with(None, |btf| btf.function(function).is_some());
        match module {
            // The kernel takes long to print its symbols.
            "" if is_in_kernel() == Some(true) => String::new(),
            "" => self.module_of(function).unwrap_or_default(),
            module => module.into(),
        }
    }

    /// A name that no function has.
    fn unknown<'t>(&self, text: &'t str) -> Option<Asked<'t>> {
        let (module, name) = split(text);
        if self.waits || is_list(text) || text.contains(['+', '%']) {
            return None;
        }
        // The kernel takes long to print its symbols, and not all users may read them.
        let has_types = btf::with(module, |btf| btf.function(name).is_some());
        let is_known = has_types == Some(true)
            || self.symbols().is_empty()
            || !self.named(name, module).is_empty();
        (!is_known).then_some(Asked {
            module: module.unwrap_or(""),
            source: Source::Function(Named { name, file: None }, Point::Copies),
        })
    }

    fn find(
        &self,
        text: &str,
        asked: Asked<'_>,
        chosen: &[&str],
        returns: &[Return],
    ) -> Result<ProbedSites> {
        let information = Information::open(asked.module, Origin::Anywhere);
        let information = information.map_err(|why| Failure::new(format!("{text}: {why}")))?;
        let broken = |error| Failure::new(format!("{text}: broken debug information: {error}"));
        let mut asked = asked;
        let mut found = search(&information, asked, chosen, returns).map_err(broken)?;
        if let Source::Function(named, Point::Offset(0)) = asked.source {
            // As for a name alone.
            if found.sites.is_empty() && found.is_known && found.files.is_empty() {
                asked.source = Source::Function(named, Point::Copies);
                found = search(&information, asked, chosen, returns).map_err(broken)?;
            }
        }
        match found.sites.is_empty() {
            true => Err(no_code(text, asked, &found)),
            false => self.probed(text, asked, chosen, found),
        }
    }

    /// The probes of what was found.
    fn probed(
        &self,
        text: &str,
        asked: Asked<'_>,
        chosen: &[&str],
        found: Found,
    ) -> Result<ProbedSites> {
        let too_many = |count: usize| {
            Failure::new(format!(
                "{text} has code in {count} places: each needs its own probe, and at most {MAX_EACH} can have one"
            ))
        };
        if found.count > MAX_SITES {
            return Err(too_many(found.count));
        }
        check_choice(text, &found, chosen)?;
        let traceable: HashSet<Symbol<'_>> = self.traceable().collect();
        let mut all = Vec::new();
        let mut others: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let module = asked.module;
        for site in found.sites {
            let name = &site.symbol;
            let symbol = Symbol { name, module };
            let why = self.why_no_probe(symbol, &traceable);
            match (&site.anchor, why) {
                (Some((name, offset)), None) => all.push(ProbedSite {
                    target: format!("{}+{offset:#x}", Symbol { name, module }.full_name()),
                    holder: symbol.to_string(),
                    site,
                }),
                (_, why) => {
                    let why = why.unwrap_or_else(|| "several functions have the name".into());
                    others.entry(why).or_default().insert(site.symbol);
                }
            }
        }
        for (why, names) in &others {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            leave_out(&names, why);
        }
        if all.is_empty() {
            return Err(Failure::new(format!("{text}: no code there can be probed")));
        }
        say_unreadable(&all, chosen);
        if all.len() > MAX_EACH {
            return Err(too_many(all.len()));
        }
        let (text, is_copy) = match asked.source {
            Source::Function(named, Point::Copies) => (named.name, true),
            _ => (text, false),
        };
        Ok(ProbedSites {
            text: text.into(),
            is_copy,
            all,
        })
    }

    /// Why a site in a function cannot have a probe. `traceable` are the functions that ftrace can trace.
    fn why_no_probe(&self, symbol: Symbol<'_>, traceable: &HashSet<Symbol<'_>>) -> Option<String> {
        // To look for the address in the list of symbols takes long.
        if traceable.contains(&symbol) && self.blacklisted().all(|other| other != symbol) {
            return None;
        }
        let named = self.named(symbol.name, Some(symbol.module));
        // Without the list of symbols, the kernel decides.
        let (address, symbol) = named.first()?;
        self.why_not(address, *symbol, Method::Kprobe)
    }
}

fn search(
    information: &Information,
    asked: Asked<'_>,
    chosen: &[&str],
    returns: &[Return],
) -> gimli::Result<Found> {
    let search = |btf: Option<&Btf<'_>>| {
        let search = Search {
            information,
            asked,
            chosen,
            returns,
            btf,
        };
        search.find()
    };
    let module = (!asked.module.is_empty()).then_some(asked.module);
    btf::with(module, |btf| search(Some(btf))).unwrap_or_else(|| search(None))
}

/// The failure for a place without code.
fn no_code(text: &str, asked: Asked<'_>, found: &Found) -> Failure {
    let place = owner(asked.module);
    let what = match asked.source {
        Source::Line(file, _) => file,
        Source::Function(named, _) => named.name,
    };
    if !found.files.is_empty() {
        let files = found.files.join(", ");
        return Failure::new(match asked.source {
            Source::Line(..) => format!("{text}: {what} can be {files}"),
            Source::Function(..) => format!("{text}: {what}@FILE can have the files {files}"),
        });
    }
    let hint = |form: &str| match asked.module {
        "" => format!("; for a module, write MODULE:{form}"),
        _ => String::new(),
    };
    Failure::new(match asked.source {
        Source::Line(file, _) if !found.is_known => {
            format!(
                "{text}: no code of {place} is from a file {file}{}",
                hint("FILE:LINE")
            )
        }
        Source::Line(..) | Source::Function(_, Point::Line(_)) if found.is_known => {
            let of = match asked.source {
                Source::Line(..) => String::new(),
                Source::Function(..) => format!(" of {what}"),
            };
            match found.next_line {
                Some(next) => format!("{text} has no code; the next line{of} with code is {next}"),
                None => format!("{text} has no code, and no line{of} after it has"),
            }
        }
        Source::Function(_, Point::Copies) if found.is_known => {
            format!("{text}: the compiler has made no copy of {what}")
        }
        Source::Function(
            Named {
                file: Some(file), ..
            },
            _,
        ) if !found.is_known => {
            format!("{text}: no function {what} of {place} is from a file {file}")
        }
        Source::Function(_, Point::Line(_) | Point::Copies) => {
            format!(
                "{text}: the debug information of {place} has no function {what}{}",
                hint("FUNCTION")
            )
        }
        _ => format!("{text}: the debug information has no code there, or no {what}"),
    })
}

/// Fails if a value that the user wants to see can be read nowhere.
fn check_choice(text: &str, found: &Found, chosen: &[&str]) -> Result {
    for (index, choice) in chosen.iter().enumerate() {
        let values = found.sites.iter().map(|site| &site.chosen[index]);
        if values.clone().any(|value| value.is_ok()) {
            continue;
        }
        let why = values.clone().find_map(|value| value.as_ref().err());
        let variable = choice.split_once('=').map_or(*choice, |(_, fetch)| fetch);
        let variable = variable.split(['-', '.', ':']).next().unwrap_or(variable);
        let listed = || found.sites.iter().flat_map(|site| &site.variables);
        let next = listed().find(|listed| listed.name == variable && listed.value.is_err());
        let next = next.and_then(|listed| listed.next);
        let hint = match next {
            Some(line) => format!("; it can be read at line {line}"),
            None if listed().any(|listed| listed.name == variable) => String::new(),
            None => {
                let mut names: Vec<&str> = listed().map(|listed| &*listed.name).collect();
                names.sort_unstable();
                names.dedup();
                format!("; the variables there: {}", names.join(", "))
            }
        };
        let why = why.map_or("", String::as_str);
        return Err(Failure::new(format!("{text}: {choice}: {why}{hint}")));
    }
    Ok(())
}

/// Says where a value that the user wants to see cannot be read, if it can elsewhere.
fn say_unreadable(sites: &[ProbedSite], chosen: &[&str]) {
    let mut all: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for site in sites {
        for (choice, value) in chosen.iter().zip(&site.site.chosen) {
            if let Err(why) = value {
                all.entry((choice, why)).or_default().push(&site.target);
            }
        }
    }
    for ((choice, why), targets) in all {
        note(format!(
            "rkprobe: {choice} at {}: {why}",
            targets.join(", ")
        ));
    }
}

impl ProbedSite {
    /// The values to record: those that the user wants to see, or all that can be read.
    pub fn values(&self) -> Vec<Value> {
        if self.site.chosen.is_empty() {
            let values = self.site.variables.iter();
            return values
                .filter_map(|listed| listed.value.clone().ok())
                .collect();
        }
        self.site
            .chosen
            .iter()
            .filter_map(|value| value.clone().ok())
            .collect()
    }
}
