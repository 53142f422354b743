// SPDX-License-Identifier: GPL-2.0

//! BTF, and a variable that is looked up in it.
//!
//! The input is the variable, a newline, a byte that says which sort of BTF follows, and that: as it
//! is, or types and strings without their header; with a base, or without. In front of the latter
//! are two bytes: the number of words that are types.
//!
//! The index takes linear work and each look-up bounded work. What the types say is found by its
//! name, and can be fetched.

#![no_main]

use fuzz::{
    builder::Builder,
    keep,
    measure,
    BTF, //
};
use libfuzzer_sys::{
    fuzz_target,
    Corpus, //
};
use probe::{
    btf::{
        field_offset,
        Btf,
        Fields,
        Malformed,
        Sections,
        Type,
        TypeId,
        Value,
        Variable, //
    },
    types::{
        FetchType,
        Space, //
    },
};

/// Of the sort: there is no header.
const BARE: u8 = 1;
/// Of the sort: it continues other BTF.
const SPLIT: u8 = 2;

/// The most steps of one look-up: 4096 members without a name, each behind 32 typedefs.
const MOST: u64 = 4096 * 33 * 40;

/// The most steps of all look-ups: what is left is not asked.
const ENOUGH: u64 = 1_000_000;

fuzz_target!(|input: &[u8]| -> Corpus { keep(run(input)) });

fn run(input: &[u8]) -> Option<()> {
    let end = input.iter().position(|&byte| byte == b'\n')?;
    let text = std::str::from_utf8(&input[..end]).ok()?;
    let (&sort, rest) = input[end + 1..].split_first()?;

    let base = (sort & SPLIT != 0).then(|| &*BTF);
    let bytes = match sort & BARE != 0 {
        true => with_header(rest, base.is_some())?,
        false => rest.to_vec(),
    };
    let mut slots = Vec::new();
    let (btf, steps) = measure(|| index(&bytes, base, &mut slots));
    assert!(steps < 2_000 + 200 * bytes.len() as u64, "{steps} steps");
    if let Ok(btf) = btf {
        Asker { btf, left: ENOUGH }.ask(text);
    }
    Some(())
}

/// BTF with these types and strings.
fn with_header(bytes: &[u8], is_split: bool) -> Option<Vec<u8>> {
    let (words, rest) = bytes.split_first_chunk()?;
    let words = usize::from(u16::from_le_bytes(*words));
    let (types, strings) = rest.split_at_checked(words * 4)?;
    let mut builder = Builder::new();
    builder.types = types
        .chunks_exact(4)
        .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
        .collect();
    // The first string is empty, the last one has an end.
    builder.strings = vec![0; usize::from(!is_split)];
    builder.strings.extend_from_slice(strings);
    builder.strings.push(0);
    Some(builder.bytes())
}

fn index<'a>(
    bytes: &'a [u8],
    base: Option<&'a Btf<'a>>,
    slots: &'a mut Vec<u32>,
) -> Result<Btf<'a>, Malformed> {
    let sections = Sections::parse(bytes, base)?;
    slots.resize(sections.slots()?, 0);
    sections.index(slots)
}

struct Asker<'a> {
    btf: Btf<'a>,
    /// The steps that are left for look-ups.
    left: u64,
}

impl<'a> Asker<'a> {
    /// Asks all that can be asked, of the last types and of one that is not there.
    fn ask(mut self, text: &str) {
        let count = self.btf.type_count();
        let ids = (0..count).rev().take(50).chain([count, u32::MAX]);
        for id in ids.map(TypeId::new) {
            let ty = self.btf.get(id);
            assert_eq!(ty.is_some(), id.get() < count);
            if let Some(ty) = ty {
                self.ask_for_name(ty);
                self.ask_for_members(id, ty);
            }
            if let Some(ty) = self.btf.resolve(id) {
                assert!(!ty.kind().is_modifier());
            }
            if let Ok(variable) = Variable::parse(text) {
                self.ask_for_fields(variable, id);
            }
            self.ask_for_cast(text, id);
            if self.left == 0 {
                return;
            }
        }
    }

    /// One look-up.
    fn look<T>(&mut self, look: impl FnOnce(&Btf<'a>) -> T) -> T {
        let (result, steps) = measure(|| look(&self.btf));
        assert!(steps < MOST, "{steps} steps");
        self.left = self.left.saturating_sub(steps);
        result
    }

    /// A type of this name and kind is found; for a function, it has its parameters.
    fn ask_for_name(&mut self, ty: Type<'a>) {
        let Some(name) = self.btf.name(ty).filter(|name| !name.is_empty()) else {
            return;
        };
        let found = self.look(|btf| btf.find(name, ty.kind())).unwrap();
        let found = self.btf.get(found).unwrap();
        assert_eq!(
            (self.btf.name(found), found.kind()),
            (Some(name), ty.kind())
        );

        let first = self.look(|btf| btf.functions_from(name).next());
        assert!(first.is_none_or(|first| first.starts_with(name)));
        let Some(function) = self.look(|btf| btf.function(name)) else {
            return;
        };
        for function in [function, function.of_tracepoint()] {
            for param in function.params().take(20) {
                let found = function.find(param.name);
                assert_eq!(found.is_some(), !param.name.is_empty());
                assert!(found.is_none_or(|found| found.position <= param.position));
            }
            (function.is_variadic(), function.is_void());
        }
    }

    /// A member is found where there is no structure without a name to look into first.
    fn ask_for_members(&mut self, id: TypeId, ty: Type<'a>) {
        let btf = self.btf;
        let members = btf.members(ty).take(20);
        for member in members.take_while(|member| !member.name.is_empty()) {
            let found = self.look(|btf| btf.find_member(id, member.name));
            assert_eq!(found.unwrap().name, member.name);
        }
    }

    /// What fields lead to can be fetched.
    fn ask_for_fields(&mut self, variable: Variable<'_>, id: TypeId) {
        let fields = variable.fields(&self.btf, id).ok();
        for mut fields in fields
            .into_iter()
            .chain([variable.fields_of(&self.btf, id)])
        {
            if let Some(value) = fields.start() {
                self.check_value(value);
            }
            while let Some(read) = self.look(|_| fields.next()) {
                let Ok(read) = read else {
                    continue;
                };
                assert!((0..1 << 29).contains(&read.offset));
                self.check_value(read.value);
            }
        }
    }

    /// A field of a cast has a place, and is followed from there.
    fn ask_for_cast(&mut self, text: &str, id: TypeId) {
        let Ok(behind) = self.look(|btf| field_offset(btf, id, text)) else {
            return;
        };
        assert!(behind < 1 << 29);
        let fields = Fields::of_structure(self.btf, id, behind, Space::User, text);
        let reads: Vec<_> = self.look(|_| fields.collect());
        let [Ok(read)] = reads[..] else {
            panic!("{text}: {reads:?}");
        };
        // It is where the value points to.
        assert_eq!((read.offset, read.space), (0, Space::User));
    }

    fn check_value(&mut self, value: Value<'a>) {
        if let Some(FetchType::Bitfield(width, _, bits)) = value.fetch_type() {
            assert!(usize::from(bits.right) < width.bytes() * 8);
            assert!(bits.left <= bits.right);
        }
        self.look(|btf| value.string_source(btf));
        self.look(|btf| value.points_to(btf));
    }
}
