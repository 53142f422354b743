// SPDX-License-Identifier: GPL-2.0

//! Exact counting: hits and missed hits together are the calls that a worker made.

use std::{
    fmt,
    fs::{
        self,
        File, //
    },
    io::{
        self,
        Read, //
    },
    process, //
};

use crate::{
    bpf,
    gate::Moment,
    operations::attached,
    rng::Rng,
    shared::WORKERS,
    sys::{
        self,
        Perf, //
    },
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

/// Makes calls with probes on them and compares the profile with the number of calls, and with what
/// perf and BPF saw. Ends the worker if they differ. Fails if another worker kept hits from a probe:
/// then there are at most as many as calls.
pub fn count(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let id = worker.id;
    let (call, number, argument) = CALLS[id];
    // The first one always, and some of the others. The profile shows no groups, so each worker has
    // names of its own.
    let mut events = Vec::new();
    let mut commands = String::new();
    for (name, letter, target, rarity, is_gated) in [
        ("p", "p", " $comm", 1, true),
        ("r", "r", " r=$retval:s32", 2, true),
        ("x", "p", "%retinsn r=$retval:s32", 2, true),
        ("f", "f", " $comm", 8, false),
        ("g", "f", "%return r=$retval:s32", 8, false),
    ] {
        if rng.one_in(rarity) {
            let event = format!("{name}{id}");
            commands += &format!("{letter}:c{id}/{event} __x64_sys_{call}{target}\n");
            events.push((event, is_gated));
        }
    }
    let calls = 1 + rng.below(100);
    let moves = 1 + rng.below(40);
    let cpus: Vec<usize> = (0..4).map(|_| rng.below(4)).collect();
    let has_perf = rng.one_in(3);
    let names = events.iter().map(|(event, _)| &**event);
    let names = names.collect::<Vec<_>>().concat();
    worker.note(format_args!("{calls} calls, {names} {has_perf}"));

    let before = Moment::now(&worker.shared.gate);
    let counted = || -> io::Result<(String, Option<Seen>)> {
        write("rkprobe_dynamic_events", commands.as_bytes())?;
        let perf = has_perf
            .then(|| Attached::open(&format!("events/c{id}/p{id}")))
            .transpose()?;
        for (event, _) in &events {
            write(&format!("events/c{id}/{event}/enable"), b"1")?;
        }
        for made in 0..calls {
            let _ = sys::call(number, [argument, 0, 0]);
            if made % moves == 0 {
                let _ = sys::run_on(Some(cpus[made % 4]));
            }
        }
        // While they are enabled, nobody can delete them and write them back with new counts.
        let profile = fs::read_to_string("rkprobe_profile")?;
        let seen = perf.map(|perf| perf.seen()).transpose()?;
        Ok((profile, seen))
    }();
    let after = Moment::now(&worker.shared.gate);
    let _ = sys::run_on(None);
    let _ = write(&format!("events/c{id}/enable"), b"0");
    let _ = write("rkprobe_dynamic_events", format!("-:c{id}/").as_bytes());

    let (profile, seen) = counted?;
    let mut result = Ok(());
    for (number, (event, is_gated)) in events.iter().enumerate() {
        let (hits, missed) = find(&profile, event)?;
        let is_exact = !is_gated || after.was_open_since(&before);
        let is_right = match is_exact {
            true => hits + missed == calls,
            false => hits + missed <= calls,
        };
        if !is_right {
            fail(
                worker,
                format_args!("{event}: {hits} hits and {missed} missed are not {calls} calls"),
            );
        }
        match &seen {
            // The first event is the one that is open for perf.
            Some(seen) if number == 0 && !seen.is(hits as u64) => {
                fail(worker, format_args!("{event}: {hits} hits, but {seen:?}"))
            }
            _ => (),
        }
        if !is_exact {
            result = Err(io::ErrorKind::Interrupted.into());
        }
    }
    result
}

/// The hits and the missed hits of an event.
fn find(profile: &str, event: &str) -> io::Result<(usize, usize)> {
    let line = profile.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == event).then_some(())?;
        let hits: usize = words.next()?.parse().ok()?;
        let missed: usize = words.next()?.parse().ok()?;
        Some((hits, missed))
    });
    Ok(line.ok_or(io::ErrorKind::NotFound)?)
}

fn fail(worker: &Worker, what: fmt::Arguments<'_>) -> ! {
    println!("storm: worker {}: {what}", worker.id);
    process::exit(2);
}

/// An event that is open for perf, with a BPF program.
struct Attached {
    perf: File,
    bpf: bpf::Counter,
}

/// What both saw.
#[derive(Debug)]
struct Seen {
    perf: u64,
    bpf: u64,
    /// The hits that BPF did not see because another program ran.
    bpf_missed: u64,
}

impl Attached {
    fn open(event: &str) -> io::Result<Self> {
        let perf = sys::perf_open(Perf::Count(attached::id(event)?), None)?;
        let bpf = bpf::Counter::load(bpf::Use::Event { reads_record: true })?;
        bpf.attach(&perf)?;
        Ok(Self { perf, bpf })
    }

    fn seen(mut self) -> io::Result<Seen> {
        let mut perf = [0; 8];
        self.perf.read_exact(&mut perf)?;
        let (bpf, bpf_missed) = self.bpf.counts()?;
        Ok(Seen {
            perf: u64::from_ne_bytes(perf),
            bpf,
            bpf_missed,
        })
    }
}

impl Seen {
    fn is(&self, hits: u64) -> bool {
        self.perf == hits && self.bpf + self.bpf_missed == hits
    }
}
