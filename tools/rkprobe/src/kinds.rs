// SPDX-License-Identifier: GPL-2.0

//! The kinds of values: how people read a value of a type in BTF, or of a member that a fetch argument names.

use probe::btf::{
    Btf,
    Function,
    Type,
    TypeId,
    TypeKind, //
};

use crate::flags::Flags;

/// How a value is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// As the kernel prints it.
    Plain,
    /// `true` or `false`.
    Boolean,
    /// A number in hexadecimal digits.
    Hex,
    /// An address.
    Pointer,
    /// A string, after a field with its address. The string ends after as many bytes as the parameter with this name
    /// says.
    Text(Option<String>),
    /// The address of a function.
    Symbol,
    /// An enumeration.
    Names(Vec<(String, i64)>),
    /// A set of flags.
    Flags(Flags),
    /// The type and the permissions of a file.
    Mode,
}

/// The kind of a value of a type. The name decides about numbers without a typedef: whether the digits are hexadecimal.
pub fn kind(btf: &Btf<'_>, id: TypeId, name: &str) -> Kind {
    let mut ty = btf.get(id);
    while let Some(modifier) = ty.filter(|ty| ty.kind().is_modifier()) {
        let known = match modifier.kind() {
            TypeKind::Typedef => btf.name(modifier).and_then(|name| known_type(btf, name)),
            _ => None,
        };
        if let Some(known) = known {
            return known;
        }
        ty = btf.get(modifier.target());
    }
    ty.map_or(Kind::Plain, |ty| kind_of(btf, ty, name))
}

fn kind_of(btf: &Btf<'_>, ty: Type<'_>, name: &str) -> Kind {
    match ty.kind() {
        TypeKind::Int => match ty.int() {
            Some(int) if int.is_bool() => Kind::Boolean,
            Some(int) if int.bits() >= 32 && is_hex(name) => Kind::Hex,
            _ => Kind::Plain,
        },
        TypeKind::Enum | TypeKind::Enum64 => {
            let names = btf.enumerators(ty);
            Kind::Names(names.map(|(name, value)| (name.into(), value)).collect())
        }
        TypeKind::Ptr if is_string(btf, ty) => Kind::Text(None),
        TypeKind::Ptr => match btf.resolve(ty.target()).map(|target| target.kind()) {
            Some(TypeKind::FuncProto) => Kind::Symbol,
            _ => Kind::Pointer,
        },
        _ => Kind::Plain,
    }
}

/// Whether a pointer has the type `const char *`. Other pointers to `char` can be buffers that the function fills.
fn is_string(btf: &Btf<'_>, pointer: Type<'_>) -> bool {
    let mut is_const = false;
    let mut ty = btf.get(pointer.target());
    while let Some(modifier) = ty.filter(|ty| ty.kind().is_modifier()) {
        is_const |= modifier.kind() == TypeKind::Const;
        // `u8` is the type of data that is no text.
        if modifier.kind() == TypeKind::Typedef {
            return false;
        }
        ty = btf.get(modifier.target());
    }
    is_const && ty.is_some_and(|ty| ty.int().is_some() && btf.name(ty) == Some("char"))
}

/// Whether people read a number of this name in hexadecimal digits.
pub fn is_hex(name: &str) -> bool {
    ["flags", "mask", "addr", "address"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// The kind of a well-known typedef.
pub fn known_type(btf: &Btf<'_>, name: &str) -> Option<Kind> {
    match name {
        "umode_t" => Some(Kind::Mode),
        "gfp_t" => Some(Kind::Flags(Flags::gfp(btf)?)),
        "fmode_t" => Some(Kind::Flags(Flags::fmode())),
        "blk_opf_t" => Some(Kind::Flags(Flags::block_operation(btf)?)),
        _ => None,
    }
}

/// What the variables of a fetch argument belong to.
pub enum Owner<'a> {
    /// Something without a type in BTF.
    Nothing,
    Function(&'a Function<'a>),
    /// The object `$obj` of this structure.
    Object(TypeId),
}

impl Owner<'_> {
    /// The type of a variable.
    fn find(&self, btf: &Btf<'_>, variable: &str) -> Option<TypeId> {
        if variable == "$current" {
            return btf.find("task_struct", TypeKind::Struct);
        }
        match (self, variable.strip_prefix('$')) {
            (Self::Object(structure), Some("obj")) => Some(*structure),
            (Self::Function(function), Some("retval")) => Some(function.returned()),
            (Self::Function(function), Some(variable)) => {
                let number = variable.strip_prefix("arg")?.parse::<u16>().ok()?;
                let position = number.checked_sub(1)?;
                let mut params = function.params();
                Some(params.find(|param| param.position == position)?.ty)
            }
            (Self::Function(function), None) => Some(function.find(variable)?.ty),
            _ => None,
        }
    }
}

/// The kind of `VARIABLE`, or of a member, `VARIABLE->A.B->C`, and whether it is an array of `char`.
pub fn member_kind(btf: &Btf<'_>, owner: &Owner<'_>, fetch: &str) -> Option<(Kind, bool)> {
    let end = fetch.find(['-', '.']).unwrap_or(fetch.len());
    let (variable, mut rest) = fetch.split_at(end);
    let mut ty = owner.find(btf, variable)?;
    let mut name = variable;
    while !rest.is_empty() {
        let is_arrow = rest.starts_with("->");
        rest = rest.strip_prefix("->").or(rest.strip_prefix('.'))?;
        let end = rest.find(['-', '.']).unwrap_or(rest.len());
        (name, rest) = rest.split_at(end);
        let container = btf.resolve(ty)?;
        let container = match container.kind() {
            TypeKind::Ptr if is_arrow => container.target(),
            _ => ty,
        };
        let member = btf.find_member(container, name)?;
        if member.bitfield > 0 {
            return None;
        }
        ty = member.ty;
    }
    Some((kind(btf, ty, name), is_text(btf, ty)))
}

/// Whether a type is an array of `char`.
pub fn is_text(btf: &Btf<'_>, id: TypeId) -> bool {
    let array = btf.resolve(id).and_then(|ty| ty.array());
    array
        .and_then(|array| btf.name(btf.resolve(array.element)?))
        .is_some_and(|element| element == "char")
}
