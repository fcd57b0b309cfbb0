/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The cores of one appliance: a ring from each to each, a bell for each.
 *
 *   turn:   hear ... work, say ... tell ------> hear     messages of a turn are sent together,
 *                                   \--bell--> wake       and a sleeping core is woken once
 *
 * Life of several: the store's core mounts, then sends SERVE, and only then the others accept
 * clients.  At the end each core answers, closes its sessions, and sends QUIET when it has no
 * operation left.  Once all are quiet each sends BYE; the store's core stops its store when all
 * have.
 *
 * Every function here must be called by the core's own thread.
 */
#include "appliance/core/app_op.h"
#include "appliance/core/app_stat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MESSAGES_MAX = 256, PLACES_PER_OP = 5, PLACES_KEPT = 4 };

static struct app_ring *ring(struct app_core *core, uint32_t from, uint32_t to)
{
	DASSERT(from < core->cores->count && to < core->cores->count && from != to);
	return &core->cores->ring[from * core->cores->count + to];
}

/* ---- saying -------------------------------------------------------------------------- */

void app_cores_say(struct app_core *core, uint32_t to, struct app_message m)
{
	ASSERT(to < core->cores->count);
	ASSERT(to != core->index);
	app_ring_put(ring(core, core->index, to), m);
	core->said = true;
}

bool app_cores_knock(struct app_core *core, uint32_t to, uint32_t shard)
{
	ASSERT(shard < META_SHARDS_MAX && !core->meta);
	if (app_ring_room(ring(core, core->index, to)) <=
	    PLACES_KEPT * core->cfg.ops_max + APP_CORES_MAX)
		return false; /* app_store.c (3) */
	app_cores_say(core, to,
		      (struct app_message){ { .shard = shard | (uint64_t)core->index << 32 },
					    APP_SAY_KNOCK });
	return true;
}

bool app_cores_ailing(struct app_core *core, uint64_t drives)
{
	ASSERT(core->index > 0);
	if (app_ring_room(ring(core, core->index, 0)) <=
	    PLACES_KEPT * core->cfg.ops_max + APP_CORES_MAX)
		return false; /* app_store.c (3) */
	app_cores_say(core, 0, (struct app_message){ { .drives = drives }, APP_SAY_AILING });
	return true;
}

void app_cores_let_in(struct app_core *core)
{
	ASSERT(core->index == 0);
	if (!meta_readers_let_in(core->meta))
		return;
	for (uint32_t to = 0; to < core->cores->count; to++)
		if (core->knockers >> to & 1)
			app_cores_say(core, to, (struct app_message){ .what = APP_SAY_OPEN });
	core->knockers = 0;
}

void app_cores_say_all(struct app_core *core, struct app_message m)
{
	ASSERT(!core->cores || core->index < core->cores->count);
	for (uint32_t to = 0; core->cores && to < core->cores->count; to++)
		if (to != core->index)
			app_cores_say(core, to, m);
}

static void publish(struct app_core *core)
{
	uint64_t seq = meta_durable_seq(core->meta);

	ASSERT(seq >= core->durable_seq); /* app_store.c (4) */
	if (seq == core->durable_seq)
		return;
	core->durable_seq = seq;
	atomic_store_explicit(&core->cores->durable_seq, seq, memory_order_relaxed);
}

void app_cores_tell(struct app_core *core)
{
	uint64_t one = 1;

	if (core->meta)
		publish(core); /* before head is moved: app_store.c (4) */
	if (!core->said)
		return;
	core->said = false;
	ASSERT(core->cores);
	for (uint32_t to = 0; to < core->cores->count; to++) {
		struct app_bell *bell = &core->cores->bell[to];

		if (to == core->index || !app_ring_tell(ring(core, core->index, to)) ||
		    !app_bell_must_ring(bell))
			continue;
		core->stat.bells++;
		ASSERT(write(bell->fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
	}
}

/* ---- hearing --------------------------------------------------------------------------- */

/* The store is there, or could not be mounted. */
static void serve(struct app_core *core, int status)
{
	ASSERT(core->index > 0 && core->reader && status <= 0);
	ASSERT(core->life == APP_BOOTING);
	core->boot_status = status;
	core->life = status ? APP_STOPPED : APP_SERVING;
	if (!status)
		meta_reader_begin(core->reader);
	if (status)
		snprintf(core->error, sizeof(core->error), "core 0 could not mount the store");
}

static void hear_one(struct app_core *core, const struct app_message *m)
{
	switch ((enum app_say)m->what) {
	case APP_SAY_DONE:
		app_store_done(m->op);
		break;
	case APP_SAY_READ_END:
		meta_read_pin_end(core->meta, m->pin);
		break;
	case APP_SAY_KNOCK:
		meta_reader_knocks(core->meta, (uint32_t)m->shard, (uint32_t)(m->shard >> 32));
		core->knockers |= 1u << (m->shard >> 32);
		break;
	case APP_SAY_AILING:
		core->media.ailing |= m->drives;
		core->suspects_new = true;
		break;
	case APP_SAY_OPEN:
		core->let_in = true;
		break;
	case APP_SAY_DAMAGED:
		app_damage_ask(core, m->op);
		break;
	case APP_SAY_STAT:
		app_stat_add(core, (struct app_snapshot *)(void *)m->op->sums);
		app_cores_say(core, m->op->core->index,
			      (struct app_message){ { .op = m->op }, APP_SAY_DONE });
		break;
	case APP_SAY_SERVE:
		serve(core, (int)m->status);
		break;
	case APP_SAY_QUIET:
		core->quiets++;
		break;
	case APP_SAY_BYE:
		core->byes++;
		break;
	default:
		app_serve(core, (enum app_say)m->what, m->op);
	}
}

/* Its shard has been lent since: the operation runs again on its own core. */
static bool again(struct app_core *core, const struct app_message *m)
{
	ASSERT(m->what <= APP_SAY_DONE);
	if (m->what != APP_SAY_CALL || !meta_reader_has(core->meta, &m->op->meta))
		return false;
	m->op->meta.again = true;
	app_cores_say(core, m->op->core->index,
		      (struct app_message){ { .op = m->op }, APP_SAY_DONE });
	return true;
}

/* Prefetches the data of the plans from the other core's cache, all at once. */
static void ask_for(const struct app_message *m)
{
	const char *at;

	if (m->what != APP_SAY_CALL)
		return; /* it may have no op */
	at = (const char *)&m->op->meta;
	for (uint32_t i = 0; i < sizeof(struct meta_op); i += APP_RING_LINE)
		__builtin_prefetch(at + i, 1);
}

static void hear_from(struct app_core *core, uint32_t from)
{
	struct app_ring *r = ring(core, from, core->index);
	struct app_op *call[APP_AHEAD_MAX];
	uint32_t count = 0, heard = 0;
	struct app_message m;

	ASSERT(from != core->index);
	while (heard < MESSAGES_MAX && app_ring_pop(r, &m)) {
		heard++;
		if (again(core, &m))
			continue;
		ask_for(&m);
		if (m.what == APP_SAY_CALL) {
			call[count++] = m.op;
		} else {
			app_serve_calls(core, call, count);
			count = 0;
			hear_one(core, &m);
		}
		if (count == APP_AHEAD_MAX) {
			app_serve_calls(core, call, count);
			count = 0;
		}
	}
	app_serve_calls(core, call, count);
	core->progress |= heard > 0;
	ASSERT(count <= APP_AHEAD_MAX && heard <= MESSAGES_MAX);
}

void app_cores_hear(struct app_core *core)
{
	ASSERT(core->cores && core->index < core->cores->count);
	for (uint32_t from = 0; from < core->cores->count; from++)
		if (from != core->index)
			hear_from(core, from);
}

/* ---- sleep ------------------------------------------------------------------------------- */

bool app_cores_arm(struct app_core *core)
{
	ASSERT(!core->said);
	app_bell_set(&core->cores->bell[core->index], true);
	for (uint32_t from = 0; from < core->cores->count; from++)
		if (from != core->index && !app_ring_quiet(ring(core, from, core->index)))
			return false;
	return true;
}

void app_cores_disarm(struct app_core *core)
{
	struct app_bell *bell = &core->cores->bell[core->index];
	uint64_t rings;

	ASSERT(bell->fd >= 0);
	app_bell_set(bell, false);
	(void)!read(bell->fd, &rings, sizeof(rings));
}

/* ---- made and ended ------------------------------------------------------------------------ */

static int make_bells(struct app_cores *c)
{
	ASSERT(c->count > 0 && c->count <= APP_CORES_MAX);
	for (uint32_t i = 0; i < c->count; i++) {
		c->bell[i].fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (c->bell[i].fd < 0)
			return -errno;
	}
	return 0;
}

int app_cores_create(struct app_cores **out, uint32_t count, uint32_t ops_max)
{
	struct app_cores *c = aligned_alloc(APP_RING_LINE, sizeof(*c));
	uint32_t places = 1, rings = count * count;
	int err = -ENOMEM;

	ASSERT(count > 0 && count <= APP_CORES_MAX);
	if (!c)
		return -ENOMEM;
	*c = (struct app_cores){ .count = count };
	for (uint32_t i = 0; i < APP_CORES_MAX; i++)
		c->bell[i].fd = -1;
	/* (3) of app_store.c, and messages that are sent once */
	ops_max = ops_max ? ops_max : APP_OPS_DEFAULT;
	while (places < PLACES_PER_OP * ops_max + APP_CORES_MAX)
		places <<= 1;
	ASSERT(places >= PLACES_PER_OP * ops_max); /* app_store.c (3) */
	c->ring = aligned_alloc(APP_RING_LINE, rings * sizeof(*c->ring));
	c->slots = calloc((size_t)rings * places, sizeof(*c->slots));
	if (!c->ring || !c->slots)
		goto destroy;
	for (uint32_t i = 0; i < rings; i++)
		app_ring_init(&c->ring[i], c->slots + (size_t)i * places, places);
	err = make_bells(c);
	if (err)
		goto destroy;
	*out = c;
	return 0;

destroy:
	app_cores_destroy(c);
	return err;
}

void app_cores_destroy(struct app_cores *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->count; i++)
		if (c->bell[i].fd >= 0)
			close(c->bell[i].fd);
	free(c->slots);
	free(c->ring);
	free(c);
}
