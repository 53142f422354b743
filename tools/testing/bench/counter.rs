// SPDX-License-Identifier: GPL-2.0

//! A kprobe that counts, for the benchmark: what `ktrace` adds to a handler. The same in C is the event
//! `count` of `limit.c`.

use kernel::prelude::*;

use ktrace::{
    kprobe::{
        Handler,
        Hit,
        Kprobe, //
    },
    percpu::Counter, //
};

module! {
    type: Module,
    name: "counter",
    authors: ["rkprobe maintainers"],
    description: "a kprobe that counts",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

struct Count(Counter);

#[vtable]
impl Handler for Count {
    fn pre(&self, _: &Hit<'_>) {
        self.0.increment();
    }
}

#[pin_data]
struct Module {
    #[pin]
    probe: Kprobe<Count>,
}

impl kernel::InPlaceModule for Module {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            probe <- Kprobe::new(c"vfs_read", Count(Counter::new()?)),
        })
    }
}
