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
 * Replaces kallsyms_show_value(), because the kernel exports neither this function nor
 * kptr_restrict. %pK prints zeros if kptr_restrict hides addresses from the current task. Unlike
 * the kernel's function, this function always requires CAP_SYSLOG, whatever perf_event_paranoid is.
 */
bool ktrace_shows_addresses(const struct seq_file *m)
{
	char text[2 * sizeof(void *) + 1];

	snprintf(text, sizeof(text), "%pK", m);
	return text[strspn(text, "0")] && m->file &&
	       file_ns_capable(m->file, &init_user_ns, CAP_SYSLOG);
}

/*
 * Hashes like %p, but with its own key, because %p has no key until the kernel has enough entropy.
 */
u32 ktrace_hash_address(u64 address)
{
	static siphash_key_t key;

	get_random_once(&key, sizeof(key));
	return siphash_1u64(address, &key);
}
