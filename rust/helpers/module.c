// SPDX-License-Identifier: GPL-2.0

#include <linux/module.h>

struct kset *ktrace_modules(void);
struct module *ktrace_this_module(void);

/* What is in /sys/module: not exported, but a module is in it itself. */
struct kset *ktrace_modules(void)
{
#ifdef MODULE
	return THIS_MODULE->mkobj.kobj.kset;
#else
	return module_kset;
#endif
}

/* The module that ktrace is in; NULL where it is built in. */
struct module *ktrace_this_module(void)
{
	return THIS_MODULE;
}
