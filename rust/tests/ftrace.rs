// SPDX-License-Identifier: GPL-2.0

//! Handlers at the entry of functions, on ftrace directly.

use kernel::prelude::*;

#[kunit_tests(ktrace_ftrace)]
mod tests {
    use super::*;

    use kernel::sync::Arc;

    use ktrace::{
        ftrace::{
            is_traceable,
            untraceable,
            Filter,
            FtraceOps,
            Handler, //
        },
        function::Call,
        nofault,
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

    /// The first argument.
    struct First(&'static Seen, #[expect(dead_code)] Dropped);

    impl First {
        fn new(seen: &'static Seen) -> Self {
            Self(seen, Dropped(&NOWHERE, 0))
        }
    }

    impl Handler for First {
        fn entry(&self, call: &Call<'_>) {
            self.0.push(call.arg::<u64>(0));
        }
    }

    /// The values that a handler can see of a call.
    struct Whole(&'static Seen);

    impl Handler for Whole {
        fn entry(&self, call: &Call<'_>) {
            let mut top = [0; 8];
            let _ = nofault::read_kernel(call.stack_pointer() as usize, &mut top);
            self.0.push(call.arg::<u64>(0));
            self.0.push(call.arg::<u64>(1));
            self.0.push(call.function() as u64);
            self.0.push(call.caller() as u64);
            self.0.push(u64::from_ne_bytes(top));
            self.0.push(u64::from(call.atomic().comm() != 0));
        }
    }

    #[test]
    fn the_handler_sees_the_call() -> Result {
        static SEEN: Seen = Seen::new();
        let ops = FtraceOps::new(Filter::Glob(ADD), Whole(&SEEN))?;
        let sum = add(2, 3);
        subtract(3, 2);
        drop(ops);
        assert_eq!(sum, 5);
        let [function, caller, top] = [SEEN.get(2), SEEN.get(3), SEEN.get(4)];
        assert!(SEEN.is(&[2, 3, function, caller, top, 1]));
        // The return address is on the stack; on arm64, it is in a register.
        assert!(cfg!(CONFIG_ARM64) || top == caller);
        assert_eq!(symbol::start_of(function as usize), Some(address_of_add()));
        let mut buffer = [0; symbol::LEN];
        let name = symbol::format(caller as usize, true, &mut buffer);
        assert!(name.ends_with(OF_MODULE));
        Ok(())
    }

    #[test]
    fn a_glob_is_what_matches() -> Result {
        static SEEN: Seen = Seen::new();
        let filter = Filter::Glob(c"ktrace_target_*b*");
        let ops = FtraceOps::new(filter, First::new(&SEEN))?;
        add(1, 0);
        subtract(2, 0);
        depth(0);
        drop(ops);
        assert!(SEEN.is(&[2]));
        Ok(())
    }

    #[test]
    fn addresses_are_those_and_no_others() -> Result {
        static SEEN: Seen = Seen::new();
        let addresses = [address_of_add(), symbol::address_of(DEPTH)?];
        let ops = FtraceOps::new(Filter::Addresses(&addresses), First::new(&SEEN))?;
        add(1, 0);
        subtract(2, 0);
        depth(1);
        drop(ops);
        assert!(SEEN.is(&[1, 1, 0]));
        Ok(())
    }

    #[test]
    fn dropping_unregisters_and_frees_the_handler() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let handler = First(&SEEN, Dropped(&DROPPED, 1));
        let ops = FtraceOps::new(Filter::Glob(ADD), handler)?;
        add(1, 0);
        let dropped_before = DROPPED.len();
        drop(ops);
        add(2, 0);
        assert!(SEEN.is(&[1]));
        assert_eq!(dropped_before, 0);
        assert!(DROPPED.is(&[1]));
        Ok(())
    }

    #[test]
    fn what_cannot_be_traced_is_einval() -> Result {
        static DROPPED: Seen = Seen::new();
        let data = symbol::address_of(DATA)?;
        let no_trace = symbol::address_of(NO_TRACE)?;
        for filter in [
            Filter::Glob(UNKNOWN),
            Filter::Glob(NO_TRACE),
            Filter::Addresses(&[]),
            Filter::Addresses(&[data]),
            Filter::Addresses(&[no_trace]),
            Filter::Addresses(&[address_of_add(), data]),
        ] {
            let handler = First(&NOWHERE, Dropped(&DROPPED, 0));
            let refused = errno(FtraceOps::new(filter, handler));
            assert_eq!(refused, EINVAL.to_errno());
        }
        assert_eq!(DROPPED.len(), 6);
        Ok(())
    }

    /// ftrace does not take these texts for names, or it takes them for all functions.
    #[test]
    fn a_glob_without_a_name_is_einval() -> Result {
        for pattern in [
            c"!ktrace_target_*",
            c"!",
            c"5",
            c"5*",
            c"",
            c"*",
            c"**",
            c"***",
            c"?*",
            c"*?",
            c"[!5]*",
            c"[]5]*",
            c"ktrace_target_*:mod:ktrace_kunit",
            c"*:mod:ktrace_kunit",
        ] {
            let filter = Filter::Glob(pattern);
            let refused = errno(FtraceOps::new(filter, First::new(&NOWHERE)));
            assert_eq!(refused, EINVAL.to_errno());
        }
        Ok(())
    }

    #[test]
    fn a_glob_with_a_name_and_wildcards_is_what_matches() -> Result {
        static SEEN: Seen = Seen::new();
        for pattern in [
            c"ktrace_target_[s]*",
            c"*race_target_subtract",
            c"*race_target_sub*",
            c"ktrace_target_s??tract",
            c"ktrace\\_target_sub*",
        ] {
            let ops = FtraceOps::new(Filter::Glob(pattern), First::new(&SEEN))?;
            add(1, 0);
            subtract(2, 0);
            drop(ops);
        }
        assert!(SEEN.is(&[2; 5]));
        Ok(())
    }

    #[test]
    fn what_can_be_traced_is_known() -> Result {
        let traceable = [
            is_traceable(address_of_add())?,
            is_traceable(symbol::address_of(NO_PROBE)?)?,
            is_traceable(symbol::address_of(NO_TRACE)?)?,
            is_traceable(symbol::address_of(DATA)?)?,
            is_traceable(0)?,
        ];
        assert_eq!(traceable, [true, true, false, false, false]);
        Ok(())
    }

    #[test]
    fn the_addresses_that_cannot_be_traced_are_found() -> Result {
        let good = address_of_add();
        let data = symbol::address_of(DATA)?;
        let no_trace = symbol::address_of(NO_TRACE)?;
        let depth = symbol::address_of(DEPTH)?;
        let cases: [(&[usize], &[usize]); 9] = [
            (&[], &[]),
            (&[good], &[]),
            (&[data], &[0]),
            (&[good, depth], &[]),
            (&[good, data], &[1]),
            (&[data, good], &[0]),
            (&[0, no_trace, data, 1], &[0, 1, 2, 3]),
            (&[good, data, depth, 0, good, good, no_trace], &[1, 3, 6]),
            (&[data, good, good, good, good, good, good, data], &[0, 7]),
        ];
        for (addresses, expected) in cases {
            assert_eq!(*untraceable(addresses)?, *expected);
            for (position, address) in addresses.iter().enumerate() {
                let is_expected = expected.contains(&position);
                assert_eq!(is_traceable(*address)?, !is_expected);
            }
        }
        Ok(())
    }

    /// The address is at each position among many, and then all addresses are untraceable.
    #[test]
    fn one_address_among_many_is_found() -> Result {
        const LEN: usize = 100;
        let data = symbol::address_of(DATA)?;
        let mut addresses = KVec::from_elem(address_of_add(), LEN, GFP_KERNEL)?;
        assert!(untraceable(&addresses)?.is_empty());
        for position in 0..LEN {
            let good = core::mem::replace(&mut addresses[position], data);
            assert_eq!(*untraceable(&addresses)?, [position]);
            addresses[position] = good;
        }
        addresses.fill(data);
        assert!(untraceable(&addresses)?.iter().copied().eq(0..LEN));
        Ok(())
    }

    #[test]
    fn pointers_to_handlers_are_handlers() -> Result {
        static SEEN: Seen = Seen::new();
        let shared = Arc::new(First::new(&SEEN), GFP_KERNEL)?;
        let boxed = KBox::new(First::new(&SEEN), GFP_KERNEL)?;
        let shared = FtraceOps::new(Filter::Glob(ADD), shared)?;
        let boxed = FtraceOps::new(Filter::Glob(SUBTRACT), boxed)?;
        add(1, 0);
        subtract(2, 0);
        drop((shared, boxed));
        assert!(SEEN.is(&[1, 2]));
        Ok(())
    }
}
