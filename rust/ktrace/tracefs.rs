// SPDX-License-Identifier: GPL-2.0

//! Control files in the root of tracefs: a listing to read, commands to write, a line each.
//!
//! C header: [`include/linux/tracefs.h`](srctree/include/linux/tracefs.h)

use core::{
    marker::PhantomData,
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
    uaccess::{
        UserPtr,
        UserSlice, //
    },
    ThisModule, //
};

use crate::{
    bindings as tracing,
    leftover,
    owner,
    security, //
};

/// The longest line, in bytes, without its newline. C: `WRITE_BUFSIZE` less two.
pub const MAX_LINE: usize = 4094;

/// A control file. All of it is called in process context.
#[vtable]
pub trait ControlFile: 'static {
    /// The number of the first entry of the listing that has `from` or more. Where an entry keeps
    /// its number while others go it is in whatever is read meanwhile, and once.
    fn next(from: usize) -> Option<usize>;

    /// Shows the entry with this number, if it exists. Readers read the listing entry by entry, and
    /// it may change in between.
    fn show(number: usize, to: &SeqFile);

    /// The file is opened for writing with O_TRUNC: everything is to go.
    fn clear() -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Takes a line, without its newline. Those that follow in the same write are not taken where
    /// it fails.
    fn write_line(_line: &[u8]) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

/// A file in the root of tracefs: made by [`File::create`], removed when dropped.
///
/// The file cannot be opened before the initialisation of its module is over (`ENODEV`). An open
/// file keeps the module loaded. Dropping one waits without a limit of time until nobody has it
/// open, and logs once that it waits; so do not drop it in its own callbacks. A file descriptor of
/// `O_PATH` and a bind mount of the file count as open.
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
/// struct Squares;
///
/// #[vtable]
/// impl ControlFile for Squares {
///     fn next(from: usize) -> Option<usize> {
///         (from < 10).then_some(from)
///     }
///
///     fn show(number: usize, to: &SeqFile) {
///         seq_print!(to, "{}\n", number * number);
///     }
/// }
///
/// struct Module(File);
///
/// impl kernel::Module for Module {
///     fn init(module: &'static ThisModule) -> Result<Self> {
///         Ok(Self(File::create::<Squares>(c"squares", module)?))
///     }
/// }
/// ```
///
/// # Invariants
///
/// `dentry` is that of the file, to which nothing else does anything but open it.
pub struct File {
    dentry: NonNull<bindings::dentry>,
    /// The kernel calls its functions until the file is gone.
    _operations: KBox<FileOperations>,
}

/// The operations of a file, and whose they are.
#[repr(C)]
struct FileOperations {
    /// The file operations have no owner: with one, the kernel would warn of each attempt to open
    /// the file while the module is being unloaded. Instead, [`open`] takes the reference and
    /// [`release`] drops it.
    table: bindings::file_operations,
    owner: &'static ThisModule,
}

// SAFETY: Removing a file is possible from anywhere, and the operations are constant.
unsafe impl Send for File {}
// SAFETY: There is nothing to do with a shared reference, and the operations are constant.
unsafe impl Sync for File {}

// ktrace only passes the dentry on, and does not access its fields.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_remove_file(dentry: *mut bindings::dentry);
}

impl File {
    /// Makes a file for root to read and, where `T` takes lines or is cleared, to write.
    ///
    /// Process context. C: `tracefs_create_file()`, which does not tell why it fails: `EEXIST`
    /// most likely, for a file of that name.
    pub fn create<T: ControlFile>(name: &CStr, owner: &'static ThisModule) -> Result<Self> {
        let writable = T::HAS_WRITE_LINE || T::HAS_CLEAR;
        let mode = if writable { 0o640 } else { 0o440 };
        let operations = KBox::new(
            FileOperations {
                table: bindings::file_operations {
                    open: Some(open::<T>),
                    read: Some(bindings::seq_read),
                    llseek: Some(bindings::seq_lseek),
                    release: Some(release),
                    write: if writable { Some(write::<T>) } else { None },
                    ..pin_init::zeroed()
                },
                owner,
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The name is a string; the operations live as long as the file.
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
        // INVARIANT: Made just now.
        let this = Self {
            dentry,
            _operations: operations,
        };
        let code = open::<T> as *const () as usize;
        // SAFETY: `take_back` removes the file and waits until nobody has it open.
        unsafe { leftover::track(code, dentry.as_ptr().cast(), take_back) }?;
        Ok(this)
    }
}

/// Removes a file that its module left behind.
///
/// # Safety
///
/// `dentry` must be that of a [`File`] that its module does not use any more.
unsafe fn take_back(dentry: *mut c_void) {
    // SAFETY: The caller guarantees that this is the dentry of a file.
    unsafe { ktrace_remove_file(dentry.cast()) };
}

impl Drop for File {
    fn drop(&mut self) {
        // First: the kernel may use the address for another file afterwards.
        leftover::untrack(self.dentry.as_ptr().cast());
        // SAFETY: The dentry is that of the file, by the type invariant. The operations are freed
        // after this has returned, when nobody has the file open.
        unsafe { ktrace_remove_file(self.dentry.as_ptr()) };
    }
}

/// The module that a file belongs to.
///
/// # Safety
///
/// `file` must be one of these, being opened or open.
unsafe fn owner_of(file: *const bindings::file) -> &'static ThisModule {
    // SAFETY: Its operations are the table in a `FileOperations`, which lives as long as the file.
    unsafe {
        let table = (*file).f_op.cast_mut();
        (*kernel::container_of!(table, FileOperations, table)).owner
    }
}

/// The functions that make a listing out of [`ControlFile::show`]: the position is the number of an
/// entry, and the iterator that plus one, for NULL is the end.
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
    /// `pos` must be valid.
    unsafe extern "C" fn start(_: *mut bindings::seq_file, pos: *mut i64) -> *mut c_void {
        // SAFETY: The kernel passes a valid position. A position is never negative.
        let Some(number) = T::next(unsafe { *pos } as usize) else {
            return ptr::null_mut();
        };
        // SAFETY: The kernel passes a valid position.
        unsafe { *pos = number as i64 };
        ptr::without_provenance_mut(number.wrapping_add(1))
    }

    /// # Safety
    ///
    /// `pos` must be valid, and `m` not used by anyone else.
    unsafe extern "C" fn next(
        m: *mut bindings::seq_file,
        _: *mut c_void,
        pos: *mut i64,
    ) -> *mut c_void {
        // SAFETY: The kernel passes a valid position.
        unsafe { *pos = (*pos).wrapping_add(1) };
        // SAFETY: The kernel passes a valid position.
        unsafe { Self::start(m, pos) }
    }

    /// # Safety
    ///
    /// None.
    unsafe extern "C" fn stop(_: *mut bindings::seq_file, _: *mut c_void) {}

    /// # Safety
    ///
    /// `m` must be valid and not used by anyone else.
    unsafe extern "C" fn show(m: *mut bindings::seq_file, v: *mut c_void) -> c_int {
        // SAFETY: The kernel passes a valid `seq_file` that nobody else uses meanwhile.
        let to = unsafe { SeqFile::from_raw(m) };
        T::show(v.addr().wrapping_sub(1), to);
        0
    }
}

/// # Safety
///
/// `file` must be one of these, and being opened.
unsafe extern "C" fn open<T: ControlFile>(
    _inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: The kernel opens this file, and removing it waits for that.
    let owner = unsafe { owner_of(file) };
    from_result(|| {
        owner::get_for_user(owner)?;
        // SAFETY: The kernel opens this file, for whose callbacks this is called.
        unsafe { open_listing::<T>(file) }.inspect_err(|_| {
            // SAFETY: The reference was taken above. Removing the file waits for this function.
            unsafe { owner::put(owner) };
        })?;
        Ok(0)
    })
}

/// # Safety
///
/// `file` must be one of these, and being opened.
unsafe fn open_listing<T: ControlFile>(file: *mut bindings::file) -> Result {
    security::tracefs_allowed()?;
    // SAFETY: The caller guarantees that the file is being opened: nobody changes it.
    let (mode, flags) = unsafe { ((*file).f_mode, (*file).f_flags) };
    if T::HAS_CLEAR && mode & tracing::FMODE_WRITE != 0 && flags & bindings::O_TRUNC != 0 {
        T::clear()?;
    }
    // SAFETY: The caller guarantees that the file is being opened; the operations are constant.
    to_result(unsafe { bindings::seq_open(file, &Listing::<T>::OPERATIONS) })
}

/// # Safety
///
/// `file` must be one of these, and no longer used.
unsafe extern "C" fn release(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: The kernel closes this file, and removing it waits for that.
    let owner = unsafe { owner_of(file) };
    // SAFETY: `open` has opened the listing.
    unsafe { bindings::seq_release(inode, file) };
    // SAFETY: `open` has taken the reference. The kernel gives up the dentry after this function,
    // and removing the file waits for that.
    unsafe { owner::put(owner) };
    0
}

/// # Safety
///
/// Called by the kernel for a write of `count` bytes at `from`, an address in user space.
unsafe extern "C" fn write<T: ControlFile>(
    _file: *mut bindings::file,
    from: *const c_char,
    count: usize,
    _pos: *mut i64,
) -> c_long {
    let result = if T::HAS_WRITE_LINE {
        write_lines(
            UserPtr::from_ptr(from.cast_mut().cast()),
            count,
            T::write_line,
        )
    } else {
        Ok(())
    };
    match result {
        Ok(()) => count as c_long,
        Err(error) => error.to_errno() as c_long,
    }
}

/// Passes the written string on, line by line. C: `trace_parse_run_command()`.
///
/// `EINVAL` for a line over [`MAX_LINE`] bytes.
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
        // they are read again at the start of the next chunk, with the rest of the line.
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
