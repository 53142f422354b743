// SPDX-License-Identifier: GPL-2.0

//! The patterns of a list of functions, as the kernel takes them.

use kernel::{
    prelude::*,
    str::{
        CStr,
        CString, //
    },
};

use ktrace::fprobe;
use probe::command::FunctionItem;

/// The patterns of a list of functions.
pub(crate) struct Patterns {
    with: KVec<CString>,
    without: KVec<CString>,
}

impl Patterns {
    /// Takes the items of a list. `ENOMEM`.
    pub(crate) fn new<'a>(items: impl Iterator<Item = FunctionItem<'a>>) -> Result<Self> {
        let (mut with, mut without) = (KVec::new(), KVec::new());
        for item in items {
            let to = match item.is_excepted {
                true => &mut without,
                false => &mut with,
            };
            to.push(
                CString::try_from_fmt(format_args!("{}", item.pattern))?,
                GFP_KERNEL,
            )?;
        }
        Ok(Self { with, without })
    }

    /// Passes the patterns of the functions, and those of the functions to leave out.
    pub(crate) fn pass<R>(&self, f: impl FnOnce(&[&CStr], &[&CStr]) -> Result<R>) -> Result<R> {
        let [with, without] = [&self.with, &self.without].map(|texts| {
            let mut patterns = KVec::with_capacity(texts.len(), GFP_KERNEL)?;
            for text in texts {
                patterns.push(&**text, GFP_KERNEL)?;
            }
            Ok::<_, Error>(patterns)
        });
        f(&with?, &without?)
    }

    /// Whether a function is in the list. A list that only leaves functions out has all others.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let is_match = |pattern: &CString| fprobe::matches(pattern, name);
        (self.with.is_empty() || self.with.iter().any(is_match))
            && !self.without.iter().any(is_match)
    }
}
