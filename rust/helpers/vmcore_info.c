// SPDX-License-Identifier: GPL-2.0

#include <linux/io.h>
#include <linux/vmcore_info.h>

const void *ktrace_vmcoreinfo(size_t *len);

/*
 * The note with which the kernel describes itself to crash tools, NULL without CONFIG_VMCORE_INFO.
 * A guest of Xen does not know where the note is: the memory is another, or there is none.
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
