// SPDX-License-Identifier: GPL-2.0

//! The records of an instance, line by line.

use std::{
    fs::{
        File,
        OpenOptions, //
    },
    io::{
        ErrorKind,
        Read, //
    },
    mem,
    os::unix::fs::OpenOptionsExt, //
};

use crate::{
    failure::{
        note,
        Failure,
        Result, //
    },
    instance::Instance,
    record,
    sys,
    tracefs::Tracefs, //
};

/// A longer record is not taken for one that goes on in the next line.
const MAX_RECORD: usize = 16 * 1024;

/// Reads the records of an instance.
pub struct Reader {
    name: String,
    pipe: File,
    buffer: Vec<u8>,
    /// The start of a line whose end was not read yet.
    rest: Vec<u8>,
    /// A record whose string goes on in the next line.
    open: String,
}

impl Reader {
    /// Opens the records. Reading takes them away.
    pub fn open(tracefs: &Tracefs, instance: &Instance<'_>) -> Result<Self> {
        let name = instance.file("trace_pipe");
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(sys::NON_BLOCKING)
            .open(tracefs.path(&name))
            .map_err(|error| Failure::file(&name, &error))?;
        Ok(Self {
            name,
            pipe,
            buffer: vec![0; 64 * 1024],
            rest: Vec::new(),
            open: String::new(),
        })
    }

    /// Calls `show` with each line, and with an empty one when there are no others, until it returns false. Returns what
    /// it returned last. Reports where records were lost.
    ///
    /// A function that is called all the time must not keep the run from ending: `is_over` says that it ends, and
    /// that the rest is read later.
    pub fn read(
        &mut self,
        is_over: impl Fn() -> bool,
        mut show: impl FnMut(&str) -> Result<bool>,
    ) -> Result<bool> {
        loop {
            let count = match self.pipe.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => break,
                Err(error) => return Err(Failure::file(&self.name, &error)),
            };
            self.rest.extend_from_slice(&self.buffer[..count]);
            let lines = self.rest.iter().rposition(|byte| *byte == b'\n');
            let lines: Vec<u8> = self
                .rest
                .drain(..lines.map_or(0, |last| last + 1))
                .collect();
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                self.open += &String::from_utf8_lossy(line);
                if self.open.len() < MAX_RECORD && record::is_open(&self.open) {
                    continue;
                }
                let line = mem::take(&mut self.open);
                let line = line.trim_end();
                if is_loss(line) {
                    note(format!("rkprobe: {line}"));
                } else if !show(line)? {
                    return Ok(false);
                }
            }
            if is_over() {
                return Ok(true);
            }
        }
        // The kernel writes whole records, so no other line of this one comes.
        Ok((self.open.is_empty() || show(&mem::take(&mut self.open))?) && show("")?)
    }
}

/// Whether a line says that the kernel lost records.
fn is_loss(line: &str) -> bool {
    line.starts_with("CPU:") && line.ends_with(" EVENTS]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_lost_records_from_others() {
        assert!(is_loss("CPU:0 [LOST 5 EVENTS]"));
        assert!(is_loss("CPU:12 [LOST EVENTS]"));
        assert!(!is_loss(
            "cat-1 [000] ..... 1.0: args: (f+0x1/0x2) a=\"[LOST EVENTS]"
        ));
    }
}
