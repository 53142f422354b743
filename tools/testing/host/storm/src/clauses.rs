// SPDX-License-Identifier: GPL-2.0

//! The clauses at the end of commands, keys and conditions: valid ones, and wrong ones.

use crate::rng::Rng;

/// Comparisons for every kind of probe.
const ANY: [&str; 16] = [
    "$comm ~ \"st*\"",
    "$comm == storm",
    "!($comm ~ \"*[q-s]m\")",
    "@init_uts_ns:string ~ \"*n?x\"",
    "@init_uts_ns:u32 & 0x18",
    "$current->tgid > 100",
    "$current->real_parent->comm:string != init",
    "$current->mm != 0",
    "(task_struct,comm)$comm->pid & 1",
    "(rq)this_cpu_ptr(@runqueues)->curr->pid != 0",
    "((inode)((file)($current->mm->exe_file)->f_inode)->i_mode & 0x8000)",
    // Memory that faults.
    "+8(+8(@init_uts_ns)):x64 == 0",
    "+0(\\0):string == \"\"",
    // Memory of modules that come and go.
    "@rkprobe_target_text:char == 'd'",
    "@rkprobe_target_sum:s32 >= 0",
    "c ~ \"st*\"",
];
const REGISTERS: [&str; 5] = [
    "%di > 100",
    "%si:s32<0",
    "%dx:b4@0/32 == 3",
    "+8(%sp):u32 != 0",
    "$stack0:symstr ~ \"*sys*\"",
];
const ENTRY: [&str; 6] = [
    "$arg1 != 0",
    "$arg2:u32 == 0",
    "+0($arg2):ustring ~ \"/proc/*\"",
    "+0($arg1):string == \"\"",
    "(inode)((file)$arg1->f_inode)->i_size > 10",
    "(file)$arg1->f_mode & 3",
];
const RETURN: [&str; 5] = [
    "$retval:s64 < 0",
    "$retval == 0",
    "$elapsed > 1000",
    "$elapsed>0&&$retval:s32!=-2",
    "($retval:s64 >= 0 || $comm ~ \"s*\")",
];
/// Keys of every kind of probe.
const KEYS: [&str; 12] = [
    "func",
    "func.sym-offset",
    "stack",
    "common_pid",
    "common_pid.execname",
    "$comm",
    "@init_uts_ns:string",
    "@rkprobe_target_text:string",
    "$current->tgid.buckets=7",
    "@jiffies_64:u64.log2",
    "+8(+8(@init_uts_ns)):x64.hex",
    "\\2.syscall",
];
const REGISTER_KEYS: [&str; 3] = ["%di", "%si:s8.log2", "$stack0.sym"];
const ENTRY_KEYS: [&str; 3] = ["$arg1", "$arg2:u32.log2", "+0($arg1):ustring"];
const RETURN_KEYS: [&str; 2] = ["$retval:s64", "$elapsed.log2"];
const WRONG_KEYS: [&str; 15] = [
    ",",
    "func,",
    "func,func.hex",
    "stack.log2",
    "$comm.log2",
    "func,stack,common_pid,$comm,@jiffies_64",
    "@init_uts_ns:x8[4]",
    "@nosuch_symbol",
    "func sum $comm",
    "func sum",
    "func max",
    "func max \\1 min \\1",
    "min \\1,$comm",
    "func size=100",
    "$nosuch.buckets=0",
];
const WRONG: [&str; 20] = [
    "",
    "if",
    "$comm",
    "$comm ~",
    "== 1",
    "($comm == a",
    "$comm == a)",
    "$comm < b",
    "$comm == a b",
    "$comm == a &&",
    "!!(!(",
    "@init_uts_ns:u8 == 256",
    "@init_uts_ns:u8 ~ 2",
    "@init_uts_ns:u8 < 0",
    "@init_uts_ns:x8[4] == 1",
    "@nosuch_symbol == 1",
    "$current->nosuch == 1",
    "$comm ~ \"*[",
    "$nosuch & 0",
    "$comm ~ \"a",
];

/// The variables that a clause can use, beside those of every probe.
#[derive(Clone, Copy)]
pub struct Has {
    pub registers: bool,
    pub entry: bool,
    pub returns: bool,
}

impl Has {
    pub const NOTHING: Self = Self {
        registers: false,
        entry: false,
        returns: false,
    };
}

/// The end of a command: mostly nothing, else keys, a condition, or both.
pub fn sometimes(rng: &mut Rng, has: Has) -> String {
    let mut text = String::new();
    if rng.one_in(5) {
        text += &keys(rng, has);
    }
    if rng.one_in(3) {
        text += &valid(rng, has);
    }
    text
}

/// ` by `, up to three keys, sometimes sums, minima and maxima, and sometimes a small table.
fn keys(rng: &mut Rng, has: Has) -> String {
    let mut text = String::from(" by");
    for index in 0..rng.below(4) {
        text.push(if index > 0 { ',' } else { ' ' });
        text.push_str(match rng.below(4) {
            0 if has.registers => rng.pick(&REGISTER_KEYS),
            1 if has.returns => rng.pick(&RETURN_KEYS),
            1 | 2 if has.entry => rng.pick(&ENTRY_KEYS),
            _ => rng.pick(&KEYS),
        });
    }
    if rng.one_in(3) {
        text.push_str(" sum @jiffies_64:u64,+8(\\0):s8");
    }
    if rng.one_in(3) {
        text.push_str(" min @jiffies_64:u64,@jiffies_64:s32");
    }
    if rng.one_in(3) {
        text.push_str(" max @jiffies_64:s64,\\-7:s8");
    }
    if rng.one_in(2) {
        text.push_str(" size=128");
    }
    text
}

/// ` if ` and up to four comparisons.
fn valid(rng: &mut Rng, has: Has) -> String {
    let mut text = String::from(" if ");
    for index in 0..1 + rng.below(4) {
        if index > 0 {
            text.push_str(rng.pick(&[" && ", " || ", "||"]));
        }
        text.push_str(match rng.below(4) {
            0 if has.registers => rng.pick(&REGISTERS),
            1 if has.returns => rng.pick(&RETURN),
            1 | 2 if has.entry => rng.pick(&ENTRY),
            _ => rng.pick(&ANY),
        });
    }
    text
}

/// The end of a command: keys or a condition that are wrong, or too long.
pub fn wrong(rng: &mut Rng) -> String {
    match rng.below(5) {
        0 => {
            let piece = rng.pick(&[
                "(",
                "!",
                "$comm == a && ",
                "%ax|",
                " ",
                "~*",
                "$arg1 & 1 ||",
            ]);
            format!(" if {}", piece.repeat(rng.pick(&[1, 31, 32, 33, 280])))
        }
        1 => {
            let has = Has {
                registers: true,
                entry: true,
                returns: true,
            };
            format!("{} && {}", valid(rng, has), rng.pick(&WRONG))
        }
        2 => format!(" by {}", rng.pick(&WRONG_KEYS)),
        _ => format!(" if {}", rng.pick(&WRONG)),
    }
}
