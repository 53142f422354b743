// SPDX-License-Identifier: GPL-2.0

//! Files of the kernel's own, read by the kernel.
//!
//! C header: [`include/linux/fs.h`](srctree/include/linux/fs.h)

use core::ptr;

use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::str::CStr;

// The file is only passed on.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_open_in_init(path: *const c_char) -> *mut bindings::file;
    #[cfg(not(CONFIG_RKPROBE_EXPORTS))]
    fn ktrace_read_proc_seq_file(
        file: *mut bindings::file,
        name: *const c_char,
        to: *mut kernel::ffi::c_void,
        len: usize,
        position: &mut i64,
    ) -> isize;
}

use crate::trace_event;

kernel::sync::global_lock! {
    // Held while a file is opened, so that lockdep knows the order of the locks: see `init`.
    // SAFETY: Initialised by `init` before anything else here is used.
    unsafe(uninit) static OPENING: Mutex<()> = ();
}

/// Teaches lockdep that a file is never opened with `event_mutex` held, nor with a lock that is
/// ever taken under `event_mutex`: opening one may wait for disks, for other users, for anything.
///
/// # Safety
///
/// Called once, before anything else here is used.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, and nobody has used the lock yet.
    unsafe { OPENING.init() };
    if cfg!(CONFIG_PROVE_LOCKING) {
        let _opening = OPENING.lock();
        // This takes `event_mutex`, as `EventMutex::with` does; but that takes it within SRCU,
        // through which lockdep follows no order.
        let _ = trace_event::exists(c"ktrace", c"none");
    }
}

/// A file that is open for reading, at its start at first. Process context; sleeps.
pub(crate) struct File {
    /// Open until this is dropped.
    file: *mut bindings::file,
    position: i64,
}

impl File {
    /// Opens the file that the first process sees at `path`, with the rights of the kernel.
    ///
    /// Not with `event_mutex` held, nor with a lock that is taken under it. A kernel with
    /// `CONFIG_PROVE_LOCKING` reports who does.
    pub(crate) fn open(path: &CStr) -> Result<Self> {
        let _opening = OPENING.lock();
        // SAFETY: `path` is a string with a NUL at its end, as a `CStr` is.
        let file = from_err_ptr(unsafe { ktrace_open_in_init(path.as_char_ptr()) })?;
        Ok(Self { file, position: 0 })
    }

    /// The bytes from here to the end, where the file says how many it has.
    pub(crate) fn read_all(&mut self) -> Result<KVVec<u8>> {
        // SAFETY: `open` opened the file, and it is closed when `self` is dropped.
        let len = unsafe { bindings::vfs_llseek(self.file, 0, bindings::SEEK_END as c_int) };
        let len = usize::try_from(len).map_err(|_| Error::from_errno(len as i32))?;
        let mut bytes = KVVec::from_elem(0, len, GFP_KERNEL)?;
        let mut filled: usize = 0;
        while let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) {
            // SAFETY: `open` opened the file, and `room` is a slice of so many bytes.
            let len = unsafe {
                bindings::kernel_read(
                    self.file,
                    room.as_mut_ptr().cast(),
                    room.len(),
                    &mut self.position,
                )
            };
            match usize::try_from(len) {
                Ok(0) => return Err(EIO),
                Ok(len) => filled = filled.saturating_add(len),
                Err(_) => return Err(Error::from_errno(len as i32)),
            }
        }
        Ok(bytes)
    }

    /// Fills the start of `room` with what comes next, where this is the file `name` in the root
    /// of proc; the number of bytes, which is 0 at the end.
    #[cfg(not(CONFIG_RKPROBE_EXPORTS))]
    pub(crate) fn read_proc(&mut self, name: &CStr, room: &mut [u8]) -> Result<usize> {
        // SAFETY: `open` opened the file, `name` is a string with a NUL at its end, and `room` is a
        // slice of so many bytes.
        let len = unsafe {
            ktrace_read_proc_seq_file(
                self.file,
                name.as_char_ptr(),
                room.as_mut_ptr().cast(),
                room.len(),
                &mut self.position,
            )
        };
        usize::try_from(len).map_err(|_| Error::from_errno(len as i32))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: It was opened by `open`, and nobody has it any more.
        unsafe { bindings::filp_close(self.file, ptr::null_mut()) };
    }
}
