// SPDX-License-Identifier: GPL-2.0

//! Members of structures, and of those without a name in them.

use probe::btf::{
    Member,
    TypeId, //
};

use crate::{
    builder::*,
    open, //
};

#[test]
fn members_are_listed_and_found() {
    let mut b = Builder::new();
    let int = b.int("int", 4, SIGNED);
    let plain = b.members(4, "plain", &[("a", int, 0), ("", int, 32), ("b", int, 64)]);
    let bits = b.bitfields(
        "bits",
        &[("a", int, 3, 5), ("", int, 8, 1), ("b", int, 64, 0)],
    );
    let btf = open(b.bytes());

    let list = |id| btf.members(btf.get(id).unwrap()).collect::<Vec<_>>();
    let member = |name, bit_offset, bitfield| Member {
        name,
        ty: int,
        bit_offset,
        bitfield,
    };
    assert_eq!(
        list(plain),
        [member("a", 0, 0), member("", 32, 0), member("b", 64, 0)]
    );
    assert_eq!(
        list(bits),
        [member("a", 3, 5), member("", 8, 1), member("b", 64, 0)]
    );
    assert_eq!(list(int), []);

    assert_eq!(btf.find_member(plain, "b"), Some(member("b", 64, 0)));
    assert_eq!(btf.find_member(bits, "a"), Some(member("a", 3, 5)));
    for (id, name) in [(plain, "c"), (plain, ""), (int, "a"), (TypeId::VOID, "a")] {
        assert_eq!(btf.find_member(id, name), None);
    }
}

#[test]
fn a_name_is_looked_for_in_what_has_none() {
    let mut b = Builder::new();
    let int = b.int("int", 4, SIGNED);
    let deep = b.bitfields("", &[("deep", int, 40, 7)]);
    let union = b.members(5, "", &[("x", int, 0), ("", deep, 64), ("y", int, 0)]);
    let constant = b.refer(10, "", union);
    let other = b.members(4, "", &[("z", int, 32)]);
    let pointer = b.ptr(other);
    let named = b.members(4, "inner", &[("n", int, 0)]);
    let outer = b.members(
        4,
        "outer",
        &[
            ("", constant, 128),
            ("", other, 320),
            ("", pointer, 384),
            ("i", named, 448),
            ("last", int, 512),
        ],
    );
    let btf = open(b.bytes());
    let find = |name| {
        let member = btf.find_member(outer, name)?;
        Some((member.bit_offset, member.bitfield))
    };
    assert_eq!(find("x"), Some((128, 0)));
    assert_eq!(find("deep"), Some((128 + 64 + 40, 7)));
    assert_eq!(find("y"), Some((128, 0)));
    assert_eq!(find("z"), Some((320 + 32, 0)));
    assert_eq!(find("i"), Some((448, 0)));
    assert_eq!(find("last"), Some((512, 0)));
    assert_eq!(find("n"), None);
}

#[test]
fn more_than_sixteen_of_them_are_no_limit() {
    let mut b = Builder::new();
    let int = b.int("int", 4, SIGNED);
    let names: Vec<_> = (0..100).map(|n| format!("m{n}")).collect();
    let unions: Vec<_> = names
        .iter()
        .map(|name| b.members(5, "", &[(name, int, 0)]))
        .collect();
    let members: Vec<_> = (0u32..)
        .zip(&unions)
        .map(|(n, id)| ("", *id, n * 64))
        .collect();
    let outer = b.members(4, "outer", &members);
    let btf = open(b.bytes());
    for (n, name) in (0u32..).zip(&names) {
        assert_eq!(btf.find_member(outer, name).unwrap().bit_offset, n * 64);
    }
}

#[test]
fn sixteen_deep_is_the_limit() {
    let mut b = Builder::new();
    let int = b.int("int", 4, SIGNED);
    let mut id = b.members(4, "", &[("deepest", int, 8)]);
    let mut ids = vec![id];
    for _ in 0..20 {
        id = b.members(4, "", &[("", id, 8), ("behind", int, 8)]);
        ids.push(id);
    }
    let btf = open(b.bytes());
    for (n, id) in (0..).zip(ids) {
        let found = btf.find_member(id, "deepest");
        let offset = found.map(|member| member.bit_offset);
        assert_eq!(offset, (n < 16).then_some(8 + n * 8), "{n}");
        // What is too deep is passed.
        assert_eq!(btf.find_member(id, "behind").is_some(), n > 0);
    }
}

#[test]
fn a_structure_within_itself_has_an_end() {
    let mut b = Builder::new();
    let int = b.int("int", 4, SIGNED);
    // Twice, so that each level has two below.
    let itself = TypeId::new(2);
    let id = b.members(
        4,
        "",
        &[("", itself, 0), ("", itself, 1 << 31), ("a", int, 0)],
    );
    assert_eq!(id, itself);
    let btf = open(b.bytes());
    assert_eq!(btf.find_member(id, "b"), None);
    assert!(btf.find_member(id, "a").is_some());
}

#[test]
fn so_many_members_are_looked_at() {
    let mut b = Builder::new();
    let int = b.int("int", 4, SIGNED);
    let many = vec![("a", int, 0); 4094];
    let many = b.members(4, "", &many);
    let outer = b.members(
        4,
        "outer",
        &[("", many, 0), ("last", int, 0), ("more", int, 0)],
    );
    let btf = open(b.bytes());
    assert!(btf.find_member(outer, "last").is_some());
    assert_eq!(btf.find_member(outer, "more"), None);
}
