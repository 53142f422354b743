// SPDX-License-Identifier: GPL-2.0

//! Hides addresses from the readers of the control files and of the kernel's log.
//!
//! An administrator can let users read tracefs who may not see addresses of the kernel. For these
//! users, zeros replace each address in a command.

use core::fmt;

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    str::CString, //
};

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

/// Passes a text without addresses to `print`, which writes it to the kernel's log. Any user may be
/// able to read the log. Process context. Without memory, prints nothing.
pub(crate) fn log(text: fmt::Arguments<'_>, print: impl FnOnce(fmt::Arguments<'_>)) {
    let text = CString::try_from_fmt(text);
    if let Some(text) = text.as_deref().ok().and_then(|text| text.to_str().ok()) {
        print(format_args!("{}", Masked(text)));
    }
}

/// Writes a line to the kernel's log: see [`log`].
pub(crate) fn log_line(text: fmt::Arguments<'_>) {
    log(text, |text| pr_info!("{text}\n"));
}
