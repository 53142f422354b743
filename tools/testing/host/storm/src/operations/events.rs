// SPDX-License-Identifier: GPL-2.0

//! Operations on events and on their instances, by the files of tracefs.

use std::{
    fs::{
        self,
        File, //
    },
    io::{
        self,
        Write, //
    },
};

use crate::{
    grammar::{
        self,
        EVENTS,
        FILES,
        GROUPS, //
    },
    rng::Rng,
    worker::{
        command,
        random_event,
        read_some,
        write,
        Worker,
        INSTANCES, //
    },
};

/// Succeeds where the command is refused, and where it happened to be valid.
pub fn invalid(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
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

pub fn define(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let text = grammar::define(rng);
    command(worker, FILES[1], text.as_bytes())
}

pub fn append(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let text = grammar::append(rng);
    command(worker, FILES[1], text.as_bytes())
}

/// Defines an object probe and its sources, and often enables it.
pub fn follow(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let [sources @ .., follow] = grammar::follow(rng);
    for source in sources {
        // The event may exist already.
        let _ = write(FILES[1], source.as_bytes());
    }
    command(worker, FILES[1], follow.as_bytes())?;
    if !rng.one_in(4) {
        let event = follow.split([':', ' ']).nth(1).unwrap_or_default();
        let _ = write(&format!("events/{event}/enable"), b"1");
    }
    Ok(())
}

/// Defines a call tree, and often enables it.
pub fn tree(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let tree = grammar::tree(rng);
    command(worker, FILES[1], tree.as_bytes())?;
    if !rng.one_in(4) {
        let event = tree.split([':', ' ']).nth(1).unwrap_or_default();
        let _ = write(&format!("events/{event}/enable"), b"1");
    }
    Ok(())
}

pub fn delete(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let text = grammar::delete(rng);
    command(worker, FILES[1], text.as_bytes())
}

/// Events are disabled twice as often as they are enabled, so that some can be deleted.
pub fn toggle(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let value = rng.pick(&[b"0", b"0", b"1"]);
    let path = if rng.one_in(10) {
        format!("events/s{}/enable", rng.below(GROUPS))
    } else {
        random_event(rng) + "/enable"
    };
    worker.note(format_args!("{path} {}", value[0] - b'0'));
    write(&path, value)
}

pub fn set_event(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let event = grammar::event(rng).replace('/', ":");
    let event = if rng.one_in(10) {
        format!("{}:*", &event[..2])
    } else {
        event
    };
    let sign = rng.pick(&["!", "!", ""]);
    command(worker, "set_event", format!("{sign}{event}\n").as_bytes())
}

pub fn filter(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
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

pub fn trigger(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let (path, trigger) = trigger_of(rng);
    worker.note(format_args!("{path} {trigger}"));
    write(&path, trigger.as_bytes())
}

pub fn untrigger(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let (path, trigger) = trigger_of(rng);
    worker.note(format_args!("{path} {trigger}"));
    write(&path, format!("!{trigger}").as_bytes())
}

/// Makes or removes an instance.
pub fn instance(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
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

pub fn instance_toggle(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let event = random_event(rng);
    let path = format!("instances/i{}/{event}/enable", rng.below(INSTANCES));
    let value = rng.pick(&[b"0", b"0", b"1"]);
    worker.note(format_args!("{path} {}", value[0] - b'0'));
    write(&path, value)
}

/// Uses the event through which the module makes its requests.
pub fn control(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
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

pub fn exits(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let function = grammar::function(rng);
    let file = rng.pick(&["rkprobe_exits", "rkprobe_blocks"]);
    worker.note(format_args!("{file} {function}"));
    let mut file = File::options().read(true).write(true).open(file)?;
    file.write_all(function.as_bytes())?;
    read_some(&mut file, 2000)
}

pub fn error_clear(_worker: &mut Worker, _rng: &mut Rng) -> io::Result<()> {
    File::options()
        .write(true)
        .truncate(true)
        .open("rkprobe_error_log")
        .map(drop)
}

pub fn empty_trace(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
    let instance = format!("instances/i{}/trace", rng.below(INSTANCES));
    let path = if rng.one_in(2) { &instance } else { "trace" };
    worker.note(format_args!("{path}"));
    match File::options().write(true).truncate(true).open(path) {
        Err(error) if path == "trace" => Err(error),
        _ => Ok(()),
    }
}

/// Writes a listing back: each of its probes is there already.
pub fn write_back(_worker: &mut Worker, _rng: &mut Rng) -> io::Result<()> {
    let listing = fs::read(FILES[1])?;
    let _ = write(FILES[1], &listing);
    Ok(())
}

pub fn clear(worker: &mut Worker, rng: &mut Rng) -> io::Result<()> {
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
