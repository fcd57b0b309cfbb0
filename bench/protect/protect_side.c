/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* An appliance on several drives of its own: it starts, has one large file, loses drives. */
#include "bench/protect/protect_side.h"
#include "base/clock.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE     (64u << 20)
#define LOST_IN_S 30
/* Its reads would be counted as those for clients. */
#define NO_SCRUB "scrub_bytes_per_second = 0\n"

int protect_open(struct protect_side **out, const struct protect_conf *conf,
		 const struct protect_scheme *scheme)
{
	struct weka_options o = { .size_bytes = sizeof(o),
				  .requests_max = 128,
				  .pool_bytes = protect__pool_bytes() };
	struct protect_side *s = calloc(1, sizeof(*s));
	struct protect_status empty;

	*out = s;
	if (!s)
		return bench_fail("out of memory");
	s->conf = (struct bench_conf){
		.transport = "shm",
		.drive = "",
		.own_drives = conf->drives,
		.own_drive_bytes = conf->drive_bytes,
		.own_dir = conf->dir,
		.own_memory = !conf->files,
		.protect = scheme->name,
		.lines = s->lines,
		.cache_bytes = CACHE,
		.core_client = -1,
		.core_appliance = -1,
	};
	snprintf(s->lines, sizeof(s->lines), NO_SCRUB);
	s->drives_bytes = conf->drives * conf->drive_bytes;
	s->bytes_max = conf->file_bytes;
	rand_seed(&s->rand, 1);
	if (bench_env_open(&s->env, &s->conf) || bench_env_connect(s->env, 0, &o, &s->client) ||
	    protect_quiet(s, &empty))
		return 1;
	s->zones_empty = empty.zones_used;
	return protect__loads_open(s);
}

int protect_close(struct protect_side *s)
{
	int err;

	if (!s)
		return 0;
	protect__loads_close(s);
	weka_close(s->client);
	err = bench_env_close(s->env);
	free(s);
	return err;
}

/* ---- the large file ----------------------------------------------------------------------- */

static int remove_file(struct protect_side *s)
{
	if (!s->open)
		return 0;
	s->open = false;
	if (weka_unlink(s->client, PROTECT_LARGE) || weka_close_file(s->client, &s->handle))
		return bench_fail("%s: %s", PROTECT_LARGE, weka_error(s->client));
	return 0;
}

static int make_file(struct protect_side *s)
{
	struct weka_attr attr;

	if (weka_open(s->client, PROTECT_LARGE, WEKA_CREATE | WEKA_EXCL, 0600, &attr))
		return bench_fail("%s: %s", PROTECT_LARGE, weka_error(s->client));
	s->handle = attr.handle;
	s->open = true;
	return 0;
}

static int write_file(struct protect_side *s, enum protect_load load, uint32_t bytes)
{
	struct bench_run run = { 0 };
	int err;

	ASSERT(bytes <= s->bytes_max);
	s->bytes = s->bytes_max / bytes * bytes;
	s->fills = true;
	s->next = 0;
	err = protect_run(s, load, bytes, BENCH_LOAD_ALL, &run);
	s->fills = false;
	s->next = 0;
	if (!err && run.bytes != s->bytes)
		return bench_fail("%s was not written to its end", PROTECT_LARGE);
	return err;
}

/* Returns the bytes that the drives were given between two looks, without parity. */
static double given(const struct protect_status *from, const struct protect_status *to)
{
	ASSERT(to->drive_written_bytes >= from->drive_written_bytes);
	return (double)(to->drive_written_bytes - from->drive_written_bytes) -
	       (double)(to->parity_bytes - from->parity_bytes);
}

int protect_fill(struct protect_side *s, enum protect_load load, uint32_t bytes,
		 struct protect_cost *out)
{
	struct protect_status before, written, after;
	uint64_t spent, zones;
	double payload;

	if (remove_file(s) || protect_quiet(s, &before) || make_file(s) ||
	    write_file(s, load, bytes) || protect_look(s, &written) ||
	    protect_settle(s, &after, &spent))
		return 1;
	payload = (double)max_u64(written.written_bytes - before.written_bytes, 1);
	zones = after.zones_used - min_u64(after.zones_used, s->zones_empty);
	*out = (struct protect_cost){
		.at_once = given(&before, &written) / payload,
		.later = (double)(after.drive_written_bytes - before.drive_written_bytes - spent) /
			 payload,
		.space = (double)(zones * after.zone_bytes) / (double)max_u64(after.live_bytes, 1),
		.folded = (double)min_u64(after.folded_bytes, after.live_bytes) /
			  (double)max_u64(after.live_bytes, 1),
		.capacity = (double)after.total_bytes / (double)s->drives_bytes,
	};
	return 0;
}

/* ---- losing a drive ------------------------------------------------------------------------ */

int protect_lose(struct protect_side *s, uint32_t drive)
{
	const uint64_t until = clock_now_ns() + LOST_IN_S * NS_PER_S;
	struct protect_status now;

	do {
		struct bench_run run = { 0 };

		/* Again: a write, such as one that mends a block, makes the file long once more. */
		if (bench_env_break_drive(s->env, drive) ||
		    protect_run(s, PROTECT_READ, WEKA_BLOCK, 0.02, &run) || protect_look(s, &now))
			return 1;
		if (now.lost >> drive & 1)
			return 0;
	} while (clock_now_ns() < until && !bench_interrupted());
	return bench_fail("the appliance does not notice that drive %u is empty", drive);
}

int protect_pace(struct protect_side *s, uint64_t bytes_per_second)
{
	snprintf(s->lines, sizeof(s->lines), NO_SCRUB "rebuild_bytes_per_second = %llu\n",
		 (unsigned long long)bytes_per_second);
	return bench_env_reload(s->env);
}
