// SPDX-License-Identifier: GPL-2.0
/* A function with the same name as a function in target_module.c. */

#include <linux/kernel.h>
#include <linux/module.h>

static noinline __used int rkprobe_target_twice(int number)
{
	return number;
}
