// SPDX-License-Identifier: GPL-2.0

//! Probes at places in the source: lines, and copies of functions that the compiler inlined.

use probe::btf::Btf;

use crate::{
    btf,
    dwarf::Information,
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
    selection::MAX_EACH,
    sources::{
        Asked,
        Found,
        Search,
        Site,
        Source, //
    },
    value::Value, //
};

/// The code of a place in the source.
pub struct Place {
    /// What a probe takes for it.
    pub target: String,
    /// The function that contains it, as the kernel prints it.
    pub holder: String,
    pub site: Site,
}

/// A place in the source.
pub struct Places {
    /// As the user wrote it, without what only says that it is one.
    pub text: String,
    pub all: Vec<Place>,
}

impl Functions {
    /// Finds a place in the source, with the values that the user wants to see. `None` if the text chooses functions.
    pub fn places(&self, text: &str, chosen: &[&str]) -> Result<Option<Places>> {
        match Asked::parse(text) {
            Some(asked) => self.ask(text, asked, chosen).map(Some),
            None => match self.unknown(text) {
                // The debug information alone can tell whether it is one.
                Some(asked) => Ok(self.ask(text, asked, chosen).ok()),
                None => Ok(None),
            },
        }
    }

    /// Finds any place in the code: also `[MODULE:]FUNCTION[+OFFSET]`.
    pub fn any_place(&self, text: &str, chosen: &[&str]) -> Result<Places> {
        if let Some(places) = self.places(text, chosen)? {
            return Ok(places);
        }
        let (module, place) = text.split_once(':').unwrap_or(("", text));
        let (function, offset) = place.split_once('+').unwrap_or((place, "0"));
        let number = match offset.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => offset.parse(),
        };
        let number = number.map_err(|_| Failure::new(format!("{text}: {offset} is no offset")))?;
        let symbol = Symbol {
            name: function,
            module,
        };
        self.check(&symbol.full_name(), Method::Read)?;
        let asked = Asked {
            module,
            source: Source::Offset(function, number),
        };
        self.ask(text, asked, chosen)
    }

    /// A name that no function has.
    fn unknown<'t>(&self, text: &'t str) -> Option<Asked<'t>> {
        let (module, name) = text.split_once(':').unwrap_or(("", text));
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if self.waits || name.is_empty() || !name.bytes().all(is_letter) {
            return None;
        }
        let of_module = (!module.is_empty()).then_some(module);
        // The kernel takes long to print its symbols.
        let has_types = btf::with(of_module, |btf| btf.function(name).is_some());
        let is_known = has_types == Some(true) || !self.named(name, of_module).is_empty();
        (!is_known).then_some(Asked {
            module,
            source: Source::Copies(name),
        })
    }

    fn ask(&self, text: &str, asked: Asked<'_>, chosen: &[&str]) -> Result<Places> {
        let information = Information::open(asked.module);
        let information =
            information.map_err(|reason| Failure::new(format!("{text}: {reason}")))?;
        let of_module = (!asked.module.is_empty()).then_some(asked.module);
        let search = |btf: Option<&Btf<'_>>| {
            let search = Search {
                information: &information,
                asked,
                chosen,
                btf,
            };
            search.find()
        };
        let found = btf::with(of_module, |btf| search(Some(btf))).unwrap_or_else(|| search(None));
        let broken = |error| Failure::new(format!("{text}: broken debug information: {error}"));
        let found = found.map_err(broken)?;
        if found.sites.is_empty() {
            return Err(no_code(text, asked, &found));
        }
        check_choice(text, &found, chosen)?;
        let mut all = Vec::new();
        let mut reasons = Vec::new();
        for site in found.sites {
            match self.target(asked.module, &site) {
                Ok(target) => {
                    let symbol = Symbol {
                        name: &site.symbol,
                        module: asked.module,
                    };
                    all.push(Place {
                        target,
                        holder: symbol.to_string(),
                        site,
                    })
                }
                Err(why) => reasons.push(why),
            }
        }
        reasons.dedup();
        match (&all[..], &reasons[..]) {
            ([], reasons) => return Err(Failure::new(reasons.join("; "))),
            (_, []) => {}
            (_, reasons) => note(format!("rkprobe: not probed: {}", reasons.join("; "))),
        }
        if all.len() > MAX_EACH {
            return Err(Failure::new(format!(
                "{text} has code in {} places: each needs its own probe, and at most {MAX_EACH} can have one",
                all.len()
            )));
        }
        let text = match asked.source {
            Source::Copies(name) => name,
            _ => text,
        };
        Ok(Places {
            text: text.into(),
            all,
        })
    }

    /// What a probe takes for a site, or why it cannot have one.
    fn target(&self, module: &str, site: &Site) -> std::result::Result<String, String> {
        let of_module = (!module.is_empty()).then_some(module);
        let name = &site.symbol;
        let named = self.named(name, of_module);
        let here = named.iter().find(|(_, symbol)| symbol.module == module);
        // Without the list of symbols, the kernel decides.
        if let Some((address, symbol)) = here {
            if let Some(why) = self.why_not(address, *symbol, Method::Kprobe) {
                return Err(format!("{name} {why}"));
            }
        }
        if !site.is_single {
            return Err(format!("several functions have the name {name}"));
        }
        let full_name = Symbol { name, module }.full_name();
        Ok(format!("{full_name}+{:#x}", site.offset))
    }
}

/// The failure for a place without code.
fn no_code(text: &str, asked: Asked<'_>, found: &Found) -> Failure {
    let is_known = found.is_known;
    Failure::new(match asked.source {
        Source::Line(file, _) if !is_known => {
            let place = match asked.module {
                "" => "the kernel",
                module => module,
            };
            let hint = match asked.module {
                "" => "; for a module, write MODULE:FILE:LINE",
                _ => "",
            };
            format!("{text}: no code of {place} is from a file {file}{hint}")
        }
        Source::Line(..) => match found.next_line {
            Some(next) => format!("{text} has no code; the next line with code is {next}"),
            None => format!("{text} has no code, and no line after it has"),
        },
        Source::Copies(name) => format!("{text}: the compiler has made no copy of {name}"),
        Source::Offset(name, _) => {
            format!("{text}: the debug information has no code there, or no {name}")
        }
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
        let variable = variable.split(['-', '.']).next().unwrap_or(variable);
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

impl Place {
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
