/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The states that a group may be in, and how answers take some of them away: see wire_model.h.
 *
 *   state   { object, content } of each name; which open operations have taken place; what each of
 *           those will answer
 *
 *   answer of operation X:  every state, with any other open operations taking place first, in any
 *   order, and then X, if it has not yet -> those in which X answers that -> the new set
 *
 * Contents are nodes of a tree, each a change on top of another content, so that equal histories
 * are equal numbers.
 */
#include "test/sim/wire_model_internal.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/num.h"
#include "test/sim/sim_args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATES_MAX    400000u
#define STATES_ENOUGH 64u /* before anybody asks more */
#define UNSURE_MAX    3u
#define NAMELESS      (1u << 31) /* of an answer by handle */

struct wire_state {
	uint32_t object[WIRE_NAMES]; /* 0: absent */
	uint32_t content[WIRE_NAMES];
	uint32_t attr[WIRE_NAMES]; /* the value of its attribute; 0: it has none */
	uint32_t gone;             /* the directory is */
	uint32_t kept_attr[WIRE_HOLDS];
	uint32_t held[WIRE_HOLDS];  /* the object of each; 0: none */
	uint32_t kept[WIRE_HOLDS];  /* its content, once it has no name; 0: it has one */
	uint32_t done;              /* bits: open operations that have taken place */
	uint32_t answer[WIRE_OPEN]; /* of those: a content, or a size, or -errno    */
};

struct wire_group wire_group[WIRE_GROUPS];
uint64_t wire_nameless;

static struct {
	uint32_t id_next, wrong;
	uint64_t answers;
	/* the set that is being made */
	struct wire_state *set;
	uint32_t set_count, set_room;
	uint32_t set_from; /* first state of the set: earlier ones are not part of it */
	uint32_t *hash;    /* 1 + index, by hash */
	uint32_t hash_size;
} model;

/* ---- sets of states -------------------------------------------------------------------- */

static void set_begin(void)
{
	model.set_count = model.set_from = 0;
	memset(model.hash, 0, model.hash_size * sizeof(*model.hash));
}

/* Begins a new set behind the states made so far, from which it is computed. */
static uint32_t set_turn(void)
{
	model.set_from = model.set_count;
	memset(model.hash, 0, model.hash_size * sizeof(*model.hash));
	return model.set_count;
}

static uint32_t state_hash(const struct wire_state *s)
{
	const uint32_t *w = (const uint32_t *)(const void *)s;
	uint64_t h = 1469598103934665603u;

	for (size_t i = 0; i < sizeof(*s) / sizeof(*w); i++)
		h = (h ^ w[i]) * 1099511628211u;
	return (uint32_t)(h >> 20);
}

static void hash_put(uint32_t index)
{
	uint32_t at = state_hash(&model.set[index]) % model.hash_size;

	while (model.hash[at])
		at = (at + 1) % model.hash_size;
	model.hash[at] = index + 1;
}

static void set_grow(void)
{
	model.set_room = max_u32(2 * model.set_room, 1024);
	model.hash_size = 2 * model.set_room + 1;
	model.set = realloc(model.set, model.set_room * sizeof(*model.set));
	free(model.hash);
	model.hash = calloc(model.hash_size, sizeof(*model.hash));
	ASSERT(model.set && model.hash && model.set_room <= 2 * STATES_MAX);
	for (uint32_t i = model.set_from; i < model.set_count; i++)
		hash_put(i);
}

/* Into the set, once. */
static void set_add(const struct wire_state *s)
{
	uint32_t at = state_hash(s) % model.hash_size;

	for (; model.hash[at]; at = (at + 1) % model.hash_size)
		if (memcmp(&model.set[model.hash[at] - 1], s, sizeof(*s)) == 0)
			return;
	if (model.set_count == model.set_room)
		set_grow();
	model.set[model.set_count++] = *s;
	hash_put(model.set_count - 1);
}

static void group_take(struct wire_group *g, uint32_t from)
{
	g->count = model.set_count - from;
	if (g->count > g->room) {
		g->room = 2 * g->count;
		g->state = realloc(g->state, g->room * sizeof(*g->state));
		ASSERT(g->state);
	}
	memcpy(g->state, model.set + from, g->count * sizeof(*g->state));
}

/* ---- operations ------------------------------------------------------------------------ */

static int name_of(const struct wire_state *s, uint32_t object)
{
	for (uint32_t i = 0; i < WIRE_NAMES; i++)
		if (s->object[i] == object)
			return (int)i;
	return -1;
}

/* Where one without a name is kept for somebody; -1: nowhere. */
static int kept_at(const struct wire_state *s, uint32_t object)
{
	for (uint32_t i = 0; i < WIRE_HOLDS; i++)
		if (s->held[i] == object && s->kept[i])
			return (int)i;
	return -1;
}

/* Changes the file at all of its names; if it has none, at the holds that keep it. */
static void set_file(struct wire_state *s, uint32_t object, uint32_t content, uint32_t attr)
{
	bool named = name_of(s, object) >= 0;

	for (uint32_t i = 0; i < WIRE_NAMES; i++)
		if (s->object[i] == object) {
			s->content[i] = content;
			s->attr[i] = attr;
		}
	for (uint32_t i = 0; !named && i < WIRE_HOLDS; i++)
		if (s->held[i] == object) {
			s->kept[i] = content;
			s->kept_attr[i] = attr;
		}
}

static void set_name(struct wire_state *s, uint32_t name, uint32_t object, uint32_t content,
		     uint32_t attr)
{
	s->object[name] = object;
	s->content[name] = content;
	s->attr[name] = attr;
}

/* Removes a name; its file stays if it has another name, or is held. */
static void drop_name(struct wire_state *s, uint32_t name)
{
	const uint32_t object = s->object[name], content = s->content[name], attr = s->attr[name];

	set_name(s, name, WIRE_ABSENT, 0, 0);
	if (object && name_of(s, object) < 0)
		set_file(s, object, content, attr);
}

/* An operation by handle. */
static void by_handle(struct wire_state *s, const struct wire_op *op, uint32_t *answer)
{
	int name = name_of(s, op->object), kept = kept_at(s, op->object);
	uint32_t content, attr, nameless = name < 0 ? NAMELESS : 0;

	*answer = WIRE_DEAD;
	if (name < 0 && kept < 0)
		return;
	content = name < 0 ? s->kept[kept] : s->content[name];
	attr = name < 0 ? s->kept_attr[kept] : s->attr[name];
	if (op->kind == WIRE_READ_HANDLE || op->kind == WIRE_GET_ATTR) {
		*answer = (op->kind == WIRE_GET_ATTR ? attr : content) | nameless;
		return;
	}
	if (op->kind == WIRE_SET_ATTR)
		attr = op->id;
	else
		content = wire__content_with(content, op);
	set_file(s, op->object, content, attr);
	*answer = wire__content_size(content) | nameless;
}

static void copy_name(struct wire_state *s, uint32_t from, uint32_t to)
{
	set_name(s, to, s->object[from], s->content[from], s->attr[from]);
}

/* To names that the group has, two of them may be; 0 or -errno. */
static int of_two_names(struct wire_state *s, const struct wire_op *op)
{
	const uint32_t a = op->name, b = op->to;
	const struct wire_state was = *s;

	if (!s->object[a] || (op->kind == WIRE_EXCHANGE && !s->object[b]))
		return -ENOENT;
	if (op->kind == WIRE_LINK && s->object[b])
		return -EEXIST;
	if (s->object[a] == s->object[b])
		return 0;
	if (op->kind == WIRE_RENAME)
		drop_name(s, b);
	copy_name(s, a, b);
	if (op->kind == WIRE_RENAME)
		set_name(s, a, WIRE_ABSENT, 0, 0);
	if (op->kind == WIRE_EXCHANGE)
		set_name(s, a, was.object[b], was.content[b], was.attr[b]);
	return 0;
}

/* The directory itself. */
static int of_the_tree(struct wire_state *s, const struct wire_op *op)
{
	if (op->kind == WIRE_MKDIR && !s->gone)
		return -EEXIST;
	if (op->kind == WIRE_RMTREE && s->gone)
		return -ENOENT;
	s->gone = op->kind == WIRE_RMTREE;
	for (uint32_t i = 0; i < WIRE_NAMES; i++)
		drop_name(s, i);
	return 0;
}

/* Operation i takes place. */
static void happen(const struct wire_group *g, struct wire_state *s, uint32_t i)
{
	const struct wire_op *op = &g->op[i];
	uint32_t nobody_asks, *answer = op->ended ? &nobody_asks : &s->answer[i];

	s->done |= 1u << i;
	*answer = 0;
	switch (op->kind) {
	case WIRE_PUT:
		if (s->gone) {
			*answer = (uint32_t)-ENOENT;
			return;
		}
		drop_name(s, op->name);
		set_name(s, op->name, op->id, wire__content_with(0, op), 0);
		return;
	case WIRE_UNLINK:
		*answer = s->object[op->name] ? 0 : (uint32_t)-ENOENT;
		drop_name(s, op->name);
		return;
	case WIRE_RENAME:
	case WIRE_EXCHANGE:
	case WIRE_LINK:
		*answer = (uint32_t)of_two_names(s, op);
		return;
	case WIRE_MKDIR:
	case WIRE_RMTREE:
		*answer = (uint32_t)of_the_tree(s, op);
		return;
	case WIRE_READ:
		*answer = s->content[op->name];
		return;
	case WIRE_HOLD:
		*answer = s->held[op->hold] = s->object[op->name];
		return;
	default:
		by_handle(s, op, answer);
		return;
	}
}

/* The answer to an operation. */
struct answer {
	int status;
	uint64_t size;        /* of the file; UNKNOWN: not told */
	const uint8_t *bytes; /* NULL: not told */
	uint32_t offset, asked, got;
};
#define UNKNOWN UINT64_MAX

static bool reads_like(uint32_t content, const struct answer *a)
{
	uint32_t size = wire__content_size(content);

	if (a->status == -ENOENT || content == WIRE_ABSENT)
		return a->status == -ENOENT && content == WIRE_ABSENT;
	if (a->status || (a->size != UNKNOWN && a->size != size))
		return false;
	if (!a->bytes)
		return true;
	if (a->got != (a->offset < size ? min_u32(a->asked, size - a->offset) : 0))
		return false;
	return wire__content_has(content, a->bytes, a->offset, a->got, model.answers);
}

/* Returns true if the answer fits.  A file that has lost its names may be gone or not. */
static bool fits(const struct wire_op *op, uint32_t answer, const struct answer *a)
{
	switch (op->kind) {
	case WIRE_READ:
		return reads_like(answer, a);
	case WIRE_READ_HANDLE:
		return answer == WIRE_DEAD ? !a->status || a->status == -ESTALE
					   : reads_like(answer & ~NAMELESS, a);
	case WIRE_HOLD:
		return answer ? !a->status && a->size == answer : a->status == -ENOENT;
	case WIRE_APPEND:
	case WIRE_WRITE:
		if (answer == WIRE_DEAD)
			return !a->status || a->status == -ESTALE;
		return !a->status && a->size == (answer & ~NAMELESS);
	case WIRE_GET_ATTR:
		if (answer == WIRE_DEAD)
			return !a->status || a->status == -ESTALE || a->status == -ENODATA;
		answer &= ~NAMELESS;
		return answer ? !a->status && a->size == answer : a->status == -ENODATA;
	case WIRE_TRUNCATE:
	case WIRE_PUNCH:
	case WIRE_SET_ATTR:
		if (answer == WIRE_DEAD)
			return !a->status || a->status == -ESTALE;
		return !a->status;
	default:
		return a->status == (int)answer;
	}
}

/* The names and holds that an operation may look at or change, as bits. */
static uint32_t names_of(const struct wire_group *g, const struct wire_op *op)
{
	uint32_t names = 0;

	if (op->kind == WIRE_HOLD)
		return 1u << op->name | 1u << (WIRE_NAMES + op->hold);
	if (op->kind == WIRE_MKDIR || op->kind == WIRE_RMTREE)
		return (1u << WIRE_NAMES) - 1;
	if (!op->object)
		return 1u << op->name | (op->kind == WIRE_RENAME || op->kind == WIRE_EXCHANGE ||
							 op->kind == WIRE_LINK
						 ? 1u << op->to
						 : 0);
	for (uint32_t i = 0; i < g->count; i++)
		for (uint32_t k = 0; k < WIRE_NAMES + WIRE_HOLDS; k++)
			if ((k < WIRE_NAMES ? g->state[i].object[k]
					    : g->state[i].held[k - WIRE_NAMES]) == op->object)
				names |= 1u << k;
	return names;
}

/* The open operations for whose answers it may matter whether `x` comes before or behind, and
 * theirs. */
static uint32_t related(const struct wire_group *g, uint32_t x)
{
	uint32_t names = names_of(g, &g->op[x]), found = 0, before;

	do {
		before = found;
		for (uint32_t k = 0; k < WIRE_OPEN; k++) {
			uint32_t own = g->op[k].used ? names_of(g, &g->op[k]) : 0;

			if (own & names) {
				found |= 1u << k;
				names |= own;
			}
		}
	} while (found != before);
	return found & ~(1u << x);
}

/* Everything that the group may become without operation `x`, which has not taken place; the states
 * in which it has are taken as they are. */
static void spread(const struct wire_group *g, uint32_t x)
{
	uint32_t others = related(g, x);

	set_begin();
	for (uint32_t i = 0; i < g->count; i++)
		set_add(&g->state[i]);
	for (uint32_t i = 0; i < model.set_count; i++) { /* it grows as we go */
		if (model.set[i].done >> x & 1)
			continue;
		for (uint32_t k = 0; k < WIRE_OPEN; k++) {
			struct wire_state s = model.set[i];

			if (!(others >> k & 1) || s.done >> k & 1)
				continue;
			happen(g, &s, k);
			set_add(&s);
		}
	}
}

/* The operation is over in this state: nothing of it is left but what it did. */
static void clear(struct wire_state *s, uint32_t x)
{
	s->done &= ~(1u << x);
	s->answer[x] = 0;
}

static bool over(uint32_t group, uint32_t x, const struct answer *a)
{
	struct wire_group *g = &wire_group[group];
	bool nameless = g->op[x].object;
	uint32_t all;

	ASSERT(g->op[x].used && !g->op[x].ended);
	model.answers++;
	spread(g, x);
	all = set_turn();
	for (uint32_t i = 0; i < all; i++) {
		struct wire_state s = model.set[i];

		if (!(s.done >> x & 1))
			happen(g, &s, x);
		if (!fits(&g->op[x], s.answer[x], a))
			continue;
		nameless &= s.answer[x] != WIRE_DEAD && s.answer[x] & NAMELESS;
		clear(&s, x);
		set_add(&s);
	}
	if (model.set_count == all)
		return false;
	wire_nameless += nameless;
	group_take(g, all);
	g->op[x].used = false;
	return true;
}

const char *wire__kind_name(enum wire_kind kind)
{
	static const char *const names[] = {
		"put",           "append",        "write", "truncate",       "punch", "unlink",
		"rename",        "exchange",      "read",  "read by handle", "hold",  "link",
		"set attribute", "get attribute", "mkdir", "rmtree"
	};

	return names[kind];
}

static bool told(uint32_t group, int x, const struct answer *a)
{
	const struct wire_op *op = &wire_group[group].op[x];
	const struct wire_op was = *op;
	uint64_t word = 0;

	if (over(group, (uint32_t)x, a))
		return true;
	model.wrong = group;
	if (a->bytes && a->got >= 8)
		memcpy(&word, a->bytes, sizeof(word));
	return sim_wrong(
		"no order explains %s of /g%u/n%u (change %u, of file %u, %u bytes at %u): "
		"status %d, size %lld, %u bytes from %u, change %u's %llu first",
		wire__kind_name(was.kind), group, was.name, was.id, was.object, was.size,
		was.offset, a->status, (long long)a->size, a->got, a->offset,
		(unsigned)(word >> 32), (unsigned long long)(word & UINT32_MAX) * 8);
}

bool wire_did(uint32_t group, int op, int status, uint64_t size)
{
	return told(group, op, &(struct answer){ .status = status, .size = size });
}

bool wire_found(uint32_t group, int op, int status, const uint8_t *bytes, uint32_t offset,
		uint32_t asked, uint32_t got)
{
	return told(group, op,
		    &(struct answer){ .status = status,
				      .size = UNKNOWN,
				      .bytes = bytes,
				      .offset = offset,
				      .asked = asked,
				      .got = got });
}

bool wire_saw(uint32_t group, int op, int status, uint64_t size)
{
	return told(group, op, &(struct answer){ .status = status, .size = size });
}

/* Whatever it answered; or not at all. */
static bool forget(uint32_t group, uint32_t x, bool only_not_done)
{
	struct wire_group *g = &wire_group[group];

	ASSERT(g->op[x].used);
	set_begin();
	for (uint32_t i = 0; i < g->count; i++) {
		struct wire_state s = g->state[i];

		if (only_not_done && s.done >> x & 1)
			continue;
		clear(&s, x);
		set_add(&s);
	}
	if (model.set_count == 0)
		return false;
	group_take(g, 0);
	g->op[x].used = false;
	return true;
}

void wire_dropped(uint32_t group, int op)
{
	const struct wire_op was = wire_group[group].op[op];

	ASSERT(forget(group, (uint32_t)op, false));
	if (was.kind == WIRE_HOLD)
		wire_hold_end(group, was.hold);
}

/* ---- holds ------------------------------------------------------------------------------- */

int wire_hold_take(uint32_t group)
{
	for (int i = 0; i < (int)WIRE_HOLDS; i++)
		if (!wire_group[group].holds[i]) {
			wire_group[group].holds[i] = true;
			return i;
		}
	return -1;
}

/* Operations by handle that are in flight may find the file, or not. */
static void slacken(const struct wire_group *g, struct wire_state *s, uint32_t object)
{
	for (uint32_t k = 0; k < WIRE_OPEN; k++)
		if (g->op[k].used && g->op[k].object == object && s->answer[k] & NAMELESS)
			s->answer[k] = WIRE_DEAD;
}

void wire_hold_end(uint32_t group, uint32_t hold)
{
	struct wire_group *g = &wire_group[group];

	ASSERT(g->holds[hold]);
	g->holds[hold] = false;
	set_begin();
	for (uint32_t i = 0; i < g->count; i++) {
		struct wire_state s = g->state[i];

		if (s.kept[hold])
			slacken(g, &s, s.held[hold]);
		s.held[hold] = s.kept[hold] = s.kept_attr[hold] = 0;
		set_add(&s);
	}
	group_take(g, 0);
}

bool wire_held(uint32_t group, int op, int status, uint32_t object)
{
	const struct wire_op was = wire_group[group].op[op];

	if (!told(group, op, &(struct answer){ .status = status, .size = object }))
		return false;
	if (status)
		wire_hold_end(group, was.hold);
	return true;
}

bool wire_not_done(uint32_t group, int op)
{
	const struct wire_op was = wire_group[group].op[op];

	return forget(group, (uint32_t)op, true) ||
	       sim_wrong("%s of /g%u/n%u (change %u) was refused, and it took place",
			 wire__kind_name(was.kind), group, was.name, was.id);
}

void wire_ended(uint32_t group, int op)
{
	struct wire_group *g = &wire_group[group];

	ASSERT(g->op[op].used);
	g->op[op].ended = true;
	set_begin();
	for (uint32_t i = 0; i < g->count; i++) {
		g->state[i].answer[op] = 0;
		set_add(&g->state[i]);
	}
	group_take(g, 0);
}

bool wire_may_ask(uint32_t group, bool read)
{
	const struct wire_group *g = &wire_group[group];
	uint32_t open = 0;

	for (uint32_t i = 0; i < WIRE_OPEN; i++)
		open += g->op[i].used;
	return wire_unsure(group) < UNSURE_MAX && (g->count < STATES_ENOUGH || (read && open == 0));
}

/* It may have taken place without anybody having looked: then now at the latest. */
void wire_closed(uint32_t group, int x)
{
	struct wire_group *g = &wire_group[group];
	uint32_t all;

	ASSERT(g->op[x].used && g->op[x].ended);
	spread(g, (uint32_t)x);
	all = set_turn();
	for (uint32_t i = 0; i < all; i++) {
		struct wire_state s = model.set[i];
		bool before = i < g->count; /* ... in which nothing else need have happened first */

		if (before || s.done >> x & 1) {
			clear(&s, (uint32_t)x);
			set_add(&s);
		}
		s = model.set[i];
		if (!(s.done >> x & 1)) {
			happen(g, &s, (uint32_t)x);
			clear(&s, (uint32_t)x);
			set_add(&s);
		}
	}
	group_take(g, all);
	g->op[x].used = false;
}

int wire_open(uint32_t group, const struct wire_op *op)
{
	struct wire_group *g = &wire_group[group];

	for (int i = 0; i < (int)WIRE_OPEN; i++)
		if (!g->op[i].used) {
			g->op[i] = *op;
			g->op[i].used = true;
			g->op[i].ended = false;
			return i;
		}
	return -1;
}

uint32_t wire_unsure(uint32_t group)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < WIRE_OPEN; i++)
		n += wire_group[group].op[i].used && wire_group[group].op[i].ended;
	return n;
}

uint32_t wire_id(void)
{
	return ++model.id_next;
}

void wire_model_begin(void)
{
	wire_model_end();
	wire__contents_begin();
	set_grow();
	for (uint32_t i = 0; i < WIRE_GROUPS; i++) {
		set_begin();
		set_add(&(struct wire_state){ 0 });
		group_take(&wire_group[i], 0);
	}
}

void wire_model_end(void)
{
	for (uint32_t i = 0; i < WIRE_GROUPS; i++)
		free(wire_group[i].state);
	memset(wire_group, 0, sizeof(wire_group));
	wire__contents_end();
	free(model.set);
	free(model.hash);
	memset(&model, 0, sizeof(model));
}

/* Files, not names; *bytes of them. */
static uint32_t files_in(const struct wire_state *s, uint64_t *bytes)
{
	uint32_t files = 0;

	*bytes = 0;
	for (uint32_t k = 0; k < WIRE_NAMES; k++) {
		if (!s->object[k] || name_of(s, s->object[k]) != (int)k)
			continue;
		files++;
		*bytes += wire__content_size(s->content[k]);
	}
	return files;
}

bool wire_totals_are(uint32_t group, int status, uint64_t entries, uint64_t bytes)
{
	const struct wire_group *g = &wire_group[group];

	for (uint32_t i = 0; i < g->count; i++) {
		const struct wire_state *s = &g->state[i];
		uint64_t in_all, names = 0;

		(void)files_in(s, &in_all);
		for (uint32_t k = 0; k < WIRE_NAMES; k++)
			names += s->object[k] != 0;
		if (s->gone ? status == -ENOENT : !status && entries == names && bytes == in_all)
			return true;
	}
	model.wrong = group;
	return sim_wrong("/g%u has totals of %llu names, %llu bytes: %d", group,
			 (unsigned long long)entries, (unsigned long long)bytes, status);
}

void wire_inodes(uint64_t *least, uint64_t *most)
{
	uint64_t bytes;

	*least = *most = 1; /* the root */
	for (uint32_t n = 0; n < WIRE_GROUPS; n++) {
		const struct wire_group *g = &wire_group[n];
		uint32_t few = UINT32_MAX, many = 0;

		for (uint32_t i = 0; i < g->count; i++) {
			uint32_t inodes = files_in(&g->state[i], &bytes) + !g->state[i].gone;

			few = min_u32(few, inodes);
			many = max_u32(many, inodes);
		}
		*least += few;
		*most += many;
	}
}

uint32_t wire_size_most(uint32_t group)
{
	const struct wire_group *g = &wire_group[group];
	uint32_t most = 0, more = 0;

	for (uint32_t i = 0; i < g->count; i++)
		for (uint32_t k = 0; k < WIRE_NAMES; k++)
			most = max_u32(most, wire__content_size(g->state[i].content[k]));
	for (uint32_t i = 0; i < g->count; i++)
		for (uint32_t k = 0; k < WIRE_HOLDS; k++)
			most = max_u32(most, wire__content_size(g->state[i].kept[k]));
	for (uint32_t i = 0; i < WIRE_OPEN; i++)
		if (g->op[i].used)
			more += g->op[i].size + g->op[i].offset;
	return most + more;
}

void wire_describe(void)
{
	const struct wire_group *g = &wire_group[model.wrong];

	printf("# /g%u: %u states\n", model.wrong, g->count);
	for (uint32_t i = 0; i < WIRE_OPEN; i++)
		if (g->op[i].used)
			printf("# open: %s of n%u (n%u), change %u, file %u, %u+%u, client %u%s\n",
			       wire__kind_name(g->op[i].kind), g->op[i].name, g->op[i].to,
			       g->op[i].id, g->op[i].object, g->op[i].offset, g->op[i].size,
			       g->op[i].client, g->op[i].ended ? ", ended" : "");
	for (uint32_t i = 0; i < min_u32(g->count, 8); i++)
		for (uint32_t k = 0; k < WIRE_NAMES; k++) {
			printf("# state %u: n%u is file %u,", i, k, g->state[i].object[k]);
			wire__content_describe(g->state[i].content[k]);
			printf("\n");
		}
	for (uint32_t i = 0; i < min_u32(g->count, 8); i++)
		for (uint32_t k = 0; k < WIRE_HOLDS; k++) {
			printf("# state %u: hold %u is of file %u,", i, k, g->state[i].held[k]);
			wire__content_describe(g->state[i].kept[k]);
			printf("\n");
		}
}
