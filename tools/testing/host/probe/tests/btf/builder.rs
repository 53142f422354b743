// SPDX-License-Identifier: GPL-2.0

//! Makes BTF.

use probe::btf::{
    Btf,
    TypeId, //
};

pub const SIGNED: u32 = 1 << 24;
pub const CHAR: u32 = 1 << 25;
pub const BOOL: u32 = 1 << 26;

/// The flag of a kind.
pub const FLAG: u32 = 1 << 31;

/// A member, or what else has a name and a type.
pub type Named<'n> = (&'n str, TypeId);

/// What becomes BTF. Names are given as text, types by the ids that were given back.
#[derive(Clone)]
pub struct Builder {
    pub types: Vec<u32>,
    pub strings: Vec<u8>,
    pub layout: Vec<u8>,
    pub header_bytes: u32,
    next: u32,
    first_string: u32,
}

impl Builder {
    pub fn new() -> Self {
        Self {
            types: Vec::new(),
            strings: vec![0],
            layout: Vec::new(),
            header_bytes: 24,
            next: 1,
            first_string: 0,
        }
    }

    /// On a base that has strings of so many bytes.
    pub fn split(base: &Btf<'_>, base_strings: usize) -> Self {
        Self {
            strings: Vec::new(),
            next: base.type_count(),
            first_string: base_strings as u32,
            ..Self::new()
        }
    }

    pub fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let place = self.first_string + self.strings.len() as u32;
        self.strings.extend_from_slice(text.as_bytes());
        self.strings.push(0);
        place
    }

    /// A type of any kind.
    pub fn add(&mut self, name: &str, info: u32, value: u32, tail: &[u32]) -> TypeId {
        let name = self.string(name);
        self.types.extend_from_slice(&[name, info, value]);
        self.types.extend_from_slice(tail);
        self.next += 1;
        TypeId::new(self.next - 1)
    }

    pub fn int(&mut self, name: &str, bytes: u32, encoding: u32) -> TypeId {
        self.add(name, 1 << 24, bytes, &[encoding | bytes * 8])
    }

    /// A pointer, a modifier, a function: what refers to one type.
    pub fn refer(&mut self, kind: u32, name: &str, to: TypeId) -> TypeId {
        self.add(name, kind << 24, to.get(), &[])
    }

    pub fn ptr(&mut self, to: TypeId) -> TypeId {
        self.refer(2, "", to)
    }

    pub fn array(&mut self, element: TypeId, len: u32) -> TypeId {
        self.add("", 3 << 24, 0, &[element.get(), 1, len])
    }

    /// A structure (4) or union (5), with the last word of each member.
    pub fn members(&mut self, kind: u32, name: &str, members: &[(&str, TypeId, u32)]) -> TypeId {
        let mut tail = Vec::new();
        for (name, ty, place) in members {
            tail.extend_from_slice(&[self.string(name), ty.get(), *place]);
        }
        self.add(name, kind << 24 | members.len() as u32, 64, &tail)
    }

    /// The same with bitfields, given by their place and number of bits.
    pub fn bitfields(&mut self, name: &str, members: &[(&str, TypeId, u32, u32)]) -> TypeId {
        let members: Vec<_> = members
            .iter()
            .map(|(name, ty, place, bits)| (*name, *ty, place | bits << 24))
            .collect();
        self.members(4 | FLAG >> 24, name, &members)
    }

    /// A function with its prototype.
    pub fn function(&mut self, name: &str, params: &[Named<'_>], returned: TypeId) -> TypeId {
        let mut tail = Vec::new();
        for (name, ty) in params {
            tail.extend_from_slice(&[self.string(name), ty.get()]);
        }
        let proto = self.add("", 13 << 24 | params.len() as u32, returned.get(), &tail);
        self.refer(12, name, proto)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let types = self.types.len() as u32 * 4;
        let strings = self.strings.len() as u32;
        let mut bytes = 0xeb9fu16.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&[1, 0]);
        let layout = [types + strings, self.layout.len() as u32];
        for word in [self.header_bytes, 0, types, types, strings]
            .iter()
            .chain(&layout)
        {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.resize(self.header_bytes as usize, 0);
        for word in &self.types {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(&self.strings);
        bytes.extend_from_slice(&self.layout);
        bytes
    }
}

/// BTF with each kind, and with what a test may want of it.
pub fn everything() -> Builder {
    let mut b = Builder::new();
    let int = b.int("int", 4, SIGNED);
    let u8 = b.int("char", 1, 0);
    let u64 = b.int("unsigned long", 8, 0);
    let name = b.ptr(u8);
    let constant = b.refer(10, "", u8);
    let text = b.ptr(constant);
    let array = b.array(u8, 16);
    let inner = b.members(5, "", &[("len", int, 0), ("hash", u64, 0)]);
    let dentry = b.members(
        4,
        "dentry",
        &[
            ("d_flags", int, 0),
            ("d_iname", array, 32),
            ("", inner, 160),
        ],
    );
    let to_dentry = b.ptr(dentry);
    let path = b.members(4, "path", &[("mnt", name, 0), ("dentry", to_dentry, 64)]);
    let bits = b.bitfields("bits", &[("low", int, 0, 3), ("high", int, 3, 29)]);
    let file = b.members(
        4,
        "file",
        &[
            ("f_path", path, 64),
            ("f_bits", bits, 192),
            ("f_void", TypeId::VOID, 256),
        ],
    );
    let to_file = b.ptr(file);
    let size = b.refer(8, "size_t", u64);
    let restrict = b.refer(11, "", to_file);
    let volatile = b.refer(9, "", restrict);
    let tag = b.refer(18, "user", volatile);
    b.add("small", 6 << 24 | 1, 1, &[0, 7]);
    b.add("wide", 19 << 24 | 1, 8, &[0, 1, 1]);
    b.refer(7, "undefined", TypeId::VOID);
    let variable = b.add("jiffies", 14 << 24, u64.get(), &[1]);
    b.add(".data", 15 << 24 | 1, 8, &[variable.get(), 0, 8]);
    b.add("float", 16 << 24, 4, &[]);
    b.add("kfunc", 17 << 24, variable.get(), &[u32::MAX]);
    b.function(
        "vfs_read",
        &[("file", tag), ("buf", text), ("count", size)],
        int,
    );
    b.function("nothing", &[], TypeId::VOID);
    b.function(
        "printk",
        &[("fmt", text), ("", int), ("", TypeId::VOID)],
        to_dentry,
    );
    let list = b.members(4, "list_head", &[("next", name, 0)]);
    let entity = b.members(
        4,
        "sched_entity",
        &[("weight", u64, 0), ("group_node", list, 64)],
    );
    let user_char = b.refer(18, "user", u8);
    let to_user_char = b.ptr(user_char);
    let user_file = b.refer(18, "user", file);
    let constant = b.refer(10, "", user_file);
    let to_user_file = b.ptr(constant);
    let to_task = b.ptr(TypeId::new(b.next + 1));
    b.bitfields(
        "task_struct",
        &[
            ("pid", int, 0, 0),
            ("in_execve", int, 33, 1),
            ("in_bytes", int, 40, 8),
            ("comm", array, 64, 0),
            ("parent", to_task, 192, 0),
            ("group_leader", to_task, 256, 0),
            ("se", entity, 320, 0),
            ("user_name", to_user_char, 448, 0),
            ("user_file", to_user_file, 512, 0),
        ],
    );
    b.function(
        "sys_open",
        &[
            ("name", to_user_char),
            ("how", to_user_file),
            ("task", to_task),
        ],
        int,
    );
    b
}
