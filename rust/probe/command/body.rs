// SPDX-License-Identifier: GPL-2.0

//! The body of an argument: `FETCH[:TYPE]`.
//!
//! C turns it into instructions while it reads it, 16 at most, and so counts its limits in those.
//! They are counted here too, without being made: `step` is the index that the last of them has.
//!
//! C: `traceprobe_parse_probe_arg_body()`, `parse_probe_arg()`, `parse_probe_vars()`,
//! `parse_btf_arg()` and `finalize_fetch_insn()` in `kernel/trace/trace_probe.c`.

use super::error::ArgumentError;
use super::number;
use super::site::Place;
use super::site::RecordFields;
use super::site::Signature;
use super::site::Site;
use super::types::parse_bits;
use super::types::Typed;
use super::types::Written;
use crate::arch::Register;
use crate::argument::Base;
use crate::argument::Deref;
use crate::argument::Derefs;
use crate::argument::Fetch;
use crate::argument::MAX_EVENT_SIZE;
use crate::btf;
use crate::error::Errno;
use crate::error::ErrorKind;
use crate::types::FetchType;
use crate::types::Space;
use crate::types::Style;

/// The longest body, in bytes.
const MAX_BODY: usize = 63;

/// The last step that can do something; the one behind it is the end.
const LAST_STEP: usize = 14;

/// As many dereferences as fit in a body: each takes `+0()`, 4 bytes.
const MAX_NESTING: usize = MAX_BODY / 4;

/// The words in a kernel stack, which C takes as the limit of `$stackN` and of `$argN`.
const STACK_WORDS: u16 = 16384 / 8;

/// Finds a register by its name, which comes without the `%`.
///
/// C: `regs_query_register_offset()`.
pub type Registers = fn(&str) -> Option<Register>;

/// What a body says.
pub(super) struct Body<'a> {
    pub(super) fetch: Fetch<'a>,
    pub(super) ty: FetchType,
    pub(super) count: Option<core::num::NonZeroU8>,
}

/// What a body is read with.
pub(super) struct Reader<'b> {
    pub(super) site: Site<'b>,
    /// Where there are all of them.
    pub(super) registers: Option<Registers>,
    /// The bytes of the record that the arguments read so far take.
    pub(super) size: usize,
}

/// A base, with the dereference that `@` is, or the fields of a variable.
struct Start<'a, 'b> {
    base: Base<'a>,
    deref: bool,
    step: usize,
    fields: Option<btf::Fields<'b, 'a>>,
    /// Where the variable is in the word.
    at: usize,
}

/// A fetch, and what is needed to judge it with its type.
struct Read<'a, 'b> {
    fetch: Fetch<'a>,
    step: usize,
    /// What BTF says of the value, where it is a variable with its fields.
    value: Option<btf::Value<'b>>,
    /// Where C puts errors that concern it as a whole: within its outermost dereference.
    at: usize,
}

/// Whether what BTF says of the function matters to the argument `word`.
pub(super) fn needs_signature(word: &str) -> bool {
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

impl<'b> Reader<'b> {
    /// Reads `body`, which starts at byte `at` of its word.
    pub(super) fn body<'a>(&mut self, body: &'a str, at: usize) -> Result<Body<'a>, ArgumentError> {
        if body.len() > MAX_BODY {
            return Err(ArgumentError::new(ErrorKind::ArgTooLong, at, Errno::E2BIG));
        }
        if body.is_empty() {
            return Err(ArgumentError::invalid(ErrorKind::NoArgBody, at));
        }
        let is_event = matches!(self.site.signature, Signature::Event(..));
        let mut typed = Typed::parse(body, at, is_event)?;
        let mut read = self.fetch(typed.value, at)?;
        if let Some(value) = read.value {
            self.apply(&value, &mut typed, &mut read)?;
        }

        let size = match typed.ty {
            Written::Type(ty) | Written::Default(ty) => ty.size(),
            Written::Bitfield(width, _) => width.bytes(),
        };
        let count = typed.count.map_or(1, |count| usize::from(count.get()));
        self.size = self.size.saturating_add(size.saturating_mul(count));
        if self.size > MAX_EVENT_SIZE {
            return Err(ArgumentError::new(
                ErrorKind::EventTooBig,
                read.at,
                Errno::E2BIG,
            ));
        }

        Ok(Body {
            ty: judge(&typed, &read)?,
            fetch: read.fetch,
            count: typed.count,
        })
    }

    /// Gives an argument the type of its value where it says none; a string is looked for behind a
    /// pointer.
    ///
    /// C: `find_fetch_type_from_btf_type()`, `check_prepare_btf_string_fetch()`.
    fn apply(
        &self,
        value: &btf::Value<'b>,
        typed: &mut Typed<'_>,
        read: &mut Read<'_, 'b>,
    ) -> Result<(), ArgumentError> {
        let wrong = |kind| ArgumentError::invalid(kind, read.at);
        match typed.ty {
            Written::Default(_) => {
                let ty = value.fetch_type().ok_or(wrong(ErrorKind::BadBitfield))?;
                typed.ty = Written::Default(ty);
            }
            Written::Type(FetchType::String(space)) => {
                let text = self.site.signature.btf().and_then(|btf| value.text(&btf));
                match text.ok_or(wrong(ErrorKind::BadType4str))? {
                    btf::Text::Here => {}
                    btf::Text::Behind => {
                        let full = ArgumentError::new(ErrorKind::TooManyOps, read.at, Errno::E2BIG);
                        let deref = Deref { space, offset: 0 };
                        read.push(deref, full)?;
                    }
                }
            }
            Written::Type(_) | Written::Bitfield(..) => {}
        }
        Ok(())
    }

    /// Reads a value: dereferences around a base.
    // Inlined, it would double the frame of its caller, which is near the kernel's 1 KiB.
    #[inline(never)]
    fn fetch<'a>(&self, text: &'a str, start: usize) -> Result<Read<'a, 'b>, ArgumentError> {
        let mut around = [(0usize, Space::Kernel, 0i32); MAX_NESTING];
        let mut depth = 0usize;
        let (mut text, mut at) = (text, start);
        while text.starts_with(['+', '-']) {
            let open = Open::parse(text, at)?;
            let Some(slot) = around.get_mut(depth) else {
                return Err(ArgumentError::invalid(ErrorKind::TooManyOps, at));
            };
            *slot = (open.at, open.space, open.offset);
            depth = depth.saturating_add(1);
            (text, at) = (open.inner, open.at);
        }

        let start = self.base(text, at)?;
        let mut read = Read {
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
            read.fetch.derefs.push(deref).map_err(|_| full)?;
        }
        if let Some(fields) = start.fields {
            read.follow(fields, start.at)?;
        }
        for (at, space, offset) in around.get(..depth).unwrap_or(&[]).iter().rev().copied() {
            let cannot = match start.base {
                Base::Comm | Base::Text(_) => Some(ErrorKind::CommCantDeref),
                Base::Elapsed => Some(ErrorKind::ElapsedCantDeref),
                _ => None,
            };
            if let Some(kind) = cannot.filter(|_| read.fetch.derefs.as_slice().is_empty()) {
                return Err(ArgumentError::invalid(kind, at));
            }
            let full = ArgumentError::invalid(ErrorKind::TooManyOps, at);
            read.push(Deref { space, offset }, full)?;
            // What is there has no type.
            read.value = None;
        }
        Ok(read)
    }

    /// Reads what is within all dereferences.
    fn base<'a>(&self, text: &'a str, at: usize) -> Result<Start<'a, 'b>, ArgumentError> {
        let rest = text.get(1..).unwrap_or("");
        let base = match text.bytes().next() {
            Some(b'$') => match self.site.signature {
                Signature::Event(fields, _) => field(fields, rest, at)?,
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
        Ok(Start::new(base, at))
    }

    /// Reads `$retval` or the name of a parameter, with the fields that follow.
    fn btf_variable<'a>(&self, text: &'a str, at: usize) -> Result<Start<'a, 'b>, ArgumentError> {
        let is_variable = text.starts_with('$');
        match (self.site.place, self.site.signature) {
            (Place::Entry | Place::Inside | Place::Tracepoint, _) if is_variable => {
                return Err(ArgumentError::invalid(ErrorKind::RetvalOnProbe, at));
            }
            (Place::Inside | Place::Event, _) => {
                return Err(ArgumentError::invalid(ErrorKind::NosupBtfarg, at));
            }
            (_, Signature::Unsupported) if text == RETVAL => {
                return Ok(Start::new(Base::ReturnValue, at));
            }
            (_, Signature::Unsupported) => return Err(no_btf(at)),
            _ => {}
        }
        let wrong = |error: btf::Error| {
            ArgumentError::new(error.kind, at.saturating_add(error.at), error.errno)
        };
        let variable = btf::Variable::parse(text).map_err(wrong)?;
        let function = self.site.signature.function();
        let function = function.as_ref();
        let (base, ty) = if variable.name == RETVAL {
            let ty = variable.returned(function).map_err(wrong)?;
            (Base::ReturnValue, ty)
        } else {
            let param = variable.param(function).map_err(wrong)?;
            let base = match self.site.place {
                Place::Return => Base::EntryArgument(param.position),
                Place::ReturnInsn => {
                    return Err(ArgumentError::invalid(ErrorKind::EntryOnRetinsn, at))
                }
                Place::Entry | Place::Inside | Place::Tracepoint | Place::Event => {
                    Base::Argument(param.position)
                }
            };
            (base, Some(param.ty))
        };
        let fields = match (function, ty) {
            (Some(function), Some(ty)) => Some(variable.fields(function.btf(), ty).map_err(wrong)?),
            _ => None,
        };
        Ok(Start {
            fields,
            ..Start::new(base, at)
        })
    }

    /// Reads `(STRUCTURE)FIELD` of an event, with the fields that follow.
    ///
    /// C: `handle_typecast()`, which looks for structures in modules, too.
    fn cast<'a>(&self, text: &'a str, at: usize) -> Result<Start<'a, 'b>, ArgumentError> {
        let (fields, btf) = match self.site.signature {
            Signature::Event(fields, Some(btf)) => (fields, btf),
            Signature::Event(_, None) | Signature::Unsupported => return Err(no_btf(at)),
            _ => return Err(ArgumentError::invalid(ErrorKind::TypecastNotEvent, at)),
        };
        let Some((structure, text)) = text.split_once(')') else {
            let end = at.saturating_add(text.len());
            return Err(ArgumentError::invalid(ErrorKind::DerefOpenBrace, end));
        };
        let name_at = at.saturating_add(1);
        let id = structure
            .get(1..)
            .and_then(|name| btf.find(name, btf::Kind::Struct))
            .ok_or(ArgumentError::invalid(ErrorKind::NoPtrStrct, name_at))?;
        let at = at.saturating_add(structure.len()).saturating_add(1);
        let wrong = |error: btf::Error| {
            ArgumentError::new(error.kind, at.saturating_add(error.at), error.errno)
        };
        let variable = btf::Variable::parse(text).map_err(wrong)?;
        let field = fields
            .find(variable.name)
            .ok_or(ArgumentError::invalid(ErrorKind::BadAttachArg, at))?;
        Ok(Start {
            fields: Some(variable.fields_of(&btf, id).map_err(wrong)?),
            ..Start::new(Base::Field(field), at)
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
            return match self.site.place {
                Place::Return => Ok(Base::Elapsed),
                Place::ReturnInsn => Err(ArgumentError::invalid(ErrorKind::EntryOnRetinsn, at)),
                Place::Entry | Place::Inside | Place::Tracepoint | Place::Event => {
                    Err(ArgumentError::invalid(ErrorKind::ElapsedOnProbe, at))
                }
            };
        }
        if name == "exit" {
            return match self.site.place {
                Place::ReturnInsn => Ok(Base::Exit),
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
        match self.site.place {
            Place::Entry => Ok(Base::Argument(index)),
            Place::Tracepoint => Ok(Base::Argument(index.saturating_add(1))),
            Place::Inside | Place::Event => {
                Err(ArgumentError::invalid(ErrorKind::NofentryArgs, at))
            }
            Place::Return => Ok(Base::EntryArgument(index)),
            Place::ReturnInsn => Err(ArgumentError::invalid(ErrorKind::EntryOnRetinsn, at)),
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

impl<'a> Start<'a, '_> {
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

impl<'a, 'b> Read<'a, 'b> {
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

/// One `+|-[u]OFF(…)`.
struct Open<'a> {
    space: Space,
    offset: i32,
    inner: &'a str,
    /// Where `inner` is in the word.
    at: usize,
}

impl<'a> Open<'a> {
    /// Takes the outermost dereference off `text`. As in C, what follows its brace means nothing.
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
fn memory<'a, 'b>(text: &'a str, at: usize) -> Result<Start<'a, 'b>, ArgumentError> {
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
    Ok(Start {
        deref: true,
        step,
        ..Start::new(base, at)
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

/// The type that a value gets, if it can.
fn judge(typed: &Typed<'_>, read: &Read<'_, '_>) -> Result<FetchType, ArgumentError> {
    let outermost = read.fetch.derefs.as_slice().last().map(|deref| deref.space);
    let bad_string = ArgumentError::invalid(ErrorKind::BadString, typed.at);
    let mut step = read.step;
    let mut next = || {
        step = step.saturating_add(1);
        step <= LAST_STEP
    };

    let ty = match typed.ty {
        Written::Type(ty @ FetchType::String(_)) | Written::Default(ty @ FetchType::String(_)) => {
            let is_address = matches!(
                read.fetch.base,
                Base::Immediate(_) | Base::Comm | Base::Text(_) | Base::Field(_)
            );
            match outermost {
                // An array is one of pointers: its strings are read by a step of their own.
                Some(_) if typed.count.is_some() => {
                    if !next() {
                        return Err(ArgumentError::invalid(ErrorKind::TooManyOps, read.at));
                    }
                }
                // The string is what the dereference reads.
                Some(_) => {}
                None if is_address && next() => {}
                None => return Err(bad_string),
            }
            ty
        }
        Written::Type(FetchType::Symstr) => {
            // As in C, not of what was kept from the entry.
            let is_value = match (outermost, read.fetch.base) {
                (Some(space), _) => space == Space::Kernel,
                (None, Base::Register(_) | Base::Stack(_)) => true,
                (None, Base::Argument(_) | Base::ReturnValue | Base::Field(_)) => true,
                (None, _) => false,
            };
            if !is_value {
                return Err(ArgumentError::invalid(ErrorKind::BadSymstring, typed.at));
            }
            if !next() {
                return Err(ArgumentError::invalid(ErrorKind::TooManyOps, read.at));
            }
            FetchType::Symstr
        }
        Written::Type(ty) | Written::Default(ty) => {
            if outermost.is_none() {
                next();
            }
            // The bits of a field.
            if matches!(ty, FetchType::Bitfield(..)) && !next() {
                return Err(ArgumentError::invalid(ErrorKind::TooManyOps, read.at));
            }
            ty
        }
        Written::Bitfield(width, text) => {
            if outermost.is_none() {
                next();
            }
            // C calls it a wrong bitfield as well where there is no step left for it.
            parse_bits(text, width)
                .filter(|_| next())
                .map(|bits| FetchType::Bitfield(width, Style::Unsigned, bits))
                .ok_or(ArgumentError::invalid(ErrorKind::BadBitfield, typed.at))?
        }
    };

    if typed.count.is_some() {
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
                read.at,
                Errno::E2BIG,
            ));
        }
    }
    Ok(ty)
}
