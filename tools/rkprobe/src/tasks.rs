// SPDX-License-Identifier: GPL-2.0

//! Tasks in the kernel's memory: what each of them waits for, and who holds it. Nothing is probed, and nothing stops
//! meanwhile, so that a fact can be out of date.

use std::collections::HashMap;

use probe::btf::Btf;

use crate::{
    btf,
    kernel_memory::Memory,
    lock_probes::{
        MUTEX_FLAGS,
        READER,
        RWSEM_FLAGS, //
    }, //
};

/// The most tasks. A list that changes meanwhile could have no end.
const MAX_TASKS: usize = 1 << 20;
/// The size of a kernel stack that is searched.
const STACK: u64 = 16 * 1024;
/// The number of bits of the flags in the owner of an rt_mutex. C: `RT_MUTEX_HAS_WAITERS`.
const RT_MUTEX_FLAGS: u32 = 1;
/// The lowest address of the kernel.
const KERNEL: u64 = 1 << 63;

/// Offsets of members, in bytes. Kernels lack some of them.
struct Offsets {
    tasks: u64,
    signal: u64,
    thread_head: u64,
    thread_node: u64,
    pid: u64,
    arrival: Option<u64>,
    blocked_on: Option<u64>,
    blocker: Option<u64>,
    stack: u64,
    stack_pointer: Option<u64>,
    mutex_owner: Option<u64>,
    rwsem_owner: Option<u64>,
    last_holder: Option<u64>,
    /// The members that lead from a task to the rt_mutex that it waits for, and to its owner.
    rt_mutex: Option<(u64, u64, u64)>,
    /// The members of a wait for a page, and of a wait for a completion, which are on the stack of the task.
    folio: Option<(u64, u64, u64)>,
    completion: Option<(u64, u64, u64)>,
}

impl Offsets {
    fn find(btf: &Btf<'_>) -> Option<Self> {
        let of = |structure: &str, member: &str| btf::offset(btf, structure, member).map(u64::from);
        let task = |member: &str| of("task_struct", member);
        let completion = || {
            Some((
                of("swait_queue", "task")?,
                of("swait_queue", "task_list")?,
                of("completion", "wait.task_list")?,
            ))
        };
        let folio = || {
            Some((
                of("wait_page_queue", "folio")?,
                of("wait_page_queue", "wait.private")?,
                of("wait_page_queue", "wait.func")?,
            ))
        };
        let rt_mutex = || {
            Some((
                task("pi_blocked_on")?,
                of("rt_mutex_waiter", "lock")?,
                of("rt_mutex_base", "owner")?,
            ))
        };
        Some(Self {
            tasks: task("tasks")?,
            signal: task("signal")?,
            thread_head: of("signal_struct", "thread_head")?,
            thread_node: task("thread_node")?,
            pid: task("pid")?,
            arrival: task("sched_info.last_arrival"),
            blocked_on: task("blocked_on"),
            blocker: task("blocker"),
            stack: task("stack")?,
            stack_pointer: task("thread.sp").or_else(|| task("thread.cpu_context.sp")),
            mutex_owner: of("mutex", "owner"),
            rwsem_owner: of("rw_semaphore", "owner"),
            last_holder: of("semaphore", "last_holder"),
            rt_mutex: rt_mutex(),
            folio: folio(),
            completion: completion(),
        })
    }
}

/// What a task waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    pub kind: &'static str,
    pub address: u64,
    /// The address of the task that holds it. 0 if it is unknown.
    owner: u64,
    /// Whether this task is one of perhaps many readers.
    pub is_reader: bool,
}

impl Lock {
    /// Whether somebody holds a lock of this kind, and not only the hardware or nobody.
    pub fn can_have_holder(&self) -> bool {
        !matches!(self.kind, "page" | "completion")
    }
}

/// A task.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// When the task was given a CPU for the last time, in ns of the scheduler's clock.
    pub arrival: Option<u64>,
    pub lock: Option<Lock>,
}

/// All tasks.
pub struct Tasks {
    /// By thread IDs.
    tasks: HashMap<u32, Task>,
    /// The thread IDs, by the addresses of the tasks.
    addresses: HashMap<u64, u32>,
}

impl Tasks {
    /// Reads all tasks, from the address of `init_task` on. `wake_page` is the address of `wake_page_function()`.
    pub fn read(
        memory: &Memory,
        btf: &Btf<'_>,
        init_task: u64,
        wake_page: Option<u64>,
    ) -> Option<Self> {
        let offsets = Offsets::find(btf)?;
        let reader = Reader {
            memory,
            offsets,
            wake_page,
        };
        let mut all = Self {
            tasks: HashMap::new(),
            addresses: HashMap::new(),
        };
        for leader in reader.list(init_task + reader.offsets.tasks, reader.offsets.tasks) {
            let Some(signal) = memory.word(leader + reader.offsets.signal) else {
                continue;
            };
            let threads = reader.list(
                signal + reader.offsets.thread_head,
                reader.offsets.thread_node,
            );
            for address in threads {
                if let Some((pid, task)) = reader.task(address) {
                    all.tasks.insert(pid, task);
                    all.addresses.insert(address, pid);
                }
            }
        }
        (!all.tasks.is_empty()).then_some(all)
    }

    /// A task, by its thread ID.
    pub fn get(&self, pid: u32) -> Option<&Task> {
        self.tasks.get(&pid)
    }

    /// The thread ID of the task that holds a lock.
    pub fn holder(&self, lock: &Lock) -> Option<u32> {
        self.addresses.get(&lock.owner).copied()
    }
}

struct Reader<'a> {
    memory: &'a Memory,
    offsets: Offsets,
    wake_page: Option<u64>,
}

impl Reader<'_> {
    /// The structures of a list, whose member at `offset` is in the list. The head belongs to no structure.
    fn list(&self, head: u64, offset: u64) -> Vec<u64> {
        let mut found = Vec::new();
        let mut at = self.memory.word(head);
        while let Some(node) = at.filter(|node| *node != head && *node >= KERNEL) {
            if found.len() == MAX_TASKS {
                break;
            }
            found.push(node - offset);
            at = self.memory.word(node);
        }
        found
    }

    fn task(&self, address: u64) -> Option<(u32, Task)> {
        let offsets = &self.offsets;
        let pid = self.memory.number(address + offsets.pid)?;
        let arrival = offsets.arrival;
        let task = Task {
            arrival: arrival.and_then(|offset| self.memory.word(address + offset)),
            lock: self
                .lock(address)
                .or_else(|| self.rt_mutex(address))
                .or_else(|| self.on_stack(address)),
        };
        Some((pid, task))
    }

    /// The word of a member that kernels can lack. 0 is none, as is what is no address.
    fn pointer(&self, address: u64, offset: Option<u64>) -> Option<u64> {
        let word = self.memory.word(address + offset?)?;
        (KERNEL..u64::MAX).contains(&word).then_some(word)
    }

    /// The lock for which the kernel itself says that the task waits.
    fn lock(&self, task: u64) -> Option<Lock> {
        let offsets = &self.offsets;
        let (kind, address) = match self.pointer(task, offsets.blocker) {
            // C: `BLOCKER_TYPE_MASK`.
            Some(blocker) => {
                let kinds = ["mutex", "semaphore", "rwsem read", "rwsem write"];
                (kinds[(blocker & 3) as usize], blocker & !3)
            }
            None => ("mutex", self.pointer(task, offsets.blocked_on)?),
        };
        let (offset, flags) = match kind {
            "mutex" => (offsets.mutex_owner, MUTEX_FLAGS),
            "semaphore" => (offsets.last_holder, 0),
            _ => (offsets.rwsem_owner, RWSEM_FLAGS),
        };
        let owner = offset.and_then(|offset| self.memory.word(address + offset));
        let owner = owner.unwrap_or(0);
        Some(Lock {
            kind,
            address,
            owner: owner & (u64::MAX << flags),
            is_reader: kind.starts_with("rwsem") && owner & READER > 0,
        })
    }

    /// The rt_mutex that a task waits for. On a kernel with `PREEMPT_RT`, mutexes and spin locks are rt_mutexes, too.
    fn rt_mutex(&self, task: u64) -> Option<Lock> {
        let (waiter, lock, owner) = self.offsets.rt_mutex?;
        let waiter = self.pointer(task, Some(waiter))?;
        let address = self.pointer(waiter, Some(lock))?;
        let owner = self.memory.word(address + owner)?;
        Some(Lock {
            kind: "rt_mutex",
            address,
            owner: owner & (u64::MAX << RT_MUTEX_FLAGS),
            is_reader: false,
        })
    }

    /// The page or the completion that a task waits for. The wait is a structure on its stack, with the task in it.
    fn on_stack(&self, task: u64) -> Option<Lock> {
        let bottom = self.pointer(task, Some(self.offsets.stack))?;
        let top = self.pointer(task, self.offsets.stack_pointer)?;
        let used = (bottom + STACK).checked_sub(top)?;
        if used > STACK {
            return None;
        }
        let mut bytes = vec![0; used as usize];
        self.memory.read(top, &mut bytes)?;
        let words = Words { at: top, bytes };
        let places = (0..used / 8).map(|index| top + index * 8);
        let mut places = places.filter(|at| words.get(*at) == Some(task));
        places.find_map(|at| {
            self.folio(&words, at)
                .or_else(|| self.completion(&words, at))
        })
    }

    /// The page of the wait whose task is at `at`.
    fn folio(&self, words: &Words, at: u64) -> Option<Lock> {
        let (folio, task, function) = self.offsets.folio?;
        let start = at.checked_sub(task)?;
        if words.get(start + function) != Some(self.wake_page?) {
            return None;
        }
        Some(Lock {
            kind: "page",
            address: words.get(start + folio)?,
            owner: 0,
            is_reader: false,
        })
    }

    /// The completion of the wait whose task is at `at`. The first waiter is next to the list's head, which is in the
    /// completion.
    fn completion(&self, words: &Words, at: u64) -> Option<Lock> {
        let (task, list, head) = self.offsets.completion?;
        let node = at.checked_sub(task)? + list;
        let (next, previous) = (words.get(node)?, words.get(node + 8)?);
        let is_list = |other: u64, link: u64| {
            other >= KERNEL && other % 8 == 0 && self.memory.word(other + link) == Some(node)
        };
        if !is_list(next, 8) || !is_list(previous, 0) {
            return None;
        }
        Some(Lock {
            kind: "completion",
            address: previous.checked_sub(head)?,
            owner: 0,
            is_reader: false,
        })
    }
}

/// Words of a stack.
struct Words {
    at: u64,
    bytes: Vec<u8>,
}

impl Words {
    fn get(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.at)?).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}
