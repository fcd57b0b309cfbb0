/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl: clients and rates, from one status of the appliance or from two.
 *
 * The appliance counts from its start, or from a connection's; the difference of two statuses is
 * what happened between them.  Without an earlier one, the count itself is returned.  Keys that are
 * missing, or have another type, count as 0.
 */
#ifndef CTL_RATES_H
#define CTL_RATES_H

#include "appliance/ctl/ctl_figures.h"
#include "base/assert.h"

#include <stdbool.h>

/* A client, with all its connections together. */
struct ctl_client {
	struct ctl_text session, key, transport, peer; /* peer: of its first connection */
	uint32_t connections;
	uint64_t connected_s; /* of the oldest connection */
	uint64_t requests, read_bytes, written_bytes;
	uint64_t credits, running, queued, opens;
};

enum ctl_order { CTL_BY_REQUESTS, CTL_BY_READ, CTL_BY_WRITTEN, CTL_BY_KEY, CTL_ORDERS };
extern const char *const ctl_order_name[CTL_ORDERS];

/* Gathers the clients of `now` in an array that the caller frees.  Returns how many there are. */
uint32_t ctl_clients_of(const json_t *now, const json_t *before, struct ctl_client **out);
void ctl_clients_sort(struct ctl_client *clients, uint32_t count, enum ctl_order by);
/* Returns a client as a JSON object with one key for each field. */
json_t *ctl_client_json(const struct ctl_client *client);

#define CTL_KINDS_MAX 64u

/* Requests of a kind, over all transports, and how long they took: 0 if there were none. */
struct ctl_kind {
	struct ctl_text request;
	uint64_t count;
	double p50_us, p99_us, p999_us;
};

/* Fills in the kinds that came, the most frequent first.  Returns how many. */
uint32_t ctl_kinds_of(const json_t *now, const json_t *before, struct ctl_kind out[CTL_KINDS_MAX]);

/* The parts of a core's time, in per cent. */
struct ctl_core_time {
	double busy, polling, asleep;
};
struct ctl_core_time ctl_core_time(const json_t *now, const json_t *before, size_t core,
				   double seconds);

/* Returns how much a counter grew: group.key, or key without a group; 0 if a restart of the
 * appliance has reset it. */
uint64_t ctl_growth(const json_t *now, const json_t *before, const char *group, const char *key);

#endif
