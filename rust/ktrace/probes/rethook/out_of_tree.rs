// SPDX-License-Identifier: GPL-2.0

//! No [`Rethook`] can exist. The methods are those of `in_tree.rs`.

use core::{
    convert::Infallible,
    iter,
    marker::PhantomData, //
};

use kernel::prelude::*;

use crate::{
    probes::{
        kretprobe::{
            Handler,
            Kretprobe, //
        },
        registration::Target, //
    },
    support::unsupported, //
};

/// Probes at the return of some functions.
pub struct Rethook<H: Handler>(Infallible, PhantomData<H>);

impl<H: Handler> Rethook<H> {
    /// Fails with `EOPNOTSUPP`.
    pub fn new<'a, E>(
        targets: impl IntoIterator<Item = impl Into<Target<'a>>>,
        calls: u16,
        handler: impl PinInit<H, E>,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        Self::register_disabled(targets, calls, handler)
    }

    /// Fails with `EOPNOTSUPP`.
    pub fn register_disabled<'a, E>(
        _targets: impl IntoIterator<Item = impl Into<Target<'a>>>,
        _calls: u16,
        _handler: impl PinInit<H, E>,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        const { Kretprobe::<H>::DATA_FITS };
        Err(unsupported())
    }

    /// Arms all probes, or none if an error occurs. Process context.
    pub fn enable(&self) -> Result {
        match self.0 {}
    }

    /// Disarms the probes. Process context.
    pub fn disable(&self) -> Result {
        match self.0 {}
    }

    /// The addresses that the kernel found for the targets. Any context.
    pub fn addresses(&self) -> impl Iterator<Item = usize> + '_ {
        iter::from_fn(|| match self.0 {})
    }

    /// The number of missed calls. Any context.
    pub fn missed(&self) -> u64 {
        match self.0 {}
    }

    /// The handler. Any context.
    pub fn handler(&self) -> &H {
        match self.0 {}
    }
}
