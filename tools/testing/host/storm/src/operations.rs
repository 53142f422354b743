// SPDX-License-Identifier: GPL-2.0

//! The operations, and how often each occurs.

use std::fmt;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;

use crate::count::count;
use crate::faults;
use crate::grammar;
use crate::grammar::EVENTS;
use crate::grammar::FILES;
use crate::grammar::GROUPS;
use crate::hits;
use crate::modules;
use crate::modules::MODULES;
use crate::modules::SAMPLES;
use crate::rng::Rng;
use crate::shared::now;
use crate::shared::Page;
use crate::shared::Shared;
use crate::sys;

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
    kind("invalid", 3000, 100, invalid),
    kind("read", 3500, 100, read),
    kind("hit", 4000, 900, hit),
    kind("toggle", 600, 30, toggle),
    kind("hold", 1500, 100, hold),
    kind("poke", 1600, 20, poke),
    kind("delete", 250, 10, delete),
    kind("release", 900, 900, release),
    kind("define", 90, 30, define),
    kind("filter", 150, 10, filter),
    kind("exits", 30, 50, exits),
    kind("append", 60, 50, append),
    kind("set_event", 100, 10, set_event),
    kind("trigger", 50, 10, trigger),
    kind("untrigger", 70, 10, untrigger),
    kind("perf", 30, 10, perf),
    kind("instance_toggle", 60, 5, instance_toggle),
    kind("error_clear", 50, 0, error_clear),
    kind("control", 50, 0, control),
    kind("empty_trace", 30, 900, empty_trace),
    kind("count", 5, 20, count),
    kind("instance", 20, 10, instance),
    kind("write_back", 20, 20, write_back),
    kind("clear", 20, 10, clear),
    kind("load_target", 12, 20, load_target),
    kind("unload_target", 12, 20, unload_target),
    kind("load_sample", 8, 20, load_sample),
    kind("unload_sample", 10, 0, unload_sample),
    kind("sleeper", 20, 5, sleeper),
    kind("kill_writer", 10, 500, kill_writer),
    kind("load", 6, 0, load),
    kind("unload", 6, 0, unload),
    kind("hotplug", 4, 50, hotplug),
    kind("knob", 4, 300, knob),
    kind("reload", 2, 20, reload),
    kind("load_bad", 3, 20, load_bad),
    kind("kill_load", 1, 300, kill_load),
];

/// How many files a worker holds open.
const SLOTS: usize = 12;
pub const INSTANCES: usize = 3;

/// A worker.
pub struct Worker {
    pub id: usize,
    pub shared: &'static Shared,
    page: &'static Page,
    number: u64,
    slots: [Option<File>; SLOTS],
}

impl Worker {
    pub fn new(id: usize, shared: &'static Shared) -> Self {
        let page = &shared.pages[id];
        page.claim(id);
        Self {
            id,
            shared,
            page,
            number: 0,
            slots: Default::default(),
        }
    }

    /// Carries out the operations. `skip` has names of kinds that are left out.
    pub fn run(&mut self, seed: u64, operations: u64, skip: &[String]) {
        let sum = KINDS.iter().map(|kind| kind.weight).sum();
        // A kernel with fault injection has this file. It makes the n-th allocation fail: see `faults`.
        let mut fail_nth = File::options().write(true).open("/proc/self/fail-nth").ok();
        for number in 0..operations {
            if self.shared.stop.load(Relaxed) {
                return;
            }
            self.number = number;
            let mut rng = Rng::new(seed, self.id, number);
            let mut at = rng.below(sum);
            let index = KINDS.iter().position(|kind| {
                let is_it = at < kind.weight;
                at = at.wrapping_sub(kind.weight);
                is_it
            });
            let index = index.unwrap_or(0);
            let kind = &KINDS[index];
            if skip.iter().any(|name| name == kind.name) {
                continue;
            }
            let failing = rng.one_in(8).then(|| 1 + rng.below(60));
            let failing = failing.filter(|_| faults::KINDS.contains(&kind.name));
            self.page.begin(number, kind.name);
            if self.shared.unloaders.load(Relaxed) > 0 {
                self.slots.fill_with(|| None);
            }
            if let (Some(number), Some(file)) = (failing, &mut fail_nth) {
                self.note(format_args!("(failing {number})"));
                let _ = file.write(number.to_string().as_bytes());
            }
            let result = (kind.run)(self, &mut rng);
            if let (Some(_), Some(file)) = (failing, &mut fail_nth) {
                let _ = file.write(b"0");
            }
            self.shared.attempts[index].fetch_add(1, Relaxed);
            if result.is_ok() {
                self.shared.successes[index].fetch_add(1, Relaxed);
            }
            self.page.end(number, &result);
        }
    }

    /// Adds words to the text of the running operation.
    pub fn note(&self, words: fmt::Arguments<'_>) {
        self.page.note(self.number, words.to_string().as_bytes());
    }

    fn note_bytes(&self, words: &[u8]) {
        self.page.note(self.number, words);
    }

    /// Keeps a file open, and closes the one that was in its slot. Not while somebody wants to
    /// unload the module.
    fn keep(&mut self, slot: usize, file: File) {
        let is_free = self.shared.unloaders.load(Relaxed) == 0;
        self.slots[slot] = is_free.then_some(file);
    }
}

/// Writes all at once to a file.
pub fn write(path: &str, bytes: &[u8]) -> io::Result<()> {
    File::options()
        .write(true)
        .open(path)?
        .write(bytes)
        .map(drop)
}

fn random_event(rng: &mut Rng) -> String {
    format!("events/{}", grammar::event(rng))
}

/// A file to read: of the module, of an event, of an instance, or of the kernel.
fn random_file(rng: &mut Rng) -> String {
    let control = [
        "rkprobe_events",
        "rkprobe_dynamic_events",
        "rkprobe_profile",
        "rkprobe_error_log",
        "rkprobe_exits",
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

fn open(path: &str) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

/// Reads some bytes, at most.
fn read_some(file: &mut File, len: usize) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let mut left = len;
    while left > 0 {
        let at_most = left.min(buffer.len());
        match file.read(&mut buffer[..at_most])? {
            0 => break,
            more => left -= more,
        }
    }
    Ok(())
}

fn command(worker: &Worker, file: &str, command: &[u8]) -> io::Result<()> {
    worker.note_bytes(command);
    write(file, command)
}

/// Succeeds where the command is refused, and where it happened to be valid.
fn invalid(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let text = grammar::invalid(rng);
    worker.note_bytes(&text);
    let file = rng.pick(&FILES);
    let mut file = File::options().write(true).open(file)?;
    let cut = if rng.one_in(8) {
        rng.below(text.len() + 1)
    } else {
        0
    };
    // A command may come in several writes.
    let _ = file.write(&text[..cut]);
    let _ = file.write(&text[cut..]);
    Ok(())
}

fn define(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let text = grammar::define(rng);
    command(worker, FILES[1], text.as_bytes())
}

fn append(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let text = grammar::append(rng);
    command(worker, FILES[1], text.as_bytes())
}

fn delete(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let text = grammar::delete(rng);
    command(worker, FILES[1], text.as_bytes())
}

fn read(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let path = random_file(rng);
    let len = 1 + rng.below(8192);
    worker.note(format_args!("{path}"));
    read_some(&mut open(&path)?, len)
}

fn hold(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
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
fn poke(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
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

fn release(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let slot = rng.below(SLOTS);
    worker.note(format_args!("{slot}"));
    worker.slots[slot] = None;
    Ok(())
}

fn hit(_worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    for _ in 0..1 + rng.below(10) {
        hits::hit(rng.below(hits::COUNT));
    }
    Ok(())
}

/// Events are disabled twice as often as they are enabled, so that some can be deleted.
fn toggle(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let value = rng.pick(&[b"0", b"0", b"1"]);
    let path = if rng.one_in(10) {
        format!("events/s{}/enable", rng.below(GROUPS))
    } else {
        random_event(rng) + "/enable"
    };
    worker.note(format_args!("{path} {}", value[0] - b'0'));
    write(&path, value)
}

fn set_event(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let event = grammar::event(rng).replace('/', ":");
    let event = if rng.one_in(10) {
        format!("{}:*", &event[..2])
    } else {
        event
    };
    let sign = rng.pick(&["!", "!", ""]);
    command(worker, "set_event", format!("{sign}{event}\n").as_bytes())
}

fn filter(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let path = random_event(rng) + "/filter";
    let filter = rng.pick(&[
        "0",
        "common_pid == 1",
        "common_pid > 10 && common_pid < 1000000",
        "c ~ \"st*\"",
        "__probe_ip == 1",
        "nosuch == 1",
    ]);
    worker.note(format_args!("{path} {filter}"));
    write(&path, filter.as_bytes())
}

/// Only these two events of a group get triggers.
fn trigger_of(rng: &mut Rng) -> (String, &'static str) {
    let path = format!("events/s{}/e{}/trigger", rng.below(GROUPS), rng.below(2));
    let trigger = rng.pick(&[
        "stacktrace",
        "stacktrace:5",
        "traceon",
        "hist:keys=common_pid",
        "hist:keys=common_pid.execname:vals=hitcount if common_pid > 1",
        "enable_event:s1:e1",
        "disable_event:s2:e2:3",
        "enable_event:sched:sched_process_exit:1",
    ]);
    (path, trigger)
}

fn trigger(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let (path, trigger) = trigger_of(rng);
    worker.note(format_args!("{path} {trigger}"));
    write(&path, trigger.as_bytes())
}

fn untrigger(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let (path, trigger) = trigger_of(rng);
    worker.note(format_args!("{path} {trigger}"));
    write(&path, format!("!{trigger}").as_bytes())
}

fn perf(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let event = random_event(rng);
    let (slot, cpu) = (rng.below(SLOTS), rng.below(5).checked_sub(1));
    worker.note(format_args!("{event} on {cpu:?} in {slot}"));
    let id = fs::read_to_string(event + "/id")?;
    let id = id.trim().parse().map_err(io::Error::other)?;
    let file = sys::perf_open(id, cpu)?;
    worker.keep(slot, file);
    Ok(())
}

/// Makes or removes an instance.
fn instance(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let path = format!("instances/i{}", rng.below(INSTANCES));
    let remove = rng.one_in(2);
    worker.note(format_args!(
        "{path} {}",
        if remove { "remove" } else { "make" }
    ));
    if remove {
        fs::remove_dir(&path)
    } else {
        fs::create_dir(&path)
    }
}

fn instance_toggle(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let event = random_event(rng);
    let path = format!("instances/i{}/{event}/enable", rng.below(INSTANCES));
    let value = rng.pick(&[b"0", b"0", b"1"]);
    worker.note(format_args!("{path} {}", value[0] - b'0'));
    write(&path, value)
}

/// Uses the event through which the module makes its requests.
fn control(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let (file, text) = rng.pick(&[
        ("control/enable", "1"),
        ("control/enable", "0"),
        ("enable", "1"),
        ("enable", "0"),
        ("control/trigger", "traceon"),
        ("control/trigger", "!traceon"),
        ("control/filter", "common_pid == 1"),
    ]);
    worker.note(format_args!("{file} {text}"));
    write(&format!("events/rkprobe/{file}"), text.as_bytes())
}

fn exits(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let function = grammar::function(rng);
    worker.note(format_args!("{function}"));
    let mut file = File::options()
        .read(true)
        .write(true)
        .open("rkprobe_exits")?;
    file.write_all(function.as_bytes())?;
    read_some(&mut file, 2000)
}

fn error_clear(_worker: &mut Worker, _rng: &mut Rng) -> io::Result<()> {
    File::options()
        .write(true)
        .truncate(true)
        .open("rkprobe_error_log")
        .map(drop)
}

fn empty_trace(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let instance = format!("instances/i{}/trace", rng.below(INSTANCES));
    let path = if rng.one_in(2) { &instance } else { "trace" };
    worker.note(format_args!("{path}"));
    match File::options().write(true).truncate(true).open(path) {
        Err(error) if path == "trace" => Err(error),
        _ => Ok(()),
    }
}

/// Writes a listing back: each of its probes is there already.
fn write_back(_worker: &mut Worker, _rng: &mut Rng) -> io::Result<()> {
    let listing = fs::read(FILES[1])?;
    let _ = write(FILES[1], &listing);
    Ok(())
}

fn clear(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    if rng.one_in(2) {
        worker.note(format_args!("disabled"));
        disable_all();
    }
    let file = rng.pick(&FILES);
    File::options()
        .write(true)
        .truncate(true)
        .open(file)
        .map(drop)
}

/// Removes the triggers of all events of the storm, and disables the events: a trigger may enable the
/// event of another group.
pub fn disable_all() {
    for group in 0..GROUPS {
        for event in 0..EVENTS {
            remove_triggers(&format!("events/s{group}/e{event}/trigger"));
        }
    }
    for group in 0..GROUPS {
        let group = format!("events/s{group}");
        let _ = write(&format!("{group}/enable"), b"0");
        for instance in 0..INSTANCES {
            let _ = write(&format!("instances/i{instance}/{group}/enable"), b"0");
        }
    }
}

fn remove_triggers(path: &str) {
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        if !line.starts_with('#') {
            let trigger = line.split(" [").next().unwrap_or(line);
            let _ = write(path, format!("!{trigger}").as_bytes());
        }
    }
}

fn load_target(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let module = rng.pick(&MODULES);
    worker.note(format_args!("{module}"));
    modules::load(module, "")
}

fn unload_target(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let module = rng.pick(&MODULES);
    worker.note(format_args!("{module}"));
    modules::unload(module)
}

fn load_sample(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let module = rng.pick(&SAMPLES);
    worker.note(format_args!("{module}"));
    modules::load(module, "")?;
    if module == "rust_trace_event" {
        let _ = write("events/rust_sample/clone/enable", b"1");
    }
    Ok(())
}

fn unload_sample(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let module = rng.pick(&SAMPLES);
    worker.note(format_args!("{module}"));
    let _ = write("events/rust_sample/clone/enable", b"0");
    modules::unload(module)
}

fn load(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let parameter = grammar::good_parameter(rng);
    worker.note(format_args!("{parameter}"));
    modules::load("rkprobe", &parameter)
}

fn unload(_worker: &mut Worker, _rng: &mut Rng) -> io::Result<()> {
    modules::unload("rkprobe")
}

/// Calms the others down until the module unloads. Fails if it does not.
fn make_room(worker: &mut Worker) -> io::Result<()> {
    worker.slots.fill_with(|| None);
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

fn reload(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let parameter = grammar::good_parameter(rng);
    worker.note(format_args!("{parameter}"));
    let result = make_room(worker);
    let _ = modules::load("rkprobe", &parameter);
    result
}

/// Succeeds where the module reported what is wrong with its parameter.
fn load_bad(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
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
fn kill_load(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
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

/// Kills a process that writes commands.
fn kill_writer(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let wait = Duration::from_micros(rng.below(20_000) as u64);
    worker.note(format_args!("after {wait:?}"));
    let mut rng = rng.clone();
    let child = sys::spawn(move || loop {
        let command = if rng.one_in(2) {
            grammar::append(&mut rng)
        } else {
            grammar::delete(&mut rng)
        };
        let _ = write(FILES[1], command.as_bytes());
        let _ = write(
            &(random_event(&mut rng) + "/enable"),
            rng.pick(&[b"0", b"1"]),
        );
    })?;
    sleep(wait);
    sys::kill(child);
    sys::wait(child, true);
    Ok(())
}

/// Leaves a process asleep in a probed function. The hitters wake it.
fn sleeper(_worker: &mut Worker, _rng: &mut Rng) -> io::Result<()> {
    const CALL: &str = "/sys/module/exits_target/call";
    fs::metadata(CALL)?;
    sys::spawn(|| {
        let _ = write(CALL, b"sleeps 1");
        0
    })
    .map(drop)
}

fn hotplug(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let cpu = 1 + rng.below(3);
    let value = rng.pick(&[b"0", b"1", b"1"]);
    worker.note(format_args!("{cpu} {}", value[0] - b'0'));
    write(&format!("/sys/devices/system/cpu/cpu{cpu}/online"), value)
}

/// Changes how the kernel waits for grace periods, and whether it optimizes kprobes.
fn knob(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let (path, value) = rng.pick(&[
        ("/sys/kernel/rcu_expedited", "0"),
        ("/sys/kernel/rcu_expedited", "1"),
        ("/sys/kernel/rcu_expedited", "1"),
        ("/proc/sys/debug/kprobes-optimization", "0"),
        ("/proc/sys/debug/kprobes-optimization", "1"),
    ]);
    worker.note(format_args!("{path} {value}"));
    write(path, value.as_bytes())
}
