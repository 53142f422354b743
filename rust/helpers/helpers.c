// SPDX-License-Identifier: GPL-2.0
/*
 * What Rust cannot call or be called through: inline functions, macros, and callbacks that carry
 * C enumerations (their types count under kCFI). One file per header.
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
