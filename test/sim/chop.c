/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A few files of some MiB, written here and there, cut and grown again, until each has blocks all
 * over the zones: many runs an extent, chunks trimmed in the background, dead blocks given to
 * orphans, writes across 4 MiB; in a store that is often full, with power cuts.
 *
 *   - every byte is that of the last write that was acknowledged
 *   - a write in flight at a cut is there whole or not at all, on each side of 4 MiB
 *   - unlink works, however full the store is
 *
 * usage: chop [--seed N] [--ops N]
 */
#include "test/sim/sim_args.h"
#include "test/sim/sim_world.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "meta/plans/meta_plan.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 400000u
#define FILES     4u
#define BYTES_MAX (6u << 20)
#define PIECE_MAX 90000u
#define SUMS_AT   (96u << 10)
#define CHUNK     (4u << 20)

enum kind { MAKE, OPEN, WRITE, TRUNCATE, UNLINK, READ, KINDS };

struct file {
	uint8_t *now, *after; /* BYTES_MAX each, zeros behind their ends */
	uint32_t size, after_size;
	bool there, after_there;
	bool known; /* handle is good */
	struct fab_handle handle;
	bool busy;
	enum kind kind;
	uint32_t from, bytes; /* what is written, or read */
	struct sim_call *call;
	struct fab_put_item put;
	struct fab_read_item read;
	char path[8];
};

static struct sim_world w;
static struct file files[FILES];
static struct rand_state rnd;
static struct {
	uint64_t done, full, cuts, by[KINDS], orphans, halves;
} seen;

static struct fab_name named(struct file *f)
{
	snprintf(f->path, sizeof(f->path), "/f%u", (unsigned)(f - files));
	return (struct fab_name){ .by = FAB_BY_PATH,
				  .name = f->path,
				  .name_bytes = (uint16_t)strlen(f->path) };
}

static uint32_t pick_size(void)
{
	uint32_t size = (uint32_t)rand_below(&rnd, rand_below(&rnd, 3) ? PIECE_MAX : 6000) + 1;

	return rand_below(&rnd, 3) ? size : (size + 4095) / 4096 * 4096 % PIECE_MAX + 1;
}

static void noise(uint8_t *to, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i += 8) {
		uint64_t v = rand_u64(&rnd);

		memcpy(to + i, &v, min_u32(8, bytes - i));
	}
}

/* ---- sending --------------------------------------------------------------------------------- */

static void fill(struct file *f, const uint8_t *bytes, uint32_t size, uint32_t at)
{
	uint32_t *sums = (uint32_t *)(void *)(f->call->window + SUMS_AT), n = 0, piece;

	memcpy(f->call->window, bytes, size);
	for (uint32_t done = 0; done < size; done += piece) {
		piece = min_u32(size - done, BLOCK_SIZE - (at + done) % BLOCK_SIZE);
		sums[n++] = crc32c_block(bytes + done, piece);
	}
}

static void send_make(struct file *f)
{
	f->after_size = pick_size();
	noise(f->after, f->after_size);
	fill(f, f->after, f->after_size, 0);
	f->put = (struct fab_put_item){
		.name = named(f), .mode = 0640, .size_bytes = f->after_size, .sums_at = SUMS_AT
	};
	f->call->call.type = FAB_PUT;
	f->call->call.args.batch.count = 1;
	f->call->call.args.batch.puts = &f->put;
	f->after_there = true;
}

static void send_write(struct file *f)
{
	struct fab_call *c = &f->call->call;
	bool append = rand_below(&rnd, 4) == 0;

	f->bytes = pick_size();
	f->from = append ? f->size : (uint32_t)rand_below(&rnd, f->size + 300000);
	if (rand_below(&rnd, 12) == 0)
		f->from = CHUNK - (uint32_t)rand_below(&rnd, f->bytes + 1);
	f->from = min_u32(f->from, BYTES_MAX - f->bytes);
	append = append && f->from == f->size;
	noise(f->after + f->from, f->bytes);
	f->after_size = max_u32(f->size, f->from + f->bytes);
	fill(f, f->after + f->from, f->bytes, append ? 0 : f->from);
	c->type = FAB_WRITE;
	c->args.write.handle = f->handle;
	c->args.write.offset_bytes = f->from;
	c->args.write.length_bytes = f->bytes;
	c->args.write.flags = append ? FAB_WRITE_APPEND : 0;
	c->args.write.sums_at = SUMS_AT;
}

static void send_truncate(struct file *f)
{
	f->after_size =
		(uint32_t)rand_below(&rnd, rand_below(&rnd, 4) == 0 ? f->size + 1 : BYTES_MAX);
	if (rand_below(&rnd, 6) == 0)
		f->after_size = (uint32_t)rand_below(&rnd, 600);
	if (f->after_size < f->size)
		memset(f->after + f->after_size, 0, f->size - f->after_size);
	f->call->call.type = FAB_TRUNCATE;
	f->call->call.args.size.handle = f->handle;
	f->call->call.args.size.size_bytes = f->after_size;
}

static void send_read(struct file *f)
{
	f->from = (uint32_t)align_down(rand_below(&rnd, f->size + 1), BLOCK_SIZE);
	f->bytes = pick_size();
	f->read = (struct fab_read_item){ .name = named(f),
					  .offset_bytes = f->from,
					  .length_bytes = f->bytes };
	f->call->call.type = FAB_READ_BATCH;
	f->call->call.args.batch.count = 1;
	f->call->call.args.batch.reads = &f->read;
}

static enum kind pick(const struct file *f)
{
	uint64_t dice = rand_below(&rnd, 1000);

	if (!f->there)
		return MAKE;
	if (!f->known)
		return OPEN;
	return dice < 600   ? WRITE
	       : dice < 680 ? TRUNCATE
	       : dice < 684 ? UNLINK
	       : dice < 687 ? MAKE
			    : READ;
}

static void send(struct file *f)
{
	static void (*const how[])(struct file *) = { [MAKE] = send_make,
						      [WRITE] = send_write,
						      [TRUNCATE] = send_truncate,
						      [READ] = send_read };
	f->kind = pick(f);
	f->call = sim_world_call(&w);
	f->call->user = f;
	f->busy = true;
	memcpy(f->after, f->now, f->size);
	memset(f->after + f->size, 0, max_u32(f->after_size, f->size) - f->size);
	f->after_size = f->size;
	f->after_there = f->there;
	if (f->kind == MAKE)
		memset(f->after, 0, f->size);
	if (f->kind == OPEN) {
		f->call->call.type = FAB_OPEN;
		f->call->call.args.open.name = named(f);
	} else if (f->kind == UNLINK) {
		f->call->call.type = FAB_UNLINK;
		f->call->call.args.name.name = named(f);
		f->after_there = false;
		f->after_size = 0;
		memset(f->after, 0, f->size);
	} else {
		how[f->kind](f);
	}
	sim_world_submit(&w, f->call, f->kind == MAKE || f->kind == WRITE || f->kind == READ);
}

/* ---- answers -------------------------------------------------------------------------------- */

static bool holds(const struct sim_call *c, const uint8_t *bytes, uint32_t length)
{
	struct fab_answer a;

	return !c->call.status && !fab_call_answer(&c->call, 0, &a) && !a.status &&
	       a.length_bytes == length && memcmp(c->window + a.data_at, bytes, length) == 0;
}

static void apply(struct file *f)
{
	uint32_t bytes = max_u32(f->size, f->after_size);

	memcpy(f->now, f->after, bytes);
	f->size = f->after_size;
	f->after_size = bytes; /* zeros behind it, from there on */
	f->there = f->after_there;
	f->known &= f->kind != MAKE && f->kind != UNLINK;
}

/* Returns true for a write across 4 MiB: if it is refused, its first part may have been done. */
static bool may_be_half(const struct file *f)
{
	return f->kind == WRITE && f->from < CHUNK && f->from + f->bytes > CHUNK;
}

static void half(struct file *f)
{
	memcpy(f->now + f->from, f->after + f->from, CHUNK - f->from);
	f->size = max_u32(f->size, CHUNK);
	seen.halves++;
}

static int stat_size(struct file *f, int64_t *size)
{
	struct sim_call *c = sim_world_call(&w);
	struct fab_attr attr;

	c->call.type = FAB_OPEN;
	c->call.args.open.name = named(f);
	*size = -1;
	if (sim_world_do(&w, c, false) || (c->call.status && c->call.status != -ENOENT))
		return sim_wrong("%s: open: %d", f->path, c->call.status);
	if (!c->call.status && !fab_call_attr(&c->call, 0, &attr)) {
		*size = (int64_t)attr.size_bytes;
		f->handle = attr.handle;
		f->known = true;
	}
	return true;
}

/* Does the store have these bytes? */
static bool is(struct file *f, const uint8_t *bytes, uint32_t size)
{
	for (uint32_t at = 0; at < size; at += 22 * BLOCK_SIZE) {
		f->call = sim_world_call(&w);
		f->read = (struct fab_read_item){ .name = named(f),
						  .offset_bytes = at,
						  .length_bytes = 22 * BLOCK_SIZE };
		f->call->call.type = FAB_READ_BATCH;
		f->call->call.args.batch.count = 1;
		f->call->call.args.batch.reads = &f->read;
		if (sim_world_do(&w, f->call, true) ||
		    !holds(f->call, bytes + at, min_u32(size - at, 22 * BLOCK_SIZE)))
			return false;
	}
	return true;
}

static bool take(struct file *f)
{
	int status = f->call->call.status;
	struct fab_answer a;
	struct fab_attr attr;

	f->busy = false;
	seen.done++;
	if (f->kind == READ) {
		uint32_t end = min_u32(f->from + f->bytes, f->size);

		return holds(f->call, f->now + f->from, end > f->from ? end - f->from : 0) ||
		       sim_wrong("%s: a read at %u of %u", f->path, f->from, f->size);
	}
	if (f->kind == MAKE && !status)
		status = fab_call_answer(&f->call->call, 0, &a) ? -EPROTO : a.status;
	seen.full += status == -ENOSPC;
	if (status == -ENOSPC && f->kind != UNLINK) {
		if (may_be_half(f))
			f->known = f->busy = false, f->kind = KINDS; /* compared at once: below */
		return true;
	}
	if (status)
		return sim_wrong("%s: kind %d: %d", f->path, f->kind, status);
	seen.by[f->kind]++;
	if (f->kind == OPEN) {
		f->known = fab_call_attr(&f->call->call, 0, &attr) == 0;
		f->handle = attr.handle;
		return f->known || sim_wrong("%s: no attributes", f->path);
	}
	apply(f);
	return true;
}

/* ---- turns
 * --------------------------------------------------------------------------------------- */

static bool idle(void)
{
	for (uint32_t i = 0; i < FILES; i++)
		if (files[i].busy)
			return false;
	return true;
}

static bool turn(bool more)
{
	struct sim_call *done[SIM_CALLS_MAX];
	uint32_t count;

	for (uint32_t i = 0; more && i < FILES; i++)
		if (!files[i].busy && files[i].kind != KINDS)
			send(&files[i]);
	count = sim_world_step(&w, done, SIM_CALLS_MAX);
	if (w.power.off)
		return true;
	seen.orphans += meta__orphans_waiting(app_core_meta(w.core)) > 0;
	for (uint32_t i = 0; i < count; i++) {
		done[i]->in_flight = false;
		if (!take(done[i]->user))
			return false;
	}
	return true;
}

/* Reads the files whose writes were refused: each has the first part of its write, or nothing of
 * it. */
static bool look_at_halves(void)
{
	for (uint32_t i = 0; i < FILES; i++) {
		struct file *f = &files[i];

		if (f->kind != KINDS)
			continue;
		f->kind = WRITE;
		if (is(f, f->now, f->size))
			continue;
		if (w.power.off) { /* it went while we looked: settle() looks again */
			f->busy = true;
			return true;
		}
		half(f);
		if (!is(f, f->now, f->size) && !w.power.off)
			return sim_wrong("%s: neither refused nor half", f->path);
	}
	return true;
}

static bool work(uint64_t count)
{
	uint64_t until = seen.done + count, last = 0;
	uint32_t steps = 0;

	while ((seen.done < until || !idle()) && !w.power.off) {
		bool halves = false;

		for (uint32_t i = 0; i < FILES; i++)
			halves |= files[i].kind == KINDS;
		if (halves && idle() && !look_at_halves())
			return false;
		if (!turn(seen.done < until && !halves))
			return false;
		steps = seen.done == last ? steps + 1 : 0;
		last = seen.done;
		if (steps == STEPS_MAX)
			return sim_wrong("nothing comes back any more");
	}
	return w.power.off || look_at_halves();
}

/* ---- cuts
 * ------------------------------------------------------------------------------------------ */

static bool settle(struct file *f)
{
	int64_t size;

	if (!stat_size(f, &size))
		return false;
	if (f->busy && f->kind != READ && f->kind != OPEN) {
		if (size == (f->after_there ? (int64_t)f->after_size : -1) &&
		    is(f, f->after, f->after_size)) {
			apply(f);
			f->known = false;
		} else if (may_be_half(f) && size == (int64_t)max_u32(f->size, CHUNK)) {
			if (!is(f, f->now, f->size))
				half(f);
		}
	}
	f->busy = false;
	if (f->kind == KINDS)
		f->kind = WRITE;
	if (size != (f->there ? (int64_t)f->size : -1))
		return sim_wrong("%s: has %lld bytes, not %u", f->path, (long long)size, f->size);
	return !f->there || is(f, f->now, f->size) ||
	       sim_wrong("%s: other bytes than were acknowledged", f->path);
}

static bool mount(void)
{
	int err = sim_world_begin(&w, APP_BOOT_MOUNT);

	if (err)
		return sim_wrong("mount: %s", w.why);
	for (uint32_t i = 0; i < FILES; i++)
		if (!settle(&files[i]))
			return false;
	return sim_world_check(&w) == 0 || sim_wrong("%s", w.why);
}

static bool life(uint64_t seed, uint64_t count)
{
	struct sim_world_cfg cfg = {
		.seed = seed,
		.ndrives = 1 + (uint32_t)seed % 2,
		.nblocks = seed % 4 == 1   ? 8192
			   : seed % 4 == 2 ? 1024
					   : 2048,
		.nshards = 2,
		.ops_max = 4,
		.volatile_cache = true,
		.atomic_bytes = 512,
		.cut_garbles = seed % 2,
		.cache_bytes = 4u << 20,
	};
	struct sim_faults faults = { .delay_max_ns = 1 + seed % 3 * 30000 };

	rand_seed(&rnd, seed);
	sim_world_create(&w, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return sim_wrong("format: %s", w.why);
	for (uint32_t i = 0; i < FILES; i++) {
		files[i] =
			(struct file){ .now = calloc(1, BYTES_MAX), .after = calloc(1, BYTES_MAX) };
		ASSERT(files[i].now && files[i].after);
	}
	for (uint64_t until = seen.done + count; seen.done < until; seen.cuts++) {
		sim_world_faults(&w, &faults);
		sim_power_cut_at(&w.power, 1 + rand_below(&rnd, 3000), rand_u64(&rnd));
		if (!work(count / 4))
			return false;
		sim_power_cut_at(&w.power, 0, 0);
		sim_world_cut(&w, rand_u64(&rnd));
		if (!mount())
			return false;
	}
	sim_world_cut(&w, 0);
	sim_world_destroy(&w);
	for (uint32_t i = 0; i < FILES; i++) {
		free(files[i].now);
		free(files[i].after);
	}
	return true;
}

int main(int argc, char **argv)
{
	struct sim_args args = sim_args(argc, argv, "ops", 3000, 20000);
	uint64_t end = args.seed + (args.one_seed ? 1 : 4);

	sim_world_tell_cuts(&seen.cuts);
	for (uint64_t seed = args.seed; seed < end; seed++) {
		if (life(seed, args.count))
			continue;
		printf("not ok seed %llu, %llu cuts: %s\n", (unsigned long long)seed,
		       (unsigned long long)seen.cuts, sim_why);
		return 1;
	}
	printf("ok %llu operations: %llu writes, %llu truncates, %llu unlinks, %llu times full, "
	       "%llu cuts, %llu turns with orphans, %llu halves\n",
	       (unsigned long long)seen.done, (unsigned long long)seen.by[WRITE],
	       (unsigned long long)seen.by[TRUNCATE], (unsigned long long)seen.by[UNLINK],
	       (unsigned long long)seen.full, (unsigned long long)seen.cuts,
	       (unsigned long long)seen.orphans, (unsigned long long)seen.halves);
	return 0;
}
