// SPDX-License-Identifier: GPL-2.0
/*
 * An event in plain code, for the benchmark. A read of /dev/bench_plain calls a function: one that does nothing,
 * by default; one that records the event of plain_trace.h, where the parameter "c" is set; or that of
 * plain_event.rs.
 */

#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched.h>

#define CREATE_TRACE_POINTS
#include "plain_trace.h"

typedef void plain_function(u64 flags, int pid, const u64 *addresses);

void bench_set_plain(plain_function *function);

static void plain_nothing(u64 flags, int pid, const u64 *addresses)
{
}

static void plain_c(u64 flags, int pid, const u64 *addresses)
{
	trace_hit_plain(flags, pid, "/dev/bench_plain", addresses);
}

static plain_function *function = plain_nothing;

/* NULL for the one that does nothing. */
void bench_set_plain(plain_function *new)
{
	WRITE_ONCE(function, new ?: plain_nothing);
}
EXPORT_SYMBOL_GPL(bench_set_plain);

static int set_c(const char *value, const struct kernel_param *param)
{
	bool is_set;
	int error = kstrtobool(value, &is_set);

	if (!error)
		bench_set_plain(is_set ? plain_c : NULL);
	return error;
}

static const struct kernel_param_ops c_ops = { .set = set_c };
module_param_cb(c, &c_ops, NULL, 0200);
MODULE_PARM_DESC(c, "record the event of C");

static ssize_t plain_read(struct file *file, char __user *to, size_t len, loff_t *position)
{
	const u64 addresses[4] = { len, (u64)to, (u64)file, (u64)position };

	READ_ONCE(function)(file->f_flags, current->pid, addresses);
	return len;
}

static const struct file_operations plain_operations = {
	.owner = THIS_MODULE,
	.read = plain_read,
};

static struct miscdevice plain_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "bench_plain",
	.fops = &plain_operations,
};

module_misc_device(plain_device);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("an event in plain code");
