// SPDX-License-Identifier: GPL-2.0

//! What is known of the place that a probe goes to.

use super::argument::Place;
use crate::btf::Function;

/// Where a probe stands: it decides which variables there are, and of which types.
#[derive(Clone, Copy, Debug)]
pub struct Site<'b> {
    /// Where in its function.
    pub place: Place,
    /// What the function takes and returns.
    pub signature: Signature<'b>,
}

/// What BTF says of a function.
#[derive(Clone, Copy, Debug)]
pub enum Signature<'b> {
    /// The kernel has no BTF.
    ///
    /// C: without `CONFIG_PROBE_EVENTS_BTF_ARGS`.
    Unsupported,
    /// It does not know the function.
    Unknown,
    /// It knows it.
    Known(Function<'b>),
}

impl<'b> Signature<'b> {
    /// The function, where it is known.
    pub const fn function(self) -> Option<Function<'b>> {
        match self {
            Self::Known(function) => Some(function),
            Self::Unsupported | Self::Unknown => None,
        }
    }
}
