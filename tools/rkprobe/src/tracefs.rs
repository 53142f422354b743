// SPDX-License-Identifier: GPL-2.0

//! The files of tracefs. Every change can be shown as the shell command that does the same.

use std::{
    fs::{
        self,
        File,
        OpenOptions, //
    },
    io::{
        self,
        Write, //
    },
    path::{
        Path,
        PathBuf, //
    }, //
};

use crate::{
    failure::{
        note,
        Failure,
        Result, //
    },
    sys, //
};

/// The commands of all kinds of probes.
pub const EVENTS: &str = "rkprobe_dynamic_events";

/// The root of tracefs.
#[derive(Clone)]
pub struct Tracefs {
    root: PathBuf,
    is_verbose: bool,
    is_dry: bool,
}

impl Tracefs {
    /// Finds tracefs. A dry run shows all changes and makes none, and needs neither root nor the module.
    ///
    /// The error says in one line what to do.
    pub fn find(is_verbose: bool, is_dry: bool) -> Result<Self> {
        let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let root = roots
            .into_iter()
            .find(|root| Path::new(root).join("trace").exists());
        let tracefs = Self {
            root: root.unwrap_or(roots[0]).into(),
            is_verbose: is_verbose || is_dry,
            is_dry,
        };
        if is_dry {
            return Ok(tracefs);
        }
        let problem = if !sys::is_root() {
            "only root can trace: run it with sudo"
        } else if root.is_none() {
            "tracefs is not mounted: mount -t tracefs tracefs /sys/kernel/tracing"
        } else if !tracefs.path(EVENTS).exists() {
            "the module is not loaded: modprobe rkprobe"
        } else {
            return Ok(tracefs);
        };
        Err(Failure::new(problem))
    }

    /// Whether changes are shown only.
    pub fn is_dry(&self) -> bool {
        self.is_dry
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Shows a shell command, if the user wants to see the commands. A dry run prints what a shell runs as it is.
    pub fn show(&self, command: &str) {
        if self.is_dry {
            // Its reader can have gone. That is no error: nothing has to be cleaned up.
            let _ = writeln!(io::stdout(), "{command}");
        } else if self.is_verbose {
            note(format!("# {command}"));
        }
    }

    /// Shows the shell command that reads a file.
    pub fn show_read(&self, name: &str) {
        self.show(&format!("cat {}", self.path(name).display()));
    }

    fn change(&self, command: &str, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.show(command);
        if self.is_dry {
            return Ok(());
        }
        change()
    }

    /// Writes a line to a file.
    pub fn write(&self, name: &str, line: &str) -> Result {
        self.write_as(name, line, &quote(line))
            .map_err(|error| Failure::file(name, &error))
    }

    /// Writes a line to a file that appears as the shell word `shown` in the shell command.
    pub fn write_as(&self, name: &str, line: &str, shown: &str) -> io::Result<()> {
        let path = self.path(name);
        self.change(&format!("echo {shown} > {}", path.display()), || {
            OpenOptions::new()
                .write(true)
                .open(&path)?
                .write_all(format!("{line}\n").as_bytes())
        })
    }

    /// Appends a line to a file: the commands in the file stay.
    pub fn append(&self, name: &str, line: &str) -> io::Result<()> {
        let path = self.path(name);
        self.change(
            &format!("echo {} >> {}", quote(line), path.display()),
            || {
                OpenOptions::new()
                    .append(true)
                    .open(&path)?
                    .write_all(format!("{line}\n").as_bytes())
            },
        )
    }

    /// Makes a directory.
    pub fn mkdir(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        self.change(&format!("mkdir {}", path.display()), || {
            fs::create_dir(&path)
        })
    }

    /// Removes a directory.
    pub fn rmdir(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        self.change(&format!("rmdir {}", path.display()), || {
            fs::remove_dir(&path)
        })
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> Result<String> {
        fs::read(self.path(name))
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .map_err(|error| Failure::file(name, &error))
    }

    /// The names in a directory. A missing directory has none.
    pub fn names(&self, name: &str) -> Vec<String> {
        fs::read_dir(self.path(name))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    /// Opens a file or a directory.
    pub fn open(&self, name: &str) -> io::Result<File> {
        File::open(self.path(name))
    }
}

#[cfg(test)]
impl Tracefs {
    /// A dry run without tracefs.
    pub fn for_tests() -> Self {
        Self {
            root: "/no/such/root".into(),
            is_verbose: true,
            is_dry: true,
        }
    }
}

/// A word for the shell.
pub fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_for_the_shell() {
        assert_eq!(quote("p:a b $arg1"), "'p:a b $arg1'");
        assert_eq!(quote("it's"), "'it'\\''s'");
    }

    #[test]
    fn a_dry_run_changes_nothing() {
        let tracefs = Tracefs::for_tests();
        assert!(tracefs.write("a", "b").is_ok());
        assert!(tracefs.mkdir("a").is_ok());
        assert!(tracefs.read("a").is_err());
    }
}
