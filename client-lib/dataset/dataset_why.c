/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Why the consumer of a stream waited.
 *
 *    time of a batch's request   | queue | network | appliance |   drives    |
 *    of that, awaited                                   |------- waited -----|
 *
 * A wait is divided as the request that it was for spent its time, as a whole: which part of it was
 * left when the consumer came depends on chance, and evens out.  While the pool holds fewer batches
 * than were to be read ahead, the wait is the pool's, whatever the requests did.
 *
 * Invariants:
 *  (1) waited_ns is the sum of the causes.
 */
#include "client-lib/dataset/dataset_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define STARVED_PERCENT 2.0 /* less is noise of the scheduler's size */

void dataset__waited(struct weka_stream_stats *stats, const struct dataset__batch *b,
		     uint64_t waited_ns, bool is_short)
{
	uint64_t queue = 0, network = 0, drive = 0, all = 0, left = waited_ns;

	stats->waited_ns += waited_ns;
	if (is_short) {
		stats->waited_short_ns += waited_ns;
		return;
	}
	for (uint32_t i = 0; i < b->part_count; i++) {
		const struct weka_req *req = &b->parts[i].req;

		queue += req->queue_us;
		network += req->network_us;
		drive += req->drive_us;
		all += (uint64_t)req->queue_us + req->network_us + req->appliance_us +
		       req->drive_us;
	}
	if (all > 0) {
		queue = (uint64_t)((double)waited_ns * (double)queue / (double)all);
		network = (uint64_t)((double)waited_ns * (double)network / (double)all);
		drive = (uint64_t)((double)waited_ns * (double)drive / (double)all);
		queue = min_u64(queue, left);
		left -= queue;
		network = min_u64(network, left);
		left -= network;
		drive = min_u64(drive, left);
		left -= drive;
	}
	stats->waited_queue_ns += queue;
	stats->waited_network_ns += network;
	stats->waited_drive_ns += drive;
	stats->waited_appliance_ns += left;
	ASSERT(stats->waited_ns == stats->waited_short_ns + stats->waited_queue_ns +
					   stats->waited_network_ns + stats->waited_drive_ns +
					   stats->waited_appliance_ns); /* (1) */
}

int weka_stream_get_stats(const struct weka_stream *s, struct weka_stream_stats *out)
{
	struct weka_stream_stats all;

	if (!s || !out || out->size_bytes < sizeof(out->size_bytes))
		return client__stray_fail(-EINVAL, "weka_stream_get_stats: NULL, or size_bytes 0");
	dataset__stats(s, &all);
	all.size_bytes = min_u32(out->size_bytes, sizeof(all));
	memcpy(out, &all, all.size_bytes);
	return 0;
}

/* ---- the verdict ------------------------------------------------------------------------- */

struct cause {
	const char *name;
	uint64_t ns;
};

/* The largest first; there are five. */
static void sort(struct cause *c, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		for (uint32_t k = i; k > 0 && c[k].ns > c[k - 1].ns; k--) {
			const struct cause swap = c[k];

			c[k] = c[k - 1];
			c[k - 1] = swap;
		}
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

int weka_stream_verdict(const struct weka_stream *s, char line[WEKA_VERDICT_BYTES])
{
	struct weka_stream_stats st;
	double share, seconds;
	int at;

	if (!s || !line)
		return client__stray_fail(-EINVAL, "weka_stream_verdict: NULL");
	dataset__stats(s, &st);

	struct cause cause[] = { { "drives", st.waited_drive_ns },
				 { "network", st.waited_network_ns },
				 { "appliance", st.waited_appliance_ns },
				 { "this client's queue", st.waited_queue_ns },
				 { "a pool too small to read ahead", st.waited_short_ns } };

	share = percent(st.waited_ns, st.open_ns);
	seconds = (double)st.open_ns / 1e9;
	if (share < STARVED_PERCENT) {
		snprintf(line, WEKA_VERDICT_BYTES, "not starved: it waited %.1f %% of %.1f s",
			 share, seconds);
		return 0;
	}
	sort(cause, ARRAY_LEN(cause));
	at = snprintf(line, WEKA_VERDICT_BYTES, "starved %.0f %% of %.1f s:", share, seconds);
	for (uint32_t i = 0; i < ARRAY_LEN(cause); i++) {
		const double of = percent(cause[i].ns, st.waited_ns);

		ASSERT(at > 0 && at < (int)WEKA_VERDICT_BYTES);
		if (i > 0 && of < 1)
			break;
		at += snprintf(line + at, WEKA_VERDICT_BYTES - (size_t)at, "%s %s %.0f %%",
			       i ? "," : "", cause[i].name, of);
	}
	return 0;
}
