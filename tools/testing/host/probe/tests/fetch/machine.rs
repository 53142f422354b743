// SPDX-License-Identifier: GPL-2.0

//! A machine to run programs on, and short ways to write arguments down.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    num::NonZeroU8, //
};

use probe::{
    arch::{
        current,
        Register, //
    },
    argument::*,
    fetch::{
        self,
        Context,
        EntryArgument,
        Fault,
        Field,
        Layout,
        Output,
        Program,
        Resolver, //
    },
    types::*, //
};

pub const PAGE: u64 = 4096;

/// What [`Machine::record`] puts where a program has not written.
pub const UNTOUCHED: u8 = 0xa5;

/// The size of the header of a record in [`Machine::record`].
pub const HEADER: usize = 16;

/// Registers, a stack and two address spaces, of which only some pages are there.
#[derive(Default)]
pub struct Machine {
    pub registers: BTreeMap<usize, u64>,
    pub stack: Vec<u64>,
    pub comm: u64,
    pub current: u64,
    pub pid: u64,
    /// The distance from a per-CPU variable to the copy of the current CPU.
    pub this_cpu: u64,
    pub kernel: BTreeMap<u64, Vec<u8>>,
    pub user: BTreeMap<u64, Vec<u8>>,
    /// What it was like at the entry of the call that returns.
    pub entry: Option<Box<Machine>>,
    /// What was saved there.
    pub entry_data: RefCell<Vec<u64>>,
    /// How long the call took.
    pub elapsed: u64,
    /// By which instruction the function returns.
    pub caller: u64,
    pub exit: u64,
    /// The text of the path that it took, and the number of blocks in it.
    pub path: u64,
    pub blocks: u64,
    /// The address that a watchpoint watches.
    pub watched: u64,
    /// The record of the event that was hit.
    pub event: Vec<u8>,
    /// The reads of memory that were made.
    pub reads: RefCell<Vec<(Space, u64, usize)>>,
}

impl Machine {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn set(&mut self, register: &str, value: u64) -> &mut Self {
        self.registers.insert(reg(register).offset(), value);
        self
    }

    /// Writes to memory, of which the pages get there, filled with 0xff.
    pub fn poke(&mut self, space: Space, address: u64, bytes: &[u8]) -> &mut Self {
        let pages = match space {
            Space::Kernel => &mut self.kernel,
            Space::User => &mut self.user,
        };
        for (i, byte) in bytes.iter().enumerate() {
            let address = address + i as u64;
            let page = pages
                .entry(address / PAGE)
                .or_insert_with(|| vec![0xff; PAGE as usize]);
            page[(address % PAGE) as usize] = *byte;
        }
        self
    }

    pub fn poke_word(&mut self, space: Space, address: u64, word: u64) -> &mut Self {
        self.poke(space, address, &word.to_le_bytes())
    }

    pub fn peek(&self, space: Space, address: u64) -> Option<u8> {
        let pages = match space {
            Space::Kernel => &self.kernel,
            Space::User => &self.user,
        };
        Some(pages.get(&(address / PAGE))?[(address % PAGE) as usize])
    }

    /// Records arguments with room for 64 KiB of strings.
    pub fn record(&self, arguments: &[Argument<'_>]) -> Record {
        self.record_in(arguments, 1 << 16)
    }

    /// Records arguments with room for `room` bytes of strings.
    pub fn record_in(&self, arguments: &[Argument<'_>], room: usize) -> Record {
        let mut layout = Layout::new();
        let mut symbols = Symbols::default();
        let (mut fields, mut programs) = (Vec::new(), Vec::new());
        for argument in arguments {
            if let Some(gap) = Program::gap_before(argument, layout) {
                add_program(&mut programs, gap);
            }
            fields.push(layout.add(argument).unwrap());
            let Ok(program) = fetch::compile(argument, &mut symbols);
            add_program(&mut programs, program);
        }
        if let Some(entry) = &self.entry {
            let mut words = vec![0; symbols.entry_arguments.len()];
            fetch::save_entry_data(&symbols.entry_arguments, &**entry, &mut words);
            self.entry_data.replace(words);
        }
        let mut bytes = vec![UNTOUCHED; HEADER + layout.bytes() + room];
        self.reads.borrow_mut().clear();
        let used = fetch::record(
            &programs,
            layout.bytes(),
            HEADER,
            self,
            &mut bytes[HEADER..],
        );
        Record {
            bytes,
            used,
            layout,
            fields,
        }
    }

    /// Records one argument and prints it, without ` arg1=`.
    pub fn print(&self, argument: Argument<'_>) -> String {
        let text = self.record(&[argument]).print();
        text.strip_prefix(" arg1=").unwrap().to_string()
    }
}

/// Adds a program, as a part of the last one if possible.
fn add_program(programs: &mut Vec<Program>, program: Program) {
    let rest = match programs.last_mut() {
        Some(last) => last.join(program),
        None => Some(program),
    };
    programs.extend(rest);
}

/// Memory is shown by the words that are not what a fresh page has.
impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "registers {:x?}", self.registers)?;
        writeln!(f, "stack {:x?} comm {:x}", self.stack, self.comm)?;
        writeln!(f, "current {:x} this_cpu {:x}", self.current, self.this_cpu)?;
        for (space, pages) in [("kernel", &self.kernel), ("user", &self.user)] {
            for (page, bytes) in pages {
                for (i, word) in bytes.chunks(8).enumerate() {
                    if word != [0xff; 8] {
                        let address = page * PAGE + i as u64 * 8;
                        writeln!(f, "{space} {address:x}: {word:x?}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Context for Machine {
    fn register(&self, register: Register) -> u64 {
        self.registers
            .get(&register.offset())
            .copied()
            .unwrap_or(0xdead_0000_0000_0000)
    }

    fn stack(&self, n: u16) -> u64 {
        self.stack.get(usize::from(n)).copied().unwrap_or(0)
    }

    fn comm(&self) -> u64 {
        self.comm
    }

    fn current(&self) -> u64 {
        self.current
    }

    fn pid(&self) -> u64 {
        self.pid
    }

    fn this_cpu(&self, address: u64) -> u64 {
        address.wrapping_add(self.this_cpu)
    }

    fn entry_data(&self, index: u8) -> u64 {
        self.entry_data.borrow()[usize::from(index)]
    }

    fn elapsed(&self) -> u64 {
        self.elapsed
    }

    fn caller(&self) -> u64 {
        self.caller
    }

    fn exit(&self) -> u64 {
        self.exit
    }

    fn path(&self) -> u64 {
        self.path
    }

    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn watched(&self) -> u64 {
        self.watched
    }

    fn record(&self) -> &[u8] {
        &self.event
    }

    /// Leaves something after the text.
    fn symbol(&self, address: u64, to: &mut [u8]) -> usize {
        to.fill(UNTOUCHED);
        let text = symbol(address);
        let pairs = to.iter_mut().zip(text.as_bytes());
        pairs.map(|(to, byte)| *to = *byte).count()
    }

    /// Reads byte by byte, so that a read that fails leaves something behind.
    fn read(&self, space: Space, address: u64, to: &mut [u8]) -> Result<(), Fault> {
        assert!(!to.is_empty(), "a read of nothing");
        self.reads.borrow_mut().push((space, address, to.len()));
        for (i, byte) in to.iter_mut().enumerate() {
            let address = address.wrapping_add(i as u64);
            *byte = self.peek(space, address).ok_or(Fault)?;
        }
        Ok(())
    }
}

/// A record in memory: header, fields, and the place for strings.
pub struct Record {
    pub bytes: Vec<u8>,
    pub used: usize,
    pub layout: Layout,
    pub fields: Vec<Field>,
}

impl Record {
    /// The bytes of the fields.
    pub fn data(&self) -> &[u8] {
        &self.bytes[HEADER..HEADER + self.layout.bytes()]
    }

    /// The number in an element of a field.
    pub fn number(&self, field: usize, element: usize) -> u64 {
        let field = self.fields[field];
        let size = field.ty().size();
        let start = field.offset() + element * size;
        self.data()[start..start + size]
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// The string in an element of a field with its NUL, or `None` where it could not be read.
    pub fn string(&self, field: usize, element: usize) -> Option<&[u8]> {
        let location = self.number(field, element) as usize;
        let (len, start) = (location >> 16, location & 0xffff);
        assert!(start + len <= HEADER + self.used);
        if len == 0 {
            // The kernel's filters read a string of no length up to a NUL.
            assert!(start < HEADER + self.used && self.bytes[start] == 0);
            return None;
        }
        assert!(start >= HEADER + self.layout.bytes());
        Some(&self.bytes[start..start + len])
    }

    /// The fields as text, named `arg1` and so on.
    pub fn print(&self) -> String {
        let mut text = Text::default();
        let names: Vec<String> = (1..=self.fields.len()).map(|i| format!("arg{i}")).collect();
        let fields = names.iter().map(String::as_str).zip(self.fields.clone());
        let record = &self.bytes[..HEADER + self.used];
        fetch::print(fields, record, HEADER, &mut text).unwrap();
        text.to_string()
    }
}

/// The text of a trace line.
#[derive(Default)]
pub struct Text(pub Vec<u8>);

impl fmt::Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.bytes(s.as_bytes())
    }
}

impl Output for Text {
    fn bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn error_name(&self, number: u16) -> Option<&'static str> {
        match number {
            2 => Some("ENOENT"),
            512 => Some("ERESTARTSYS"),
            4095 => Some("never"),
            _ => None,
        }
    }

    fn symbol(&mut self, address: u64) -> fmt::Result {
        self.bytes(format!("<{address:x}>").as_bytes())
    }

    fn function(&mut self, address: u64) -> fmt::Result {
        self.bytes(format!("f{address:x}").as_bytes())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = self.0.escape_ascii().to_string();
        f.write_str(&escaped.replace("\\\"", "\"").replace("\\'", "'"))
    }
}

/// The text of the symbol of an address.
pub fn symbol(address: u64) -> String {
    format!("sym+{address:#x}/0xffff")
}

/// Symbols at 0x5000, texts at 0x7000, each plus its length.
#[derive(Default)]
pub struct Symbols {
    pub entry_arguments: Vec<EntryArgument>,
}

impl Resolver for Symbols {
    type Error = Infallible;

    fn symbol(&mut self, name: &str) -> Result<u64, Infallible> {
        Ok(0x5000 + name.len() as u64)
    }

    fn text(&mut self, text: &str) -> Result<u64, Infallible> {
        Ok(0x7000 + text.len() as u64)
    }

    fn entry_index(&mut self, argument: EntryArgument) -> Result<u8, Infallible> {
        let arguments = &mut self.entry_arguments;
        let index = arguments.iter().position(|saved| *saved == argument);
        Ok(index.unwrap_or_else(|| {
            arguments.push(argument);
            arguments.len() - 1
        }) as u8)
    }
}

pub fn compile(argument: &Argument<'_>) -> Program {
    let Ok(program) = fetch::compile(argument, &mut Symbols::default());
    program
}

pub fn reg(name: &str) -> Register {
    current::register(name).unwrap()
}

pub fn k(offset: i32) -> Deref {
    Deref {
        space: Space::Kernel,
        offset,
    }
}

pub fn u(offset: i32) -> Deref {
    Deref {
        space: Space::User,
        offset,
    }
}

/// An argument of any source, with steps of all kinds.
pub fn with_steps<'a>(base: Base<'a>, list: &[Step], ty: FetchType) -> Argument<'a> {
    let mut steps = Steps::new();
    for step in list {
        steps.push(*step).unwrap();
    }
    Argument {
        name: Name::Numbered(1),
        fetch: Fetch { base, steps },
        ty,
        count: None,
    }
}

/// An argument of any source.
pub fn source<'a>(base: Base<'a>, list: &[Deref], ty: FetchType) -> Argument<'a> {
    let steps: Vec<Step> = list.iter().copied().map(Step::Deref).collect();
    with_steps(base, &steps, ty)
}

/// An argument that starts at register `di`.
pub fn di(list: &[Deref], ty: FetchType) -> Argument<'static> {
    source(Base::Register(reg("di")), list, ty)
}

/// An array of it.
pub fn times(count: u8, argument: Argument<'_>) -> Argument<'_> {
    Argument {
        count: Some(NonZeroU8::new(count).unwrap()),
        ..argument
    }
}

pub const U8: FetchType = FetchType::Number(Width::W1, Style::Unsigned);
pub const U16: FetchType = FetchType::Number(Width::W2, Style::Unsigned);
pub const U32: FetchType = FetchType::Number(Width::W4, Style::Unsigned);
pub const U64: FetchType = FetchType::Number(Width::W8, Style::Unsigned);
pub const S8: FetchType = FetchType::Number(Width::W1, Style::Signed);
pub const S16: FetchType = FetchType::Number(Width::W2, Style::Signed);
pub const S32: FetchType = FetchType::Number(Width::W4, Style::Signed);
pub const S64: FetchType = FetchType::Number(Width::W8, Style::Signed);
pub const X8: FetchType = FetchType::Number(Width::W1, Style::Hex);
pub const X16: FetchType = FetchType::Number(Width::W2, Style::Hex);
pub const X32: FetchType = FetchType::Number(Width::W4, Style::Hex);
pub const X64: FetchType = FetchType::Number(Width::W8, Style::Hex);
pub const CHAR: FetchType = FetchType::Number(Width::W1, Style::Char);
pub const SYMBOL: FetchType = FetchType::Number(Width::W8, Style::Symbol);
pub const STRING: FetchType = FetchType::String(Space::Kernel);
pub const USTRING: FetchType = FetchType::String(Space::User);
pub const SYMSTR: FetchType = FetchType::Symstr;

/// `bWIDTH@OFFSET/SIZE`, by the definition of the shifts.
pub fn bits(width: u8, offset: u8, number: Width) -> FetchType {
    let size = number.bytes() as u8 * 8;
    FetchType::Bitfield(
        number,
        Style::Unsigned,
        Bits {
            left: size - (width + offset),
            right: size - width,
        },
    )
}
