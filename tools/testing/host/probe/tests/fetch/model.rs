// SPDX-License-Identifier: GPL-2.0

//! Any arguments on any machine, against a model that does the same one byte at a time.

use std::num::NonZeroU8;

use probe::{
    argument::*,
    types::*, //
};
use proptest::{
    collection::vec,
    prelude::*, //
};

use crate::machine::*;

/// A value that memory is likely to be at, in three pages with one missing after each.
fn address() -> impl Strategy<Value = u64> {
    (0..3u64, prop_oneof![0..PAGE, PAGE - 80..PAGE])
        .prop_map(|(page, offset)| 0x1_0000 + page * 2 * PAGE + offset)
}

fn space() -> impl Strategy<Value = Space> {
    prop_oneof![4 => Just(Space::Kernel), 1 => Just(Space::User)]
}

fn width() -> impl Strategy<Value = Width> {
    use Width::*;
    prop_oneof![Just(W1), Just(W2), Just(W4), Just(W8)]
}

fn style() -> impl Strategy<Value = Style> {
    use Style::*;
    prop_oneof![
        Just(Unsigned),
        Just(Signed),
        Just(Hex),
        Just(Char),
        Just(Symbol)
    ]
}

fn bitfield() -> impl Strategy<Value = FetchType> {
    (width(), any::<u8>(), any::<u8>()).prop_map(|(number, first, second)| {
        let size = number.bytes() as u8 * 8;
        let width = first % size + 1;
        bits(width, second % (size - width + 1), number)
    })
}

fn ty() -> impl Strategy<Value = FetchType> {
    prop_oneof![
        2 => (width(), style()).prop_map(|(width, style)| FetchType::Number(width, style)),
        1 => bitfield(),
        3 => space().prop_map(FetchType::String),
        1 => Just(FetchType::Symstr),
    ]
}

fn record_value() -> impl Strategy<Value = RecordValue> {
    prop_oneof![
        width().prop_map(RecordValue::Number),
        width().prop_map(RecordValue::Signed),
        Just(RecordValue::Address),
        Just(RecordValue::Text),
        Just(RecordValue::DataLoc),
        Just(RecordValue::RelLoc),
    ]
}

/// The value of a field of an event.
fn event_field(event: &[u8], RecordField { offset, value }: RecordField) -> u64 {
    let start = usize::from(offset);
    let bytes = |len| event.get(start..start + len);
    let number = |width: Width| match width {
        Width::W1 => bytes(1).map_or(0, |b| b[0].into()),
        Width::W2 => bytes(2).map_or(0, |b| u16::from_le_bytes(b.try_into().unwrap()).into()),
        Width::W4 => bytes(4).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap()).into()),
        Width::W8 => bytes(8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap())),
    };
    let event_at = event.as_ptr().addr() as u64;
    match value {
        RecordValue::Number(width) => number(width),
        RecordValue::Signed(Width::W1) => number(Width::W1) as i8 as u64,
        RecordValue::Signed(Width::W2) => number(Width::W2) as i16 as u64,
        RecordValue::Signed(Width::W4) => number(Width::W4) as i32 as u64,
        RecordValue::Signed(Width::W8) => number(Width::W8),
        RecordValue::Text | RecordValue::Address => event_at + u64::from(offset),
        RecordValue::DataLoc => event_at + number(Width::W4) % 0x1_0000,
        RecordValue::RelLoc => event_at + u64::from(offset) + 4 + number(Width::W4) % 0x1_0000,
    }
}

fn base() -> impl Strategy<Value = Base<'static>> {
    prop_oneof![
        Just(Base::Register(reg("di"))),
        Just(Base::StackPointer),
        (0..12u16).prop_map(Base::Stack),
        (0..12u16).prop_map(Base::Argument),
        (0..12u16).prop_map(Base::EntryArgument),
        Just(Base::ReturnValue),
        Just(Base::Comm),
        Just(Base::Current),
        Just(Base::Elapsed),
        Just(Base::Caller),
        Just(Base::EntryCaller),
        Just(Base::Exit),
        Just(Base::Path),
        Just(Base::Blocks),
        Just(Base::Watched),
        (0..24u16, record_value())
            .prop_map(|(offset, value)| Base::Field(RecordField { offset, value })),
        address().prop_map(Base::Immediate),
        Just(Base::Symbol("sym")),
        Just(Base::Text("text")),
    ]
}

/// Any argument at all.
pub fn argument() -> impl Strategy<Value = Argument<'static>> {
    let deref = (space(), -64..64i32).prop_map(|(space, offset)| Deref { space, offset });
    let step = prop_oneof![4 => deref.prop_map(Step::Deref), 1 => Just(Step::ThisCpu)];
    let count = proptest::option::of((1..9u8).prop_map(|n| NonZeroU8::new(n).unwrap()));
    (base(), vec(step, 0..5), ty(), count).prop_map(|(base, list, ty, count)| Argument {
        count: count.filter(|_| ty != FetchType::Symstr),
        ..with_steps(base, &list, ty)
    })
}

prop_compose! {
    /// Pages full of pointers into each other and of short texts.
    pub fn machine()(
        words in vec(vec(prop_oneof![
            3 => address(),
            1 => any::<u64>(),
            1 => Just(0x0041_4242_4343_4444),
            1 => Just(0),
            // Long texts, too.
            2 => Just(u64::MAX),
        ], 12), 6),
        values in vec(address(), 50),
        this_cpu in prop_oneof![
            Just(0),
            Just(8),
            Just(2 * PAGE),
            Just(0u64.wrapping_sub(2 * PAGE)),
            any::<u64>(),
        ],
    ) -> Machine {
        let mut machine = Machine::new();
        for (i, words) in words.iter().enumerate() {
            let (space, page) = match i {
                0..=2 => (Space::Kernel, i as u64),
                _ => (Space::User, i as u64 - 3),
            };
            // Only the start and the end of each: in the middle, what a fresh page has.
            for (j, word) in words.iter().cycle().take(64).enumerate() {
                let offset = if j < 32 { j as u64 * 8 } else { PAGE - (j as u64 - 31) * 8 };
                machine.poke_word(space, 0x1_0000 + page * 2 * PAGE + offset, *word);
            }
        }
        // A string can go on into this page.
        machine.poke(Space::Kernel, 0x1_0000 + 5 * PAGE, b"more\0");
        for name in ["ax", "di", "si", "dx", "cx", "r8", "r9", "sp"] {
            machine.set(name, values[machine.registers.len()]);
        }
        machine.stack = values[10..20].to_vec();
        machine.comm = values[20];
        machine.current = values[42];
        machine.this_cpu = this_cpu;
        machine.elapsed = values[40];
        machine.exit = values[41];
        machine.path = values[44];
        machine.blocks = values[45];
        machine.caller = values[46];
        machine.watched = values[43];
        let mut entry = Machine::new();
        for (name, value) in ["di", "si", "dx", "cx", "r8", "r9"].iter().zip(&values[21..]) {
            entry.set(name, *value);
        }
        entry.stack = values[30..40].to_vec();
        entry.caller = values[47];
        machine.entry = Some(Box::new(entry));
        machine
    }
}

/// What a field should hold.
#[derive(Debug, PartialEq)]
enum Value {
    Numbers(Vec<u64>),
    /// Without NUL.
    Strings(Vec<Option<Vec<u8>>>),
}

struct Model<'m> {
    machine: &'m Machine,
    /// The bytes that are left for strings.
    room: usize,
}

impl Model<'_> {
    fn word(&self, space: Space, address: u64, bytes: usize) -> Option<u64> {
        (0..bytes as u64).rev().try_fold(0, |word, i| {
            let byte = self.machine.peek(space, address.wrapping_add(i))?;
            Some(word << 8 | u64::from(byte))
        })
    }

    fn string(&mut self, space: Space, address: u64) -> Option<Vec<u8>> {
        let most = self.room.min(4096);
        let mut text = Vec::new();
        while text.len() < most {
            match self
                .machine
                .peek(space, address.wrapping_add(text.len() as u64))?
            {
                0 => break,
                byte => text.push(byte),
            }
        }
        if text.len() == most {
            text.pop()?;
        }
        self.room -= text.len() + 1;
        Some(text)
    }

    fn symbol(&mut self, address: u64) -> Option<Vec<u8>> {
        let mut text = symbol(address).into_bytes();
        text.truncate(self.room.checked_sub(1)?);
        self.room -= text.len() + 1;
        Some(text)
    }

    fn load(&self, base: Base<'_>) -> u64 {
        fn stack(machine: &Machine, n: u16) -> u64 {
            machine.stack.get(usize::from(n)).copied().unwrap_or(0)
        }
        fn argument(machine: &Machine, n: u16) -> u64 {
            match ["di", "si", "dx", "cx", "r8", "r9"].get(usize::from(n)) {
                Some(name) => machine.registers[&reg(name).offset()],
                None => stack(machine, n - 5),
            }
        }
        let register = |name: &str| self.machine.registers[&reg(name).offset()];
        match base {
            Base::Register(register) => self.machine.registers[&register.offset()],
            Base::StackPointer => register("sp"),
            Base::Stack(n) => stack(self.machine, n),
            Base::Argument(n) => argument(self.machine, n),
            Base::EntryArgument(n) => argument(self.machine.entry.as_ref().unwrap(), n),
            Base::ReturnValue => register("ax"),
            Base::Elapsed => self.machine.elapsed,
            Base::Caller => self.machine.caller,
            Base::EntryCaller => self.machine.entry.as_ref().unwrap().caller,
            Base::Exit => self.machine.exit,
            Base::Path => self.machine.path,
            Base::Blocks => self.machine.blocks,
            Base::Watched => self.machine.watched,
            // Only object probes have them, with other entry data.
            Base::Object | Base::Parameter | Base::Unchanged => unreachable!(),
            // No program writes such a field.
            Base::OfStep => unreachable!(),
            Base::Field(field) => event_field(&self.machine.event, field),
            Base::Comm => self.machine.comm,
            Base::Current => self.machine.current,
            Base::Pid => self.machine.pid,
            Base::Immediate(value) => value,
            Base::Text(text) => 0x7000 + text.len() as u64,
            Base::Symbol(name) => 0x5000 + name.len() as u64,
        }
    }

    fn value(&mut self, argument: &Argument<'_>) -> Value {
        let list = argument.fetch.steps.as_slice();
        let (path, last) = match list.split_last() {
            _ if argument.ty == FetchType::Symstr => (list, None),
            Some((Step::Deref(last), path)) => (path, Some(*last)),
            Some((Step::ThisCpu, _)) | None => (list, None),
        };
        let mut value = Some(self.load(argument.fetch.base));
        for step in path {
            value = value.and_then(|value| match step {
                Step::Deref(deref) => self.word(
                    deref.space,
                    value.wrapping_add_signed(deref.offset.into()),
                    8,
                ),
                Step::ThisCpu => Some(value.wrapping_add(self.machine.this_cpu)),
            });
        }
        let elements = argument.count.map_or(1, |count| u64::from(count.get()));
        let at = last.unwrap_or(k(0));
        let start = value.map(|value| value.wrapping_add_signed(at.offset.into()));
        let in_memory = last.is_some() || argument.count.is_some();
        let number = |model: &Self, width: Width, i: u64| {
            let number = match in_memory {
                true => {
                    let address = start?.wrapping_add(i * width.bytes() as u64);
                    model.word(at.space, address, width.bytes())?
                }
                false => value?,
            };
            Some(number & (u64::MAX >> (64 - width.bytes() * 8)))
        };
        match argument.ty {
            FetchType::Number(width, _) => Value::Numbers(
                (0..elements)
                    .map(|i| number(self, width, i).unwrap_or(0))
                    .collect(),
            ),
            FetchType::Bitfield(width, _, bits) => {
                let offset = bits.right - bits.left;
                let ones = u64::MAX >> (64 - width.bytes() as u8 * 8 + bits.right);
                Value::Numbers(
                    (0..elements)
                        .map(|i| number(self, width, i).unwrap_or(0) >> offset & ones)
                        .collect(),
                )
            }
            FetchType::String(space) => {
                let one = argument.count.is_none();
                let direct = one || (last.is_none() && elements == 1);
                let space = match one && at.space == Space::User {
                    true => Space::User,
                    false => space,
                };
                let mut strings = Vec::new();
                for i in 0..elements {
                    let address = match direct {
                        true => start,
                        false => start
                            .and_then(|start| self.word(at.space, start.wrapping_add(i * 8), 8)),
                    };
                    let string = address.and_then(|address| self.string(space, address));
                    strings.push(self.or_nul(string));
                }
                Value::Strings(strings)
            }
            FetchType::Symstr => {
                let symbol = value.and_then(|value| self.symbol(value));
                Value::Strings(vec![self.or_nul(symbol)])
            }
        }
    }

    /// A string that is not readable takes a NUL.
    fn or_nul(&mut self, string: Option<Vec<u8>>) -> Option<Vec<u8>> {
        if string.is_none() {
            self.room = self.room.saturating_sub(1);
        }
        string
    }
}

fn recorded(record: &Record, i: usize, argument: &Argument<'_>) -> Value {
    let elements = argument.count.map_or(1, |count| usize::from(count.get()));
    match argument.ty {
        FetchType::String(_) | FetchType::Symstr => Value::Strings(
            (0..elements)
                .map(|j| {
                    let string = record.string(i, j)?;
                    assert_eq!(
                        string.iter().position(|byte| *byte == 0),
                        Some(string.len() - 1)
                    );
                    Some(string[..string.len() - 1].to_vec())
                })
                .collect(),
        ),
        _ => Value::Numbers((0..elements).map(|j| record.number(i, j)).collect()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_arguments_are_recorded_as_by_the_model(
        machine in machine(),
        arguments in vec(argument(), 0..6),
        // The fields of an event never fill a record, so there is room for a NUL.
        room in prop_oneof![1..300usize, Just(40_000)],
    ) {
        let record = machine.record_in(&arguments, room);
        let mut model = Model { machine: &machine, room };
        for (i, argument) in arguments.iter().enumerate() {
            let value = recorded(&record, i, argument);
            prop_assert_eq!(value, model.value(argument), "{:?}", argument);
        }
        prop_assert_eq!(record.used, record.layout.bytes() + room - model.room);
        prop_assert!(record.layout.is_dynamic() || record.used == record.layout.bytes());
        // The header is not the program's to write.
        prop_assert!(record.bytes[..HEADER].iter().all(|byte| *byte == UNTOUCHED));
    }
}
