// SPDX-License-Identifier: GPL-2.0

//! The callers at a hit.

use kernel::{
    str::CStr,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use probe::arch::Slot;

use crate::{
    arch::{
        self,
        ReturnCode, //
    },
    hit::{
        atomic::read_once,
        registers::{
            self,
            RegisterFile, //
        },
        stack, //
    },
    modules::module,
    symbols::symbol, //
};

/// The maximum number of addresses that [`callers`] writes.
const MAX_CALLERS: usize = 16;

/// The number of addresses that may precede the callers, if the walk begins in the handler.
const OWN: usize = 24;

/// The maximum distance from a probe to the instruction after its breakpoint or its call of
/// ftrace, in bytes.
const PROBE_LEN: usize = 16;

/// The names of the code that a function returns to if it has a kretprobe, or an fprobe at its
/// exit, in the order of [`ReturnCode`].
const RETURN_CODE_NAMES: [&CStr; 2] = [arch::RETURN_TRAMPOLINE, c"return_to_handler"];

/// This code: start and end, or 0.
static RETURN_CODE: [[Atomic<usize>; 2]; 2] = [const { [const { Atomic::new(0) }; 2] }; 2];

/// Finds what makes [`State::callers`](super::origin::State::callers) fast and exact at returns,
/// and what [`State::caller`](super::origin::State::caller) needs in calls with return probes.
///
/// Only rkprobe uses this function. Other modules cannot use it. Process context; sleeps.
#[export_name = "ktrace_own_prepare_callers"]
pub fn prepare_callers() {
    for ([start, end], name) in RETURN_CODE.iter().zip(RETURN_CODE_NAMES) {
        // The kernel may have no such code.
        let extent = symbol::address_of(name).ok().and_then(symbol::extent);
        if let Some((address, len)) = extent {
            end.store(address.wrapping_add(len), Relaxed);
            start.store(address, Relaxed);
        }
    }
}

/// Whether a function with a return probe returns to this code.
fn is_return_code(address: usize) -> bool {
    let mut code = RETURN_CODE.iter();
    code.any(|[start, end]| (read_once(start)..read_once(end)).contains(&address))
}

/// The addresses at which this code starts.
fn return_code() -> ReturnCode {
    let [[kretprobe, _], [graph, _]] = &RETURN_CODE;
    ReturnCode {
        kretprobe: read_once(kretprobe),
        graph: read_once(graph),
    }
}

/// The address that a function returns to, if these are its registers at its entry or at an
/// instruction that returns. Any context.
#[inline(never)]
pub(super) fn caller(registers: impl RegisterFile) -> usize {
    let address = match arch::RETURN_ADDRESS {
        Slot::Register(register) => registers.get(register),
        Slot::Stack(n) => registers::stack(registers, n),
    } as usize;
    match is_return_code(address) {
        true => arch::true_caller(address, registers.get(arch::CALL_PLACE), &return_code()),
        false => address,
    }
}

/// Writes the addresses of the callers at a hit to `to`, the innermost first, and 0 after the last
/// one. Writes at most [`MAX_CALLERS`].
///
/// `probe` is the address of the probe. At a return, `caller` is the address that the function
/// returns to, and the first one. Without the place of the hit on the stack, the callers begin
/// outside of the module that contains ktrace. Any context.
#[inline(never)]
pub(super) fn callers(
    registers: impl RegisterFile,
    probe: usize,
    caller: Option<usize>,
    to: &mut [u64],
) {
    let mut room = [0usize; OWN + MAX_CALLERS];
    let found = match caller {
        None => callers_at_probe(registers, probe, &mut room),
        Some(caller) => callers_at_return(registers, caller, &mut room),
    };
    let padded = found.iter().copied().chain(core::iter::repeat(0));
    for (to, address) in to.iter_mut().take(MAX_CALLERS).zip(padded) {
        *to = address as u64;
    }
}

fn callers_at_probe(registers: impl RegisterFile, probe: usize, room: &mut [usize]) -> &[usize] {
    let quick = room.get_mut(..MAX_CALLERS).unwrap_or(&mut []);
    let len = arch::callers(registers, probe, &return_code(), quick);
    if len > 0 {
        return room.get(..len).unwrap_or(&[]);
    }
    let len = stack::save(room);
    let stack = room.get(..len).unwrap_or(&[]);
    let is_probe = |address: &usize| address.wrapping_sub(probe) <= PROBE_LEN;
    let first = match stack.iter().position(is_probe) {
        Some(probe) => probe + 1,
        None => first_outside(stack),
    };
    stack.get(first..).unwrap_or(&[])
}

fn callers_at_return(registers: impl RegisterFile, caller: usize, room: &mut [usize]) -> &[usize] {
    // Another return probe of the function may have the true caller.
    let code = return_code();
    let caller = arch::true_caller_at_return(registers, caller, &code);
    let is_known = !is_return_code(caller);
    if let Some((first, rest)) = room
        .get_mut(..MAX_CALLERS)
        .and_then(|quick| quick.split_first_mut())
        .filter(|_| is_known)
    {
        *first = caller;
        let len = arch::callers(registers, caller, &code, rest);
        if len > 0 {
            return room.get(..len + 1).unwrap_or(&[]);
        }
    }
    let len = stack::save(room);
    let stack = room.get(..len).unwrap_or(&[]);
    let start = match stack.iter().position(|address| *address == caller) {
        Some(start) => start,
        None => {
            let outside = first_outside(stack);
            let mut returns = stack.iter().enumerate().skip(outside).take(RETURN_FRAMES);
            match returns.rfind(|(_, address)| is_return_code(**address)) {
                // On arm64, the caller is not on the stack.
                Some((last, _)) if is_known => {
                    if let Some(place) = room.get_mut(last) {
                        *place = caller;
                    }
                    last
                }
                Some((last, _)) => last + 1,
                None => outside,
            }
        }
    };
    room.get(start..len).unwrap_or(&[])
}

/// The position of the first address outside of the module that contains ktrace.
fn first_outside(stack: &[usize]) -> usize {
    let outside = stack.iter().position(|address| !module::is_own(*address));
    outside.unwrap_or(0)
}

/// The number of addresses of the kernel from the return of a function to the handler.
const RETURN_FRAMES: usize = 8;
