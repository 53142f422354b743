// SPDX-License-Identifier: GPL-2.0

//! The registration of an object probe: the functions that may receive an object, and the probes of
//! the events that change which objects are live.

use core::cell::Cell;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use ktrace::{
    module::Module,
    trace_event::EventMutexHeld, //
};

use crate::{
    action::{
        Counts,
        Purpose, //
    },
    compile::Programs,
    hook::Hook,
    object::{
        Following,
        Objects, //
    },
    records::Records,
    registered::{
        boxed,
        Awaited,
        Registered,
        UnregisterBatch, //
    },
    spec::{
        self,
        Spec, //
    },
};

/// The parts of an object probe that exist before its event.
pub(crate) struct NewObjectProbe {
    following: Arc<Following>,
    /// The ends, then the sources.
    feeds: Cell<KVec<Hook>>,
}

impl NewObjectProbe {
    /// Creates the parts. `feeds` has the ends, then the sources. `ENOMEM`.
    pub(crate) fn new(following: Following, feeds: KVec<Hook>) -> Result<Self> {
        Ok(Self {
            following: Arc::new(following, GFP_KERNEL)?,
            feeds: Cell::new(feeds),
        })
    }

    /// The purpose of the hook on the functions.
    pub(crate) fn purpose(&self, records: Arc<Records>) -> Purpose {
        Purpose::Follow(records, self.following.clone())
    }

    /// Makes the hook of the object probe from the one on the functions. Takes the feeds. `ENOMEM`.
    pub(crate) fn hook(&self, follower: Hook) -> Result<Hook> {
        let spec = spec::try_clone(follower.spec())?;
        let feeds = self.feeds.take();
        let mut hooks = KVec::with_capacity(1 + feeds.len(), GFP_KERNEL)?;
        hooks.push(follower, GFP_KERNEL)?;
        for feed in feeds {
            hooks.push(feed, GFP_KERNEL)?;
        }
        let objects = self.following.objects.clone();
        Ok(Hook::once(spec, boxed(ObjectProbe { objects, hooks })?))
    }
}

/// The registration of an object probe.
struct ObjectProbe {
    objects: Arc<Objects>,
    /// In the order of their enabling: the functions that may receive an object, the ends, the
    /// sources. So each object that is added is followed and can be removed.
    hooks: KVec<Hook>,
}

impl ObjectProbe {
    /// Disables the first hooks, in reverse order. No object stays.
    fn disable_first(&mut self, count: usize, token: &EventMutexHeld) {
        // The last one to be disabled waits for all handlers, including those of the others.
        for hook in self.hooks.iter_mut().take(count).rev() {
            hook.disable(token);
        }
        self.objects.clear();
    }
}

impl Registered for ObjectProbe {
    /// `EINVAL` without the token.
    fn enable(&mut self, token: Option<&EventMutexHeld>) -> Result {
        let token = token.ok_or(EINVAL)?;
        let mut enabled = 0;
        let result = self.hooks.iter_mut().try_for_each(|hook| {
            hook.enable(token)?;
            enabled += 1;
            Ok(())
        });
        if result.is_err() {
            self.disable_first(enabled, token);
        }
        result
    }

    fn disable(&mut self, token: &EventMutexHeld) -> Result {
        self.disable_first(self.hooks.len(), token);
        Ok(())
    }

    /// The probe misses an object that found no room, and an object whose hit was missed.
    fn counts(&self) -> Counts {
        let follower = self.hooks.first().map(Hook::counts);
        let mut missed = self.objects.refused();
        for hook in &self.hooks {
            missed = missed.wrapping_add(hook.counts().missed);
        }
        Counts {
            missed,
            ..follower.unwrap_or_default()
        }
    }

    fn disarm_in(&self, module: &Module) -> Result {
        for hook in &self.hooks {
            hook.disarm_in(module);
        }
        Ok(())
    }

    fn awaited(&self) -> Option<Awaited<'_>> {
        self.hooks.iter().find_map(Hook::awaited)
    }

    fn each_programs(&mut self, f: &mut dyn FnMut(&Spec, &mut Programs)) {
        for hook in &mut self.hooks {
            hook.each_programs(f);
        }
    }

    fn unregister_in(self: KBox<Self>, batch: &mut UnregisterBatch) {
        let hooks = KBox::into_inner(self).hooks;
        // The batch has capacity for one probe of each command.
        let _ = batch.kprobes.reserve(hooks.len(), GFP_KERNEL);
        let _ = batch.kretprobes.reserve(hooks.len(), GFP_KERNEL);
        for hook in hooks {
            hook.unregister_in(batch);
        }
    }
}
