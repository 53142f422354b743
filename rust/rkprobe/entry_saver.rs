// SPDX-License-Identifier: GPL-2.0

//! Entry data: the values that a return probe saves at the entry of a call, for the return of the
//! call.

use kernel::prelude::*;

use ktrace::{
    context::monotonic_clock,
    fprobe,
    function::Call,
    kprobe::Hit,
    kretprobe,
    trace_event::Origin, //
};
use probe::{
    argument::{
        Argument,
        Base, //
    },
    fetch::{
        self,
        EntryArgument, //
    },
};

use crate::{
    action::Action,
    hit_context::{
        CallValues,
        HitContext, //
    },
};

/// The layout of the entry data of a probe.
#[derive(Default)]
pub(crate) struct EntryLayout {
    /// The saved arguments, one word each.
    pub(crate) arguments: KVec<EntryArgument>,
    /// Whether the probe also saves the time.
    pub(crate) is_timed: bool,
}

impl EntryLayout {
    /// The layout of the entry data that these arguments need. Fails with `ENOMEM`.
    ///
    /// C: `traceprobe_get_entry_data_size()`.
    pub(crate) fn of<'a>(arguments: impl Iterator<Item = &'a Argument<'a>>) -> Result<Self> {
        let mut layout = Self::default();
        for argument in arguments {
            layout.is_timed |= argument.fetch.base == Base::Elapsed;
            if let Some(saved) = EntryArgument::of(argument) {
                if !layout.arguments.contains(&saved) {
                    layout.arguments.push(saved, GFP_KERNEL)?;
                }
            }
        }
        Ok(layout)
    }

    /// The number of words.
    pub(crate) fn words(&self) -> usize {
        self.arguments.len() + usize::from(self.is_timed)
    }

    /// Copies the layout. Fails with `ENOMEM`.
    pub(crate) fn try_clone(&self) -> Result<Self> {
        let mut arguments = KVec::new();
        arguments.extend_from_slice(&self.arguments, GFP_KERNEL)?;
        Ok(Self {
            arguments,
            is_timed: self.is_timed,
        })
    }
}

/// Number of words of entry data that suffice for most probes: one cache line. Also the maximum for
/// a probe of functions by ftrace.
pub(crate) const FEW: usize = 8;

/// The handler of a return probe with `N` words of entry data. If `IS_TIMED`, the last word is the
/// time of the entry.
///
/// The kernel reserves memory for these words for each call in flight. A probe without entry data
/// uses the [`Action`] as its handler, which does nothing at the entry.
pub(crate) struct EntrySaver<const N: usize, const IS_TIMED: bool> {
    action: Action,
    arguments: KVec<EntryArgument>,
}

impl<const N: usize, const IS_TIMED: bool> EntrySaver<N, IS_TIMED> {
    /// The maximum number of arguments.
    pub(crate) const MAX: usize = N - IS_TIMED as usize;

    /// Creates a handler. Fails with `E2BIG` if there are more than [`Self::MAX`] arguments.
    pub(crate) fn new(action: Action, arguments: KVec<EntryArgument>) -> Result<Self> {
        if arguments.len() > Self::MAX {
            return Err(E2BIG);
        }
        Ok(Self { action, arguments })
    }

    /// Saves the entry data, at the entry of a call.
    #[inline(always)]
    pub(crate) fn save(&self, hit: &impl Origin) -> [u64; N] {
        let mut words = [0; N];
        let context = HitContext {
            state: hit.state(),
            values: (),
        };
        fetch::save_entry_data(&self.arguments, context, &mut words[..Self::MAX]);
        if IS_TIMED {
            words[N - 1] = monotonic_clock();
        }
        words
    }

    /// Returns the entry data, at the return of the call.
    #[inline(always)]
    pub(crate) fn saved(words: &[u64; N]) -> EntryData<'_> {
        EntryData {
            words,
            elapsed: if IS_TIMED {
                elapsed_since(words[N - 1])
            } else {
                0
            },
        }
    }
}

#[vtable]
impl<const N: usize, const IS_TIMED: bool> kretprobe::Handler for EntrySaver<N, IS_TIMED> {
    type Data = [u64; N];

    #[inline(always)]
    fn entry(&self, hit: &Hit<'_>) -> Option<[u64; N]> {
        self.action.admits_call(hit).then(|| self.save(hit))
    }

    #[inline(always)]
    fn ret(&self, hit: &Hit<'_>, call: &kretprobe::Call<'_, [u64; N]>) {
        self.action.run(
            hit,
            Self::saved(call.data()),
            (hit.address(), call.caller()),
        );
    }
}

#[vtable]
impl<const N: usize, const IS_TIMED: bool> fprobe::Handler for EntrySaver<N, IS_TIMED> {
    type Data = [u64; N];

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<[u64; N]> {
        self.action.admits_call(call).then(|| self.save(call))
    }

    #[inline(always)]
    fn exit(&self, call: &Call<'_>, words: &[u64; N]) {
        self.action
            .run(call, Self::saved(words), (call.function(), call.caller()));
    }
}

impl<const N: usize, const IS_TIMED: bool> AsRef<Action> for EntrySaver<N, IS_TIMED> {
    fn as_ref(&self) -> &Action {
        &self.action
    }
}

/// The time since `then`, in ns.
///
/// A call can return on another CPU, so this function uses a clock that is equal on all CPUs. The
/// default clock of the trace is not.
#[inline(always)]
pub(crate) fn elapsed_since(then: u64) -> u64 {
    monotonic_clock().saturating_sub(then)
}

/// The entry data of a call, at its return.
#[derive(Clone, Copy)]
pub(crate) struct EntryData<'a> {
    pub(crate) words: &'a [u64],
    /// The duration of the call, in ns.
    pub(crate) elapsed: u64,
}

impl CallValues for EntryData<'_> {
    #[inline(always)]
    fn entry_data(self, index: u8) -> u64 {
        // Each index in a program has a word.
        self.words.get(usize::from(index)).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn elapsed(self) -> u64 {
        self.elapsed
    }
}
