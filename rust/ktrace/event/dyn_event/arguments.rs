// SPDX-License-Identifier: GPL-2.0

//! The words of a command that removes events.

use crate::support::tree_variants;

pub use tree::Arguments;

tree_variants!();
