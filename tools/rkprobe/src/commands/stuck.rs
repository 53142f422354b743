// SPDX-License-Identifier: GPL-2.0

//! `rkprobe stuck [PID...]`: which threads do not move, since when and where, and who holds the lock that they wait for?
//!
//! Looking needs neither a probe nor the module: the stacks are in `/proc`, and the locks in the kernel's memory.

use std::{
    collections::{
        BTreeMap,
        BTreeSet, //
    },
    process,
    thread::sleep,
    time::Duration, //
};

use serde::Serialize;

use crate::{
    btf,
    context::Context,
    duration,
    failure::{
        note,
        Failure,
        Result, //
    },
    functions::Functions,
    kernel_memory::Memory,
    moves,
    stream,
    symbols::is_mapping,
    tasks::{
        self,
        Task,
        Tasks, //
    },
    threads::{
        self,
        Thread, //
    },
    wait_graph::Graph, //
};

/// A time after which a task is given a CPU again, so that the clock of the scheduler is known.
const NAP: Duration = Duration::from_millis(2);

/// The options of the question.
pub struct Asked {
    /// Processes and threads. Empty for all.
    pub pids: Vec<u32>,
    /// The shortest wait that counts, in ns.
    pub min: u64,
    /// Whether the whole stack is shown.
    pub has_stack: bool,
    /// Whether to wait until all of them move.
    pub until_moves: bool,
    /// Whether the user wants to see the shell commands only.
    pub is_dry: bool,
}

/// What a thread waits for, in JSON.
#[derive(Serialize)]
struct Lock {
    kind: &'static str,
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<u32>,
    /// Whether the holder is one of perhaps many readers.
    is_reader: bool,
}

/// A thread of the answer.
#[derive(Serialize)]
struct Stuck<'a> {
    #[serde(flatten)]
    thread: &'a Thread,
    /// The time since the thread was given a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    ns: Option<u64>,
    function: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<Lock>,
    /// Whether the thread waits for itself through others.
    in_cycle: bool,
}

impl Stuck<'_> {
    fn name(&self) -> String {
        format!("{}-{}", self.thread.comm, self.thread.pid)
    }

    /// The thread in one line. `holder` is the name of the holder of its lock.
    fn show(&self, holder: Option<&str>) -> String {
        let mut text = format!("{}  {}", self.name(), self.thread.verb());
        if let Some(ns) = self.ns.filter(|_| self.thread.state != 'R') {
            text += &format!(" {}", duration::show(ns));
        }
        if !self.function.is_empty() {
            text += &format!(" in {}", self.function);
        }
        let Some(lock) = &self.lock else {
            return text;
        };
        text += &match &lock.name {
            Some(name) => format!(" for {} {name}", lock.kind),
            None => format!(" for {} {}", lock.kind, lock.address),
        };
        match holder {
            Some(holder) if lock.is_reader => {
                text + &format!(", which readers hold, such as {holder}")
            }
            Some(holder) => text + &format!(", which {holder} holds"),
            None => text,
        }
    }
}

/// The answer: threads that do not move, and those that they wait for.
struct Answer<'a> {
    threads: BTreeMap<u32, Stuck<'a>>,
    graph: &'a Graph,
    cycles: Vec<Vec<u32>>,
    has_stack: bool,
}

impl Answer<'_> {
    /// A thread with its stack, and below it those that wait for it.
    fn show_tree(&self, pid: u32, depth: usize, shown: &mut BTreeSet<u32>) -> String {
        let Some(stuck) = self.threads.get(&pid).filter(|_| shown.insert(pid)) else {
            return String::new();
        };
        let holder = stuck.lock.as_ref().and_then(|lock| lock.holder);
        let holder = holder.and_then(|pid| self.threads.get(&pid));
        let holder = holder.map(Stuck::name);
        let mut text = format!("{}{}\n", "  ".repeat(depth), stuck.show(holder.as_deref()));
        if self.has_stack {
            text += &stream::show_stack(&stuck.thread.stack);
        }
        for waiter in self.graph.waiters(pid) {
            text += &self.show_tree(waiter, depth + 1, shown);
        }
        text
    }

    /// First the threads that wait for each other in a circle, then all others, below those that they wait for.
    fn show(&self) -> String {
        let mut shown = BTreeSet::new();
        let mut text = String::new();
        for cycle in &self.cycles {
            let names = cycle.iter().filter_map(|pid| self.threads.get(pid));
            let names: Vec<String> = names.map(Stuck::name).collect();
            text += &format!("deadlock: {} wait for each other\n", names.join(", "));
            // Each thread of the circle stands on its own, and below it those that wait for it from outside.
            let mut own: BTreeSet<u32> = cycle.iter().copied().collect();
            own.append(&mut shown);
            for pid in cycle {
                own.remove(pid);
                text += &self.show_tree(*pid, 1, &mut own);
            }
            shown = own;
        }
        let is_root = |pid: &&u32| {
            let holder = self.graph.0.get(pid);
            holder.is_none_or(|holder| !self.threads.contains_key(holder))
        };
        for pid in self.threads.keys().filter(is_root) {
            text += &self.show_tree(*pid, 0, &mut shown);
        }
        text
    }
}

/// The facts in the kernel's memory. Says why there are none.
fn read_tasks(context: &Context) -> Option<Tasks> {
    let address_of = |name: &str| {
        let mut all = context.functions.all();
        let (address, _) = all.find(|(_, symbol)| symbol.name == name)?;
        u64::from_str_radix(address, 16)
            .ok()
            .filter(|address| *address != 0)
    };
    let why = match (Memory::open(), address_of("init_task")) {
        (Err(error), _) => format!("/proc/kcore: {error}"),
        (_, None) => "/proc/kallsyms hides addresses, or lacks init_task".into(),
        (Ok(memory), Some(init_task)) => {
            let wake_page = address_of("wake_page_function");
            let tasks = btf::with(None, |btf| Tasks::read(&memory, btf, init_task, wake_page));
            match tasks {
                Some(Some(tasks)) => return Some(tasks),
                Some(None) => "the tasks cannot be read from /proc/kcore".into(),
                None => "the kernel has no BTF".into(),
            }
        }
    };
    note(format!(
        "rkprobe: locks, their holders and times are missing: {why}"
    ));
    None
}

/// The waits among all threads.
fn graph(tasks: Option<&Tasks>, threads: &[Thread]) -> Graph {
    let holder = |thread: &Thread| {
        let tasks = tasks?;
        let lock = tasks.get(thread.pid)?.lock.as_ref()?;
        Some((thread.pid, tasks.holder(lock)?))
    };
    Graph(threads.iter().filter_map(holder).collect())
}

/// What all threads do at one time.
struct Look {
    /// The facts in the kernel's memory.
    tasks: Option<Tasks>,
    threads: Vec<Thread>,
    graph: Graph,
}

impl Look {
    /// Looks at all threads but those of the tool.
    fn new(context: &Context) -> Self {
        sleep(NAP);
        let tasks = read_tasks(context);
        let mut threads = threads::all();
        threads.retain(|thread| thread.process != process::id());
        Self {
            graph: graph(tasks.as_ref(), &threads),
            tasks,
            threads,
        }
    }

    fn task(&self, pid: u32) -> Option<&Task> {
        self.tasks.as_ref()?.get(pid)
    }

    /// The time since a thread was given a CPU, in ns.
    fn time_since_run(&self, thread: &Thread) -> Option<u64> {
        let arrival = |pid| self.task(pid)?.arrival;
        Some(arrival(process::id())?.saturating_sub(arrival(thread.pid)?))
    }

    fn is_asked(&self, thread: &Thread, asked: &Asked) -> bool {
        if !asked.pids.is_empty() {
            return asked.pids.contains(&thread.process) || asked.pids.contains(&thread.pid);
        }
        // A thread that a signal can interrupt may wait for a completion as long as it likes.
        let lock = self.task(thread.pid).and_then(|task| task.lock.as_ref());
        let has_lock = lock.is_some_and(tasks::Lock::can_have_holder);
        let is_waiting = thread.state == 'D' || has_lock && thread.state != 'R';
        let ns = self.time_since_run(thread);
        is_waiting && ns.is_none_or(|ns| ns >= asked.min)
    }

    /// The threads that the options choose.
    fn asked_for(&self, asked: &Asked) -> BTreeSet<u32> {
        let all = self.threads.iter();
        let asked_for = all.filter(|thread| self.is_asked(thread, asked));
        asked_for.map(|thread| thread.pid).collect()
    }

    fn read_stacks(&mut self, pids: &BTreeSet<u32>) {
        let all = self.threads.iter_mut();
        for thread in all.filter(|thread| pids.contains(&thread.pid)) {
            thread.read_stack();
        }
    }

    /// The lock that a thread waits for, with its name if the kernel has a symbol there.
    fn lock(&self, functions: &Functions, thread: &Thread) -> Option<Lock> {
        let lock = self.task(thread.pid)?.lock.as_ref()?;
        let address = format!("{:016x}", lock.address);
        // Without lockdep, the key of a lock has no size, and so perhaps the address of the lock after it.
        let is_lock = |name: &str| name.split('.').next() != Some("__key") && !is_mapping(name);
        let mut all = functions.all();
        let name = all.find(|(known, symbol)| *known == address && is_lock(symbol.name));
        Some(Lock {
            kind: lock.kind,
            address: format!("{:#x}", lock.address),
            name: name.map(|(_, symbol)| symbol.to_string()),
            holder: self.tasks.as_ref()?.holder(lock),
            is_reader: lock.is_reader,
        })
    }

    /// The answer about the threads `pids`.
    fn answer(&self, functions: &Functions, pids: &BTreeSet<u32>, has_stack: bool) -> Answer<'_> {
        let mut cycles = self.graph.cycles();
        cycles.retain(|cycle| cycle.iter().any(|pid| pids.contains(pid)));
        let stuck = |thread| Stuck {
            thread,
            ns: self.time_since_run(thread),
            function: thread.place(),
            lock: self.lock(functions, thread),
            in_cycle: cycles.iter().any(|cycle| cycle.contains(&thread.pid)),
        };
        let all = self.threads.iter();
        let chosen = all.filter(|thread| pids.contains(&thread.pid));
        Answer {
            threads: chosen.map(|thread| (thread.pid, stuck(thread))).collect(),
            graph: &self.graph,
            cycles,
            has_stack,
        }
    }
}

fn print(context: &Context, answer: &Answer<'_>) -> Result {
    if context.is_json {
        let all: Vec<&Stuck<'_>> = answer.threads.values().collect();
        context.print_json(&BTreeMap::from([("threads", all)]))
    } else if answer.threads.is_empty() {
        context.print("nothing is stuck\n")
    } else {
        context.print(&answer.show())
    }
}

/// Runs the command.
pub fn run(context: &Context, asked: &Asked) -> Result {
    if asked.is_dry && !asked.until_moves {
        context.tracefs.show("cat /proc/[0-9]*/task/[0-9]*/stack");
        return Ok(());
    }
    if let Some(pid) = asked.pids.iter().find(|pid| !threads::exists(**pid)) {
        return Err(Failure::new(format!("there is no process {pid}")));
    }
    let mut look = Look::new(context);
    let asked_for = look.asked_for(asked);
    let connected = look.graph.connected(asked_for.iter().copied());
    look.read_stacks(&connected);
    // The shell commands of a dry run are the whole output.
    if !asked.is_dry {
        let answer = look.answer(&context.functions, &connected, asked.has_stack);
        print(context, &answer)?;
    }
    if !asked.until_moves {
        return Ok(());
    }
    let all = look.threads.iter();
    let waiting = all.filter(|thread| asked_for.contains(&thread.pid) && thread.state != 'R');
    moves::wait(context, &waiting.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(pid: u32) -> Thread {
        Thread {
            pid,
            process: pid,
            comm: "a".into(),
            state: 'D',
            stack: vec!["f+0x1/0x2".into()],
        }
    }

    fn show(pids: &[u32], edges: &[(u32, u32)]) -> String {
        let threads: Vec<Thread> = pids.iter().copied().map(thread).collect();
        let graph = Graph(edges.iter().copied().collect());
        let stuck = |thread| Stuck {
            thread,
            ns: Some(2_000_000),
            function: thread.place(),
            lock: graph.0.get(&thread.pid).map(|holder| Lock {
                kind: "mutex",
                address: "0xff".into(),
                name: None,
                holder: Some(*holder),
                is_reader: false,
            }),
            in_cycle: false,
        };
        let threads = threads.iter().map(|thread| (thread.pid, stuck(thread)));
        Answer {
            threads: threads.collect(),
            cycles: graph.cycles(),
            graph: &graph,
            has_stack: false,
        }
        .show()
    }

    #[test]
    fn those_who_wait_are_below_those_who_hold() {
        assert_eq!(
            show(&[1, 2, 3, 4], &[(2, 1), (3, 2), (4, 9)]),
            "a-1  waits 2.00 ms in f\n  \
             a-2  waits 2.00 ms in f for mutex 0xff, which a-1 holds\n    \
             a-3  waits 2.00 ms in f for mutex 0xff, which a-2 holds\n\
             a-4  waits 2.00 ms in f for mutex 0xff\n"
        );
    }

    #[test]
    fn a_circle_is_a_deadlock() {
        assert_eq!(
            show(&[1, 2, 3], &[(1, 2), (2, 1), (3, 2)]),
            "deadlock: a-1, a-2 wait for each other\n  \
             a-1  waits 2.00 ms in f for mutex 0xff, which a-2 holds\n  \
             a-2  waits 2.00 ms in f for mutex 0xff, which a-1 holds\n    \
             a-3  waits 2.00 ms in f for mutex 0xff, which a-2 holds\n"
        );
    }
}
