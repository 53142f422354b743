// SPDX-License-Identifier: GPL-2.0

//! Rust kretprobe sample: says how long each `kernel_clone` took, and what it returned.
//!
//! C: `samples/kprobes/kretprobe_example.c`.

use kernel::{
    prelude::*,
    time::{
        Instant,
        Monotonic, //
    },
};

use ktrace::{
    kprobe::Hit,
    kretprobe::{
        Call,
        Handler,
        Kretprobe, //
    },
};

module! {
    type: RustKretprobe,
    name: "rust_kretprobe",
    authors: ["rkprobe maintainers"],
    description: "Rust kretprobe sample",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

/// Up to 20 calls in flight; more are missed, and counted.
const MAXACTIVE: u16 = 20;

struct Clone;

#[vtable]
impl Handler for Clone {
    /// When the call began.
    type Data = Instant<Monotonic>;

    fn entry(&self, _hit: &Hit<'_>) -> Option<Self::Data> {
        Some(Instant::now())
    }

    fn ret(&self, hit: &Hit<'_>, call: &Call<'_, Self::Data>) {
        let pid = hit.ret::<i32>();
        let ns = call.data().elapsed().as_nanos();
        pr_info!("kernel_clone returned {} and took {} ns\n", pid, ns);
    }
}

#[pin_data(PinnedDrop)]
struct RustKretprobe {
    #[pin]
    probe: Kretprobe<Clone>,
}

impl kernel::InPlaceModule for RustKretprobe {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            probe <- Kretprobe::new(c"kernel_clone", MAXACTIVE, Clone),
        })
        .pin_chain(|this| {
            pr_info!("planted at {:#x}\n", this.probe.address());
            Ok(())
        })
    }
}

#[pinned_drop]
impl PinnedDrop for RustKretprobe {
    fn drop(self: Pin<&mut Self>) {
        pr_info!("unplanting, {} missed so far\n", self.probe.missed());
    }
}
