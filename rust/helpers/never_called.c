// SPDX-License-Identifier: GPL-2.0
/*
 * ktrace::fprobe: a function that ftrace can trace, and that no code calls.
 *
 * It is alone in this file, because ftrace can trace all functions of a file or none, and a helper
 * must not be traced: see Kbuild.
 */

#include <linux/compiler.h>

void ktrace_never_called(void);

/*
 * The filter of an ftrace_ops without other functions has this function, because an empty filter
 * selects all functions of the kernel. The ftrace_ops also excludes it. The probe that keeps
 * the index of fprobe is at this function, too: see fprobe.c.
 */
void noinline ktrace_never_called(void)
{
}
