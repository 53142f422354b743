// SPDX-License-Identifier: GPL-2.0

//! What holds for any bytes: each look-up ends, and none panics.

use probe::{
    btf::{
        field_offset,
        Btf,
        Fields,
        Sections,
        TypeId,
        TypeKind,
        Variable, //
    },
    types::Space, //
};
use proptest::prelude::*;

use crate::{
    builder::*,
    index, //
};

/// Asks all that can be asked.
fn ask(btf: &Btf<'_>) {
    let ids = (0..btf.type_count().min(200)).chain([u32::MAX]);
    for id in ids.map(TypeId::new) {
        btf.resolve(id);
        for name in ["d_flags", "len", "a", ""] {
            btf.find_member(id, name);
        }
        for text in ["file->f_path.dentry->len", "x->a", "x->f_bits.high->a"] {
            let variable = Variable::parse(text).unwrap();
            let fields = variable.fields(btf, id).into_iter().chain([
                variable.fields_of(btf, id),
                Fields::of_structure(*btf, id, u32::MAX, Space::User, text),
            ]);
            for fields in fields {
                let start = fields.start();
                let reads = fields.filter_map(Result::ok).map(|read| read.value);
                for value in reads.chain(start) {
                    value.fetch_type();
                    value.string_source(btf);
                    value.points_to(btf);
                }
            }
        }
        for text in ["f_path.dentry", "a", "", "f_bits.high->a", "a-"] {
            let _ = field_offset(btf, id, text);
        }
        btf.has_tag(id, "user");
        if let Some(ty) = btf.get(id) {
            btf.name(ty);
            btf.members(ty).take(1000).for_each(drop);
            (ty.kind(), ty.int(), ty.array());
        }
    }
    for name in ["vfs_read", "printk", "nothing", "file", "", "\u{e9}"] {
        btf.find(name, TypeKind::Struct);
        btf.functions_from(name).take(1000).for_each(drop);
        if let Some(function) = btf.function(name) {
            for function in [function, function.of_tracepoint()] {
                function.params().take(1000).for_each(drop);
                function.find("file");
                function.is_variadic();
                let variable = Variable::parse("$retval->x").unwrap();
                let _ = (
                    variable.param(Some(&function)),
                    variable.returned(Some(&function)),
                );
            }
        }
    }
}

/// Words and bytes of good BTF that become others.
fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u32, bool)>> {
    let word = prop_oneof![
        any::<u32>(),
        0..200u32,
        (0..21u32, 0..4u32, any::<bool>())
            .prop_map(|(kind, count, flag)| kind << 24 | count | u32::from(flag) << 31),
        Just(u32::MAX),
    ];
    prop::collection::vec((any::<prop::sample::Index>(), word, any::<bool>()), 1..12)
}

fn change(bytes: &mut [u8], changes: &[(prop::sample::Index, u32, bool)], from: usize) {
    for (index, word, whole) in changes {
        let at = from + index.index(bytes.len() - from);
        let word = word.to_ne_bytes();
        if *whole {
            let at = at & !3;
            for (byte, new) in bytes.iter_mut().skip(at).zip(word) {
                *byte = new;
            }
        } else {
            bytes[at] = word[0];
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_bytes_are_read_without_panic(
        tail in prop::collection::vec(any::<u8>(), 0..300),
        has_header in any::<bool>(),
    ) {
        let mut bytes = Vec::new();
        if has_header {
            bytes.extend_from_slice(&everything().bytes()[..12]);
        }
        bytes.extend_from_slice(&tail);
        if let Ok(btf) = index(&bytes, None) {
            ask(&btf);
        }
    }

    #[test]
    fn changed_types_are_asked_without_panic(changes in changes()) {
        let mut bytes = everything().bytes();
        change(&mut bytes, &changes, 24);
        if let Ok(btf) = index(&bytes, None) {
            ask(&btf);
        }
    }

    #[test]
    fn changed_headers_are_read_without_panic(changes in changes()) {
        let mut bytes = everything().bytes();
        let header = bytes[..32].to_vec();
        change(&mut bytes[..32], &changes[..1], 4);
        prop_assume!(header != bytes[..32]);
        if let Ok(btf) = index(&bytes, None) {
            ask(&btf);
        }
    }

    #[test]
    fn changed_split_types_are_asked_without_panic(changes in changes(), in_base in any::<bool>()) {
        let mut base_bytes = everything().bytes();
        let whole = base_bytes.clone();
        let mut b = Builder::split(&index(&whole, None).unwrap(), everything().strings.len());
        let own = b.members(4, "own", &[("file", TypeId::new(3), 0), ("", TypeId::new(12), 0)]);
        let to_own = b.ptr(own);
        b.function("vfs_read", &[("file", to_own)], own);
        let mut bytes = b.bytes();
        if in_base {
            change(&mut base_bytes, &changes, 24);
        } else {
            change(&mut bytes, &changes, 24);
        }
        if let Ok(base) = index(&base_bytes, None) {
            if let Ok(btf) = index(&bytes, Some(&base)) {
                ask(&btf);
            }
        }
    }

    #[test]
    fn an_index_of_other_bytes_does_no_harm(index in prop::collection::vec(0..800u32, 0..60)) {
        let bytes = everything().bytes();
        ask(&Sections::parse(&bytes, None).unwrap().indexed(&index));
    }
}
