/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Replaces files of a full appliance:
 *
 *   files   pick some at random ---> unlink half of them, one by one ---> put all of them
 *   dirs    pick a directory at random ---> rmtree ---> mkdir ---> put its files, some at a time
 *
 * Each writer repeats that, with one request in flight.
 *
 *  (1) A file that a writer has picked is busy, and no other writer picks it: so the state of each
 *      file is known.
 *  (2) A phase may end anywhere in a round; the next phase continues that round [e2e_collect].
 *  (3) A file begins with its number and how often it was written.  A reader beside writers
 *      (bench_readers.c) expects any version of it, or no file; bench_churn_verify() the last
 *      version [e2e_collect].
 */
#include "bench/bench_churn.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/bench_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MOST BENCH_CHURN_PATH_MOST
#define BATCH     BENCH_CHURN_BATCH

struct file {
	uint32_t size;
	uint32_t version;
	bool there;
	bool busy; /* (1) */
};

enum step { PICK, UNLINK, RMTREE, MKDIR, PUT };

/* Work of a slot. */
struct work {
	enum step step;
	uint32_t file[BATCH]; /* that are being put, or read */
	uint32_t count;
	uint32_t unlinked;
	uint32_t dir, dir_at; /* dirs: its files up to there have been put */
	char path[BATCH][PATH_MOST];
	union {
		struct weka_put_item put[BATCH];
		struct weka_read_item read[BATCH];
	};
};

struct bench_churn {
	struct bench_churn_conf conf;
	struct weka_client *client;
	struct file *file;
	uint32_t files;
	uint32_t next;           /* fill, verify */
	struct work *work;       /* of each writer */
	struct bench_load *load; /* from one bench_churn_replace() to the next */
	uint64_t written, quota;
	struct rand_state rand;
};

double bench_churn_mean_bytes(void)
{
	return (BENCH_CHURN_LEAST + BENCH_CHURN_MOST) / 2.0 + WEKA_BLOCK / 2.0;
}

static uint64_t window_bytes(void)
{
	return weka_window_bytes(BATCH, BENCH_CHURN_MOST);
}

void bench_churn_options(const struct bench_churn_conf *conf, struct weka_options *o)
{
	const uint32_t slots = conf->writers;

	*o = (struct weka_options){ .size_bytes = sizeof(*o) };
	o->requests_max = slots + 1;
	o->batches_max = slots;
	o->pool_bytes = slots * (window_bytes() + (64u << 10)) + (4u << 20);
}

static void dir_path(const struct bench_churn *c, uint32_t dir, char out[PATH_MOST])
{
	snprintf(out, PATH_MOST, "%s/d%u", c->conf.path, dir);
}

void bench_churn_file_path(const struct bench_churn_conf *conf, uint32_t file,
			   char out[BENCH_CHURN_PATH_MOST])
{
	snprintf(out, PATH_MOST, "%s/d%u/f%u", conf->path, file / conf->dir_files,
		 file % conf->dir_files);
}

static const char *file_path(const struct bench_churn *c, struct work *w, uint32_t i)
{
	bench_churn_file_path(&c->conf, w->file[i], w->path[i]);
	return w->path[i];
}

static int failed(const char *what, const char *path, int status)
{
	return bench_fail("%s %s: %s", what, path, strerror(-status));
}

/* ---- put -------------------------------------------------------------------------------- */

static int submit_put(struct bench_churn *c, struct bench_slot *slot, struct work *w)
{
	int err;

	for (uint32_t i = 0; i < w->count; i++) {
		const uint64_t at = (uint64_t)i * BENCH_CHURN_MOST;
		const uint64_t head[2] = { w->file[i], c->file[w->file[i]].version + 1 };
		const uint32_t size =
			BENCH_CHURN_LEAST +
			(uint32_t)rand_below(&c->rand, BENCH_CHURN_MOST - BENCH_CHURN_LEAST + 1);

		memcpy((uint8_t *)slot->window.lease->data + at, head, sizeof(head));
		w->put[i] = (struct weka_put_item){
			.ref = weka_ref_path(file_path(c, w, i)),
			.create = { .mode = 0600 },
			.window_at = (uint32_t)at,
			.size_bytes = size,
		};
		c->written += size;
	}
	err = weka_submit_put(c->client, &slot->req, w->put, w->count, &slot->window);
	return err ? failed("put", w->path[0], err) : 0;
}

static int finish_put(struct bench_churn *c, struct work *w)
{
	for (uint32_t i = 0; i < w->count; i++) {
		struct file *f = &c->file[w->file[i]];

		if (w->put[i].status)
			return failed("put", w->path[i], w->put[i].status);
		f->size = w->put[i].size_bytes;
		f->version++;
		f->there = true;
	}
	return 0;
}

/* ---- read ------------------------------------------------------------------------------- */

static int submit_reads(struct bench_churn *c, struct bench_slot *slot, struct work *w)
{
	int err;

	for (uint32_t i = 0; i < w->count; i++)
		w->read[i] = (struct weka_read_item){ .ref = weka_ref_path(file_path(c, w, i)),
						      .length_bytes = WEKA_TO_END };
	err = weka_submit_read_batch(c->client, &slot->req, w->read, w->count, &slot->window);
	return err ? failed("read", w->path[0], err) : 0;
}

/* Some version of it (3). */
bool bench_churn_is_file(const struct weka_read_item *item, uint32_t file, uint64_t *version)
{
	uint64_t head[2];

	if (item->got_bytes < BENCH_CHURN_LEAST)
		return false;
	memcpy(head, item->data, sizeof(head));
	*version = head[1];
	return head[0] == file;
}

/* ---- a writer's round ---------------------------------------------------------------------- */

static void pick_files(struct bench_churn *c, struct work *w)
{
	for (w->count = 0; w->count < BATCH;) {
		const uint32_t i = (uint32_t)rand_below(&c->rand, c->files);

		if (c->file[i].busy)
			continue;
		c->file[i].busy = true;
		w->file[w->count++] = i;
	}
	w->unlinked = 0;
	w->step = UNLINK;
}

/* Its first file is busy for all of it. */
static void pick_dir(struct bench_churn *c, struct work *w)
{
	do
		w->dir = (uint32_t)rand_below(&c->rand, c->conf.dirs);
	while (c->file[w->dir * c->conf.dir_files].busy);
	c->file[w->dir * c->conf.dir_files].busy = true;
	w->dir_at = 0;
	w->step = RMTREE;
}

static void take_of_dir(struct bench_churn *c, struct work *w)
{
	w->count = min_u32(BATCH, c->conf.dir_files - w->dir_at);
	for (uint32_t i = 0; i < w->count; i++)
		w->file[i] = w->dir * c->conf.dir_files + w->dir_at++;
}

static int submit_step(struct bench_churn *c, struct bench_slot *slot, struct work *w)
{
	struct weka_ref ref;

	switch (w->step) {
	case UNLINK:
		ref = weka_ref_path(file_path(c, w, w->unlinked));
		return weka_submit_unlink(c->client, &slot->req, &ref);
	case RMTREE:
		dir_path(c, w->dir, w->path[0]);
		ref = weka_ref_path(w->path[0]);
		return weka_submit_rmtree(c->client, &slot->req, &ref);
	case MKDIR:
		ref = weka_ref_path(w->path[0]);
		return weka_submit_mkdir(c->client, &slot->req, &ref,
					 &(struct weka_create){ .mode = 0700 }, NULL);
	case PUT:
		return submit_put(c, slot, w);
	default:
		UNREACHABLE();
	}
}

static int submit_write(struct bench_churn *c, struct bench_slot *slot, struct work *w)
{
	int err;

	if (c->written >= c->quota)
		return BENCH_LOAD_NO_MORE;
	if (w->step == PICK && c->conf.whole_dirs)
		pick_dir(c, w);
	else if (w->step == PICK)
		pick_files(c, w);
	err = submit_step(c, slot, w);
	return err < 0 ? failed("remove", w->path[0], err) : err;
}

static void put_done(struct bench_churn *c, struct work *w)
{
	const uint32_t first = c->conf.whole_dirs ? w->dir * c->conf.dir_files : w->file[0];

	ASSERT(c->file[first].busy); /* (1) */
	if (c->conf.whole_dirs && w->dir_at < c->conf.dir_files) {
		take_of_dir(c, w);
		return;
	}
	for (uint32_t i = 0; i < w->count; i++)
		c->file[w->file[i]].busy = false;
	if (c->conf.whole_dirs)
		c->file[w->dir * c->conf.dir_files].busy = false;
	w->step = PICK;
}

static int finish_write(struct bench_churn *c, struct work *w)
{
	switch (w->step) {
	case UNLINK:
		c->file[w->file[w->unlinked++]].there = false;
		if (w->unlinked >= BATCH / 2)
			w->step = PUT;
		return 0;
	case RMTREE:
		for (uint32_t i = 0; i < c->conf.dir_files; i++)
			c->file[w->dir * c->conf.dir_files + i].there = false;
		w->step = MKDIR;
		return 0;
	case MKDIR:
		take_of_dir(c, w);
		w->step = PUT;
		return 0;
	default:
		if (finish_put(c, w))
			return BENCH_LOAD_FAILED;
		put_done(c, w);
		return 0;
	}
}

/* ---- loads ------------------------------------------------------------------------------ */

static int write_submit(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct bench_churn *c = ctx;

	(void)client;
	return submit_write(c, slot, &c->work[slot->index]);
}

static int write_finish(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct bench_churn *c = ctx;

	run->ops++;
	return finish_write(c, &c->work[slot->index]);
}

/* The next files of all. */
static bool take_next(struct bench_churn *c, struct work *w)
{
	w->count = min_u32(BATCH, c->files - c->next);
	for (uint32_t i = 0; i < w->count; i++)
		w->file[i] = c->next++;
	return w->count > 0;
}

static int fill_submit(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct bench_churn *c = ctx;
	struct work *w = &c->work[slot->index];

	(void)client;
	return take_next(c, w) ? submit_put(c, slot, w) : BENCH_LOAD_NO_MORE;
}

static int fill_finish(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct bench_churn *c = ctx;

	run->ops++;
	return finish_put(c, &c->work[slot->index]);
}

/* Writers may be in the middle of a round: they do not continue it. */
static int verify_submit(void *ctx, struct weka_client *client, struct bench_slot *slot)
{
	struct bench_churn *c = ctx;
	struct work *w = &c->work[slot->index];

	(void)client;
	return take_next(c, w) ? submit_reads(c, slot, w) : BENCH_LOAD_NO_MORE;
}

static int verify_finish(void *ctx, struct bench_slot *slot, struct bench_run *run)
{
	struct bench_churn *c = ctx;
	struct work *w = &c->work[slot->index];

	for (uint32_t i = 0; i < w->count; i++) {
		const struct file *f = &c->file[w->file[i]];
		const struct weka_read_item *item = &w->read[i];
		uint64_t version = 0;

		if (item->status != (f->there ? 0 : -ENOENT))
			return bench_fail("%s %s in the end: %s", w->path[i],
					  f->there ? "should be there" : "was removed",
					  strerror(-item->status));
		if (f->there && (!bench_churn_is_file(item, w->file[i], &version) ||
				 version != f->version || item->got_bytes != f->size))
			return bench_fail("%s does not have its last content", w->path[i]);
		run->ops++;
	}
	return 0;
}

static const struct bench_load_ops write_ops = { write_submit, write_finish, NULL, "replacing" };
static const struct bench_load_ops fill_ops = { fill_submit, fill_finish, NULL, "filling" };
static const struct bench_load_ops verify_ops = { verify_submit, verify_finish, NULL, "verifying" };

static int phase(struct bench_churn *c, const struct bench_load_ops *ops)
{
	struct bench_load *load = NULL;
	struct bench_run run = { 0 };
	int err = bench_load_create(&load, c->client, c->conf.writers, window_bytes(), ops, c);

	c->next = 0;
	if (!err)
		err = bench_load_run(load, BENCH_LOAD_ALL, &run);
	bench_load_destroy(load);
	return err;
}

int bench_churn_fill(struct bench_churn *c)
{
	return phase(c, &fill_ops);
}

int bench_churn_replace(struct bench_churn *c, uint64_t bytes, uint64_t *written)
{
	struct bench_run run = { 0 };
	int err = 0;

	c->written = 0;
	c->quota = bytes;
	if (!c->load)
		err = bench_load_create(&c->load, c->client, c->conf.writers, window_bytes(),
					&write_ops, c);
	if (!err)
		err = bench_load_run(c->load, BENCH_LOAD_ALL, &run);
	*written = c->written;
	return err;
}

int bench_churn_verify(struct bench_churn *c)
{
	bench_load_destroy(c->load);
	c->load = NULL;
	return phase(c, &verify_ops);
}

/* ---- beginning and end --------------------------------------------------------------------- */

int bench_churn_create(struct bench_churn **out, struct weka_client *client,
		       const struct bench_churn_conf *conf)
{
	struct bench_churn *c = calloc(1, sizeof(*c));
	char path[PATH_MOST];

	*out = c;
	if (!c)
		return bench_fail("out of memory");
	c->conf = *conf;
	c->client = client;
	c->files = conf->dirs * conf->dir_files;
	rand_seed(&c->rand, 7);
	if (c->files < 2 * BATCH * conf->writers ||
	    (conf->whole_dirs && conf->dirs <= conf->writers))
		return bench_fail(
			"the drive is too small for files that come and go at that depth");
	c->file = calloc(c->files, sizeof(*c->file));
	c->work = calloc(conf->writers, sizeof(*c->work));
	if (!c->file || !c->work)
		return bench_fail("out of memory");
	for (uint32_t i = 0; i < conf->dirs; i++) {
		dir_path(c, i, path);
		if (weka_mkdir(client, path, 0700) != 0)
			return bench_fail("%s: %s", path, weka_error(client));
	}
	return 0;
}

void bench_churn_destroy(struct bench_churn *c)
{
	if (!c)
		return;
	free(c->file);
	free(c->work);
	free(c);
}
