// SPDX-License-Identifier: GPL-2.0

//! Where the records of an event go: the trace instances it is enabled in, and perf.

use core::{
    mem::size_of,
    ptr,
    sync::atomic::{
        AtomicPtr,
        AtomicU16,
        AtomicUsize,
        Ordering, //
    },
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
    prelude::*, //
};

use crate::{
    arch,
    bindings, //
};

use super::origin::Origin;

/// How many bytes of a record the kernel fills in itself. C: `struct trace_entry`.
pub const HEADER_LEN: usize = size_of::<bindings::trace_entry>();

/// The longest record that fits into a page of the ring buffer, whatever the kernel puts beside
/// it: the page's header (16 bytes), the record's (8) and a time stamp (8).
pub const MAX_LEN: usize = 4096 - 48;

/// The writer of a record. It is a type, because no attribute inlines a closure.
///
/// # Safety
///
/// `fill` must write every byte that it is given, and read none that it has not written: the kernel
/// may hand out memory that nobody has written to.
pub unsafe trait Fill: Copy {
    /// Writes the bytes behind the header, all of them.
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

/// The users of an event. Handlers read it without locks; changes are made with `event_mutex`
/// held, by the kernel's calls to `class->reg`.
///
/// # Invariants
///
/// `files` is the head of a list of `Link`s: each is live while it is on it, and for an RCU grace
/// period after that. `only` is NULL or the file of the only user. Where it is not NULL, the list
/// is empty or has one link, that of `only`, and there is no perf.
pub struct Sink {
    /// The file of the only user, which most events have. NULL where there is perf, too, or another
    /// file, or no user.
    only: AtomicPtr<bindings::trace_event_file>,
    /// The files of the users. A second user makes it; it can be empty while there is only one.
    files: AtomicPtr<Link>,
    /// The event, while perf has it open.
    perf: AtomicPtr<bindings::trace_event_call>,
    /// The number in the records; 0 as long as it is no event's.
    number: AtomicU16,
    /// How long a record is at least: the kernel looks at its fields.
    fixed_len: AtomicU16,
    /// When the last user went: handlers that began before an RCU grace period that ended since
    /// are done with it. C: `get_state_synchronize_rcu()`.
    left: AtomicUsize,
}

/// A trace instance in which the event is enabled.
#[repr(C)]
struct Link {
    rcu: callback_head,
    next: AtomicPtr<Link>,
    file: *mut bindings::trace_event_file,
}

impl Sink {
    /// One without users.
    pub const fn new() -> Self {
        Self {
            only: AtomicPtr::new(ptr::null_mut()),
            files: AtomicPtr::new(ptr::null_mut()),
            perf: AtomicPtr::new(ptr::null_mut()),
            number: AtomicU16::new(0),
            fixed_len: AtomicU16::new(HEADER_LEN as u16),
            left: AtomicUsize::new(0),
        }
    }

    /// Makes it the sink of an event, once. `EBUSY` where it was another's.
    pub(super) fn set_event(&self, number: u16, fixed_len: u16) -> Result {
        self.number
            .compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed)
            .map_err(|_| EBUSY)?;
        self.fixed_len.store(fixed_len, Ordering::Relaxed);
        Ok(())
    }

    /// Makes it the sink of no event. Its event was removed, or never added.
    pub(super) fn clear_event(&self) {
        self.fixed_len.store(HEADER_LEN as u16, Ordering::Relaxed);
        self.number.store(0, Ordering::Release);
    }

    #[inline(always)]
    pub(super) fn fixed_len(&self) -> usize {
        self.fixed_len.load(Ordering::Relaxed).into()
    }

    /// Whether the event has a user.
    pub(super) fn is_used(&self) -> bool {
        !self.only.load(Ordering::Relaxed).is_null()
            || !self.files.load(Ordering::Relaxed).is_null()
            || !self.perf.load(Ordering::Relaxed).is_null()
    }

    /// Whether the event has exactly one user.
    pub(super) fn is_singly_used(&self) -> bool {
        let is_only = !self.only.load(Ordering::Relaxed).is_null();
        let is_list_empty = self.files.load(Ordering::Relaxed).is_null();
        is_only || is_list_empty && !self.perf.load(Ordering::Relaxed).is_null()
    }

    pub(super) fn add_perf(&self, call: *mut bindings::trace_event_call) -> Result {
        self.link_only()?;
        self.perf.store(call, Ordering::Release);
        self.find_only();
        Ok(())
    }

    pub(super) fn add_file(&self, file: *mut bindings::trace_event_file) -> Result {
        if !self.is_used() {
            // INVARIANT: It is the only user. Release: handlers see the file filled in.
            self.only.store(file, Ordering::Release);
            return Ok(());
        }
        self.link_only()?;
        self.link(file)?;
        self.find_only();
        Ok(())
    }

    /// Puts the only user on the list, before there is another.
    fn link_only(&self) -> Result {
        let only = self.only.load(Ordering::Relaxed);
        if only.is_null() || !self.files.load(Ordering::Relaxed).is_null() {
            return Ok(());
        }
        self.link(only)
    }

    fn link(&self, file: *mut bindings::trace_event_file) -> Result {
        let link = KBox::into_raw(KBox::new(
            Link {
                rcu: callback_head::default(),
                next: AtomicPtr::new(self.files.load(Ordering::Relaxed)),
                file,
            },
            GFP_KERNEL,
        )?);
        // INVARIANT: A live link, with the rest of the list behind it. Release: handlers see it
        // filled in.
        self.files.store(link, Ordering::Release);
        Ok(())
    }

    /// Sets `only` by the list and perf.
    fn find_only(&self) {
        let first = self.files.load(Ordering::Relaxed);
        let mut only = ptr::null_mut();
        if !first.is_null() && self.perf.load(Ordering::Relaxed).is_null() {
            // SAFETY: On the list, by the type invariant; only the caller may take it off.
            let first = unsafe { &*first };
            if first.next.load(Ordering::Relaxed).is_null() {
                only = first.file;
            }
        }
        // INVARIANT: That of the only link, without perf. Release: handlers see the file filled in.
        self.only.store(only, Ordering::Release);
    }

    /// Waits until no handler uses what users left behind. Process context.
    pub(super) fn wait_for_handlers(&self) {
        // SAFETY: No requirements in process context.
        unsafe { kernel::bindings::cond_synchronize_rcu(self.left.load(Ordering::Relaxed)) };
    }

    /// Takes a user away: perf where `file` is NULL. Says whether it was one.
    pub(super) fn remove(&self, file: *mut bindings::trace_event_file) -> bool {
        let is_list_empty = self.files.load(Ordering::Relaxed).is_null();
        let removed = if is_list_empty && !file.is_null() {
            let null = ptr::null_mut();
            self.only
                .compare_exchange(file, null, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        } else {
            // INVARIANT: It is never the file of a link that is off the list.
            self.only.store(ptr::null_mut(), Ordering::Relaxed);
            let removed = self.unlink(file);
            self.find_only();
            removed
        };
        // SAFETY: No requirements.
        let now = unsafe { kernel::bindings::get_state_synchronize_rcu() };
        self.left.store(now, Ordering::Relaxed);
        removed
    }

    fn unlink(&self, file: *mut bindings::trace_event_file) -> bool {
        if file.is_null() {
            return !self.perf.swap(ptr::null_mut(), Ordering::Relaxed).is_null();
        }
        let mut place = &self.files;
        loop {
            let link = place.load(Ordering::Relaxed);
            if link.is_null() {
                return false;
            }
            // SAFETY: On the list, by the type invariant.
            let this = unsafe { &*link };
            if this.file == file {
                // Release, for what stands behind it was published through it.
                place.store(this.next.load(Ordering::Relaxed), Ordering::Release);
                // INVARIANT: Freed after a grace period only.
                // SAFETY: It came from a `KBox`, is off the list, and nobody else frees it. The
                // head is its first field.
                unsafe { kernel::bindings::kvfree_call_rcu(link.cast(), link.cast()) };
                return true;
            }
            place = &this.next;
        }
    }

    /// Makes a record of `len` bytes for each user; there is none if that is less than the fields
    /// of the event take or more than [`MAX_LEN`], nor if there is no room for it.
    ///
    /// `fill` gets the bytes behind the header, zeroed, once for each user.
    #[inline(always)]
    pub fn record<O: Origin>(&self, hit: &O, len: usize, fill: impl Fn(&mut [u8])) {
        if len < self.fixed_len() || len > MAX_LEN {
            return;
        }
        // SAFETY: The fields fit.
        unsafe { self.record_filled(hit, || len, || Closure(&fill)) };
    }

    /// The same with what computes the length and makes a [`Fill`]. So these take up registers and
    /// memory only where they are needed.
    ///
    /// # Safety
    ///
    /// `len` must return at least the size of the header and the event's fields: the kernel looks
    /// at the fields. It must return at most [`MAX_LEN`]: perf warns of a record that is too long.
    #[inline(always)]
    pub unsafe fn record_filled<O: Origin, F: Fill>(
        &self,
        hit: &O,
        len: impl Fn() -> usize,
        fill: impl Fn() -> F,
    ) {
        let only = self.only.load(Ordering::Acquire);
        if only.is_null() {
            self.record_to_all(*hit, len(), fill());
        } else {
            // SAFETY: That of a user. Preemption is disabled in a handler, which holds off the
            // grace period that the kernel waits for before it frees the file of a user that left.
            unsafe { record_to_file(only, hit, len(), fill()) };
        }
    }

    /// The same for any number of users. Arguments of its own, which need not be in memory
    /// elsewhere.
    #[cold]
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn record_to_all<O: Origin>(&self, hit: O, len: usize, fill: impl Fill) {
        let mut link = self.files.load(Ordering::Acquire);
        while !link.is_null() {
            // SAFETY: By the type invariant; preemption is disabled in a handler, which holds off
            // grace periods.
            let this = unsafe { &*link };
            // SAFETY: The kernel frees the file of a user that has left after a grace period, too.
            unsafe { record_to_file(this.file, &hit, len, fill) };
            link = this.next.load(Ordering::Acquire);
        }
        let perf = self.perf.load(Ordering::Acquire);
        if !perf.is_null() {
            // SAFETY: Perf frees its lists when it has left and then waited for handlers: C's
            // `perf_trace_event_unreg()`, by SRCU and the RCU grace period that comes with it.
            unsafe { record_to_perf(perf, &hit, len, fill) };
        }
    }
}

impl Default for Sink {
    fn default() -> Self {
        Self::new()
    }
}

/// C: `trace_trigger_soft_disabled()`: are records not wanted after all? Runs triggers that do
/// not look at the record.
///
/// # Safety
///
/// `file` must be live.
#[inline(always)]
unsafe fn is_soft_disabled(file: *mut bindings::trace_event_file) -> bool {
    const UNUSUAL: c_ulong = (bindings::EVENT_FILE_FL_TRIGGER_MODE
        | bindings::EVENT_FILE_FL_SOFT_DISABLED
        | bindings::EVENT_FILE_FL_PID_FILTER) as c_ulong;
    // SAFETY: The caller guarantees a live file; its flags change at any time.
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
/// `file` must be live, and `len` not below [`HEADER_LEN`].
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
    // SAFETY: `file` is live; the kernel fills `buffer` in.
    let record =
        unsafe { bindings::trace_event_buffer_reserve(buffer.as_mut_ptr(), file, len as c_ulong) };
    if record.is_null() {
        return;
    }
    // SAFETY: The kernel reserved `len` bytes, for us alone. Where a filter is to look at the
    // record first, the kernel does not zero them, but `Fill` does not read what it has not
    // written.
    fill.fill(unsafe { behind_header(record, len) });
    // SAFETY: The kernel filled it in, as it gave a record.
    unsafe {
        (*buffer.as_mut_ptr()).regs = hit.whole();
        bindings::trace_event_buffer_commit(buffer.as_mut_ptr());
    }
}

/// The bytes of a record that are for its maker to write.
///
/// # Safety
///
/// `record` must be `len` bytes, for the caller alone, and `len` not below [`HEADER_LEN`]. Bytes
/// that nobody has written to must not be read.
#[inline(always)]
unsafe fn behind_header<'a>(record: *mut c_void, len: usize) -> &'a mut [u8] {
    // SAFETY: The caller guarantees so many bytes of its own, and that the header is within them.
    unsafe {
        core::slice::from_raw_parts_mut(
            record.cast::<u8>().add(HEADER_LEN),
            len.wrapping_sub(HEADER_LEN),
        )
    }
}

/// For perf, and for BPF programs. Programs see the hits of all CPUs, also if perf has opened the
/// event on one. C: `perf_trace_##call()` in `include/trace/perf.h`.
///
/// # Safety
///
/// `call` must be that of an event that perf has open, and `len` not below [`HEADER_LEN`].
#[inline(always)]
unsafe fn record_to_perf<O: Origin>(
    call: *mut bindings::trace_event_call,
    hit: &O,
    len: usize,
    fill: impl Fill,
) {
    // SAFETY: The caller guarantees that perf has the event open, for which it made the lists.
    let events: *mut hlist_head = unsafe { (*call).perf_events }.cast();
    let head = events.with_addr(arch::this_cpu(events.addr()));
    // SAFETY: Live per-CPU lists; preemption is disabled in a handler. So this is the head of this
    // CPU's list.
    let is_empty = unsafe { ptr::read_volatile(&raw const (*head).first) }.is_null();
    // C: `bpf_prog_array_valid()`.
    // SAFETY: The call is live. Who attaches a program changes it at any time.
    let has_programs = !unsafe { ptr::read_volatile(&raw const (*call).prog_array) }.is_null();
    if is_empty && !has_programs {
        return;
    }
    // The size that perf puts in front takes 4 bytes, and the whole is a multiple of 8.
    let with_size = len.wrapping_add(size_of::<u32>()).wrapping_add(7) & !7;
    let size = with_size.wrapping_sub(size_of::<u32>()) as c_int;
    let mut context = 0;
    let mut room = ptr::null_mut();
    let asked_for = if O::NEEDS_ROOM {
        &raw mut room
    } else {
        ptr::null_mut()
    };
    // SAFETY: Room for registers is asked for, or is not.
    let record = unsafe { bindings::perf_trace_buf_alloc(size, asked_for, &mut context) };
    if record.is_null() {
        return;
    }
    // SAFETY: perf gave at least `len` bytes, for us alone, and `Fill` does not read what it has
    // not written.
    fill.fill(unsafe { behind_header(record, len) });
    // SAFETY: perf gave room for registers where they need it, for us alone.
    let registers = unsafe { hit.for_perf(room) };
    // Looks for programs once more, which may have gone. A program can say that perf gets nothing.
    // SAFETY: The record is the one from above, and the call is live.
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
