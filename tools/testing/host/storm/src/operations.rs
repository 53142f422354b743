// SPDX-License-Identifier: GPL-2.0

//! The operations, and how often each occurs.

use std::{
    fs::File,
    io::{
        self,
        Write, //
    },
    sync::atomic::Ordering::Relaxed, //
};

use crate::{
    count::count,
    faults,
    rng::Rng,
    worker::Worker, //
};

pub mod attached;
pub mod events;
pub mod everything;
mod files;
pub mod forget;
mod loading;
pub mod machine;
pub mod switches;

/// A kind of operation.
pub struct Kind {
    pub name: &'static str,
    /// How often it occurs, in proportion to the sum of all.
    pub weight: usize,
    /// How many of 1000 attempts must succeed. A storm in which nothing works tests nothing.
    pub least: u64,
    run: fn(&mut Worker, &mut Rng) -> io::Result<()>,
}

const fn kind(
    name: &'static str,
    weight: usize,
    least: u64,
    run: fn(&mut Worker, &mut Rng) -> io::Result<()>,
) -> Kind {
    Kind {
        name,
        weight,
        least,
        run,
    }
}

/// Cheap ones are frequent. `unload` seldom succeeds, because somebody uses the module; `reload`
/// and its like make room for themselves first.
pub const KINDS: &[Kind] = &[
    //   name           weight least
    kind("invalid", 3000, 100, events::invalid),
    kind("read", 3500, 100, files::read),
    kind("hit", 4000, 900, machine::hit),
    kind("toggle", 600, 30, events::toggle),
    kind("hold", 1500, 100, files::hold),
    kind("poke", 1600, 5, files::poke),
    kind("delete", 250, 10, events::delete),
    kind("release", 900, 900, files::release),
    kind("define", 90, 30, events::define),
    kind("filter", 150, 10, events::filter),
    kind("exits", 30, 50, events::exits),
    kind("append", 60, 50, events::append),
    kind("empty_table", 60, 10, files::empty_table),
    kind("follow", 60, 50, events::follow),
    kind("tree", 60, 50, events::tree),
    kind("set_event", 100, 10, events::set_event),
    kind("trigger", 50, 10, events::trigger),
    kind("untrigger", 70, 10, events::untrigger),
    kind("perf", 30, 10, attached::perf),
    kind("bpf", 30, 10, attached::bpf),
    kind("breakpoint", 10, 10, attached::breakpoint),
    kind("watch", 20, 10, attached::watch),
    kind("instance_toggle", 60, 5, events::instance_toggle),
    kind("error_clear", 50, 0, events::error_clear),
    kind("control", 50, 0, events::control),
    kind("empty_trace", 30, 900, events::empty_trace),
    kind("count", 5, 20, count),
    kind("instance", 20, 10, events::instance),
    kind("write_back", 20, 20, events::write_back),
    kind("clear", 20, 10, events::clear),
    kind("load_target", 12, 20, loading::load_target),
    kind("unload_target", 12, 20, loading::unload_target),
    kind("load_sample", 8, 20, loading::load_sample),
    kind("unload_sample", 10, 0, loading::unload_sample),
    kind("everything", 30, 50, everything::everything),
    kind("sleeper", 20, 5, machine::sleeper),
    kind("kill_writer", 10, 500, machine::kill_writer),
    kind("load", 6, 0, loading::load),
    kind("unload", 6, 0, loading::unload),
    kind("recording", 30, 300, switches::recording),
    kind("option", 60, 300, switches::option),
    kind("pid", 20, 300, switches::pid),
    kind("resize", 12, 100, switches::resize),
    kind("snapshot", 15, 100, switches::snapshot),
    kind("tracer", 10, 100, switches::tracer),
    kind("gate", 4, 300, switches::gate),
    kind("hotplug", 4, 50, machine::hotplug),
    kind("knob", 4, 300, machine::knob),
    kind("forget", 10, 100, forget::forget),
    kind("reload", 2, 20, loading::reload),
    kind("load_bad", 3, 20, loading::load_bad),
    kind("kill_load", 1, 300, loading::kill_load),
];

/// Which kinds of operations a storm has.
#[derive(Default)]
pub struct Selection {
    /// Names of kinds that are left out. The other operations stay the same.
    pub skip: Vec<String>,
    /// Names and weights of the kinds that all operations are of, or nothing for all kinds.
    pub only: Vec<(String, Option<usize>)>,
}

impl Selection {
    /// Names the first kind that does not exist.
    pub fn find_unknown(&self) -> Option<&String> {
        let only = self.only.iter().map(|(name, _)| name);
        self.skip
            .iter()
            .chain(only)
            .find(|name| !KINDS.iter().any(|kind| kind.name == **name))
    }

    fn weight(&self, kind: &Kind) -> usize {
        let of_kind = self.only.iter().find(|(name, _)| name == kind.name);
        match of_kind {
            Some((_, weight)) => weight.unwrap_or(kind.weight),
            None if self.only.is_empty() => kind.weight,
            None => 0,
        }
    }
}

/// Carries out the operations of a worker.
pub fn run(worker: &mut Worker, seed: u64, operations: u64, selection: &Selection) {
    let sum = KINDS.iter().map(|kind| selection.weight(kind)).sum();
    // A kernel with fault injection has this file. It makes the n-th allocation fail: see `faults`.
    let mut fail_nth = File::options().write(true).open("/proc/self/fail-nth").ok();
    for number in 0..operations {
        if worker.shared.stop.load(Relaxed) {
            return;
        }
        let mut rng = Rng::new(seed, worker.id, number);
        let mut at = rng.below(sum);
        let index = KINDS.iter().position(|kind| {
            let weight = selection.weight(kind);
            let is_it = at < weight;
            at = at.wrapping_sub(weight);
            is_it
        });
        let index = index.unwrap_or(0);
        let kind = &KINDS[index];
        if selection.skip.iter().any(|name| name == kind.name) {
            continue;
        }
        let failing = rng.one_in(8).then(|| 1 + rng.below(60));
        let failing = failing.filter(|_| faults::KINDS.contains(&kind.name));
        worker.begin(number, kind.name);
        if worker.shared.unloaders.load(Relaxed) > 0 {
            worker.let_go();
        }
        if let (Some(number), Some(file)) = (failing, &mut fail_nth) {
            worker.note(format_args!("(failing {number})"));
            let _ = file.write(number.to_string().as_bytes());
        }
        let result = (kind.run)(worker, &mut rng);
        if let (Some(_), Some(file)) = (failing, &mut fail_nth) {
            let _ = file.write(b"0");
        }
        worker.shared.attempts[index].fetch_add(1, Relaxed);
        if result.is_ok() {
            worker.shared.successes[index].fetch_add(1, Relaxed);
        }
        worker.end(&result);
    }
}
