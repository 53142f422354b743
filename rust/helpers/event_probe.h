/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ktrace::event_probe: an event that is held, and its handler. Two files define these functions:
 * event_trigger.c in the kernel's tree, and event_counter.c elsewhere.
 */

#ifndef _KTRACE_EVENT_PROBE_H
#define _KTRACE_EVENT_PROBE_H

#include <linux/types.h>

struct ktrace_event;
struct trace_event_call;

/* Called before all other functions, and when no event is held any more. */
int ktrace_init_event_probes(void);
void ktrace_exit_event_probes(void);

/* Whether an event stays while it is held, and users can enable it. */
bool ktrace_can_be_probed(const struct trace_event_call *call);

/*
 * Finds and holds an event. NUMBER is its number; in the kernel's tree, it does not matter. Returns
 * -ENOENT if there is no such event that can be probed, -EBUSY if its module is being unloaded,
 * -ENOMEM, or an error of perf.
 */
struct ktrace_event *ktrace_get_event(const char *system, const char *name, unsigned int number);

/* Releases the event. The handler is detached. The caller may hold event_mutex. */
void ktrace_put_event(struct ktrace_event *event);

/* Waits until events that were put before are released. The caller does not hold event_mutex. */
void ktrace_finish_event_puts(void);

struct trace_event_call *ktrace_call_of(const struct ktrace_event *event);

/*
 * Sets the handler, which is not attached yet. The caller calls this once. HIT is called with
 * preemption disabled, with a record that has all fields of the event.
 */
int ktrace_set_event_handler(struct ktrace_event *event,
			     void (*hit)(void *data, const void *record), void *data);

/* The caller holds event_mutex. Returns -EBUSY if it is attached, or the kernel's error. */
int ktrace_attach_event_handler(struct ktrace_event *event);

/*
 * Detaches the handler if it is attached. The caller holds event_mutex. The handler does not run
 * any more when this function returns.
 */
void ktrace_detach_event_handler(struct ktrace_event *event);

/*
 * Detaches the handler for good if it is attached, and releases what has the address of code. The
 * event stays held. The caller does not hold event_mutex.
 */
void ktrace_end_event_handler(struct ktrace_event *event);

/* The number of records for which the handler did not run, because a handler ran on this CPU. */
unsigned long ktrace_event_handler_missed(const struct ktrace_event *event);

#endif
