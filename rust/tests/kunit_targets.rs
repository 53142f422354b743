// SPDX-License-Identifier: GPL-2.0

//! The functions of `kunit_targets.c`.

use kernel::{
    ffi::{
        c_char,
        c_int,
        c_uint, //
    },
    prelude::*, //
};

pub(crate) const ADD: &CStr = c"ktrace_target_add";
pub(crate) const SUBTRACT: &CStr = c"ktrace_target_subtract";
pub(crate) const EIGHT: &CStr = c"ktrace_target_eight";
pub(crate) const DEPTH: &CStr = c"ktrace_target_depth";
pub(crate) const WAIT: &CStr = c"ktrace_target_wait";
pub(crate) const VISIT: &CStr = c"ktrace_target_visit";

/// [`ADD`] with the module that it is in, unless that is built in.
pub(crate) const ADD_OF_MODULE: &CStr = if cfg!(MODULE) {
    c"ktrace_kunit:ktrace_target_add"
} else {
    ADD
};
/// The suffix that the kernel prints after a symbol of this module.
pub(crate) const OF_MODULE: &[u8] = if cfg!(MODULE) {
    b" [ktrace_kunit]"
} else {
    b""
};

/// Kprobes cannot probe this function.
pub(crate) const NO_PROBE: &CStr = c"ktrace_target_no_probe";
/// Nor this by ftrace.
pub(crate) const NO_TRACE: &CStr = c"ktrace_target_no_trace";
/// This is not a function.
pub(crate) const DATA: &CStr = c"ktrace_target_data";
/// No function has this name.
pub(crate) const UNKNOWN: &CStr = c"ktrace_target_unknown";

// SAFETY: `kunit_targets.c` defines the functions with these types. They take any values, in
// process context.
#[allow(clippy::unnecessary_safety_comment)] // It is what `safe` rests on.
unsafe extern "C" {
    #[link_name = "ktrace_target_add"]
    pub(crate) safe fn add(a: u64, b: u64) -> u64;
    #[link_name = "ktrace_target_subtract"]
    pub(crate) safe fn subtract(a: u64, b: u64) -> u64;
    #[link_name = "ktrace_target_eight"]
    pub(crate) safe fn eight(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64)
        -> u64;
    #[link_name = "ktrace_target_depth"]
    pub(crate) safe fn depth(n: u64) -> u64;
    #[link_name = "ktrace_target_wait"]
    pub(crate) safe fn wait(a: u64) -> u64;
    #[link_name = "ktrace_wait_for_call"]
    pub(crate) safe fn wait_for_call();
    #[link_name = "ktrace_end_call"]
    pub(crate) safe fn end_call();
    #[link_name = "ktrace_visit_cpus"]
    pub(crate) safe fn visit_cpus() -> u32;
    #[link_name = "ktrace_is_bound_to"]
    pub(crate) safe fn is_bound_to(cpu: u32) -> bool;
    #[link_name = "ktrace_priority"]
    pub(crate) safe fn priority() -> u32;
    #[link_name = "ktrace_is_in_nmi"]
    pub(crate) safe fn is_in_nmi() -> bool;
    #[link_name = "ktrace_user_page"]
    pub(crate) safe fn user_page(last_word: u64) -> usize;
}

/// The address of [`ADD`], as the linker knows it.
pub(crate) fn address_of_add() -> usize {
    add as *const () as usize
}

/// Runs `f` while a call of [`WAIT`] with 7 is in flight, and returns the result of this call.
pub(crate) fn during_a_call(f: impl FnOnce() + Send + 'static) -> Result<u64> {
    kernel::workqueue::system_unbound().try_spawn(GFP_KERNEL, || {
        wait_for_call();
        f();
        end_call();
    })?;
    Ok(wait(7))
}

extern "C" {
    fn ktrace_run_in(context: u32, function: extern "C" fn(u32)) -> bool;
    fn ktrace_count_staying(name: *const c_char) -> c_uint;
    fn ktrace_count_in_trace(
        first: *const c_char,
        second: *const c_char,
        third: *const c_char,
    ) -> c_int;
}

/// Runs a function once, in a process (0), a softirq (1), a hardirq (2) or an NMI (3), with this
/// number. False if it cannot.
pub(crate) fn run_in(context: u32, function: extern "C" fn(u32)) -> bool {
    // SAFETY: The function takes any number. KUnit runs one test at a time.
    unsafe { ktrace_run_in(context, function) }
}

/// In how many lines of the trace the three strings are, in this order.
pub(crate) fn count_in_trace(first: &CStr, second: &CStr, third: &CStr) -> i32 {
    // SAFETY: These are strings.
    unsafe {
        ktrace_count_in_trace(
            first.as_char_ptr(),
            second.as_char_ptr(),
            third.as_char_ptr(),
        )
    }
}

/// The number of tasks that cannot leave their CPU and whose name begins with `name`.
pub(crate) fn count_staying(name: &CStr) -> u32 {
    // SAFETY: `name` is a string.
    unsafe { ktrace_count_staying(name.as_char_ptr()) }
}
