// SPDX-License-Identifier: GPL-2.0

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/err.h>
#include <linux/hw_breakpoint.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/thread_info.h>
#include <asm/hw_breakpoint.h>
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
bool ktrace_is_watchable(unsigned long address);
bool ktrace_watch_enter(void);
void ktrace_watch_leave(void);
unsigned int ktrace_next_possible_cpu(unsigned int cpu);
size_t ktrace_thread_size(void);

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
/* The exception has added this to the preemption count. */
#define NMI_OF_EXCEPTION (NMI_OFFSET + HARDIRQ_OFFSET)
#define NMI_OF_HANDLER 0

/*
 * Whether an address is in a variable of the kernel or of a module, in memory of the page allocator
 * or in a page's structure. Stacks are in none of them: they are in the space of vmalloc().
 */
bool ktrace_is_watchable(unsigned long address)
{
	unsigned long page = (address - (unsigned long)vmemmap) / sizeof(struct page);

	if (address >= VMALLOC_START && address <= VMALLOC_END)
		return false;
	if (address >= MODULES_VADDR && address < MODULES_END)
		return true;
	if (address >= __START_KERNEL_map)
		return virt_addr_valid((void *)address);
	if (!IS_ENABLED(CONFIG_VMAP_STACK))
		return false;
	if (address >= (unsigned long)vmemmap)
		return pfn_valid(page);
	return virt_addr_valid((void *)address);
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
/* The exception adds nothing to the preemption count, so the handler does. */
#define NMI_OF_EXCEPTION 0
#define NMI_OF_HANDLER (NMI_OFFSET + HARDIRQ_OFFSET)

bool ktrace_is_watchable(unsigned long address)
{
	return true;
}

/*
 * arm64 steps over an access only for the handler of perf itself, which this event gets. The event
 * does not sample, so this handler never runs. ktrace traces the caller of the handler.
 */
#define ktrace_watch_hit NULL
#endif

/*
 * Makes in_nmi() true for a handler, so that the kernel avoids locks there. Fails if the exception
 * has interrupted an NMI, or another exception that counts as one.
 */
bool ktrace_watch_enter(void)
{
	if ((preempt_count() & NMI_MASK) != (NMI_OF_EXCEPTION & NMI_MASK))
		return false;
	if (NMI_OF_HANDLER)
		__preempt_count_add(NMI_OF_HANDLER);
	barrier();
	return true;
}
NOKPROBE_SYMBOL(ktrace_watch_enter);

void ktrace_watch_leave(void)
{
	barrier();
	if (NMI_OF_HANDLER)
		__preempt_count_sub(NMI_OF_HANDLER);
}
NOKPROBE_SYMBOL(ktrace_watch_leave);

/* The size of a task's stack. */
size_t ktrace_thread_size(void)
{
	return THREAD_SIZE;
}

/* The first CPU from this one on that can come online. */
unsigned int ktrace_next_possible_cpu(unsigned int cpu)
{
	return cpumask_next((int)cpu - 1, cpu_possible_mask);
}

static struct perf_event *create(unsigned int cpu, unsigned long address, unsigned long len,
				 unsigned int type, struct ktrace_watch *watch)
{
	struct perf_event_attr attr;

	if (!ktrace_watch_slots(type))
		return ERR_PTR(-EOPNOTSUPP);
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
