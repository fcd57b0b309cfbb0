/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Looks at an appliance, and waits until it has nothing left to do.
 *
 * The store folds zones that were closed before its last checkpoint, and frees their twins after
 * the next.  An idle store makes none: the log is trimmed when half of its room is in use.  So this
 * makes cheap changes, of one attribute, until there was a checkpoint, waits until the store is
 * quiet, and does that again until nothing more is folded.
 *
 *  (1) In the last round nothing is folded.  So it shows how many bytes these changes give to the
 *      drives for a byte that they add to the log, and what all of them cost can be left out of the
 *      account [e2e_protect_bench].
 */
#include "base/clock.h"
#include "base/num.h"
#include "bench/protect/protect_side.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VALUE_BYTES  16384u /* of the attribute: a change has five blocks of the log */
#define CHANGES      32u    /* between two looks at the appliance                    */
#define CHANGES_MAX  16384u /* until there must have been a checkpoint               */
#define ROUNDS_LEAST 3u     /* folded, twins freed, and nothing more                 */
#define ROUNDS_MAX   20u
#define LOOK_MS      5
#define QUIET_NS     (50 * NS_PER_MS)
#define QUIET_IN_NS  (60 * NS_PER_S)
#define BLOCK        4096u

static uint64_t number(const json_t *status, const char *part, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(json_object_get(status, part), name));
}

static uint64_t lost_drives(const json_t *status)
{
	const json_t *drives = json_object_get(status, "drives");
	uint64_t lost = 0;

	for (size_t i = 0; i < json_array_size(drives);
	     i++) { /* those that are gone are not named */
		const json_t *d = json_array_get(drives, i);
		const char *state = json_string_value(json_object_get(d, "state"));
		const json_int_t n = json_integer_value(json_object_get(d, "number"));

		if (state && strcmp(state, "lost") == 0 && n >= 0 && n < 64)
			lost |= 1ull << n;
	}
	return lost;
}

int protect_look(struct protect_side *s, struct protect_status *out)
{
	json_t *status;
	char *text;

	if (weka_status(s->client, &text))
		return bench_fail("status: %s", weka_error(s->client));
	status = json_loads(text, 0, NULL);
	free(text);
	if (!status)
		return bench_fail("status: it is not JSON");
	*out = (struct protect_status){
		.read_bytes = number(status, "bytes", "read"),
		.written_bytes = number(status, "bytes", "written"),
		.drive_read_bytes = number(status, "bytes", "drive_read"),
		.drive_written_bytes = number(status, "bytes", "drive_written"),
		.total_bytes = number(status, "store", "total_bytes"),
		.live_bytes = number(status, "store", "live_file_bytes"),
		.zone_bytes = number(status, "store", "zone_bytes"),
		.zones_used = number(status, "store", "zones_total") -
			      number(status, "store", "zones_free") -
			      number(status, "store", "zones_log"),
		.folded_bytes = number(status, "store", "parity_protected_bytes"),
		.parity_bytes = number(status, "store", "parity_blocks") * BLOCK,
		.log_bytes = number(status, "store", "log_blocks") * BLOCK *
			     number(status, "store", "log_copies"),
		.moved_bytes = number(status, "store", "moved_blocks") * BLOCK,
		.checkpoints = number(status, "store", "checkpoints"),
		.lost = lost_drives(status),
	};
	json_decref(status);
	return 0;
}

int protect_quiet(struct protect_side *s, struct protect_status *out)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };
	const uint64_t until = clock_now_ns() + QUIET_IN_NS;
	uint64_t written = UINT64_MAX, since = 0;

	for (;;) {
		const uint64_t now = clock_now_ns();

		if (bench_interrupted())
			return bench_fail("interrupted");
		if (protect_look(s, out))
			return 1;
		if (out->drive_written_bytes != written) {
			written = out->drive_written_bytes;
			since = now;
		}
		if (now - since >= QUIET_NS)
			return 0;
		if (now >= until)
			return bench_fail("the appliance still writes after %d s",
					  (int)(QUIET_IN_NS / NS_PER_S));
		(void)nanosleep(&pause, NULL);
	}
}

/* Makes changes until there was a checkpoint. */
static int checkpoint(struct protect_side *s, uint64_t checkpoints)
{
	static char value[VALUE_BYTES];
	struct protect_status now;

	for (uint32_t n = 1; n <= CHANGES_MAX; n++) {
		memcpy(value, &n, sizeof(n));
		if (weka_setxattr(s->client, PROTECT_LARGE, "user.settle", value, sizeof(value), 0))
			return bench_fail("%s: %s", PROTECT_LARGE, weka_error(s->client));
		if (n % CHANGES)
			continue;
		if (bench_interrupted())
			return bench_fail("interrupted");
		if (protect_look(s, &now))
			return 1;
		if (now.checkpoints > checkpoints)
			return 0;
	}
	return bench_fail("no checkpoint within %u changes", CHANGES_MAX);
}

/* (1) The cost of all changes, by that of those of the last round. */
static uint64_t spent(uint64_t log_bytes, const struct protect_status *last,
		      const struct protect_status *now)
{
	const uint64_t given = now->drive_written_bytes - last->drive_written_bytes;
	const uint64_t of_log = now->log_bytes - last->log_bytes;

	ASSERT(now->log_bytes >= last->log_bytes && of_log <= log_bytes);
	return (uint64_t)((double)given * (double)log_bytes / (double)max_u64(of_log, 1));
}

int protect_settle(struct protect_side *s, struct protect_status *out, uint64_t *spent_bytes)
{
	struct protect_status last;
	uint64_t log_bytes;
	uint32_t round = 0;

	if (protect_quiet(s, out))
		return 1;
	log_bytes = out->log_bytes;
	do {
		last = *out;
		if (checkpoint(s, last.checkpoints) || protect_quiet(s, out))
			return 1;
	} while (++round < ROUNDS_LEAST ||
		 (last.folded_bytes != out->folded_bytes && round < ROUNDS_MAX));
	*spent_bytes = spent(out->log_bytes - log_bytes, &last, out);
	return 0;
}
