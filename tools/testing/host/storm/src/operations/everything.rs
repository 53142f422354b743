// SPDX-License-Identifier: GPL-2.0

//! The module that uses all of ktrace at once: `rust/tests/everything.rs`.

use std::{
    fs,
    io, //
};

use crate::{
    modules,
    rng::Rng,
    worker::{
        write,
        Worker, //
    },
};

const MODULE: &str = "rust_everything";
/// Shows the number of hits of each handler. Truncating it sets them to 0.
const COUNTS: &str = "rust_everything";
const EVENTS: [&str; 4] = ["function", "hit", "switched", "thread"];

/// The module with the function that its probes are on.
const TARGET: &str = "tracepoint_target";
const CALL: &str = "/sys/module/tracepoint_target/parameters/hit";

/// The number of registrations, after each of which the initialisation can fail.
const REGISTRATIONS: usize = 24;

/// The hits of each of these handlers do not depend on the calls of the function.
const OTHERS: [&str; 11] = [
    "switched",
    "coming",
    "leaving",
    "going",
    "refused",
    "threads",
    "woken",
    "recorded",
    "btf",
    "exits",
    "event_probe",
];

fn enable(event: &str, value: &[u8]) -> io::Result<()> {
    write(&format!("events/rust_everything/{event}/enable"), value)
}

/// Unloads the module, unless somebody uses it.
pub fn unload() -> io::Result<()> {
    for event in EVENTS {
        let _ = enable(event, b"0");
    }
    modules::unload(MODULE)
}

/// Loads the module, after the module that it needs.
fn load(parameters: &str) -> io::Result<()> {
    let _ = modules::load(TARGET, "");
    modules::load(MODULE, parameters)
}

/// Loads the module, makes its initialisation fail, uses it, or unloads it.
pub fn everything(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    match rng.below(6) {
        0 => {
            worker.note(format_args!("load"));
            load("")
        }
        1 => {
            worker.note(format_args!("unload"));
            unload()
        }
        2 => {
            let event = rng.pick(&EVENTS);
            let value = rng.pick(&[b"0", b"1"]);
            worker.note(format_args!("{event} {}", value[0] - b'0'));
            enable(event, value)
        }
        3 => {
            worker.note(format_args!("read"));
            for _ in 0..1 + rng.below(20) {
                let _ = write(CALL, b"3");
            }
            fs::read(COUNTS).map(drop)
        }
        _ => {
            let fail = 1 + rng.below(REGISTRATIONS);
            worker.note(format_args!("fail={fail}"));
            match load(&format!("fail={fail}")) {
                Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(()),
                result => result,
            }
        }
    }
}

/// Checks that each handler counts each call, while nobody else calls the function.
pub fn check() -> Result<(), String> {
    let calls = 50;
    let count = || -> io::Result<String> {
        load("")?;
        fs::write(COUNTS, "")?;
        for _ in 0..calls {
            write(CALL, b"3")?;
        }
        let counts = fs::read_to_string(COUNTS)?;
        unload()?;
        modules::unload(TARGET)?;
        Ok(counts)
    };
    let counts = count().map_err(|error| format!("{MODULE}: {error}"))?;
    let wrong = |line: &&str| {
        let (name, hits) = line.split_once(' ').unwrap_or_default();
        let hits: u64 = hits.parse().unwrap_or(0);
        let calls = match name {
            "deep" => 3 * calls,
            "ftrace_both" => 2 * calls,
            _ => calls,
        };
        // On arm64, an interrupt at an access makes it hit once more.
        let may_repeat = cfg!(target_arch = "aarch64") && name == "watchpoint";
        !OTHERS.contains(&name) && hits != calls && !(may_repeat && hits > calls)
    };
    if counts.lines().count() <= OTHERS.len() {
        return Err(format!("{COUNTS} shows only\n{counts}"));
    }
    match counts.lines().find(wrong) {
        Some(line) => Err(format!("{MODULE}: {line}, but {calls} calls")),
        None => Ok(()),
    }
}
