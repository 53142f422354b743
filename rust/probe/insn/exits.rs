// SPDX-License-Identifier: GPL-2.0

//! Finds the exits of a function.
//!
//! The sweep decodes a function from its first byte to its last. Following the flow would miss the
//! code after a disabled jump label, and the code where exceptions continue. Each branch inside the
//! function must reach an instruction boundary of the sweep. Otherwise the sweep fails. Each
//! instruction that leaves the function is an [`Exit`]. All exits together decide the [`Verdict`].
//! The sweep ignores zeros at the end of the text: they separate the sections of a module and
//! follow the last section.
//!
//! A function can consist of several [`Part`]s: compilers move rarely executed code to `NAME.cold`.
//! If a jump reaches a part that the caller did not supply, the verdict is [`Verdict::Part`]. A
//! disabled jump label can hide the jump. Then only the part's name shows that the part exists, so
//! the caller must find it by its name.
//!
//! The caller reads the text, [recovers the probed
//! instructions](super::recover_probed_instructions), classifies targets ([`Destination`]), and
//! supplies memory: a bit for each possible start of an instruction. For any input, the sweep
//! decodes each byte twice, and each query of the exits decodes each byte once more. The sweep
//! compares each branch with each part.
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

/// A part of a function's text.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The address of the part.
    pub address: u64,
    /// The bytes up to the next symbol. Excludes bytes that belong to the next symbol, such as the
    /// words before a function on arm64.
    pub text: &'a [u8],
}

/// The object at a target outside of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A return thunk, see [`is_return_thunk`](super::x86::is_return_thunk).
    ReturnThunk,
    /// An indirect thunk, see [`is_indirect_thunk`](super::x86::is_indirect_thunk).
    IndirectThunk,
    /// A part of this function, see [`is_cold_part`].
    Part,
    /// Another function, or an unknown object.
    Function,
}

/// Whether a symbol is a part of this function that the compiler moved: `NAME.cold` or
/// `NAME.cold.N`. `NAME.part.N`, `NAME.isra.N` and similar symbols are separate functions, and can
/// have such parts themselves.
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

/// An exit of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The address of the instruction.
    pub address: u64,
    /// The kind of the exit.
    pub kind: ExitKind,
}

/// The kind of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// A return instruction.
    Return,
    /// A jump to a return thunk, which returns.
    ReturnThunk,
    /// A jump to a function, which then returns to the caller. Or a jump to the start of this
    /// function, which enters it again and returns once.
    TailCall {
        /// The address of the target.
        target: u64,
        /// Whether the jump is conditional.
        is_conditional: bool,
    },
    /// A jump to an address in a register or in memory: a tail call or a jump table.
    IndirectTailCall,
    /// An instruction that enters another privilege level or code segment.
    FarReturn,
    /// The code continues past the end of the function.
    FallThrough,
    /// A call is the last instruction, except for traps. The called function never returns,
    /// otherwise the compiler would have added code after the call.
    NoReturn,
    /// A jump to a part that the caller did not supply.
    Part {
        /// The address of the target.
        target: u64,
    },
}

/// The conclusion from all exits for a probe on the return instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The function leaves only by returns. Probes on all returns see the return of every call.
    Returns,
    /// The function has this exit. It is the first exit that is neither a return nor a call that
    /// never returns.
    TailCall(Exit),
    /// The function never returns.
    NoReturn,
    /// The caller did not supply the part at this target.
    Part(u64),
}

impl Verdict {
    /// The verdict for a list of exits.
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

/// The reason why the sweep fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadText {
    /// The address of the instruction.
    pub address: u64,
    /// The kind of the problem.
    pub reason: Reason,
}

/// The kind of a problem with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The instruction is undefined, or extends beyond the text.
    Undefined,
    /// The instruction branches to an address in the function where no instruction starts, or where
    /// padding is.
    Target(u64),
    /// The instruction calls an address in the function. A return can belong to this call.
    InnerCall(u64),
    /// The instruction reads data in the function. So some of the decoded instructions can be data.
    Data(u64),
    /// A breakpoint follows an instruction that continues. It hides an instruction.
    Breakpoint,
    /// The instruction leaves the function from a part that no jump reaches. The name alone does
    /// not prove that the part belongs to the function.
    Unreached,
    /// The return instruction removes arguments from the stack. The kernel does not emulate such a
    /// return for a kprobe. C: `kprobe_emulate_ret()`.
    Pops,
    /// The supplied memory is smaller than [`SweptFunction::words`].
    Memory,
}

/// A function after a successful sweep.
///
/// # Invariants
///
/// Every byte of the parts belongs to an instruction, to padding, or to zeros at the end of a part.
/// A bit of `starts` is set exactly where an instruction starts. Each direct branch reaches such a
/// place, or leaves the parts.
pub struct SweptFunction<'a, D> {
    parts: &'a [Part<'a>],
    starts: &'a [u64],
    /// The entries: the first byte, and the byte after `endbr64` or `bti`. Entry probes are at the
    /// second entry, and direct calls can reach it.
    entries: [u64; 2],
    decoder: PhantomData<D>,
}

impl<'a, D: Decoder> SweptFunction<'a, D> {
    /// The size of the memory that a sweep needs, in words.
    pub fn words(parts: &[Part<'_>]) -> usize {
        let places = |part: &Part<'_>| part.text.len().div_ceil(D::UNIT);
        parts
            .iter()
            .map(places)
            .fold(0, usize::saturating_add)
            .div_ceil(64)
    }

    /// Sweeps a function. Its entry is the first byte of the first part. The parts do not overlap.
    ///
    /// `memory` must have [`words`](Self::words) words. Their content does not matter.
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

    /// The instructions with their addresses, in the order of the parts, including padding.
    pub fn instructions(&self) -> impl Iterator<Item = (u64, Insn)> + use<'a, D> {
        let sweep = |part: &'a Part<'a>| Sweep::<D>::new(part).map_while(Result::ok);
        self.parts.iter().flat_map(sweep)
    }

    /// Whether an instruction starts at this address. Padding at the end of a part does not count.
    pub fn is_boundary(&self, address: u64) -> bool {
        self.is_set(address, self.starts)
    }

    /// The parts of the function.
    pub fn parts(&self) -> &'a [Part<'a>] {
        self.parts
    }

    /// Whether the bit for an instruction at this address is set in `words`.
    pub(super) fn is_set(&self, address: u64, words: &[u64]) -> bool {
        place::<D>(self.parts, address).is_some_and(|place| {
            let word = words.get(place / 64);
            word.is_some_and(|word| word & bit(place) != 0)
        })
    }

    /// Sets the bit for an instruction at this address in `words`.
    pub(super) fn set(&self, address: u64, words: &mut [u64]) {
        set::<D>(self.parts, address, words, true);
    }

    fn contains(&self, address: u64) -> bool {
        self.parts.iter().any(|part| part.offset(address).is_some())
    }

    /// Whether a jump to this address stays in the same call of the function.
    pub(super) fn stays(&self, address: u64) -> bool {
        self.contains(address) && !self.is_entry(address)
    }

    pub(super) fn is_entry(&self, address: u64) -> bool {
        self.entries.contains(&address)
    }

    /// The exits, in the order of the parts. `symbols` classifies targets.
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

    /// The verdict of all exits.
    pub fn verdict(&self, symbols: impl Fn(u64) -> Destination) -> Verdict {
        Verdict::of(self.exits(symbols))
    }
}

/// An iterator over the exits of a function. See [`SweptFunction::exits`].
pub struct Exits<'f, 'a, D, F> {
    function: &'f SweptFunction<'a, D>,
    symbols: F,
    parts: slice::Iter<'a, Part<'a>>,
    sweep: Sweep<'a, D>,
    /// The exit that the part would have if it ended here.
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
            // The instruction can be padding. After padding, the next code continues. Traps as
            // padding never continue.
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

    /// The kind of exit that an instruction is. `None` if it is not an exit.
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
            // A conditional jump to a return thunk: a probe would also hit when the jump is not
            // taken.
            Destination::ReturnThunk if !is_conditional => ExitKind::ReturnThunk,
            _ => ExitKind::TailCall {
                target,
                is_conditional,
            },
        })
    }
}

impl Part<'_> {
    pub(super) const EMPTY: Part<'static> = Part {
        address: 0,
        text: &[],
    };

    /// Whether an address is in the part.
    pub fn contains(&self, address: u64) -> bool {
        self.offset(address).is_some()
    }

    /// The offset of an address in the part. `None` if the address is outside.
    fn offset(&self, address: u64) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        (offset < self.text.len()).then_some(offset)
    }
}

/// An iterator over the instructions of a part. It ends at the first undefined instruction, or at
/// the zeros at the end of the text.
pub(super) struct Sweep<'a, D> {
    address: u64,
    text: &'a [u8],
    /// The number of zeros at the end of the text.
    zeros: usize,
    decoder: PhantomData<D>,
}

impl<'a, D> Sweep<'a, D> {
    pub(super) fn new(part: &Part<'a>) -> Self {
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

/// Marks the starts of a part's instructions. Does not mark the padding at its end, because a
/// branch into the padding leaves the function. A breakpoint is valid after an instruction that
/// does not continue: a jump, a return, a trap, or a call, because the called function may never
/// return.
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

/// The number of the possible start of an instruction at `address`, counted over all parts.
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
