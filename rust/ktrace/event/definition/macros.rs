// SPDX-License-Identifier: GPL-2.0

//! The macro [`trace_event!`](crate::trace_event!).

/// Defines a trace event by a structure.
///
/// Only the definition says which fields a record has. The layout, `format`, the line in the trace,
/// filters and histograms follow from the definition. The offsets of the fields are as in C.
///
/// | type of the field | in a record |
/// | --- | --- |
/// | `u8` to `u64`, `usize`, `i8` to `i64`, `isize`, `bool` | the number |
/// | an array of these types with 1 to 255 elements, or a reference to an array | the numbers |
/// | [`Comm`](crate::trace_event::Comm) | the name of the current task |
/// | `&str`, `&CStr` | the string, after all fields (`__data_loc`) |
///
/// `= hex` shows an unsigned integer in hexadecimal. `= symbol` shows a `u64` or a `usize` as the
/// symbol of this address. Both also apply to arrays.
///
/// All fields of an event together take less than a page. Strings that do not fit are cut. The
/// values in the structure, with references instead of what they point to, take at most 512 bytes,
/// because they are on the stack: give larger arrays as references.
///
/// The structure has these functions:
///
/// - `register()` adds the event to the kernel, disabled, and returns a
///   [`TraceEvent`](crate::trace_event::TraceEvent). Dropping the `TraceEvent` removes the event,
///   which can then be registered again.
/// - `register_with(switch)` also takes a [`Switch`](crate::trace_event::Switch), such as a probe.
///   The first user of the event enables the switch, and the last user disables it.
/// - `record(self)` records the event in plain code, in any context, including NMI.
/// - `record_at(self, hit)` records the event in the handler of a probe. The record has the
///   registers of the hit, which perf and stack traces show.
/// - `is_enabled()` returns whether the event has a user. Call it before the computation of
///   expensive values.
///
/// While the event has no user, `record` costs one no-op instruction: the kernel patches the code,
/// as for a `TRACE_EVENT()` in C. Without `CONFIG_JUMP_LABEL`, it costs a load and a branch.
/// Recording does nothing before the event is registered and after it is removed.
///
/// The crate must contain a `module!`.
///
/// # Examples
///
/// ```
/// use kernel::prelude::*;
/// use ktrace::trace_event::{
///     Comm,
///     TraceEvent, //
/// };
///
/// ktrace::trace_event! {
///     /// A file was read.
///     pub struct ReadEvent<'a> in "mine" as "read" {
///         flags: u64 = hex,
///         len: isize,
///         comm: Comm,
///         path: &'a str,
///         sizes: [u32; 4],
///     }
/// }
///
/// pub fn init() -> Result<TraceEvent> {
///     ReadEvent::register()
/// }
///
/// pub fn read(path: &str) {
///     ReadEvent {
///         flags: 0x8000,
///         len: -1,
///         comm: Comm,
///         path,
///         sizes: [1, 2, 3, 4],
///     }
///     .record();
/// }
/// ```
#[macro_export]
macro_rules! trace_event {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(<$lifetime:lifetime>)?
        in $group:literal as $event:literal {
            $(
                $(#[$field_attribute:meta])*
                $field:ident: $type:ty $(= $style:ident)?
            ),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $name $(<$lifetime>)? {
            $(
                $(#[$field_attribute])*
                $visibility $field: $type,
            )*
        }

        const _: () = {
            // No type of a field uses the names in this block.
            use $crate::trace_event::private as ktrace_private;

            /// A type of the module that defines the event.
            pub struct KtraceOwner;

            static KTRACE_STATE: ktrace_private::StaticEvent = ktrace_private::StaticEvent::new();
            static mut KTRACE_KEY: ktrace_private::Key = ktrace_private::Key::new();

            // The compiler always evaluates these constants.
            const KTRACE_NAMES: ktrace_private::Names = ktrace_private::Names {
                group: ktrace_private::event_name(::core::concat!($group, "\0")),
                name: ktrace_private::event_name(::core::concat!($event, "\0")),
                fields: &[$(
                    ktrace_private::field_name(::core::concat!(::core::stringify!($field), "\0")),
                )*],
            };
            #[allow(elided_lifetimes_in_paths)]
            const _: () = ktrace_private::check::<$name>();

            // SAFETY: Both statics belong only to this event, and are in the module of the owner.
            unsafe impl $(<$lifetime>)? ktrace_private::Event for $name $(<$lifetime>)? {
                type Fields = $crate::trace_event!(@types [()] $([$type, $($style)?])*);
                type Owner = KtraceOwner;

                const NAMES: ktrace_private::Names = KTRACE_NAMES;

                #[inline(always)]
                fn state() -> &'static ktrace_private::StaticEvent {
                    &KTRACE_STATE
                }

                fn key() -> *mut ::kernel::bindings::static_key {
                    (&raw mut KTRACE_KEY).cast()
                }

                // An event may have no fields.
                #[allow(clippy::unused_unit)]
                #[inline(always)]
                fn fields(self) -> Self::Fields {
                    $crate::trace_event!(@values [()] $([self.$field, $($style)?])*)
                }
            }

            #[allow(dead_code)]
            impl $(<$lifetime>)? $name $(<$lifetime>)? {
                /// Adds the event to the kernel. The event appears in tracefs, disabled. Dropping
                /// the result removes the event.
                ///
                /// Process context; sleeps. `EBUSY` if this event is registered already, `EEXIST`
                /// if another event has its name, `ENODEV` if the kernel has no free event number,
                /// `EDEADLK` with `event_mutex` held, `ENOMEM`.
                $visibility fn register(
                ) -> ::kernel::error::Result<$crate::trace_event::TraceEvent> {
                    Self::register_with(())
                }

                /// Registers the event with a switch, such as a probe. The first user of the event
                /// enables the switch. Context and errors are those of `register`.
                $visibility fn register_with(
                    switch: impl $crate::trace_event::Switch,
                ) -> ::kernel::error::Result<$crate::trace_event::TraceEvent> {
                    ktrace_private::register::<Self, _>($crate::this_module!(), switch)
                }

                /// Whether the event has a user. A branch that the kernel patches. Any context. C:
                /// `trace_*_enabled()`.
                #[inline(always)]
                $visibility fn is_enabled() -> bool {
                    // SAFETY: `KTRACE_KEY` is a static key of this module.
                    unsafe {
                        ::kernel::jump_label::static_branch_unlikely!(
                            KTRACE_KEY,
                            ktrace_private::Key,
                            key
                        )
                    }
                }

                /// Records the event for each of its users, in plain code. Any context.
                #[inline(always)]
                $visibility fn record(self) {
                    if Self::is_enabled() {
                        // The fields are in memory from here on.
                        let fields = ktrace_private::Event::fields(self);
                        ktrace_private::record::<Self>(&fields, ktrace_private::place());
                    }
                }

                /// Records the event in the handler of a probe, with the registers at the hit.
                #[inline(always)]
                $visibility fn record_at(self, hit: &impl $crate::trace_event::Origin) {
                    if Self::is_enabled() {
                        ktrace_private::record_at::<Self>(
                            &ktrace_private::Event::fields(self),
                            hit,
                        );
                    }
                }
            }
        };
    };

    (@types [$before:ty]) => { $before };
    (@types [$before:ty] [$type:ty, ] $($rest:tt)*) => {
        $crate::trace_event!(
            @types [($before, ktrace_private::Value<$type, ktrace_private::Plain>)] $($rest)*
        )
    };
    (@types [$before:ty] [$type:ty, hex] $($rest:tt)*) => {
        $crate::trace_event!(
            @types [($before, ktrace_private::Value<$type, ktrace_private::Hex>)] $($rest)*
        )
    };
    (@types [$before:ty] [$type:ty, symbol] $($rest:tt)*) => {
        $crate::trace_event!(
            @types [($before, ktrace_private::Value<$type, ktrace_private::Symbol>)] $($rest)*
        )
    };
    // `@value` rejects any other style.
    (@types [$before:ty] [$type:ty, $style:ident] $($rest:tt)*) => {
        $crate::trace_event!(@types [$before] [$type, ] $($rest)*)
    };
    (@values [$before:expr]) => { $before };
    (@values [$before:expr] [$value:expr, $($style:ident)?] $($rest:tt)*) => {
        $crate::trace_event!(@values [
            ($before, $crate::trace_event!(@value $value, $($style)?))
        ] $($rest)*)
    };
    (@value $value:expr, ) => { ktrace_private::Value::plain($value) };
    (@value $value:expr, hex) => { ktrace_private::Value::hex($value) };
    (@value $value:expr, symbol) => { ktrace_private::Value::symbol($value) };
    (@value $value:expr, $style:ident) => {
        ::core::compile_error!(::core::concat!(
            "a field of an event is shown as `hex` or `symbol`, not as `",
            ::core::stringify!($style),
            "`",
        ))
    };
    ($($other:tt)*) => {
        ::core::compile_error!(
            "a trace event is defined as: struct NAME in \"GROUP\" as \"EVENT\" { FIELD: TYPE, \
             FIELD: TYPE = hex, FIELD: TYPE = symbol }"
        );
    };
}
