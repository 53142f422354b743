// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe doctor`.

use clap::Command;

/// The command and its options.
pub fn options() -> Command {
    Command::new("doctor")
        .about("Does the kernel have what the tool needs? If not, what can you do?")
}
