// SPDX-License-Identifier: GPL-2.0
/*
 * A module for the tests of probes on return instructions and blocks: functions with every kind of
 * exit. The functions that need assembler are in exits_x86.S and exits_arm64.S. The functions in
 * this file sleep, migrate, call themselves, run in an interrupt, or can be traced by ftrace.
 *
 * In /sys/module/exits_target:
 *
 *	call		"NAME ARGUMENT [TIMES]" calls the function exits_NAME TIMES times, one call
 *			after the other
 *	result		the result of the last call
 *	sleepers	the number of calls of exits_sleeps that are asleep; a write wakes them
 */

#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/irq_work.h>
#include <linux/jump_label.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

/* Functions in exits_x86.S and exits_arm64.S. */
asmlinkage long exits_ret(long n);
asmlinkage long exits_alias(long n);
asmlinkage long exits_two(long n);
asmlinkage long exits_eight(long n);
asmlinkage long exits_padding(long n);
asmlinkage long exits_jump_to_ret(long n);
asmlinkage long exits_epilogue(long n);
asmlinkage long exits_cold(long n);
asmlinkage long exits_half_cold(long n);
asmlinkage long exits_tail(long n);
asmlinkage long exits_tail_conditional(long n);
asmlinkage long exits_tail_register(long n);
asmlinkage long exits_tail_itself(long n);
asmlinkage long exits_falls_through(long n);
asmlinkage long exits_after(long n);
asmlinkage long exits_bad_byte(long n);
asmlinkage long exits_bad_call(long n);
asmlinkage long exits_no_probe(long n);
asmlinkage long exits_noinstr(long n);
#ifdef CONFIG_X86_64
asmlinkage long exits_short(long n);
asmlinkage long exits_ret_int3(long n);
asmlinkage long exits_thunk(long n);
asmlinkage long exits_thunk_prefix(long n);
asmlinkage long exits_thunk_stays(long n);
asmlinkage long exits_thunk_prefix_stays(long n);
asmlinkage long exits_calls_ret_pops(long n);
asmlinkage long exits_rep_ret(long n);
asmlinkage long exits_ret_inside(long n);
asmlinkage long exits_tail_indirect(long n);
asmlinkage long exits_bad_branch(long n);
#endif
#ifdef CONFIG_ARM64
asmlinkage long exits_signed_ret(long n);
asmlinkage long exits_bad_data(long n);
asmlinkage long exits_bad_exclusive(long n);
#endif

long exits_traced(long n);
long exits_gap(long n);
int exits_fails(long n);
long exits_unseen(long n);
long exits_deep(long n);
long exits_repeats(long n);
long exits_sleeps(long n);
long exits_migrates(long n);
long exits_in_interrupt(long n);
long exits_from_interrupt(long n);
long exits_around_interrupt(long n);
long exits_tail_static(long n);
void exits_static_nothing(long n);

/* A function whose entry ftrace can trace. */
noinline __noclone long exits_traced(long n)
{
	OPTIMIZER_HIDE_VAR(n);
	return n + 1;
}

/* The block with the BUG() begins with an instruction that no kprobe can replace. */
noinline __noclone long exits_gap(long n)
{
	OPTIMIZER_HIDE_VAR(n);
	if (unlikely(n == 13))
		BUG();
	return n + 1;
}

/* Fails for one number. The compiler cannot do that without a branch. */
noinline __noclone int exits_fails(long n)
{
	static int count;

	if (n == 13)
		return -ERANGE;
	WRITE_ONCE(count, count + 1);
	barrier();
	return 0;
}

static DEFINE_STATIC_KEY_FALSE(exits_key);

/* Turns the jump label of exits_unseen() on or off. */
static noinline __noclone long exits_switch(long n)
{
	if (n)
		static_branch_enable(&exits_key);
	else
		static_branch_disable(&exits_key);
	return n;
}

/* With jumps that its text does not show: a jump label, and a load that faults if @n is odd. */
noinline __noclone long exits_unseen(long n)
{
	long value = n, *from = n & 1 ? ERR_PTR(-SZ_4K) : &value;

	OPTIMIZER_HIDE_VAR(from);
	if (static_branch_unlikely(&exits_key))
		WRITE_ONCE(value, n + 2);
	__get_kernel_nofault(&value, from, long, fault);
	if (value & 2)
		WRITE_ONCE(value, n + 4);
	return READ_ONCE(value);
fault:
	WRITE_ONCE(value, -EFAULT);
	if (n & 4)
		WRITE_ONCE(value, -EINVAL);
	return READ_ONCE(value);
}

static noinline __noclone long exits_call_fails(long n)
{
	return exits_fails(n);
}

/* Calls itself until @n calls are nested, and returns @n. */
noinline __noclone long exits_deep(long n)
{
	long deeper = n > 1 ? exits_deep(n - 1) : 0;

	OPTIMIZER_HIDE_VAR(deeper);
	return deeper + 1;
}

/* Runs its blocks more than once. */
noinline __noclone long exits_repeats(long n)
{
	long i, odd = 0;

	for (i = 0; i < n; i++) {
		OPTIMIZER_HIDE_VAR(i);
		if (i & 1)
			barrier();
		else
			WRITE_ONCE(odd, READ_ONCE(odd) + 1);
	}
	return odd;
}

static atomic_t sleepers = ATOMIC_INIT(0);
static atomic_t wakes = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(bed);

/* Returns only after another task wakes it. */
noinline __noclone long exits_sleeps(long n)
{
	int before = atomic_read(&wakes);

	atomic_inc(&sleepers);
	wait_event(bed, atomic_read(&wakes) != before);
	atomic_dec(&sleepers);
	OPTIMIZER_HIDE_VAR(n);
	return n + 1;
}

/* Returns on this CPU, regardless of the CPU of its call. */
noinline __noclone long exits_migrates(long n)
{
	int error = set_cpus_allowed_ptr(current, cpumask_of(n));

	OPTIMIZER_HIDE_VAR(n);
	return error ?: n + 1;
}

noinline __noclone long exits_in_interrupt(long n)
{
	OPTIMIZER_HIDE_VAR(n);
	return in_hardirq() ? n + 1 : -EINVAL;
}

struct interrupt {
	struct irq_work work;
	long n;
};

static void interrupted(struct irq_work *work)
{
	struct interrupt *interrupt = container_of(work, struct interrupt, work);

	interrupt->n = exits_in_interrupt(interrupt->n);
}

noinline __noclone long exits_from_interrupt(long n)
{
	struct interrupt interrupt = {
		.work = IRQ_WORK_INIT_HARD(interrupted),
		.n = n,
	};

	irq_work_queue(&interrupt.work);
	irq_work_sync(&interrupt.work);
	return interrupt.n;
}

static void interrupted_itself(struct irq_work *work)
{
	struct interrupt *interrupt = container_of(work, struct interrupt, work);

	interrupt->n = exits_around_interrupt(interrupt->n);
}

/* If @n is odd, the same function runs with @n - 1 in an interrupt meanwhile. */
noinline __noclone long exits_around_interrupt(long n)
{
	struct interrupt interrupt = {
		.work = IRQ_WORK_INIT_HARD(interrupted_itself),
		.n = n - 1,
	};

	if (n & 1) {
		irq_work_queue(&interrupt.work);
		irq_work_sync(&interrupt.work);
		return interrupt.n + 1;
	}
	return n + 1;
}

/* A tail call to a function, and one without a target, which the kernel replaces by a return. */
DEFINE_STATIC_CALL(exits_something, exits_traced);
DEFINE_STATIC_CALL_NULL(exits_nothing, exits_static_nothing);

noinline __noclone long exits_tail_static(long n)
{
	return static_call(exits_something)(n);
}

noinline __noclone __used void exits_static_nothing(long n)
{
	OPTIMIZER_HIDE_VAR(n);
	static_call_cond(exits_nothing)(n);
}

static const struct {
	const char *name;
	long (*function)(long n);
} functions[] = {
#define FUNCTION(name) { #name, exits_##name }
	FUNCTION(traced),
	FUNCTION(gap),
	{ "fails", exits_call_fails },
	FUNCTION(deep),
	FUNCTION(repeats),
	FUNCTION(switch),
	FUNCTION(unseen),
	FUNCTION(sleeps),
	FUNCTION(migrates),
	FUNCTION(from_interrupt),
	FUNCTION(around_interrupt),
	FUNCTION(tail_static),
	FUNCTION(ret),
	FUNCTION(alias),
	FUNCTION(two),
	FUNCTION(eight),
	FUNCTION(padding),
	FUNCTION(jump_to_ret),
	FUNCTION(epilogue),
	FUNCTION(cold),
	FUNCTION(half_cold),
	FUNCTION(tail),
	FUNCTION(tail_conditional),
	FUNCTION(tail_register),
	FUNCTION(tail_itself),
	FUNCTION(falls_through),
	FUNCTION(after),
	FUNCTION(bad_byte),
	FUNCTION(bad_call),
	FUNCTION(no_probe),
	FUNCTION(noinstr),
#ifdef CONFIG_X86_64
	FUNCTION(short),
	FUNCTION(ret_int3),
	FUNCTION(thunk),
#ifdef CONFIG_MITIGATION_RETHUNK
	FUNCTION(thunk_prefix),
#endif
#ifdef CONFIG_MITIGATION_ITS
	FUNCTION(thunk_stays),
	FUNCTION(thunk_prefix_stays),
#endif
	FUNCTION(calls_ret_pops),
	FUNCTION(rep_ret),
	FUNCTION(ret_inside),
	FUNCTION(tail_indirect),
	FUNCTION(bad_branch),
#endif
#ifdef CONFIG_ARM64
	FUNCTION(signed_ret),
	FUNCTION(bad_data),
	FUNCTION(bad_exclusive),
#endif
};

static long result;

static ssize_t call_store(const struct module_attribute *attribute, struct module_kobject *kobject,
			  const char *text, size_t count)
{
	char name[32];
	long n;
	unsigned int i, times = 1;

	if (sscanf(text, "%31s %ld %u", name, &n, &times) < 2)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(functions); i++)
		if (!strcmp(functions[i].name, name))
			break;
	if (i == ARRAY_SIZE(functions))
		return -ENOENT;
	while (times--)
		WRITE_ONCE(result, functions[i].function(n));
	return count;
}

static ssize_t result_show(const struct module_attribute *attribute, struct module_kobject *kobject,
			   char *text)
{
	return sysfs_emit(text, "%ld\n", READ_ONCE(result));
}

static ssize_t sleepers_show(const struct module_attribute *attribute,
			     struct module_kobject *kobject, char *text)
{
	return sysfs_emit(text, "%d\n", atomic_read(&sleepers));
}

static ssize_t sleepers_store(const struct module_attribute *attribute,
			      struct module_kobject *kobject, const char *text, size_t count)
{
	atomic_inc(&wakes);
	wake_up_all(&bed);
	return count;
}

static const struct module_attribute call_attribute = __ATTR(call, 0200, NULL, call_store);
static const struct module_attribute result_attribute = __ATTR(result, 0400, result_show, NULL);
static const struct module_attribute sleepers_attribute =
	__ATTR(sleepers, 0600, sleepers_show, sleepers_store);

static const struct attribute *attributes[] = {
	&call_attribute.attr,
	&result_attribute.attr,
	&sleepers_attribute.attr,
	NULL,
};

static int __init exits_init(void)
{
	return sysfs_create_files(&THIS_MODULE->mkobj.kobj, attributes);
}

/* When the kernel has removed the files, no call is in progress. */
static void __exit exits_exit(void)
{
	sysfs_remove_files(&THIS_MODULE->mkobj.kobj, attributes);
}

module_init(exits_init);
module_exit(exits_exit);

MODULE_DESCRIPTION("Functions that leave in every way, for the tests of rkprobe");
MODULE_LICENSE("GPL");
