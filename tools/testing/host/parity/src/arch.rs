// SPDX-License-Identifier: GPL-2.0

//! Cases on other architectures: they name the registers and the system calls of x86-64.

use std::borrow::Cow;

/// What stands for what on arm64: text, then registers without the `%`. The first texts read the arguments
/// of a system call from its `struct pt_regs`. The last ones are variables of each CPU.
const ARM64_TEXTS: [(&str, &str); 11] = [
    ("+112(%di)", "+0(%x0)"),
    ("+112($arg1)", "+0($arg1)"),
    ("+104(%di)", "+8(%x0)"),
    ("+96(%di)", "+16(%x0)"),
    ("+56(%di)", "+24(%x0)"),
    ("__x64_sys_", "__arm64_sys_"),
    ("do_int3", "notify_die"),
    ("{@__pfx_vfs_read}", "{@_etext}"),
    ("@cpu_number", "@ksoftirqd"),
    ("@current_task", "@ksoftirqd"),
    ("@this_cpu_off", "@ksoftirqd"),
];
/// The system call of rmdir(1), and its path.
const ARM64_RMDIR: [(&str, &str); 3] = [
    ("__x64_sys_rmdir", "__arm64_sys_unlinkat"),
    ("+112(%di)", "+8(%x0)"),
    ("+112($arg1)", "+8($arg1)"),
];
const ARM64_REGISTERS: [(&str, &str); 20] = [
    ("di", "x0"),
    ("si", "x1"),
    ("dx", "x2"),
    ("cx", "x3"),
    ("r8", "x4"),
    ("r9", "x5"),
    ("r10", "x10"),
    ("r11", "x11"),
    ("r12", "x12"),
    ("r13", "x13"),
    ("r14", "x14"),
    ("r15", "x15"),
    ("ax", "x8"),
    ("bx", "x19"),
    ("bp", "x29"),
    ("ip", "pc"),
    ("flags", "pstate"),
    ("cs", "x16"),
    ("ss", "x17"),
    ("orig_ax", "lr"),
];

/// The command for this architecture, as [`std::env::consts::ARCH`] calls it.
pub fn translate<'a>(command: &'a str, arch: &str) -> Cow<'a, str> {
    match arch {
        "aarch64" => Cow::Owned(to_arm64(command)),
        _ => Cow::Borrowed(command),
    }
}

fn to_arm64(command: &str) -> String {
    let mut text = command.to_string();
    if text.contains("__x64_sys_rmdir") {
        for (from, to) in ARM64_RMDIR {
            text = text.replace(from, to);
        }
    }
    for (from, to) in ARM64_TEXTS {
        text = text.replace(from, to);
    }
    let mut parts = text.split('%');
    let mut translated = parts.next().unwrap_or("").to_string();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        let register = ARM64_REGISTERS.iter().find(|(from, _)| *from == name);
        translated += "%";
        translated += register.map_or(name, |(_, to)| to);
        translated += rest;
    }
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_architecture_has_its_registers() {
        for (x86, arm64) in [
            (
                "p:ev vfs_read %di b=+8(%si):x8 %orig_ax",
                "p:ev vfs_read %x0 b=+8(%x1):x8 %lr",
            ),
            (
                "r:ev __x64_sys_rmdir a=+0(+112(%di)):ustring %sp%ip",
                "r:ev __arm64_sys_unlinkat a=+0(+8(%x0)):ustring %sp%pc",
            ),
            (
                "f vfs_read%return a=%dix:%pd %",
                "f vfs_read%return a=%dix:%pd %",
            ),
        ] {
            assert_eq!(translate(x86, "aarch64"), arm64);
            assert_eq!(translate(x86, "x86_64"), x86);
        }
    }
}
