// SPDX-License-Identifier: GPL-2.0

//! Return probes, by how much they keep of a call from its entry to its return.
//!
//! How much that is has to be known when this is compiled: the kernel then has just this room with
//! each call in flight, and the handlers find their way around it without a check.

use kernel::prelude::*;

use ktrace::kretprobe::AnyKretprobe;
use ktrace::kretprobe::Kretprobe;
use ktrace::kretprobe::Target;
use probe::command::MAX_ARGUMENTS;
use probe::fetch::EntryValue;

use crate::recorder::Keeper;
use crate::recorder::Recorder;
use crate::recorder::FEW;

/// Makes the enum, and hands each call on to the probe.
macro_rules! return_probes {
    ($($(#[$doc:meta])* $name:ident($handler:ty),)*) => {
        /// A registered return probe.
        pub(crate) enum ReturnProbe {
            $($(#[$doc])* $name(Kretprobe<$handler>),)*
        }

        impl ReturnProbe {
            pub(crate) fn recorder(&self) -> &Recorder {
                match self {
                    $(Self::$name(probe) => probe.handler().as_ref(),)*
                }
            }

            pub(crate) fn enable(&self) -> Result {
                match self {
                    $(Self::$name(probe) => probe.enable(),)*
                }
            }

            pub(crate) fn disable(&self) -> Result {
                match self {
                    $(Self::$name(probe) => probe.disable(),)*
                }
            }

            pub(crate) fn is_gone(&self) -> bool {
                match self {
                    $(Self::$name(probe) => probe.is_gone(),)*
                }
            }

            pub(crate) fn address(&self) -> usize {
                match self {
                    $(Self::$name(probe) => probe.address(),)*
                }
            }

            pub(crate) fn maxactive(&self) -> u32 {
                match self {
                    $(Self::$name(probe) => probe.maxactive(),)*
                }
            }

            pub(crate) fn missed(&self) -> u64 {
                match self {
                    $(Self::$name(probe) => probe.missed(),)*
                }
            }

            /// The probe, whatever it keeps.
            pub(crate) fn into_any(self) -> AnyKretprobe {
                match self {
                    $(Self::$name(probe) => probe.into(),)*
                }
            }
        }
    };
}

return_probes! {
    /// Keeps nothing.
    Plain(Recorder),
    /// Keeps the time only.
    Timed(Keeper<1, true>),
    /// Keeps a few values: more than the arguments that are passed in registers.
    Few(Keeper<FEW, false>),
    /// And the time.
    FewTimed(Keeper<FEW, true>),
    /// Keeps as much as arguments can ask for.
    Many(Keeper<MAX_ARGUMENTS, false>),
    /// And the time, which one of them has asked for then.
    ManyTimed(Keeper<MAX_ARGUMENTS, true>),
}

/// What a return probe keeps of a call.
pub(crate) struct Kept {
    /// What it finds at the entry.
    pub(crate) values: KVec<EntryValue>,
    /// Whether the time is taken.
    pub(crate) is_timed: bool,
}

impl ReturnProbe {
    /// Places a probe, disabled.
    pub(crate) fn register(
        target: Target,
        maxactive: u16,
        recorder: Recorder,
        kept: Kept,
    ) -> Result<Self> {
        let Kept { values, is_timed } = kept;
        Ok(match (values.len(), is_timed) {
            (0, false) => Self::Plain(Kretprobe::register(target, maxactive, recorder)?),
            (0, true) => Self::Timed(keeping(target, maxactive, recorder, values)?),
            (..=FEW, false) => Self::Few(keeping(target, maxactive, recorder, values)?),
            (..FEW, true) => Self::FewTimed(keeping(target, maxactive, recorder, values)?),
            (_, false) => Self::Many(keeping(target, maxactive, recorder, values)?),
            (_, true) => Self::ManyTimed(keeping(target, maxactive, recorder, values)?),
        })
    }
}

fn keeping<const N: usize, const IS_TIMED: bool>(
    target: Target,
    maxactive: u16,
    recorder: Recorder,
    values: KVec<EntryValue>,
) -> Result<Kretprobe<Keeper<N, IS_TIMED>>> {
    Kretprobe::register(target, maxactive, Keeper::new(recorder, values)?)
}
