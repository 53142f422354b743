// SPDX-License-Identifier: GPL-2.0

//! Probes at tracepoints.
//!
//! C: `__register_trace_fprobe()`, `fentry_dispatcher()` in `kernel/trace/trace_fprobe.c`.

use kernel::{
    prelude::*,
    str::CString, //
};

use ktrace::tracepoint::{
    self,
    Tracepoint, //
};
use probe::command::{
    Command,
    ProbePoint, //
};

use crate::{
    action::{
        Action,
        Counts,
        Purpose, //
    },
    compile::Compiled,
    failure::Failure,
    kind::Kind,
    registered::{
        boxed,
        Awaited,
        Registered, //
    },
    resolve::{
        ResolvedTarget,
        TypeSource, //
    },
};

/// The name of a tracepoint.
pub(super) struct Name<'a>(pub(super) &'a str);

impl<'a> Kind<'a> for Name<'a> {
    fn resolve(&self, _command: &Command<'a>) -> Result<ResolvedTarget<'a>, Failure> {
        Ok(ResolvedTarget {
            point: ProbePoint::Tracepoint,
            types: TypeSource::Tracepoint(self.0),
        })
    }

    fn register_again(
        &self,
        _command: &Command<'a>,
        compiled: &Compiled,
        purpose: &Purpose,
    ) -> Result<KBox<dyn Registered>, Failure> {
        let (action, _) = compiled.action(purpose)?;
        let name = CString::try_from_fmt(format_args!("{}", self.0))?;
        Ok(boxed(Tracepoint::attach_or_wait(
            &name,
            AtTracepoint(action),
        )?)?)
    }

    fn awaited(&self, is_registered: bool) -> Option<Awaited<'a>> {
        // While its event is disabled, nobody knows.
        is_registered.then_some(Awaited::Tracepoint(self.0))
    }
}

impl<H: tracepoint::Handler + AsRef<Action>> Registered for Tracepoint<H> {
    fn counts(&self) -> Counts {
        Counts::of(self.handler(), self.missed())
    }

    fn is_waiting(&self) -> bool {
        !self.is_attached()
    }

    fn unregister(self: KBox<Self>) -> Counts {
        KBox::into_inner(self).unregister(Counts::of)
    }
}

/// The handler at a tracepoint.
struct AtTracepoint(Action);

impl tracepoint::Handler for AtTracepoint {
    #[inline(always)]
    fn hit(&self, hit: &tracepoint::Hit<'_>) {
        let call = hit.call();
        self.0.run(call, (), (call.function(),));
    }
}

impl AsRef<Action> for AtTracepoint {
    fn as_ref(&self) -> &Action {
        &self.0
    }
}
