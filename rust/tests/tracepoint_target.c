// SPDX-License-Identifier: GPL-2.0
/*
 * A module with a tracepoint, for the tests of probes on those that come and go: writing a number to
 * its parameter "hit" hits the tracepoint.
 */

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/tracepoint.h>

DECLARE_TRACE(rkprobe_target,
	TP_PROTO(int a, const char *b, int c, int d, int e, int f, int g),
	TP_ARGS(a, b, c, d, e, f, g));
DEFINE_TRACE(rkprobe_target_tp,
	TP_PROTO(int a, const char *b, int c, int d, int e, int f, int g),
	TP_ARGS(a, b, c, d, e, f, g));

static int hit(const char *value, const struct kernel_param *param)
{
	int number;
	int error = kstrtoint(value, 0, &number);

	if (!error)
		trace_rkprobe_target_tp(number, "text", number + 2, number + 3, number + 4,
					number + 5, number + 6);
	return error;
}

static const struct kernel_param_ops hit_ops = { .set = hit };

module_param_cb(hit, &hit_ops, NULL, 0200);

MODULE_DESCRIPTION("A tracepoint for the tests of rkprobe");
MODULE_LICENSE("GPL");
