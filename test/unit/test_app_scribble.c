/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Shared memory whose other owner means harm.  A client has a thread that writes at random into
 * everything that it shares with the appliance -- rings, bells, long bodies, windows that drives
 * write into -- while requests are under way, copies slots over one another, and takes the pages
 * away.  The appliance copies before it checks, so all this spoils is that client's own.
 *
 * Beside it an honest client reads what it wrote, over shared memory of its own; afterwards nothing
 * of the other is left, no DMA went where it must not (app_rig_end() asks), and the store is right.
 */
#define _GNU_SOURCE /* mremap */
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "fabric/client/fab_client_internal.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	SESSIONS = 60,
	BROKEN = 8,
	CALLS = 8,
	WINDOW = 256 << 10,
	POOL = 4 << 20,
	FILE_BYTES = 200000
};

static struct app_rig rig = { .transport = "shm",
			      .cfg = { .boot = APP_BOOT_FORMAT,
				       .cache_bytes = 32 << 20,
				       .staging_bytes = 16 << 20,
				       .ops_max = 32 } };

/* ---- the thread that scribbles ---------------------------------------------------------- */

struct view { /* of shared memory, beside the library's own, which it unmaps when it likes */
	uint8_t *at;
	size_t bytes;
};

static struct scribbler {
	_Atomic bool stop;
	struct view rings, all, pool; /* all: the rings, and the long bodies behind them */
	uint64_t seed;
	uint64_t strokes, holes;
	pthread_t thread;
} scribbler;

static struct view view_of(void *memory, size_t bytes)
{
	/* A shared mapping of no old size is mapped once more: mremap(2). */
	struct view v = { mremap(memory, 0, bytes, MREMAP_MAYMOVE), bytes };

	cr_assert_neq((void *)v.at, MAP_FAILED);
	return v;
}

static void stroke(struct scribbler *s, struct rand_state *r)
{
	struct view *views[] = { &s->rings, &s->rings, &s->rings, &s->all, &s->pool };
	struct view *v = views[rand_below(r, ARRAY_LEN(views))];
	size_t at = rand_below(r, v->bytes - FAB_SLOT_BYTES) & ~(size_t)7;
	size_t from = rand_below(r, v->bytes - FAB_SLOT_BYTES) & ~(size_t)7;
	uint64_t word = rand_below(r, 2) ? rand_u64(r) : rand_below(r, 64);

	s->strokes++;
	switch (rand_below(r, 200)) {
	case 0: /* pages go, and come back empty when somebody looks */
		s->holes += madvise(v->at + (at & ~(size_t)4095), 4096, MADV_REMOVE) == 0;
		return;
	case 1:
		memmove(v->at + at, v->at + from, FAB_SLOT_BYTES);
		return;
	case 2:
		memcpy(s->rings.at + 64 * rand_below(r, 2), &word, 4);
		return; /* a bell */
	default:
		memcpy(v->at + at, &word, 1u << rand_below(r, 4));
		return;
	}
}

static void *scribble(void *arg)
{
	struct scribbler *s = arg;
	struct rand_state r;

	rand_seed(&r, s->seed);
	while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
		for (uint32_t i = 0; i < s->seed % 4 * 100 + 8; i++)
			stroke(s, &r);
		usleep((useconds_t)rand_below(&r, 20)); /* requests must get somewhere in between */
	}
	return NULL;
}

/* ---- its client --------------------------------------------------------------------------- */

static struct fab_handle handle; /* of /theirs */
static uint64_t answered, broken;

static struct fab_conn *dial(struct fab_region **region)
{
	struct fab_connect_cfg cfg = { .address = fab_server_address(rig.srv, 0),
				       .key = { .id = "weka" } };
	struct fab_call *none[1];
	struct fab_conn *conn;
	int err;

	memcpy(cfg.key.secret, app_rig_secret, FAB_KEY_BYTES);
	cr_assert_eq(fab_connect(&conn, &cfg, clock_now_ns()), 0);
	while ((err = fab_connect_step(conn, clock_now_ns())) == -EINPROGRESS)
		usleep(100);
	cr_assert_eq(err, 0, "%s", fab_conn_error(conn));
	cr_assert_eq(fab_pool_add(conn, POOL, region), 0);
	while ((err = fab_region_status(*region)) == -EINPROGRESS) {
		(void)!fab_poll(conn, clock_now_ns(), none, 1);
		usleep(100);
	}
	cr_assert_eq(err, 0);
	return conn;
}

static void ask(struct fab_conn *conn, struct fab_region *region, struct fab_call *call, uint32_t i,
		struct rand_state *r)
{
	static struct fab_read_item items[CALLS][16];

	*call = (struct fab_call){ .region = region,
				   .window_offset = i * (uint64_t)WINDOW,
				   .window_bytes = WINDOW };
	if (rand_below(r, 3) == 0) {
		call->type = FAB_WRITE;
		call->args.write.handle = handle;
		call->args.write.offset_bytes = rand_below(r, FILE_BYTES);
		call->args.write.length_bytes = 1 + (uint32_t)rand_below(r, 100000);
		call->args.write.sums_at = WINDOW - 4096;
	} else if (rand_below(r, 2)) {
		call->type = FAB_READ;
		call->args.read.handle = handle;
		call->args.read.length_bytes = 100000;
	} else {
		call->type = FAB_READ_BATCH;
		call->args.batch.count = 1 + (uint32_t)rand_below(r, 16);
		call->args.batch.reads = items[i];
		for (uint32_t k = 0; k < 16; k++)
			items[i][k] = (struct fab_read_item){
				.name = { .by = FAB_BY_PATH, .name = "/theirs", .name_bytes = 7 },
				.length_bytes = 1 + rand_below(r, 12000),
			};
	}
	if (fab_submit(conn, call))
		call->type = 0; /* no credit, so the library believes: rings are what they are */
}

static void session(uint64_t seed)
{
	struct fab_call calls[CALLS] = { 0 }, *done[CALLS];
	struct fab_region *region;
	struct fab_conn *conn = dial(&region);
	struct fab_shm_layout layout;
	struct rand_state r;
	uint64_t end_ns = clock_now_ns() + 30 * NS_PER_MS;

	rand_seed(&r, seed);
	fab__shm_layout(&layout, fab_conn_limits(conn));
	atomic_store_explicit(&scribbler.stop, false, memory_order_relaxed);
	scribbler.seed = seed;
	scribbler.all = view_of(conn->shm.memory, layout.size_bytes);
	scribbler.rings = (struct view){ scribbler.all.at, layout.bodies_at };
	scribbler.pool = view_of(fab_region_memory(region), POOL);
	cr_assert_eq(pthread_create(&scribbler.thread, NULL, scribble, &scribbler), 0);
	while (clock_now_ns() < end_ns && fab_conn_status(conn) == 0) {
		uint32_t n;

		for (uint32_t i = 0; i < CALLS; i++)
			if (calls[i].type == 0)
				ask(conn, region, &calls[i], i, &r);
		fab_flush(conn);
		n = fab_poll(conn, clock_now_ns(), done, CALLS);
		for (uint32_t i = 0; i < n; i++) {
			answered += done[i]->status != -ECONNRESET;
			done[i]->type = 0;
		}
	}
	broken += fab_conn_status(conn) != 0;
	fab_close(conn); /* with requests under way, and the other still at it */
	usleep(2000);
	atomic_store_explicit(&scribbler.stop, true, memory_order_relaxed);
	pthread_join(scribbler.thread, NULL);
	munmap(scribbler.all.at, scribbler.all.bytes);
	munmap(scribbler.pool.at, scribbler.pool.bytes);
}

/* ---- and the honest one ------------------------------------------------------------------- */

static uint8_t ours[FILE_BYTES];
static _Atomic bool honest_stop;
static _Atomic uint64_t honest_reads;
static char honest_why[128];

static void *read_on(void *arg)
{
	struct weka_client *c = arg;
	size_t size;
	void *got;

	while (!atomic_load_explicit(&honest_stop, memory_order_relaxed) && !honest_why[0]) {
		int err = weka_read_file(c, "/ours", &got, &size);

		if (err)
			snprintf(honest_why, sizeof(honest_why), "%.100s", weka_error(c));
		else if (size != sizeof(ours) || memcmp(got, ours, size) != 0)
			snprintf(honest_why, sizeof(honest_why), "other bytes");
		if (!err)
			free(got);
		atomic_fetch_add_explicit(&honest_reads, 1, memory_order_relaxed);
	}
	return NULL;
}

static bool is_enough(void)
{
	return answered > SESSIONS && broken >= BROKEN &&
	       atomic_load_explicit(&honest_reads, memory_order_relaxed) > 0 && scribbler.holes > 0;
}

Test(app_scribble, spoils_nothing_but_its_own, .timeout = 120)
{
	struct weka_client *client;
	struct app_core_stat stat;
	struct weka_attr attr;
	pthread_t honest;
	uint64_t reads;
	struct rand_state r;

	rand_seed(&r, 1);
	for (size_t i = 0; i < sizeof(ours); i++)
		ours[i] = (uint8_t)rand_u64(&r);
	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
	cr_assert_eq(weka_write_file(client, "/ours", ours, sizeof(ours), NULL), 0);
	cr_assert_eq(weka_write_file(client, "/theirs", ours, sizeof(ours), NULL), 0);
	cr_assert_eq(weka_stat(client, "/theirs", &attr), 0);
	memcpy(&handle, &attr.handle, sizeof(handle));
	cr_assert_eq(pthread_create(&honest, NULL, read_on, client), 0);
	/* Until it has hit what ends a session some times, as well as what does not. */
	for (uint64_t seed = 1; seed <= SESSIONS || (!is_enough() && seed < 20 * SESSIONS); seed++)
		session(seed);
	atomic_store_explicit(&honest_stop, true, memory_order_relaxed);
	pthread_join(honest, NULL);
	cr_assert_eq(honest_why[0], 0, "%s", honest_why);
	app_core_stat(rig.run.core, &stat);
	reads = atomic_load_explicit(&honest_reads, memory_order_relaxed);
	/* Otherwise the test proves nothing. */
	cr_assert(is_enough(), "%llu answered, %llu broken, %llu honest, %llu holes",
		  (unsigned long long)answered, (unsigned long long)broken,
		  (unsigned long long)reads, (unsigned long long)scribbler.holes);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
	cr_log_info("%llu answered, %llu sessions broken, %llu honest reads, %llu strokes",
		    (unsigned long long)answered, (unsigned long long)broken,
		    (unsigned long long)reads, (unsigned long long)scribbler.strokes);
}
