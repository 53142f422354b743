// SPDX-License-Identifier: GPL-2.0

//! What comes of a case.

use std::{
    collections::HashMap,
    env::consts::ARCH,
    fmt::Write as _,
    fs::{
        self,
        File, //
    },
    io::{
        self,
        ErrorKind,
        Read,
        Write, //
    },
    path::{
        Path,
        PathBuf, //
    },
    process, //
};

use crate::{
    arch,
    case::{
        self,
        Case,
        ControlFile, //
    },
};

/// Whose commands they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Kernel,
    Ours,
}

/// What was seen: the name of each thing, and the lines of it.
pub type Observed = Vec<(&'static str, String)>;

/// tracefs, and the addresses of the kernel's symbols.
pub struct Tracefs {
    root: PathBuf,
    symbols: HashMap<String, u64>,
}

impl Tracefs {
    /// # Errors
    ///
    /// Without `/proc/kallsyms`.
    pub fn new() -> io::Result<Self> {
        let mut symbols = HashMap::new();
        for line in fs::read_to_string("/proc/kallsyms")?.lines() {
            let mut words = line.split_whitespace();
            if let (Some(address), Some(_), Some(name), None) =
                (words.next(), words.next(), words.next(), words.next())
            {
                let address = u64::from_str_radix(address, 16).map_err(io::Error::other)?;
                symbols.entry(name.to_string()).or_insert(address);
            }
        }
        Ok(Self {
            root: PathBuf::from("/sys/kernel/tracing"),
            symbols,
        })
    }

    /// Runs a case, and leaves nothing of it.
    ///
    /// # Errors
    ///
    /// Where the case cannot be run: of files that have to be there, of the workload.
    pub fn observe(&self, case: &Case, side: Side) -> io::Result<Observed> {
        let kprobes = self.file(side, ControlFile::Kprobes);
        let all = self.file(side, ControlFile::All);
        let control = self.file(side, case.file);
        let log = self.root.join(match side {
            Side::Kernel => "error_log",
            Side::Ours => "rkprobe_error_log",
        });

        let mut results = String::new();
        let mut errors = String::new();
        let mut carets = String::new();
        let mut listing = String::new();
        for command in &case.commands {
            let command = arch::translate(command, ARCH);
            let mut bytes = case::expand(&command, |symbol| self.symbols.get(symbol).copied())
                .map_err(io::Error::other)?;
            bytes.push(b'\n');
            File::create(&log)?;
            let result = File::options().append(true).open(&control)?.write(&bytes);
            let _ = writeln!(results, "{}", told(result));
            for line in read(&log)?.lines() {
                if line.trim_start() == "^" {
                    let _ = writeln!(carets, "{}", line.len());
                    continue;
                }
                // Without the time
                let line = match line.strip_prefix('[').and_then(|l| l.split_once("] ")) {
                    Some((_, line)) => line,
                    None => line,
                };
                let _ = writeln!(errors, "{line}");
            }
            listing = read(&control)?;
        }
        // The other file lists the same, or nothing.
        let other = read(match case.file {
            ControlFile::Kprobes => &all,
            ControlFile::All => &kprobes,
        })?;
        let events = self.events(&listing);

        let mut formats = String::new();
        for event in &events {
            let format = read(&event.join("format"))?;
            for line in format.lines().filter(|line| !line.starts_with("ID: ")) {
                let _ = writeln!(formats, "{}", plain_field(line));
            }
        }
        let mut observed = vec![
            ("result", results),
            ("error log", errors),
            ("carets", carets),
            ("listing", listing),
            ("other listing", other),
            ("format", formats),
        ];

        if let Some(workload) = case.run {
            let mut enabled = String::new();
            File::create(self.root.join("trace"))?;
            for event in &events {
                let result = fs::write(event.join("enable"), "1");
                let _ = writeln!(enabled, "{}", told(result.map(|()| 1)));
            }
            let done = workload.run();
            for event in &events {
                fs::write(event.join("enable"), "0")?;
            }
            done?;
            observed.push(("enable", enabled));
            observed.push(("trace", self.trace()?));
            // The kernel's profile has no other events.
            if case.file == ControlFile::Kprobes {
                let profile = self.root.join(match side {
                    Side::Kernel => "kprobe_profile",
                    Side::Ours => "rkprobe_profile",
                });
                observed.push(("profile", read(&profile)?));
            }
        }

        let mut left = String::new();
        let _ = writeln!(left, "{}", told(File::create(&all).map(|_| 0)));
        left.push_str(&read(&all)?);
        for event in events.iter().filter(|event| event.exists()) {
            let _ = writeln!(left, "{} is left", event.display());
        }
        observed.push(("clear", left));
        Ok(observed)
    }

    fn file(&self, side: Side, file: ControlFile) -> PathBuf {
        self.root.join(match (side, file) {
            (Side::Kernel, file) => file.name(),
            (Side::Ours, ControlFile::Kprobes) => "rkprobe_events",
            (Side::Ours, ControlFile::All) => "rkprobe_dynamic_events",
        })
    }

    /// The directories of the events in a listing, each once.
    fn events(&self, listing: &str) -> Vec<PathBuf> {
        let mut events = Vec::new();
        for line in listing.lines() {
            let name = line.split_whitespace().next().unwrap_or_default();
            if let Some((_, name)) = name.split_once(':') {
                let event = self.root.join("events").join(name);
                if !events.contains(&event) {
                    events.push(event);
                }
            }
        }
        events
    }

    /// The records of this process, from the event's name on.
    fn trace(&self) -> io::Result<String> {
        let task = format!("-{} ", process::id());
        let mut records = String::new();
        for line in read(&self.root.join("trace"))?.lines() {
            let record = line
                .split_once(&task)
                .and_then(|(_, rest)| rest.split_once(": "));
            if let Some((_, record)) = record {
                let _ = writeln!(records, "{}", without_addresses(record));
            }
        }
        Ok(records)
    }
}

/// What a system call gave.
fn told(result: io::Result<usize>) -> String {
    match result {
        Ok(number) => format!("{number}"),
        Err(error) => format!("{error}"),
    }
}

/// A file as text. What is no UTF-8 in it stays apart from what is.
fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(format!("no {}\n", path.display()));
        }
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "{{{byte:02x}}}");
        }
    }
    Ok(text)
}

/// A line of `format` without what ours has for BPF: an offset that is aligned to the type, and the length of an
/// array.
fn plain_field(line: &str) -> String {
    let Some(field) = line.strip_prefix("\tfield:") else {
        return line.to_owned();
    };
    let Some((declaration, rest)) = field.split_once(";\toffset:") else {
        return line.to_owned();
    };
    let rest = rest.split_once(';').map_or(rest, |(_, rest)| rest);
    let declaration = match declaration
        .strip_suffix(']')
        .and_then(|d| d.rsplit_once('['))
    {
        Some((name, _)) => format!("{name}[]"),
        None => declaration.to_owned(),
    };
    format!("\tfield:{declaration};{rest}")
}

/// Addresses of the kernel's are not the same for long.
fn without_addresses(record: &str) -> String {
    const START: &str = "0xffff";
    let mut text = String::new();
    let mut rest = record;
    while let Some((before, after)) = rest.split_once(START) {
        let digits = after.bytes().take_while(u8::is_ascii_hexdigit).count();
        text.push_str(before);
        // Small negative numbers are not addresses.
        if digits == 12 && !after.starts_with("ffffffff") {
            text.push_str("ADDRESS");
        } else {
            text.push_str(START);
            text.push_str(&after[..digits]);
        }
        rest = &after[digits..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_no_offset_and_no_length() {
        for (line, expected) in [
            (
                "\tfield:u16 d[3];\toffset:32;\tsize:6;\tsigned:0;",
                "\tfield:u16 d[];\tsize:6;\tsigned:0;",
            ),
            (
                "\tfield:u16 d[];\toffset:29;\tsize:6;\tsigned:0;",
                "\tfield:u16 d[];\tsize:6;\tsigned:0;",
            ),
            (
                "\tfield:__data_loc char[] c;\toffset:28;\tsize:4;\tsigned:1;",
                "\tfield:__data_loc char[] c;\tsize:4;\tsigned:1;",
            ),
            ("print fmt: \"a[3]; b\"", "print fmt: \"a[3]; b\""),
        ] {
            assert_eq!(plain_field(line), expected);
        }
    }

    #[test]
    fn addresses_are_left_out() {
        for (record, expected) in [
            ("a=0xffff888000001000 b=1", "a=ADDRESS b=1"),
            ("a={0xffffffff81000000,0x1}", "a={ADDRESS,0x1}"),
            ("a=0xffffffffffffff9c", "a=0xffffffffffffff9c"),
            ("a=0xffff", "a=0xffff"),
            ("a=0xffff88800000100", "a=0xffff88800000100"),
        ] {
            assert_eq!(without_addresses(record), expected);
        }
    }
}
