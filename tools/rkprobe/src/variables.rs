// SPDX-License-Identifier: GPL-2.0

//! The variables of a place in the source, as values of an event: their locations and types by the debug information.

use gimli::{
    AttributeValue,
    DwTag,
    UnitOffset, //
};
use probe::btf::Btf;

use crate::{
    dwarf::{
        self,
        Entry, //
    },
    kinds::{
        is_hex,
        known_name,
        known_type,
        Kind, //
    },
    locations::{
        memory,
        Location,
        Place,
        Reason,
        RESULT_REGISTER, //
    },
    scopes::{
        Scope,
        Scopes, //
    },
    value::Value, //
};

/// The most elements of an array that a fetch argument has.
pub const MAX_ELEMENTS: u64 = 64;

/// The name of the result of a function.
pub const RESULT: &str = "$retval";

/// A variable.
pub struct Variable<'d> {
    pub name: &'d str,
    pub entry: UnitOffset,
    /// Where it is. A variable that no copy mentions any more is nowhere.
    pub location: Result<Location, Reason>,
}

/// The variables that have their names at a place. `scope` is the innermost there.
pub fn visible<'d>(
    place: &Place<'_, 'd>,
    scopes: &Scopes,
    scope: usize,
) -> gimli::Result<Vec<Variable<'d>>> {
    let visible = scopes.visible(scope).into_iter();
    let visible: Vec<&Scope> = visible.map(|scope| scopes.get(scope)).collect();
    let own = visible.iter().flat_map(|scope| &scope.variables);
    let copied = own.clone().map(|variable| {
        let entry = place.unit.entry(*variable)?;
        dwarf::original(&entry)
    });
    let copied: Vec<Option<UnitOffset>> = copied.collect::<gimli::Result<_>>()?;
    // A copy does not mention all variables of its original.
    let originals = visible.iter().filter_map(|scope| scope.original);
    let originals = originals.filter_map(|original| scopes.with_entry(original));
    let others = originals.flat_map(|original| &original.variables);
    let others = others.filter(|other| !copied.contains(&Some(**other)));

    let mut found: Vec<Variable<'d>> = Vec::new();
    for variable in own.chain(others) {
        let entry = place.unit.entry(*variable)?;
        let name = dwarf::name(place.dwarf, place.unit, &entry)?;
        let is_new = |name: &&str| found.iter().all(|other| other.name != *name);
        if let Some(name) = name.filter(is_new) {
            found.push(Variable {
                name,
                entry: *variable,
                location: place.find(&entry),
            });
        }
    }
    Ok(found)
}

/// What a value is, below its typedefs and qualifiers.
struct Type<'p, 'd> {
    entry: Option<Entry<'p, 'd>>,
    /// The names of its typedefs, the outermost first.
    typedefs: Vec<&'d str>,
    is_const: bool,
}

impl Type<'_, '_> {
    fn tag(&self) -> Option<DwTag> {
        self.entry.as_ref().map(Entry::tag)
    }

    fn bytes(&self) -> Option<u64> {
        dwarf::number(self.entry.as_ref()?, gimli::DW_AT_byte_size).ok()?
    }

    /// The type that a pointer points to, or that an array has elements of.
    fn target(&self) -> gimli::Result<Option<UnitOffset>> {
        match &self.entry {
            Some(entry) => dwarf::reference(entry, gimli::DW_AT_type),
            None => Ok(None),
        }
    }
}

/// A value in the kernel's memory or registers.
pub struct Located {
    location: Location,
    ty: Option<UnitOffset>,
    /// The width of a bitfield, and its first bit.
    bits: Option<(u64, u64)>,
    /// The structure of the last member. Empty for a variable.
    structure: String,
    /// The variable, or the last member.
    name: String,
}

/// A member of a structure.
struct Member {
    offset: i64,
    /// The width of a bitfield, and its first bit.
    bits: Option<(u64, u64)>,
    ty: Option<UnitOffset>,
}

impl<'p, 'd> Place<'p, 'd> {
    fn type_of(&self, entry: &Entry<'_, 'd>) -> gimli::Result<Option<UnitOffset>> {
        if let Some(ty) = dwarf::reference(entry, gimli::DW_AT_type)? {
            return Ok(Some(ty));
        }
        match dwarf::original(entry)? {
            Some(original) => dwarf::reference(&self.unit.entry(original)?, gimli::DW_AT_type),
            None => Ok(None),
        }
    }

    /// Looks through typedefs and qualifiers. `None` is `void`.
    fn resolve(&self, mut ty: Option<UnitOffset>) -> gimli::Result<Type<'p, 'd>> {
        let mut typedefs = Vec::new();
        let mut is_const = false;
        while let Some(offset) = ty {
            let entry = self.unit.entry(offset)?;
            match entry.tag() {
                gimli::DW_TAG_typedef => {
                    typedefs.extend(dwarf::name(self.dwarf, self.unit, &entry)?)
                }
                gimli::DW_TAG_const_type => is_const = true,
                gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => {}
                _ => {
                    return Ok(Type {
                        entry: Some(entry),
                        typedefs,
                        is_const,
                    })
                }
            }
            ty = dwarf::reference(&entry, gimli::DW_AT_type)?;
        }
        Ok(Type {
            entry: None,
            typedefs,
            is_const,
        })
    }

    /// The result of the function, at a place where its register has it. `None` if it returns nothing.
    pub fn result(&self) -> gimli::Result<Option<Variable<'d>>> {
        let ty = self.type_of(self.holder)?;
        Ok(ty.map(|_| Variable {
            name: RESULT,
            entry: self.holder.offset(),
            location: Ok(Location::Value(RESULT_REGISTER.into())),
        }))
    }

    /// The type as C writes it.
    pub fn type_name(&self, variable: &Variable<'d>) -> gimli::Result<String> {
        let entry = self.unit.entry(variable.entry)?;
        self.written(self.type_of(&entry)?)
    }

    fn written(&self, ty: Option<UnitOffset>) -> gimli::Result<String> {
        let Some(offset) = ty else {
            return Ok("void".into());
        };
        let entry = self.unit.entry(offset)?;
        let target = || dwarf::reference(&entry, gimli::DW_AT_type);
        let name = dwarf::name(self.dwarf, self.unit, &entry)?;
        let named = |kind: &str| match name {
            Some(name) => format!("{kind} {name}"),
            None => kind.into(),
        };
        Ok(match entry.tag() {
            gimli::DW_TAG_pointer_type => {
                let to = self.written(target()?)?;
                match to.ends_with('*') {
                    true => to + "*",
                    false => to + " *",
                }
            }
            gimli::DW_TAG_const_type => {
                let of = self.written(target()?)?;
                match of.ends_with('*') {
                    true => of + "const",
                    false => format!("const {of}"),
                }
            }
            gimli::DW_TAG_volatile_type => format!("volatile {}", self.written(target()?)?),
            gimli::DW_TAG_restrict_type | gimli::DW_TAG_atomic_type => self.written(target()?)?,
            gimli::DW_TAG_structure_type => named("struct"),
            gimli::DW_TAG_union_type => named("union"),
            gimli::DW_TAG_enumeration_type => named("enum"),
            gimli::DW_TAG_subroutine_type => "function".into(),
            gimli::DW_TAG_array_type => {
                let count = self.elements(&entry)?;
                let count = count.map_or_else(String::new, |count| count.to_string());
                format!("{}[{count}]", self.written(target()?)?)
            }
            _ => name.unwrap_or("?").into(),
        })
    }

    /// How many elements an array has.
    fn elements(&self, array: &Entry<'_, 'd>) -> gimli::Result<Option<u64>> {
        let mut tree = self.unit.entries_tree(Some(array.offset()))?;
        let mut children = tree.root()?.children();
        let mut all = 1;
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let count = match dwarf::number(entry, gimli::DW_AT_count)? {
                Some(count) => Some(count),
                None => dwarf::number(entry, gimli::DW_AT_upper_bound)?.map(|last| last + 1),
            };
            let Some(count) = count else {
                return Ok(None);
            };
            all *= count;
        }
        Ok(Some(all))
    }

    /// Finds a variable, or a member below it: `path` is `->A.B`.
    pub fn locate(&self, variable: &Variable<'d>, path: &str) -> Result<Located, String> {
        let broken = |error: gimli::Error| error.to_string();
        let mut location = variable
            .location
            .clone()
            .map_err(|reason| reason.text().to_string())?;
        let entry = self.unit.entry(variable.entry).map_err(broken)?;
        let mut ty = self.type_of(&entry).map_err(broken)?;
        let mut bits = None;
        let mut structure = String::new();
        let mut last = variable.name;
        let mut rest = path;
        while !rest.is_empty() {
            let resolved = self.resolve(ty).map_err(broken)?;
            let is_pointer = resolved.tag() == Some(gimli::DW_TAG_pointer_type);
            let (is_arrow, after) = match (rest.strip_prefix("->"), rest.strip_prefix('.')) {
                (Some(after), _) => (true, after),
                (_, Some(after)) => (false, after),
                _ => {
                    return Err(format!(
                        "{rest}: after a value, -> or . and a member can come"
                    ))
                }
            };
            if is_arrow != is_pointer {
                return Err(match is_pointer {
                    true => format!("{last} is a pointer: write -> instead of ."),
                    false => format!("{last} is no pointer"),
                });
            }
            let end = after.find(['-', '.']).unwrap_or(after.len());
            let member;
            (member, rest) = after.split_at(end);
            if is_pointer {
                ty = resolved.target().map_err(broken)?;
                location = Location::Memory(self.address(&location)?, 0);
            }
            structure = self.written(ty).unwrap_or_default();
            let found = self.member(ty, member).map_err(broken)?;
            let found = found.ok_or_else(|| format!("{structure} has no member {member} here"))?;
            location = match location {
                Location::Memory(base, offset) => Location::Memory(base, offset + found.offset),
                Location::Static(at, offset) => Location::Static(at, offset + found.offset),
                _ => return Err(format!("{last} is in a register as a whole")),
            };
            (ty, bits, last) = (found.ty, found.bits, member);
        }
        Ok(Located {
            location,
            ty,
            bits,
            structure,
            name: last.into(),
        })
    }

    /// The value as a type of fetch arguments that the user chose.
    pub fn typed(&self, found: &Located, name: &str, ty: &str) -> Result<Value, String> {
        let resolved = self.resolve(found.ty).map_err(|error| error.to_string())?;
        let fetch = self.address(&found.location)?;
        // A string is after its address.
        let is_behind =
            resolved.tag() == Some(gimli::DW_TAG_pointer_type) && ty.ends_with("string");
        let fetch = match is_behind {
            true => memory(&fetch, 0),
            false => fetch,
        };
        Ok(Value::plain(&format!("{name}={fetch}:{ty}")))
    }

    /// The fetch argument of what is at a location.
    fn address(&self, location: &Location) -> Result<String, String> {
        Ok(match location {
            Location::Value(value) => value.clone(),
            Location::Memory(base, offset) => memory(base, *offset),
            Location::Static(address, offset) => {
                let address = address.wrapping_add_signed(*offset);
                let symbol = self.information.symbols_at(address);
                let unknown = || "its address has no name".to_string();
                let (start, mut names) = symbol.ok_or_else(unknown)?;
                let is_single = |name: &&str| self.information.addresses(name).count() == 1;
                let name = names.find(is_single).ok_or_else(unknown)?;
                match address - start {
                    0 => format!("@{name}"),
                    offset => format!("@{name}+{offset}"),
                }
            }
            Location::Constant(number) => format!("\\{number}"),
        })
    }

    /// The member of a structure, also one of an unnamed structure in it.
    fn member(&self, ty: Option<UnitOffset>, name: &str) -> gimli::Result<Option<Member>> {
        let resolved = self.resolve(ty)?;
        let Some(owner) = resolved.entry else {
            return Ok(None);
        };
        let mut tree = self.unit.entries_tree(Some(owner.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            if entry.tag() != gimli::DW_TAG_member {
                continue;
            }
            let start =
                dwarf::number(entry, gimli::DW_AT_data_member_location)?.unwrap_or(0) as i64;
            let ty = dwarf::reference(entry, gimli::DW_AT_type)?;
            match dwarf::name(self.dwarf, self.unit, entry)? {
                Some(other) if other == name => {
                    let bits = dwarf::number(entry, gimli::DW_AT_bit_size)?;
                    let first = dwarf::number(entry, gimli::DW_AT_data_bit_offset)?;
                    return Ok(Some(Member {
                        offset: start,
                        bits: bits.map(|bits| (bits, first.unwrap_or(0))),
                        ty,
                    }));
                }
                Some(_) => {}
                None => {
                    if let Some(found) = self.member(ty, name)? {
                        let offset = start + found.offset;
                        return Ok(Some(Member { offset, ..found }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The value as people read it, by its type, as [`kind`](crate::kinds::kind) does by BTF.
    pub fn value(
        &self,
        found: &Located,
        name: &str,
        btf: Option<&Btf<'_>>,
    ) -> Result<Value, String> {
        let (location, last) = (&found.location, &*found.name);
        let (ty, bits) = (found.ty, found.bits);
        let broken = |error: gimli::Error| error.to_string();
        let resolved = self.resolve(ty).map_err(broken)?;
        let target = || {
            let target = resolved.target().map_err(broken)?;
            self.resolve(target).map_err(broken)
        };
        let value = |fetch: String, kind| Value::of(name, format!("{name}={fetch}"), kind);
        // Without `const struct`.
        let structure = found.structure.rsplit(' ').next().unwrap_or("");
        let known = known_name(structure, last).or_else(|| {
            let mut typedefs = resolved.typedefs.iter();
            typedefs.find_map(|typedef| known_type(btf?, typedef))
        });
        match resolved.tag() {
            Some(gimli::DW_TAG_base_type | gimli::DW_TAG_enumeration_type) => {
                let fetch = self.address(location)?;
                let bytes = resolved
                    .bytes()
                    .filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8));
                let bytes = bytes.ok_or_else(|| format!("{last} has an unusual size"))?;
                let kind = known.unwrap_or(self.number_kind(&resolved, last).map_err(broken)?);
                let width = bytes * 8;
                if let Some((size, first)) = bits {
                    let (Location::Memory(base, offset), container) = (location, width) else {
                        return Err(format!("{last} is a bitfield in a register"));
                    };
                    let start = first / container * bytes;
                    let place = memory(base, offset + start as i64);
                    let first = first % container;
                    return Ok(value(format!("{place}:b{size}@{first}/{container}"), kind));
                }
                let sign = match self.is_signed(&resolved).map_err(broken)? {
                    true => "s",
                    false => "u",
                };
                Ok(value(format!("{fetch}:{sign}{width}"), kind))
            }
            Some(gimli::DW_TAG_pointer_type) => {
                let fetch = self.address(location)?;
                let to = target()?;
                if to.tag() == Some(gimli::DW_TAG_subroutine_type) {
                    return Ok(value(format!("{fetch}:symbol"), Kind::Symbol));
                }
                // Other pointers to `char` can be buffers without an end.
                if to.is_const && self.is_char(&to).map_err(broken)? {
                    let fetch = format!("{name}_at={fetch}:x64 {name}=+0({fetch}):string");
                    return Ok(Value::of(name, fetch, Kind::Text(None)));
                }
                Ok(value(format!("{fetch}:x64"), Kind::Pointer))
            }
            Some(gimli::DW_TAG_array_type) => {
                let Location::Memory(base, offset) = location else {
                    return Err(format!("{last} is an array outside of memory"));
                };
                let place = memory(base, *offset);
                let element = target()?;
                if self.is_char(&element).map_err(broken)? {
                    return Ok(value(format!("{place}:string"), Kind::Plain));
                }
                let array = resolved.entry.as_ref();
                let count = array.map(|array| self.elements(array));
                let count = count.transpose().map_err(broken)?.flatten();
                let count = count.filter(|count| (1..=MAX_ELEMENTS).contains(count));
                let is_number = element.tag() == Some(gimli::DW_TAG_base_type);
                match (count, element.bytes().filter(|_| is_number)) {
                    (Some(count), Some(bytes @ (1 | 2 | 4 | 8))) => {
                        let width = bytes * 8;
                        Ok(value(format!("{place}:x{width}[{count}]"), Kind::Plain))
                    }
                    _ => Err(format!(
                        "{last} is an array that no fetch argument can read"
                    )),
                }
            }
            Some(_) => {
                let ty = self.written(ty).map_err(broken)?;
                Err(format!("{last} is a whole {ty}: name a member of it"))
            }
            None => Err(format!("{last} has no type")),
        }
    }

    fn number_kind(&self, ty: &Type<'p, 'd>, name: &str) -> gimli::Result<Kind> {
        let Some(entry) = &ty.entry else {
            return Ok(Kind::Plain);
        };
        if entry.tag() == gimli::DW_TAG_enumeration_type {
            return Ok(Kind::Names(self.enumerators(entry)?));
        }
        Ok(match encoding(entry)? {
            Some(gimli::DW_ATE_boolean) => Kind::Boolean,
            _ if ty.bytes().is_some_and(|bytes| bytes >= 4) && is_hex(name) => Kind::Hex,
            _ => Kind::Plain,
        })
    }

    fn enumerators(&self, enumeration: &Entry<'_, 'd>) -> gimli::Result<Vec<(String, i64)>> {
        let mut all = Vec::new();
        let mut tree = self.unit.entries_tree(Some(enumeration.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let number = dwarf::constant(entry)?;
            let name = dwarf::name(self.dwarf, self.unit, entry)?;
            all.extend(name.map(String::from).zip(number));
        }
        Ok(all)
    }

    fn is_signed(&self, ty: &Type<'p, 'd>) -> gimli::Result<bool> {
        let Some(entry) = &ty.entry else {
            return Ok(false);
        };
        if entry.tag() == gimli::DW_TAG_enumeration_type {
            let has_negative = |all: Vec<(String, i64)>| all.iter().any(|(_, value)| *value < 0);
            return self.enumerators(entry).map(has_negative);
        }
        let encoding = encoding(entry)?;
        Ok(matches!(
            encoding,
            Some(gimli::DW_ATE_signed | gimli::DW_ATE_signed_char)
        ))
    }

    fn is_char(&self, ty: &Type<'p, 'd>) -> gimli::Result<bool> {
        let Some(entry) = &ty.entry else {
            return Ok(false);
        };
        // `u8` is the type of data that is no text.
        let name = dwarf::name(self.dwarf, self.unit, entry)?;
        Ok(ty.typedefs.is_empty() && name == Some("char"))
    }
}

fn encoding(entry: &Entry<'_, '_>) -> gimli::Result<Option<gimli::DwAte>> {
    Ok(match entry.attr_value(gimli::DW_AT_encoding)? {
        Some(AttributeValue::Encoding(encoding)) => Some(encoding),
        _ => None,
    })
}
