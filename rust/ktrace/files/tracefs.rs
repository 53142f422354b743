// SPDX-License-Identifier: GPL-2.0

//! Control files in the root of tracefs. Users read a listing, and write commands, one per line.
//!
//! C header: [`include/linux/tracefs.h`](srctree/include/linux/tracefs.h)

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::{
        self,
        NonNull, //
    },
};

use kernel::{
    bindings,
    error::{
        from_result,
        to_result, //
    },
    ffi::{
        c_char,
        c_int,
        c_long,
        c_void, //
    },
    prelude::*,
    seq_file::SeqFile,
    str::CStr,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    uaccess::{
        UserPtr,
        UserSlice, //
    },
    ThisModule, //
};

use crate::{
    bindings as tracing,
    modules::{
        leftover::{
            self,
            Entry,
            Kind, //
        },
        owner, //
    },
    security, //
};

/// The maximum length of a line, in bytes, without its newline. C: `WRITE_BUFSIZE` minus two.
pub const MAX_LINE: usize = 4094;

/// The data of a control file. The kernel calls all functions in process context, and several tasks
/// may be in them at the same time.
#[vtable]
pub trait ControlFile: Send + Sync + 'static {
    /// The number of the first entry of the listing whose number is at least `from`. If an entry
    /// keeps its number while other entries are removed, each read of the listing shows the entry
    /// exactly once.
    fn next(&self, from: usize) -> Option<usize>;

    /// Prints the entry with this number, if the entry exists. Readers read the listing entry by
    /// entry, and the listing may change between two entries.
    fn show(&self, number: usize, to: &SeqFile);

    /// Removes all entries. The kernel calls this when a user opens the file for writing with
    /// O_TRUNC.
    fn clear(&self) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Executes a line, which has no newline. If this function fails, the remaining lines of the
    /// same write are not executed.
    fn write_line(&self, _line: &[u8]) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

/// A file in the root of tracefs. [`File::create`] creates the file. Dropping the value removes it.
///
/// Opening the file fails with `ENODEV` until the initialisation of its module is over. An open
/// file keeps the module loaded. Dropping the value waits, without a time limit, until the file is
/// closed, and logs this once. So the file's own callbacks must not drop the value. A file
/// descriptor of `O_PATH` and a bind mount of the file also count as open.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use kernel::{
///     seq_file::SeqFile,
///     seq_print, //
/// };
/// use ktrace::tracefs::{
///     ControlFile,
///     File, //
/// };
///
/// struct Squares {
///     count: usize,
/// }
///
/// #[vtable]
/// impl ControlFile for Squares {
///     fn next(&self, from: usize) -> Option<usize> {
///         (from < self.count).then_some(from)
///     }
///
///     fn show(&self, number: usize, to: &SeqFile) {
///         seq_print!(to, "{}\n", number * number);
///     }
/// }
///
/// struct Module(File);
///
/// impl kernel::Module for Module {
///     fn init(module: &'static ThisModule) -> Result<Self> {
///         Ok(Self(File::create(c"squares", module, Squares { count: 10 })?))
///     }
/// }
/// ```
///
/// # Invariants
///
/// `operations` have the dentry of the file. Only the task that claims `entry` removes the file. If
/// `leftover` has done so, `operations` stay allocated.
#[must_use = "dropping the file removes it"]
pub struct File {
    /// The kernel calls these operations until the file is removed.
    operations: ManuallyDrop<Pin<KBox<FileOperations<dyn Send + Sync>>>>,
    entry: Entry,
}

/// The operations of a file, the module that owns the file, the file's dentry, and its data.
#[repr(C)]
#[pin_data]
struct FileOperations<T: ?Sized> {
    /// The table has no owner. With an owner, the kernel would log a warning for each attempt to
    /// open the file while the module unloads. Instead, [`open`] takes the reference and
    /// [`release`] drops it.
    table: bindings::file_operations,
    owner: &'static ThisModule,
    /// Set once, when the file has been created.
    dentry: Atomic<*mut bindings::dentry>,
    #[pin]
    data: T,
}

// SAFETY: Any task may remove a file, and the operations do not change.
unsafe impl Send for File {}
// SAFETY: A shared reference has no methods, and the operations do not change.
unsafe impl Sync for File {}

// ktrace only passes the dentry on, and does not access its fields.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_remove_file(dentry: *mut bindings::dentry);
}

impl File {
    /// Creates a file with this data, which root can read. If `T` executes lines or removes
    /// entries, root can also write it.
    ///
    /// Process context. `ENOMEM`. `EEXIST` if `tracefs_create_file()` fails. This C function does
    /// not report the error, and an existing file of this name is the most likely cause.
    pub fn create<T, E>(
        name: &CStr,
        owner: &'static ThisModule,
        data: impl PinInit<T, E>,
    ) -> Result<Self>
    where
        T: ControlFile,
        Error: From<E>,
    {
        let writable = T::HAS_WRITE_LINE || T::HAS_CLEAR;
        let mode = if writable { 0o640 } else { 0o440 };
        let operations = KBox::try_pin_init(
            try_pin_init!(FileOperations {
                table: bindings::file_operations {
                    open: Some(open::<T>),
                    read: Some(bindings::seq_read),
                    llseek: Some(bindings::seq_lseek),
                    release: Some(release::<T>),
                    write: if writable { Some(write::<T>) } else { None },
                    ..pin_init::zeroed()
                },
                owner,
                dentry: Atomic::new(ptr::null_mut()),
                data <- data,
            }? Error),
            GFP_KERNEL,
        )?;
        let code = open::<T> as *const () as usize;
        let object = ptr::from_ref(&*operations).cast_mut().cast();
        // SAFETY: `take_back` removes the file and waits until the file is closed. The operations
        // are freed only by a task with the claim.
        let claim = unsafe { leftover::track(Kind::Other, &[code], object, take_back::<T>) }?;
        // SAFETY: The name is a string. The operations live as long as the file.
        let dentry = unsafe {
            tracing::tracefs_create_file(
                name.as_char_ptr(),
                mode,
                ptr::null_mut(),
                ptr::null_mut(),
                &operations.table,
            )
        };
        let dentry = NonNull::new(kernel::error::from_err_ptr(dentry)?).ok_or(EEXIST)?;
        operations.dentry.store(dentry.as_ptr(), Relaxed);
        // SAFETY: The operations stay in their box, which is pinned again below.
        let operations = unsafe { Pin::into_inner_unchecked(operations) };
        let operations: KBox<FileOperations<dyn Send + Sync>> = operations;
        // INVARIANT: `tracefs_create_file()` has just created the file.
        Ok(Self {
            operations: ManuallyDrop::new(operations.into()),
            entry: claim.keep(),
        })
    }
}

impl<T: ?Sized> FileOperations<T> {
    /// Removes the file, and waits until it is closed.
    ///
    /// # Safety
    ///
    /// The file must have been created. The caller calls this function once.
    unsafe fn remove_file(&self) {
        // SAFETY: The caller guarantees that this is the dentry of the file, which exists.
        unsafe { ktrace_remove_file(self.dentry.load(Relaxed)) };
    }
}

/// Removes a file that its module left in tracefs.
///
/// # Safety
///
/// `object` must be the [`FileOperations`] of a [`File`] with data of this type. Only the caller
/// may remove the file.
unsafe fn take_back<T: ControlFile>(object: *mut c_void) {
    // SAFETY: The caller guarantees that these are the operations of a file, which only this call
    // removes.
    unsafe { (*object.cast::<FileOperations<T>>()).remove_file() };
}

impl Drop for File {
    fn drop(&mut self) {
        let Some(_claim) = self.entry.claim() else {
            return;
        };
        // SAFETY: By the type invariant, the file exists, because this task has the claim. The call
        // returns when the file is closed. The operations are freed afterwards, and not used again.
        unsafe {
            self.operations.remove_file();
            ManuallyDrop::drop(&mut self.operations);
        }
    }
}

/// The operations of a file, and so its owner and its data.
///
/// # Safety
///
/// `file` must be a file with data of this type. During `'a`, it must stay open, or be opened or
/// closed.
unsafe fn operations_of<'a, T: ControlFile>(file: *const bindings::file) -> &'a FileOperations<T> {
    // SAFETY: The file's operations are the table in a `FileOperations`, which lives as long as the
    // file.
    unsafe {
        let table = (*file).f_op.cast_mut();
        &*kernel::container_of!(table, FileOperations<T>, table)
    }
}

/// The functions that build a listing from [`ControlFile::show`]. The position is the number of an
/// entry. The iterator is the number plus one, because NULL marks the end.
struct Listing<T>(PhantomData<T>);

impl<T: ControlFile> Listing<T> {
    const OPERATIONS: bindings::seq_operations = bindings::seq_operations {
        start: Some(Self::start),
        next: Some(Self::next),
        stop: Some(Self::stop),
        show: Some(Self::show),
    };

    /// # Safety
    ///
    /// `pos` must be valid, and `m` must be of an open file with data of this type.
    unsafe extern "C" fn start(m: *mut bindings::seq_file, pos: *mut i64) -> *mut c_void {
        // SAFETY: The kernel reads this file, and it stays open meanwhile.
        let data = unsafe { Self::data(m) };
        // SAFETY: The kernel passes a valid position. A position is never negative.
        let Some(number) = data.next(unsafe { *pos } as usize) else {
            return ptr::null_mut();
        };
        // SAFETY: The kernel passes a valid position.
        unsafe { *pos = number as i64 };
        ptr::without_provenance_mut(number.wrapping_add(1))
    }

    /// # Safety
    ///
    /// As for [`start`](Self::start).
    unsafe extern "C" fn next(
        m: *mut bindings::seq_file,
        _: *mut c_void,
        pos: *mut i64,
    ) -> *mut c_void {
        // SAFETY: The kernel passes a valid position.
        unsafe { *pos = (*pos).wrapping_add(1) };
        // SAFETY: The kernel passes a valid position, and reads this file.
        unsafe { Self::start(m, pos) }
    }

    /// # Safety
    ///
    /// The caller has no requirements to meet.
    unsafe extern "C" fn stop(_: *mut bindings::seq_file, _: *mut c_void) {}

    /// # Safety
    ///
    /// `m` must be of an open file with data of this type, and no other code may use it.
    unsafe extern "C" fn show(m: *mut bindings::seq_file, v: *mut c_void) -> c_int {
        // SAFETY: The kernel passes a valid `seq_file`. No other code uses it during the call.
        let to = unsafe { SeqFile::from_raw(m) };
        // SAFETY: The kernel reads this file, and it stays open meanwhile.
        unsafe { Self::data(m) }.show(v.addr().wrapping_sub(1), to);
        0
    }

    /// The data of the file.
    ///
    /// # Safety
    ///
    /// `m` must be of a file with data of this type that stays open during `'a`.
    unsafe fn data<'a>(m: *const bindings::seq_file) -> &'a T {
        // SAFETY: `seq_open()` has set the file, which the caller keeps open.
        &unsafe { operations_of::<T>((*m).file) }.data
    }
}

/// # Safety
///
/// `file` must be a file with data of this type that is being opened.
unsafe extern "C" fn open<T: ControlFile>(
    _inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: The kernel opens this file. Removing the file waits for the open.
    let FileOperations { owner, data, .. } = unsafe { operations_of::<T>(file) };
    from_result(|| {
        owner::get_for_user(owner)?;
        // SAFETY: The kernel opens this file, and calls this function for it.
        unsafe { open_listing(file, data) }.inspect_err(|_| {
            // SAFETY: The reference was taken above. Removing the file waits for this function.
            unsafe { owner::put(owner) };
        })?;
        Ok(0)
    })
}

/// # Safety
///
/// `file` must be a file with this data that is being opened.
unsafe fn open_listing<T: ControlFile>(file: *mut bindings::file, data: &T) -> Result {
    security::tracefs_allowed()?;
    // SAFETY: The caller guarantees that the file is being opened, so no other code changes it.
    let (mode, flags) = unsafe { ((*file).f_mode, (*file).f_flags) };
    if T::HAS_CLEAR && mode & tracing::FMODE_WRITE != 0 && flags & bindings::O_TRUNC != 0 {
        data.clear()?;
    }
    // SAFETY: The caller guarantees that the file is being opened. The operations are constant.
    to_result(unsafe { bindings::seq_open(file, &Listing::<T>::OPERATIONS) })
}

/// # Safety
///
/// `file` must be a file with data of this type that is no longer used.
unsafe extern "C" fn release<T: ControlFile>(
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: The kernel closes this file. Removing the file waits for the close.
    let owner = unsafe { operations_of::<T>(file) }.owner;
    // SAFETY: `open` has opened the listing.
    unsafe { bindings::seq_release(inode, file) };
    // SAFETY: `open` has taken the reference. The kernel drops the dentry after this function, and
    // removing the file waits for this drop.
    unsafe { owner::put(owner) };
    0
}

/// Executes the lines of a write.
///
/// # Safety
///
/// The kernel must call this function for a write of `count` bytes at `from`, a user address, to a
/// file with data of this type.
unsafe extern "C" fn write<T: ControlFile>(
    file: *mut bindings::file,
    from: *const c_char,
    count: usize,
    _pos: *mut i64,
) -> c_long {
    let result = if T::HAS_WRITE_LINE {
        // SAFETY: The kernel writes to this file, and it stays open meanwhile.
        let data = unsafe { &operations_of::<T>(file).data };
        let from = UserPtr::from_ptr(from.cast_mut().cast());
        write_lines(from, count, |line| data.write_line(line))
    } else {
        Ok(())
    };
    match result {
        Ok(()) => count as c_long,
        Err(error) => error.to_errno() as c_long,
    }
}

/// Passes each line of the written string to `take`. C: `trace_parse_run_command()`.
///
/// `EINVAL` for a line of more than [`MAX_LINE`] bytes.
fn write_lines(from: UserPtr, count: usize, mut take: impl FnMut(&[u8]) -> Result) -> Result {
    let mut buffer = KVec::from_elem(0u8, count.min(MAX_LINE + 1), GFP_KERNEL)?;
    let mut done = 0;
    while done < count {
        let len = buffer.len().min(count - done);
        let chunk = buffer.get_mut(..len).ok_or(EINVAL)?;
        UserSlice::new(from.wrapping_byte_add(done), len)
            .reader()
            .read_slice(chunk)?;

        let is_last = done + len == count;
        // The characters after the last newline are a line only at the end of the write. Otherwise
        // the next chunk starts with them, and also has the rest of the line.
        let whole = match chunk.iter().rposition(|&byte| byte == b'\n') {
            _ if is_last => len,
            Some(newline) => newline + 1,
            None => {
                pr_warn!("a line is longer than {} bytes\n", MAX_LINE);
                return Err(EINVAL);
            }
        };
        let lines = chunk.get(..whole).ok_or(EINVAL)?;
        for line in lines
            .strip_suffix(b"\n")
            .unwrap_or(lines)
            .split(|&byte| byte == b'\n')
        {
            take(line)?;
        }
        done += whole;
    }
    Ok(())
}
