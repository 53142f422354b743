// SPDX-License-Identifier: GPL-2.0

//! The fetch types. A type decides how a record stores a value and how a reader sees it.
//!
//! [`FETCH_TYPES`] is the only list of their names, C types and conversions. The parser, the
//! layout, the `format` file and the printer use it.
//!
//! C: `struct fetch_type`, `probe_fetch_types` in `kernel/trace/trace_probe.c`.

/// A fetch type: the type of a stored argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchType {
    /// A number of 1, 2, 4 or 8 bytes.
    Number(Width, Style),
    /// `bW@O/S`: W bits at bit O of a number of S bits. Only BTF creates signed bitfields. Only the
    /// name of their type is signed: their values have no sign.
    Bitfield(Width, Style, Bits),
    /// `string` or `ustring`: the bytes up to the first NUL. `ustring` reads the memory of the
    /// process. `string` does so after a dereference of user memory.
    String(Space),
    /// `symstr`: the symbol of the value, with offset and size. The hit writes its text.
    Symstr,
}

/// The properties of a fetch type.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in a command.
    pub name: &'static str,
    /// The type.
    pub ty: FetchType,
    /// The type in the `format` file. For a string, the type of its locator.
    pub c_type: &'static str,
    /// The conversion in the `print fmt`, inside the quotes.
    pub conversion: &'static str,
}

/// The locator of a string in a record. The upper 16 bits contain the length. The lower 16 bits
/// contain the offset of the first byte from the start of the record.
const DATA_LOC: &str = "__data_loc char[]";

/// All fetch types. A bitfield `bW@O/S` has no row: it stores some bits of a `uS`.
pub const FETCH_TYPES: [Row; 18] = {
    use FetchType::*;
    use Style::*;
    use Width::*;

    const TEXT: &str = "\\\"%s\\\"";
    const fn row(
        name: &'static str,
        ty: FetchType,
        c_type: &'static str,
        conversion: &'static str,
    ) -> Row {
        Row {
            name,
            ty,
            c_type,
            conversion,
        }
    }
    [
        row("u8", Number(W1, Unsigned), "u8", "%u"),
        row("u16", Number(W2, Unsigned), "u16", "%u"),
        row("u32", Number(W4, Unsigned), "u32", "%u"),
        row("u64", Number(W8, Unsigned), "u64", "%Lu"),
        row("s8", Number(W1, Signed), "s8", "%d"),
        row("s16", Number(W2, Signed), "s16", "%d"),
        row("s32", Number(W4, Signed), "s32", "%d"),
        row("s64", Number(W8, Signed), "s64", "%Ld"),
        row("x8", Number(W1, Hex), "u8", "0x%x"),
        row("x16", Number(W2, Hex), "u16", "0x%x"),
        row("x32", Number(W4, Hex), "u32", "0x%x"),
        row("x64", Number(W8, Hex), "u64", "0x%Lx"),
        row("errno", Number(W4, Errno), "s32", "%d%s"),
        row("char", Number(W1, Char), "u8", "'%c'"),
        row("symbol", Number(W8, Symbol), "u64", "%pS"),
        row("string", String(Space::Kernel), DATA_LOC, TEXT),
        row("ustring", String(Space::User), DATA_LOC, TEXT),
        row("symstr", Symstr, DATA_LOC, TEXT),
    ]
};

/// The type of a function, which no command can name.
static FUNCTION: Row = Row {
    name: "",
    ty: FetchType::Number(Width::W8, Style::Function),
    c_type: "u64",
    conversion: "%ps",
};

impl FetchType {
    /// Finds a type by its name in a command.
    ///
    /// C: `find_fetch_type()`.
    pub fn from_name(name: &str) -> Option<Self> {
        let row = FETCH_TYPES.iter().find(|row| row.name == name)?;
        Some(row.ty)
    }

    /// The type in the record, which must be equal for all probes of an event. For a bitfield, this
    /// is the number that contains it.
    #[must_use]
    pub const fn of_field(self) -> Self {
        match self {
            Self::Bitfield(width, style, _) => Self::Number(width, style),
            ty => ty,
        }
    }

    /// The properties of the type.
    pub fn row(self) -> &'static Row {
        if self == FUNCTION.ty {
            return &FUNCTION;
        }
        let row = FETCH_TYPES.iter().find(|row| row.ty == self.of_field());
        // Only a `char` or a `symbol` of another width has no row. No code creates such a type.
        row.unwrap_or(&FETCH_TYPES[3])
    }

    /// The size in bytes. For a string, the size of its locator in the fixed part of a record.
    pub const fn size(self) -> usize {
        match self {
            Self::Number(width, _) | Self::Bitfield(width, ..) => width.bytes(),
            Self::String(_) | Self::Symstr => 4,
        }
    }

    /// Whether the type is a string. The record then contains a locator, and the bytes follow all
    /// fields.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::String(_) | Self::Symstr)
    }
}

/// The width of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// 8 bits.
    W1 = 1,
    /// 16 bits.
    W2 = 2,
    /// 32 bits.
    W4 = 4,
    /// 64 bits.
    W8 = 8,
}

impl Width {
    /// The width in bytes.
    pub const fn bytes(self) -> usize {
        self as usize
    }
}

/// The format of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `u8` to `u64`.
    Unsigned,
    /// `s8` to `s64`.
    Signed,
    /// `errno`: a signed number, shown with the name of the error if it is the negative number of
    /// one.
    Errno,
    /// `x8` to `x64`: `0x` and hexadecimal digits.
    Hex,
    /// `char`: one byte in quotes.
    Char,
    /// `symbol`: an address, shown as symbol+offset/size.
    Symbol,
    /// An address, shown as the symbol alone. No command can name this type.
    Function,
}

impl Style {
    /// Whether the numbers have a sign.
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::Signed | Self::Errno)
    }
}

/// The position of a bitfield in its number, as two shifts that leave only the bits of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Number of bits of the first shift, to the left.
    pub left: u8,
    /// Number of bits of the second shift, to the right.
    pub right: u8,
}

/// The address space of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The memory of the kernel.
    Kernel,
    /// The memory of the current process.
    User,
}
