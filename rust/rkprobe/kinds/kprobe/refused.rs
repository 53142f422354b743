// SPDX-License-Identifier: GPL-2.0

//! The reasons why the kernel refuses a probe on an instruction.

use core::fmt;

use kernel::prelude::*;

use ktrace::{
    ftrace,
    kprobe,
    kretinsn::Refusal,
    symbol, //
};
use probe::{
    command,
    error::{
        Errno,
        ErrorKind, //
    },
};

use crate::{
    block_probes,
    exits,
    failure::{
        at_target,
        Failure, //
    },
    reader,
    registered::Registered,
    symbols, //
};

/// Refuses a probe at an address that the kernel's own implementation refuses. As in C, this error
/// precedes errors of the registration. Looking an address up takes as long as a registration, so
/// this function calls `find`, which finds the address, only if the registration failed. `symbol`
/// is the symbol of the target.
#[inline(never)]
pub(super) fn check(
    symbol: Option<&str>,
    registered: Result<KBox<dyn Registered>, Failure>,
    find: impl FnOnce() -> Option<usize>,
) -> Result<KBox<dyn Registered>, Failure> {
    let address = match &registered {
        Ok(probe) => probe.address(),
        Err(_) => find(),
    };
    let Some(address) = address else {
        return registered;
    };
    if symbol.is_some_and(|symbol| !symbols::is_unique_at(symbol, address)) {
        return Err(command::Error::at_target(ErrorKind::NonUniqSymbol, Errno::EINVAL).into());
    }
    if !is_traceable(address)? {
        log_at(address, "not in a function that ftrace can trace");
        return Err(at_target(EINVAL));
    }
    if let Err(Failure::Command(error)) = &registered {
        if matches!(
            error.kind,
            ErrorKind::FailRegProbe | ErrorKind::BadInsnBndry
        ) {
            log_unprobable(address, error.errno)?;
        }
    }
    registered
}

/// Logs why the kernel refuses a probe at this address with this error: because of the instruction,
/// or because the address is on one of the kernel's lists.
///
/// C: `check_kprobe_address_safe()`, `register_kretprobe()`.
#[inline(never)]
fn log_unprobable(address: usize, errno: Errno) -> Result {
    if let Some(why) = kprobe::unprobable(address)? {
        log_at(address, why);
    } else if errno == Errno::EINVAL {
        log_at(
            address,
            match symbol::is_entry(address) {
                Some(true) => "on the kernel's blacklist of kprobes or of return probes",
                Some(false) => {
                    "on the kernel's blacklist of kprobes, or code that it changes, or whose \
                     faults it handles"
                }
                None => return Ok(()),
            },
        );
    }
    Ok(())
}

/// Logs the reason for a place.
fn log_at(address: usize, why: impl fmt::Display) {
    reader::log_line(format_args!(
        "{}: {why}",
        exits::SymbolOffset(address as u64)
    ));
}

/// Whether this address is in a function that may be traced. Tracing itself uses the other
/// functions.
///
/// C: `within_notrace_func()`.
#[inline(never)]
fn is_traceable(address: usize) -> Result<bool> {
    if cfg!(CONFIG_KPROBE_EVENTS_ON_NOTRACE) {
        return Ok(true);
    }
    // The kernel refuses an address in no function.
    let Some(start) = symbol::start_of(address) else {
        return Ok(true);
    };
    if ftrace::is_traceable(start)? {
        return Ok(true);
    }
    // The compiler splits parts off functions (`.cold`, `.part`). The whole function decides.
    let mut buffer = [0; symbol::LEN];
    let name = core::str::from_utf8(symbol::format(start, false, &mut buffer)).unwrap_or("");
    match name.split_once('.') {
        Some((whole, _)) => Ok(symbols::address_of(whole)
            .and_then(ftrace::is_traceable)
            .unwrap_or(false)),
        None => Ok(false),
    }
}

/// Converts the reason why a function cannot have probes on its return instructions. Logs the
/// details.
#[inline(never)]
pub(super) fn of_retinsn(refusal: Refusal) -> Failure {
    let kind = match refusal {
        Refusal::TailCall(exit) => {
            reader::log_line(format_args!("{}; use %return", exits::Shown(&exit)));
            ErrorKind::TailCall
        }
        Refusal::NoReturn => ErrorKind::NoRetInsn,
        Refusal::BadText(bad) => {
            reader::log_line(format_args!("{}", exits::Bad(&bad)));
            ErrorKind::BadText
        }
        Refusal::Unprobable(address, why) => {
            log_at(address, format_args!("{why}; use %return"));
            ErrorKind::RetInsnRefused
        }
        Refusal::NotBuilt => {
            let kind = ErrorKind::NosupRetinsn;
            return command::Error::at_target(kind, Errno::EOPNOTSUPP).into();
        }
        Refusal::Failed(error) => return at_target(error),
    };
    command::Error::at_target(kind, Errno::EINVAL).into()
}

/// Converts the reason why the blocks of a function cannot be probed. Logs the details.
#[inline(never)]
pub(super) fn of_blocks(refusal: block_probes::Refusal) -> Failure {
    use block_probes::Refusal;

    let (kind, errno) = match refusal {
        Refusal::BadText(bad) => {
            reader::log_line(format_args!("{}", exits::Bad(&bad)));
            (ErrorKind::BadText, Errno::EINVAL)
        }
        Refusal::UnknownJump(address) => {
            reader::log_line(format_args!("{}", exits::UnknownJump(address)));
            (ErrorKind::UnknownBlocks, Errno::EINVAL)
        }
        Refusal::TooMany => (ErrorKind::TooManyBlocks, Errno::E2BIG),
        Refusal::Inside => (ErrorKind::BlocksInside, Errno::EINVAL),
        Refusal::NotBuilt => (ErrorKind::NosupRetinsn, Errno::EOPNOTSUPP),
        Refusal::Failed(error) => return at_target(error),
    };
    command::Error::at_target(kind, errno).into()
}
