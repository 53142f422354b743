// SPDX-License-Identifier: GPL-2.0

//! Object probes: they hit when a function receives a live object.

use kernel::prelude::*;

use ktrace::fprobe::{
    Fprobe,
    Functions, //
};
use probe::command::{
    Command,
    EventFields,
    ObjectTarget,
    ProbePoint, //
};

use crate::{
    action::Purpose,
    compile::Compiled,
    entry_saver::FEW,
    failure::Failure,
    kind::Kind,
    object_recorder::{
        AtObject,
        AtObjectReturn,
        ObjectSaver,
        MAX_WORDS, //
    },
    registered::{
        boxed,
        Registered, //
    },
    resolve::{
        ResolvedTarget,
        TypeSource, //
    },
};

impl<'a> Kind<'a> for ObjectTarget<'a> {
    fn resolve(&self, _command: &Command<'a>) -> Result<ResolvedTarget<'a>, Failure> {
        let of_changes = self.changes.is_some();
        Ok(ResolvedTarget {
            point: match self.returns {
                Some(_) => ProbePoint::ObjectReturn { of_changes },
                None => ProbePoint::Object { of_changes },
            },
            types: self
                .structure
                .map_or(TypeSource::None, TypeSource::Structure),
        })
    }

    fn max_entry_words(&self) -> Option<usize> {
        self.returns.map(|_| FEW)
    }

    fn compares_records(&self) -> bool {
        self.changes.is_some()
    }

    /// Registers a probe by ftrace for each parameter that may be an object: the handler need not
    /// look up the function.
    fn register_again(
        &self,
        _command: &Command<'a>,
        compiled: &Compiled,
        purpose: &Purpose,
    ) -> Result<KBox<dyn Registered>, Failure> {
        let Purpose::Follow(records, following) = purpose else {
            return Err(EINVAL.into());
        };
        // A record has the object, its parameter, and the function that saw it last. The values
        // that can change are after them.
        let first = records.schema.fields().nth(3);
        let values_at = first.map_or(0, |(_, field)| field.offset());
        let mut probes = KVec::with_capacity(following.functions.len(), GFP_KERNEL)?;
        for group in &following.functions {
            let (action, entry) = compiled.action(purpose)?;
            let handler = AtObject {
                action,
                objects: following.objects.clone(),
                position: group.position,
                selection: following.selection,
                values_at,
                register: group.register,
            };
            let functions = Functions::Addresses(&group.addresses);
            let probe = if self.returns.is_some() {
                register_return(functions, ObjectSaver::new(handler, entry))?
            } else {
                boxed(Fprobe::new(functions, handler)?)?
            };
            probes.push(probe, GFP_KERNEL)?;
        }
        Ok(boxed(probes)?)
    }

    fn used_fields(&self) -> [Option<EventFields<'a>>; 2] {
        [Some(self.sources), self.until]
    }
}

/// Registers a probe by ftrace on the returns of functions that may receive an object. The kernel
/// has 32 words for the entry data of all probes of one call, so it is as small as possible.
fn register_return(functions: Functions<'_>, saver: ObjectSaver) -> Result<KBox<dyn Registered>> {
    fn register<const N: usize>(
        functions: Functions<'_>,
        saver: ObjectSaver,
    ) -> Result<KBox<dyn Registered>> {
        match saver.checks_calls() {
            true => boxed(Fprobe::new(functions, AtObjectReturn::<N, true>(saver))?),
            false => boxed(Fprobe::new(functions, AtObjectReturn::<N, false>(saver))?),
        }
    }

    match saver.words() {
        1 => register::<1>(functions, saver),
        2 => register::<2>(functions, saver),
        3 => register::<3>(functions, saver),
        4 => register::<4>(functions, saver),
        5 => register::<5>(functions, saver),
        6 => register::<6>(functions, saver),
        7 => register::<7>(functions, saver),
        8 => register::<8>(functions, saver),
        MAX_WORDS => register::<MAX_WORDS>(functions, saver),
        _ => Err(E2BIG),
    }
}
