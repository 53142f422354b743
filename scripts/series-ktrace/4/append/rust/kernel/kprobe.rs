#[cfg(CONFIG_RUST_KPROBE_KUNIT_TEST)]
#[macros::kunit_tests(rust_kprobe)]
mod tests {
    use super::*;

    use crate::sync::atomic::{
        Atomic,
        Relaxed, //
    };

    use core::hint::black_box;

    // The tests probe this function. Its calls have an effect for the compiler.
    #[no_mangle]
    #[inline(never)]
    extern "C" fn rust_kprobe_test_outer(number: u64, small: i8) -> u64 {
        black_box(number) + black_box(u64::from(small.unsigned_abs()))
    }

    // A handler calls this function.
    #[no_mangle]
    #[inline(never)]
    extern "C" fn rust_kprobe_test_inner() {
        black_box(());
    }

    const OUTER: &CStr = c"rust_kprobe_test_outer";
    const INNER: &CStr = c"rust_kprobe_test_inner";

    /// Counts calls and drops in a static, which remains when the handler is freed.
    struct Counts {
        hits: Atomic<u32>,
        drops: Atomic<u32>,
    }

    impl Counts {
        const fn new() -> Self {
            Self {
                hits: Atomic::new(0),
                drops: Atomic::new(0),
            }
        }

        fn get(&self) -> (u32, u32) {
            (self.hits.load(Relaxed), self.drops.load(Relaxed))
        }
    }

    struct Count(&'static Counts);

    impl Handler for Count {
        fn pre(&self, _hit: &Hit) {
            self.0.hits.add(1, Relaxed);
        }
    }

    impl Drop for Count {
        fn drop(&mut self) {
            self.0.drops.add(1, Relaxed);
        }
    }

    /// Stores the arguments of the last call.
    struct Arguments {
        number: Atomic<u64>,
        small: Atomic<i8>,
    }

    impl Handler for Arguments {
        fn pre(&self, hit: &Hit) {
            self.number.store(hit.arg(0), Relaxed);
            self.small.store(hit.arg(1), Relaxed);
        }
    }

    /// Calls a probed function.
    struct CallInner;

    impl Handler for CallInner {
        fn pre(&self, _hit: &Hit) {
            rust_kprobe_test_inner();
        }
    }

    // A failed assertion ends the task without drops. So each test asserts after the last drop.

    #[test]
    fn handler_sees_arguments() -> Result {
        let handler = Arguments {
            number: Atomic::new(0),
            small: Atomic::new(0),
        };
        let probe = KBox::pin_init(Kprobe::new(OUTER, handler), GFP_KERNEL)?;
        let sum = rust_kprobe_test_outer(1 << 40, -3);
        let number = probe.handler().number.load(Relaxed);
        let small = probe.handler().small.load(Relaxed);
        let missed = probe.missed();
        drop(probe);
        assert_eq!(sum, (1 << 40) + 3);
        assert_eq!(number, 1 << 40);
        assert_eq!(small, -3);
        assert_eq!(missed, 0);
        Ok(())
    }

    #[test]
    fn drop_unregisters_and_drops_the_handler() -> Result {
        static COUNTS: Counts = Counts::new();
        let probe = KBox::pin_init(Kprobe::new(OUTER, Count(&COUNTS)), GFP_KERNEL)?;
        rust_kprobe_test_outer(0, 0);
        let before = COUNTS.get();
        drop(probe);
        rust_kprobe_test_outer(0, 0);
        assert_eq!(before, (1, 0));
        assert_eq!(COUNTS.get(), (1, 1));
        Ok(())
    }

    #[test]
    fn probes_on_one_function_are_independent() -> Result {
        static FIRST: Counts = Counts::new();
        static SECOND: Counts = Counts::new();
        let first = KBox::pin_init(Kprobe::new(OUTER, Count(&FIRST)), GFP_KERNEL)?;
        let second = KBox::pin_init(Kprobe::new(OUTER, Count(&SECOND)), GFP_KERNEL)?;
        rust_kprobe_test_outer(0, 0);
        drop(first);
        rust_kprobe_test_outer(0, 0);
        drop(second);
        assert_eq!(FIRST.get(), (1, 1));
        assert_eq!(SECOND.get(), (2, 1));
        Ok(())
    }

    #[test]
    fn hits_in_a_handler_are_missed() -> Result {
        static COUNTS: Counts = Counts::new();
        let outer = KBox::pin_init(Kprobe::new(OUTER, CallInner), GFP_KERNEL)?;
        let inner = KBox::pin_init(Kprobe::new(INNER, Count(&COUNTS)), GFP_KERNEL)?;
        rust_kprobe_test_outer(0, 0);
        rust_kprobe_test_inner();
        let missed = (outer.missed(), inner.missed());
        drop((outer, inner));
        assert_eq!(missed, (0, 1));
        assert_eq!(COUNTS.get(), (1, 1));
        Ok(())
    }

    #[test]
    fn unknown_function_is_enoent() {
        static COUNTS: Counts = Counts::new();
        let name = c"rust_kprobe_test_no_such_function";
        let refused = KBox::pin_init(Kprobe::new(name, Count(&COUNTS)), GFP_KERNEL).err();
        assert!(refused == Some(ENOENT));
        assert_eq!(COUNTS.get(), (0, 1));
    }

    #[test]
    fn no_probe_without_a_handler() {
        let handler = Err::<Count, Error>(EBUSY);
        let refused = KBox::pin_init(Kprobe::<Count>::new(OUTER, handler), GFP_KERNEL).err();
        assert!(refused == Some(EBUSY));
    }
}
