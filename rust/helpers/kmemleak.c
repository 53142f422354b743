// SPDX-License-Identifier: GPL-2.0

#include <linux/kmemleak.h>

void ktrace_never_free(const void *memory);

/* kmemleak reports neither this memory nor the memory to which it refers. */
void ktrace_never_free(const void *memory)
{
	kmemleak_not_leak(memory);
}
