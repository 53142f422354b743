// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that call each other, for the tests of call trees. A number that is written to the
 * parameter `run` is the argument of calls_target_root().
 */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/irq_work.h>
#include <linux/kernel.h>
#include <linux/module.h>

int calls_target_root(int n);
int calls_target_first(int n);
int calls_target_second(int n);
int calls_target_inner(int n);
int calls_target_last(int n);
int calls_target_deep(int n);
int calls_target_wait(int n);
void calls_target_irq(struct irq_work *work);

/* Each function writes it, so that the compiler keeps all calls. */
static int last_argument;

noinline __noclone int calls_target_inner(int n)
{
	WRITE_ONCE(last_argument, n);
	return n + 1;
}

noinline __noclone int calls_target_last(int n)
{
	WRITE_ONCE(last_argument, n);
	return -n;
}

noinline __noclone int calls_target_first(int n)
{
	int inner = calls_target_inner(n);

	return inner + calls_target_inner(inner);
}

/* A tail call. */
noinline __noclone int calls_target_second(int n)
{
	WRITE_ONCE(last_argument, n);
	return calls_target_last(n);
}

/* So many calls are in progress at the same time. */
noinline __noclone int calls_target_deep(int n)
{
	int result = 0;

	if (n > 1)
		result = calls_target_deep(n - 1);
	WRITE_ONCE(last_argument, n);
	return result + 1;
}

noinline __noclone int calls_target_wait(int n)
{
	return msleep_interruptible(n);
}

noinline __noclone void calls_target_irq(struct irq_work *work)
{
	calls_target_first(7);
}

/*
 * 1000 and more: so many calls of calls_target_inner() beyond 1000. 500 and more: the depth beyond
 * 500. 200 and more: waits for so many times 10 ms beyond 200. 100 and more: calls itself so often
 * beyond 100. 99: an interrupt calls functions. 98: waits for a signal. Odd numbers fail.
 */
noinline __noclone int calls_target_root(int n)
{
	int i;

	if (n >= 1000) {
		for (i = 1000; i < n; i++)
			calls_target_inner(i);
	} else if (n >= 500) {
		calls_target_deep(n - 500);
	} else if (n >= 200) {
		calls_target_wait(10 * (n - 200));
	} else if (n > 100) {
		calls_target_root(n - 1);
	} else if (n == 99) {
		struct irq_work work = IRQ_WORK_INIT_HARD(calls_target_irq);

		irq_work_queue(&work);
		irq_work_sync(&work);
	} else if (n == 98) {
		calls_target_wait(10000000);
	} else {
		calls_target_first(n);
		calls_target_second(n);
	}
	WRITE_ONCE(last_argument, n);
	return n % 2 ? -EINVAL : n;
}

static int run(const char *value, const struct kernel_param *param)
{
	int n, err = kstrtoint(value, 0, &n);

	if (err)
		return err;
	calls_target_root(n);
	return 0;
}

static const struct kernel_param_ops run_ops = {
	.set = run,
};

module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "calls calls_target_root() with this number");

MODULE_DESCRIPTION("Functions for the tests of rkprobe's call trees");
MODULE_LICENSE("GPL");
