// SPDX-License-Identifier: GPL-2.0

//! Conditions, from their text to their result on a hit.

use std::convert::Infallible;

use probe::{
    arch::current,
    argument::Argument,
    command::{
        parse,
        Condition,
        Line,
        ParseContext,
        ProbePoint,
        TypeInfo, //
    },
    condition::{
        Branches,
        Check,
        Comparison,
        Keys,
        OneSpaced,
        Range,
        StringCheck, //
    },
    fetch::{
        buffer_for,
        compile_test,
        decides,
        holds,
        save_entry_data,
        MatchString,
        Test,
        SMALL_BUFFER, //
    },
    types::{
        FetchType,
        Space,
        Style, //
    },
};
use proptest::{
    collection::vec,
    prelude::*,
    sample::select, //
};

use crate::{
    machine::*,
    model, //
};

/// A string that an operand is compared with.
#[derive(Clone, Debug, PartialEq)]
enum Pattern {
    Equal(String),
    Glob(String),
}

impl Pattern {
    fn new(check: StringCheck<'_>) -> Self {
        match check {
            StringCheck::Equal(text) => Self::Equal(text.to_string()),
            StringCheck::Glob(text) => Self::Glob(text.to_string()),
        }
    }

    fn is_match(&self, text: &[u8]) -> bool {
        match self {
            Self::Equal(string) => string.as_bytes() == text,
            Self::Glob(pattern) => glob(pattern.as_bytes(), text),
        }
    }
}

/// Whether `text` matches a pattern of `*`, `?` and other bytes.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|start| glob(rest, &text[start..])),
        ([first, pattern @ ..], [byte, text @ ..]) => {
            (*first == b'?' || first == byte) && glob(pattern, text)
        }
        _ => false,
    }
}

impl MatchString for Pattern {
    fn matches(&self, text: &[u8]) -> bool {
        let (nul, text) = text.split_last().unwrap();
        assert_eq!(*nul, 0);
        assert!(!text.contains(&0));
        self.is_match(text)
    }
}

/// The tests of a condition.
struct Tests {
    at_return: Vec<Test<Pattern>>,
    /// For the entry of a call.
    at_entry: Vec<Test<Pattern>>,
    symbols: Symbols,
    /// The buffer that both need, in bytes.
    buffer: usize,
}

impl Tests {
    fn new(point: ProbePoint, line: &str) -> Self {
        let Ok(Line::Create(command)) = parse(line) else {
            panic!("{line}");
        };
        let context = ParseContext {
            point,
            types: TypeInfo::Unsupported,
            modules: &[],
        };
        let condition: Condition<'_> = command.condition().expect(line).expect(line);
        let operands: Vec<_> = condition.operands().collect();
        let comparisons: Vec<Comparison<'_>> = command
            .resolve_condition(&condition, &operands, &[], context, current::register)
            .map(|comparison| comparison.expect(line))
            .collect();
        let mut symbols = Symbols::default();
        let at_return = comparisons
            .iter()
            .map(|comparison| {
                let string = |check| Ok(Pattern::new(check));
                let operand = Some(&comparison.operand);
                let Ok(test) = compile_test(comparison, operand, &mut symbols, string);
                test
            })
            .collect();
        let at_entry = comparisons
            .iter()
            .map(|comparison| {
                let string = |check| Ok::<_, Infallible>(Pattern::new(check));
                let operand = comparison.operand_at_entry();
                let mut none = Symbols::default();
                let Ok(test) = compile_test(comparison, operand.as_ref(), &mut none, string);
                assert!(none.entry_arguments.is_empty());
                test
            })
            .collect();
        let buffers = comparisons
            .iter()
            .map(|comparison| buffer_for(&comparison.operand).unwrap_or(300));
        Self {
            at_return,
            at_entry,
            symbols,
            buffer: buffers.max().unwrap(),
        }
    }

    /// Whether a hit fulfils the condition.
    fn hold(&self, machine: &Machine) -> bool {
        if let Some(entry) = &machine.entry {
            let mut words = vec![0; self.symbols.entry_arguments.len()];
            save_entry_data(&self.symbols.entry_arguments, &**entry, &mut words);
            machine.entry_data.replace(words);
        }
        holds(&self.at_return, machine, &mut vec![UNTOUCHED; self.buffer])
    }

    /// Whether the condition can be fulfilled at the return of the call.
    fn can_hold(&self, entry: &Machine) -> bool {
        holds(&self.at_entry, entry, &mut vec![UNTOUCHED; self.buffer])
    }
}

/// Whether a hit of a probe at an entry fulfils the condition.
fn is_fulfilled(machine: &Machine, condition: &str) -> bool {
    Tests::new(ProbePoint::Entry, &format!("p vfs_read if {condition}")).hold(machine)
}

#[test]
fn unreadable_memory_is_zero_or_an_empty_string() {
    let mut machine = Machine::new();
    machine.set("di", 0x1_0000).comm = 0x1_0000;
    for (condition, expected) in [
        ("+0(%di):u8 == 0", true),
        ("+0(%di):s64 != 0", false),
        ("+0(+8(%di)):u32 < 1", true),
        ("+0(%di):b3@1/8 == 0", true),
        ("+0(%di):u8 & 0xff", false),
        ("+0(%di):string == \"\"", true),
        ("+0(%di):string != \"\"", false),
        ("+0(%di):string == a", false),
        ("+0(%di):string != a", true),
        ("+0(+0(%di)):ustring ~ *", true),
        ("+0(%di):string ~ ?*", false),
        ("$comm == \"\"", true),
        ("!(+0(%di):string ~ ?*) && +0(%di):u8 <= 0", true),
    ] {
        assert_eq!(is_fulfilled(&machine, condition), expected, "{condition}");
    }
}

#[test]
fn strings_are_compared_as_a_whole() {
    let mut machine = Machine::new();
    machine
        .set("di", 0x1_0000)
        .set("si", 0x2_0000)
        .set("ip", 0x1234)
        .poke(Space::Kernel, 0x1_0000, b"post gres\0")
        .poke(Space::User, 0x2_0000, b"/etc/passwd\0");
    machine.comm = 0x1_0100;
    machine.poke(Space::Kernel, 0x1_0100, b"fifteen-letters\0");
    for (condition, expected) in [
        ("+0(%di):string == 'post gres'", true),
        ("+0(%di):string == 'post   gres'", true),
        ("+0(%di):string == post", false),
        ("+0(%di):string == 'post gress'", false),
        ("+0(%di):string ~ post*", true),
        ("+0(%di):string ~ *gres", true),
        ("+0(%di):string ~ post", false),
        ("+5(%di):string == gres", true),
        ("+9(%di):string == ''", true),
        ("+u0(%si):string ~ '*/passwd'", true),
        ("+0(%si):ustring == /etc/passwd", true),
        ("+0(%si):string == ''", true),
        ("%ip:symstr == sym+0x1234/0xffff", true),
        ("%ip:symstr ~ sym+*", true),
        ("$comm == fifteen-letters", true),
        ("$comm ~ fifteen-letters?", false),
        // The buffer is used again.
        (
            "$comm ~ fif* && +0(%di):string ~ post* && $comm ~ *rs",
            true,
        ),
    ] {
        assert_eq!(is_fulfilled(&machine, condition), expected, "{condition}");
    }
}

#[test]
fn the_number_of_the_task_needs_no_types() {
    let mut machine = Machine::new();
    machine.set("di", 1).pid = 4711;
    for (condition, expected) in [
        ("common_pid == 4711", true),
        ("common_pid != 4711", false),
        ("common_pid > 4710 && common_pid < 0x1268", true),
        ("common_pid < 0", false),
        ("common_pid & 1", true),
        ("%di == 2 || common_pid == 4711", true),
    ] {
        assert_eq!(is_fulfilled(&machine, condition), expected, "{condition}");
    }
}

#[test]
fn a_long_string_ends_with_the_buffer() {
    let mut machine = Machine::new();
    machine
        .set("di", 0x1_0000)
        .poke(Space::Kernel, 0x1_0000, &[b'a'; 500]);
    assert!(is_fulfilled(&machine, "+0(%di):string ~ aaa*"));
    assert!(!is_fulfilled(&machine, "+0(%di):string == a"));
}

#[test]
fn the_name_of_a_task_fits_into_a_small_buffer() {
    let mut machine = Machine::new();
    // The next page is not readable.
    machine.comm = 0x1_0000 + PAGE - 16;
    machine.poke(Space::Kernel, machine.comm, b"fifteen-letters\0");
    let tests = Tests::new(ProbePoint::Entry, "p vfs_read if $comm == fifteen-letters");
    assert_eq!(tests.buffer, SMALL_BUFFER);
    assert!(tests.hold(&machine));
    for (operand, size) in [
        ("%di == 1", 0),
        ("+0(%di):u8 == 1", 0),
        ("$comm == a", SMALL_BUFFER),
        ("$comm:string ~ a || %di == 1", SMALL_BUFFER),
        ("%di:symstr == a", 300),
        ("+0($current):string == a", 300),
        ("+0(%di):string == a && $comm == a", 300),
        ("\\\"abc\" == a", 300),
    ] {
        let tests = Tests::new(ProbePoint::Entry, &format!("p vfs_read if {operand}"));
        assert_eq!(tests.buffer, size, "{operand}");
    }
}

#[test]
fn a_buffer_that_is_too_small_gives_an_empty_string() {
    let mut machine = Machine::new();
    machine.comm = 0x1_0000;
    machine.poke(Space::Kernel, machine.comm, b"cat\0");
    let tests = Tests::new(ProbePoint::Entry, "p vfs_read if $comm == ''");
    for bytes in 0..5 {
        assert!(holds(
            &tests.at_return,
            &machine,
            &mut vec![UNTOUCHED; bytes]
        ));
    }
    assert!(!holds(&tests.at_return, &machine, &mut [UNTOUCHED; 6]));
}

#[test]
fn tests_at_the_entry_decide_if_they_can_exclude_a_call() {
    for (condition, expected) in [
        ("$retval == 1", false),
        ("$retval == 1 && %di == 2 || $elapsed > 5", false),
        ("!($retval == 1)", false),
        ("$arg1 == 1", true),
        ("$comm != a", true),
        ("common_pid != 7", true),
        ("$arg1 == 1 && $retval == 1", true),
        ("$retval == 1 && $arg1 == 1", true),
        ("$retval == 1 || $arg1 == 1", false),
        ("$arg1 == 1 || $retval == 1", false),
        ("!($arg1 == 1 && $retval == 1)", false),
        ("!($arg1 == 1 || $retval == 1)", true),
        ("($arg1 == 1 || $retval == 1) && $arg2 == 1", true),
        (
            "($arg1 == 1 || $retval == 1) && ($comm == a || $elapsed > 1)",
            false,
        ),
        ("$retval == 1 && (%di == 1 || $comm == a)", false),
        ("$retval == 1 && ($arg1 == 1 || $comm == a)", true),
        (
            "($retval == 1 || $arg1 == 1) && ($arg1 == 2 || $comm == a)",
            true,
        ),
    ] {
        let tests = Tests::new(ProbePoint::Return, &format!("r vfs_read if {condition}"));
        assert_eq!(decides(&tests.at_entry), expected, "{condition}");
        // At the return, all operands are known.
        assert!(decides(&tests.at_return), "{condition}");
    }
}

/// The type of a number, for the model.
#[derive(Clone, Copy, Debug)]
struct Ty {
    name: &'static str,
    /// Bits before the number, and the bits of the number.
    first: u32,
    bits: u32,
    is_signed: bool,
}

impl Ty {
    fn new(name: &'static str, first: u32, bits: u32, is_signed: bool) -> Self {
        Self {
            name,
            first,
            bits,
            is_signed,
        }
    }

    /// The number that these bits are.
    fn of(self, raw: u64) -> i128 {
        let number = i128::from(raw >> self.first) & self.mask();
        match self.is_signed && number >= 1 << (self.bits - 1) {
            true => number - (1 << self.bits),
            false => number,
        }
    }

    fn mask(self) -> i128 {
        (1 << self.bits) - 1
    }

    fn min(self) -> i128 {
        match self.is_signed {
            true => -(1 << (self.bits - 1)),
            false => 0,
        }
    }

    fn max(self) -> i128 {
        self.min() + self.mask()
    }
}

/// The source of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Retval,
    Arg1,
    Arg2,
    Register,
    Memory,
    Current,
}

/// A comparison.
#[derive(Clone, Debug)]
enum Leaf {
    Number(Source, Ty, &'static str, i128),
    /// Whether the string is `$comm`, and whether the comparison is negated.
    String(bool, bool, Pattern),
}

#[derive(Clone, Debug)]
enum Tree {
    Leaf(Leaf),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
}

/// The state of the machine at a return.
#[derive(Clone, Debug)]
struct State {
    retval: u64,
    register: u64,
    args: [u64; 2],
    current: u64,
    memory: Option<u64>,
    comm: String,
    string: Option<String>,
}

const MEMORY: u64 = 0x1_0000;
const STRING: u64 = 0x2_0000;
const COMM: u64 = 0x3_0000;

impl State {
    fn machine(&self) -> Machine {
        let mut entry = Machine::new();
        let text = |text: &str| [text.as_bytes(), b"\0"].concat();
        entry.comm = COMM;
        entry.current = self.current;
        entry
            .poke(Space::Kernel, COMM, &text(&self.comm))
            .set("di", self.args[0])
            .set("si", self.args[1])
            .set("dx", !self.register)
            .set("ax", !self.retval);
        let mut machine = Machine::new();
        machine.comm = COMM;
        machine.current = self.current;
        machine
            .poke(Space::Kernel, COMM, &text(&self.comm))
            .set("di", !self.args[0])
            .set("si", !self.args[1])
            .set("dx", self.register)
            .set("ax", self.retval)
            .set("r8", MEMORY)
            .set("r9", STRING);
        if let Some(word) = self.memory {
            machine.poke_word(Space::Kernel, MEMORY, word);
        }
        if let Some(string) = &self.string {
            machine.poke(Space::Kernel, STRING, &text(string));
        }
        machine.entry = Some(Box::new(entry));
        machine
    }

    fn number(&self, source: Source) -> u64 {
        match source {
            Source::Retval => self.retval,
            Source::Arg1 => self.args[0],
            Source::Arg2 => self.args[1],
            Source::Register => self.register,
            Source::Memory => self.memory.unwrap_or(0),
            Source::Current => self.current,
        }
    }
}

impl Leaf {
    fn holds(&self, state: &State) -> bool {
        match self {
            Self::Number(source, ty, operator, value) => {
                let number = ty.of(state.number(*source));
                match *operator {
                    "==" => number == *value,
                    "!=" => number != *value,
                    "<" => number < *value,
                    "<=" => number <= *value,
                    ">" => number > *value,
                    ">=" => number >= *value,
                    _ => number & value & ty.mask() != 0,
                }
            }
            Self::String(is_comm, is_negated, pattern) => {
                let text = match is_comm {
                    true => &state.comm,
                    false => state.string.as_deref().unwrap_or(""),
                };
                pattern.is_match(text.as_bytes()) != *is_negated
            }
        }
    }

    /// Whether the operand is the same at the entry of a call.
    fn is_known(&self) -> bool {
        match self {
            Self::Number(source, ..) => {
                matches!(source, Source::Arg1 | Source::Arg2 | Source::Current)
            }
            Self::String(is_comm, ..) => *is_comm,
        }
    }

    fn text(&self, choices: &mut impl FnMut() -> u8) -> String {
        let (operand, operator, value) = match self {
            Self::Number(source, ty, operator, value) => {
                let operand = match source {
                    Source::Retval => "$retval",
                    Source::Arg1 => "$arg1",
                    Source::Arg2 => "$arg2",
                    Source::Register => "%dx",
                    Source::Memory => "+0(%r8)",
                    Source::Current => "$current",
                };
                let value = match choices() % 3 {
                    0 if *value >= 0 => format!("{value:#x}"),
                    _ => value.to_string(),
                };
                (format!("{operand}:{}", ty.name), *operator, value)
            }
            Self::String(is_comm, is_negated, pattern) => {
                let operand = match is_comm {
                    true => "$comm",
                    false => "+0(%r9):string",
                };
                let (operator, value) = match (pattern, is_negated) {
                    (Pattern::Equal(value), false) => ("==", value),
                    (Pattern::Equal(value), true) => ("!=", value),
                    (Pattern::Glob(value), _) => ("~", value),
                };
                let value = match choices() % 3 {
                    0 if !value.is_empty() && !value.contains(' ') => value.clone(),
                    1 => format!("'{value}'"),
                    _ => format!("\"{value}\""),
                };
                (operand.to_string(), operator, value)
            }
        };
        let spaces = [space(choices), space(choices)];
        format!("{operand}{}{operator}{}{value}", spaces[0], spaces[1])
    }
}

fn space(choices: &mut impl FnMut() -> u8) -> &'static str {
    ["", " ", "  "][usize::from(choices() % 3)]
}

impl Tree {
    fn holds(&self, state: &State) -> bool {
        match self {
            Self::Leaf(leaf) => leaf.holds(state),
            Self::Not(tree) => !tree.holds(state),
            Self::And(left, right) => left.holds(state) && right.holds(state),
            Self::Or(left, right) => left.holds(state) || right.holds(state),
        }
    }

    /// Whether the tree can have the result `result`, if the operands that are not known at the
    /// entry can have any value, each one apart.
    fn can(&self, result: bool, state: &State) -> bool {
        match self {
            Self::Leaf(leaf) => !leaf.is_known() || leaf.holds(state) == result,
            Self::Not(tree) => tree.can(!result, state),
            Self::And(left, right) if result => left.can(result, state) && right.can(result, state),
            Self::Or(left, right) if !result => left.can(result, state) && right.can(result, state),
            Self::And(left, right) | Self::Or(left, right) => {
                left.can(result, state) || right.can(result, state)
            }
        }
    }

    /// Whether the results of the known operands can exclude this result of the tree.
    fn can_exclude(&self, result: bool) -> bool {
        match self {
            Self::Leaf(leaf) => leaf.is_known(),
            Self::Not(tree) => tree.can_exclude(!result),
            Self::And(left, right) if result => {
                left.can_exclude(result) || right.can_exclude(result)
            }
            Self::Or(left, right) if !result => {
                left.can_exclude(result) || right.can_exclude(result)
            }
            Self::And(left, right) | Self::Or(left, right) => {
                left.can_exclude(result) && right.can_exclude(result)
            }
        }
    }

    /// The text, with parentheses where they are necessary, and some others. `binds` is the
    /// operator outside: 0 for none or `||`, 1 for `&&`, 2 for `!`.
    fn text(&self, binds: u8, choices: &mut impl FnMut() -> u8) -> String {
        let own = match self {
            Self::Leaf(_) => 3,
            Self::Not(_) => 2,
            Self::And(..) => 1,
            Self::Or(..) => 0,
        };
        let in_parentheses = own < binds || choices() % 5 == 0;
        let mut part = |tree: &Tree| tree.text(own.min(2), choices);
        let text = match self {
            Self::Leaf(leaf) => leaf.text(choices),
            Self::Not(tree) => {
                let text = part(tree);
                format!("!{}{text}", space(choices))
            }
            Self::And(left, right) | Self::Or(left, right) => {
                let (left, right) = (part(left), part(right));
                let operator = if own == 1 { "&&" } else { "||" };
                format!(
                    "{left}{}{operator}{}{right}",
                    space(choices),
                    space(choices)
                )
            }
        };
        match in_parentheses {
            true => format!("({}{text}{})", space(choices), space(choices)),
            false => text,
        }
    }
}

fn raw() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0..4u64,
        1 => (0..3u64).prop_map(|n| u64::MAX - n),
        1 => select(vec![0x7f, 0x80, 0xff, 0x7fff_ffff, 0x8000_0000, 1 << 63, u64::MAX >> 1]),
        1 => any::<u64>(),
    ]
}

fn number() -> impl Strategy<Value = Leaf> {
    let source = select(vec![
        Source::Retval,
        Source::Retval,
        Source::Arg1,
        Source::Arg1,
        Source::Arg2,
        Source::Register,
        Source::Memory,
        Source::Current,
    ]);
    let ty = select(vec![
        Ty::new("u8", 0, 8, false),
        Ty::new("s8", 0, 8, true),
        Ty::new("u16", 0, 16, false),
        Ty::new("s16", 0, 16, true),
        Ty::new("x32", 0, 32, false),
        Ty::new("s32", 0, 32, true),
        Ty::new("u64", 0, 64, false),
        Ty::new("s64", 0, 64, true),
        Ty::new("char", 0, 8, false),
        Ty::new("symbol", 0, 64, false),
        Ty::new("b3@5/16", 5, 3, false),
        Ty::new("b2@0/8", 0, 2, false),
    ]);
    let operator = select(vec!["==", "!=", "<", "<=", ">", ">=", "&"]);
    (source, ty, operator, raw()).prop_map(|(source, ty, operator, value)| {
        let unsigned = Ty {
            is_signed: false,
            ..ty
        };
        let value = match operator {
            "&" => unsigned.of(value << ty.first),
            _ => ty.of(value << ty.first),
        };
        // No comparison that is never true.
        let operator = match operator {
            "<" if value == ty.min() => "<=",
            ">" if value == ty.max() => ">=",
            "&" if value == 0 => "==",
            operator => operator,
        };
        Leaf::Number(source, ty, operator, value)
    })
}

fn string() -> impl Strategy<Value = Leaf> {
    let pattern = prop_oneof![
        "[ab]{0,2}( [ab])?".prop_map(Pattern::Equal),
        "[ab?*]{0,3}( [b*])?".prop_map(Pattern::Glob),
    ];
    (any::<bool>(), any::<bool>(), pattern).prop_map(|(is_comm, is_negated, pattern)| {
        let is_negated = is_negated && matches!(pattern, Pattern::Equal(_));
        Leaf::String(is_comm, is_negated, pattern)
    })
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![3 => number(), 1 => string()].prop_map(Tree::Leaf);
    leaf.prop_recursive(5, 24, 2, |tree| {
        prop_oneof![
            1 => tree.clone().prop_map(|tree| Tree::Not(tree.into())),
            2 => (tree.clone(), tree.clone())
                .prop_map(|(left, right)| Tree::And(left.into(), right.into())),
            2 => (tree.clone(), tree)
                .prop_map(|(left, right)| Tree::Or(left.into(), right.into())),
        ]
    })
}

prop_compose! {
    fn state()(
        retval in raw(),
        register in raw(),
        args in [raw(), raw()],
        current in raw(),
        memory in prop::option::of(raw()),
        comm in "[ab]{0,2}( [ab])?",
        string in prop::option::of("[ab]{0,2}( [ab])?"),
    ) -> State {
        State { retval, register, args, current, memory, comm, string }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_condition_decides_as_its_tree(
        tree in tree(),
        states in vec(state(), 1..6),
        choices in vec(any::<u8>(), 1..60),
    ) {
        let mut choices = choices.iter().cycle().copied();
        let text = tree.text(0, &mut || choices.next().unwrap());
        let tests = Tests::new(ProbePoint::Return, &format!("r vfs_read if {text}"));
        prop_assert_eq!(decides(&tests.at_entry), tree.can_exclude(true), "{}", text);
        for state in &states {
            let machine = state.machine();
            let result = tests.hold(&machine);
            prop_assert_eq!(result, tree.holds(state), "{}", text);

            let can_hold = tests.can_hold(machine.entry.as_ref().unwrap());
            prop_assert_eq!(can_hold, tree.can(true, state), "{}", text);
            prop_assert!(can_hold || !result, "{}", text);
            prop_assert!(can_hold || decides(&tests.at_entry), "{}", text);
        }
    }
    #[test]
    fn any_operand_has_the_value_of_its_record(
        machine in model::machine(),
        operand in model::argument(),
        bytes in prop_oneof![Just(SMALL_BUFFER), 9..300usize],
    ) {
        let operand = Argument { count: None, ..operand };
        let record = machine.record_in(std::slice::from_ref(&operand), bytes - operand.ty.size());
        let decide = |check| {
            let comparison = Comparison {
                operand: operand.clone(),
                check,
                branches: Branches::default(),
            };
            let mut symbols = Symbols::default();
            let string = |check| Ok(Pattern::new(check));
            let Ok(test) = compile_test(&comparison, Some(&operand), &mut symbols, string);
            holds(&[test], &machine, &mut vec![UNTOUCHED; bytes])
        };
        let (width, is_signed) = match operand.ty {
            FetchType::Number(width, style) => (width, style == Style::Signed),
            FetchType::Bitfield(width, ..) => (width, false),
            FetchType::String(_) | FetchType::Symstr => {
                let text = record.string(0, 0).map_or(&b""[..], |text| &text[..text.len() - 1]);
                if let Ok(text) = std::str::from_utf8(text) {
                    let equal = |text| decide(Check::String(StringCheck::Equal(OneSpaced(text))));
                    let is_shown = text == OneSpaced(text).to_string();
                    prop_assert_eq!(equal(text), is_shown);
                    let longer = format!("{text}x");
                    prop_assert!(!equal(&longer));
                }
                return Ok(());
            }
        };
        let number = record.number(0, 0);
        let range = |number| {
            let keys = Keys::new(width, is_signed);
            let key = keys.of(number);
            decide(Check::Range(Range::new(keys, key, key)))
        };
        prop_assert!(range(number));
        prop_assert!(!range(number ^ 1));
        prop_assert_eq!(decide(Check::Bits(number)), number != 0);
        prop_assert!(!decide(Check::Bits(!number & (u64::MAX >> (64 - width.bytes() * 8)))));
    }
}
