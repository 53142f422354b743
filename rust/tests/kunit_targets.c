// SPDX-License-Identifier: GPL-2.0
/*
 * The functions that the KUnit tests of ktrace probe. They are in C, because ftrace cannot trace
 * functions in Rust. Only the tests call them.
 */

#include <kunit/test.h>
#include <kunit/test-bug.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kprobes.h>
#include <linux/mman.h>
#include <linux/mount.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

/* Another module also includes this file. */
#include "contexts.c"

extern u64 ktrace_target_data;

bool ktrace_is_in_nmi(void);
u64 ktrace_target_add(u64 a, u64 b);
u64 ktrace_target_subtract(u64 a, u64 b);
u64 ktrace_target_eight(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h);
u64 ktrace_target_depth(u64 n);
u64 ktrace_target_tail(u64 a, u64 b);
void ktrace_target_never(void);
u64 ktrace_target_no_probe(u64 a);
u64 ktrace_target_no_trace(u64 a);
u64 ktrace_target_wait(u64 a);
void ktrace_target_visit(void *unused);
void ktrace_wait_for_call(void);
void ktrace_end_call(void);
unsigned int ktrace_visit_cpus(void);
bool ktrace_is_bound_to(unsigned int cpu);
unsigned int ktrace_priority(void);
unsigned int ktrace_count_staying(const char *name);
unsigned long ktrace_user_page(u64 last_word);
int ktrace_count_in_trace(const char *first, const char *second, const char *third);
bool ktrace_read_dynamic_events(void);

u64 ktrace_target_data = 1;

/* Whether the kernel takes the context for that of an NMI. */
bool ktrace_is_in_nmi(void)
{
	return in_nmi();
}

noinline u64 ktrace_target_add(u64 a, u64 b)
{
	return a + b;
}

noinline u64 ktrace_target_subtract(u64 a, u64 b)
{
	return a - b;
}

noinline u64 ktrace_target_eight(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h)
{
	return a + b + c + d + e + f + g + h;
}

/* Calls itself @n times, and returns @n. */
noinline u64 ktrace_target_depth(u64 n)
{
	u64 below = 0;

	if (n) {
		below = ktrace_target_depth(n - 1);
		/* This keeps the compiler from turning the recursion into a loop. */
		OPTIMIZER_HIDE_VAR(below);
		below++;
	}
	return below;
}

/* Ends with a jump to ktrace_target_add(). */
noinline u64 ktrace_target_tail(u64 a, u64 b)
{
	return ktrace_target_add(a + 1, b);
}

/* Never returns. No code calls it. */
noinline void ktrace_target_never(void)
{
	for (;;)
		cpu_relax();
}

noinline u64 ktrace_target_no_probe(u64 a)
{
	return a + 1;
}
NOKPROBE_SYMBOL(ktrace_target_no_probe);

noinline notrace u64 ktrace_target_no_trace(u64 a)
{
	return a + 1;
}

static DECLARE_COMPLETION(in_flight);
static DECLARE_COMPLETION(end_it);

/* Returns only after another task releases it. */
noinline u64 ktrace_target_wait(u64 a)
{
	complete(&in_flight);
	wait_for_completion(&end_it);
	return a + 1;
}

void ktrace_wait_for_call(void)
{
	wait_for_completion(&in_flight);
}

void ktrace_end_call(void)
{
	complete(&end_it);
}

noinline void ktrace_target_visit(void *unused)
{
	barrier();
}

/* Calls ktrace_target_visit() once on each CPU, and returns the number of CPUs. */
unsigned int ktrace_visit_cpus(void)
{
	unsigned int cpus;

	cpus_read_lock();
	cpus = num_online_cpus();
	on_each_cpu(ktrace_target_visit, NULL, 1);
	cpus_read_unlock();
	return cpus;
}

/* Whether this CPU is the only one that the current task may run on. */
bool ktrace_is_bound_to(unsigned int cpu)
{
	return cpumask_equal(&current->cpus_mask, cpumask_of(cpu));
}

/* The real-time priority of the current task, or 0. */
unsigned int ktrace_priority(void)
{
	return current->rt_priority;
}

/* The number of tasks that cannot leave their CPU and whose name begins with @name. */
unsigned int ktrace_count_staying(const char *name)
{
	unsigned int count = 0;
	struct task_struct *task;

	rcu_read_lock();
	for_each_process(task)
		count += READ_ONCE(task->migration_disabled) && strstarts(task->comm, name);
	rcu_read_unlock();
	return count;
}

/*
 * Maps a page of user memory with @last_word at its end, and no memory after it. Returns the
 * address of the page, or 0 on failure. KUnit unmaps the page at the end of the test.
 */
unsigned long ktrace_user_page(u64 last_word)
{
	unsigned long address, last;

	address = kunit_vm_mmap(kunit_get_current_test(), NULL, 0, 2 * PAGE_SIZE,
				PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (!address || IS_ERR_VALUE(address) || vm_munmap(address + PAGE_SIZE, PAGE_SIZE))
		return 0;
	last = address + PAGE_SIZE - sizeof(last_word);
	if (copy_to_user((void __user *)last, &last_word, sizeof(last_word)))
		return 0;
	return address;
}

/*
 * Opens a file of tracefs. Returns NULL on failure.
 *
 * KUnit runs in a kernel thread, which sees no mounts since Linux 7.3. So this function mounts
 * tracefs only for this file.
 */
static struct file *open_in_tracefs(const char *name)
{
	struct file_system_type *type = get_fs_type("tracefs");
	struct vfsmount *mount;
	struct file *file;

	if (!type)
		return NULL;
	mount = vfs_kern_mount(type, SB_KERNMOUNT, "tracefs", NULL);
	if (IS_ERR(mount))
		return NULL;
	file = file_open_root_mnt(mount, name, O_RDONLY, 0);
	mntput(mount);
	return IS_ERR(file) ? NULL : file;
}

/*
 * Counts the lines of the trace that have the three strings in this order. Returns -1 on failure.
 */
int ktrace_count_in_trace(const char *first, const char *second, const char *third)
{
	const size_t size = SZ_1M;
	char *text = kvzalloc(size, GFP_KERNEL);
	struct file *file = open_in_tracefs("trace");
	struct kvec vec;
	struct iov_iter iter;
	struct kiocb iocb;
	size_t len = 0;
	char *line, *rest, *found;
	int count = 0;
	ssize_t ret;

	if (!text || !file) {
		count = -1;
		goto out;
	}
	init_sync_kiocb(&iocb, file);
	do {
		vec = (struct kvec) { text + len, size - 1 - len };
		iov_iter_kvec(&iter, ITER_DEST, &vec, 1, vec.iov_len);
		ret = seq_read_iter(&iocb, &iter);
		len += max(ret, 0);
	} while (ret > 0);
	for (line = text; (rest = strchr(line, '\n')); line = rest + 1) {
		char next = rest[1];

		rest[1] = 0;
		found = strstr(line, first);
		found = found ? strstr(found, second) : NULL;
		count += found && strstr(found, third);
		rest[1] = next;
	}
out:
	if (file)
		fput(file);
	kvfree(text);
	return count;
}

/* Reads the file to its end. Returns false if the file cannot be opened. */
bool ktrace_read_dynamic_events(void)
{
	struct kvec vec = { .iov_len = PAGE_SIZE };
	struct iov_iter iter;
	struct file *file;
	struct kiocb iocb;
	ssize_t ret;

	file = open_in_tracefs("dynamic_events");
	if (!file)
		return false;
	vec.iov_base = kmalloc(vec.iov_len, GFP_KERNEL);
	init_sync_kiocb(&iocb, file);
	do {
		iov_iter_kvec(&iter, ITER_DEST, &vec, 1, vec.iov_len);
		ret = vec.iov_base ? seq_read_iter(&iocb, &iter) : 0;
	} while (ret > 0);
	kfree(vec.iov_base);
	fput(file);
	return true;
}
