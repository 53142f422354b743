// SPDX-License-Identifier: GPL-2.0

//! The kernel's list of symbols, `kallsyms` in proc.

use kernel::prelude::*;

use probe::kallsyms::SymbolLine;

use crate::files::file::File;

/// The kernel's list of symbols, open for reading. Process context; sleeps.
///
/// # Invariants
///
/// The file is `kallsyms`, which is a `seq_file`.
pub(super) struct Kallsyms {
    file: File,
    position: i64,
}

impl Kallsyms {
    /// Opens the list. Proc need not be mounted. Errors: see [`File::open`].
    pub(super) fn open() -> Result<Self> {
        // INVARIANT: This mount of proc is private to the kernel, so no user can mount another file
        // over it.
        Ok(Self {
            file: File::open_in(c"proc", c"kallsyms")?,
            position: 0,
        })
    }

    /// Calls `f` for each symbol of the kernel image, until `f` fails. `ENOMEM`, and the errors of
    /// `f`.
    pub(super) fn each_of_kernel(mut self, mut f: impl FnMut(SymbolLine<'_>) -> Result) -> Result {
        const SIZE: usize = 64 << 10;
        let mut text = KVVec::from_elem(0, SIZE, GFP_KERNEL)?;
        let mut filled: usize = 0;
        loop {
            let room = text.get_mut(filled..).unwrap_or(&mut []);
            // SAFETY: By the type invariant, the file is a `seq_file`.
            let len = unsafe { self.file.read_seq(room, &mut self.position) }?;
            filled = filled.saturating_add(len).min(SIZE);
            let lines = text.get(..filled).unwrap_or(&[]);
            let end = lines.iter().rposition(|&byte| byte == b'\n');
            let Some(end) = end.filter(|_| len > 0) else {
                return Ok(());
            };
            for line in lines.get(..end).unwrap_or(&[]).split(|&byte| byte == b'\n') {
                match SymbolLine::parse(line) {
                    Some(symbol) if symbol.module.is_none() => f(symbol)?,
                    _ => {}
                }
            }
            // Skips the rest of a line that was cut.
            let end = end.wrapping_add(1);
            text.copy_within(end..filled, 0);
            filled = filled.wrapping_sub(end);
        }
    }
}
