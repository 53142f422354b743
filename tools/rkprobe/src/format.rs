// SPDX-License-Identifier: GPL-2.0

//! The fields of a record: the file `format` of its event says where they are, and how the kernel prints them.

use std::{
    collections::HashMap,
    fmt::{
        self,
        Write, //
    },
    rc::Rc, //
};

/// The text of a value that the record lacks.
pub const FAULT: &str = "(fault)";

/// What a locator `__data_loc` or `__rel_loc` counts from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Base {
    Record,
    /// The byte after the locator.
    Field,
}

/// How the kernel prints a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Form {
    #[default]
    Unsigned,
    Signed,
    Hex,
    Char,
    /// A symbol with its offset and size.
    Symbol,
    /// The name of a function.
    Function,
    String,
}

impl Form {
    /// The form of a conversion in the `print fmt`.
    fn of(conversion: &str) -> Option<Self> {
        Some(match conversion.trim_matches(['{', '}', '\\', '"', '\'']) {
            "%u" | "%Lu" | "%lu" | "%llu" => Self::Unsigned,
            "%d" | "%Ld" | "%ld" | "%lld" => Self::Signed,
            "0x%x" | "0x%Lx" | "0x%lx" | "0x%llx" => Self::Hex,
            "%c" => Self::Char,
            "%pS" => Self::Symbol,
            "%ps" => Self::Function,
            "%s" => Self::String,
            _ => return None,
        })
    }
}

/// A field of a record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Field {
    pub name: Rc<str>,
    /// Its type in C.
    pub ty: Rc<str>,
    pub offset: usize,
    /// The size of all elements.
    pub size: usize,
    /// The number of elements of an array.
    pub count: Option<usize>,
    /// Whether the value is elsewhere in the record.
    located: Option<Base>,
    form: Form,
}

impl Field {
    /// Parses `field:TYPE NAME;\toffset:N;\tsize:N;\tsigned:N;`.
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim().split(';').map(str::trim);
        let (ty, name) = parts.next()?.strip_prefix("field:")?.rsplit_once(' ')?;
        let mut number = |key| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
        let (offset, size) = (number("offset:")?, number("size:")?);
        let is_signed = number("signed:") == Some(1);
        let (name, count) = match name.split_once('[') {
            Some((name, count)) => (name, count.trim_end_matches(']').parse().ok()),
            None => (name, None),
        };
        let located = match ty.trim().split(' ').next() {
            Some("__data_loc") => Some(Base::Record),
            Some("__rel_loc") => Some(Base::Field),
            _ => None,
        };
        Some(Self {
            name: name.into(),
            ty: ty.trim().into(),
            offset,
            size,
            count,
            located,
            form: match (located, is_signed) {
                (Some(_), _) => Form::String,
                (None, true) => Form::Signed,
                (None, false) => Form::Unsigned,
            },
        })
    }

    /// Whether the record has only the place of the value.
    pub fn is_located(&self) -> bool {
        self.located.is_some()
    }

    /// Whether the numbers of the field can be negative.
    pub fn is_signed(&self) -> bool {
        self.form == Form::Signed
    }

    /// The first number of the field, if the record has it. The sign of a number that is shorter than a word is lost.
    pub fn number(&self, record: &[u8]) -> Option<u64> {
        number(record, self.offset, self.size)
    }

    /// Writes the value as the kernel prints it.
    pub fn write(&self, to: &mut String, record: &[u8], names: &mut impl Names) {
        let count = self.count.unwrap_or(1).clamp(1, self.size.max(1));
        let size = self.size / count;
        for index in 0..count {
            match (self.count, index) {
                (None, _) => {}
                (_, 0) => to.push('{'),
                _ => to.push(','),
            }
            let at = self.offset.saturating_add(index * size);
            // A string takes each text.
            let _ = self.write_element(to, record, at, size, names);
        }
        if self.count.is_some() {
            to.push('}');
        }
    }

    fn write_element(
        &self,
        to: &mut String,
        record: &[u8],
        at: usize,
        size: usize,
        names: &mut impl Names,
    ) -> fmt::Result {
        let Some(value) = number(record, at, size) else {
            return to.write_str(FAULT);
        };
        // The bits above the number.
        let above = 64 - 8 * size as u32;
        match self.form {
            Form::Unsigned => write!(to, "{value}"),
            Form::Signed => write!(to, "{}", (value << above) as i64 >> above),
            Form::Hex => write!(to, "{value:#x}"),
            Form::Char => write!(to, "'{}'", String::from_utf8_lossy(&[value as u8])),
            Form::Symbol => to.write_str(&names.symbol(value)),
            Form::Function => to.write_str(&names.function(value)),
            Form::String => match self.string(record, at + size, value) {
                Some(text) => write!(to, "\"{}\"", String::from_utf8_lossy(text)),
                None => to.write_str(FAULT),
            },
        }
    }

    /// The bytes of a string up to the first NUL. The upper 16 bits of a locator have the length with the NUL. Without a
    /// length, the string could not be read.
    fn string<'r>(&self, record: &'r [u8], end: usize, locator: u64) -> Option<&'r [u8]> {
        let (offset, length) = (
            (locator & 0xffff) as usize,
            ((locator >> 16) & 0xffff) as usize,
        );
        let start = match self.located? {
            Base::Record => offset,
            Base::Field => end.checked_add(offset)?,
        };
        let text = record.get(start..).filter(|_| length > 0)?;
        text.get(..length)
            .unwrap_or(text)
            .split(|byte| *byte == 0)
            .next()
    }
}

/// The names of addresses.
pub trait Names {
    /// The symbol with its offset and size. C: `%pS`.
    fn symbol(&mut self, address: u64) -> Rc<str>;

    /// The same of an address that code has. C: `seq_print_ip_sym()`.
    fn code(&mut self, address: u64) -> Rc<str>;

    /// The name of the function, without its module.
    fn function(&mut self, address: u64) -> Rc<str>;
}

/// The number of at most 8 bytes at an offset. `None` if the record is too short.
fn number(record: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = record.get(at..)?.get(..size)?;
    let mut word = [0; 8];
    word.get_mut(..size)
        .filter(|to| !to.is_empty())?
        .copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

/// The format of the records of an event.
#[derive(Debug, Default, PartialEq)]
pub struct Format {
    /// The name of the event.
    pub name: Rc<str>,
    /// The number of the event, which its records have.
    pub id: u64,
    /// All fields.
    pub fields: Vec<Field>,
}

impl Format {
    /// Parses the file `format`.
    pub fn parse(text: &str) -> Option<Self> {
        let find = |key| text.lines().find_map(|line| line.strip_prefix(key));
        let forms = find("print fmt: ").map_or(HashMap::new(), forms);
        let mut fields: Vec<Field> = text.lines().filter_map(Field::parse).collect();
        for field in &mut fields {
            field.form = forms.get(&*field.name).copied().unwrap_or(field.form);
        }
        Some(Self {
            name: find("name: ")?.trim().into(),
            id: find("ID: ")?.trim().parse().ok()?,
            fields,
        })
    }

    /// Whether a field has addresses that the kernel prints as symbols.
    pub fn has_symbols(&self) -> bool {
        let is_symbol = |field: &Field| matches!(field.form, Form::Symbol | Form::Function);
        self.fields.iter().any(is_symbol)
    }

    /// A field.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| &*field.name == name)
    }
}

/// The forms of the fields, from `"(%lx) NAME=CONVERSION NAME=CONVERSION", REC->...`.
fn forms(print: &str) -> HashMap<&str, Form> {
    let (pieces, _) = print.split_once("\", ").unwrap_or((print, ""));
    let form = |piece: &'_ str| {
        let (_, conversion) = piece.split_once('=')?;
        Form::of(conversion.split(',').next()?)
    };
    let pieces = pieces.trim_matches('"').split(' ');
    pieces
        .filter_map(|piece| Some((piece.split('=').next()?, form(piece)?)))
        .collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Names that say what they name.
    pub struct Plain;

    impl Names for Plain {
        fn symbol(&mut self, address: u64) -> Rc<str> {
            format!("symbol({address:#x})").into()
        }

        fn code(&mut self, address: u64) -> Rc<str> {
            format!("code({address:#x})").into()
        }

        fn function(&mut self, address: u64) -> Rc<str> {
            format!("function({address:#x})").into()
        }
    }

    pub const FORMAT: &str = r#"name: args
ID: 1234
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned long __probe_ip;	offset:8;	size:8;	signed:0;
	field:s32 dfd;	offset:16;	size:4;	signed:1;
	field:__data_loc char[] name;	offset:20;	size:4;	signed:0;
	field:u64 at;	offset:24;	size:8;	signed:0;
	field:u16 list[2];	offset:32;	size:4;	signed:0;
	field:u64 f;	offset:36;	size:8;	signed:0;
	field:u64 s;	offset:44;	size:8;	signed:0;
	field:u8 c;	offset:52;	size:1;	signed:0;
	field:__rel_loc char[] near;	offset:56;	size:4;	signed:0;

print fmt: "(%lx) dfd=%d name=\"%s\" at=0x%Lx list={%u,%u} f=%ps s=%pS c='%c' near=\"%s\"", REC->__probe_ip
"#;

    /// A record of the format.
    pub fn record(name: &[u8]) -> Vec<u8> {
        let mut bytes = 1234_u16.to_le_bytes().to_vec();
        bytes.extend([0, 0, 7, 0, 0, 0]);
        bytes.extend(0xffff_ffff_8100_0004_u64.to_le_bytes());
        bytes.extend((-100_i32).to_le_bytes());
        let length = name.len() as u32 + 1;
        bytes.extend((length << 16 | 60).to_le_bytes());
        bytes.extend(0x7fff_u64.to_le_bytes());
        bytes.extend([1, 0, 2, 0]);
        bytes.extend(16_u64.to_le_bytes());
        bytes.extend(17_u64.to_le_bytes());
        bytes.extend([b'x', 0, 0, 0]);
        bytes.extend((2_u32 << 16 | length).to_le_bytes());
        bytes.extend(name);
        bytes.extend(b"\0y\0");
        bytes
    }

    fn text(field: &Field, record: &[u8]) -> String {
        let mut text = String::new();
        field.write(&mut text, record, &mut Plain);
        text
    }

    fn texts(format: &Format, record: &[u8]) -> Vec<(String, String)> {
        let fields = format.fields.iter();
        fields
            .map(|field| (field.name.to_string(), text(field, record)))
            .collect()
    }

    #[test]
    fn values_are_as_the_kernel_prints_them() {
        let format = Format::parse(FORMAT).unwrap();
        assert_eq!(
            (&*format.name, format.id, format.fields.len()),
            ("args", 1234, 13)
        );
        let name = b"a\n\" name=\"\\\xff";
        let all = texts(&format, &record(name));
        let of = |name| &*all.iter().find(|(field, _)| field == name).unwrap().1;
        assert_eq!(of("common_pid"), "7");
        assert_eq!(of("dfd"), "-100");
        assert_eq!(of("name"), "\"a\n\" name=\"\\\u{fffd}\"");
        assert_eq!(of("at"), "0x7fff");
        assert_eq!(of("list"), "{1,2}");
        assert_eq!(of("f"), "function(0x10)");
        assert_eq!(of("s"), "symbol(0x11)");
        assert_eq!(of("c"), "'x'");
        assert_eq!(of("near"), "\"y\"");
        assert_eq!(
            format.field("common_type").unwrap().number(&record(b"")),
            Some(1234)
        );
    }

    #[test]
    fn a_string_can_be_missing_or_cut() {
        let format = Format::parse(FORMAT).unwrap();
        let name = format.field("name").unwrap();
        let mut bytes = record(b"abcdef");
        assert_eq!(text(name, &bytes[..63]), "\"abc\"");
        bytes[22..24].fill(0);
        assert_eq!(text(name, &bytes), FAULT);
        assert_eq!(text(name, &bytes[..22]), FAULT);
    }

    #[test]
    fn any_record_is_shown() {
        let format = Format::parse(FORMAT).unwrap();
        let whole = record(b"name");
        for length in 0..whole.len() {
            texts(&format, &whole[..length]);
            for byte in [1, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[length] = byte;
                texts(&format, &bytes);
            }
        }
    }

    #[test]
    fn any_format_is_parsed() {
        for end in 0..FORMAT.len() {
            if let Some(format) = Format::parse(&FORMAT[..end]) {
                texts(&format, &record(b"x"));
            }
        }
        for line in [
            "field:u64 a;\toffset:18446744073709551615;\tsize:8;\tsigned:0;",
            "field:u64 a[0];\toffset:0;\tsize:8;\tsigned:0;",
            "field:u64 a[9];\toffset:0;\tsize:8;\tsigned:1;",
            "field:u64 a[99];\toffset:0;\tsize:18446744073709551615;\tsigned:1;",
            "field:u64 a;\toffset:0;\tsize:0;\tsigned:1;",
            "field:unsigned long caller[];\toffset:0;\tsize:0;\tsigned:1;",
            "field:__rel_loc char[] a;\toffset:0;\tsize:4;\tsigned:1;",
        ] {
            let field = Field::parse(line).unwrap();
            text(&field, &[255; 32]);
        }
        assert_eq!(Field::parse("field:u64;"), None);
        assert_eq!(Field::parse("field:u64 a;\toffset:x;\tsize:8;"), None);
    }
}
