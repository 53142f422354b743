// SPDX-License-Identifier: GPL-2.0

//! Files of sysfs and proc, read by the kernel, and paths of tracefs, looked up by it.
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
        c_int, //
    },
    prelude::*,
    str::CStr, //
};

// The file is only passed on.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_open(file_system: *const c_char, path: *const c_char) -> *mut bindings::file;
    fn ktrace_look_up(file_system: *const c_char, path: *const c_char) -> c_int;
}

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
        let none = c"ktrace:none".as_char_ptr();
        // SAFETY: Both are strings. No event has this name.
        unsafe { crate::bindings::trace_set_clr_event(none, none, 0) };
    }
}

/// Whether tracefs has a file or a directory at `path`. Tracefs need not be mounted. The rights of
/// the current task do not matter.
///
/// Process context; sleeps. Not with `event_mutex` held: see [`File::open`]. `ENOMEM`; `ENODEV` if
/// the kernel has no tracefs; `ESRCH` if the current task is almost gone.
pub(crate) fn is_in_tracefs(path: &CStr) -> Result<bool> {
    let _opening = OPENING.lock();
    // SAFETY: Both are strings with a NUL at their ends, as a `CStr` is. The file system is one
    // that the function knows.
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
    /// Opens the file at `path` in sysfs, which need not be mounted, with the rights of the kernel.
    ///
    /// Not with `event_mutex` held, nor with a lock that is taken under it. A kernel with
    /// `CONFIG_PROVE_LOCKING` reports who does.
    ///
    /// `ENOENT`, `ENOMEM`; `ENODEV` if the kernel has no sysfs; `ESRCH` if the current task is
    /// almost gone.
    pub(crate) fn open(path: &CStr) -> Result<Self> {
        Self::open_in(c"sysfs", path)
    }

    /// Opens a file of sysfs or proc: see [`File::open`].
    pub(crate) fn open_in(file_system: &CStr, path: &CStr) -> Result<Self> {
        let _opening = OPENING.lock();
        // SAFETY: Both are strings with a NUL at their ends, as a `CStr` is. The file system is one
        // of the two that the function knows.
        let file = unsafe { ktrace_open(file_system.as_char_ptr(), path.as_char_ptr()) };
        // INVARIANT: `ktrace_open` opened the file for this value alone.
        Ok(Self(from_err_ptr(file)?))
    }

    /// The open file.
    pub(crate) fn as_ptr(&self) -> *mut bindings::file {
        self.0
    }

    /// All bytes of a file that tells its length.
    pub(crate) fn read_all(&self) -> Result<KVVec<u8>> {
        // SAFETY: By the type invariant the file is open.
        let len = unsafe { bindings::vfs_llseek(self.as_ptr(), 0, bindings::SEEK_END as c_int) };
        let len = usize::try_from(len).map_err(|_| Error::from_errno(len as i32))?;
        let mut bytes = KVVec::from_elem(0, len, GFP_KERNEL)?;
        let mut filled: usize = 0;
        let mut position = 0;
        while let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) {
            // SAFETY: By the type invariant the file is open. `room` is a slice of so many bytes.
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
        // SAFETY: By the type invariant the file is open. Nobody uses it after this drop.
        unsafe { bindings::filp_close(self.as_ptr(), ptr::null_mut()) };
    }
}
