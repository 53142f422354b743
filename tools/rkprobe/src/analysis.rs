// SPDX-License-Identifier: GPL-2.0

//! The files of tracefs that analyse a function: a run writes its name, and reads the answer.

use std::fs::File;

use crate::{
    failure::{
        Failure,
        Result, //
    },
    sys,
    tracefs::{
        quote,
        Tracefs, //
    }, //
};

/// The file with the exits of a function.
const EXITS: &str = "rkprobe_exits";

/// The exits of a function. Empty if the run is dry.
pub fn exits(tracefs: &Tracefs, function: &str) -> Result<String> {
    Analysis::open(tracefs, EXITS, "the module has no exit analysis")?.ask(function)
}

/// Such a file. The file has the answer for the function that was written last, so one run asks after the other.
pub struct Analysis<'a> {
    tracefs: &'a Tracefs,
    file: &'static str,
    _lock: Option<File>,
}

impl<'a> Analysis<'a> {
    /// Waits until no other run uses the file. `lacking` says that a module without a decoder lacks it.
    pub fn open(tracefs: &'a Tracefs, file: &'static str, lacking: &str) -> Result<Self> {
        if !tracefs.is_dry() && !tracefs.path(file).exists() {
            return Err(Failure::new(format!(
                "{lacking}: build it with CONFIG_RKPROBE_KRETINSN=y"
            )));
        }
        let failed = |error| Failure::file(file, &error);
        let lock = match tracefs.open(file) {
            Ok(file) => Some(file),
            Err(_) if tracefs.is_dry() => None,
            Err(error) => return Err(failed(error)),
        };
        if let Some(lock) = &lock {
            sys::lock(lock).map_err(failed)?;
        }
        Ok(Self {
            tracefs,
            file,
            _lock: lock,
        })
    }

    /// The answer about a function. Empty if the run is dry.
    pub fn ask(&self, function: &str) -> Result<String> {
        let (tracefs, file) = (self.tracefs, self.file);
        tracefs
            .write_as(file, function, &quote(function))
            .map_err(|error| Failure::file(function, &error))?;
        tracefs.show_read(file);
        match tracefs.is_dry() {
            true => Ok(String::new()),
            false => tracefs.read(file),
        }
    }
}
