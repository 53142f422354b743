// SPDX-License-Identifier: GPL-2.0
/*
 * Functions with variables and with inlined copies of a function, for the tests of places in the
 * source. A number that is written to the parameter `run` is the argument of their calls.
 */

#include <linux/kernel.h>
#include <linux/module.h>

#include "lines.h"

enum lines_color {
	LINES_RED = 1,
	LINES_GREEN = 2,
};

struct lines_item {
	const char *name;
	u32 flags;
	enum lines_color color;
	unsigned int low : 3;
	unsigned int high : 5;
	bool is_good;
	char tag[8];
	short pair[2];
	struct {
		int x;
		long y;
	};
	struct lines_item *next;
	int (*call)(struct lines_item *item, int n);
};

int lines_target_one(struct lines_item *item, int n);
int lines_target_two(struct lines_item *item, int n);
int lines_target_local(struct lines_item *item, int n);
int lines_target_returns(struct lines_item *item, int n);

/* Each function writes it, so that the compiler keeps all code. */
static int last_result;

/* The compiler makes copies of it alone. */
static __always_inline int lines_target_copied(struct lines_item *item, int n)
{
	int sum = item->x + n;

	OPTIMIZER_HIDE_VAR(sum);
	WRITE_ONCE(last_result, sum);
	return sum;
}

noinline __noclone int lines_target_one(struct lines_item *item, int n)
{
	return lines_target_copied(item, n) + 1;
}

noinline __noclone int lines_target_two(struct lines_item *item, int n)
{
	int first = lines_target_copied(item, n);

	return first + lines_target_copied(item->next, n + 1);
}

/* The line of the second assignment, and that of the comment, which has no code. */
static int local_line = __LINE__ + 12;
static int comment_line = __LINE__ + 8;

noinline __noclone int lines_target_local(struct lines_item *item, int n)
{
	int local = n * 3;
	struct lines_item copy;
	int unused = n;

	/* No code. */
	OPTIMIZER_HIDE_VAR(local);
	WRITE_ONCE(last_result, local);
	WRITE_ONCE(last_result, local + item->x);
	copy = *item;
	OPTIMIZER_HIDE_VAR(local);
	barrier_data(&copy);
	return local + copy.x + unused;
}

/* Its variables are in registers that functions keep. The first return is before it takes these. */
noinline __noclone int lines_target_returns(struct lines_item *item, int n)
{
	static int number;
	int err, before;

	if (n < 0)
		return -ERANGE;
	before = n * 5;
	OPTIMIZER_HIDE_VAR(before);
	err = kstrtoint(item->name, 0, &number);
	WRITE_ONCE(last_result, item->x + before);
	return err;
}

/* Another file has a function with this name. */
static noinline __noclone int lines_target_same(int n)
{
	WRITE_ONCE(last_result, n);
	return n + 1;
}

static struct lines_item second = {
	.name = "second",
	.x = 200,
};

static struct lines_item first = {
	.name = "first",
	.flags = 0x42,
	.color = LINES_GREEN,
	.low = 5,
	.high = 21,
	.is_good = true,
	.tag = "a tag",
	.pair = { 1, 0x203 },
	.x = 100,
	.y = -7,
	.next = &second,
	.call = lines_target_one,
};

static int run(const char *value, const struct kernel_param *param)
{
	int n, err = kstrtoint(value, 0, &n);

	if (err)
		return err;
	lines_target_one(&first, n);
	lines_target_two(&first, n);
	lines_target_local(&first, n);
	lines_target_returns(&first, n);
	lines_target_same(n);
	lines_target_other(n);
	return 0;
}

static const struct kernel_param_ops run_ops = {
	.set = run,
};

module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "calls the functions with this number");

module_param(local_line, int, 0444);
MODULE_PARM_DESC(local_line, "a line of lines_target_local()");

module_param(comment_line, int, 0444);
MODULE_PARM_DESC(comment_line, "a line that has no code");

MODULE_DESCRIPTION("Functions for the tests of places in the source");
MODULE_LICENSE("GPL");
