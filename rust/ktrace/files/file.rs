// SPDX-License-Identifier: GPL-2.0

//! Reads files of sysfs, proc and tracefs, and looks up paths of tracefs, in the kernel.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/mount.h`](srctree/include/linux/mount.h)

use core::ptr;

use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_char,
        c_int,
        c_void, //
    },
    prelude::*,
    str::CStr, //
};

// Rust only passes on pointers to this structure.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_open(file_system: *const c_char, path: *const c_char) -> *mut bindings::file;
    fn ktrace_look_up(file_system: *const c_char, path: *const c_char) -> c_int;
    fn ktrace_read_seq_file(
        file: *mut bindings::file,
        to: *mut c_void,
        len: usize,
        position: &mut i64,
    ) -> isize;
}

kernel::sync::global_lock! {
    // Held while a file is opened, so that lockdep learns the order of the locks: see `init`.
    // SAFETY: `init` initialises the mutex before any other use of this file.
    unsafe(uninit) static OPENING: Mutex<()> = ();
}

/// Tells lockdep that no task opens a file with `event_mutex` held, or with a lock held that any
/// task takes under `event_mutex`. Opening a file may wait for disks or for other users.
///
/// # Safety
///
/// The caller calls this function once, before any other use of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this function once, and no code has used the lock yet.
    unsafe { OPENING.init() };
    if cfg!(CONFIG_PROVE_LOCKING) {
        let _opening = OPENING.lock();
        // This call takes `event_mutex`. `EventMutex::with` also takes it, but inside an SRCU
        // section, and lockdep does not follow the order of locks through SRCU.
        let none = c"ktrace:none".as_char_ptr();
        // SAFETY: Both arguments are strings. No event has this name.
        unsafe { crate::bindings::trace_set_clr_event(none, none, 0) };
    }
}

/// Whether tracefs has a file or a directory at `path`. Tracefs need not be mounted. The
/// permissions of the current task do not matter.
/// Process context; sleeps. The caller must not hold `event_mutex`: see [`File::open`]. `ENOMEM`,
/// `ENODEV` if the kernel has no tracefs, `ESRCH` if the current task is exiting.
pub(crate) fn is_in_tracefs(path: &CStr) -> Result<bool> {
    let _opening = OPENING.lock();
    // SAFETY: Both arguments are NUL-terminated, because each is a `CStr`. The function knows this
    // file system.
    let found = unsafe { ktrace_look_up(c"tracefs".as_char_ptr(), path.as_char_ptr()) };
    match to_result(found) {
        Err(ENOENT) => Ok(false),
        result => result.map(|()| true),
    }
}

/// A file that is open for reading. Process context; sleeps.
///
/// # Invariants
///
/// The file stays open until the value is dropped.
pub(crate) struct File(*mut bindings::file);

impl File {
    /// Opens the file at `path` in sysfs, with the permissions of the kernel. Sysfs need not be
    /// mounted.
    ///
    /// The caller must hold neither `event_mutex` nor a lock that any task takes under
    /// `event_mutex`. A kernel with `CONFIG_PROVE_LOCKING` reports violations.
    ///
    /// `ENOENT`, `ENOMEM`, `ENODEV` if the kernel has no sysfs, `ESRCH` if the current task is
    /// exiting.
    pub(crate) fn open(path: &CStr) -> Result<Self> {
        Self::open_in(c"sysfs", path)
    }

    /// Opens a file of sysfs, proc or tracefs: see [`File::open`].
    pub(crate) fn open_in(file_system: &CStr, path: &CStr) -> Result<Self> {
        let _opening = OPENING.lock();
        // SAFETY: Both arguments are NUL-terminated, because each is a `CStr`. The function knows
        // three file systems, and this is one of them.
        let file = unsafe { ktrace_open(file_system.as_char_ptr(), path.as_char_ptr()) };
        // INVARIANT: `ktrace_open` opened the file only for this value.
        Ok(Self(from_err_ptr(file)?))
    }

    /// Fills the start of `room` with the text from `position` on, and advances `position`. The
    /// text may be cut anywhere. Returns the number of bytes, which is 0 at the end of the file.
    ///
    /// # Safety
    ///
    /// The file must be a `seq_file`.
    pub(crate) unsafe fn read_seq(&self, room: &mut [u8], position: &mut i64) -> Result<usize> {
        // SAFETY: By the type invariant, the file is open. The caller guarantees that it is a
        // `seq_file`. `room` is a slice of this length.
        let len =
            unsafe { ktrace_read_seq_file(self.0, room.as_mut_ptr().cast(), room.len(), position) };
        usize::try_from(len).map_err(|_| Error::from_errno(len as i32))
    }

    /// The open file.
    pub(crate) fn as_ptr(&self) -> *mut bindings::file {
        self.0
    }

    /// Reads all bytes of a file that reports its length.
    pub(crate) fn read_all(&self) -> Result<KVVec<u8>> {
        // SAFETY: By the type invariant, the file is open.
        let len = unsafe { bindings::vfs_llseek(self.as_ptr(), 0, bindings::SEEK_END as c_int) };
        let len = usize::try_from(len).map_err(|_| Error::from_errno(len as i32))?;
        let mut bytes = KVVec::from_elem(0, len, GFP_KERNEL)?;
        let mut filled: usize = 0;
        let mut position = 0;
        while let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) {
            // SAFETY: By the type invariant, the file is open. `room` is a slice of this length.
            let len = unsafe {
                bindings::kernel_read(
                    self.as_ptr(),
                    room.as_mut_ptr().cast(),
                    room.len(),
                    &mut position,
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
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, the file is open. No code uses the file after this drop.
        unsafe { bindings::filp_close(self.as_ptr(), ptr::null_mut()) };
    }
}
