// SPDX-License-Identifier: GPL-2.0

//! The numbers of words of the arguments of the kernel's functions, by BTF.

use kernel::prelude::*;

use ktrace::symbol;
use probe::{
    argument_words::FewWords,
    sort::sort, //
};

use crate::resolve::vmlinux;

kernel::sync::global_lock! {
    // Read when a command first needs it.
    // SAFETY: `init` initialises it when the module loads.
    unsafe(uninit) static WORDS: Mutex<Option<ArgumentWords>> = None;
}

/// # Safety
///
/// The caller must call this once, before any other function of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any use of the lock.
    unsafe { WORDS.init() };
}

/// Discards the numbers. The next command that needs them reads them again.
pub(crate) fn clear() {
    *WORDS.lock() = None;
}

/// The functions of the kernel image whose arguments have fewer words than a step of a call tree,
/// sorted.
pub(crate) struct ArgumentWords(KVVec<FewWords>);

impl ArgumentWords {
    /// Reads the numbers, unless they are known. They stay unknown if the kernel has no BTF or
    /// hides its symbols. Process context; sleeps, and can read files. `ENOMEM`.
    pub(crate) fn read() -> Result {
        if WORDS.lock().is_some() {
            return Ok(());
        }
        // Without the lock, because this can open files.
        let found = match Self::find() {
            Err(ENOMEM) => return Err(ENOMEM),
            found => Self(found.unwrap_or_default()),
        };
        *WORDS.lock() = Some(found);
        Ok(())
    }

    /// Those of the functions with these call sites that take few words, in the same order, by
    /// their call site. None if the numbers were not read. Process context; sleeps. `ENOMEM`.
    pub(crate) fn at_sites(sites: &[usize]) -> Result<KVVec<FewWords>> {
        let mut found = KVVec::new();
        let words = WORDS.lock();
        let Some(words) = &*words else {
            return Ok(found);
        };
        for site in sites {
            let site = *site as u64;
            if let Some(few) = FewWords::new(site, FewWords::count(&words.0, site)) {
                found.push(few, GFP_KERNEL)?;
            }
        }
        Ok(found)
    }

    #[inline(never)]
    fn find() -> Result<KVVec<FewWords>> {
        let object = vmlinux()?.ok_or(ENOENT)?;
        let (mut names, mut words) = (KVVec::new(), KVVec::new());
        for (name, function) in object.btf(None)?.functions() {
            if let Some(count) = function.words_of_arguments() {
                names.push(name, GFP_KERNEL)?;
                words.push(count, GFP_KERNEL)?;
            }
        }
        let mut found = KVVec::new();
        symbol::each_named(&names, |index, address| {
            let count = words.get(index);
            match count.and_then(|count| FewWords::new(address as u64, *count)) {
                Some(few) => Ok(found.push(few, GFP_KERNEL)?),
                None => Ok(()),
            }
        })?;
        sort(&mut found);
        Ok(found)
    }
}
