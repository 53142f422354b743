// SPDX-License-Identifier: GPL-2.0

//! Rust kprobe sample: says who forks, before and after the first instruction of `kernel_clone`.
//!
//! C: `samples/kprobes/kprobe_example.c`.

use kernel::prelude::*;

use ktrace::kprobe::{
    Handler,
    Hit,
    Kprobe, //
};

module! {
    type: RustKprobe,
    name: "rust_kprobe",
    authors: ["rkprobe maintainers"],
    description: "Rust kprobe sample",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

struct Clone;

#[vtable]
impl Handler for Clone {
    fn pre(&self, hit: &Hit<'_>) {
        pr_info!(
            "pre: {:#x}, argument {:#x}\n",
            hit.address(),
            hit.arg::<usize>(0)
        );
    }

    fn post(&self, hit: &Hit<'_>) {
        let flags = hit.registers().by_name("flags").unwrap_or(0);
        pr_info!("post: {:#x}, flags {:#x}\n", hit.address(), flags);
    }
}

#[pin_data(PinnedDrop)]
struct RustKprobe {
    #[pin]
    probe: Kprobe<Clone>,
}

impl kernel::InPlaceModule for RustKprobe {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            probe <- Kprobe::new(c"kernel_clone", Clone),
        })
        .pin_chain(|this| {
            pr_info!("planted at {:#x}\n", this.probe.address());
            Ok(())
        })
    }
}

#[pinned_drop]
impl PinnedDrop for RustKprobe {
    fn drop(self: Pin<&mut Self>) {
        pr_info!("unplanting, {} missed so far\n", self.probe.missed());
    }
}
