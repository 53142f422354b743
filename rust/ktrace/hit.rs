// SPDX-License-Identifier: GPL-2.0

//! What a handler can use at a hit: the context, registers, memory that may be unmapped, stack
//! traces, patterns, and per-CPU memory.

pub mod atomic;
pub mod context;
pub mod counter_array;
pub mod function;
pub mod glob;
pub mod nofault;
pub mod number;
pub mod percpu;
pub mod registers;
pub mod replaceable;
pub mod stack;
