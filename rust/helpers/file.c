// SPDX-License-Identifier: GPL-2.0

#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/nsproxy.h>
#include <linux/path.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/uio.h>

struct file *ktrace_open(const char *file_system, const char *path);
int ktrace_look_up(const char *file_system, const char *path);

/*
 * Mounts proc, sysfs or tracefs only for the caller. So the result does not depend on the root
 * directory, the mounts or the namespace of a task, which may be empty.
 */
static struct vfsmount *mount_alone(const char *file_system)
{
	/* These file systems are built in, so this takes no reference. */
	struct file_system_type *type = get_fs_type(file_system);

	if (!type)
		return ERR_PTR(-ENODEV);
	/* A mount needs namespaces. An exiting task may have none. */
	if (!current->nsproxy)
		return ERR_PTR(-ESRCH);
	return vfs_kern_mount(type, SB_KERNMOUNT, file_system, NULL);
}

/*
 * Opens the file at the path in the file system for reading, with the permissions of the kernel.
 * The permissions of the current task do not matter.
 */
struct file *ktrace_open(const char *file_system, const char *path)
{
	struct file *file = NULL;

	scoped_with_kernel_creds() {
		struct vfsmount *mount = mount_alone(file_system);

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

/* Returns 0 if the path exists in the file system, or an error such as -ENOENT. */
int ktrace_look_up(const char *file_system, const char *path)
{
	struct path found;
	int ret = 0;

	scoped_with_kernel_creds() {
		struct vfsmount *mount = mount_alone(file_system);

		if (IS_ERR(mount)) {
			ret = PTR_ERR(mount);
		} else {
			ret = vfs_path_lookup(mount->mnt_root, mount, path, 0, &found);
			if (!ret)
				path_put(&found);
			mntput(mount);
		}
	}
	return ret;
}

ssize_t ktrace_read_seq_file(struct file *file, void *to, size_t len, loff_t *pos);

/* Replaces kernel_read(), which needs a read_iter(), for a seq_file without one. */
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
