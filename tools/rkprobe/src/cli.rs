// SPDX-License-Identifier: GPL-2.0

//! The command line. The options of a command are in the file of its name below cli/, those of several commands below
//! cli/options/.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    io,
    path::Path,
    result, //
};

use clap::{
    value_parser,
    Arg,
    ArgMatches,
    Command, //
};
use clap_complete::Shell;

use crate::{
    asked::RETURN,
    commands,
    context::Context,
    failure::Result,
    probes,
    tracefs::Tracefs, //
};

use self::options::{
    flag,
    has_flag,
    text,
    whom::whom,
    word, //
};

mod args;
mod count;
mod cover;
mod disk;
mod doctor;
mod events;
mod examples;
mod exits;
mod fails;
mod follow;
mod hist;
mod lat;
mod leaks;
mod list;
mod locks;
mod man;
mod mistakes;
mod names;
mod net;
mod offcpu;
mod options;
mod path;
mod slow;
mod stuck;
mod tree;
mod vars;
mod watch;
mod why;

/// The commands and their options, with examples.
fn command() -> Command {
    Command::new("rkprobe")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Answers questions about the running kernel, with the kernel module rkprobe")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(
            flag("verbose", "Print the shell commands that do the same")
                .short('v')
                .global(true),
        )
        .arg(
            flag(
                "dry-run",
                "Print the shell commands that do the same, and change nothing",
            )
            .global(true),
        )
        .arg(flag("json", "Answer in JSON").global(true))
        .subcommands([
            lat::options(),
            hist::options(),
            slow::options(),
            fails::options(),
            args::options(),
            exits::options(),
            vars::options(),
            cover::options(),
            path::options(),
            follow::options(),
            watch::options(),
            count::options(),
            offcpu::options(),
            disk::options(),
            net::options(),
            locks::options(),
            leaks::options(),
            tree::options(),
            why::options(),
            stuck::options(),
            events::options(),
            list::options(),
            doctor::options(),
            names::options(),
        ])
        .subcommand(
            Command::new("completion")
                .about("Print the completion script of a shell")
                .arg(
                    word("SHELL", "bash, zsh, fish, elvish or powershell")
                        .value_parser(value_parser!(Shell)),
                ),
        )
        .subcommand(
            Command::new("man")
                .about("Write the man pages")
                .arg(word("DIRECTORY", "The directory of the pages")),
        )
        .mut_subcommands(examples::show)
}

/// Parses a command line.
fn parse(words: impl Iterator<Item = OsString>) -> result::Result<ArgMatches, clap::Error> {
    let words: Vec<OsString> = words.collect();
    command().try_get_matches_from(&words).map_err(|error| {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        mistakes::advise(error, command(), &words)
    })
}

/// The completion script of a shell.
fn completion(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "rkprobe", &mut script);
    if shell == Shell::Bash {
        script.extend(commands::names::BASH.replace("@FLAGS@", &flags()).bytes());
    }
    script
}

/// The options that have no value in any command, with blanks between them.
fn flags() -> String {
    let all = command();
    let commands = || all.get_subcommands().chain([&all]);
    let args = || commands().flat_map(Command::get_arguments);
    let names = |arg: &Arg| {
        let long = arg.get_long().map(|long| format!("--{long}"));
        long.into_iter()
            .chain(arg.get_short().map(|short| format!("-{short}")))
    };
    let of = |has_value: bool| -> BTreeSet<String> {
        let args = args().filter(|arg| arg.get_action().takes_values() == has_value);
        args.flat_map(names).collect()
    };
    let flags: Vec<String> = of(false).difference(&of(true)).cloned().collect();
    flags.join(" ")
}

/// Whether a question is about the time between two events, whose second one another task may cause.
fn is_between(name: &str, matches: &ArgMatches) -> bool {
    match name {
        "lat" => matches.contains_id("from"),
        name => matches!(name, "disk" | "net" | "leaks"),
    }
}

/// Carries out the command of the command line. Returns the exit status.
pub fn run() -> Result<u8> {
    let matches = parse(env::args_os()).unwrap_or_else(|error| error.exit());
    let Some((name, matches)) = matches.subcommand() else {
        return Ok(0);
    };
    match name {
        "completion" => {
            if let Some(shell) = matches.get_one::<Shell>("SHELL") {
                io::Write::write_all(&mut io::stdout(), &completion(*shell))?;
            }
            return Ok(0);
        }
        "man" => {
            man::write(command(), Path::new(text(matches, "DIRECTORY")))?;
            return Ok(0);
        }
        _ => {}
    }
    // These commands change nothing, and say themselves what is missing.
    let changes_nothing = match name {
        "stuck" => !matches.get_flag("until-it-moves"),
        // The module decodes the function.
        "vars" => !text(matches, "PLACE").ends_with(RETURN),
        name => matches!(name, "list" | "doctor" | "names"),
    };
    let is_dry = matches.get_flag("dry-run") || changes_nothing;
    let tracefs = Tracefs::find(matches.get_flag("verbose"), is_dry)?;
    let duration = matches.try_get_one::<u64>("duration").ok().flatten();
    let is_json = matches.get_flag("json");
    let mut whom = whom(matches)?;
    whom.with_others = is_between(name, matches);
    if matches!(name, "tree" | "why") || whom.with_others {
        whom.mark_command();
    }
    let mut context = Context::new(tracefs, is_json, duration.copied(), whom);
    context.is_plain = has_flag(matches, "plain");
    context.buffer_kib = matches.try_get_one("buffer").ok().flatten().copied();
    if has_flag(matches, "wait") {
        context.functions.check_wait(text(matches, "FUNCTIONS"))?;
        context.functions.waits = true;
    }
    let result = match name {
        "lat" => lat::ask(&context, matches),
        "hist" => hist::ask(&context, matches),
        "slow" => slow::ask(&context, matches),
        "fails" => fails::ask(&context, matches),
        "args" => args::ask(&context, matches),
        "exits" => exits::ask(&context, matches),
        "vars" => vars::ask(&context, matches),
        "cover" => cover::ask(&context, matches),
        "path" => path::ask(&context, matches),
        "follow" => follow::ask(&context, matches),
        "watch" => watch::ask(&context, matches),
        "count" => count::ask(&context, matches),
        "offcpu" => offcpu::ask(&context, matches),
        "disk" => disk::ask(&context, matches),
        "net" => net::ask(&context, matches),
        "locks" => locks::ask(&context, matches),
        "leaks" => leaks::ask(&context, matches),
        "tree" => tree::ask(&context, matches),
        "why" => why::ask(&context, matches),
        "stuck" => stuck::ask(&context, matches),
        "list" => list::ask(&context, matches),
        "names" => names::ask(&context, matches),
        "doctor" => return commands::doctor::run(&context),
        _ => events::ask(&context, matches),
    };
    let words = env::args_os().map(|word| word.to_string_lossy().into_owned());
    result
        .map_err(|failure| context.functions.explain(failure))
        .map_err(|failure| probes::in_words(failure, &words.collect::<Vec<_>>()))?;
    Ok(context.status())
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// What bash completes the last word after a prompt to. `stubs` replace functions of the script.
    fn completed(words: &str, stubs: &str) -> String {
        let script = String::from_utf8(completion(Shell::Bash)).unwrap();
        let words = words
            .split(' ')
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>()
            .join(" ");
        let run = format!(
            "{script}{stubs}COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _rkprobe_names rkprobe \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"\n\
             printf '%s' \"${{COMPREPLY[*]}}\""
        );
        let output = process::Command::new("bash")
            .args(["--norc", "-c", &run])
            .output()
            .unwrap();
        assert!(output.stderr.is_empty(), "{words} {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn bash_completes_commands_and_options() {
        for (words, expected) in [
            ("rkprobe doc", "doctor"),
            ("rkprobe lat --he", "--heat --help"),
        ] {
            assert_eq!(completed(words, ""), expected, "{words}");
        }
    }

    /// `rkprobe` shows what it is asked.
    #[test]
    fn bash_completes_names() {
        let stubs = "_rkprobe() { COMPREPLY=(); }\nrkprobe() { echo \"$3-$2\"; }\n";
        for (words, expected) in [
            ("rkprobe lat vfs_re", "vfs_re-functions"),
            ("rkprobe -v lat vfs_re", "vfs_re-functions"),
            ("rkprobe fails vfs_*,!vfs_st", "vfs_*,!vfs_st-functions"),
            (
                "rkprobe count vfs_*,!vfs_st",
                "vfs_*,!vfs_st-functions vfs_*,!vfs_st-events",
            ),
            ("rkprobe lat ext4 : ext4_s", "ext4_s-functions"),
            (
                "rkprobe args ext4 : ext4_s",
                "ext4_s-functions ext4_s-events",
            ),
            (
                "rkprobe hist a,!sched : sched_",
                "sched_-functions sched_-events",
            ),
            ("rkprobe list sched :", "-functions -events"),
            ("rkprobe follow inode from mod : all", "all-functions"),
            ("rkprobe follow ino", "ino-structures"),
            ("rkprobe follow inode from all", "all-functions"),
            ("rkprobe follow inode from f until end", "end-functions"),
            (
                "rkprobe follow inode from f --only x_*,y",
                "x_*,y-functions",
            ),
            ("rkprobe leaks ino", "ino-structures"),
            ("rkprobe leaks inode --get iho", "iho-functions"),
            ("rkprobe leaks inode --put a,ipu", "a,ipu-functions"),
            ("rkprobe leaks inode --older 1", ""),
            ("rkprobe lat request from blk", "blk-functions"),
            ("rkprobe watch jif", "jif-symbols"),
            ("rkprobe tree f vfs_*,!vfs_st", "vfs_*,!vfs_st-functions"),
            ("rkprobe why --whole vfs_re", "vfs_re-functions"),
            ("rkprobe why vfs_read --fails EN", ""),
            ("rkprobe lat f --comm ca", ""),
            ("rkprobe lat f -- ca", ""),
            ("rkprobe lat --js", ""),
            ("rkprobe la", ""),
            ("rkprobe events x", ""),
            ("rkprobe args --deep vfs_", "vfs_-functions vfs_-events"),
            ("rkprobe slow --wait -v a", "a-functions"),
            ("rkprobe watch --each jif", "jif-symbols"),
            ("rkprobe lat --duration vfs", ""),
        ] {
            assert_eq!(completed(words, stubs), expected, "{words}");
        }
    }

    #[test]
    fn the_usage_has_the_command_that_runs() {
        for mut command in command().get_subcommands().cloned() {
            let takes = command.get_arguments().any(|arg| arg.get_id() == "COMMAND");
            let usage = command.render_usage().to_string();
            let lines = usage.lines().filter(|line| line.contains("[-- "));
            let expected = if takes { usage.lines().count() } else { 0 };
            assert_eq!(lines.count(), expected, "{usage}");
        }
    }

    #[test]
    fn the_command_comes_last() {
        let parse = |words: &[&str]| {
            let all = command().try_get_matches_from([&["rkprobe", "count", "f"], words].concat());
            all.ok()
                .and_then(|all| whom(all.subcommand().unwrap().1).ok())
        };
        let started = parse(&["--comm", "a", "--", "cat", "-d", "--json"]).unwrap();
        assert_eq!(started.command, ["cat", "-d", "--json"]);
        assert_eq!(started.clause(), " if $COMM ~ \"a\"");
        assert!(parse(&[]).unwrap().command.is_empty());
        for wrong in [
            &["cat"][..],
            &["-p", "1", "--", "cat"],
            &["-p", "1,,2"],
            &["--children"],
        ] {
            assert!(parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_word_in_the_place_of_another_one_has_a_reason() {
        for (words, reason) in [
            ("follow file vfs_open", "here comes \"from\""),
            ("follow file from vfs_open __fput", "here comes \"until\""),
            (
                "lat vfs_read vfs_write",
                "functions have commas between them",
            ),
            ("lat file from vfs_open __fput f", "here comes \"until\""),
        ] {
            let words = ["rkprobe", words].join(" ");
            let parsed = command().try_get_matches_from(words.split(' '));
            let error = parsed.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn an_unknown_word_has_a_suggestion() {
        for (words, expected) in [
            (
                "exits f -d 1",
                "-d is an option of lat, hist, slow, fails and others, not of exits",
            ),
            ("count f --stack", "'--by stack' exists"),
            ("count f --stack", "--stack is an option of "),
            ("args f --by comm", "--by is an option of lat, hist, "),
            ("args f --sort count", "--sort is an option of lat, hist, "),
            ("exits f --perfetto x", "--perfetto is an option of "),
            ("--by comm count f", "--by comes after count"),
            ("count f --pd 1", "a similar argument exists: '--pid'"),
            ("count f --jsn", "a similar argument exists: '--json'"),
            ("lt f", "a similar subcommand exists: 'lat'"),
            ("hlp", "a similar subcommand exists: 'help'"),
            ("count f -z", "unexpected argument '-z' found"),
            ("count f g", "unexpected argument 'g' found"),
        ] {
            let words = ["rkprobe", words].join(" ");
            let error = parse(words.split(' ').map(OsString::from)).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("as a value"), "{error}");
        }
    }

    #[test]
    fn commands_that_trace_nothing_lack_options() {
        for words in [&["exits", "f"][..], &["events"]] {
            let all = command().try_get_matches_from([&["rkprobe"], words].concat());
            assert!(whom(all.unwrap().subcommand().unwrap().1).is_ok());
            for option in [&["-d", "1"][..], &["-p", "1"], &["--", "cat"]] {
                let all = [&["rkprobe"], words, option].concat();
                assert!(command().try_get_matches_from(all).is_err());
            }
        }
    }

    #[test]
    fn options_stand_anywhere() {
        let matches = command()
            .try_get_matches_from(["rkprobe", "lat", "vfs_read", "-d", "3", "--json"])
            .unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        assert_eq!(matches.get_one::<u64>("duration"), Some(&3_000_000_000));
        assert!(matches.get_flag("json"));
        for words in [
            "",
            "--buckets 1ms,5ms",
            "--object $arg1 --end $arg2 --by comm",
        ] {
            let all = ["rkprobe lat inode from f until g", words].join(" ");
            let parsed = command().try_get_matches_from(all.split_whitespace());
            assert!(is_between("lat", parsed.unwrap().subcommand().unwrap().1));
        }
        for right in [&["-p", "1"][..], &["f", "g", "--fails"], &["--", "cat"]] {
            let all = [&["rkprobe", "why"], right].concat();
            assert!(command().try_get_matches_from(all).is_ok());
        }
        for wrong in [
            &["rkprobe"][..],
            &["rkprobe", "lat"],
            &["rkprobe", "slow", "f", "10x"],
            &["rkprobe", "follow", "inode", "of", "f"],
            &["rkprobe", "follow", "inode", "from", "f", "until"],
            &["rkprobe", "lat", "inode", "from", "f"],
            &["rkprobe", "lat", "inode", "from", "f", "until"],
            &["rkprobe", "lat", "f", "--buckets", "1ms", "--heat", "x"],
            &[
                "rkprobe",
                "lat",
                "inode",
                "from",
                "f",
                "until",
                "g",
                "--buckets",
                "2,1",
            ],
            &["rkprobe", "why"],
            &["rkprobe", "why", "f", "--fails", "--slow", "1s"],
        ] {
            assert!(command().try_get_matches_from(wrong).is_err());
        }
    }
}
