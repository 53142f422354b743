// SPDX-License-Identifier: GPL-2.0

#include <linux/cpu.h>
#include <linux/percpu.h>
#include <linux/smp.h>

u64 ktrace_percpu_sum(const u64 __percpu *counter);
void ktrace_percpu_reset(u64 __percpu *counters, size_t count);
void *ktrace_per_cpu_ptr(void __percpu *area, unsigned int cpu);

u64 ktrace_percpu_sum(const u64 __percpu *counter)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(counter, cpu));
	return sum;
}

struct reset {
	u64 __percpu *counters;
	size_t count;
};

static void reset_copy(const struct reset *reset, int cpu)
{
	u64 *copy = per_cpu_ptr(reset->counters, cpu);
	size_t i;

	for (i = 0; i < reset->count; i++)
		WRITE_ONCE(copy[i], 0);
}

static void reset_own_copy(void *reset)
{
	reset_copy(reset, smp_processor_id());
}

/*
 * Each CPU resets its own copy, in an interrupt. So no CPU adds to a value that it has read before.
 * Process context; sleeps.
 */
void ktrace_percpu_reset(u64 __percpu *counters, size_t count)
{
	struct reset reset = { .counters = counters, .count = count };
	int cpu;

	cpus_read_lock();
	on_each_cpu(reset_own_copy, &reset, true);
	for_each_possible_cpu(cpu)
		if (!cpu_online(cpu))
			reset_copy(&reset, cpu);
	cpus_read_unlock();
}

/* Returns NULL if the CPU is not possible. */
void *ktrace_per_cpu_ptr(void __percpu *area, unsigned int cpu)
{
	return cpu_possible(cpu) ? per_cpu_ptr(area, cpu) : NULL;
}
