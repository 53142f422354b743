// SPDX-License-Identifier: GPL-2.0

//! The KUnit tests of ktrace, which run in the kernel.
//!
//! Each part of ktrace has a suite, in the inline module that `kunit_tests` requires. A failed
//! assertion ends the test's thread without dropping anything. So tests drop their probes before
//! their assertions.

use kernel::prelude::*;

module! {
    type: KtraceKunit,
    name: "ktrace_kunit",
    authors: ["rkprobe maintainers"],
    description: "KUnit tests of ktrace",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

mod event_probe;
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
mod thread;
mod trace_event;
mod tracefs;
mod tracepoint;
#[cfg(CONFIG_X86_64)]
mod watchpoint;

/// KUnit runs the suites when the module was loaded.
struct KtraceKunit;

impl kernel::Module for KtraceKunit {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
