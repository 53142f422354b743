// SPDX-License-Identifier: GPL-2.0

//! `rkprobe events`: which events exist, where are they enabled, and what do they miss?

use std::collections::BTreeMap;

use crate::{
    context::Context,
    failure::Result,
    json::{
        self,
        Object, //
    },
    tracefs::{
        Tracefs,
        EVENTS, //
    }, //
};

/// An event with its probes.
#[derive(Default)]
struct Event {
    commands: Vec<String>,
    hits: u64,
    missed: u64,
}

/// The events by `GROUP/EVENT`. `listing` has a line for each probe, and `profile` has the same lines.
fn events(listing: &str, profile: &str) -> BTreeMap<String, Event> {
    let mut events: BTreeMap<String, Event> = BTreeMap::new();
    let mut counts = profile.lines();
    for line in listing.lines() {
        let count = counts.next().unwrap_or("");
        let Some(name) = line
            .split_once(':')
            .and_then(|(_, rest)| rest.split_whitespace().next())
        else {
            continue;
        };
        let mut numbers = count
            .split_whitespace()
            .skip(1)
            .map(|word| word.parse().unwrap_or(0));
        let event = events.entry(name.into()).or_default();
        event.commands.push(line.into());
        event.hits += numbers.next().unwrap_or(0);
        event.missed += numbers.next().unwrap_or(0);
    }
    events
}

/// The missed hits of an event, `GROUP/EVENT`.
pub fn missed(tracefs: &Tracefs, event: &str) -> Result<u64> {
    let events = events(&tracefs.read(EVENTS)?, &tracefs.read("rkprobe_profile")?);
    Ok(events.get(event).map_or(0, |event| event.missed))
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

/// Why a probe misses, by the first letter of its command.
fn reason(command: &str) -> &'static str {
    match command.as_bytes().first() {
        Some(b'r') => "more calls were in flight than MAXACTIVE, or a hit was inside another probe: use a larger rN",
        Some(b'f') => "a task had too many nested calls in flight",
        Some(b'o') => "too many objects were live, or a hit was inside another probe: use a larger objects=N",
        _ if command.contains("%retinsn") => "the function returned inside another probe",
        _ => "a hit was inside another probe",
    }
}

/// Runs the command.
pub fn run(context: &Context) -> Result {
    let tracefs = &context.tracefs;
    for file in [EVENTS, "rkprobe_profile"] {
        tracefs.show_read(file);
    }
    if tracefs.is_dry() {
        return Ok(());
    }
    let events = events(&tracefs.read(EVENTS)?, &tracefs.read("rkprobe_profile")?);
    if context.is_json {
        let events = events.iter().map(|(name, event)| {
            let enabled = places(tracefs, name)
                .iter()
                .map(|place| json::quote(place))
                .collect::<Vec<_>>();
            let commands = event
                .commands
                .iter()
                .map(|command| json::quote(command))
                .collect::<Vec<_>>();
            Object::new()
                .string("event", name)
                .raw("commands", &json::array(commands))
                .raw("enabled", &json::array(enabled))
                .number("hits", event.hits)
                .number("missed", event.missed)
                .end()
        });
        return context.print(&(json::array(events) + "\n"));
    }
    if events.is_empty() {
        return context.print("no events\n");
    }
    let mut text = String::new();
    for (name, event) in &events {
        let places = places(tracefs, name);
        let enabled = if places.is_empty() {
            "no".into()
        } else {
            places.join(", ")
        };
        text += &format!(
            "{name}: enabled: {enabled}; hits: {}; missed: {}\n",
            event.hits, event.missed
        );
        for command in &event.commands {
            text += &format!("  {command}\n");
        }
        if event.missed > 0 {
            text += &format!("  missed: {}\n", reason(&event.commands[0]));
        }
    }
    context.print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_the_probes_of_an_event() {
        let listing =
            "p:kprobes/a vfs_read\nr10:rkp/b vfs_read ret=$retval\np:kprobes/a vfs_write\n";
        let profile = "  a    5   0\n  b   7   2\n  a   1  3\n";
        let events = events(listing, profile);
        assert_eq!(
            (events["kprobes/a"].hits, events["kprobes/a"].missed),
            (6, 3)
        );
        assert_eq!((events["rkp/b"].hits, events["rkp/b"].missed), (7, 2));
        assert_eq!(events["kprobes/a"].commands.len(), 2);
        assert!(reason("r10:rkp/b vfs_read").contains("MAXACTIVE"));
    }
}
