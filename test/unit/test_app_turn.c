/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Requests whose turn has not come: those that wait to begin when all places are taken, a long read
 * that is cancelled between two pieces, and those beside a write that waits for room in the store.
 * The world is stepped turn by turn, with a clock of its own: a drive takes as long as the test
 * wants.
 */
#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "fabric/fab.h"
#include "test/sim/sim_world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

enum {
	OPS = 4,
	QUEUE_MAX = 6,
	WAITING = QUEUE_MAX / 2, /* of one session alone: as many as it leaves to the others */
	TURNS = 100,             /* what can happen has happened */
	TURNS_MAX = 100000,
	STEP_BYTES = 64 << 10,
	LONG_BYTES = 512 << 10, /* more blocks than have their sums in the reply */
};

#define LONG_FROM ((4u << 20) - LONG_BYTES / 2) /* half of it belongs to the second piece */
#define SLOW_NS   NS_PER_S                      /* much longer than TURNS take                 */
#define TURN_NS   1000

static struct sim_world w;
static struct app_core *core; /* that the calls go to */
static struct sim_call call[QUEUE_MAX], more, unlink_it, rmdir_it, commit_it, abort_it, ping_it;
static struct sim_call *const makers[] = { &unlink_it, &rmdir_it, &commit_it, &abort_it, &ping_it };

static const struct sim_world_cfg cfg = { .seed = 1,
					  .ndrives = 1,
					  .nblocks = 16384,
					  .nshards = 4,
					  .cache_bytes = 4 << 20,
					  .ops_max = OPS,
					  .staging_bytes = 4 << 20,
					  .queue_max = QUEUE_MAX,
					  .credits = 32,
					  .window_max_bytes = 1 << 20 };

/* ---- calls ----------------------------------------------------------------------------------- */

static struct fab_name name_of(const char *path)
{
	return (struct fab_name){ .by = FAB_BY_PATH,
				  .name = path,
				  .name_bytes = (uint16_t)strlen(path) };
}

static struct fab_call *fresh(struct sim_call *c, enum fab_type type)
{
	*c = (struct sim_call){ .lane = w.ncores - 1, .call.type = type };
	return &c->call;
}

static void send(struct sim_call *c)
{
	sim_world_submit(&w, c, false);
}

static void send_open(struct sim_call *c, const char *path, uint32_t flags)
{
	struct fab_call *f = fresh(c, FAB_OPEN);

	f->args.open.name = name_of(path);
	f->args.open.flags = flags;
	send(c);
}

static void send_make(struct sim_call *c, enum fab_type type, const char *path)
{
	struct fab_call *f = fresh(c, type);

	f->args.make.name = name_of(path);
	f->args.make.size_bytes = type == FAB_PUT_BEGIN ? BLOCK_SIZE : 0;
	send(c);
}

static void send_name(struct sim_call *c, enum fab_type type, const char *path)
{
	fresh(c, type)->args.name.name = name_of(path);
	send(c);
}

static void send_size(struct sim_call *c, enum fab_type type, const struct fab_handle *handle)
{
	fresh(c, type)->args.size.handle = *handle;
	send(c);
}

/* Whatever came back in so many turns, or until `c` did. */
static void turns(uint32_t count, const struct sim_call *c)
{
	struct sim_call *done[SIM_CALLS_MAX];

	while (count-- > 0 && !(c && !c->in_flight))
		for (uint32_t n = sim_world_step(&w, done, SIM_CALLS_MAX); n > 0; n--)
			done[n - 1]->in_flight = false;
}

/* Its status; 1: it is not answered. */
static int status_of(const struct sim_call *c)
{
	return c->in_flight ? 1 : c->call.status;
}

static int ended(const struct sim_call *c)
{
	turns(TURNS_MAX, c);
	return status_of(c);
}

static struct fab_handle handle_of(const struct sim_call *c)
{
	struct fab_attr attr = { 0 };

	cr_assert_eq(fab_call_attr(&c->call, 0, &attr), 0);
	return attr.handle;
}

static int open_status(const char *path)
{
	send_open(&more, path, 0);
	return ended(&more);
}

/* ---- the world ------------------------------------------------------------------------------- */

/* Sets the time of new commands; those in flight keep theirs.  With ns > 0 the clock makes no leaps
 * to the end of a command. */
static void drives_take(uint64_t ns)
{
	struct sim_faults f = { .delay_min_ns = ns, .delay_max_ns = ns };

	w.cfg.leap_max_ns = ns ? TURN_NS : 0;
	sim_world_faults(&w, &f);
}

/* The core that has the session: it alone answers its pings. */
static struct app_core *core_of_calls(void)
{
	for (uint32_t i = 0; i < w.ncores; i++)
		if (w.each[i]->stat.requests[FAB_PING] > 0)
			return w.each[i];
	return NULL;
}

static uint8_t byte_at(uint32_t at)
{
	return (uint8_t)(1 + (LONG_FROM + at) / 512 % 251);
}

/* Writes bytes [at, at + STEP_BYTES) of the test's range, from the window of a call of the
 * world. */
static int write_step(const struct fab_handle *handle, uint32_t at)
{
	struct sim_call *c = sim_world_call_on(&w, w.ncores - 1);
	le32 *sums = (le32 *)(void *)(c->window + STEP_BYTES);

	for (uint32_t i = 0; i < STEP_BYTES; i++)
		c->window[i] = byte_at(at + i);
	for (uint32_t i = 0; i < STEP_BYTES / BLOCK_SIZE; i++)
		sums[i] = le32_of(crc32c_block(c->window + i * BLOCK_SIZE, BLOCK_SIZE));
	c->call.type = FAB_WRITE;
	c->call.args.write.handle = *handle;
	c->call.args.write.offset_bytes = LONG_FROM + at;
	c->call.args.write.length_bytes = STEP_BYTES;
	c->call.args.write.sums_at = STEP_BYTES;
	sim_world_submit(&w, c, true);
	return ended(c);
}

/* A file whose bytes lie around the end of the first 4 MiB. */
static struct fab_handle begin_in(const struct sim_world_cfg *in)
{
	struct fab_handle handle;

	sim_world_create(&w, in);
	cr_assert_eq(sim_world_begin(&w, APP_BOOT_FORMAT), 0, "%s", w.why);
	fresh(&ping_it, FAB_PING);
	send(&ping_it);
	cr_assert_eq(ended(&ping_it), 0);
	core = core_of_calls();
	cr_assert_not_null(core);
	send_open(&more, "/long", FAB_OPEN_CREATE);
	cr_assert_eq(ended(&more), 0);
	handle = handle_of(&more);
	for (uint32_t at = 0; at < LONG_BYTES; at += STEP_BYTES)
		cr_assert_eq(write_step(&handle, at), 0);
	turns(TURNS, NULL);
	return handle;
}

static struct fab_handle begin(void)
{
	return begin_in(&cfg);
}

static void end(void)
{
	cr_assert_eq(sim_world_stop(&w), 0, "%s", w.why);
	sim_world_destroy(&w);
}

/* The pool is one window: `bytes` of the file, from LONG_FROM on. */
static void send_read(struct sim_call *c, const struct fab_handle *handle, uint32_t bytes)
{
	struct fab_call *f = fresh(c, FAB_READ);

	f->args.read.handle = *handle;
	f->args.read.offset_bytes = LONG_FROM;
	f->args.read.length_bytes = bytes;
	f->region = w.region[c->lane];
	f->window_bytes = cfg.window_max_bytes;
	cr_assert_eq(fab_submit(w.conn[c->lane], f), 0);
	c->in_flight = true;
}

/* ---- no place -------------------------------------------------------------------------------- */

static struct sim_call slow[OPS / 2]; /* so many operations may one session have alone */

/* Reads of a drive that does not answer, and nothing more can be begun; `call` waits. */
static void fill(const struct fab_handle *handle)
{
	drives_take(SLOW_NS);
	for (uint32_t i = 0; i < ARRAY_LEN(slow); i++)
		send_read(&slow[i], handle, BLOCK_SIZE);
	turns(TURNS, NULL);
	for (uint32_t i = 0; i < QUEUE_MAX; i++)
		send_open(&call[i], "/long", 0);
	turns(TURNS, NULL);
}

/* Two puts, a file and a directory: what is there to make an end of. */
static void send_makers(struct fab_handle put[2])
{
	send_name(&unlink_it, FAB_UNLINK, "/file");
	send_name(&rmdir_it, FAB_RMDIR, "/dir");
	send_size(&commit_it, FAB_PUT_COMMIT, &put[0]);
	send_size(&abort_it, FAB_PUT_ABORT, &put[1]);
	fresh(&ping_it, FAB_PING);
	send(&ping_it);
	turns(TURNS, NULL);
}

static int make(struct sim_call *c, enum fab_type type, const char *path)
{
	send_make(c, type, path);
	return ended(c);
}

TestSuite(app_turn, .timeout = 60);

Test(app_turn, who_has_all_that_may_wait_is_told_to_come_back)
{
	struct fab_handle handle = begin();

	fill(&handle);
	cr_assert_eq(core->queued, WAITING);
	cr_assert_eq(core->stat.busy, QUEUE_MAX - WAITING);
	for (uint32_t i = 0; i < WAITING; i++)
		cr_assert_eq(status_of(&call[i]), 1, "%u waits", i);
	for (uint32_t i = WAITING; i < QUEUE_MAX; i++) {
		cr_assert_eq(status_of(&call[i]), -EBUSY, "%u has no place", i);
		cr_assert_gt(call[i].call.retry_ms, 0);
		cr_assert_leq(call[i].call.retry_ms, 1000);
	}
	/* One that is not wanted any more leaves its place to another. */
	fab_cancel(w.conn[call[0].lane], &call[0].call);
	turns(TURNS, NULL);
	cr_assert_eq(status_of(&call[0]), -ECANCELED);
	cr_assert_eq(core->queued, WAITING - 1);
	send_open(&call[0], "/long", 0);
	send_open(&more, "/long", 0);
	turns(TURNS, NULL);
	cr_assert_eq(status_of(&call[0]), 1, "it waits, where there was room");
	cr_assert_eq(status_of(&more), -EBUSY);
	/* And when the drive has answered all of it goes on. */
	drives_take(0);
	for (uint32_t i = 0; i < ARRAY_LEN(slow); i++)
		cr_assert_eq(ended(&slow[i]), 0);
	for (uint32_t i = 0; i < WAITING; i++)
		cr_assert_eq(ended(&call[i]), 0);
	cr_assert_eq(core->queued, 0);
	cr_assert_eq(core->queuers, 0);
	cr_assert_eq(open_status("/long"), 0, "who was sent away comes back");
	end();
}

Test(app_turn, what_makes_room_is_never_sent_away)
{
	struct fab_handle handle = begin(), put[2];

	cr_assert_eq(make(&call[0], FAB_MKDIR, "/dir"), 0);
	cr_assert_eq(make(&call[0], FAB_PUT_BEGIN, "/kept"), 0);
	cr_assert_eq(make(&call[1], FAB_PUT_BEGIN, "/dropped"), 0);
	put[0] = handle_of(&call[0]);
	put[1] = handle_of(&call[1]);
	send_open(&more, "/file", FAB_OPEN_CREATE);
	cr_assert_eq(ended(&more), 0);
	cr_assert_eq(make(&call[2], FAB_PUT_BEGIN, "/third"), -EMFILE, "all its puts are begun");
	fill(&handle);
	cr_assert_eq(core->queued, WAITING);
	send_makers(put);
	for (uint32_t i = 0; i < ARRAY_LEN(makers); i++)
		cr_assert_eq(status_of(makers[i]), 1, "type %d was answered %d",
			     (int)makers[i]->call.type, status_of(makers[i]));
	cr_assert_eq(core->queued, WAITING + ARRAY_LEN(makers));
	send_open(&more, "/long", 0); /* there are more than may be, and the others have no place */
	turns(TURNS, NULL);
	cr_assert_eq(status_of(&more), -EBUSY);
	drives_take(0);
	for (uint32_t i = 0; i < ARRAY_LEN(makers); i++)
		cr_assert_eq(ended(makers[i]), 0, "type %d: %d", (int)makers[i]->call.type,
			     makers[i]->call.status);
	cr_assert_eq(open_status("/file"), -ENOENT);
	cr_assert_eq(open_status("/dir"), -ENOENT);
	cr_assert_eq(open_status("/dropped"), -ENOENT);
	cr_assert_eq(open_status("/kept"), 0);
	cr_assert_eq(make(&call[5], FAB_PUT_BEGIN, "/third"), 0, "there is room for a put");
	end();
}

/* ---- between two pieces ---------------------------------------------------------------------- */

struct held {
	uint32_t table_bytes, pages, ops, resumers, present, turns;
};

static struct held held_now(void)
{
	return (struct held){
		.table_bytes = (uint32_t)core->table_bytes,
		.pages = core->staging.pages_used,
		.ops = OPS - core->op_free_count,
		.resumers = core->resumers,
		.present = core->present,
		.turns = core->turns.waiting,
	};
}

/* The first piece has been read, and the turn of the second does not come: as far as the core
 * knows the drives have all that they take. */
static void stop_between(const struct fab_handle *handle)
{
	drives_take(NS_PER_MS);
	send_read(&more, handle, LONG_BYTES);
	for (uint32_t i = 0; i < TURNS_MAX && core->io_bytes == 0; i++)
		turns(1, &more);
	core->io_max_bytes = 0;
	drives_take(0);
	for (uint32_t i = 0; i < TURNS_MAX && core->resumers == 0; i++)
		turns(1, &more);
	turns(TURNS, &more);
}

/* Whether it is all there, as it was written. */
static bool long_is_right(void)
{
	const uint8_t *got = fab_region_memory(w.region[more.lane]);
	bool right = more.call.length_bytes == LONG_BYTES;

	for (uint32_t i = 0; i < LONG_BYTES && right; i++)
		right = got[i] == byte_at(i);
	return right;
}

Test(app_turn, a_long_read_that_is_cancelled_does_not_wait_for_its_turn)
{
	struct fab_handle handle = begin();
	struct held before = held_now(), now;
	uint64_t io_max_bytes = core->io_max_bytes;

	stop_between(&handle);
	now = held_now();
	cr_assert_eq(status_of(&more), 1, "it waits between two pieces: %d", status_of(&more));
	cr_assert_eq(now.resumers, 1);
	cr_assert_eq(now.ops, 1);
	cr_assert_gt(now.table_bytes, 0, "it holds its sums");
	fab_cancel(w.conn[more.lane], &more.call);
	turns(TURNS, &more);
	cr_assert_eq(status_of(&more), -ECANCELED, "its turn has not come: %d", status_of(&more));
	turns(TURNS, NULL);
	now = held_now();
	cr_assert_eq(now.resumers, 0);
	cr_assert_eq(now.ops, 0);
	cr_assert_eq(now.table_bytes, 0);
	cr_assert_eq(now.pages, before.pages);
	cr_assert_eq(now.present, 0);
	cr_assert_eq(now.turns, 0);
	core->io_max_bytes = io_max_bytes;
	send_read(&more, &handle, LONG_BYTES);
	cr_assert_eq(ended(&more), 0);
	cr_assert(long_is_right());
	end();
}

/* Its client goes: the session waits for nobody's turn to be let go of. */
Test(app_turn, a_long_read_whose_client_goes_does_not_wait_for_its_turn)
{
	struct fab_handle handle = begin();
	struct held before = held_now(), now;

	stop_between(&handle);
	cr_assert_eq(held_now().resumers, 1);
	sim_world_disconnect(&w);
	for (uint32_t i = 0; i < TURNS; i++)
		sim_world_turn(&w);
	now = held_now();
	cr_assert_eq(core->sessions_open, 0);
	cr_assert_eq(now.resumers, 0);
	cr_assert_eq(now.ops, 0);
	cr_assert_eq(now.table_bytes, 0);
	cr_assert_eq(now.pages, before.pages);
	cr_assert_eq(now.present, 0);
	cr_assert_eq(now.turns, 0);
	end();
}

/* ---- no room --------------------------------------------------------------------------------- */

enum { STARVED_BYTES = 192 * BLOCK_SIZE, PINGS = 200 };

/* More than the store has ready at once: for the rest zones are opened, which the drive delays. */
static void send_starved(struct sim_call *c, const struct fab_handle *handle)
{
	struct fab_call *f = fresh(c, FAB_WRITE);
	uint8_t *bytes = fab_region_memory(w.region[c->lane]);
	le32 *sums = (le32 *)(void *)(bytes + STARVED_BYTES);

	memset(bytes, 7, STARVED_BYTES);
	for (uint32_t i = 0; i < STARVED_BYTES / BLOCK_SIZE; i++)
		sums[i] = le32_of(crc32c_block(bytes, BLOCK_SIZE));
	f->args.write.handle = *handle;
	f->args.write.length_bytes = STARVED_BYTES;
	f->args.write.sums_at = STARVED_BYTES;
	f->region = w.region[c->lane];
	f->window_bytes = cfg.window_max_bytes;
	cr_assert_eq(fab_submit(w.conn[c->lane], f), 0);
	c->in_flight = true;
}

/* A second client of the same key. */
static struct fab_conn *dial(void)
{
	struct fab_connect_cfg conf = { .address = w.address,
					.key = { .id = "sim", .secret = { 1, 2, 3 } } };
	struct fab_conn *c;
	int err;

	cr_assert_eq(fab_connect(&c, &conf, w.power.now_ns), 0);
	while ((err = fab_connect_step(c, w.power.now_ns)) == -EINPROGRESS)
		sim_world_turn(&w);
	cr_assert_eq(err, 0, "%s", fab_conn_error(c));
	return c;
}

/* One after the other, each within some turns: how many were answered. */
static uint32_t pings(struct fab_conn *c, uint32_t count)
{
	struct fab_call ping = { .type = FAB_PING }, *done;
	uint32_t answered = 0, left = TURNS;

	for (; answered < count && left > 0; answered += left > 0) {
		cr_assert_eq(fab_submit(c, &ping), 0);
		fab_flush(c);
		for (left = TURNS; left > 0 && fab_poll(c, w.power.now_ns, &done, 1) == 0; left--)
			sim_world_turn(&w);
	}
	return answered;
}

/* Many small requests of one session, while another's write waits for room: and `reads` of that
 * other one are with the drives meanwhile.  Its share is all that the other cannot use.  How many
 * sessions count as present in the end. */
static uint32_t while_one_waits_for_room(uint32_t reads)
{
	struct sim_world_cfg small = cfg;
	struct fab_handle handle;
	struct fab_conn *other;
	uint32_t present;

	small.nblocks = 8192; /* so few that no more than 128 blocks are made ready ahead */
	handle = begin_in(&small);
	other = dial();
	drives_take(SLOW_NS);
	for (uint32_t i = 0; i < reads; i++)
		send_read(&slow[i], &handle, BLOCK_SIZE);
	send_starved(&more, &handle);
	turns(TURNS, NULL);
	cr_assert_eq(list_empty(&w.core->block_waiters) && list_empty(&w.core->block_askers), false,
		     "it waits for room");
	cr_assert_eq(pings(other, PINGS), PINGS, "and nobody else does");
	cr_assert_eq(status_of(&more), 1, "it still waits");
	drives_take(0);
	w.power.now_ns += SLOW_NS; /* who waits for room looks again and again: nothing leaps */
	cr_assert_eq(ended(&more), 0);
	for (uint32_t i = 0; i < reads; i++)
		cr_assert_eq(ended(&slow[i]), 0);
	cr_assert_eq(pings(other, 1), 1);
	turns(TURNS, NULL);
	present = held_now().present;
	fab_close(other);
	end();
	return present;
}

Test(app_turn, who_waits_for_room_is_in_nobodys_way)
{
	cr_assert_eq(while_one_waits_for_room(0), 0);
}

Test(app_turn, nor_is_who_has_something_else_under_way_besides)
{
	cr_assert_eq(while_one_waits_for_room(1), 0);
}
