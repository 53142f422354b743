// SPDX-License-Identifier: GPL-2.0

//! What BTF says of the function that a command is about.
//!
//! Nothing is read before a command asks. What the kernel says of itself is then kept; that of a
//! module, which can go, is not.
//!
//! C: `query_btf_context()` in `kernel/trace/trace_probe.c`.

use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use ktrace::btf::Object;
use ktrace::symbol;
use probe::btf::Btf;
use probe::btf::Function;
use probe::command::Command;
use probe::command::Place;
use probe::command::Signature;
use probe::command::Site;
use probe::command::Target;

use crate::symbols;

kernel::sync::global_lock! {
    // Read when it is first needed.
    // SAFETY: Initialised by `init` when the module is loaded.
    unsafe(uninit) static VMLINUX: Mutex<Option<Arc<Object>>> = None;
}

/// # Safety
///
/// Called once, before anything else here is used.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, and nobody has used the lock yet.
    unsafe { VMLINUX.init() };
}

/// Forgets what was read.
pub(crate) fn clear() {
    *VMLINUX.lock() = None;
}

/// Calls `f` with where the command's probe stands.
pub(crate) fn with_site<R, E: From<Error>>(
    command: &Command<'_>,
    place: Place,
    f: impl FnOnce(Site<'_>) -> Result<R, E>,
) -> Result<R, E> {
    let f = |signature: Signature<'_>| f(Site { place, signature });
    if !command.needs_signature() {
        return f(Signature::Unknown);
    }
    let Some(vmlinux) = vmlinux()? else {
        return f(Signature::Unsupported);
    };
    let vmlinux = vmlinux.btf(None)?;
    with_function(command.target, &vmlinux, |function| {
        f(function.map_or(Signature::Unknown, Signature::Known))
    })
}

/// That of the kernel, where it has some.
pub(crate) fn vmlinux() -> Result<Option<Arc<Object>>> {
    let mut vmlinux = VMLINUX.lock();
    if vmlinux.is_none() {
        match Object::read("vmlinux", None) {
            Ok(object) => *vmlinux = Some(Arc::new(object, GFP_KERNEL)?),
            Err(error) if error == ENOENT => {}
            Err(error) if error == ENOMEM => return Err(error),
            Err(error) => pr_warn!("the kernel's BTF cannot be read: {error:?}\n"),
        }
    }
    Ok(vmlinux.clone())
}

/// Where the types of a command's function come from.
pub(crate) enum Source {
    /// From the kernel itself, or from nowhere, because no argument needs them.
    Kernel,
    /// From the module of this name, whether it is loaded or not.
    Module(CString),
    /// A module that comes may have them.
    Unknown,
}

/// Finds where the types of the command's function come from. Process context; sleeps.
pub(crate) fn source_of(command: &Command<'_>) -> Result<Source> {
    if !command.needs_signature() {
        return Ok(Source::Kernel);
    }
    let Some(vmlinux) = vmlinux()? else {
        return Ok(Source::Kernel);
    };
    let Some(name) = function_of(command.target)? else {
        return Ok(Source::Kernel);
    };
    let mut buffer = [0; symbol::LEN];
    match find(
        name.to_str().unwrap_or(""),
        &vmlinux.btf(None)?,
        &mut buffer,
    ) {
        Found::Kernel(_) => Ok(Source::Kernel),
        Found::Module(module, _) => {
            let module = CString::try_from_fmt(format_args!("{module}"))?;
            Ok(Source::Module(module))
        }
        Found::Nowhere => Ok(Source::Unknown),
    }
}

/// The name of the function that the target is, `NAME` or `MODULE:NAME`, if it is one.
fn function_of(target: Target<'_>) -> Result<Option<CString>> {
    let name = match target {
        Target::Address(_) | Target::Event { .. } => return Ok(None),
        Target::Symbol { symbol, .. } | Target::Functions(symbol) => {
            CString::try_from_fmt(format_args!("{symbol}"))?
        }
        // The function that the tracepoint calls has its parameters.
        Target::Tracepoint(name) => CString::try_from_fmt(format_args!("__probestub_{name}"))?,
    };
    Ok(Some(name))
}

/// Where a function is.
enum Found<'a, 'b> {
    /// In the BTF of the kernel.
    Kernel(Function<'b>),
    /// Perhaps in that of the module of this name, by this name.
    Module(&'a str, &'a str),
    Nowhere,
}

/// Finds the function `NAME` or `MODULE:NAME`.
fn find<'a, 'b>(
    symbol: &'a str,
    vmlinux: &'b Btf<'_>,
    buffer: &'a mut [u8; symbol::LEN],
) -> Found<'a, 'b> {
    if let Some((module, name)) = symbol.split_once(':') {
        return Found::Module(module, name);
    }
    if let Some(function) = vmlinux.function(symbol) {
        return Found::Kernel(function);
    }
    let address = symbols::address_of(symbol).ok();
    match address.and_then(|address| symbol::module_of(address, buffer)) {
        Some(module) => Found::Module(module, symbol),
        None => Found::Nowhere,
    }
}

/// Calls `f` with the function, where BTF knows it.
fn with_function<R, E: From<Error>>(
    target: Target<'_>,
    vmlinux: &Btf<'_>,
    f: impl FnOnce(Option<Function<'_>>) -> Result<R, E>,
) -> Result<R, E> {
    let Some(name) = function_of(target)? else {
        return f(None);
    };
    with_symbol(name.to_str().unwrap_or(""), vmlinux, |function| {
        f(match target {
            Target::Tracepoint(_) => function.map(Function::of_tracepoint),
            _ => function,
        })
    })
}

fn with_symbol<R, E: From<Error>>(
    symbol: &str,
    vmlinux: &Btf<'_>,
    f: impl FnOnce(Option<Function<'_>>) -> Result<R, E>,
) -> Result<R, E> {
    let mut buffer = [0; symbol::LEN];
    let (module, name) = match find(symbol, vmlinux, &mut buffer) {
        Found::Kernel(function) => return f(Some(function)),
        Found::Module(module, name) => (module, name),
        Found::Nowhere => return f(None),
    };
    let object = match Object::read(module, Some(vmlinux)) {
        Ok(object) => object,
        Err(error) if error == ENOMEM => return Err(error.into()),
        Err(_) => return f(None),
    };
    let btf = object.btf(Some(vmlinux))?;
    f(btf.function(name))
}
