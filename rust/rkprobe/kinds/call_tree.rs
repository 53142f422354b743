// SPDX-License-Identifier: GPL-2.0

//! Call trees: they hit when a function returns, and record the calls that it made.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use ktrace::{
    fprobe::{
        Fprobe,
        Functions, //
    },
    tracepoint::Tracepoint, //
};
use probe::{
    call_tree::{
        CallInProgress,
        OpenStep,
        ENTRY_WORDS, //
    },
    command::{
        CallTreeTarget,
        Command,
        ProbePoint, //
    },
};

use crate::{
    action::{
        Counts,
        Purpose, //
    },
    argument_words::ArgumentWords,
    call_functions::CallFunctions,
    call_tree::{
        AtStep,
        CallTree, //
    },
    compile::Compiled,
    failure::Failure,
    kind::{
        Kind,
        Start, //
    },
    registered::{
        boxed,
        Registered, //
    },
    resolve::{
        ResolvedTarget,
        TypeSource, //
    },
    task_free::AtTaskFree, //
};

impl<'a> Kind<'a> for CallTreeTarget<'a> {
    fn resolve(&self, _command: &Command<'a>) -> Result<ResolvedTarget<'a>, Failure> {
        Ok(ResolvedTarget {
            point: ProbePoint::Return,
            types: TypeSource::Function(self.root),
        })
    }

    fn max_entry_words(&self) -> Option<usize> {
        Some(ENTRY_WORDS)
    }

    fn start(
        &self,
        _command: &Command<'a>,
        compiled: Result<Compiled, Failure>,
        _purpose: &Purpose,
    ) -> Result<Start, Failure> {
        CallFunctions::check(self)?;
        ArgumentWords::read()?;
        Start::with_event(compiled)
    }

    fn register_again(
        &self,
        _command: &Command<'a>,
        compiled: &Compiled,
        purpose: &Purpose,
    ) -> Result<KBox<dyn Registered>, Failure> {
        let Purpose::Record(records) = purpose else {
            return Err(EINVAL.into());
        };
        let functions = CallFunctions::find(self)?;
        let action = compiled.action(purpose)?;
        let few_words = ArgumentWords::at_sites(&functions.sites)?;
        let tree = CallTree::new(self, functions.roots, few_words, action, records.clone())?;
        let tree = Arc::new(tree, GFP_KERNEL)?;
        // A task that exits in a call must not keep it, so this comes first.
        let exits = AtTaskFree::attach(tree.clone())?;
        let functions = Functions::Addresses(&functions.sites);
        Ok(boxed(RegisteredTree {
            fprobe: Fprobe::new(functions, AtStep(tree.clone()))?,
            _exits: exits,
            tree,
        })?)
    }
}

/// A registered call tree. The order of the fields is that of their unregistration.
struct RegisteredTree {
    fprobe: Fprobe<AtStep>,
    _exits: Tracepoint<AtTaskFree<CallTree>>,
    tree: Arc<CallTree>,
}

impl Registered for RegisteredTree {
    fn counts(&self) -> Counts {
        Counts::of(self.fprobe.handler(), self.fprobe.missed()).and(missed(self.tree.missed()))
    }

    fn each_call(&self, f: &mut dyn FnMut(&CallInProgress, &[OpenStep])) -> Result {
        self.tree.each_call(f)
    }

    /// A call in progress has no record any more.
    fn unregister(self: KBox<Self>) -> Counts {
        let Self {
            fprobe,
            _exits,
            tree,
        } = KBox::into_inner(self);
        let counts = fprobe.unregister(Counts::of);
        let in_progress = tree.in_progress() as u64;
        counts.and(missed(tree.missed().wrapping_add(in_progress)))
    }
}

fn missed(missed: u64) -> Counts {
    Counts {
        missed,
        ..Counts::default()
    }
}
