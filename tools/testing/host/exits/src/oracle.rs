// SPDX-License-Identifier: GPL-2.0

//! Where a function leaves, and its blocks, by the disassembler's text: the rules of
//! `probe::insn::exits` and `probe::insn::blocks`, written once more, over mnemonics, targets and
//! names.

use std::collections::BTreeSet;

use probe::insn::{
    blocks::Block,
    exits::{
        BadText,
        Exit,
        ExitKind,
        Reason,
        Verdict, //
    },
};

use crate::{
    image::{
        Image,
        Symbol, //
    },
    listing::{
        Does,
        Insn, //
    },
};

/// A part of a function.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Those that start before `zeros`.
    pub insns: &'a [Insn],
    pub start: u64,
    /// From where on there are only zeros.
    pub zeros: u64,
    /// Where the next symbol is.
    pub end: u64,
}

impl<'a> Piece<'a> {
    /// Without padding at its end.
    fn body(&self) -> &'a [Insn] {
        let is_nop = |insn: &&Insn| insn.does == Does::Nop;
        let padding = self.insns.iter().rev().take_while(is_nop).count();
        &self.insns[..self.insns.len() - padding]
    }

    fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// What was not understood, if anything.
    fn gap(&self) -> Option<u64> {
        let mut next = self.start;
        for insn in self.insns {
            if insn.address != next || insn.does == Does::Unknown {
                return Some(next);
            }
            next += u64::from(insn.len);
            if next > self.end {
                return Some(insn.address);
            }
        }
        (next < self.zeros).then_some(next)
    }
}

/// The ways out of a function, or why there is no saying.
///
/// # Errors
///
/// The first instruction that is wrong.
pub fn exits(image: &Image, function: &Symbol, pieces: &[Piece<'_>]) -> Result<Vec<Exit>, BadText> {
    let bad = |address, reason| BadText { address, reason };
    if let Some(address) = pieces.iter().find_map(Piece::gap) {
        return Err(bad(address, Reason::Undefined));
    }
    for piece in pieces {
        // The last instruction before a breakpoint, except nops.
        let mut before = Does::Plain;
        for insn in piece.insns {
            let goes_on = matches!(
                before,
                Does::Plain | Does::Landing | Does::Reads(_) | Does::Branch(_)
            );
            if goes_on && insn.does == Does::Breakpoint {
                return Err(bad(insn.address, Reason::Breakpoint));
            }
            if insn.does != Does::Nop {
                before = insn.does;
            }
        }
    }
    let entry = pieces[0].start;
    let landing = match pieces[0].insns.first() {
        Some(Insn {
            does: Does::Landing,
            len,
            ..
        }) => entry + u64::from(*len),
        _ => entry,
    };
    let is_entry = |target| target == entry || target == landing;
    let is_inside = |target| pieces.iter().any(|piece| piece.contains(target));
    let is_instruction = |target: u64| {
        let is_there = |piece: &Piece<'_>| {
            let at = piece
                .body()
                .binary_search_by_key(&target, |insn| insn.address);
            at.is_ok()
        };
        pieces.iter().any(is_there)
    };

    for insn in pieces.iter().flat_map(|piece| piece.insns) {
        let reason = match insn.does {
            Does::ReturnPop => Reason::Pops,
            Does::Reads(target) if is_inside(target) => Reason::Data(target),
            Does::Call(target) if is_inside(target) && !is_entry(target) => {
                Reason::InnerCall(target)
            }
            Does::Call(target) | Does::Jump(target) | Does::Branch(target)
                if is_inside(target) && !is_instruction(target) =>
            {
                Reason::Target(target)
            }
            _ => continue,
        };
        return Err(bad(insn.address, reason));
    }

    let mut exits = vec![];
    for piece in pieces {
        for insn in piece.insns {
            let kind = match insn.does {
                Does::Return => ExitKind::Return,
                Does::Leave => ExitKind::FarReturn,
                Does::JumpIndirect => ExitKind::IndirectTailCall,
                Does::Jump(target) | Does::Branch(target)
                    if !is_inside(target) || is_entry(target) =>
                {
                    let is_conditional = matches!(insn.does, Does::Branch(_));
                    match is_entry(target) {
                        true => ExitKind::TailCall {
                            target,
                            is_conditional,
                        },
                        false => leaves_for(image, function, target, is_conditional),
                    }
                }
                _ => continue,
            };
            let address = insn.address;
            exits.push(Exit { address, kind });
        }
        exits.extend(end(piece));
    }
    Ok(exits)
}

/// What a jump to somewhere else is.
fn leaves_for(image: &Image, function: &Symbol, target: u64, is_conditional: bool) -> ExitKind {
    let names = image.names_at(target);
    if names.iter().any(|name| name.starts_with("__x86_indirect_")) {
        return ExitKind::IndirectTailCall;
    }
    if !is_conditional && names.iter().any(|name| name.ends_with("_return_thunk")) {
        return ExitKind::ReturnThunk;
    }
    let around = image.symbol(target).filter(|index| {
        let part = image.part(*index);
        part.is_some_and(|part| target < part.address + part.text.len() as u64)
    });
    let around = around.map_or(&[][..], |index| &image.symbols[index].names);
    let is_cold = |name: &String| {
        let (stem, number) = match name.rsplit_once(".cold.") {
            Some((stem, number)) => (Some(stem), number),
            None => (name.strip_suffix(".cold"), "0"),
        };
        stem.is_some_and(|stem| function.names.iter().any(|name| name == stem))
            && number.parse::<u64>().is_ok()
    };
    match around.iter().any(is_cold) {
        true => ExitKind::Part { target },
        false => ExitKind::TailCall {
            target,
            is_conditional,
        },
    }
}

/// How a piece is left at its end: what is last, padding aside, goes on, or is a call that
/// does not come back.
fn end(piece: &Piece<'_>) -> Option<Exit> {
    let is_filling = |insn: &&Insn| matches!(insn.does, Does::Nop | Does::Trap | Does::Breakpoint);
    let filling = piece.insns.iter().rev().take_while(is_filling).count();
    let (rest, filling) = piece.insns.split_at(piece.insns.len() - filling);
    let last = rest.last()?;
    let kind = match last.does {
        Does::Call(_) | Does::CallIndirect => ExitKind::NoReturn,
        Does::Plain | Does::Landing | Does::Reads(_) | Does::Branch(_)
            if filling.iter().all(|insn| insn.does == Does::Nop) =>
        {
            ExitKind::FallThrough
        }
        _ => return None,
    };
    let address = last.address;
    Some(Exit { address, kind })
}

/// What the exits of a function mean.
pub fn verdict(exits: &[Exit]) -> Verdict {
    let part = exits.iter().find_map(|exit| match exit.kind {
        ExitKind::Part { target } => Some(target),
        _ => None,
    });
    if let Some(target) = part {
        return Verdict::Part(target);
    }
    let is_return = |exit: &Exit| matches!(exit.kind, ExitKind::Return | ExitKind::ReturnThunk);
    let is_tail = |exit: &&Exit| !is_return(exit) && exit.kind != ExitKind::NoReturn;
    match exits.iter().find(is_tail) {
        Some(exit) => Verdict::TailCall(*exit),
        None if exits.iter().any(is_return) => Verdict::Returns,
        None => Verdict::NoReturn,
    }
}

/// The blocks of a function with these exits, or the place of the first jump whose target is unknown.
///
/// # Errors
///
/// The address of the jump.
pub fn blocks(pieces: &[Piece<'_>], exits: &[Exit]) -> Result<Vec<Block>, u64> {
    let unknown = exits.iter().find(|exit| {
        matches!(
            exit.kind,
            ExitKind::IndirectTailCall | ExitKind::Part { .. }
        )
    });
    if let Some(exit) = unknown {
        return Err(exit.address);
    }
    let leaves: BTreeSet<u64> = exits.iter().map(|exit| exit.address).collect();
    let inner = |insn: &Insn| match insn.does {
        Does::Jump(target) | Does::Branch(target) if !leaves.contains(&insn.address) => {
            Some(target)
        }
        _ => None,
    };
    let all = pieces.iter().flat_map(Piece::body);
    let targets: BTreeSet<u64> = all.filter_map(inner).collect();
    let is_end = |does| {
        matches!(
            does,
            Does::Jump(_) | Does::Return | Does::ReturnPop | Does::Leave | Does::Trap
        )
    };

    let mut blocks: Vec<Block> = vec![];
    for piece in pieces {
        // Without filling: breakpoints, and the nops after them or after an instruction that ends.
        let mut rest: Vec<(Insn, bool)> = vec![];
        let (mut is_filling, mut is_cut) = (false, true);
        for insn in piece.body() {
            let is_target = targets.contains(&insn.address);
            is_filling = match insn.does {
                Does::Breakpoint => !is_target,
                Does::Nop => is_filling && !is_target,
                _ => false,
            };
            if insn.does == Does::Breakpoint && is_filling {
                is_cut = true;
            }
            if !is_filling {
                rest.push((*insn, is_cut));
                is_cut = false;
            }
            is_filling |= is_end(insn.does) || insn.does == Does::Breakpoint;
        }
        for (index, (insn, is_cut)) in rest.iter().enumerate() {
            let before = index.checked_sub(1).map(|index| &rest[index].0);
            let starts = before.is_none_or(|before| {
                is_end(before.does)
                    || matches!(before.does, Does::Branch(_) | Does::Breakpoint)
                    || insn.does == Does::Landing
                    || targets.contains(&insn.address)
            });
            if starts || *is_cut {
                blocks.push(Block {
                    address: insn.address,
                    last: insn.address,
                    next: None,
                    target: None,
                });
            }
            let block = blocks.last_mut().expect("the first instruction starts one");
            block.last = insn.address;
            block.target = inner(insn);
            let goes_on = insn.does == Does::Trap || !is_end(insn.does);
            block.next = match rest.get(index + 1) {
                Some((next, false)) if goes_on && insn.does != Does::Breakpoint => {
                    Some(next.address)
                }
                _ => None,
            };
        }
    }
    Ok(blocks)
}
