// SPDX-License-Identifier: GPL-2.0
/*
 * The parameters of the module. They are in C because the kernel's Rust has no string parameters.
 */

#include <linux/module.h>
#include <linux/moduleparam.h>

const char *rkprobe_event(void);

static char *event;
/* Only root can read the parameter, because commands can contain addresses. */
module_param(event, charp, 0400);
MODULE_PARM_DESC(event, "commands: ';' between two, ',' for a space; their events are enabled");

/* The value of the parameter, or NULL. It does not change. */
const char *rkprobe_event(void)
{
	return event;
}
