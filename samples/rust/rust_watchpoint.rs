// SPDX-License-Identifier: GPL-2.0

//! Rust watchpoint sample: counts the writes to a variable.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use ktrace::{
    percpu::Counter,
    watchpoint::{
        Access,
        Handler,
        Hit,
        Target,
        Watchpoint, //
    },
};

module! {
    type: RustWatchpoint,
    name: "rust_watchpoint",
    authors: ["rkprobe maintainers"],
    description: "Rust watchpoint sample",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

static VARIABLE: Atomic<u64> = Atomic::new(0);

struct Writes(Counter);

impl Handler for Writes {
    fn hit(&self, _: &Hit<'_>) {
        self.0.increment();
    }
}

struct RustWatchpoint(Watchpoint<Writes>);

impl kernel::Module for RustWatchpoint {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let target = Target {
            address: (&raw const VARIABLE).addr(),
            is_per_cpu: false,
            len: 8,
            access: Access::Write,
        };
        let watchpoint = Watchpoint::new(target, Writes(Counter::new()?))?;
        for value in 1..=3 {
            VARIABLE.store(value, Relaxed);
        }
        Ok(Self(watchpoint))
    }
}

impl Drop for RustWatchpoint {
    fn drop(&mut self) {
        let writes = self.0.handler().0.sum();
        pr_info!("{writes} writes, the last of {}\n", VARIABLE.load(Relaxed));
    }
}
