// SPDX-License-Identifier: GPL-2.0

//! `probe::insn` against the disassembler: each instruction of each symbol, and each function's exits
//! and blocks.

use std::{
    collections::{
        BTreeMap,
        HashMap, //
    },
    fmt, //
};

use object::Architecture;
use probe::insn::{
    arm64::Arm64,
    blocks::{
        Block,
        Blocks,
        UnknownBlocks, //
    },
    exits::{
        is_cold_part,
        BadText,
        Destination,
        Exit,
        ExitKind,
        Part,
        Reason,
        SweptFunction,
        Verdict, //
    },
    x86::{
        self,
        X86, //
    },
    Decoder,
    Flow, //
};

use crate::{
    image::{
        is_cold,
        Image,
        Symbol, //
    },
    listing::{
        Does,
        Insn,
        Listing,
        FAULTS, //
    },
    oracle::{
        self,
        Piece, //
    },
};

/// What was compared.
#[derive(Debug, Default)]
pub struct Report {
    pub bytes: u64,
    pub insns: u64,
    pub functions: u64,
    /// The functions whose blocks are known, and their blocks.
    pub with_blocks: u64,
    pub blocks: u64,
    /// Each with its place, its bytes, and what both say.
    pub differing_insns: Vec<String>,
    pub differing_functions: Vec<String>,
    /// Each function, with its verdict.
    pub list: Vec<String>,
    /// How many functions there are of each verdict, and why.
    pub verdicts: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// How many instructions return, by the thunk.
    pub returns: BTreeMap<String, u64>,
    pub cold: Cold,
    /// How often each fault of the disassembler occurred.
    pub faults: [u64; FAULTS.len()],
}

/// The parts that compilers have moved away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cold {
    /// A jump of their function leads to it.
    pub by_jump: u64,
    /// Only the name tells.
    pub by_name: u64,
    pub all: u64,
}

impl Report {
    /// With that of another image.
    pub fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.insns += other.insns;
        self.functions += other.functions;
        self.with_blocks += other.with_blocks;
        self.blocks += other.blocks;
        self.differing_insns.extend(other.differing_insns);
        self.differing_functions.extend(other.differing_functions);
        self.list.extend(other.list);
        for (verdict, reasons) in other.verdicts {
            let all = self.verdicts.entry(verdict).or_default();
            for (reason, count) in reasons {
                *all.entry(reason).or_default() += count;
            }
        }
        for (thunk, count) in other.returns {
            *self.returns.entry(thunk).or_default() += count;
        }
        self.cold.by_jump += other.cold.by_jump;
        self.cold.by_name += other.cold.by_name;
        self.cold.all += other.cold.all;
        for (count, more) in self.faults.iter_mut().zip(other.faults) {
            *count += more;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in self.differing_insns.iter().chain(&self.differing_functions) {
            writeln!(f, "  differs: {difference}")?;
        }
        let (insns, functions) = (self.differing_insns.len(), self.differing_functions.len());
        writeln!(f, "  {} bytes of text", self.bytes)?;
        writeln!(f, "  {:9} instructions, {insns} differing", self.insns)?;
        writeln!(f, "  {:9} functions, {functions} differing", self.functions)?;
        let (with_blocks, blocks) = (self.with_blocks, self.blocks);
        writeln!(f, "  {blocks:9} blocks of {with_blocks} functions")?;
        for (verdict, reasons) in &self.verdicts {
            let count: u64 = reasons.values().sum();
            let share = count as f64 * 100.0 / self.functions as f64;
            write!(f, "  {count:9} {share:5.2}%  {verdict}")?;
            let named = reasons.iter().filter(|(reason, _)| !reason.is_empty());
            let named: Vec<_> = named.map(|(why, n)| format!("{why} {n}")).collect();
            let separator = if named.is_empty() { "" } else { ": " };
            writeln!(f, "{separator}{}", named.join(", "))?;
        }
        let returns: Vec<_> = self
            .returns
            .iter()
            .map(|(how, n)| format!("{how} {n}"))
            .collect();
        writeln!(f, "  sites of returns: {}", returns.join(", "))?;
        let Cold {
            by_jump,
            by_name,
            all,
        } = self.cold;
        let others = all - by_jump - by_name;
        writeln!(
            f,
            "  parts moved away: {by_jump} found by a jump, {by_name} by name, {others} not"
        )?;
        for (fault, count) in FAULTS
            .iter()
            .zip(self.faults)
            .filter(|(_, count)| *count > 0)
        {
            writeln!(
                f,
                "  not known to the disassembler: {} {count}",
                fault.bytes
            )?;
        }
        Ok(())
    }
}

/// Compares an image with its listing.
pub fn compare(image: &Image, listing: &Listing) -> Report {
    let comparison = Comparison::new(image, &listing.insns);
    let report = match image.architecture {
        Architecture::Aarch64 => comparison.run::<Arm64>(),
        _ => comparison.run::<X86>(),
    };
    Report {
        faults: listing.faults,
        ..report
    }
}

struct Comparison<'a> {
    image: &'a Image,
    insns: &'a [Insn],
    /// Symbols by their names.
    named: HashMap<&'a str, Vec<usize>>,
    report: Report,
}

/// What a decoder says of a function.
type Found = Result<(Vec<Exit>, Verdict), BadText>;

/// The blocks of a function, or the place of the first jump whose target is unknown. `None` if the
/// text is not understood.
type FoundBlocks = Option<Result<Vec<Block>, u64>>;

impl<'a> Comparison<'a> {
    fn new(image: &'a Image, insns: &'a [Insn]) -> Self {
        let mut named: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, symbol) in image.symbols.iter().enumerate() {
            for name in &symbol.names {
                named.entry(name).or_default().push(index);
            }
        }
        Self {
            image,
            insns,
            named,
            report: Report::default(),
        }
    }

    fn run<D: Decoder>(mut self) -> Report {
        for (index, symbol) in self.image.symbols.iter().enumerate() {
            let Some(part) = self.image.part(index) else {
                continue;
            };
            self.instructions::<D>(part);
            self.report.cold.all += u64::from(symbol.names.iter().any(|name| is_cold(name)));
            if symbol.is_function() {
                self.function::<D>(index);
            }
        }
        self.report
    }

    /// What the disassembler says of the text of a symbol.
    fn piece(&self, part: Part<'_>) -> Piece<'a> {
        let end = part.address + part.text.len() as u64;
        let zeros = part
            .text
            .rsplit(|byte| *byte != 0)
            .next()
            .map_or(0, <[u8]>::len);
        let zeros = end - zeros as u64;
        let index = |address| self.insns.partition_point(|insn| insn.address < address);
        Piece {
            insns: &self.insns[index(part.address)..index(zeros)],
            start: part.address,
            zeros,
            end,
        }
    }

    /// Each instruction, up to the first that is none for both.
    fn instructions<D: Decoder>(&mut self, part: Part<'_>) {
        let piece = self.piece(part);
        self.report.bytes += part.text.len() as u64;
        let mut theirs = piece.insns.iter();
        let mut address = part.address;
        while address < piece.zeros {
            let rest = &part.text[(address - part.address) as usize..];
            let their = theirs.next().filter(|insn| insn.address == address);
            // The disassembler does not mind that another symbol begins.
            let does = their.map_or(Does::Unknown, |insn| match insn.len {
                len if usize::from(len) > rest.len() => Does::Unknown,
                _ => insn.does,
            });
            let our = D::decode(rest, address);
            match (our, their) {
                (None, _) if does == Does::Unknown => return,
                (Some(our), Some(their)) if our.len == their.len && agree(our.flow, does) => {
                    self.report.insns += 1;
                    self.count_return(does);
                    address += u64::from(our.len);
                }
                _ => {
                    let bytes = &rest[..rest.len().min(x86::MAX_LEN)];
                    let place = self.image.place(address);
                    let len = their.map_or(0, |insn| insn.len);
                    self.report.differing_insns.push(format!(
                        "{place} ({address:#x}): {bytes:02x?}: {our:x?}; the disassembler: {len} bytes, {does:x?}"
                    ));
                    return;
                }
            }
        }
    }

    fn count_return(&mut self, does: Does) {
        let thunk = match does {
            Does::Return => "ret",
            Does::Jump(target) => {
                let names = self.image.names_at(target);
                match names.iter().find(|name| name.ends_with("_return_thunk")) {
                    Some(name) => name,
                    None => return,
                }
            }
            _ => return,
        };
        *self.report.returns.entry(thunk.to_owned()).or_default() += 1;
    }

    /// A function's exits, with all its parts.
    fn function<D: Decoder>(&mut self, index: usize) {
        let symbol = &self.image.symbols[index];
        let mut indices = vec![index];
        let (mut by_jump, mut by_name) = (0, 0);
        let (ours, pieces) = loop {
            let part = |index: &usize| self.image.part(*index).expect("it has text");
            let parts: Vec<Part<'_>> = indices.iter().map(part).collect();
            let ours = self.ours::<D>(symbol, &parts);
            let found = match &ours {
                Ok((_, Verdict::Part(target))) => self.image.symbol(*target),
                _ => None,
            };
            let more = found.or_else(|| self.cold_by_name(symbol));
            match more.filter(|index| !indices.contains(index)) {
                Some(more) => {
                    by_jump += u64::from(found.is_some());
                    by_name += u64::from(found.is_none());
                    indices.push(more);
                }
                None => {
                    let pieces: Vec<_> = parts.iter().map(|part| self.piece(*part)).collect();
                    break (ours, pieces);
                }
            }
        };
        let theirs = oracle::exits(self.image, symbol, &pieces).map(|exits| {
            let verdict = oracle::verdict(&exits);
            (exits, verdict)
        });
        let our_blocks = {
            let part = |index: &usize| self.image.part(*index).expect("it has text");
            let parts: Vec<Part<'_>> = indices.iter().map(part).collect();
            self.our_blocks::<D>(symbol, &parts)
        };
        let their_blocks = theirs.as_ref().ok();
        let their_blocks = their_blocks.map(|(exits, _)| oracle::blocks(&pieces, exits));
        if let Some(Ok(blocks)) = &our_blocks {
            self.report.with_blocks += 1;
            self.report.blocks += blocks.len() as u64;
        }
        self.report.cold.by_jump += by_jump;
        self.report.cold.by_name += by_name;
        self.report.functions += 1;
        let (verdict, reason) = describe(&ours);
        let reasons = self.report.verdicts.entry(verdict).or_default();
        *reasons.entry(reason).or_default() += 1;
        let at = match &ours {
            Err(bad) => bad.address,
            Ok((_, Verdict::TailCall(exit))) => exit.address,
            Ok(_) => symbol.address,
        };
        let place = self.image.place(at);
        self.report
            .list
            .push(format!("{}\t{verdict}\t{reason}\t{place}", symbol.name()));
        if ours != theirs {
            let (name, address) = (symbol.name(), symbol.address);
            self.report.differing_functions.push(format!(
                "{name} ({address:#x}): {ours:x?}; by the disassembler: {theirs:x?}"
            ));
        } else if our_blocks != their_blocks {
            let (name, address) = (symbol.name(), symbol.address);
            self.report.differing_functions.push(format!(
                "{name} ({address:#x}): {our_blocks:x?}; by the disassembler: {their_blocks:x?}"
            ));
        }
    }

    fn our_blocks<D: Decoder>(&self, symbol: &Symbol, parts: &[Part<'_>]) -> FoundBlocks {
        let words = SweptFunction::<D>::words(parts);
        let (mut starts, mut targets) = (vec![0; words], vec![0; words]);
        let function = SweptFunction::<D>::sweep(parts, &mut starts).ok()?;
        let destination = |target| self.destination(symbol, target);
        Some(match Blocks::find(&function, &mut targets, destination) {
            Ok(blocks) => Ok(blocks.collect()),
            Err(UnknownBlocks::Jump(address)) => Err(address),
            Err(UnknownBlocks::Memory) => unreachable!("there are enough words"),
        })
    }

    fn ours<D: Decoder>(&self, symbol: &Symbol, parts: &[Part<'_>]) -> Found {
        let mut starts = vec![0; SweptFunction::<D>::words(parts)];
        let function = SweptFunction::<D>::sweep(parts, &mut starts)?;
        let destination = |target| self.destination(symbol, target);
        let exits = function.exits(destination).collect();
        Ok((exits, function.verdict(destination)))
    }

    fn destination(&self, function: &Symbol, target: u64) -> Destination {
        let names = self.image.names_at(target);
        if names.iter().any(|name| x86::is_return_thunk(name)) {
            return Destination::ReturnThunk;
        }
        if names.iter().any(|name| x86::is_indirect_thunk(name)) {
            return Destination::IndirectThunk;
        }
        let is_within = |part: Part<'_>| target - part.address < part.text.len() as u64;
        let is_part = |name: &String| function.names.iter().any(|f| is_cold_part(name, f));
        match self.image.symbol(target) {
            Some(index)
                if self.image.symbols[index].names.iter().any(is_part)
                    && self.image.part(index).is_some_and(is_within) =>
            {
                Destination::Part
            }
            _ => Destination::Function,
        }
    }

    /// The only part that is named after the only function of a name.
    fn cold_by_name(&self, function: &Symbol) -> Option<usize> {
        let only = |name: &str| match self.named.get(name).map(Vec::as_slice) {
            Some([index]) => self.image.part(*index).map(|_| *index),
            _ => None,
        };
        let of = |name: &String| only(name).and_then(|_| only(&format!("{name}.cold")));
        function.names.iter().find_map(of)
    }
}

fn agree(flow: Flow, does: Does) -> bool {
    let same = match flow {
        Flow::Next => Does::Plain,
        Flow::Nop => Does::Nop,
        Flow::Landing => Does::Landing,
        Flow::Literal(target) => Does::Reads(target),
        Flow::Call(target) => Does::Call(target),
        Flow::IndirectCall => Does::CallIndirect,
        Flow::Jump(target) => Does::Jump(target),
        Flow::Branch(target) => Does::Branch(target),
        Flow::IndirectJump => Does::JumpIndirect,
        Flow::Return => Does::Return,
        Flow::ReturnPop => Does::ReturnPop,
        Flow::FarReturn => Does::Leave,
        Flow::Trap => Does::Trap,
        Flow::Breakpoint => Does::Breakpoint,
    };
    does == same
}

/// The verdict, and what it is for.
fn describe(found: &Found) -> (&'static str, &'static str) {
    let (exits, verdict) = match found {
        Ok(found) => found,
        Err(bad) => {
            let reason = match bad.reason {
                Reason::Undefined => "no instruction",
                Reason::Target(_) => "jump to no instruction",
                Reason::InnerCall(_) => "call within",
                Reason::Data(_) => "data within",
                Reason::Breakpoint => "a breakpoint in the flow",
                Reason::Unreached => "a part that no jump leads to",
                Reason::Pops => "a return that takes arguments off the stack",
                Reason::Memory => "memory",
            };
            return ("text not understood", reason);
        }
    };
    let is_return = |exit: &Exit| matches!(exit.kind, ExitKind::Return | ExitKind::ReturnThunk);
    match verdict {
        Verdict::Returns => ("returns only", ""),
        Verdict::NoReturn => ("never returns", ""),
        Verdict::Part(_) => ("a part is missing", ""),
        Verdict::TailCall(exit) => {
            let verdict = match exits.iter().any(is_return) {
                true => "returns, and tail calls",
                false => "tail calls only",
            };
            let reason = match exit.kind {
                ExitKind::TailCall {
                    is_conditional: true,
                    ..
                } => "first conditional",
                ExitKind::TailCall { .. } => "first direct",
                ExitKind::IndirectTailCall => "first indirect",
                ExitKind::FarReturn => "first far",
                _ => "first by falling through",
            };
            (verdict, reason)
        }
    }
}
