/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event in plain code, in C: the fields of PlainEvent in plain_event.rs.
 */

#undef TRACE_SYSTEM
#define TRACE_SYSTEM limit
#undef TRACE_SYSTEM_VAR
#define TRACE_SYSTEM_VAR bench_limit

#if !defined(_BENCH_PLAIN_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _BENCH_PLAIN_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(hit_plain,
	TP_PROTO(u64 flags, int pid, const char *path, const u64 *addresses),
	TP_ARGS(flags, pid, path, addresses),
	TP_STRUCT__entry(
		__field(u64, flags)
		__field(int, pid)
		__array(char, comm, TASK_COMM_LEN)
		__string(path, path)
		__array(u64, addresses, 4)
	),
	TP_fast_assign(
		__entry->flags = flags;
		__entry->pid = pid;
		memcpy(__entry->comm, current->comm, TASK_COMM_LEN);
		__assign_str(path);
		memcpy(__entry->addresses, addresses, sizeof(__entry->addresses));
	),
	TP_printk("flags=0x%llx pid=%d comm=\"%s\" path=\"%s\" addresses={0x%llx,0x%llx,0x%llx,0x%llx}",
		  __entry->flags, __entry->pid, __entry->comm, __get_str(path),
		  __entry->addresses[0], __entry->addresses[1], __entry->addresses[2],
		  __entry->addresses[3])
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE plain_trace
#include <trace/define_trace.h>
