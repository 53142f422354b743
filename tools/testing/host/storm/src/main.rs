// SPDX-License-Identifier: GPL-2.0

//! `storm run SEED OPERATIONS LIMIT [skip=KIND,...] [only=KIND[:WEIGHT],...]`: workers carry out
//! random operations on the module, in a virtual machine, as root. No operation may take longer than
//! LIMIT seconds. `scripts/storm` runs it. The kinds of operations are in `operations`.
//!
//! `storm report FILE`: prints the last operations, from a file with the memory of the machine.

use std::{
    env,
    fs,
    io::Write,
    process::ExitCode,
    str::FromStr,
    sync::atomic::Ordering::Relaxed,
    thread::sleep,
    time::Duration, //
};

use operations::{
    machine::CPUS,
    switches,
    Selection,
    KINDS, //
};
use shared::{
    Shared,
    WORKERS, //
};
use worker::{
    write,
    Worker, //
};

mod bpf;
mod check;
mod clauses;
mod count;
mod faults;
mod gate;
mod grammar;
mod hits;
mod modules;
mod operations;
mod rng;
mod shared;
mod symbols;
mod sys;
mod worker;

/// Seconds of the machine between two lines on progress, and lines on progress between two tables.
const PROGRESS: u64 = 2;
const TABLE: u64 = 15;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(|word| &**word).collect();
    let result = match words[..] {
        ["report", file] => shared::report(file).map_err(|error| format!("{file}: {error}")),
        ["run", seed, operations, limit, ref kinds @ ..] => run([seed, operations, limit], kinds),
        _ => Err(
            "usage: storm run SEED OPERATIONS LIMIT [skip=KIND,...] [only=KIND[:WEIGHT],...] | \
             report FILE"
                .into(),
        ),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("storm: {error}");
            // For `storm report`, the shared memory stays.
            let _ = sys::spawn(|| loop {
                sleep(Duration::from_secs(1000));
            });
            ExitCode::FAILURE
        }
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

/// Reads the selection of kinds.
fn select(words: &[&str]) -> Result<Selection, String> {
    let mut selection = Selection::default();
    for word in words {
        match word.split_once('=') {
            Some(("skip", names)) => selection.skip.extend(names.split(',').map(String::from)),
            Some(("only", names)) => {
                for kind in names.split(',') {
                    let (name, weight) = match kind.split_once(':') {
                        Some((name, weight)) => (name, Some(number(weight)?)),
                        None => (kind, None),
                    };
                    selection.only.push((name.into(), weight));
                }
            }
            _ => return Err(format!("neither skip= nor only=: {word}")),
        }
    }
    match selection.find_unknown() {
        Some(name) => Err(format!("there is no operation {name}")),
        None => Ok(selection),
    }
}

fn run(numbers: [&str; 3], kinds: &[&str]) -> Result<(), String> {
    let mut values = [0; 3];
    for (to, text) in values.iter_mut().zip(numbers) {
        *to = number(text)?;
    }
    let [seed, operations, limit] = values;
    let selection = select(kinds)?;
    env::set_current_dir("/sys/kernel/tracing").map_err(|error| format!("tracefs: {error}"))?;
    prepare();
    symbols::prepare();

    let shared = shared::map().map_err(|error| format!("shared memory: {error}"))?;
    let before = check::State::read();
    modules::load("rkprobe", "").map_err(|error| format!("load rkprobe: {error}"))?;
    faults::prepare().map_err(|error| format!("fault injection: {error}"))?;
    let mut log = check::Log::open().map_err(|error| format!("/dev/kmsg: {error}"))?;

    let spawn = |body: &dyn Fn()| {
        let body = || {
            sys::ignore_children();
            body();
            0
        };
        sys::spawn(body).map_err(|error| format!("fork: {error}"))
    };
    let mut workers = Vec::new();
    let mut hitters = Vec::new();
    for id in 0..WORKERS {
        let share =
            operations / WORKERS as u64 + u64::from((id as u64) < operations % WORKERS as u64);
        workers.push((
            id,
            spawn(&|| operations::run(&mut Worker::new(id, shared), seed, share, &selection))?,
        ));
    }
    for cpu in 0..CPUS {
        hitters.push(spawn(&|| hits::run(shared, cpu))?);
    }

    let result = watch(shared, &mut workers, &mut log, limit * 1000);
    table(shared);
    shared.stop.store(true, Relaxed);
    println!("storm: all workers ended after {} s", shared::now() / 1000);
    if let Err(error) = result {
        for (_, pid) in &workers {
            sys::kill(*pid);
        }
        for pid in hitters {
            sys::kill(pid);
        }
        // The kernel may have more to say.
        sleep(Duration::from_secs(3));
        return Err(error);
    }
    for pid in hitters {
        sys::wait(pid, true);
    }
    faults::end();
    check::finish(&before)?;
    if let Some(report) = log.find_report() {
        return Err(format!("the kernel's log: {report}"));
    }
    // The share of successes of few attempts means nothing.
    for (kind, (attempts, successes)) in KINDS.iter().zip(counts(shared)) {
        if attempts >= 100 && successes * 1000 < kind.least * attempts {
            return Err(format!(
                "{}: only {successes} of {attempts} succeeded",
                kind.name
            ));
        }
    }
    let seconds = shared::now() / 1000;
    println!("storm: {operations} operations in {seconds} s, seed {seed}: all is well");
    Ok(())
}

/// Keeps the console quiet: samples and modules say much. Gives the hitters their files.
fn prepare() {
    let _ = write("/sys/module/printk/parameters/ignore_loglevel", b"N");
    let _ = write("/proc/sys/kernel/printk", b"5");
    let _ = write("/sys/kernel/rcu_expedited", b"1");
    let _ = fs::create_dir_all("/etc");
    let _ = fs::write("/etc/hostname", "storm\n");
    switches::set_defaults();
    for module in modules::MODULES {
        let _ = modules::unload(module);
    }
}

/// Waits for the end of all workers.
fn watch(
    shared: &Shared,
    workers: &mut Vec<(usize, libc::pid_t)>,
    log: &mut check::Log,
    limit: u64,
) -> Result<(), String> {
    let mut last = 0;
    let mut lines = 0;
    while !workers.is_empty() {
        sleep(Duration::from_millis(200));
        if let Some(report) = log.find_report() {
            print_stacks();
            return Err(format!("the kernel's log: {report}"));
        }
        let mut stuck = None;
        let mut failed = None;
        workers.retain(|&(id, pid)| match sys::wait(pid, false) {
            None => {
                if shared.pages[id].age() > limit {
                    stuck = Some((id, pid));
                }
                true
            }
            Some(0) => false,
            Some(status) => {
                failed = Some(format!("worker {id} ended with status {status}"));
                false
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if let Some((id, pid)) = stuck {
            let stack = fs::read_to_string(format!("/proc/{pid}/stack")).unwrap_or_default();
            println!("storm: the stack of process {pid}:\n{stack}");
            print_stacks();
            return Err(format!("an operation of worker {id} takes too long"));
        }
        let second = shared::now() / 1000;
        if second >= last + PROGRESS {
            progress(shared, second);
            last = second;
            lines += 1;
            if lines % TABLE == 0 {
                table(shared);
            }
        }
    }
    Ok(())
}

fn progress(shared: &Shared, second: u64) {
    let done: u64 = shared
        .pages
        .iter()
        .map(|page| page.done.load(Relaxed))
        .sum();
    let oldest = shared
        .pages
        .iter()
        .map(|page| page.age())
        .max()
        .unwrap_or(0);
    println!(
        "storm: {second} s, {done} operations, {} a second; the oldest runs for {oldest} ms",
        done / second.max(1)
    );
}

fn counts(shared: &Shared) -> impl Iterator<Item = (u64, u64)> + '_ {
    shared
        .attempts
        .iter()
        .zip(&shared.successes)
        .map(|(attempts, successes)| (attempts.load(Relaxed), successes.load(Relaxed)))
}

/// How often each kind was tried, and how often it succeeded.
fn table(shared: &Shared) {
    let mut text = String::new();
    for (at, (kind, (attempts, successes))) in KINDS.iter().zip(counts(shared)).enumerate() {
        let end = if at % 4 == 3 { "\n" } else { "  " };
        text += &format!("{:>15} {successes:>6}/{attempts:<6}{end}", kind.name);
    }
    println!("{text}");
    let _ = std::io::stdout().flush();
}

/// Shows the stacks of the CPUs and of all tasks on the console.
fn print_stacks() {
    let _ = write("/proc/sys/kernel/printk", b"8");
    for key in [b"l", b"w", b"t"] {
        let _ = write("/proc/sysrq-trigger", key);
    }
}
