// SPDX-License-Identifier: GPL-2.0

//! Probes at the start of a wait for a lock, which record who holds the lock.
//!
//! The word of the owner is the address of a task plus some flags, and the command language cannot remove flags from an
//! address. So each value of the flags has a probe of its own, whose offsets make up for them.

use crate::btf;

/// The flags of `contention_begin`. C: `LCB_F_SPIN` and so on.
const SPIN: u64 = 1;
const READ: u64 = 2;
const WRITE: u64 = 4;
const RT: u64 = 8;
const PERCPU: u64 = 16;
const MUTEX: u64 = 32;

/// The number of bits of the flags in the owner of a mutex, and of an rwsem.
pub const MUTEX_FLAGS: u32 = 3;
pub const RWSEM_FLAGS: u32 = 2;
/// C: `RWSEM_READER_OWNED`.
pub const READER: u64 = 1;

/// The kind of a lock.
pub fn kind(flags: u64) -> &'static str {
    match flags {
        flags if flags & MUTEX > 0 => "mutex",
        flags if flags & RT > 0 => "rt_mutex",
        flags if flags & PERCPU > 0 => "percpu_rwsem",
        0 => "semaphore",
        flags if flags & READ > 0 => "rwsem read",
        _ => "rwsem write",
    }
}

/// Whether an owner with these flags is a reader, and only one of perhaps many.
pub fn is_reader(flags: u64, owner: u64) -> bool {
    kind(flags).starts_with("rwsem") && owner & READER > 0
}

/// Offsets of members, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offsets {
    /// The owner of a mutex, and of an rwsem.
    mutex: u32,
    rwsem: u32,
    /// The name of a task, and its thread ID.
    comm: u32,
    pid: u32,
}

impl Offsets {
    /// The offsets in the running kernel. `None` without BTF, or if a member has another name.
    pub fn find() -> Option<Self> {
        btf::with(None, |btf| {
            let of = |structure: &str, member: &str| btf::offset(btf, structure, member);
            Some(Self {
                mutex: of("mutex", "owner")?,
                rwsem: of("rw_semaphore", "owner")?,
                comm: of("task_struct", "comm")?,
                pid: of("task_struct", "pid")?,
            })
        })
        .flatten()
    }

    /// The fetch arguments and the condition of a probe for one value of the flags of the owner at `owner`.
    fn with_flags(&self, owner: u32, bits: u32, flags: u32, condition: &str) -> String {
        let (comm, pid) = (self.comm - flags, self.pid - flags);
        let word = format!("+{owner}(lock)");
        format!(
            "owner={word}:x64 holder_pid=+{pid}({word}):u32 holder=+{comm}({word}):string comm=$comm \
             if {condition} && {word}:b{bits}@0/64 == {flags}"
        )
    }

    /// The ends of the commands for all locks on which tasks sleep.
    pub fn probes(&self) -> Vec<String> {
        let fields = "lock=lock:symbol address=lock:x64 flags=flags:u32";
        let spinning = SPIN | RT | PERCPU | MUTEX;
        let mutex = format!("flags:u32 & {MUTEX}");
        let rwsem = format!("!(flags:u32 & {spinning}) && flags:u32 & {}", READ | WRITE);
        let of_mutex = (0..1 << MUTEX_FLAGS)
            .map(|flags| self.with_flags(self.mutex, MUTEX_FLAGS, flags, &mutex));
        let of_rwsem = (0..1 << RWSEM_FLAGS)
            .map(|flags| self.with_flags(self.rwsem, RWSEM_FLAGS, flags, &rwsem));
        let others = format!(
            "owner=\\0:x64 holder_pid=\\0:u32 holder=\\\"\" comm=$comm if (flags:u32 & {} || flags:u32 == 0)",
            RT | PERCPU
        );
        of_mutex
            .chain(of_rwsem)
            .chain([others])
            .map(|rest| format!("{fields} {rest}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes;

    #[test]
    fn each_value_of_the_flags_has_a_probe() {
        let offsets = Offsets {
            mutex: 0,
            rwsem: 8,
            comm: 3000,
            pid: 2000,
        };
        let all = offsets.probes();
        assert_eq!(all.len(), 8 + 4 + 1);
        for probe in &all {
            probes::check_syntax(&format!("t:g/begin contention_begin {probe}")).unwrap();
        }
        assert!(all[7].ends_with(
            "owner=+0(lock):x64 holder_pid=+1993(+0(lock)):u32 holder=+2993(+0(lock)):string comm=$comm \
             if flags:u32 & 32 && +0(lock):b3@0/64 == 7"
        ));
        assert!(all[9].ends_with(
            "comm=$comm if !(flags:u32 & 57) && flags:u32 & 6 && +8(lock):b2@0/64 == 1"
        ));
    }

    #[test]
    fn flags_say_what_the_lock_is() {
        let kinds = [32, 33, 2, 4, 8, 10, 18, 0].map(kind);
        assert_eq!(
            kinds,
            [
                "mutex",
                "mutex",
                "rwsem read",
                "rwsem write",
                "rt_mutex",
                "rt_mutex",
                "percpu_rwsem",
                "semaphore"
            ]
        );
        assert!(is_reader(4, 0xff01) && !is_reader(4, 0xff02) && !is_reader(32, 0xff01));
    }
}
