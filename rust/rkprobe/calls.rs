// SPDX-License-Identifier: GPL-2.0

//! The file of the calls of call trees that have not returned.

use kernel::{
    prelude::*,
    seq_file::SeqFile, //
};

use ktrace::context::monotonic_clock;
use probe::{
    call_tree::{
        CallInProgress,
        OpenStep, //
    },
    command::{
        EventsFile,
        ProbeKind, //
    },
    fetch::Output, //
};

use crate::{
    event::Probe,
    registry,
    seq_text::SeqText, //
};

/// The line instead of calls.
const NO_MEMORY: &str = "# no memory to show calls\n";

/// The number of the next call tree, from `from` on.
pub(crate) fn next(mut from: usize) -> Option<usize> {
    loop {
        let number = registry::next(EventsFile::DynamicEvents, from)?;
        let is_tree = |probe: &Probe| probe.spec().kind() == ProbeKind::CallTree;
        if registry::with_probe(number, is_tree) == Some(true) {
            return Some(number);
        }
        from = number + 1;
    }
}

/// Writes the calls in progress of a call tree: a line for each step that has not returned.
pub(crate) fn show(number: usize, to: &SeqFile) {
    registry::with_probe(number, |probe| {
        let shown = probe.hook().each_call(&mut |call, steps| {
            for (depth, step) in steps.iter().enumerate() {
                // The kernel detects an overflow.
                let _ = show_step(probe, call, depth, step, to);
            }
        });
        if shown.is_err() {
            to.call_printf(format_args!("{NO_MEMORY}"));
        }
    });
}

fn show_step(
    probe: &Probe,
    call: &CallInProgress,
    depth: usize,
    step: &OpenStep,
    to: &SeqFile,
) -> core::fmt::Result {
    let (spec, mut text) = (probe.spec(), SeqText::new(to));
    to.call_printf(format_args!(
        "{}/{} pid={} comm=\"",
        spec.group(),
        spec.event(),
        call.pid
    ));
    let mut comm = [0; 16];
    for (to, word) in comm.chunks_exact_mut(size_of::<u64>()).zip(call.comm) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    text.bytes(comm.split(|byte| *byte == 0).next().unwrap_or(&[]))?;
    to.call_printf(format_args!("\" call={} depth={depth} func=", call.number));
    text.function(step.function)?;
    let entered = call.since.wrapping_add(step.enter);
    let micros = monotonic_clock().saturating_sub(entered) / 1000;
    to.call_printf(format_args!(
        " since={}.{:06} s\n",
        micros / 1_000_000,
        micros % 1_000_000
    ));
    Ok(())
}
