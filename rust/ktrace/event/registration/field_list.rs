// SPDX-License-Identifier: GPL-2.0

//! The kernel's list of the fields of an event.
//!
//! Events of a group share a list if they have the same static fields. The kernel's own events of
//! one class share a list, too: see `event_define_fields()` in `kernel/trace/trace_events.c`.

use core::{
    mem::offset_of,
    ptr::{
        self,
        NonNull, //
    },
};

use kernel::{
    bindings::list_head,
    ffi::c_void,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::Opaque, //
};

use crate::bindings::trace_event_class as Class;

use crate::event::mutex::EventMutex;

use super::field::Field;

/// The part of a `struct trace_event_class` that the kernel reads to find the fields of a record.
///
/// C: `struct ktrace_class_fields` in `rust/helpers/trace_events.c`.
#[repr(C)]
struct ClassFields {
    /// NULL. So the kernel reads `head`.
    _get_fields: *const c_void,
    head: Opaque<list_head>,
    /// Zeros. The kernel lets a BPF program read the record up to the end of the field at the front
    /// of the list. C: `trace_event_get_offsets()`. In an empty list, the front is the head itself,
    /// so the kernel takes the end of the field from the bytes after the head. With zeros, it
    /// refuses programs that read the record.
    _no_field: [usize; 4],
}

const _: () = assert!(
    offset_of!(ClassFields, head) - offset_of!(ClassFields, _get_fields)
        == offset_of!(Class, fields) - offset_of!(Class, get_fields)
);

impl ClassFields {
    /// Creates a class without a list. [`init`](Self::init) adds the list.
    fn new() -> Self {
        Self {
            _get_fields: ptr::null(),
            head: Opaque::new(list_head::default()),
            _no_field: [0; 4],
        }
    }

    /// Creates an empty list.
    ///
    /// # Safety
    ///
    /// The caller calls this function once, before any other use. The value must not move
    /// afterwards.
    unsafe fn init(&self) {
        let head = self.head.get();
        // SAFETY: The caller guarantees that no other code uses the list.
        unsafe {
            (*head).next = head;
            (*head).prev = head;
        }
    }
}

// Rust only takes the address of this variable.
#[allow(improper_ctypes)]
extern "C" {
    static ktrace_no_fields: ClassFields;
}

/// A list of fields for one or more events. Only the holder of `event_mutex` changes the list.
///
/// # Invariants
///
/// Each of the `events` has borrowed `fields` from its operations.
#[repr(C)]
pub(super) struct FieldList {
    class: ClassFields,
    fields: NonNull<[Field]>,
    /// Whether the kernel's list has all fields.
    is_defined: Atomic<bool>,
    /// The number of events that use the list.
    events: Atomic<usize>,
    /// The next list of the group.
    next: Atomic<*mut FieldList>,
}

/// The lists of a group that events can share.
///
/// # Invariants
///
/// Each list is live, and at least one event uses it.
pub(super) struct SharedLists(Atomic<*mut FieldList>);

impl SharedLists {
    pub(super) const fn new() -> Self {
        Self(Atomic::new(ptr::null_mut()))
    }

    /// Finds or creates a list for another event. `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `fields` must be borrowed from the operations of the event until [`put`](Self::put).
    pub(super) unsafe fn get(
        &self,
        _: &EventMutex,
        fields: NonNull<[Field]>,
    ) -> Result<NonNull<FieldList>> {
        // SAFETY: The caller guarantees that the fields are borrowed.
        let is_static = unsafe { fields.as_ref() }.iter().all(Field::is_static);
        let mut place = &self.0;
        while let Some(list) = NonNull::new(place.load(Relaxed)) {
            // SAFETY: By the type invariant, the list is live.
            let this = unsafe { list.as_ref() };
            if is_static && ptr::eq(this.fields.as_ptr(), fields.as_ptr()) && this.is_defined() {
                // INVARIANT: The fields of the event are in the same memory.
                this.events.add(1, Relaxed);
                return Ok(list);
            }
            place = &this.next;
        }
        let list = KBox::new(
            FieldList {
                class: ClassFields::new(),
                fields,
                is_defined: Atomic::new(false),
                // INVARIANT: The caller guarantees that the event has borrowed the fields.
                events: Atomic::new(1),
                next: Atomic::new(ptr::null_mut()),
            },
            GFP_KERNEL,
        )?;
        let list = NonNull::from(KBox::leak(list));
        // SAFETY: The list stays in place until it is freed, and no other code has the list yet.
        unsafe { list.as_ref().class.init() };
        if is_static {
            // INVARIANT: One event uses the list. `place` is the end of the group's lists.
            place.store(list.as_ptr(), Relaxed);
        }
        Ok(list)
    }

    /// Ends an event's use of a list. Frees the list after the last event.
    ///
    /// # Safety
    ///
    /// The event must have got `list` from this group, and must not use it any more. If this event
    /// is the last event of the list, no other code may use the list.
    pub(super) unsafe fn put(&self, _: &EventMutex, list: NonNull<FieldList>) {
        // SAFETY: The event still uses the list, so the list is live.
        let this = unsafe { list.as_ref() };
        if this.events.fetch_sub(1, Relaxed) > 1 {
            return;
        }
        let mut place = &self.0;
        while let Some(other) = NonNull::new(place.load(Relaxed)) {
            // SAFETY: By the type invariant, the list is live.
            let next = unsafe { &other.as_ref().next };
            if other == list {
                place.store(next.load(Relaxed), Relaxed);
                break;
            }
            place = next;
        }
        // SAFETY: `get` took the list out of a box, and the caller guarantees that no code uses the
        // list.
        drop(unsafe { KBox::from_raw(list.as_ptr()) });
    }
}

impl FieldList {
    /// The head of the kernel's list.
    pub(super) fn head(&self) -> *mut list_head {
        self.class.head.get()
    }

    /// The fields that the list is for.
    pub(super) fn fields(&self) -> &[Field] {
        // SAFETY: By the type invariant, the operations of an event that uses the list own the
        // fields. No code changes the fields.
        unsafe { self.fields.as_ref() }
    }

    /// Whether the kernel's list has all fields.
    pub(super) fn is_defined(&self) -> bool {
        self.is_defined.load(Relaxed)
    }

    /// Records that the kernel's list has all fields now.
    pub(super) fn set_defined(&self) {
        self.is_defined.store(true, Relaxed);
    }

    /// Whether more than one event uses the list.
    pub(super) fn is_shared(&self) -> bool {
        self.events.load(Relaxed) > 1
    }

    /// A class for the records of the event. The kernel reads only the list of this class.
    pub(super) fn class(&self) -> *const Class {
        class_of(&self.class)
    }
}

/// The head of an empty list.
pub(super) fn no_fields() -> *mut list_head {
    // SAFETY: The variable is a C static, which lives as long as this crate.
    unsafe { &ktrace_no_fields }.head.get()
}

/// A class with an empty list.
pub(super) fn class_without_fields() -> *const Class {
    // SAFETY: The variable is a C static, which lives as long as this crate.
    class_of(unsafe { &ktrace_no_fields })
}

/// A class up to its list. kmemleak sees a pointer to the class, because the class begins with the
/// allocated memory.
#[repr(C)]
struct LeakedClass {
    _unused: [usize; offset_of!(Class, get_fields) / size_of::<usize>()],
    fields: ClassFields,
}

const _: () = assert!(offset_of!(LeakedClass, fields) == offset_of!(Class, get_fields));

/// Creates a class with an empty list, which is never freed. `ENOMEM`.
pub(super) fn leak_class_without_fields() -> Result<*const Class> {
    let class = LeakedClass {
        _unused: Default::default(),
        fields: ClassFields::new(),
    };
    let class = KBox::leak(KBox::new(class, GFP_KERNEL)?);
    // SAFETY: The class stays in place permanently, and no other code has it yet.
    unsafe { class.fields.init() };
    Ok(class_of(&class.fields))
}

fn class_of(fields: &ClassFields) -> *const Class {
    let before = offset_of!(Class, get_fields);
    ptr::from_ref(fields).wrapping_byte_sub(before).cast()
}
