// SPDX-License-Identifier: GPL-2.0

//! What this build supports, and the error for the rest.
//!
//! In the kernel tree, ktrace also uses the exports of `rust/helpers/built_in.c`. An out-of-tree
//! module has only the kernel's own exports. So some subjects have two variants, the files
//! `in_tree.rs` and `out_of_tree.rs` in the directory of the subject.

use kernel::{
    bindings,
    error::Error,
    ffi::c_int, //
};

/// Whether ktrace is built in the kernel tree.
pub(crate) const IN_TREE: bool = cfg!(CONFIG_RKPROBE_EXPORTS);

/// Declares the variants of a subject. `tree` is the name of the variant that this build has: the
/// one in the kernel tree if ktrace is built there and the kernel has the given option.
macro_rules! tree_variants {
    () => {
        $crate::support::tree_variants!(all());
    };
    ($option:meta) => {
        #[cfg(all(CONFIG_RKPROBE_EXPORTS, $option))]
        mod in_tree;
        #[cfg(not(all(CONFIG_RKPROBE_EXPORTS, $option)))]
        mod out_of_tree;

        #[cfg(all(CONFIG_RKPROBE_EXPORTS, $option))]
        use self::in_tree as tree;
        #[cfg(not(all(CONFIG_RKPROBE_EXPORTS, $option)))]
        use self::out_of_tree as tree;
    };
}
pub(crate) use tree_variants;

/// The error of functions that this build, kernel or processor does not support: `EOPNOTSUPP`. The
/// kernel crate of Linux 7.2 has no constant for this error.
pub(crate) fn unsupported() -> Error {
    Error::from_errno(-(bindings::EOPNOTSUPP as c_int))
}
