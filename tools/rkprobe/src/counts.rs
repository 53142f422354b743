// SPDX-License-Identifier: GPL-2.0

//! Events that count at the hit, and their tables.

use std::process;

use crate::{
    failure::{
        Failure,
        Result, //
    },
    hist::{
        self,
        Hist, //
    },
    instance::Instance,
    missing::Missing,
    tracefs::Tracefs, //
};

/// The file with the tables of all events that count.
pub const COUNTS: &str = "rkprobe_counts";

/// The line in it instead of a table.
const NO_MEMORY: &str = "# no memory to show a table";

/// How the hits of a run are counted.
pub struct Count<'a> {
    /// The keys, with their modifiers.
    pub keys: &'a [&'a str],
    /// The field whose sum, minimum and maximum are counted, if there is one.
    pub sum: Option<&'a str>,
    /// The number of rows of the table: a power of two.
    pub size: u32,
    /// The condition of a hit that counts.
    pub condition: String,
}

impl Count<'_> {
    /// The end of a command whose event counts.
    pub fn clauses(&self) -> String {
        let values = |field| format!(" sum {field} min {field} max {field}");
        let sum = self.sum.map_or(String::new(), values);
        let (keys, size, condition) = (self.keys.join(","), self.size, &self.condition);
        let by = if keys.is_empty() { " by" } else { " by " };
        format!("{by}{keys}{sum} size={size} if {condition}")
    }
}

/// The condition that is false for the tool's own calls, and for those in interrupts of the tool. A condition has no
/// `common_flags`, which the filter of records has.
pub fn not_own() -> String {
    format!("common_pid != {}", process::id())
}

/// The table of an event of a run, and how its file shows it.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    /// The event.
    pub event: &'a str,
    /// The names of its keys.
    pub keys: &'a [&'a str],
    /// The name of the field whose sum, minimum and maximum are counted.
    pub sum: Option<&'a str>,
}

/// Reads the tables of events of a run, and what they miss.
pub fn read(
    tracefs: &Tracefs,
    instance: &Instance<'_>,
    tables: &[Table<'_>],
) -> Result<(Vec<Hist>, Missing)> {
    // A hit that finds no row is a missed hit of its probe, too. The tables are read last, so none of these hits is
    // taken for one that the probe missed for another reason.
    let mut missing = Missing::read(tracefs, instance)?;
    let text = tracefs.read(COUNTS)?;
    if text.contains(NO_MEMORY) {
        return Err(Failure::new("the kernel has no memory to show the counts"));
    }
    let hist = |table: &Table<'_>| {
        let event = format!("{}/{}", instance.group(), table.event);
        let hist = hist::parse(table_of(&text, &event), table.keys, table.sum);
        missing.add_table(&event, &hist);
        hist
    };
    Ok((tables.iter().map(hist).collect(), missing))
}

/// The text of an event's table. Empty if there is none.
///
/// The name of a task has no line break here, and is too short for the text that begins a table.
fn table_of<'t>(text: &'t str, event: &str) -> &'t str {
    const HEAD: &str = "\n# event histogram\n#\n# trigger info: ";

    let start = format!("# event: {event}{HEAD}");
    let Some((_, rest)) = text.split_once(&start) else {
        return "";
    };
    rest.split_once(HEAD).map_or(rest, |(table, _)| table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_have_their_order() {
        let count = Count {
            keys: &["$comm", "ns.log2"],
            sum: Some("ns"),
            size: 128,
            condition: "ns > 5".into(),
        };
        assert_eq!(
            count.clauses(),
            " by $comm,ns.log2 sum ns min ns max ns size=128 if ns > 5"
        );
        let count = Count {
            keys: &["func"],
            sum: None,
            size: 256,
            condition: not_own(),
        };
        assert!(count
            .clauses()
            .starts_with(" by func size=256 if common_pid != "));
    }

    #[test]
    fn finds_the_table_of_an_event() {
        let table = |event, rows| {
            format!(
                "# event: {event}\n# event histogram\n#\n# trigger info: hist:keys=$comm [active]\n#\n\n{rows}\n\
                 Totals:\n    Hits: 1\n    Entries: 1\n    Dropped: 4\n\n\n"
            )
        };
        let row = |comm, hits| format!("{{ $comm: {comm} }} hitcount: {hits}\n");
        let text = table("g/a2", row("x", 1))
            + &table("g/a", row("\n# event: g/b\n", 2) + &row("y", 3))
            + &table("h/g/a", row("z", 5))
            + &table("g/b", row("w", 6));
        let hits = |event| {
            let hist = hist::parse(table_of(&text, event), &["$comm"], None);
            (hist.rows.len(), hist.counted(), hist.dropped)
        };
        assert_eq!(hits("g/a"), (2, 5, 4));
        assert_eq!(hits("g/b"), (1, 6, 4));
        assert_eq!(hits("g/c"), (0, 0, 0));
    }
}
