/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Operations on their way: see sim_load.h.
 *
 *   free -> picked, asked -> ... answered (or the next stage of it is asked) -> free
 *             ^    | the power goes, the session ends
 *             |    v
 *             +-- asked again, in the next session
 *
 *  (1) What is answered with success is done, once; with an error, it is not.
 *  (2) A change that a reader has seen, or that was found after a cut, is not answered with an
 *      error.
 */
#include "test/sim/sim_load_internal.h"
#include "base/crc32c.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const enum sim_kind anything[] = {
	SIM_PUT,    SIM_PUT,      SIM_PUT,       SIM_PUT,       SIM_WRITE,    SIM_WRITE,
	SIM_APPEND, SIM_APPEND,   SIM_TRUNCATE,  SIM_UNLINK,    SIM_MKDIR,    SIM_MKDIR,
	SIM_RMDIR,  SIM_RENAME,   SIM_RENAME,    SIM_SYMLINK,   SIM_CHMOD,    SIM_READ,
	SIM_READ,   SIM_LONG_PUT, SIM_GIVE_LINK, SIM_GIVE_LINK, SIM_EXCHANGE,
};

void sim_load_init(struct sim_load *l, struct sim_world *w, struct sim_model *model, uint64_t seed)
{
	memset(l, 0, sizeof(*l));
	l->w = w;
	l->model = model;
	l->in_flight_max = SIM_OPS_MAX;
	l->names = 4;
	l->mix = anything;
	l->mix_count = ARRAY_LEN(anything);
	l->seed = seed;
}

/* ---- answers -------------------------------------------------------------------------- */

uint64_t sim_rot_seen;

/* A block is as it was, or does not match its sum: if it has rotted, and only then. */
static bool block_holds(const struct sim_call *c, const struct fab_answer *a, uint32_t b,
			const struct sim_state *s)
{
	const uint8_t *block = c->window + a->data_at + b * BLOCK_SIZE;

	if (crc32c(block, BLOCK_SIZE) == fab_answer_sum(&c->call, a, b))
		return memcmp(block, s->bytes + b * BLOCK_SIZE,
			      min_u32(BLOCK_SIZE, s->size - b * BLOCK_SIZE)) == 0;
	sim_rot_seen++;
	return s->rotten >> b & 1;
}

bool sim_answer_holds(const struct sim_call *c, uint32_t i, const struct sim_state *s)
{
	struct fab_answer a;

	if (fab_call_answer(&c->call, i, &a) || a.status || !s || s->type != SIM_FILE ||
	    a.length_bytes != s->size)
		return false;
	for (uint32_t b = 0; b * BLOCK_SIZE < s->size; b++)
		if (!block_holds(c, &a, b, s))
			return false;
	return true;
}

static void finish(struct sim_load *l, struct sim_op *o)
{
	sim_change_drop(&o->change);
	sim_state_drop(o->content);
	while (o->may_count > 0)
		sim_state_drop(o->may[--o->may_count]);
	o->used = false;
	l->done++;
	l->by_kind[o->kind]++;
}

static bool more_stages(const struct sim_op *o)
{
	switch (o->kind) {
	case SIM_LONG_PUT:
		return o->stage < 2;
	case SIM_WRITE:
	case SIM_APPEND:
	case SIM_TRUNCATE:
	case SIM_PUNCH:
	case SIM_SEEK:
		return o->stage == 0;
	case SIM_OPEN:
		return o->stage == 0 && !sim__holds_at_once(o);
	default:
		return false;
	}
}

/* A full store says so, and nothing has changed; but deleting always works. */
static bool may_be_full(const struct sim_op *o, int status)
{
	if (status == -EMFILE && o->kind == SIM_LONG_PUT)
		return true; /* those that were refused halfway stay open as long as the session */
	return status == -ENOSPC && o->kind != SIM_UNLINK && o->kind != SIM_RMDIR &&
	       o->kind != SIM_RMTREE && o->kind != SIM_LET_GO;
}

/* A block that is to be changed in part is looked at first. */
static bool may_be_rotten(const struct sim_op *o, int status)
{
	return (status == -EIO || status == -EBADMSG || status == -EUCLEAN) && o->change.count &&
	       o->change.before[0] && o->change.before[0]->rotten;
}

static bool is_expected(const struct sim_op *o, int status)
{
	if (o->kind == SIM_LONG_PUT && more_stages(o) && status == 0)
		return true; /* that its directory is missing may show at the end only */
	return status == o->expect || may_be_full(o, status) || may_be_rotten(o, status) ||
	       (status == 0 && more_stages(o) && !o->expect) ||
	       (status == -ENOTDIR && o->expect == -ENOENT);
}

static bool zeros(const struct sim_state *s, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to && i < s->size; i++)
		if (s->bytes[i])
			return false;
	return true;
}

/* A range that is called a hole must be zeros.  A range called data may be anything: only the
 * drives know which blocks exist. */
static bool take_seek(struct sim_load *l, struct sim_op *o, int status)
{
	const struct sim_state *s = o->content;
	uint64_t at = status ? s->size : o->call->call.length_bytes;
	bool good;

	if (status && status != -ENXIO)
		return sim__wrong(l, o, "answered %d", status);
	if (o->offset >= s->size)
		good = status == -ENXIO;
	else if (o->swap)
		good = !status && at >= o->offset && at <= s->size &&
		       zeros(s, at, align_up(at + 1, BLOCK_SIZE));
	else
		good = at >= o->offset && at <= s->size && (status || at < s->size) &&
		       zeros(s, o->offset, at);
	return good || sim__wrong(l, o, "%s from %llu on: %d, %llu", o->swap ? "a hole" : "data",
				  (unsigned long long)o->offset, status, (unsigned long long)at);
}

static void ask_next(struct sim_load *l, struct sim_op *o)
{
	o->call = sim_world_call_on(l->w, o->call->lane);
	sim__request(l, o, false);
}

/* A long put whose session has ended begins again: its hidden file has gone with the session. */
static bool begins_anew(const struct sim_load *l, const struct sim_op *o, int status)
{
	return o->kind == SIM_LONG_PUT && o->stage > 0 && o->begun != l->session &&
	       status == -ESTALE && !o->change.seen;
}

static bool take_reader(struct sim_load *l, struct sim_op *o)
{
	bool more, good;

	if (l->breaks && sim__reader_failed(o)) {
		l->broken++;
		finish(l, o);
		return true;
	}
	good = sim__take_reader(l, o, &more);
	if (good && more)
		ask_next(l, o);
	else
		finish(l, o);
	return good;
}

static int status_of(const struct sim_op *o)
{
	int status = o->call->call.status;
	struct fab_answer answer;

	if (o->kind == SIM_PUT && !status)
		status = fab_call_answer(&o->call->call, 0, &answer) ? -EPROTO : answer.status;
	if ((o->call->call.type == FAB_UNLINK_BATCH || o->call->call.type == FAB_HOLD ||
	     o->call->call.type == FAB_LET_GO) &&
	    !status)
		status = fab_call_status(&o->call->call, 0);
	return status;
}

static bool keep_hold(struct sim_load *l, struct sim_op *o)
{
	const uint32_t n = (uint32_t)(o->other[1] - '0');
	struct fab_attr attr;

	if (sim__holds_at_once(o)) {
		if (fab_call_attr(&o->call->call, 0, &attr))
			return sim__wrong(l, o, "no attributes");
		o->handle = attr.handle;
	}
	l->hold[n].handle = o->handle;
	l->hold[n].lane = o->call->lane;
	l->opened++;
	return true;
}

static bool take_stage(struct sim_load *l, struct sim_op *o)
{
	struct fab_attr attr;

	if (o->stage == 0 && fab_call_attr(&o->call->call, 0, &attr))
		return sim__wrong(l, o, "no attributes");
	if (o->stage == 0)
		o->handle = attr.handle;
	o->stage = max_u32(o->stage, 1);
	ask_next(l, o);
	return true;
}

static bool take(struct sim_load *l, struct sim_op *o)
{
	bool again = o->call->call.change.again;
	int status;

	if (sim__is_reader(o))
		return take_reader(l, o);
	status = status_of(o);
	sim__tell(l, o, "is answered", status);
	if (l->breaks && status < 0 && status != o->expect) {
		l->broken++; /* it is asked again when there is somebody to ask, with its call */
		o->call->in_flight = true;
		return true;
	}
	if (o->kind == SIM_SEEK && o->stage) {
		bool good = take_seek(l, o, status);

		finish(l, o);
		return good;
	}
	if (begins_anew(l, o, status)) {
		o->stage = o->length = 0;
		ask_next(l, o);
		return true;
	}
	if (!is_expected(o, status))
		return sim__wrong(l, o, "answered %d, not %d", status, o->expect);
	if (status == 0 && more_stages(o))
		return take_stage(l, o);
	if (status && o->change.seen)
		return sim__wrong(l, o, "it was seen done, and is answered %d", status); /* (2) */
	l->again_done += again && o->change.seen;
	l->full += status == -ENOSPC;
	l->refused += status && may_be_rotten(o, status);
	if (!status && o->kind == SIM_OPEN && !keep_hold(l, o))
		return false;
	if (!status) {
		sim__readers_may_find(l, &o->change, true);
		sim_change_apply(&o->change, l->model);
	}
	finish(l, o);
	return true;
}

/* ---- turns ---------------------------------------------------------------------------- */

bool sim_load_idle(const struct sim_load *l)
{
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++)
		if (l->op[i].used)
			return false;
	return true;
}

/* The next of the list; those that are left out are not even looked at. */
static void skip(struct sim_load *l)
{
	uint32_t i = 0;

	if (!l->only)
		return;
	while (i < l->only_count && l->only[i] < l->next)
		i++;
	l->next = i < l->only_count ? l->only[i] : UINT64_MAX;
}

/* A held file is let go over the connection that holds it. */
static struct sim_call *call_for(struct sim_load *l, const struct sim_op *o)
{
	if (o->kind == SIM_LET_GO)
		return sim_world_call_on(l->w, l->hold[o->path[1] - '0'].lane);
	return sim_world_call(l->w);
}

static void send_next(struct sim_load *l, struct sim_op *o)
{
	skip(l);
	if (l->next == UINT64_MAX || !sim__pick(l, o))
		return;
	o->call = call_for(l, o);
	if (!o->call) { /* all of that connection are in flight */
		sim_change_drop(&o->change);
		return;
	}
	o->number = l->next++;
	l->tries = 0;
	sim__readers_may_find(l, &o->change, false);
	o->used = true;
	sim__request(l, o, false);
}

bool sim_load_step(struct sim_load *l, bool send)
{
	struct sim_call *done[SIM_CALLS_MAX];
	uint32_t count;

	for (uint32_t i = 0; send && i < l->in_flight_max; i++)
		if (!l->op[i].used)
			send_next(l, &l->op[i]);
	count = sim_world_step(l->w, done, SIM_CALLS_MAX);
	if (l->w->power.off)
		return true; /* what is answered now, nobody hears */
	for (uint32_t i = 0; i < count; i++) {
		struct sim_op *o = done[i]->user;

		done[i]->in_flight = false;
		if (o >= l->op && o < l->op + SIM_OPS_MAX ? !take(l, o) : !l->other(l, done[i]))
			return false;
	}
	return true;
}

/* A hold ends with its session, and a file without a name ends with the appliance.  Operations in
 * progress on such a file end; a change of a held file that has a name becomes a change of the
 * name. */
static void holds_end(struct sim_load *l)
{
	sim_model_let_go(l->model);
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++) {
		struct sim_op *o = &l->op[i];

		if (!o->used)
			continue;
		if (o->kind != SIM_OPEN)
			sim_change_let_go(&o->change);
		if (!sim_is_hold(o->path))
			continue;
		if (o->change.count > 0)
			memcpy(o->path, o->change.path[0], SIM_PATH_MAX);
		else
			finish(l, o);
	}
}

void sim_load_forget(struct sim_load *l)
{
	holds_end(l);
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++)
		if (l->op[i].used)
			finish(l, &l->op[i]);
}

void sim_load_resume(struct sim_load *l)
{
	l->session++;
	holds_end(l);
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++) {
		struct sim_op *o = &l->op[i];

		if (!o->used)
			continue;
		o->change.seen |= o->change.found;
		o->call = sim_world_call_on(l->w, o->call->lane);
		sim__request(l, o, true);
	}
}

/* ---- rot ------------------------------------------------------------------------------ */

static void mark(struct sim_state *s, const uint8_t *block, uint32_t b)
{
	if (s && s->type == SIM_FILE && s->size >= (b + 1) * BLOCK_SIZE &&
	    memcmp(s->bytes + b * BLOCK_SIZE, block, BLOCK_SIZE) == 0)
		s->rotten |= 1u << b;
}

/* All that there may be of the file has that block: what is there, and what may become of it. */
static void mark_all(struct sim_load *l, const uint8_t *block, uint32_t b)
{
	for (uint32_t i = 0; i < l->model->count; i++)
		mark(l->model->node[i].state, block, b);
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++) {
		struct sim_op *o = &l->op[i];

		for (uint32_t k = 0; o->used && k < o->change.count; k++) {
			mark(o->change.before[k], block, b);
			mark(o->change.after[k], block, b);
		}
		for (uint32_t k = 0; o->used && k < o->may_count; k++)
			mark(o->may[k], block, b);
	}
}

/* Every copy that lies on the drives: which of them is alive is not known here. */
static uint32_t flip_all(struct sim_world *w, const uint8_t *block, uint32_t bit)
{
	uint32_t flipped = 0;

	for (uint32_t d = 0; d < w->cfg.ndrives; d++)
		for (uint64_t at = 0; at < sim_drive_bytes(w->sim[d]); at += BLOCK_SIZE)
			if (memcmp(sim_drive_durable(w->sim[d]) + at, block, BLOCK_SIZE) == 0) {
				sim_drive_flip(w->sim[d], at + bit / 8, bit % 8);
				flipped++;
			}
	return flipped;
}

bool sim_load_rot(struct sim_load *l, struct rand_state *r)
{
	const struct sim_model *m = l->model;
	uint32_t i = m->count ? (uint32_t)rand_below(r, m->count) : 0;
	uint32_t bit = (uint32_t)rand_below(r, 8 * BLOCK_SIZE), b;
	uint8_t block[BLOCK_SIZE];
	const struct sim_state *s = NULL;

	for (uint32_t n = 0; n < m->count && !s; n++) {
		const struct sim_state *at = m->node[(i + n) % m->count].state;

		s = at->type == SIM_FILE && at->size >= BLOCK_SIZE ? at : NULL;
	}
	if (!s)
		return false;
	b = (uint32_t)rand_below(r, s->size / BLOCK_SIZE);
	if (s->rotten >> b & 1)
		return false;
	memcpy(block, s->bytes + b * BLOCK_SIZE, BLOCK_SIZE);
	if (block[0] == 0 && memcmp(block, block + 1, BLOCK_SIZE - 1) == 0)
		return false; /* a hole, or what looks like one */
	if (!flip_all(l->w, block, bit))
		return false;
	mark_all(l, block, b);
	return true;
}

void sim_load_copy(struct sim_load *to, const struct sim_load *from, struct sim_world *w,
		   struct sim_model *model)
{
	*to = *from;
	to->w = w;
	to->model = model;
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++) {
		struct sim_op *o = &to->op[i];

		if (!o->used)
			continue;
		sim_change_copy(&o->change, &from->op[i].change);
		sim_state_hold(o->content);
		for (uint32_t k = 0; k < o->may_count; k++)
			sim_state_hold(o->may[k]);
	}
}
