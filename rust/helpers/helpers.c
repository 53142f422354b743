// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers for C code that Rust cannot use directly: inline functions and macros, and callbacks with
 * C enumerations, whose types kCFI checks. There is one file per header.
 */

#include "arch.c"
#include "assumptions.c"
#ifndef CONFIG_RKPROBE_EXPORTS
#include "event_counter.c"
#endif
#include "event_probe.c"
#include "file.c"
#include "fprobe.c"
#include "ftrace.c"
#include "jump_label.c"
#include "kmemleak.c"
#include "module.c"
#include "once.c"
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
