// SPDX-License-Identifier: GPL-2.0

//! Types by number and by name.

use probe::btf::{
    Array,
    Btf,
    TypeId,
    TypeKind, //
};

use crate::{
    builder::*,
    index,
    open, //
};

const KINDS: [TypeKind; 20] = [
    TypeKind::Void,
    TypeKind::Int,
    TypeKind::Ptr,
    TypeKind::Array,
    TypeKind::Struct,
    TypeKind::Union,
    TypeKind::Enum,
    TypeKind::Fwd,
    TypeKind::Typedef,
    TypeKind::Volatile,
    TypeKind::Const,
    TypeKind::Restrict,
    TypeKind::Func,
    TypeKind::FuncProto,
    TypeKind::Var,
    TypeKind::Datasec,
    TypeKind::Float,
    TypeKind::DeclTag,
    TypeKind::TypeTag,
    TypeKind::Enum64,
];

fn named<'a>(btf: &Btf<'a>, name: &str) -> Option<&'a str> {
    let kinds = KINDS.iter();
    let id = kinds.filter_map(|kind| btf.find(name, *kind)).next()?;
    btf.name(btf.get(id)?)
}

#[test]
fn each_kind_is_read() {
    let btf = open(everything().bytes());
    let mut seen: Vec<TypeKind> = Vec::new();
    for id in 0..btf.type_count() {
        seen.push(btf.get(TypeId::new(id)).unwrap().kind());
    }
    for kind in KINDS {
        assert!(seen.contains(&kind), "{kind:?}");
    }
    assert!(btf.get(TypeId::new(btf.type_count())).is_none());
    assert!(btf.get(TypeId::new(u32::MAX)).is_none());
}

#[test]
fn what_a_kind_says_is_read() {
    let mut b = Builder::new();
    let int = b.add("odd", 1 << 24, 4, &[SIGNED | 5 << 16 | 3]);
    let bool = b.int("_Bool", 1, BOOL);
    let char = b.int("c", 1, CHAR);
    let array = b.array(bool, 9);
    let union = b.refer(7 | FLAG >> 24, "u", TypeId::VOID);
    let btf = open(b.bytes());
    let get = |id| btf.get(id).unwrap();

    let odd = get(int).int().unwrap();
    assert_eq!((odd.bits(), odd.offset(), get(int).size()), (3, 5, 4));
    assert!(odd.is_signed() && !odd.is_bool() && !odd.is_char());
    assert!(get(bool).int().unwrap().is_bool());
    assert!(get(char).int().unwrap().is_char());
    let expected = Array {
        element: bool,
        index: TypeId::new(1),
        len: 9,
    };
    assert_eq!(get(array).array(), Some(expected));
    assert_eq!(get(array).int(), None);
    assert_eq!(get(int).array(), None);
    assert!(get(union).flag() && !get(array).flag());
}

#[test]
fn names_and_qualifiers_are_passed() {
    let mut b = Builder::new();
    let int = b.int("int", 4, 0);
    let mut last = int;
    let mut ids = vec![last];
    for n in 0..40 {
        let kinds = [8, 9, 10, 11, 18];
        last = b.refer(kinds[n % 5], "", last);
        ids.push(last);
    }
    let nothing = b.refer(10, "", TypeId::VOID);
    let itself = b.refer(8, "loop", TypeId::new(nothing.get() + 1));
    let gone = b.refer(8, "gone", TypeId::new(1000));
    let btf = open(b.bytes());
    for (n, id) in ids.into_iter().enumerate() {
        // 32 of them, and no more.
        let ty = btf.resolve(id).map(|ty| ty.kind());
        assert_eq!(ty, (n <= 32).then_some(TypeKind::Int), "{n}");
    }
    assert_eq!(btf.resolve(nothing).unwrap().kind(), TypeKind::Void);
    assert_eq!(btf.resolve(TypeId::VOID).unwrap().kind(), TypeKind::Void);
    assert!(btf.resolve(itself).is_none());
    assert!(btf.resolve(gone).is_none());
}

/// Types of these names, all of one kind, with another kind of the same name in front of each.
fn list(names: &[&str]) -> Btf<'static> {
    let mut b = Builder::new();
    for name in names {
        b.refer(8, name, TypeId::VOID);
        b.refer(7, name, TypeId::VOID);
    }
    open(b.bytes())
}

#[test]
fn a_name_is_found_sorted_or_not() {
    let sorted = ["", "", "a", "ab", "ab", "b", "ba", "c", "\u{e9}"];
    let mut unsorted = sorted;
    unsorted.reverse();
    for names in [
        sorted.as_slice(),
        &unsorted,
        &sorted[2..],
        &["x"],
        &["", "x"],
    ] {
        let btf = list(names);
        for name in names.iter().filter(|name| !name.is_empty()) {
            let first = names.iter().position(|other| other == name).unwrap() as u32;
            for (kind, id) in [
                (TypeKind::Typedef, 2 * first + 1),
                (TypeKind::Fwd, 2 * first + 2),
            ] {
                let found = btf.find(name, kind);
                assert_eq!(found, Some(TypeId::new(id)), "{names:?} {name}");
            }
            assert_eq!(btf.find(name, TypeKind::Func), None);
        }
        for name in ["", "0", "aa", "abc", "z", "\u{ff}", "a\0"] {
            assert_eq!(btf.find(name, TypeKind::Typedef), None, "{names:?} {name}");
        }
    }
    assert_eq!(list(&[]).find("x", TypeKind::Fwd), None);
    assert_eq!(list(&["", ""]).find("x", TypeKind::Fwd), None);
}

#[test]
fn a_name_that_is_no_text_is_none() {
    let mut b = Builder::new();
    let long = "x".repeat(512);
    let ids = [
        b.refer(8, &long[..511], TypeId::VOID),
        b.refer(8, &long, TypeId::VOID),
        b.refer(8, "bad", TypeId::VOID),
        b.refer(8, "far", TypeId::VOID),
        b.refer(8, "", TypeId::VOID),
    ];
    let bad = b.strings.windows(3).position(|w| w == b"bad").unwrap();
    b.strings[bad] = 0xff;
    b.types[3 * 3] = u32::MAX;
    let btf = open(b.bytes());
    let names = ids.map(|id| btf.name(btf.get(id).unwrap()));
    assert_eq!(names, [Some(&long[..511]), None, None, None, Some("")]);
}

#[test]
fn split_btf_continues_its_base() {
    let base_bytes = everything().bytes();
    let base = index(&base_bytes, None).unwrap();
    let mut b = Builder::split(&base, everything().strings.len());
    let file = base.find("file", TypeKind::Struct).unwrap();
    let ptr = b.ptr(file);
    let own = b.members(4, "own", &[("file", ptr, 0)]);
    let to_own = b.ptr(own);
    b.function("own_open", &[("own", to_own)], ptr);
    b.function("vfs_read", &[("mine", to_own)], ptr);
    let bytes = b.bytes();
    let btf = index(&bytes, Some(&base)).unwrap();

    assert_eq!(ptr.get(), base.type_count());
    assert_eq!(btf.type_count(), base.type_count() + 7);
    assert_eq!(named(&btf, "file"), Some("file"));
    assert_eq!(named(&btf, "own"), Some("own"));
    assert_eq!(named(&base, "own"), None);
    assert_eq!(btf.get(ptr).unwrap().target(), file);
    assert!(base.get(ptr).is_none());
    assert_eq!(btf.find_member(own, "file").unwrap().ty, ptr);
    assert_eq!(btf.find_member(file, "f_path").unwrap().name, "f_path");
    // Its own function, in front of that of the base.
    let first = |btf: &Btf<'_>, name| {
        let function = btf.function(name).unwrap();
        function.params().next().unwrap().name.to_owned()
    };
    assert_eq!(first(&btf, "own_open"), "own");
    assert_eq!(first(&btf, "vfs_read"), "mine");
    assert_eq!(first(&base, "vfs_read"), "file");
    assert_eq!(first(&btf, "printk"), "fmt");
}

#[test]
fn a_variable_has_the_size_of_its_type() {
    const VAR: u32 = 14;
    let mut b = Builder::new();
    let int = b.int("int", 4, SIGNED);
    let ptr = b.ptr(TypeId::VOID);
    let typedef = b.refer(8, "number", int);
    let constant = b.refer(10, "", typedef);
    let row = b.array(int, 2);
    let matrix = b.array(row, 3);
    let endless = b.array(TypeId::new(matrix.get() + 1), 1);
    let structure = b.members(4, "s", &[("a", int, 0)]);
    let huge = b.array(matrix, u32::MAX);
    let union = b.refer(7 | FLAG >> 24, "u", TypeId::VOID);
    for (name, ty) in [
        ("an_int", int),
        ("a_pointer", ptr),
        ("a_constant", constant),
        ("a_matrix", matrix),
        ("a_structure", structure),
        ("endless", endless),
        ("huge", huge),
        ("undefined", union),
        ("nothing", TypeId::VOID),
        ("gone", TypeId::new(1000)),
    ] {
        b.add(name, VAR << 24, ty.get(), &[1]);
    }
    let btf = open(b.bytes());
    for (name, size) in [
        ("an_int", Some(4)),
        ("a_pointer", Some(8)),
        ("a_constant", Some(4)),
        ("a_matrix", Some(24)),
        ("a_structure", Some(64)),
        ("endless", None),
        ("huge", None),
        ("undefined", None),
        ("nothing", None),
        ("gone", None),
        ("number", None),
        ("", None),
    ] {
        assert_eq!(btf.variable_size(name), size, "{name}");
    }
}
