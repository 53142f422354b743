// SPDX-License-Identifier: GPL-2.0

//! Modules: the loaded ones, notifications of their loading and unloading, and what ktrace does
//! before the kernel frees a module that uses ktrace or that has probed functions.

pub mod module;
pub mod module_notifier;

pub(crate) mod ftrace_list;
pub(crate) mod kprobe_list;
pub(crate) mod leftover;
pub(crate) mod owner;
pub(crate) mod this_module;
