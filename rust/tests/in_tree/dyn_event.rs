// SPDX-License-Identifier: GPL-2.0

//! Entries of the kernel's `dynamic_events`. In the kernel's own tree only.

use kernel::prelude::*;

#[kunit_tests(ktrace_dyn_event)]
mod tests {
    use super::*;

    use core::ptr;

    use kernel::{
        seq_file::SeqFile,
        sync::atomic::{
            Atomic,
            Relaxed, //
        },
    };

    use ktrace::{
        dyn_event::{
            Arguments,
            DynEvent,
            Entries, //
        },
        trace_event::EventMutex, //
    };

    use crate::seen::Seen;

    // SAFETY: `kunit_targets.c` defines the function with this type. It has no requirements.
    #[allow(clippy::unnecessary_safety_comment)] // It is what `safe` rests on.
    unsafe extern "C" {
        #[link_name = "ktrace_read_dynamic_events"]
        safe fn read_dynamic_events() -> bool;
    }

    /// The numbers of the shown entries.
    static SHOWN: Seen = Seen::new();

    /// Entries that another entry drops when the kernel shows it.
    static DOOMED: Atomic<*mut [Option<DynEvent>; 2]> = Atomic::new(ptr::null_mut());

    fn drop_doomed() {
        let doomed = DOOMED.xchg(ptr::null_mut(), Relaxed);
        if !doomed.is_null() {
            // SAFETY: It came from a `KBox`, and only one `swap` gets it.
            drop(unsafe { KBox::from_raw(doomed) });
        }
    }

    struct Listed;

    impl Entries for Listed {
        fn show(_token: &EventMutex, number: usize, _to: &SeqFile) {
            SHOWN.push(number as u64);
            drop_doomed();
        }

        fn is_busy(_token: &EventMutex, _number: usize) -> bool {
            false
        }

        fn remove(_token: &EventMutex, _number: usize) -> Result {
            Err(EBUSY)
        }

        fn matches(
            _token: &EventMutex,
            _number: usize,
            _group: Option<&str>,
            _event: &str,
            _words: Arguments<'_>,
        ) -> bool {
            false
        }
    }

    fn listed(number: usize) -> Result<DynEvent> {
        let entry = DynEvent::new()?;
        EventMutex::with(|token| entry.add::<Listed>(token, number))?;
        Ok(entry)
    }

    #[test]
    fn dropped_entries_are_not_listed() -> Result {
        let first = listed(1)?;
        // Dropped while nobody reads, and while the kernel goes through its list: the second one is
        // the entry that is being shown, and the third one is next.
        let third = [Some(listed(2)?), Some(listed(3)?)];
        let fourth = listed(4)?;
        drop(first);
        DOOMED.store(KBox::into_raw(KBox::new(third, GFP_KERNEL)?), Relaxed);
        let can_be_read = read_dynamic_events();
        // An entry that stayed would outlive this module.
        drop_doomed();
        read_dynamic_events();
        EventMutex::with(|token| {
            fourth.remove(token);
            fourth.add::<Listed>(token, 5);
            // No effect: it is listed.
            fourth.add::<Listed>(token, 6);
        })?;
        read_dynamic_events();
        drop(fourth);
        read_dynamic_events();
        assert!(can_be_read);
        assert!(SHOWN.is(&[2, 4, 4, 5]));
        Ok(())
    }
}
