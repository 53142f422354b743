// SPDX-License-Identifier: GPL-2.0

//! What the readers of the control files see.
//!
//! tracefs can be readable by users who may not see addresses of the kernel. They get zeros in
//! place of each address that stands in a command.

use kernel::seq_file::SeqFile;

use ktrace::security;
use probe::command::{
    has_address,
    Masked, //
};

/// Writes a text, without the addresses that the reader may not see.
pub(crate) fn show(to: &SeqFile, text: &str) {
    if has_address(text) && !security::shows_addresses(to) {
        to.call_printf(format_args!("{}", Masked(text)));
    } else {
        to.call_printf(format_args!("{text}"));
    }
}
