// SPDX-License-Identifier: GPL-2.0

//! What an answer lacks.
//!
//! Each command gets it from [`Missing::read`], so that all commands count the same things and say them in the same
//! words.

use std::fs;

use serde::{
    Serialize,
    Serializer, //
};

use crate::{
    failure::Result,
    hist::Hist,
    instance::Instance,
    profile,
    tracefs::Tracefs, //
};

/// A switch of the kernel that keeps probes from hitting while it is 0.
struct Switch {
    name: &'static str,
    file: &'static str,
    /// Whether the probe of a command depends on the switch.
    affects: fn(&str) -> bool,
}

const SWITCHES: [Switch; 2] = [
    Switch {
        name: "kernel.ftrace_enabled",
        file: "/proc/sys/kernel/ftrace_enabled",
        affects: uses_ftrace,
    },
    Switch {
        name: "kprobes/enabled",
        file: "/sys/kernel/debug/kprobes/enabled",
        affects: |command| command.starts_with(['p', 'r']),
    },
];

impl Switch {
    fn is_off(&self) -> bool {
        fs::read_to_string(self.file).is_ok_and(|text| text.trim() == "0")
    }
}

/// Whether ftrace delivers the hits of a probe. On x86-64, a kprobe at the start of a function is one by ftrace. On
/// arm64, ftrace delivers the hits of watchpoints.
fn uses_ftrace(command: &str) -> bool {
    match command.as_bytes().first() {
        Some(b'f' | b'o' | b'c') => true,
        Some(b'p' | b'r') => cfg!(target_arch = "x86_64") && !command.contains("%retinsn"),
        Some(b'w') => cfg!(target_arch = "aarch64"),
        _ => false,
    }
}

/// The names of the switches that are off.
pub fn switches_off() -> Vec<&'static str> {
    let off = SWITCHES.iter().filter(|switch| switch.is_off());
    off.map(|switch| switch.name).collect()
}

/// Hits that the probes of an event missed.
#[derive(Clone, Debug, PartialEq)]
struct Missed {
    /// `GROUP/EVENT`.
    event: String,
    /// Why they missed them.
    reason: &'static str,
    hits: u64,
}

/// The numbers of [`Missing`] in JSON.
#[derive(Serialize)]
struct Summary<'a> {
    missed: u64,
    dropped: u64,
    lost: u64,
    unprobed: u64,
    waiting: &'a [String],
    off: &'a [&'static str],
}

/// What an answer lacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Missing {
    /// Hits of the probes, also of those that the answer leaves out on purpose.
    hits: u64,
    /// Hits that the probes missed, by event and reason.
    missed: Vec<Missed>,
    /// Hits that the answer has, of probes that count in a table.
    counted: u64,
    /// Hits for which the table had no row left.
    dropped: u64,
    /// Records that were read.
    read: u64,
    /// Records for which the trace buffer had no room.
    lost: u64,
    /// Functions that cannot be probed.
    unprobed: u64,
    /// What must exist before a probe can hit.
    awaited: Vec<String>,
    /// The switches that keep a probe from hitting.
    switches: Vec<&'static str>,
}

impl Missing {
    /// Reads what the run of an instance misses. While the run's events exist, this is complete.
    pub fn read(tracefs: &Tracefs, instance: &Instance<'_>) -> Result<Self> {
        let mut missing = Self::default();
        let group = instance.group();
        let is_own = |probe: &&profile::Probe| {
            probe
                .event
                .split_once('/')
                .is_some_and(|(of, _)| of == group)
        };
        for probe in profile::read(tracefs)?.iter().filter(is_own) {
            missing.add_probe(probe);
        }
        for cpu in tracefs.names(&instance.file("per_cpu")) {
            let stats = tracefs.read(&instance.file(&format!("per_cpu/{cpu}/stats")))?;
            missing.add_buffer(&stats);
        }
        Ok(missing)
    }

    /// What is missing since it was `before`.
    pub fn since(&self, before: &Self) -> Self {
        let mut new = self.clone();
        for (now, before) in [
            (&mut new.hits, before.hits),
            (&mut new.counted, before.counted),
            (&mut new.dropped, before.dropped),
            (&mut new.read, before.read),
            (&mut new.lost, before.lost),
        ] {
            *now = now.saturating_sub(before);
        }
        for missed in &mut new.missed {
            let is_same =
                |other: &&Missed| (&other.event, other.reason) == (&missed.event, missed.reason);
            let before = before.missed.iter().find(is_same);
            missed.hits = missed
                .hits
                .saturating_sub(before.map_or(0, |before| before.hits));
        }
        new
    }

    /// Adds the table of an event, `GROUP/EVENT`: the hits that it counts, and those without a row. Its probes miss
    /// the latter, too.
    pub fn add_table(&mut self, event: &str, hist: &Hist) {
        self.counted += hist.counted();
        self.dropped += hist.dropped;
        let mut dropped = hist.dropped;
        for missed in self
            .missed
            .iter_mut()
            .filter(|missed| missed.event == event)
        {
            let both = dropped.min(missed.hits);
            missed.hits -= both;
            dropped -= both;
        }
    }

    /// Adds records for which a table of the tool had no row left.
    pub fn add_dropped(&mut self, records: u64) {
        self.dropped += records;
    }

    /// Adds functions that cannot be probed.
    pub fn with_unprobed(mut self, functions: u64) -> Self {
        self.unprobed += functions;
        self
    }

    fn add_probe(&mut self, probe: &profile::Probe) {
        self.hits += probe.hits + probe.left_out.unwrap_or(0);
        let (event, reason) = (&probe.event, probe.reason());
        let is_same = |missed: &&mut Missed| missed.event == *event && missed.reason == reason;
        match self.missed.iter_mut().find(is_same) {
            Some(missed) => missed.hits += probe.missed,
            None => self.missed.push(Missed {
                event: event.clone(),
                reason,
                hits: probe.missed,
            }),
        }
        for switch in SWITCHES {
            if (switch.affects)(&probe.command)
                && switch.is_off()
                && !self.switches.contains(&switch.name)
            {
                self.switches.push(switch.name);
            }
        }
        if let Some(awaited) = &probe.awaited {
            if !self.awaited.contains(awaited) {
                self.awaited.push(awaited.clone());
            }
        }
    }

    /// Adds the records of a CPU, from its file `stats`.
    fn add_buffer(&mut self, stats: &str) {
        let sum = |names: &[&str]| -> u64 {
            stats
                .lines()
                .filter_map(|line| line.split_once(": "))
                .filter(|(name, _)| names.contains(name))
                .filter_map(|(_, number)| number.trim().parse::<u64>().ok())
                .sum()
        };
        self.read += sum(&["read events"]);
        self.lost += sum(&["overrun", "commit overrun", "dropped events"]);
    }

    /// The number of hits that the probes missed.
    fn missed(&self) -> u64 {
        self.missed.iter().map(|missed| missed.hits).sum()
    }

    /// Why the probes missed hits, each reason once.
    fn reasons(&self) -> Vec<&'static str> {
        let mut reasons = Vec::new();
        for missed in self.missed.iter().filter(|missed| missed.hits > 0) {
            if !reasons.contains(&missed.reason) {
                reasons.push(missed.reason);
            }
        }
        reasons
    }

    /// Whether more than one hit of a hundred is missing, or all are.
    fn is_large(&self) -> bool {
        let is_large = |missing: u64, present: u64| missing > (missing + present) / 100;
        is_large(self.missed(), self.hits)
            || is_large(self.dropped, self.counted)
            || is_large(self.lost, self.read)
            || !self.switches.is_empty()
    }

    /// A line for each reason. Empty if nothing is missing.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        let mut line = |number: u64, present: u64, what: &str, reason: &str| {
            if number > 0 {
                let part = number as f64 * 100.0 / (number + present) as f64;
                let share = match present {
                    0 => String::new(),
                    _ if part < 0.1 => " (less than 0.1 %)".into(),
                    _ => format!(" ({part:.1} %)"),
                };
                let ending = if number == 1 { "" } else { "s" };
                text += &format!("missing: {number} {what}{ending}{share}: {reason}\n");
            }
        };
        let reasons = self.reasons().join("; or ");
        line(self.missed(), self.hits, "hit", &reasons);
        line(
            self.dropped,
            self.counted,
            "hit",
            "the table of counts was full",
        );
        line(
            self.lost,
            self.read,
            "record",
            "the trace buffer was full: see --buffer",
        );
        line(
            self.unprobed,
            0,
            "function",
            "the kernel refuses a probe there",
        );
        for awaited in &self.awaited {
            text += &format!("missing: all hits until {awaited} is loaded\n");
        }
        for switch in &self.switches {
            text += &format!("missing: all hits while {switch} is 0\n");
        }
        text
    }

    /// The answer `text` with these lines: above it if much is missing, otherwise below.
    pub fn around(&self, text: &str) -> String {
        match self.is_large() {
            true => self.lines() + text,
            false => text.to_string() + &self.lines(),
        }
    }

    /// The end of a title. Empty if nothing is missing.
    pub fn title(&self) -> String {
        self.lines()
            .lines()
            .map(|line| format!("; {line}"))
            .collect()
    }
}

impl Serialize for Missing {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let summary = Summary {
            missed: self.missed(),
            dropped: self.dropped,
            lost: self.lost,
            unprobed: self.unprobed,
            waiting: &self.awaited,
            off: &self.switches,
        };
        summary.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hist::Row;

    fn probe(command: &str, hits: u64, missed: u64) -> profile::Probe {
        profile::Probe {
            event: "g/e".into(),
            command: command.into(),
            hits,
            left_out: None,
            missed,
            awaited: None,
        }
    }

    #[test]
    fn an_answer_says_first_that_it_lacks_more_than_one_hit_of_a_hundred() {
        for (hits, missed, is_first) in [
            (99, 1, false),
            (98, 2, true),
            (0, 1, true),
            (10_000, 100, false),
        ] {
            let mut missing = Missing::default();
            missing.add_probe(&probe("f:g/e x%return", hits, missed));
            let text = missing.around("answer\n");
            assert_eq!(text.starts_with("missing: "), is_first, "{hits} {missed}");
            assert_eq!(text.lines().count(), 2);
        }
        assert_eq!(Missing::default().around("answer\n"), "answer\n");
    }

    fn json(missing: &Missing) -> String {
        serde_json::to_string(missing).unwrap()
    }

    /// A table with 10 hits, and 5 without a row.
    fn full() -> Hist {
        Hist {
            rows: vec![Row {
                min: None,
                max: None,
                keys: Vec::new(),
                hits: 10,
                sum: 0,
            }],
            dropped: 5,
        }
    }

    #[test]
    fn a_hit_without_a_row_is_missing_once() {
        let mut missing = Missing::default();
        missing.add_probe(&probe("f:g/e x", 10, 5));
        missing.add_table("g/e", &full());
        assert_eq!(
            missing.lines(),
            "missing: 5 hits (33.3 %): the table of counts was full\n"
        );
        assert!(json(&missing).starts_with("{\"missed\":0,\"dropped\":5,"));
        let before = missing.clone();
        missing.add_probe(&probe("f:g/e y", 0, 1));
        assert_eq!(
            missing.since(&before).lines(),
            "missing: 1 hit: a task had too many nested calls in flight, or the function too many probes\n"
        );
        assert_eq!(missing.since(&missing).lines(), "");
        missing.add_table("g/other", &full());
        assert!(json(&missing).starts_with("{\"missed\":1,\"dropped\":10,"));
    }

    #[test]
    fn each_reason_has_a_line() {
        let mut missing = Missing::default().with_unprobed(1);
        missing.add_probe(&probe("r10:g/e x", 6, 40));
        missing.add_probe(&probe("r10:g/e y", 4, 55));
        missing.add_probe(&probe("p:g/e x", 0, 0));
        missing.add_table("g/e", &full());
        missing.add_buffer(
            "entries: 3\noverrun: 4\ncommit overrun: 2\nbytes: 7\nnow ts:     1.0\ndropped events: 1\nread events: 5\n",
        );
        assert_eq!(
            missing.lines(),
            "missing: 90 hits (90.0 %): more calls were in flight than MAXACTIVE, or a hit was inside another probe\n\
             missing: 5 hits (33.3 %): the table of counts was full\n\
             missing: 7 records (58.3 %): the trace buffer was full: see --buffer\n\
             missing: 1 function: the kernel refuses a probe there\n"
        );
        assert_eq!(
            json(&missing),
            "{\"missed\":90,\"dropped\":5,\"lost\":7,\"unprobed\":1,\"waiting\":[],\"off\":[]}"
        );
        assert!(missing.title().starts_with("; missing: 90 hits"));
    }

    #[test]
    fn a_probe_that_cannot_hit_is_missing_as_a_whole() {
        let mut missing = Missing::default();
        missing.add_probe(&profile::Probe {
            awaited: Some("module x".into()),
            ..probe("r10:g/e x:y", 0, 0)
        });
        assert_eq!(
            missing.lines(),
            "missing: all hits until module x is loaded\n"
        );
        assert!(json(&missing).contains("\"waiting\":[\"module x\"]"));
        assert!(uses_ftrace("f:a/b c"));
        assert!(!uses_ftrace("p:a/b c%retinsn"));
        assert!(!uses_ftrace("t:a/b c"));
    }
}
