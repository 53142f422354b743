// SPDX-License-Identifier: GPL-2.0

//! A command and its condition, compiled and run on a machine whose memory can fault at every read.
//!
//! The input is the command, a newline, the size of the room for strings, which reads fault, and what
//! is in registers, stack and memory.
//!
//! Whatever there is, the record is written as a whole and nothing else is: no byte of it is what
//! was there before. The strings are after the fields, one after the other. What is read is what
//! the command asks for. The condition decides as on a record of its operands.

#![no_main]

use std::{
    cell::RefCell,
    convert::Infallible, //
};

use fuzz::{
    fields,
    keep,
    location,
    probe_point,
    read,
    split, //
};
use libfuzzer_sys::{
    fuzz_target,
    Corpus, //
};
use probe::{
    arch::Register,
    argument::Argument,
    condition::{
        Branch,
        Check,
        Comparison,
        StringCheck, //
    },
    fetch::{
        self,
        buffer_for,
        compile_test,
        Context,
        EntryArgument,
        Fault,
        Field,
        Layout,
        MatchString,
        Program,
        Resolver,
        Test,
        MAX_STRING, //
    },
    types::Space, //
};

/// The bytes in front of the fields.
const HEADER: usize = 16;

/// The most reads that a string takes: chunks of 64, 128, 256... bytes, cut once by the end of a page.
const READS_OF_A_STRING: usize = 9;

fuzz_target!(|input: &[u8]| -> Corpus { keep(run(input)) });

fn run(input: &[u8]) -> Option<()> {
    let (command, rest) = split(input)?;
    let (parameters, memory) = rest.split_first_chunk()?;
    read(
        &command,
        probe_point(&command)?,
        |_, arguments, condition| {
            record(arguments, *parameters, memory);
            if !condition.is_empty() {
                decide(condition, *parameters, memory);
            }
        },
    )
    .ok()
}

/// Records the arguments, and checks what comes of it.
fn record(arguments: &[Argument<'_>], parameters: [u8; 10], memory: &[u8]) {
    let [low, high, faults @ ..] = parameters;
    let (fields, layout) = fields(arguments);
    // Up to what a location can say, and some more.
    let room = match layout.is_dynamic() {
        true => usize::from(u16::from_le_bytes([low, high])) + 100,
        false => 0,
    };

    let mut resolver = Symbols::default();
    let mut programs = Vec::new();
    let mut so_far = Layout::new();
    for argument in arguments {
        let gap = Program::gap_before(argument, so_far);
        so_far.add(argument).unwrap();
        let Ok(program) = fetch::compile(argument, &mut resolver);
        for program in gap.into_iter().chain([program]) {
            let rest = match programs.last_mut() {
                Some(last) => Program::join(last, program),
                None => Some(program),
            };
            programs.extend(rest);
        }
    }

    let record = |fill: u8| {
        let machine = Machine::new(
            u64::from_le_bytes(faults),
            memory,
            &resolver.entry_arguments,
        );
        let mut bytes = vec![fill; HEADER + layout.bytes() + room];
        let (header, out) = bytes.split_at_mut(HEADER);
        let used = fetch::record(&programs, layout.bytes(), HEADER, &machine, out);
        assert!(header.iter().all(|byte| *byte == fill));
        bytes.truncate(HEADER + used);
        (bytes, machine.reads.into_inner())
    };
    let (bytes, reads) = record(0);
    let again = record(0xff);
    assert!(
        bytes[HEADER..] == again.0[HEADER..] && reads == again.1,
        "what was there shows"
    );
    check_strings(&fields, layout.bytes(), room, &bytes);
    check_reads(arguments, &reads);
}

/// The strings follow the fields, one after the other, and each ends at its only NUL. A string that
/// is not readable has the length 0 and is at a NUL of its own, or at the last one if no byte is left.
fn check_strings(fields: &[(String, Field)], fixed: usize, room: usize, bytes: &[u8]) {
    let mut end = HEADER + fixed;
    let limit = (end + room).min(usize::from(u16::MAX));
    for (_, field) in fields.iter().filter(|(_, field)| field.is_dynamic()) {
        for at in (0..field.bytes()).step_by(4) {
            let (start, len) = location(bytes, HEADER + field.offset() + at);
            assert!(len <= MAX_STRING);
            if len == 0 {
                assert_eq!(start, end.min(limit - 1));
                assert_eq!(bytes[start], 0);
                end = start + 1;
                continue;
            }
            assert_eq!(start, end);
            let string = &bytes[start..][..len];
            let nul = string.iter().position(|byte| *byte == 0);
            assert_eq!(nul, len.checked_sub(1));
            end += len;
        }
    }
    assert_eq!(end, bytes.len());
}

/// There are no more reads than the arguments have steps and strings, each within bounds; an
/// array that cannot be read at once is read one by one.
fn check_reads(arguments: &[Argument<'_>], reads: &[usize]) {
    let most = |argument: &Argument<'_>| {
        let elements = argument.count.map_or(1, |count| usize::from(count.get()));
        argument.fetch.steps.as_slice().len() + elements * (1 + READS_OF_A_STRING)
    };
    assert!(reads.len() <= arguments.iter().map(most).sum());
    assert!(reads.iter().all(|len| (1..=MAX_STRING).contains(len)));
}

/// A string, or in place of a pattern, the length of it.
enum Pattern {
    Equal(String),
    Length(usize),
}

impl Pattern {
    fn new(check: StringCheck<'_>) -> Self {
        match check {
            StringCheck::Equal(text) => Self::Equal(text.to_string()),
            StringCheck::Glob(text) => Self::Length(text.to_string().len()),
        }
    }
}

impl MatchString for Pattern {
    fn matches(&self, text: &[u8]) -> bool {
        let (nul, text) = text.split_last().unwrap();
        assert!(*nul == 0 && !text.contains(&0));
        match self {
            Self::Equal(string) => string.as_bytes() == text,
            Self::Length(len) => text.len() <= *len,
        }
    }
}

/// Runs the condition, and checks its result. What was in the buffer has no effect. Without faults,
/// it decides as on a record of the operands, and the tests at the entry of a call do not exclude a
/// call that fulfils the condition.
fn decide(condition: &[Comparison<'_>], parameters: [u8; 10], memory: &[u8]) {
    let [low, high, faults @ ..] = parameters;
    let large = usize::from(u16::from_le_bytes([low, high])) + 100;
    let sizes = condition
        .iter()
        .map(|comparison| buffer_for(&comparison.operand).unwrap_or(large));
    let size = sizes.max().unwrap_or(0);

    let mut resolver = Symbols::default();
    let mut tests = vec![];
    let mut at_entry = vec![];
    for comparison in condition {
        let operand = Some(&comparison.operand);
        let string = |check| Ok(Pattern::new(check));
        let Ok(test) = compile_test(comparison, operand, &mut resolver, string);
        tests.push(test);
        let operand = comparison.operand_at_entry();
        let Ok(test) = compile_test(comparison, operand.as_ref(), &mut resolver, string);
        at_entry.push(test);
    }
    let faults = u64::from_le_bytes(faults);
    let run = |tests: &[Test<Pattern>], fill| {
        let machine = Machine::new(faults, memory, &resolver.entry_arguments);
        let result = fetch::holds(tests, &machine, &mut vec![fill; size]);
        (result, machine.reads.into_inner())
    };
    let (result, reads) = run(&tests, 0);
    assert_eq!(
        (result, &reads),
        (run(&tests, 0xff).0, &run(&tests, 0xff).1)
    );
    let operands: Vec<_> = condition
        .iter()
        .map(|comparison| comparison.operand.clone())
        .collect();
    check_reads(&operands, &reads);

    let (can_hold, _) = run(&at_entry, 0);
    assert!(can_hold || fetch::decides(&at_entry));
    if faults == 0 {
        assert_eq!(result, decide_on_records(condition, memory, size));
        assert!(can_hold || !result);
    }
}

/// Decides on a record of each operand.
fn decide_on_records(condition: &[Comparison<'_>], memory: &[u8], size: usize) -> bool {
    let mut index = 0;
    loop {
        let Comparison {
            operand,
            check,
            branches,
        } = &condition[index];
        let mut bytes = vec![0; size.max(8)];
        let mut resolver = Symbols::default();
        let Ok(program) = fetch::compile(operand, &mut resolver);
        let machine = Machine::new(0, memory, &resolver.entry_arguments);
        let fixed = operand.ty.size();
        let space = if operand.ty.is_text() { size } else { fixed };
        fetch::record(&[program], fixed, 0, &machine, &mut bytes[..space]);
        let number = || {
            bytes[..8]
                .iter()
                .rev()
                .fold(0, |n, b| n << 8 | u64::from(*b))
        };
        let result = match *check {
            Check::Range(range) => range.contains(number()),
            Check::Bits(mask) => number() & mask != 0,
            Check::String(check) => match location(&bytes, 0) {
                (_, 0) => Pattern::new(check).matches(&[0]),
                (start, len) => Pattern::new(check).matches(&bytes[start..][..len]),
            },
        };
        match branches.after(result) {
            Branch::Skip(count) => index += 1 + usize::from(count),
            Branch::Leave(result) => return result,
        }
    }
}

/// Any symbol and any text has an address, and each entry argument has an index.
#[derive(Default)]
struct Symbols {
    entry_arguments: Vec<EntryArgument>,
}

impl Resolver for Symbols {
    type Error = Infallible;

    fn symbol(&mut self, name: &str) -> Result<u64, Infallible> {
        Ok(name.len() as u64)
    }

    fn text(&mut self, text: &str) -> Result<u64, Infallible> {
        Ok(text.len() as u64)
    }

    fn entry_index(&mut self, argument: EntryArgument) -> Result<u8, Infallible> {
        self.entry_arguments.push(argument);
        Ok((self.entry_arguments.len() - 1) as u8)
    }
}

/// Memory has the same bytes again and again, for registers and stack too.
struct Machine<'a> {
    /// Bit N is set where the Nth read, modulo 64, is a fault.
    faults: u64,
    memory: &'a [u8],
    entry_data: Vec<u64>,
    /// The sizes of the reads that were made.
    reads: RefCell<Vec<usize>>,
}

impl<'a> Machine<'a> {
    fn new(faults: u64, memory: &'a [u8], arguments: &[EntryArgument]) -> Self {
        let mut machine = Self {
            faults,
            memory: if memory.is_empty() { &[0] } else { memory },
            entry_data: vec![],
            reads: RefCell::default(),
        };
        let mut words = vec![0; arguments.len()];
        fetch::save_entry_data(arguments, &machine, &mut words);
        machine.entry_data = words;
        machine
    }

    fn fill(&self, address: u64, to: &mut [u8]) {
        let len = self.memory.len();
        let start = (address % len as u64) as usize;
        for (i, byte) in to.iter_mut().enumerate() {
            *byte = self.memory[(start + i) % len];
        }
    }

    fn word(&self, address: u64) -> u64 {
        let mut word = [0; 8];
        self.fill(address, &mut word);
        u64::from_le_bytes(word)
    }
}

impl Context for Machine<'_> {
    fn register(&self, register: Register) -> u64 {
        self.word(register.offset() as u64)
    }

    fn stack(&self, n: u16) -> u64 {
        self.word(u64::from(n) * 8)
    }

    fn comm(&self) -> u64 {
        self.word(1)
    }

    fn current(&self) -> u64 {
        self.word(4)
    }

    fn pid(&self) -> u64 {
        self.word(6)
    }

    fn this_cpu(&self, address: u64) -> u64 {
        address.wrapping_add(self.word(5))
    }

    fn entry_data(&self, index: u8) -> u64 {
        // The data of an object is at the end.
        let word = self.entry_data.get(usize::from(index));
        word.copied().unwrap_or_else(|| self.word(index.into()))
    }

    fn elapsed(&self) -> u64 {
        self.word(2)
    }

    fn path(&self) -> u64 {
        self.word(7)
    }

    fn blocks(&self) -> u64 {
        self.word(8)
    }

    fn caller(&self) -> u64 {
        self.word(9)
    }

    fn exit(&self) -> u64 {
        self.word(3)
    }

    fn symbol(&self, address: u64, to: &mut [u8]) -> usize {
        let text = format!("{address:#x}");
        let len = text.len().min(to.len());
        to[..len].copy_from_slice(&text.as_bytes()[..len]);
        len
    }

    fn read(&self, space: Space, address: u64, to: &mut [u8]) -> Result<(), Fault> {
        let mut reads = self.reads.borrow_mut();
        let faults = self.faults.rotate_right(reads.len() as u32 % 64) & 1 != 0;
        reads.push(to.len());
        // Half of it may be there.
        let len = to.len() / (1 + usize::from(faults));
        self.fill(address.wrapping_add(space as u64), &mut to[..len]);
        match faults {
            true => Err(Fault),
            false => Ok(()),
        }
    }
}
