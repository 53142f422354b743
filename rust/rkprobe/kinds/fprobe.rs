// SPDX-License-Identifier: GPL-2.0

//! Probes at the entry and the exit of functions, by ftrace.
//!
//! C: `__register_trace_fprobe()`, `fentry_dispatcher()`, `fexit_dispatcher()` in
//! `kernel/trace/trace_fprobe.c`.

use kernel::{
    prelude::*,
    str::CString, //
};

use ktrace::{
    fprobe::{
        self,
        Fprobe, //
    },
    ftrace,
    function::Call, //
};
use probe::command::{
    target_functions,
    Command,
    ProbeKind,
    ProbePoint, //
};

use crate::{
    action::{
        Action,
        Counts,
        Purpose, //
    },
    compile::Compiled,
    entry_saver::{
        EntryLayout,
        EntrySaver,
        FEW, //
    },
    failure::{
        at_function,
        at_target,
        Failure, //
    },
    kind::{
        Kind,
        Start, //
    },
    patterns::Patterns,
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

/// A list of functions.
pub(super) struct Functions<'a>(pub(super) &'a str);

impl<'a> Kind<'a> for Functions<'a> {
    fn resolve(&self, command: &Command<'a>) -> Result<ResolvedTarget<'a>, Failure> {
        Ok(ResolvedTarget {
            point: match command.kind {
                ProbeKind::FprobeExit => ProbePoint::Return,
                _ => ProbePoint::Entry,
            },
            types: TypeSource::Function(self.0),
        })
    }

    fn max_entry_words(&self) -> Option<usize> {
        Some(FEW)
    }

    fn start(
        &self,
        _command: &Command<'a>,
        compiled: Result<Compiled, Failure>,
        _purpose: &Purpose,
    ) -> Result<Start, Failure> {
        self.check()?;
        Start::with_event(compiled)
    }

    fn register_again(
        &self,
        command: &Command<'a>,
        compiled: &Compiled,
        purpose: &Purpose,
    ) -> Result<KBox<dyn Registered>, Failure> {
        let (action, entry) = compiled.action(purpose)?;
        let patterns = Patterns::new(target_functions(self.0))?;
        Ok(patterns.pass(|with, without| {
            let functions = fprobe::Functions::Globs(with, without);
            match command.kind {
                ProbeKind::FprobeExit => register_exit(functions, action, entry),
                _ => register_entry(functions, action),
            }
        })?)
    }
}

impl Functions<'_> {
    /// Checks that the kernel can probe a function of each pattern, and one that the list does not
    /// leave out.
    fn check(&self) -> Result<(), Failure> {
        let mut leaves_out = false;
        for item in target_functions(self.0) {
            match item.is_excepted {
                true => leaves_out = true,
                false => check(item.pattern).map_err(|error| {
                    if error != ENOMEM {
                        log_untraceable(item.pattern);
                    }
                    at_function(error, item.at)
                })?,
            }
        }
        if leaves_out {
            let patterns = Patterns::new(target_functions(self.0))?;
            patterns.pass(fprobe::exists).map_err(at_target)?;
        }
        Ok(())
    }
}

/// Checks that the kernel can probe a function whose name matches the pattern.
///
/// The kernel compares all symbols with a pattern. Most often, the kernel can probe the function
/// with this name, or a function in BTF that matches. Then this comparison is not necessary.
///
/// C: `fprobe_count_ips_from_filter()`.
fn check(pattern: &str) -> Result {
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
        false => fprobe::exists(&[&text], &[]),
    }
}

/// Logs that ftrace cannot trace a symbol, if the kernel has a symbol of this name.
#[inline(never)]
fn log_untraceable(name: &str) {
    if symbols::address_of(name).is_ok() {
        reader::log_line(format_args!("{name}: ftrace cannot trace it"));
    }
}

/// Registers a probe by ftrace on the entries of functions.
fn register_entry(
    functions: fprobe::Functions<'_>,
    action: Action,
) -> Result<KBox<dyn Registered>> {
    match action {
        Action::Rare(_) if action.conditional().is_some() => {
            boxed(Fprobe::new(functions, AtEntryIf(action))?)
        }
        Action::Rare(_) => boxed(Fprobe::new(functions, AtEntryCount(action))?),
        _ => boxed(Fprobe::new(functions, AtEntry(action))?),
    }
}

/// Registers a probe by ftrace on the exits of functions. The size of the entry data is a constant
/// of the handler's type. So the kernel reserves exactly this size for each call in flight, and the
/// handlers need no bounds check.
fn register_exit(
    functions: fprobe::Functions<'_>,
    action: Action,
    EntryLayout {
        arguments,
        is_timed,
    }: EntryLayout,
) -> Result<KBox<dyn Registered>> {
    if is_timed {
        boxed(Fprobe::new(
            functions,
            EntrySaver::<FEW, true>::new(action, arguments)?,
        )?)
    } else if arguments.is_empty() && !action.checks_calls() {
        boxed(Fprobe::new(functions, AtExit(action))?)
    } else {
        boxed(Fprobe::new(
            functions,
            EntrySaver::<FEW, false>::new(action, arguments)?,
        )?)
    }
}

/// The kernel traces the functions as soon as the probe is registered. So the probe is registered
/// only while its event is enabled.
impl<H: fprobe::Handler + AsRef<Action>> Registered for Fprobe<H> {
    fn counts(&self) -> Counts {
        Counts::of(self.handler(), self.missed())
    }

    fn unregister(self: KBox<Self>) -> Counts {
        KBox::into_inner(self).unregister(Counts::of)
    }
}

/// The handler at the entry of functions.
struct AtEntry(Action);

#[vtable]
impl fprobe::Handler for AtEntry {
    type Data = ();

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<()> {
        self.0.run(call, (), (call.function(),));
        Some(())
    }
}

impl AsRef<Action> for AtEntry {
    fn as_ref(&self) -> &Action {
        &self.0
    }
}

/// The handler at the entry of functions, with a condition. It saves no registers for the record,
/// which most hits do not have.
struct AtEntryIf(Action);

#[vtable]
impl fprobe::Handler for AtEntryIf {
    type Data = ();

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<()> {
        self.0.run_if(call, (), (call.function(),));
        Some(())
    }
}

impl AsRef<Action> for AtEntryIf {
    fn as_ref(&self) -> &Action {
        &self.0
    }
}

/// The handler at the entry of functions, which counts.
struct AtEntryCount(Action);

#[vtable]
impl fprobe::Handler for AtEntryCount {
    type Data = ();

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<()> {
        self.0.run_count(call, (), (call.function(),));
        Some(())
    }
}

impl AsRef<Action> for AtEntryCount {
    fn as_ref(&self) -> &Action {
        &self.0
    }
}

/// The handler at the exit of functions.
struct AtExit(Action);

#[vtable]
impl fprobe::Handler for AtExit {
    type Data = ();

    #[inline(always)]
    fn entry(&self, _call: &Call<'_>) -> Option<()> {
        Some(())
    }

    #[inline(always)]
    fn exit(&self, call: &Call<'_>, _data: &()) {
        self.0.run(call, (), (call.function(), call.caller()));
    }
}

impl AsRef<Action> for AtExit {
    fn as_ref(&self) -> &Action {
        &self.0
    }
}
