// SPDX-License-Identifier: GPL-2.0

#include <linux/container_of.h>
#include <linux/irq_work.h>
#include <linux/workqueue.h>

/* C counterpart of ktrace::once::Request. */
struct ktrace_request {
	struct irq_work irq;
	struct work_struct work;
	void (*run)(void *request);
};

void ktrace_request_init(struct ktrace_request *request, void (*run)(void *request));

static void ktrace_request_run(struct work_struct *work)
{
	struct ktrace_request *request = container_of(work, struct ktrace_request, work);

	request->run(request);
}

/* A handler may run in an NMI, or with a lock of the workqueues held. This function does not. */
static void ktrace_request_irq(struct irq_work *irq)
{
	queue_work(system_dfl_wq, &container_of(irq, struct ktrace_request, irq)->work);
}

/* @run is called in process context, after each call of irq_work_queue(&request->irq). */
void ktrace_request_init(struct ktrace_request *request, void (*run)(void *request))
{
	init_irq_work(&request->irq, ktrace_request_irq);
	INIT_WORK(&request->work, ktrace_request_run);
	request->run = run;
}
