// SPDX-License-Identifier: GPL-2.0

//! The kernel's list of symbols, `kallsyms` in proc.

use kernel::{
    bindings,
    ffi::c_void,
    prelude::*, //
};

use crate::file::File;

// The file is only passed on.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_read_seq_file(
        file: *mut bindings::file,
        to: *mut c_void,
        len: usize,
        position: &mut i64,
    ) -> isize;
}

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
        // INVARIANT: Nobody else has this mount of proc, so that nothing is mounted on the file.
        Ok(Self {
            file: File::open_in(c"proc", c"kallsyms")?,
            position: 0,
        })
    }

    /// Fills the start of `room` with the next lines. The last line may be cut. Returns the number
    /// of bytes, which is 0 at the end.
    pub(super) fn read(&mut self, room: &mut [u8]) -> Result<usize> {
        // SAFETY: `self.file` keeps the file open, and by the type invariant it is a `seq_file`.
        // `room` is a slice of so many bytes.
        let len = unsafe {
            ktrace_read_seq_file(
                self.file.as_ptr(),
                room.as_mut_ptr().cast(),
                room.len(),
                &mut self.position,
            )
        };
        usize::try_from(len).map_err(|_| Error::from_errno(len as i32))
    }
}
