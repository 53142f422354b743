// SPDX-License-Identifier: GPL-2.0

#include <linux/ptrace.h>

#ifdef CONFIG_HAVE_FUNCTION_ARG_ACCESS_API
__rust_helper unsigned long
rust_helper_regs_get_kernel_argument(struct pt_regs *regs, unsigned int n)
{
	return regs_get_kernel_argument(regs, n);
}
#endif
