// SPDX-License-Identifier: GPL-2.0

//! What a return probe keeps of a call, from its entry to its return.

use kernel::prelude::*;

use ktrace::context::monotonic_clock;
use ktrace::fprobe;
use ktrace::function::Call;
use ktrace::kprobe::Hit;
use ktrace::kretprobe;
use ktrace::trace_event::Origin;
use probe::fetch;
use probe::fetch::EntryValue;

use crate::recorder::CallValues;
use crate::recorder::HitContext;
use crate::recorder::Recorder;

/// What is to be kept.
#[derive(Default)]
pub(crate) struct EntryValues {
    /// What is found at the entry.
    pub(crate) values: KVec<EntryValue>,
    /// Whether the time is taken.
    pub(crate) is_timed: bool,
}

impl EntryValues {
    /// Takes memory for a copy.
    pub(crate) fn try_clone(&self) -> Result<Self> {
        let mut values = KVec::new();
        values.extend_from_slice(&self.values, GFP_KERNEL)?;
        Ok(Self {
            values,
            is_timed: self.is_timed,
        })
    }
}

/// How many words most probes keep at most that keep any: a cache line of them. Also the most that
/// a probe of functions by ftrace can keep.
pub(crate) const FEW: usize = 8;

/// What a return probe does that keeps values of a call from its entry, in `N` words, of which the
/// last is the time where that `IS_TIMED`.
///
/// The kernel has room for these words with each call in flight. Where there is nothing to keep it
/// is the [`Recorder`] itself that handles the return, and nothing is done at the entry.
pub(crate) struct EntrySaver<const N: usize, const IS_TIMED: bool> {
    recorder: Recorder,
    values: KVec<EntryValue>,
}

impl<const N: usize, const IS_TIMED: bool> EntrySaver<N, IS_TIMED> {
    /// How many values there is room for.
    pub(crate) const MAX: usize = N - IS_TIMED as usize;

    /// `E2BIG` where there are more than [`Self::MAX`] values.
    pub(crate) fn new(recorder: Recorder, values: KVec<EntryValue>) -> Result<Self> {
        if values.len() > Self::MAX {
            return Err(E2BIG);
        }
        Ok(Self { recorder, values })
    }

    /// What there is to keep at an entry.
    #[inline(always)]
    fn keep(&self, hit: &impl Origin) -> [u64; N] {
        let mut words = [0; N];
        let context = HitContext {
            state: hit.state(),
            values: (),
        };
        fetch::keep(&self.values, &context, &mut words[..Self::MAX]);
        if IS_TIMED {
            words[N - 1] = monotonic_clock();
        }
        words
    }

    /// What was kept, at the return.
    #[inline(always)]
    fn kept(words: &[u64; N]) -> SavedValues<'_, N> {
        SavedValues {
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
        Some(self.keep(hit))
    }

    #[inline(always)]
    fn ret(&self, hit: &Hit<'_>, call: &kretprobe::Call<'_, [u64; N]>) {
        self.recorder
            .record(hit, Self::kept(call.data()), (hit.address(), call.caller()));
    }
}

#[vtable]
impl<const N: usize, const IS_TIMED: bool> fprobe::Handler for EntrySaver<N, IS_TIMED> {
    type Data = [u64; N];

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<[u64; N]> {
        Some(self.keep(call))
    }

    #[inline(always)]
    fn exit(&self, call: &Call<'_>, words: &[u64; N]) {
        self.recorder
            .record(call, Self::kept(words), (call.function(), call.caller()));
    }
}

impl<const N: usize, const IS_TIMED: bool> AsRef<Recorder> for EntrySaver<N, IS_TIMED> {
    fn as_ref(&self) -> &Recorder {
        &self.recorder
    }
}

/// The time since then, in ns.
///
/// The clock is one for all CPUs, which the trace's own default is not: a call often returns on
/// another CPU than it was made on.
#[inline(always)]
fn elapsed_since(then: u64) -> u64 {
    monotonic_clock().saturating_sub(then)
}

/// What was kept of a call that returns.
#[derive(Clone, Copy)]
struct SavedValues<'a, const N: usize> {
    words: &'a [u64; N],
    elapsed: u64,
}

impl<const N: usize> CallValues for SavedValues<'_, N> {
    #[inline(always)]
    fn word(self, index: u8) -> u64 {
        // An index is below `N` anyway; by the mask the compiler knows.
        const { assert!(N.is_power_of_two()) };
        self.words[usize::from(index) & (N - 1)]
    }

    #[inline(always)]
    fn elapsed(self) -> u64 {
        self.elapsed
    }
}
