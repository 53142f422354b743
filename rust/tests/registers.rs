// SPDX-License-Identifier: GPL-2.0

//! Tests of the registers that a handler reads.

use kernel::prelude::*;

#[kunit_tests(ktrace_registers)]
mod tests {
    use super::*;

    use ktrace::{
        kprobe::{
            Handler,
            Hit,
            Kprobe, //
        },
        nofault::{
            self,
            KernelPtr, //
        },
        registers::{
            register,
            Registers, //
        },
    };

    use crate::{
        kunit_targets::*, //
        seen::{
            boxed,
            Seen, //
        },
    };

    struct Look<F: Fn(&Registers) + Send + Sync + 'static>(F);

    #[vtable]
    impl<F: Fn(&Registers) + Send + Sync + 'static> Handler for Look<F> {
        fn pre(&self, hit: &Hit<'_>) {
            (self.0)(hit.registers())
        }
    }

    /// Calls the function of eight arguments, 1 to 8, with `look` at its entry.
    fn look(look: impl Fn(&Registers) + Send + Sync + 'static) -> Result<u64> {
        let _probe = boxed(Kprobe::new(EIGHT, Look(look)))?;
        Ok(eight(1, 2, 3, 4, 5, 6, 7, 8))
    }

    #[test]
    fn arguments_are_in_registers_and_on_the_stack() -> Result {
        static SEEN: Seen = Seen::new();
        let sum = look(|registers| (0..8).for_each(|n| SEEN.push(registers.arg::<u64>(n))))?;
        assert_eq!(sum, 36);
        assert!(SEEN.is(&[1, 2, 3, 4, 5, 6, 7, 8]));
        Ok(())
    }

    #[test]
    fn registers_have_names() -> Result {
        static SEEN: Seen = Seen::new();
        let names = if cfg!(CONFIG_X86_64) {
            ["di", "si", "ip", "sp"]
        } else if cfg!(CONFIG_ARM64) {
            ["x0", "x1", "pc", "sp"]
        } else {
            return Ok(());
        };
        look(move |registers| {
            for name in names {
                SEEN.push(registers.by_name(name).unwrap_or(0));
                SEEN.push(register(name).map_or(0, |register| registers.get(register)));
            }
            SEEN.push(registers.instruction_pointer());
            SEEN.push(registers.stack_pointer());
        })?;
        let [ip, sp] = [SEEN.get(8), SEEN.get(9)];
        assert!(SEEN.is(&[1, 1, 2, 2, ip, ip, sp, sp, ip, sp]));
        assert!(ip != 0 && sp != 0 && ip != sp);
        Ok(())
    }

    #[test]
    fn there_are_no_others() -> Result {
        static SEEN: Seen = Seen::new();
        const NAMES: [&str; 5] = ["", "d", "dix", "DI", "%di"];
        look(|registers| {
            for name in NAMES {
                SEEN.push(u64::from(registers.by_name(name).is_some()));
            }
        })?;
        assert!(SEEN.is(&[0; 5]));
        assert!(NAMES.iter().all(|name| register(name).is_none()));
        Ok(())
    }

    #[test]
    fn the_stack_is_read_by_words_up_to_its_end() -> Result {
        static SEEN: Seen = Seen::new();
        look(|registers| {
            let mut words = [0; 24];
            let sp = registers.stack_pointer() as usize;
            let _ = nofault::read_kernel(sp, &mut words);
            for (n, word) in words.chunks_exact(8).enumerate() {
                let word = word
                    .first_chunk()
                    .map_or(0, |word| u64::from_ne_bytes(*word));
                SEEN.push(registers.stack(n as u16) ^ word);
            }
            // On x86-64, the first word is the return address.
            SEEN.push(u64::from(cfg!(CONFIG_ARM64) || registers.stack(0) != 0));
            // The stack of a task is some words long, but not that many.
            let beyond = (u16::MAX - 63..=u16::MAX).map(|n| registers.stack(n));
            SEEN.push(beyond.fold(0, |all, word| all | word));
        })?;
        assert!(SEEN.is(&[0, 0, 0, 1, 0]));
        Ok(())
    }

    #[test]
    fn values_have_the_width_of_their_type() -> Result {
        static SEEN: Seen = Seen::new();
        const WORD: u64 = 0x8765_4321_f0e0_d0c0;
        let handler = Look(|registers: &Registers| {
            SEEN.push(registers.arg::<u8>(0).into());
            SEEN.push(registers.arg::<u16>(0).into());
            SEEN.push(registers.arg::<u32>(0).into());
            SEEN.push(registers.arg(0));
            SEEN.push(registers.arg::<i8>(0) as u64);
            SEEN.push(registers.arg::<i32>(0) as u64);
            SEEN.push(registers.arg::<isize>(0) as u64);
            SEEN.push(registers.arg::<bool>(0).into());
            SEEN.push(registers.arg::<bool>(1).into());
            SEEN.push(registers.arg::<KernelPtr<u8>>(0).addr() as u64);
            SEEN.push(registers.arg::<u8>(7).into());
        });
        let probe = boxed(Kprobe::new(EIGHT, handler))?;
        // Only the lowest byte of a bool counts.
        eight(WORD, 0x100, 0, 0, 0, 0, 0, WORD);
        drop(probe);
        let [byte, int] = [!0 << 8 | 0xc0, !0 << 32 | 0xf0e0_d0c0];
        assert!(SEEN.is(&[
            0xc0,
            0xd0c0,
            0xf0e0_d0c0,
            WORD,
            byte,
            int,
            WORD,
            1,
            0,
            WORD,
            0xc0
        ]));
        Ok(())
    }
}
