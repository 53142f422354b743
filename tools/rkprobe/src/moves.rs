// SPDX-License-Identifier: GPL-2.0

//! Waits until threads move: until the functions return in which they sleep.
//!
//! These calls began before the probe, so that only `%retinsn` sees their returns.

use std::{
    collections::BTreeSet,
    time::Instant, //
};

use serde::Serialize;

use crate::{
    context::Context,
    duration,
    errno,
    failure::{
        note,
        Failure,
        Result, //
    },
    functions::Symbol,
    probes,
    record::{
        split_symbol,
        symbol_of, //
    },
    stream::Options,
    threads::Thread, //
};

/// The most functions of a stack that are tried.
const MAX_FRAMES: usize = 8;

/// A thread that moves, in JSON.
#[derive(Serialize)]
struct Move<'a> {
    pid: u32,
    comm: &'a str,
    /// The function that returned.
    function: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ret: Option<String>,
    /// The time since the start of the run.
    after_ns: u64,
}

/// The commands to try for a thread: the innermost function first. A function can leave by tail calls, or return
/// nothing.
fn commands(group: &str, event: &str, thread: &Thread) -> Vec<String> {
    let frames = thread.stack.iter().filter(|frame| frame.contains('+'));
    let place = |frame: &String| {
        let symbol = symbol_of(frame);
        let (name, module) = split_symbol(&symbol);
        Symbol { name, module }.full_name()
    };
    let places = frames.map(place).take(MAX_FRAMES);
    places
        .flat_map(|place: String| {
            let start = format!("p:{group}/{event} {place}%retinsn");
            let end = format!(" if common_pid == {}", thread.pid);
            [
                format!("{start} ret=$retval:x64{end}"),
                format!("{start}{end}"),
            ]
        })
        .collect()
}

/// A word that a function returns. Its type is unknown: an error may have 32 or 64 bits.
fn result(word: u64) -> String {
    let number = match u32::try_from(word) {
        Ok(word) => i64::from(word as i32),
        Err(_) => word as i64,
    };
    match number {
        -4095..=-1 => format!("-{}", errno::name(number.unsigned_abs())),
        _ => format!("{word:#x}"),
    }
}

/// Waits until all threads have moved. Prints each.
pub fn wait(context: &Context, threads: &[&Thread]) -> Result {
    if threads.is_empty() {
        return Ok(());
    }
    let instance = context.start()?;
    let mut events = Vec::new();
    let mut watched = Vec::new();
    for thread in threads {
        let event = format!("moved{}", events.len());
        let commands = commands(instance.group(), &event, thread);
        match probes::define(&context.tracefs, &commands) {
            Ok(()) if !commands.is_empty() => {
                events.push(event);
                watched.push(*thread);
            }
            Ok(()) | Err(Failure::Refused(..)) => note(format!(
                "rkprobe: no function in which {}-{} sleeps can be probed at its return",
                thread.comm, thread.pid
            )),
            Err(failure) => return Err(failure),
        }
    }
    if watched.is_empty() {
        return Err(Failure::new("no thread can be watched"));
    }
    for event in &events {
        context.enable(&instance, event, &Options::default())?;
    }
    let start = Instant::now();
    let mut left: BTreeSet<usize> = (0..watched.len()).collect();
    context.begin_reading(&instance, Some(watched.len() as u64))?;
    context.read_records(&instance, &Options::default(), |entry| {
        let Some(entry) = entry else {
            return Ok(!left.is_empty());
        };
        let index = events.iter().position(|event| **event == *entry.event);
        let Some(index) = index else {
            return Ok(true);
        };
        let record = entry.record();
        if left.remove(&index) {
            let thread = watched[index];
            let function = record.place.rsplit(" <- ").next().unwrap_or("?");
            let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let moved = Move {
                pid: thread.pid,
                comm: &thread.comm,
                function,
                ret: record.field("ret").map(|_| result(record.number("ret"))),
                after_ns: ns,
            };
            match context.is_json {
                true => context.print_json(&moved)?,
                false => {
                    let ret = moved.ret.map_or(String::new(), |ret| format!(" {ret}"));
                    context.print(&format!(
                        "{}-{}  moves after {}: {function} returns{ret}\n",
                        thread.comm,
                        thread.pid,
                        duration::show(ns),
                    ))?;
                }
            }
        }
        Ok(!left.is_empty())
    })?;
    if !left.is_empty() && !context.tracefs.is_dry() {
        let names = left.iter().map(|index| watched[*index]);
        let names = names.map(|thread| format!("{}-{}", thread.comm, thread.pid));
        let names: Vec<String> = names.collect();
        note(format!("rkprobe: {} did not move", names.join(", ")));
    }
    context.print_missing(&instance, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_may_be_an_error() {
        let shown = [0, 5, 0xffff_fffc, u64::MAX - 515, 0xffff_8000_0000_0000].map(result);
        assert_eq!(
            shown,
            [
                "0x0",
                "0x5",
                "-EINTR",
                "-ERESTART_RESTARTBLOCK",
                "0xffff800000000000"
            ]
        );
    }

    #[test]
    fn the_innermost_function_is_tried_first() {
        let thread = Thread {
            pid: 7,
            process: 7,
            comm: "a".into(),
            state: 'D',
            stack: vec!["f+0x1/0x2".into(), "g+0x1/0x2 [mod]".into()],
        };
        let all = commands("g", "moved0", &thread);
        assert_eq!(
            all,
            [
                "p:g/moved0 f%retinsn ret=$retval:x64 if common_pid == 7",
                "p:g/moved0 f%retinsn if common_pid == 7",
                "p:g/moved0 mod:g%retinsn ret=$retval:x64 if common_pid == 7",
                "p:g/moved0 mod:g%retinsn if common_pid == 7"
            ]
        );
        for command in &all {
            probes::check_syntax(command).unwrap();
        }
    }
}
