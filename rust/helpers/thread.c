// SPDX-License-Identifier: GPL-2.0

#include <linux/cpuhotplug.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>
#include <linux/topology.h>
#include <uapi/linux/sched/types.h>

struct task_struct *ktrace_thread_create(int (*run)(void *), void *data, unsigned int cpu,
					 const char *name);
int ktrace_thread_set_fifo(unsigned int priority);
void ktrace_thread_sleep(bool *woken);
bool ktrace_thread_sleep_for(u64 ns);
void ktrace_thread_yield(void);
bool ktrace_is_kthread(int (*run)(void *));
int ktrace_thread_online(unsigned int cpu, struct hlist_node *node);
int ktrace_thread_offline(unsigned int cpu, struct hlist_node *node);
int ktrace_add_cpu_state(void);
int ktrace_add_cpu_instance(int state, struct hlist_node *node);
void ktrace_remove_cpu_instance(int state, struct hlist_node *node);
void ktrace_remove_cpu_state(int state);

/* Creates a thread, which does not run before it is woken. */
struct task_struct *ktrace_thread_create(int (*run)(void *), void *data, unsigned int cpu,
					 const char *name)
{
	struct task_struct *task;

	task = kthread_create_on_node(run, data, cpu_to_node(cpu), "%s/%u", name, cpu);
	if (!IS_ERR(task))
		kthread_bind(task, cpu);
	return task;
}

int ktrace_thread_set_fifo(unsigned int priority)
{
	const struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = SCHED_FIFO,
		.sched_priority = priority,
	};

	return sched_setattr_nocheck(current, &attr);
}

/* Sleeps until another task sets *woken and wakes the thread, or until the thread must stop. */
void ktrace_thread_sleep(bool *woken)
{
	for (;;) {
		set_current_state(TASK_IDLE);
		if (xchg(woken, false) || kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
}

/* Returns false if the thread was woken earlier. */
bool ktrace_thread_sleep_for(u64 ns)
{
	ktime_t time = ns_to_ktime(ns);
	bool is_over = false;

	set_current_state(TASK_IDLE);
	if (!kthread_should_stop())
		is_over = !schedule_hrtimeout(&time, HRTIMER_MODE_REL);
	__set_current_state(TASK_RUNNING);
	return is_over;
}

/* Lets other tasks run. Lets RCU's grace periods end even on a CPU without a tick. */
void ktrace_thread_yield(void)
{
	local_irq_disable();
	rcu_momentary_eqs();
	local_irq_enable();
	cond_resched();
}

/* Whether the current task is a kernel thread that runs this function. */
bool ktrace_is_kthread(int (*run)(void *))
{
	return kthread_func(current) == run;
}

int ktrace_add_cpu_state(void)
{
	return cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "ktrace/thread:online",
				       ktrace_thread_online, ktrace_thread_offline);
}

/* The kernel calls the startup function for each online CPU. */
int ktrace_add_cpu_instance(int state, struct hlist_node *node)
{
	return cpuhp_state_add_instance(state, node);
}

/* The kernel calls the teardown function for each online CPU. */
void ktrace_remove_cpu_instance(int state, struct hlist_node *node)
{
	cpuhp_state_remove_instance(state, node);
}

/* The state must have no instances. */
void ktrace_remove_cpu_state(int state)
{
	cpuhp_remove_multi_state(state);
}
