// SPDX-License-Identifier: GPL-2.0

//! Calls as a trace that ui.perfetto.dev and chrome://tracing open: the trace event format in JSON.
//!
//! A thread is a track, and a step is a slice on it. An object that lives has a track of its own, and arrows between its
//! steps.

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
    cause::{
        self,
        Cause, //
    },
    errno,
    failure::{
        Failure,
        Result, //
    },
    record::Record,
    rust_names,
    tree::Call as Tree,
    values::Members,
    words::Signatures, //
};

/// The number of the process that has all tracks.
const PROCESS: u32 = 1;
/// The category of all slices.
const CATEGORY: &str = "rkprobe";

/// A slice.
#[derive(Serialize)]
struct Slice<'a, A> {
    ph: &'static str,
    cat: &'static str,
    name: &'a str,
    pid: u32,
    tid: u32,
    /// The start, in us.
    ts: f64,
    /// The duration, in us.
    dur: f64,
    #[serde(flatten)]
    flow: Option<Flow>,
    args: A,
}

/// The arrows from and to a slice.
#[derive(Serialize)]
struct Flow {
    /// The number of the object.
    bind_id: String,
    flow_in: bool,
    flow_out: bool,
}

/// The start or the end of an object, or of something else that no thread does.
#[derive(Serialize)]
struct End<'a, A> {
    ph: &'static str,
    cat: &'static str,
    name: &'a str,
    pid: u32,
    tid: u32,
    id2: Local,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<A>,
}

/// A number that is not that of another object of the process. With a number for all processes, Perfetto shows the object
/// apart from its threads.
#[derive(Serialize)]
struct Local {
    local: String,
}

/// A call that is a slice.
pub struct Call<'a, A> {
    pub thread: u32,
    pub comm: &'a str,
    pub function: &'a str,
    /// The time of the entry, in ns.
    pub start: u64,
    /// The duration, in ns.
    pub ns: u64,
    /// A click on the slice shows this.
    pub arguments: A,
}

/// What a click on the slice of a record shows: an answer, and the stack traces.
#[derive(Serialize)]
pub struct OfRecord<'a, A> {
    #[serde(flatten)]
    answer: A,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stack: &'a [&'a str],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    user_stack: &'a [String],
}

impl<'a, A> Call<'a, OfRecord<'a, A>> {
    /// The slice of a record, which ends at its time and took `ns`.
    pub fn of_record(record: &'a Record<'_>, function: &'a str, ns: u64, answer: A) -> Self {
        Self {
            thread: record.pid.parse().unwrap_or(0),
            comm: record.comm,
            function,
            start: record.time.saturating_sub(ns),
            ns,
            arguments: OfRecord {
                answer,
                stack: &record.stack,
                user_stack: &record.user_stack,
            },
        }
    }
}

/// A click on the slice shows this.
#[derive(Serialize)]
struct Arguments {
    /// The system call with its arguments, at its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    syscall: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ret: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Whether the error of the root comes from here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_cause: bool,
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
    json!({"ph": "M", "name": kind, "pid": PROCESS, "tid": tid, "args": {"name": rust_names::shown(name)}})
}

/// Traces are written as the calls arrive: they can have many steps.
pub struct Trace {
    path: String,
    file: BufWriter<File>,
    threads: BTreeSet<(u32, String)>,
    /// The number of spans.
    spans: u64,
    is_first: bool,
}

impl Trace {
    /// Creates the file `path` if there is one, and the run is not dry.
    pub fn wanted(
        is_dry: bool,
        path: Option<&String>,
        title: impl FnOnce() -> String,
    ) -> Result<Option<Self>> {
        let path = path.filter(|_| !is_dry);
        path.map(|path| Self::create(path, &title())).transpose()
    }

    /// Creates the file `path`. `title` is the name of the process that has all tracks.
    pub fn create(path: &str, title: &str) -> Result<Self> {
        let file = File::create(path).map_err(|error| Failure::file(path, &error))?;
        let mut trace = Self {
            path: path.into(),
            file: BufWriter::new(file),
            threads: BTreeSet::new(),
            spans: 0,
            is_first: true,
        };
        trace.write(&name("process_name", 0, title))?;
        Ok(trace)
    }

    fn name_thread(&mut self, tid: u32, comm: &str) -> Result {
        match self.threads.insert((tid, comm.into())) {
            true => self.write(&name("thread_name", tid, comm)),
            false => Ok(()),
        }
    }

    /// Adds a call.
    pub fn add(&mut self, call: Call<'_, impl Serialize>) -> Result {
        self.add_slice(call, None)
    }

    fn add_slice(&mut self, call: Call<'_, impl Serialize>, flow: Option<Flow>) -> Result {
        self.name_thread(call.thread, call.comm)?;
        self.write(&Slice {
            ph: "X",
            cat: CATEGORY,
            name: &rust_names::shown(call.function),
            pid: PROCESS,
            tid: call.thread,
            ts: us(call.start),
            dur: us(call.ns),
            flow,
            args: call.arguments,
        })
    }

    /// Adds the life of an object, with its steps in their order. `number` is not that of another life.
    pub fn add_life<A: Serialize>(
        &mut self,
        object: &str,
        number: u64,
        steps: Vec<Call<'_, A>>,
    ) -> Result {
        if let (Some(first), Some(last)) = (steps.first(), steps.last()) {
            let ends = [first, last].map(|step| (step.thread, step.start));
            self.add_ends(object, number, ends, None::<Json>)?;
        }
        let last = steps.len().saturating_sub(1);
        for (index, step) in steps.into_iter().enumerate() {
            let flow = Flow {
                bind_id: format!("{number:#x}"),
                flow_in: index > 0,
                flow_out: index < last,
            };
            self.add_slice(step, Some(flow))?;
        }
        Ok(())
    }

    /// Adds something that takes `ns`, and that no thread does from its start to its end. It has a track that is not that of
    /// a thread.
    pub fn add_span(&mut self, name: &str, start: u64, ns: u64, arguments: Json) -> Result {
        self.spans += 1;
        let ends = [(0, start), (0, start.saturating_add(ns))];
        self.add_ends(name, self.spans, ends, Some(arguments))
    }

    /// Adds the start and the end of an object. Each has a thread and a time.
    fn add_ends(
        &mut self,
        name: &str,
        number: u64,
        ends: [(u32, u64); 2],
        mut args: Option<impl Serialize>,
    ) -> Result {
        for (ph, (tid, time)) in ["b", "e"].into_iter().zip(ends) {
            self.write(&End {
                ph,
                cat: CATEGORY,
                name: &rust_names::shown(name),
                pid: PROCESS,
                tid,
                id2: Local {
                    local: format!("{number:#x}"),
                },
                ts: us(time),
                args: args.take(),
            })?;
        }
        Ok(())
    }

    /// Adds a call with its steps, and the cause of its error. `syscall` is the system call with its arguments, and
    /// `root` are the arguments of the root if the event has recorded them.
    pub fn add_tree(
        &mut self,
        call: &Tree,
        cause: Option<&Cause>,
        signatures: &Signatures,
        mut syscall: Option<String>,
        mut root: Option<Members>,
    ) -> Result {
        let tid = call.tid.parse().unwrap_or(0);
        self.name_thread(tid, &call.comm)?;
        let start = call.start();
        let whole = call.root().ns.unwrap_or(0);
        for (index, step) in call.steps.iter().enumerate() {
            let error = cause::error(step, &signatures.returns);
            let until_end = whole.saturating_sub(step.enter);
            // The root is the first step.
            let syscall = syscall.take();
            let arguments = match syscall {
                Some(_) => None,
                None => root.take().or_else(|| signatures.arguments_json(step)),
            };
            let missing = Some(call.missing()).filter(|count| index == 0 && *count > 0);
            let slice = Call {
                thread: tid,
                comm: &call.comm,
                function: &step.function,
                start: start + step.enter,
                ns: step.ns.unwrap_or(until_end).min(until_end),
                arguments: Arguments {
                    syscall,
                    is_cause: cause.is_some_and(|cause| cause.step() == index),
                    ret: signatures.result_json(step),
                    error: error.map(|number| errno::name(number.into())),
                    arguments,
                    did_not_return: step.ns.is_none(),
                    missing_steps: missing,
                },
            };
            self.add_slice(slice, None)?;
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

    fn write(&mut self, event: &impl Serialize) -> Result {
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

    /// The file of a trace, which is removed.
    fn finish(trace: Trace) -> Json {
        let path = trace.path.clone();
        trace.finish().unwrap();
        let json = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        fs::remove_file(path).unwrap();
        json
    }

    #[test]
    fn the_steps_of_an_object_have_arrows() {
        let path = env::temp_dir().join(format!("rkprobe-perfetto-life-{}", process::id()));
        let mut trace = Trace::create(&path.to_string_lossy(), "follow inode").unwrap();
        let step = |thread, function, start| Call {
            thread,
            comm: "cat",
            function,
            start,
            ns: 0,
            arguments: json!({"mode": 5}),
        };
        let steps = vec![step(7, "f", 1000), step(8, "g", 2000), step(7, "h", 5000)];
        trace.add_life("inode 0x1", 3, steps).unwrap();
        trace.add_life::<Json>("inode 0x2", 4, Vec::new()).unwrap();
        let json = finish(trace);
        let events = json["traceEvents"].as_array().unwrap();
        let of_kind = |kind: &'static str| events.iter().filter(move |event| event["ph"] == kind);
        let ends: Vec<_> = ["b", "e"]
            .map(|kind| of_kind(kind).next().unwrap()["ts"].clone())
            .into();
        assert_eq!(ends, [json!(1.0), json!(5.0)]);
        assert!(of_kind("e").all(|end| end["id2"] == json!({"local": "0x3"})));
        let flows: Vec<_> = of_kind("X")
            .map(|slice| (slice["flow_in"] == true, slice["flow_out"] == true))
            .collect();
        assert_eq!(flows, [(false, true), (true, true), (true, false)]);
        let tracks = of_kind("M").filter(|event| event["name"] == "thread_name");
        assert_eq!(tracks.count(), 2);
        let slice = of_kind("X").next().unwrap();
        assert_eq!(
            (&slice["bind_id"], &slice["args"]["mode"]),
            (&json!("0x3"), &json!(5))
        );
    }

    #[test]
    fn spans_and_records_have_their_arguments() {
        let path = env::temp_dir().join(format!("rkprobe-perfetto-span-{}", process::id()));
        let mut trace = Trace::create(&path.to_string_lossy(), "disk").unwrap();
        for start in [1000, 2000] {
            let arguments = json!({"bytes": 512});
            trace.add_span("sda READ", start, 5000, arguments).unwrap();
        }
        let line = " cat-7 [001] ..... 6.1: args: (vfs_read+0x4/0x370) count=5";
        let mut record = Record::parse(line, "args").unwrap();
        record.stack = vec!["f+0x1/0x2"];
        let call = Call::of_record(&record, "vfs_read", 100, json!({"caller": "g"}));
        trace.add(call).unwrap();
        let json = finish(trace);
        let events = json["traceEvents"].as_array().unwrap();
        let ends: Vec<_> = events[1..5]
            .iter()
            .map(|end| (end["ph"].as_str().unwrap(), end["ts"].as_f64().unwrap()))
            .collect();
        assert_eq!(ends, [("b", 1.0), ("e", 6.0), ("b", 2.0), ("e", 7.0)]);
        assert_eq!(events[1]["args"]["bytes"], 512);
        assert_eq!(events[2]["args"], Json::Null);
        assert_ne!(events[1]["id2"], events[3]["id2"]);
        let slice = events.last().unwrap();
        assert_eq!(slice["ts"], json!(6_100_000.0 - 0.1));
        assert_eq!(
            slice["args"],
            json!({"caller": "g", "stack": ["f+0x1/0x2"]})
        );
    }

    #[test]
    fn each_step_is_a_slice_of_its_thread() {
        let path = env::temp_dir().join(format!("rkprobe-perfetto-{}", process::id()));
        let path = path.to_string_lossy();
        let mut trace = Trace::create(&path, "why f").unwrap();
        let mut call = call(&[(0, "f", -2), (1, "g", 5), (1, "h", 0)]);
        (call.steps[2].ns, call.steps[2].ret) = (None, None);
        let signatures = Signatures::default();
        let cause = cause::find(&call, &signatures.returns);
        trace
            .add_tree(&call, cause.as_ref(), &signatures, None, None)
            .unwrap();
        let syscall = Some("open()".to_string());
        trace
            .add_tree(&call, None, &signatures, syscall, None)
            .unwrap();
        let json = finish(trace);
        let events = json["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 2 + 6);
        assert_eq!(events[1]["args"]["name"], "cat");
        let root = &events[2];
        assert_eq!((&root["name"], &root["tid"]), (&json!("f"), &json!(7)));
        assert_eq!((&root["ts"], &root["dur"]), (&json!(40.0), &json!(10.0)));
        let args = &root["args"];
        assert_eq!(
            (&args["error"], &args["is_cause"]),
            (&json!("ENOENT"), &json!(true))
        );
        assert_eq!(args["syscall"], Json::Null);
        assert_eq!(events[5]["args"]["syscall"], "open()");
        assert_eq!(events[5]["args"]["is_cause"], Json::Null);
        let step = &events[4];
        assert_eq!((&step["ts"], &step["dur"]), (&json!(40.02), &json!(9.98)));
        assert_eq!(step["args"], json!({"did_not_return": true}));
    }
}
