// SPDX-License-Identifier: GPL-2.0

//! Rust kretinsn sample: says by which of its return instructions each `kernel_clone` left.

use kernel::prelude::*;

use ktrace::{
    kprobe::Hit,
    kretinsn::{
        Call,
        Handler,
        Kretinsn, //
    },
};

module! {
    type: RustKretinsn,
    name: "rust_kretinsn",
    authors: ["rkprobe maintainers"],
    description: "Rust kretinsn sample",
    license: "GPL",
    imports_ns: ["KTRACE"],
}

struct Clone;

impl Handler for Clone {
    fn ret(&self, hit: &Hit<'_>, call: &Call) {
        let offset = hit.address().wrapping_sub(call.function());
        let pid = hit.ret::<i32>();
        pr_info!("kernel_clone returned {} at +{:#x}\n", pid, offset);
    }
}

struct RustKretinsn(Kretinsn<Clone>);

impl kernel::Module for RustKretinsn {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let probe = Kretinsn::new(c"kernel_clone", Clone)?;
        pr_info!("planted on {} instructions\n", probe.exits().len());
        Ok(Self(probe))
    }
}

impl Drop for RustKretinsn {
    fn drop(&mut self) {
        pr_info!("unplanting, {} missed so far\n", self.0.missed());
    }
}
