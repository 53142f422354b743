// SPDX-License-Identifier: GPL-2.0

//! Operations that attach perf and BPF, and that use the registers of watchpoints.

use std::{
    fs,
    io,
    sync::atomic::{
        AtomicU64,
        Ordering::Relaxed, //
    }, //
};

use crate::{
    bpf::{
        Counter,
        Use, //
    },
    grammar::{
        self,
        FILES,
        GROUPS, //
    },
    hits,
    rng::Rng,
    symbols,
    sys::{
        self,
        Perf,
        Ring, //
    },
    worker::{
        command,
        random_event,
        write,
        Worker,
        SLOTS, //
    },
};

use super::machine::CPUS;

/// The number of an event. `event` is its directory.
pub fn id(event: &str) -> io::Result<u64> {
    let id = fs::read_to_string(format!("{event}/id"))?;
    id.trim().parse().map_err(io::Error::other)
}

/// Opens an event for perf, sometimes with memory for samples.
pub fn perf(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let event = random_event(rng);
    let (slot, cpu) = (rng.below(SLOTS), rng.below(CPUS + 1).checked_sub(1));
    let has_ring = cpu.is_some() && rng.one_in(2);
    worker.note(format_args!("{event} on {cpu:?} in {slot} {has_ring}"));
    let file = sys::perf_open(Perf::Samples(id(&event)?), cpu)?;
    let ring = has_ring.then(|| Ring::map(&file)).transpose()?;
    worker.keep(slot, file);
    worker.keep_ring(slot, ring);
    Ok(())
}

/// Runs a BPF program at the hits of an event, or with the kernel's own fprobe at the calls of
/// functions that have probes.
pub fn bpf(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let event = random_event(rng);
    let (slot, cpu) = (rng.below(SLOTS), rng.below(CPUS + 1).checked_sub(1));
    let of_functions = rng.one_in(2);
    let functions: Vec<_> = (0..1 + rng.below(3))
        .map(|_| grammar::kernel_function(rng))
        .collect();
    let reads_record = rng.one_in(2);
    if of_functions {
        worker.note(format_args!("{} in {slot}", functions.join(",")));
        let link = Counter::load(Use::Functions)?.link(&functions)?;
        worker.keep(slot, link);
    } else {
        worker.note(format_args!("{event} on {cpu:?} in {slot} {reads_record}"));
        let file = sys::perf_open(Perf::Samples(id(&event)?), cpu)?;
        Counter::load(Use::Event { reads_record })?.attach(&file)?;
        worker.keep(slot, file);
    }
    Ok(())
}

/// Takes a register for a watchpoint of this process, for as long as the file is held.
pub fn breakpoint(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    static WATCHED: AtomicU64 = AtomicU64::new(0);
    let (slot, cpu) = (rng.below(SLOTS), rng.below(CPUS + 1).checked_sub(1));
    worker.note(format_args!("on {cpu:?} in {slot}"));
    let file = sys::perf_open(Perf::Writes((&raw const WATCHED).addr()), cpu)?;
    WATCHED.fetch_add(1, Relaxed);
    worker.keep(slot, file);
    Ok(())
}

/// Watches a variable of the kernel for some calls. Not for longer: if the kernel uses the variable
/// all the time, the machine hardly does anything else.
pub fn watch(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let event = format!("s{}/w{}", rng.below(GROUPS), rng.below(2));
    let text = format!(
        "w:{event} {}{}",
        symbols::watched(rng),
        grammar::watched(rng)
    );
    let _ = write(&format!("events/{event}/enable"), b"0");
    let _ = write(FILES[1], format!("-:{event}").as_bytes());
    command(worker, FILES[1], text.as_bytes())?;
    write(&format!("events/{event}/enable"), b"1")?;
    for _ in 0..rng.below(20) {
        hits::hit(rng.below(hits::COUNT));
    }
    write(&format!("events/{event}/enable"), b"0")
}
