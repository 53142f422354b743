// SPDX-License-Identifier: GPL-2.0

//! From the bytes of a record to its parts, by the formats of the run's events.

use std::{
    collections::HashMap,
    fs,
    rc::Rc, //
};

use crate::{
    failure::Result,
    format::{
        Field,
        Format,
        Names, //
    },
    instance::Instance,
    record::{
        Entry,
        Fields, //
    },
    stream::{
        Options,
        Part, //
    },
    symbols::Symbols,
    tracefs::Tracefs, //
};

/// The fields of the place of a probe.
const PLACE: &str = "__probe_ip";
const FUNCTION: &str = "__probe_func";
const RETURN: &str = "__probe_ret_ip";
/// The address in a stack trace that stands for a trampoline, and how the kernel prints it. C:
/// `FTRACE_TRAMPOLINE_MARKER`.
const TRAMPOLINE: u64 = 0x7fff_ffff;
const TRAMPOLINE_NAME: &str = "[FTRACE TRAMPOLINE]";
/// The file with the names of tasks.
const NAMES_OF_TASKS: &str = "saved_cmdlines";
/// The most names that are kept. The file has those of the last tasks.
const MAX_TASKS: usize = 1 << 16;

/// How the records of an event are read.
struct Event {
    name: Rc<str>,
    /// The place of a probe.
    place: Option<Field>,
    /// The function of a return, and the place after its call.
    function: Option<Field>,
    caller: Option<Field>,
    /// The event's own fields.
    names: Rc<[Rc<str>]>,
    fields: Vec<Field>,
}

impl Event {
    fn new(format: &Format, shows_place: bool) -> Self {
        let of_place = |name| format.field(name).filter(|_| shows_place).cloned();
        let is_own = |field: &&Field| {
            let name = &*field.name;
            !name.starts_with("common_") && ![PLACE, FUNCTION, RETURN].contains(&name)
        };
        let fields = format.fields.iter().filter(is_own);
        let fields: Vec<Field> = fields.cloned().collect();
        Self {
            name: Rc::clone(&format.name),
            place: of_place(PLACE),
            function: of_place(FUNCTION),
            caller: of_place(RETURN),
            names: fields.iter().map(|field| Rc::clone(&field.name)).collect(),
            fields,
        }
    }

    /// The text of the place.
    fn place(&self, record: &[u8], names: &mut impl Names) -> String {
        let address = |field: &Option<Field>| Some(field.as_ref()?.number(record).unwrap_or(0));
        if let Some(place) = address(&self.place) {
            return names.code(place).to_string();
        }
        match (address(&self.function), address(&self.caller)) {
            (Some(function), Some(caller)) => {
                format!("{} <- {}", names.code(caller), names.function(function))
            }
            _ => String::new(),
        }
    }
}

/// What a record of an event number is.
enum Kind {
    Event(Event),
    /// A stack trace that starts at this byte.
    Stack(usize),
    UserStack(usize),
}

/// The formats of the events of an instance.
fn formats(tracefs: &Tracefs, instance: &Instance<'_>) -> Vec<Format> {
    let group = instance.file(&format!("events/{}", instance.group()));
    let names = tracefs.names(&group).into_iter();
    let files = names.map(|name| format!("{group}/{name}/format"));
    let formats = files.filter_map(|file| Format::parse(&tracefs.read(&file).ok()?));
    formats.collect()
}

/// Whether the answer has places of records.
fn shows_place(options: &Options) -> bool {
    !options.lacks_place || options.has_stack
}

/// Whether the answer has symbols of the kernel.
fn shows_symbols(formats: &[Format], options: &Options) -> bool {
    let has_place = |format: &Format| {
        [PLACE, FUNCTION]
            .iter()
            .any(|name| format.field(name).is_some())
    };
    options.has_stack
        || formats
            .iter()
            .any(|format| format.has_symbols() || (shows_place(options) && has_place(format)))
}

/// Whether the answer to a question of these options, by the events of an instance, has symbols of the kernel.
pub fn needs_symbols(tracefs: &Tracefs, instance: &Instance<'_>, options: &Options) -> bool {
    shows_symbols(&formats(tracefs, instance), options)
}

/// Takes the records of an instance apart.
pub struct Decoder {
    kinds: HashMap<u64, Kind>,
    shows_symbols: bool,
    /// The number of the event.
    number: Field,
    task: Field,
    symbols: Rc<Symbols>,
    tasks: HashMap<u64, Rc<str>>,
}

impl Decoder {
    /// Reads the formats of the events of an instance.
    pub fn new(
        tracefs: &Tracefs,
        instance: &Instance<'_>,
        symbols: Rc<Symbols>,
        options: &Options,
    ) -> Result<Self> {
        let stack = |name| -> Result<Format> {
            let text = tracefs.read(&format!("events/ftrace/{name}/format"))?;
            Ok(Format::parse(&text).unwrap_or_default())
        };
        Ok(Self::of(
            formats(tracefs, instance),
            &stack("kernel_stack")?,
            &stack("user_stack")?,
            symbols,
            options,
        ))
    }

    fn of(
        events: Vec<Format>,
        stack: &Format,
        user_stack: &Format,
        symbols: Rc<Symbols>,
        options: &Options,
    ) -> Self {
        let start = |format: &Format| format.field("caller").map_or(usize::MAX, |of| of.offset);
        // All records have these fields.
        let common = |name| stack.field(name).cloned().unwrap_or_default();
        let (number, task) = (common("common_type"), common("common_pid"));
        let of_stacks = [
            (stack.id, Kind::Stack(start(stack))),
            (user_stack.id, Kind::UserStack(start(user_stack))),
        ];
        let shows_symbols = shows_symbols(&events, options);
        let event = |format: &Format| Kind::Event(Event::new(format, shows_place(options)));
        Self {
            shows_symbols,
            kinds: events
                .iter()
                .map(|format| (format.id, event(format)))
                .chain(of_stacks)
                .collect(),
            number,
            task,
            symbols,
            tasks: HashMap::new(),
        }
    }

    /// Reads the names that the kernel has now, of tasks and of addresses.
    pub fn refresh(&mut self, tracefs: &Tracefs) {
        if self.shows_symbols {
            self.symbols.refresh();
        }
        let text = fs::read(tracefs.path(NAMES_OF_TASKS)).unwrap_or_default();
        if self.tasks.len() >= MAX_TASKS {
            self.tasks.clear();
        }
        self.tasks.extend(tasks(&String::from_utf8_lossy(&text)));
    }

    /// The parts of a record. `None` if its event is unknown.
    pub fn part(&self, cpu: u32, time: u64, record: &[u8]) -> Option<Part> {
        let mut names = self.symbols.names();
        Some(match self.kinds.get(&self.number.number(record)?)? {
            Kind::Event(event) => Part::Record(self.entry(event, cpu, time, record, &mut names)),
            Kind::Stack(start) => {
                let frames = addresses(record, *start).take_while(|address| *address != u64::MAX);
                let frames = frames.map(|address| match address {
                    TRAMPOLINE => TRAMPOLINE_NAME.into(),
                    address => names.code(address),
                });
                Part::Stack(frames.collect())
            }
            Kind::UserStack(start) => {
                let frames = addresses(record, *start).take_while(|address| *address != 0);
                Part::UserStack(frames.collect())
            }
        })
    }

    fn entry(
        &self,
        event: &Event,
        cpu: u32,
        time: u64,
        record: &[u8],
        names: &mut impl Names,
    ) -> Entry {
        let pid = self.task.number(record).unwrap_or(0);
        Entry {
            event: Rc::clone(&event.name),
            comm: match pid {
                0 => "<idle>".into(),
                pid => self.tasks.get(&pid).map_or("<...>".into(), Rc::clone),
            },
            pid: pid.to_string(),
            cpu,
            time,
            place: event.place(record, names),
            fields: Fields::new(&event.names, |index, text| {
                event.fields[index].write(text, record, names);
            }),
            ..Entry::default()
        }
    }
}

/// The words of a record from its byte `start`.
fn addresses(record: &[u8], start: usize) -> impl Iterator<Item = u64> + '_ {
    let words = record.get(start..).unwrap_or(&[]).chunks_exact(8);
    words.filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
}

/// The names of tasks, from lines `PID NAME`. A name can have line breaks.
fn tasks(text: &str) -> HashMap<u64, Rc<str>> {
    let mut tasks: Vec<(u64, String)> = Vec::new();
    for line in text.lines() {
        let start = line
            .split_once(' ')
            .and_then(|(pid, name)| Some((pid.parse().ok()?, name)));
        match (start, tasks.last_mut()) {
            (Some((pid, name)), _) => tasks.push((pid, name.into())),
            (None, Some((_, name))) => *name += &format!("\n{line}"),
            (None, None) => {}
        }
    }
    tasks
        .into_iter()
        .map(|(pid, name)| (pid, name.into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::{
        record,
        FORMAT, //
    };

    const STACK: &str = "name: kernel_stack\nID: 4\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;\n";

    fn decoder() -> Decoder {
        with_options(&Options::default())
    }

    fn with_options(options: &Options) -> Decoder {
        let stack = Format::parse(STACK).unwrap();
        let user_stack = Format::parse(&STACK.replace("ID: 4", "ID: 12")).unwrap();
        let events = vec![Format::parse(FORMAT).unwrap()];
        let mut decoder = Decoder::of(events, &stack, &user_stack, Rc::default(), options);
        decoder.tasks = tasks("5 sh\n7 my cat\n");
        decoder
    }

    #[test]
    fn a_record_has_the_fields_of_its_format() {
        let Some(Part::Record(entry)) = decoder().part(3, 9, &record(b"a\n=> b")) else {
            panic!("no record");
        };
        assert_eq!(
            (&*entry.event, &*entry.comm, &*entry.pid),
            ("args", "my cat", "7")
        );
        assert_eq!((entry.cpu, entry.time), (3, 9));
        assert_eq!(entry.place, "0xffffffff81000004");
        let record = entry.record();
        assert_eq!(record.fields.len(), 8);
        assert_eq!(record.field("name"), Some("\"a\n=> b\""));
        assert_eq!(record.text("name"), "a\n=> b");
    }

    #[test]
    fn an_answer_without_symbols_needs_none() {
        let without = Options {
            lacks_place: true,
            ..Options::default()
        };
        let with_stack = Options {
            has_stack: true,
            ..without
        };
        let plain = Format::parse(&FORMAT.replace("%pS", "0x%lx").replace("%ps", "0x%lx"));
        let plain = [plain.unwrap()];
        assert!(shows_symbols(&plain, &Options::default()));
        assert!(!shows_symbols(&plain, &without));
        assert!(shows_symbols(&plain, &with_stack));
        assert!(shows_symbols(&[Format::parse(FORMAT).unwrap()], &without));
        assert!(!shows_symbols(&[], &Options::default()));
        for (options, expected) in [(without, ""), (with_stack, "0xffffffff81000004")] {
            let Some(Part::Record(entry)) = with_options(&options).part(0, 0, &record(b"")) else {
                panic!("no record");
            };
            assert_eq!(entry.place, expected);
        }
    }

    #[test]
    fn stacks_have_addresses() {
        let bytes = |id: u16, frames: &[u64]| {
            let mut bytes = id.to_le_bytes().to_vec();
            bytes.resize(16, 0);
            bytes.extend(frames.iter().flat_map(|frame| frame.to_le_bytes()));
            bytes
        };
        let part = |bytes: &[u8]| decoder().part(0, 0, bytes);
        let frames = vec!["0x10".into(), TRAMPOLINE_NAME.into()];
        let stack = [0x10, TRAMPOLINE, u64::MAX, 1];
        assert_eq!(part(&bytes(4, &stack)), Some(Part::Stack(frames)));
        let stack = [0x10, 0x20, 0, 1];
        assert_eq!(
            part(&bytes(12, &stack)),
            Some(Part::UserStack(vec![0x10, 0x20]))
        );
        assert_eq!(part(&bytes(4, &[])[..10]), Some(Part::Stack(Vec::new())));
        assert_eq!(part(&bytes(99, &[])), None);
        assert_eq!(part(&[4]), None);
    }

    #[test]
    fn a_task_can_have_a_line_break_in_its_name() {
        let all = tasks("x\n5 a b\n6 c\nd e\n7 f\n");
        let name = |pid| all.get(&pid).map(|name| &**name);
        assert_eq!(
            (name(5), name(6), name(7)),
            (Some("a b"), Some("c\nd e"), Some("f"))
        );
    }
}
