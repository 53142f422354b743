// SPDX-License-Identifier: GPL-2.0

//! Calls as a trace that ui.perfetto.dev and chrome://tracing open: the trace event format in JSON.
//!
//! A thread is a track, and a step is a slice on it.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{
        self,
        BufWriter,
        Write, //
    }, //
};

use serde::Serialize;
use serde_json::{
    json,
    Value as Json, //
};

use crate::{
    cause,
    errno,
    failure::{
        Failure,
        Result, //
    },
    tree::Call,
    values::Members,
    words::Signatures, //
};

/// The number of the process that has all tracks.
const PROCESS: u32 = 1;
/// The category of all slices.
const CATEGORY: &str = "rkprobe";

/// A slice.
#[derive(Serialize)]
struct Slice<'a> {
    ph: &'static str,
    cat: &'static str,
    name: &'a str,
    pid: u32,
    tid: u32,
    /// The start, in us.
    ts: f64,
    /// The duration, in us.
    dur: f64,
    args: Arguments,
}

/// What a click on the slice shows.
#[derive(Serialize)]
struct Arguments {
    #[serde(skip_serializing_if = "Option::is_none")]
    ret: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Members>,
    /// Whether nobody saw the return of the function. Its slice ends with the root.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    did_not_return: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_steps: Option<u64>,
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// A name of a process or a track.
fn name(kind: &str, tid: u32, name: &str) -> Json {
    json!({"ph": "M", "name": kind, "pid": PROCESS, "tid": tid, "args": {"name": name}})
}

/// Traces are written as the calls arrive: they can have many steps.
pub struct Trace {
    path: String,
    file: BufWriter<File>,
    threads: BTreeSet<(u32, String)>,
    is_first: bool,
}

impl Trace {
    /// Creates the file `path`. `title` is the name of the process that has all tracks.
    pub fn create(path: &str, title: &str) -> Result<Self> {
        let file = File::create(path).map_err(|error| Failure::file(path, &error))?;
        let mut trace = Self {
            path: path.into(),
            file: BufWriter::new(file),
            threads: BTreeSet::new(),
            is_first: true,
        };
        trace.add(&name("process_name", 0, title))?;
        Ok(trace)
    }

    /// Adds a call.
    pub fn add_call(&mut self, call: &Call, signatures: &Signatures) -> Result {
        let tid = call.tid.parse().unwrap_or(0);
        if self.threads.insert((tid, call.comm.clone())) {
            self.add(&name("thread_name", tid, &call.comm))?;
        }
        let start = call.start();
        let whole = call.root().ns.unwrap_or(0);
        for (index, step) in call.steps.iter().enumerate() {
            let error = cause::error(step, &signatures.returns);
            let until_end = whole.saturating_sub(step.enter);
            let missing = Some(call.missing()).filter(|count| index == 0 && *count > 0);
            self.add(&Slice {
                ph: "X",
                cat: CATEGORY,
                name: &step.function,
                pid: PROCESS,
                tid,
                ts: us(start + step.enter),
                dur: us(step.ns.unwrap_or(until_end).min(until_end)),
                args: Arguments {
                    ret: signatures.result_json(step),
                    error: error.map(|number| errno::name(number.into())),
                    arguments: signatures.arguments_json(step),
                    did_not_return: step.ns.is_none(),
                    missing_steps: missing,
                },
            })?;
        }
        Ok(())
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result {
        let end = match self.is_first {
            true => "{\"traceEvents\":[]}\n",
            false => "\n],\"displayTimeUnit\":\"ns\"}\n",
        };
        let ended = self.file.write_all(end.as_bytes());
        ended
            .and_then(|()| self.file.flush())
            .map_err(|error| Failure::file(&self.path, &error))
    }

    fn add(&mut self, event: &impl Serialize) -> Result {
        let start = match self.is_first {
            true => "{\"traceEvents\":[\n",
            false => ",\n",
        };
        self.is_first = false;
        let written = serde_json::to_string(event)
            .map_err(io::Error::from)
            .and_then(|text| write!(self.file, "{start}{text}"));
        written.map_err(|error| Failure::file(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        fs,
        process, //
    };

    use crate::tree::tests::call;

    use super::*;

    #[test]
    fn each_step_is_a_slice_of_its_thread() {
        let path = env::temp_dir().join(format!("rkprobe-perfetto-{}", process::id()));
        let path = path.to_string_lossy();
        let mut trace = Trace::create(&path, "why f").unwrap();
        let mut call = call(&[(0, "f", -2), (1, "g", 5), (1, "h", 0)]);
        (call.steps[2].ns, call.steps[2].ret) = (None, None);
        trace.add_call(&call, &Signatures::default()).unwrap();
        trace.add_call(&call, &Signatures::default()).unwrap();
        trace.finish().unwrap();
        let json: Json = serde_json::from_str(&fs::read_to_string(&*path).unwrap()).unwrap();
        fs::remove_file(&*path).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 2 + 6);
        assert_eq!(events[1]["args"]["name"], "cat");
        let root = &events[2];
        assert_eq!((&root["name"], &root["tid"]), (&json!("f"), &json!(7)));
        assert_eq!((&root["ts"], &root["dur"]), (&json!(40.0), &json!(10.0)));
        assert_eq!(root["args"]["error"], "ENOENT");
        let step = &events[4];
        assert_eq!((&step["ts"], &step["dur"]), (&json!(40.02), &json!(9.98)));
        assert_eq!(step["args"], json!({"did_not_return": true}));
    }
}
