// SPDX-License-Identifier: GPL-2.0

//! Events that are registered and removed.

use kernel::prelude::*;

#[kunit_tests(ktrace_trace_event)]
mod tests {
    use super::*;

    use core::{
        fmt::Write as _,
        num::NonZeroU8, //
    };

    use kernel::{
        new_mutex,
        str::CString,
        sync::{
            Arc,
            Mutex, //
        },
    };

    use ktrace::trace_event::{
        disable,
        empty_traces,
        enable,
        exists,
        Definition,
        EventMutex,
        EventMutexHeld,
        Field,
        Group,
        NewName,
        Number,
        Operations,
        Print,
        Sink,
        TraceEvent,
        TraceSeq,
        HEADER_LEN,
        MAX_LEN, //
    };

    use crate::seen::{
        errno,
        Dropped,
        Seen,
        NOWHERE, //
    };

    const GROUP: &CStr = c"ktrace_kunit";

    const EIGHT: NonZeroU8 = NonZeroU8::new(8).unwrap();

    /// The parts of an event that no test records to.
    struct Parts {
        sink: Arc<Sink>,
        fields: KVec<Field>,
        _dropped: Dropped,
    }

    impl Operations for Parts {
        fn sink(&self) -> &Sink {
            &self.sink
        }

        fn fields(&self) -> &[Field] {
            &self.fields
        }

        fn print_fmt(&self) -> &CStr {
            c"\"%u\", REC->field[0]"
        }

        fn enable(&self, _token: &EventMutexHeld) -> Result {
            Ok(())
        }

        fn disable(&self, _token: &EventMutexHeld) {}
    }

    struct Length(#[expect(dead_code)] Dropped);

    impl Print for Length {
        fn print(&self, _name: &CStr, record: &[u8], seq: &mut TraceSeq) {
            let _ = writeln!(seq, "{} bytes", record.len());
        }
    }

    fn sink() -> Result<Arc<Sink>> {
        Ok(Arc::new(Sink::new(), GFP_KERNEL)?)
    }

    /// An event with a field of eight bytes at this offset. It pushes 1 when its operations are
    /// dropped, and 2 when its printer is dropped.
    fn register(
        name: &CStr,
        offset: usize,
        sink: Arc<Sink>,
        dropped: &'static Seen,
    ) -> Result<TraceEvent> {
        let field = Field::array(c"field", Number::U8, EIGHT, offset)?;
        let mut fields = KVec::new();
        fields.push(field, GFP_KERNEL)?;
        let parts = Parts {
            sink,
            fields,
            _dropped: Dropped(dropped, 1),
        };
        let definition = Definition {
            name: NewName::new(
                Group::new(GROUP, ktrace::this_module!())?,
                CString::try_from(name)?,
            )?,
            operations: Arc::new(parts, GFP_KERNEL)?,
            print: Arc::new(Length(Dropped(dropped, 2)), GFP_KERNEL)?,
        };
        EventMutex::with(|token| TraceEvent::register(token, definition))?
    }

    fn remove(event: TraceEvent) -> Result {
        EventMutex::with(|token| event.try_remove(token).map_err(|(_, error)| error))?
    }

    #[test]
    fn with_event_mutex_a_function_runs_once() -> Result {
        static SEEN: Seen = Seen::new();
        let text = EventMutex::with(|_| {
            SEEN.push(1);
            "a value"
        })?;
        let refused = EventMutex::with(|_| Err::<(), Error>(EDOM))?;
        // What it takes is moved in and out.
        let boxed = KBox::new(7, GFP_KERNEL)?;
        let boxed = EventMutex::with(move |_| boxed)?;
        assert_eq!(text, "a value");
        assert_eq!(errno(refused), EDOM.to_errno());
        assert_eq!(*boxed, 7);
        assert!(SEEN.is(&[1]));
        Ok(())
    }

    #[test]
    fn an_event_is_there_until_it_is_removed() -> Result {
        static DROPPED: Seen = Seen::new();
        let name = c"there";
        let before = exists(GROUP, name)?;
        let event = register(name, HEADER_LEN, sink()?, &DROPPED)?;
        let there = [
            exists(GROUP, name)?,
            exists(GROUP, c"ther")?,
            exists(c"ktrace", name)?,
        ];
        let busy = EventMutex::with(|token| event.is_busy(token))?;
        let dropped_before = DROPPED.len();
        remove(event)?;
        let after = exists(GROUP, name)?;
        assert!(!before);
        assert_eq!(there, [true, false, false]);
        assert!(!busy);
        assert_eq!(dropped_before, 0);
        assert!(!after);
        // The output was nobody else's.
        assert_eq!(DROPPED.len(), 2);
        Ok(())
    }

    #[test]
    fn an_event_can_come_again() -> Result {
        for _ in 0..3 {
            let event = register(c"again", HEADER_LEN, sink()?, &NOWHERE)?;
            let there = exists(GROUP, c"again")?;
            remove(event)?;
            assert!(there);
        }
        assert!(!exists(GROUP, c"again")?);
        Ok(())
    }

    #[test]
    fn the_kernels_events_exist() -> Result {
        assert!(exists(c"sched", c"sched_switch")?);
        assert!(!exists(c"sched", c"sched_nothing")?);
        assert!(!exists(c"nothing", c"sched_switch")?);
        Ok(())
    }

    #[test]
    fn an_output_outlives_its_event_and_keeps_its_number() -> Result {
        static DROPPED: Seen = Seen::new();
        let event = register(c"first", HEADER_LEN, sink()?, &DROPPED)?;
        let output = event.output();
        remove(event)?;
        let dropped_with_event = DROPPED.get(0);
        let dropped_before = DROPPED.len();
        let event = register(c"second", HEADER_LEN, sink()?, &NOWHERE)?;
        let numbers = [output.number(), event.output().number()];
        remove(event)?;
        drop(output);
        assert_eq!([dropped_with_event, dropped_before as u64], [1, 1]);
        assert!(DROPPED.is(&[1, 2]));
        assert!(numbers[0] != 0 && numbers[1] != 0 && numbers[0] != numbers[1]);
        Ok(())
    }

    #[test]
    fn a_sink_is_for_one_event() -> Result {
        static DROPPED: Seen = Seen::new();
        let sink = sink()?;
        let event = register(c"one", HEADER_LEN, sink.clone(), &NOWHERE)?;
        let second = errno(register(c"two", HEADER_LEN, sink.clone(), &DROPPED));
        let there = [exists(GROUP, c"one")?, exists(GROUP, c"two")?];
        remove(event)?;
        // Nor for one after the other: a handler may still have it.
        let third = errno(register(c"three", HEADER_LEN, sink, &DROPPED));
        assert_eq!(there, [true, false]);
        assert_eq!([second, third], [EBUSY.to_errno(); 2]);
        assert_eq!(DROPPED.len(), 4);
        Ok(())
    }

    #[test]
    fn fields_beyond_a_record_are_e2big() -> Result {
        let last = MAX_LEN - 8;
        let fits = register(c"fits", last, sink()?, &NOWHERE)?;
        remove(fits)?;
        for offset in [last + 1, 1 << 20, usize::MAX] {
            let refused = errno(register(c"big", offset, sink()?, &NOWHERE));
            assert_eq!(refused, E2BIG.to_errno());
        }
        assert!(!exists(GROUP, c"big")?);
        Ok(())
    }

    #[test]
    fn a_field_in_the_header_is_einval() {
        for offset in [0, HEADER_LEN - 1] {
            let refused = errno(Field::number(c"field", Number::U8, offset));
            assert_eq!(refused, EINVAL.to_errno());
        }
    }

    #[test]
    fn the_size_of_a_field_follows_from_its_type() -> Result {
        let number = Field::number(c"field", Number::S64, HEADER_LEN)?;
        assert_eq!(number.name(), c"field");
        assert_eq!(number.ty(), c"s64");
        assert_eq!([number.offset(), number.size()], [HEADER_LEN, 8]);
        assert!(number.is_signed());
        let array = Field::array(c"field", Number::U16, EIGHT, HEADER_LEN + 2)?;
        assert_eq!(array.ty(), c"u16[8]");
        assert_eq!([array.offset(), array.size()], [HEADER_LEN + 2, 16]);
        assert!(!array.is_signed());
        Ok(())
    }

    #[test]
    fn names_are_checked_as_those_of_commands() -> Result {
        let longest = [b'n'; 63];
        let too_long = [b'n'; 64];
        let name = |text: &[u8]| {
            let mut name = KVec::new();
            name.extend_from_slice(text, GFP_KERNEL)?;
            name.push(0, GFP_KERNEL)?;
            CString::try_from(CStr::from_bytes_with_nul(&name).map_err(|_| EDOM)?)
                .map_err(Error::from)
        };
        let bad: [&[u8]; 9] = [
            b"",
            b"a/b",
            b"..",
            b"a\nb",
            b"a b",
            b"1a",
            b"a-b",
            b"\xc3\xa9",
            &too_long,
        ];
        for bad in bad {
            let event = register(&*name(bad)?, HEADER_LEN, sink()?, &NOWHERE);
            let field = Field::number(name(bad)?, Number::U8, HEADER_LEN);
            let group = Group::new(&*name(bad)?, ktrace::this_module!());
            let is_group = matches!(bad, b"a-b");
            // The automatic name of an event can contain a pattern.
            let is_event = matches!(bad, b"1a" | b"a-b");
            assert_eq!(event.is_ok(), is_event);
            match event {
                Ok(event) => remove(event)?,
                Err(error) => assert_eq!(error, EINVAL),
            }
            // A field has no limit.
            assert_eq!(field.is_ok(), bad.len() == 64);
            assert_eq!(group.is_ok(), is_group);
        }
        let longest = register(&*name(&longest)?, HEADER_LEN, sink()?, &NOWHERE)?;
        remove(longest)
    }

    #[test]
    fn the_name_of_another_event_is_eexist() -> Result {
        let name = c"twice";
        let first = register(name, HEADER_LEN, sink()?, &NOWHERE)?;
        let second = errno(register(name, HEADER_LEN, sink()?, &NOWHERE));
        let there = exists(GROUP, name)?;
        remove(first)?;
        let of_the_kernel = NewName::new(
            Group::new(c"sched", ktrace::this_module!())?,
            CString::try_from(c"sched_switch")?,
        );
        assert_eq!(second, EEXIST.to_errno());
        assert_eq!(errno(of_the_kernel), EEXIST.to_errno());
        assert!(there);
        assert!(!exists(GROUP, name)?);
        Ok(())
    }

    #[test]
    fn dropping_an_enabled_event_removes_it() -> Result {
        static DROPPED: Seen = Seen::new();
        let name = c"enabled";
        let event = register(name, HEADER_LEN, sink()?, &DROPPED)?;
        enable(GROUP, name)?;
        let refused = EventMutex::with(|token| event.try_remove(token))?;
        let Err((event, error)) = refused else {
            return Err(EINVAL);
        };
        drop(event);
        assert_eq!(error, EBUSY);
        assert!(!exists(GROUP, name)?);
        assert_eq!(DROPPED.len(), 2);
        Ok(())
    }

    #[test]
    fn an_event_dropped_under_event_mutex_goes_when_that_is_released() -> Result {
        static DROPPED: Seen = Seen::new();
        let name = c"under";
        let event = register(name, HEADER_LEN, sink()?, &DROPPED)?;
        enable(GROUP, name)?;
        let dropped = EventMutex::with(|_| {
            drop(event);
            DROPPED.len()
        })?;
        assert_eq!(dropped, 0);
        assert!(!exists(GROUP, name)?);
        assert_eq!(DROPPED.len(), 2);
        Ok(())
    }

    /// Drops its own event when the event is disabled.
    struct Suicide {
        sink: Sink,
        event: Arc<Mutex<Option<TraceEvent>>>,
        seen: &'static Seen,
        _dropped: Dropped,
    }

    impl Operations for Suicide {
        fn sink(&self) -> &Sink {
            &self.sink
        }

        fn fields(&self) -> &[Field] {
            &[]
        }

        fn print_fmt(&self) -> &CStr {
            c"\"\""
        }

        fn enable(&self, _token: &EventMutexHeld) -> Result {
            Ok(())
        }

        fn disable(&self, _token: &EventMutexHeld) {
            let event = self.event.lock().take();
            drop(event);
            // The operations are still there.
            self.seen.push(if EventMutex::with(|_| ()).is_err() {
                3
            } else {
                4
            });
        }
    }

    #[test]
    fn an_event_dropped_in_its_own_callback_stays() -> Result {
        static SEEN: Seen = Seen::new();
        let name = c"suicide";
        let holder = Arc::pin_init(new_mutex!(None), GFP_KERNEL)?;
        let suicide = Suicide {
            sink: Sink::new(),
            event: holder.clone(),
            seen: &SEEN,
            _dropped: Dropped(&SEEN, 1),
        };
        let definition = Definition {
            name: NewName::new(
                Group::new(GROUP, ktrace::this_module!())?,
                CString::try_from(name)?,
            )?,
            operations: Arc::new(suicide, GFP_KERNEL)?,
            print: Arc::new(Length(Dropped(&SEEN, 2)), GFP_KERNEL)?,
        };
        let event = EventMutex::with(|token| TraceEvent::register(token, definition))??;
        *holder.lock() = Some(event);
        enable(GROUP, name)?;
        disable(GROUP, name)?;
        EventMutex::with(|_| ())?;
        // The callback could still use its data. The event ends with this module.
        assert!(SEEN.is(&[3]));
        assert!(exists(GROUP, name)?);
        enable(GROUP, name)?;
        disable(GROUP, name)?;
        Ok(())
    }

    #[test]
    fn under_event_mutex_nothing_takes_it_again() -> Result {
        let name = c"nothing";
        let deadlock = Error::from_errno(-(kernel::bindings::EDEADLK as i32)).to_errno();
        let refused = EventMutex::with(|_| {
            [
                errno(EventMutex::with(|_| ())),
                errno(exists(GROUP, name)),
                errno(enable(GROUP, name)),
                errno(disable(GROUP, name)),
                errno(empty_traces()),
            ]
        })?;
        assert_eq!(refused, [deadlock; 5]);
        Ok(())
    }
}
