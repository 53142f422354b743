// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers for inline functions and macros, which Rust cannot call, and for callbacks with C
 * enumerations, which Rust cannot implement, because kCFI checks their types. One file per header.
 */

#include "arch.c"
#include "assumptions.c"
#include "file.c"
#include "ftrace.c"
#include "jump_label.c"
#include "kmemleak.c"
#include "module.c"
#include "percpu.c"
#include "preempt.c"
#include "sched.c"
#include "security.c"
#include "thread.c"
#include "trace_events.c"
#include "tracefs.c"
#include "tracepoint.c"
#include "vmcore_info.c"
#include "watchpoint.c"
