// SPDX-License-Identifier: GPL-2.0
/*
 * What an event costs at least: for each row of the benchmark a handler written by hand, which knows
 * what the command asks for, fetches each value once, by the nofault copy where it is in memory, and
 * reserves, stores and commits the bytes of the record. Nothing that has to be looked at at run time
 * is looked at. They are events of the group "limit", and enabled like any other.
 *
 * The event "count" makes no record: it is the C handler that a bare ktrace::Kprobe is compared with.
 * Neither do "nothing", the handler that object probes are compared with, and "skip", the same with an
 * exit handler, which it skips.
 */

#include <linux/fprobe.h>
#include <linux/kernel_stat.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <linux/trace_events.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>

static uint offset;
module_param(offset, uint, 0);
MODULE_PARM_DESC(offset, "of an instruction within vfs_read()");

struct limit {
	struct trace_event_call call;
	struct trace_event_class class;
	struct trace_event_file *file;
	int (*attach)(struct limit *limit);
	void (*detach)(struct limit *limit);
	union {
		struct kprobe kprobe;
		struct kretprobe kretprobe;
		struct fprobe fprobe;
		struct tracepoint *tracepoint;
	};
};

static int reg(struct trace_event_call *call, enum trace_reg type, void *data)
{
	struct limit *limit = container_of(call, struct limit, call);

	switch (type) {
	case TRACE_REG_REGISTER:
		limit->file = data;
		return limit->attach(limit);
	case TRACE_REG_PERF_REGISTER:
		return limit->attach(limit);
	case TRACE_REG_UNREGISTER:
	case TRACE_REG_PERF_UNREGISTER:
		limit->detach(limit);
		return 0;
	default:
		return 0;
	}
}

#define FIELD(_type, _name)								\
	{										\
		.type = #_type, .name = #_name, .size = sizeof(_type),			\
		.align = 1, .filter_type = FILTER_OTHER,				\
	}

/* The event NAME, with a member of the union set by the rest of the arguments. */
#define EVENT(_name, _attach, _detach, ...)						\
	static struct trace_event_functions _name##_funcs;				\
	static struct limit _name = {							\
		.call = {								\
			.class = &_name.class,						\
			{ .name = "hit_" #_name },					\
			.event.funcs = &_name##_funcs,					\
			.print_fmt = "\"\"",						\
		},									\
		.class = {								\
			.system = "limit",						\
			.reg = reg,							\
			.fields_array = fields,						\
			.raw_init = trace_event_raw_init,				\
			.fields = LIST_HEAD_INIT(_name.class.fields),			\
		},									\
		.attach = _attach,							\
		.detach = _detach,							\
		__VA_ARGS__								\
	};										\
	static struct trace_event_call *__used __section("_ftrace_events")		\
	_name##_call = &_name.call

/* What all records begin with, after what the kernel fills in. */
struct head {
	struct trace_entry entry;
	u64 address;
} __packed;

struct return_head {
	struct head head;
	u64 caller;
} __packed;

static struct trace_event_fields fields[] = {
	FIELD(u64, __probe_ip),
	FIELD(u64, file),
	FIELD(u64, buf),
	FIELD(u64, count),
	{}
};

static __always_inline void *reserve(struct trace_event_buffer *buffer, struct limit *limit,
				     size_t len, struct pt_regs *regs)
{
	void *record = trace_event_buffer_reserve(buffer, limit->file, len);

	if (record)
		buffer->regs = regs;
	return record;
}

/* A number in kernel memory, or 0. */
#define FETCH(_type, _address)								\
	({										\
		_type _number;								\
		if (copy_from_kernel_nofault(&_number, (const void *)(_address), sizeof(_number))) \
			_number = 0;							\
		_number;								\
	})

static int attach_kprobe(struct limit *limit)
{
	struct kprobe *kprobe = &limit->kprobe;

	/* What the last registration left. */
	kprobe->addr = NULL;
	kprobe->flags = 0;
	return register_kprobe(kprobe);
}

static void detach_kprobe(struct limit *limit)
{
	unregister_kprobe(&limit->kprobe);
}

#define KPROBE(_name, _symbol)								\
	static int _name##_hit(struct kprobe *kprobe, struct pt_regs *regs);		\
	NOKPROBE_SYMBOL(_name##_hit);							\
	EVENT(_name, attach_kprobe, detach_kprobe,					\
	      .kprobe = { .symbol_name = _symbol, .pre_handler = _name##_hit });	\
	static int _name##_hit(struct kprobe *kprobe, struct pt_regs *regs)

KPROBE(p0, "vfs_read")
{
	struct trace_event_buffer buffer;
	struct head *record;

	record = reserve(&buffer, &p0, sizeof(*record), regs);
	if (record) {
		record->address = (u64)kprobe->addr;
		trace_event_buffer_commit(&buffer);
	}
	return 0;
}

struct three {
	struct head head;
	u64 value[3];
} __packed;

static __always_inline void fill_three(struct three *record, struct kprobe *kprobe,
				       struct pt_regs *regs)
{
	record->head.address = (u64)kprobe->addr;
	record->value[0] = regs_get_kernel_argument(regs, 0);
	record->value[1] = regs_get_kernel_argument(regs, 1);
	record->value[2] = regs_get_kernel_argument(regs, 2);
}

static __always_inline int record_three(struct limit *limit, struct kprobe *kprobe,
					struct pt_regs *regs)
{
	struct trace_event_buffer buffer;
	struct three *record;

	record = reserve(&buffer, limit, sizeof(*record), regs);
	if (record) {
		fill_three(record, kprobe, regs);
		trace_event_buffer_commit(&buffer);
	}
	return 0;
}

KPROBE(p3, "vfs_read")
{
	return record_three(&p3, kprobe, regs);
}

KPROBE(filter, "vfs_read")
{
	return record_three(&filter, kprobe, regs);
}

KPROBE(perf, "vfs_read")
{
	const int size = ALIGN(sizeof(struct three) + sizeof(u32), sizeof(u64)) - sizeof(u32);
	struct hlist_head *head = this_cpu_ptr(perf.call.perf_events);
	struct three *record;
	int context;

	if (hlist_empty(head))
		return 0;
	record = perf_trace_buf_alloc(size, NULL, &context);
	if (record) {
		fill_three(record, kprobe, regs);
		perf_tp_event(perf.call.event.type, 1, record, size, regs, head, context, NULL);
	}
	return 0;
}

KPROBE(p8, "vfs_read")
{
	struct {
		struct head head;
		u8 a;
		s16 b;
		u32 c;
		u64 d;
		u64 e;
		s32 f;
		u8 g;
		u16 h;
	} __packed *record;
	unsigned long file = regs_get_kernel_argument(regs, 0);
	unsigned long text = regs_get_kernel_argument(regs, 1);
	struct trace_event_buffer buffer;

	record = reserve(&buffer, &p8, sizeof(*record), regs);
	if (!record)
		return 0;
	record->head.address = (u64)kprobe->addr;
	record->a = FETCH(u8, file);
	record->b = FETCH(s16, file + 4);
	record->c = FETCH(u32, file + 8);
	record->d = FETCH(u64, file + 16);
	record->e = FETCH(u64, file + 24);
	record->f = FETCH(s32, file + 32);
	if (copy_from_user_nofault(&record->g, (const void __user *)text, sizeof(record->g)))
		record->g = 0;
	record->h = FETCH(u16, file + 40);
	trace_event_buffer_commit(&buffer);
	return 0;
}

KPROBE(int3, "vfs_read")
{
	struct trace_event_buffer buffer;
	struct three *record;

	record = reserve(&buffer, &int3, sizeof(*record), regs);
	if (record) {
		record->head.address = (u64)kprobe->addr;
		record->value[0] = regs_return_value(regs);
		record->value[1] = regs_get_kernel_argument(regs, 0);
		record->value[2] = regs_get_kernel_argument(regs, 1);
		trace_event_buffer_commit(&buffer);
	}
	return 0;
}

/* The strings of the benchmark have less than 64 bytes. */
struct text {
	struct head head;
	u32 location;
	char text[];
} __packed;

static __always_inline int record_text(struct limit *limit, struct kprobe *kprobe,
				       struct pt_regs *regs, const char *text, size_t max)
{
	size_t len = strnlen(text, max - 1) + 1;
	struct trace_event_buffer buffer;
	struct text *record;

	record = reserve(&buffer, limit, sizeof(*record) + len, regs);
	if (record) {
		record->head.address = (u64)kprobe->addr;
		record->location = len << 16 | sizeof(*record);
		memcpy(record->text, text, len);
		trace_event_buffer_commit(&buffer);
	}
	return 0;
}

KPROBE(ustr, "do_sys_openat2")
{
	char text[64];

	if (copy_from_user_nofault(text, (const void __user *)regs_get_kernel_argument(regs, 1),
				   sizeof(text)))
		return 0;
	return record_text(&ustr, kprobe, regs, text, sizeof(text));
}

KPROBE(str, "vfs_read")
{
	const struct file *file = (const struct file *)regs_get_kernel_argument(regs, 0);
	const struct dentry *dentry = FETCH(const struct dentry *, &file->f_path.dentry);
	const unsigned char *name = FETCH(const unsigned char *, &dentry->d_name.name);
	char text[64];

	if (copy_from_kernel_nofault(text, name, sizeof(text)))
		return 0;
	return record_text(&str, kprobe, regs, text, sizeof(text));
}

KPROBE(arr, "vfs_read")
{
	struct {
		struct head head;
		u8 value[64];
	} __packed *record;
	struct trace_event_buffer buffer;

	record = reserve(&buffer, &arr, sizeof(*record), regs);
	if (!record)
		return 0;
	record->head.address = (u64)kprobe->addr;
	if (copy_from_user_nofault(record->value,
				   (const void __user *)regs_get_kernel_argument(regs, 1),
				   sizeof(record->value)))
		memset(record->value, 0, sizeof(record->value));
	trace_event_buffer_commit(&buffer);
	return 0;
}

KPROBE(bits, "vfs_read")
{
	struct {
		struct head head;
		u32 a;
		u16 b;
	} __packed *record;
	unsigned long file = regs_get_kernel_argument(regs, 0);
	struct trace_event_buffer buffer;

	record = reserve(&buffer, &bits, sizeof(*record), regs);
	if (record) {
		record->head.address = (u64)kprobe->addr;
		record->a = FETCH(u32, file + 8) >> 4 & 15;
		record->b = FETCH(u16, file + 16) >> 2 & 7;
		trace_event_buffer_commit(&buffer);
	}
	return 0;
}

KPROBE(cast, "vfs_read")
{
	const struct file *file = (const struct file *)regs_get_kernel_argument(regs, 0);
	struct {
		struct head head;
		u32 flags;
		s32 pid;
		u32 dentry_flags;
	} __packed *record;
	const struct dentry *dentry;
	struct trace_event_buffer buffer;

	record = reserve(&buffer, &cast, sizeof(*record), regs);
	if (!record)
		return 0;
	record->head.address = (u64)kprobe->addr;
	record->flags = FETCH(u32, &file->f_flags);
	record->pid = current->pid;
	dentry = FETCH(const struct dentry *, &file->f_path.dentry);
	record->dentry_flags = FETCH(u32, &dentry->d_flags);
	trace_event_buffer_commit(&buffer);
	return 0;
}

KPROBE(percpu, "vfs_read")
{
	struct {
		struct head head;
		u64 value[2];
	} __packed *record;
	struct trace_event_buffer buffer;

	record = reserve(&buffer, &percpu, sizeof(*record), regs);
	if (!record)
		return 0;
	record->head.address = (u64)kprobe->addr;
	record->value[0] = this_cpu_read(kernel_cpustat.cpustat[0]);
	record->value[1] = (u64)this_cpu_ptr(&kernel_cpustat);
	trace_event_buffer_commit(&buffer);
	return 0;
}

KPROBE(btf, "vfs_read")
{
	struct {
		struct head head;
		u32 mode;
		u32 flags;
		u64 inode;
		s64 pos;
	} __packed *record;
	const struct file *file = (const struct file *)regs_get_kernel_argument(regs, 0);
	struct trace_event_buffer buffer;

	record = reserve(&buffer, &btf, sizeof(*record), regs);
	if (record) {
		record->head.address = (u64)kprobe->addr;
		record->mode = FETCH(u32, &file->f_mode);
		record->flags = FETCH(u32, &file->f_flags);
		record->inode = FETCH(u64, &file->f_inode);
		record->pos = FETCH(s64, &file->f_pos);
		trace_event_buffer_commit(&buffer);
	}
	return 0;
}

static DEFINE_PER_CPU(u64, hits);

KPROBE(count, "vfs_read")
{
	raw_cpu_inc(hits);
	return 0;
}

static int attach_kretprobe(struct limit *limit)
{
	struct kretprobe *kretprobe = &limit->kretprobe;

	kretprobe->kp.addr = NULL;
	kretprobe->kp.flags = 0;
	return register_kretprobe(kretprobe);
}

static void detach_kretprobe(struct limit *limit)
{
	unregister_kretprobe(&limit->kretprobe);
}

#define KRETPROBE(_name, _symbol, ...)							\
	static int _name##_ret(struct kretprobe_instance *call, struct pt_regs *regs);	\
	NOKPROBE_SYMBOL(_name##_ret);							\
	EVENT(_name, attach_kretprobe, detach_kretprobe,				\
	      .kretprobe = { .kp.symbol_name = _symbol, .handler = _name##_ret, __VA_ARGS__ }); \
	static int _name##_ret(struct kretprobe_instance *call, struct pt_regs *regs)

KRETPROBE(r, "vfs_read")
{
	struct {
		struct return_head head;
		u64 value;
	} __packed *record;
	struct trace_event_buffer buffer;

	record = reserve(&buffer, &r, sizeof(*record), regs);
	if (record) {
		record->head.head.address = (u64)r.kretprobe.kp.addr;
		record->head.caller = get_kretprobe_retaddr(call);
		record->value = regs_return_value(regs);
		trace_event_buffer_commit(&buffer);
	}
	return 0;
}

static int rarg_entry(struct kretprobe_instance *call, struct pt_regs *regs)
{
	u64 *kept = (void *)call->data;

	kept[0] = regs_get_kernel_argument(regs, 0);
	kept[1] = regs_get_kernel_argument(regs, 1);
	return 0;
}
NOKPROBE_SYMBOL(rarg_entry);

KRETPROBE(rarg, "vfs_read", .entry_handler = rarg_entry, .data_size = 2 * sizeof(u64))
{
	struct {
		struct return_head head;
		u64 value[3];
	} __packed *record;
	const u64 *kept = (void *)call->data;
	struct trace_event_buffer buffer;

	record = reserve(&buffer, &rarg, sizeof(*record), regs);
	if (record) {
		record->head.head.address = (u64)rarg.kretprobe.kp.addr;
		record->head.caller = get_kretprobe_retaddr(call);
		record->value[0] = kept[0];
		record->value[1] = kept[1];
		record->value[2] = regs_return_value(regs);
		trace_event_buffer_commit(&buffer);
	}
	return 0;
}

static int attach_fprobe(struct limit *limit)
{
	return register_fprobe(&limit->fprobe, "vfs_read", NULL);
}

static void detach_fprobe(struct limit *limit)
{
	unregister_fprobe(&limit->fprobe);
}

static int f_entry(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		   struct ftrace_regs *regs, void *data);
NOKPROBE_SYMBOL(f_entry);
EVENT(f, attach_fprobe, detach_fprobe, .fprobe = { .entry_handler = f_entry });

static int f_entry(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		   struct ftrace_regs *regs, void *data)
{
	struct {
		struct head head;
		u64 value[4];
	} __packed *record;
	struct trace_event_buffer buffer;
	unsigned int i;

	record = reserve(&buffer, &f, sizeof(*record), ftrace_get_regs(regs));
	if (record) {
		record->head.address = address;
		for (i = 0; i < ARRAY_SIZE(record->value); i++)
			record->value[i] = ftrace_regs_get_argument(regs, i);
		trace_event_buffer_commit(&buffer);
	}
	return 0;
}

/* The conditions of these two are false, so there is no record. */
static int f_if_entry(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		      struct ftrace_regs *regs, void *data);
NOKPROBE_SYMBOL(f_if_entry);
EVENT(f_if, attach_fprobe, detach_fprobe, .fprobe = { .entry_handler = f_if_entry });

static int f_if_entry(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		      struct ftrace_regs *regs, void *data)
{
	if (ftrace_regs_get_argument(regs, 2) > 1000000)
		raw_cpu_inc(hits);
	return 0;
}

KRETPROBE(r_if, "vfs_read")
{
	if ((long)regs_return_value(regs) < 0)
		raw_cpu_inc(hits);
	return 0;
}

/*
 * These count. A key needs no search: it is a small number. That of "by_errno" is so small that two
 * errors and two programs may have the same one.
 */
static int by_entry(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		    struct ftrace_regs *regs, void *data);
NOKPROBE_SYMBOL(by_entry);
EVENT(by, attach_fprobe, detach_fprobe, .fprobe = { .entry_handler = by_entry });

static int by_entry(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		    struct ftrace_regs *regs, void *data)
{
	raw_cpu_inc(hits);
	return 0;
}

KPROBE(by_p, "vfs_read")
{
	raw_cpu_inc(hits);
	return 0;
}

static DEFINE_PER_CPU(u64[64], by_log2_hits);

static int by_log2_entry(struct kretprobe_instance *call, struct pt_regs *regs)
{
	*(u64 *)call->data = ktime_get_mono_fast_ns();
	return 0;
}
NOKPROBE_SYMBOL(by_log2_entry);

KRETPROBE(by_log2, "vfs_read", .entry_handler = by_log2_entry, .data_size = sizeof(u64))
{
	u64 ns = ktime_get_mono_fast_ns() - *(u64 *)call->data;

	raw_cpu_inc(by_log2_hits[fls64(ns) & 63]);
	return 0;
}

static DEFINE_PER_CPU(u64[256], by_errno_hits);

KRETPROBE(by_errno, "vfs_read")
{
	u64 comm;

	memcpy(&comm, current->comm, sizeof(comm));
	raw_cpu_inc(by_errno_hits[(comm ^ regs_return_value(regs)) & 255]);
	return 0;
}

static int nothing_entry(struct fprobe *fprobe, unsigned long address, unsigned long caller,
			 struct ftrace_regs *regs, void *data);
NOKPROBE_SYMBOL(nothing_entry);
EVENT(nothing, attach_fprobe, detach_fprobe, .fprobe = { .entry_handler = nothing_entry });

static int nothing_entry(struct fprobe *fprobe, unsigned long address, unsigned long caller,
			 struct ftrace_regs *regs, void *data)
{
	return 0;
}

static int skip_entry(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		      struct ftrace_regs *regs, void *data);
static void skip_exit(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		      struct ftrace_regs *regs, void *data);
NOKPROBE_SYMBOL(skip_entry);
NOKPROBE_SYMBOL(skip_exit);
EVENT(skip, attach_fprobe, detach_fprobe,
      .fprobe = { .entry_handler = skip_entry, .exit_handler = skip_exit });

static int skip_entry(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		      struct ftrace_regs *regs, void *data)
{
	return 1;
}

static void skip_exit(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		      struct ftrace_regs *regs, void *data)
{
}

static void fret_exit(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		      struct ftrace_regs *regs, void *data);
NOKPROBE_SYMBOL(fret_exit);
EVENT(fret, attach_fprobe, detach_fprobe, .fprobe = { .exit_handler = fret_exit });

static void fret_exit(struct fprobe *fprobe, unsigned long address, unsigned long caller,
		      struct ftrace_regs *regs, void *data)
{
	struct {
		struct return_head head;
		u64 value;
	} __packed *record;
	struct trace_event_buffer buffer;

	record = reserve(&buffer, &fret, sizeof(*record), ftrace_get_regs(regs));
	if (record) {
		record->head.head.address = address;
		record->head.caller = caller;
		record->value = ftrace_regs_get_return_value(regs);
		trace_event_buffer_commit(&buffer);
	}
}

static void t_hit(void *data, struct task_struct *task, const char *comm);
NOKPROBE_SYMBOL(t_hit);

static void find(struct tracepoint *tracepoint, void *found)
{
	if (!strcmp(tracepoint->name, "task_rename"))
		*(struct tracepoint **)found = tracepoint;
}

static int attach_tracepoint(struct limit *limit)
{
	for_each_kernel_tracepoint(find, &limit->tracepoint);
	return limit->tracepoint ?
		tracepoint_probe_register(limit->tracepoint, t_hit, limit) : -ENOENT;
}

static void detach_tracepoint(struct limit *limit)
{
	tracepoint_probe_unregister(limit->tracepoint, t_hit, limit);
}

EVENT(t, attach_tracepoint, detach_tracepoint);

static void t_hit(void *data, struct task_struct *task, const char *comm)
{
	struct {
		struct head head;
		s32 pid;
		s32 prio;
	} __packed *record;
	struct trace_event_buffer buffer;

	preempt_disable_notrace();
	record = reserve(&buffer, &t, sizeof(*record), NULL);
	if (record) {
		record->head.address = (u64)t.tracepoint->probestub;
		record->pid = FETCH(s32, &task->pid);
		record->prio = FETCH(s32, &task->prio);
		trace_event_buffer_commit(&buffer);
	}
	preempt_enable_notrace();
}

static int __init limit_init(void)
{
	int3.kprobe.offset = offset;
	return 0;
}
module_init(limit_init);

static void __exit limit_exit(void)
{
	tracepoint_synchronize_unregister();
}
module_exit(limit_exit);

MODULE_DESCRIPTION("the least that each event of the benchmark costs");
MODULE_LICENSE("GPL");
