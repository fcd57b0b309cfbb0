/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The counters of all cores and drives at one moment.  `wekactl status`, the metrics and the page
 * show the same snapshot.
 *
 *   statfs of the store --> this core adds its counters --> each other core adds its own
 *                                                                 |
 *           FAB_STATUS: text, on the core <-- app_snapshot_json --> an asking thread (app_ask.h)
 *
 * A snapshot holds copies only, so any thread may read it once it is complete.
 */
#ifndef APP_SNAPSHOT_H
#define APP_SNAPSHOT_H

#include "appliance/core/app_account.h"
#include "appliance/core/app_core.h"
#include "appliance/core/app_latency.h"
#include "appliance/core/app_rebuild.h"
#include "appliance/media/app_lines.h"
#include "fabric/fab_report.h"

enum app_transport { APP_SHM, APP_TCP, APP_RDMA, APP_TRANSPORTS };

struct app_drive_snapshot {
	bool is_there;
	bool is_missing; /* it may be, or is lost: only name, store and info.nblocks are set */
	bool failed;     /* nothing can be read from it: app_failing.c   */
	bool no_writes;  /* it refuses all writes, of one core at least  */
	bool has_smart;
	uint32_t in_flight;
	enum nvme_health health;
	struct nvme_info info;
	struct nvme_stats queues;
	struct nvme_smart smart;
	struct nvme_drive_counts counts;
	uint64_t hedged_reads; /* late there, and read from another copy, too */
	uint64_t hedged_won;   /* ... which was first                           */
	struct meta_drive_stat store;
	char name[APP_CONF_TEXT_MAX]; /* "": it has none */
	char domain[APP_DOMAIN_MAX];  /* the same */
};

struct app_core_snapshot {
	struct app_core_stat stat;
	uint32_t sessions_open;
	uint32_t requests_open; /* begun and not answered: each has a credit */
	uint32_t queued;        /* not begun: these have one, too            */
	struct app_latency latency;
};

#define APP_CLIENTS_MAX 256u /* of more connections only the number is known */

/* A connection of a client's. */
struct app_client_snapshot {
	uint64_t session; /* the same for all connections of one client */
	uint32_t lane, core;
	enum app_transport over;
	uint32_t credits; /* requests that it may have in flight */
	uint32_t running; /* operations of it now                */
	uint32_t queued;  /* requests that are not begun         */
	uint32_t opens;   /* files                               */
	uint64_t age_ns;
	uint64_t requests;
	uint64_t read_bytes, written_bytes;
	char key[FAB_KEY_ID_MAX + 1];
	char peer[64];
	struct fab_report report; /* of its job            */
	uint64_t report_age_ns;   /* UINT64_MAX: none came */
};

struct app_snapshot {
	uint32_t cores; /* cores that have added theirs */
	uint32_t ndrives;
	bool counts_blocks; /* drive[].store has them, too */
	uint64_t uptime_ns;
	uint64_t wall_ns;
	struct app_core_stat sum;
	struct app_core_snapshot core[APP_CORES_MAX];
	struct app_latency latency[APP_TRANSPORTS][FAB_TYPE_END];
	uint32_t sessions_open[APP_TRANSPORTS];
	uint32_t ops_max, ops_free;
	uint64_t staging_bytes, staging_used_bytes;
	int store_health;
	uint8_t store_uuid[16];
	struct meta_statfs statfs;
	struct app_rebuild_snapshot rebuild;
	struct fab_server_stat fabric;
	bool has_missing;
	uint32_t missing_drive;
	bool has_account;
	uint64_t memory_max_bytes;
	uint64_t memory_bytes[APP_ACCOUNT_PARTS];
	struct app_drive_snapshot drive[META_DRIVES_MAX];
	char scrub_line[APP_LINE_SIZE];
	uint32_t clients; /* of those below                     */
	uint32_t clients_left_out;
	struct app_client_snapshot client[APP_CLIENTS_MAX];
};

/* The name of a type of request, from FAB_PING on; NULL: there is no such type. */
const char *app_request_name(uint32_t type);
extern const char *const app_transport_name[APP_TRANSPORTS];

/* Returns "good", "resetting", "away", "failed", "read_only", "dead" or "missing". */
const char *app_drive_health_name(const struct app_drive_snapshot *drive);
/* Returns "serving", "draining", "missing", "lost" or "gone". */
const char *app_drive_state_name(const struct app_drive_snapshot *drive);

#define APP_SNAPSHOT_JSON_BYTES (448u << 10) /* enough for 64 drives, 16 cores and all clients */

/* Names that a reader may see. */
#define APP_SHOW_DRIVES  1u /* drives, as the configuration calls them     */
#define APP_SHOW_FILES   2u /* a file that the scrub has found damaged     */
#define APP_SHOW_CLIENTS 4u /* keys and addresses of all clients           */

/**
 * app_snapshot_json - write a snapshot as one line of JSON: wekactl-status(5)
 *
 * A text that does not fit is cut.
 *
 * Returns: its length, below size_bytes.
 * Thread:  any; it takes no memory.
 */
uint32_t app_snapshot_json(const struct app_snapshot *s, uint32_t show, char *out,
			   uint32_t size_bytes);

#endif
