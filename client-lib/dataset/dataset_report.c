/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Tells the appliance how a stream fares, so that an operator sees it: `wekactl jobs`.  Takes a
 * request only when one is free, and only for an appliance that knows reports.
 */
#include "client-lib/dataset/dataset_internal.h"

#include "base/clock.h"

#include <stdio.h>

#define REPORT_NS (2 * NS_PER_S) /* between two */

static void build(struct dataset__report *r, const struct weka_stream *s,
		  const struct weka_dataset *d, const struct dataset__plan *plan)
{
	struct fab_report report = { .rank = plan->rank, .world = plan->world };
	struct weka_stream_stats stats;

	static_assert(sizeof(report.dataset) >= WEKA_DATASET_NAME_MAX + 12, "and @N");
	static_assert(sizeof(report.verdict) == WEKA_VERDICT_BYTES, "the whole line");
	dataset__stats(s, &stats);
	ASSERT(plan->rank < plan->world && plan->from <= plan->count);
	report.samples = stats.samples;
	report.samples_total = (plan->count - plan->from) / plan->world;
	report.bytes = stats.bytes;
	report.open_ns = stats.open_ns;
	report.waited_ns = stats.waited_ns;
	(void)snprintf(report.dataset, sizeof(report.dataset), "%s@%u", d->name, d->header.version);
	(void)!weka_stream_verdict(s, report.verdict);
	fab_report_build(r->body, &report);
}

static bool is_free(struct dataset__report *r)
{
	if (r->is_sent && client__req(&r->req)->state != CLIENT_REQ_DONE)
		return false;
	if (r->is_sent)
		r->req = (struct weka_req){ 0 };
	r->is_sent = false;
	return true;
}

void dataset__report(struct dataset__report *r, const struct weka_stream *s,
		     const struct weka_dataset *d, const struct dataset__plan *plan,
		     struct weka_client *c)
{
	const uint64_t now_ns = clock_now_ns();
	struct client_slot *slot;

	if (r->next_ns == 0)
		r->next_ns = now_ns + REPORT_NS;
	if (now_ns < r->next_ns || !(c->place.features & FAB_FEATURE_REPORT))
		return;
	/* The caller's own requests come first. */
	if (c->dead || c->out_count + 2 > c->requests_max || !is_free(r))
		return;
	ASSERT(!r->is_sent && r->req.status == 0);
	r->next_ns = now_ns + REPORT_NS;
	build(r, s, d, plan);
	if (client__take(c, &r->req, FAB_REPORT, NULL, &slot))
		return;
	slot->call.args.report.body = r->body;
	if (client__send(c, slot))
		return;
	client__req(&r->req)->is_sync = true;
	r->is_sent = true;
}

void dataset__report_end(struct dataset__report *r, struct weka_client *c)
{
	if (!r->is_sent)
		return;
	(void)weka_cancel(c, &r->req);
	client__await(c, &r->req);
	ASSERT(client__req(&r->req)->state != CLIENT_REQ_OUT);
	r->is_sent = false;
}
