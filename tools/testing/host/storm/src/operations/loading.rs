// SPDX-License-Identifier: GPL-2.0

//! Operations that load and unload modules.

use std::{
    io,
    sync::atomic::Ordering::Relaxed,
    thread::sleep,
    time::Duration, //
};

use crate::{
    grammar,
    modules::{
        self,
        MODULES,
        SAMPLES, //
    },
    rng::Rng,
    shared::now,
    sys,
    worker::{
        write,
        Worker, //
    },
};

use super::{
    events::disable_all,
    everything,
    forget, //
};

pub fn load_target(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let module = rng.pick(&MODULES);
    worker.note(format_args!("{module}"));
    modules::load(module, "")
}

pub fn unload_target(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let module = rng.pick(&MODULES);
    worker.note(format_args!("{module}"));
    modules::unload(module)
}

pub fn load_sample(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let module = rng.pick(&SAMPLES);
    worker.note(format_args!("{module}"));
    modules::load(module, "")?;
    if module == "rust_trace_event" {
        let _ = write("events/rust_sample/clone/enable", b"1");
    }
    Ok(())
}

pub fn unload_sample(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let module = rng.pick(&SAMPLES);
    worker.note(format_args!("{module}"));
    let _ = write("events/rust_sample/clone/enable", b"0");
    modules::unload(module)
}

pub fn load(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let parameter = grammar::good_parameter(rng);
    worker.note(format_args!("{parameter}"));
    modules::load("rkprobe", &parameter)
}

pub fn unload(_worker: &mut Worker, _rng: &mut Rng) -> io::Result<()> {
    modules::unload("rkprobe")
}

/// Calms the others down until the module unloads. Fails if it does not.
fn make_room(worker: &mut Worker) -> io::Result<()> {
    worker.let_go();
    worker.shared.unloaders.fetch_add(1, Relaxed);
    let mut result = Ok(());
    let start = now();
    for round in 0.. {
        if round % 8 == 0 {
            disable_all();
            let _ = write("events/rust_sample/clone/enable", b"0");
            for sample in SAMPLES {
                let _ = modules::unload(sample);
            }
            let _ = everything::unload();
            let _ = forget::unload();
        }
        result = modules::unload("rkprobe");
        match &result {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) && now() < start + 20_000 => {
                ()
            }
            _ => break,
        }
        sleep(Duration::from_millis(5));
    }
    worker.shared.unloaders.fetch_sub(1, Relaxed);
    result
}

pub fn reload(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let parameter = grammar::good_parameter(rng);
    worker.note(format_args!("{parameter}"));
    let result = make_room(worker);
    let _ = modules::load("rkprobe", &parameter);
    result
}

/// Succeeds where the module reported what is wrong with its parameter.
pub fn load_bad(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let parameters: Vec<_> = (0..1 + rng.below(3))
        .map(|_| grammar::bad_parameter(rng))
        .collect();
    worker.note(format_args!("{}", parameters.join(" ")));
    let _ = make_room(worker);
    let mut result = Err(io::ErrorKind::AlreadyExists.into());
    for parameter in parameters {
        match modules::load("rkprobe", &parameter) {
            Ok(()) => worker.note(format_args!("(accepted)")),
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => (),
            Err(_) => result = Ok(()),
        }
    }
    let _ = modules::load("rkprobe", "");
    result
}

/// Kills a process that loads the module.
pub fn kill_load(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let parameter = grammar::good_parameter(rng);
    let wait = Duration::from_micros(rng.below(60_000) as u64);
    worker.note(format_args!("after {wait:?}: {parameter}"));
    let _ = make_room(worker);
    let child = sys::spawn(|| {
        let _ = modules::load("rkprobe", &parameter);
        0
    })?;
    sleep(wait);
    sys::kill(child);
    sys::wait(child, true);
    let _ = modules::load("rkprobe", "");
    Ok(())
}
