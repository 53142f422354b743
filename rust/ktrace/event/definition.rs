// SPDX-License-Identifier: GPL-2.0

//! Events that a structure defines: the macro [`trace_event!`](crate::trace_event!).

use core::marker::PhantomData;

use kernel::{
    bindings::{
        static_key,
        static_key_false, //
    },
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    sync::{
        atomic::{
            Acquire,
            AtomicFlag,
            Release, //
        },
        Arc, //
    },
    ThisModule, //
};

use probe::{
    command::{
        is_valid_event,
        is_valid_field, //
    },
    fetch::PlainPrintFmt, //
};

use crate::{
    arch,
    event::mutex::{
        EventMutex,
        EventMutexHeld, //
    },
};

use super::{
    record::{
        here::with_here,
        origin::Origin,
        print::{
            Print,
            TraceSeq, //
        },
        sink::{
            Fill,
            Sink,
            HEADER_LEN,
            MAX_LEN, //
        },
    },
    registration::{
        event::TraceEvent,
        field::Field,
        group::Group,
        name::NewName,
        operations::{
            Definition,
            Operations, //
        },
    },
};

use record_type::{
    Column,
    Fields,
    Strings, //
};
use switch::Switch;

mod macros;
pub(crate) mod record_type;
pub(crate) mod switch;

/// The static part of an event.
pub struct StaticEvent {
    sink: Sink,
    is_registered: AtomicFlag,
}

impl StaticEvent {
    /// Creates the static part of an event that is not registered.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self {
            sink: Sink::new(),
            is_registered: AtomicFlag::new(false),
        }
    }
}

/// The static key of an event. Code that records the event has a branch that the kernel patches. C:
/// `struct static_key_false`.
#[repr(C)]
pub struct Key {
    /// The key, in a structure because `static_branch_unlikely!` expects one.
    pub key: static_key_false,
}

impl Key {
    /// Creates a key that is off.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self {
            // SAFETY: All-zero is a key that is off, without branches. C: `STATIC_KEY_FALSE_INIT`.
            key: unsafe { core::mem::MaybeUninit::zeroed().assume_init() },
        }
    }
}

extern "C" {
    fn ktrace_set_static_key(key: *mut static_key, is_enabled: bool);
}

/// The names of an event.
#[derive(Clone, Copy)]
pub struct Names {
    /// The directory below `events/`.
    pub group: &'static CStr,
    /// The directory of the event in the group's directory.
    pub name: &'static CStr,
    /// The names of the fields.
    pub fields: &'static [&'static CStr],
}

/// An event that [`trace_event!`](crate::trace_event!) defined.
///
/// # Safety
///
/// Only `trace_event!` implements this trait. `state` and `key` return statics that belong only to
/// this type and that are in the module of `Owner`.
pub unsafe trait Event: Sized {
    /// The types of the fields.
    type Fields: Fields;

    /// A type of the module that defines the event.
    type Owner: 'static;

    /// The names of the event.
    const NAMES: Names;

    /// The static part of the event.
    fn state() -> &'static StaticEvent;

    /// The static key of the event.
    fn key() -> *mut static_key;

    /// The values of the fields.
    fn fields(self) -> Self::Fields;
}

/// Fails to compile if a record of `E` can be too long. For constants only.
pub const fn check<E: Event>() {
    assert!(
        E::Fields::END + E::Fields::STRINGS <= MAX_LEN,
        "the fields of an event take at most 4000 bytes"
    );
    assert!(
        size_of::<E::Fields>() <= MAX_VALUES,
        "the values of an event take at most 512 bytes: give large arrays as references"
    );
}

/// The maximum size of the values of an event, in bytes. They are on the stack of the code that
/// records, which can be a handler: as the structure, and as the fields of a record, unless the
/// compiler finds that both are the same. A kernel stack has 16 KiB.
const MAX_VALUES: usize = 512;

/// Converts a field's name to a C string. For constants only.
///
/// `name` ends with a NUL. The prefix `r#` is not a part of the C string.
pub const fn field_name(name: &'static str) -> &'static CStr {
    let bytes = name.as_bytes();
    let bytes = match bytes {
        [b'r', b'#', rest @ ..] => rest,
        _ => bytes,
    };
    let Ok(c_name) = core::ffi::CStr::from_bytes_with_nul(bytes) else {
        panic!("a name has no NUL");
    };
    assert!(
        is_valid_field(c_name.to_bytes()),
        "the name of a field has letters, digits and _, and no digit in front"
    );
    c_name
}

/// Converts the name of a group or an event to a C string. For constants only.
///
/// `name` ends with a NUL. The kernel's tools accept only letters, digits and `_`.
pub const fn event_name(name: &'static str) -> &'static CStr {
    let Ok(c_name) = core::ffi::CStr::from_bytes_with_nul(name.as_bytes()) else {
        panic!("a name has no NUL");
    };
    assert!(
        is_valid_event(c_name.to_bytes()),
        "the name of a group or an event has 1 to 63 letters, digits and _, and no digit in front"
    );
    c_name
}

/// The number of bytes that all strings of an `E` share, without their NULs.
const fn room<E: Event>() -> usize {
    MAX_LEN - E::Fields::END - E::Fields::STRINGS
}

/// Writes a record of `E`.
struct Written<'a, E: Event>(&'a E::Fields);

impl<E: Event> Clone for Written<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Event> Copy for Written<'_, E> {}

// SAFETY: `Fields::write` writes all bytes of the fields, and `Strings` writes all bytes after
// them. Their sum is the result of `len_of`.
unsafe impl<E: Event> Fill for Written<'_, E> {
    #[inline(always)]
    fn fill(self, record: &mut [u8]) {
        if let Some((fields, rest)) = record.split_at_mut_checked(E::Fields::END - HEADER_LEN) {
            let mut strings = Strings::new(rest, E::Fields::END, room::<E>());
            self.0.write(fields, &mut strings);
        }
    }
}

/// The length of a record with these fields, in bytes.
#[inline(always)]
fn len_of<E: Event>(fields: &E::Fields) -> usize {
    E::Fields::END.wrapping_add(fields.strings_len(&mut room::<E>()))
}

/// Records a hit of a probe, in its handler.
#[inline(always)]
pub fn record_at<E: Event>(fields: &E::Fields, hit: &impl Origin) {
    // SAFETY: `END` includes all fields, and `room` limits the strings to `MAX_LEN`.
    unsafe {
        E::state()
            .sink
            .record_filled(hit, || len_of::<E>(fields), || Written::<E>(fields))
    };
}

/// Records an event in plain code, at `place`.
#[cold]
#[inline(never)]
pub fn record<E: Event>(fields: &E::Fields, place: arch::CodePlace) {
    with_here(place, |here| record_at::<E>(fields, here));
}

/// The place of the code that this function is inlined into.
#[inline(always)]
pub fn place() -> arch::CodePlace {
    arch::place()
}

/// The registration of an event. Dropping the claim lets the event register again.
struct Claim(&'static StaticEvent);

impl Claim {
    /// Claims the event. `EBUSY` if the event is registered.
    fn new(state: &'static StaticEvent) -> Result<Self> {
        if state.is_registered.xchg(true, Acquire) {
            return Err(EBUSY);
        }
        Ok(Self(state))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.sink.clear_event();
        self.0.is_registered.store(false, Release);
    }
}

/// The parts of an event. `O` is a type of the event's module, so that the vtable of the parts is
/// in that module.
struct Parts<O, S> {
    fields: KVec<Field>,
    print_fmt: CString,
    key: *mut static_key,
    /// Dropped before the claim, because the switch may record the event.
    switch: S,
    claim: Claim,
    _owner: PhantomData<fn() -> O>,
}

// SAFETY: The key is a static, which the kernel changes under its own lock.
unsafe impl<O, S: Send> Send for Parts<O, S> {}
// SAFETY: The key is a static, which the kernel changes under its own lock.
unsafe impl<O, S: Sync> Sync for Parts<O, S> {}

/// Enables or disables a static key. Process context; sleeps.
///
/// # Safety
///
/// `key` must be a static key.
unsafe fn set_key(key: *mut static_key, is_enabled: bool) {
    // SAFETY: The caller guarantees that `key` is a static key.
    unsafe { ktrace_set_static_key(key, is_enabled) };
}

impl<O: 'static, S: Switch> Operations for Parts<O, S> {
    fn sink(&self) -> &Sink {
        &self.claim.0.sink
    }

    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn print_fmt(&self) -> &CStr {
        &self.print_fmt
    }

    fn enable(&self, token: &EventMutexHeld) -> Result {
        // SAFETY: The key is the static key of an `Event`.
        unsafe { set_key(self.key, true) };
        self.switch.enable(token).inspect_err(|_| {
            // SAFETY: The key is the static key of an `Event`.
            unsafe { set_key(self.key, false) };
        })
    }

    fn disable(&self, token: &EventMutexHeld) {
        self.switch.disable(token);
        // SAFETY: The key is the static key of an `Event`.
        unsafe { set_key(self.key, false) };
    }
}

/// Prints the records of an event. `O` is a type of the event's module.
struct Printer<O> {
    columns: KVec<Column>,
    _owner: PhantomData<fn() -> O>,
}

impl<O: 'static> Print for Printer<O> {
    fn print(&self, name: &CStr, record: &[u8], seq: &mut TraceSeq) {
        print(&self.columns, name, record, seq);
    }
}

fn print(columns: &[Column], name: &CStr, record: &[u8], seq: &mut TraceSeq) {
    seq.bytes(name.to_bytes());
    seq.bytes(b":");
    for column in columns {
        column.print(record, seq);
    }
    seq.bytes(b"\n");
}

fn fields_of(columns: &[Column]) -> Result<(KVec<Field>, CString)> {
    let mut fields = KVec::with_capacity(columns.len(), GFP_KERNEL)?;
    for column in columns {
        fields.push(column.field()?, GFP_KERNEL)?;
    }
    let formats = columns.iter().map(Column::format);
    let print_fmt = CString::try_from_fmt(format_args!("{}", PlainPrintFmt(formats)))?;
    Ok((fields, print_fmt))
}

/// Registers an event with the switch that its first user enables.
pub fn register<E: Event, S: Switch>(module: &'static ThisModule, switch: S) -> Result<TraceEvent> {
    let claim = Claim::new(E::state())?;
    let mut columns = KVec::new();
    E::Fields::describe(E::NAMES.fields, &mut columns)?;
    let (fields, print_fmt) = fields_of(&columns)?;
    let parts = Parts::<E::Owner, S> {
        fields,
        print_fmt,
        key: E::key(),
        switch,
        claim,
        _owner: PhantomData,
    };
    let printer = Printer::<E::Owner> {
        columns,
        _owner: PhantomData,
    };
    let definition = Definition {
        name: NewName::new(
            Group::new(E::NAMES.group, module)?,
            CString::try_from(E::NAMES.name)?,
        )?,
        operations: Arc::new(parts, GFP_KERNEL)?,
        print: Arc::new(printer, GFP_KERNEL)?,
    };
    EventMutex::with(|token| TraceEvent::register(token, definition))?
}
