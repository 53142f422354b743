// SPDX-License-Identifier: GPL-2.0

//! What the fuzz targets share: commands read as the module reads them, and a measure of work.

#[path = "../../probe/tests/insn/any.rs"]
pub mod any;
#[path = "../../probe/tests/btf/builder.rs"]
pub mod builder;
#[path = "../../probe/tests/insn/oracle.rs"]
pub mod oracle;

use std::sync::{
    atomic::{
        AtomicU64,
        Ordering::Relaxed, //
    },
    LazyLock, //
};

use libfuzzer_sys::Corpus;
use probe::{
    arch::current::register,
    argument::{
        Argument,
        RecordField,
        RecordValue, //
    },
    btf::{
        Btf,
        Sections,
        TypeKind, //
    },
    command::{
        CallTreeTarget,
        Command,
        Error,
        EventsFile,
        Expansion,
        FileOffsets,
        Line,
        ParseContext,
        Place,
        ProbeKind,
        ProbePoint,
        RecordFields,
        Target,
        TypeInfo,
        Watched,
        WrittenArgument, //
    },
    condition::Comparison,
    counting::STACK_WORDS,
    fetch::{
        Field,
        Layout, //
    },
    types::Width, //
};

use builder::everything;

/// Of a small kernel, whose functions are `vfs_read`, `printk`, `nothing` and `sys_open`.
pub static BTF: LazyLock<Btf<'static>> = LazyLock::new(|| {
    let sections = Sections::parse(everything().bytes().leak(), None).unwrap();
    sections
        .index(vec![0; sections.slots().unwrap()].leak())
        .unwrap()
});

/// An input that could not be read as one is worth nothing.
pub fn keep(run: Option<()>) -> Corpus {
    run.map_or(Corpus::Reject, |()| Corpus::Keep)
}

/// How often memory was read so far.
static READS: AtomicU64 = AtomicU64::new(0);

/// The compiler puts a call to one of these, by the size, before every read of memory in `probe` and
/// in the targets, with what is compiled there of the generic code of `core`: iterators,
/// `str::find` by a closure. It puts none into functions that are named so.
macro_rules! count_reads {
    ($($name:ident)*) => {$(
        #[no_mangle]
        extern "C" fn $name(_: *const u8) {
            // There is one thread.
            READS.store(READS.load(Relaxed).wrapping_add(1), Relaxed);
        }
    )*};
}

count_reads! {
    __sanitizer_cov_load1
    __sanitizer_cov_load2
    __sanitizer_cov_load4
    __sanitizer_cov_load8
    __sanitizer_cov_load16
}

/// What `work` gives, and the steps that it took: how often it has read memory, which is the same
/// on every machine.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = READS.load(Relaxed);
    let result = work();
    (result, READS.load(Relaxed) - before)
}

/// Where a probe is, as the module finds it out. `None` where there can be none, for no symbol is
/// named so; and for patterns of which no name of an event can be made, which as in C is not checked.
pub fn probe_point(command: &Command<'_>) -> Option<ProbePoint> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_.:*".contains(c))
    };
    let is_list = |list: &str| {
        list.split(',')
            .all(|item| is_name(item.strip_prefix('!').unwrap_or(item)))
    };
    let is_return = command.kind.is_return();
    match command.target {
        Target::Symbol { symbol: name, .. } | Target::AllNamed(name) if !is_name(name) => None,
        Target::Functions(list) if !is_list(list) => None,
        Target::AllNamed(_) if is_return => Some(ProbePoint::Return),
        Target::AllNamed(_) => Some(ProbePoint::Entry),
        Target::Symbol { offset, .. } if is_return => (offset == 0).then_some(match command.kind {
            ProbeKind::Kretinsn => ProbePoint::ReturnInsn,
            ProbeKind::Path => ProbePoint::Path,
            _ => ProbePoint::Return,
        }),
        Target::Symbol { .. } if matches!(command.kind, ProbeKind::Blocks { .. }) => {
            Some(ProbePoint::Inside)
        }
        Target::Symbol { offset: 0, .. } => Some(ProbePoint::Entry),
        Target::Symbol { .. } => Some(ProbePoint::Inside),
        Target::Address(_) if is_return => Some(ProbePoint::Return),
        Target::Address(_) => Some(ProbePoint::Inside),
        Target::Functions(_) if is_return => Some(ProbePoint::Return),
        Target::Functions(_) => Some(ProbePoint::Entry),
        Target::Tracepoint(_) => Some(ProbePoint::Tracepoint),
        Target::Event { .. } => Some(ProbePoint::Event),
        Target::Memory(Watched {
            place: Place::Symbol { symbol, .. },
            ..
        }) if !is_name(symbol) => None,
        Target::Memory(_) => Some(ProbePoint::Memory),
        Target::Object(target) => {
            let of_changes = target.changes.is_some();
            Some(match is_return {
                true => ProbePoint::ObjectReturn { of_changes },
                false => ProbePoint::Object { of_changes },
            })
        }
        Target::CallTree(target) if !is_name(target.root) => None,
        Target::CallTree(_) => Some(ProbePoint::Return),
    }
}

/// The fields of an event that has one of any name that begins with `f`.
#[derive(Debug)]
struct AnyField;

impl RecordFields for AnyField {
    fn find(&self, name: &str) -> Option<RecordField> {
        let number = RecordValue::Signed(Width::W4);
        let value = match name.len() % 3 {
            0 => number,
            1 => RecordValue::Number(Width::W8),
            _ => RecordValue::RelLoc,
        };
        let offset = u16::try_from(name.len()).ok()?;
        name.starts_with('f')
            .then_some(RecordField { offset, value })
    }
}

/// Reads the arguments and the condition of a command, as the module does. `then` gets the
/// arguments as written, with those expanded that stand for others, and resolved; and the
/// comparisons of the condition.
pub fn read<T>(
    command: &Command<'_>,
    point: ProbePoint,
    then: impl FnOnce(&[WrittenArgument<'_>], &[Argument<'_>], &[Comparison<'_>]) -> T,
) -> Result<T, Error> {
    const OFFSETS: FileOffsets = FileOffsets {
        name: 0x28,
        dentry: 0x48,
    };
    let types = match command.target {
        Target::Address(_) | Target::Memory(_) => TypeInfo::NoFunction(*BTF),
        Target::Symbol { symbol: name, .. }
        | Target::AllNamed(name)
        | Target::Functions(name)
        | Target::CallTree(CallTreeTarget { root: name, .. }) => BTF
            .function(name)
            .map_or(TypeInfo::Unknown(*BTF), TypeInfo::Function),
        Target::Tracepoint(name) => BTF
            .function(name)
            .map_or(TypeInfo::Unknown(*BTF), |function| {
                TypeInfo::Function(function.of_tracepoint())
            }),
        Target::Event { .. } => TypeInfo::Event(&AnyField, Some(*BTF)),
        Target::Object(target) => target
            .structure
            .and_then(|name| BTF.find(name, TypeKind::Struct))
            .map_or(TypeInfo::NoFunction(*BTF), |structure| {
                TypeInfo::Object(*BTF, structure)
            }),
    };
    let context = ParseContext {
        point,
        types,
        modules: &[],
    };
    let written: Vec<_> = command.arguments().collect();
    let expansion = Expansion::new(&written, context, OFFSETS)?;
    let text = expansion.as_ref().map(Expansion::to_string);
    let mut expanded = Vec::new();
    if let (Some(expansion), Some(text)) = (&expansion, &text) {
        expansion.arguments(text, |argument| expanded.push(argument));
    } else {
        expanded.clone_from(&written);
    }
    let arguments = command
        .resolve(&expanded, context, register)?
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(by) = command.by()? {
        let operands: Vec<_> = by.key_operands().collect();
        for key in command.resolve_keys(&by, &operands, &expanded, context, register) {
            assert!((1..=STACK_WORDS).contains(&key?.form().words()));
        }
        let operands: Vec<_> = by.field_operands().collect();
        for value in command.resolve_values(&by, &operands, &expanded, context, register) {
            assert!(!value?.argument.ty.is_text());
        }
    }
    let Some(condition) = command.condition()? else {
        return Ok(then(&expanded, &arguments, &[]));
    };
    let operands: Vec<_> = condition.operands().collect();
    let comparisons = command
        .resolve_condition(&condition, &operands, &expanded, context, register)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(then(&expanded, &arguments, &comparisons))
}

/// The command that an input starts with, up to its newline, with what follows that.
pub fn split(input: &[u8]) -> Option<(Command<'_>, &[u8])> {
    let end = input.iter().position(|&byte| byte == b'\n')?;
    let (line, rest) = input.split_at(end);
    match EventsFile::DynamicEvents.parse(std::str::from_utf8(line).ok()?) {
        Ok(Line::Create(command)) => Some((command, rest.get(1..)?)),
        _ => None,
    }
}

/// The fields of arguments, with their names, and the layout that they make.
pub fn fields(arguments: &[Argument<'_>]) -> (Vec<(String, Field)>, Layout) {
    let mut layout = Layout::new();
    let fields = arguments
        .iter()
        .map(|argument| (argument.name.to_string(), layout.add(argument).unwrap()))
        .collect();
    (fields, layout)
}

/// The location of a string: where it starts in a record, and its length.
pub fn location(record: &[u8], at: usize) -> (usize, usize) {
    let half = |at: usize| usize::from(u16::from_le_bytes([record[at], record[at + 1]]));
    (half(at), half(at + 2))
}
