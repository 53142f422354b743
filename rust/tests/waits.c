// SPDX-License-Identifier: GPL-2.0
/*
 * A module for the tests of waits. A write of letters to /proc/waits_target takes the steps of the
 * letters one after the other, and undoes them in reverse order. Signals end all waits, or those of
 * the holder, so the module can be unloaded. The kernel stores for which rw_semaphore a task
 * waits only if the wait is uninterruptible.
 *
 *	a b	lock the mutex of this letter
 *	s	take the semaphore
 *	r w	lock the rw_semaphore to read or to write
 *	i	lock the inode of the working directory
 *	&	wait until both mutexes are locked
 *	c	wait for the completion, which a write of "!" completes
 *	z	sleep until a signal arrives
 */

#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/fs_struct.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/semaphore.h>
#include <linux/uaccess.h>

/* The most letters of a write. */
#define MOST 8

static DEFINE_MUTEX(waits_target_a);
static DEFINE_MUTEX(waits_target_b);
static struct rw_semaphore waits_target_rwsem;
static DEFINE_SEMAPHORE(waits_target_semaphore, 1);
static DECLARE_COMPLETION(waits_target_completion);

static bool are_both_locked(void)
{
	return mutex_is_locked(&waits_target_a) && mutex_is_locked(&waits_target_b);
}

/* The inode of the working directory, which does not change during a write. */
static struct inode *directory(void)
{
	return d_inode(current->fs->pwd.dentry);
}

/* Is on the stack during each wait: the last barrier prevents tail calls. */
static noinline int waits_target_step(char letter)
{
	int error = 0;

	switch (letter) {
	case 'a':
		error = mutex_lock_killable(&waits_target_a);
		break;
	case 'b':
		error = mutex_lock_killable(&waits_target_b);
		break;
	case 's':
		error = down_killable(&waits_target_semaphore);
		break;
	case 'r':
		down_read(&waits_target_rwsem);
		break;
	case 'w':
		down_write(&waits_target_rwsem);
		break;
	case 'i':
		inode_lock(directory());
		break;
	case 'c':
		error = wait_for_completion_killable(&waits_target_completion);
		break;
	case '!':
		complete(&waits_target_completion);
		break;
	case '&':
		while (!are_both_locked() && !fatal_signal_pending(current))
			schedule_timeout_killable(1);
		error = fatal_signal_pending(current) ? -EINTR : 0;
		break;
	case 'z':
		while (!signal_pending(current))
			schedule_timeout_interruptible(MAX_SCHEDULE_TIMEOUT);
		error = -EINTR;
		break;
	default:
		error = -EINVAL;
	}
	barrier();
	return error;
}

static void undo(char letter)
{
	switch (letter) {
	case 'a':
		mutex_unlock(&waits_target_a);
		break;
	case 'b':
		mutex_unlock(&waits_target_b);
		break;
	case 's':
		up(&waits_target_semaphore);
		break;
	case 'r':
		up_read(&waits_target_rwsem);
		break;
	case 'w':
		up_write(&waits_target_rwsem);
		break;
	case 'i':
		inode_unlock(directory());
		break;
	}
}

static ssize_t write(struct file *file, const char __user *buffer, size_t count, loff_t *position)
{
	char letters[MOST];
	size_t taken = 0;
	int error = 0;

	if (count > MOST)
		return -EINVAL;
	if (copy_from_user(letters, buffer, count))
		return -EFAULT;
	while (taken < count && letters[taken] != '\n') {
		error = waits_target_step(letters[taken]);
		if (error)
			break;
		taken++;
	}
	while (taken > 0)
		undo(letters[--taken]);
	return error ?: count;
}

static const struct proc_ops operations = {
	.proc_write = write,
};

static int __init waits_target_init(void)
{
	/* Its key can have the address of the lock. */
	init_rwsem(&waits_target_rwsem);
	/* A test makes a deadlock, about which lockdep would complain. */
	lockdep_set_novalidate_class(&waits_target_a);
	lockdep_set_novalidate_class(&waits_target_b);
	lockdep_set_novalidate_class(&waits_target_rwsem);
	return proc_create("waits_target", 0200, NULL, &operations) ? 0 : -ENOMEM;
}

static void __exit waits_target_exit(void)
{
	remove_proc_entry("waits_target", NULL);
}

module_init(waits_target_init);
module_exit(waits_target_exit);

MODULE_DESCRIPTION("Waits and a deadlock for the tests of rkprobe");
MODULE_LICENSE("GPL");
