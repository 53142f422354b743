// SPDX-License-Identifier: GPL-2.0

//! The examples of the commands, in the help and in the man pages.

use clap::Command;

/// The arguments of all examples, in the order of Documentation/trace/rkprobe-tool.rst, which
/// explains them.
const ALL: &[&str] = &[
    "why -- mount -t myfs none /mnt",
    "why do_nanosleep --slow 200ms -- sleep 1",
    "lat vfs_read -- head -n 1 /proc/version /proc/meminfo",
    "lat file from vfs_open until __fput -- cat /etc/hostname",
    "hist vfs_read count -- head -n 1 /proc/version /proc/meminfo",
    "slow hrtimer_nanosleep 10ms -- sleep 1",
    "fails 'vfs_*' -- head -n 1 /tmp",
    "args do_sys_openat2 -- cat /etc/hostname",
    "args sched:sched_process_exec -- sh -c /bin/true",
    "tree filename_rmdir -- rmdir /no/such",
    "exits vfs_read --source",
    "args fs/read_write.c:562 file pos",
    "vars fs/read_write.c:562",
    "cover may_open -- sh -c 'cat /etc/hostname > /dev/null'",
    "path do_sys_openat2 -- sh -c 'cat /etc/hostname; cat /no/such; true'",
    "follow file from vfs_open until __fput --only 'vfs_*' -- cat /etc/hostname",
    "leaks file --get vfs_open --put __fput -- cat /etc/hostname",
    "stuck",
    "offcpu -- sleep 1",
    "disk",
    "net",
    "locks",
    "watch print_fatal_signals -- sysctl -w kernel.print-fatal-signals=0",
    "count 'vfs_*' -- cat /etc/hostname",
    "count 'vfs_*' -p 1 --children -d 3",
    "count 'vfs_*,!vfs_read'",
    "events",
    "list 'vfs_*'",
    "doctor",
    "lat vfs_read -d 3 --dry-run",
    "completion bash > /usr/share/bash-completion/completions/rkprobe",
    "man /usr/local/share/man/man8",
];

/// The examples of a command. Those of all commands, for the program.
fn of(command: &str) -> impl Iterator<Item = String> + '_ {
    let is_of =
        move |example: &&&str| command == "rkprobe" || example.split(' ').next() == Some(command);
    ALL.iter()
        .filter(is_of)
        .map(|example| format!("rkprobe {example}"))
}

/// Adds the examples to the help of a command, after what its help already has at the end.
pub fn show(command: Command) -> Command {
    let examples: Vec<String> = of(command.get_name()).collect();
    if examples.is_empty() {
        return command;
    }
    let before = command.get_after_help();
    let before = before.map_or(String::new(), |before| format!("{before}\n\n"));
    command.after_help(format!("{before}Examples:\n  {}", examples.join("\n  ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_examples() {
        let document = include_str!("../../../../Documentation/trace/rkprobe-tool.rst");
        let (list, rest) = document.split_once("A first question\n").unwrap();
        let words = |line: &'static str| line.strip_prefix("``rkprobe ")?.strip_suffix("``");
        let mut expected: Vec<&str> = list.lines().filter_map(words).collect();
        for example in ["completion", "man"] {
            let of_example = |line: &&str| line.split(' ').next() == Some(example);
            let mut commands = rest
                .lines()
                .filter_map(|line| line.strip_prefix("  # rkprobe "));
            expected.extend(commands.find(of_example));
        }
        assert_eq!(ALL, expected);
    }
}
