// SPDX-License-Identifier: GPL-2.0

//! Resolve: asks the kernel about the target of a command.
//!
//! Symbols give addresses and the starts of functions. BTF gives the types of parameters and return
//! values. rkprobe reads BTF when a command first needs it, keeps the kernel's BTF, and reads a
//! module's BTF each time.
//!
//! C: `validate_probe_symbol()` and `kprobe_on_func_entry()` for kprobes, `query_btf_context()` in
//! `kernel/trace/trace_probe.c`, `__trace_eprobe_create()` in `kernel/trace/trace_eprobe.c`.

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    btf::Object,
    event_probe::Event,
    fprobe, ftrace, symbol,
    watchpoint::{
        self,
        Unwatchable, //
    },
};
use probe::{
    arch,
    btf::{
        Btf,
        TypeKind, //
    },
    command::{
        self,
        Access,
        Command,
        ObjectTarget,
        ParseContext,
        Place,
        ProbeKind,
        ProbePoint,
        Target,
        TypeInfo,
        WrittenArgument,
        DEFAULT_LEN, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
};

use crate::{
    failure::{
        at_target,
        Failure, //
    },
    symbols, //
};

kernel::sync::global_lock! {
    // Read when a command first needs it.
    // SAFETY: `init` initialises it when the module loads.
    unsafe(uninit) static VMLINUX: Mutex<Option<Arc<Object>>> = None;
}

/// # Safety
///
/// The caller must call this once, before any other function of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any use of the lock.
    unsafe { VMLINUX.init() };
}

/// Discards the kernel's BTF. The next command that needs it reads it again.
pub(crate) fn clear() {
    *VMLINUX.lock() = None;
}

/// A target that the kernel has.
pub(crate) struct ResolvedTarget {
    point: ProbePoint,
    /// The event that an event probe is attached to.
    event: Option<Event>,
}

impl ResolvedTarget {
    /// Checks that the kernel has the target of a command, and finds the probe point.
    ///
    /// Does not check addresses, functions by ftrace, tracepoints and objects. The creation or the
    /// registration of the probe checks these.
    #[inline(never)]
    pub(crate) fn of(command: &Command<'_>) -> Result<Self, Failure> {
        let mut event = None;
        let mut is_entry = false;
        match command.target {
            Target::Symbol { symbol, offset } => {
                is_entry = check_symbol(command.kind, symbol, offset)?;
            }
            Target::AllNamed(symbol) => {
                if symbols::count(symbol)?.unwrap_or(0) == 0 {
                    let kind = ErrorKind::BadProbeAddr;
                    return Err(command::Error::at_target(kind, Errno::EINVAL).into());
                }
                is_entry = true;
            }
            Target::Event { system, name } => {
                event = Some(hold_event(system, name)?);
                command.filter()?;
            }
            Target::Memory(_) => check_memory(command)?,
            Target::Address(_)
            | Target::Functions(_)
            | Target::Tracepoint(_)
            | Target::Object(_) => {}
        }
        Ok(Self {
            point: probe_point(command, is_entry),
            event,
        })
    }

    /// Resolves the target of an accepted command, without checks. Not for an event probe.
    pub(crate) fn again(command: &Command<'_>) -> Result<Self> {
        let is_entry = match (command.kind, command.target) {
            (ProbeKind::Kprobe, Target::Symbol { symbol, offset }) => is_entry(symbol, offset)?,
            (ProbeKind::Kprobe, Target::AllNamed(_)) => Some(true),
            _ => None,
        };
        Ok(Self {
            point: probe_point(command, is_entry == Some(true)),
            event: None,
        })
    }
}

/// The probe point of a command. `is_entry` is whether the target is the entry of a function.
fn probe_point(command: &Command<'_>, is_entry: bool) -> ProbePoint {
    let of_changes = match command.target {
        Target::Object(target) => target.changes.is_some(),
        _ => false,
    };
    match command.kind {
        ProbeKind::Kprobe if is_entry => ProbePoint::Entry,
        ProbeKind::Kprobe => ProbePoint::Inside,
        ProbeKind::Kretprobe | ProbeKind::FprobeExit => ProbePoint::Return,
        ProbeKind::Kretinsn => ProbePoint::ReturnInsn,
        ProbeKind::FprobeEntry => ProbePoint::Entry,
        ProbeKind::Tracepoint => ProbePoint::Tracepoint,
        ProbeKind::EventProbe => ProbePoint::Event,
        ProbeKind::Watchpoint => ProbePoint::Memory,
        ProbeKind::Object => ProbePoint::Object { of_changes },
        ProbeKind::ObjectReturn => ProbePoint::ObjectReturn { of_changes },
    }
}

/// Checks that a symbol exists and is unique. Returns whether the target is the entry of a
/// function. The target of a return probe must be an entry.
///
/// C: `validate_probe_symbol()`, `kprobe_on_func_entry()`.
fn check_symbol(kind: ProbeKind, symbol: &str, offset: u32) -> Result<bool, Failure> {
    let refuse = |kind| Err(command::Error::at_target(kind, Errno::EINVAL).into());
    let is_entry = match symbols::count(symbol)? {
        // The module is not loaded, so the place in its function is unknown.
        None => kind.is_return(),
        Some(0) => return refuse(ErrorKind::BadProbeAddr),
        // In no function, the kernel refuses a return probe at the registration.
        Some(1) => is_entry(symbol, offset)?.unwrap_or(kind.is_return()),
        Some(_) => return refuse(ErrorKind::NonUniqSymbol),
    };
    if kind.is_return() && !is_entry {
        return refuse(ErrorKind::BadRetprobe);
    }
    Ok(is_entry)
}

/// Whether the target is the entry of a function. `None` if no function contains it.
///
/// An offset can reach another function: perf probe counts from `_text`.
fn is_entry(symbol: &str, offset: u32) -> Result<Option<bool>> {
    match offset {
        0 => Ok(Some(true)),
        _ => Ok(symbol::is_entry(symbols::address_at(symbol, offset)?)),
    }
}

/// Checks that the kernel can watch the memory of a watchpoint.
fn check_memory(command: &Command<'_>) -> Result<(), Failure> {
    if let Target::Memory(watched) = command.target {
        watched
            .check_access(arch::current::WATCHES_READS)
            .map_err(|kind| command::Error::at_target(kind, Errno::EINVAL))?;
    }
    let memory = memory(command, symbols::unique_address_of)?;
    if watchpoint::slots(memory.access) == 0 {
        let kind = ErrorKind::NosupWatch;
        return Err(command::Error::at_target(kind, Errno::EOPNOTSUPP).into());
    }
    let unwatchable = memory.unwatchable().map_err(at_target)?;
    if let Some(reason) = unwatchable {
        let kind = match reason {
            Unwatchable::UsedByEntry => ErrorKind::EntryMemory,
            Unwatchable::NoData => ErrorKind::NoDataMemory,
        };
        return Err(command.memory_error(kind).into());
    }
    memory.check().map_err(at_target)
}

/// Finds the memory that a watchpoint watches. `address_of` finds the address of a symbol. Reads no
/// file, unless `address_of` does.
pub(crate) fn memory(
    command: &Command<'_>,
    address_of: fn(&str) -> Result<usize>,
) -> Result<watchpoint::Target, Failure> {
    let refuse = |kind| Failure::from(command.memory_error(kind));
    let Target::Memory(watched) = command.target else {
        return Err(EINVAL.into());
    };
    let (address, is_per_cpu) = match watched.place {
        Place::Address(address) => (address as usize, false),
        Place::Symbol { symbol, offset } => {
            let address = address_of(symbol).map_err(|error| match error {
                ENOMEM => error.into(),
                _ => refuse(ErrorKind::BadAccessAddr),
            })?;
            let is_per_cpu = symbols::is_per_cpu(address)?;
            (address.wrapping_add_signed(offset as isize), is_per_cpu)
        }
    };
    watched.check(address as u64).map_err(refuse)?;
    Ok(watchpoint::Target {
        address,
        is_per_cpu,
        len: watched.len.unwrap_or(1),
        access: match watched.access {
            Access::Read => watchpoint::Access::Read,
            Access::Write => watchpoint::Access::Write,
            Access::ReadWrite => watchpoint::Access::ReadWrite,
            Access::Execute => watchpoint::Access::Execute,
        },
    })
}

/// Adds the length of the watched memory to a command without a length. The length is the size of
/// the symbol's type, if BTF contains the symbol. Returns an error if no watchpoint can have this
/// size.
pub(crate) fn with_length<'a>(command: &Command<'a>) -> Result<Command<'a>, Failure> {
    let Target::Memory(watched) = command.target else {
        return Ok(command.clone());
    };
    if watched.access == Access::Execute || watched.len.is_some() {
        return Ok(command.clone());
    }
    let Place::Symbol { symbol, offset: 0 } = watched.place else {
        return Ok(command.with_length(DEFAULT_LEN));
    };
    let len = match variable_size(symbol)? {
        None => DEFAULT_LEN,
        Some(size @ (1 | 2 | 4 | 8)) => size as u8,
        Some(_) => {
            let kind = ErrorKind::BadAccessLen;
            return Err(command.memory_error(kind).into());
        }
    };
    Ok(command.with_length(len))
}

/// The size of the variable `[MODULE:]SYMBOL`, in bytes. `None` if BTF does not contain the
/// variable.
fn variable_size(symbol: &str) -> Result<Option<u32>> {
    let Some(kernel) = vmlinux()? else {
        return Ok(None);
    };
    let kernel = kernel.btf(None)?;
    let Some((module, name)) = symbol.split_once(':') else {
        return Ok(kernel.variable_size(symbol));
    };
    match Object::read(module, Some(&kernel)) {
        Err(ENOMEM) => Err(ENOMEM),
        Err(_) => Ok(None),
        Ok(object) => Ok(object.btf(Some(&kernel))?.variable_size(name)),
    }
}

/// Takes a reference to the event that an event probe is attached to.
pub(crate) fn hold_event(system: &str, name: &str) -> Result<Event, Failure> {
    let system = CString::try_from_fmt(format_args!("{system}"))?;
    let name = CString::try_from_fmt(format_args!("{name}"))?;
    Event::get(&system, &name).map_err(|error| match error {
        ENOMEM => error.into(),
        _ => command::Error::at_target(ErrorKind::BadAttachEvent, Errno::ENODEV).into(),
    })
}

/// The types for the arguments of a command.
pub(crate) struct Types<'s> {
    /// The probe point and the types, for the parser of the arguments.
    pub(crate) context: ParseContext<'s>,
    /// The source of the types.
    pub(crate) source: Source<'s>,
    kernel: Option<Btf<'s>>,
}

impl<'s> Types<'s> {
    /// The probe point, and the types that are known without the module of the target.
    pub(crate) fn without_module(&self) -> ParseContext<'s> {
        ParseContext {
            types: self.kernel.map_or(TypeInfo::Unsupported, TypeInfo::Unknown),
            ..self.context
        }
    }
}

/// Finds and reads the types for the arguments `written` of a command, and calls `f` with them.
/// Process context. Sleeps, and can read files. Fails with `ENOMEM`, and with the errors of `f`.
pub(crate) fn with_types<R>(
    command: &Command<'_>,
    written: &[WrittenArgument<'_>],
    target: &ResolvedTarget,
    f: impl FnOnce(&Types<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let read = ReadTypes::of(command, written)?;
    let kernel = read.kernel.as_ref().map(|object| object.btf(None));
    let kernel = kernel.transpose()?;
    let mut modules = KVec::new();
    for object in &read.modules {
        modules.push(object.btf(kernel.as_ref())?, GFP_KERNEL)?;
    }
    let types = match &target.event {
        Some(event) => TypeInfo::Event(event, kernel),
        None => read.type_info(kernel.as_ref())?,
    };
    f(&Types {
        context: ParseContext {
            point: target.point,
            types,
            modules: &modules,
        },
        source: read.source(),
        kernel,
    })
}

/// The BTF that [`Types`] borrows.
struct ReadTypes {
    /// Whether an argument needs types.
    are_needed: bool,
    /// The BTF of the kernel, if the kernel has BTF.
    kernel: Option<Arc<Object>>,
    is_tracepoint: bool,
    function: FunctionTypes,
    /// The BTF of modules that contain structures of typecasts, if neither the kernel nor the
    /// function's module contains these structures.
    modules: KVec<Object>,
}

/// The function whose types the arguments need.
enum FunctionTypes {
    /// No function. The target is not a function, or no types are available.
    None,
    /// The name of a function of the kernel.
    Kernel(CString),
    /// The name of a module, the name of a function in it, and the BTF of the module if it is
    /// loaded.
    Module(CString, CString, Option<Object>),
    /// A function that is unknown. A module that loads later can contain it.
    Unknown,
    /// No function. The target is objects with the structure of this name.
    Structure(CString),
}

/// The source of the types.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// The kernel itself. Or no source, because no argument needs types.
    Kernel,
    /// The module with this name. The module need not be loaded.
    Module(&'a CStr),
    /// Unknown. A module that loads later can contain the types.
    Unknown,
}

impl ReadTypes {
    /// Finds and reads the types. Fails with `ENOMEM`.
    #[inline(never)]
    fn of(command: &Command<'_>, written: &[WrittenArgument<'_>]) -> Result<Self> {
        let mut this = Self {
            are_needed: command.kind.is_object()
                || written.iter().any(WrittenArgument::needs_types),
            kernel: None,
            is_tracepoint: matches!(command.target, Target::Tracepoint(_)),
            function: FunctionTypes::None,
            modules: KVec::new(),
        };
        if !this.are_needed {
            return Ok(this);
        }
        this.kernel = vmlinux()?;
        let Some(kernel) = this.kernel.clone() else {
            return Ok(this);
        };
        let kernel = kernel.btf(None)?;
        if let Target::Object(ObjectTarget {
            structure: Some(name),
            ..
        }) = command.target
        {
            let name = CString::try_from_fmt(format_args!("{name}"))?;
            this.function = FunctionTypes::Structure(name);
        }
        if let Some(name) = function_of(command.target)? {
            this.function = FunctionTypes::find(name, &kernel)?;
        }
        for name in written.iter().flat_map(WrittenArgument::structures) {
            if !this.has_structure(name, &kernel)? {
                if let Some(object) = Object::with_structure(name, &kernel)? {
                    this.modules.push(object, GFP_KERNEL)?;
                }
            }
        }
        Ok(this)
    }

    /// Whether the BTF that this type has read so far contains a structure with this name.
    fn has_structure(&self, name: &str, kernel: &Btf<'_>) -> Result<bool> {
        if kernel.find(name, TypeKind::Struct).is_some() {
            return Ok(true);
        }
        let of_function = match &self.function {
            FunctionTypes::Module(_, _, object) => object.as_ref(),
            FunctionTypes::None
            | FunctionTypes::Kernel(_)
            | FunctionTypes::Unknown
            | FunctionTypes::Structure(_) => None,
        };
        for object in Iterator::chain(of_function.into_iter(), &self.modules) {
            let btf = object.btf(Some(kernel))?;
            if btf.find(name, TypeKind::Struct).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The types of the variables. `kernel` is the kernel's BTF.
    fn type_info<'s>(&'s self, kernel: Option<&'s Btf<'s>>) -> Result<TypeInfo<'s>> {
        let kernel = match kernel {
            Some(kernel) if self.are_needed => kernel,
            _ => return Ok(TypeInfo::Unsupported),
        };
        let (btf, name) = match &self.function {
            FunctionTypes::Kernel(name) => (*kernel, name),
            FunctionTypes::Module(_, name, Some(object)) => (object.btf(Some(kernel))?, name),
            FunctionTypes::None => return Ok(TypeInfo::NoFunction(*kernel)),
            FunctionTypes::Structure(name) => {
                let structure = kernel
                    .find(name.to_str()?, TypeKind::Struct)
                    .ok_or(ENOENT)?;
                return Ok(TypeInfo::Object(*kernel, structure));
            }
            FunctionTypes::Unknown | FunctionTypes::Module(_, _, None) => {
                return Ok(TypeInfo::Unknown(*kernel));
            }
        };
        Ok(match btf.function(name.to_str()?) {
            Some(function) if self.is_tracepoint => TypeInfo::Function(function.of_tracepoint()),
            Some(function) => TypeInfo::Function(function),
            None => TypeInfo::Unknown(btf),
        })
    }

    /// The source of the types.
    fn source(&self) -> Source<'_> {
        match &self.function {
            FunctionTypes::None | FunctionTypes::Kernel(_) | FunctionTypes::Structure(_) => {
                Source::Kernel
            }
            FunctionTypes::Module(module, ..) => Source::Module(module),
            FunctionTypes::Unknown => Source::Unknown,
        }
    }
}

/// The kernel's BTF, if it has any.
pub(crate) fn vmlinux() -> Result<Option<Arc<Object>>> {
    let mut vmlinux = VMLINUX.lock();
    if vmlinux.is_none() {
        match Object::read("vmlinux", None) {
            Ok(object) => *vmlinux = Some(Arc::new(object, GFP_KERNEL)?),
            Err(ENOENT) => {}
            Err(ENOMEM) => return Err(ENOMEM),
            Err(error) => pr_warn!("the kernel's BTF cannot be read: {error:?}\n"),
        }
    }
    Ok(vmlinux.clone())
}

/// Checks that the kernel can probe a function whose name matches a pattern.
///
/// The kernel compares all symbols with a pattern. Most often, the kernel can probe the function
/// with this name, or a function in BTF that matches. Then this comparison is not necessary.
///
/// C: `fprobe_count_ips_from_filter()`.
pub(crate) fn check_functions(pattern: &str) -> Result {
    const WILDCARDS: [char; 4] = ['*', '?', '[', '\\'];

    let text = CString::try_from_fmt(format_args!("{pattern}"))?;
    let can_be_probed = |name: &str| {
        // In ftrace, no function has a name of the form `MODULE:NAME`.
        if name.contains(':') {
            return Ok(false);
        }
        match symbols::address_of(name) {
            Ok(address) => ftrace::is_traceable(address),
            Err(ENOMEM) => Err(ENOMEM),
            Err(_) => Ok(false),
        }
    };
    let is_known = match pattern.split_once(WILDCARDS) {
        None => can_be_probed(pattern)?,
        Some((prefix, _)) => match vmlinux()? {
            None => false,
            Some(kernel) => {
                let kernel = kernel.btf(None)?;
                let matching = kernel
                    .functions_from(prefix)
                    .filter(|name| fprobe::matches(&text, name));
                // If the kernel can probe none of eight functions, it can hardly probe any other.
                let mut verdicts = matching.take(8).map(can_be_probed);
                let first = verdicts.find(|verdict| *verdict != Ok(false));
                first.unwrap_or(Ok(false))?
            }
        },
    };
    match is_known {
        true => Ok(()),
        false => fprobe::exists(&text),
    }
}

/// The name of the target's function, `NAME` or `MODULE:NAME`. `None` if the target is not a
/// function.
fn function_of(target: Target<'_>) -> Result<Option<CString>> {
    let name = match target {
        Target::Address(_) | Target::Event { .. } | Target::Memory(_) | Target::Object(_) => {
            return Ok(None);
        }
        Target::Symbol { symbol, .. } | Target::AllNamed(symbol) | Target::Functions(symbol) => {
            CString::try_from_fmt(format_args!("{symbol}"))?
        }
        // The stub of the tracepoint has the tracepoint's parameters.
        Target::Tracepoint(name) => CString::try_from_fmt(format_args!("__probestub_{name}"))?,
    };
    Ok(Some(name))
}

impl FunctionTypes {
    /// Finds the function `NAME` or `MODULE:NAME`.
    fn find(symbol: CString, kernel: &Btf<'_>) -> Result<Self> {
        let name = symbol.to_str()?;
        let mut buffer = [0; symbol::LEN];
        let (module, name) = match name.split_once(':') {
            Some(both) => both,
            None if kernel.function(name).is_some() => return Ok(Self::Kernel(symbol)),
            None => {
                let address = symbols::address_of(name).ok();
                match address.and_then(|address| symbol::module_of(address, &mut buffer)) {
                    Some(module) => (module, name),
                    None => return Ok(Self::Unknown),
                }
            }
        };
        let object = match Object::read(module, Some(kernel)) {
            Err(ENOMEM) => return Err(ENOMEM),
            object => object.ok(),
        };
        let module = CString::try_from_fmt(format_args!("{module}"))?;
        let name = CString::try_from_fmt(format_args!("{name}"))?;
        Ok(Self::Module(module, name, object))
    }
}
