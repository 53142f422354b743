// SPDX-License-Identifier: GPL-2.0

//! `rkprobe why ROOT` and `rkprobe why -- COMMAND`: why do calls fail, or take so long?

use std::cmp::Reverse;

use crate::{
    context::Context,
    duration,
    errno,
    failure::Result,
    groups::Group,
    syscalls,
    tree::Call, //
    trees::{
        self,
        Answer,
        Question,
        Wanted, //
    },
};

/// The most failures of a command that are shown as trees, unless the user wants all.
const MAX_TREES: usize = 8;

/// The line above the last tree.
const MOST_LIKELY: &str = "most likely why the command failed:\n";

/// System calls that only look. A program asks them first, and then acts, or says itself what it did not find.
const LOOKS: [&str; 18] = [
    "access",
    "faccessat",
    "faccessat2",
    "fcntl",
    "fgetxattr",
    "getxattr",
    "lgetxattr",
    "listxattr",
    "llistxattr",
    "lstat",
    "newfstatat",
    "prctl",
    "readlink",
    "readlinkat",
    "stat",
    "statfs",
    "statmount",
    "statx",
];

/// Errors that programs expect, with the system calls that return them. An empty list stands for all system calls.
const EXPECTED: [(&str, &[&str]); 19] = [
    (
        "ENOENT",
        &[
            "open",
            "openat",
            "access",
            "faccessat",
            "faccessat2",
            "newfstatat",
            "statx",
            "stat",
            "lstat",
        ],
    ),
    (
        "ENOENT",
        &[
            "execve",
            "readlink",
            "readlinkat",
            "connect",
            "unlink",
            "unlinkat",
            "getxattr",
        ],
    ),
    ("ENOENT", &["statfs"]),
    // `realpath()` asks this of each directory.
    ("EINVAL", &["readlink", "readlinkat"]),
    ("EEXIST", &["mkdir", "mkdirat"]),
    ("ENOTTY", &["ioctl"]),
    ("EAGAIN", &[]),
    ("EINTR", &[]),
    ("ERESTARTSYS", &[]),
    ("ERESTARTNOINTR", &[]),
    ("ERESTARTNOHAND", &[]),
    ("ERESTART_RESTARTBLOCK", &[]),
    ("ECHILD", &["wait4", "waitid"]),
    ("EINPROGRESS", &["connect"]),
    ("ENODATA", &[]),
    (
        "EOPNOTSUPP",
        &["getxattr", "lgetxattr", "fgetxattr", "setxattr"],
    ),
    ("ENOSYS", &[]),
    ("ETIMEDOUT", &["futex"]),
    ("ESPIPE", &["lseek"]),
];

/// Whether programs expect this failure of a system call: they look for files at several places, for example.
fn is_expected(call: &Call, error: u32) -> bool {
    let syscall = syscalls::name(&call.root().function);
    let name = errno::name(error.into());
    EXPECTED.iter().any(|(expected, of)| {
        *expected == name && (of.is_empty() || syscall.is_some_and(|name| of.contains(&name)))
    })
}

/// Whether a string that the program passed is a word of its command line.
fn is_named(call: &Call, words: &[String]) -> bool {
    let strings = call
        .fields
        .iter()
        .filter(|(name, _)| name.starts_with("str"));
    let mut strings = strings.filter_map(|(_, text)| crate::literal::unquote(text));
    strings.any(|text| words.iter().any(|word| word == text))
}

/// The words of a command line, also those inside of a script.
fn words(context: &Context) -> Vec<String> {
    let all = context.whom.command.iter().skip(1);
    all.flat_map(|word| {
        let word = word.to_string_lossy().into_owned();
        let inner = word
            .split_whitespace()
            .map(|word| word.trim_matches(['\'', '"', ';']));
        let inner: Vec<String> = inner.map(String::from).collect();
        inner.into_iter().chain([word])
    })
    .collect()
}

/// How likely a call made the command fail: whether the failure is a surprise, whether the program passed a word of its
/// command line, and when it was. Without a failure, the duration counts.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Rank {
    interest: u8,
    is_named: bool,
    time: u64,
}

/// The interest of a failure that is a surprise and has a word of the command line.
const HIGHEST: u8 = 3;

fn rank(group: &Group, words: &[String]) -> Rank {
    let Some(cause) = &group.cause else {
        return Rank {
            interest: HIGHEST,
            is_named: false,
            time: group.longest,
        };
    };
    let call = &group.call;
    let is_named = is_named(call, words);
    let looks = syscalls::name(&call.root().function).is_some_and(|name| LOOKS.contains(&name));
    let interest = match (is_named, is_expected(call, cause.error)) {
        (true, false) => HIGHEST,
        (false, true) => 0,
        _ if looks => 1,
        _ => 2,
    };
    Rank {
        interest,
        is_named,
        time: group.last,
    }
}

/// A failure in a line.
fn line(answer: &mut Answer<'_>, index: usize) -> String {
    let group = &answer.groups.all[index];
    let call = group.call.clone();
    let (error, function) = match &group.cause {
        Some(cause) => (
            errno::name(cause.error.into()),
            &*call.steps[cause.step()].function,
        ),
        None => (String::new(), ""),
    };
    let count = group.count;
    let what = answer
        .syscall(&call)
        .unwrap_or_else(|| call.root().function.clone());
    format!("{count:>8}  {error}  from {function}: {what}\n")
}

/// The failures of a command, the likelier ones below the others, and the likeliest as the last one. It is a tree, and so
/// are those that are no less interesting, or all if the user wants it. The others are lines.
fn failures(answer: &mut Answer<'_>, words: &[String], wanted: Wanted, shows_all: bool) -> String {
    let groups = answer.groups.all.iter().enumerate();
    let mut order: Vec<(usize, Rank)> = groups
        .map(|(index, group)| (index, rank(group, words)))
        .collect();
    order.sort_by_key(|(_, rank)| Reverse(*rank));
    if order.is_empty() {
        return match wanted {
            Wanted::Slow(ns) => format!("no system call took more than {}\n", duration::show(ns)),
            _ => "no system call failed\n".into(),
        };
    }
    let is_tree = |place: usize, rank: Rank| {
        shows_all || place == 0 || (rank.interest == HIGHEST && place < MAX_TREES)
    };
    let mut text = String::new();
    let mut trees = String::new();
    let has_others = order.len() > 1;
    for (place, (index, rank)) in order.into_iter().enumerate().rev() {
        if !is_tree(place, rank) {
            text += &line(answer, index);
            continue;
        }
        trees.push('\n');
        if place == 0 && has_others && !matches!(wanted, Wanted::Slow(_)) {
            trees += MOST_LIKELY;
        }
        trees += &answer.text(index);
    }
    match text.is_empty() {
        true => trees,
        false => format!("failed, too (--all shows how):\n{text}{trees}"),
    }
}

/// The end of the answer about a root: what was shown once, and happened more often.
fn summary(answer: &Answer<'_>, question: &Question<'_>) -> String {
    let groups = &answer.groups.all;
    if groups.is_empty() {
        let root = question.root;
        return match question.wanted {
            Wanted::Slow(ns) => format!("{root}: 0 calls took more than {}\n", duration::show(ns)),
            Wanted::Failed(Some(number)) => format!(
                "{root}: 0 calls failed with {}\n",
                errno::name(number.into())
            ),
            _ => format!("{root}: 0 calls failed\n"),
        };
    }
    let mut groups: Vec<&Group> = groups.iter().filter(|group| group.count > 1).collect();
    groups.sort_by_key(|group| Reverse(group.count));
    let line = |group: &Group| {
        let call = &group.call;
        let what = match &group.cause {
            Some(cause) => format!(
                "{} from {}",
                errno::name(cause.error.into()),
                call.steps[cause.step()].function
            ),
            None => {
                let (path, _) = crate::cause::slowest(call);
                let last = path.last().map_or(0, |last| *last);
                format!("most time in {}", call.steps[last].function)
            }
        };
        format!(
            "{:>8}  {what}: {} in all, at most {}\n",
            group.count,
            duration::show(group.total),
            duration::show(group.longest)
        )
    };
    groups.into_iter().map(line).collect()
}

/// Runs the command. With `shows_all`, each failure is a tree.
pub fn run(context: &Context, question: &Question<'_>, shows_all: bool) -> Result {
    let words = words(context);
    trees::run(context, question, |answer| {
        Ok(match question.is_late {
            true if !answer.groups.all.is_empty() || question.root == syscalls::ALL => {
                failures(answer, &words, question.wanted, shows_all)
            }
            _ => summary(answer, question),
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::{
        groups::{
            Groups,
            Likeness, //
        },
        returns::{
            Returned,
            Returns, //
        },
        tree::tests::call, //
    };

    use super::*;

    fn group(function: &str, error: i64, path: &str, end: u64) -> Group {
        let returns = Returns::of_functions(&[(function, Returned::Word)]);
        let mut call = call(&[(0, function, error)]);
        call.fields = vec![("str1".into(), format!("\"{path}\""))];
        call.end = end;
        let mut groups = Groups::new(Likeness::Cause);
        let cause = crate::cause::find(&call, &returns);
        groups.add(call, cause, &returns);
        groups.all.remove(0)
    }

    #[test]
    fn a_failure_that_names_a_word_of_the_command_is_last() {
        let words = ["/mnt", "disk"].map(String::from);
        let mut groups = [
            group("__x64_sys_mount", -22, "/mnt", 1),
            group("__x64_sys_openat", -2, "disk", 2),
            group("__x64_sys_openat", -13, "/etc/shadow", 3),
            group("__x64_sys_openat", -2, "/lib/x.so", 5),
            group("__x64_sys_access", -2, "/etc/ld.so.preload", 4),
            group("__x64_sys_ioctl", -25, "", 6),
        ];
        groups.sort_by_key(|group| rank(group, &words));
        let order: Vec<_> = groups
            .iter()
            .map(|group| &*group.call.fields[0].1)
            .collect();
        assert_eq!(
            order,
            [
                "\"/etc/ld.so.preload\"",
                "\"/lib/x.so\"",
                "\"\"",
                "\"/etc/shadow\"",
                "\"disk\"",
                "\"/mnt\""
            ]
        );
    }

    /// What mount of util-linux does in vain, in this order, and the call that makes it fail.
    #[test]
    fn looking_is_no_reason_to_fail() {
        let words = ["-t", "ext4", "none", "/mnt"].map(String::from);
        let mut groups = [
            group("__x64_sys_statfs", -2, "/sys/fs/selinux", 1),
            group("__x64_sys_readlink", -22, "/mnt", 2),
            group("__x64_sys_fsopen", -14, "", 3),
            group("__x64_sys_mkdir", -17, "/run/mount", 4),
            group("__x64_sys_fsconfig", -2, "", 5),
            group("__x64_sys_newfstatat", -2, "none", 6),
        ];
        groups.sort_by_key(|group| rank(group, &words));
        let functions = groups.map(|group| group.call.root().function.clone());
        let order = functions.each_ref().map(|name| &name["__x64_sys_".len()..]);
        let expected = [
            "statfs",
            "mkdir",
            "readlink",
            "newfstatat",
            "fsopen",
            "fsconfig",
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn programs_expect_some_errors() {
        for (function, error, expected) in [
            ("__x64_sys_openat", -2, true),
            ("__x64_sys_mount", -2, false),
            ("__x64_sys_mount", -11, true),
            ("__arm64_sys_ioctl", -25, true),
            ("__arm64_sys_ioctl", -22, false),
        ] {
            let group = group(function, error, "", 1);
            let number = error.unsigned_abs() as u32;
            assert_eq!(is_expected(&group.call, number), expected, "{function}");
        }
    }
}
