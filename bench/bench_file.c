/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Workloads on one large file, by handle: randread, seqread, seqwrite; and ping, a round trip
 * without work.
 *
 * The file fills most of the drive, so that no cache helps.  Each of its blocks begins with its own
 * number, so that bytes from a wrong place are noticed too: the library, which compares their
 * checksums, cannot notice those.
 */
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/bench_env.h"
#include "bench/bench_load.h"
#include "bench/bench_pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILL_BYTES (1u << 20) /* of one write */
#define FILL_DEPTH 8u
#define FILE_MAX   (4ull << 30) /* unless --file-bytes says so */

struct large {
	const struct bench_conf *conf;
	struct bench_env *env;
	struct weka_client *client;
	struct bench_load *load;
	struct bench_pipe *pipe;
	struct bench_pair *pair; /* over tcp */
	struct bench_posix *posix;
	char path[64];
	bool made;
	struct weka_handle handle;
	uint64_t bytes; /* of the file */
	bool sequential;
	uint64_t next;     /* sequential: the next piece; fill: the next byte */
	bool *filled;      /* seqwrite: a slot's window has bytes         */
	uint64_t at[1024]; /* of each slot's request                       */
	struct rand_state rand;
};

/* ---- writing ------------------------------------------------------------------------ */

/* Bytes that nothing could make smaller, each block with its number in the file. */
static void make_bytes(struct large *f, uint64_t *word, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes / sizeof(*word); i++)
		word[i] = rand_u64(&f->rand);
}

static void number_blocks(uint64_t *word, uint64_t at, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += WEKA_BLOCK)
		word[i / sizeof(*word)] = (at + i) / WEKA_BLOCK;
}

/* Round and round, so that after the first one each write replaces something. */
static int submit_write(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct large *f = ctx;
	const uint64_t size = f->conf->size_bytes, at = f->next++ % (f->bytes / size) * size;
	uint64_t *word = (void *)((uint8_t *)slot->window.lease->data + slot->window.offset_bytes);
	int err;

	if (!f->filled[slot->index])
		make_bytes(f, word, size);
	f->filled[slot->index] = true;
	number_blocks(word, at, size);
	err = weka_submit_write(client, &slot->req, &f->handle, at, (uint32_t)size, 0,
				&slot->window);
	return err ? bench_fail("write %s: %s", f->path, strerror(-err)) : BENCH_LOAD_SUBMITTED;
}

static int finish_write(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	const struct large *f = ctx;

	(void)slot;
	run->ops++;
	run->bytes += f->conf->size_bytes;
	return 0;
}

static const struct bench_load_ops write_ops = {
	.submit = submit_write,
	.finish = finish_write,
	.what = "writing the large file",
};

/* ---- filling ------------------------------------------------------------------------ */

static int submit_fill(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct large *f = ctx;
	uint64_t *word = slot->window.lease->data;
	int err;

	if (f->next >= f->bytes)
		return BENCH_LOAD_NO_MORE;
	make_bytes(f, word, FILL_BYTES);
	number_blocks(word, f->next, FILL_BYTES);
	err = weka_submit_write(client, &slot->req, &f->handle, f->next, FILL_BYTES, 0,
				&slot->window);
	if (err)
		return bench_fail("write %s: %s", f->path, strerror(-err));
	f->next += FILL_BYTES;
	return BENCH_LOAD_SUBMITTED;
}

static int finish_fill(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	(void)ctx;
	(void)slot;
	run->ops++;
	run->bytes += FILL_BYTES;
	return 0;
}

static const struct bench_load_ops fill_ops = {
	.submit = submit_fill,
	.finish = finish_fill,
	.what = "writing the large file",
};

/* Size of the file: --file-bytes, or 7 tenths of the free space. */
static int choose_size(struct large *f)
{
	struct weka_statfs s;
	int err = weka_statfs(f->client, &s);

	if (err)
		return bench_fail("statfs: %s", weka_error(f->client));
	f->bytes = f->conf->file_bytes;
	if (f->bytes == 0)
		f->bytes = min_u64(s.free_bytes / 10 * 7, FILE_MAX);
	f->bytes = align_down(f->bytes, FILL_BYTES);
	if (f->bytes == 0 || f->bytes > s.free_bytes)
		return bench_fail("the large file (%llu MiB) does not fit: %llu MiB are free",
				  (unsigned long long)f->bytes >> 20,
				  (unsigned long long)s.free_bytes >> 20);
	return 0;
}

static int make_file(struct large *f)
{
	struct weka_attr attr;
	int err = choose_size(f);

	if (err)
		return err;
	snprintf(f->path, sizeof(f->path), "/weka-bench.%d", (int)getpid());
	err = weka_open(f->client, f->path, WEKA_CREATE | WEKA_EXCL, 0600, &attr);
	if (err)
		return bench_fail("%s: %s", f->path, weka_error(f->client));
	f->made = true;
	f->handle = attr.handle;
	return 0;
}

static int fill(struct large *f)
{
	struct bench_run run = { 0 };
	struct bench_load *load = NULL;
	int err;

	f->next = 0;
	err = bench_load_create(&load, f->client, FILL_DEPTH,
				weka_window_bytes(1, FILL_BYTES + WEKA_BLOCK - 1), &fill_ops, f);
	if (!err)
		err = bench_load_run(load, BENCH_LOAD_ALL, &run);
	bench_load_destroy(load);
	f->next = 0;
	return err;
}

/* ---- reading -------------------------------------------------------------------------- */

static int submit_read(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct large *f = ctx;
	uint64_t pieces = f->bytes / f->conf->size_bytes, piece;
	int err;

	piece = f->sequential ? f->next++ % pieces : rand_below(&f->rand, pieces);
	f->at[slot->index] = piece * f->conf->size_bytes;
	err = weka_submit_read(client, &slot->req, &f->handle, f->at[slot->index],
			       (uint32_t)f->conf->size_bytes, &slot->window);
	return err ? bench_fail("read %s: %s", f->path, strerror(-err)) : BENCH_LOAD_SUBMITTED;
}

static int finish_read(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct large *f = ctx;
	uint64_t at = f->at[slot->index];
	const uint8_t *data = slot->req.data;

	if (slot->req.length_bytes != f->conf->size_bytes)
		return bench_fail("read %s at %llu: %llu bytes came, not %llu", f->path,
				  (unsigned long long)at,
				  (unsigned long long)slot->req.length_bytes,
				  (unsigned long long)f->conf->size_bytes);
	for (uint64_t i = 0; i < f->conf->size_bytes; i += WEKA_BLOCK) {
		uint64_t number;

		memcpy(&number, data + i, sizeof(number));
		if (number != (at + i) / WEKA_BLOCK)
			return bench_fail("read %s: block %llu came instead of %llu", f->path,
					  (unsigned long long)number,
					  (unsigned long long)(at + i) / WEKA_BLOCK);
	}
	run->ops++;
	run->bytes += f->conf->size_bytes;
	return 0;
}

static const struct bench_load_ops read_ops = {
	.submit = submit_read,
	.finish = finish_read,
	.what = "reading the large file",
};

/* ---- the round trip --------------------------------------------------------------------- */

static int submit_ping(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	int err = weka_submit_ping(client, &slot->req);

	(void)ctx;
	return err ? bench_fail("ping: %s", strerror(-err)) : BENCH_LOAD_SUBMITTED;
}

static int finish_ping(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	(void)ctx;
	(void)slot;
	run->ops++;
	return 0;
}

static const struct bench_load_ops ping_ops = {
	.submit = submit_ping,
	.finish = finish_ping,
	.what = "ping",
};

/* ---- together ------------------------------------------------------------------------------ */

static int connect_to(struct large *f, uint64_t read_window)
{
	struct weka_options o = { .size_bytes = sizeof(o) };
	uint64_t fill_pool = FILL_DEPTH * (FILL_BYTES + (64u << 10));

	o.requests_max = max_u32(f->conf->depth, 64);
	o.pool_bytes = max_u64(fill_pool, f->conf->depth * read_window) + (4u << 20);
	return bench_env_connect(f->env, 0, &o, &f->client);
}

static void close_large(struct large *f)
{
	bench_posix_destroy(f->posix);
	bench_pair_destroy(f->pair);
	bench_pipe_destroy(f->pipe);
	bench_load_destroy(f->load);
	if (f->made && !bench_interrupted() && weka_unlink(f->client, f->path) != 0)
		fprintf(stderr, "weka-bench: %s stays: %s\n", f->path, weka_error(f->client));
	weka_close(f->client);
	free(f->filled);
}

/* A read in bare sockets: its capsule, and one reply with its blocks. */
static int open_pair(struct large *f)
{
	struct bench_pair_shape shape = {
		.request_bytes = 64,
		.items = 1,
		.item_bytes = f->conf->size_bytes,
		.depth = f->conf->depth,
		.conns = 1,
		.sequential = f->sequential,
	};
	int err;

	if (strcmp(bench_env_transport(f->env, 0), "tcp") != 0)
		return 0;
	err = bench_pair_create(&f->pair, f->pipe, &shape, f->conf);
	return err ? bench_fail("the bare pair: %s", strerror(-err)) : 0;
}

static int open_large(struct large *f)
{
	const struct bench_conf *conf = f->conf;
	uint64_t window = align_up(conf->size_bytes, WEKA_BLOCK);
	int err;

	if (conf->size_bytes > 32 * WEKA_BLOCK)
		window = weka_window_bytes(1, conf->size_bytes);
	err = connect_to(f, window);
	if (!err)
		err = make_file(f);
	if (!err)
		err = fill(f);
	if (!err)
		err = bench_load_create(&f->load, f->client, conf->depth, window, &read_ops, f);
	if (!err && bench_pipe_create(&f->pipe, conf->size_bytes, conf->depth, f->sequential, conf))
		err = bench_fail("no memory for the bare pipeline (2 GiB)");
	if (!err)
		err = open_pair(f);
	if (err || !conf->vs_dir)
		return err;
	err = bench_posix_large(&f->posix, conf->vs_dir, f->bytes, conf->size_bytes, f->sequential);
	return err ? bench_fail("%s: %s", conf->vs_dir, strerror(-err)) : 0;
}

static int run_large(const struct bench_conf *conf, const char *name, bool sequential)
{
	struct bench_part part[BENCH_ROLES] = { 0 };
	struct large *f;
	int err;

	if (conf->size_bytes % WEKA_BLOCK)
		return bench_fail("--size of %s must be a multiple of 4K", name);
	f = calloc(1, sizeof(*f));
	if (!f)
		return bench_fail("out of memory");
	f->conf = conf;
	f->sequential = sequential;
	rand_seed(&f->rand, 4);
	err = bench_env_open(&f->env, conf);
	bench_pin(conf->core_client);
	if (!err)
		err = open_large(f);
	part[BENCH_WORK] = (struct bench_part){ bench_load_run, f->load };
	part[BENCH_VS_PIPE] = (struct bench_part){ bench_pipe_run, f->pipe };
	part[BENCH_VS_COPY] = (struct bench_part){ bench_copy_run, f->pipe };
	if (f->pair)
		part[BENCH_VS_PAIR] = (struct bench_part){ bench_pair_run, f->pair };
	if (f->posix)
		part[BENCH_VS_POSIX] = (struct bench_part){ bench_posix_pread_run, f->posix };
	if (!err)
		err = bench_measure(conf, name, bench_env_transport(f->env, 0), part);
	close_large(f);
	err |= bench_env_close(f->env);
	free(f);
	return err;
}

static int open_written(struct large *f)
{
	const struct bench_conf *conf = f->conf;
	const uint64_t window = weka_window_bytes(1, conf->size_bytes + WEKA_BLOCK - 1);
	int err = connect_to(f, window);

	f->filled = calloc(conf->depth, sizeof(*f->filled));
	if (!err && !f->filled)
		err = bench_fail("out of memory");
	if (!err)
		err = make_file(f);
	if (!err)
		err = bench_load_create(&f->load, f->client, conf->depth, window, &write_ops, f);
	if (err || !conf->vs_dir)
		return err;
	err = bench_posix_large(&f->posix, conf->vs_dir, f->bytes, conf->size_bytes, true);
	return err ? bench_fail("%s: %s", conf->vs_dir, strerror(-err)) : 0;
}

int bench_workload_seqwrite(const struct bench_conf *conf)
{
	struct bench_part part[BENCH_ROLES] = { 0 };
	struct large *f;
	int err;

	if (conf->size_bytes % WEKA_BLOCK || conf->size_bytes > WEKA_WRITE_MAX)
		return bench_fail("--size of seqwrite must be a multiple of 4K, up to 4M");
	f = calloc(1, sizeof(*f));
	if (!f)
		return bench_fail("out of memory");
	f->conf = conf;
	rand_seed(&f->rand, 4);
	err = bench_env_open(&f->env, conf);
	bench_pin(conf->core_client);
	if (!err)
		err = open_written(f);
	part[BENCH_WORK] = (struct bench_part){ bench_load_run, f->load };
	if (f->posix)
		part[BENCH_VS_POSIX] = (struct bench_part){ bench_posix_pwrite_run, f->posix };
	if (!err)
		err = bench_measure(conf, "seqwrite", bench_env_transport(f->env, 0), part);
	close_large(f);
	err |= bench_env_close(f->env);
	free(f);
	return err;
}

int bench_workload_randread(const struct bench_conf *conf)
{
	return run_large(conf, "randread", false);
}

int bench_workload_seqread(const struct bench_conf *conf)
{
	return run_large(conf, "seqread", true);
}

int bench_workload_ping(const struct bench_conf *conf)
{
	struct weka_options o = { .size_bytes = sizeof(o),
				  .pool_bytes = 2u << 20,
				  .requests_max = max_u32(conf->depth, 64) };
	struct bench_part part[BENCH_ROLES] = { 0 };
	struct weka_client *client = NULL;
	struct bench_load *load = NULL;
	struct bench_env *env;
	int err = bench_env_open(&env, conf);

	bench_pin(conf->core_client);
	if (!err)
		err = bench_env_connect(env, 0, &o, &client);
	if (!err)
		err = bench_load_create(&load, client, conf->depth, 0, &ping_ops, NULL);
	part[BENCH_WORK] = (struct bench_part){ bench_load_run, load };
	if (!err)
		err = bench_measure(conf, "ping", bench_env_transport(env, 0), part);
	bench_load_destroy(load);
	weka_close(client);
	return bench_env_close(env) | err;
}
