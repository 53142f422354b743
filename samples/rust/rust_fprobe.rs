// SPDX-License-Identifier: GPL-2.0

//! Rust fprobe sample: counts the calls of all functions that match a pattern, and how many of
//! them fail.
//!
//! C: `samples/fprobe/fprobe_example.c`.

use kernel::prelude::*;

use ktrace::{
    fprobe::{
        Fprobe,
        Functions,
        Handler, //
    },
    function::Call,
    percpu::Counter, //
};

module! {
    type: RustFprobe,
    name: "rust_fprobe",
    authors: ["rkprobe maintainers"],
    description: "Rust fprobe sample",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

/// Which functions, and which of them not.
const PATTERN: &CStr = c"vfs_*";
const EXCEPT: &CStr = c"vfs_statx*";

struct Count {
    entries: Counter,
    exits: Counter,
    errors: Counter,
}

#[vtable]
impl Handler for Count {
    /// The first argument.
    type Data = usize;

    fn entry(&self, call: &Call<'_>) -> Option<Self::Data> {
        self.entries.increment();
        Some(call.arg(0))
    }

    fn exit(&self, call: &Call<'_>, first: &Self::Data) {
        self.exits.increment();
        if *first != 0 && call.ret::<i32>() < 0 {
            self.errors.increment();
        }
    }
}

struct RustFprobe(Fprobe<Count>);

impl kernel::Module for RustFprobe {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let count = Count {
            entries: Counter::new()?,
            exits: Counter::new()?,
            errors: Counter::new()?,
        };
        let probe = Fprobe::new(Functions::Globs(&[PATTERN], &[EXCEPT]), count)?;
        pr_info!("planted on {}\n", PATTERN);
        Ok(Self(probe))
    }
}

impl Drop for RustFprobe {
    fn drop(&mut self) {
        let count = self.0.handler();
        pr_info!(
            "{} entries, {} exits, {} errors, {} missed\n",
            count.entries.sum(),
            count.exits.sum(),
            count.errors.sum(),
            self.0.missed()
        );
    }
}
