// SPDX-License-Identifier: GPL-2.0
/*
 * A module for the tests of object probes. Writing a number of rounds to its parameter "run" passes
 * objects through functions of the kernel, on all CPUs and in all contexts at the same time. An
 * object is live from objects_target_made() to objects_target_freed(). After that, the module uses
 * its memory again: first without an object, and then for the next one.
 *
 * At each call, the members of the object say what a record must contain:
 *
 *	tm_year		1 if the object is live, else 0
 *	tm_mon		the context: 0 process, 1 softirq, 2 hardirq, 3 NMI
 *	tm_yday		the number of the object. Each object has its own number.
 *	tm_mday		the number of calls that received the object, with this one
 */

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/rtc.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#ifdef CONFIG_X86_64
#include <asm/nmi.h>
#endif

/* The objects that each CPU keeps in a process, and those on their way to any CPU. */
#define KEPT 4
#define PASSED 3

#define SOFTIRQ_PERIOD (700 * NSEC_PER_USEC)
#define HARDIRQ_PERIOD (500 * NSEC_PER_USEC)

enum context { PROCESS, SOFTIRQ, HARDIRQ, NMI, CONTEXTS };

struct object {
	struct rtc_time tm;
	int number;
	int calls;
	bool is_live;
};

/* One for each CPU. */
struct state {
	struct work_struct work;
	struct hrtimer softirq;
	struct hrtimer hardirq;
	struct object *kept[KEPT];
	/* An interrupt does not share its object. */
	struct object own[CONTEXTS];
	int made[CONTEXTS];
	bool has_run[CONTEXTS];
	bool expects_nmi;
};

void objects_target_made(struct rtc_time *tm);
void objects_target_freed(struct rtc_time *tm);

static DEFINE_PER_CPU(struct state, states);
static struct object *passed[PASSED];
static unsigned int rounds;

noinline __noclone void objects_target_made(struct rtc_time *tm)
{
	barrier_data(tm);
}

noinline __noclone void objects_target_freed(struct rtc_time *tm)
{
	barrier_data(tm);
}

static void label(struct object *object, enum context context)
{
	object->calls++;
	object->tm = (struct rtc_time) {
		.tm_year = object->is_live,
		.tm_mon = context,
		.tm_yday = object->number,
		.tm_mday = object->calls,
	};
}

/* The first two functions take the object as their first parameter, the last as its second. */
static void use(struct object *object, enum context context)
{
	label(object, context);
	rtc_valid_tm(&object->tm);
	label(object, context);
	rtc_tm_to_time64(&object->tm);
	label(object, context);
	rtc_time64_to_tm(0, &object->tm);
}

static void make(struct object *object, enum context context)
{
	struct state *state = this_cpu_ptr(&states);

	object->number = smp_processor_id() << 20 | context << 18 | ++state->made[context];
	object->calls = 0;
	object->is_live = true;
	objects_target_made(&object->tm);
}

/* The record of the free contains the number of calls. */
static void release(struct object *object, enum context context)
{
	label(object, context);
	object->tm.tm_mday--;
	object->is_live = false;
	objects_target_freed(&object->tm);
}

/* The life of an object in an interrupt. Between two objects, the memory is used without one. */
static void run_once(enum context context)
{
	struct state *state = this_cpu_ptr(&states);
	struct object *object = &state->own[context];

	WRITE_ONCE(state->has_run[context], true);
	if (!object->is_live) {
		use(object, context);
		make(object, context);
		use(object, context);
	} else {
		use(object, context);
		release(object, context);
		use(object, context);
	}
}

static enum hrtimer_restart run_in_softirq(struct hrtimer *timer)
{
	run_once(SOFTIRQ);
	hrtimer_forward_now(timer, SOFTIRQ_PERIOD);
	return HRTIMER_RESTART;
}

static enum hrtimer_restart run_in_hardirq(struct hrtimer *timer)
{
	run_once(HARDIRQ);
	hrtimer_forward_now(timer, HARDIRQ_PERIOD);
	return HRTIMER_RESTART;
}

#ifdef CONFIG_X86_64
static int run_in_nmi(unsigned int type, struct pt_regs *regs)
{
	struct state *state = this_cpu_ptr(&states);

	if (!state->expects_nmi)
		return NMI_DONE;
	state->expects_nmi = false;
	run_once(NMI);
	return NMI_HANDLED;
}

static void raise_nmi(struct state *state)
{
	preempt_disable();
	state->expects_nmi = true;
	/* The kernel takes the interrupt of this number for an NMI. */
	asm volatile("int $2");
	preempt_enable();
}

static int add_nmi_handler(void)
{
	return register_nmi_handler(NMI_LOCAL, run_in_nmi, 0, "objects_target");
}

static void remove_nmi_handler(void)
{
	unregister_nmi_handler(NMI_LOCAL, "objects_target");
}
#else
static void raise_nmi(struct state *state) {}
static int add_nmi_handler(void) { return 0; }
static void remove_nmi_handler(void) {}
#endif

/* Passes an object to any CPU, and takes one that any CPU has passed. */
static struct object *pass(struct object *object, unsigned int round)
{
	object = xchg(&passed[round % PASSED], object);
	return object ?: kzalloc(sizeof(*object), GFP_KERNEL);
}

static bool have_timers_run(struct state *state)
{
	return READ_ONCE(state->has_run[SOFTIRQ]) && READ_ONCE(state->has_run[HARDIRQ]);
}

static void run_on_cpu(struct work_struct *work)
{
	struct state *state = container_of(work, struct state, work);
	unsigned int round;

	memset(state->has_run, 0, sizeof(state->has_run));
	hrtimer_start(&state->softirq, SOFTIRQ_PERIOD, HRTIMER_MODE_REL_PINNED_SOFT);
	hrtimer_start(&state->hardirq, HARDIRQ_PERIOD, HRTIMER_MODE_REL_PINNED_HARD);
	for (round = 0; round < rounds || !have_timers_run(state); round++) {
		struct object **kept = &state->kept[round % KEPT];

		if (!*kept)
			*kept = kzalloc(sizeof(**kept), GFP_KERNEL);
		if (!*kept)
			break;
		if (!(*kept)->is_live)
			make(*kept, PROCESS);
		use(*kept, PROCESS);
		*kept = pass(*kept, round);
		if (!*kept)
			break;
		use(*kept, PROCESS);
		if ((*kept)->is_live && round & 1) {
			release(*kept, PROCESS);
			use(*kept, PROCESS);
		}
		raise_nmi(state);
		cond_resched();
	}
	hrtimer_cancel(&state->softirq);
	hrtimer_cancel(&state->hardirq);
}

/* Ends a live object. The memory stays for the next run. */
static void end(struct object *object)
{
	if (object && object->is_live)
		release(object, PROCESS);
}

static void end_all(void)
{
	int cpu, i;

	for_each_possible_cpu(cpu) {
		struct state *state = per_cpu_ptr(&states, cpu);

		for (i = 0; i < KEPT; i++)
			end(state->kept[i]);
		for (i = 0; i < CONTEXTS; i++)
			end(&state->own[i]);
	}
	for (i = 0; i < PASSED; i++)
		end(passed[i]);
}

static int run(const char *value, const struct kernel_param *param)
{
	int error = kstrtouint(value, 0, &rounds);
	int cpu;

	if (error)
		return error;
	cpus_read_lock();
	for_each_online_cpu(cpu)
		schedule_work_on(cpu, &per_cpu_ptr(&states, cpu)->work);
	for_each_online_cpu(cpu)
		flush_work(&per_cpu_ptr(&states, cpu)->work);
	cpus_read_unlock();
	end_all();
	return 0;
}

static int __init objects_target_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct state *state = per_cpu_ptr(&states, cpu);

		INIT_WORK(&state->work, run_on_cpu);
		hrtimer_setup(&state->softirq, run_in_softirq, CLOCK_MONOTONIC,
			      HRTIMER_MODE_REL_PINNED_SOFT);
		hrtimer_setup(&state->hardirq, run_in_hardirq, CLOCK_MONOTONIC,
			      HRTIMER_MODE_REL_PINNED_HARD);
	}
	return add_nmi_handler();
}

static void __exit objects_target_exit(void)
{
	int cpu, i;

	remove_nmi_handler();
	for_each_possible_cpu(cpu) {
		for (i = 0; i < KEPT; i++)
			kfree(per_cpu_ptr(&states, cpu)->kept[i]);
	}
	for (i = 0; i < PASSED; i++)
		kfree(passed[i]);
}

static const struct kernel_param_ops run_ops = { .set = run };

module_init(objects_target_init);
module_exit(objects_target_exit);
module_param_cb(run, &run_ops, NULL, 0200);

MODULE_DESCRIPTION("Objects in all contexts for the tests of rkprobe");
MODULE_LICENSE("GPL");
