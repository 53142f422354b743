// SPDX-License-Identifier: GPL-2.0

//! The command that a run starts and traces.
//!
//! A shell stops itself, and becomes the command when the probes are armed. So the run sees the whole life of the
//! command, and its process ID is known before.

use std::{
    cell::RefCell,
    ffi::OsString,
    io::Write,
    os::unix::process::ExitStatusExt,
    process::{
        Child,
        Command,
        ExitStatus,
        Stdio, //
    },
    thread::sleep,
    time::{
        Duration,
        Instant, //
    }, //
};

use crate::{
    failure::{
        note,
        Failure,
        Result, //
    },
    sys::{
        self,
        Signal, //
    },
    tracefs::{
        quote,
        Tracefs, //
    },
    whom, //
};

/// The script of the shell.
const SCRIPT: &str = "kill -STOP $$; exec \"$@\"";
/// The script of the guard, with the number of the stopped shell. Its input ends without a line if the run is killed.
const GUARD: &str = "read -r line || kill -KILL \"$1\"";
/// The time that a command has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How often the state of the process is read.
const INTERVAL: Duration = Duration::from_millis(5);

/// The start of the script that marks the command and its children: they inherit the timer slack, and `exec` keeps it.
/// The default is 50,000 ns, so that some ns more change nothing.
fn marking(mark: Option<u32>) -> String {
    mark.map_or(String::new(), |ns| {
        format!("echo {ns} > /proc/$$/timerslack_ns; ")
    })
}

/// A process that ends the stopped shell if the run is killed, because nobody else would let the shell continue.
/// Dropping the guard ends it without harm.
struct Guard(Child);

impl Guard {
    fn start(pid: u32) -> Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", GUARD, "sh", &pid.to_string()]);
        shell.stdin(Stdio::piped());
        shell.stdout(Stdio::null()).stderr(Stdio::null());
        let process = shell.spawn().map_err(|error| Failure::file("sh", &error))?;
        Ok(Self(process))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(input) = &mut self.0.stdin {
            // A guard that a signal has ended reads nothing.
            let _ = input.write_all(b"\n");
        }
        let _ = self.0.wait();
    }
}

/// A command. Dropping it ends it.
pub struct Workload {
    name: String,
    process: RefCell<Child>,
    /// Exists until the command begins.
    guard: RefCell<Option<Guard>>,
}

impl Workload {
    /// Shows the shell commands that start a command stopped. Afterwards, `$pid` is its process.
    pub fn show(tracefs: &Tracefs, command: &[OsString], mark: Option<u32>) {
        let words: Vec<String> = command
            .iter()
            .map(|word| quote(&word.to_string_lossy()))
            .collect();
        let words = words.join(" ");
        let script = marking(mark) + SCRIPT;
        tracefs.show(&format!("sh -c {} sh {words} & pid=$!", quote(&script)));
        tracefs.show("until grep -q '^State:.T' /proc/$pid/status; do sleep 0.1; done");
    }

    /// Starts a command, which stops before it does anything. `mark` is its timer slack in ns. If `is_silent`, it
    /// has no input and no output.
    pub fn start(command: &[OsString], mark: Option<u32>, is_silent: bool) -> Result<Self> {
        let name = command
            .first()
            .map_or(String::new(), |name| name.to_string_lossy().into_owned());
        if !sys::has_program(&name) {
            return Err(Failure::new(format!("there is no program {name}")));
        }
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &(marking(mark) + SCRIPT), "sh"])
            .args(command);
        if is_silent {
            shell
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
        }
        let process = shell.spawn().map_err(|error| Failure::file("sh", &error))?;
        let workload = Self {
            name,
            process: RefCell::new(process),
            guard: RefCell::default(),
        };
        let pid = workload.pid();
        workload.guard.replace(Some(Guard::start(pid)?));
        while whom::state(pid) != Some('T') && !sys::is_interrupted() {
            if workload.status().is_some() {
                return Err(Failure::new("sh does not start the command"));
            }
            sleep(INTERVAL);
        }
        Ok(workload)
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.process.borrow().id()
    }

    /// Lets the command begin.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
        self.guard.take();
    }

    /// How the command has ended. `None` if it has not.
    pub fn status(&self) -> Option<ExitStatus> {
        self.process.borrow_mut().try_wait().ok().flatten()
    }

    /// Asks the command to end, if it has not.
    pub fn end(&self) {
        if self.status().is_none() {
            self.signal(Signal::TERM);
            self.signal(Signal::CONT);
        }
    }

    /// The exit status for the run: that of the command, or 128 and the number of the signal that ended it, as in a
    /// shell. Reports a failure of the command.
    pub fn report(&self) -> u8 {
        let Some(status) = self.status() else {
            return 0;
        };
        let (text, code) = match (status.code(), status.signal()) {
            (Some(0), _) => return 0,
            (Some(code), _) => (format!("exit status {code}"), code),
            (None, signal) => {
                let signal = signal.unwrap_or(0);
                (format!("signal {signal}"), 128 + signal)
            }
        };
        note(format!("rkprobe: {} ended with {text}", self.name));
        u8::try_from(code).unwrap_or(u8::MAX)
    }

    /// Sends a signal, if the command has not ended.
    fn signal(&self, signal: Signal) {
        if self.status().is_none() {
            sys::signal(self.pid(), signal);
        }
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        self.end();
        let end = Instant::now() + GRACE;
        while self.status().is_none() {
            if Instant::now() >= end {
                note(format!(
                    "rkprobe: {} still runs as {}",
                    self.name,
                    self.pid()
                ));
                return;
            }
            sleep(INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(words: &[&str]) -> Result<Workload> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Workload::start(&words, Some(50_123), false)
    }

    fn wait(workload: &Workload) -> u8 {
        while workload.status().is_none() {
            sleep(INTERVAL);
        }
        workload.report()
    }

    #[test]
    fn a_command_begins_when_it_is_told_to() {
        let workload = start(&["sh", "-c", "exit $(($1 + 1))", "name", "6"]).unwrap();
        assert_eq!(whom::state(workload.pid()), Some('T'));
        workload.resume();
        assert_eq!(wait(&workload), 7);
        let workload = start(&["grep", "-qx", "50123", "/proc/self/timerslack_ns"]).unwrap();
        workload.resume();
        assert_eq!(wait(&workload), 0);
        let workload = start(&["sh", "-c", "kill -KILL $$"]).unwrap();
        workload.resume();
        assert_eq!(wait(&workload), 137);
        let workload = start(&["true"]).unwrap();
        workload.resume();
        assert_eq!(wait(&workload), 0);
    }

    #[test]
    fn a_command_ends_with_the_run() {
        let pid = start(&["sleep", "1000"]).unwrap().pid();
        assert!(whom::has_ended(pid));
        let workload = start(&["sleep", "1000"]).unwrap();
        workload.resume();
        let pid = workload.pid();
        drop(workload);
        assert!(whom::has_ended(pid));
        assert!(start(&["no-such-program"]).is_err());
        assert!(start(&["/no/such/program"]).is_err());
    }
}
