// SPDX-License-Identifier: GPL-2.0

//! The trace events that the user chooses, as `SYSTEM:NAME`, and the fields of their records. An `e` event probes each.

use std::{
    fmt::{
        self,
        Display,
        Formatter, //
    },
    path::Path, //
};

use probe::btf::{
    Btf,
    TypeKind, //
};

use crate::{
    btf,
    failure::{
        Failure,
        Result, //
    },
    format::Field,
    functions::Functions,
    kinds::{
        is_hex,
        kind,
        Kind, //
    },
    late_texts::address_name,
    pattern::matches,
    print_fmt,
    probes,
    selection::{
        is_list,
        parse,
        split,
        Part,
        MAX_EACH, //
    },
    shown::MAX_NAME,
    tracefs::Tracefs,
    value::Value,
    values::is_length,
    variables::MAX_ELEMENTS, //
};

/// The prefix that marks a trace event, as in bpftrace.
const PREFIX: &str = "tracepoint:";
/// The system of the system calls. The pointers of these events are those of programs.
const SYSCALLS: &str = "syscalls";
/// The event that no perf counter may sample, so `e` cannot probe it. C: `TRACE_EVENT_PERF_PERM()`.
const NOT_SAMPLED: (&str, &str) = ("irq_vectors", "irq_work_exit");

/// The longest name of a field, beside which there can be one for its address.
const LONGEST: usize = MAX_NAME - "_at".len();

/// A trace event.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceEvent {
    system: String,
    name: String,
}

/// As the user writes it.
impl Display for TraceEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.system, self.name)
    }
}

/// A part of a list, split into system and name.
#[derive(Clone, Copy)]
struct Named<'t> {
    /// Whether the user says that it is no function of a module.
    is_marked: bool,
    text: &'t str,
    system: Option<&'t str>,
    name: &'t str,
}

impl<'t> Named<'t> {
    fn of(part: &Part<'t>) -> Self {
        let marked = part.text.strip_prefix(PREFIX);
        let text = marked.unwrap_or(part.text);
        let (system, name) = match text.split_once(':') {
            Some((system, name)) => (Some(system), name),
            None => (None, text),
        };
        Self {
            is_marked: marked.is_some(),
            text,
            system,
            name,
        }
    }

    fn has_system(&self, system: &str) -> bool {
        self.system.is_some_and(|pattern| matches(pattern, system))
    }

    fn selects(&self, event: (&str, &str)) -> bool {
        let (system, name) = event;
        let is_refused = event == NOT_SAMPLED && self.name != name;
        !is_refused
            && (self.system.is_none() || self.has_system(system))
            && matches(self.name, name)
    }

    /// Whether a trace event is meant. A module can have the name of a system, and its functions come first.
    fn is_event(&self, functions: &Functions) -> bool {
        let Some(module) = self.system.filter(|_| !self.is_marked) else {
            return self.is_marked;
        };
        let mut all = functions.trace_events();
        if !all.any(|(system, _)| self.has_system(system)) {
            return false;
        }
        if !is_loaded(module) {
            return true;
        }
        let (_, name) = split(self.text);
        let mut code = functions.code().map(|(_, symbol)| symbol);
        let is_function = code.any(|symbol| symbol.module == module && matches(name, symbol.name));
        !is_function && functions.trace_events().any(|event| self.selects(event))
    }
}

/// Whether a module is loaded. What is a part of the kernel has no state.
fn is_loaded(module: &str) -> bool {
    Path::new("/sys/module")
        .join(module)
        .join("initstate")
        .exists()
}

impl Functions {
    /// The trace events of a list, for a command that gives each one a probe. `None` if it is a list of functions.
    pub fn each_event(&self, text: &str) -> Result<Option<Vec<TraceEvent>>> {
        let chosen = self.chosen_events(text)?;
        match chosen.as_ref().map_or(0, Vec::len) {
            count if count > MAX_EACH => Err(Failure::new(format!(
                "{count} trace events match {text}: each needs its own probe, and at most {MAX_EACH} can have one"
            ))),
            _ => Ok(chosen),
        }
    }

    /// The trace events of a list. `None` if it is a list of functions.
    pub fn chosen_events(&self, text: &str) -> Result<Option<Vec<TraceEvent>>> {
        let Ok(parts) = parse(text) else {
            return Ok(None);
        };
        if !parts.iter().any(|part| part.text.contains(':')) {
            return Ok(None);
        }
        let (excluded, included): (Vec<&Part<'_>>, Vec<&Part<'_>>) =
            parts.iter().partition(|part| part.is_excluded);
        let is_event = |part: &&Part<'_>| Named::of(part).is_event(self);
        let (events, others): (Vec<&Part<'_>>, Vec<&Part<'_>>) =
            included.into_iter().partition(is_event);
        match (&events[..], &others[..]) {
            ([], _) => return Ok(None),
            (_, []) => {}
            ([event, ..], [other, ..]) => {
                return Err(Failure::new(format!(
                "a list cannot mix functions and trace events: {} is a trace event, and {} is none",
                event.text, other.text
            )))
            }
        }
        let events: Vec<Named<'_>> = events.into_iter().map(Named::of).collect();
        if let Some(wrong) = events
            .iter()
            .find(|part| !self.trace_events().any(|event| part.selects(event)))
        {
            return Err(self.no_event(wrong));
        }
        let excluded: Vec<Named<'_>> = excluded.into_iter().map(Named::of).collect();
        let is_in = |list: &[Named<'_>], event| list.iter().any(|part| part.selects(event));
        let chosen: Vec<TraceEvent> = self
            .trace_events()
            .filter(|event| is_in(&events, *event) && !is_in(&excluded, *event))
            .map(|(system, name)| TraceEvent {
                system: system.into(),
                name: name.into(),
            })
            .collect();
        match chosen.is_empty() {
            true => Err(Failure::new(format!("no trace event is left of {text}"))),
            false => Ok(Some(chosen)),
        }
    }

    /// The failure for a name or a pattern that is no trace event.
    fn no_event(&self, named: &Named<'_>) -> Failure {
        if is_list(named.text) {
            return Failure::new(format!("no trace event matches {}", named.text));
        }
        let all = self.trace_events();
        let all: Vec<String> = all
            .map(|(system, name)| format!("{system}:{name}"))
            .collect();
        probes::no_such("trace event", named.text, all.iter().map(String::as_str))
    }
}

impl TraceEvent {
    /// The name of the event in the command of an `e` probe.
    pub fn target(&self) -> String {
        format!("{}.{}", self.system, self.name)
    }

    /// The values of each event.
    pub fn values_of_each(events: &[Self], tracefs: &Tracefs) -> Result<Vec<Vec<Value>>> {
        let all = |btf: Option<&Btf<'_>>| {
            let values = |event: &Self| {
                let path = format!("events/{}/{}/format", event.system, event.name);
                Ok(values(&tracefs.read(&path)?, &event.system, btf))
            };
            events.iter().map(values).collect()
        };
        btf::with(None, |btf| all(Some(btf))).unwrap_or_else(|| all(None))
    }
}

/// The values of records whose event has this `format`.
fn values(format: &str, system: &str, btf: Option<&Btf<'_>>) -> Vec<Value> {
    let fields: Vec<Field> = format.lines().filter_map(Field::parse).collect();
    // It can have line breaks.
    let print = format.split_once("print fmt: ").map(|(_, print)| print);
    let own = fields.iter().filter(|field| is_own(field));
    let value = |field| value(field, &fields, system, print.unwrap_or(""), btf);
    own.filter_map(value).collect()
}

/// Whether a field is specific to the event, and no part of another one.
fn is_own(field: &Field) -> bool {
    !["common_", "__"]
        .iter()
        .any(|start| field.name.starts_with(start))
}

/// The value of a field. `None` if its size is not that of a number, or not known before.
fn value(
    field: &Field,
    fields: &[Field],
    system: &str,
    print: &str,
    btf: Option<&Btf<'_>>,
) -> Option<Value> {
    let source = &*field.name;
    let name = source.get(..LONGEST).unwrap_or(source);
    if field.is_located() || field.count.is_some() {
        return array(field, name);
    }
    let printed = print_fmt::kind(print, source);
    if printed == Some(Kind::Symbol) {
        return Some(Value::new(name, source, Kind::Symbol));
    }
    if field.ty.ends_with('*') {
        return Some(pointer(field, fields, name, system));
    }
    let ty = field.ty.strip_prefix("const ").unwrap_or(&field.ty);
    let kind = printed
        // The events of system calls print all numbers alike.
        .filter(|kind| *kind != Kind::Hex || system != SYSCALLS)
        .or_else(|| kind_of_type(btf?, ty, name))
        .unwrap_or(match is_hex(name) {
            true => Kind::Hex,
            false => Kind::Plain,
        });
    if kind == Kind::Pointer {
        return Some(Value::of(name, format!("{name}={source}:x64"), kind));
    }
    let (bits, is_signed) = number(field, ty, btf)?;
    let letter = if is_signed { 's' } else { 'u' };
    let fetch = format!("{name}={source}:{letter}{bits}");
    Some(Value::of(name, fetch, kind))
}

/// The value of an array, or of a string.
fn array(field: &Field, name: &str) -> Option<Value> {
    let source = &field.name;
    if ["char", "__data_loc char[]", "__rel_loc char[]"].contains(&&*field.ty) {
        return Some(Value::plain(&format!("{name}={source}:string")));
    }
    // An event probe takes a field of such a size for a number.
    if let (false, Some(bits)) = (field.is_located(), bits(field.size)) {
        return Some(Value::plain(&format!("{name}={source}:x{bits}")));
    }
    let count = field
        .count
        .filter(|count| (1..=MAX_ELEMENTS).contains(&(*count as u64)))?;
    let bits = bits(field.size / count)?;
    Some(Value::plain(&format!(
        "{name}=+0({source}):x{bits}[{count}]"
    )))
}

/// The value of a pointer. The kernel copies the strings of a system call into the record, as another field.
fn pointer(field: &Field, fields: &[Field], name: &str, system: &str) -> Value {
    let source = &*field.name;
    let copy = format!("__{source}_val");
    let copy = fields.iter().find(|field| *field.name == *copy);
    let text = match copy.and_then(|copy| array(copy, name)) {
        Some(copy) => copy.without_name().to_string(),
        None if &*field.ty != "const char *" => {
            return Value::of(name, format!("{name}={source}:x64"), Kind::Pointer);
        }
        None if system == SYSCALLS => format!("+0({source}):ustring"),
        None => format!("+0({source}):string"),
    };
    let mut after = fields
        .iter()
        .skip_while(|field| *field.name != *source)
        .skip(1);
    let length = after.next().filter(|next| is_length(&next.name));
    let at = address_name(name);
    Value::of(
        name,
        format!("{at}={source}:x64 {name}={text}"),
        Kind::Text(length.map(|length| length.name.to_string())),
    )
}

/// The bits of a number that has this many bytes.
fn bits(size: usize) -> Option<usize> {
    [1, 2, 4, 8].contains(&size).then_some(size * 8)
}

/// The bits of a number, and whether it has a sign. The record of a system call has a word for each.
fn number(field: &Field, ty: &str, btf: Option<&Btf<'_>>) -> Option<(usize, bool)> {
    let bits = bits(field.size)?;
    // The compiler has other names for these types.
    let ty = match ty {
        "long" => "long int",
        "long long" => "long long int",
        "unsigned" => "unsigned int",
        ty => ty,
    };
    let known = || {
        let btf = btf?;
        let kinds = [TypeKind::Int, TypeKind::Typedef];
        let id = kinds.iter().find_map(|kind| btf.find(ty, *kind))?;
        let int = btf.resolve(id)?.int()?;
        Some((usize::from(int.bits()), int.is_signed()))
    };
    let known = known().filter(|(known, _)| *known <= bits);
    Some(known.unwrap_or((bits, field.is_signed())))
}

/// How people read a type: a typedef or an enumeration.
fn kind_of_type(btf: &Btf<'_>, ty: &str, name: &str) -> Option<Kind> {
    let id = match ty.strip_prefix("enum ") {
        Some(name) => btf.find(name, TypeKind::Enum)?,
        None => btf
            .find(ty, TypeKind::Typedef)
            .or_else(|| btf.find(ty, TypeKind::Int))?,
    };
    let kind = kind(btf, id, "", name);
    (kind != Kind::Plain).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::functions;

    fn chosen(text: &str) -> Option<Vec<String>> {
        let chosen = functions().chosen_events(text).unwrap();
        chosen.map(|all| all.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_list_chooses_trace_events() {
        let some = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(chosen("sched:sched_switch"), some(&["sched:sched_switch"]));
        assert_eq!(
            chosen("sched:*, block:block_rq_issue"),
            some(&["block:block_rq_issue", "sched:sched_switch"])
        );
        assert_eq!(chosen("tracepoint:x:f"), some(&["x:f"]));
        assert_eq!(chosen("*:*,!x:*,!block*"), some(&["sched:sched_switch"]));
        for functions in [
            "vfs_read",
            "mod:mod_write",
            "mod:*",
            "sched_switch",
            "fs/read_write.c:562",
            "!sched:*",
            "vfs_*,!x:f",
            "",
        ] {
            assert_eq!(chosen(functions), None, "{functions}");
        }
    }

    #[test]
    fn what_is_no_trace_event_has_a_reason() {
        for (text, expected) in [
            (
                "sched:sched_swich",
                "the kernel has no trace event sched:sched_swich; similar: sched:sched_switch",
            ),
            ("sched:no_*", "no trace event matches sched:no_*"),
            ("tracepoint:none", "the kernel has no trace event none"),
            (
                "sched:sched_switch,vfs_read",
                "a list cannot mix functions and trace events: sched:sched_switch is a trace event, and vfs_read is none",
            ),
            ("sched:*,!sched_switch", "no trace event is left of sched:*,!sched_switch"),
        ] {
            let failure = functions().chosen_events(text).unwrap_err();
            assert_eq!(failure.reason(), expected);
        }
    }

    #[test]
    fn fields_have_the_types_of_their_format() {
        let format = "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
            \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
            \tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n\
            \tfield:__data_loc u8[] data;\toffset:28;\tsize:4;\tsigned:0;\n\
            \tfield:unsigned long args[6];\toffset:32;\tsize:48;\tsigned:0;\n\
            \tfield:__u8 saddr[4];\toffset:156;\tsize:4;\tsigned:0;\n\
            \tfield:uuid_t id;\toffset:80;\tsize:16;\tsigned:0;\n\
            \tfield:s16 small;\toffset:96;\tsize:2;\tsigned:1;\n\
            \tfield:unsigned long io_flags;\toffset:104;\tsize:8;\tsigned:0;\n\
            \tfield:void * at;\toffset:112;\tsize:8;\tsigned:0;\n\
            \tfield:void * caller;\toffset:120;\tsize:8;\tsigned:0;\n\
            \tfield:const char * path;\toffset:128;\tsize:8;\tsigned:0;\n\
            \tfield:size_t count;\toffset:136;\tsize:8;\tsigned:0;\n\
            \tfield:const char * new;\toffset:144;\tsize:8;\tsigned:0;\n\
            \tfield:__data_loc char[] __new_val;\toffset:152;\tsize:4;\tsigned:0;\n\
            print fmt: \"%d %pS %x\", REC->small, (void *)REC->caller, REC->small\n";
        let fetch = |system| {
            let values = values(format, system, None).into_iter();
            values.map(|value| value.fetch).collect::<Vec<_>>()
        };
        let kernel = [
            "comm=comm:string",
            "name=name:string",
            "args=+0(args):x64[6]",
            "saddr=saddr:x32",
            "small=small:s16",
            "io_flags=io_flags:u64",
            "at=at:x64",
            "caller=caller:symbol",
            "path_at=path:x64 path=+0(path):string",
            "count=count:u64",
            "new_at=new:x64 new=__new_val:string",
        ];
        assert_eq!(fetch("x"), kernel);
        let of_program = fetch("syscalls");
        assert_eq!(of_program[8], "path_at=path:x64 path=+0(path):ustring");
        let values = values(format, "x", None);
        assert_eq!(values[5].kind, Kind::Hex);
        assert_eq!(values[8].kind, Kind::Text(Some("count".into())));
        assert_eq!(values[10].kind, Kind::Text(None));
    }
}
