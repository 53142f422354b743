// SPDX-License-Identifier: GPL-2.0

//! Handlers at the entry and the exit of many functions.

use kernel::prelude::*;

#[kunit_tests(ktrace_fprobe)]
mod tests {
    use super::*;

    use kernel::sync::Arc;

    use ktrace::{
        fprobe::{
            Fprobe,
            Functions,
            Handler, //
        },
        function::Call,
        symbol, //
    };

    use crate::{
        kunit_targets::*, //
        seen::{
            errno,
            Dropped,
            Seen,
            NOWHERE, //
        },
    };

    /// Records at the exit the first two arguments of the entry, the return value and the function.
    /// Skips calls with a first argument of 100 and more.
    struct Whole(&'static Seen);

    #[vtable]
    impl Handler for Whole {
        type Data = [u64; 2];

        fn entry(&self, call: &Call<'_>) -> Option<Self::Data> {
            (call.arg::<u64>(0) < 100).then(|| [call.arg::<u64>(0), call.arg::<u64>(1)])
        }

        fn exit(&self, call: &Call<'_>, data: &Self::Data) {
            for word in data {
                self.0.push(*word);
            }
            self.0.push(call.ret::<u64>());
            self.0.push(call.function() as u64);
        }
    }

    /// The first argument at the entry.
    struct Entered(&'static Seen, #[expect(dead_code)] Dropped);

    impl Entered {
        fn new(seen: &'static Seen) -> Self {
            Self(seen, Dropped(&NOWHERE, 0))
        }
    }

    #[vtable]
    impl Handler for Entered {
        type Data = ();

        fn entry(&self, call: &Call<'_>) -> Option<()> {
            self.0.push(call.arg::<u64>(0));
            Some(())
        }
    }

    /// The first argument at the exit.
    struct Left(&'static Seen, #[expect(dead_code)] Dropped);

    #[vtable]
    impl Handler for Left {
        type Data = u64;

        fn entry(&self, call: &Call<'_>) -> Option<u64> {
            Some(call.arg::<u64>(0))
        }

        fn exit(&self, _: &Call<'_>, first: &u64) {
            self.0.push(*first);
        }
    }

    #[test]
    fn the_exit_has_the_data_of_the_entry() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = Fprobe::new(Functions::Names(&[ADD]), Whole(&SEEN))?;
        let sum = add(2, 3);
        let skipped = add(100, 3);
        subtract(5, 4);
        let missed = probe.missed();
        drop(probe);
        assert_eq!([sum, skipped], [5, 103]);
        let function = SEEN.get(3);
        assert!(SEEN.is(&[2, 3, 5, function]));
        assert_eq!(symbol::start_of(function as usize), Some(address_of_add()));
        assert_eq!(missed, 0);
        Ok(())
    }

    #[test]
    fn each_call_of_a_recursion_has_its_data() -> Result {
        static SEEN: Seen = Seen::new();
        let handler = Left(&SEEN, Dropped(&NOWHERE, 0));
        let probe = Fprobe::new(Functions::Names(&[DEPTH]), handler)?;
        let result = depth(7);
        drop(probe);
        assert_eq!(result, 7);
        assert!(SEEN.is(&[0, 1, 2, 3, 4, 5, 6, 7]));
        Ok(())
    }

    #[test]
    fn names_are_those_and_no_others() -> Result {
        static SEEN: Seen = Seen::new();
        let names = Functions::Names(&[SUBTRACT, ADD]);
        let probe = Fprobe::new(names, Entered::new(&SEEN))?;
        add(1, 0);
        subtract(2, 0);
        depth(0);
        drop(probe);
        assert!(SEEN.is(&[1, 2]));
        Ok(())
    }

    #[test]
    fn a_glob_is_what_matches_and_is_not_excepted() -> Result {
        static ALL: Seen = Seen::new();
        static SOME: Seen = Seen::new();
        let pattern = c"ktrace_target_*t*";
        let all = Fprobe::new(Functions::Globs(&[pattern], &[]), Entered::new(&ALL))?;
        let except = &[c"*_sub*"];
        let some = Fprobe::new(Functions::Globs(&[pattern], except), Entered::new(&SOME))?;
        // "add" has no "t".
        add(1, 0);
        subtract(2, 0);
        depth(0);
        eight(3, 0, 0, 0, 0, 0, 0, 0);
        drop((all, some));
        assert!(ALL.is(&[2, 0, 3]));
        assert!(SOME.is(&[0, 3]));
        Ok(())
    }

    #[test]
    fn globs_are_what_any_of_them_matches() -> Result {
        static ENTERED: Seen = Seen::new();
        static RETURNED: Seen = Seen::new();
        let globs = || Functions::Globs(&[ADD, c"ktrace_target_*t*"], &[c"*_sub*", c"*_eight*"]);
        let entered = Fprobe::new(globs(), Entered::new(&ENTERED))?;
        let returned = Fprobe::new(globs(), Left(&RETURNED, Dropped(&NOWHERE, 0)))?;
        add(1, 0);
        subtract(2, 0);
        depth(0);
        eight(3, 0, 0, 0, 0, 0, 0, 0);
        drop((entered, returned));
        assert!(ENTERED.is(&[1, 0]));
        assert!(RETURNED.is(&[1, 0]));
        Ok(())
    }

    #[test]
    fn addresses_are_those_and_no_others() -> Result {
        static SEEN: Seen = Seen::new();
        let addresses = [address_of_add(), symbol::address_of(DEPTH)?];
        let probe = Fprobe::new(Functions::Addresses(&addresses), Entered::new(&SEEN))?;
        add(1, 0);
        subtract(2, 0);
        depth(1);
        drop(probe);
        assert!(SEEN.is(&[1, 1, 0]));
        Ok(())
    }

    #[test]
    fn probes_of_a_function_come_and_go_alone() -> Result {
        static FIRST: Seen = Seen::new();
        static SECOND: Seen = Seen::new();
        let first = Fprobe::new(Functions::Names(&[ADD, DEPTH]), Entered::new(&FIRST))?;
        let addresses = [address_of_add()];
        let second = Fprobe::new(Functions::Addresses(&addresses), Entered::new(&SECOND))?;
        add(1, 0);
        drop(first);
        add(2, 0);
        depth(0);
        drop(second);
        add(3, 0);
        assert!(FIRST.is(&[1]));
        assert!(SECOND.is(&[1, 2]));
        Ok(())
    }

    /// Calls the probed function.
    struct Calling(&'static Seen);

    #[vtable]
    impl Handler for Calling {
        type Data = ();

        fn entry(&self, call: &Call<'_>) -> Option<()> {
            let first = call.arg::<u64>(0);
            self.0.push(first);
            add(first + 1, 0);
            Some(())
        }
    }

    #[test]
    fn two_handlers_nest_and_the_third_call_is_missed() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = Fprobe::new(Functions::Names(&[ADD]), Calling(&SEEN))?;
        add(1, 0);
        let missed = probe.missed();
        drop(probe);
        assert!(SEEN.is(&[1, 2]));
        assert_eq!(missed, 1);
        Ok(())
    }

    #[test]
    fn calls_are_seen_while_enabled() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let handler = Entered(&SEEN, Dropped(&DROPPED, 1));
        let probe = Fprobe::register_disabled(Functions::Names(&[ADD]), handler)?;
        add(1, 0);
        probe.enable()?;
        add(2, 0);
        probe.disable()?;
        add(3, 0);
        probe.enable()?;
        add(4, 0);
        let dropped_before = DROPPED.len();
        drop(probe);
        add(5, 0);
        assert!(SEEN.is(&[2, 4]));
        assert_eq!(dropped_before, 0);
        assert!(DROPPED.is(&[1]));
        Ok(())
    }

    #[test]
    fn a_call_in_flight_returns_when_the_probe_is_gone() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let handler = Left(&SEEN, Dropped(&DROPPED, 1));
        let probe = Fprobe::new(Functions::Names(&[WAIT]), handler)?;
        let result = during_a_call(|| drop(probe))?;
        assert_eq!(result, 8);
        assert!(DROPPED.is(&[1]));
        assert!(SEEN.is(&[]));
        Ok(())
    }

    #[test]
    fn a_call_in_flight_does_not_return_to_another_probe() -> Result {
        static FIRST: Seen = Seen::new();
        static SECOND: Seen = Seen::new();
        static FAILED: Seen = Seen::new();
        // While any probe exists, the kernel looks for probes at the exit of the call.
        let handler = Left(&NOWHERE, Dropped(&NOWHERE, 0));
        let other = Fprobe::new(Functions::Names(&[DEPTH]), handler)?;
        let handler = Left(&FIRST, Dropped(&NOWHERE, 0));
        let first = Fprobe::new(Functions::Names(&[WAIT]), handler)?;
        let result = during_a_call(|| {
            drop(first);
            // The second probe reuses the memory of the first one, and stores other data.
            let second = Fprobe::new(Functions::Names(&[ADD, WAIT]), Whole(&SECOND));
            end_call();
            // The call below.
            wait_for_call();
            if second.is_err() {
                FAILED.push(0);
            }
        })?;
        let seen = SECOND.len();
        let sum = add(2, 3);
        let seen_later = SECOND.get(2);
        wait(1);
        drop(other);
        assert!(FAILED.is(&[]));
        assert_eq!([result, sum], [8, 5]);
        assert!(FIRST.is(&[]));
        assert_eq!(seen, 0);
        assert_eq!(seen_later, 5);
        Ok(())
    }

    #[test]
    fn what_is_not_there_is_enoent() -> Result {
        let entered = || Entered::new(&NOWHERE);
        let unknown = Fprobe::new(Functions::Names(&[UNKNOWN]), entered());
        let partly = Fprobe::new(Functions::Names(&[ADD, UNKNOWN]), entered());
        let data = Fprobe::new(Functions::Names(&[DATA]), entered());
        let pattern = c"ktrace_target_*x*";
        let glob = Fprobe::new(Functions::Globs(&[pattern], &[]), entered());
        let pattern = c"ktrace_target_*";
        let excepted = Fprobe::new(Functions::Globs(&[pattern], &[pattern]), entered());
        let several = &[ADD, c"ktrace_target_*t*"];
        let nothing = Fprobe::new(Functions::Globs(several, &[pattern]), entered());
        let refused = [unknown, partly, data, glob, excepted, nothing].map(errno);
        assert_eq!(refused, [ENOENT.to_errno(); 6]);
        Ok(())
    }

    #[test]
    fn what_cannot_be_traced_is_enoent() -> Result {
        let no_trace = symbol::address_of(NO_TRACE)?;
        let data = symbol::address_of(DATA)?;
        for functions in [
            Functions::Names(&[NO_TRACE]),
            Functions::Globs(&[NO_TRACE], &[]),
            Functions::Addresses(&[no_trace]),
            Functions::Addresses(&[data]),
            Functions::Addresses(&[address_of_add(), data]),
        ] {
            let refused = errno(Fprobe::new(functions, Entered::new(&NOWHERE)));
            assert_eq!(refused, ENOENT.to_errno());
        }
        Ok(())
    }

    #[test]
    fn no_functions_are_einval() -> Result {
        for functions in [Functions::Names(&[]), Functions::Addresses(&[])] {
            let refused = errno(Fprobe::new(functions, Entered::new(&NOWHERE)));
            assert_eq!(refused, EINVAL.to_errno());
        }
        Ok(())
    }

    #[test]
    fn pointers_to_handlers_are_handlers() -> Result {
        static WHOLE: Seen = Seen::new();
        static ENTERED: Seen = Seen::new();
        let shared = Arc::new(Whole(&WHOLE), GFP_KERNEL)?;
        let boxed = KBox::new(Entered::new(&ENTERED), GFP_KERNEL)?;
        let shared = Fprobe::new(Functions::Names(&[ADD]), shared)?;
        let boxed = Fprobe::new(Functions::Names(&[ADD]), boxed)?;
        add(2, 3);
        drop((shared, boxed));
        assert_eq!([WHOLE.get(0), WHOLE.get(1), WHOLE.get(2)], [2, 3, 5]);
        assert!(ENTERED.is(&[2]));
        Ok(())
    }
}
