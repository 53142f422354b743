// SPDX-License-Identifier: GPL-2.0

//! The record of an event that has an event probe.

use crate::support::tree_variants;

pub use tree::Record;

tree_variants!();
