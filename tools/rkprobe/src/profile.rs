// SPDX-License-Identifier: GPL-2.0

//! The probes of all events, with their hits and their misses.

use crate::{
    failure::{
        Failure,
        Result, //
    },
    tracefs::{
        Tracefs,
        EVENTS, //
    }, //
};

/// The file with the hits and the misses of each probe.
pub const PROFILE: &str = "rkprobe_profile";

/// How often the files are read again because others change the events meanwhile.
const TRIES: u32 = 10;

/// A probe.
#[derive(Debug, PartialEq)]
pub struct Probe {
    /// `GROUP/EVENT`.
    pub event: String,
    /// The line in the listing.
    pub command: String,
    /// The number of hits, also of those that a filter then drops.
    pub hits: u64,
    /// The number of hits that the condition of the command left out. `None` without a condition.
    pub left_out: Option<u64>,
    /// The number of hits that the probe missed.
    pub missed: u64,
    /// What must exist before the probe can hit, such as `module NAME`.
    pub awaited: Option<String>,
}

impl Probe {
    /// Why the probe misses hits, by the first letter of its command.
    pub fn reason(&self) -> &'static str {
        match self.command.as_bytes().first() {
            Some(b'r') => {
                "more calls were in flight than MAXACTIVE, or a hit was inside another probe"
            }
            Some(b'f') => {
                "a task had too many nested calls in flight, or the function too many probes"
            }
            Some(b'o') => "too many objects were live, or a hit was inside another probe",
            Some(b'c') => {
                "a task ended in a call, more calls were in flight than calls=N, or they were in an interrupt"
            }
            _ if self.command.contains("%retinsn") => "the function returned inside another probe",
            _ => "a hit was inside another probe",
        }
    }

    /// What helps against misses.
    pub fn advice(&self) -> Option<&'static str> {
        match self.command.as_bytes().first()? {
            b'r' => Some("use a larger rN"),
            b'o' => Some("use a larger objects=N"),
            _ => None,
        }
    }
}

/// All probes, in the order of the listing.
pub fn read(tracefs: &Tracefs) -> Result<Vec<Probe>> {
    let mut listing = tracefs.read(EVENTS)?;
    let mut probes = None;
    for _ in 0..TRIES {
        let profile = tracefs.read(PROFILE)?;
        let after = tracefs.read(EVENTS)?;
        // The profile has no groups, so only its lines say which probes it is about.
        if listing == after {
            probes = parse(&listing, &profile);
        }
        if probes.is_some() {
            break;
        }
        listing = after;
    }
    probes.ok_or_else(|| Failure::new("the events change all the time: try again"))
}

/// `listing` has a line for each probe, and `profile` has the same lines. `None` if they differ.
fn parse(listing: &str, profile: &str) -> Option<Vec<Probe>> {
    if listing.lines().count() != profile.lines().count() {
        return None;
    }
    let probe = |(command, counts): (&str, &str)| {
        let event = command.split_once(':')?.1.split_whitespace().next()?;
        let mut words = counts.split_whitespace();
        let name = words.next()?;
        let (hits, missed) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let mut rest = words.collect::<Vec<_>>().join(" ");
        let mut left_out = None;
        if let Some(text) = rest.strip_prefix("left out: ") {
            let (number, behind) = text.split_once(' ').unwrap_or((text, ""));
            left_out = Some(number.parse().ok()?);
            rest = behind.into();
        }
        (event.rsplit('/').next() == Some(name)).then(|| Probe {
            event: event.into(),
            command: command.into(),
            hits,
            left_out,
            missed,
            awaited: rest.strip_prefix("waiting for ").map(String::from),
        })
    };
    listing.lines().zip(profile.lines()).map(probe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_both_files_is_a_probe() {
        let listing =
            "p:kprobes/a x:y if $comm == z\nr10:rkp/b vfs_read ret=$retval\np:k/c f if %ax == 1\n";
        let profile =
            "  a    5   0  left out: 8  waiting for module x\n  b   7   2\n  c 1 2  left out: 3\n";
        let probes = parse(listing, profile).unwrap();
        assert_eq!((probes[0].hits, probes[0].missed), (5, 0));
        assert_eq!((probes[0].left_out, probes[1].left_out), (Some(8), None));
        assert_eq!((probes[2].left_out, &probes[2].awaited), (Some(3), &None));
        assert_eq!(probes[0].awaited.as_deref(), Some("module x"));
        assert_eq!(probes[1].event, "rkp/b");
        assert_eq!((probes[1].missed, &probes[1].awaited), (2, &None));
        assert!(probes[1].reason().contains("MAXACTIVE"));
    }

    #[test]
    fn files_with_different_probes_are_read_again() {
        for (listing, profile) in [
            ("p:k/a f\n", ""),
            ("p:k/a f\n", "  b 1 0\n"),
            ("p:k/a f\np:k/b f\n", "  b 1 0\n"),
        ] {
            assert_eq!(parse(listing, profile), None);
        }
        assert_eq!(parse("", ""), Some(Vec::new()));
    }
}
