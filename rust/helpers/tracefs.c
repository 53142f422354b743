// SPDX-License-Identifier: GPL-2.0

#include <linux/dcache.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/tracefs.h>

void ktrace_remove_file(struct dentry *dentry);

/*
 * Outside of the kernel's tree tracefs_remove() is not exported. It does the same, and gives up its
 * hold on the mounted tracefs, of which one is left over for each file then. That pins nothing of
 * this module.
 */
#ifndef CONFIG_RKPROBE_EXPORTS
#define tracefs_remove(dentry) simple_recursive_removal(dentry, NULL)
#endif

/* Removes a file of tracefs, and waits until nobody uses its operations. */
void ktrace_remove_file(struct dentry *dentry)
{
	/* Who opens the file now is past the look-up: that takes no longer. */
	unsigned int patience = 100;

	dget(dentry);
	tracefs_remove(dentry);
	/*
	 * A bind mount can still lead here. The file is then empty, and not ours. An opener that
	 * has seen our operations has the dentry, until it has closed the file again; a mount has
	 * it, too, for as long as it likes, and is not waited for.
	 */
	WRITE_ONCE(d_inode(dentry)->i_fop, &generic_ro_fops);
	while (d_count(dentry) > 1 && patience--)
		msleep(20);
	dput(dentry);
}
