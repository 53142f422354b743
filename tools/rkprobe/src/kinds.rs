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
    /// The number of a device.
    Device,
    /// A time in ns: a duration, or a point in time.
    Time,
}

/// The members of structures and the parameters of functions that have the flags of `open(2)`.
const OPEN_FLAGS: [(&str, &str); 15] = [
    ("open_how", "flags"),
    ("open_flags", "open_flag"),
    ("file", "f_flags"),
    ("do_sys_open", "flags"),
    ("__do_sys_open", "flags"),
    ("__do_sys_openat", "flags"),
    ("build_open_how", "flags"),
    ("filp_open", "flags"),
    ("file_open_name", "flags"),
    ("file_open_root", "flags"),
    ("dentry_open", "flags"),
    ("dentry_create", "flags"),
    ("kernel_file_open", "flags"),
    ("backing_file_open", "flags"),
    ("alloc_empty_file", "flags"),
];

/// The kind of a value of a type: a member `name` of the structure `owner`, or a parameter of the function `owner`. The
/// name decides about numbers without a typedef: whether they are flags, or the digits are hexadecimal.
pub fn kind(btf: &Btf<'_>, id: TypeId, owner: &str, name: &str) -> Kind {
    if let Some(known) = known_name(owner, name) {
        return known;
    }
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

/// The kind of a well-known member of a structure, or parameter of a function.
pub fn known_name(owner: &str, name: &str) -> Option<Kind> {
    let is_open = OPEN_FLAGS.contains(&(owner, name));
    is_open.then(|| Kind::Flags(Flags::open()))
}

/// The kind of a well-known typedef.
pub fn known_type(btf: &Btf<'_>, name: &str) -> Option<Kind> {
    match name {
        "umode_t" => Some(Kind::Mode),
        "dev_t" => Some(Kind::Device),
        "ktime_t" => Some(Kind::Time),
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
    /// A function and its name.
    Function(&'a str, &'a Function<'a>),
    /// The object `$obj` of this structure.
    Object(TypeId),
}

impl Owner<'_> {
    /// The function. Empty for anything else.
    fn function(&self) -> &str {
        match self {
            Self::Function(name, _) => name,
            _ => "",
        }
    }

    /// The type of a variable.
    fn find(&self, btf: &Btf<'_>, variable: &str) -> Option<TypeId> {
        if variable == "$current" {
            return btf.find("task_struct", TypeKind::Struct);
        }
        match (self, variable.strip_prefix('$')) {
            (Self::Object(structure), Some("obj")) => Some(*structure),
            (Self::Function(_, function), Some("retval")) => Some(function.returned()),
            (Self::Function(_, function), Some(variable)) => {
                let number = variable.strip_prefix("arg")?.parse::<u16>().ok()?;
                let position = number.checked_sub(1)?;
                let mut params = function.params();
                Some(params.find(|param| param.position == position)?.ty)
            }
            (Self::Function(_, function), None) => Some(function.find(variable)?.ty),
            _ => None,
        }
    }
}

/// What a fetch argument reads.
pub struct Found<'a> {
    pub ty: TypeId,
    /// The function of a variable, or the structure of the last member.
    pub owner: &'a str,
    /// The variable, or the last member.
    pub name: &'a str,
}

/// Finds `VARIABLE`, or a member, `VARIABLE->A.B->C`, that is no bitfield.
pub fn find<'a>(btf: &Btf<'a>, owner: &'a Owner<'_>, fetch: &'a str) -> Option<Found<'a>> {
    let end = fetch.find(['-', '.']).unwrap_or(fetch.len());
    let (variable, mut rest) = fetch.split_at(end);
    let mut ty = owner.find(btf, variable)?;
    let (mut container, mut name) = (owner.function(), variable);
    while !rest.is_empty() {
        let is_arrow = rest.starts_with("->");
        rest = rest.strip_prefix("->").or(rest.strip_prefix('.'))?;
        let end = rest.find(['-', '.']).unwrap_or(rest.len());
        (name, rest) = rest.split_at(end);
        let resolved = btf.resolve(ty)?;
        let structure = match resolved.kind() {
            TypeKind::Ptr if is_arrow => resolved.target(),
            _ => ty,
        };
        let member = btf.find_member(structure, name)?;
        if member.bitfield > 0 {
            return None;
        }
        container = structure_name(btf, structure);
        ty = member.ty;
    }
    Some(Found {
        ty,
        owner: container,
        name,
    })
}

/// The name of a structure or union. Empty if it has none.
pub fn structure_name<'a>(btf: &Btf<'a>, id: TypeId) -> &'a str {
    btf.resolve(id).and_then(|ty| btf.name(ty)).unwrap_or("")
}

/// Whether a type is an array of `char`.
pub fn is_text(btf: &Btf<'_>, id: TypeId) -> bool {
    let array = btf.resolve(id).and_then(|ty| ty.array());
    array
        .and_then(|array| btf.name(btf.resolve(array.element)?))
        .is_some_and(|element| element == "char")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::{
        self,
        builder::{
            Builder,
            SIGNED, //
        },
    };

    #[test]
    fn the_owner_of_a_value_decides_about_flags() {
        let mut types = Builder::new();
        let int = types.int("int", 4, SIGNED);
        let file = types.members(4, "file", &[("f_flags", int, 0), ("flags", int, 32)]);
        let pointer = types.ptr(file);
        types.function("filp_open", &[("file", pointer), ("flags", int)], int);
        let bytes = types.bytes();
        let mut index = Vec::new();
        let btf = btf::parse(&bytes, None, &mut index).unwrap();
        let function = btf.function("filp_open").unwrap();
        for (name, fetch, is_open) in [
            ("filp_open", "flags", true),
            ("other", "flags", false),
            ("other", "file->f_flags", true),
            ("filp_open", "file->flags", false),
        ] {
            let owner = Owner::Function(name, &function);
            let found = find(&btf, &owner, fetch).unwrap();
            let expected = match is_open {
                true => Kind::Flags(Flags::open()),
                false => Kind::Hex,
            };
            assert_eq!(kind(&btf, found.ty, found.owner, found.name), expected);
        }
    }
}
