// SPDX-License-Identifier: GPL-2.0

//! Handlers at the instructions with which a function returns.

use kernel::prelude::*;

#[kunit_tests(ktrace_kretinsn)]
mod tests {
    use super::*;

    use core::hint::black_box;

    use kernel::bindings::{
        EILSEQ,
        EOPNOTSUPP, //
    };

    use kernel::sync::Arc;

    use ktrace::{
        exits::{
            Exits,
            Verdict, //
        },
        kprobe::{
            self,
            AnyKprobe,
            Hit,
            Kprobe, //
        },
        kretinsn::{
            Call,
            Handler,
            Kretinsn,
            Refusal,
            Target, //
        },
        kretprobe::Kretprobe,
        symbol, //
    };

    use crate::{
        kunit_targets::*, //
        seen::{
            boxed,
            errno,
            Dropped,
            Seen,
            NOWHERE, //
        },
    };

    const TAIL: &CStr = c"ktrace_target_tail";
    const NEVER: &CStr = c"ktrace_target_never";

    /// Records the values that it receives.
    struct Whole(&'static Seen);

    impl Handler for Whole {
        fn ret(&self, hit: &Hit<'_>, call: &Call) {
            self.0.push(hit.registers().ret::<u64>());
            self.0.push(hit.address() as u64);
            self.0.push(call.function() as u64);
            self.0.push(call.caller() as u64);
        }
    }

    /// Records the return values, and its drop.
    struct Returned(&'static Seen, #[expect(dead_code)] Dropped);

    impl Returned {
        fn new(seen: &'static Seen) -> Self {
            Self(seen, Dropped(&NOWHERE, 0))
        }
    }

    impl Handler for Returned {
        fn ret(&self, hit: &Hit<'_>, _: &Call) {
            self.0.push(hit.registers().ret::<u64>());
        }
    }

    /// Other probes.
    struct Other(&'static Seen);

    #[vtable]
    impl kprobe::Handler for Other {
        fn pre(&self, hit: &Hit<'_>) {
            self.0.push(hit.address() as u64);
        }
    }

    #[vtable]
    impl ktrace::kretprobe::Handler for Other {
        type Data = ();
        const WITHOUT_ENTRY: Option<()> = Some(());

        fn ret(&self, hit: &Hit<'_>, call: &ktrace::kretprobe::Call<'_, ()>) {
            self.0.push(hit.registers().ret::<u64>());
            self.0.push(hit.address() as u64);
            self.0.push(call.caller() as u64);
        }
    }

    /// The same call each time, and so the same caller.
    #[inline(never)]
    fn call() -> u64 {
        // This is a call, and not a jump, after which the other function would return to the
        // caller.
        black_box(add(2, 3))
    }

    #[test]
    fn a_return_is_seen_as_a_kretprobe_sees_it() -> Result {
        static SEEN: Seen = Seen::new();
        static OTHER: Seen = Seen::new();
        let probe = Kretinsn::new(ADD, Whole(&SEEN))?;
        let sum = call();
        let count = probe.exits().len();
        let exit = probe.exits().next().unwrap_or(0);
        let (address, missed) = (probe.address(), probe.missed());
        drop(probe);
        let other = boxed(Kretprobe::new(ADD, 0, Other(&OTHER)))?;
        call();
        drop(other);
        assert_eq!((sum, count, missed), (5, 1, 0));
        assert_eq!(address as u64, OTHER.get(1));
        assert!(SEEN.is(&[5, exit as u64, address as u64, OTHER.get(2)]));
        assert_eq!(symbol::start_of(exit), Some(address_of_add()));
        Ok(())
    }

    #[test]
    fn calls_are_seen_while_enabled() -> Result {
        static SEEN: Seen = Seen::new();
        static DROPPED: Seen = Seen::new();
        let handler = Returned(&SEEN, Dropped(&DROPPED, 1));
        let probe = Kretinsn::register_disabled(ADD, handler)?;
        add(1, 0);
        probe.enable()?;
        add(2, 0);
        probe.disable()?;
        add(3, 0);
        probe.enable()?;
        add(4, 0);
        let dropped = DROPPED.len();
        drop(probe);
        add(5, 0);
        assert!(SEEN.is(&[2, 4]));
        assert_eq!(dropped, 0);
        assert!(DROPPED.is(&[1]));
        Ok(())
    }

    #[test]
    fn a_call_that_was_made_before_is_seen() -> Result {
        static SEEN: Seen = Seen::new();
        static FAILED: Seen = Seen::new();
        let probe = Kretinsn::register_disabled(WAIT, Returned::new(&SEEN))?;
        let probe = kernel::sync::Arc::new(probe, GFP_KERNEL)?;
        let other = probe.clone();
        let result = during_a_call(move || {
            if other.enable().is_err() {
                FAILED.push(1);
            }
        })?;
        drop(probe);
        assert_eq!(FAILED.len(), 0);
        assert!(SEEN.is(&[result]));
        Ok(())
    }

    #[test]
    fn a_recursion_has_no_bound() -> Result {
        static SEEN: Seen = Seen::new();
        let probe = Kretinsn::new(DEPTH, Returned::new(&SEEN))?;
        let result = depth(100);
        let missed = probe.missed();
        drop(probe);
        assert_eq!((result, missed), (100, 0));
        assert_eq!(SEEN.len(), 101);
        assert_eq!((SEEN.get(0), SEEN.get(19)), (0, 19));
        Ok(())
    }

    #[test]
    fn what_other_probes_hide_is_found() -> Result {
        static SEEN: Seen = Seen::new();
        static OTHER: Seen = Seen::new();
        let address = symbol::address_of(ADD)?;
        let exits = Exits::find(address)?;
        let mut others = KVVec::new();
        for exit in exits.all() {
            let target = kprobe::Target::Address(exit.address as usize);
            let probe = boxed(Kprobe::new(target, Other(&OTHER)))?;
            others.push(AnyKprobe::from(probe), GFP_KERNEL)?;
        }
        let again = Exits::find(address)?;
        let probe = Kretinsn::new(Target::Address(address), Returned::new(&SEEN))?;
        add(2, 2);
        drop(probe);
        add(3, 3);
        AnyKprobe::unregister_all(others);
        let (before, after) = (exits.all().len(), again.all().len());
        let is_same = exits.all() == again.all();
        let verdict = exits.verdict();
        let exit = exits.all().first().map_or(0, |exit| exit.address);
        drop((exits, again));
        assert_eq!((before, after), (1, 1));
        assert!(is_same);
        assert!(verdict == Ok(Verdict::Returns));
        assert!(SEEN.is(&[4]));
        assert!(OTHER.is(&[exit, exit]));
        Ok(())
    }

    #[test]
    fn what_cannot_be_probed_so_is_refused() -> Result {
        static SEEN: Seen = Seen::new();
        let refused = |name| -> Result<Option<Refusal>> {
            Ok(Kretinsn::new(name, Returned::new(&SEEN)).err())
        };
        // A caller that passes the refusal on has an errno.
        let errno_of = |refusal: Option<Refusal>| refusal.map_or(0, |r| Error::from(r).to_errno());
        let tail = refused(TAIL)?;
        // With frame pointers, the compiler emits a call and a return.
        if cfg!(CONFIG_FRAME_POINTER) {
            assert!(tail.is_none());
        } else {
            assert!(matches!(tail, Some(Refusal::TailCall(_))));
            assert_eq!(errno_of(tail), -(EOPNOTSUPP as i32));
        }
        assert!(refused(NEVER)? == Some(Refusal::NoReturn));
        assert!(refused(NO_PROBE)? == Some(Refusal::Failed(EINVAL)));
        assert!(refused(UNKNOWN)? == Some(Refusal::Failed(ENOENT)));

        let within = Target::Symbol(EIGHT, 7);
        let within = Kretinsn::register_disabled(within, Returned::new(&SEEN)).map_err(Error::from);
        assert_eq!(errno(within), EINVAL.to_errno());
        let nowhere = Target::Address(0x1000);
        let nowhere =
            Kretinsn::register_disabled(nowhere, Returned::new(&SEEN)).map_err(Error::from);
        assert_eq!(errno(nowhere), ENOENT.to_errno());

        let bad = ktrace::exits::BadText {
            address: 0,
            reason: ktrace::exits::Reason::Undefined,
        };
        assert_eq!(errno_of(Some(Refusal::BadText(bad))), -(EILSEQ as i32));
        Ok(())
    }

    #[test]
    fn pointers_to_handlers_are_handlers() -> Result {
        static SHARED: Seen = Seen::new();
        static BOXED: Seen = Seen::new();
        let shared = Arc::new(Returned::new(&SHARED), GFP_KERNEL)?;
        let boxed = KBox::new(Returned::new(&BOXED), GFP_KERNEL)?;
        let shared = Kretinsn::new(ADD, shared)?;
        let boxed = Kretinsn::new(ADD, boxed)?;
        add(2, 3);
        drop((shared, boxed));
        assert!(SHARED.is(&[5]));
        assert!(BOXED.is(&[5]));
        Ok(())
    }
}
