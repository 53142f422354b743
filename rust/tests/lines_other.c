// SPDX-License-Identifier: GPL-2.0
/*
 * Another file of lines_target, with a function that has the name of one in lines.c.
 */

#include <linux/compiler.h>

#include "lines.h"

static int other_result;

static noinline __noclone int lines_target_same(int other)
{
	WRITE_ONCE(other_result, other);
	return other + 2;
}

noinline int lines_target_other(int n)
{
	return lines_target_same(n * 2) + 1;
}
