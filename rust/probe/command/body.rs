// SPDX-License-Identifier: GPL-2.0

//! The body of an argument: `FETCH[:TYPE]`.
//!
//! C parses a body into fetch instructions, 16 at most, and counts its limits in them. This parser
//! counts the instructions too, but makes none: `step` is the index of the last instruction.
//!
//! C: `traceprobe_parse_probe_arg_body()`, `parse_probe_arg()`, `parse_probe_vars()`,
//! `parse_btf_arg()` and `finalize_fetch_insn()` in `kernel/trace/trace_probe.c`.

use super::{
    error::ArgumentError,
    number,
    parse_context::{
        ParseContext, //
        ProbePoint,
        RecordFields,
        TypeInfo,
    },
    types::{
        parse_bits,
        SplitBody,
        TypeSpec, //
    },
};
use crate::{
    arch::Register,
    argument::{
        Base,
        Deref,
        Derefs,
        Fetch,
        MAX_EVENT_SIZE, //
    },
    btf,
    error::{
        Errno,
        ErrorKind, //
    },
    types::{
        FetchType,
        Space,
        Style, //
    },
};

/// The longest body, in bytes.
const MAX_BODY: usize = 63;

/// The index of the last instruction but one. The last instruction is the end.
const LAST_STEP: usize = 14;

/// The most dereferences of a body: each takes at least 4 bytes, `+0()`.
const MAX_NESTING: usize = MAX_BODY / 4;

/// The words in a kernel stack, which C takes as the limit of `$stackN` and of `$argN`.
const STACK_WORDS: u16 = 16384 / 8;

/// Finds a register by its name, which comes without the `%`.
///
/// C: `regs_query_register_offset()`.
pub type Registers = fn(&str) -> Option<Register>;

/// A body, parsed.
pub(super) struct ParsedBody<'a> {
    pub(super) fetch: Fetch<'a>,
    pub(super) ty: FetchType,
    pub(super) count: Option<core::num::NonZeroU8>,
}

/// Parses the bodies of the arguments of a command, one after the other.
pub(super) struct BodyParser<'b> {
    /// The probe point, and the types of the variables there.
    pub(super) context: ParseContext<'b>,
    /// The registers, if the probe saves all of them.
    pub(super) registers: Option<Registers>,
    /// The bytes of the record that the arguments so far take.
    pub(super) size: usize,
}

/// The innermost value of a fetch, parsed.
struct ParsedBase<'a, 'b> {
    base: Base<'a>,
    /// Whether a dereference belongs to the base: `@`.
    deref: bool,
    /// The index of the last instruction.
    step: usize,
    /// The fields that follow a variable.
    fields: Option<btf::Fields<'b, 'a>>,
    /// The byte of the word where the variable starts.
    at: usize,
}

/// A fetch, parsed, and the facts that decide which types it can have.
struct ParsedFetch<'a, 'b> {
    fetch: Fetch<'a>,
    /// The index of the last instruction.
    step: usize,
    /// The value in BTF, if the fetch is a variable with its fields.
    value: Option<btf::Value<'b>>,
    /// The byte of the word where C reports errors of the whole fetch: the start of the text within
    /// the outermost dereference.
    at: usize,
}

/// Whether the argument `word` needs [`TypeInfo`].
pub(super) fn needs_types(word: &str) -> bool {
    let body = word.split_once('=').map_or(word, |(_, body)| body);
    // What is within all dereferences.
    let mut base = body;
    while base.starts_with(['+', '-']) {
        base = base.split_once('(').map_or("", |(_, inner)| inner);
    }
    word.starts_with("$arg")
        || base.starts_with("$retval")
        || base.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '(')
}

impl<'b> BodyParser<'b> {
    /// Reads `body`, which starts at byte `at` of its word.
    pub(super) fn body<'a>(
        &mut self,
        body: &'a str,
        at: usize,
    ) -> Result<ParsedBody<'a>, ArgumentError> {
        if body.len() > MAX_BODY {
            return Err(ArgumentError::new(ErrorKind::ArgTooLong, at, Errno::E2BIG));
        }
        if body.is_empty() {
            return Err(ArgumentError::invalid(ErrorKind::NoArgBody, at));
        }
        let is_event = matches!(self.context.types, TypeInfo::Event(..));
        let mut split = SplitBody::parse(body, at, is_event)?;
        let mut parsed = self.fetch(split.value, at)?;
        if let Some(value) = parsed.value {
            self.apply_btf_type(&value, &mut split, &mut parsed)?;
        }

        let size = match split.ty {
            TypeSpec::Explicit(ty) | TypeSpec::Default(ty) => ty.size(),
            TypeSpec::Bitfield(width, _) => width.bytes(),
        };
        let count = split.count.map_or(1, |count| usize::from(count.get()));
        self.size = self.size.saturating_add(size.saturating_mul(count));
        if self.size > MAX_EVENT_SIZE {
            return Err(ArgumentError::new(
                ErrorKind::EventTooBig,
                parsed.at,
                Errno::E2BIG,
            ));
        }

        Ok(ParsedBody {
            ty: resolve_type(&split, &parsed)?,
            fetch: parsed.fetch,
            count: split.count,
        })
    }

    /// Gives an argument without a type the type of its value in BTF. Adds the dereference of a
    /// pointer to a string.
    ///
    /// C: `find_fetch_type_from_btf_type()`, `check_prepare_btf_string_fetch()`.
    fn apply_btf_type(
        &self,
        value: &btf::Value<'b>,
        split: &mut SplitBody<'_>,
        parsed: &mut ParsedFetch<'_, 'b>,
    ) -> Result<(), ArgumentError> {
        let wrong = |kind| ArgumentError::invalid(kind, parsed.at);
        match split.ty {
            TypeSpec::Default(_) => {
                let ty = value.fetch_type().ok_or(wrong(ErrorKind::BadBitfield))?;
                split.ty = TypeSpec::Default(ty);
            }
            TypeSpec::Explicit(FetchType::String(space)) => {
                let source = self
                    .context
                    .types
                    .btf()
                    .and_then(|btf| value.string_source(&btf));
                match source.ok_or(wrong(ErrorKind::BadType4str))? {
                    btf::StringSource::Array => {}
                    btf::StringSource::Pointer => {
                        let full =
                            ArgumentError::new(ErrorKind::TooManyOps, parsed.at, Errno::E2BIG);
                        let deref = Deref { space, offset: 0 };
                        parsed.push(deref, full)?;
                    }
                }
            }
            TypeSpec::Explicit(_) | TypeSpec::Bitfield(..) => {}
        }
        Ok(())
    }

    /// Reads a value: dereferences around a base.
    // Inlined, it would double the frame of its caller, which is near the kernel's 1 KiB.
    #[inline(never)]
    fn fetch<'a>(&self, text: &'a str, start: usize) -> Result<ParsedFetch<'a, 'b>, ArgumentError> {
        let mut around = [(0usize, Space::Kernel, 0i32); MAX_NESTING];
        let mut depth = 0usize;
        let (mut text, mut at) = (text, start);
        while text.starts_with(['+', '-']) {
            let open = OuterDeref::parse(text, at)?;
            let Some(slot) = around.get_mut(depth) else {
                return Err(ArgumentError::invalid(ErrorKind::TooManyOps, at));
            };
            *slot = (open.at, open.space, open.offset);
            depth = depth.saturating_add(1);
            (text, at) = (open.inner, open.at);
        }

        let start = self.base(text, at)?;
        let mut parsed = ParsedFetch {
            fetch: Fetch {
                base: start.base,
                derefs: Derefs::new(),
            },
            step: start.step,
            value: None,
            at: match around.first() {
                Some((at, _, _)) if depth > 0 => *at,
                _ => at,
            },
        };
        if start.deref {
            let deref = Deref {
                space: Space::Kernel,
                offset: 0,
            };
            // It has its step.
            let full = ArgumentError::invalid(ErrorKind::TooManyOps, at);
            parsed.fetch.derefs.push(deref).map_err(|_| full)?;
        }
        if let Some(fields) = start.fields {
            parsed.follow(fields, start.at)?;
        }
        for (at, space, offset) in around.get(..depth).unwrap_or(&[]).iter().rev().copied() {
            let cannot = match start.base {
                Base::Comm | Base::Text(_) => Some(ErrorKind::CommCantDeref),
                Base::Elapsed => Some(ErrorKind::ElapsedCantDeref),
                _ => None,
            };
            if let Some(kind) = cannot.filter(|_| parsed.fetch.derefs.as_slice().is_empty()) {
                return Err(ArgumentError::invalid(kind, at));
            }
            let full = ArgumentError::invalid(ErrorKind::TooManyOps, at);
            parsed.push(Deref { space, offset }, full)?;
            // What is there has no type.
            parsed.value = None;
        }
        Ok(parsed)
    }

    /// Reads what is within all dereferences.
    fn base<'a>(&self, text: &'a str, at: usize) -> Result<ParsedBase<'a, 'b>, ArgumentError> {
        let rest = text.get(1..).unwrap_or("");
        let base = match text.bytes().next() {
            Some(b'$') => match self.context.types {
                TypeInfo::Event(fields, _) => field(fields, rest, at)?,
                _ if rest.starts_with("retval") => return self.btf_variable(text, at),
                _ => self.variable(rest, at)?,
            },
            Some(b'%') => {
                let registers = self
                    .registers
                    .ok_or(ArgumentError::invalid(ErrorKind::BadVar, at))?;
                let register = registers(rest);
                Base::Register(register.ok_or(ArgumentError::invalid(ErrorKind::BadRegName, at))?)
            }
            Some(b'@') => return memory(rest, at),
            Some(b'\\') => immediate(rest, at.saturating_add(1))?,
            Some(b'(') => return self.cast(text, at),
            Some(b'_' | b'a'..=b'z' | b'A'..=b'Z') => return self.btf_variable(text, at),
            _ => return Err(ArgumentError::invalid(ErrorKind::BadFetchArg, at)),
        };
        Ok(ParsedBase::new(base, at))
    }

    /// Reads `$retval` or the name of a parameter, with the fields that follow.
    fn btf_variable<'a>(
        &self,
        text: &'a str,
        at: usize,
    ) -> Result<ParsedBase<'a, 'b>, ArgumentError> {
        let is_variable = text.starts_with('$');
        match (self.context.point, self.context.types) {
            (ProbePoint::Entry | ProbePoint::Inside | ProbePoint::Tracepoint, _) if is_variable => {
                return Err(ArgumentError::invalid(ErrorKind::RetvalOnProbe, at));
            }
            (ProbePoint::Inside | ProbePoint::Event, _) => {
                return Err(ArgumentError::invalid(ErrorKind::NosupBtfarg, at));
            }
            (_, TypeInfo::Unsupported) if text == RETVAL => {
                return Ok(ParsedBase::new(Base::ReturnValue, at));
            }
            (_, TypeInfo::Unsupported) => return Err(no_btf(at)),
            _ => {}
        }
        let wrong = |error: btf::Error| {
            ArgumentError::new(error.kind, at.saturating_add(error.at), error.errno)
        };
        let variable = btf::Variable::parse(text).map_err(wrong)?;
        let function = self.context.types.function();
        let function = function.as_ref();
        let (base, ty) = if variable.name == RETVAL {
            let ty = variable.returned(function).map_err(wrong)?;
            (Base::ReturnValue, ty)
        } else {
            let param = variable.param(function).map_err(wrong)?;
            let base = match self.context.point {
                ProbePoint::Return => Base::EntryArgument(param.position),
                ProbePoint::ReturnInsn => {
                    return Err(ArgumentError::invalid(ErrorKind::EntryOnRetinsn, at))
                }
                ProbePoint::Entry
                | ProbePoint::Inside
                | ProbePoint::Tracepoint
                | ProbePoint::Event => Base::Argument(param.position),
            };
            (base, Some(param.ty))
        };
        let fields = match (function, ty) {
            (Some(function), Some(ty)) => Some(variable.fields(function.btf(), ty).map_err(wrong)?),
            _ => None,
        };
        Ok(ParsedBase {
            fields,
            ..ParsedBase::new(base, at)
        })
    }

    /// Reads `(STRUCTURE)FIELD` of an event, with the fields that follow.
    ///
    /// C: `handle_typecast()`, which looks for structures in modules, too.
    fn cast<'a>(&self, text: &'a str, at: usize) -> Result<ParsedBase<'a, 'b>, ArgumentError> {
        let (fields, btf) = match self.context.types {
            TypeInfo::Event(fields, Some(btf)) => (fields, btf),
            TypeInfo::Event(_, None) | TypeInfo::Unsupported => return Err(no_btf(at)),
            _ => return Err(ArgumentError::invalid(ErrorKind::TypecastNotEvent, at)),
        };
        let Some((structure, text)) = text.split_once(')') else {
            let end = at.saturating_add(text.len());
            return Err(ArgumentError::invalid(ErrorKind::DerefOpenBrace, end));
        };
        let name_at = at.saturating_add(1);
        let id = structure
            .get(1..)
            .and_then(|name| btf.find(name, btf::TypeKind::Struct))
            .ok_or(ArgumentError::invalid(ErrorKind::NoPtrStrct, name_at))?;
        let at = at.saturating_add(structure.len()).saturating_add(1);
        let wrong = |error: btf::Error| {
            ArgumentError::new(error.kind, at.saturating_add(error.at), error.errno)
        };
        let variable = btf::Variable::parse(text).map_err(wrong)?;
        let field = fields
            .find(variable.name)
            .ok_or(ArgumentError::invalid(ErrorKind::BadAttachArg, at))?;
        Ok(ParsedBase {
            fields: Some(variable.fields_of(&btf, id).map_err(wrong)?),
            ..ParsedBase::new(Base::Field(field), at)
        })
    }

    /// Reads a variable, without its `$`, which is at byte `at`.
    fn variable<'a>(&self, name: &'a str, at: usize) -> Result<Base<'a>, ArgumentError> {
        let bad = ArgumentError::invalid(ErrorKind::BadVar, at);
        if let Some(index) = name.strip_prefix("stack") {
            if index.is_empty() {
                return Ok(Base::StackPointer);
            }
            // C reads a sign in `$argN` but not here.
            if !index.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(bad);
            }
            let index = number::unsigned(index, 10).map_err(|_| bad)?;
            return match u16::try_from(index) {
                Ok(index) if index <= STACK_WORDS => Ok(Base::Stack(index)),
                _ => Err(ArgumentError::invalid(ErrorKind::BadStackNum, at)),
            };
        }
        if matches!(name, "comm" | "COMM") {
            return Ok(Base::Comm);
        }
        if name == "elapsed" {
            return match self.context.point {
                ProbePoint::Return => Ok(Base::Elapsed),
                ProbePoint::ReturnInsn => {
                    Err(ArgumentError::invalid(ErrorKind::EntryOnRetinsn, at))
                }
                ProbePoint::Entry
                | ProbePoint::Inside
                | ProbePoint::Tracepoint
                | ProbePoint::Event => Err(ArgumentError::invalid(ErrorKind::ElapsedOnProbe, at)),
            };
        }
        if name == "exit" {
            return match self.context.point {
                ProbePoint::ReturnInsn => Ok(Base::Exit),
                _ => Err(ArgumentError::invalid(ErrorKind::ExitOnProbe, at)),
            };
        }
        let number = name.strip_prefix("arg").ok_or(bad)?;
        let number = number::unsigned(number, 10).map_err(|_| bad)?;
        let index = u16::try_from(number)
            .ok()
            .filter(|number| *number <= STACK_WORDS)
            .and_then(|number| number.checked_sub(1))
            .ok_or(ArgumentError::invalid(ErrorKind::BadArgNum, at))?;
        match self.context.point {
            ProbePoint::Entry => Ok(Base::Argument(index)),
            ProbePoint::Tracepoint => Ok(Base::Argument(index.saturating_add(1))),
            ProbePoint::Inside | ProbePoint::Event => {
                Err(ArgumentError::invalid(ErrorKind::NofentryArgs, at))
            }
            ProbePoint::Return => Ok(Base::EntryArgument(index)),
            ProbePoint::ReturnInsn => Err(ArgumentError::invalid(ErrorKind::EntryOnRetinsn, at)),
        }
    }
}

/// Reads `$FIELD`, without its `$`, which is at byte `at`. A field can have the name of a variable.
///
/// C: `parse_trace_event()`.
fn field<'a>(fields: &dyn RecordFields, name: &str, at: usize) -> Result<Base<'a>, ArgumentError> {
    match (fields.find(name), name) {
        (Some(field), _) => Ok(Base::Field(field)),
        (None, "comm" | "COMM") => Ok(Base::Comm),
        (None, _) => Err(ArgumentError::invalid(ErrorKind::BadVar, at)),
    }
}

/// The variable that BTF gives a type.
const RETVAL: &str = "$retval";

/// What takes BTF, where the kernel has none.
const fn no_btf(at: usize) -> ArgumentError {
    ArgumentError::new(ErrorKind::NosupBtfarg, at, Errno::EOPNOTSUPP)
}

impl<'a> ParsedBase<'a, '_> {
    /// A value by itself.
    const fn new(base: Base<'a>, at: usize) -> Self {
        Self {
            base,
            deref: false,
            step: 0,
            fields: None,
            at,
        }
    }
}

impl<'a, 'b> ParsedFetch<'a, 'b> {
    /// Adds a dereference on the outside.
    fn push(&mut self, deref: Deref, full: ArgumentError) -> Result<(), ArgumentError> {
        self.step = self.step.saturating_add(1);
        if self.step > LAST_STEP {
            return Err(full);
        }
        self.fetch.derefs.push(deref).map_err(|_| full)
    }

    /// Follows the fields of the variable that starts at byte `at` of the word.
    ///
    /// C: `parse_btf_field()`.
    #[inline(never)]
    fn follow(&mut self, fields: btf::Fields<'b, 'a>, at: usize) -> Result<(), ArgumentError> {
        self.value = Some(fields.start());
        for field in fields {
            let field = field.map_err(|error| {
                ArgumentError::new(error.kind, at.saturating_add(error.at), error.errno)
            })?;
            let deref = Deref {
                space: Space::Kernel,
                offset: field.offset,
            };
            let full = ArgumentError::invalid(ErrorKind::TooManyOps, at.saturating_add(field.at));
            self.push(deref, full)?;
            self.value = Some(field.value);
        }
        Ok(())
    }
}

/// The outermost dereference of a text, `+|-[u]OFF(…)`.
struct OuterDeref<'a> {
    space: Space,
    offset: i32,
    /// The text between the braces.
    inner: &'a str,
    /// The byte of the word where `inner` starts.
    at: usize,
}

impl<'a> OuterDeref<'a> {
    /// Parses the outermost dereference of `text`. As in C, the text behind its brace has no
    /// meaning.
    fn parse(text: &'a str, at: usize) -> Result<Self, ArgumentError> {
        let Some((head, rest)) = text.split_once('(') else {
            return Err(ArgumentError::invalid(ErrorKind::DerefNeedBrace, at));
        };
        let (sign, digits) = head.split_at_checked(1).unwrap_or((head, ""));
        let (space, digits) = match digits.strip_prefix('u') {
            Some(digits) => (Space::User, digits),
            None => (Space::Kernel, digits),
        };
        let offset = match sign {
            "-" => number::negative(digits),
            _ => number::signed(digits),
        }
        .map_err(|errno| ArgumentError::new(ErrorKind::BadDerefOffs, at, errno))?;

        let inner_at = at.saturating_add(head.len()).saturating_add(1);
        let Some((inner, _)) = rest.rsplit_once(')') else {
            let end = inner_at.saturating_add(rest.len());
            return Err(ArgumentError::invalid(ErrorKind::DerefOpenBrace, end));
        };
        Ok(Self {
            space,
            // C keeps the low half as well.
            offset: offset as i32,
            inner,
            at: inner_at,
        })
    }
}

/// `@ADDR` or `@SYM[+|-OFF]`, without the `@`, which is at byte `at`.
fn memory<'a, 'b>(text: &'a str, at: usize) -> Result<ParsedBase<'a, 'b>, ArgumentError> {
    let (base, step) = match text.bytes().next() {
        Some(b'0'..=b'9') => {
            let address = number::unsigned(text, 0)
                .map_err(|errno| ArgumentError::new(ErrorKind::BadMemAddr, at, errno))?;
            (Base::Immediate(address), 1)
        }
        Some(b'+') => return Err(ArgumentError::invalid(ErrorKind::FileOnKprobe, at)),
        // C keeps its name in a step of its own.
        _ => (Base::Symbol(text), 2),
    };
    Ok(ParsedBase {
        deref: true,
        step,
        ..ParsedBase::new(base, at)
    })
}

/// `\IMM` or `\"TEXT"`, without the backslash; it starts at byte `at`.
fn immediate(text: &str, at: usize) -> Result<Base<'_>, ArgumentError> {
    if let Some(text) = text.strip_prefix('"') {
        let end = at.saturating_add(1).saturating_add(text.len());
        return match text.strip_suffix('"') {
            Some(text) => Ok(Base::Text(text)),
            None => Err(ArgumentError::invalid(ErrorKind::ImmstrNoClose, end)),
        };
    }
    let rest = text.get(1..).unwrap_or("");
    let value = match text.bytes().next() {
        Some(b'0'..=b'9') => number::unsigned(text, 0),
        Some(b'-') => number::signed(text).map(|value| value as u64),
        Some(b'+') => number::signed(rest).map(|value| value as u64),
        _ => Err(Errno::EINVAL),
    };
    let value = value.map_err(|errno| ArgumentError::new(ErrorKind::BadImm, at, errno))?;
    Ok(Base::Immediate(value))
}

/// Resolves the type of an argument. Fails if its value cannot have this type.
fn resolve_type(
    split: &SplitBody<'_>,
    parsed: &ParsedFetch<'_, '_>,
) -> Result<FetchType, ArgumentError> {
    let outermost = parsed
        .fetch
        .derefs
        .as_slice()
        .last()
        .map(|deref| deref.space);
    let bad_string = ArgumentError::invalid(ErrorKind::BadString, split.at);
    let mut step = parsed.step;
    let mut next = || {
        step = step.saturating_add(1);
        step <= LAST_STEP
    };

    let ty = match split.ty {
        TypeSpec::Explicit(ty @ FetchType::String(_))
        | TypeSpec::Default(ty @ FetchType::String(_)) => {
            let is_address = matches!(
                parsed.fetch.base,
                Base::Immediate(_) | Base::Comm | Base::Text(_) | Base::Field(_)
            );
            match outermost {
                // An array is one of pointers: its strings are read by a step of their own.
                Some(_) if split.count.is_some() => {
                    if !next() {
                        return Err(ArgumentError::invalid(ErrorKind::TooManyOps, parsed.at));
                    }
                }
                // The string is what the dereference reads.
                Some(_) => {}
                None if is_address && next() => {}
                None => return Err(bad_string),
            }
            ty
        }
        TypeSpec::Explicit(FetchType::Symstr) => {
            // As in C, an entry argument cannot be a symbol.
            let is_value = match (outermost, parsed.fetch.base) {
                (Some(space), _) => space == Space::Kernel,
                (None, Base::Register(_) | Base::Stack(_)) => true,
                (None, Base::Argument(_) | Base::ReturnValue | Base::Field(_)) => true,
                (None, _) => false,
            };
            if !is_value {
                return Err(ArgumentError::invalid(ErrorKind::BadSymstring, split.at));
            }
            if !next() {
                return Err(ArgumentError::invalid(ErrorKind::TooManyOps, parsed.at));
            }
            FetchType::Symstr
        }
        TypeSpec::Explicit(ty) | TypeSpec::Default(ty) => {
            if outermost.is_none() {
                next();
            }
            // The bits of a field.
            if matches!(ty, FetchType::Bitfield(..)) && !next() {
                return Err(ArgumentError::invalid(ErrorKind::TooManyOps, parsed.at));
            }
            ty
        }
        TypeSpec::Bitfield(width, text) => {
            if outermost.is_none() {
                next();
            }
            // C calls it a wrong bitfield as well where there is no step left for it.
            parse_bits(text, width)
                .filter(|_| next())
                .map(|bits| FetchType::Bitfield(width, Style::Unsigned, bits))
                .ok_or(ArgumentError::invalid(ErrorKind::BadBitfield, split.at))?
        }
    };

    if split.count.is_some() {
        // C has no loop over numbers of user space, nor over symbols.
        let can_loop = match ty {
            FetchType::String(_) => true,
            FetchType::Symstr => false,
            FetchType::Number(..) | FetchType::Bitfield(..) => outermost == Some(Space::Kernel),
        };
        if !can_loop {
            return Err(bad_string);
        }
        if !next() {
            return Err(ArgumentError::new(
                ErrorKind::TooManyOps,
                parsed.at,
                Errno::E2BIG,
            ));
        }
    }
    Ok(ty)
}
