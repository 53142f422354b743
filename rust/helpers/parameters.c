// SPDX-License-Identifier: GPL-2.0
/*
 * The parameters of the module: the kernel's Rust has none that are texts.
 */

#include <linux/module.h>
#include <linux/moduleparam.h>

const char *rkprobe_event(void);

static char *event;
/* Commands can have addresses in them. */
module_param(event, charp, 0400);
MODULE_PARM_DESC(event, "commands: ';' between two, ',' for a space; their events are enabled");

/* What the parameter is, or NULL: it does not change. */
const char *rkprobe_event(void)
{
	return event;
}
