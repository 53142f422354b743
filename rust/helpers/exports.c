// SPDX-License-Identifier: GPL-2.0
/*
 * Exports the symbols of ktrace to other modules, because Rust cannot export symbols.
 *
 * A module that uses these symbols imports the namespace KTRACE. Functions that only rkprobe uses
 * are not exported. Some of them depend on symbols that the kernel exports only to rkprobe (see
 * built_in.c).
 */

#include <linux/export.h>

#define EXPORT_API(symbol) extern int symbol; EXPORT_SYMBOL_NS_GPL(symbol, "KTRACE")
#define EXPORT_FOR_TESTS(symbol) extern int symbol; \
	EXPORT_SYMBOL_FOR_MODULES(symbol, "ktrace_kunit")

/* The symbols of Rust code: see cmd_ktrace_exports in Kbuild. */
#include <exports_generated.h>

/*
 * Helpers that generic functions of ktrace call. Generic functions are compiled into other modules.
 */
EXPORT_API(ktrace_module_tracepoint);
EXPORT_API(ktrace_no_registers);
EXPORT_API(ktrace_per_cpu_ptr);
EXPORT_API(ktrace_percpu_reset);
EXPORT_API(ktrace_percpu_sum);
EXPORT_API(ktrace_preempt_disable);
EXPORT_API(ktrace_preempt_enable);
EXPORT_API(ktrace_remove_file);
EXPORT_API(ktrace_tracepoint_stub);
EXPORT_API(ktrace_tracepoint_synchronize_unregister);
