/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A core without the store looks at a change whose log block is still on its way.
 *
 *   core 0   change -> log block ........ the drive holds it back ............ durable
 *   core 1            asks (closed)  |  plans by itself: the shard is open again  |  reply
 *                     no reply       |  no reply; a power cut takes it all back   |
 *
 * Whoever looks at a file beside it is told at once.
 *
 * The shipped appliance on two cores, its fabric and its drive, stepped in one thread
 * (test/sim/sim_world.h).
 */
#include "base/crc32c.h"
#include "base/num.h"
#include "meta/meta_internal.h"
#include "meta/engine/meta_share.h"
#include "test/sim/sim_world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STORE = 0, READER = 1 }; /* cores, and the client's connections to them */
enum { OLD = 100, MORE = 100, CUTS = 16, TURNS = 2000, SUMS_AT = 64 << 10 };

#define HELD_NS 1000000000ull /* so long a write stays on its way; TURNS take at most 4 ms */

enum change { APPEND, RENAME };
enum look { READ, READ_BATCH, STAT, OPEN, LIST };
static const char *const look_name[] = { "READ", "READ_BATCH", "STAT", "OPEN", "LIST" };

static struct sim_world w, cut;
static uint8_t bytes[OLD + MORE];
static struct fab_handle handle; /* of /a */
static uint32_t held;            /* writes that the drive holds back */

static void setup(void)
{
	cr_assert_eq(setenv("APP_CORES", "2", 1), 0); /* this is about two, whatever it says */
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + 1);
}

TestSuite(app_readers, .init = setup, .timeout = 60);

/* ---- calls --------------------------------------------------------------------------------- */

struct ask { /* what a call's arguments point to */
	struct sim_call *call;
	struct fab_name name;
	struct fab_read_item read;
	const char *path;
	enum look look;
	bool back;
};

static struct fab_name by_path(const char *path)
{
	return (struct fab_name){ .by = FAB_BY_PATH,
				  .name = path,
				  .name_bytes = (uint16_t)strlen(path) };
}

/* `count` bytes from `from`, and their sum. */
static void payload(struct sim_call *c, uint32_t from, uint32_t count)
{
	uint32_t sum = crc32c_block(bytes + from, count);

	memcpy(c->window, bytes + from, count);
	memcpy(c->window + SUMS_AT, &sum, sizeof(sum));
}

static int put(const char *path)
{
	struct sim_call *c = sim_world_call_on(&w, STORE);
	struct fab_put_item item = {
		.name = by_path(path), .mode = 0640, .size_bytes = OLD, .sums_at = SUMS_AT
	};
	struct fab_answer answer;
	int err;

	payload(c, 0, OLD);
	c->call.type = FAB_PUT;
	c->call.args.batch.count = 1;
	c->call.args.batch.puts = &item;
	err = sim_world_do(&w, c, true);
	if (!err)
		err = c->call.status ? c->call.status : fab_call_answer(&c->call, 0, &answer);
	if (err)
		return err;
	handle = answer.handle;
	return answer.status;
}

/* /a becomes longer, or /b. */
static void send_change(struct ask *a, enum change change)
{
	struct sim_call *c = a->call = sim_world_call_on(&w, STORE);

	a->back = false;
	c->user = a;
	if (change == RENAME) {
		c->call.type = FAB_RENAME;
		c->call.args.rename.from = by_path("/a");
		c->call.args.rename.to = by_path("/b");
	} else {
		payload(c, OLD, MORE);
		c->call.type = FAB_WRITE;
		c->call.args.write.handle = handle;
		c->call.args.write.length_bytes = MORE;
		c->call.args.write.flags = FAB_WRITE_APPEND;
		c->call.args.write.sums_at = SUMS_AT;
	}
	sim_world_submit(&w, c, change == APPEND);
}

static void make_look(struct sim_world *to, struct ask *a, enum look look, const char *path)
{
	struct sim_call *c = sim_world_call_on(to, READER);

	*a = (struct ask){ .call = c, .path = path, .look = look, .name = by_path(path) };
	a->read = (struct fab_read_item){ .name = a->name, .length_bytes = FAB_TO_END };
	c->user = a;
	switch (look) {
	case READ:
		c->call.type = FAB_READ;
		c->call.args.read.handle = handle;
		c->call.args.read.length_bytes = 4096;
		break;
	case READ_BATCH:
		c->call.type = FAB_READ_BATCH;
		c->call.args.batch.count = 1;
		c->call.args.batch.reads = &a->read;
		break;
	case STAT:
		c->call.type = FAB_STAT;
		c->call.args.batch.count = 1;
		c->call.args.batch.names = &a->name;
		break;
	case OPEN:
		c->call.type = FAB_OPEN;
		c->call.args.open.name = a->name;
		break;
	case LIST:
		c->call.type = FAB_LIST;
		c->call.args.list.dir = by_path("/");
		c->call.args.list.count_max = 8;
		break;
	}
}

static bool has_window(enum look look)
{
	return look == READ || look == READ_BATCH || look == LIST;
}

static void send_look(struct ask *a, enum look look, const char *path)
{
	make_look(&w, a, look, path);
	sim_world_submit(&w, a->call, has_window(look));
}

static int64_t listed(const struct ask *a)
{
	struct fab_entry e;
	uint32_t at = 0;

	while (fab_call_entry(&a->call->call, &at, &e) == 1)
		if (e.name_bytes == 1 && e.name[0] == a->path[1])
			return (int64_t)e.attr.size_bytes;
	return -ENOENT;
}

/* Returns the size of the file according to the reply, or -errno; -EILSEQ: the bytes of another
 * file. */
static int64_t told(const struct ask *a)
{
	const struct fab_call *call = &a->call->call;
	struct fab_answer answer = { 0 };
	struct fab_attr attr;
	int err = call->status;

	if (err || a->look == LIST)
		return err ? err : listed(a);
	switch (a->look) {
	case READ:
		answer.length_bytes = call->length_bytes;
		break;
	case READ_BATCH:
		err = fab_call_answer(call, 0, &answer);
		err = err ? err : answer.status;
		break;
	default:
		err = fab_call_attr(call, 0, &attr);
		return err ? err : (int64_t)attr.size_bytes;
	}
	if (err)
		return err;
	if (answer.length_bytes > sizeof(bytes) ||
	    memcmp(a->call->window + answer.data_at, bytes, answer.length_bytes) != 0)
		return -EILSEQ;
	return (int64_t)answer.length_bytes;
}

/* ---- turns --------------------------------------------------------------------------------- */

/* Makes turns, at most `count_max`, until the answer is back.  Returns their number. */
static uint32_t turns(uint32_t count_max, const struct ask *until)
{
	struct sim_call *done[SIM_CALLS_MAX];
	uint32_t turn = 0;

	while (turn < count_max && !until->back) {
		uint32_t count = sim_world_step(&w, done, SIM_CALLS_MAX);

		for (uint32_t i = 0; i < count; i++) {
			((struct ask *)done[i]->user)->back = true;
			done[i]->in_flight = false;
		}
		turn++;
	}
	return turn;
}

static uint64_t hold(void *user, const struct nvme_soft_cmd *cmd)
{
	(void)user;
	if (cmd->opcode != NVME_CMD_WRITE)
		return 0;
	held++;
	return HELD_NS;
}

static uint64_t planned_by_reader(void)
{
	struct app_core_stat stat;

	app_core_stat(w.each[READER], &stat);
	return stat.planned;
}

/* ---- the test ------------------------------------------------------------------------------ */

struct scene {
	enum change change;
	enum look look;
	const char *path;
	int64_t was, is; /* what is told without the change, and with it */
};

struct outcome {
	const char *broken; /* NULL, or what the test itself could not bring about         */
	int64_t before;     /* what was told before the change                             */
	uint32_t turns;     /* that this took the reader, who planned it by itself         */
	uint32_t held;      /* writes of the change that are on their way: its log block   */
	bool asker_early;   /* who asked while the shard was closed was told before durable */
	bool planned;       /* the next look was planned by the reader                     */
	bool early;         /* ... and told before durable                                 */
	uint32_t gone;      /* of CUTS power cuts then so many took the change back        */
	uint32_t neither;   /* ... and after so many it is neither as it was nor as it is  */
	bool durable;       /* the change was, when the reply came at last                 */
	int64_t after;      /* what that told                                              */
};

/* Returns the size of the file after a power cut now. */
static int64_t after_cut(uint64_t seed, const struct scene *s)
{
	struct ask a;
	int64_t got;

	sim_world_cut_copy(&w, seed, &cut);
	got = sim_world_begin(&cut, APP_BOOT_MOUNT);
	if (!got) {
		make_look(&cut, &a, s->look, s->path);
		got = sim_world_do(&cut, a.call, has_window(s->look));
		got = got ? got : told(&a);
	}
	sim_world_cut(&cut, seed);
	return got;
}

/* Until the reader plans the look by itself. */
static void look_before(struct outcome *o, const struct scene *s)
{
	struct ask a;

	for (uint32_t i = 0; i < 10; i++) {
		uint64_t planned = planned_by_reader();

		send_look(&a, s->look, s->path);
		o->turns = turns(TURNS, &a);
		if (!a.back)
			break;
		o->before = told(&a);
		if (planned_by_reader() > planned)
			return;
	}
	o->broken = "the reader plans nothing by itself";
}

static void look_meanwhile(struct outcome *o, const struct scene *s)
{
	static struct ask change, asker, planner;
	const struct meta *m = app_core_meta(w.core);
	uint64_t planned;

	send_change(&change, s->change); /* closes the shard */
	for (uint32_t i = 0; i < TURNS && held == 0; i++)
		(void)turns(1, &change);
	o->held = held;
	send_look(&asker, s->look, s->path); /* opens it */
	(void)turns(TURNS, &asker);
	o->asker_early = asker.back;
	planned = planned_by_reader();
	send_look(&planner, s->look, s->path);
	(void)turns(TURNS, &planner);
	o->planned = planned_by_reader() > planned;
	o->early = planner.back;
	if (meta_is_durable(m, meta__log_last(m)) || change.back)
		o->broken = "the log block is not on its way any more";
	for (uint64_t seed = 1; seed <= CUTS; seed++) {
		int64_t got = after_cut(seed, s);

		o->gone += got == s->was;
		o->neither += got != s->was && got != s->is;
	}
	w.cfg.leap_max_ns = 0; /* to when the drive has written it */
	(void)turns(TURNS, &planner);
	o->durable = meta_is_durable(m, meta__log_last(m));
	o->after = planner.back ? told(&planner) : -ETIME;
	(void)turns(TURNS, &asker);
	(void)turns(TURNS, &change);
	if (!asker.back || !change.back || change.call->call.status)
		o->broken = "the change does not come to its end";
}

static struct outcome play(const struct scene *s)
{
	const struct sim_world_cfg cfg = {
		.seed = 1,
		.ndrives = 1,
		.nblocks = 512,
		.volatile_cache = true,
		.atomic_bytes = 4096,
		.nshards = 1,
		.cache_bytes = 4u << 20,
		.ops_max = 8,
		.leap_max_ns = 1000,
	};
	struct outcome o = { 0 };

	held = 0;
	sim_world_create(&w, &cfg);
	sim_world_create(&cut, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT) || put("/c") || put("/a"))
		o.broken = "nothing is put";
	if (!o.broken) {
		app_core_meta(w.core)->share->open_after = 1;
		look_before(&o, s);
	}
	if (!o.broken) {
		sim_world_faults(&w, &(struct sim_faults){ .dawdle_ns = hold });
		look_meanwhile(&o, s);
	}
	sim_world_cut(&w, 1);
	sim_world_destroy(&w);
	sim_world_destroy(&cut);
	return o;
}

Test(app_readers, what_a_reader_saw_is_told_when_no_power_cut_can_take_it_back)
{
	static const struct scene scenes[] = {
		{ APPEND, READ, "/a", OLD, OLD + MORE },
		{ APPEND, READ_BATCH, "/a", OLD, OLD + MORE },
		{ APPEND, STAT, "/a", OLD, OLD + MORE },
		{ APPEND, OPEN, "/a", OLD, OLD + MORE },
		{ APPEND, LIST, "/a", OLD, OLD + MORE },
		{ RENAME, READ_BATCH, "/b", -ENOENT, OLD },
		{ RENAME, STAT, "/b", -ENOENT, OLD },
		{ RENAME, OPEN, "/b", -ENOENT, OLD },
		{ RENAME, LIST, "/b", -ENOENT, OLD },
		{ RENAME, STAT, "/a", OLD, -ENOENT },
		{ RENAME, LIST, "/a", OLD, -ENOENT },
	};

	for (uint32_t i = 0; i < ARRAY_LEN(scenes); i++) {
		const struct scene *s = &scenes[i];
		const struct outcome o = play(s);
		const char *name = look_name[s->look];

		cr_assert_null(o.broken, "%s of %s: %s", name, s->path, o.broken);
		cr_assert_eq(o.before, s->was, "%s told %lld", name, (long long)o.before);
		cr_assert_lt(o.turns, TURNS / 10, "%s: TURNS are too few to wait for it", name);
		cr_assert_eq(o.held, 1, "%s: %u writes, not one log block", name, o.held);
		cr_assert(o.planned, "%s: the shard is not open again", name);
		cr_assert_gt(o.gone, 0, "%s: no power cut takes the change back", name);
		cr_assert_eq(o.neither, 0, "%s: %u cuts leave neither", name, o.neither);
		cr_assert(!o.asker_early, "%s of %s by the store tells what %u of %u cuts undo",
			  name, s->path, o.gone, CUTS);
		cr_assert(!o.early, "%s of %s by a reader tells what %u of %u cuts undo", name,
			  s->path, o.gone, CUTS);
		cr_assert(o.durable, "%s: it is not durable when it is told", name);
		cr_assert_eq(o.after, s->is, "%s told %lld", name, (long long)o.after);
	}
}

/* The two files lie in one page, but only one of them is changed. */
Test(app_readers, what_lies_beside_a_change_that_is_not_durable_is_told_at_once)
{
	static const enum look looks[] = { READ_BATCH, STAT, OPEN };

	for (uint32_t i = 0; i < ARRAY_LEN(looks); i++) {
		const struct scene s = { APPEND, looks[i], "/c", OLD, OLD };
		const struct outcome o = play(&s);
		const char *name = look_name[s.look];

		cr_assert_null(o.broken, "%s: %s", name, o.broken);
		cr_assert_eq(o.before, OLD, "%s told %lld", name, (long long)o.before);
		cr_assert_eq(o.held, 1, "%s: %u writes, not one log block", name, o.held);
		cr_assert(o.asker_early, "%s: the store waits for the log block", name);
		cr_assert(o.planned, "%s: the shard is not open again", name);
		cr_assert(o.early, "%s: a reader waits for the log block", name);
		cr_assert_eq(o.after, OLD, "%s told %lld at last", name, (long long)o.after);
	}
}
