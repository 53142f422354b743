// SPDX-License-Identifier: GPL-2.0

//! Events that plain code records, in every context.

use kernel::prelude::*;

#[kunit_tests(ktrace_plain_event)]
mod tests {
    use super::*;

    use ktrace::trace_event::{
        disable,
        enable,
        exists,
        Comm,
        EventMutexHeld,
        Switch, //
    };

    use crate::{
        kunit_targets::{
            address_of_add,
            count_in_trace,
            run_in, //
        },
        seen::{
            errno,
            Dropped,
            Seen, //
        },
    };

    const GROUP: &CStr = c"ktrace_kunit";

    ktrace::trace_event! {
        /// An event with a field of every type.
        struct EveryEvent<'a> in "ktrace_kunit" as "every" {
            context: u32,
            one: u8,
            two: u16 = hex,
            four: u32,
            eight: u64 = hex,
            size: usize,
            minus_one: i8,
            minus_two: i16,
            minus_four: i32,
            minus_eight: i64,
            minus_size: isize,
            is_true: bool,
            comm: Comm,
            at: usize = symbol,
            bytes: [u8; 3] = hex,
            numbers: &'a [i16; 2],
            text: &'a str,
            path: &'a CStr,
        }
    }

    extern "C" fn record(context: u32) {
        EveryEvent {
            context,
            one: u8::MAX,
            two: u16::MAX,
            four: u32::MAX,
            eight: u64::MAX,
            size: usize::MAX,
            minus_one: i8::MIN,
            minus_two: i16::MIN,
            minus_four: i32::MIN,
            minus_eight: i64::MIN,
            minus_size: isize::MIN,
            is_true: true,
            comm: Comm,
            at: 0,
            bytes: [1, 2, 255],
            numbers: &[i16::MIN, i16::MAX],
            text: "text",
            path: c"",
        }
        .record();
    }

    /// The line of the trace, from the number of the context to the name of the task.
    const VALUES: &CStr = c" one=255 two=0xffff four=4294967295 eight=0xffffffffffffffff \
        size=18446744073709551615 minus_one=-128 minus_two=-32768 minus_four=-2147483648 \
        minus_eight=-9223372036854775808 minus_size=-9223372036854775808 is_true=1 comm=\"";
    /// The part of the line after the symbol.
    const END: &CStr = c" bytes={0x1,0x2,0xff} numbers={-32768,32767} text=\"text\" path=\"\"\n";

    #[test]
    fn every_context_records_every_type() -> Result {
        let event = EveryEvent::register()?;
        // Disabled.
        for context in 0..4 {
            run_in(context, record);
        }
        let disabled = count_in_trace(c" every: context=", VALUES, END);
        enable(GROUP, c"every")?;
        let is_enabled = EveryEvent::is_enabled();
        let ran = [0, 1, 2, 3].map(|context| run_in(context, record));
        disable(GROUP, c"every")?;
        run_in(0, record);
        let seen = [
            c" every: context=0",
            c" every: context=1",
            c" every: context=2",
            c" every: context=3",
        ]
        .map(|start| count_in_trace(start, VALUES, END));
        let was_enabled = EveryEvent::is_enabled();
        drop(event);
        assert_eq!(disabled, 0);
        assert!(is_enabled);
        assert!(!was_enabled);
        assert_eq!([ran[0], ran[1], ran[2]], [true; 3]);
        // Only x86 can raise an NMI.
        assert!(ran[3] || !cfg!(CONFIG_X86_64));
        assert_eq!(seen, ran.map(i32::from));
        assert!(!exists(GROUP, c"every")?);
        Ok(())
    }

    ktrace::trace_event! {
        /// An event with the types that [`EveryEvent`] shows in another way, and with arrays.
        struct OtherEvent<'a> in "ktrace_kunit" as "other" {
            context: u8,
            one: u8 = hex,
            two: u16,
            four: u32 = hex,
            eight: u64,
            size: usize = hex,
            bytes: [u8; 2],
            words: [u16; 2] = hex,
            shorts: &'a [u16; 3],
            longs: [u32; 2] = hex,
            ints: &'a [u32; 2],
            sizes: [usize; 2] = hex,
            minus: [i8; 2],
            longer: [i64; 1],
            are_true: [bool; 3],
            path: &'a CStr,
            text: &'a str,
            last: &'a CStr,
            symbols: [usize; 3] = symbol,
            address: u64 = symbol,
            addresses: &'a [u64; 2] = symbol,
        }
    }

    extern "C" fn record_other(context: u32) {
        let add = address_of_add();
        OtherEvent {
            context: context as u8,
            one: 0xa1,
            two: 60_002,
            four: 0xffff_fff4,
            eight: u64::MAX,
            size: usize::MAX,
            bytes: [0, 255],
            words: [0, u16::MAX],
            shorts: &[1, 0, u16::MAX],
            longs: [0, u32::MAX],
            ints: &[u32::MAX, 7],
            sizes: [1, usize::MAX],
            minus: [i8::MIN, i8::MAX],
            longer: [i64::MIN],
            are_true: [true, false, true],
            path: c"/a/path",
            text: "",
            last: c"x",
            symbols: [add, 0, 0x10],
            address: add as u64 + 1,
            addresses: &[0x10, add as u64],
        }
        .record();
    }

    const OTHER_VALUES: &CStr = c" one=0xa1 two=60002 four=0xfffffff4 eight=18446744073709551615 \
        size=0xffffffffffffffff bytes={0,255} words={0x0,0xffff} shorts={1,0,65535} \
        longs={0x0,0xffffffff} ints={4294967295,7} sizes={0x1,0xffffffffffffffff} \
        minus={-128,127} longer={-9223372036854775808} are_true={1,0,1} path=\"/a/path\" \
        text=\"\" last=\"x\" symbols={ktrace_target_add+0x0/0x";

    #[test]
    fn arrays_symbols_and_other_styles_are_recorded_in_every_context() -> Result {
        let event = OtherEvent::register()?;
        enable(GROUP, c"other")?;
        let ran = [0, 1, 2, 3].map(|context| run_in(context, record_other));
        disable(GROUP, c"other")?;
        let starts = [
            c" other: context=0",
            c" other: context=1",
            c" other: context=2",
            c" other: context=3",
        ];
        let values = starts.map(|start| count_in_trace(start, OTHER_VALUES, c"\n"));
        let symbols = starts.map(|start| {
            let second = c",0x0,0x10} address=ktrace_target_add+0x1/0x";
            count_in_trace(start, second, c" addresses={0x10,ktrace_target_add+0x0/0x")
        });
        drop(event);
        assert_eq!([ran[0], ran[1], ran[2]], [true; 3]);
        for ((ran, values), symbols) in ran.into_iter().zip(values).zip(symbols) {
            assert_eq!([values, symbols], [i32::from(ran); 2]);
        }
        Ok(())
    }

    ktrace::trace_event! {
        struct AgainEvent in "ktrace_kunit" as "again_plain" {
            number: u32,
        }
    }

    #[test]
    fn an_event_is_registered_once_at_a_time() -> Result {
        AgainEvent { number: 1 }.record();
        for _ in 0..3 {
            let event = AgainEvent::register()?;
            let second = errno(AgainEvent::register());
            let there = exists(GROUP, c"again_plain")?;
            drop(event);
            assert_eq!(second, EBUSY.to_errno());
            assert!(there);
        }
        AgainEvent { number: 2 }.record();
        assert!(!exists(GROUP, c"again_plain")?);
        assert!(!AgainEvent::is_enabled());
        Ok(())
    }

    ktrace::trace_event! {
        struct SwitchEvent in "ktrace_kunit" as "switch" {}
    }

    /// Records its calls, and can fail.
    struct Calls(&'static Seen, Result, #[expect(dead_code)] Dropped);

    impl Switch for Calls {
        fn enable(&self, _: &EventMutexHeld) -> Result {
            self.0.push(1);
            self.1
        }

        fn disable(&self, _: &EventMutexHeld) {
            self.0.push(2);
        }
    }

    #[test]
    fn the_first_user_enables_the_switch() -> Result {
        static SEEN: Seen = Seen::new();
        let event = SwitchEvent::register_with(Calls(&SEEN, Ok(()), Dropped(&SEEN, 3)))?;
        enable(GROUP, c"switch")?;
        disable(GROUP, c"switch")?;
        enable(GROUP, c"switch")?;
        let is_enabled = SwitchEvent::is_enabled();
        drop(event);
        assert!(is_enabled);
        assert!(!SwitchEvent::is_enabled());
        assert!(SEEN.is(&[1, 2, 1, 2, 3]));
        Ok(())
    }

    ktrace::trace_event! {
        struct RefusedEvent in "ktrace_kunit" as "refused" {}
    }

    #[test]
    fn a_switch_that_fails_leaves_the_event_off() -> Result {
        static SEEN: Seen = Seen::new();
        let event = RefusedEvent::register_with(Calls(&SEEN, Err(EDOM), Dropped(&SEEN, 3)))?;
        // The kernel does not pass the error on.
        let refused = enable(GROUP, c"refused").is_err();
        let is_enabled = RefusedEvent::is_enabled();
        drop(event);
        assert!(refused);
        assert!(!is_enabled);
        assert!(SEEN.is(&[1, 3]));
        Ok(())
    }
}
