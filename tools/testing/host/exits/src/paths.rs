// SPDX-License-Identifier: GPL-2.0

//! The paths of calls against the instructions that the processor executed. `scripts/paths-check`
//! makes the files.
//!
//! The log has the address of each executed instruction of the functions, in their order. A call
//! begins in it at the first instruction of the first block, and ends with an exit. In between,
//! each block has to be entered by its first instruction, from a block that names it as a
//! successor; only after a fault can it be any block. The blocks in the order of their first visit
//! have to be the path of the record, which may lack blocks that cannot be probed. The address of
//! the last instruction has to be the `$exit` of the record.
//!
//! The log does not say which task executes. So calls of a function that overlap, by recursion or
//! in several tasks, are not compared; but each has to have its record. Calls and records have
//! one order, that of their beginnings, because a function that leaves by a tail call is in
//! progress for longer than the log shows.

use std::{
    collections::{
        BTreeMap,
        HashMap,
        HashSet, //
    },
    error::Error,
    fmt,
    io::BufRead, //
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Fewer compared functions are a failure.
pub const ENOUGH: usize = 500;

/// The function that searches the place where the kernel continues after a fault.
const FIXUP: &str = "fixup_exception";

/// The function whose calls are at the start and the end of the log, and its event.
const MARKERS: [&str; 2] = ["__x64_sys_sethostname", "__arm64_sys_sethostname"];
const MARKER_EVENT: &str = "marker";

#[derive(Debug)]
struct Block {
    address: u64,
    /// As the path shows it.
    name: String,
    is_probed: bool,
    successors: Vec<u64>,
}

/// A call, according to the log.
#[derive(Debug, Default)]
struct Call {
    /// The indices of the visited blocks, in the order of the first visits.
    path: Vec<usize>,
    /// The index of the current block.
    block: usize,
    last: u64,
    /// Whether the last instruction is an exit.
    is_at_exit: bool,
    /// Whether another call of the function was in progress meanwhile.
    overlaps: bool,
    /// What is wrong with the flow.
    wrong: Option<String>,
}

/// A call, according to its record.
#[derive(Debug, PartialEq)]
struct Record {
    /// In nanoseconds.
    start: u64,
    path: String,
    blocks: usize,
    exit: u64,
}

#[derive(Debug, Default)]
struct Function {
    name: String,
    blocks: Vec<Block>,
    exits: HashSet<u64>,
    missed: u64,
    records: Vec<Record>,
    calls: Vec<Call>,
    /// The indices of the calls that are in progress.
    open: Vec<usize>,
    /// Whether a call executed here that began before the log.
    is_entered: bool,
    /// Whether a fault was handled since its last instruction.
    after_fault: bool,
}

impl Function {
    /// Follows an instruction of the block with this index.
    fn step(&mut self, address: u64, index: usize) {
        let after_fault = std::mem::take(&mut self.after_fault);
        if Some(address) == self.blocks.first().map(|block| block.address) {
            self.open.retain(|&open| !self.calls[open].is_at_exit);
            for &open in &self.open {
                self.calls[open].overlaps = true;
            }
            self.open.push(self.calls.len());
            self.calls.push(Call {
                path: vec![0],
                last: address,
                is_at_exit: self.exits.contains(&address),
                overlaps: self.open.len() > 1,
                ..Call::default()
            });
            return;
        }
        // After its exit, only a conditional jump that was not taken continues in the call.
        while let Some(&open) = self.open.last() {
            let call = &self.calls[open];
            let goes_on = self.blocks[call.block].successors.contains(&address);
            if !call.is_at_exit || goes_on || address == call.last {
                break;
            }
            self.open.pop();
        }
        let Some(&open) = self.open.last() else {
            self.is_entered = true;
            return;
        };
        let (call, block) = (&mut self.calls[open], &self.blocks[index]);
        let from = &self.blocks[call.block];
        let stays = index == call.block && address > call.last;
        if address != call.last && !stays {
            let wrong = if address != block.address {
                Some("a block is not entered by its first instruction")
            } else if !from.successors.contains(&address) && !after_fault {
                Some("a block comes after one that does not name it")
            } else {
                None
            };
            if let (Some(wrong), None) = (wrong, &call.wrong) {
                call.wrong = Some(format!("{wrong}: {:#x} after {:#x}", address, call.last));
            }
        }
        if !call.path.contains(&index) {
            call.path.push(index);
        }
        call.block = index;
        call.last = address;
        call.is_at_exit = self.exits.contains(&address);
    }

    /// The difference of a call and its record.
    fn difference(&self, call: &Call, record: &Record) -> Option<String> {
        if let Some(wrong) = &call.wrong {
            return Some(wrong.clone());
        }
        let cut = record.path.strip_suffix(" ...");
        let recorded: Vec<_> = cut.unwrap_or(&record.path).split(' ').collect();
        // A block that cannot be probed is in the record only if others imply it.
        let visited: Vec<_> = { call.path.iter().map(|&at| &self.blocks[at]) }
            .filter(|block| block.is_probed || recorded.contains(&block.name.as_str()))
            .map(|block| block.name.as_str())
            .collect();
        let is_equal = match cut {
            Some(_) => visited.starts_with(&recorded),
            None => visited == recorded && recorded.len() == record.blocks,
        };
        if !is_equal {
            let (blocks, seen, visited) = (record.blocks, &record.path, visited.join(" "));
            return Some(format!(
                "path \"{seen}\" of {blocks} blocks, but \"{visited}\""
            ));
        }
        // A gap that comes last is in no path.
        (self.blocks[call.block].is_probed && call.last != record.exit)
            .then(|| format!("exit {:#x}, but {:#x}", record.exit, call.last))
    }
}

/// Why a function is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excluded {
    NotCalled,
    Missed,
    Entered,
    Overlap,
    Unfinished,
}

impl fmt::Display for Excluded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotCalled => "were not called",
            Self::Missed => "have missed hits: they run in the handlers, or a call did not return",
            Self::Entered => "had calls from before the log",
            Self::Overlap => "had only calls that overlap",
            Self::Unfinished => "had calls that are in progress at the end",
        })
    }
}

/// What was compared.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of functions that were compared.
    pub functions: usize,
    /// The number of calls that were compared, of their visited blocks, and of different paths.
    pub calls: usize,
    pub visits: usize,
    pub paths: usize,
    /// The number of calls of these functions that were not compared, because they overlap.
    pub overlapping: usize,
    /// The number of visited blocks that cannot be probed.
    pub gaps: usize,
    pub excluded: BTreeMap<Excluded, usize>,
    /// Functions with their first difference and the number of differing calls.
    pub differences: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.differences {
            writeln!(f, "  {difference}")?;
        }
        writeln!(
            f,
            "  {} functions: {} calls with {} different paths through {} blocks, \
             {} of them gaps; {} calls overlap",
            self.functions, self.calls, self.paths, self.visits, self.gaps, self.overlapping
        )?;
        for (why, count) in &self.excluded {
            writeln!(f, "  {count} functions {why}")?;
        }
        Ok(())
    }
}

/// The functions and what happened in them.
#[derive(Debug, Default)]
pub struct Paths {
    /// Start, end and name of each symbol, by start.
    symbols: BTreeMap<u64, (u64, String)>,
    addresses: HashMap<String, u64>,
    functions: Vec<Function>,
    /// The indices of the functions by the names of their events.
    events: HashMap<String, usize>,
    /// The times of the calls of the marker, in nanoseconds.
    markers: Vec<u64>,
}

impl Paths {
    /// Reads a line of what the virtual machines print.
    fn line(&mut self, line: &str) -> Result<()> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let fields: Vec<_> = rest.split_whitespace().collect();
        match (kind, fields.as_slice()) {
            ("symbol", [start, end, name]) => {
                let (start, end) = (hex(start)?, hex(end)?);
                self.symbols.insert(start, (end, (*name).to_owned()));
                self.addresses.insert((*name).to_owned(), start);
            }
            ("defined", [event, name]) => {
                self.events
                    .insert((*event).to_owned(), self.functions.len());
                self.functions.push(Function {
                    name: (*name).to_owned(),
                    ..Function::default()
                });
            }
            ("block", [event, place, ..]) if place.contains("+0x") => {
                let place = place.trim_end_matches(';');
                let (line, is_probed) = match rest.split_once(';') {
                    Some((line, _)) => (line, false),
                    None => (rest, true),
                };
                let successors: Result<_> = { line.split_whitespace().skip(3) }
                    .map(|place| self.address(place))
                    .collect();
                let block = Block {
                    address: self.address(place)?,
                    name: self.block_name(event, place)?,
                    is_probed,
                    successors: successors?,
                };
                self.function(event)?.blocks.push(block);
            }
            ("exit", [event, place, what, ..])
                if place.contains("+0x") && !rest.contains(" no return") && *what != "jump" =>
            {
                let address = self.address(place)?;
                self.function(event)?.exits.insert(address);
            }
            ("profile", [event, _, missed, ..]) if self.events.contains_key(*event) => {
                self.function(event)?.missed = missed.parse()?;
            }
            _ if line.contains(" path=\"") || line.contains(" marker: ") => self.record(line)?,
            _ => (),
        }
        Ok(())
    }

    fn function(&mut self, event: &str) -> Result<&mut Function> {
        let index = self.events.get(event).ok_or(format!("no event {event}"))?;
        Ok(&mut self.functions[*index])
    }

    /// The address of `SYMBOL+0xOFFSET`.
    fn address(&self, place: &str) -> Result<u64> {
        let (symbol, offset) = place.rsplit_once("+0x").ok_or(format!("place {place}"))?;
        let symbol = { self.addresses.get(symbol) }.ok_or(format!("no symbol {symbol}"))?;
        Ok(symbol + hex(offset)?)
    }

    /// The name of a block in a path.
    fn block_name(&mut self, event: &str, place: &str) -> Result<String> {
        let address = self.address(place)?;
        let first = self
            .function(event)?
            .blocks
            .first()
            .map(|block| block.address);
        let entry = first.unwrap_or(address);
        let whole = self.symbols.range(..=entry).next_back();
        let (&start, (_, whole)) = whole.ok_or(format!("no symbol of {place}"))?;
        let name = place.strip_prefix(whole.as_str()).unwrap_or(place);
        // The longest name that a path shows has 16 bytes with the space before it.
        Ok(match name.len() {
            ..=15 if name.len() < place.len() => name.to_owned(),
            _ if address < start => format!("-{:#x}", start - address),
            _ => format!("+{:#x}", address - start),
        })
    }

    fn record(&mut self, line: &str) -> Result<()> {
        let bad = || format!("record {line}");
        let (head, values) = line.split_once(": (").ok_or_else(bad)?;
        let (head, event) = head.rsplit_once(' ').ok_or_else(bad)?;
        let time = head
            .trim_end_matches(':')
            .rsplit(' ')
            .next()
            .ok_or_else(bad)?;
        let (seconds, fraction) = time.split_once('.').ok_or_else(bad)?;
        let time = seconds.parse::<u64>()? * 1_000_000_000 + fraction.parse::<u64>()? * 1000;
        if event == MARKER_EVENT {
            self.markers.push(time);
            return Ok(());
        }
        let (_, path) = values.split_once(" path=\"").ok_or_else(bad)?;
        let (path, values) = path.split_once('"').ok_or_else(bad)?;
        let value = |name: &str| {
            let mut values = values.split_whitespace();
            let value = values.find_map(|value| value.strip_prefix(name)?.strip_prefix('='));
            value.ok_or_else(bad)
        };
        let record = Record {
            start: time.saturating_sub(value("ns")?.parse()?),
            path: path.to_owned(),
            blocks: value("blocks")?.parse()?,
            exit: hex(value("at")?.trim_start_matches("0x"))?,
        };
        self.function(event)?.records.push(record);
        Ok(())
    }

    /// Reads what the virtual machines print.
    pub fn read(&mut self, lines: impl BufRead) -> Result<()> {
        lines.lines().try_for_each(|line| self.line(&line?))
    }

    /// Follows the log: an address in each line, and `-` before one that was not executed in the
    /// end.
    pub fn follow(&mut self, log: impl BufRead) -> Result<()> {
        let mut places = vec![];
        for (function, Function { blocks, .. }) in self.functions.iter().enumerate() {
            places.extend(
                (0..)
                    .zip(blocks)
                    .map(|(at, block)| (block.address, function, at)),
            );
        }
        places.sort_unstable();
        // Two functions cannot have a block in common.
        places.dedup_by_key(|place| place.0);
        let ends: Vec<_> = (1..=places.len())
            .map(|next| {
                let symbol = self.symbols.range(..=places[next - 1].0).next_back();
                let end = symbol.map_or(0, |(_, (end, _))| *end);
                places.get(next).map_or(end, |place| place.0.min(end))
            })
            .collect();
        let fixup = self.addresses.get(FIXUP).copied();
        let marker = { self.symbols.iter() }
            .find(|(_, (_, name))| MARKERS.contains(&name.as_str()))
            .map(|(&start, &(end, _))| start..end)
            .ok_or("no marker")?;
        // The first instruction of the marker that is in the log.
        let mut first = None;
        let mut markers = 0;
        let mut step = |address: u64| {
            if marker.contains(&address) {
                markers += usize::from(*first.get_or_insert(address) == address);
                return;
            }
            if markers != 1 {
                return;
            }
            if Some(address) == fixup {
                for function in &mut self.functions {
                    function.after_fault = true;
                }
                return;
            }
            let after = places.partition_point(|place| place.0 <= address);
            let Some(at) = after.checked_sub(1) else {
                return;
            };
            let (_, function, block) = places[at];
            if address < ends[at] {
                self.functions[function].step(address, block);
            }
        };
        let mut before = None;
        for line in log.lines() {
            let line = line?;
            match line.strip_prefix('-') {
                Some(not_executed) => {
                    before = before.filter(|&before| hex(not_executed).ok() != Some(before));
                }
                None => {
                    if let Some(before) = before.replace(hex(&line)?) {
                        step(before);
                    }
                }
            }
        }
        before.into_iter().for_each(step);
        match markers {
            2 => Ok(()),
            _ => Err(format!("the log has {markers} calls of the marker, not 2").into()),
        }
    }

    /// Compares the calls of the log with their records.
    pub fn compare(&mut self) -> Result<Report> {
        let [first, second] = self.markers[..] else {
            return Err(format!("{} records of the marker, not 2", self.markers.len()).into());
        };
        let mut report = Report::default();
        for function in &mut self.functions {
            let records = &mut function.records;
            records.retain(|record| (first..second).contains(&record.start));
            records.sort_by_key(|record| record.start);
            if let Err(why) = report.add(function) {
                *report.excluded.entry(why).or_default() += 1;
            }
        }
        Ok(report)
    }
}

impl Report {
    fn add(&mut self, function: &Function) -> std::result::Result<(), Excluded> {
        let (calls, records) = (&function.calls, &function.records);
        if function.missed != 0 {
            return Err(Excluded::Missed);
        }
        if function.is_entered {
            return Err(Excluded::Entered);
        }
        if calls.is_empty() && records.is_empty() {
            return Err(Excluded::NotCalled);
        }
        let finished: Vec<_> = calls.iter().filter(|call| call.is_at_exit).collect();
        if finished.len() != records.len() {
            if calls.iter().any(|call| call.overlaps) {
                return Err(Excluded::Overlap);
            }
            // The call that is in progress at the end may have jumped to another function.
            if finished.len() != records.len() + 1 {
                let (calls, records) = (finished.len(), records.len());
                let name = &function.name;
                self.functions += 1;
                self.differences
                    .push(format!("{name}: {records} records of {calls} calls"));
                return Ok(());
            }
        }
        let mut compared = 0;
        let (mut differing, mut difference) = (0, None);
        let mut paths = HashSet::new();
        for (call, record) in finished.iter().zip(records) {
            if call.overlaps {
                continue;
            }
            compared += 1;
            self.visits += call.path.len();
            let gaps = call
                .path
                .iter()
                .filter(|&&at| !function.blocks[at].is_probed);
            self.gaps += gaps.count();
            paths.insert(&call.path);
            if let Some(found) = function.difference(call, record) {
                differing += 1;
                difference.get_or_insert(found);
            }
        }
        if compared == 0 {
            return Err(match records.is_empty() {
                true => Excluded::Unfinished,
                false => Excluded::Overlap,
            });
        }
        self.functions += 1;
        self.calls += compared;
        self.overlapping += records.len() - compared;
        self.paths += paths.len();
        if let Some(difference) = difference {
            let name = &function.name;
            self.differences.push(format!(
                "{name}: {differing} of {compared} calls: {difference}"
            ));
        }
        Ok(())
    }
}

fn hex(text: &str) -> Result<u64> {
    u64::from_str_radix(text, 16).map_err(|error| format!("{text}: {error}").into())
}
