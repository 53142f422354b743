// SPDX-License-Identifier: GPL-2.0

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/once.h>
#include <linux/random.h>
#include <linux/security.h>
#include <linux/seq_file.h>
#include <linux/siphash.h>
#include <linux/sprintf.h>

int ktrace_locked_down_kprobes(void);
int ktrace_locked_down_tracefs(void);

int ktrace_locked_down_kprobes(void)
{
	return security_locked_down(LOCKDOWN_KPROBES);
}

int ktrace_locked_down_tracefs(void)
{
	return security_locked_down(LOCKDOWN_TRACEFS);
}

bool ktrace_shows_addresses(const struct seq_file *m);
u32 ktrace_hash_address(u64 address);

/*
 * kallsyms_show_value(), which is not exported, and neither is kptr_restrict. But %pK prints zeros
 * where kptr_restrict hides addresses from the current task. Other than there, CAP_SYSLOG is needed
 * whatever perf_event_paranoid is.
 */
bool ktrace_shows_addresses(const struct seq_file *m)
{
	char text[2 * sizeof(void *) + 1];

	snprintf(text, sizeof(text), "%pK", m);
	return text[strspn(text, "0")] && m->file &&
	       file_ns_capable(m->file, &init_user_ns, CAP_SYSLOG);
}

/* Hashes like %p, with a key of its own: %p has no key before enough randomness is there. */
u32 ktrace_hash_address(u64 address)
{
	static siphash_key_t key;

	get_random_once(&key, sizeof(key));
	return siphash_1u64(address, &key);
}
