// SPDX-License-Identifier: GPL-2.0
/*
 * The symbols of ktrace for other modules: Rust cannot export them by itself.
 */

#include <linux/export.h>

#define EXPORT_SYMBOL_RUST_GPL(sym) extern int sym; EXPORT_SYMBOL_GPL(sym)

#include <exports_generated.h>
