// SPDX-License-Identifier: GPL-2.0

//! Facts about processors: the registers, their names, and the registers that a call uses.
//!
//! Each architecture has a module. All modules have the same items, which are constants.
//! [`current`] is the architecture of the build. The build compiles the others as well, so that
//! tests can use them on any machine.

pub mod arm64;
mod register;
pub mod x86_64;

pub use self::register::{
    Register,
    Slot, //
};

#[cfg(target_arch = "aarch64")]
pub use self::arm64 as current;
#[cfg(target_arch = "x86_64")]
pub use self::x86_64 as current;
