/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Shared by the two files of the appliance's target. */
#ifndef BENCH_TARGET_TARGET_WEKA_H
#define BENCH_TARGET_TARGET_WEKA_H

#include "bench/target/target_internal.h"
#include "client-lib/weka_client.h"

#define APPL__SLOTS  8u         /* requests in flight in a session                     */
#define APPL__WINDOW (8u << 20) /* of each                                             */
#define APPL__PIECE  (4u << 20) /* of a larger file: one item of a batch, or one write */
#define APPL__ITEMS  1024u

/* An item of a request: a piece of an io. */
struct appl__piece {
	struct target_io *io;
	uint64_t offset_bytes;
};

struct appl__slot {
	struct weka_req req;
	struct weka_window window;
	bool busy;
	bool filled; /* its window has random bytes, for puts */
	struct target_group *group;
	uint32_t count;
	struct appl__piece piece[APPL__ITEMS];
	union {
		struct weka_read_item read[APPL__ITEMS];
		struct weka_put_item put[APPL__ITEMS];
		struct weka_stat_item stat[APPL__ITEMS];
		struct weka_unlink_item unlink[APPL__ITEMS];
	} item;
};

struct appl__session {
	struct weka_client *client;
	uint64_t root_dir; /* number of the target's directory */
	struct target_group *waiting, **waiting_last;
	uint32_t busy;
	struct appl__slot slot[APPL__SLOTS];
};

/* ---- target_weka_ops.c ------------------------------------------------------------------ */

/* Submits the next request of the group; 0, or -errno of the request. */
must_check int appl__begin(struct appl__session *p, struct appl__slot *slot,
			   struct target_group *g);
/* The request of the slot has come back: its ios may have ended. */
void appl__finish(struct target_session *s, struct appl__slot *slot);
/* A file of more than APPL__PIECE bytes, written and named, while the caller waits. */
int appl__put_large(struct appl__session *p, struct target_io *io);
int appl__list(struct appl__session *p, struct target_io *io);

#endif
