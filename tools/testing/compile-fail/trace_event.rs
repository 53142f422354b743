// SPDX-License-Identifier: GPL-2.0

//! Trace events: who may add and remove them, and what prints and records.

use kernel::{
    prelude::*,
    str::CString,
    sync::{
        aref::ARef,
        Arc, //
    },
    ThisModule, //
};

use ktrace::{
    kprobe::Hit,
    stack::SavedStack,
    trace_event::{
        Definition,
        EventMutex,
        EventMutexHeld,
        Field,
        Fill,
        Group,
        NewName,
        Number,
        Operations,
        Output,
        Print,
        Sink,
        TraceEvent,
        TraceSeq, //
    },
};

/// The functions of an event that has nothing to switch on.
macro_rules! no_operations {
    () => {
        fn sink(&self) -> &Sink {
            todo()
        }

        fn fields(&self) -> &[Field] {
            &[]
        }

        fn print_fmt(&self) -> &CStr {
            c""
        }

        fn enable(&self, _: &EventMutexHeld) -> Result {
            Ok(())
        }

        fn disable(&self, _: &EventMutexHeld) {}
    };
}

pub fn is_send<T: Send>() {}
pub fn is_sync<T: Sync>() {}

pub fn register(definition: Definition) -> Result<TraceEvent> {
    //~ register_without_token: error[E0308]: expected `&EventMutex`, found `&()`
    #[cfg(case = "register_without_token")]
    return TraceEvent::register(&(), definition);

    #[cfg(not(case = "register_without_token"))]
    EventMutex::with(|token| TraceEvent::register(token, definition))?
}

/// Counts its users through the module: it must be there for as long as the event.
//~ owner_borrowed: error[E0521]: borrowed data escapes outside of function
#[cfg(case = "owner_borrowed")]
pub fn owner_borrowed(module: &ThisModule) -> Result<Arc<Group>> {
    Group::new(c"group", module)
}

pub fn group(module: &'static ThisModule) -> Result<Arc<Group>> {
    Group::new(c"group", module)
}

pub fn remove(event: TraceEvent) -> Result {
    //~ remove_without_token: error[E0308]: expected `&EventMutex`, found `&()`
    #[cfg(case = "remove_without_token")]
    let _ = event.try_remove(&());

    //~ busy_without_token: error[E0308]: expected `&EventMutexHeld`, found `&()`
    #[cfg(case = "busy_without_token")]
    let _ = event.is_busy(&());

    //~ remove_twice: error[E0382]: use of moved value: `event`
    #[cfg(case = "remove_twice")]
    EventMutex::with(|token| {
        let _ = event.try_remove(token);
        let _ = event.try_remove(token);
    })?;

    #[cfg(not(any(case = "remove_without_token", case = "remove_twice")))]
    EventMutex::with(|token| event.try_remove(token))?.map_err(|(_, error)| error)?;
    Ok(())
}

/// In a callback the kernel is walking over its events, and the event's own code runs.
//~ remove_in_callback: error[E0308]: expected `&EventMutex`, found `&EventMutexHeld`
#[cfg(case = "remove_in_callback")]
pub fn remove_in_callback(event: TraceEvent, token: &EventMutexHeld) {
    let _ = event.try_remove(token);
}

//~ register_in_callback: error[E0308]: expected `&EventMutex`, found `&EventMutexHeld`
#[cfg(case = "register_in_callback")]
pub fn register_in_callback(definition: Definition, token: &EventMutexHeld) -> Result<TraceEvent> {
    TraceEvent::register(token, definition)
}

/// Nobody may have written to the memory that is filled.
#[derive(Clone, Copy)]
pub struct Reads;

//~ fill_safely: error[E0200]: the trait `Fill` requires an `unsafe impl` declaration
#[cfg(case = "fill_safely")]
impl Fill for Reads {
    fn fill(self, record: &mut [u8]) {
        let first = record[0];
        record[1] = first;
    }
}

#[cfg(not(case = "fill_safely"))]
// SAFETY: It writes all bytes, and reads none.
unsafe impl Fill for Reads {
    fn fill(self, record: &mut [u8]) {
        record.fill(0);
    }
}

/// `event_mutex` is held by this task, for as long as the function runs.
pub fn token() -> Result {
    EventMutex::with(|_| ())?;

    //~ token_kept: error: lifetime may not live long enough
    #[cfg(case = "token_kept")]
    let _ = EventMutex::with(|token| token)?;

    //~ token_escapes: error[E0521]: borrowed data escapes outside of closure
    #[cfg(case = "token_escapes")]
    {
        let mut kept = None;
        EventMutex::with(|token| kept = Some(token))?;
        let _ = kept;
    }

    //~ token_moved: error[E0507]: cannot move out of `*token`
    #[cfg(case = "token_moved")]
    let _ = EventMutex::with(|token| -> EventMutex { *token })?;

    //~ token_constructed: error[E0423]: cannot initialize a tuple struct which contains private fields
    #[cfg(case = "token_constructed")]
    let _ = EventMutex(kernel::types::NotThreadSafe);

    //~ token_assumed: error[E0624]: associated function `assume_held` is private
    #[cfg(case = "token_assumed")]
    // SAFETY: It does not come to that.
    let _ = unsafe { EventMutex::assume_held() };

    Ok(())
}

//~ token_sent: error[E0277]: `*mut ()` cannot be sent between threads safely
#[cfg(case = "token_sent")]
pub fn token_sent() {
    is_send::<EventMutex>();
}

//~ token_shared: error[E0277]: `*mut ()` cannot be shared between threads safely
#[cfg(case = "token_shared")]
pub fn token_shared() {
    is_sync::<EventMutex>();
}

//~ token_spawned: error[E0277]: `*mut ()` cannot be shared between threads safely
#[cfg(case = "token_spawned")]
pub fn token_spawned() -> Result {
    EventMutex::with(|token| {
        let _ = kernel::workqueue::system().try_spawn(GFP_KERNEL, move || {
            core::hint::black_box(token);
        });
    })
}

pub fn fields(name: CString) -> Result<Field> {
    //~ strings: error[E0133]: call to unsafe function `Field::strings` is unsafe
    #[cfg(case = "strings")]
    return Field::strings(name, None, 8, false);

    // The kernel's filters and histograms trust the size of a field.
    //~ field_sized: error[E0061]: this function takes 3 arguments but 4 arguments were supplied
    #[cfg(case = "field_sized")]
    return Field::number(name, Number::U32, 8, 0);

    // A text is a string without an end.
    //~ field_typed: error[E0308]: expected `Number`, found `&CStr`
    #[cfg(case = "field_typed")]
    return Field::number(name, c"char[8]", 8);

    //~ field_comm: error[E0624]: associated function `comm` is private
    #[cfg(case = "field_comm")]
    // SAFETY: It does not come to that.
    return unsafe { Field::comm(c"comm", 8) };

    //~ array_empty: error[E0308]: expected `NonZero<u8>`, found integer
    #[cfg(case = "array_empty")]
    return Field::array(name, Number::U8, 0, 8);

    //~ field_constructed: error: cannot construct `Field` with struct literal syntax due to private fields
    #[cfg(case = "field_constructed")]
    return Ok(Field {
        name: name.into(),
        size: 0,
    });

    #[cfg(not(any(
        case = "strings",
        case = "field_sized",
        case = "field_typed",
        case = "field_comm",
        case = "array_empty",
        case = "field_constructed"
    )))]
    Field::number(name, Number::U32, 8)
}

/// The name of an event is checked.
pub fn name(group: Arc<Group>, name: CString) -> Result<NewName> {
    //~ name_constructed: error[E0451]: field `group` of struct `NewName` is private
    #[cfg(case = "name_constructed")]
    return Ok(NewName { group, name });

    #[cfg(not(case = "name_constructed"))]
    NewName::new(group, name)
}

/// A handler has little stack.
pub fn stack() -> usize {
    //~ stack_too_large: error[E0080]: a stack trace has 1 to 64 addresses
    #[cfg(case = "stack_too_large")]
    let stack = SavedStack::<65>::new();

    //~ stack_empty: error[E0080]: a stack trace has 1 to 64 addresses
    #[cfg(case = "stack_empty")]
    let stack = SavedStack::<0>::new();

    #[cfg(not(any(case = "stack_too_large", case = "stack_empty")))]
    let stack = SavedStack::<64>::new();

    stack.save();
    stack.addresses().len()
}

pub fn handler(sink: &Arc<Sink>, hit: &Hit<'_>) {
    sink.record(hit, 16, |record| record.fill(0));

    //~ record_without_hit: error[E0277]: the trait bound `ktrace::context::Atomic: Origin` is not
    #[cfg(case = "record_without_hit")]
    sink.record(hit.atomic(), 16, |record| record.fill(0));

    //~ record_kept: error[E0521]: borrowed data escapes outside of closure
    #[cfg(case = "record_kept")]
    {
        let kept = core::cell::Cell::new(None);
        sink.record(hit, 16, |record| kept.set(Some(record)));
    }

    //~ sink_taken: error[E0624]: method `set_event` is private
    #[cfg(case = "sink_taken")]
    let _ = sink.set_event(1, 0);
}

pub struct Printer;

impl Print for Printer {
    fn print(&self, _: &CStr, record: &[u8], seq: &mut TraceSeq) {
        seq.bytes(record);

        //~ seq_kept: error: lifetime may not live long enough
        #[cfg(case = "seq_kept")]
        let _: &'static mut TraceSeq = seq;

        //~ seq_constructed: error[E0624]: associated function `new` is private
        #[cfg(case = "seq_constructed")]
        let _ = TraceSeq::new(core::ptr::null_mut(), false);

        //~ seq_moved: error[E0507]: cannot move out of `*seq`
        #[cfg(case = "seq_moved")]
        let _seq: TraceSeq = *seq;

        //~ record_written: error[E0594]: cannot assign to
        #[cfg(case = "record_written")]
        {
            record[0] = 0;
        }

        //~ record_outlives: error: lifetime may not live long enough
        #[cfg(case = "record_outlives")]
        let _: &'static [u8] = record;
    }
}

/// A number is taken for an event, with the name of that.
//~ output_constructed: error[E0624]: associated function `new` is private
#[cfg(case = "output_constructed")]
pub fn output(group: Arc<Group>, print: Arc<dyn Print>) -> Result<ARef<Output>> {
    Output::new(group, c"", print)
}

#[cfg(not(case = "output_constructed"))]
pub fn output(event: &TraceEvent) -> ARef<Output> {
    event.output()
}

/// Readers print on every CPU at once.
#[cfg(case = "print_not_sync")]
pub struct NotSync(core::cell::Cell<u32>);

//~ print_not_sync: error[E0277]: `Cell<u32>` cannot be shared between threads safely
#[cfg(case = "print_not_sync")]
impl Print for NotSync {
    fn print(&self, _: &CStr, _: &[u8], _: &mut TraceSeq) {}
}

#[cfg(case = "operations_not_sync")]
pub struct NotSync(core::cell::Cell<u32>);

//~ operations_not_sync: error[E0277]: `Cell<u32>` cannot be shared between threads safely
#[cfg(case = "operations_not_sync")]
impl Operations for NotSync {
    no_operations!();
}

/// An event lives for as long as someone uses it.
#[cfg(case = "operations_borrowed")]
pub struct Borrowed<'a>(&'a u32);

//~ operations_borrowed: error[E0478|E0495]: lifetime bound not satisfied
#[cfg(case = "operations_borrowed")]
impl<'a> Operations for Borrowed<'a> {
    no_operations!();
}

pub struct Switch;

impl Operations for Switch {
    no_operations!();
}

/// Anything.
pub fn todo<T>() -> T {
    loop {}
}

/// Only the handlers of the kernel's probes know a hit.
#[cfg(case = "origin_made")]
#[derive(Clone, Copy)]
pub struct Made;

//~ origin_made: error[E0277]: Sealed` is not satisfied
#[cfg(case = "origin_made")]
impl ktrace::trace_event::Origin for Made {
    fn state(&self) -> ktrace::trace_event::State<&ktrace::registers::Registers> {
        loop {}
    }
}

/// An event with a field of each sort.
pub mod definition {
    use super::*;

    use ktrace::trace_event::Comm;

    #[cfg(case = "field_type")]
    type String = KVec<u8>;

    ktrace::trace_event! {
        /// As it must be.
        pub struct Good<'a> in "group" as "good" {
            /// A field can have comments.
            flags: u64 = hex,
            address: usize = symbol,
            r#type: i8,
            is_new: bool,
            comm: Comm,
            sizes: [u16; 3],
            addresses: &'a [usize; 2] = symbol,
            many: &'a [u64; 255],
            name: &'a str,
            path: &'a CStr,
        }
    }

    ktrace::trace_event! {
        pub struct Empty in "group" as "empty" {}
    }

    //~ field_type: error[E0277]: as `Plain`: `u8` to `u64`, `usize`, `i8` to `i64`, `isize`, `bool`, arrays of them, references to such arrays, `Comm`, `&str` and `&CStr`
    #[cfg(case = "field_type")]
    ktrace::trace_event! {
        pub struct Bad in "group" as "bad" { name: String }
    }

    //~ field_pointer: error[E0277]: a record cannot have a field of type `*const u8` that is shown as `Plain`
    #[cfg(case = "field_pointer")]
    ktrace::trace_event! {
        pub struct Bad in "group" as "bad" { address: *const u8 }
    }

    //~ field_array: error[E0277]: a record cannot have an array of `&'a str` that is shown as `Plain`
    #[cfg(case = "field_array")]
    ktrace::trace_event! {
        pub struct Bad<'a> in "group" as "bad" { names: [&'a str; 2] }
    }

    //~ field_hex: error[E0277]: a record cannot have a field of type `&'a str` that is shown as `Hex`
    #[cfg(case = "field_hex")]
    ktrace::trace_event! {
        pub struct Bad<'a> in "group" as "bad" { name: &'a str = hex }
    }

    //~ field_symbol: error[E0277]: as `Symbol` (`= symbol`): `usize`, `u64` and arrays of them
    #[cfg(case = "field_symbol")]
    ktrace::trace_event! {
        pub struct Bad in "group" as "bad" { address: u32 = symbol }
    }

    //~ field_style: error: a field of an event is shown as `hex` or `symbol`, not as `octal`
    #[cfg(case = "field_style")]
    ktrace::trace_event! {
        pub struct Bad in "group" as "bad" { mode: u32 = octal }
    }

    //~ field_lifetime: error.*: missing lifetime specifier
    #[cfg(case = "field_lifetime")]
    ktrace::trace_event! {
        pub struct Bad in "group" as "bad" { name: &str }
    }

    //~ fields_too_many: error[E0080]: the fields of an event take at most
    #[cfg(case = "fields_too_many")]
    ktrace::trace_event! {
        pub struct Bad<'a> in "group" as "bad" { first: &'a [u64; 255], second: &'a [u64; 255] }
    }

    //~ values_too_many: error[E0080]: the values of an event take at most 512 bytes: give large arrays as references
    #[cfg(case = "values_too_many")]
    ktrace::trace_event! {
        pub struct Bad in "group" as "bad" { first: [u64; 64], second: u8 }
    }

    //~ event_name_long: error[E0080]: the name of a group or an event has 1 to 63 letters, digits and _, and no digit in front
    #[cfg(case = "event_name_long")]
    ktrace::trace_event! {
        pub struct Bad in "group" as "a123456789012345678901234567890123456789012345678901234567890123" {}
    }

    //~ event_name_of_two: error[E0080]: a name has no NUL
    #[cfg(case = "event_name_of_two")]
    ktrace::trace_event! {
        pub struct Bad in "group" as "bad\0bad" {}
    }

    //~ field_empty: error[E0080]: an array in a record has 1 to 255 elements
    #[cfg(case = "field_empty")]
    ktrace::trace_event! {
        pub struct Bad in "group" as "bad" { none: [u8; 0] }
    }

    //~ event_name: error[E0080]: the name of a group or an event has 1 to 63 letters, digits and _, and no digit in front
    #[cfg(case = "event_name")]
    ktrace::trace_event! {
        pub struct Bad in "my group" as "bad" {}
    }

    //~ event_unnamed: error[E0080]: the name of a group or an event has 1 to 63 letters, digits and _, and no digit in front
    #[cfg(case = "event_unnamed")]
    ktrace::trace_event! {
        pub struct Bad in "group" as "" {}
    }

    //~ event_syntax: error: a trace event is defined as
    #[cfg(case = "event_syntax")]
    ktrace::trace_event! {
        pub struct Bad { a: u32 }
    }

    pub fn plain(path: &CStr) -> Result<TraceEvent> {
        Empty {}.record();
        Good {
            flags: 1,
            address: 2,
            r#type: 3,
            is_new: true,
            comm: Comm,
            sizes: [4; 3],
            addresses: &[1, 2],
            many: &[0; 255],
            //~ field_value: error[E0308]: expected `&str`, found integer
            #[cfg(case = "field_value")]
            name: 5,
            #[cfg(not(case = "field_value"))]
            name: "5",
            path,
            //~ field_unknown: error[E0560]: has no field named `other`
            #[cfg(case = "field_unknown")]
            other: 6,
        }
        .record();
        Good::register()
    }

    /// The registers are those of a hit.
    pub fn hit(hit: &Hit<'_>) {
        Empty {}.record_at(hit);

        //~ record_at_nothing: error[E0277]: the trait bound `(): Origin` is not satisfied
        #[cfg(case = "record_at_nothing")]
        Empty {}.record_at(&());
    }

    //~ record_type: error[E0277]: Sealed` is not satisfied
    #[cfg(case = "record_type")]
    #[derive(Clone, Copy)]
    pub struct Mine;
    #[cfg(case = "record_type")]
    impl ktrace::trace_event::RecordType for Mine {
        const KIND: ktrace::trace_event::private::Kind = loop {};
        const SIZE: usize = 4;
        const ALIGN: usize = 4;
        fn write(&self, _: &mut [u8], _: u32) {}
    }
}
