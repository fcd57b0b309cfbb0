/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * epoch: every file of a tree once, in random order, by path, a batch a request; then the same
 * files in the same order from the local file system, open + read + close; then the next epoch, in
 * another order.  All addresses of --connect take part, in turn.
 *
 * With --verify each received byte is compared with the local file, and the window is then
 * overwritten, so that a missing read is noticed.  That is done between waves of `depth` batches
 * while the clock is stopped, so that the figures include neither the comparison nor work that
 * could proceed during it.
 *
 * The local side reads into the same buffer each time, which favours the caches, and checks no
 * sums: it is given every advantage.
 *
 * With --summary the local files are also read without the page cache, and one table with the
 * medians of all epochs takes the place of a row for each.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/bench_cold.h"
#include "bench/bench_env.h"
#include "bench/bench_load.h"
#include "bench/bench_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW_BYTES (16u << 20) /* of one batch at most */
#define PIECE_BYTES  (8u << 20)  /* of one file at once  */

/* Ways to the appliance, then the local files, warm and cold. */
enum { SOURCES_MAX = BENCH_CONNECT_MAX + 2 };

struct batch {
	uint32_t count;
	uint32_t piece[WEKA_BATCH_MAX];
	struct weka_read_item item[WEKA_BATCH_MAX];
};

struct epoch;

/* One way to the appliance. */
struct reader {
	struct epoch *e;
	struct weka_client *client;
	struct bench_load *load;
	struct batch *batch; /* one a slot */
	struct bench_result *result;
};

struct epoch {
	const struct bench_conf *conf;
	struct bench_env *env;
	struct bench_tree tree;
	char made[64]; /* the tree's directory, if it was made here */
	char **remote; /* of each piece: its path there ...         */
	char **local;  /* ... and here                              */
	uint32_t *order;
	size_t next; /* in order */
	uint8_t *buffer;
	struct reader reader[BENCH_CONNECT_MAX];
	uint32_t readers;
	/* --summary: of each epoch, in the order of struct one_epoch. */
	double files_per_s[SOURCES_MAX][BENCH_RUNS_MAX];
	double bytes_per_s[SOURCES_MAX][BENCH_RUNS_MAX];
	bool direct; /* files are cold by O_DIRECT, not by dropping caches */
};

/* ---- batches ------------------------------------------------------------------------ */

/* The next pieces in order: as many as a batch has, or as the window holds. */
static void next_batch(struct epoch *e, struct batch *b)
{
	uint64_t blocks = 0;

	b->count = 0;
	while (b->count < e->conf->batch && e->next < e->tree.piece_count) {
		const struct bench_tree_piece *p = &e->tree.piece[e->order[e->next]];
		uint64_t more = blocks + div_up(p->length_bytes, WEKA_BLOCK);
		uint64_t each = div_up(more, b->count + 1) * WEKA_BLOCK;

		if (weka_window_bytes(b->count + 1, each) > WINDOW_BYTES ||
		    weka_window_bytes(b->count + 1, each) == 0)
			break;
		blocks = more;
		b->piece[b->count++] = e->order[e->next++];
	}
	ASSERT(b->count > 0 || e->next == e->tree.piece_count);
}

static int submit(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct reader *r = ctx;
	struct batch *b = &r->batch[slot->index];
	int err;

	next_batch(r->e, b);
	if (b->count == 0)
		return BENCH_LOAD_NO_MORE;
	for (uint32_t i = 0; i < b->count; i++) {
		const struct bench_tree_piece *p = &r->e->tree.piece[b->piece[i]];

		b->item[i] = (struct weka_read_item){
			.ref = weka_ref_path(r->e->remote[b->piece[i]]),
			.offset_bytes = p->offset_bytes,
			/* no read has 0 bytes: an empty file is read to its end */
			.length_bytes = p->length_bytes ? p->length_bytes : WEKA_TO_END,
		};
	}
	err = weka_submit_read_batch(client, &slot->req, b->item, b->count, &slot->window);
	return err ? bench_fail("read of %u files: %s", b->count, strerror(-err))
		   : BENCH_LOAD_SUBMITTED;
}

static int finish(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct reader *r = ctx;
	const struct batch *b = &r->batch[slot->index];

	for (uint32_t i = 0; i < b->count; i++) {
		const struct bench_tree_piece *p = &r->e->tree.piece[b->piece[i]];
		const struct weka_read_item *item = &b->item[i];

		if (item->status)
			return bench_fail("%s: %s", r->e->remote[b->piece[i]],
					  strerror(-item->status));
		if (item->got_bytes != p->length_bytes)
			return bench_fail("%s: %llu bytes came, the local file has %llu",
					  r->e->remote[b->piece[i]],
					  (unsigned long long)item->got_bytes,
					  (unsigned long long)p->length_bytes);
		run->ops += p->first;
		run->bytes += item->got_bytes;
	}
	return 0;
}

/* ---- the local side -------------------------------------------------------------------- */

/* flags: 0 or O_DIRECT, which reads whole blocks. */
static int read_local(const struct epoch *e, uint32_t piece, int flags)
{
	const struct bench_tree_piece *p = &e->tree.piece[piece];
	int fd = open(e->local[piece], O_RDONLY | O_CLOEXEC | flags);
	uint64_t done = 0;

	while (fd >= 0 && done < p->length_bytes) {
		uint64_t left = p->length_bytes - done;
		ssize_t n = pread(fd, e->buffer + done, flags ? align_up(left, WEKA_BLOCK) : left,
				  (off_t)(p->offset_bytes + done));

		if (n <= 0)
			break;
		done += (uint64_t)n;
	}
	if (fd >= 0)
		close(fd);
	return fd >= 0 && done == p->length_bytes
		       ? 0
		       : bench_fail("%s: cannot be read, or has become shorter", e->local[piece]);
}

static int compare(struct reader *r, const struct batch *b, uint32_t i)
{
	const struct bench_tree_piece *p = &r->e->tree.piece[b->piece[i]];
	uint64_t at = 0;

	if (read_local(r->e, b->piece[i], 0))
		return 1;
	r->result->checked_bytes += p->length_bytes;
	if (p->length_bytes == 0 || memcmp(b->item[i].data, r->e->buffer, p->length_bytes) == 0)
		return 0;
	while (((const uint8_t *)b->item[i].data)[at] == r->e->buffer[at])
		at++;
	return bench_fail("%s: MISMATCH: byte %llu differs from the local file",
			  r->e->remote[b->piece[i]], (unsigned long long)(p->offset_bytes + at));
}

/* Overwrites the window, so that a lost DMA does not look like a good read. */
static void poison(const struct weka_window *w)
{
	memset((uint8_t *)w->lease->data + w->offset_bytes, 0xdb, w->size_bytes);
}

static int compare_all(void *ctx, struct bench_slot *slots, uint32_t count)
{
	struct reader *r = ctx;
	int err = 0;

	for (uint32_t s = 0; s < count; s++) {
		struct batch *b = &r->batch[s];

		for (uint32_t i = 0; !err && i < b->count; i++)
			err = compare(r, b, i);
		if (b->count > 0)
			poison(&slots[s].window);
		b->count = 0; /* the last wave may not use every slot */
	}
	return err;
}

static int local_epoch(struct epoch *e, struct batch *b, int flags, struct bench_run *run)
{
	uint64_t start = clock_now_ns(), before = start, now = start;

	for (;;) {
		next_batch(e, b);
		if (b->count == 0 || bench_interrupted())
			break;
		for (uint32_t i = 0; i < b->count; i++) {
			if (read_local(e, b->piece[i], flags))
				return 1;
			run->ops += e->tree.piece[b->piece[i]].first;
			run->bytes += e->tree.piece[b->piece[i]].length_bytes;
		}
		now = clock_now_ns();
		stat_hist_record(run->hist, now - before);
		before = now;
	}
	run->ns = now - start;
	return 0;
}

/* ---- epochs ----------------------------------------------------------------------------- */

static void shuffle(struct epoch *e, uint64_t seed)
{
	struct rand_state rand;

	rand_seed(&rand, seed);
	for (size_t i = 0; i < e->tree.piece_count; i++) {
		size_t j = rand_below(&rand, i + 1);

		e->order[i] = e->order[j];
		e->order[j] = (uint32_t)i;
	}
}

static void print_head(const struct epoch *e)
{
	const struct bench_conf *c = e->conf;

	if (c->json || c->summary)
		return;
	printf("%llu files, %.1f MB, %u epochs, batches of %u, %u in flight%s\n\n",
	       (unsigned long long)e->tree.files, (double)e->tree.bytes / 1e6, c->epochs, c->batch,
	       c->depth, c->verify ? "; every byte compared with the local file" : "");
	printf("epoch  transport    files/s      MB/s   batch p50   batch p99  checked bytes  "
	       "vs local\n");
}

static void print_row(const struct epoch *e, uint32_t epoch, const char *transport,
		      const struct bench_run *run, uint64_t checked, double ratio)
{
	if (e->conf->json || e->conf->summary)
		return;
	printf("%5u  %-9s %10.0f %9.1f %8.2f ms %8.2f ms %14llu  %8.2f\n", epoch, transport,
	       bench_rate(run), (double)run->bytes * 1e3 / (double)max_u64(run->ns, 1),
	       (double)stat_hist_percentile(run->hist, 50) / 1e6,
	       (double)stat_hist_percentile(run->hist, 99) / 1e6, (unsigned long long)checked,
	       ratio);
	fflush(stdout);
}

static int read_epoch(struct reader *r, struct bench_run *run, uint64_t *checked)
{
	uint64_t before = r->result->checked_bytes;
	int err;

	r->e->next = 0;
	err = bench_load_run(r->load, BENCH_LOAD_ALL, run);
	*checked = r->result->checked_bytes - before;
	if (!err && run->bytes != r->e->tree.bytes)
		err = bench_fail("%llu bytes came, %llu are there", (unsigned long long)run->bytes,
				 (unsigned long long)r->e->tree.bytes);
	return err;
}

/* Results of one epoch, for each address and for the local side, which comes last. */
struct one_epoch {
	struct bench_run run[SOURCES_MAX];
	uint64_t checked[SOURCES_MAX];
	struct stat_hist hist[SOURCES_MAX];
	struct batch batch;
};

static int measure_epoch(struct epoch *e, struct one_epoch *o, uint32_t epoch)
{
	uint32_t local = e->readers;
	int err = 0;

	memset(o->run, 0, sizeof(o->run));
	shuffle(e, 100 + epoch);
	for (uint32_t i = 0; i < SOURCES_MAX; i++) {
		stat_hist_reset(&o->hist[i]);
		o->run[i].hist = &o->hist[i];
	}
	for (uint32_t i = 0; !err && i < e->readers; i++)
		err = read_epoch(&e->reader[i], &o->run[i], &o->checked[i]);
	e->next = 0;
	if (!err)
		err = local_epoch(e, &o->batch, 0, &o->run[local]);
	e->next = 0;
	if (!err && e->conf->summary) {
		int flags = bench_cold_begin();

		e->direct = flags != 0;
		err = local_epoch(e, &o->batch, flags, &o->run[local + 1]);
	}
	return err || !bench_interrupted() ? err : bench_fail("interrupted");
}

static void note_epoch(struct epoch *e, struct one_epoch *o, uint32_t epoch)
{
	double local = bench_rate(&o->run[e->readers]);

	for (uint32_t i = 0; i < e->readers; i++) {
		struct bench_result *r = e->reader[i].result;
		double rate = bench_rate(&o->run[i]);

		r->ops_per_s[epoch] = rate;
		r->bytes_per_s[epoch] =
			(double)o->run[i].bytes * 1e9 / (double)max_u64(o->run[i].ns, 1);
		r->ratio[BENCH_VS_POSIX][epoch] = rate / local;
		stat_hist_merge(&r->hist, &o->hist[i]);
		print_row(e, epoch + 1, r->transport, &o->run[i], o->checked[i], rate / local);
	}
	print_row(e, epoch + 1, "local", &o->run[e->readers], 0, 1);
}

static void note_summary(struct epoch *e, const struct one_epoch *o, uint32_t epoch)
{
	uint64_t checked = 0;

	for (uint32_t i = 0; i < e->readers + 2; i++) {
		e->files_per_s[i][epoch] = bench_rate(&o->run[i]);
		e->bytes_per_s[i][epoch] =
			(double)o->run[i].bytes * 1e9 / (double)max_u64(o->run[i].ns, 1);
		checked += o->checked[i];
	}
	printf("  epoch %u of %u: %llu files read in %u ways", epoch + 1, e->conf->epochs,
	       (unsigned long long)e->tree.files, e->readers + 2);
	if (e->conf->verify)
		printf("; %.1f MB compared, all equal", (double)checked / 1e6);
	printf("\n");
	fflush(stdout);
}

static void print_summary(const struct epoch *e)
{
	const uint32_t local = e->readers, count = e->readers + 2;
	struct bench_cold_row row[SOURCES_MAX];

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t from = i < 2 ? local + i : i - 2; /* the local files first */

		row[i] = (struct bench_cold_row){
			.name = from < local ? e->conf->name[from] : "",
			.files_per_s = bench_median(e->files_per_s[from], e->conf->epochs),
			.bytes_per_s = bench_median(e->bytes_per_s[from], e->conf->epochs),
		};
		if (i >= 2 && !row[i].name)
			row[i].name = e->reader[from].result->transport;
	}
	row[0].name = "local files, from the page cache (warm)";
	row[1].name = e->direct ? "local files, from the disk (O_DIRECT)"
				: "local files, from the disk (caches dropped)";
	printf("\n");
	bench_cold_table(row, count, 1);
}

static int run_epochs(struct epoch *e)
{
	struct one_epoch *o = calloc(1, sizeof(*o));
	struct bench_run warm = { 0 };
	int err;

	if (!o)
		return bench_fail("out of memory");
	warm.hist = &o->hist[0];
	shuffle(e, 99);
	err = local_epoch(e, &o->batch, 0, &warm);
	print_head(e);
	for (uint32_t i = 0; !err && i < e->conf->epochs; i++) {
		err = measure_epoch(e, o, i);
		if (!err)
			note_epoch(e, o, i);
		if (!err && e->conf->summary)
			note_summary(e, o, i);
	}
	if (!err && e->conf->summary)
		print_summary(e);
	else if (!err && !e->conf->json)
		printf("\n");
	for (uint32_t i = 0; !err && !e->conf->summary && i < e->readers; i++)
		bench_report(e->reader[i].result);
	free(o);
	return err;
}

/* ---- beginning and end --------------------------------------------------------------------- */

static struct bench_load_ops ops = {
	.submit = submit,
	.finish = finish,
	.what = "reading an epoch",
};

static int open_reader(struct epoch *e, uint32_t i)
{
	const struct bench_conf *conf = e->conf;
	struct weka_options o = { .size_bytes = sizeof(o), .batches_max = conf->depth };
	struct reader *r = &e->reader[i];

	r->e = e;
	o.requests_max = max_u32(conf->depth, 64);
	o.pool_bytes = (conf->depth + 1) * (uint64_t)WINDOW_BYTES;
	r->batch = calloc(conf->depth, sizeof(*r->batch));
	r->result = calloc(1, sizeof(*r->result));
	if (!r->batch || !r->result)
		return bench_fail("out of memory");
	*r->result = (struct bench_result){ .conf = conf,
					    .workload = "epoch",
					    .transport = bench_env_transport(e->env, i),
					    .runs = conf->epochs };
	stat_hist_reset(&r->result->hist);
	return bench_env_connect(e->env, i, &o, &r->client) ||
	       bench_load_create(&r->load, r->client, conf->depth, WINDOW_BYTES, &ops, r);
}

static int make_tree(struct epoch *e)
{
	snprintf(e->made, sizeof(e->made), "%s/weka-bench-tree.XXXXXX",
		 e->conf->vs_dir ? e->conf->vs_dir : "/dev/shm");
	if (!mkdtemp(e->made)) {
		(void)bench_fail("%s: %s", e->made, strerror(errno));
		e->made[0] = '\0';
		return 1;
	}
	return bench_tree_make(e->made, e->conf->files);
}

static int name_pieces(struct epoch *e)
{
	const struct bench_tree *t = &e->tree;
	size_t count = t->piece_count, prefix = strlen(e->conf->prefix);

	while (prefix > 0 && e->conf->prefix[prefix - 1] == '/')
		prefix--;
	e->remote = calloc(count, sizeof(*e->remote));
	e->local = calloc(count, sizeof(*e->local));
	e->order = calloc(count, sizeof(*e->order));
	e->buffer = aligned_alloc(WEKA_BLOCK, PIECE_BYTES);
	if (!e->remote || !e->local || !e->order || !e->buffer || count > UINT32_MAX)
		return bench_fail("out of memory for %zu files", count);
	memset(e->buffer, 0, PIECE_BYTES);
	for (size_t i = 0; i < count; i++)
		if (asprintf(&e->remote[i], "%.*s/%s", (int)prefix, e->conf->prefix,
			     t->piece[i].name) < 0 ||
		    asprintf(&e->local[i], "%s/%s", t->root, t->piece[i].name) < 0)
			return bench_fail("out of memory");
	return 0;
}

static int open_epoch(struct epoch *e)
{
	const struct bench_conf *conf = e->conf;

	if (!conf->tree && conf->connect_count > 0)
		return bench_fail("epoch with --connect needs --tree DIR, whose names are read");
	if (!conf->tree && make_tree(e))
		return 1;
	if (bench_tree_load(&e->tree, conf->tree ? conf->tree : e->made, PIECE_BYTES) ||
	    name_pieces(e) || bench_env_open(&e->env, conf))
		return 1;
	bench_pin(conf->core_client);
	ops.pause = conf->verify ? compare_all : NULL;
	e->readers = bench_env_count(e->env);
	for (uint32_t i = 0; i < e->readers; i++)
		if (open_reader(e, i))
			return 1;
	if (conf->connect_count > 0)
		return 0;
	return bench_tree_upload(&e->tree, e->reader[0].client, conf->prefix);
}

static int close_epoch(struct epoch *e)
{
	int err;

	for (uint32_t i = 0; i < e->readers; i++) {
		bench_load_destroy(e->reader[i].load);
		weka_close(e->reader[i].client);
		free(e->reader[i].batch);
		free(e->reader[i].result);
	}
	err = bench_env_close(e->env);
	for (size_t i = 0; i < e->tree.piece_count; i++) {
		if (e->remote)
			free(e->remote[i]);
		if (e->local)
			free(e->local[i]);
	}
	free(e->remote);
	free(e->local);
	free(e->order);
	free(e->buffer);
	bench_tree_free(&e->tree);
	if (e->made[0])
		bench_tree_remove(e->made);
	free(e);
	return err;
}

int bench_workload_epoch(const struct bench_conf *conf)
{
	struct epoch *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return bench_fail("out of memory");
	ASSERT(conf->epochs > 0 && conf->epochs <= BENCH_RUNS_MAX);
	e->conf = conf;
	err = open_epoch(e);
	if (!err)
		err = run_epochs(e);
	return close_epoch(e) | err;
}
