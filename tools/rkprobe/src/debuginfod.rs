// SPDX-License-Identifier: GPL-2.0

//! Debug information from the servers that `DEBUGINFOD_URLS` names, by elfutils' `debuginfod-find`, which has a cache.

use std::{
    env,
    io::{
        self,
        IsTerminal,
        Read,
        Write, //
    },
    os::fd::AsFd,
    path::PathBuf,
    process::{
        Child,
        ChildStderr,
        Command,
        Stdio, //
    },
    time::Duration, //
};

use crate::{
    failure::note,
    sys::{
        self,
        InOrder,
        Woken, //
    }, //
};

const PROGRAM: &str = "debuginfod-find";
const SERVERS: &str = "DEBUGINFOD_URLS";
/// The variable that makes the program show how far the download is.
const PROGRESS: &str = "DEBUGINFOD_PROGRESS";

/// How the program shows the progress.
const DOWNLOADING: &str = "Downloading";

/// How an error of the program begins.
const FAILED: &str = "Server query failed: ";

/// Whether the user has named servers.
pub fn has_servers() -> bool {
    env::var_os(SERVERS).is_some_and(|urls| !urls.to_string_lossy().trim().is_empty())
}

/// Gets the debug information with this build ID, of the module or the kernel `owner`. Returns the path of the file in
/// the cache, or why there is none.
pub fn fetch(id: &str, owner: &str) -> Result<PathBuf, String> {
    let mut command = Command::new(PROGRAM);
    command.args(["debuginfo", id]);
    if io::stderr().is_terminal() {
        command.env(PROGRESS, "1");
    }
    note(format!(
        "rkprobe: asking the servers of {SERVERS} for the debug information of {owner}"
    ));
    run(command)
}

fn run(mut command: Command) -> Result<PathBuf, String> {
    let _in_order = InOrder::begin();
    let streams = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = match streams.stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!(
                "{SERVERS} names servers, but there is no program {PROGRAM}: install the package debuginfod"
            ));
        }
        Err(error) => return Err(format!("{PROGRAM}: {error}")),
    };
    let said = child.stderr.take().map(|stderr| listen(stderr, &mut child));
    let answer = child
        .wait_with_output()
        .map_err(|error| format!("{PROGRAM}: {error}"))?;
    if sys::is_interrupted() {
        return Err("the download was interrupted".into());
    }
    let path = String::from_utf8_lossy(&answer.stdout);
    match (answer.status.success(), path.lines().next()) {
        (true, Some(path)) => Ok(path.into()),
        _ => Err(reason(
            &said.unwrap_or_default(),
            &answer.status.to_string(),
        )),
    }
}

/// Why the program failed, from the last line that it wrote, or its status.
fn reason(said: &str, status: &str) -> String {
    match said.strip_prefix(FAILED) {
        Some("No such file or directory") => "no server has it".into(),
        Some(why) => format!("no answer of the servers: {why}"),
        None if said.is_empty() => format!("{PROGRAM}: {status}"),
        None => format!("{PROGRAM}: {said}"),
    }
}

/// Shows the progress of the program, until it ends or a signal arrives. Returns the last other line that it writes.
fn listen(mut stderr: ChildStderr, child: &mut Child) -> String {
    let mut heard = Heard::default();
    let mut bytes = [0; 4096];
    while !sys::is_interrupted() {
        if sys::wait(Duration::from_secs(1), &[stderr.as_fd()]) != Woken::Ready {
            continue;
        }
        match stderr.read(&mut bytes) {
            Ok(0) => return heard.end(),
            Ok(length) => heard.add(&bytes[..length], &mut io::stderr()),
            Err(_) => break,
        }
    }
    let _ = child.kill();
    heard.end()
}

/// What the program writes to its standard error.
#[derive(Default)]
struct Heard {
    /// The line that has not ended.
    line: Vec<u8>,
    /// The last line that is no progress.
    last: String,
}

impl Heard {
    /// Adds bytes. Shows progress at once.
    fn add(&mut self, bytes: &[u8], screen: &mut impl Write) {
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
            self.line.extend(part);
            if part.ends_with(b"\r") || part.ends_with(b"\n") {
                self.end_line(screen);
            }
        }
    }

    fn end_line(&mut self, screen: &mut impl Write) {
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        if line.starts_with(DOWNLOADING) {
            let _ = write!(screen, "{line}").and_then(|()| screen.flush());
        } else if !line.trim().is_empty() {
            self.last = line.trim().into();
        }
    }

    fn end(mut self) -> String {
        self.end_line(&mut io::sink());
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shell does in the place of the program.
    fn shell(text: &str) -> Result<PathBuf, String> {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        run(command)
    }

    #[test]
    fn the_answer_is_a_path_or_a_reason() {
        let path = shell(
            "printf '\\rDownloading from x 1/2\\rDownloading from x 2/2\\n' >&2; echo '/a b/c'",
        );
        assert_eq!(path, Ok("/a b/c".into()));
        let failed = |why: &str| shell(&format!("echo 'Server query failed: {why}' >&2; exit 1"));
        assert_eq!(
            failed("No such file or directory"),
            Err("no server has it".into())
        );
        assert_eq!(
            failed("Connection refused"),
            Err("no answer of the servers: Connection refused".into())
        );
        assert_eq!(
            shell("printf broken >&2; exit 1"),
            Err("debuginfod-find: broken".into())
        );
        assert_eq!(
            shell("exit 3"),
            Err("debuginfod-find: exit status: 3".into())
        );
        assert!(shell("true").is_err());
        let none = run(Command::new("/no/such/program"));
        assert!(none
            .unwrap_err()
            .ends_with("install the package debuginfod"));
    }

    #[test]
    fn progress_is_shown_and_errors_are_kept() {
        let (mut heard, mut screen) = (Heard::default(), Vec::new());
        for part in [
            "\rDownload",
            "ing -\rDownloading from",
            " x 5/9\n",
            "Server",
            " query\n",
            "\n",
        ] {
            heard.add(part.as_bytes(), &mut screen);
        }
        let screen = String::from_utf8(screen).unwrap();
        assert_eq!(screen, "Downloading -\rDownloading from x 5/9\n");
        assert_eq!(heard.end(), "Server query");
    }
}
