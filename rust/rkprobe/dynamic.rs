// SPDX-License-Identifier: GPL-2.0

//! The kernel's own `dynamic_events`, where that is open to modules.

use kernel::prelude::*;
use kernel::seq_file::SeqFile;

use ktrace::dyn_event::Arguments;
use ktrace::dyn_event::Handler;
use ktrace::trace_event::EventMutex;
use probe::command;

use crate::commands;
use crate::registry;

/// What is written there, and listed.
pub(crate) struct Dynamic;

impl Handler for Dynamic {
    fn create(command: &[u8]) -> Result {
        commands::run_dynamic(command)
    }

    fn show(_: &EventMutex, number: usize, to: &SeqFile) {
        registry::with_probe(number, |probe| probe.show(to));
    }

    fn is_busy(token: &EventMutex, number: usize) -> bool {
        registry::is_busy(token, number)
    }

    fn remove(token: &EventMutex, number: usize) -> Result {
        registry::remove_with(token, |probe| probe.number() == number)?;
        Ok(())
    }

    fn matches(
        _: &EventMutex,
        number: usize,
        group: Option<&str>,
        event: &str,
        words: Arguments<'_>,
    ) -> bool {
        let is_meant = registry::with_probe(number, |probe| {
            let shape = probe.shape();
            let listed = (shape.group(), shape.name(), probe.command());
            command::matches((group, event, words), listed)
        });
        is_meant.unwrap_or(false)
    }
}
