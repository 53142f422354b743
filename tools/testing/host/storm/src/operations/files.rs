// SPDX-License-Identifier: GPL-2.0

//! Operations that read files, and that hold them open.

use std::{
    fs::File,
    io::{
        self,
        Seek,
        SeekFrom,
        Write, //
    },
};

use crate::{
    grammar::{
        self,
        FILES, //
    },
    rng::Rng,
    worker::{
        open,
        random_event,
        read_some,
        write,
        Worker,
        INSTANCES,
        SLOTS, //
    },
};

/// A file to read: of the module, of an event, of an instance, or of the kernel.
fn random_file(rng: &mut Rng) -> String {
    let control = [
        "rkprobe_events",
        "rkprobe_dynamic_events",
        "rkprobe_profile",
        "rkprobe_counts",
        "rkprobe_calls",
        "rkprobe_error_log",
        "rkprobe_exits",
        "rkprobe_blocks",
    ];
    let of_event = ["format", "enable", "trigger", "hist", "id", "filter"];
    let of_instance = [
        "trace",
        "trace_pipe",
        "set_event",
        "per_cpu/cpu1/trace_pipe_raw",
    ];
    let other = [
        "trace",
        "trace_pipe",
        "set_event",
        "dynamic_events",
        "error_log",
        "enabled_functions",
        "events/rkprobe/control/format",
        "events/header_page",
        "saved_cmdlines",
        "/sys/kernel/debug/kprobes/list",
        "/sys/module/rkprobe/parameters/event",
        "/sys/module/rkprobe/refcnt",
        "/proc/modules",
    ];
    match rng.below(10) {
        0..=4 => rng.pick(&control).into(),
        5..=7 => format!("{}/{}", random_event(rng), rng.pick(&of_event)),
        8 => format!(
            "instances/i{}/{}",
            rng.below(INSTANCES),
            rng.pick(&of_instance)
        ),
        _ => rng.pick(&other).into(),
    }
}

pub fn read(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let path = random_file(rng);
    let len = 1 + rng.below(8192);
    worker.note(format_args!("{path}"));
    read_some(&mut open(&path)?, len)
}

/// Empties the tables of events that count.
pub fn empty_table(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let pattern = rng.pick(&["*", "s?/*", "e1", "s0/e*", "no/such", "s1/[e-f]2"]);
    worker.note(format_args!("{pattern}"));
    write("rkprobe_counts", pattern.as_bytes())
}

pub fn hold(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let path = random_file(rng);
    let (slot, len) = (rng.below(SLOTS), rng.below(600));
    worker.note(format_args!("{path} in {slot}"));
    if rng.one_in(6) {
        let path = rng.pick(&FILES);
        let file = File::options().read(rng.one_in(2)).write(true).open(path)?;
        worker.keep(slot, file);
        return Ok(());
    }
    let mut file = open(&path)?;
    let result = read_some(&mut file, len);
    worker.keep(slot, file);
    result
}

/// Reads on, or from another place, or writes a command, in a file that is held.
pub fn poke(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let slot = rng.below(SLOTS);
    worker.note(format_args!("{slot}"));
    let text = grammar::append(rng);
    let (what, len, place) = (rng.below(4), 1 + rng.below(4096), rng.below(3000));
    let file = worker.slots[slot].as_mut().ok_or(io::ErrorKind::NotFound)?;
    match what {
        0 => file.write(text.as_bytes()).map(drop),
        1 => file
            .seek(SeekFrom::Start(place as u64))
            .and_then(|_| read_some(file, len)),
        _ => read_some(file, len),
    }
}

pub fn release(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let slot = rng.below(SLOTS);
    worker.note(format_args!("{slot}"));
    worker.close(slot);
    Ok(())
}
