// SPDX-License-Identifier: GPL-2.0

//! `rkprobe events`: which events exist, where are they enabled, and what do they miss?

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    context::Context,
    draw::Screen,
    failure::Result,
    live::OnTerminal,
    profile::{
        self,
        Probe,
        PROFILE, //
    },
    similar::similar,
    tracefs::{
        Tracefs,
        EVENTS, //
    },
    view::{
        Cell,
        Rows,
        View, //
    }, //
};

/// An event, in JSON.
#[derive(Serialize)]
struct Event<'a> {
    event: &'a str,
    commands: Vec<&'a str>,
    enabled: Vec<String>,
    hits: u64,
    missed: u64,
    left_out: u64,
    waiting: Vec<&'a str>,
}

impl<'a> Event<'a> {
    fn new(event: &'a str, probes: &'a [Probe], enabled: Vec<String>) -> Self {
        let sum = |number: fn(&Probe) -> u64| probes.iter().map(number).sum();
        let awaited = probes.iter().filter_map(|probe| probe.awaited.as_deref());
        Self {
            event,
            commands: probes.iter().map(|probe| &*probe.command).collect(),
            enabled,
            hits: sum(|probe| probe.hits),
            missed: sum(|probe| probe.missed),
            left_out: sum(|probe| probe.left_out.unwrap_or(0)),
            waiting: awaited.collect(),
        }
    }
}

/// The events by `GROUP/EVENT`, with their probes.
fn events(probes: Vec<Probe>) -> BTreeMap<String, Vec<Probe>> {
    let mut events: BTreeMap<String, Vec<Probe>> = BTreeMap::new();
    for probe in probes {
        events.entry(probe.event.clone()).or_default().push(probe);
    }
    events
}

/// The instances where an event is enabled or has a trigger. The top instance has the name `top`.
fn places(tracefs: &Tracefs, event: &str) -> Vec<String> {
    let is_on = |directory: &str| {
        let read = |file: &str| {
            tracefs
                .read(&format!("{directory}events/{event}/{file}"))
                .unwrap_or_default()
        };
        read("enable").starts_with('1')
            || read("trigger").lines().any(|line| !line.starts_with('#'))
    };
    let mut names = tracefs.names("instances");
    names.sort();
    let mut places: Vec<String> = names
        .into_iter()
        .filter(|name| is_on(&format!("instances/{name}/")))
        .collect();
    if is_on("") {
        places.insert(0, "top".into());
    }
    places
}

/// What a probe waits for, and tracepoints with a similar name: most likely, the name is misspelt.
fn waiting(awaited: &str, tracepoints: &[String]) -> String {
    let mut text = format!("  waiting for {awaited}");
    if let Some(name) = awaited.strip_prefix("tracepoint ") {
        let names = similar(name, tracepoints.iter().map(String::as_str), 3);
        if !names.is_empty() {
            text += &format!("; similar: {}", names.join(", "));
        }
    }
    text + "\n"
}

/// The names of the tracepoints. Most of them are those of events.
fn tracepoints(tracefs: &Tracefs) -> Vec<String> {
    let events = tracefs.read("available_events").unwrap_or_default();
    events
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.1.into()))
        .collect()
}

fn show(name: &str, probes: &[Probe], places: &[String], tracepoints: &[String]) -> String {
    let enabled = match places.is_empty() {
        true => "no".into(),
        false => places.join(", "),
    };
    let sum = |number: fn(&Probe) -> u64| -> u64 { probes.iter().map(number).sum() };
    let missed = sum(|probe| probe.missed);
    let hits = sum(|probe| probe.hits);
    let mut text = format!("{name}: enabled: {enabled}; hits: {hits}; missed: {missed}");
    if probes.iter().any(|probe| probe.left_out.is_some()) {
        let left_out = sum(|probe| probe.left_out.unwrap_or(0));
        text += &format!("; left out by the condition: {left_out}");
    }
    text.push('\n');
    for probe in probes {
        text += &format!("  {}\n", probe.command);
        if let Some(awaited) = &probe.awaited {
            text += &waiting(awaited, tracepoints);
        }
    }
    if let Some(probe) = probes.iter().find(|probe| probe.missed > 0) {
        text += &format!("  missed: {}", probe.reason());
        if let Some(advice) = probe.advice() {
            text += &format!(": {advice}");
        }
        text.push('\n');
    }
    text
}

/// The events as a table on a terminal.
struct Events<'a> {
    context: &'a Context,
    tracepoints: Vec<String>,
    events: Vec<(String, Vec<Probe>)>,
}

impl OnTerminal for Events<'_> {
    fn view(&self, screen: Screen) -> View {
        View::new(
            "events".into(),
            &["hits", "missed", "event", "enabled", "command"],
            None,
            screen,
        )
    }

    fn rows(&mut self) -> Result<Rows> {
        let tracefs = &self.context.tracefs;
        self.events = events(profile::read(tracefs)?).into_iter().collect();
        let row = |(name, probes): &(String, Vec<Probe>)| {
            let event = Event::new(name, probes, places(tracefs, name));
            let number = |number: u64| Cell {
                text: number.to_string(),
                number: Some(number),
            };
            let text = |text: String| Cell { text, number: None };
            vec![
                number(event.hits),
                number(event.missed),
                text(name.clone()),
                text(event.enabled.join(",")),
                text(event.commands.join("; ")),
            ]
        };
        Ok(Rows {
            rows: self.events.iter().map(row).collect(),
            note: String::new(),
        })
    }

    fn details(&self, row: usize) -> String {
        let places = |name| places(&self.context.tracefs, name);
        self.events
            .get(row)
            .map_or(String::new(), |(name, probes)| {
                show(name, probes, &places(name), &self.tracepoints)
            })
    }
}

/// Runs the command. If `is_table`, a terminal shows a table that changes.
pub fn run(context: &Context, is_table: bool) -> Result {
    let tracefs = &context.tracefs;
    for file in [EVENTS, PROFILE] {
        tracefs.show_read(file);
    }
    if tracefs.is_dry() {
        return Ok(());
    }
    let mut table = Events {
        context,
        tracepoints: tracepoints(tracefs),
        events: Vec::new(),
    };
    if is_table && context.show_table(&mut table)? {
        return Ok(());
    }
    let events = events(profile::read(tracefs)?);
    if context.is_json {
        let events = events
            .iter()
            .map(|(name, probes)| Event::new(name, probes, places(tracefs, name)));
        return context.print_json(&events.collect::<Vec<_>>());
    }
    if events.is_empty() {
        return context.print("no events\n");
    }
    let tracepoints = table.tracepoints;
    let text: String = events
        .iter()
        .map(|(name, probes)| show(name, probes, &places(tracefs, name), &tracepoints))
        .collect();
    context.print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(command: &str, hits: u64, missed: u64, awaited: Option<&str>) -> Probe {
        Probe {
            event: command[command.find(':').unwrap() + 1..command.find(' ').unwrap()].into(),
            command: command.into(),
            hits,
            left_out: None,
            missed,
            awaited: awaited.map(String::from),
        }
    }

    #[test]
    fn sums_the_probes_of_an_event() {
        let events = events(vec![
            probe("p:kprobes/a vfs_read", 5, 0, None),
            probe("r10:rkp/b vfs_read", 7, 2, None),
            probe("p:kprobes/a x:y", 1, 3, Some("module x")),
        ]);
        assert_eq!(
            show("kprobes/a", &events["kprobes/a"], &["top".into()], &[]),
            "kprobes/a: enabled: top; hits: 6; missed: 3\n  p:kprobes/a vfs_read\n  p:kprobes/a x:y\n  \
             waiting for module x\n  missed: a hit was inside another probe\n"
        );
        assert!(show("rkp/b", &events["rkp/b"], &[], &[])
            .ends_with("  missed: more calls were in flight than MAXACTIVE, or a hit was inside another probe: use a larger rN\n"));
        let event = Event::new("kprobes/a", &events["kprobes/a"], Vec::new());
        assert!(serde_json::to_string(&event).unwrap().ends_with(
            "\"enabled\":[],\"hits\":6,\"missed\":3,\"left_out\":0,\"waiting\":[\"module x\"]}"
        ));
    }

    #[test]
    fn a_misspelt_tracepoint_is_probably_a_similar_one() {
        let tracepoints = ["sched_switch".into(), "sys_enter".into()];
        assert_eq!(
            waiting("tracepoint sched_swich", &tracepoints),
            "  waiting for tracepoint sched_swich; similar: sched_switch\n"
        );
        assert_eq!(
            waiting("module x", &tracepoints),
            "  waiting for module x\n"
        );
    }
}
