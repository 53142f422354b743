// SPDX-License-Identifier: GPL-2.0

//! A run's own trace instance, and its own group of events.
//!
//! Both have the same name. The run holds the lock (`flock`) of the instance's directory. The kernel gives the lock
//! back when the process ends, however the process ends. So an instance without a lock belongs to a dead run, and
//! the next run removes the instance and the group. Process IDs decide nothing: they are reused, and they differ
//! between PID namespaces.

use std::{
    fs::{
        self,
        File, //
    },
    io,
    os::unix::fs::MetadataExt,
    process,
    thread::sleep,
    time::Duration, //
};

use crate::{
    failure::{
        note,
        Failure,
        Result, //
    },
    sys::{
        self,
        InOrder, //
    },
    tracefs::{
        Tracefs,
        EVENTS, //
    }, //
};

/// How the names of all runs start.
const PREFIX: &str = "rkprobe_cli_";
/// How often a run tries to make its instance.
const TRIES: u32 = 100;

/// The instance and the group of this run. Dropping removes both.
pub struct Instance<'a> {
    tracefs: &'a Tracefs,
    name: String,
    // Holds the lock until the instance has gone.
    _lock: Option<File>,
    _in_order: InOrder,
}

impl<'a> Instance<'a> {
    /// Removes what dead runs left, and makes the instance of this run.
    pub fn create(tracefs: &'a Tracefs) -> Result<Self> {
        let in_order = InOrder::begin();
        remove_dead(tracefs);
        let pid = process::id();
        for number in 0..TRIES {
            let name = match number {
                0 => format!("{PREFIX}{pid}"),
                _ => format!("{PREFIX}{pid}_{number}"),
            };
            let directory = format!("instances/{name}");
            match tracefs.mkdir(&directory) {
                Ok(()) if tracefs.is_dry() => {
                    return Ok(Self {
                        tracefs,
                        name,
                        _lock: None,
                        _in_order: in_order,
                    })
                }
                // Another run can remove the instance before this run has the lock.
                Ok(()) => {
                    if let Some(lock) = lock(tracefs, &directory) {
                        return Ok(Self {
                            tracefs,
                            name,
                            _lock: Some(lock),
                            _in_order: in_order,
                        });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::file(directory, &error)),
            }
        }
        Err(Failure::new("no name is left for a trace instance"))
    }

    /// The group of this run's events.
    pub fn group(&self) -> &str {
        &self.name
    }

    /// The path of a file of the instance.
    pub fn file(&self, name: &str) -> String {
        format!("instances/{}/{name}", self.name)
    }

    /// The path of a file of an event, in the instance.
    pub fn event_file(&self, event: &str, name: &str) -> String {
        self.file(&format!("events/{}/{event}/{name}", self.name))
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        remove(self.tracefs, &self.name);
    }
}

fn lock(tracefs: &Tracefs, directory: &str) -> Option<File> {
    let file = tracefs.open(directory).ok()?;
    let is_locked = sys::try_lock(&file);
    let now = fs::metadata(tracefs.path(directory)).ok()?;
    (is_locked && file.metadata().ok()?.ino() == now.ino()).then_some(file)
}

/// Removes the instance, which disables its events, and then the group.
fn remove(tracefs: &Tracefs, name: &str) {
    // Another task can have a file of the instance or an event open for a moment.
    let is_busy = |result: io::Result<()>| {
        result.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    };
    for _ in 0..20 {
        if !is_busy(tracefs.rmdir(&format!("instances/{name}"))) {
            break;
        }
        sleep(Duration::from_millis(50));
    }
    if !tracefs.is_dry() && !groups(tracefs).iter().any(|group| group == name) {
        return;
    }
    for _ in 0..20 {
        if !is_busy(tracefs.append(EVENTS, &format!("-:{name}/"))) {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    note(format!(
        "rkprobe: the events of group {name} are in use: the next start removes them"
    ));
}

/// The groups of all runs that have events.
fn groups(tracefs: &Tracefs) -> Vec<String> {
    groups_of(&tracefs.read(EVENTS).unwrap_or_default())
}

fn groups_of(listing: &str) -> Vec<String> {
    let mut groups: Vec<String> = listing
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.1.split_once('/')?.0))
        .filter(|group| group.starts_with(PREFIX))
        .map(String::from)
        .collect();
    groups.dedup();
    groups
}

fn remove_dead(tracefs: &Tracefs) {
    if tracefs.is_dry() {
        return;
    }
    // A run makes its instance before its events. So the groups are read first: a new run's group is not among them,
    // or its instance is.
    let groups = groups(tracefs);
    let instances = tracefs.names("instances");
    for name in instances.iter().filter(|name| name.starts_with(PREFIX)) {
        if lock(tracefs, &format!("instances/{name}")).is_some() {
            remove(tracefs, name);
        }
    }
    for group in groups.iter().filter(|group| !instances.contains(group)) {
        remove(tracefs, group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_groups_of_runs() {
        let listing = "p:kprobes/a vfs_read\nr10:rkprobe_cli_7/lat vfs_read ns=$elapsed\n\
            f:rkprobe_cli_7/b x\nf:rkprobe_cli_8_1/b x/y\n";
        assert_eq!(groups_of(listing), ["rkprobe_cli_7", "rkprobe_cli_8_1"]);
        assert!(groups_of("").is_empty());
    }
}
