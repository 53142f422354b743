// SPDX-License-Identifier: GPL-2.0

//! The functions that the user chooses: a name, or a list of names and patterns with commas between them. `!` in front
//! of a name or a pattern excludes functions.

use std::collections::{
    BTreeSet,
    HashMap,
    HashSet, //
};

use crate::{
    asked::refuse_place,
    failure::{
        note,
        Failure,
        Result, //
    },
    functions::{
        Functions,
        Method,
        Symbol,
        PADDING, //
    },
    pattern::{
        is_pattern,
        matches, //
    },
    suggest,
    symbols::is_mapping, //
};

/// The most functions that have an event or a probe of their own.
pub const MAX_EACH: usize = 256;

/// A name or a pattern in a list.
pub struct Part<'t> {
    pub is_excluded: bool,
    pub text: &'t str,
}

impl Part<'_> {
    fn selects(&self, symbol: &Symbol<'_>) -> bool {
        let (module, name) = split(self.text);
        module.is_none_or(|module| module == symbol.module) && matches(name, symbol.name)
    }
}

/// The parts of a list. Without names to include, it excludes from all functions.
pub fn parse(text: &str) -> Result<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    for text in text.split(',').map(str::trim) {
        let (is_excluded, text) = match text.strip_prefix('!') {
            Some(text) => (true, text),
            None => (false, text),
        };
        if text.is_empty() {
            return Err(Failure::new("a list of functions has no empty names"));
        }
        refuse_place(text)?;
        parts.push(Part { is_excluded, text });
    }
    if parts.iter().all(|part| part.is_excluded) {
        parts.push(Part {
            is_excluded: false,
            text: "*",
        });
    }
    Ok(parts)
}

/// Whether the user chooses more than one function.
pub fn is_list(text: &str) -> bool {
    is_pattern(text) || text.contains([',', '!'])
}

/// Splits `MODULE:FUNCTION+OFFSET` or the like. Leaves out the text after the name.
pub fn split(name: &str) -> (Option<&str>, &str) {
    let (module, function) = match name.split_once(':') {
        Some((module, function)) => (Some(module), function),
        None => (None, name),
    };
    (
        module,
        function.split(['+', '%']).next().unwrap_or(function),
    )
}

impl Functions {
    /// Checks that a function exists and can be probed. `name` can start with the name of a module and a colon, and can
    /// end with an offset or a suffix such as `%all`.
    ///
    /// The kernel takes long to print its lists of functions. So if it refuses all that this check would refuse, the
    /// check waits until then: see [`Functions::explain`].
    pub fn check(&self, name: &str, method: Method) -> Result {
        refuse_place(name)?;
        if is_list(name) {
            return Err(Failure::new(format!(
                "{name} can be many functions: this command takes one"
            )));
        }
        let is_name = !name.contains([':', '+', '%']) && !name.starts_with(PADDING);
        match self.are_asked_for && is_name && !self.waits {
            // `f` takes all functions of a name.
            true if method == Method::Any => self.check_unique(name)?,
            true => {}
            false => return self.check_now(name, method),
        }
        let mut left = self.left_to_kernel.borrow_mut();
        left.push((name.into(), method));
        Ok(())
    }

    /// Says which function cannot be probed and why, if a command failed for this reason.
    pub fn explain(&self, failure: Failure) -> Failure {
        if matches!(failure, Failure::ClosedPipe) {
            return failure;
        }
        let left = self.left_to_kernel.borrow();
        let mut checks = left.iter();
        let found = checks.find_map(|(name, method)| self.check_now(name, *method).err());
        found.unwrap_or(failure)
    }

    /// Checks that only one function has the name.
    fn check_unique(&self, name: &str) -> Result {
        let found = self.named(name, None);
        match found.len() {
            0 if !self.symbols().is_empty() => Err(suggest::no_function(self, None, name)),
            0 | 1 => Ok(()),
            _ => Err(suggest::not_unique(None, name, &found)),
        }
    }

    /// Checks a function by the kernel's lists, as [`Functions::check`].
    fn check_now(&self, name: &str, method: Method) -> Result {
        let (module, function) = split(name);
        if self.symbols().is_empty() || self.awaited(name).is_some() {
            return Ok(());
        }
        let found = self.named(function, module);
        let Some((address, symbol)) = found.first() else {
            return Err(suggest::no_function(self, module, function));
        };
        // `f` takes only a name.
        let method = match method {
            Method::Any if name.contains([':', '+', '%']) => Method::Kprobe,
            method => method,
        };
        if let Some(why) = self.why_not(address, *symbol, method) {
            return Err(Failure::new(format!("{function} {why}")));
        }
        if let Some(other) = self.elsewhere(name) {
            note(format!(
                "rkprobe: {function} ends before {name}: the probe is in {other}"
            ));
        }
        let needs_one = matches!(method, Method::Any | Method::Kprobe) && !name.ends_with("%all");
        match needs_one && found.len() > 1 {
            true => Err(suggest::not_unique(module, function, &found)),
            false => Ok(()),
        }
    }

    /// The function in which `[MODULE:]FUNCTION+OFFSET` is, if it is another one. The kernel accepts such an offset.
    fn elsewhere(&self, name: &str) -> Option<&str> {
        let offset = name.rsplit_once('+')?.1;
        let offset = match offset.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => offset.parse(),
        };
        let address = |text: &str| u64::from_str_radix(text, 16).ok();
        let (module, function) = split(name);
        let start = address(self.named(function, module).first()?.0)?;
        let place = start.checked_add(offset.ok()?)?;
        let all = self.code().filter(|(_, symbol)| !is_mapping(symbol.name));
        let all = all.filter_map(|(text, symbol)| Some((address(text)?, symbol.name)));
        let others = all.filter(|(other, _)| start < *other && *other <= place);
        others.max_by_key(|(other, _)| *other).map(|(_, name)| name)
    }

    /// The module that is not loaded and for which the run waits, of the function `MODULE:FUNCTION`.
    pub fn awaited<'n>(&self, name: &'n str) -> Option<&'n str> {
        let module = split(name).0.filter(|_| self.waits && !is_list(name))?;
        let is_loaded = self.all().any(|(_, symbol)| symbol.module == module);
        (!is_loaded).then_some(module)
    }

    /// Checks the name of a function whose module the run can wait for.
    pub fn check_wait(&self, name: &str) -> Result {
        match split(name).0.is_some() && !is_list(name) {
            true => Ok(()),
            false => Err(Failure::new(
                "--wait needs one function, as MODULE:FUNCTION",
            )),
        }
    }

    /// Whether a list chooses a symbol, also if it cannot be probed.
    pub fn selected<'t>(&self, text: &'t str) -> Result<impl Fn(&Symbol<'_>) -> bool + 't> {
        let parts = parse(text)?;
        Ok(move |symbol: &Symbol<'_>| {
            let is_in = |is_excluded| {
                let mut parts = parts.iter().filter(|part| part.is_excluded == is_excluded);
                parts.any(|part| part.selects(symbol))
            };
            is_in(false) && !is_in(true)
        })
    }

    /// The failure for a list that chooses no symbol.
    pub fn none_of(&self, text: &str) -> Failure {
        let (module, name) = split(text);
        match is_list(text) {
            true => Failure::new(format!("no function matches {text}")),
            false => suggest::no_function(self, module, name),
        }
    }

    /// Fails if it is unknown which functions ftrace can trace.
    pub fn need_traceable(&self) -> Result {
        match self.traceable().next() {
            Some(_) => Ok(()),
            None => Err(Failure::new(
                "available_filter_functions of tracefs has no functions for this user: only root can read it",
            )),
        }
    }

    /// All functions of a list.
    pub fn choose(&self, text: &str, method: Method) -> Result<BTreeSet<Symbol<'_>>> {
        let parts = parse(text)?;
        let mut chosen = self.include(&parts, method)?;
        exclude(&mut chosen, &parts);
        match chosen.is_empty() {
            true => Err(Failure::new(format!("no function is left of {text}"))),
            false => Ok(chosen),
        }
    }

    /// The functions of a list, with those that it excludes.
    fn include(&self, parts: &[Part<'_>], method: Method) -> Result<BTreeSet<Symbol<'_>>> {
        if parts.iter().any(|part| is_pattern(part.text)) {
            self.need_traceable()?;
        }
        let blacklisted: HashSet<Symbol<'_>> = match method {
            Method::Kprobe => self.blacklisted().collect(),
            _ => HashSet::new(),
        };
        let mut chosen = BTreeSet::new();
        for part in parts.iter().filter(|part| !part.is_excluded) {
            if !is_pattern(part.text) {
                let (module, name) = split(part.text);
                self.check(part.text, method)?;
                let found = self.named(name, module).into_iter();
                chosen.extend(found.map(|(_, symbol)| symbol));
                continue;
            }
            let found: Vec<Symbol<'_>> = self
                .traceable()
                .filter(|symbol| part.selects(symbol) && !blacklisted.contains(symbol))
                .collect();
            if found.is_empty() {
                return Err(Failure::new(format!("no function matches {}", part.text)));
            }
            chosen.extend(found);
        }
        Ok(chosen)
    }

    /// The functions of a list, each of which gets a probe of its own. A name alone stays as it is.
    pub fn each(&self, text: &str, method: Method) -> Result<Vec<String>> {
        if !is_list(text) {
            self.check(text, method)?;
            return Ok(vec![text.into()]);
        }
        let chosen = self.choose(text, method)?;
        let mut counts: HashMap<Symbol<'_>, usize> = HashMap::new();
        let mut all: HashMap<&str, usize> = HashMap::new();
        for (_, symbol) in self.code() {
            *counts.entry(symbol).or_default() += 1;
            *all.entry(symbol.name).or_default() += 1;
        }
        let is_single = |symbol: &&Symbol<'_>| match symbol.module {
            "" => all.get(symbol.name).is_none_or(|count| *count == 1),
            _ => counts.get(*symbol).is_none_or(|count| *count == 1),
        };
        let (single, others): (Vec<&Symbol<'_>>, Vec<&Symbol<'_>>) =
            chosen.iter().partition(is_single);
        let others: Vec<&str> = others.into_iter().map(|symbol| symbol.name).collect();
        leave_out(&others, "several functions have the name");
        match single.len() {
            0 => Err(Failure::new(format!("no function is left of {text}"))),
            count if count > MAX_EACH => Err(Failure::new(format!(
                "{count} functions match {text}: each needs its own probe, and at most {MAX_EACH} can have one"
            ))),
            _ => Ok(single.into_iter().map(Symbol::full_name).collect()),
        }
    }
}

/// Removes what a list excludes.
fn exclude(chosen: &mut BTreeSet<Symbol<'_>>, parts: &[Part<'_>]) {
    for part in parts.iter().filter(|part| part.is_excluded) {
        let before = chosen.len();
        chosen.retain(|symbol| !part.selects(symbol));
        if chosen.len() == before {
            note(format!("rkprobe: !{} excludes no function", part.text));
        }
    }
}

/// Says which functions of a list are not probed.
pub fn leave_out(names: &[&str], why: &str) {
    const SHOWN: usize = 5;

    if names.is_empty() {
        return;
    }
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let shown = names[..names.len().min(SHOWN)].join(", ");
    note(format!("rkprobe: not probed: {shown}{more}: {why}"));
}

#[cfg(test)]
mod tests {
    use crate::functions::{
        self,
        tests::functions, //
    };

    use super::*;

    fn error<T>(result: Result<T>) -> String {
        match result {
            Err(failure @ Failure::Message(_)) => failure.reason().into(),
            _ => String::new(),
        }
    }

    #[test]
    fn an_offset_can_lead_to_another_function() {
        let functions = functions::tests::of(
            "10 t vfs_read\n10 t alias\n18 t $x\n20 t vfs_write\n30 t m\t[mod]\n",
            "vfs_read\nvfs_write\nm [mod]\n",
            "",
        );
        for (name, expected) in [
            ("vfs_read", None),
            ("vfs_read+0", None),
            ("vfs_read+0xf", None),
            ("vfs_read+16", Some("vfs_write")),
            ("vfs_read+0x20", Some("m")),
            ("mod:m+1", None),
            ("none+1", None),
            ("vfs_read+x", None),
        ] {
            assert_eq!(functions.elsewhere(name), expected, "{name}");
        }
    }

    #[test]
    fn functions_that_can_be_probed() {
        use Method::{
            Any,
            Ftrace,
            Kprobe,
            Read, //
        };

        let functions = functions();
        for (name, methods) in [
            ("vfs_read", &[Ftrace, Kprobe, Any, Read][..]),
            ("vfs_read+5", &[Kprobe]),
            ("mod:mod_write", &[Kprobe, Any]),
            ("mod_write", &[Ftrace]),
            ("do_int3", &[Ftrace, Any, Read]),
            ("name_show", &[Ftrace, Read]),
            ("name_show%all", &[Kprobe, Any]),
            ("mod:name_show", &[Kprobe]),
            ("vfs_read.cold", &[Kprobe, Any]),
            ("copied.isra.0", &[Ftrace]),
            ("memcpy", &[Read]),
            ("alias_of_write", &[Ftrace]),
        ] {
            for method in methods {
                assert!(functions.check(name, *method).is_ok(), "{name} {method:?}");
            }
        }
    }

    #[test]
    fn others_have_a_reason() {
        for (name, method, expected) in [
            ("vfs_*", Method::Any, "vfs_* can be many functions: this command takes one"),
            (
                "__pfx_vfs_read",
                Method::Read,
                "__pfx_vfs_read is padding before vfs_read, and no function",
            ),
            (
                "memcpy",
                Method::Ftrace,
                "memcpy cannot be probed: ftrace does not know it (notrace, assembly, or data)",
            ),
            (
                "do_int3",
                Method::Kprobe,
                "do_int3 is on the kernel's blacklist of kprobes; count, fails, lat and slow can probe it",
            ),
            (
                "exc_int3",
                Method::Any,
                "exc_int3 is on the kernel's blacklist of kprobes, and ftrace cannot trace it",
            ),
            (
                "do_int3%all",
                Method::Any,
                "do_int3 is on the kernel's blacklist of kprobes; count, fails, lat and slow can probe it",
            ),
            (
                "name_show",
                Method::Any,
                "3 functions have the name name_show: write name_show%all for all of them, or mod:name_show",
            ),
            (
                "vfs_read.cold",
                Method::Ftrace,
                "vfs_read.cold cannot be probed: ftrace does not know it (notrace, assembly, or data)",
            ),
            (
                "lost.cold",
                Method::Kprobe,
                "lost.cold cannot be probed: ftrace does not know it (notrace, assembly, or data)",
            ),
        ] {
            assert_eq!(error(functions().check(name, method)), expected);
        }
    }

    #[test]
    fn without_lists_nothing_is_refused() {
        let empty = functions::tests::of("10 t vfs_read\n", "", "");
        assert!(empty.check("vfs_read", Method::Kprobe).is_ok());
        assert!(empty.check("vfs_raed", Method::Kprobe).is_err());
    }

    #[test]
    fn a_list_has_each_function_once() {
        let functions = functions();
        let chosen = |text| {
            let all = functions.choose(text, Method::Ftrace).unwrap();
            all.iter().map(Symbol::full_name).collect::<Vec<_>>()
        };
        assert_eq!(
            chosen("vfs_*,vfs_read, vfs_read"),
            ["vfs_read", "vfs_write"]
        );
        assert_eq!(chosen("vfs_*,!vfs_r*"), ["vfs_write"]);
        assert_eq!(chosen("!vfs_*,vfs_read,do_int3"), ["do_int3"]);
        assert_eq!(
            chosen("mod:*"),
            ["mod_write", "name_show"].map(|name| format!("mod:{name}"))
        );
        assert_eq!(chosen("*write,!mod:*"), ["vfs_write"]);
        assert_eq!(chosen("!*_*"), ["copied.isra.0"]);
        for (text, expected) in [
            ("vfs_*,no_*", "no function matches no_*"),
            ("vfs_*,!v*", "no function is left of vfs_*,!v*"),
            (
                "vfs_read,,vfs_write",
                "a list of functions has no empty names",
            ),
            (
                "vfs_*,vfs_raed",
                "the kernel has no function vfs_raed; similar: vfs_read",
            ),
        ] {
            assert_eq!(error(functions.choose(text, Method::Ftrace)), expected);
        }
        assert_eq!(
            error(functions.choose("do_*", Method::Kprobe)),
            "no function matches do_*"
        );
    }

    #[test]
    fn each_function_has_one_probe() {
        let each = |text, method| functions().each(text, method).unwrap();
        assert_eq!(each("name_show%all", Method::Kprobe), ["name_show%all"]);
        assert_eq!(
            each("name_*,mod_*", Method::Kprobe),
            ["mod:mod_write", "mod:name_show"]
        );
        assert_eq!(
            each("do_int3,vfs_read", Method::Any),
            ["do_int3", "vfs_read"]
        );
        assert_eq!(
            error(functions().each("name_show,vfs_read", Method::Kprobe)),
            error(functions().check("name_show", Method::Kprobe))
        );
    }
}
