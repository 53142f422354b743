// SPDX-License-Identifier: GPL-2.0

//! Operations on the switches of the kernel's tracing: those that everybody shares, and those that
//! each instance has.

use std::{
    fs::{
        self,
        File, //
    },
    io,
    process,
    thread::sleep,
    time::Duration, //
};

use crate::{
    gate, hits,
    rng::Rng,
    worker::{
        write,
        Worker,
        INSTANCES, //
    },
};

use super::machine::CPUS;

const SUBBUF_SIZE: &str = "buffer_subbuf_size_kb";

/// The switches at the top, and the values that they have before and after the storm. In this order,
/// each can be restored.
const DEFAULTS: [(&str, &str); 11] = [
    (gate::PATH, "1"),
    ("/proc/sys/debug/kprobes-optimization", "1"),
    ("current_tracer", "nop"),
    ("snapshot", "0"),
    (SUBBUF_SIZE, "4"),
    // The kernel shows another text until the first use expands the buffer.
    ("buffer_size_kb", "1408"),
    ("tracing_cpumask", "f"),
    ("trace_clock", "local"),
    ("tracing_on", "1"),
    ("tracing_thresh", "0"),
    ("/proc/sys/kernel/stack_tracer_enabled", "0"),
];

/// The files at the top that are lists. Truncating them removes all entries.
const LISTS: [&str; 8] = [
    "set_event_pid",
    "set_event_notrace_pid",
    "set_ftrace_pid",
    "set_ftrace_notrace_pid",
    "set_ftrace_filter",
    "set_ftrace_notrace",
    "set_graph_function",
    "set_graph_notrace",
];

fn truncate(path: &str) -> io::Result<()> {
    File::options()
        .write(true)
        .truncate(true)
        .open(path)
        .map(drop)
}

/// The options at the top or of an instance.
fn options(place: &str) -> Vec<String> {
    let entries = fs::read_dir(format!("{place}options"))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The switches at the top.
#[derive(PartialEq)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    pub fn read() -> Self {
        let paths = DEFAULTS.iter().map(|(path, _)| path).chain(&LISTS);
        let paths = paths.map(ToString::to_string);
        let options = options("")
            .into_iter()
            .map(|name| format!("options/{name}"));
        Self(
            paths
                .chain(options)
                .map(|path| {
                    let value = fs::read_to_string(&path).unwrap_or_default();
                    (path, value)
                })
                .collect(),
        )
    }

    /// Prints what differs.
    pub fn is_same(&self, before: &Self) -> bool {
        for ((path, now), (_, before)) in self.0.iter().zip(&before.0) {
            if now != before {
                println!("storm: {path} was\n{before}and is\n{now}");
            }
        }
        self == before
    }

    /// Sets all switches back. `State` finds out which did not change.
    pub fn restore(&self) {
        set_defaults();
        for (path, value) in &self.0 {
            if path.starts_with("options/") {
                let _ = write(path, value.trim().as_bytes());
            }
        }
    }
}

/// Gives all switches at the top, other than options, the values that they have without a storm.
pub fn set_defaults() {
    for (path, value) in DEFAULTS {
        let _ = write(path, value.as_bytes());
    }
    for path in LISTS {
        let _ = truncate(path);
    }
}

/// The top, or an instance: the start of the paths of its files.
fn place(rng: &mut Rng) -> String {
    if rng.one_in(2) {
        String::new()
    } else {
        format!("instances/i{}/", rng.below(INSTANCES))
    }
}

/// Writes a random value to the file of a switch, at the top or in an instance.
fn change(worker: &Worker, rng: &mut Rng, switches: &[(&str, &[&str])]) -> io::Result<()> {
    let (name, values) = rng.pick(switches);
    let place = place(rng);
    let path = format!("{place}{}", name.replace('#', &rng.below(CPUS).to_string()));
    let value = rng.pick(values);
    worker.note(format_args!("{path} {value}"));
    write(&path, value.as_bytes())?;
    if name == SUBBUF_SIZE {
        // The kernel still counts the records that it has just freed, and who reads trace_pipe looks for them for
        // ever: see Documentation/kernel-reports.rst.
        truncate(&format!("{place}trace"))?;
    }
    Ok(())
}

/// Turns all kprobes off for some time.
pub fn gate(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let wait = Duration::from_micros(rng.below(20_000) as u64);
    worker.note(format_args!("{} for {wait:?}", gate::PATH));
    gate::close(&worker.shared.gate, || {
        for sort in 0..hits::COUNT {
            hits::hit(sort);
        }
        sleep(wait);
    })
}

/// Stops and starts the writing of records.
pub fn recording(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    change(
        worker,
        rng,
        &[
            ("tracing_on", &["0", "1", "1"]),
            ("tracing_on", &["0", "1", "1"]),
            ("tracing_cpumask", &["0", "5", "f", "f"]),
            ("trace_clock", &["local", "global", "counter", "mono"]),
        ],
    )
}

pub fn resize(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    change(
        worker,
        rng,
        &[
            ("buffer_size_kb", &["0", "1", "12", "100", "1408", "2000"]),
            ("per_cpu/cpu#/buffer_size_kb", &["1", "77", "700"]),
            (SUBBUF_SIZE, &["4", "4", "8", "64"]),
        ],
    )
}

/// Allocates, swaps, clears and frees the second buffer.
pub fn snapshot(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    change(
        worker,
        rng,
        &[
            ("snapshot", &["0", "1", "1", "1", "2"]),
            ("snapshot", &["0", "1", "1", "1", "2"]),
            ("per_cpu/cpu#/snapshot", &["1", "2"]),
        ],
    )
}

/// Changes the tracer. It traces few functions: with all of them, an emulated machine stands still for
/// minutes.
///
/// Not the tracer function_graph: a call that is in flight when it ends makes the kernel warn later. See
/// Documentation/kernel-reports.rst.
pub fn tracer(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let place = place(rng);
    let tracer = rng.pick(&["nop", "function", "function", "blk"]);
    let functions = rng.pick(&["vfs_*", "__x64_sys_*", "*_probe_*", "sched*", "*notifier*"]);
    worker.note(format_args!("{place}{tracer} {functions}"));
    // An instance with an open file stays. A new one would trace all functions.
    let _stays = File::open(format!("{place}tracing_on"))?;
    if tracer != "nop" {
        // A pattern without a match would leave no filter, and the tracer of an instance does not survive that
        // a module goes: see Documentation/kernel-reports.rst. So each matches functions of the kernel alone.
        fs::write(format!("{place}set_ftrace_filter"), functions)?;
    }
    write(&format!("{place}current_tracer"), tracer.as_bytes())
}

/// Changes any option, except three.
pub fn option(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let place = place(rng);
    let mut names = options(&place);
    // A stack at each function takes so long that an emulated machine stands still for minutes.
    names.retain(|name| name != "func_stack_trace");
    // With instances, these make the kernel's counts of events that record tasks wrong, and then it warns: see
    // Documentation/kernel-reports.rst. And `faults` needs record-cmd off.
    names.retain(|name| !name.starts_with("record-"));
    if names.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let name = &names[rng.below(names.len())];
    let value = rng.pick(&[b"0", b"1"]);
    worker.note(format_args!("{place}{name} {}", value[0] - b'0'));
    write(&format!("{place}options/{name}"), value)
}

/// Lets events or function tracers see some processes only, or all.
pub fn pid(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let path = place(rng) + rng.pick(&LISTS[..4]);
    let pid = rng.pick(&[0, 0, 1, 2, process::id()]);
    worker.note(format_args!("{path} {pid}"));
    match pid {
        0 => truncate(&path),
        _ => write(&path, pid.to_string().as_bytes()),
    }
}
