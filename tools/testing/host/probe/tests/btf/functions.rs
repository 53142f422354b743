// SPDX-License-Identifier: GPL-2.0

//! What functions take and return.

use probe::btf::{
    Function,
    TypeId,
    TypeKind, //
};

use crate::{
    builder::*,
    open, //
};

fn names<'a>(function: &Function<'a>) -> Vec<(u16, &'a str)> {
    let params = function.params();
    params.map(|param| (param.position, param.name)).collect()
}

#[test]
fn a_function_is_found_with_its_parameters() {
    let btf = open(everything().bytes());
    let read = btf.function("vfs_read").unwrap();
    assert_eq!(names(&read), [(0, "file"), (1, "buf"), (2, "count")]);
    assert!(!read.is_void() && !read.is_variadic());
    assert_eq!(btf.get(read.returned()).unwrap().kind(), TypeKind::Int);
    assert_eq!(read.find("count").unwrap().position, 2);
    for name in ["", "coun", "counts"] {
        assert_eq!(read.find(name), None);
    }

    let nothing = btf.function("nothing").unwrap();
    assert_eq!(names(&nothing), []);
    assert!(nothing.is_void() && !nothing.is_variadic());
    assert!(btf.function("file").is_none());
    assert!(btf.function("none").is_none());
}

#[test]
fn functions_are_found_by_how_they_begin() {
    const STRUCT: u32 = 4;
    const FUNC: u32 = 12;
    const FUNC_PROTO: u32 = 13;
    let btf = |names: &[&str]| {
        let mut b = Builder::new();
        let proto = b.add("", FUNC_PROTO << 24, 0, &[]);
        for name in names {
            match name.strip_prefix("struct ") {
                Some(name) => b.members(STRUCT, name, &[]),
                None => b.refer(FUNC, name, proto),
            };
        }
        b.bytes()
    };
    let sorted = open(btf(&[
        "ac",
        "acpi",
        "struct acpi_a",
        "acpi_b",
        "acpi_c",
        "b",
    ]));
    let from = |prefix| sorted.functions_from(prefix).collect::<Vec<_>>();
    assert_eq!(from("acpi_"), ["acpi_b", "acpi_c"]);
    assert_eq!(from("acp"), ["acpi", "acpi_b", "acpi_c"]);
    assert_eq!(from(""), ["ac", "acpi", "acpi_b", "acpi_c", "b"]);
    assert_eq!(from("b"), ["b"]);
    for prefix in ["acpi_d", "bb", "c", "A"] {
        assert!(from(prefix).is_empty(), "{prefix}");
    }
    let unsorted = open(btf(&["b", "a"]));
    assert_eq!(unsorted.functions_from("a").count(), 0);
}

#[test]
fn what_follows_the_parameters_of_a_variadic_function_is_none() {
    let btf = open(everything().bytes());
    let printk = btf.function("printk").unwrap();
    assert_eq!(names(&printk), [(0, "fmt"), (1, "")]);
    assert!(printk.is_variadic());
    assert_eq!(printk.find(""), None);
}

#[test]
fn the_words_of_arguments_are_counted_if_each_argument_has_one() {
    const PTR: u32 = 2;
    const TYPEDEF: u32 = 8;
    const FUNC: u32 = 12;
    const FUNC_PROTO: u32 = 13;
    let mut b = Builder::new();
    let int = b.int("int", 4, 0);
    let wide = b.int("__int128", 16, 0);
    let pointer = b.refer(PTR, "", int);
    let typedef = b.refer(TYPEDEF, "size_t", int);
    let structure = b.members(4, "sockptr_t", &[]);
    let cases: [(&str, &[TypeId], Option<usize>); 6] = [
        ("none", &[], Some(0)),
        ("two", &[pointer, typedef], Some(2)),
        ("five", &[int; 5], Some(5)),
        ("with_structure", &[pointer, structure], None),
        ("with_wide", &[wide], None),
        ("variadic", &[pointer, TypeId::VOID], None),
    ];
    for (name, types, _) in cases {
        let params: Vec<_> = types.iter().flat_map(|ty| [0, ty.get()]).collect();
        let proto = b.add(
            "",
            FUNC_PROTO << 24 | types.len() as u32,
            int.get(),
            &params,
        );
        b.refer(FUNC, name, proto);
    }
    let btf = open(b.bytes());
    let found: Vec<_> = btf
        .functions()
        .map(|(name, function)| (name, function.words_of_arguments()))
        .collect();
    assert_eq!(found, cases.map(|(name, _, words)| (name, words)));
}

#[test]
fn a_tracepoint_keeps_its_first_parameter_for_itself() {
    let btf = open(everything().bytes());
    let read = btf.function("vfs_read").unwrap().of_tracepoint();
    assert_eq!(names(&read), [(1, "buf"), (2, "count")]);
    assert_eq!(read.find("file"), None);
    assert_eq!(read.find("buf").unwrap().position, 1);
    let nothing = btf.function("nothing").unwrap().of_tracepoint();
    assert_eq!(names(&nothing), []);
}

#[test]
fn a_function_without_a_prototype_is_none() {
    let mut b = Builder::new();
    let int = b.int("int", 4, 0);
    b.refer(12, "of_int", int);
    b.refer(12, "of_nothing", TypeId::VOID);
    b.refer(12, "of_none", TypeId::new(99));
    let btf = open(b.bytes());
    for name in ["of_int", "of_nothing", "of_none"] {
        assert!(btf.find(name, TypeKind::Func).is_some());
        assert!(btf.function(name).is_none());
    }
}
