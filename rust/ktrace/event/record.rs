// SPDX-License-Identifier: GPL-2.0

//! Records: where a record comes from, and who gets it.

pub(crate) mod here;
pub(crate) mod origin;
pub(crate) mod sink;
