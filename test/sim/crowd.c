/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A directory of thousands of small files in a store whose pages do not fit in its cache, and
 * that is full of pages most of the time: so pages are evicted, dirty ones at their limit, page
 * zones collected, and listings run while names come, go and move.
 *
 *   - a name that is there throughout a listing is in it once; one that is not is not
 *   - bytes are those of the last put; what deletes is never told -ENOSPC
 *   - something comes back within STEPS_MAX turns, always: else it hangs
 *   - after a power cut each change in flight is there whole or not at all, and the check is clean
 *
 * usage: crowd [--seed N] [--ops N] [--shape NAME]
 */
#include "test/sim/sim_args.h"
#include "test/sim/sim_world.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 400000u
#define NAMES_MAX 16384u
#define IN_FLIGHT 8u
#define BYTES_MAX 5000u
#define SUMS_AT   (96u << 10)

enum kind { PUT, UNLINK, RENAME, READ, LIST };

static const struct shape {
	const char *name;
	struct sim_world_cfg cfg;
	uint32_t names;
	uint64_t delay_max_ns;
	uint32_t error_ppm[3]; /* of reads, writes, flushes */
} shapes[] = {
	{ "small",
	  { .ndrives = 1, .nblocks = 1024, .nshards = 1, .ops_max = 4, .volatile_cache = true },
	  4000,
	  0,
	  { 0 } },
	{ "slow",
	  { .ndrives = 2, .nblocks = 1024, .nshards = 8, .ops_max = 4, .volatile_cache = true },
	  8000,
	  60000,
	  { 0 } },
	{ "very slow",
	  { .ndrives = 2, .nblocks = 1024, .nshards = 8, .ops_max = 4, .volatile_cache = true },
	  8000,
	  3000000,
	  { 0 } },
	{ "large",
	  { .ndrives = 1, .nblocks = 4096, .nshards = 2, .ops_max = 4, .volatile_cache = false },
	  16000,
	  20000,
	  { 0 } },
	{ "read errors",
	  { .ndrives = 2, .nblocks = 2048, .nshards = 4, .ops_max = 4, .volatile_cache = true },
	  16000,
	  20000,
	  { 200000, 0, 0 } },
	{ "write errors",
	  { .ndrives = 1, .nblocks = 1024, .nshards = 2, .ops_max = 4, .volatile_cache = true },
	  4000,
	  20000,
	  { 2000, 300, 0 } },
	{ "flush errors",
	  { .ndrives = 2, .nblocks = 1024, .nshards = 2, .ops_max = 4, .volatile_cache = true },
	  4000,
	  20000,
	  { 0, 0, 2000 } },
};

struct file {
	uint32_t version; /* 0: not there */
	uint32_t source;  /* its bytes are those of this name's: renames */
	bool busy;
	bool touched; /* since the listing began */
	bool was;     /* there when the listing began */
	bool listed;
};

struct op {
	bool used;
	bool unknown; /* answered so that nobody knows: as if it were in flight at the next cut */
	enum kind kind;
	uint32_t i, to;
	struct file after; /* of i, or of `to` */
	struct sim_call *call;
	struct fab_put_item put;
	struct fab_read_item read;
	char path[2][32];
};

static struct sim_world w;
static struct file file[NAMES_MAX];
static struct op ops[IN_FLIGHT];
static struct rand_state rnd;
static uint32_t names, next_version;
static uint8_t cookie[FAB_COOKIE_BYTES];
static struct fab_handle dir;
static bool deleting, faulty;
static struct {
	uint64_t done, full, listings, cuts, collecting, dirty_max, present_max, errors, read_only;
} seen;

/* ---- what a file holds -------------------------------------------------------------------- */

static uint32_t size_of(const struct file *f)
{
	uint32_t h = (f->version * 2654435761u) >> 8;

	return h % 10 == 0 ? h % BYTES_MAX : h % 513;
}

static void bytes_of(const struct file *f, uint8_t *out)
{
	struct rand_state r;

	rand_seed(&r, (uint64_t)f->source << 32 | f->version);
	for (uint32_t i = 0; i < size_of(f); i++)
		out[i] = (uint8_t)rand_u64(&r);
}

static struct fab_name named(struct op *o, int which, uint32_t i)
{
	snprintf(o->path[which], sizeof(o->path[which]), "/c/name%u", i);
	return (struct fab_name){ .by = FAB_BY_PATH,
				  .nofollow = true,
				  .name = o->path[which],
				  .name_bytes = (uint16_t)strlen(o->path[which]) };
}

/* ---- sending ------------------------------------------------------------------------------- */

static void send_put(struct op *o)
{
	uint32_t *sums = (uint32_t *)(void *)(o->call->window + SUMS_AT), size;

	o->after = (struct file){ .version = ++next_version, .source = o->i };
	size = size_of(&o->after);
	bytes_of(&o->after, o->call->window);
	for (uint32_t at = 0; at < size; at += BLOCK_SIZE)
		sums[at / BLOCK_SIZE] =
			crc32c_block(o->call->window + at, min_u32(size - at, BLOCK_SIZE));
	o->put = (struct fab_put_item){
		.name = named(o, 0, o->i), .mode = 0640, .size_bytes = size, .sums_at = SUMS_AT
	};
	o->call->call.type = FAB_PUT;
	o->call->call.args.batch.count = 1;
	o->call->call.args.batch.puts = &o->put;
}

static void send_read(struct op *o)
{
	o->read = (struct fab_read_item){ .name = named(o, 0, o->i), .length_bytes = FAB_TO_END };
	o->call->call.type = FAB_READ_BATCH;
	o->call->call.args.batch.count = 1;
	o->call->call.args.batch.reads = &o->read;
}

static void send_list(struct op *o)
{
	struct fab_call *c = &o->call->call;
	bool begins = memcmp(cookie, (uint8_t[FAB_COOKIE_BYTES]){ 0 }, sizeof(cookie)) == 0;

	for (uint32_t i = 0; begins && i < names; i++) {
		file[i].touched = file[i].busy;
		file[i].listed = false;
		file[i].was = file[i].version != 0;
	}
	c->type = FAB_LIST;
	c->args.list.dir = (struct fab_name){ .by = FAB_BY_HANDLE, .handle = dir };
	c->args.list.count_max = 1 + (uint32_t)rand_below(&rnd, 300);
	memcpy(c->args.list.cookie, cookie, sizeof(cookie));
}

static bool listing_out(void)
{
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		if (ops[i].used && ops[i].kind == LIST)
			return true;
	return false;
}

static void take_name(uint32_t i)
{
	file[i].busy = file[i].touched = true;
}

/* False: what was picked is under way already. */
static bool choose(struct op *o)
{
	uint64_t dice = rand_below(&rnd, 100);

	o->kind = deleting    ? UNLINK
		  : dice < 50 ? PUT
		  : dice < 70 ? UNLINK
		  : dice < 80 ? RENAME
			      : READ;
	if (!deleting && dice >= 95)
		o->kind = LIST;
	o->i = (uint32_t)rand_below(&rnd, names);
	o->to = (uint32_t)rand_below(&rnd, names);
	if (o->kind == LIST)
		return !listing_out();
	if (file[o->i].busy || (o->kind == RENAME && (file[o->to].busy || o->i == o->to)))
		return false;
	return true;
}

static void send(struct op *o)
{
	bool window = true;

	if (!choose(o))
		return;
	o->used = true;
	o->call = sim_world_call(&w);
	o->call->user = o;
	if (o->kind != LIST)
		take_name(o->i);
	if (o->kind == PUT) {
		send_put(o);
	} else if (o->kind == READ) {
		send_read(o);
	} else if (o->kind == LIST) {
		send_list(o);
	} else if (o->kind == RENAME) {
		take_name(o->to);
		o->after = file[o->i];
		o->call->call.type = FAB_RENAME;
		o->call->call.args.rename.from = named(o, 0, o->i);
		o->call->call.args.rename.to = named(o, 1, o->to);
		window = false;
	} else {
		o->after = (struct file){ 0 };
		o->call->call.type = FAB_UNLINK;
		o->call->call.args.name.name = named(o, 0, o->i);
		window = false;
	}
	sim_world_submit(&w, o->call, window);
}

/* ---- answers -------------------------------------------------------------------------------- */

static bool holds(const struct sim_call *c, const struct file *f)
{
	static uint8_t bytes[BYTES_MAX];
	struct fab_answer a;

	if (fab_call_answer(&c->call, 0, &a))
		return false;
	if (!f->version)
		return a.status == -ENOENT;
	bytes_of(f, bytes);
	return a.status == 0 && a.length_bytes == size_of(f) &&
	       memcmp(c->window + a.data_at, bytes, size_of(f)) == 0;
}

static void set(uint32_t i, const struct file *to)
{
	file[i].version = to->version;
	file[i].source = to->source;
}

/* Returns true for statuses that faulty drives may cause: the change was not done, or (-EROFS)
 * perhaps done. */
static bool is_error(int status)
{
	seen.errors += status == -EIO;
	return faulty && (status == -EIO || status == -EROFS);
}

static bool take_list(const struct op *o)
{
	struct fab_entry e;
	uint32_t at = 0, count, i;
	bool end;

	if (is_error(o->call->call.status)) {
		memset(cookie, 0, sizeof(cookie));
		return true;
	}
	if (o->call->call.status || fab_call_listed(&o->call->call, &count, &end, cookie))
		return sim_wrong("a listing: %d", o->call->call.status);
	while (fab_call_entry(&o->call->call, &at, &e) == 1) {
		char name[32];

		snprintf(name, sizeof(name), "%.*s", (int)e.name_bytes, e.name);
		if (sscanf(name, "name%u", &i) != 1 || i >= names)
			return sim_wrong("a listing: %s", name);
		if (!file[i].touched && file[i].listed)
			return sim_wrong("name%u is listed twice", i);
		if (!file[i].touched && !file[i].was)
			return sim_wrong("name%u is listed, and is not there", i);
		if (!file[i].touched && e.attr.size_bytes != size_of(&file[i]))
			return sim_wrong("name%u is listed with another size", i);
		file[i].listed = true;
	}
	if (!end)
		return true;
	for (i = 0; i < names; i++)
		if (file[i].was && !file[i].touched && !file[i].listed)
			return sim_wrong("name%u is there, and is not listed", i);
	memset(cookie, 0, sizeof(cookie));
	seen.listings++;
	return true;
}

static bool take(struct op *o)
{
	const struct file none = { 0 };
	struct fab_answer a;
	int status = o->call->call.status, expect = 0;

	o->used = false;
	seen.done++;
	if (o->kind == LIST)
		return take_list(o);
	if ((o->kind == PUT || o->kind == READ) && !status)
		status = fab_call_answer(&o->call->call, 0, &a) ? -EPROTO : a.status;
	if (faulty && status == -EROFS && o->kind != READ) {
		seen.read_only++;
		o->used = o->unknown = true;
		return true;
	}
	file[o->i].busy = false;
	if (o->kind == RENAME)
		file[o->to].busy = false;
	if (is_error(status))
		return true;
	if (o->kind == READ)
		return holds(o->call, &file[o->i])
			       ? true
			       : sim_wrong("name%u does not hold what was put: %d", o->i, status);
	if (o->kind != PUT && !file[o->i].version)
		expect = -ENOENT;
	seen.full += status == -ENOSPC;
	if (status == -ENOSPC && (o->kind == PUT || (o->kind == RENAME && !expect)))
		return true;
	if (status != expect)
		return sim_wrong("kind %d of name%u: %d, not %d", o->kind, o->i, status, expect);
	if (status)
		return true;
	if (o->kind == RENAME) {
		set(o->to, &o->after);
		set(o->i, &none);
	} else {
		set(o->i, &o->after);
	}
	return true;
}

static void watch(void)
{
	struct meta *m = app_core_meta(w.core);
	struct meta_statfs fs = { 0 };

	seen.collecting += meta__collect_busy(m);
	meta__cache_stat(m, &fs);
	seen.dirty_max = max_u64(seen.dirty_max, fs.cache_pages_dirty);
}

static bool idle(void)
{
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		if (ops[i].used && !ops[i].unknown)
			return false;
	return true;
}

static bool may_send(void)
{
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		if (!ops[i].used)
			return true;
	return !idle();
}

static bool turn(bool more)
{
	struct sim_call *done[SIM_CALLS_MAX];
	uint32_t count;

	for (uint32_t i = 0; more && i < IN_FLIGHT; i++)
		if (!ops[i].used)
			send(&ops[i]);
	count = sim_world_step(&w, done, SIM_CALLS_MAX);
	if (w.power.off)
		return true;
	watch();
	for (uint32_t i = 0; i < count; i++) {
		done[i]->in_flight = false;
		if (!take(done[i]->user))
			return false;
	}
	return true;
}

static bool work(uint64_t count)
{
	uint64_t until = seen.done + count, last = 0;
	uint32_t steps = 0;

	while ((seen.done < until || !idle()) && !w.power.off && may_send()) {
		if (!turn(seen.done < until))
			return false;
		steps = seen.done == last ? steps + 1 : 0;
		last = seen.done;
		if (steps == STEPS_MAX)
			return sim_wrong("nothing comes back any more");
	}
	return true;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

static bool read_one(uint32_t i, const struct file *as, bool *good)
{
	struct op o = { .i = i, .call = sim_world_call(&w) };

	send_read(&o);
	if (sim_world_do(&w, o.call, true) || o.call->call.status)
		return sim_wrong("a read after a cut");
	*good = holds(o.call, as);
	return true;
}

/* One that was in flight: before or after, all of it. */
static bool settle(struct op *o)
{
	const struct file none = { 0 };
	bool good[4] = { true, true, true, true };

	if (o->kind == LIST || o->kind == READ)
		return true;
	if (o->kind == RENAME && !file[o->i].version)
		return true;
	if (!read_one(o->i, &file[o->i], &good[0]) ||
	    !read_one(o->i, o->kind == RENAME ? &none : &o->after, &good[1]))
		return false;
	if (o->kind == RENAME &&
	    (!read_one(o->to, &file[o->to], &good[2]) || !read_one(o->to, &o->after, &good[3])))
		return false;
	if (good[1] && good[3]) {
		set(o->i, o->kind == RENAME ? &none : &o->after);
		if (o->kind == RENAME)
			set(o->to, &o->after);
		return true;
	}
	return good[0] && good[2] ? true : sim_wrong("name%u: neither before nor after", o->i);
}

static void set_faults(const struct shape *s, bool errors)
{
	struct sim_faults faults = {
		.delay_max_ns = s->delay_max_ns,
		.read_error_ppm = errors ? s->error_ppm[0] : 0,
		.write_error_ppm = errors ? s->error_ppm[1] : 0,
		.flush_error_ppm = errors ? s->error_ppm[2] : 0,
	};

	faulty = errors;
	sim_world_faults(&w, &faults);
}

/* With errors it may be refused, or fail later: but nothing is lost by it. */
static void mount_badly(const struct shape *s)
{
	set_faults(s, true);
	(void)!sim_world_up(&w, APP_BOOT_MOUNT);
	sim_world_cut(&w, rand_u64(&rnd));
}

static bool mount(const struct shape *s)
{
	int err;

	if (s->error_ppm[0] + s->error_ppm[1] + s->error_ppm[2] && rand_below(&rnd, 2))
		mount_badly(s);
	set_faults(s, false);
	err = sim_world_begin(&w, APP_BOOT_MOUNT);
	if (err)
		return sim_wrong("mount: %s", w.why);
	for (uint32_t i = 0; i < names; i++)
		file[i].busy = false;
	for (uint32_t i = 0; i < IN_FLIGHT; i++) {
		if (ops[i].used && !settle(&ops[i]))
			return false;
		ops[i].used = ops[i].unknown = false;
	}
	memset(cookie, 0, sizeof(cookie));
	return true;
}

static bool compare(void)
{
	uint32_t present = 0;
	uint64_t before = seen.listings;
	struct op o = { .kind = LIST };
	bool good;

	memset(cookie, 0, sizeof(cookie));
	while (seen.listings == before) {
		o.call = sim_world_call(&w);
		send_list(&o);
		if (sim_world_do(&w, o.call, true) || !take_list(&o))
			return false;
	}
	for (uint32_t i = 0; i < names; i++) {
		if (file[i].listed != (file[i].version != 0))
			return sim_wrong("name%u is %s", i, file[i].listed ? "back" : "gone");
		present += file[i].listed;
		if (!read_one(i, &file[i], &good))
			return false;
		if (!good)
			return sim_wrong("name%u does not hold what was put", i);
	}
	seen.present_max = max_u64(seen.present_max, present);
	return sim_world_check(&w) == 0 || sim_wrong("%s", w.why);
}

static bool make_dir(void)
{
	struct sim_call *c = sim_world_call(&w);
	struct fab_attr attr;

	c->call.type = FAB_MKDIR;
	c->call.args.make.name =
		(struct fab_name){ .by = FAB_BY_PATH, .name = "/c", .name_bytes = 2 };
	c->call.args.make.mode = 0755;
	if (sim_world_do(&w, c, false) || c->call.status || fab_call_attr(&c->call, 0, &attr))
		return sim_wrong("mkdir: %d", c->call.status);
	dir = attr.handle;
	return true;
}

static bool life(const struct shape *s, uint64_t seed, uint64_t count)
{
	struct sim_world_cfg cfg = s->cfg;

	cfg.seed = seed;
	cfg.atomic_bytes = 512;
	cfg.cut_garbles = s->delay_max_ns > 0; /* else little is on its way */
	cfg.cache_bytes = 4u << 20;
	names = s->names;
	memset(file, 0, sizeof(file));
	rand_seed(&rnd, seed);
	sim_world_create(&w, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return sim_wrong("format: %s", w.why);
	set_faults(s, false);
	if (!make_dir())
		return false;
	for (int round = 0; seen.done < count; round++) {
		deleting = round % 4 == 3;
		set_faults(s, true);
		if (round % 2)
			sim_power_cut_at(&w.power, 1 + rand_below(&rnd, 2000), rand_u64(&rnd));
		if (!work(deleting ? names / 2 : count / 6))
			return false;
		sim_power_cut_at(&w.power, 0, 0);
		sim_world_cut(&w, rand_u64(&rnd));
		seen.cuts++;
		if (!mount(s) || !compare())
			return false;
	}
	sim_world_destroy(&w);
	return true;
}

static void report(const char *name)
{
	printf("ok %s: %llu operations, %llu names, %llu listings, %llu times full, %llu cuts, "
	       "%llu turns of collection, %llu dirty pages, %llu errors, %llu times read-only\n",
	       name, (unsigned long long)seen.done, (unsigned long long)seen.present_max,
	       (unsigned long long)seen.listings, (unsigned long long)seen.full,
	       (unsigned long long)seen.cuts, (unsigned long long)seen.collecting,
	       (unsigned long long)seen.dirty_max, (unsigned long long)seen.errors,
	       (unsigned long long)seen.read_only);
}

int main(int argc, char **argv)
{
	struct sim_args args = sim_args(argc, argv, "ops", sim_args_few(40000, 4), 200000);

	sim_world_tell_cuts(&seen.cuts);
	for (uint32_t i = 0; i < ARRAY_LEN(shapes); i++) {
		if (!sim_args_want(&args, shapes[i].name))
			continue;
		memset(&seen, 0, sizeof(seen));
		if (!life(&shapes[i], args.seed, args.count)) {
			if (w.core)
				sim_world_describe(&w);
			printf("not ok %s seed %llu, %llu cuts: %s\n", shapes[i].name,
			       (unsigned long long)args.seed, (unsigned long long)seen.cuts,
			       sim_why);
			return 1;
		}
		report(shapes[i].name);
		if (!seen.listings ||
		    (!seen.full && !seen.collecting && !seen.errors && !seen.read_only)) {
			printf("not ok %s: what this is about has not happened\n", shapes[i].name);
			return 1;
		}
	}
	return 0;
}
