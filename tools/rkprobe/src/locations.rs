// SPDX-License-Identifier: GPL-2.0

//! Where a variable is at an instruction, as fetch arguments can say it.

use gimli::{
    AttributeValue,
    BaseAddresses,
    CfaRule,
    DebugFrame,
    Dwarf,
    Expression,
    NativeEndian,
    Operation,
    Register,
    SectionId,
    Unit,
    UnwindContext,
    UnwindSection,
    Vendor, //
};

use crate::dwarf::{
    self,
    Bytes,
    Entry,
    Information, //
};

/// The fetch argument of the stack pointer.
const STACK_POINTER: &str = "%sp";

/// The most bytes that a function can have for ftrace: a landing pad, saving the return address, and a call.
const MAX_FTRACE_SITE: u64 = if cfg!(target_arch = "aarch64") { 12 } else { 9 };

/// The fetch argument of the result of a function.
pub const RESULT_REGISTER: &str = if cfg!(target_arch = "aarch64") {
    "%x0"
} else {
    "%ax"
};

/// Where a variable is.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// A register has it: its fetch argument.
    Value(String),
    /// It is in memory, at an offset from an address: the fetch argument of the address, and the offset.
    Memory(String, i64),
    /// It is in memory at a fixed address.
    Static(u64, i64),
    /// It is this number.
    Constant(i64),
}

/// Why a variable cannot be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    OptimizedOut,
    /// Its parts are in several places.
    Pieces,
    /// Only the function's caller had it.
    AtEntry,
    /// The function has not yet taken its part of the stack, or has freed it.
    Unused,
    /// It has to be calculated.
    Calculated,
}

impl Reason {
    pub fn text(self) -> &'static str {
        match self {
            Self::OptimizedOut => "optimized out",
            Self::Pieces => "in several pieces",
            Self::AtEntry => "known only at the function's entry",
            Self::Unused => "its part of the stack is not in use here",
            Self::Calculated => "has to be calculated",
        }
    }
}

/// A place in the code.
#[derive(Clone, Copy)]
pub struct Place<'p, 'd> {
    pub information: &'d Information,
    pub dwarf: &'p Dwarf<Bytes<'d>>,
    pub unit: &'p Unit<Bytes<'d>>,
    /// The function whose code it is.
    pub holder: &'p Entry<'p, 'd>,
    /// The first address of this function.
    pub start: u64,
    pub address: u64,
}

/// What an expression calculates.
#[derive(Clone, Debug)]
enum Term {
    /// The sum of a value and an offset.
    Sum(String, i64),
    Fixed(u64, i64),
    Number(i64),
}

impl Term {
    fn plus(self, add: i64) -> Self {
        match self {
            Self::Sum(base, offset) => Self::Sum(base, offset.wrapping_add(add)),
            Self::Fixed(address, offset) => Self::Fixed(address, offset.wrapping_add(add)),
            Self::Number(number) => Self::Number(number.wrapping_add(add)),
        }
    }

    /// What is in memory there.
    fn memory(self) -> Result<Location, Reason> {
        match self {
            // An exception, such as that of the probe, overwrites what is there.
            Self::Sum(base, ..0) if base == STACK_POINTER => Err(Reason::Unused),
            Self::Sum(base, offset) => Ok(Location::Memory(base, offset)),
            Self::Fixed(address, offset) => Ok(Location::Static(address, offset)),
            Self::Number(_) => Err(Reason::Calculated),
        }
    }

    /// The term itself as a value.
    fn value(self) -> Result<Location, Reason> {
        match self {
            Self::Sum(base, 0) => Ok(Location::Value(base)),
            Self::Number(number) => Ok(Location::Constant(number)),
            _ => Err(Reason::Calculated),
        }
    }
}

impl<'p, 'd> Place<'p, 'd> {
    /// Where a variable is at this place.
    pub fn find(&self, variable: &Entry<'_, 'd>) -> Result<Location, Reason> {
        let broken = |_: gimli::Error| Reason::Calculated;
        if let Some(number) = dwarf::constant(variable).map_err(broken)? {
            return Ok(Location::Constant(number));
        }
        // Such as the text of an array.
        if variable
            .attr(gimli::DW_AT_const_value)
            .map_err(broken)?
            .is_some()
        {
            return Err(Reason::Calculated);
        }
        let location = variable.attr_value(gimli::DW_AT_location).map_err(broken)?;
        let expression = match location {
            Some(AttributeValue::Exprloc(expression)) => expression,
            Some(list) => self.in_list(list)?.ok_or(Reason::OptimizedOut)?,
            None => return Err(Reason::OptimizedOut),
        };
        self.evaluate(expression)
    }

    /// The expression of a list that belongs to this address.
    fn in_list(
        &self,
        list: AttributeValue<Bytes<'d>>,
    ) -> Result<Option<Expression<Bytes<'d>>>, Reason> {
        let broken = |_: gimli::Error| Reason::Calculated;
        let found = self.dwarf.attr_locations(self.unit, list).map_err(broken)?;
        let Some(mut entries) = found else {
            return Ok(None);
        };
        let mut first: Option<gimli::LocationListEntry<Bytes<'d>>> = None;
        while let Some(entry) = entries.next().map_err(broken)? {
            if (entry.range.begin..entry.range.end).contains(&self.address) {
                return Ok(Some(entry.data));
            }
            if first
                .as_ref()
                .is_none_or(|first| entry.range.begin < first.range.begin)
            {
                first = Some(entry);
            }
        }
        // Some compilers begin the list after the place for ftrace.
        let is_early = |first: &gimli::LocationListEntry<Bytes<'d>>| {
            self.is_entry(self.address) && self.is_entry(first.range.begin)
        };
        Ok(first.filter(is_early).map(|first| first.data))
    }

    /// Whether an address is in the place for ftrace, before the code of the function itself.
    fn is_entry(&self, address: u64) -> bool {
        (self.start..=self.start + MAX_FTRACE_SITE).contains(&address)
    }

    /// Where the parts of the code begin in which a variable is at one place.
    pub fn starts(&self, variable: &Entry<'_, 'd>) -> gimli::Result<Vec<u64>> {
        let mut starts = Vec::new();
        let Some(list) = variable.attr_value(gimli::DW_AT_location)? else {
            return Ok(starts);
        };
        if let Some(mut entries) = self.dwarf.attr_locations(self.unit, list)? {
            while let Some(entry) = entries.next()? {
                starts.push(entry.range.begin);
            }
        }
        Ok(starts)
    }

    fn evaluate(&self, expression: Expression<Bytes<'d>>) -> Result<Location, Reason> {
        let broken = |_: gimli::Error| Reason::Calculated;
        let mut terms: Vec<Term> = Vec::new();
        let mut operations = expression.operations(self.unit.encoding());
        let mut is_empty = true;
        while let Some(operation) = operations.next().map_err(broken)? {
            is_empty = false;
            let add = |terms: &mut Vec<Term>, number: i64| {
                let term = terms.pop().ok_or(Reason::Calculated)?;
                terms.push(term.plus(number));
                Ok(())
            };
            match operation {
                Operation::Nop => {}
                Operation::Register { register } => {
                    return match operations.next().map_err(broken)? {
                        None => register_name(register)
                            .map(Location::Value)
                            .ok_or(Reason::Calculated),
                        Some(_) => Err(Reason::Pieces),
                    };
                }
                Operation::RegisterOffset {
                    register, offset, ..
                } => {
                    let name = register_name(register).ok_or(Reason::Calculated)?;
                    terms.push(Term::Sum(name, offset));
                }
                Operation::FrameOffset { offset } => terms.push(self.frame()?.plus(offset)),
                Operation::CallFrameCFA => terms.push(self.canonical_frame()?),
                Operation::Address { address } => terms.push(Term::Fixed(address, 0)),
                Operation::AddressIndex { index } => {
                    let address = self.dwarf.address(self.unit, index).map_err(broken)?;
                    terms.push(Term::Fixed(address, 0));
                }
                Operation::UnsignedConstant { value } => terms.push(Term::Number(value as i64)),
                Operation::SignedConstant { value } => terms.push(Term::Number(value)),
                Operation::PlusConstant { value } => add(&mut terms, value as i64)?,
                Operation::Plus => match terms.pop() {
                    Some(Term::Number(number)) => add(&mut terms, number)?,
                    _ => return Err(Reason::Calculated),
                },
                Operation::Minus => match terms.pop() {
                    Some(Term::Number(number)) => add(&mut terms, number.wrapping_neg())?,
                    _ => return Err(Reason::Calculated),
                },
                Operation::Deref { size: 8, .. } => {
                    let term = terms.pop().ok_or(Reason::Calculated)?;
                    let Location::Memory(base, offset) = term.memory()? else {
                        return Err(Reason::Calculated);
                    };
                    terms.push(Term::Sum(memory(&base, offset), 0));
                }
                Operation::StackValue => {
                    let term = terms.pop().ok_or(Reason::Calculated)?;
                    return match operations.next().map_err(broken)? {
                        None => term.value(),
                        Some(_) => Err(Reason::Pieces),
                    };
                }
                Operation::EntryValue { expression } => {
                    // At the entry, a register has this value still.
                    let register = match self.is_entry(self.address) {
                        true => self.evaluate(Expression(expression))?,
                        false => return Err(Reason::AtEntry),
                    };
                    let Location::Value(register) = register else {
                        return Err(Reason::Calculated);
                    };
                    terms.push(Term::Sum(register, 0));
                }
                Operation::Piece { .. } => return Err(Reason::Pieces),
                _ => return Err(Reason::Calculated),
            }
        }
        match terms.pop() {
            Some(term) => term.memory(),
            None if is_empty => Err(Reason::OptimizedOut),
            None => Err(Reason::Calculated),
        }
    }

    /// The base of the function's frame.
    fn frame(&self) -> Result<Term, Reason> {
        let base = self.holder.attr_value(gimli::DW_AT_frame_base);
        let base = base.map_err(|_| Reason::Calculated)?;
        let Some(AttributeValue::Exprloc(base)) = base else {
            return Err(Reason::Calculated);
        };
        match self.evaluate(base)? {
            Location::Value(register) => Ok(Term::Sum(register, 0)),
            Location::Memory(base, offset) => Ok(Term::Sum(base, offset)),
            _ => Err(Reason::Calculated),
        }
    }

    /// The stack pointer that the caller had before the call. C: `DW_OP_call_frame_cfa`.
    fn canonical_frame(&self) -> Result<Term, Reason> {
        let mut frames = DebugFrame::new(
            self.information.section(SectionId::DebugFrame),
            NativeEndian,
        );
        frames.set_address_size(8);
        if cfg!(target_arch = "aarch64") {
            // Return addresses can be signed.
            frames.set_vendor(Vendor::AArch64);
        }
        let mut context = UnwindContext::new();
        let row = frames.unwind_info_for_address(
            &BaseAddresses::default(),
            &mut context,
            self.address,
            DebugFrame::cie_from_offset,
        );
        match row.map_err(|_| Reason::Calculated)?.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let name = register_name(*register).ok_or(Reason::Calculated)?;
                Ok(Term::Sum(name, *offset))
            }
            CfaRule::Expression(_) => Err(Reason::Calculated),
        }
    }
}

/// The fetch argument for the memory at an offset from an address.
pub fn memory(base: &str, offset: i64) -> String {
    match offset {
        0.. => format!("+{offset}({base})"),
        _ => format!("{offset}({base})"),
    }
}

/// The fetch argument of a register, by its number in debug information.
#[cfg(target_arch = "x86_64")]
fn register_name(register: Register) -> Option<String> {
    const NAMES: [&str; 8] = ["ax", "dx", "cx", "bx", "si", "di", "bp", "sp"];
    match usize::from(register.0) {
        number @ 0..8 => Some(format!("%{}", NAMES[number])),
        number @ 8..16 => Some(format!("%r{number}")),
        _ => None,
    }
}

/// The fetch argument of a register, by its number in debug information.
#[cfg(target_arch = "aarch64")]
fn register_name(register: Register) -> Option<String> {
    match register.0 {
        number @ 0..31 => Some(format!("%x{number}")),
        31 => Some("%sp".into()),
        _ => None,
    }
}
