// SPDX-License-Identifier: GPL-2.0

//! Control files: they pin a module, which is there for as long as they are.

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    ThisModule, //
};

use ktrace::tracefs::{
    ControlFile,
    File, //
};

pub struct Log;

#[vtable]
impl ControlFile for Log {
    fn next(&self, _: usize) -> Option<usize> {
        None
    }

    fn show(&self, _: usize, to: &SeqFile) {
        let _ = to;

        //~ seq_file_kept: error: lifetime may not live long enough
        #[cfg(case = "seq_file_kept")]
        let _: &'static SeqFile = to;
    }

    fn write_line(&self, line: &[u8]) -> Result {
        let _ = line;

        //~ line_kept: error: lifetime may not live long enough
        #[cfg(case = "line_kept")]
        let _: &'static [u8] = line;

        Ok(())
    }
}

pub fn create(module: &'static ThisModule) -> Result<File> {
    File::create(c"log", module, Log)
}

//~ owner_borrowed: error[E0521]: borrowed data escapes outside of function
#[cfg(case = "owner_borrowed")]
pub fn owner_borrowed(module: &ThisModule) -> Result<File> {
    File::create(c"log", module, Log)
}

//~ not_a_control_file: error[E0277]: the trait bound `u32: ControlFile` is not satisfied
#[cfg(case = "not_a_control_file")]
pub fn not_a_control_file(module: &'static ThisModule) -> Result<File> {
    File::create(c"log", module, 0u32)
}

pub fn use_file(file: File) {
    let _ = &file;

    //~ cloned: error[E0599]: no method named `clone`
    #[cfg(case = "cloned")]
    let _ = file.clone();

    //~ taken_apart: error[E0616]: field `operations` of struct
    #[cfg(case = "taken_apart")]
    let _ = file.operations;
}

#[cfg(case = "not_shared")]
pub struct Cells(core::cell::Cell<u64>);

/// Several tasks read a file at the same time.
//~ not_shared: error[E0277]: `Cell<u64>` cannot be shared between threads safely
#[cfg(case = "not_shared")]
#[vtable]
impl ControlFile for Cells {
    fn next(&self, _: usize) -> Option<usize> {
        None
    }

    fn show(&self, _: usize, _: &SeqFile) {}
}

#[cfg(case = "without_vtable")]
pub struct List;

/// Whether a file can be written to is what the attribute says.
//~ without_vtable: error[E0046]: not all trait items implemented, missing: `USE_VTABLE_ATTR`
#[cfg(case = "without_vtable")]
impl ControlFile for List {
    fn next(&self, _: usize) -> Option<usize> {
        None
    }

    fn show(&self, _: usize, _: &SeqFile) {}
}
