// SPDX-License-Identifier: GPL-2.0

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/err.h>
#include <linux/hw_breakpoint.h>
#include <linux/kprobes.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <asm/hw_breakpoint.h>
#ifdef CONFIG_X86
#include <asm/nospec-branch.h>
#endif
#ifdef CONFIG_ARM64
#include <asm/cpufeature.h>
#endif

/* The first fields of ktrace::watchpoint::Raw. */
struct ktrace_watch {
	void (*hit)(struct ktrace_watch *watch, struct pt_regs *regs);
};

unsigned int ktrace_watch_slots(unsigned int type);
int ktrace_setup_watch_state(int (*startup)(unsigned int cpu, struct hlist_node *node),
			     int (*teardown)(unsigned int cpu, struct hlist_node *node));
void ktrace_remove_watch_state(int state);
struct perf_event *ktrace_watch_on_cpu(unsigned int cpu, unsigned long address, unsigned long len,
				       unsigned int type, struct ktrace_watch *watch);
void ktrace_unwatch(struct perf_event *event);
int ktrace_check_watch(unsigned long address, bool is_per_cpu, unsigned long len,
		       unsigned int type);

/*
 * Returns the number of registers of a processor for this type of accesses.
 *
 * Returns 0 on an arm64 processor without atomic instructions (LSE). There, the kernel's atomic
 * operations are loops of a load and a store. The step over the load makes the store fail, so a
 * loop on watched memory would never end.
 */
unsigned int ktrace_watch_slots(unsigned int type)
{
#ifdef CONFIG_X86
	return HBP_NUM;
#else
	if (!cpus_have_cap(ARM64_HAS_LSE_ATOMICS))
		return 0;
	return type == HW_BREAKPOINT_X ? get_num_brps() : get_num_wrps();
#endif
}

/* Returns the number of the state, or an error. */
int ktrace_setup_watch_state(int (*startup)(unsigned int cpu, struct hlist_node *node),
			     int (*teardown)(unsigned int cpu, struct hlist_node *node))
{
	return cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "ktrace/watchpoint:online", startup,
				       teardown);
}

void ktrace_remove_watch_state(int state)
{
	cpuhp_remove_multi_state(state);
}

#ifdef CONFIG_X86_64
static bool overlaps(unsigned long address, unsigned long len, const void *area, size_t size)
{
	unsigned long start = (unsigned long)area;

	return address < start + size && start < address + len;
}

/*
 * Whether the entry code of the debug exception uses this memory before it disables watchpoints.
 * The kernel itself refuses watchpoints on all other memory that the entry code uses.
 */
static bool is_used_by_entry(unsigned long address, unsigned long len)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		if (overlaps(address, len, &per_cpu(x86_spec_ctrl_current, cpu), sizeof(u64)))
			return true;
#ifdef CONFIG_MITIGATION_CALL_DEPTH_TRACKING
		if (overlaps(address, len, &per_cpu(__x86_call_depth, cpu), sizeof(u64)))
			return true;
#endif
	}
	return false;
}

/* Runs in the debug exception, with interrupts and all watchpoints disabled. */
static void ktrace_watch_hit(struct perf_event *event, struct perf_sample_data *data,
			     struct pt_regs *regs)
{
	struct ktrace_watch *watch = event->overflow_handler_context;

	watch->hit(watch, regs);
}
NOKPROBE_SYMBOL(ktrace_watch_hit);
#else
static bool is_used_by_entry(unsigned long address, unsigned long len)
{
	return false;
}

/*
 * arm64 steps over an access only for the handler of perf itself, which this event gets. The event
 * does not sample, so this handler never runs. ktrace traces the caller of the handler.
 */
#define ktrace_watch_hit NULL
#endif

static struct perf_event *create(unsigned int cpu, unsigned long address, unsigned long len,
				 unsigned int type, struct ktrace_watch *watch)
{
	struct perf_event_attr attr;

	if (!ktrace_watch_slots(type))
		return ERR_PTR(-EOPNOTSUPP);
	if (is_used_by_entry(address, len))
		return ERR_PTR(-EINVAL);
	hw_breakpoint_init(&attr);
	attr.bp_addr = address;
	attr.bp_len = len;
	attr.bp_type = type;
	/* The handler gets only registers of the kernel. */
	attr.exclude_user = 1;
	attr.disabled = !watch;
#ifndef CONFIG_X86
	attr.sample_period = 0;
#endif
	return perf_event_create_kernel_counter(&attr, cpu, NULL, ktrace_watch_hit, watch);
}

struct perf_event *ktrace_watch_on_cpu(unsigned int cpu, unsigned long address, unsigned long len,
				       unsigned int type, struct ktrace_watch *watch)
{
	return create(cpu, address, len, type, watch);
}

/* The CPU of the event must be online. No handler runs any more when this function returns. */
void ktrace_unwatch(struct perf_event *event)
{
	perf_event_release_kernel(event);
}

/* Checks that the kernel accepts such a watchpoint, by creating a disabled one. */
int ktrace_check_watch(unsigned long address, bool is_per_cpu, unsigned long len, unsigned int type)
{
	struct perf_event *event;
	unsigned int cpu;

	cpus_read_lock();
	cpu = cpumask_first(cpu_online_mask);
	if (is_per_cpu)
		address = (unsigned long)per_cpu_ptr((void __percpu *)address, cpu);
	event = create(cpu, address, len, type, NULL);
	if (!IS_ERR(event))
		perf_event_release_kernel(event);
	cpus_read_unlock();
	return PTR_ERR_OR_ZERO(event);
}
