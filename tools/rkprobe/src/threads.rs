// SPDX-License-Identifier: GPL-2.0

//! Threads, as `/proc` shows them.

use std::{
    fs,
    path::{
        Path,
        PathBuf, //
    }, //
};

use serde::Serialize;

use crate::record::name_of;

/// How the names of the functions of locks start. The first other function on the stack is the place of the wait.
const OF_LOCKS: [&str; 15] = [
    "__mutex_",
    "mutex_",
    "ww_mutex_",
    "__ww_mutex_",
    "down",
    "__down",
    "rwsem_",
    "rt_mutex_",
    "__rt_mutex_",
    "rwbase_",
    "percpu_",
    "__percpu_",
    "__traceiter_",
    "__probestub_",
    "schedule",
];

/// The function on a stack that waits for a lock, or sleeps.
pub fn place<T: AsRef<str>>(stack: &[T]) -> &str {
    let is_of_lock = |frame: &str| OF_LOCKS.iter().any(|start| frame.starts_with(start));
    let mut frames = stack.iter().map(AsRef::as_ref);
    let first = frames.clone().next();
    let place = frames.find(|frame| !is_of_lock(frame));
    place.or(first).map_or("", name_of)
}

/// A thread.
#[derive(Debug, Serialize)]
pub struct Thread {
    pub pid: u32,
    /// The process to which it belongs.
    pub process: u32,
    pub comm: String,
    /// The letter in `/proc/PID/stat`.
    pub state: char,
    /// The functions that sleep, the innermost first.
    pub stack: Vec<String>,
}

impl Thread {
    /// Parses `/proc/PID/task/TID/stat`.
    fn parse(process: u32, stat: &str) -> Option<Self> {
        let (head, rest) = stat.rsplit_once(") ")?;
        let (pid, comm) = head.split_once(" (")?;
        Some(Self {
            pid: pid.parse().ok()?,
            process,
            comm: comm.into(),
            state: rest.chars().next()?,
            stack: Vec::new(),
        })
    }

    /// Reads the stack, which a running thread does not have.
    pub fn read_stack(&mut self) {
        let path = format!("/proc/{}/task/{}/stack", self.process, self.pid);
        self.stack = frames(&fs::read_to_string(path).unwrap_or_default());
    }

    /// The function that waits. Empty if it is unknown.
    pub fn place(&self) -> &str {
        place(&self.stack)
    }

    /// What the thread does.
    pub fn verb(&self) -> &'static str {
        match self.state {
            'R' => "runs",
            'S' => "sleeps",
            'D' => "waits",
            'I' => "is idle",
            'T' | 't' => "is stopped",
            _ => "has ended",
        }
    }
}

/// The frames of `/proc/PID/stack`.
fn frames(text: &str) -> Vec<String> {
    let frames = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("[<0>] "));
    frames.map(String::from).collect()
}

fn numbers(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// All threads, without their stacks.
pub fn all() -> Vec<Thread> {
    let mut threads = Vec::new();
    for process in numbers(Path::new("/proc")) {
        let directory = PathBuf::from(format!("/proc/{process}/task"));
        for pid in numbers(&directory) {
            let stat = fs::read_to_string(directory.join(format!("{pid}/stat")));
            threads.extend(stat.ok().and_then(|stat| Thread::parse(process, &stat)));
        }
    }
    threads
}

/// Whether a process or a thread exists.
pub fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/stat")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_thread() {
        let thread = Thread::parse(7, "8 (a) b) S 1 8 8 0").unwrap();
        assert_eq!((thread.pid, thread.process), (8, 7));
        assert_eq!((&*thread.comm, thread.state), ("a) b", 'S'));
        assert!(Thread::parse(7, "8 a").is_none());
        let own = std::process::id();
        assert!(exists(own) && all().iter().any(|thread| thread.process == own));
    }

    #[test]
    fn the_place_of_a_wait_is_behind_the_lock() {
        let stack = frames(
            "[<0>] __mutex_lock.constprop.0+0x1/0x2\n[<0>] fdget_pos+0x3/0x4\n[<0>] m+0x1/0x2 [mod]\n",
        );
        assert_eq!(stack.len(), 3);
        assert_eq!(place(&stack), "fdget_pos");
        assert_eq!(place(&["mutex_lock+0x1/0x2"]), "mutex_lock");
        assert_eq!(place::<&str>(&[]), "");
    }
}
