/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A phase of `weka-bench names` or `rates` through libweka-client: batches of names where there are
 * requests for batches, else many single ones in flight; a listing asks for its pages in sequence.
 *
 *  (1) Between two phases exactly the files 0 .. n - 1 exist: renamed files get their names back,
 *      removed ones are made again, outside of the time [e2e_names].
 */
#include "base/num.h"
#include "bench/bench.h"
#include "bench/bench_load.h"
#include "bench/bench_scale.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_ENTRIES 512u
#define LIST_BYTES   (256u << 10)

struct scale_batch {
	uint32_t count;
	uint64_t number[WEKA_BATCH_MAX];
	char name[WEKA_BATCH_MAX][SCALE_NAME_STRIDE];
	char to[SCALE_NAME_STRIDE];
	struct weka_cookie cookie; /* list: where this slot continues ... */
	uint64_t listed;           /* ... and how many came        */
	union {
		struct weka_entry entry[LIST_ENTRIES];
		struct weka_put_item put[WEKA_BATCH_MAX];
		struct weka_stat_item stat[WEKA_BATCH_MAX];
		struct weka_read_item read[WEKA_BATCH_MAX];
		struct weka_unlink_item unlink[WEKA_BATCH_MAX];
	};
};

static struct weka_ref ref_of(const struct scale_worker *w, const char *name)
{
	return (struct weka_ref){
		.by = WEKA_BY_DIR, .dir = w->dir, .name = name, .name_bytes = SCALE_NAME_BYTES
	};
}

static int failed(const struct scale_worker *w, const char *what, const char *name, int status)
{
	return bench_fail("%s %s/%s: %s", what, w->path, name, strerror(-status));
}

/* Operation j of a phase in which each file has its turn once. */
static uint64_t own(const struct scale_worker *w, uint64_t j)
{
	return j * w->workers + w->index;
}

static uint64_t own_mixed(const struct scale_worker *w, uint64_t j)
{
	return own(w, j % scale_mine(w, w->files)) * SCALE_STEP % w->files;
}

/* The next names of a phase that goes round. */
static void take_names(struct scale_worker *w, struct scale_batch *b)
{
	b->count = (uint32_t)min_u64(w->conf->batch, scale_mine(w, w->files));
	for (uint32_t i = 0; i < b->count; i++) {
		b->number[i] = own_mixed(w, w->next++);
		scale_name(b->name[i], 'f', b->number[i]);
	}
}

/* ---- create --------------------------------------------------------------------------- */

static int submit_put(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale_worker *w = ctx;
	struct scale_batch *b = &w->batch[slot->index];
	const uint64_t stride = align_up(w->conf->size_bytes, 64);
	uint8_t *data = slot->window.lease->data;
	int err;

	b->count = (uint32_t)min_u64(w->conf->batch, w->end - w->next);
	if (b->count == 0)
		return BENCH_LOAD_NO_MORE;
	for (uint32_t i = 0; i < b->count; i++) {
		const uint64_t number = own(w, w->next++), size = scale_size(w->conf, number);

		b->number[i] = number;
		scale_name(b->name[i], 'f', number);
		memcpy(data + i * stride, &number, min_u64(sizeof(number), size));
		b->put[i] = (struct weka_put_item){
			.ref = ref_of(w, b->name[i]),
			.create = { .mode = 0600 },
			.window_at = (uint32_t)(i * stride),
			.size_bytes = (uint32_t)size,
		};
	}
	err = weka_submit_put(client, &slot->req, b->put, b->count, &slot->window);
	return err ? failed(w, "create", b->name[0], err) : 0;
}

static int finish_put(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct scale_worker *w = ctx;
	const struct scale_batch *b = &w->batch[slot->index];

	for (uint32_t i = 0; i < b->count; i++)
		if (b->put[i].status && !(b->put[i].status == -EEXIST && b->number[i] < w->again))
			return failed(w, "create", b->name[i], b->put[i].status);
	run->ops += b->count;
	return 0;
}

/* ---- stat, read ------------------------------------------------------------------------- */

static int submit_stat(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale_worker *w = ctx;
	struct scale_batch *b = &w->batch[slot->index];
	int err;

	take_names(w, b);
	for (uint32_t i = 0; i < b->count; i++)
		b->stat[i] = (struct weka_stat_item){ .ref = ref_of(w, b->name[i]) };
	err = weka_submit_stat(client, &slot->req, b->stat, b->count, &slot->window);
	return err ? failed(w, "stat", b->name[0], err) : 0;
}

static int finish_stat(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct scale_worker *w = ctx;
	const struct scale_batch *b = &w->batch[slot->index];

	for (uint32_t i = 0; i < b->count; i++) {
		if (b->stat[i].status)
			return failed(w, "stat", b->name[i], b->stat[i].status);
		if (b->stat[i].attr.size_bytes != scale_size(w->conf, b->number[i]))
			return failed(w, "stat: the size is another's,", b->name[i], -EIO);
	}
	run->ops += b->count;
	return 0;
}

static int submit_read(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale_worker *w = ctx;
	struct scale_batch *b = &w->batch[slot->index];
	int err;

	take_names(w, b);
	for (uint32_t i = 0; i < b->count; i++)
		b->read[i] = (struct weka_read_item){ .ref = ref_of(w, b->name[i]),
						      .length_bytes = WEKA_TO_END };
	err = weka_submit_read_batch(client, &slot->req, b->read, b->count, &slot->window);
	return err ? failed(w, "read", b->name[0], err) : 0;
}

static int finish_read(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct scale_worker *w = ctx;
	const struct scale_batch *b = &w->batch[slot->index];

	for (uint32_t i = 0; i < b->count; i++) {
		const struct weka_read_item *item = &b->read[i];
		const uint64_t size = scale_size(w->conf, b->number[i]);

		if (item->status)
			return failed(w, "read", b->name[i], item->status);
		if (item->got_bytes != size ||
		    memcmp(item->data, &b->number[i], min_u64(8, size)) != 0)
			return failed(w, "read: the bytes are another's,", b->name[i], -EIO);
	}
	run->ops += b->count;
	return 0;
}

/* ---- list: one page behind the other; each slot lists all -------------------------------- */

static int submit_list(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale_worker *w = ctx;
	struct scale_batch *b = &w->batch[slot->index];
	const struct weka_ref dir = weka_ref_path(w->path);
	int err = weka_submit_list(client, &slot->req, &dir, &b->cookie, b->entry, LIST_ENTRIES,
				   &slot->window);

	return err ? failed(w, "list", "", err) : 0;
}

static int finish_list(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct scale_worker *w = ctx;
	struct scale_batch *b = &w->batch[slot->index];

	b->listed += slot->req.count;
	run->ops += slot->req.count;
	if (slot->req.length_bytes)
		return 0;
	if (b->listed != w->files)
		return bench_fail("list %s: %llu of %llu names came", w->path,
				  (unsigned long long)b->listed, (unsigned long long)w->files);
	b->listed = 0; /* and from its start again */
	b->cookie = (struct weka_cookie){ { 0 } };
	return 0;
}

/* ---- rename: all there, then all back; unlink ---------------------------------------------- */

/* Since the round before: its answer may come after those to all other names. */
static bool is_being_renamed(const struct scale_worker *w, uint64_t number)
{
	bool is = false;

	for (uint32_t i = 0; i < SCALE_SINGLE_DEPTH; i++)
		is |= w->renaming[i] == number + 1;
	return is;
}

static int submit_rename(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale_worker *w = ctx;
	struct scale_batch *b = &w->batch[slot->index];
	const bool back = w->next / scale_mine(w, w->files) % 2 == 1;
	struct weka_ref from, to;
	uint64_t number;
	int err;

	if (w->next == w->end)
		return BENCH_LOAD_NO_MORE;
	number = own_mixed(w, w->next);
	if (is_being_renamed(w, number))
		return BENCH_LOAD_LATER;
	w->next++;
	w->renaming[slot->index] = number + 1;
	scale_name(b->name[0], back ? 'g' : 'f', number);
	scale_name(b->to, back ? 'f' : 'g', number);
	from = ref_of(w, b->name[0]);
	to = ref_of(w, b->to);
	err = weka_submit_rename(client, &slot->req, &from, &to, WEKA_NOREPLACE);
	return err ? failed(w, "rename", b->name[0], err) : 0;
}

static int submit_unlink(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct scale_worker *w = ctx;
	struct scale_batch *b = &w->batch[slot->index];
	int err;

	b->count = (uint32_t)min_u64(w->conf->batch, w->end - w->next);
	if (b->count == 0)
		return BENCH_LOAD_NO_MORE;
	for (uint32_t i = 0; i < b->count; i++) {
		scale_name(b->name[i], 'f', own(w, w->next++));
		b->unlink[i] = (struct weka_unlink_item){ .ref = ref_of(w, b->name[i]) };
	}
	err = weka_submit_unlink_batch(client, &slot->req, b->unlink, b->count, &slot->window);
	return err ? failed(w, "unlink", b->name[0], err) : 0;
}

static int finish_unlink(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct scale_worker *w = ctx;
	const struct scale_batch *b = &w->batch[slot->index];

	for (uint32_t i = 0; i < b->count; i++)
		if (b->unlink[i].status)
			return failed(w, "unlink", b->name[i], b->unlink[i].status);
	run->ops += b->count;
	return 0;
}

static int finish_rename(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct scale_worker *w = ctx;

	ASSERT(w->renaming[slot->index] > 0);
	w->renaming[slot->index] = 0;
	run->ops++;
	return 0;
}

/* ---- phases -------------------------------------------------------------------------------- */

static const struct bench_load_ops phase_ops[SCALE_PHASES] = {
	[SCALE_CREATE] = { submit_put, finish_put, NULL, "create" },
	[SCALE_STAT] = { submit_stat, finish_stat, NULL, "stat" },
	[SCALE_READ] = { submit_read, finish_read, NULL, "read" },
	[SCALE_LIST] = { submit_list, finish_list, NULL, "list" },
	[SCALE_RENAME] = { submit_rename, finish_rename, NULL, "rename" },
	[SCALE_UNLINK] = { submit_unlink, finish_unlink, NULL, "unlink" },
};

static uint64_t window_of(const struct bench_conf *conf, enum scale_phase phase)
{
	if (phase == SCALE_RENAME)
		return 0;
	if (phase == SCALE_UNLINK)
		return align_up(conf->batch * sizeof(int32_t), WEKA_BLOCK);
	if (phase == SCALE_LIST)
		return LIST_BYTES;
	return max_u64(weka_window_bytes(conf->batch, conf->size_bytes),
		       align_up(conf->batch * 104ull, WEKA_BLOCK));
}

int scale_load_run(struct scale_worker *w, enum scale_phase phase, double seconds,
		   struct bench_run *run)
{
	const bool single = window_of(w->conf, phase) == 0;
	uint32_t depth = phase == SCALE_LIST ? w->listings
			 : single            ? SCALE_SINGLE_DEPTH
					     : w->conf->depth;
	struct bench_load *load = NULL;
	int err = bench_load_create(&load, w->client, depth, window_of(w->conf, phase),
				    &phase_ops[phase], w);

	if (!err)
		err = bench_load_run(load, seconds, run);
	bench_load_destroy(load);
	return err;
}

void scale_load_rewind(struct scale_worker *w, enum scale_phase phase)
{
	w->next = 0;
	w->end = phase == SCALE_CREATE || phase == SCALE_UNLINK ? scale_mine(w, w->files)
								: UINT64_MAX;
	for (uint32_t i = 0; i < w->listings; i++) {
		w->batch[i].listed = 0;
		w->batch[i].cookie = (struct weka_cookie){ { 0 } };
	}
}

/* (1), after operations 0 .. next - 1 of a phase */
int scale_load_put_right(struct scale_worker *w, enum scale_phase phase)
{
	struct bench_run not_counted = { 0 };
	uint64_t n = scale_mine(w, w->files), done = w->next;

	if (phase == SCALE_UNLINK) {
		w->next = 0;
		w->end = done;
		return scale_load_run(w, SCALE_CREATE, BENCH_LOAD_ALL, &not_counted);
	}
	if (phase != SCALE_RENAME || done % (2 * n) == 0)
		return 0;
	if (done % (2 * n) <= n) { /* the first ones have their other name */
		w->next = n;
		w->end = n + done % (2 * n);
	} else { /* all but the first ones */
		w->end = 2 * n;
		w->next = done % (2 * n);
	}
	return scale_load_run(w, SCALE_RENAME, BENCH_LOAD_ALL, &not_counted);
}

/* ---- beginning and end --------------------------------------------------------------------- */

void scale_load_options(const struct bench_conf *conf, struct weka_options *o)
{
	*o = (struct weka_options){
		.size_bytes = sizeof(*o),
		.requests_max = max_u32(conf->depth, SCALE_SINGLE_DEPTH) + 1,
		.batches_max = conf->depth + 1,
		.pool_bytes =
			conf->depth * (window_of(conf, SCALE_STAT) + (64u << 10)) + (4u << 20),
	};
}

int scale_load_open(struct scale_worker *w)
{
	w->batch = calloc(max_u32(w->conf->depth, SCALE_SINGLE_DEPTH), sizeof(*w->batch));
	return w->batch ? 0 : bench_fail("out of memory");
}

void scale_load_close(struct scale_worker *w)
{
	weka_close(w->client);
	free(w->batch);
}
