// SPDX-License-Identifier: GPL-2.0

//! Collects what an iterator returns.

use kernel::prelude::*;

/// Collects values. `ENOMEM`.
pub(crate) fn collect<T>(values: impl Iterator<Item = T>) -> Result<KVVec<T>> {
    let (least, _) = values.size_hint();
    let mut collected = KVVec::with_capacity(least, GFP_KERNEL)?;
    for value in values {
        collected.push(value, GFP_KERNEL)?;
    }
    Ok(collected)
}
