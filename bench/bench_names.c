/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Workloads on many small files of one directory, by name:
 *
 *   smallfile   open + read + close of a batch of files in random order, one request a batch
 *   create      new files, one request a batch, durable when answered; a run's files are
 *               removed again behind it, outside of its time
 *
 * Each file begins with its own number, so that a file that comes under another's name is
 * noticed.
 */
#include "base/clock.h"
#include "base/crc32c.h"
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

#define NAME_BYTES   13 /* "f" and twelve digits */
#define NAME_STRIDE  16
#define UNLINK_DEPTH 64u
#define FILES_MAX    (100u * 1000 * 1000)

/* The arrays that a slot's request points to. */
struct batch {
	uint32_t count;
	uint64_t first; /* put: its first file's number */
	struct weka_read_item read[WEKA_BATCH_MAX];
	struct weka_put_item put[WEKA_BATCH_MAX];
	char name[WEKA_BATCH_MAX][NAME_STRIDE]; /* put, unlink */
};

struct names {
	const struct bench_conf *conf;
	struct bench_env *env;
	struct weka_client *client;
	struct bench_load *load;
	struct bench_pipe *pipe;
	struct bench_pair *pair; /* over tcp */
	struct bench_posix *posix;
	struct batch *batch; /* one a slot */
	char path[64];       /* of the directory; "": not made */
	uint64_t dir;
	char (*name)[NAME_STRIDE]; /* smallfile: of all files, in the order of reading */
	uint32_t *number;          /* ... and their numbers                            */
	uint64_t files;            /* that exist, or are wanted                        */
	uint64_t next;
	uint64_t quota; /* of a create run */
	struct rand_state rand;
};

static void name_of(char out[NAME_STRIDE], uint64_t number)
{
	snprintf(out, NAME_STRIDE, "f%012llu", (unsigned long long)number);
}

/* ---- putting ---------------------------------------------------------------------------- */

/* Where file i of a put lies in the window: each begins a line of 64 bytes. */
static uint64_t stride_of(const struct names *n)
{
	return align_up(n->conf->size_bytes, 64);
}

static int submit_put(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct names *n = ctx;
	struct batch *b = &n->batch[slot->index];
	uint8_t *data = slot->window.lease->data;
	uint64_t left = n->files - n->next;
	int err;

	if (left == 0)
		return BENCH_LOAD_NO_MORE;
	b->count = (uint32_t)min_u64(n->conf->batch, left);
	b->first = n->next;
	for (uint32_t i = 0; i < b->count; i++) {
		uint64_t number = b->first + i, at = i * stride_of(n);

		name_of(b->name[i], number);
		memcpy(data + at, &number, min_u64(sizeof(number), n->conf->size_bytes));
		b->put[i] = (struct weka_put_item){
			.ref = { .by = WEKA_BY_DIR,
				 .dir = n->dir,
				 .name = b->name[i],
				 .name_bytes = NAME_BYTES },
			.create = { .mode = 0600 },
			.window_at = (uint32_t)at,
			.size_bytes = (uint32_t)n->conf->size_bytes,
		};
	}
	err = weka_submit_put(client, &slot->req, b->put, b->count, &slot->window);
	if (err)
		return bench_fail("put in %s: %s", n->path, strerror(-err));
	n->next += b->count;
	return BENCH_LOAD_SUBMITTED;
}

static int finish_put(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct names *n = ctx;
	const struct batch *b = &n->batch[slot->index];

	for (uint32_t i = 0; i < b->count; i++)
		if (b->put[i].status)
			return bench_fail("put %s/%s: %s", n->path, b->name[i],
					  strerror(-b->put[i].status));
	run->ops += b->count;
	run->bytes += b->count * n->conf->size_bytes;
	return 0;
}

static const struct bench_load_ops put_ops = {
	.submit = submit_put,
	.finish = finish_put,
	.what = "putting small files",
};

/* ---- reading ----------------------------------------------------------------------------- */

static int submit_read(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct names *n = ctx;
	struct batch *b = &n->batch[slot->index];
	int err;

	b->count = (uint32_t)min_u64(n->conf->batch, n->files);
	if (n->next + b->count > n->files)
		n->next = 0;
	b->first = n->next;
	for (uint32_t i = 0; i < b->count; i++) {
		struct weka_read_item *item = &b->read[i];

		item->ref.by = WEKA_BY_DIR;
		item->ref.dir = n->dir;
		item->ref.name = n->name[b->first + i];
		item->ref.name_bytes = NAME_BYTES;
		item->length_bytes = WEKA_TO_END;
	}
	err = weka_submit_read_batch(client, &slot->req, b->read, b->count, &slot->window);
	if (err)
		return bench_fail("read of %s: %s", n->path, strerror(-err));
	n->next += b->count;
	return BENCH_LOAD_SUBMITTED;
}

static int wrong(const struct names *n, uint64_t at, const struct weka_read_item *item)
{
	if (item->status)
		return bench_fail("%s/%s: %s", n->path, n->name[at], strerror(-item->status));
	return bench_fail("%s/%s: %llu bytes of another file came", n->path, n->name[at],
			  (unsigned long long)item->got_bytes);
}

static int finish_read(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct names *n = ctx;
	const struct batch *b = &n->batch[slot->index];
	uint64_t size = n->conf->size_bytes;

	for (uint32_t i = 0; i < b->count; i++) {
		const struct weka_read_item *item = &b->read[i];
		uint64_t number = n->number[b->first + i];

		if (item->status || item->got_bytes != size ||
		    memcmp(item->data, &number, min_u64(sizeof(number), size)) != 0)
			return wrong(n, b->first + i, item);
	}
	run->ops += b->count;
	run->bytes += b->count * size;
	return 0;
}

static const struct bench_load_ops read_ops = {
	.submit = submit_read,
	.finish = finish_read,
	.what = "reading small files",
};

/* ---- removing ------------------------------------------------------------------------------ */

static int submit_unlink(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct names *n = ctx;
	char *name = n->batch[0].name[slot->index];
	struct weka_ref ref;
	int err;

	if (n->next == n->files)
		return BENCH_LOAD_NO_MORE;
	name_of(name, n->next++);
	ref = weka_ref_in(n->dir, name);
	err = weka_submit_unlink(client, &slot->req, &ref);
	return err ? bench_fail("remove from %s: %s", n->path, strerror(-err)) : 0;
}

static int finish_unlink(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	(void)ctx;
	(void)slot;
	run->ops++;
	return 0;
}

static const struct bench_load_ops unlink_ops = {
	.submit = submit_unlink,
	.finish = finish_unlink,
	.what = "removing small files",
};

/* Files 0 .. files - 1 and their directory. */
static int remove_dir(struct names *n)
{
	struct bench_load *load = NULL;
	struct bench_run run = { 0 };
	int err;

	n->next = 0;
	err = bench_load_create(&load, n->client, UNLINK_DEPTH, 0, &unlink_ops, n);
	if (!err)
		err = bench_load_run(load, BENCH_LOAD_ALL, &run);
	bench_load_destroy(load);
	if (!err && weka_rmdir(n->client, n->path) != 0)
		err = bench_fail("%s: %s", n->path, weka_error(n->client));
	n->path[0] = '\0';
	return err;
}

/* ---- beginning and end ------------------------------------------------------------------ */

static int make_dir(struct names *n)
{
	struct weka_attr attr;

	snprintf(n->path, sizeof(n->path), "/weka-bench.%d", (int)getpid());
	if (weka_mkdir(n->client, n->path, 0700) != 0 ||
	    weka_stat(n->client, n->path, &attr) != 0) {
		(void)bench_fail("%s: %s", n->path, weka_error(n->client));
		n->path[0] = '\0';
		return 1;
	}
	n->dir = attr.dir;
	return 0;
}

static uint64_t window_of(const struct bench_conf *conf)
{
	return weka_window_bytes(conf->batch, conf->size_bytes);
}

static int open_names(struct names *n)
{
	struct weka_options o = { .size_bytes = sizeof(o) };
	const struct bench_conf *conf = n->conf;
	int err;

	err = bench_env_open(&n->env, conf);
	bench_pin(conf->core_client);
	if (err)
		return err;
	if (conf->files > FILES_MAX || window_of(conf) == 0)
		return bench_fail("--files, or --batch times --size, is too large");
	o.requests_max = max_u32(conf->depth, UNLINK_DEPTH) + 1;
	o.batches_max = conf->depth;
	o.pool_bytes = conf->depth * (window_of(conf) + (64u << 10)) + (4u << 20);
	err = bench_env_connect(n->env, 0, &o, &n->client);
	n->batch = calloc(conf->depth, sizeof(*n->batch));
	return err || n->batch ? err : bench_fail("out of memory");
}

static int close_names(struct names *n, int err)
{
	bench_load_destroy(n->load);
	if (n->path[0] && !err)
		err = remove_dir(n);
	weka_close(n->client);
	bench_posix_destroy(n->posix);
	bench_pair_destroy(n->pair);
	bench_pipe_destroy(n->pipe);
	err |= bench_env_close(n->env);
	free(n->batch);
	free(n->name);
	free(n->number);
	free(n);
	return err;
}

static int posix_failed(const struct names *n, int err)
{
	return bench_fail("%s: %s", n->conf->vs_dir, strerror(-err));
}

/* ---- smallfile ------------------------------------------------------------------------------ */

/* Fisher-Yates; then the names in that order, so that reading them is sequential for us. */
static int shuffle(struct names *n)
{
	n->number = calloc(n->files, sizeof(*n->number));
	n->name = calloc(n->files, sizeof(*n->name));
	if (!n->number || !n->name)
		return bench_fail("out of memory for %llu names", (unsigned long long)n->files);
	for (uint64_t i = 0; i < n->files; i++) {
		uint64_t j = rand_below(&n->rand, i + 1);

		n->number[i] = n->number[j];
		n->number[j] = (uint32_t)i;
	}
	for (uint64_t i = 0; i < n->files; i++)
		name_of(n->name[i], n->number[i]);
	return 0;
}

static int fill(struct names *n)
{
	struct bench_load *load = NULL;
	struct bench_run run = { 0 };
	int err = make_dir(n);

	if (err)
		return err;
	n->files = n->conf->files;
	n->next = 0;
	err = bench_load_create(&load, n->client, n->conf->depth, window_of(n->conf), &put_ops, n);
	if (!err)
		err = bench_load_run(load, BENCH_LOAD_ALL, &run);
	bench_load_destroy(load);
	n->next = 0;
	return err;
}

/* A batch in bare sockets: a request as long as its names, a reply with all files. */
static int open_pair(struct names *n)
{
	const struct bench_conf *conf = n->conf;
	struct bench_pair_shape shape = {
		.request_bytes = 64 + 8 + conf->batch * (40 + NAME_BYTES),
		.items = conf->batch,
		.item_bytes = conf->size_bytes,
		.depth = conf->depth,
		.conns = 1,
	};
	int err;

	if (strcmp(bench_env_transport(n->env, 0), "tcp") != 0 ||
	    (conf->size_bytes > BLOCK_SIZE && conf->size_bytes % BLOCK_SIZE))
		return 0;
	err = bench_pair_create(&n->pair, n->pipe, &shape, conf);
	return err ? bench_fail("the bare pair: %s", strerror(-err)) : 0;
}

static int prepare_smallfile(struct names *n)
{
	const struct bench_conf *conf = n->conf;
	uint32_t depth = min_u32(conf->depth * conf->batch, 1024);
	int err = open_names(n);

	if (!err)
		err = fill(n);
	if (!err)
		err = shuffle(n);
	if (!err)
		err = bench_load_create(&n->load, n->client, conf->depth, window_of(conf),
					&read_ops, n);
	if (!err && bench_pipe_create(&n->pipe, conf->size_bytes, depth, false, conf) != 0)
		err = bench_fail("no memory for the bare pipeline (2 GiB)");
	if (!err)
		err = open_pair(n);
	if (err || !conf->vs_dir)
		return err;
	err = bench_posix_create(&n->posix, conf->vs_dir, conf->files, conf->size_bytes);
	return err ? posix_failed(n, err) : 0;
}

int bench_workload_smallfile(const struct bench_conf *conf)
{
	struct bench_part part[BENCH_ROLES] = { 0 };
	struct names *n = calloc(1, sizeof(*n));
	int err;

	if (!n)
		return bench_fail("out of memory");
	n->conf = conf;
	rand_seed(&n->rand, 5);
	err = prepare_smallfile(n);
	part[BENCH_WORK] = (struct bench_part){ bench_load_run, n->load };
	part[BENCH_VS_PIPE] = (struct bench_part){ bench_pipe_run, n->pipe };
	part[BENCH_VS_COPY] = (struct bench_part){ bench_copy_run, n->pipe };
	if (n->pair)
		part[BENCH_VS_PAIR] = (struct bench_part){ bench_pair_run, n->pair };
	if (n->posix)
		part[BENCH_VS_POSIX] = (struct bench_part){ bench_posix_read_run, n->posix };
	if (!err)
		err = bench_measure(conf, "smallfile", bench_env_transport(n->env, 0), part);
	return close_names(n, err);
}

/* ---- create --------------------------------------------------------------------------------- */

/* A run ends early rather than fill the drive: a third of the free space, 8 KiB a small file. */
static int choose_quota(struct names *n)
{
	struct weka_statfs s;

	if (weka_statfs(n->client, &s) != 0)
		return bench_fail("statfs: %s", weka_error(n->client));
	n->files = s.free_bytes / 3 / (align_up(n->conf->size_bytes, WEKA_BLOCK) + 4096);
	return n->files > 0 ? 0 : bench_fail("the appliance is full");
}

static int create_run(void *names, double seconds, struct bench_run *run)
{
	struct names *n = names;
	int err = make_dir(n);

	if (!err)
		err = choose_quota(n);
	n->next = 0;
	if (!err)
		err = bench_load_run(n->load, seconds, run);
	n->files = n->next;
	return err ? err : remove_dir(n);
}

static int prepare_create(struct names *n)
{
	const struct bench_conf *conf = n->conf;
	int err = open_names(n);

	if (!err)
		err = bench_load_create(&n->load, n->client, conf->depth, window_of(conf), &put_ops,
					n);
	if (err || !conf->vs_dir)
		return err;
	err = bench_posix_create(&n->posix, conf->vs_dir, 0, conf->size_bytes);
	return err ? posix_failed(n, err) : 0;
}

int bench_workload_create(const struct bench_conf *conf)
{
	struct bench_part part[BENCH_ROLES] = { 0 };
	struct names *n = calloc(1, sizeof(*n));
	int err;

	if (!n)
		return bench_fail("out of memory");
	n->conf = conf;
	err = prepare_create(n);
	part[BENCH_WORK] = (struct bench_part){ create_run, n };
	if (n->posix)
		part[BENCH_VS_POSIX] = (struct bench_part){ bench_posix_create_run, n->posix };
	if (!err)
		err = bench_measure(conf, "create", bench_env_transport(n->env, 0), part);
	return close_names(n, err);
}
