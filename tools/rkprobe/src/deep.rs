// SPDX-License-Identifier: GPL-2.0

//! The members of the structures to which values point: numbers, booleans, enumerations, texts and pointers, but not
//! structures inside of the structure.

use std::rc::Rc;

use probe::btf::{
    Btf,
    Member,
    TypeId,
    TypeKind, //
};

use crate::{
    failure::note,
    kinds::{
        is_text,
        kind,
        structure_name,
        Kind, //
    },
    value::Value, //
};

/// The maximum number of fetch arguments that the members have together. An event has at most 128 arguments. C:
/// `MAX_TRACE_ARGS`.
const MAX_ARGUMENTS: usize = 110;

/// The maximum length of these arguments together. A command has at most 4,094 bytes. C: `WRITE_BUFSIZE`.
const MAX_LENGTH: usize = 3000;

/// The kind of a member of a structure. What a pointer to a constant structure points to is often an object of the
/// source, such as a table of operations, and has a symbol.
fn kind_of(btf: &Btf<'_>, structure: &str, member: &Member<'_>) -> Kind {
    let kind = kind(btf, member.ty, structure, member.name);
    let is_constant = || {
        let pointer = btf.resolve(member.ty)?;
        let target = btf.get(pointer.target())?;
        Some(target.kind() == TypeKind::Const)
    };
    match kind {
        Kind::Pointer if is_constant() == Some(true) => Kind::Symbol,
        kind => kind,
    }
}

/// The members of the values of one event.
#[derive(Default)]
pub struct Deep {
    arguments: usize,
    length: usize,
    left_out: Vec<String>,
}

impl Deep {
    /// The members of the structure to which a value of this type points. `path` is the fetch argument of the value.
    pub fn members(&mut self, btf: &Btf<'_>, ty: TypeId, path: &str) -> Vec<(Rc<str>, Value)> {
        let mut members = Vec::new();
        let pointer = btf.resolve(ty).filter(|ty| ty.kind() == TypeKind::Ptr);
        let Some(pointer) = pointer else {
            return members;
        };
        let structure = structure_name(btf, pointer.target());
        btf.find_any_member(pointer.target(), |member| {
            if let Some(value) = self.member(btf, structure, &member, path) {
                members.push((member.name.into(), value));
            }
            None::<()>
        });
        members
    }

    fn member(
        &mut self,
        btf: &Btf<'_>,
        structure: &str,
        member: &Member<'_>,
        path: &str,
    ) -> Option<Value> {
        let ty = btf.resolve(member.ty)?;
        let is_text = is_text(btf, member.ty);
        // An array without elements is what follows the structure.
        let has_value = match ty.kind() {
            TypeKind::Int | TypeKind::Enum | TypeKind::Enum64 | TypeKind::Ptr => true,
            _ => is_text && ty.array().is_some_and(|array| array.len > 0),
        };
        if !has_value {
            return None;
        }
        // The name of a field has at most 31 bytes. That of a member can be longer.
        let name = format!("member{}", self.arguments);
        let fetch = format!("{path}->{}", member.name);
        let value = Value::member(&name, &fetch, kind_of(btf, structure, member), is_text);
        let arguments = match value.kind {
            Kind::Text(_) => 2,
            _ => 1,
        };
        let length = value.fetch.len() + 1;
        if self.arguments + arguments > MAX_ARGUMENTS || self.length + length > MAX_LENGTH {
            self.left_out.push(fetch);
            return None;
        }
        self.arguments += arguments;
        self.length += length;
        Some(value)
    }

    /// Says which members of the function's parameters the event has no room for.
    pub fn say_left_out(&self, function: &str) {
        if let [first, others @ ..] = &self.left_out[..] {
            let others = match others.len() {
                0 => String::new(),
                1 => " and another member".into(),
                number => format!(" and {number} other members"),
            };
            note(format!(
                "rkprobe: {function}: an event has no room for {first}{others}: --show NAME=FETCHARG shows single ones"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::btf::{
        self,
        builder::{
            Builder,
            BOOL,
            SIGNED, //
        },
    };

    fn members_of(number: usize) -> (Vec<(Rc<str>, Value)>, Vec<String>) {
        let mut types = Builder::new();
        let int = types.int("int", 4, SIGNED);
        let char = types.int("char", 1, 0);
        let bool = types.int("bool", 1, BOOL);
        let characters = types.refer(10, "", char);
        let text = types.ptr(characters);
        let array = types.array(char, 16);
        let numbers = types.array(int, 4);
        let mode = types.refer(8, "umode_t", int);
        let unnamed = types.members(4, "", &[("inside", int, 320)]);
        let part = types.members(4, "part", &[("hidden", int, 0)]);
        let constant = types.refer(10, "", part);
        let operations = types.ptr(constant);
        let names: Vec<String> = (0..number).map(|n| format!("n{n}")).collect();
        let mut all = vec![
            ("on", bool, 0),
            ("mode", mode, 32),
            ("text", text, 64),
            ("comm", array, 128),
            ("numbers", numbers, 256),
            ("", unnamed, 0),
            ("part", part, 352),
            ("operations", operations, 384),
        ];
        all.extend(names.iter().map(|name| (&**name, int, 384)));
        let object = types.members(4, "object", &all);
        let pointer = types.ptr(object);
        let bytes = types.bytes();
        let mut index = Vec::new();
        let btf = btf::parse(&bytes, None, &mut index).unwrap();
        let mut deep = Deep::default();
        assert!(deep.members(&btf, int, "n").is_empty());
        let members = deep.members(&btf, pointer, "p");
        (members, deep.left_out)
    }

    #[test]
    fn members_are_those_with_a_value() {
        let (members, left_out) = members_of(0);
        let all: Vec<_> = members
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.fetch))
            .collect();
        assert_eq!(
            all,
            [
                "on: member0=p->on",
                "mode: member1=p->mode",
                "text: member2_at=p->text:x64 member2=p->text:string",
                "comm: member4=p->comm:string",
                "inside: member5=p->inside",
                "operations: member6=p->operations:symbol",
            ]
        );
        assert_eq!(members[1].1.kind, Kind::Mode);
        assert!(left_out.is_empty());
    }

    #[test]
    fn members_without_room_are_left_out() {
        let (members, left_out) = members_of(MAX_ARGUMENTS);
        assert_eq!(members.len() + 1, MAX_ARGUMENTS);
        assert_eq!(members.len() + left_out.len(), MAX_ARGUMENTS + 6);
        assert_eq!(
            left_out.last().unwrap(),
            &format!("p->n{}", MAX_ARGUMENTS - 1)
        );
    }
}
