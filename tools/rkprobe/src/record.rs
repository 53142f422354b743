// SPDX-License-Identifier: GPL-2.0

//! Records, as the kernel prints them.

/// A record of an event.
#[derive(Debug, PartialEq)]
pub struct Record<'a> {
    /// The name of the task.
    pub comm: &'a str,
    /// The thread ID of the task.
    pub pid: &'a str,
    /// The number of the CPU.
    pub cpu: u32,
    /// The time, in ns. The kernel prints microseconds.
    pub time: u64,
    /// The place of the probe, without parentheses.
    pub place: &'a str,
    /// The names and the values of the fields.
    pub fields: Vec<(&'a str, &'a str)>,
    /// The functions that led to the record, the innermost first.
    pub stack: Vec<&'a str>,
    /// The functions of the program that led to the record, the innermost first.
    pub user_stack: Vec<String>,
}

impl<'a> Record<'a> {
    /// Parses a line of `trace_pipe` for the event `event`.
    pub fn parse(line: &'a str, event: &str) -> Option<Self> {
        let (head, rest) = line.split_once(&format!(": {event}: ("))?;
        let (place, fields) = rest.split_once(')')?;
        let (task, cpu) = split_head(head)?;
        let (comm, pid) = task.rsplit_once('-')?;
        Some(Self {
            comm,
            pid: pid.trim(),
            cpu,
            time: parse_time(head).unwrap_or(0),
            place,
            fields: split_fields(fields),
            stack: Vec::new(),
            user_stack: Vec::new(),
        })
    }

    /// Parses a line of `trace_pipe` for one of several events. Returns the index of the event, too.
    pub fn parse_any(line: &'a str, events: &[String]) -> Option<(usize, Self)> {
        line.match_indices(": (").find_map(|(end, _)| {
            let name = line[..end].rsplit(": ").next()?;
            let event = events.iter().position(|event| event == name)?;
            Some((event, Self::parse(line, name)?))
        })
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&'a str> {
        self.fields
            .iter()
            .find(|(field, _)| *field == name)
            .map(|(_, value)| *value)
    }

    /// The string of a field, without its quotes. Empty if there is none.
    pub fn text(&self, name: &str) -> String {
        let value = self.field(name).unwrap_or("");
        let inner = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        inner.unwrap_or(value).into()
    }

    /// The number of a field. 0 if there is none.
    pub fn number(&self, name: &str) -> u64 {
        let value = self.field(name).unwrap_or("");
        match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap_or(0),
            None => value.parse().unwrap_or(0),
        }
    }

    /// The place `CALLER+0x1/0x2` of a return, from `CALLER+0x1/0x2 <- FUNCTION`.
    pub fn return_address(&self) -> Option<&'a str> {
        self.place.split_once(" <- ").map(|(caller, _)| caller)
    }

    /// The function of the probe, and its module: from the place `CALLER+0x1/0x2 <- FUNCTION` of a return, or the place
    /// of the probe.
    pub fn function(&self) -> String {
        let place = self.place.split_once(" <- ");
        symbol_of(place.map_or(self.place, |(_, function)| function))
    }

    /// The function that called, from the place `CALLER+0x1/0x2 <- FUNCTION`.
    pub fn caller(&self) -> &'a str {
        self.place.split(['+', ' ']).next().unwrap_or(self.place)
    }
}

/// The function of the place `FUNCTION+0x1/0x2 [MODULE]`.
pub fn name_of(place: &str) -> &str {
    place.split('+').next().unwrap_or(place)
}

/// The function of a place, as `FUNCTION` or `FUNCTION [MODULE]`.
pub fn symbol_of(place: &str) -> String {
    match place.split_once(' ') {
        Some((place, module)) => format!("{} {module}", name_of(place)),
        None => name_of(place).into(),
    }
}

/// The function of a return instruction. A part of the function can be elsewhere, in `FUNCTION.cold`.
pub fn function_of_exit(place: &str) -> String {
    symbol_of(&place.replacen(".cold+", "+", 1))
}

/// The parts of `FUNCTION [MODULE]`.
pub fn split_symbol(symbol: &str) -> (&str, &str) {
    let parts = symbol.split_once(" [");
    parts.map_or((symbol, ""), |(name, module)| {
        (name, module.trim_end_matches(']'))
    })
}

/// Whether a record goes on in the next line: a string can have line breaks.
pub fn is_open(line: &str) -> bool {
    let fields = line
        .split_once(": (")
        .and_then(|(_, rest)| rest.split_once(')'));
    fields.is_some_and(|(_, fields)| {
        let mut values = split_fields(fields).into_iter().map(|(_, value)| value);
        values.any(|value| value.starts_with('"') && (value.len() == 1 || !value.ends_with('"')))
    })
}

/// The CPU of a record.
pub fn cpu(line: &str) -> Option<u32> {
    let mut heads = line.match_indices(": (").map(|(end, _)| &line[..end]);
    heads.find_map(|head| Some(split_head(head)?.1))
}

/// The task and the CPU of `TASK [CPU] FLAGS SECONDS.MICROSECONDS`.
pub fn split_head(head: &str) -> Option<(&str, u32)> {
    let at = head.rfind(" [")?;
    let (cpu, _) = head[at..].trim_start_matches([' ', '[']).split_once(']')?;
    Some((head[..at].trim(), cpu.parse().ok()?))
}

/// The time at the end of `TASK [CPU] FLAGS SECONDS.MICROSECONDS`, in ns.
fn parse_time(head: &str) -> Option<u64> {
    let (seconds, us) = head.rsplit(' ').next()?.split_once('.')?;
    let us: u64 = us.parse().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(us * 1000)
}

/// Splits ` a=1 b="x y" c={1,2}`.
pub fn split_fields(text: &str) -> Vec<(&str, &str)> {
    let mut fields = Vec::new();
    let mut rest = text.trim();
    while let Some((name, after)) = rest.split_once('=') {
        let end = end_of_value(after);
        fields.push((name.trim(), &after[..end]));
        rest = after[end..].trim_start();
    }
    fields
}

/// A string ends at the quote before a blank and the next name, or at the end of the line.
fn end_of_value(text: &str) -> usize {
    let starts_name = |rest: &str| {
        let name = rest.split('=').next().unwrap_or("");
        rest.is_empty()
            || (rest.contains('=') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    let is_string = text.starts_with('"');
    for (at, _) in text.match_indices(' ') {
        let is_whole = !is_string || (at > 1 && text[..at].ends_with('"'));
        if is_whole && starts_name(&text[at + 1..]) {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_a_line() {
        let line =
            "  my-cat x-123     [001] .....     6.152338: slow: (ksys_read+0xbe/0xe0 <- vfs_read) \
            ns=111 name=\"a b=c \\\" d\" at=f+0x1/0x2 list={1,2} ret=-2";
        let record = Record::parse(line, "slow").unwrap();
        assert_eq!((record.comm, record.pid), ("my-cat x", "123"));
        assert_eq!((record.cpu, record.time), (1, 6_152_338_000));
        assert_eq!(record.caller(), "ksys_read");
        assert_eq!(record.field("ns"), Some("111"));
        assert_eq!(record.field("name"), Some("\"a b=c \\\" d\""));
        assert_eq!(record.field("list"), Some("{1,2}"));
        assert_eq!(record.field("ret"), Some("-2"));
        assert_eq!(record.fields.len(), 5);
        assert_eq!(record.function(), "vfs_read");
        let line = "cat-1 [000] ..... 1.0: count: (f+0x4/0x370 [mod])";
        let record = Record::parse(line, "count").unwrap();
        assert_eq!(
            (record.function(), record.fields.len()),
            ("f [mod]".into(), 0)
        );
    }

    #[test]
    fn finds_the_event_of_a_line() {
        let events = ["slow", "slow2"].map(String::from);
        let line = "a: (b-1 [001] ..... 6.1: slow2: (f+0xbe/0xe0 <- g) s=\"x: (y\"";
        let (event, record) = Record::parse_any(line, &events).unwrap();
        assert_eq!((event, record.comm), (1, "a: (b"));
        assert_eq!(Record::parse_any(line, &events[..1]), None);
    }

    #[test]
    fn a_string_can_have_lines() {
        let head = "cat-1 [000] ..... 1.0: e: (f+0x1/0x2)";
        assert!(is_open(&format!("{head} a=1 s=\"one")));
        assert!(is_open(&format!("{head} s=\"")));
        for whole in ["", " a=1", " s=\"one\ntwo\" a=1", " s=\"\"", " s=(fault)"] {
            assert!(!is_open(&format!("{head}{whole}")), "{whole}");
        }
        assert!(!is_open("CPU:0 [LOST 5 EVENTS]"));
    }

    #[test]
    fn rejects_other_lines() {
        for line in [
            "",
            "CPU:0 [LOST 5 EVENTS]",
            "cat-1 [000] 1.0: other: (f) a=1",
        ] {
            assert_eq!(Record::parse(line, "slow"), None);
        }
    }
}
