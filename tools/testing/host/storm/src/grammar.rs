// SPDX-License-Identifier: GPL-2.0

//! Commands: valid ones, almost valid ones and random bytes.

use crate::{
    clauses::{
        self,
        Has, //
    },
    rng::Rng, //
};

/// Groups and events that workers define: `s0` to `s3`, each with `e0` to `e5`.
pub const GROUPS: usize = 4;
pub const EVENTS: usize = 6;

/// Functions that the hitters call, in the kernel and in modules that come and go.
const FUNCTIONS: [&str; 24] = [
    "__x64_sys_getppid",
    "__x64_sys_kill",
    "__x64_sys_rmdir",
    "__x64_sys_unlink",
    "__x64_sys_prctl",
    "__x64_sys_getppid",
    "__x64_sys_kill",
    "vfs_read",
    "vfs_write",
    "vfs_open",
    "do_sys_openat2",
    "ksys_read",
    "kernel_clone",
    "do_exit",
    "security_file_open",
    "tracepoint_target:rkprobe_target_function",
    "tracepoint_target:rkprobe_target_deep",
    "rkprobe_target_function",
    "exits_target:exits_deep",
    "exits_target:exits_eight",
    "exits_target:exits_sleeps",
    "exits_deep",
    "dummy:dummy_xmit",
    "dummy:dummy_get_stats64",
];

/// Symbols that a command must not accept, or not always.
const STRANGE: [&str; 12] = [
    "nosuch_function",
    "nosuch_module:function",
    "tracepoint_target:rkprobe_target_no_probe",
    "tracepoint_target:rkprobe_target_twice",
    "exits_target:exits_bad_byte",
    "exits_target:exits_tail",
    "entry_SYSCALL_64",
    "kprobe_ftrace_handler",
    "vfs_read+3",
    "vfs_read+100000",
    "init_task",
    "0xffffffffffffffff",
];

/// Memory of the kernel, of each CPU, and of a module that comes and goes; and a function.
const MEMORY: [&str; 6] = [
    "w@jiffies_64:8",
    "w@process_counts:8",
    "rw@tracepoint_target:rkprobe_target_sum:4",
    "rw@init_task:8",
    "x@vfs_open",
    "w@nosuch_symbol",
];

const WATCHED: [&str; 2] = ["at=$addr", "new=+0($addr):x32"];

/// A type of objects for object probes.
#[derive(Clone, Copy)]
struct Followed {
    /// Two sources of objects, and an end: the letter of each, and its command after the event.
    sources: [(&'static str, &'static str); 3],
    /// The field of all three.
    field: &'static str,
    functions: &'static str,
    argument: &'static str,
}

const FOLLOWED: [Followed; 3] = [
    Followed {
        sources: [
            ("p", "vfs_open file=file"),
            ("r", "alloc_empty_file file=$retval"),
            ("p", "__fput file=file"),
        ],
        field: "file",
        functions: "vfs_*,security_file_*,!vfs_fsync*,fput*",
        argument: "mode=$obj->f_mode",
    },
    Followed {
        sources: [
            ("r", "alloc_inode inode=$retval"),
            ("p", "iput inode=inode"),
            ("p", "__destroy_inode inode=inode"),
        ],
        field: "inode",
        functions: "inode_*,iput",
        argument: "mode=$obj->i_mode",
    },
    Followed {
        sources: [
            ("t", "sched_waking task=p"),
            ("t", "task_rename task=task"),
            ("t", "sched_process_exit task=p"),
        ],
        field: "task",
        functions: "try_to_wake_up*,__set_task_comm,do_exit",
        argument: "comm=$obj->comm:string",
    },
];

const OBJECT_OPTIONS: [&str; 2] = ["objects=3", "hits=2"];

/// Roots of call trees besides the other functions: those that wait, do not return, or that tracing
/// itself uses.
const TREE_ROOTS: [&str; 8] = [
    "schedule",
    "hrtimer_nanosleep",
    "do_exit",
    "__x64_sys_exit_group",
    "ring_buffer_lock_reserve",
    "trace_event_buffer_commit",
    "ktime_get_mono_fast_ns",
    "finish_task_switch",
];

/// Lists of functions for `f`.
const LISTS: [&str; 5] = [
    "vfs_*,!vfs_fsync*",
    "rkprobe_target_*,kernel_clone,!*_deep",
    "!vfs_read,do_exit,vfs_*,kernel_clone",
    "schedule,ksys_*",
    "nosuch_function,vfs_read",
];

const TREE_FUNCTIONS: [&str; 7] = [
    "",
    "*1",
    "*2",
    "vfs_*,security_*,!security_file_*",
    "rkprobe_target_*,exits_*,schedule",
    "ring_buffer_*,_raw_spin_*,ktime_*",
    "nosuch_function",
];

const TREE_OPTIONS: [&str; 2] = ["calls=3", "steps=20"];

const TREE_VALUES: [&str; 3] = ["r=$retval", "took=$elapsed", "$comm"];

const TRACEPOINTS: [&str; 5] = [
    "task_rename",
    "sched_process_fork",
    "sched_process_exit",
    "rkprobe_target_tp",
    "nosuch_tracepoint",
];

/// Events of the kernel, two of them of system calls, and one of a worker, which cannot be probed.
const RECORDED: [&str; 7] = [
    "task/task_rename",
    "sched/sched_switch",
    "sched.sched_process_fork",
    "syscalls/sys_enter_openat",
    "syscalls/sys_exit_getppid",
    "s0/e0",
    "nosuch/event",
];

/// Fields of these events, and what is none.
const FIELDS: [&str; 8] = [
    "newcomm:string",
    "c=$prev_comm:string",
    "$next_pid",
    "pid=child_pid:s32",
    "f=+0(filename):ustring",
    "$ret",
    "at=+8($filename):x64",
    "nr=__syscall_nr",
];

/// Fetch arguments of every kind of probe, of probes with registers, and of return probes.
const ANY: [&str; 14] = [
    "$comm",
    "c=$comm",
    "os=@init_uts_ns:string",
    "raw=@init_uts_ns:x8[4]",
    "i=\\42",
    "t=\\\"text\"",
    "far=+8(+8(@init_uts_ns)):x64",
    "task=$current",
    "parent=$current->real_parent->comm:string",
    "on=this_cpu_read(@current_task)",
    "rq=this_cpu_ptr(@runqueues)",
    "runs=(rq)this_cpu_ptr(@runqueues)->curr->comm:string",
    "pid=(task_struct,comm)$comm->pid",
    "mode=(inode)((file)($current->mm->exe_file)->f_inode)->i_mode:x16",
];
const REGISTERS: [&str; 6] = [
    "x=%di:x64",
    "sp=+8(%sp):u32[3]",
    "from=$stack0:symbol",
    "by=$stack0:symstr",
    "$stack2",
    "low=%si:b4@0/32",
];
const ENTRY: [&str; 7] = [
    "$arg1",
    "a=$arg2:u32",
    "s=+0($arg2):ustring",
    "p=+0($arg1):string",
    "$arg*",
    "size=(inode)((file)$arg1->f_inode)->i_size",
    "(file)$arg1->*",
];
const RETURN: [&str; 4] = [
    "ret=$retval",
    "r=$retval:s32",
    "ns=$elapsed",
    "from=$caller:symbol",
];
const STRANGE_HEADS: [&str; 16] = [
    "q:s0/e0",
    "p100:s0/e0",
    "r99999:s0/e0",
    "r0:s0/e0",
    "rx:s0/e0",
    "p:s0/",
    "p:/e0",
    "p:0s/e0",
    "p:s0/e-0",
    "p:s0/e0/e0",
    "p:s0:e0",
    "p:s0/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
    "-:",
    "-",
    "#",
    "p:s0/e0 ",
];
const STRANGE_ARGUMENTS: [&str; 16] = [
    "$foo",
    "$retval",
    "$exit",
    "=1",
    "x=+0(+0(+0($arg1))",
    "x=%nosuch",
    "a=$arg1:u128",
    "a=$arg1:x8[65]",
    "common_pid=$arg1",
    "file->f_nosuch",
    "x=(file)$arg1",
    "x=(file,f_nosuch)$arg1->f_mode",
    "x=this_cpu_read($comm)",
    "$current->nosuch",
    "$current->*:u8",
    "x=(file)(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0($arg1)))))))))))))))))->f_mode",
];

/// Kinds of probes: letter and suffix. The likelier ones occur more than once.
const KINDS: [(&str, &str); 15] = [
    ("p", ""),
    ("p", ""),
    ("p", ""),
    ("p", ""),
    ("r", ""),
    ("r", ""),
    ("r8", ""),
    ("p", "%return"),
    ("p", "%retinsn"),
    ("p", "%blocks"),
    ("p", "%blocks-once"),
    ("p", "%path"),
    ("t", ""),
    ("w", ""),
    ("e", ""),
];

/// The files that take commands. The second one takes every kind.
pub const FILES: [&str; 2] = ["rkprobe_events", "rkprobe_dynamic_events"];

/// The name of an event, `GROUP/EVENT`.
pub fn event(rng: &mut Rng) -> String {
    format!("s{}/e{}", rng.below(GROUPS), rng.below(EVENTS))
}

/// A function of the kernel or of a module.
pub fn function(rng: &mut Rng) -> &'static str {
    if rng.one_in(10) {
        rng.pick(&STRANGE)
    } else {
        rng.pick(&FUNCTIONS)
    }
}

/// A function of the kernel that hitters call.
pub fn kernel_function(rng: &mut Rng) -> &'static str {
    rng.pick(&FUNCTIONS[..15])
}

/// Arguments of a watchpoint, at most two, each after a space.
pub fn watched(rng: &mut Rng) -> String {
    (0..rng.below(3))
        .map(|_| match rng.one_in(2) {
            true => format!(" {}", rng.pick(&WATCHED)),
            false => format!(" {}", rng.pick(&ANY)),
        })
        .collect()
}

/// A command that defines a probe. Most are valid.
pub fn define(rng: &mut Rng) -> String {
    let event = event(rng);
    // Finding the functions of these takes a hundred times longer than the rest.
    let (letter, suffix) = if rng.one_in(30) {
        rng.pick(&[("f", ""), ("f", "%return"), ("p", "%all"), ("r", "%all")])
    } else {
        rng.pick(&KINDS)
    };
    let target = match letter {
        "t" => rng.pick(&TRACEPOINTS),
        "w" => rng.pick(&MEMORY),
        "e" => rng.pick(&RECORDED),
        "f" if rng.one_in(2) => rng.pick(&LISTS),
        _ => rng.pick(&FUNCTIONS),
    };
    let mut command = format!("{letter}:{event} {target}{suffix}");
    let is_return = letter.starts_with('r') || ["%return", "%retinsn", "%path"].contains(&suffix);
    for _ in 0..rng.below(4) {
        let argument = match rng.below(4) {
            0 if !["f", "t", "e"].contains(&letter) => rng.pick(&REGISTERS),
            1 | 2 if letter == "w" => rng.pick(&WATCHED),
            1 | 2 if letter == "e" => rng.pick(&FIELDS),
            1 if is_return => rng.pick(&RETURN),
            1 | 2 if !["%retinsn", "%blocks"].contains(&suffix) => rng.pick(&ENTRY),
            _ => rng.pick(&ANY),
        };
        command.push(' ');
        command.push_str(argument);
    }
    let has = Has {
        registers: !["f", "t", "e"].contains(&letter),
        entry: !["w", "e"].contains(&letter) && !["%retinsn", "%blocks"].contains(&suffix),
        returns: is_return,
    };
    command + &clauses::sometimes(rng, has)
}

/// A command that appends a probe to an event, if the event is of the same kind, or defines it.
pub fn append(rng: &mut Rng) -> String {
    let event = event(rng);
    let function = rng.pick(&FUNCTIONS);
    let clauses = clauses::sometimes(rng, Has::NOTHING);
    let command = match event.as_bytes()[4] {
        b'0' | b'1' => format!("p:{event} {function} c=$comm"),
        b'2' => format!("r:{event} {function} r=$retval:s32"),
        b'3' => format!("p:{event} {function} x=%di:x64 $stack2"),
        b'4' => format!("p:{event} {function}%retinsn ret=$retval"),
        _ => format!("r:{event} {function} $comm"),
    };
    command + &clauses
}

/// An event with an object, such as `s0/file1`. These events have names of their own: if they had
/// those of other events, most object probes would be refused.
fn source(rng: &mut Rng, field: &str) -> String {
    format!("s{}/{field}{}", rng.below(GROUPS), rng.below(3))
}

/// Commands that define events with objects, and an object probe that follows these objects. The
/// events may exist already.
pub fn follow(rng: &mut Rng) -> [String; 4] {
    let followed = rng.pick(&FOLLOWED);
    let field = followed.field;
    let [from, other, end] = [(); 3].map(|()| source(rng, field));
    let mut command = format!("o:{} {from}.{field}", event(rng));
    if rng.one_in(2) {
        command = format!("{command},{other}.{field}");
    }
    let is_return = rng.one_in(3);
    // Without this, all functions of the type are traced, which takes longer.
    if !rng.one_in(8) {
        let suffix = if is_return { "%return" } else { "" };
        command = format!("{command} {}{suffix}", followed.functions);
    } else if is_return {
        command = format!("{command} %return");
    }
    for option in OBJECT_OPTIONS {
        if rng.one_in(3) {
            command = format!("{command} {option}");
        }
    }
    if rng.one_in(2) {
        command = format!("{command} until={end}.{field}");
    }
    if rng.one_in(2) {
        let changes = rng.pick(&["", " changes"]);
        command = format!("{command}{changes} {} at=$obj:x64", followed.argument);
        if is_return {
            let saved = rng.pick(&["", " ns=$elapsed", " a=$arg1 b=$arg2 ns=$elapsed"]);
            command = format!("{command} ret=$retval{saved}");
        }
    }
    let has = Has {
        entry: is_return,
        returns: is_return,
        ..Has::NOTHING
    };
    command += &clauses::sometimes(rng, has);
    let clauses = [(); 3].map(|()| clauses::sometimes(rng, Has::NOTHING));
    let [from_clauses, other_clauses, end_clauses] = &clauses;
    let define = |event: String, clauses: &str| {
        let (letter, rest) =
            followed.sources[usize::from(event.as_bytes()[event.len() - 1] - b'0')];
        format!("{letter}:{event} {rest}{clauses}")
    };
    [
        define(from, from_clauses),
        define(other, other_clauses),
        define(end, end_clauses),
        command,
    ]
}

/// A command that defines a call tree.
pub fn tree(rng: &mut Rng) -> String {
    let root = match rng.one_in(4) {
        true => rng.pick(&TREE_ROOTS),
        false => rng.pick(&FUNCTIONS),
    };
    let mut command = format!("c:{} {root}", event(rng));
    // All functions take some seconds.
    let functions = match rng.one_in(60) {
        true => "*",
        false => rng.pick(&TREE_FUNCTIONS),
    };
    if !functions.is_empty() {
        command = format!("{command} {functions}");
    }
    for option in TREE_OPTIONS {
        if rng.one_in(3) {
            command = format!("{command} {option}");
        }
    }
    for argument in [rng.pick(&ANY), rng.pick(&ENTRY), rng.pick(&TREE_VALUES)] {
        if rng.one_in(3) {
            command = format!("{command} {argument}");
        }
    }
    match rng.below(3) {
        0 => command,
        1 => {
            command
                + rng.pick(&[
                    " if $retval:s32 < 0",
                    " if $elapsed > 100000",
                    " if $comm ~ \"s*\"",
                ])
        }
        _ => {
            let has = Has {
                entry: true,
                returns: true,
                ..Has::NOTHING
            };
            command + &clauses::sometimes(rng, has)
        }
    }
}

/// A command that deletes an event, a group, or one probe.
pub fn delete(rng: &mut Rng) -> String {
    let event = event(rng);
    match rng.below(10) {
        8 | 9 => {
            let field = rng.pick(&FOLLOWED).field;
            format!("-:{}", source(rng, field))
        }
        0 => format!("-:{}/", &event[..2]),
        1 => format!("-:{event} {}", rng.pick(&FUNCTIONS)),
        2 => format!("!:{event}"),
        _ => format!("-:{event}"),
    }
}

/// A value for the module parameter `event` that loads.
pub fn good_parameter(rng: &mut Rng) -> String {
    match rng.below(4) {
        0 => String::new(),
        1 => "event=p:s0/e0,vfs_read,c=$comm,if,c~st*".into(),
        2 => "event=p:s1/e0,__x64_sys_kill;r:s1/e2,vfs_open,r=$retval:s32".into(),
        _ => "event=p:s2/e4,exits_target:exits_deep%retinsn,ret=$retval;p:s0/e1,vfs_open".into(),
    }
}

/// A value for the module parameter `event` that makes the module's initialisation fail, most of
/// them after it defined events.
pub fn bad_parameter(rng: &mut Rng) -> String {
    match rng.below(5) {
        0 => "event=bogus".into(),
        1 => "event=p,vfs_read;bogus".into(),
        2 => "event=p:s0/e0,vfs_read,c=$comm;r:s0/e2,vfs_open;p:s0/e3,nosuch_function".into(),
        3 => "event=p:s0/e0,vfs_read;p:s1/e0,vfs_open;p:s0/e0,vfs_open,a=$arg1".into(),
        _ => format!(
            "event=p:s2/e0,vfs_open;{}\u{1}",
            define(rng).replace(' ', ",")
        ),
    }
}

/// Text that is no valid command, or seldom one. What is wrong is mostly at its start: rkprobe looks
/// for the function before it reads the arguments, which takes a hundred times longer.
pub fn invalid(rng: &mut Rng) -> Vec<u8> {
    let mut text = define(rng).into_bytes();
    match rng.below(50) {
        48 | 49 => text.extend_from_slice(clauses::wrong(rng).as_bytes()),
        0 => {
            text.push(b' ');
            text.extend_from_slice(rng.pick(&STRANGE_ARGUMENTS).as_bytes());
        }
        1 => text = format!("p:{} {} $arg1", event(rng), rng.pick(&STRANGE)).into_bytes(),
        2..=9 => {
            let length = rng.pick(&[0, 1, 7, 100, 4094, 4095, 4096, 9000]);
            text = (0..length).map(|_| rng.byte()).collect();
        }
        10 => {
            // Long names, numbers and argument lists.
            let piece = rng.pick(&[
                "a",
                "9",
                " $arg1",
                " x=+0(",
                "(",
                "(file)(",
                "this_cpu_ptr(",
                "\\\"",
                ":u8",
                "->",
                "\n",
            ]);
            let piece = piece.repeat(rng.pick(&[2, 33, 64, 129, 700]));
            let at = rng.below(text.len() + 1);
            text.splice(at..at, piece.into_bytes());
            text.truncate(4094);
        }
        11 => text.truncate(rng.below(text.len())),
        12 | 13 => {
            for _ in 0..1 + rng.below(3) {
                mutate(rng, &mut text);
            }
        }
        _ => {
            let head = text.iter().position(|byte| *byte == b' ').unwrap_or(0);
            text.splice(..head, rng.pick(&STRANGE_HEADS).bytes());
            if rng.one_in(4) {
                mutate(rng, &mut text);
            }
        }
    }
    text
}

fn mutate(rng: &mut Rng, text: &mut Vec<u8>) {
    if text.is_empty() {
        return;
    }
    let at = rng.below(text.len());
    match rng.below(4) {
        0 => drop(text.remove(at)),
        1 => text[at] = rng.byte(),
        2 => text.insert(at, rng.pick(b" :/+-()%$@=\\\"*!,;#\n\0_09az[]<>&")),
        _ => {
            let other = rng.below(text.len());
            text.swap(at, other);
        }
    }
}
