// SPDX-License-Identifier: GPL-2.0

#include <linux/dcache.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/printk.h>
#include <linux/tracefs.h>

void ktrace_remove_file(struct dentry *dentry);

/*
 * The kernel does not export tracefs_remove(). simple_recursive_removal() also removes the file,
 * but keeps the reference to the mounted tracefs that tracefs_remove() drops. So outside the kernel
 * tree, each file leaves one reference to the mount. This reference does not keep the module
 * loaded.
 */
#ifndef CONFIG_RKPROBE_EXPORTS
#define tracefs_remove(dentry) simple_recursive_removal(dentry, NULL)
#endif

/*
 * Removes a file of tracefs, and waits until no task uses the file's operations.
 *
 * A task that opens the file has the file's dentry from the lookup, before it reads the operations,
 * until it has closed the file. So the operations are unused if and only if no other code has the
 * dentry. A mount of the file and an O_PATH descriptor also have the dentry, and this function
 * cannot distinguish them. A task that opens the file through them after the removal gets other
 * operations.
 */
void ktrace_remove_file(struct dentry *dentry)
{
	unsigned int ms;

	dget(dentry);
	tracefs_remove(dentry);
	WRITE_ONCE(d_inode(dentry)->i_fop, &generic_ro_fops);
	for (ms = 0; d_count(dentry) > 1; ms += 20) {
		if (ms == 2000)
			pr_warn("waiting until the file %pd is closed\n", dentry);
		msleep(20);
	}
	dput(dentry);
}
