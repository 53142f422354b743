// SPDX-License-Identifier: GPL-2.0

#include <linux/dcache.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/printk.h>
#include <linux/tracefs.h>

void ktrace_remove_file(struct dentry *dentry);

/*
 * Outside of the kernel's tree, tracefs_remove() is not exported. It does the same, and also
 * releases its reference to the mounted tracefs. So one reference per file remains here. It pins
 * nothing of this module.
 */
#ifndef CONFIG_RKPROBE_EXPORTS
#define tracefs_remove(dentry) simple_recursive_removal(dentry, NULL)
#endif

/*
 * Removes a file of tracefs, and waits until nobody uses its operations.
 *
 * Whoever opens the file has its dentry from the look-up on, before he reads the operations, and
 * until he has closed the file. So the wait is over when nobody else has the dentry, and not
 * before. A mount of the file and a descriptor of O_PATH have it, too. They cannot be told apart.
 * Those who open the file by them after this find other operations.
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
