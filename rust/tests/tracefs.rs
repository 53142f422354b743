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

    use crate::seen::{
        errno,
        Dropped,
        Seen, //
    };

    struct Empty;

    #[vtable]
    impl ControlFile for Empty {
        fn next(&self, _: usize) -> Option<usize> {
            None
        }

        fn show(&self, _: usize, _: &SeqFile) {}
    }

    fn create(name: &CStr) -> Result<File> {
        File::create(name, ktrace::this_module!(), Empty)
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

    /// Data that records its drop.
    struct Data(#[expect(dead_code)] Dropped);

    #[vtable]
    impl ControlFile for Data {
        fn next(&self, _: usize) -> Option<usize> {
            None
        }

        fn show(&self, _: usize, _: &SeqFile) {}
    }

    #[test]
    fn the_data_of_a_file_is_dropped_once() -> Result {
        static SEEN: Seen = Seen::new();
        let name = c"ktrace_kunit";
        let create = |number| {
            let data = Data(Dropped(&SEEN, number));
            File::create(name, ktrace::this_module!(), data)
        };
        let file = create(1)?;
        // Without a file, there is no data.
        let second = errno(create(2));
        let before = SEEN.is(&[2]);
        drop(file);
        assert_eq!(second, EEXIST.to_errno());
        assert!(before);
        assert!(SEEN.is(&[2, 1]));
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
