// SPDX-License-Identifier: GPL-2.0

//! The destinations of the records of an event: the trace instances in which the event is enabled,
//! and perf.

use core::{
    mem::size_of,
    ptr, //
};

use kernel::{
    bindings::{
        callback_head,
        hlist_head, //
    },
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed,
        Release, //
    },
};

use crate::{
    arch, bindings,
    hit::{
        atomic::{
            read_once,
            Published, //
        },
        context, //
    },
};

use super::origin::Origin;

/// The size of the header of a record, in bytes. The kernel writes the header.
/// C: `struct trace_entry`.
pub const HEADER_LEN: usize = size_of::<bindings::trace_entry>();

/// The maximum length of a record, in bytes. A page of the ring buffer also has space for its
/// header (16 bytes), the ring buffer's header of the record (8 bytes) and a time stamp (8 bytes).
pub const MAX_LEN: usize = 4096 - 48;

/// The writer of a record. It is a type, because no attribute inlines a closure.
///
/// # Safety
///
/// `fill` must write every byte of its argument, and must not read a byte before it has written it,
/// because the bytes may be uninitialised.
pub unsafe trait Fill: Copy {
    /// Writes all bytes after the header.
    fn fill(self, record: &mut [u8]);
}

/// A closure that writes to zeroed bytes.
struct Closure<'a, F>(&'a F);

impl<F> Clone for Closure<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Closure<'_, F> {}

// SAFETY: `fill` zeroes all bytes before the closure gets them.
unsafe impl<F: Fn(&mut [u8])> Fill for Closure<'_, F> {
    #[inline(always)]
    fn fill(self, record: &mut [u8]) {
        record.fill(0);
        self.0(record)
    }
}

/// The users of an event. Handlers read the sink without locks. The kernel's calls of `class->reg`
/// change the sink, with `event_mutex` held.
///
/// # Invariants
///
/// `users` is NULL or live. `only` is NULL or the file of the only user. If `only` is not NULL,
/// perf is not a user, and the list of `users` is empty or has only the link of this file.
pub struct Sink {
    /// The file of the only user. Most enabled events have one user. NULL if the event has no user,
    /// if perf is a user, or if the event has several users.
    only: Published<bindings::trace_event_file>,
    /// Created for perf, or for the second user.
    users: Published<Users>,
    /// The event number in the records, or 0 if the sink belongs to no event.
    number: Atomic<u32>,
    /// The minimum length of a record, because the kernel reads the fields of each record.
    fixed_len: Atomic<u32>,
}

/// The state of RCU when a user of any event left last. After a grace period since then, no handler
/// uses this user. C: `get_state_synchronize_rcu()`.
static LEFT: Atomic<usize> = Atomic::new(0);

/// All users of an event that perf has opened, or that had several users.
///
/// # Invariants
///
/// `files` is the head of a list of `Link`s. A link lives while it is in the list, and until an RCU
/// grace period later.
#[repr(C)]
struct Users {
    rcu: callback_head,
    /// The list of the files. It can be empty while there is only one.
    files: Published<Link>,
    /// The event while perf has opened it, otherwise NULL.
    perf: Published<bindings::trace_event_call>,
}

/// A user: a trace instance in which the event is enabled.
#[repr(C)]
struct Link {
    rcu: callback_head,
    next: Published<Link>,
    file: *mut bindings::trace_event_file,
}

impl Sink {
    /// Creates a sink without users.
    pub const fn new() -> Self {
        Self {
            only: Published::new(ptr::null_mut()),
            users: Published::new(ptr::null_mut()),
            number: Atomic::new(0),
            fixed_len: Atomic::new(HEADER_LEN as u32),
        }
    }

    /// Assigns the sink to an event. `EBUSY` if the sink already belongs to an event.
    pub(in crate::event) fn set_event(&self, number: u16, fixed_len: u16) -> Result {
        self.number
            .cmpxchg(0, number.into(), Relaxed)
            .map_err(|_| EBUSY)?;
        self.fixed_len.store(fixed_len.into(), Relaxed);
        Ok(())
    }

    /// Ends the assignment. The event was removed or never added.
    pub(in crate::event) fn clear_event(&self) {
        self.free_users();
        self.fixed_len.store(HEADER_LEN as u32, Relaxed);
        self.number.store(0, Release);
    }

    #[inline(always)]
    pub(in crate::event) fn fixed_len(&self) -> usize {
        read_once(&self.fixed_len) as usize
    }

    fn users(&self) -> Option<&Users> {
        // SAFETY: By the type invariant, the pointer is NULL or live. `free_users` frees the
        // structure when the event has been removed. Only the kernel's calls for the event use it.
        unsafe { self.users.get().as_ref() }
    }

    /// Creates the structure for several users, and adds the only user to it. `ENOMEM`.
    fn need_users(&self) -> Result<&Users> {
        let users = match self.users() {
            Some(users) => users,
            None => {
                let users = KBox::leak(KBox::new(Users::default(), GFP_KERNEL)?);
                // INVARIANT: The structure is live, and initialised.
                self.users.assign(users);
                users
            }
        };
        let only = self.only.get();
        if !only.is_null() && users.files.get().is_null() {
            users.link(only)?;
        }
        Ok(users)
    }

    /// Frees the structure for several users after an RCU grace period.
    fn free_users(&self) {
        // INVARIANT: NULL is valid. Handlers may use the structure until a grace period later.
        let users = self.users.take();
        if !users.is_null() {
            // SAFETY: The structure is from a `KBox`, and no other code frees it. The RCU head is
            // its first field.
            unsafe { kernel::bindings::kvfree_call_rcu(users.cast(), users.cast()) };
        }
    }

    /// Whether the event has a user.
    pub(in crate::event) fn is_used(&self) -> bool {
        !self.only.get().is_null() || self.users().is_some_and(Users::is_used)
    }

    /// Whether the event has exactly one user.
    pub(in crate::event) fn is_singly_used(&self) -> bool {
        !self.only.get().is_null() || self.users().is_some_and(Users::is_perf)
    }

    /// Whether perf has opened the event.
    pub(in crate::event) fn has_perf(&self) -> bool {
        self.users()
            .is_some_and(|users| !users.perf.get().is_null())
    }

    /// Calls `f` with the file of each trace instance that uses the event.
    ///
    /// # Safety
    ///
    /// The caller must hold `event_mutex`.
    pub(in crate::event) unsafe fn each_file(
        &self,
        mut f: impl FnMut(*mut bindings::trace_event_file),
    ) {
        let only = self.only.get();
        if !only.is_null() {
            return f(only);
        }
        let mut link = self
            .users()
            .map_or(ptr::null_mut(), |users| users.files.get());
        // SAFETY: By the type invariant of `Users`, a link in the list is live. The list changes
        // only with `event_mutex` held, and the caller holds it.
        while let Some(this) = unsafe { link.as_ref() } {
            f(this.file);
            link = this.next.get();
        }
    }

    pub(in crate::event) fn add_perf(&self, call: *mut bindings::trace_event_call) -> Result {
        let users = self.need_users()?;
        users.perf.assign(call);
        self.find_only(users);
        Ok(())
    }

    pub(in crate::event) fn add_file(&self, file: *mut bindings::trace_event_file) -> Result {
        if !self.is_used() {
            // INVARIANT: This is the only user.
            self.only.assign(file);
            return Ok(());
        }
        let users = self.need_users()?;
        users.link(file)?;
        self.find_only(users);
        Ok(())
    }

    /// Sets `only` to the file of the only user, if there is only one.
    fn find_only(&self, users: &Users) {
        // INVARIANT: The file is that of the only link, and perf is not a user.
        self.only.assign(users.only());
    }

    /// Waits until no handler uses a user that has left. Process context.
    pub(in crate::event) fn wait_for_handlers(&self) {
        // SAFETY: The function has no requirements in process context.
        unsafe { kernel::bindings::cond_synchronize_rcu(LEFT.load(Relaxed)) };
    }

    /// Removes a user. If `file` is NULL, the user is perf. Returns false if it was not a user.
    pub(in crate::event) fn remove(&self, file: *mut bindings::trace_event_file) -> bool {
        let listed = self
            .users()
            .filter(|users| file.is_null() || !users.files.get().is_null());
        let removed = match listed {
            None => {
                let is_only = !file.is_null() && self.only.get() == file;
                if is_only {
                    self.only.take();
                }
                is_only
            }
            Some(users) => {
                // INVARIANT: `only` is NULL before the link of its file leaves the list.
                self.only.take();
                let removed = users.remove(file);
                self.find_only(users);
                removed
            }
        };
        // SAFETY: The function has no requirements.
        let now = unsafe { kernel::bindings::get_state_synchronize_rcu() };
        LEFT.store(now, Relaxed);
        removed
    }

    /// Whether at least one user takes a hit of the current task. An event that makes no records
    /// asks this instead.
    ///
    /// A trace instance does not take a hit while the event is only softly enabled there, or if its
    /// PID filter leaves the current task out. perf takes each hit. Runs no triggers. While the
    /// last user leaves, the result is true. Any context. C: `trace_trigger_soft_disabled()`.
    #[inline(always)]
    pub fn takes(&self, guard: &context::Atomic) -> bool {
        self.takes_all(guard) || self.has_taker(guard)
    }

    /// Whether there is only one user, which takes each hit of all tasks. Costs less than
    /// [`takes`](Self::takes). Any context.
    #[inline(always)]
    pub fn takes_all(&self, guard: &context::Atomic) -> bool {
        let only = self.only.read(guard);
        // SAFETY: The file belongs to a user. The kernel frees the file of a user that left after
        // an RCU grace period. `guard` proves that preemption is disabled, so none ends meanwhile.
        !only.is_null() && !unsafe { is_picky(only) }
    }

    /// Whether one of any number of users takes a hit of the current task.
    #[cold]
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn has_taker(&self, guard: &context::Atomic) -> bool {
        let only = self.only.read(guard);
        if !only.is_null() {
            // SAFETY: The file belongs to a user. See `takes`.
            return unsafe { takes_current(only) };
        }
        // SAFETY: By the type invariant, the pointer is NULL or live. The kernel frees the
        // structure after a grace period, and `guard` proves that none ends meanwhile.
        let Some(users) = (unsafe { self.users.read(guard).as_ref() }) else {
            return true;
        };
        if users.files.read(guard).is_null() || !users.perf.read(guard).is_null() {
            return true;
        }
        // SAFETY: The file is live, because `any_file` calls the closure with `guard` in use.
        users.any_file(guard, |file| unsafe { takes_current(file) })
    }

    /// Makes a record of `len` bytes for each user. Makes no record if `len` is less than the size
    /// of the event's fields or more than [`MAX_LEN`], or if a buffer has no space.
    ///
    /// Calls `fill` once for each user, with the zeroed bytes after the header.
    #[inline(always)]
    pub fn record<O: Origin>(&self, hit: &O, len: usize, fill: impl Fn(&mut [u8])) {
        // An event gets its fields before it gets a user. So the code looks for a user first.
        let state = hit.state();
        let guard = state.atomic();
        let is_unused = self.only.read(guard).is_null() && self.users.read(guard).is_null();
        if is_unused || len < self.fixed_len() || len > MAX_LEN {
            return;
        }
        // SAFETY: The length was checked above. A sink belongs to events of the same fields only.
        unsafe { self.record_filled(hit, || len, || Closure(&fill)) };
    }

    /// Makes a record for each user, like [`record`](Self::record). Gets the length and the
    /// [`Fill`] from closures, so that they use registers and memory only if a record is made.
    ///
    /// # Safety
    ///
    /// `len` must return at least the size of the header and of the event's fields, because the
    /// kernel reads these fields. It must return at most [`MAX_LEN`], because perf warns about a
    /// longer record.
    #[inline(always)]
    pub unsafe fn record_filled<O: Origin, F: Fill>(
        &self,
        hit: &O,
        len: impl Fn() -> usize,
        fill: impl Fn() -> F,
    ) {
        let only = self.only.read(hit.state().atomic());
        if only.is_null() {
            self.record_to_all(*hit, len(), fill());
        } else {
            // SAFETY: The file belongs to a user. The kernel frees the file of a user that left
            // after an RCU grace period. Preemption is disabled in a handler, so no grace period
            // ends during the call.
            unsafe { record_to_file(only, hit, len(), fill()) };
        }
    }

    /// Makes a record for any number of users. The arguments are copies, so the caller can keep its
    /// own values in registers.
    #[cold]
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn record_to_all<O: Origin>(&self, hit: O, len: usize, fill: impl Fill) {
        let state = hit.state();
        let guard = state.atomic();
        // SAFETY: By the type invariant, the pointer is NULL or live. The kernel frees the
        // structure after a grace period. Preemption is disabled in a handler, so no grace period
        // ends during the call.
        let Some(users) = (unsafe { self.users.read(guard).as_ref() }) else {
            return;
        };
        users.any_file(guard, |file| {
            // SAFETY: The file is live, because `any_file` calls the closure with `guard` in use.
            unsafe { record_to_file(file, &hit, len, fill) };
            false
        });
        let perf = users.perf.read(guard);
        if !perf.is_null() {
            // SAFETY: When perf leaves, C's `perf_trace_event_unreg()` waits for handlers before it
            // frees perf's lists. It waits for an SRCU grace period, which includes one of RCU.
            unsafe { record_to_perf(perf, &hit, len, fill) };
        }
    }
}

impl Default for Sink {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.free_users();
    }
}

impl Default for Users {
    fn default() -> Self {
        Self {
            rcu: callback_head::default(),
            files: Published::new(ptr::null_mut()),
            perf: Published::new(ptr::null_mut()),
        }
    }
}

/// Only the kernel's calls of `class->reg` use these functions.
impl Users {
    fn is_used(&self) -> bool {
        let is_list_empty = self.files.get().is_null();
        !is_list_empty || !self.perf.get().is_null()
    }

    /// Whether perf is the only user.
    fn is_perf(&self) -> bool {
        let is_list_empty = self.files.get().is_null();
        is_list_empty && !self.perf.get().is_null()
    }

    /// Calls `f` with the live file of each user, until it returns true. Returns whether it did.
    #[inline(always)]
    fn any_file(
        &self,
        guard: &context::Atomic,
        mut f: impl FnMut(*mut bindings::trace_event_file) -> bool,
    ) -> bool {
        let mut link = self.files.read(guard);
        while !link.is_null() {
            // SAFETY: By the type invariant, a link lives until a grace period after it left the
            // list, and `guard` proves that none ends meanwhile. The same is true of the file.
            let this = unsafe { &*link };
            if f(this.file) {
                return true;
            }
            link = this.next.read(guard);
        }
        false
    }

    /// The file of the only user, or NULL.
    fn only(&self) -> *mut bindings::trace_event_file {
        let first = self.files.get();
        if first.is_null() || !self.perf.get().is_null() {
            return ptr::null_mut();
        }
        // SAFETY: By the type invariant, a link in the list is live. Only the caller can remove the
        // link.
        let first = unsafe { &*first };
        if first.next.get().is_null() {
            first.file
        } else {
            ptr::null_mut()
        }
    }

    fn link(&self, file: *mut bindings::trace_event_file) -> Result {
        let link = KBox::into_raw(KBox::new(
            Link {
                rcu: callback_head::default(),
                next: Published::new(self.files.get()),
                file,
            },
            GFP_KERNEL,
        )?);
        // INVARIANT: The link is live, and the rest of the list follows it.
        self.files.assign(link);
        Ok(())
    }

    /// Removes a user. If `file` is NULL, the user is perf. Returns false if it was not a user.
    fn remove(&self, file: *mut bindings::trace_event_file) -> bool {
        if file.is_null() {
            return !self.perf.take().is_null();
        }
        let mut place = &self.files;
        loop {
            let link = place.get();
            if link.is_null() {
                return false;
            }
            // SAFETY: By the type invariant, a link in the list is live.
            let this = unsafe { &*link };
            if this.file == file {
                place.assign(this.next.get());
                // INVARIANT: The kernel frees the link only after a grace period.
                // SAFETY: The link is from a `KBox` and is not in the list any more. No other code
                // frees it. The RCU head is its first field.
                unsafe { kernel::bindings::kvfree_call_rcu(link.cast(), link.cast()) };
                return true;
            }
            place = &this.next;
        }
    }
}

/// The flags of a file that does not take every hit.
const PICKY: c_ulong =
    (bindings::EVENT_FILE_FL_SOFT_DISABLED | bindings::EVENT_FILE_FL_PID_FILTER) as c_ulong;

/// Whether the user may not take each hit.
///
/// # Safety
///
/// `file` must be live.
#[inline(always)]
unsafe fn is_picky(file: *mut bindings::trace_event_file) -> bool {
    // SAFETY: The caller guarantees a live file. Its flags can change at any time.
    let flags = unsafe { ptr::read_volatile(&raw const (*file).flags) };
    flags & PICKY != 0
}

/// Whether the user takes a hit of the current task.
///
/// # Safety
///
/// `file` must be live.
unsafe fn takes_current(file: *mut bindings::trace_event_file) -> bool {
    // SAFETY: The caller guarantees a live file. Its flags can change at any time.
    let flags = unsafe { ptr::read_volatile(&raw const (*file).flags) };
    if flags & bindings::EVENT_FILE_FL_SOFT_DISABLED as c_ulong != 0 {
        return false;
    }
    flags & bindings::EVENT_FILE_FL_PID_FILTER as c_ulong == 0
        // SAFETY: The caller guarantees a live file. Preemption is disabled in a handler.
        || !unsafe { bindings::trace_event_ignore_this_pid(file) }
}

/// Whether the user does not want records at this time. Runs the triggers that do not need the
/// record. C: `trace_trigger_soft_disabled()`.
///
/// # Safety
///
/// `file` must be live.
#[inline(always)]
unsafe fn is_soft_disabled(file: *mut bindings::trace_event_file) -> bool {
    const UNUSUAL: c_ulong = (bindings::EVENT_FILE_FL_TRIGGER_MODE
        | bindings::EVENT_FILE_FL_SOFT_DISABLED
        | bindings::EVENT_FILE_FL_PID_FILTER) as c_ulong;
    // SAFETY: The caller guarantees a live file. Its flags can change at any time.
    let flags = unsafe { ptr::read_volatile(&raw const (*file).flags) };
    if flags & UNUSUAL == 0 {
        return false;
    }
    // SAFETY: The caller guarantees a live file.
    unsafe { is_unusual_soft_disabled(file, flags) }
}

/// # Safety
///
/// `file` must be live.
#[cold]
unsafe fn is_unusual_soft_disabled(file: *mut bindings::trace_event_file, flags: c_ulong) -> bool {
    if flags & bindings::EVENT_FILE_FL_TRIGGER_COND as c_ulong != 0 {
        return false;
    }
    // SAFETY: The caller guarantees a live file.
    unsafe { bindings::__trace_trigger_soft_disabled(file) }
}

/// # Safety
///
/// `file` must be live, and `len` must be at least [`HEADER_LEN`].
#[inline(always)]
unsafe fn record_to_file<O: Origin>(
    file: *mut bindings::trace_event_file,
    hit: &O,
    len: usize,
    fill: impl Fill,
) {
    // SAFETY: The caller guarantees a live file.
    if unsafe { is_soft_disabled(file) } {
        return;
    }
    let mut buffer = core::mem::MaybeUninit::<bindings::trace_event_buffer>::uninit();
    // SAFETY: `file` is live. The kernel writes to `buffer`.
    let record =
        unsafe { bindings::trace_event_buffer_reserve(buffer.as_mut_ptr(), file, len as c_ulong) };
    if record.is_null() {
        return;
    }
    // SAFETY: The kernel has reserved `len` bytes that no other code uses. For an event with a
    // filter, the kernel does not zero them. But `Fill` does not read bytes before it writes them.
    fill.fill(unsafe { behind_header(record, len) });
    // SAFETY: The kernel returned a record, so it has initialised the buffer.
    unsafe {
        (*buffer.as_mut_ptr()).regs = hit.whole();
        bindings::trace_event_buffer_commit(buffer.as_mut_ptr());
    }
}

/// Returns the bytes of a record after its header.
///
/// # Safety
///
/// `record` must have `len` bytes that no other code uses. `len` must be at least [`HEADER_LEN`].
/// The caller must not read a byte that was never written.
#[inline(always)]
unsafe fn behind_header<'a>(record: *mut c_void, len: usize) -> &'a mut [u8] {
    // SAFETY: The caller guarantees that `record` has `len` bytes, which include the header, and
    // that no other code uses them.
    unsafe {
        core::slice::from_raw_parts_mut(
            record.cast::<u8>().add(HEADER_LEN),
            len.wrapping_sub(HEADER_LEN),
        )
    }
}

/// Makes a record for perf and BPF programs. Programs get the hits of all CPUs, even if perf has
/// opened the event on one CPU. C: `perf_trace_##call()` in `include/trace/perf.h`.
///
/// # Safety
///
/// `call` must be the call of an event that perf has opened. `len` must be at least [`HEADER_LEN`].
#[inline(always)]
unsafe fn record_to_perf<O: Origin>(
    call: *mut bindings::trace_event_call,
    hit: &O,
    len: usize,
    fill: impl Fill,
) {
    // SAFETY: The caller guarantees that perf has opened the event, so the lists exist.
    let events: *mut hlist_head = unsafe { (*call).perf_events }.cast();
    let head = events.with_addr(arch::this_cpu(events.addr()));
    // SAFETY: The per-CPU lists are live, and this is the head of this CPU's list. Preemption is
    // disabled in a handler.
    let is_empty = unsafe { ptr::read_volatile(&raw const (*head).first) }.is_null();
    // C: `bpf_prog_array_valid()`.
    // SAFETY: The call is live. Another task can attach or detach programs at any time.
    if is_empty && unsafe { ptr::read_volatile(&raw const (*call).prog_array) }.is_null() {
        return;
    }
    // perf adds the size in 4 bytes before the record. The sum is a multiple of 8.
    let with_size = len.wrapping_add(size_of::<u32>()).wrapping_add(7) & !7;
    let size = with_size.wrapping_sub(size_of::<u32>()) as c_int;
    let mut context = 0;
    let mut room = ptr::null_mut();
    let asked_for = if O::NEEDS_ROOM {
        &raw mut room
    } else {
        ptr::null_mut()
    };
    // SAFETY: `asked_for` is NULL or valid for a pointer, and `context` is valid.
    let record = unsafe { bindings::perf_trace_buf_alloc(size, asked_for, &mut context) };
    if record.is_null() {
        return;
    }
    // SAFETY: perf has reserved at least `len` bytes that no other code uses. `Fill` does not read
    // bytes before it writes them.
    fill.fill(unsafe { behind_header(record, len) });
    // SAFETY: If the origin needs room for registers, perf has set `room` to memory that no other
    // code uses.
    let registers = unsafe { hit.for_perf(room) };
    // The kernel checks again for programs, which may be detached by now. A program can prevent the
    // record for perf.
    // SAFETY: `record` is from `perf_trace_buf_alloc()`, and the call is live.
    unsafe {
        bindings::perf_trace_run_bpf_submit(
            record,
            size,
            context,
            call,
            1,
            registers,
            head,
            ptr::null_mut(),
        )
    };
}
