// SPDX-License-Identifier: GPL-2.0

#include <linux/kmemleak.h>

void ktrace_never_free(const void *memory);

/* kmemleak does not report it, nor what it refers to. */
void ktrace_never_free(const void *memory)
{
	kmemleak_not_leak(memory);
}
