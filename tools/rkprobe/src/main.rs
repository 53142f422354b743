// SPDX-License-Identifier: GPL-2.0

//! `rkprobe`: one question about the kernel, one command, one answer.
//!
//! The order of the files, each of which uses only those before it: `sys`, `failure`, `duration`, `errno`, `similar`,
//! `rust_names`, `draw`, `view`, `svg`, `lanes`, `heat`, `flame`, `hist`, `spread`, `counted`, `format`, `literal`,
//! `ring_buffer`, `merge`, `symbols`, `record`, `late_texts`, `by`, `tree`, `btf`, `returns`, `cause`, `groups`,
//! `flags`, `relocate`, `debuginfod`, `debug_files`, `dwarf`, `lines`, `scopes`, `inlined`, `rows`, `locations`,
//! `tracefs`, `analysis`, `profile`, `pattern`, `functions`, `suggest`, `probes`, `objects`, `asked`, `selection`,
//! `targets`, `sockets`, `lock_probes`, `references`, `threads`, `kernel_memory`, `epilogues`, `tasks`, `wait_graph`,
//! `kinds`, `print_fmt`, `value`, `shown`, `deep`, `variables`, `sources`, `sites`, `values`, `trace_events`, `words`,
//! `syscalls`, `outline`, `tree_json`, `perfetto`, `inflight`, `instance`, `programs`, `stream`, `decoder`, `reader`,
//! `missing`, `counts`, `whom`, `workload`, `context`, `ends`, `blocks`, `ways`, `live`, `tally`, `table`, `moves`,
//! `calls`, `places`, `trees`, `commands`, `cli`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

mod analysis;
mod asked;
mod blocks;
mod btf;
mod by;
mod calls;
mod cause;
mod cli;
mod commands;
mod context;
mod counted;
mod counts;
mod debug_files;
mod debuginfod;
mod decoder;
mod deep;
mod draw;
mod duration;
mod dwarf;
mod ends;
mod epilogues;
mod errno;
mod failure;
mod flags;
mod flame;
mod format;
mod functions;
mod groups;
mod heat;
mod hist;
mod inflight;
mod inlined;
mod instance;
mod kernel_memory;
mod kinds;
mod lanes;
mod late_texts;
mod lines;
mod literal;
mod live;
mod locations;
mod lock_probes;
mod merge;
mod missing;
mod moves;
mod objects;
mod outline;
mod pattern;
mod perfetto;
mod places;
mod print_fmt;
mod probes;
mod profile;
mod programs;
mod reader;
mod record;
mod references;
mod relocate;
mod returns;
mod ring_buffer;
mod rows;
mod rust_names;
#[cfg(test)]
mod schema;
mod scopes;
mod selection;
mod shown;
mod similar;
mod sites;
mod sockets;
mod sources;
mod spread;
mod stream;
mod suggest;
mod svg;
mod symbols;
mod sys;
mod syscalls;
mod table;
mod tally;
mod targets;
mod tasks;
mod threads;
mod trace_events;
mod tracefs;
mod tree;
mod tree_json;
mod trees;
mod value;
mod values;
mod variables;
mod view;
mod wait_graph;
mod ways;
mod whom;
mod words;
mod workload;

fn main() -> ExitCode {
    let caught = sys::catch_signals().map_err(|error| failure::Failure::file("signals", &error));
    match caught.and_then(|()| cli::run()) {
        Ok(status) => ExitCode::from(status),
        Err(failure::Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure::Failure::Message(text) | failure::Failure::Refused(text, _)) => {
            failure::note(format!("rkprobe: {}", text.trim_end()));
            ExitCode::FAILURE
        }
    }
}
