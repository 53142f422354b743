// SPDX-License-Identifier: GPL-2.0

//! Names and addresses.

use kernel::prelude::*;

#[kunit_tests(ktrace_symbol)]
mod tests {
    use super::*;

    use ktrace::symbol::{
        address_of,
        format,
        start_of,
        LEN, //
    };

    use crate::{
        kunit_targets::*, //
        seen::errno,
    };

    #[test]
    fn a_name_has_an_address() {
        assert_eq!(address_of(ADD), Ok(address_of_add()));
        assert_eq!(address_of(ADD_OF_MODULE), Ok(address_of_add()));
        // Nothing remains of a probe at this address, so the symbol is found again.
        assert_eq!(address_of(ADD), Ok(address_of_add()));
    }

    #[test]
    fn so_has_what_cannot_be_probed() -> Result {
        let mut buffer = [0; LEN];
        for (name, of) in [
            (DATA, OF_MODULE),
            (NO_PROBE, OF_MODULE),
            (NO_TRACE, OF_MODULE),
            (c"linux_banner", b""),
        ] {
            let address = address_of(name)?;
            let text = format(address, false, &mut buffer);
            assert_eq!(text.strip_prefix(name.to_bytes()), Some(of));
            assert_eq!(start_of(address), Some(address));
        }
        Ok(())
    }

    #[test]
    fn what_is_not_there_is_enoent() {
        for name in [
            UNKNOWN,
            c"rkprobe:ktrace_target_add",
            c"nowhere:ktrace_target_add",
        ] {
            assert_eq!(errno(address_of(name)), ENOENT.to_errno());
        }
    }

    #[test]
    fn an_address_has_a_name() {
        let mut buffer = [0; LEN];
        let address = address_of_add();
        let text = format(address + 3, true, &mut buffer);
        assert!(text.starts_with(b"ktrace_target_add+0x3/0x"));
        assert!(text.ends_with(OF_MODULE));
        let text = format(address + 3, false, &mut buffer);
        assert_eq!(text.strip_prefix(ADD.to_bytes()), Some(OF_MODULE));
        assert_eq!(format(0x10, true, &mut buffer), b"0x10");
        assert_eq!(format(0x10, false, &mut buffer), b"0x10");
    }

    #[test]
    fn a_symbol_has_a_start() {
        let address = address_of_add();
        assert_eq!(start_of(address), Some(address));
        assert_eq!(start_of(address + 3), Some(address));
        assert_eq!(start_of(0x10), None);
    }
}
