// SPDX-License-Identifier: GPL-2.0

//! Hides addresses from the readers of the control files.
//!
//! An administrator can let users read tracefs who may not see addresses of the kernel. For these
//! users, zeros replace each address in a command.

use kernel::seq_file::SeqFile;

use ktrace::security;
use probe::command::{
    has_address,
    Masked, //
};

/// Writes a text. Hides the addresses that the reader may not see.
pub(crate) fn show(to: &SeqFile, text: &str) {
    if has_address(text) && !security::shows_addresses(to) {
        to.call_printf(format_args!("{}", Masked(text)));
    } else {
        to.call_printf(format_args!("{text}"));
    }
}
