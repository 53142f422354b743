// SPDX-License-Identifier: GPL-2.0

//! Exact counting: hits and missed hits together are the calls that a worker made.

use std::{
    fs,
    io,
    process, //
};

use crate::{
    rng::Rng,
    shared::WORKERS,
    sys,
    worker::{
        write,
        Worker, //
    },
};

/// System calls that only one worker makes, and only here.
const CALLS: [(&str, libc::c_long, usize); WORKERS] = [
    ("umask", libc::SYS_umask, 0o22),
    ("getsid", libc::SYS_getsid, 0),
    ("getpgid", libc::SYS_getpgid, 0),
    ("times", libc::SYS_times, 0),
    ("getitimer", libc::SYS_getitimer, 0),
    ("personality", libc::SYS_personality, 0xffff_ffff),
    (
        "sched_get_priority_max",
        libc::SYS_sched_get_priority_max,
        0,
    ),
    (
        "sched_get_priority_min",
        libc::SYS_sched_get_priority_min,
        0,
    ),
];

/// Makes calls with probes on them and compares the profile with the number of calls. Ends the
/// worker if they differ.
pub fn count(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let id = worker.id;
    let (call, number, argument) = CALLS[id];
    // The first one always, and some of the others. The profile shows no groups, so each worker has
    // names of its own.
    let mut events = Vec::new();
    let mut commands = String::new();
    for (name, letter, target, rarity) in [
        ("p", "p", " $comm", 1),
        ("r", "r", " r=$retval:s32", 2),
        ("x", "p", "%retinsn r=$retval:s32", 2),
        ("f", "f", " $comm", 8),
        ("g", "f", "%return r=$retval:s32", 8),
    ] {
        if rng.one_in(rarity) {
            let event = format!("{name}{id}");
            commands += &format!("{letter}:c{id}/{event} __x64_sys_{call}{target}\n");
            events.push(event);
        }
    }
    let calls = 1 + rng.below(100);
    let moves = 1 + rng.below(40);
    let cpus: Vec<usize> = (0..4).map(|_| rng.below(4)).collect();
    worker.note(format_args!("{calls} calls, {}", events.concat()));

    let counted = || -> io::Result<String> {
        write("rkprobe_dynamic_events", commands.as_bytes())?;
        for event in &events {
            write(&format!("events/c{id}/{event}/enable"), b"1")?;
        }
        for made in 0..calls {
            let _ = sys::call(number, [argument, 0, 0]);
            if made % moves == 0 {
                let _ = sys::run_on(Some(cpus[made % 4]));
            }
        }
        write(&format!("events/c{id}/enable"), b"0")?;
        fs::read_to_string("rkprobe_profile")
    }();
    let _ = sys::run_on(None);
    let _ = write(&format!("events/c{id}/enable"), b"0");
    let _ = write("rkprobe_dynamic_events", format!("-:c{id}/").as_bytes());

    let counted = counted?;
    for event in events {
        compare(worker, &counted, &event, calls)?;
    }
    Ok(())
}

fn compare(worker: &Worker, profile: &str, event: &str, calls: usize) -> io::Result<()> {
    let line = profile.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == event).then_some(())?;
        let hits: usize = words.next()?.parse().ok()?;
        let missed: usize = words.next()?.parse().ok()?;
        Some((hits, missed))
    });
    let (hits, missed) = line.ok_or(io::ErrorKind::NotFound)?;
    if hits + missed != calls {
        println!(
            "storm: worker {}: {event}: {hits} hits and {missed} missed are not {calls} calls",
            worker.id
        );
        process::exit(2);
    }
    Ok(())
}
