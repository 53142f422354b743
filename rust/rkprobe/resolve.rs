// SPDX-License-Identifier: GPL-2.0

//! The target of a command, resolved, and the types of its variables.
//!
//! BTF gives the types of parameters and return values. rkprobe reads BTF when a command first
//! needs it, keeps the kernel's BTF, and reads a module's BTF each time.
//!
//! C: `query_btf_context()` in `kernel/trace/trace_probe.c`.

use core::fmt;

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    btf::Object,
    event_probe::Event,
    symbol, //
};
use probe::{
    btf::{
        Btf,
        TypeKind, //
    },
    command::{
        ParseContext,
        ProbePoint,
        TypeInfo,
        WrittenArgument, //
    },
};

use crate::{
    failure::Failure,
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
pub(crate) struct ResolvedTarget<'a> {
    pub(crate) point: ProbePoint,
    pub(crate) types: TypeSource<'a>,
}

/// The place of the types of the variables at a target.
pub(crate) enum TypeSource<'a> {
    /// The target has no variables with types.
    None,
    /// The function `NAME` or `MODULE:NAME`, or a list or a pattern, which no function has as its
    /// name.
    Function(&'a str),
    /// The tracepoint with this name.
    Tracepoint(&'a str),
    /// The fields of this event.
    Event(Event),
    /// The structure with this name, which the kernel itself has.
    Structure(&'a str),
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

/// Finds and reads the types for the arguments of the lists `written` at a target, and calls `f`
/// with them. Process context. Sleeps, and can read files. Fails with `ENOMEM`, and with the errors
/// of `f`.
pub(crate) fn with_types<R>(
    written: &[&[WrittenArgument<'_>]],
    target: &ResolvedTarget<'_>,
    f: impl FnOnce(&Types<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let read = ReadTypes::of(&target.types, written)?;
    let kernel = read.kernel_btf()?;
    let modules = read.module_btfs(kernel.as_ref())?;
    f(&read.types(target, kernel.as_ref(), &modules)?)
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
    fn of(source: &TypeSource<'_>, written: &[&[WrittenArgument<'_>]]) -> Result<KBox<Self>> {
        let written = written.iter().copied().flatten();
        let this = Self {
            are_needed: matches!(source, TypeSource::Structure(_))
                || written.clone().any(WrittenArgument::needs_types),
            kernel: None,
            is_tracepoint: matches!(source, TypeSource::Tracepoint(_)),
            function: FunctionTypes::None,
            modules: KVec::new(),
        };
        let mut this = KBox::new(this, GFP_KERNEL)?;
        if !this.are_needed {
            return Ok(this);
        }
        this.kernel = vmlinux()?;
        let Some(kernel) = this.kernel.clone() else {
            return Ok(this);
        };
        let kernel = kernel.btf(None)?;
        let text = |text: fmt::Arguments<'_>| CString::try_from_fmt(text);
        this.function = match source {
            TypeSource::None | TypeSource::Event(_) => FunctionTypes::None,
            TypeSource::Function(name) => {
                FunctionTypes::find(text(format_args!("{name}"))?, &kernel)?
            }
            // The stub of the tracepoint has the tracepoint's parameters.
            TypeSource::Tracepoint(name) => {
                FunctionTypes::find(text(format_args!("__probestub_{name}"))?, &kernel)?
            }
            TypeSource::Structure(name) => FunctionTypes::Structure(text(format_args!("{name}"))?),
        };
        for name in written.flat_map(WrittenArgument::structures) {
            if !this.has_structure(name, &kernel)? {
                if let Some(object) = Object::with_structure(name, &kernel)? {
                    this.modules.push(object, GFP_KERNEL)?;
                }
            }
        }
        Ok(this)
    }

    /// The types of the kernel, if the arguments need them.
    #[inline(never)]
    fn kernel_btf(&self) -> Result<Option<Btf<'_>>> {
        let btf = self.kernel.as_ref().map(|object| object.btf(None));
        btf.transpose()
    }

    /// The types of the modules with the structures of typecasts.
    #[inline(never)]
    fn module_btfs<'s>(&'s self, kernel: Option<&'s Btf<'s>>) -> Result<KVec<Btf<'s>>> {
        let mut modules = KVec::new();
        for object in &self.modules {
            modules.push(object.btf(kernel)?, GFP_KERNEL)?;
        }
        Ok(modules)
    }

    /// The types for the arguments at a target.
    #[inline(never)]
    fn types<'s>(
        &'s self,
        target: &'s ResolvedTarget<'_>,
        kernel: Option<&'s Btf<'s>>,
        modules: &'s [Btf<'s>],
    ) -> Result<Types<'s>> {
        let types = match &target.types {
            TypeSource::Event(event) => TypeInfo::Event(event, kernel.copied()),
            _ => self.type_info(kernel)?,
        };
        Ok(Types {
            context: ParseContext {
                point: target.point,
                types,
                modules,
            },
            source: self.source(),
            kernel: kernel.copied(),
        })
    }

    /// Whether the BTF that this type has read so far contains a structure with this name.
    #[inline(never)]
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
    #[inline(never)]
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

impl FunctionTypes {
    /// Finds the function `NAME` or `MODULE:NAME`.
    #[inline(never)]
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
