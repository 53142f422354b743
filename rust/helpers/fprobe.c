// SPDX-License-Identifier: GPL-2.0
/*
 * ktrace::fprobe: calls the handlers of probes that have no exit handler.
 *
 * The kernel's fprobe also calls such handlers, by one ftrace_ops for all probes. It finds the
 * probes of a function in an rhltable, with hash and comparison functions, which takes more
 * instructions than the rest of its work. The table here has a fixed size.
 *
 * All probes share one ftrace_ops, and not one each, because where two ftrace_ops trace the same
 * function, ftrace compares the function with the filter of every ftrace_ops in the kernel. Also,
 * to unregister the ftrace_ops of a module takes a grace period of RCU tasks. So these are
 * registered while the module is loaded. Without probes their filter has only the function of
 * never_called.c, which is also excluded.
 */

#include <linux/build_bug.h>
#include <linux/context_tracking.h>
#include <linux/fprobe.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/trace_recursion.h>
#include <linux/uaccess.h>

/* C counterpart of ktrace::fprobe::sites::Site: a probe at the ftrace site of a function. */
struct ktrace_site {
	struct hlist_node node;
	unsigned long address;
	struct fprobe *probe;
};

static_assert(sizeof(struct ktrace_site) == 4 * sizeof(long));
static_assert(offsetof(struct ktrace_site, address) == 2 * sizeof(long));

bool ktrace_has_site(unsigned long address);
void ktrace_add_sites(struct ktrace_site *sites, size_t count);
void ktrace_remove_sites(struct ktrace_site *sites, size_t count);
void ktrace_remove_sites_in(struct module *module);
struct ftrace_ops *ktrace_site_ops(void);
int ktrace_graph_index(const struct fgraph_ops *ops);
int ktrace_keep_graph_index(void);
void ktrace_free_graph_index(void);
void ktrace_never_called(void);

#define KTRACE_SITE_BITS 11

static struct hlist_head ktrace_site_table[1 << KTRACE_SITE_BITS];

/* Most functions are aligned to 16 bytes, so their lowest bits are the same. */
static __always_inline struct hlist_head *ktrace_site_bucket(unsigned long address)
{
	return &ktrace_site_table[(address >> 4) % ARRAY_SIZE(ktrace_site_table)];
}

/* Whether RCU watches this CPU. Preemption must be disabled. */
static __always_inline bool ktrace_rcu_watches(void)
{
#ifdef CONFIG_CONTEXT_TRACKING_IDLE
	/* Without a call, rcu_is_watching(). */
	return rcu_is_watching_curr_cpu();
#else
	return rcu_is_watching();
#endif
}

/* Counts a call inside a handler of the same context as missed. */
static noinline notrace void ktrace_miss_function(unsigned long address)
{
	struct ktrace_site *site;

	preempt_disable_notrace();
	if (ktrace_rcu_watches()) {
		hlist_for_each_entry_rcu_notrace(site, ktrace_site_bucket(address), node) {
			struct fprobe *probe = site->probe;

			if (site->address == address &&
			    !(READ_ONCE(probe->flags) & FPROBE_FL_DISABLED))
				WRITE_ONCE(probe->nmissed, READ_ONCE(probe->nmissed) + 1);
		}
	}
	preempt_enable_notrace();
}
NOKPROBE_SYMBOL(ktrace_miss_function);

/*
 * ftrace calls this function at the entry of each function that has a site. As in fprobe, no
 * handler runs where RCU is not watching, nor inside another handler of the same context.
 */
static void notrace ktrace_enter_function(unsigned long address, unsigned long caller,
					  struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	struct ktrace_site *site;
	int bit;

	/* With this option, the lock warns where RCU is not watching. */
	if (IS_ENABLED(CONFIG_FTRACE_VALIDATE_RCU_IS_WATCHING) && !rcu_is_watching())
		return;
	bit = ftrace_test_recursion_trylock(address, caller);
	if (bit < 0) {
		ktrace_miss_function(address);
		return;
	}
	/* The lock has disabled preemption, so this is the state of this CPU until the end. */
	if (!ktrace_rcu_watches())
		goto unlock;
	hlist_for_each_entry_rcu_notrace(site, ktrace_site_bucket(address), node) {
		struct fprobe *probe = site->probe;

		if (site->address == address && !(READ_ONCE(probe->flags) & FPROBE_FL_DISABLED))
			probe->entry_handler(probe, address, caller, fregs, NULL);
	}
unlock:
	ftrace_test_recursion_unlock(bit);
}
NOKPROBE_SYMBOL(ktrace_enter_function);

/* Its filter has the addresses of all sites, and ktrace_never_called(). */
struct ftrace_ops *ktrace_site_ops(void)
{
	static struct ftrace_ops ops = {
		.func = ktrace_enter_function,
		.flags = FTRACE_OPS_FL_SAVE_ARGS,
	};

	return &ops;
}

/* The caller of the following functions prevents that two of them run at the same time. */

/* Whether a probe has a site at the address. */
bool ktrace_has_site(unsigned long address)
{
	struct ktrace_site *site;

	hlist_for_each_entry(site, ktrace_site_bucket(address), node) {
		if (site->address == address)
			return true;
	}
	return false;
}

/* Adds sites. They must stay in place until they are removed and an RCU grace period is over. */
void ktrace_add_sites(struct ktrace_site *sites, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		hlist_add_head_rcu(&sites[i].node, ktrace_site_bucket(sites[i].address));
}

/* Removes sites. Handlers may run until the end of an RCU grace period. */
void ktrace_remove_sites(struct ktrace_site *sites, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		hlist_del_init_rcu(&sites[i].node);
}

/* Removes the sites in a module. Their memory stays with their probes. */
void ktrace_remove_sites_in(struct module *module)
{
	struct ktrace_site *site;
	struct hlist_node *next;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ktrace_site_table); i++) {
		hlist_for_each_entry_safe(site, next, &ktrace_site_table[i], node) {
			if (within_module(site->address, module))
				hlist_del_init_rcu(&site->node);
		}
	}
}

/* The index that registered fgraph_ops have, or had last. -1 if they cannot be read. */
int ktrace_graph_index(const struct fgraph_ops *ops)
{
	int index;

	return copy_from_kernel_nofault(&index, &ops->idx, sizeof(index)) ? -1 : index;
}

static void ktrace_never_exits(struct fprobe *probe, unsigned long address, unsigned long caller,
			       struct ftrace_regs *fregs, void *data)
{
}

/* At a function that is never called, so it has no calls in flight. */
static struct fprobe ktrace_index_keeper = {
	.exit_handler = ktrace_never_exits,
};

/*
 * Gives fprobe an index, if it has none, and keeps it until ktrace_free_graph_index(). The caller
 * excludes other callers.
 */
int ktrace_keep_graph_index(void)
{
	unsigned long address = (unsigned long)ktrace_never_called;

	return register_fprobe_ips(&ktrace_index_keeper, &address, 1);
}

void ktrace_free_graph_index(void)
{
	unregister_fprobe(&ktrace_index_keeper);
}
