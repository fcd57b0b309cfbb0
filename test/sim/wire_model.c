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
#include "test/sim/wire_model.h"

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
#define BUCKETS       4096u
#define UNSURE_MAX    3u
#define NAMELESS      (1u << 31) /* of an answer by handle */

struct wire_state {
	uint32_t object[WIRE_NAMES]; /* 0: absent */
	uint32_t content[WIRE_NAMES];
	uint32_t held[WIRE_HOLDS];  /* the object of each; 0: none */
	uint32_t kept[WIRE_HOLDS];  /* its content, once it has no name; 0: it has one */
	uint32_t done;              /* bits: open operations that have taken place */
	uint32_t answer[WIRE_OPEN]; /* of those: a content, or a size, or -errno    */
};

struct content {
	enum wire_kind kind;
	uint32_t parent, id, offset, length, size;
	uint32_t next;  /* of the same change, on top of another */
	uint32_t same;  /* the content that has the same bytes */
	uint32_t alike; /* in the same bucket                   */
	uint64_t hash;
	uint64_t compared; /* with this answer last, and */
	bool equal;
};

struct wire_group wire_group[WIRE_GROUPS];
uint64_t wire_nameless;

static struct {
	struct content *at;
	uint32_t count, room;
	uint32_t id_next, wrong;
	uint64_t answers;
	uint32_t bucket[BUCKETS], by_id[BUCKETS];
	uint32_t cached; /* content whose bytes are in `bytes` */
	uint8_t bytes[WIRE_FILE_MAX];
	/* the set that is being made */
	struct wire_state *set;
	uint32_t set_count, set_room;
	uint32_t set_from; /* what stands before is not of the set any more */
	uint32_t *hash;    /* 1 + index, by hash */
	uint32_t hash_size;
} model;

/* ---- contents -------------------------------------------------------------------------- */

static uint32_t content_new(const struct content *c)
{
	if (model.count == model.room) {
		model.room = max_u32(2 * model.room, 1024);
		model.at = realloc(model.at, model.room * sizeof(*model.at));
		ASSERT(model.at);
	}
	model.at[model.count] = *c;
	return model.count++;
}

void wire_bytes(uint32_t id, uint32_t offset, uint8_t *to, uint32_t size)
{
	uint32_t i = 0;

	while (i < size) {
		uint64_t word = (uint64_t)id << 32 | (offset + i) / 8;
		uint32_t skip = (offset + i) % 8, n = min_u32(8 - skip, size - i);

		memcpy(to + i, (const uint8_t *)&word + skip, n);
		i += n;
	}
}

/* From the oldest change to the newest. */
static const uint8_t *content_bytes(uint32_t content)
{
	uint32_t chain[4096], depth = 0, end = 0;

	if (model.cached == content)
		return model.bytes;
	for (uint32_t at = content; at; at = model.at[at].parent) {
		ASSERT(depth < ARRAY_LEN(chain));
		chain[depth++] = at;
	}
	while (depth > 0) {
		const struct content *c = &model.at[chain[--depth]];

		ASSERT(c->size <= WIRE_FILE_MAX);
		if (c->kind == WIRE_PUNCH) {
			if (c->offset < end)
				memset(model.bytes + c->offset, 0,
				       min_u32(c->length, end - c->offset));
		} else if (c->kind != WIRE_TRUNCATE) {
			if (c->offset > end)
				memset(model.bytes + end, 0, c->offset - end);
			wire_bytes(c->id, 0, model.bytes + c->offset, c->length);
		} else if (c->size > end) {
			memset(model.bytes + end, 0, c->size - end);
		}
		end = c->size;
	}
	model.cached = content;
	return model.bytes;
}

/* The first content that has these bytes: histories that nobody can tell apart are one. */
static uint32_t content_same(uint32_t content)
{
	const uint8_t *bytes = content_bytes(content);
	uint64_t h = model.at[content].size;

	for (uint32_t i = 0; i < model.at[content].size; i++)
		h = (h ^ bytes[i]) * 1099511628211u;
	h ^= h >> 29;
	model.at[content].hash = h;
	for (uint32_t at = model.bucket[h % BUCKETS]; at; at = model.at[at].alike)
		if (model.at[at].hash == h && model.at[at].size == model.at[content].size)
			return at;
	model.at[content].alike = model.bucket[h % BUCKETS];
	model.bucket[h % BUCKETS] = content;
	return content;
}

/* `parent` with the change on top. */
static uint32_t content_with(uint32_t parent, const struct wire_op *op)
{
	uint32_t *first = &model.by_id[op->id % BUCKETS], size = model.at[parent].size, at;
	struct content c = { .kind = op->kind, .parent = parent, .id = op->id };

	for (at = *first; at; at = model.at[at].next)
		if (model.at[at].id == op->id && model.at[at].parent == parent)
			return model.at[at].same;
	c.offset = op->kind == WIRE_APPEND ? size : op->offset;
	c.length = op->size;
	if (op->kind == WIRE_TRUNCATE || op->kind == WIRE_PUT)
		c.size = op->size;
	else if (op->kind == WIRE_PUNCH)
		c.size = size;
	else
		c.size = max_u32(size, c.offset + c.length);
	c.next = *first;
	at = content_new(&c);
	*first = at;
	model.at[at].same = content_same(at);
	return model.at[at].same;
}

/* ---- sets of states -------------------------------------------------------------------- */

static void set_begin(void)
{
	model.set_count = model.set_from = 0;
	memset(model.hash, 0, model.hash_size * sizeof(*model.hash));
}

/* What was made so far is only looked at: a new set begins behind it. */
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

/* The content of one without a name that somebody holds; WIRE_DEAD: nobody does. */
static uint32_t kept_of(const struct wire_state *s, uint32_t object)
{
	for (uint32_t i = 0; i < WIRE_HOLDS; i++)
		if (s->held[i] == object && s->kept[i])
			return s->kept[i];
	return WIRE_DEAD;
}

static void keep(struct wire_state *s, uint32_t object, uint32_t content)
{
	for (uint32_t i = 0; i < WIRE_HOLDS; i++)
		if (object && s->held[i] == object)
			s->kept[i] = content;
}

static void change_by_handle(struct wire_state *s, const struct wire_op *op, uint32_t *answer)
{
	int name = name_of(s, op->object);
	uint32_t kept = kept_of(s, op->object);

	*answer = WIRE_DEAD;
	if (name < 0 && kept == WIRE_DEAD)
		return;
	if (name < 0) {
		kept = content_with(kept, op);
		keep(s, op->object, kept);
		*answer = model.at[kept].size | NAMELESS;
		return;
	}
	s->content[name] = content_with(s->content[name], op);
	*answer = model.at[s->content[name]].size;
}

static void exchange(struct wire_state *s, uint32_t a, uint32_t b)
{
	const uint32_t object = s->object[a], content = s->content[a];

	s->object[a] = s->object[b];
	s->content[a] = s->content[b];
	s->object[b] = object;
	s->content[b] = content;
}

static void move(struct wire_state *s, uint32_t from, uint32_t to)
{
	keep(s, s->object[to], s->content[to]);
	s->object[to] = s->object[from];
	s->content[to] = s->content[from];
	s->object[from] = s->content[from] = WIRE_ABSENT;
}

/* Operation i takes place. */
static void happen(const struct wire_group *g, struct wire_state *s, uint32_t i)
{
	const struct wire_op *op = &g->op[i];
	uint32_t nobody_asks, *answer = op->ended ? &nobody_asks : &s->answer[i];
	int name;

	s->done |= 1u << i;
	*answer = 0;
	switch (op->kind) {
	case WIRE_PUT:
		keep(s, s->object[op->name], s->content[op->name]);
		s->object[op->name] = op->id;
		s->content[op->name] = content_with(0, op);
		return;
	case WIRE_UNLINK:
	case WIRE_RENAME:
		if (!s->object[op->name])
			*answer = (uint32_t)-ENOENT;
		else if (op->kind == WIRE_RENAME)
			move(s, op->name, op->to);
		else
			keep(s, s->object[op->name], s->content[op->name]);
		s->object[op->name] = s->content[op->name] = WIRE_ABSENT;
		return;
	case WIRE_EXCHANGE:
		if (s->object[op->name] && s->object[op->to])
			exchange(s, op->name, op->to);
		else
			*answer = (uint32_t)-ENOENT;
		return;
	case WIRE_APPEND:
	case WIRE_WRITE:
	case WIRE_TRUNCATE:
	case WIRE_PUNCH:
		change_by_handle(s, op, answer);
		return;
	case WIRE_READ:
		*answer = s->content[op->name];
		return;
	case WIRE_READ_HANDLE:
		name = name_of(s, op->object);
		*answer = name >= 0 ? s->content[name] : kept_of(s, op->object) | NAMELESS;
		return;
	case WIRE_HOLD:
		*answer = s->held[op->hold] = s->object[op->name];
		return;
	}
}

/* What came of an operation. */
struct answer {
	int status;
	uint64_t size;        /* of the file; UNKNOWN: not told */
	const uint8_t *bytes; /* NULL: not told */
	uint32_t offset, asked, got;
};
#define UNKNOWN UINT64_MAX

static bool reads_like(uint32_t content, const struct answer *a)
{
	uint32_t size = model.at[content].size;

	if (a->status == -ENOENT || content == WIRE_ABSENT)
		return a->status == -ENOENT && content == WIRE_ABSENT;
	if (a->status || (a->size != UNKNOWN && a->size != size))
		return false;
	if (!a->bytes)
		return true;
	if (a->got != (a->offset < size ? min_u32(a->asked, size - a->offset) : 0))
		return false;
	if (model.at[content].compared != model.answers) {
		model.at[content].equal =
			memcmp(content_bytes(content) + a->offset, a->bytes, a->got) == 0;
		model.at[content].compared = model.answers;
	}
	return model.at[content].equal;
}

/* Of a file that has lost its names nothing is known but that. */
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
	case WIRE_TRUNCATE:
	case WIRE_PUNCH:
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
	if (!op->object)
		return 1u << op->name |
		       (op->kind == WIRE_RENAME || op->kind == WIRE_EXCHANGE ? 1u << op->to : 0);
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

static const char *kind_name(enum wire_kind kind)
{
	static const char *const names[] = { "put",   "append",         "write",  "truncate",
					     "punch", "unlink",         "rename", "exchange",
					     "read",  "read by handle", "hold" };

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
		kind_name(was.kind), group, was.name, was.id, was.object, was.size, was.offset,
		a->status, (long long)a->size, a->got, a->offset, (unsigned)(word >> 32),
		(unsigned long long)(word & UINT32_MAX) * 8);
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

/* What is on its way by handle may find it, or nothing. */
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
		s.held[hold] = s.kept[hold] = 0;
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
			 kind_name(was.kind), group, was.name, was.id);
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
	(void)content_new(&(struct content){ 0 }); /* 0 is absent */
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
	free(model.at);
	free(model.set);
	free(model.hash);
	memset(&model, 0, sizeof(model));
}

static void describe_content(uint32_t content)
{
	printf(" %u bytes:", model.at[content].size);
	for (uint32_t at = content; at; at = model.at[at].parent)
		printf(" %s %u (%u+%u)", kind_name(model.at[at].kind), model.at[at].id,
		       model.at[at].offset, model.at[at].length);
}

uint32_t wire_size_most(uint32_t group)
{
	const struct wire_group *g = &wire_group[group];
	uint32_t most = 0, more = 0;

	for (uint32_t i = 0; i < g->count; i++)
		for (uint32_t k = 0; k < WIRE_NAMES; k++)
			most = max_u32(most, model.at[g->state[i].content[k]].size);
	for (uint32_t i = 0; i < g->count; i++)
		for (uint32_t k = 0; k < WIRE_HOLDS; k++)
			most = max_u32(most, model.at[g->state[i].kept[k]].size);
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
			       kind_name(g->op[i].kind), g->op[i].name, g->op[i].to, g->op[i].id,
			       g->op[i].object, g->op[i].offset, g->op[i].size, g->op[i].client,
			       g->op[i].ended ? ", ended" : "");
	for (uint32_t i = 0; i < min_u32(g->count, 8); i++)
		for (uint32_t k = 0; k < WIRE_NAMES; k++) {
			printf("# state %u: n%u is file %u,", i, k, g->state[i].object[k]);
			describe_content(g->state[i].content[k]);
			printf("\n");
		}
	for (uint32_t i = 0; i < min_u32(g->count, 8); i++)
		for (uint32_t k = 0; k < WIRE_HOLDS; k++) {
			printf("# state %u: hold %u is of file %u,", i, k, g->state[i].held[k]);
			describe_content(g->state[i].kept[k]);
			printf("\n");
		}
}
