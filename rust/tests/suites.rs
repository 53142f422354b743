// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of ktrace: what can be checked from within the kernel.
//!
//! A suite for each part of ktrace, in the inline module that `kunit_tests` wants. An assertion
//! that fails ends the test's thread without dropping anything: so tests drop their probes first,
//! and assert on what is left.

use kernel::prelude::*;

module! {
    type: KtraceKunit,
    name: "ktrace_kunit",
    authors: ["rkprobe maintainers"],
    description: "KUnit tests of ktrace",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

mod fprobe;
mod ftrace;
#[cfg(CONFIG_RKPROBE_EXPORTS)]
mod in_tree;
mod kprobe;
#[cfg(CONFIG_RKPROBE_KRETINSN)]
mod kretinsn;
mod kretprobe;
mod kunit_targets;
mod nofault;
mod percpu;
mod plain_event;
mod registers;
mod seen;
mod symbol;
mod trace_event;
mod tracefs;
mod tracepoint;

/// KUnit runs the suites when the module was loaded.
struct KtraceKunit;

impl kernel::Module for KtraceKunit {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
