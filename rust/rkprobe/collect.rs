// SPDX-License-Identifier: GPL-2.0

//! Collects what an iterator returns.

use kernel::prelude::*;

use crate::failure::Failure;

/// Collects values. `ENOMEM`.
pub(crate) fn collect<T>(values: impl Iterator<Item = T>) -> Result<KVVec<T>> {
    let (least, _) = values.size_hint();
    let mut collected = KVVec::with_capacity(least, GFP_KERNEL)?;
    for value in values {
        collected.push(value, GFP_KERNEL)?;
    }
    Ok(collected)
}

/// Collects values up to the first error. Fails with this error, or with `ENOMEM`.
// The iterators are large, so a call must not copy them.
#[inline(always)]
pub(crate) fn try_collect<T, E>(
    values: impl Iterator<Item = Result<T, E>>,
) -> Result<KVVec<T>, Failure>
where
    Failure: From<E>,
{
    let mut collected = KVVec::new();
    for value in values {
        collected.push(value?, GFP_KERNEL)?;
    }
    Ok(collected)
}
