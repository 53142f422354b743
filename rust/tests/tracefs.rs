// SPDX-License-Identifier: GPL-2.0

//! Control files, as far as there is no reader.

use kernel::prelude::*;

#[kunit_tests(ktrace_tracefs)]
mod tests {
    use super::*;

    use kernel::seq_file::SeqFile;

    use ktrace::{
        security,
        tracefs::{
            ControlFile,
            File, //
        },
    };

    use crate::seen::errno;

    struct Empty;

    #[vtable]
    impl ControlFile for Empty {
        fn next(_: usize) -> Option<usize> {
            None
        }

        fn show(_: usize, _: &SeqFile) {}
    }

    fn create(name: &CStr) -> Result<File> {
        File::create::<Empty>(name, ktrace::this_module!())
    }

    #[test]
    fn a_file_is_there_until_it_is_dropped() -> Result {
        let name = c"ktrace_kunit";
        let file = create(name)?;
        let second = errno(create(name));
        drop(file);
        let again = errno(create(name));
        assert_eq!(second, EEXIST.to_errno());
        assert_eq!(again, 0);
        Ok(())
    }

    #[test]
    fn the_kernels_files_are_not_replaced() {
        assert_eq!(errno(create(c"trace")), EEXIST.to_errno());
    }

    #[test]
    fn nothing_is_locked_down() {
        assert_eq!(security::tracefs_allowed(), Ok(()));
        assert_eq!(security::kprobes_allowed(), Ok(()));
    }
}
