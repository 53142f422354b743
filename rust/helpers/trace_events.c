// SPDX-License-Identifier: GPL-2.0

#include <linux/perf_event.h>
#include <linux/trace_events.h>

/* ktrace::trace_event::call, ::output and ::event_mutex */
int ktrace_call_reg(struct trace_event_call *call, unsigned int type, void *data);
int ktrace_call_define_fields(struct trace_event_call *call);
void ktrace_call_print(struct trace_event *event, struct trace_seq *seq, const void *record,
		       int len, bool addresses);
void ktrace_output_print(struct trace_event *event, struct trace_seq *seq, const void *record,
			 int len, bool addresses);
void ktrace_event_mutex_held(void);

int ktrace_call_reg_shim(struct trace_event_call *call, enum trace_reg type, void *data);

int ktrace_call_reg_shim(struct trace_event_call *call, enum trace_reg type, void *data)
{
	return ktrace_call_reg(call, type, data);
}

/* TRACE_ITER(SYM_ADDR) of kernel/trace/trace.h: the third option in `trace_options`. */
#define SYM_ADDR BIT(2)

/*
 * tp_printk prints through the call, from a record that is not yet in the buffer and with no
 * length; readers of the trace print through the output, which outlives the call.
 */
static enum print_line_t call_print(struct trace_iterator *iter, int flags,
				    struct trace_event *event)
{
	ktrace_call_print(event, &iter->seq, iter->ent, 0, flags & SYM_ADDR);
	return trace_handle_return(&iter->seq);
}

static enum print_line_t output_print(struct trace_iterator *iter, int flags,
				      struct trace_event *event)
{
	ktrace_output_print(event, &iter->seq, iter->ent, iter->ent_size, flags & SYM_ADDR);
	return trace_handle_return(&iter->seq);
}

struct trace_event_functions ktrace_call_funcs = { .trace = call_print };
struct trace_event_functions ktrace_output_funcs = { .trace = output_print };

struct trace_event_fields ktrace_call_fields[] = {
	{ .type = TRACE_FUNCTION_TYPE, .define_fields = ktrace_call_define_fields },
	{}
};

#ifndef CONFIG_RKPROBE_EXPORTS

/*
 * The control event: opening it by perf runs ktrace_event_mutex_held() with event_mutex held, and
 * so does enabling it. Anyone may enable and disable it, and try to open it; none of that does
 * anything.
 */
static int control_perf_perm(struct trace_event_call *call, struct perf_event *event)
{
	ktrace_event_mutex_held();
	return -EOPNOTSUPP;
}

static int control_reg(struct trace_event_call *call, enum trace_reg type, void *data)
{
	if (type == TRACE_REG_REGISTER || type == TRACE_REG_UNREGISTER)
		ktrace_event_mutex_held();
	return 0;
}

extern const char ktrace_control_system[];
const char ktrace_control_system[] = KBUILD_MODNAME;

/* It is never recorded, but has a number: perf takes 0 for one, too. */
static struct trace_event_functions control_funcs;

static struct trace_event_fields control_fields[] = { {} };

static struct trace_event_class control_class = {
	.system = ktrace_control_system,
	.reg = control_reg,
	.fields_array = control_fields,
	.raw_init = trace_event_raw_init,
	.fields = LIST_HEAD_INIT(control_class.fields),
};

static struct trace_event_call control_event = {
	.class = &control_class,
	{ .name = "control" },
	.event.funcs = &control_funcs,
	.print_fmt = "\"\"",
	.perf_perm = control_perf_perm,
};

static struct trace_event_call *__used __section("_ftrace_events") control = &control_event;

void ktrace_open_control(void);

void ktrace_open_control(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.config = control_event.event.type,
		.disabled = 1,
	};

	/* It is always refused: there is nothing to release. */
	perf_event_create_kernel_counter(&attr, 0, NULL, NULL, NULL);
}

#endif
