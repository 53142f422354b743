// SPDX-License-Identifier: GPL-2.0

//! Where a function leaves.
//!
//! A function is swept from its first byte to its last: following the flow would miss what is
//! behind a jump label that is off, and where exceptions go on. Each branch within it then has to
//! meet a boundary of the sweep, or the sweep is not believed. What leads out of the function is an
//! [`Exit`], and all of them together make the [`Verdict`]. Zeros at the end of the text are not
//! swept: they are what lies between the sections of a module and behind the last.
//!
//! The function may be in several [`Part`]s: compilers move what is seldom run to `NAME.cold`.
//! Where a jump leads to one that was not brought, [`Verdict::Part`] says so; one behind a jump
//! label that is off only its name tells, and has to be brought by it.
//!
//! The caller reads the text, [recovers the probed
//! instructions](super::recover_probed_instructions), says what a target is ([`Destination`]), and
//! brings the memory: a bit for each place where an instruction may start. The sweep decodes each
//! byte twice, and each query of the exits once more, whatever the bytes are. It compares each
//! branch with each part.
//!
//! # Examples
//!
//! ```
//! use probe::insn::{
//!     exits::{
//!         Destination,
//!         Exit,
//!         ExitKind,
//!         Part,
//!         SweptFunction,
//!         Verdict, //
//!     },
//!     x86::X86, //
//! };
//!
//! // test %edi,%edi; je 1f; ret; 1: jmp +0x100; and padding
//! let text = [0x85, 0xff, 0x74, 0x01, 0xc3, 0xe9, 0x00, 0x01, 0x00, 0x00, 0xcc, 0xcc];
//! let parts = [Part { address: 0x1000, text: &text }];
//! let mut starts = vec![0; SweptFunction::<X86>::words(&parts)];
//! let function = SweptFunction::<X86>::sweep(&parts, &mut starts).unwrap();
//!
//! let symbols = |_target| Destination::Function;
//! let exits: Vec<Exit> = function.exits(&symbols).collect();
//! let tail = Exit {
//!     address: 0x1005,
//!     kind: ExitKind::TailCall { target: 0x110a, is_conditional: false },
//! };
//! assert_eq!(exits, [Exit { address: 0x1004, kind: ExitKind::Return }, tail]);
//! assert_eq!(function.verdict(&symbols), Verdict::TailCall(tail));
//! ```

use core::{
    marker::PhantomData,
    mem,
    slice, //
};

use super::decoder::{
    Decoder,
    Flow,
    Insn, //
};

/// A piece of a function's text.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Where it is.
    pub address: u64,
    /// What is there: all up to the next symbol, but for what belongs to that one (as the words
    /// that arm64 keeps before a function).
    pub text: &'a [u8],
}

/// What is at a target outside of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A return thunk, see [`is_return_thunk`](super::x86::is_return_thunk).
    ReturnThunk,
    /// An indirect thunk, see [`is_indirect_thunk`](super::x86::is_indirect_thunk).
    IndirectThunk,
    /// A part of this function, see [`is_cold_part`].
    Part,
    /// Another function, or what is not known.
    Function,
}

/// Whether a symbol is a part of this function that compilers have moved away: `NAME.cold` or
/// `NAME.cold.N`. (`NAME.part.N`, `NAME.isra.N` and the like are functions of their own, and may
/// have such parts.)
pub fn is_cold_part(symbol: &str, function: &str) -> bool {
    let rest = symbol.strip_prefix(function);
    match rest.and_then(|rest| rest.strip_prefix(".cold")) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('.').is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
        }),
        None => false,
    }
}

/// A way out of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Where the instruction is.
    pub address: u64,
    /// How it leaves.
    pub kind: ExitKind,
}

/// How an instruction leaves a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// It returns.
    Return,
    /// It jumps to a return thunk, which returns.
    ReturnThunk,
    /// It jumps to a function, which then returns to the caller; or to the function's own
    /// beginning, which is the same: it is entered again and returns once.
    TailCall {
        /// To where.
        target: u64,
        /// Whether it may also go on.
        is_conditional: bool,
    },
    /// It jumps to an address in a register or in memory: a tail call, or a table of jumps.
    IndirectTailCall,
    /// It leaves for another privilege level or code segment.
    FarReturn,
    /// It goes on into what follows, which is no longer the function.
    FallThrough,
    /// A call is the last of all, but for traps: what it calls never returns, or a compiler would
    /// not have left it there.
    NoReturn,
    /// It jumps to a part that was not brought.
    Part {
        /// To where.
        target: u64,
    },
}

/// What all the exits together mean for a probe on the returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves by returns only: a probe on each of them sees every call return.
    Returns,
    /// It leaves, also or only, by this exit, the first of those that are neither return nor the
    /// end.
    TailCall(Exit),
    /// It never returns.
    NoReturn,
    /// A part is missing, which is at this target.
    Part(u64),
}

impl Verdict {
    /// The verdict for these exits.
    pub fn of(exits: impl IntoIterator<Item = Exit>) -> Self {
        let mut verdict = Self::NoReturn;
        for exit in exits {
            verdict = match (exit.kind, verdict) {
                (ExitKind::Part { target }, _) => return Self::Part(target),
                (ExitKind::NoReturn, _) | (_, Self::TailCall(_)) => verdict,
                (ExitKind::Return | ExitKind::ReturnThunk, _) => Self::Returns,
                _ => Self::TailCall(exit),
            };
        }
        verdict
    }
}

/// Why the text was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadText {
    /// At which instruction.
    pub address: u64,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is not defined, or goes on beyond the text.
    Undefined,
    /// It leads to a place within the function where no instruction starts, or only padding does.
    Target(u64),
    /// It calls a place within the function: a return may be from there.
    InnerCall(u64),
    /// It reads data that stands in the function: what looks like instructions may be none.
    Data(u64),
    /// It is a breakpoint, and what is in front of it goes on there: it hides an instruction.
    Breakpoint,
    /// It leaves the function from a part that no jump leads to: that only the name says that the
    /// part is the function's is not enough.
    Unreached,
    /// It returns and takes arguments off the stack, which the kernel does not do for an
    /// instruction that has a kprobe. C: `kprobe_emulate_ret()`.
    Pops,
    /// There is less memory than [`SweptFunction::words`] asks for.
    Memory,
}

/// A function that has been swept.
///
/// # Invariants
///
/// Every byte of the parts belongs to an instruction, or to padding or zeros at the end of a part.
/// A bit of `starts` is set where an instruction starts, and nowhere else; each direct branch leads
/// to such a place or out of the parts.
pub struct SweptFunction<'a, D> {
    parts: &'a [Part<'a>],
    starts: &'a [u64],
    /// Where it is entered: at its first byte, and behind `endbr64` or `bti`, where probes of the
    /// entry are and calls arrive that need no landing.
    entries: [u64; 2],
    decoder: PhantomData<D>,
}

impl<'a, D: Decoder> SweptFunction<'a, D> {
    /// How much memory a sweep takes.
    pub fn words(parts: &[Part<'_>]) -> usize {
        let places = |part: &Part<'_>| part.text.len().div_ceil(D::UNIT);
        parts
            .iter()
            .map(places)
            .fold(0, usize::saturating_add)
            .div_ceil(64)
    }

    /// Sweeps a function, whose entry is the first byte of the first part. No part reaches into
    /// another one.
    ///
    /// `memory` is for [`words`](Self::words), whatever is in them.
    pub fn sweep(parts: &'a [Part<'a>], memory: &'a mut [u64]) -> Result<Self, BadText> {
        let first = parts.first().unwrap_or(&Part::EMPTY);
        let memory = memory.get_mut(..Self::words(parts)).ok_or(BadText {
            address: first.address,
            reason: Reason::Memory,
        })?;
        memory.fill(0);
        for part in parts {
            mark::<D>(parts, part, memory)?;
        }
        let second = match D::decode(first.text, first.address) {
            Some(insn) if insn.flow == Flow::Landing => u64::from(insn.len),
            _ => 0,
        };
        let function = Self {
            parts,
            starts: memory,
            entries: [first.address, first.address.wrapping_add(second)],
            decoder: PhantomData,
        };
        for (address, insn) in function.instructions() {
            function
                .check(insn)
                .map_err(|reason| BadText { address, reason })?;
        }
        Ok(function)
    }

    fn check(&self, insn: Insn) -> Result<(), Reason> {
        let target = match insn.flow {
            Flow::ReturnPop => return Err(Reason::Pops),
            Flow::Literal(target) if self.contains(target) => return Err(Reason::Data(target)),
            Flow::Call(target) if self.stays(target) => return Err(Reason::InnerCall(target)),
            flow => flow.target(),
        };
        match target.filter(|target| self.contains(*target)) {
            Some(target) if !self.is_boundary(target) => Err(Reason::Target(target)),
            _ => Ok(()),
        }
    }

    /// Its instructions in the order of the parts, each with its address, padding included.
    pub fn instructions(&self) -> impl Iterator<Item = (u64, Insn)> + use<'a, D> {
        let sweep = |part: &'a Part<'a>| Sweep::<D>::new(part).map_while(Result::ok);
        self.parts.iter().flat_map(sweep)
    }

    /// Whether an instruction starts at this address; not where it is padding at the end of a part.
    pub fn is_boundary(&self, address: u64) -> bool {
        place::<D>(self.parts, address).is_some_and(|place| {
            let word = self.starts.get(place / 64);
            word.is_some_and(|word| word & bit(place) != 0)
        })
    }

    fn contains(&self, address: u64) -> bool {
        self.parts.iter().any(|part| part.offset(address).is_some())
    }

    /// Whether a jump to this address stays within the same call of the function.
    fn stays(&self, address: u64) -> bool {
        self.contains(address) && !self.is_entry(address)
    }

    fn is_entry(&self, address: u64) -> bool {
        self.entries.contains(&address)
    }

    /// The ways out, in the order of the parts. `symbols` tells what is at a target.
    pub fn exits<F>(&self, symbols: F) -> Exits<'_, 'a, D, F>
    where
        F: Fn(u64) -> Destination,
    {
        Exits {
            function: self,
            symbols,
            parts: self.parts.iter(),
            sweep: Sweep::new(&Part::EMPTY),
            end: None,
        }
    }

    /// What all the exits together mean.
    pub fn verdict(&self, symbols: impl Fn(u64) -> Destination) -> Verdict {
        Verdict::of(self.exits(symbols))
    }
}

/// The ways out of a function, see [`SweptFunction::exits`].
pub struct Exits<'f, 'a, D, F> {
    function: &'f SweptFunction<'a, D>,
    symbols: F,
    parts: slice::Iter<'a, Part<'a>>,
    sweep: Sweep<'a, D>,
    /// How the part would be left if it ended here.
    end: Option<Exit>,
}

impl<D, F> Iterator for Exits<'_, '_, D, F>
where
    D: Decoder,
    F: Fn(u64) -> Destination,
{
    type Item = Exit;

    fn next(&mut self) -> Option<Exit> {
        loop {
            let exit = match self.sweep.next() {
                Some(Ok((address, insn))) => {
                    self.pass(address, insn.flow);
                    self.kind(insn.flow).map(|kind| Exit { address, kind })
                }
                _ => {
                    let end = self.end.take();
                    match self.parts.next() {
                        Some(part) => self.sweep = Sweep::new(part),
                        None => return end,
                    }
                    end
                }
            };
            if exit.is_some() {
                return exit;
            }
        }
    }
}

impl<D, F> Exits<'_, '_, D, F>
where
    D: Decoder,
    F: Fn(u64) -> Destination,
{
    fn pass(&mut self, address: u64, flow: Flow) {
        let at = |kind| Some(Exit { address, kind });
        self.end = match flow {
            // It may be padding, which leads on to what follows, or, made of traps, nowhere.
            Flow::Nop => self.end,
            Flow::Trap | Flow::Breakpoint => {
                self.end.filter(|exit| exit.kind == ExitKind::NoReturn)
            }
            Flow::Call(_) | Flow::IndirectCall => at(ExitKind::NoReturn),
            Flow::Next | Flow::Landing | Flow::Literal(_) | Flow::Branch(_) => {
                at(ExitKind::FallThrough)
            }
            Flow::Jump(_)
            | Flow::IndirectJump
            | Flow::Return
            | Flow::ReturnPop
            | Flow::FarReturn => None,
        };
    }

    /// How an instruction leaves, if it does.
    fn kind(&self, flow: Flow) -> Option<ExitKind> {
        let (target, is_conditional) = match flow {
            Flow::Return | Flow::ReturnPop => return Some(ExitKind::Return),
            Flow::FarReturn => return Some(ExitKind::FarReturn),
            Flow::IndirectJump => return Some(ExitKind::IndirectTailCall),
            Flow::Jump(target) => (target, false),
            Flow::Branch(target) => (target, true),
            _ => return None,
        };
        if self.function.stays(target) {
            return None;
        }
        let destination = match self.function.is_entry(target) {
            true => Destination::Function,
            false => (self.symbols)(target),
        };
        Some(match destination {
            Destination::Part => ExitKind::Part { target },
            Destination::IndirectThunk => ExitKind::IndirectTailCall,
            // A probe there would also see those that do not return.
            Destination::ReturnThunk if !is_conditional => ExitKind::ReturnThunk,
            _ => ExitKind::TailCall {
                target,
                is_conditional,
            },
        })
    }
}

impl Part<'_> {
    const EMPTY: Part<'static> = Part {
        address: 0,
        text: &[],
    };

    /// How far into the part an address is, if it is within.
    fn offset(&self, address: u64) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        (offset < self.text.len()).then_some(offset)
    }
}

/// The instructions of a part, up to the first that is not one, or to where only zeros are left.
struct Sweep<'a, D> {
    address: u64,
    text: &'a [u8],
    /// How many zeros are at the end of the text.
    zeros: usize,
    decoder: PhantomData<D>,
}

impl<'a, D> Sweep<'a, D> {
    fn new(part: &Part<'a>) -> Self {
        let is_zero = |byte: &&u8| **byte == 0;
        Self {
            address: part.address,
            text: part.text,
            zeros: part.text.iter().rev().take_while(is_zero).count(),
            decoder: PhantomData,
        }
    }
}

impl<D: Decoder> Iterator for Sweep<'_, D> {
    type Item = Result<(u64, Insn), BadText>;

    fn next(&mut self) -> Option<Self::Item> {
        let address = self.address;
        let text = mem::take(&mut self.text);
        if text.len() <= self.zeros {
            return None;
        }
        let insn = D::decode(text, address);
        let rest = insn.and_then(|insn| text.get(usize::from(insn.len)..));
        let (Some(insn), Some(rest)) = (insn, rest) else {
            return Some(Err(BadText {
                address,
                reason: Reason::Undefined,
            }));
        };
        self.text = rest;
        self.address = address.wrapping_add(u64::from(insn.len));
        Some(Ok((address, insn)))
    }
}

/// Marks where the instructions of a part start, those of padding at its end left out: a branch
/// there leaves the function. A breakpoint is believed behind what does not go on there: a jump, a
/// return, a trap, or a call, which may be of what never returns.
fn mark<D: Decoder>(
    parts: &[Part<'_>],
    part: &Part<'_>,
    starts: &mut [u64],
) -> Result<(), BadText> {
    let mut end = 0_usize;
    let mut body = 0_usize;
    let mut goes_on = true;
    for step in Sweep::<D>::new(part) {
        let (address, insn) = step?;
        if insn.flow == Flow::Breakpoint && goes_on {
            let reason = Reason::Breakpoint;
            return Err(BadText { address, reason });
        }
        goes_on = match insn.flow {
            Flow::Next | Flow::Landing | Flow::Literal(_) | Flow::Branch(_) => true,
            Flow::Nop => goes_on,
            _ => false,
        };
        end = end.wrapping_add(usize::from(insn.len));
        if insn.flow != Flow::Nop {
            body = end;
        }
        set::<D>(parts, address, starts, true);
    }
    for offset in body..end {
        let address = part.address.wrapping_add(offset as u64);
        set::<D>(parts, address, starts, false);
    }
    Ok(())
}

fn set<D: Decoder>(parts: &[Part<'_>], address: u64, starts: &mut [u64], is_start: bool) {
    let Some(place) = place::<D>(parts, address) else {
        return;
    };
    if let Some(word) = starts.get_mut(place / 64) {
        match is_start {
            true => *word |= bit(place),
            false => *word &= !bit(place),
        }
    }
}

/// The number of a place where an instruction may start, over all parts.
fn place<D: Decoder>(parts: &[Part<'_>], address: u64) -> Option<usize> {
    let mut first = 0_usize;
    for part in parts {
        match part.offset(address) {
            Some(offset) if offset % D::UNIT == 0 => {
                return first.checked_add(offset / D::UNIT);
            }
            Some(_) => return None,
            None => first = first.checked_add(part.text.len().div_ceil(D::UNIT))?,
        }
    }
    None
}

fn bit(place: usize) -> u64 {
    1_u64.wrapping_shl((place % 64) as u32)
}
