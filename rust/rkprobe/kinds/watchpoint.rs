// SPDX-License-Identifier: GPL-2.0

//! Watchpoints: they hit when the kernel accesses memory.

use kernel::prelude::*;

use ktrace::{
    btf::Object,
    module::Module,
    watchpoint::{
        self,
        Unwatchable,
        Watchpoint, //
    },
};
use probe::{
    arch,
    command::{
        self,
        Access,
        Command,
        Place,
        ProbePoint,
        Watched,
        DEFAULT_LEN, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
};

use crate::{
    action::{
        Action,
        Counts,
        Purpose, //
    },
    compile::Compiled,
    failure::{
        at_target,
        Failure, //
    },
    hit_context::CallValues,
    kind::Kind,
    reader,
    registered::{
        boxed,
        Registered, //
    },
    resolve::{
        vmlinux,
        ResolvedTarget,
        TypeSource, //
    },
    symbols, //
};

impl<'a> Kind<'a> for Watched<'a> {
    /// Adds the length of the watched memory to a command without a length. The length is the size
    /// of the symbol's type, if BTF contains the symbol. Returns an error if no watchpoint can have
    /// this size.
    fn complete(&self, command: &Command<'a>) -> Result<Command<'a>, Failure> {
        if self.access == Access::Execute || self.len.is_some() {
            return Ok(command.clone());
        }
        let Place::Symbol { symbol, offset: 0 } = self.place else {
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

    fn resolve(&self, command: &Command<'a>) -> Result<ResolvedTarget<'a>, Failure> {
        check(self, command)?;
        Ok(AT_MEMORY)
    }

    fn resolve_again(&self, _command: &Command<'a>) -> Result<ResolvedTarget<'a>> {
        Ok(AT_MEMORY)
    }

    /// A full error number says little, so the reason is in the kernel's log.
    fn register_again(
        &self,
        command: &Command<'a>,
        compiled: &Compiled,
        purpose: &Purpose,
    ) -> Result<KBox<dyn Registered>, Failure> {
        let (action, _) = compiled.action(purpose)?;
        let memory = memory(self, command, symbols::address_of)?;
        let registered = Watchpoint::new(memory, action).inspect_err(|error| {
            if *error == ENOSPC {
                let slots = watchpoint::slots(memory.access);
                reader::log(format_args!("{self}"), |text| {
                    pr_info!(
                        "{text}: a processor watches at most {slots} places, and all are taken\n"
                    );
                });
            }
        });
        Ok(boxed(registered.map_err(at_target)?)?)
    }
}

const AT_MEMORY: ResolvedTarget<'_> = ResolvedTarget {
    point: ProbePoint::Memory,
    types: TypeSource::None,
};

/// Checks that the kernel can watch the memory of a watchpoint.
fn check(watched: &Watched<'_>, command: &Command<'_>) -> Result<(), Failure> {
    watched
        .check_access(arch::current::WATCHES_READS)
        .map_err(|kind| command::Error::at_target(kind, Errno::EINVAL))?;
    let memory = memory(watched, command, symbols::unique_address_of)?;
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
fn memory(
    watched: &Watched<'_>,
    command: &Command<'_>,
    address_of: fn(&str) -> Result<usize>,
) -> Result<watchpoint::Target, Failure> {
    let refuse = |kind| Failure::from(command.memory_error(kind));
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

/// A breakpoint register is in use from the registration on, so a watchpoint is registered only
/// while its event is enabled.
impl Registered for Watchpoint<Action> {
    fn counts(&self) -> Counts {
        Counts::of(self.handler(), self.missed())
    }

    /// The memory of a module that is unloaded soon belongs to somebody else.
    fn disarm_in(&self, module: &Module) -> Result {
        if module.contains(self.target().address) {
            Watchpoint::disarm(self);
        }
        Ok(())
    }

    fn unregister(self: KBox<Self>) -> Counts {
        Watchpoint::disarm(&self);
        self.counts()
    }
}

impl watchpoint::Handler for Action {
    #[inline(always)]
    fn hit(&self, hit: &watchpoint::Hit<'_>) {
        let ip = hit.registers().instruction_pointer() as usize;
        self.run(hit, WatchedAddress(hit.address()), (ip,));
    }
}

/// The address that a watchpoint watches.
#[derive(Clone, Copy)]
struct WatchedAddress(usize);

impl CallValues for WatchedAddress {
    #[inline(always)]
    fn watched(self) -> u64 {
        self.0 as u64
    }
}
