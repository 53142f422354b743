/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The headers that `ktrace` needs beyond what `kernel::bindings` covers; the names taken from
 * them stand in `bindgen_parameters`. Sorted alphabetically.
 */

#include <linux/dcache.h>
#include <linux/fprobe.h>
#include <linux/fs.h>
#include <linux/glob.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/rethook.h>
#include <linux/trace_events.h>
#include <linux/trace_seq.h>
#include <linux/tracefs.h>

/* Constants that `bindgen` cannot evaluate. */
const fmode_t RKPROBE_CONST_HELPER_FMODE_WRITE = FMODE_WRITE;
const unsigned long RKPROBE_CONST_HELPER_DENTRY_NAME_OFFSET = offsetof(struct dentry, d_name.name);
const unsigned long RKPROBE_CONST_HELPER_FILE_DENTRY_OFFSET = offsetof(struct file, f_path.dentry);
const unsigned long RKPROBE_CONST_HELPER_KSYM_SYMBOL_LEN = KSYM_SYMBOL_LEN;
const unsigned long RKPROBE_CONST_HELPER_THREAD_SIZE = THREAD_SIZE;
