// SPDX-License-Identifier: GPL-2.0

//! Commands: their syntax and their content.
//!
//! The kernel reports the first error that it finds. Some of its checks need only the text of the
//! command. Others need the running kernel. The two kinds alternate. So the caller parses a command
//! in steps:
//!
//! 1. [`parse()`] parses the kind, MAXACTIVE and the form of the target.
//! 2. The caller checks that the target exists, is unique and, for a return probe, is the entry of
//!    a function.
//! 3. [`Command::name`] parses the names of the group and the event.
//! 4. [`Command::arguments`] parses the arguments. Nothing parses them again: an error in an
//!    argument is a part of its value.
//! 5. [`Expansion::new`] expands meta arguments, such as `$arg*`.
//! 6. [`Command::resolve`] counts the arguments. Its iterator resolves them.
//! 7. [`Command::by`] parses the text after `by`. [`Command::resolve_keys`] and
//!    [`Command::resolve_values`] resolve it.
//! 8. [`Command::condition`] parses the text after `if`, and [`Command::resolve_condition`] finds
//!    its operands.
//! 9. The caller looks up the symbols in the arguments, compares the probe with the other probes of
//!    the event, and registers the probe.
//!
//! The public constructors of [`Error`] make the errors that the caller finds. A [`Command`]
//! borrows the line. A [`ProbeSpec`] owns the content of a command.
//!
//! Step 2 does not check the functions of `f` and the tracepoints. As in C, step 9 checks them.
//!
//! C: `create_or_delete_trace_kprobe()` and `trace_kprobe_create_internal()` in
//! `kernel/trace/trace_kprobe.c`, `trace_fprobe_create_internal()` in
//! `kernel/trace/trace_fprobe.c`, `__trace_eprobe_create()` in `kernel/trace/trace_eprobe.c`,
//! `create_dyn_event()` in `kernel/trace/trace_dynevent.c`.
//!
//! # Examples
//!
//! ```
//! use probe::{
//!     argument::Base,
//!     command::{
//!         parse,
//!         Line,
//!         ParseContext,
//!         ProbePoint,
//!         ProbeSpec,
//!         SpecText,
//!         TargetParts,
//!         TypeInfo, //
//!     }, //
//! };
//!
//! struct Text(String, TargetParts);
//!
//! impl SpecText for Text {
//!     fn text(&self) -> &str {
//!         &self.0
//!     }
//!
//!     fn target(&self) -> TargetParts {
//!         self.1
//!     }
//! }
//!
//! let Ok(Line::Create(command)) = parse("r:mine vfs_read ret=$retval:s64") else {
//!     panic!();
//! };
//! let name = command.name(|_| 0).unwrap();
//! assert_eq!(name.group, "kprobes");
//!
//! let text = |text: std::fmt::Arguments<'_>, target| Ok::<_, ()>(Text(text.to_string(), target));
//! let arguments: Vec<_> = command.arguments().collect();
//! let probe = ProbeSpec::new(&command, &arguments, &name, text).unwrap();
//! assert_eq!(probe.to_string(), "r:kprobes/mine vfs_read ret=$retval:s64");
//! assert_eq!(probe.command().kind, command.kind);
//!
//! let no_registers = |_: &str| None;
//! let context = ParseContext {
//!     point: ProbePoint::Return,
//!     types: TypeInfo::Unsupported,
//!     modules: &[],
//! };
//! for argument in command.resolve(&arguments, context, no_registers).unwrap() {
//!     assert_eq!(argument.unwrap().fetch.base, Base::ReturnValue);
//! }
//!
//! let error = parse("r0 vfs_read").unwrap_err();
//! assert_eq!(
//!     error.entry("r0 vfs_read").to_string(),
//!     "Invalid maxactive number\n  Command: r0 vfs_read\n            ^\n",
//! );
//! ```

mod arguments;
mod base;
mod body;
mod by;
mod call_tree;
mod check_list;
mod condition;
mod create;
mod delete;
mod error;
mod expansion;
mod fetch;
mod function_list;
mod hint;
mod level;
mod masked;
mod members;
mod name;
mod number;
mod object;
mod parse;
mod parse_call_tree;
mod parse_context;
mod parse_object;
mod path;
mod probe_point;
mod resolve_arguments;
mod resolve_base;
mod resolve_by;
mod resolve_condition;
mod resolve_type;
mod spec;
mod symbol;
mod target;
mod target_parts;
mod types;
mod watch;
mod words;

pub use arguments::{
    WrittenArgument,
    MAX_ARGUMENTS, //
};
pub use by::{
    By,
    MAX_KEYS, //
};
pub use call_tree::{
    CallItem,
    CallTreeTarget,
    MAX_CALLS,
    MAX_CALL_DEPTH,
    MAX_STEPS, //
};
pub use check_list::MAX_PATTERNS;
pub use condition::{
    Condition,
    MAX_COMPARISONS, //
};
pub use create::{
    pointed_structure,
    Command,
    MAX_MAXACTIVE, //
};
pub use delete::Delete;
pub use error::{
    Entry,
    Error,
    Normalized, //
};
pub use expansion::{
    Expansion,
    FileOffsets, //
};
pub use function_list::{
    target_functions,
    FunctionItem, //
};
pub use hint::Hint;
pub use masked::{
    has_address,
    Masked, //
};
pub use members::LeftOut;
pub use name::{
    is_valid_event,
    is_valid_event_directory,
    is_valid_field,
    is_valid_group,
    Event,
    EventName,
    MAX_NAME, //
};
pub use object::{
    EventField,
    EventFields,
    ObjectTarget, //
};
pub use parse::{
    parse,
    EventsFile,
    Line, //
};
pub use parse_context::{
    ParseContext,
    RecordFields,
    TypeInfo, //
};
pub use probe_point::ProbePoint;
pub use resolve_arguments::Arguments;
pub use resolve_base::Registers;
pub use spec::{
    ProbeSpec,
    SpecText, //
};
pub use symbol::split_symbol;
pub use target::{
    Access,
    Place,
    ProbeKind,
    Target,
    Watched, //
};
pub use target_parts::{
    NameParts,
    TargetParts, //
};
pub use watch::DEFAULT_LEN;
pub use words::{
    without_comment,
    Position,
    Words, //
};
