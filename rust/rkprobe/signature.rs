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
use probe::command::argument::Place;
use probe::command::Command;
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
/// Once, before anything else here is used.
pub(crate) unsafe fn init() {
    // SAFETY: By the safety requirement.
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

/// Calls `f` with the function, where BTF knows it.
fn with_function<R, E: From<Error>>(
    target: Target<'_>,
    vmlinux: &Btf<'_>,
    f: impl FnOnce(Option<Function<'_>>) -> Result<R, E>,
) -> Result<R, E> {
    let symbol = match target {
        Target::Address(_) | Target::Event { .. } => return f(None),
        Target::Symbol { symbol, .. } | Target::Functions(symbol) => symbol,
        // What it calls has its parameters.
        Target::Tracepoint(name) => {
            let stub = CString::try_from_fmt(format_args!("__probestub_{name}"))?;
            let stub = stub.to_str().unwrap_or("");
            return with_symbol(stub, vmlinux, |stub| f(stub.map(Function::of_tracepoint)));
        }
    };
    with_symbol(symbol, vmlinux, f)
}

fn with_symbol<R, E: From<Error>>(
    symbol: &str,
    vmlinux: &Btf<'_>,
    f: impl FnOnce(Option<Function<'_>>) -> Result<R, E>,
) -> Result<R, E> {
    let mut buffer = [0; symbol::LEN];
    let (module, name) = match symbol.split_once(':') {
        Some((module, name)) => (Some(module), name),
        None => {
            if let Some(function) = vmlinux.function(symbol) {
                return f(Some(function));
            }
            let address = symbols::address_of(symbol).ok();
            let module = address.and_then(|address| symbol::module_of(address, &mut buffer));
            (module, symbol)
        }
    };
    let object = match module.map(|module| Object::read(module, Some(vmlinux))) {
        Some(Ok(object)) => object,
        Some(Err(error)) if error == ENOMEM => return Err(error.into()),
        Some(Err(_)) | None => return f(None),
    };
    let btf = object.btf(Some(vmlinux))?;
    f(btf.function(name))
}
