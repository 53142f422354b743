// SPDX-License-Identifier: GPL-2.0

//! Any fetch of the grammar, against a model that counts the instructions of C; and any text at all.

use probe::{
    arch::x86_64::register,
    argument::{
        Base,
        Deref,
        Step, //
    },
    command::{
        EventsFile,
        TypeInfo, //
    },
    error::{
        Errno,
        ErrorKind::{
            self,
            *, //
        },
    },
    types::Space, //
};
use proptest::{
    collection::vec,
    prelude::*,
    sample::select, //
};

use super::{
    create_at, events,
    functions::{
        btf,
        types_of, //
    },
};

const STEPS: usize = 16;
const LEVELS: usize = 16;
const BODY: usize = 255;

/// A value at the entry of `sys_open`.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    text: &'static str,
    base: Base<'static>,
    /// The reads of memory: where, and whose.
    reads: &'static [(i32, Space)],
    /// The memory that BTF says it points to.
    points_to: Space,
}

/// Fields after `->`, and the memory that each of them points to.
type Chain = (&'static str, &'static [(i32, Space)]);

/// A structure: its name, its fields with a place, and some ways through it.
type Structure = (
    &'static str,
    &'static [(&'static str, i32)],
    &'static [Chain],
);

#[derive(Clone, Debug)]
enum Fetch {
    Leaf(Leaf),
    Deref(Deref, Box<Fetch>),
    ThisCpu(bool, Box<Fetch>),
    Cast {
        structure: &'static str,
        member: Option<(&'static str, i32)>,
        chain: Chain,
        has_parentheses: bool,
        inner: Box<Fetch>,
    },
}

const fn read(space: Space, offset: i32) -> Step {
    Step::Deref(Deref { space, offset })
}

const K: Space = Space::Kernel;
const U: Space = Space::User;

const STRUCTURES: &[Structure] = &[
    (
        "file",
        &[("f_path", 8), ("f_path.dentry", 16), ("f_void", 32)],
        &[
            ("f_path.mnt", &[(8, K)]),
            ("f_path.dentry->len", &[(16, K), (20, K)]),
            ("f_bits.low", &[(24, K)]),
        ],
    ),
    (
        "dentry",
        &[("len", 20), ("d_iname", 4)],
        &[("len", &[(20, K)]), ("d_iname", &[(4, K)])],
    ),
    (
        "task_struct",
        &[
            ("group_leader", 32),
            ("in_bytes", 5),
            ("se.group_node.next", 48),
        ],
        &[
            ("parent", &[(24, K)]),
            ("parent->parent->pid", &[(24, K), (24, K), (0, K)]),
            ("user_name", &[(56, U)]),
            ("user_file->f_path.mnt", &[(64, U), (8, K)]),
            (
                "user_file->f_path.dentry->len",
                &[(64, U), (16, K), (20, K)],
            ),
        ],
    ),
];

fn leaf() -> impl Strategy<Value = Leaf> {
    let leaf = |text, base, reads, points_to| Leaf {
        text,
        base,
        reads,
        points_to,
    };
    let (name, how, task) = (Base::Argument(0), Base::Argument(1), Base::Argument(2));
    select(vec![
        leaf("%di", Base::Register(register("di").unwrap()), &[], K),
        leaf("$stack2", Base::Stack(2), &[], K),
        leaf("$arg2", how, &[], K),
        leaf("\\7", Base::Immediate(7), &[], K),
        leaf("@16", Base::Immediate(16), &[(0, K)], K),
        leaf("@sym", Base::Symbol("sym"), &[(0, K)], K),
        leaf("@sym+4", Base::Symbol("sym+4"), &[(0, K)], K),
        leaf("$comm", Base::Comm, &[], K),
        leaf("$current", Base::Current, &[], K),
        leaf("$current->parent", Base::Current, &[(24, K)], K),
        leaf("$current->user_file", Base::Current, &[(64, K)], U),
        leaf("name", name, &[], U),
        leaf("how", how, &[], U),
        leaf("how->f_path.dentry", how, &[(16, U)], K),
        leaf("task", task, &[], K),
        leaf("task->parent->pid", task, &[(24, K), (0, K)], K),
    ])
}

fn fetch() -> impl Strategy<Value = Fetch> {
    leaf()
        .prop_map(Fetch::Leaf)
        .prop_recursive(18, 20, 1, |inner| {
            let deref = (select(vec![K, U]), -500..500i32)
                .prop_map(|(space, offset)| Deref { space, offset });
            let structure = select(STRUCTURES).prop_flat_map(|(name, members, chains)| {
                (
                    Just(name),
                    proptest::option::of(select(members)),
                    select(chains),
                )
            });
            prop_oneof![
                (deref, inner.clone()).prop_map(|(deref, inner)| Fetch::Deref(deref, inner.into())),
                (any::<bool>(), inner.clone())
                    .prop_map(|(is_read, inner)| Fetch::ThisCpu(is_read, inner.into())),
                (structure, any::<bool>(), inner).prop_map(
                    |((structure, member, chain), has_parentheses, inner)| Fetch::Cast {
                        structure,
                        member,
                        chain,
                        has_parentheses,
                        inner: inner.into(),
                    }
                ),
            ]
        })
}

/// The steps so far.
struct State {
    base: Base<'static>,
    steps: Vec<Step>,
    points_to: Space,
}

impl State {
    fn push(&mut self, step: Step) -> Result<(), ErrorKind> {
        self.steps.push(step);
        if self.steps.len() > STEPS {
            return Err(TooManyOps);
        }
        Ok(())
    }
}

impl Fetch {
    fn text(&self) -> String {
        match self {
            Fetch::Leaf(leaf) => leaf.text.into(),
            Fetch::Deref(Deref { space, offset }, inner) => {
                let sign = if *offset < 0 { '-' } else { '+' };
                let space = if *space == U { "u" } else { "" };
                format!("{sign}{space}{}({})", offset.abs(), inner.text())
            }
            Fetch::ThisCpu(true, inner) => format!("this_cpu_read({})", inner.text()),
            Fetch::ThisCpu(false, inner) => format!("this_cpu_ptr({})", inner.text()),
            Fetch::Cast {
                structure,
                member,
                chain,
                has_parentheses,
                inner,
            } => {
                let member = member.map_or(String::new(), |(name, _)| format!(",{name}"));
                let must = match &**inner {
                    Fetch::Leaf(leaf) => leaf.text.contains(['-', '+']),
                    Fetch::Deref(..) | Fetch::ThisCpu(..) => false,
                    Fetch::Cast { .. } => true,
                };
                let value = match *has_parentheses || must {
                    true => format!("({})", inner.text()),
                    false => inner.text(),
                };
                format!("({structure}{member}){value}->{}", chain.0)
            }
        }
    }

    fn levels(&self) -> usize {
        match self {
            Fetch::Leaf(_) => 0,
            Fetch::Deref(_, inner) | Fetch::ThisCpu(_, inner) | Fetch::Cast { inner, .. } => {
                1 + inner.levels()
            }
        }
    }

    /// The levels from the inside.
    fn state(&self) -> Result<State, ErrorKind> {
        let no_string = |state: &State| match state.base {
            Base::Comm if state.steps.is_empty() => Err(CommCantDeref),
            _ => Ok(()),
        };
        match self {
            Fetch::Leaf(leaf) => Ok(State {
                base: leaf.base,
                steps: leaf
                    .reads
                    .iter()
                    .map(|(at, space)| read(*space, *at))
                    .collect(),
                points_to: leaf.points_to,
            }),
            Fetch::Deref(deref, inner) => {
                let mut state = inner.state()?;
                no_string(&state)?;
                state.push(Step::Deref(*deref))?;
                state.points_to = K;
                Ok(state)
            }
            Fetch::ThisCpu(is_read, inner) => {
                let mut state = inner.state()?;
                no_string(&state)?;
                if inner.text().starts_with('@') {
                    state.steps.clear();
                }
                state.push(Step::ThisCpu)?;
                if *is_read {
                    state.push(read(K, 0))?;
                }
                state.points_to = K;
                Ok(state)
            }
            Fetch::Cast {
                member,
                chain,
                inner,
                ..
            } => {
                let mut state = inner.state()?;
                let mut behind = member.map_or(0, |(_, offset)| offset);
                for (offset, points_to) in chain.1 {
                    state.push(read(state.points_to, offset - behind))?;
                    state.points_to = *points_to;
                    behind = 0;
                }
                Ok(state)
            }
        }
    }

    /// The base and the steps of the fetch with a type, or what is wrong.
    fn expected(&self, ty: Type) -> Result<(Base<'static>, Vec<Step>), (ErrorKind, Errno)> {
        let invalid = |kind| (kind, Errno::EINVAL);
        if self.text().len() + ty.text().len() > BODY {
            return Err((ArgTooLong, Errno::E2BIG));
        }
        if self.text() == "$comm" {
            return Err(invalid(NeedStringType));
        }
        if self.levels() > LEVELS {
            return Err((TooManyNested, Errno::E2BIG));
        }
        let state = self.state().map_err(invalid)?;
        let reads = match state.steps.last() {
            Some(Step::Deref(deref)) => Some(deref.space),
            Some(Step::ThisCpu) | None => None,
        };
        if matches!(ty, Type::Array) && reads != Some(K) {
            return Err(invalid(BadString));
        }
        Ok((state.base, state.steps))
    }
}

#[derive(Clone, Copy, Debug)]
enum Type {
    Number,
    Bits,
    Array,
}

impl Type {
    fn text(self) -> &'static str {
        match self {
            Type::Number => ":x64",
            Type::Bits => ":b3@2/16",
            Type::Array => ":u8[3]",
        }
    }
}

/// The commands that an argument can be of, and what is known there.
fn probes() -> impl Strategy<Value = (&'static str, TypeInfo<'static>)> {
    let TypeInfo::Function(function) = types_of("vfs_read") else {
        panic!();
    };
    select(vec![
        ("p vfs_read", types_of("vfs_read")),
        ("p sys_open", types_of("sys_open")),
        ("p vfs_read+4", TypeInfo::Unknown(*btf())),
        ("r vfs_read", types_of("vfs_read")),
        ("r nothing", types_of("nothing")),
        ("r vfs_read", TypeInfo::Unknown(*btf())),
        ("p vfs_read%retinsn", types_of("vfs_read")),
        ("f sys_open", types_of("sys_open")),
        ("f vfs_read%return", TypeInfo::Unsupported),
        ("t vfs_read", TypeInfo::Function(function.of_tracepoint())),
        ("e a/b", events::types()),
    ])
}

/// Parts of arguments, good and bad.
fn parts() -> impl Strategy<Value = String> {
    let part = select(vec![
        "(",
        ")",
        "->",
        "-",
        ">",
        ".",
        ",",
        ":",
        "=",
        "[",
        "]",
        "/",
        "$",
        "%",
        "@",
        "\\",
        "\"",
        "é",
        "+8(",
        "-u4(",
        "+0x10(",
        "this_cpu_ptr(",
        "this_cpu_read(",
        "(file)",
        "(file,f_path)",
        "(dentry)(",
        "(task_struct,",
        "$current",
        "$current->",
        "$retval",
        "$arg1",
        "$arg*",
        "$comm",
        "$stack3",
        "$elapsed",
        "$caller",
        "$exit",
        "%di",
        "@sym",
        "@sym+8",
        "@16",
        "\\7",
        "\\\"x\"",
        "file",
        "buf",
        "how",
        "name",
        "filename",
        "f_path",
        "f_bits.low",
        "dentry",
        "parent",
        "pid",
        "in_execve",
        ":u8",
        ":string",
        ":ustring",
        ":symstr",
        ":b3@2/16",
        "[2]",
        ":%pd",
        ":%pD",
        "x=",
        "0",
        "9",
        " ",
    ]);
    vec(part, 0..14).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_fetch_is_parsed_as_by_the_model(
        fetch in fetch(),
        ty in select(vec![Type::Number, Type::Bits, Type::Array]),
    ) {
        let text = fetch.text();
        let line = format!("p sys_open a={text}{}", ty.text());
        let found = create_at(EventsFile::KprobeEvents, &line, types_of("sys_open"))
            .map(|whole| {
                let fetch = &whole.arguments[0].fetch;
                (format!("{:?}", fetch.base), fetch.steps.as_slice().to_vec())
            })
            .map_err(|error| (error.kind, error.errno));
        let expected = fetch.expected(ty).map(|(base, steps)| (format!("{base:?}"), steps));
        prop_assert_eq!(found, expected, "{}", line);
    }

    #[test]
    fn any_parts_are_read_and_what_is_listed_is_the_same((probe, types) in probes(), text in parts()) {
        let line = format!("{probe} {text}");
        match create_at(EventsFile::DynamicEvents, &line, types) {
            Err(error) => {
                let column = error.at.column(&line);
                prop_assert!(column <= line.len() + 1, "{line}: {error:?}");
                let entry = error.entry(&line).to_string();
                prop_assert_eq!(entry.lines().count(), 3);
                // The same is wrong in the line with one space between two words.
                let words: Vec<_> = line.split_whitespace().collect();
                // An error is within a word, or after the last one.
                let len = words.get(error.at.word).map_or(0, |word| word.len());
                prop_assert!(error.at.word <= words.len(), "{line}: {error:?}");
                prop_assert!(error.at.offset <= len, "{line}: {error:?}");
                let words = words.join(" ");
                let again = create_at(EventsFile::DynamicEvents, &words, types).unwrap_err();
                prop_assert_eq!(again, error);
            }
            Ok(whole) => {
                let listing = whole.listing();
                let again = create_at(EventsFile::DynamicEvents, &listing, types);
                prop_assert!(again.is_ok(), "{line}: {listing}: {again:?}");
                let again = again.unwrap();
                prop_assert_eq!(again.listing(), listing.clone());
                // The text is rendered from the value, and means the same value.
                let (value, again_value) = (whole.spec(), again.spec());
                prop_assert_eq!(&again_value, &value);
                prop_assert_eq!(value.target(), again.command.target);
                let written: Vec<_> = value.command().arguments().collect();
                prop_assert_eq!(&written, &again.written);
                for (a, b) in again.arguments.iter().zip(&whole.arguments) {
                    prop_assert_eq!((&a.fetch, a.ty, a.count), (&b.fetch, b.ty, b.count));
                }
                prop_assert_eq!(again.arguments.len(), whole.arguments.len());
            }
        }
    }
}
