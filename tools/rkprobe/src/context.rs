// SPDX-License-Identifier: GPL-2.0

//! What every command has: tracefs, the output, and the time.

use std::{
    cell::{
        Cell,
        OnceCell, //
    },
    collections::BTreeMap,
    env,
    io::{
        self,
        IsTerminal,
        Write, //
    },
    os::fd::BorrowedFd,
    rc::Rc,
    time::{
        Duration,
        Instant, //
    }, //
};

use serde::Serialize;

use crate::{
    decoder::needs_symbols,
    draw::Screen,
    duration,
    failure::{
        note,
        Failure,
        Result, //
    },
    functions::Functions,
    inflight::{
        self,
        InFlight,
        CALLS, //
    },
    instance::Instance,
    late_texts::LateTexts,
    missing::Missing,
    profile,
    programs,
    reader::Reader,
    record::{
        Entry,
        Record, //
    },
    rust_names,
    selection::is_list,
    stream::{
        self,
        Options, //
    },
    symbols::Symbols,
    sys::{
        self,
        Woken, //
    },
    tracefs::Tracefs,
    whom::{
        self,
        Whom, //
    },
    workload::Workload, //
};

/// How often records are read.
pub const READ_INTERVAL: Duration = Duration::from_millis(100);
/// How often the run looks whether its command has ended.
const COMMAND_INTERVAL: Duration = Duration::from_millis(10);
/// The most process IDs in one write.
const PIDS_OF_A_WRITE: usize = 256;
/// The bytes of records after which they are printed, though there are more.
const MAX_UNPRINTED: usize = 16 * 1024;
/// The size of a terminal that does not say its size.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// What every command has.
pub struct Context {
    /// The files of the kernel.
    pub tracefs: Tracefs,
    /// The functions of the kernel.
    pub functions: Functions,
    /// Whether the answer is JSON.
    pub is_json: bool,
    /// Whether a terminal gets what a pipe gets.
    pub is_plain: bool,
    /// The size of each CPU's trace buffer, if it is not the kernel's default.
    pub buffer_kib: Option<u64>,
    /// Whom the run traces.
    pub whom: Whom,
    /// Whether the run is another one of the same command, whose output the user has seen.
    is_again: bool,
    /// The command that the run has started.
    workload: OnceCell<Workload>,
    /// Whether the run is over, and its command did not end it.
    is_ended: Cell<bool>,
    /// The calls of the run's event that have not returned at the end of the run.
    in_flight: OnceCell<Vec<InFlight>>,
    /// The event `GROUP/NAME` whose calls the run needs, and the file with the process IDs that it selects.
    keeps_calls: OnceCell<(String, String)>,
    /// Whether the output is a terminal that knows escape sequences.
    pub is_terminal: bool,
    time: RunTime,
    /// The symbols of the kernel, for records.
    symbols: Rc<Symbols>,
}

/// The time of a run. It starts at the first question for its end: the setup of the probes does not count.
struct RunTime {
    duration: Option<Duration>,
    end: OnceCell<Instant>,
}

impl RunTime {
    /// `duration` is in ns.
    fn new(duration: Option<u64>) -> Self {
        Self {
            duration: duration.map(Duration::from_nanos),
            end: OnceCell::new(),
        }
    }

    /// The end of the run, if it has one.
    fn end(&self) -> Option<Instant> {
        let duration = self.duration?;
        Some(*self.end.get_or_init(|| Instant::now() + duration))
    }
}

impl Context {
    /// `duration` is in ns.
    pub fn new(tracefs: Tracefs, is_json: bool, duration: Option<u64>, whom: Whom) -> Self {
        Self {
            functions: Functions::new(&tracefs),
            tracefs,
            is_json,
            is_plain: false,
            buffer_kib: None,
            whom,
            is_again: false,
            workload: OnceCell::new(),
            is_ended: Cell::new(false),
            in_flight: OnceCell::new(),
            keeps_calls: OnceCell::new(),
            is_terminal: io::stdout().is_terminal()
                && env::var_os("TERM").is_none_or(|name| name != "dumb"),
            time: RunTime::new(duration),
            symbols: Rc::default(),
        }
    }

    /// A second run of the same command, without its output.
    pub fn again(&self) -> Self {
        Self {
            is_again: true,
            buffer_kib: self.buffer_kib,
            time: RunTime {
                duration: self.time.duration,
                end: OnceCell::new(),
            },
            ..Self::new(self.tracefs.clone(), true, None, self.whom.clone())
        }
    }

    /// Where the output goes. A user can change the size of a terminal at any time.
    pub fn screen(&self) -> Screen {
        let size = || sys::terminal_size().unwrap_or(DEFAULT_SIZE);
        Screen {
            columns: self.is_terminal.then(|| size().0),
            has_color: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            has_blocks: has_utf8(),
        }
    }

    /// Prints an answer, at once. A text has the names of functions in Rust.
    pub fn print(&self, text: &str) -> Result {
        match self.is_json {
            true => self.print_as_is(text),
            false => self.print_as_is(&rust_names::shown(text)),
        }
    }

    /// Prints text that has the symbols of functions in Rust.
    pub fn print_as_is(&self, text: &str) -> Result {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()?;
        Ok(())
    }

    /// A line of JSON.
    pub fn json(&self, value: &impl Serialize) -> Result<String> {
        Ok(serde_json::to_string(value).map_err(io::Error::from)? + "\n")
    }

    /// Prints a line of JSON.
    pub fn print_json(&self, value: &impl Serialize) -> Result {
        self.print(&self.json(value)?)
    }

    /// Makes the instance of the run. It selects the processes of the run if their children count, too.
    pub fn start(&self) -> Result<Instance<'_>> {
        self.tracefs.show("trap : INT");
        let instance = Instance::create(&self.tracefs)?;
        if let Some(size) = self.buffer_kib {
            self.tracefs
                .write(&instance.file("buffer_size_kb"), &size.to_string())?;
        }
        let has_command = !self.whom.command.is_empty();
        if !has_command && !self.whom.with_children {
            return Ok(instance);
        }
        let file = instance.file("set_event_pid");
        let failed = |error| Failure::file(&file, &error);
        let is_selected = !self.whom.is_known_by_mark();
        if is_selected {
            self.tracefs
                .write(&instance.file("options/event-fork"), "1")?;
        }
        if has_command {
            Workload::show(&self.tracefs, &self.whom.command, self.whom.mark);
            let mut pid = 0;
            if !self.tracefs.is_dry() {
                let workload = Workload::start(&self.whom.command, self.whom.mark, self.is_again)?;
                pid = workload.pid();
                self.workload.get_or_init(|| workload);
            }
            if is_selected {
                self.tracefs
                    .write_as(&file, &pid.to_string(), "$pid")
                    .map_err(failed)?;
            }
            return Ok(instance);
        }
        self.select_processes(&file).map_err(failed)?;
        Ok(instance)
    }

    /// Writes the processes of the run and all their descendants to `file`. The kernel adds the children of those that
    /// it knows. So the list is complete when nobody is new.
    fn select_processes(&self, file: &str) -> io::Result<()> {
        let mut known: Vec<u32> = Vec::new();
        loop {
            let mut new = whom::threads_of(&self.whom.processes);
            new.retain(|pid| !known.contains(pid));
            if new.is_empty() {
                return Ok(());
            }
            for pids in new.chunks(PIDS_OF_A_WRITE) {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                self.tracefs.append(file, &pids.join(" "))?;
            }
            known.append(&mut new);
            if self.tracefs.is_dry() {
                return Ok(());
            }
        }
    }

    /// Begins the run: the probes are armed. Says so, or lets the command of the run begin, which
    /// has the standard error for itself.
    pub fn begin(&self, instance: &Instance<'_>) -> Result {
        if !self.whom.command.is_empty() {
            self.tracefs.show("kill -CONT $pid");
            if let Some(workload) = self.workload.get() {
                workload.resume();
            }
            return Ok(());
        }
        if self.tracefs.is_dry() {
            return Ok(());
        }
        let end = match self.time.duration {
            Some(duration) => format!(
                " for {}",
                duration::show(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
            ),
            None => "; ctrl-C ends".into(),
        };
        let what = self.probed(instance)?;
        note(format!("rkprobe: tracing {what}{end}"));
        Ok(())
    }

    /// The functions and the memory that the run traces, as a text.
    fn probed(&self, instance: &Instance<'_>) -> Result<String> {
        let probes = profile::read(&self.tracefs)?;
        let group = format!("{}/", instance.group());
        let own = probes
            .iter()
            .filter(|probe| probe.event.starts_with(&group) && !probe.command.starts_with('o'))
            .filter(|probe| probe.event[group.len()..] != *programs::EVENT);
        let own: Vec<_> = own.collect();
        let has = |kind| own.iter().any(|probe| probe.command.starts_with(kind));
        let noun = match (has('t'), has('e')) {
            (true, _) => "place",
            (_, true) => "trace event",
            _ => "function",
        };
        let mut places: Vec<String> = own
            .iter()
            .filter_map(|probe| {
                let place = probe.command.split(' ').nth(1)?;
                Some(match probe.command.starts_with('e') {
                    true => place.replacen('.', ":", 1),
                    false => place.split('%').next().unwrap_or(place).into(),
                })
            })
            .collect();
        places.dedup();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        if let (false, [place]) = (has('e'), &places[..]) {
            if let Some(module) = self.functions.awaited(place) {
                return Ok(format!("{place} when {module} is loaded"));
            }
        }
        named(&self.functions, &places, noun)
    }

    /// Shows the shell commands that wait until the run is over. `reader` reads the records meanwhile.
    pub fn show_waiting(&self, reader: Option<&str>) {
        let time = self.time.duration.map(|time| time.as_secs_f64());
        let command = match (self.whom.command.is_empty(), time, reader) {
            (false, None, _) => "wait $pid".into(),
            (false, Some(time), _) => {
                format!("(sleep {time}; kill $pid) 2> /dev/null & wait $pid; kill $! 2> /dev/null")
            }
            (true, Some(time), None) => format!("sleep {time}"),
            (true, None, None) => "sleep infinity".into(),
            (true, Some(time), Some(reader)) => format!("timeout {time} {reader}"),
            (true, None, Some(reader)) => reader.into(),
        };
        self.tracefs.show(&command);
    }

    /// The exit status of the run: that of its command, if the command has ended the run.
    pub fn status(&self) -> u8 {
        self.workload
            .get()
            .map_or(0, |workload| match self.is_ended.get() {
                true => 0,
                false => workload.report(),
            })
    }

    /// Enables an event of the instance that makes records, without those of the tool's own calls. All events of the
    /// instance exist.
    pub fn enable(&self, instance: &Instance<'_>, event: &str, options: &Options) -> Result {
        let file = instance.event_file(event, "filter");
        self.tracefs.write(&file, &stream::not_own())?;
        options.prepare_event(&self.tracefs, instance, event)?;
        self.read_symbols(instance, options);
        self.switch_on(instance, event)
    }

    /// Enables all events of the instance, which make records, as [`Self::enable`] does.
    pub fn enable_all(&self, instance: &Instance<'_>, options: &Options) -> Result {
        let directory = instance.file(&format!("events/{}", instance.group()));
        self.tracefs
            .write(&format!("{directory}/filter"), &stream::not_own())?;
        self.read_symbols(instance, options);
        self.tracefs.write(&format!("{directory}/enable"), "1")
    }

    /// Reads the symbols if the answer has some, before there are records, because it takes a while.
    fn read_symbols(&self, instance: &Instance<'_>, options: &Options) {
        if !self.tracefs.is_dry() && needs_symbols(&self.tracefs, instance, options) {
            self.symbols.load(self.functions.listing());
        }
    }

    /// Enables an event of the instance that counts. Its command says which calls count.
    pub fn switch_on(&self, instance: &Instance<'_>, event: &str) -> Result {
        self.tracefs
            .write(&instance.event_file(event, "enable"), "1")
    }

    /// Disables an event of the instance. Its records and counts stay.
    pub fn switch_off(&self, instance: &Instance<'_>, event: &str) -> Result {
        self.tracefs
            .write(&instance.event_file(event, "enable"), "0")
    }

    /// Begins the run. Shows the shell command that reads the records of the instance, or the first `count` of them.
    pub fn begin_reading(&self, instance: &Instance<'_>, count: Option<u64>) -> Result {
        self.begin(instance)?;
        let program = count.map_or("cat".into(), |count| format!("head -n {count}"));
        let trace = self.tracefs.path(&instance.file("trace"));
        let trace = trace.display();
        self.show_waiting(Some(&format!("{program} {trace}_pipe")));
        if !self.whom.command.is_empty() {
            // A pipe would not end with the command.
            self.tracefs
                .show(&format!("grep -v '^#' {trace} | {program}"));
        }
        Ok(())
    }

    /// Prints the text of `show` for each record of the events of the instance, with the index of its event. This ends
    /// when the time is over, or after as many records as the options say. Then prints the line `none` if there was no
    /// record, but not in JSON, and what is missing. `texts` gives calls the strings of their returns.
    pub fn print_records(
        &self,
        instance: &Instance<'_>,
        events: &[String],
        texts: &mut LateTexts,
        options: &Options,
        none: &str,
        mut show: impl FnMut(usize, &Record<'_>) -> Result<String>,
    ) -> Result {
        let count = options.count;
        self.begin_reading(instance, count)?;
        let mut printed = 0;
        let mut text = String::new();
        let mut take = |entries: Vec<Entry>, is_last: bool| {
            for entry in entries {
                let event = events.iter().position(|event| **event == *entry.event);
                let is_wanted = count.is_none_or(|count| printed < count);
                if let (Some(event), true) = (event, is_wanted) {
                    text += &show(event, &entry.record())?;
                    printed += 1;
                }
            }
            if is_last || text.len() >= MAX_UNPRINTED {
                self.print(&text)?;
                text.clear();
            }
            Ok(count.is_none_or(|count| printed < count))
        };
        self.read_records(instance, options, |entry| {
            let is_last = entry.is_none();
            take(texts.take(entry), is_last)
        })?;
        take(texts.end(), true)?;
        let none = match printed {
            0 => format!("{none}\n"),
            _ => String::new(),
        };
        self.print_missing(instance, &none)
    }

    /// Ends a stream of records: prints the text `end`, but not in JSON, and what is missing from the stream.
    pub fn print_missing(&self, instance: &Instance<'_>, end: &str) -> Result {
        if self.tracefs.is_dry() {
            return Ok(());
        }
        let missing = Missing::read(&self.tracefs, instance)?;
        match self.is_json {
            true => self.print_json(&BTreeMap::from([("missing", missing)])),
            false => self.print(&missing.around(end)),
        }
    }

    /// A reader of the records of the instance.
    pub fn reader(&self, instance: &Instance<'_>, options: &Options) -> Result<Reader> {
        Reader::open(&self.tracefs, instance, Rc::clone(&self.symbols), options)
    }

    /// Reads records of the instance, and calls `show` with each, until the time is over or `show` returns false. Calls it
    /// without a record if no other record is there yet. Stops tracing when the time is over, and reads what is left.
    /// Reports where records were lost.
    pub fn read_records(
        &self,
        instance: &Instance<'_>,
        options: &Options,
        mut show: impl FnMut(Option<Entry>) -> Result<bool>,
    ) -> Result {
        if self.tracefs.is_dry() {
            return Ok(());
        }
        let mut reader = self.reader(instance, options)?;
        loop {
            let goes_on = self.wait(READ_INTERVAL, &reader.buffers())?;
            if !goes_on {
                self.stop_tracing(instance)?;
            }
            let wants_more = reader.read(|| goes_on && self.is_over(), &mut show)?;
            if !wants_more {
                self.end();
                return Ok(());
            }
            if !goes_on {
                for entry in reader.end() {
                    show(Some(entry))?;
                }
                return Ok(());
            }
        }
    }

    pub fn stop_tracing(&self, instance: &Instance<'_>) -> Result {
        self.tracefs.write(&instance.file("tracing_on"), "0")
    }

    /// Whether the run ends now: by a signal, by its time, or because those that it traces have ended.
    pub fn is_over(&self) -> bool {
        // Ctrl-C ends both the command and the run.
        let is_interrupted = sys::is_interrupted();
        if is_interrupted || self.time.end().is_some_and(|end| Instant::now() >= end) {
            if is_interrupted && self.is_terminal && !self.is_ended.get() {
                // The terminal shows ^C, which would shift the first line of the answer.
                let _ = self.print_as_is("\n");
            }
            self.end();
            return true;
        }
        let workload = self.workload.get();
        if workload.is_some_and(|workload| workload.status().is_some()) {
            return true;
        }
        let processes = &self.whom.processes;
        let is_over = !processes.is_empty() && processes.iter().all(|pid| whom::has_ended(*pid));
        if is_over && !self.is_ended.replace(true) {
            let list: Vec<String> = processes.iter().map(u32::to_string).collect();
            note(match &list[..] {
                [one] => format!("rkprobe: process {one} has ended"),
                _ => format!("rkprobe: the processes {} have ended", list.join(", ")),
            });
        }
        is_over
    }

    /// Keeps the calls of an event that have not returned at the end of the run, before the run ends its command.
    pub fn keep_calls(&self, instance: &Instance<'_>, event: &str) {
        let event = format!("{}/{event}", instance.group());
        self.keeps_calls
            .get_or_init(|| (event, instance.file("set_event_pid")));
    }

    /// The calls that had not returned at the end of the run.
    pub fn in_flight(&self) -> &[InFlight] {
        self.in_flight.get_or_init(|| {
            let Some((event, selected)) = self.keeps_calls.get() else {
                return Vec::new();
            };
            let mut calls = inflight::parse(&self.tracefs.read(CALLS).unwrap_or_default(), event);
            // A task that ends stays in its last call for a while.
            calls.retain(|call| !whom::has_ended(call.pid));
            if !self.whom.command.is_empty() || self.whom.with_children {
                let list = self.tracefs.read(selected).unwrap_or_default();
                let selected: Vec<u32> = list.lines().filter_map(|pid| pid.parse().ok()).collect();
                calls.retain(|call| selected.contains(&call.pid));
            }
            calls
        })
    }

    /// Ends the command of the run, because the run is over.
    pub fn end(&self) {
        self.is_ended.set(true);
        self.in_flight();
        if let Some(workload) = self.workload.get() {
            workload.end();
        }
    }

    /// Waits, until a buffer of records is half full at the latest. Returns false at the end of the run.
    pub fn wait(&self, time: Duration, buffers: &[BorrowedFd<'_>]) -> Result<bool> {
        if self.tracefs.is_dry() {
            return Ok(false);
        }
        let until = Instant::now() + time;
        let until = self.time.end().map_or(until, |end| end.min(until));
        loop {
            if self.is_over() {
                return Ok(false);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            let step = match self.workload.get() {
                Some(_) => COMMAND_INTERVAL,
                None => READ_INTERVAL,
            };
            // Rounded up, or the last millisecond would be a busy loop.
            match sys::wait((left + Duration::from_millis(1)).min(step), buffers) {
                Woken::Over => {}
                Woken::Ready => return Ok(true),
                Woken::ClosedPipe => return Err(Failure::ClosedPipe),
            }
        }
    }
}

/// The names of the places of probes if there are few, or else their number. A place can be a list
/// for `f`.
fn named(functions: &Functions, places: &[&str], noun: &str) -> Result<String> {
    const SHOWN: usize = 3;

    let has_patterns = |place: &str| is_list(&place.replace(',', ""));
    let names: Vec<&str> = match places.iter().any(|place| has_patterns(place)) {
        true => Vec::new(),
        false => places.iter().flat_map(|place| place.split(',')).collect(),
    };
    if (1..=SHOWN).contains(&names.len()) {
        return Ok(names.join(", "));
    }
    let count = |place: &&str| -> Result<usize> {
        match is_list(place) {
            true => {
                let is_chosen = functions.selected(place)?;
                Ok(functions.traceable().filter(is_chosen).count())
            }
            false => Ok(1),
        }
    };
    let total = places.iter().map(count).sum::<Result<usize>>()?;
    Ok(counted(total, noun))
}

/// A number of functions or places, with commas between the thousands.
fn counted(count: usize, noun: &str) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{text} {noun}{}", if count == 1 { "" } else { "s" })
}

fn has_utf8() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
        .is_some_and(|value| value.to_ascii_lowercase().replace('-', "").contains("utf8"))
}

#[cfg(test)]
mod tests {
    use crate::functions;

    use super::*;

    #[test]
    fn the_time_of_a_run_starts_when_somebody_waits_for_its_end() {
        let time = RunTime::new(Some(1_000_000_000));
        std::thread::sleep(Duration::from_millis(10));
        let asked = Instant::now();
        let end = time.end().unwrap();
        assert!(end >= asked + Duration::from_secs(1));
        assert_eq!(time.end(), Some(end));
        assert_eq!(RunTime::new(None).end(), None);
    }

    #[test]
    fn the_functions_of_lists_are_counted() {
        let functions = functions::tests::functions();
        for (places, expected) in [
            (&["vfs_read"][..], "vfs_read"),
            (&["vfs_read", "vfs_write"], "vfs_read, vfs_write"),
            (&["mod_write,name_show"], "mod_write, name_show"),
            (&["a", "b", "c", "d"], "4 functions"),
            (&["vfs_*"], "2 functions"),
            (&["vfs_*,mod_[w]*"], "3 functions"),
            (&["vfs_*,!vfs_r*"], "1 function"),
            (&["!*_*,*"], "1 function"),
            (&["vfs_read", "name_*"], "4 functions"),
        ] {
            assert_eq!(named(&functions, places, "function").unwrap(), expected);
        }
    }

    #[test]
    fn large_numbers_have_commas() {
        assert_eq!(counted(1, "function"), "1 function");
        assert_eq!(counted(999, "function"), "999 functions");
        assert_eq!(counted(1423, "function"), "1,423 functions");
        assert_eq!(counted(1_000_000, "function"), "1,000,000 functions");
    }
}
