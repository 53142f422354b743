// SPDX-License-Identifier: GPL-2.0

#include <linux/percpu.h>

u64 ktrace_percpu_sum(const u64 __percpu *counter);
void *ktrace_per_cpu_ptr(void __percpu *area, unsigned int cpu);

u64 ktrace_percpu_sum(const u64 __percpu *counter)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(counter, cpu));
	return sum;
}

/* Returns NULL if the CPU is not possible. */
void *ktrace_per_cpu_ptr(void __percpu *area, unsigned int cpu)
{
	return cpu_possible(cpu) ? per_cpu_ptr(area, cpu) : NULL;
}
