// SPDX-License-Identifier: GPL-2.0

#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/seq_file.h>
#include <linux/uio.h>

/* ktrace::symbol: kernel_read() of a file in the root of proc that has no read_iter(). */
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
