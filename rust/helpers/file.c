// SPDX-License-Identifier: GPL-2.0

#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/fs_struct.h>
#include <linux/magic.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/uio.h>

/*
 * The path as the first process sees it, as in kernel_read_file_from_path_initns(); with the
 * kernel's rights, for what is found out here must not depend on whose task runs.
 */
struct file *ktrace_open_in_init(const char *path);

struct file *ktrace_open_in_init(const char *path)
{
	struct file *file = NULL;
	struct path root;

	task_lock(&init_task);
	get_fs_root(init_task.fs, &root);
	task_unlock(&init_task);
	scoped_with_kernel_creds()
		file = file_open_root(&root, path, O_RDONLY, 0);
	path_put(&root);
	return file;
}

/* kernel_read() of a file in the root of proc that has no read_iter(). */
ssize_t ktrace_read_proc_seq_file(struct file *file, const char *name, void *to, size_t len,
				  loff_t *pos);

ssize_t ktrace_read_proc_seq_file(struct file *file, const char *name, void *to, size_t len,
				  loff_t *pos)
{
	struct dentry *dentry = file->f_path.dentry;
	struct kvec vec = { .iov_base = to, .iov_len = len };
	struct iov_iter iter;
	struct kiocb iocb;
	ssize_t ret;

	/* Anything else may be mounted there, and is not a seq_file. */
	if (dentry->d_sb->s_magic != PROC_SUPER_MAGIC || dentry->d_parent != dentry->d_sb->s_root ||
	    strcmp(dentry->d_name.name, name))
		return -EINVAL;
	init_sync_kiocb(&iocb, file);
	iocb.ki_pos = *pos;
	iov_iter_kvec(&iter, ITER_DEST, &vec, 1, len);
	ret = seq_read_iter(&iocb, &iter);
	*pos = iocb.ki_pos;
	return ret;
}
