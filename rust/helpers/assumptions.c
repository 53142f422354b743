// SPDX-License-Identifier: GPL-2.0
/*
 * ktrace::assumptions: copies of numbers that the kernel's headers have, compared when this is
 * built, and known symbols to compare with when the module is loaded.
 */

#include <linux/build_bug.h>
#include <linux/fprobe.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>

/* MAX_DATA in ktrace/kretprobe.rs, MAX_FPROBE_DATA_SIZE in ktrace/fprobe.rs. */
static_assert(KRETPROBE_MAX_DATA_SIZE == 4096);
static_assert(MAX_FPROBE_DATA_SIZE >= 15 * sizeof(long));

/* The size of `$comm`. */
static_assert(TASK_COMM_LEN == 16);

#ifdef CONFIG_X86_64
#include <asm/ibt.h>
#include <asm/nops.h>

/* FTRACE_SITE in ktrace/text.rs. */
#define KTRACE_IS_NOP5(a, b, c, d, e) \
	((a) == 0x0f && (b) == 0x1f && (c) == 0x44 && (d) == 0x00 && (e) == 0x00)
#define KTRACE_EXPANDED(...) KTRACE_IS_NOP5(__VA_ARGS__)
static_assert(KTRACE_EXPANDED(BYTES_NOP5));
#endif

/* ENDBR64 and SEALED in ktrace/arch/x86_64.rs. */
bool ktrace_landing_pads_match(u32 endbr, u32 sealed);

bool ktrace_landing_pads_match(u32 endbr, u32 sealed)
{
#ifdef CONFIG_X86_KERNEL_IBT
	return endbr == gen_endbr() && sealed == gen_endbr_poison();
#else
	return true;
#endif
}

struct pt_regs *ktrace_get_regs(struct pt_regs *regs);

/* What ktrace/arch does itself, without a call. */
struct pt_regs *ktrace_get_regs(struct pt_regs *regs)
{
	return arch_ftrace_get_regs((struct ftrace_regs *)regs);
}

unsigned long ktrace_known_text(void);
unsigned long ktrace_known_data(void);

/* Two symbols that are exported: seq_read and init_task. */
unsigned long ktrace_known_text(void)
{
	return (unsigned long)seq_read;
}

unsigned long ktrace_known_data(void)
{
	return (unsigned long)&init_task;
}
