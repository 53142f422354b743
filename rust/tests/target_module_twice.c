// SPDX-License-Identifier: GPL-2.0
/* The other function of a name that is in target.c. */

#include <linux/kernel.h>
#include <linux/module.h>

static noinline __used int rkprobe_target_twice(int number)
{
	return number;
}
