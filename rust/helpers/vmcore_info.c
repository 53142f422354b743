// SPDX-License-Identifier: GPL-2.0

#include <linux/io.h>
#include <linux/vmcore_info.h>

const void *ktrace_vmcoreinfo(size_t *len);

/*
 * Returns the note by which the kernel describes itself to crash tools, or NULL without
 * CONFIG_VMCORE_INFO. A Xen guest cannot find the note: the address refers to other memory or to
 * none.
 */
const void *ktrace_vmcoreinfo(size_t *len)
{
#ifdef CONFIG_VMCORE_INFO
	*len = VMCOREINFO_NOTE_SIZE;
	return phys_to_virt(paddr_vmcoreinfo_note());
#else
	return NULL;
#endif
}
