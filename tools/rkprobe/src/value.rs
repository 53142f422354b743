// SPDX-License-Identifier: GPL-2.0

//! A value of a record: which fetch arguments record it, and how an answer shows it. Its type in BTF decides.

use std::{
    borrow::Cow,
    rc::Rc, //
};

use probe::btf::{
    Btf,
    Param, //
};
use serde_json::{
    json,
    Value as Json, //
};

use crate::{
    duration,
    errno,
    flags,
    format::FAULT,
    kinds::{
        kind,
        Kind, //
    },
    late_texts,
    literal::{
        plain_json,
        plain_text,
        quote,
        unquote, //
    },
    record::Record, //
};

/// The lowest number of 64 bits that is an error. C: `MAX_ERRNO`.
const MIN_ERROR: u64 = u64::MAX - 4094;

/// The longest time that is shown as a duration, in ns: an hour.
const MAX_DURATION: u64 = 3_600_000_000_000;

/// A value of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The name of its field.
    pub name: Rc<str>,
    /// The fetch arguments that record it.
    pub fetch: String,
    pub kind: Kind,
    /// The members of the structure to which it points, with their names.
    pub members: Vec<(Rc<str>, Value)>,
}

impl Value {
    /// The value that `fetch` reads. `kind` adds the type to it.
    pub fn new(name: &str, fetch: &str, kind: Kind) -> Self {
        let fetch = match kind {
            Kind::Text(_) => format!("{name}_at={fetch}:x64 {name}={fetch}:string"),
            Kind::Symbol => format!("{name}={fetch}:symbol"),
            _ => format!("{name}={fetch}"),
        };
        Self::of(name, fetch, kind)
    }

    /// The last fetch argument, without its name.
    pub fn without_name(&self) -> &str {
        let last = self.fetch.rsplit(' ').next().unwrap_or(&self.fetch);
        last.split_once('=').map_or(last, |(_, fetch)| fetch)
    }

    /// A member. An array of `char` is a string.
    pub fn member(name: &str, fetch: &str, kind: Kind, is_array: bool) -> Self {
        match is_array {
            true => Self::plain(&format!("{name}={fetch}:string")),
            false => Self::new(name, fetch, kind),
        }
    }

    /// The value that these fetch arguments record as this kind.
    pub fn of(name: &str, fetch: String, kind: Kind) -> Self {
        Self {
            name: name.into(),
            fetch,
            kind,
            members: Vec::new(),
        }
    }

    /// The same value with members of the structure to which it points.
    pub fn with_members(mut self, members: Vec<(Rc<str>, Self)>) -> Self {
        for (_, member) in &members {
            self.fetch += " ";
            self.fetch += &member.fetch;
        }
        self.members = members;
        self
    }

    /// A value that the kernel prints as it is shown. `field` is `NAME=FETCHARG`.
    pub fn plain(field: &str) -> Self {
        let name = field.split('=').next().unwrap_or(field);
        Self::of(name, field.into(), Kind::Plain)
    }

    /// A parameter of a function. The parameter `length` says how long a string is.
    pub fn parameter(
        btf: &Btf<'_>,
        function: &str,
        param: &Param<'_>,
        length: Option<String>,
    ) -> Self {
        let kind = match kind(btf, param.ty, function, param.name) {
            // Without a name, BTF does not give the string its address.
            Kind::Text(_) if param.name.is_empty() => Kind::Pointer,
            Kind::Text(_) => Kind::Text(length),
            kind => kind,
        };
        match param.name {
            "" => {
                let number = param.position + 1;
                Self::new(&format!("arg{number}"), &format!("$arg{number}"), kind)
            }
            name => Self::new(name, name, kind),
        }
    }

    /// The field as the kernel prints it.
    fn raw<'a>(&self, record: &Record<'a>) -> &'a str {
        record.field(&self.name).unwrap_or("")
    }

    /// The field with the address of a string.
    pub fn address_name(&self) -> Option<String> {
        matches!(self.kind, Kind::Text(_)).then(|| late_texts::address_name(&self.name))
    }

    /// Whether a field has the address of this string.
    pub fn has_address(&self, field: &str) -> bool {
        matches!(self.kind, Kind::Text(_)) && field.strip_suffix("_at") == Some(&self.name)
    }

    /// Whether a field is of this value.
    pub fn has_field(&self, field: &str) -> bool {
        let mut members = self.members.iter();
        *self.name == *field
            || self.has_address(field)
            || members.any(|(_, member)| member.has_field(field))
    }

    /// The members, if the value points to a structure.
    fn shown_members(&self, record: &Record<'_>) -> Option<&[(Rc<str>, Self)]> {
        let address = address(self.raw(record))?;
        let has_structure = !self.members.is_empty() && address != 0 && error_of(address).is_none();
        has_structure.then_some(&self.members)
    }

    /// The address of a string.
    fn address<'a>(&self, record: &Record<'a>) -> Option<&'a str> {
        let mut fields = record.fields.iter();
        let found = fields.find(|(name, _)| self.has_address(name))?;
        Some(found.1)
    }

    /// The string without its quotes. `None` if it cannot be read.
    fn string<'a>(&self, record: &Record<'a>, length: Option<&str>) -> Option<&'a str> {
        let text = unquote(self.raw(record))?;
        let length = length
            .and_then(|name| record.field(name)?.parse().ok())
            .unwrap_or(usize::MAX);
        let end = text
            .char_indices()
            .map(|(at, _)| at)
            .find(|at| *at >= length);
        Some(end.map_or(text, |end| &text[..end]))
    }

    /// The value as text, with its members as in an initialiser in C.
    pub fn show<'a>(&self, record: &Record<'a>) -> Cow<'a, str> {
        let own = self.show_own(record);
        let Some(members) = self.shown_members(record) else {
            return own;
        };
        let all: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("{name}={}", value.show(record)))
            .collect();
        format!("{own} {{{}}}", all.join(", ")).into()
    }

    fn show_own<'a>(&self, record: &Record<'a>) -> Cow<'a, str> {
        let raw = self.raw(record);
        let shown = match &self.kind {
            Kind::Plain => return plain_text(raw),
            Kind::Boolean => boolean(raw).map(|value| value.to_string()),
            Kind::Hex => raw.parse().ok().map(hex),
            Kind::Pointer => match address(raw) {
                Some(0) => return "NULL".into(),
                address => address.and_then(error_of),
            },
            Kind::Text(length) => match self.string(record, length.as_deref()) {
                Some(text) => Some(quote(text)),
                None => match self.address(record) {
                    Some("0x0") => return "NULL".into(),
                    Some(address) => Some(format!("{address} {FAULT}")),
                    None => None,
                },
            },
            Kind::Symbol => match raw {
                "0x0" => return "NULL".into(),
                _ => Some(symbol(raw)),
            },
            Kind::Names(names) => raw.parse().ok().map(|number| enumerator(names, number)),
            Kind::Flags(flags) => raw.parse().ok().map(|number| flags.show(number)),
            Kind::Mode => raw.parse().ok().map(flags::mode),
            Kind::Device => raw.parse().ok().map(flags::device),
            Kind::Time => raw.parse().ok().and_then(time),
        };
        shown.map_or(raw.into(), Cow::Owned)
    }

    /// The value as JSON. Numbers are numbers, and addresses are strings. With members, it is an object.
    pub fn json(&self, record: &Record<'_>) -> Json {
        let own = self.json_own(record);
        let Some(members) = self.shown_members(record) else {
            return own;
        };
        let all: serde_json::Map<String, Json> = members
            .iter()
            .map(|(name, value)| (name.to_string(), value.json(record)))
            .collect();
        json!({ "address": own, "members": all })
    }

    fn json_own(&self, record: &Record<'_>) -> Json {
        let raw = self.raw(record);
        match &self.kind {
            Kind::Boolean => boolean(raw).map_or(raw.into(), Json::from),
            Kind::Text(length) => match self.string(record, length.as_deref()) {
                Some(text) => text.into(),
                None => plain_json(raw),
            },
            // An enumeration can have a value without a name.
            Kind::Names(_) => plain_json(&self.show(record)),
            Kind::Symbol | Kind::Flags(_) | Kind::Mode | Kind::Device => self.show(record).into(),
            Kind::Plain | Kind::Hex | Kind::Pointer | Kind::Time => plain_json(raw),
        }
    }

    /// The name of the error that a return value is.
    pub fn error(&self, record: &Record<'_>) -> Option<String> {
        let raw = self.raw(record);
        match self.kind {
            Kind::Pointer | Kind::Text(_) => {
                error_of(address(self.address(record).unwrap_or(raw))?)
            }
            Kind::Plain | Kind::Hex => match raw.parse::<i128>().ok()? {
                number @ -4095..=-1 => error_of(number as u64),
                number => error_of(u64::try_from(number).ok()?),
            },
            _ => None,
        }
    }
}

fn boolean(raw: &str) -> Option<bool> {
    match raw {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// A duration that three digits say exactly, as programs choose them. Other times are rather points in time, which people
/// compare with others digit by digit.
fn time(ns: u64) -> Option<String> {
    let mut digits = ns;
    while digits >= 1000 && digits % 10 == 0 {
        digits /= 10;
    }
    let is_duration = (1..=MAX_DURATION).contains(&ns) && digits < 1000;
    is_duration.then(|| duration::show(ns))
}

fn hex(number: i128) -> String {
    match number {
        0 => "0".into(),
        // A negative number has 32 or 64 bits.
        number if number >= i32::MIN.into() && number < 0 => format!("{:#x}", number as u32),
        number => format!("{:#x}", number as u64),
    }
}

fn address(raw: &str) -> Option<u64> {
    u64::from_str_radix(raw.strip_prefix("0x")?, 16).ok()
}

/// The name of the error that a number of 64 bits is.
fn error_of(number: u64) -> Option<String> {
    (number >= MIN_ERROR).then(|| format!("-{}", errno::name(number.wrapping_neg())))
}

/// A function at its first instruction has no offset.
fn symbol(raw: &str) -> String {
    match raw.split_once("+0x0/") {
        Some((name, rest)) => {
            let module = rest.split_once(' ').map(|(_, module)| format!(" {module}"));
            name.to_string() + &module.unwrap_or_default()
        }
        None => raw.into(),
    }
}

fn enumerator(names: &[(String, i64)], number: i64) -> String {
    let found = names.iter().find(|(_, value)| *value == number);
    found.map_or_else(|| number.to_string(), |(name, _)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_few_digits_is_a_duration() {
        let value = Value::new("rqtp", "rqtp", Kind::Time);
        for (raw, expected) in [
            ("1000000000", "1.00 s"),
            ("50000", "50.0 us"),
            ("1230000000", "1.23 s"),
            ("1234000000", "1234000000"),
            ("999", "999 ns"),
            ("3600000000000", "3600 s"),
            ("3600000000001", "3600000000001"),
            ("9223372036854775807", "9223372036854775807"),
            ("0", "0"),
            ("-1", "-1"),
        ] {
            let line = format!("cat-1 [000] ..... 1.0: e: (f+0x1/0x2) rqtp={raw}");
            let record = Record::parse(&line, "e").unwrap();
            assert_eq!(value.show(&record), expected);
            assert_eq!(value.json(&record).to_string(), raw);
            assert_eq!(value.error(&record), None);
        }
    }

    #[test]
    fn numbers_and_symbols() {
        assert_eq!(hex(-1), "0xffffffff");
        assert_eq!(hex(i64::MIN.into()), "0x8000000000000000");
        assert_eq!(hex(0), "0");
        assert_eq!(symbol("f+0x0/0x10 [m]"), "f [m]");
        assert_eq!(symbol("f+0x4/0x10 [m]"), "f+0x4/0x10 [m]");
    }
}
