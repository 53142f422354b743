// SPDX-License-Identifier: GPL-2.0

//! Module `fetch`: arguments become programs, programs records, and records text.

mod arrays;
mod commands;
mod conditions;
mod fields;
mod keys;
mod machine;
mod model;
mod numbers;
mod print;
mod print_fmt;
mod room;
mod sources;
mod strings;
