// SPDX-License-Identifier: GPL-2.0

//! Records: where a record comes from, who gets it, and how it is printed.

pub(crate) mod callers;
pub(crate) mod here;
pub(crate) mod origin;
pub(crate) mod print;
pub(crate) mod sink;
