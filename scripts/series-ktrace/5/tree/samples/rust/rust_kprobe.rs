// SPDX-License-Identifier: GPL-2.0

//! Rust kprobe sample.
//!
//! Counts the calls of `vfs_read()` and adds the sizes of the buffers. Prints both when the module
//! is unloaded.

use kernel::{
    kprobe::{
        Handler,
        Hit,
        Kprobe, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

module! {
    type: RustKprobe,
    name: "rust_kprobe",
    authors: ["rkprobe maintainers"],
    description: "Rust kprobe sample",
    license: "GPL",
}

struct Reads {
    calls: Atomic<u64>,
    bytes: Atomic<u64>,
}

impl Handler for Reads {
    fn pre(&self, hit: &Hit) {
        self.calls.add(1, Relaxed);
        // ssize_t vfs_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
        self.bytes.add(hit.arg::<u64>(2), Relaxed);
    }
}

#[pin_data(PinnedDrop)]
struct RustKprobe {
    #[pin]
    probe: Kprobe<Reads>,
}

impl kernel::InPlaceModule for RustKprobe {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let reads = Reads {
            calls: Atomic::new(0),
            bytes: Atomic::new(0),
        };
        try_pin_init!(Self {
            probe <- Kprobe::new(c"vfs_read", reads),
        })
    }
}

#[pinned_drop]
impl PinnedDrop for RustKprobe {
    fn drop(self: Pin<&mut Self>) {
        let reads = self.probe.handler();
        pr_info!(
            "vfs_read: {} calls for {} bytes, {} missed\n",
            reads.calls.load(Relaxed),
            reads.bytes.load(Relaxed),
            self.probe.missed()
        );
    }
}
