// SPDX-License-Identifier: GPL-2.0

//! Records: their parts, with values as the kernel prints them.

use std::rc::Rc;

/// A record of an event.
#[derive(Debug, PartialEq)]
pub struct Record<'a> {
    /// The name of the task.
    pub comm: &'a str,
    /// The thread ID of the task.
    pub pid: &'a str,
    /// The number of the CPU.
    pub cpu: u32,
    /// The time, in ns.
    pub time: u64,
    /// The place of the probe.
    pub place: &'a str,
    /// The names and the values of the fields.
    pub fields: Vec<(&'a str, &'a str)>,
    /// The functions that led to the record, the innermost first.
    pub stack: Vec<&'a str>,
    /// The functions of the program that led to the record, the innermost first.
    pub user_stack: Vec<String>,
}

/// The fields of a record. A run can have many records, so the values share one string.
#[derive(Debug, Default, PartialEq)]
pub struct Fields {
    names: Rc<[Rc<str>]>,
    /// The values, one after the other.
    text: String,
    /// Where each value ends in the text.
    ends: Vec<usize>,
}

impl Fields {
    /// Fields with these names. `write` writes the value of the field with an index.
    pub fn new(names: &Rc<[Rc<str>]>, mut write: impl FnMut(usize, &mut String)) -> Self {
        let mut text = String::new();
        let ends = (0..names.len()).map(|index| {
            write(index, &mut text);
            text.len()
        });
        Self {
            names: Rc::clone(names),
            ends: ends.collect(),
            text,
        }
    }

    /// The same fields, one of which has another value.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let values: Vec<(&str, &str)> = self.iter().collect();
        Self::new(&self.names, |index, text| {
            let (of, old) = values[index];
            text.push_str(if of == name { value } else { old });
        })
    }

    /// The names and the values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        self.names.iter().zip(&self.ends).map(move |(name, end)| {
            let value = &self.text[start..*end];
            start = *end;
            (&**name, value)
        })
    }
}

/// A record that has its parts.
#[derive(Debug, Default, PartialEq)]
pub struct Entry {
    /// The name of the event.
    pub event: Rc<str>,
    pub comm: Rc<str>,
    pub pid: String,
    pub cpu: u32,
    pub time: u64,
    pub place: String,
    pub fields: Fields,
    pub stack: Vec<Rc<str>>,
    pub user_stack: Vec<String>,
}

impl Entry {
    /// The record.
    pub fn record(&self) -> Record<'_> {
        Record {
            comm: &self.comm,
            pid: &self.pid,
            cpu: self.cpu,
            time: self.time,
            place: &self.place,
            fields: self.fields.iter().collect(),
            stack: self.stack.iter().map(|frame| &**frame).collect(),
            user_stack: self.user_stack.clone(),
        }
    }
}

impl<'a> Record<'a> {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&'a str> {
        self.fields
            .iter()
            .find(|(field, _)| *field == name)
            .map(|(_, value)| *value)
    }

    /// The string of a field, without its quotes. Empty if there is none.
    pub fn text(&self, name: &str) -> String {
        let value = self.field(name).unwrap_or("");
        let inner = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        inner.unwrap_or(value).into()
    }

    /// The number of a field. 0 if there is none.
    pub fn number(&self, name: &str) -> u64 {
        let value = self.field(name).unwrap_or("");
        match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap_or(0),
            None => value.parse().unwrap_or(0),
        }
    }

    /// The place `CALLER+0x1/0x2` of a return, from `CALLER+0x1/0x2 <- FUNCTION`.
    pub fn return_address(&self) -> Option<&'a str> {
        return_address(self.place)
    }

    /// The function of the probe, and its module: from the place `CALLER+0x1/0x2 <- FUNCTION` of a return, or the place
    /// of the probe.
    pub fn function(&self) -> String {
        let place = self.place.split_once(" <- ");
        symbol_of(place.map_or(self.place, |(_, function)| function))
    }

    /// The function that called, from the place `CALLER+0x1/0x2 <- FUNCTION`.
    pub fn caller(&self) -> &'a str {
        self.place.split(['+', ' ']).next().unwrap_or(self.place)
    }
}

/// The place `CALLER+0x1/0x2` of a return, from `CALLER+0x1/0x2 <- FUNCTION`.
pub fn return_address(place: &str) -> Option<&str> {
    place.split_once(" <- ").map(|(caller, _)| caller)
}

/// The function of the place `FUNCTION+0x1/0x2 [MODULE]`.
pub fn name_of(place: &str) -> &str {
    place.split('+').next().unwrap_or(place)
}

/// The function of a place, as `FUNCTION` or `FUNCTION [MODULE]`.
pub fn symbol_of(place: &str) -> String {
    match place.split_once(' ') {
        Some((place, module)) => format!("{} {module}", name_of(place)),
        None => name_of(place).into(),
    }
}

/// The function of a return instruction. A part of the function can be elsewhere, in `FUNCTION.cold`.
pub fn function_of_exit(place: &str) -> String {
    symbol_of(&place.replacen(".cold+", "+", 1))
}

/// The parts of `FUNCTION [MODULE]`.
pub fn split_symbol(symbol: &str) -> (&str, &str) {
    let parts = symbol.split_once(" [");
    parts.map_or((symbol, ""), |(name, module)| {
        (name, module.trim_end_matches(']'))
    })
}

/// Splits ` a=1 b="x y" c={1,2}`.
pub fn split_fields(text: &str) -> Vec<(&str, &str)> {
    let mut fields = Vec::new();
    let mut rest = text.trim();
    while let Some((name, after)) = rest.split_once('=') {
        let end = end_of_value(after);
        fields.push((name.trim(), &after[..end]));
        rest = after[end..].trim_start();
    }
    fields
}

/// A string ends at the quote before a blank and the next name, or at the end of the line.
fn end_of_value(text: &str) -> usize {
    let starts_name = |rest: &str| {
        let name = rest.split('=').next().unwrap_or("");
        rest.is_empty()
            || (rest.contains('=') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    let is_string = text.starts_with('"');
    for (at, _) in text.match_indices(' ') {
        let is_whole = !is_string || (at > 1 && text[..at].ends_with('"'));
        if is_whole && starts_name(&text[at + 1..]) {
            return at;
        }
    }
    text.len()
}

/// Records of lines, for tests.
#[cfg(test)]
pub mod tests {
    use super::*;

    impl<'a> Record<'a> {
        /// The record in a line `TASK-PID [CPU] FLAGS SECONDS: EVENT: (PLACE) FIELDS`.
        pub fn parse(line: &'a str, event: &str) -> Option<Self> {
            let (head, rest) = line.split_once(&format!(": {event}: ("))?;
            let (place, fields) = rest.split_once(')')?;
            let (task, head) = head.rsplit_once(" [")?;
            let (comm, pid) = task.trim().rsplit_once('-')?;
            let (cpu, head) = head.split_once(']')?;
            let seconds: f64 = head.rsplit(' ').next()?.parse().ok()?;
            Some(Self {
                comm,
                pid,
                cpu: cpu.parse().ok()?,
                time: (seconds * 1e6).round() as u64 * 1000,
                place,
                fields: split_fields(fields),
                stack: Vec::new(),
                user_stack: Vec::new(),
            })
        }

        /// The record in the line of one of several events, and the index of the event.
        pub fn parse_any<E: ToString>(line: &'a str, events: &[E]) -> Option<(usize, Self)> {
            let mut events = events.iter().map(E::to_string).enumerate();
            events.find_map(|(index, event)| Some((index, Self::parse(line, &event)?)))
        }
    }

    impl Entry {
        /// The record in a line of the event.
        pub fn parse(line: &str, event: &str) -> Option<Self> {
            let record = Record::parse(line, event)?;
            let names = record.fields.iter().map(|(name, _)| Rc::from(*name));
            let fields = Fields::new(&names.collect(), |index, text| {
                text.push_str(record.fields[index].1);
            });
            Some(Self {
                event: event.into(),
                comm: record.comm.into(),
                pid: record.pid.into(),
                cpu: record.cpu,
                time: record.time,
                place: record.place.into(),
                fields,
                ..Self::default()
            })
        }
    }

    #[test]
    fn a_place_has_functions() {
        let line =
            "  my-cat x-123     [001] .....     6.152338: slow: (ksys_read+0xbe/0xe0 <- vfs_read) \
            ns=111 name=\"a b=c \\\" d\" at=f+0x1/0x2 list={1,2} ret=-2";
        let record = Record::parse(line, "slow").unwrap();
        assert_eq!((record.comm, record.pid), ("my-cat x", "123"));
        assert_eq!((record.cpu, record.time), (1, 6_152_338_000));
        assert_eq!(record.caller(), "ksys_read");
        assert_eq!(record.function(), "vfs_read");
        let line = "cat-1 [000] ..... 1.0: count: (f+0x4/0x370 [mod])";
        let record = Record::parse(line, "count").unwrap();
        assert_eq!(
            (record.function(), record.fields.len()),
            ("f [mod]".into(), 0)
        );
    }

    #[test]
    fn splits_fields() {
        assert_eq!(
            split_fields(" ns=111 name=\"a b=c \\\" d\" at=f+0x1/0x2 list={1,2} ret=-2"),
            [
                ("ns", "111"),
                ("name", "\"a b=c \\\" d\""),
                ("at", "f+0x1/0x2"),
                ("list", "{1,2}"),
                ("ret", "-2")
            ]
        );
    }
}
