// SPDX-License-Identifier: GPL-2.0

#include <linux/kmemleak.h>

void ktrace_never_free(const void *memory);

/* Keeps kmemleak from reporting this memory and the memory that it points to. */
void ktrace_never_free(const void *memory)
{
	kmemleak_not_leak(memory);
}
