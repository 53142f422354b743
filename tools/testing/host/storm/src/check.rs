// SPDX-License-Identifier: GPL-2.0

//! What must be as before at the end, and what the kernel must not report.

use std::{
    fs::{
        self,
        File, //
    },
    io::{
        self,
        Read, //
    },
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread::sleep,
    time::Duration, //
};

use crate::{
    hits,
    modules::{
        self,
        MODULES,
        SAMPLES, //
    },
    operations::{
        events::disable_all,
        everything,
        forget,
        machine::CPUS,
        switches::Settings, //
    },
    worker::{
        write,
        INSTANCES, //
    },
};

const KMEMLEAK: &str = "/sys/kernel/debug/kmemleak";

/// Words of the kernel's log that mean a failure.
const REPORTS: [&str; 22] = [
    "Oops",
    "BUG:",
    "WARNING:",
    "cut here",
    "general protection",
    "Kernel panic",
    "KASAN",
    "KCSAN",
    "UBSAN",
    "suspicious RCU usage",
    "rcu: INFO",
    "INFO: task",
    "possible recursive locking",
    "possible circular locking",
    "possible deadlock",
    "bad unlock balance",
    "lock held when returning",
    "lockdep is turned off",
    "DEBUG_LOCKS_WARN",
    "soft lockup",
    "kept for good",
    "could not be removed",
];

/// The kernel's log.
pub struct Log(File);

impl Log {
    /// The log from here on.
    pub fn open() -> io::Result<Self> {
        use std::io::Seek;
        let mut file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")?;
        file.seek(io::SeekFrom::End(0))?;
        Ok(Self(file))
    }

    /// The first line since the last call that means a failure.
    pub fn find_report(&mut self) -> Option<String> {
        let mut buffer = [0; 8192];
        loop {
            let len = match self.0.read(&mut buffer) {
                Ok(len) => len,
                // The kernel overwrote records that were not read.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => continue,
                Err(_) => return None,
            };
            let line = String::from_utf8_lossy(&buffer[..len]);
            let line = line.split('\n').next().unwrap_or_default();
            let line = line.split_once(';').map_or(line, |(_, text)| text);
            if REPORTS.iter().any(|report| line.contains(report)) {
                return Some(line.to_string());
            }
        }
    }
}

/// What the kernel has of probes, events and files.
#[derive(PartialEq)]
pub struct State {
    lists: Vec<(&'static str, String)>,
    settings: Settings,
}

impl State {
    pub fn read() -> Self {
        let names = |path: &str| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            sorted(names)
        };
        let lines = |path: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            sorted(
                text.lines()
                    .map(|line| line.split(' ').next().unwrap_or_default().to_string()),
            )
        };
        let lists = vec![
            ("files in tracefs", names(".")),
            ("events", names("events")),
            ("instances", names("instances")),
            ("modules", lines("/proc/modules")),
            ("enabled_functions", lines("enabled_functions")),
            (
                "kprobes",
                fs::read_to_string("/sys/kernel/debug/kprobes/list").unwrap_or_default(),
            ),
        ];
        Self {
            lists,
            settings: Settings::read(),
        }
    }

    /// Prints what differs.
    pub fn is_same(&self, before: &Self) -> bool {
        for ((what, now), (_, before)) in self.lists.iter().zip(&before.lists) {
            if now != before {
                println!("storm: {what} were\n{before}\nand are\n{now}");
            }
        }
        self.settings.is_same(&before.settings) && self.lists == before.lists
    }
}

fn sorted(lines: impl Iterator<Item = String>) -> String {
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines.join(" ")
}

/// Tries several times, for ten seconds: references that other parts of the kernel have may go late.
fn soon(what: &str, mut attempt: impl FnMut() -> io::Result<()>) -> Result<(), String> {
    let mut result = Ok(());
    for _ in 0..100 {
        result = attempt();
        if result.is_ok() {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    result.map_err(|error| format!("{what}: {error}"))
}

/// Reads all records of a buffer, and checks that the kernel then counts none. Otherwise it would try to
/// read the others without end, for example for `trace_pipe`.
///
/// `place` is the start of the paths of an instance's files.
fn drain(place: &str) -> Result<(), String> {
    let _ = write(&format!("{place}tracing_on"), b"0");
    for cpu in 0..CPUS {
        let directory = format!("{place}per_cpu/cpu{cpu}");
        let mut file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(format!("{directory}/trace_pipe_raw"))
            .map_err(|error| format!("{directory}/trace_pipe_raw: {error}"))?;
        let mut buffer = vec![0; 1 << 16];
        while matches!(file.read(&mut buffer), Ok(1..)) {}
        drop(file);
        let stats = fs::read_to_string(format!("{directory}/stats")).unwrap_or_default();
        if !stats.starts_with("entries: 0\n") {
            return Err(format!(
                "{directory}/stats after all records were read:\n{stats}"
            ));
        }
    }
    Ok(())
}

/// Removes what the workers left, unloads the module, and compares with the state before.
pub fn finish(before: &State) -> Result<(), String> {
    for cpu in 1..CPUS {
        let _ = write(&format!("/sys/devices/system/cpu/cpu{cpu}/online"), b"1");
    }
    drain("")?;
    before.settings.restore();
    for instance in 0..INSTANCES {
        let path = format!("instances/i{instance}");
        if Path::new(&path).exists() {
            drain(&format!("{path}/"))?;
            soon(&path, || fs::remove_dir(&path))?;
        }
    }
    hits::wake();
    for module in MODULES.iter().chain(&SAMPLES) {
        let _ = write("events/rust_sample/clone/enable", b"0");
        if Path::new(&format!("/sys/module/{module}")).exists() {
            soon(&format!("unload {module}"), || modules::unload(module))?;
        }
    }
    soon("unload modules that forget", forget::unload)?;
    if Path::new("/sys/module/rust_everything").exists() {
        soon("unload rust_everything", everything::unload)?;
    }
    if !Path::new("rkprobe_dynamic_events").exists() {
        modules::load("rkprobe", "").map_err(|error| format!("load rkprobe: {error}"))?;
    }
    disable_all();
    for group in 0..8 {
        let _ = write(&format!("events/c{group}/enable"), b"0");
    }
    soon("clear", || {
        let mut file = File::options();
        file.write(true)
            .truncate(true)
            .open("rkprobe_dynamic_events")
            .map(drop)
    })
    .inspect_err(|_| print_users())?;
    let listing = fs::read_to_string("rkprobe_dynamic_events").unwrap_or_default();
    if !listing.is_empty() {
        return Err(format!("after a clear there are still\n{listing}"));
    }
    everything::check()?;
    // Once more: it loads, works and unloads.
    for is_again in [false, true] {
        soon("unload rkprobe", || modules::unload("rkprobe"))?;
        if !State::read().is_same(before) {
            return Err("the state differs from that before".into());
        }
        if !is_again {
            modules::load("rkprobe", "event=p:s0/e0,vfs_read")
                .map_err(|error| format!("load rkprobe again: {error}"))?;
            write("events/s0/e0/enable", b"0").map_err(|error| format!("disable: {error}"))?;
        }
    }
    check_memory()
}

/// kmemleak reports memory that is older than five seconds, and that no scan saw changed.
fn check_memory() -> Result<(), String> {
    if !Path::new(KMEMLEAK).exists() {
        return Ok(());
    }
    for seconds in [6, 6, 0] {
        let _ = write(KMEMLEAK, b"scan");
        sleep(Duration::from_secs(seconds));
    }
    match fs::read_to_string(KMEMLEAK) {
        Ok(leaks) if leaks.is_empty() => Ok(()),
        Ok(leaks) => Err(format!("memory that is lost:\n{leaks}")),
        Err(error) => Err(format!("kmemleak: {error}")),
    }
}

/// Prints which events are in use.
fn print_users() {
    let listing = fs::read_to_string("rkprobe_dynamic_events").unwrap_or_default();
    for event in listing
        .lines()
        .filter_map(|line| line.split([':', ' ']).nth(1))
    {
        let enable = fs::read_to_string(format!("events/{event}/enable")).unwrap_or_default();
        let trigger = fs::read_to_string(format!("events/{event}/trigger")).unwrap_or_default();
        println!("{event}: {} {trigger}", enable.trim());
    }
}
