// SPDX-License-Identifier: GPL-2.0

//! The text of `/proc/kallsyms`, and the table of names in the kernel's memory.

use std::collections::BTreeSet;

use probe::{
    hash::hash,
    kallsyms::{
        contains,
        expand,
        insert,
        token_texts,
        Location,
        Names,
        SymbolLine,
        Token,
        Tokens,
        MAX_COMPRESSED,
        TOKENS, //
    },
};
use proptest::prelude::*;

fn symbol<'a>(address: u64, name: &'a str, module: Option<&'a str>) -> Option<SymbolLine<'a>> {
    Some(SymbolLine {
        address,
        name: name.as_bytes(),
        module: module.map(str::as_bytes),
    })
}

#[test]
fn locations() {
    for (text, expected) in [
        ("vfs_read+0x10/0x3a0", Some(("vfs_read", 0x10, 0x3a0, None))),
        ("a.b+0x0/0x1 [dummy]", Some(("a.b", 0, 1, Some("dummy")))),
        // No name of C's, but of Rust's.
        ("_R+0x1+0x2/0x3 [m]", Some(("_R+0x1", 2, 3, Some("m")))),
        ("0xffffffffc0001000", None),
        ("x+0x10 [m]", None),
        ("x+0x10/0x [m]", None),
        ("x+0x1/0x2[m]", None),
        ("]", None),
        ("", None),
    ] {
        let expected = expected.map(|(name, offset, size, module)| Location {
            name,
            offset,
            size,
            module,
        });
        assert_eq!(Location::parse(text), expected, "{text:?}");
    }
}

#[test]
fn lines() {
    for (line, expected) in [
        (
            "ffffffff81000000 T _stext",
            symbol(0xffff_ffff_8100_0000, "_stext", None),
        ),
        ("0000000000000000 t a.cold", symbol(0, "a.cold", None)),
        (
            "ffffffffc0000000 d __this_module\t[dummy]",
            symbol(0xffff_ffff_c000_0000, "__this_module", Some("dummy")),
        ),
        (
            "ffffffffc0000000 t bpf_prog_1_x\t[bpf]",
            symbol(0xffff_ffff_c000_0000, "bpf_prog_1_x", Some("bpf")),
        ),
        ("", None),
        ("address T _stext", None),
        ("ffffffff81000000", None),
        ("ffffffff81000000 T", None),
        ("ffffffff81000000 T ", None),
        ("ffffffff81000000 T \t[dummy]", None),
        ("ffffffff81000000 T x\tdummy", None),
    ] {
        assert_eq!(SymbolLine::parse(line.as_bytes()), expected, "{line:?}");
    }
}

#[test]
fn a_full_table() {
    let mut table = [1, 2];
    assert!(insert(&mut table, 2));
    assert!(!insert(&mut table, 3));
    assert!(!contains(&table, 3));
    assert_eq!(table, [1, 2]);
    assert!(!insert(&mut [], 1));
    assert!(!contains(&[], 1));
}

#[test]
fn similar_names_have_different_hashes() {
    let digits = (0..10_000).map(|n| format!("show_{n}"));
    let letters = ('a'..='z').flat_map(|a| ('a'..='z').map(move |b| format!("{a}{b}")));
    let pairs = ["", "a", "aa", "ab.cold", "ba.cold"].map(String::from);
    let names: BTreeSet<_> = digits.chain(letters).chain(pairs).collect();
    let hashes: BTreeSet<_> = names.iter().map(|name| hash(name.as_bytes())).collect();
    assert_eq!(names.len(), hashes.len());
    assert!(!hashes.contains(&0));
    // The low bits are places in a table.
    let places: BTreeSet<_> = hashes.iter().map(|hash| hash & 0xffff).collect();
    assert!(places.len() > names.len() * 9 / 10, "{}", places.len());
}

/// The kernel's tables, as `scripts/kallsyms.c` writes them.
struct Compressed {
    table: Vec<u8>,
    index: [u8; 2 * TOKENS],
    names: Vec<u8>,
}

impl Compressed {
    /// Each name has its type in front. A token is two or more characters.
    fn new(names: &[String], texts: &[String]) -> Self {
        let mut all: Vec<String> = (0..TOKENS)
            .map(|byte| match byte {
                0x21..0x7f => char::from(byte as u8).to_string(),
                _ => String::new(),
            })
            .collect();
        let free = (0x80..TOKENS).chain(0..0x21);
        for (number, text) in free.zip(texts) {
            all[number] = text.clone();
        }
        let mut this = Self {
            table: Vec::new(),
            index: [0; 2 * TOKENS],
            names: Vec::new(),
        };
        for (text, index) in all.iter().zip(this.index.chunks_mut(2)) {
            index.copy_from_slice(&(this.table.len() as u16).to_ne_bytes());
            this.table.extend(text.bytes().chain([0]));
        }
        for name in names {
            let mut bytes = Vec::new();
            let mut rest = name.as_str();
            while !rest.is_empty() {
                let fits = |text: &&String| !text.is_empty() && rest.starts_with(text.as_str());
                let longest = all
                    .iter()
                    .filter(fits)
                    .max_by_key(|text| text.len())
                    .unwrap();
                bytes.push(all.iter().position(|text| text == longest).unwrap() as u8);
                rest = &rest[longest.len()..];
            }
            match bytes.len() {
                len @ 0..0x80 => this.names.push(len as u8),
                len => this.names.extend([len as u8 | 0x80, (len >> 7) as u8]),
            }
            this.names.extend(bytes);
        }
        this
    }

    fn tokens(&self) -> Vec<Token> {
        token_texts(&self.table, &self.index)
            .map(|text| Token::new(text.unwrap()))
            .collect()
    }
}

#[test]
fn tables_that_are_cut() {
    let whole = Compressed::new(&[], &["vfs_".to_string()]);
    let texts = |table| token_texts(table, &whole.index);
    assert_eq!(texts(&whole.table).nth(0x80), Some(Some(&b"vfs_"[..])));
    assert!(texts(&whole.table).all(|text| text.is_some()));
    let without_end = &whole.table[..whole.table.len() - 1];
    assert_eq!(
        texts(without_end).position(|text| text.is_none()),
        Some(TOKENS - 1)
    );
    assert!(texts(&[]).all(|text| text.is_none()));

    let tokens = whole.tokens();
    assert!(Tokens::new(&tokens).is_some());
    assert!(Tokens::new(&tokens[1..]).is_none());
    assert!(Tokens::new(&[]).is_none());
}

#[test]
fn what_is_no_name() {
    let table = Compressed::new(&[], &["T_".to_string(), "_T".to_string()]);
    let tokens = table.tokens();
    let tokens = Tokens::new(&tokens).unwrap();
    // With a type in a token of its own, or not.
    assert_eq!(tokens.hash(b"Tx"), Some(hash(b"x")));
    assert_eq!(tokens.hash(b"\x80x"), Some(hash(b"_x")));
    for name in [&b""[..], b"_x", b"\x81x", b"4x", b"\x01x"] {
        assert_eq!(tokens.hash(name), None, "{name:?}");
    }
}

#[test]
fn lengths_of_names() {
    for (bytes, lens, rest) in [
        (&b""[..], &[][..], 0),
        (b"\x01", &[], 1),
        (b"\x01a", &[1], 0),
        (b"\x00\x01a\x02a", &[0, 1], 2),
        // 128 bytes, which are cut.
        (b"\x01a\x80", &[1], 1),
        (b"\x01a\x80\x01a", &[1], 3),
    ] {
        let mut names = Names::new(bytes);
        assert!(
            names.by_ref().map(<[u8]>::len).eq(lens.iter().copied()),
            "{bytes:?}"
        );
        assert_eq!(names.rest().len(), rest, "{bytes:?}");
    }
    let mut longest = vec![b'a'; MAX_COMPRESSED];
    longest[..2].copy_from_slice(b"\xff\x7f");
    let mut names = Names::new(&longest);
    assert_eq!(names.next().map(<[u8]>::len), Some(MAX_COMPRESSED - 2));
    assert_eq!(names.next(), None);
    assert_eq!(
        Names::new(&longest[1..]).next().map(<[u8]>::len),
        Some(0x7f)
    );
}

proptest! {
    #[test]
    fn what_was_put_into_a_table_is_in_it(hashes in prop::collection::vec(1u64..60, 0..100)) {
        // Four to a place: they collide.
        let mut table = [0; 64];
        let mut expected = BTreeSet::new();
        for &hash in &hashes {
            prop_assert_eq!(insert(&mut table, hash << 4), !expected.insert(hash));
        }
        for hash in 1..60 {
            prop_assert_eq!(contains(&table, hash << 4), expected.contains(&hash));
        }
    }

    #[test]
    fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = SymbolLine::parse(&line);
    }

    #[test]
    fn no_bytes_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        index in prop::collection::vec(any::<u8>(), 2 * TOKENS),
    ) {
        let index: [u8; 2 * TOKENS] = index.try_into().unwrap();
        prop_assert_eq!(token_texts(&bytes, &index).count(), TOKENS);
        let tokens: Vec<_> = token_texts(&bytes, &index)
            .map(|text| Token::new(text.unwrap_or(&[])))
            .collect();
        let tokens = Tokens::new(&tokens).unwrap();
        let mut names = Names::new(&bytes);
        let mut read = 0;
        for name in names.by_ref() {
            let _ = tokens.hash(name);
            read += name.len() + 1 + usize::from(name.len() >= 0x80);
        }
        // A length of fewer than 128 can have two bytes, too.
        prop_assert!(read <= bytes.len() - names.rest().len());
    }

    #[test]
    fn a_compressed_name_has_the_hash_of_the_name(
        names in prop::collection::vec("[a-zA-Z][a-c_.$0-9]{1,200}", 0..20),
        texts in prop::collection::vec("[a-zA-Z_]{0,1}[a-c_.$0-9]{1,4}", 0..100),
        cut in 0..400usize,
    ) {
        let compressed = Compressed::new(&names, &texts);
        let tokens = compressed.tokens();
        let tokens = Tokens::new(&tokens).unwrap();
        let expected: Vec<_> = names.iter().map(|name| Some(hash(&name.as_bytes()[1..]))).collect();

        // In two pieces, as the kernel's memory is read.
        let cut = cut.min(compressed.names.len());
        let mut first = Names::new(&compressed.names[..cut]);
        let mut hashes: Vec<_> = first.by_ref().map(|name| tokens.hash(name)).collect();
        let second = Names::new(&compressed.names[cut - first.rest().len()..]);
        hashes.extend(second.map(|name| tokens.hash(name)));
        prop_assert_eq!(hashes, expected);
    }
}

/// The texts of tokens: `T` and some names, and the rest empty.
fn texts() -> [&'static [u8]; TOKENS] {
    let mut texts: [&[u8]; TOKENS] = [b""; TOKENS];
    texts[1] = b"T";
    texts[2] = b"Tvfs_";
    texts[3] = b"vfs_";
    texts[4] = b"read";
    texts
}

#[test]
fn expanded_names_begin_with_the_prefix() {
    let name = |compressed: &[u8], prefix: &str| {
        let mut to = [0; 32];
        expand(compressed, &texts(), prefix.as_bytes(), &mut to)
            .map(|name| String::from_utf8_lossy(name).into_owned())
    };
    for compressed in [&[2, 4][..], &[1, 3, 4]] {
        for prefix in ["", "v", "vfs_", "vfs_r", "vfs_read"] {
            assert_eq!(
                name(compressed, prefix).as_deref(),
                Some("vfs_read"),
                "{prefix}"
            );
        }
        for prefix in ["x", "vx", "vfs_x", "vfs_ready", "vfs_read_iter"] {
            assert_eq!(name(compressed, prefix), None, "{prefix}");
        }
    }
    // Without a type, and with a type only.
    assert_eq!(name(&[], ""), None);
    assert_eq!(name(&[0], ""), None);
    assert_eq!(name(&[1], ""), Some(String::new()));
}

#[test]
fn a_name_that_is_too_long_is_not_expanded() {
    for len in 0..8 {
        assert_eq!(expand(&[2, 4], &texts(), b"", &mut vec![0; len]), None);
    }
    assert_eq!(
        expand(&[2, 4], &texts(), b"", &mut [0; 8]),
        Some(b"vfs_read".as_slice())
    );
}
