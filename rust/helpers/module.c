// SPDX-License-Identifier: GPL-2.0

#include <linux/module.h>

struct kset *ktrace_modules(void);
struct module *ktrace_this_module(void);
bool ktrace_module_get(struct module *module);
void ktrace_module_put(struct module *module);

/*
 * The kset of /sys/module. The kernel does not export it, but this module's kobject points to it.
 */
struct kset *ktrace_modules(void)
{
#ifdef MODULE
	return THIS_MODULE->mkobj.kobj.kset;
#else
	return module_kset;
#endif
}

/* The module that contains ktrace, or NULL if ktrace is built in. */
struct module *ktrace_this_module(void)
{
	return THIS_MODULE;
}

/* Wraps functions that are inline if modules cannot be unloaded. */
bool ktrace_module_get(struct module *module)
{
	return try_module_get(module);
}

void ktrace_module_put(struct module *module)
{
	module_put(module);
}
