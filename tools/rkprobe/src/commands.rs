// SPDX-License-Identifier: GPL-2.0

//! The commands, one a file. Their options are in the files of the same names below cli/.

pub mod args;
pub mod between;
pub mod count;
pub mod cover;
pub mod disk;
pub mod doctor;
pub mod events;
pub mod exits;
pub mod fails;
pub mod follow;
pub mod hist;
pub mod lat;
pub mod leaks;
pub mod list;
pub mod locks;
pub mod names;
pub mod net;
pub mod offcpu;
pub mod path;
pub mod slow;
pub mod stuck;
pub mod tree;
pub mod vars;
pub mod watch;
pub mod why;
