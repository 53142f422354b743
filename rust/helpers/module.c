// SPDX-License-Identifier: GPL-2.0

#include <linux/module.h>

struct kset *ktrace_modules(void);
struct module *ktrace_this_module(void);
bool ktrace_module_get(struct module *module);
void ktrace_module_put(struct module *module);

/* The kset of /sys/module. It is not exported, but this module is in it. */
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

/* Inline functions where modules cannot be unloaded. */
bool ktrace_module_get(struct module *module)
{
	return try_module_get(module);
}

void ktrace_module_put(struct module *module)
{
	module_put(module);
}
