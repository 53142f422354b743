// SPDX-License-Identifier: GPL-2.0

//! The kernel's C interface for tracing, as far as `kernel::bindings` lacks it.
//!
//! bindgen generates these bindings from `rust/bindings/`. Types that are not listed there come
//! from `kernel::bindings`. The layout assertions of the generated code prove that both agree.

#![allow(
    clippy::all,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

use kernel::{
    bindings::*,
    ffi, //
};

include!(env!("KTRACE_BINDINGS"));
