// SPDX-License-Identifier: GPL-2.0
/* The variants of ktrace in the kernel tree (in_tree.rs), with the exports of built_in.c. */

#include <linux/kallsyms.h>
#include <linux/rcupdate.h>
#include <linux/rethook.h>
#include <linux/slab.h>

#include "trace.h"
#include "trace_dynevent.h"

#include "built_in.h"

void ktrace_lock_event_mutex(void);
void ktrace_unlock_event_mutex(void);

void ktrace_lock_event_mutex(void)
{
	mutex_lock(&event_mutex);
}

void ktrace_unlock_event_mutex(void)
{
	mutex_unlock(&event_mutex);
}

static int count_symbol(void *count, unsigned long address)
{
	++*(unsigned int *)count;
	return 0;
}

/* Returns the number of symbols of the kernel image with this name. */
unsigned int ktrace_count_symbols(const char *name);

unsigned int ktrace_count_symbols(const char *name)
{
	unsigned int count = 0;

	kallsyms_on_each_match_symbol(count_symbol, name, &count);
	return count;
}

struct found_symbols {
	unsigned long *addresses;
	unsigned int count, room;
};

static int find_symbol(void *data, unsigned long address)
{
	struct found_symbols *found = data;

	if (found->count == found->room)
		return 1;
	found->addresses[found->count++] = address;
	return 0;
}

/*
 * Writes the addresses of the symbols with this name, at most ROOM of them. Returns their number.
 */
unsigned int ktrace_find_symbols(const char *name, unsigned long *addresses, unsigned int room);

unsigned int ktrace_find_symbols(const char *name, unsigned long *addresses, unsigned int room)
{
	struct found_symbols found = { .addresses = addresses, .room = room };

	kallsyms_on_each_match_symbol(find_symbol, name, &found);
	return found.count;
}

#ifdef CONFIG_RETHOOK
/* Handlers that are running have finished when this function returns. */
void ktrace_free_rethook(struct rethook *room);

void ktrace_free_rethook(struct rethook *room)
{
	rethook_free(room);
	synchronize_rcu();
}
#endif

/*
 * C counterpart of Callbacks in ktrace/event/dyn_event/in_tree.rs. The kernel calls these with
 * event_mutex held.
 */
struct ktrace_dyn_event_callbacks {
	void (*show)(struct seq_file *m, unsigned long number);
	bool (*is_busy)(unsigned long number);
	int (*remove)(unsigned long number);
	bool (*matches)(unsigned long number, const char *system, const char *event, int argc,
			const char **argv);
};

/*
 * An entry of dynamic_events, for the probe with a number. Each entry points to its callbacks, so
 * the callbacks stay valid while the entry is in the kernel's list.
 *
 * The kernel iterates over this list and calls the callbacks. A callback must not remove an entry
 * from the list, because the kernel may have a pointer to the entry. So an entry that is removed in
 * a callback loses its callbacks immediately, and leaves the list later. event_mutex protects all
 * of this.
 */
struct ktrace_dyn_event {
	struct dyn_event event;
	/* NULL if the entry was removed. */
	const struct ktrace_dyn_event_callbacks *callbacks;
	unsigned long number;
	/* Whether the entry ever was in the list. A task that holds event_mutex may then use it. */
	bool was_listed;
	/* Link in freed_in_callback. */
	struct list_head freed;
};

/* Entries to free that are still in the kernel's list. */
static LIST_HEAD(freed_in_callback);

/* The task that runs a callback with event_mutex held, or NULL. */
static struct task_struct *caller;

/* Executes a command. The kernel calls this only while `operations` is in its list. */
static int (*create_event)(const char *command);

/* Frees the entries that a callback freed. The caller must not be in a callback. */
static void free_dyn_events(void)
{
	struct ktrace_dyn_event *event, *next;

	lockdep_assert_held(&event_mutex);
	list_for_each_entry_safe(event, next, &freed_in_callback, freed) {
		list_del(&event->freed);
		dyn_event_remove(&event->event);
		kfree(event);
	}
}

static struct ktrace_dyn_event *enter_callback(struct dyn_event *event)
{
	lockdep_assert_held(&event_mutex);
	WRITE_ONCE(caller, current);
	return container_of(event, struct ktrace_dyn_event, event);
}

static void leave_callback(void)
{
	WRITE_ONCE(caller, NULL);
}

static int dyn_event_create_probe(const char *command)
{
	return create_event(command);
}

static int dyn_event_show(struct seq_file *m, struct dyn_event *dyn_event)
{
	struct ktrace_dyn_event *event = enter_callback(dyn_event);

	if (event->callbacks)
		event->callbacks->show(m, event->number);
	leave_callback();
	return 0;
}

static bool dyn_event_is_busy(struct dyn_event *dyn_event)
{
	struct ktrace_dyn_event *event = enter_callback(dyn_event);
	bool ret = event->callbacks && event->callbacks->is_busy(event->number);

	leave_callback();
	return ret;
}

/* The kernel allows this callback to remove its own entry, but no other entry. */
static int dyn_event_free(struct dyn_event *dyn_event)
{
	struct ktrace_dyn_event *event = enter_callback(dyn_event);
	int ret = event->callbacks ? event->callbacks->remove(event->number) : 0;

	leave_callback();
	if (!event->callbacks) {
		dyn_event_remove(&event->event);
		if (!list_empty(&event->freed)) {
			list_del(&event->freed);
			kfree(event);
		}
	}
	return ret;
}

static bool dyn_event_matches(const char *system, const char *name, int argc, const char **argv,
			      struct dyn_event *dyn_event)
{
	struct ktrace_dyn_event *event = enter_callback(dyn_event);
	bool ret = event->callbacks &&
		   event->callbacks->matches(event->number, system, name, argc, argv);

	leave_callback();
	return ret;
}

static struct dyn_event_operations operations = {
	.create = dyn_event_create_probe,
	.show = dyn_event_show,
	.is_busy = dyn_event_is_busy,
	.free = dyn_event_free,
	.match = dyn_event_matches,
};

int ktrace_register_dyn_events(int (*create)(const char *command));
void ktrace_unregister_dyn_events(void);
struct ktrace_dyn_event *ktrace_new_dyn_event(void);
void ktrace_add_dyn_event(struct ktrace_dyn_event *event,
			  const struct ktrace_dyn_event_callbacks *to, unsigned long number);
void ktrace_remove_dyn_event(struct ktrace_dyn_event *event);
bool ktrace_free_needs_event_mutex(const struct ktrace_dyn_event *event);
void ktrace_free_dyn_event(struct ktrace_dyn_event *event);
void ktrace_exit_dyn_events(void);

int ktrace_register_dyn_events(int (*create)(const char *command))
{
	int ret;

	if (cmpxchg(&create_event, NULL, create))
		return -EBUSY;
	ret = dyn_event_register(&operations);
	if (ret)
		WRITE_ONCE(create_event, NULL);
	return ret;
}

/* A task that writes a command holds the mutex until the command has been executed. */
void ktrace_unregister_dyn_events(void)
{
	mutex_lock(&dyn_event_ops_mutex);
	list_del(&operations.list);
	mutex_unlock(&dyn_event_ops_mutex);
	WRITE_ONCE(create_event, NULL);
}

struct ktrace_dyn_event *ktrace_new_dyn_event(void)
{
	struct ktrace_dyn_event *event = kzalloc_obj(*event);

	if (event) {
		dyn_event_init(&event->event, &operations);
		INIT_LIST_HEAD(&event->freed);
	}
	return event;
}

/* The caller must hold event_mutex. Does nothing if the entry is listed. */
void ktrace_add_dyn_event(struct ktrace_dyn_event *event,
			  const struct ktrace_dyn_event_callbacks *to, unsigned long number)
{
	lockdep_assert_held(&event_mutex);
	if (event->callbacks)
		return;
	event->callbacks = to;
	event->number = number;
	event->was_listed = true;
	if (list_empty(&event->event.list))
		list_add_tail(&event->event.list, &dyn_event_list);
}

/* The caller must hold event_mutex. */
void ktrace_remove_dyn_event(struct ktrace_dyn_event *event)
{
	lockdep_assert_held(&event_mutex);
	event->callbacks = NULL;
	if (caller)
		return;
	dyn_event_remove(&event->event);
	free_dyn_events();
}

/*
 * Whether the caller must take event_mutex to free the entry. No other code may add the entry any
 * more.
 */
bool ktrace_free_needs_event_mutex(const struct ktrace_dyn_event *event)
{
	return event->was_listed && READ_ONCE(caller) != current;
}

/* If the entry ever was in the kernel's list, the caller must hold event_mutex. */
void ktrace_free_dyn_event(struct ktrace_dyn_event *event)
{
	if (!list_empty(&event->event.list))
		ktrace_remove_dyn_event(event);
	if (!list_empty(&event->event.list))
		list_add(&event->freed, &freed_in_callback);
	else
		kfree(event);
}

/* The caller must have freed all entries. No callback runs after this function. */
void ktrace_exit_dyn_events(void)
{
	mutex_lock(&event_mutex);
	free_dyn_events();
	mutex_unlock(&event_mutex);
}
