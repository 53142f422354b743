// SPDX-License-Identifier: GPL-2.0

#include <linux/jump_label.h>

void ktrace_set_static_key(struct static_key *key, bool is_enabled);

/* Wraps functions that are inline without CONFIG_JUMP_LABEL. */
void ktrace_set_static_key(struct static_key *key, bool is_enabled)
{
	if (is_enabled)
		static_key_enable(key);
	else
		static_key_disable(key);
}
