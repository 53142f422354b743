// SPDX-License-Identifier: GPL-2.0

#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/nsproxy.h>
#include <linux/path.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/uio.h>

struct file *ktrace_open(const char *file_system, const char *path);

/*
 * Opens the file at the path in the file system, proc or sysfs, for reading. The file system is
 * mounted for this file alone. So the result does not depend on the root, the mounts, or the
 * namespace of any task, which may be empty. It does not depend on the rights of the current task
 * either: the kernel's rights apply.
 */
struct file *ktrace_open(const char *file_system, const char *path)
{
	/* Both are built in: this takes no reference. */
	struct file_system_type *type = get_fs_type(file_system);
	struct file *file = NULL;
	struct vfsmount *mount;

	if (!type)
		return ERR_PTR(-ENODEV);
	/* A mount needs namespaces. A task that has almost exited has none. */
	if (!current->nsproxy)
		return ERR_PTR(-ESRCH);
	scoped_with_kernel_creds() {
		mount = vfs_kern_mount(type, SB_KERNMOUNT, file_system, NULL);
		if (IS_ERR(mount)) {
			file = ERR_CAST(mount);
		} else {
			struct path root = { .mnt = mount, .dentry = mount->mnt_root };

			file = file_open_root(&root, path, O_RDONLY, 0);
			/* The file holds the mount until it is closed. */
			mntput(mount);
		}
	}
	return file;
}

ssize_t ktrace_read_seq_file(struct file *file, void *to, size_t len, loff_t *pos);

/* kernel_read() of a seq_file that has no read_iter(). */
ssize_t ktrace_read_seq_file(struct file *file, void *to, size_t len, loff_t *pos)
{
	struct kvec vec = { .iov_base = to, .iov_len = len };
	struct iov_iter iter;
	struct kiocb iocb;
	ssize_t ret;

	init_sync_kiocb(&iocb, file);
	iocb.ki_pos = *pos;
	iov_iter_kvec(&iter, ITER_DEST, &vec, 1, len);
	ret = seq_read_iter(&iocb, &iter);
	*pos = iocb.ki_pos;
	return ret;
}
