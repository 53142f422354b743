// SPDX-License-Identifier: GPL-2.0
/*
 * A module for tests of probes in modules that load and unload. Writing a number to its parameter
 * "hit" hits the tracepoint, and calls the functions. After the number -1, the task waits until
 * this module unloads and then another module, and calls the functions once more. The number -2
 * does the same, but the unloading of this module first waits until its task gets a signal.
 */

#include <linux/completion.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/tracepoint.h>

DECLARE_TRACE(rkprobe_target,
	TP_PROTO(int a, const char *b, int c, int d, int e, int f, int g),
	TP_ARGS(a, b, c, d, e, f, g));
DEFINE_TRACE(rkprobe_target_tp,
	TP_PROTO(int a, const char *b, int c, int d, int e, int f, int g),
	TP_ARGS(a, b, c, d, e, f, g));

int rkprobe_target_function(const char *text, int number);
int rkprobe_target_deep(int calls);
int rkprobe_target_no_probe(int number);
int rkprobe_target_init(void);

static const char rkprobe_target_text[] = "data of the module";
static int rkprobe_target_sum;

noinline __noclone int rkprobe_target_function(const char *text, int number)
{
	return number + text[0];
}

/* Calls itself until @calls calls are nested. */
noinline __noclone int rkprobe_target_deep(int calls)
{
	int deeper = calls > 1 ? rkprobe_target_deep(calls - 1) : 0;

	OPTIMIZER_HIDE_VAR(deeper);
	return deeper + 1;
}

/* A function that kprobes may not probe. */
noinline __noclone int rkprobe_target_no_probe(int number)
{
	return number - 1;
}
NOKPROBE_SYMBOL(rkprobe_target_no_probe);

/* target_module_twice.c has another function with this name. */
static noinline __used int rkprobe_target_twice(int number)
{
	return number - 2;
}

static noinline void hit_all(int number)
{
	const char *text = rkprobe_target_text;
	int calls = 3;

	/* The compiler clones functions for calls with known arguments. */
	OPTIMIZER_HIDE_VAR(text);
	OPTIMIZER_HIDE_VAR(calls);
	trace_rkprobe_target_tp(number, "text", number + 2, number + 3, number + 4, number + 5,
				number + 6);
	/* The compiler removes a call whose result is unused. */
	WRITE_ONCE(rkprobe_target_sum,
		   rkprobe_target_function(text, number) + rkprobe_target_deep(calls));
}

static bool is_going;
static DECLARE_COMPLETION(other_is_going);

static int module_changed(struct notifier_block *block, unsigned long state, void *module)
{
	if (state != MODULE_STATE_GOING)
		return NOTIFY_DONE;
	if (module == THIS_MODULE)
		is_going = true;
	else if (is_going)
		complete(&other_is_going);
	return NOTIFY_DONE;
}

/* Runs after the notifiers of kprobes and of ktrace. */
static struct notifier_block last_notifier = {
	.notifier_call = module_changed,
	.priority = -2,
};

static int module_leaving(struct notifier_block *block, unsigned long state, void *module)
{
	if (state != MODULE_STATE_GOING || module != THIS_MODULE)
		return NOTIFY_DONE;
	while (!signal_pending(current))
		schedule_timeout_interruptible(MAX_SCHEDULE_TIMEOUT);
	return NOTIFY_DONE;
}

/* Runs after the first notifier of ktrace, which is registered earlier, and before kprobes. */
static struct notifier_block second_notifier = {
	.notifier_call = module_leaving,
	.priority = 1,
};

struct change {
	int (*make)(struct notifier_block *block);
	struct notifier_block *block;
	int error;
	struct completion made;
};

static int make_change(void *data)
{
	struct change *change = data;

	change->error = change->make(change->block);
	complete(&change->made);
	return 0;
}

/*
 * Registers or unregisters a notifier in a thread of its own. A write to a parameter holds mutexes
 * of sysfs. A read of a parameter takes them with the mutex of a seq_file held, and rkprobe reads
 * a seq_file in a notifier. So lockdep would report a deadlock between different seq_files.
 */
static int in_thread(int (*make)(struct notifier_block *block), struct notifier_block *block)
{
	struct change change = { .make = make, .block = block };
	struct task_struct *task;

	init_completion(&change.made);
	task = kthread_create(make_change, &change, "rkprobe_target");
	/* A task with a fatal signal gets no thread. It must still unregister. */
	if (IS_ERR(task))
		return make(block);
	get_task_struct(task);
	wake_up_process(task);
	wait_for_completion(&change.made);
	/* The thread leaves the module before this returns. */
	kthread_stop_put(task);
	return change.error;
}

static int hit(const char *value, const struct kernel_param *param)
{
	int number;
	int error = kstrtoint(value, 0, &number);

	if (error)
		return error;
	if (number == -2)
		error = in_thread(register_module_notifier, &second_notifier);
	if (!error && (number == -1 || number == -2))
		error = in_thread(register_module_notifier, &last_notifier);
	if (error)
		return error;
	hit_all(number);
	if (number == -1 || number == -2) {
		/* The kernel keeps the module's memory until the task has left this function. */
		wait_for_completion(&other_is_going);
		in_thread(unregister_module_notifier, &last_notifier);
		hit_all(number);
	}
	if (number == -2)
		in_thread(unregister_module_notifier, &second_notifier);
	return 0;
}

static const struct kernel_param_ops hit_ops = { .set = hit };

/*
 * The kernel frees this function after it has run. It is not static, so that it has its own symbol
 * and not only its alias init_module.
 */
int __init rkprobe_target_init(void)
{
	return 0;
}

static void __exit rkprobe_target_exit(void)
{
}

module_init(rkprobe_target_init);
module_exit(rkprobe_target_exit);
module_param_cb(hit, &hit_ops, NULL, 0200);

MODULE_DESCRIPTION("A tracepoint and functions for the tests of rkprobe");
MODULE_LICENSE("GPL");
