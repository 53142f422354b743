// SPDX-License-Identifier: GPL-2.0

//! Rust tracepoint sample: counts switches of tasks, and those that preempt.

use kernel::prelude::*;

use ktrace::{
    percpu::Counter,
    tracepoint::{
        Handler,
        Hit,
        Tracepoint, //
    },
};

module! {
    type: RustTracepoint,
    name: "rust_tracepoint",
    authors: ["rkprobe maintainers"],
    description: "Rust tracepoint sample",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

struct Switches {
    all: Counter,
    preempting: Counter,
}

impl Handler for Switches {
    fn hit(&self, hit: &Hit<'_>) {
        self.all.increment();
        // TP_PROTO(bool preempt, struct task_struct *prev, struct task_struct *next, ...)
        if hit.arg(0) {
            self.preempting.increment();
        }
    }
}

struct RustTracepoint(Tracepoint<Switches>);

impl kernel::Module for RustTracepoint {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let switches = Switches {
            all: Counter::new()?,
            preempting: Counter::new()?,
        };
        let tracepoint = Tracepoint::attach(c"sched_switch", switches)?;
        pr_info!("attached to sched_switch\n");
        Ok(Self(tracepoint))
    }
}

impl Drop for RustTracepoint {
    fn drop(&mut self) {
        let switches = self.0.handler();
        pr_info!(
            "{} switches, {} of them preempting\n",
            switches.all.sum(),
            switches.preempting.sum()
        );
    }
}
