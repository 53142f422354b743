// SPDX-License-Identifier: GPL-2.0

//! Whom a run traces: the options that choose tasks, in one place.
//!
//! They become a condition, which the command of each event that decides about tasks has, and a list of processes,
//! which the run's trace instance follows with their children (`set_event_pid` and `event-fork`).

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::MetadataExt,
    path::{
        Path,
        PathBuf, //
    },
    process, //
};

use crate::{
    btf,
    counts,
    failure::{
        Failure,
        Result, //
    }, //
};

/// The usual directory of the hierarchy of cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";
/// A file that each directory of the hierarchy has, and those of older hierarchies lack.
const CGROUP_FILE: &str = "cgroup.controllers";
/// The current task's cgroup.
const CGROUP: &str = "$current->cgroups->dfl_cgrp";
/// The usual timer slack of a task, in ns. C: `init_task`.
const DEFAULT_SLACK: u32 = 50_000;
/// The number of marks. Runs with the same one do not mix their records, because the instance selects processes.
const MARKS: u32 = 999;
/// The most bytes of a task's name. C: `TASK_COMM_LEN`.
const MAX_COMM: usize = 15;

/// The options, as the user wrote them.
#[derive(Default)]
pub struct Options<'a> {
    /// Process IDs.
    pub processes: Vec<u32>,
    /// Whether children of the processes count, too.
    pub with_children: bool,
    /// A pattern for the name of the task.
    pub comm: Option<&'a str>,
    /// The directory of a cgroup.
    pub cgroup: Option<&'a str>,
    /// CPUs, such as `0,2-3`.
    pub cpus: Option<&'a str>,
    /// A condition of the command language.
    pub condition: Option<&'a str>,
    /// A command to start, with its arguments.
    pub command: Vec<OsString>,
}

/// Whom a run traces.
#[derive(Clone, Debug, Default)]
pub struct Whom {
    condition: String,
    /// The processes whose end ends the run.
    pub processes: Vec<u32>,
    /// Whether the instance selects the processes, and follows their children.
    pub with_children: bool,
    /// The command to start. Empty if there is none.
    pub command: Vec<OsString>,
    /// The timer slack in ns by which the condition knows the command and its children.
    pub mark: Option<u32>,
    /// Whether other tasks have records, too, if an event has no condition: they may end what the command began.
    pub with_others: bool,
}

impl Whom {
    /// Checks the options.
    pub fn new(options: Options<'_>) -> Result<Self> {
        for pid in &options.processes {
            check_process(*pid)?;
        }
        let mut parts = Vec::new();
        if !options.with_children && !options.processes.is_empty() {
            need_types("--pid without --children")?;
            parts.push(any_of(&options.processes));
        }
        if let Some(comm) = options.comm {
            parts.push(comm_like(comm)?);
        }
        if let Some(path) = options.cgroup {
            parts.push(in_cgroup(path)?);
        }
        if let Some(cpus) = options.cpus {
            need_types("--cpu")?;
            parts.push(on_cpus(cpus)?);
        }
        if let Some(condition) = options.condition {
            parts.push(format!("({condition})"));
        }
        Ok(Self {
            condition: parts.join(" && "),
            processes: options.processes,
            with_children: options.with_children,
            command: options.command,
            mark: None,
            with_others: false,
        })
    }

    /// Makes the condition hold for the command and its children only. The instance selects them, too, but only when
    /// there are records: an event that does more for a call before needs this.
    pub fn mark_command(&mut self) {
        if self.command.is_empty() || need_types("").is_err() {
            return;
        }
        let mark = DEFAULT_SLACK + 1 + process::id() % MARKS;
        let condition = format!("$current->timer_slack_ns == {mark}");
        self.condition = match &*self.condition {
            "" => condition,
            others => format!("{condition} && {others}"),
        };
        self.mark = Some(mark);
    }

    /// Whether the run is not for all tasks.
    pub fn selects_tasks(&self) -> bool {
        !self.condition.is_empty() || self.with_children || !self.command.is_empty()
    }

    /// Whether only the condition selects the command and its children.
    pub fn is_known_by_mark(&self) -> bool {
        self.with_others && self.mark.is_some()
    }

    /// The end of a command that makes records, ` if CONDITION`. Empty if all tasks count.
    pub fn clause(&self) -> String {
        match &*self.condition {
            "" => String::new(),
            condition => format!(" if {condition}"),
        }
    }

    /// The end of a condition that makes records, ` && CONDITION`. Empty if all tasks count.
    pub fn and(&self) -> String {
        match &*self.condition {
            "" => String::new(),
            condition => format!(" && {condition}"),
        }
    }

    /// The condition of an event that counts. The tool's own calls do not count.
    pub fn counted(&self) -> String {
        match &*self.condition {
            "" => counts::not_own(),
            condition => format!("{condition} && {}", counts::not_own()),
        }
    }
}

fn need_types(option: &str) -> Result {
    match Path::new("/sys/kernel/btf/vmlinux").exists() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{option} needs BTF, and the kernel has none: it needs CONFIG_DEBUG_INFO_BTF"
        ))),
    }
}

/// The number in a line of `/proc/PID/status`.
fn number_of(status: &str, name: &str) -> Option<u32> {
    let line = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
    status.lines().find_map(line)
}

fn check_process(pid: u32) -> Result {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    match number_of(&status, "Tgid:") {
        None => Err(Failure::new(format!("there is no process {pid}"))),
        Some(process) if process != pid => Err(Failure::new(format!(
            "{pid} is a thread of process {process}: use -p {process}, or --if 'common_pid == {pid}'"
        ))),
        Some(_) => Ok(()),
    }
}

/// Whether a process has ended. One that nobody has waited for has ended, too.
pub fn has_ended(pid: u32) -> bool {
    matches!(state(pid), None | Some('Z' | 'X'))
}

/// The state of a process, as in `/proc/PID/stat`.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The threads of the processes and of all their descendants.
pub fn threads_of(processes: &[u32]) -> Vec<u32> {
    let mut found: Vec<u32> = processes.to_vec();
    let parents: Vec<(u32, u32)> = numbers(Path::new("/proc"))
        .filter_map(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            Some((pid, number_of(&status, "PPid:")?))
        })
        .collect();
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        for (pid, _) in parents.iter().filter(|(_, of)| *of == parent) {
            if !found.contains(pid) {
                found.push(*pid);
            }
        }
        at += 1;
    }
    let threads = found
        .iter()
        .flat_map(|pid| numbers(&PathBuf::from(format!("/proc/{pid}/task"))).collect::<Vec<u32>>());
    threads.collect()
}

/// The entries of a directory that are numbers.
fn numbers(directory: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn any_of(processes: &[u32]) -> String {
    let one = |pid: &u32| format!("$current->tgid == {pid}");
    join_or(processes.iter().map(one).collect())
}

fn join_or(parts: Vec<String>) -> String {
    match &parts[..] {
        [one] => one.clone(),
        _ => format!("({})", parts.join(" || ")),
    }
}

/// The condition that the task has a name. For a trace event, `$comm` can be one of its fields. The language has no
/// escapes, and takes several blanks in a string for one: a character that it cannot have is `?`.
fn comm_like(glob: &str) -> Result<String> {
    if glob.is_empty() {
        return Err(Failure::new("--comm: a name or a pattern is missing"));
    }
    if !glob.contains(['*', '?', '[']) && glob.len() > MAX_COMM {
        let start = glob.get(..MAX_COMM).unwrap_or("...");
        return Err(Failure::new(format!(
            "--comm {glob}: the name of a task has at most {MAX_COMM} bytes: try --comm '{start}'"
        )));
    }
    let mut text = String::new();
    for c in glob.chars() {
        let is_second = c == ' ' && text.ends_with([' ', '?']);
        text.push(match c {
            '"' => '?',
            c if is_second || c.is_control() => '?',
            c => c,
        });
    }
    Ok(format!("$COMM ~ \"{text}\""))
}

/// The condition that the task is in a cgroup, or in one below it.
fn in_cgroup(path: &str) -> Result<String> {
    need_types("--cgroup")?;
    let below = Path::new(CGROUPS).join(path.trim_start_matches('/'));
    let candidates = match path.starts_with('/') {
        true => [PathBuf::from(path), below],
        false => [below, PathBuf::from(path)],
    };
    let is_cgroup = |path: &Path| path.join(CGROUP_FILE).exists();
    let directory = candidates
        .iter()
        .find(|path| is_cgroup(path))
        .and_then(|path| path.canonicalize().ok())
        .ok_or_else(|| {
            Failure::new(format!(
                "{path} is no cgroup: give a directory below {CGROUPS} that has {CGROUP_FILE}"
            ))
        })?;
    let metadata = fs::metadata(&directory);
    let metadata = metadata.map_err(|error| Failure::file(directory.display(), &error))?;
    let parents = directory.ancestors().skip(1);
    let level = parents.take_while(|path| is_cgroup(path)).count();
    let offset = btf::with(None, |btf| btf::offset(btf, "cgroup", "ancestors"));
    let offset = offset
        .flatten()
        .ok_or_else(|| Failure::new("--cgroup: BTF describes no struct cgroup with ancestors"))?;
    Ok(below_cgroup(offset, level, metadata.ino()))
}

/// A cgroup has an array of its ancestors, which has an element for each level down to its own.
fn below_cgroup(offset: u32, level: usize, id: u64) -> String {
    let at = offset as usize + level * size_of::<u64>();
    format!("{CGROUP}->level >= {level} && (cgroup)(+{at}({CGROUP}))->kn->id == {id}")
}

/// The condition that the task is on one of these CPUs.
fn on_cpus(list: &str) -> Result<String> {
    const CPU: &str = "$current->thread_info.cpu";

    let parse = |range: &str| -> Option<String> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        Some(match first == last {
            true => format!("{CPU} == {first}"),
            false if first > last => return None,
            false => format!("{CPU} >= {first} && {CPU} <= {last}"),
        })
    };
    let ranges: Option<Vec<String>> = list.split(',').map(parse).collect();
    match ranges {
        Some(ranges) => Ok(join_or(ranges)),
        None => Err(Failure::new(format!(
            "--cpu {list}: a list of CPUs is such as 0,2-3"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn tasks_become_a_condition() {
        assert_eq!(any_of(&[7]), "$current->tgid == 7");
        assert_eq!(
            any_of(&[7, 8]),
            "($current->tgid == 7 || $current->tgid == 8)"
        );
        assert_eq!(comm_like("a b*").unwrap(), "$COMM ~ \"a b*\"");
        assert_eq!(comm_like("a  \"b\t").unwrap(), "$COMM ~ \"a ??b?\"");
        assert_eq!(comm_like("it's").unwrap(), "$COMM ~ \"it's\"");
        assert_eq!(on_cpus("3").unwrap(), "$current->thread_info.cpu == 3");
        assert_eq!(
            on_cpus("0,2-3").unwrap(),
            "($current->thread_info.cpu == 0 || $current->thread_info.cpu >= 2 && $current->thread_info.cpu <= 3)"
        );
        assert_eq!(
            below_cgroup(16, 2, 9),
            "$current->cgroups->dfl_cgrp->level >= 2 && (cgroup)(+32($current->cgroups->dfl_cgrp))->kn->id == 9"
        );
    }

    #[test]
    fn rejects_what_can_match_nothing() {
        for wrong in ["", "a", "1-", "3-2", "1,,2", "-1"] {
            assert!(on_cpus(wrong).is_err(), "{wrong}");
        }
        let Err(Failure::Message(text)) = comm_like("systemd-journald") else {
            panic!();
        };
        assert!(text.ends_with("try --comm 'systemd-journal'"), "{text}");
        assert!(comm_like("systemd-journald*").is_ok());
        assert!(comm_like("").is_err());
        assert!(in_cgroup("/proc").is_err());
        // No process has the largest number.
        assert!(check_process(u32::MAX).is_err());
        assert!(has_ended(u32::MAX));
    }

    #[test]
    fn the_parts_are_joined() {
        let whom = Whom::new(Options {
            comm: Some("a*"),
            condition: Some("x > 1 || y > 2"),
            ..Options::default()
        });
        let whom = whom.unwrap();
        assert_eq!(whom.clause(), " if $COMM ~ \"a*\" && (x > 1 || y > 2)");
        assert_eq!(whom.and(), " && $COMM ~ \"a*\" && (x > 1 || y > 2)");
        assert!(whom
            .counted()
            .starts_with("$COMM ~ \"a*\" && (x > 1 || y > 2) && common_pid != "));
        let all = Whom::default();
        assert_eq!((all.clause(), all.and()), (String::new(), String::new()));
        assert_eq!(all.counted(), counts::not_own());
    }

    #[test]
    fn knows_processes() {
        let own = process::id();
        assert!(check_process(own).is_ok());
        assert!(!has_ended(own));
        assert!(threads_of(&[own]).contains(&own));
        let mut child = process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = threads_of(&[own]).contains(&child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
    }
}
