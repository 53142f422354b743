// SPDX-License-Identifier: GPL-2.0

#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/tracepoint.h>

#include "handlers.h"

void ktrace_tracepoint_synchronize_unregister(void);
struct tracepoint *ktrace_module_tracepoint(const struct tp_module *tp_module, const char *name);

void ktrace_tracepoint_synchronize_unregister(void)
{
	tracepoint_synchronize_unregister();
}

/* Returns the tracepoint with this name in a module, or NULL. */
struct tracepoint *ktrace_module_tracepoint(const struct tp_module *tp_module, const char *name)
{
	const struct module *mod = tp_module->mod;
	struct tracepoint *tracepoint;
	unsigned int i;

	for (i = 0; i < mod->num_tracepoints; i++) {
		tracepoint = tracepoint_ptr_deref(mod->tracepoints_ptrs + i);
		if (!strcmp(tracepoint->name, name))
			return tracepoint;
	}
	return NULL;
}

DEFINE_PER_CPU(unsigned char, ktrace_handlers);
