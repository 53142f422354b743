// SPDX-License-Identifier: GPL-2.0

//! Modules that forget what they registered: rkprobe removes it when they end.

use std::io;

use crate::{
    hits,
    modules,
    rng::Rng,
    worker::{
        write,
        Worker, //
    }, //
};

/// A module, and how many values each of its parameters has, from 0 on.
struct Forgetful {
    module: &'static str,
    parameters: &'static [(&'static str, usize)],
}

const FORGETFUL: [Forgetful; 2] = [
    Forgetful {
        module: "leftover",
        parameters: &[("only", 15), ("fail", 2)],
    },
    Forgetful {
        module: "late_drops",
        parameters: &[("object", 18), ("disable", 2), ("early", 2), ("fail", 2)],
    },
];

/// The objects of `late_drops` that have notifiers.
const NOTIFIERS: [&str; 2] = ["object=11 ", "object=16 "];

/// Unloads a module. `late_drops` may have enabled its event, which uses the module.
fn unload_one(module: &str) -> io::Result<()> {
    let _ = write("events/late_drops/enable", b"0");
    modules::unload(module)
}

/// Unloads all of them.
pub fn unload() -> io::Result<()> {
    for Forgetful { module, .. } in FORGETFUL {
        match unload_one(module) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => return Err(error),
            _ => (),
        }
    }
    Ok(())
}

/// Loads such a module with random parameters, and unloads it. Its initialisation may fail, which
/// ends the module as well.
pub fn forget(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let Forgetful { module, parameters } = &FORGETFUL[rng.below(FORGETFUL.len())];
    let parameters: Vec<_> = parameters
        .iter()
        .map(|(name, count)| format!("{name}={}", rng.below(*count)))
        .collect();
    let mut parameters = parameters.join(" ");
    // An event is disabled with event_mutex held, and must not drop a notifier there: see `Notifier`.
    if NOTIFIERS
        .iter()
        .any(|object| parameters.starts_with(object))
    {
        parameters = parameters.replace("disable=1", "disable=0");
    }
    let calls = rng.below(10);
    worker.note(format_args!("{module} {parameters}"));
    match modules::load(module, &parameters) {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(()),
        result => result?,
    }
    for _ in 0..calls {
        hits::hit(rng.below(hits::COUNT));
    }
    unload_one(module)
}
