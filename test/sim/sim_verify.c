/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * After a mount: list everything, read everything, compare.  A change that was in flight when the
 * power went is found before or after, all of its paths alike; one that a reader had seen is
 * found after.
 */
#include "test/sim/sim_load.h"
#include "base/num.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct found {
	char path[SIM_PATH_MAX];
	struct fab_attr attr;
	bool explained;
};

struct hunt {
	struct sim_world *w;
	struct found found[SIM_NODES_MAX];
	uint32_t count;
};

__attribute__((format(printf, 2, 3))) static bool wrong(struct sim_world *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->why, sizeof(w->why), fmt, ap);
	va_end(ap);
	return false;
}

static bool take_entries(struct hunt *h, const struct sim_call *c, const char *dir)
{
	struct fab_entry e;
	uint32_t at = 0;
	int got;

	while ((got = fab_call_entry(&c->call, &at, &e)) == 1) {
		struct found *f = &h->found[h->count];

		if (h->count == SIM_NODES_MAX || e.name_bytes >= 32)
			return wrong(h->w, "%s: more names than can be", dir);
		snprintf(f->path, SIM_PATH_MAX, "%s%s%.*s", dir, *dir ? "/" : "", (int)e.name_bytes,
			 e.name);
		f->attr = e.attr;
		f->explained = false;
		h->count++;
	}
	return got == 0 || wrong(h->w, "%s: a listing that cannot be", dir);
}

/* A directory, in pages of a few entries. */
static bool list_dir(struct hunt *h, const char *dir, const struct fab_handle *handle)
{
	uint8_t cookie[FAB_COOKIE_BYTES] = { 0 };
	bool at_end = false;

	while (!at_end) {
		struct sim_call *c = sim_world_call(h->w);
		uint32_t count;

		c->call.type = FAB_LIST;
		c->call.args.list.count_max = 8;
		memcpy(c->call.args.list.cookie, cookie, sizeof(cookie));
		if (handle)
			c->call.args.list.dir =
				(struct fab_name){ .by = FAB_BY_HANDLE, .handle = *handle };
		else
			c->call.args.list.dir = (struct fab_name){ .by = FAB_BY_PATH,
								   .name = "/",
								   .name_bytes = 1 };
		if (sim_world_do(h->w, c, true))
			return wrong(h->w, "the power failed in a verification");
		if (c->call.status)
			return wrong(h->w, "list %s: %d", dir, c->call.status);
		if (fab_call_listed(&c->call, &count, &at_end, cookie) || !take_entries(h, c, dir))
			return false;
	}
	return true;
}

static struct found *find(struct hunt *h, const char *path)
{
	for (uint32_t i = 0; i < h->count; i++)
		if (strcmp(h->found[i].path, path) == 0)
			return &h->found[i];
	return NULL;
}

static bool read_holds(struct hunt *h, const struct found *f, const struct sim_state *s)
{
	struct fab_read_item item = {
		.name = { .by = FAB_BY_HANDLE, .handle = f->attr.handle },
		.length_bytes = FAB_TO_END,
	};
	struct sim_call *c = sim_world_call(h->w);

	c->call.type = FAB_READ_BATCH;
	c->call.args.batch.count = 1;
	c->call.args.batch.reads = &item;
	return sim_world_do(h->w, c, true) == 0 && c->call.status == 0 && sim_answer_holds(c, 0, s);
}

static bool link_holds(struct hunt *h, const struct found *f, const struct sim_state *s)
{
	struct sim_call *c = sim_world_call(h->w);

	c->call.type = FAB_READLINK;
	c->call.args.name.name = (struct fab_name){ .by = FAB_BY_PATH,
						    .nofollow = true,
						    .name = f->path,
						    .name_bytes = (uint16_t)strlen(f->path) };
	return sim_world_do(h->w, c, true) == 0 && c->call.status == 0 &&
	       c->call.length_bytes == s->size && memcmp(c->call.data, s->bytes, s->size) == 0;
}

/* Is what was found at `path` the state s (NULL: nothing)? */
static bool is_state(struct hunt *h, const char *path, const struct sim_state *s)
{
	const struct found *f = find(h, path);

	if (sim_is_hold(path))
		return true; /* no directory has it */
	if (!f || !s)
		return !f && !s;
	if (s->type == SIM_DIR)
		return S_ISDIR(f->attr.mode) && (f->attr.mode & 07777) == s->mode;
	if (s->type == SIM_LINK)
		return S_ISLNK(f->attr.mode) && link_holds(h, f, s);
	return S_ISREG(f->attr.mode) && (f->attr.mode & 07777) == s->mode &&
	       f->attr.size_bytes == s->size && read_holds(h, f, s);
}

/* Describes the file that was found, for messages. */
static const char *describe(struct hunt *h, const char *path, char out[96])
{
	const struct found *f = find(h, path);

	if (f)
		snprintf(out, 96, "mode %o, %llu bytes", f->attr.mode,
			 (unsigned long long)f->attr.size_bytes);
	else
		snprintf(out, 96, "absent");
	return out;
}

static const char *describe_state(const struct sim_state *s, char out[96])
{
	if (s)
		snprintf(out, 96, "type %d mode %o, %u bytes", s->type, s->mode, s->size);
	else
		snprintf(out, 96, "absent");
	return out;
}

static bool change_is(struct hunt *h, struct sim_change *c, struct sim_state **side)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (!is_state(h, c->path[i], side[i]))
			return false;
	return true;
}

static void explain(struct hunt *h, const char *path)
{
	struct found *f = find(h, path);

	if (f)
		f->explained = true;
}

/* A rotten file cannot show its right content. */
static bool rots(const struct sim_change *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		if ((c->before[i] && c->before[i]->rotten) || (c->after[i] && c->after[i]->rotten))
			return true;
	return false;
}

/* A change in flight: before or after, whole; settle it for the checks that follow. */
static bool verify_change(struct hunt *h, struct sim_change *c, struct sim_model *settle)
{
	bool after = change_is(h, c, c->after);
	char text[3][96];

	if (!after && c->seen)
		return wrong(h->w, "%s: a reader had seen the change, and it is gone", c->path[0]);
	if (!after && !change_is(h, c, c->before))
		return wrong(h->w, "%s: neither before (%s) nor after (%s) its change: %s",
			     c->path[0], describe_state(c->before[0], text[0]),
			     describe_state(c->after[0], text[1]),
			     describe(h, c->path[0], text[2]));
	/* Else it may look like either: one that puts an empty file where one was, too. */
	c->found = after && !rots(c) && !change_is(h, c, c->before);
	for (uint32_t i = 0; i < c->count; i++)
		explain(h, c->path[i]);
	if (after && settle)
		sim_change_apply(c, settle);
	return true;
}

static bool in_flight(const struct sim_load *l, const char *path)
{
	for (uint32_t i = 0; l && i < SIM_OPS_MAX; i++)
		for (uint32_t k = 0; l->op[i].used && k < l->op[i].change.count; k++)
			if (strcmp(l->op[i].change.path[k], path) == 0)
				return true;
	return false;
}

/* Names of one file, and of no other: each is told how many there are.  *late: of one that was
 * removed with a tree it is not told yet. */
static bool links_hold(struct hunt *h, const struct sim_model *model, const struct sim_load *l,
		       bool *late)
{
	for (uint32_t i = 0; i < h->count; i++) {
		const struct found *f = &h->found[i];
		const struct sim_state *s = sim_model_get(model, f->path);
		uint32_t names = 0;

		for (uint32_t k = 0; !S_ISDIR(f->attr.mode) && k < h->count; k++) {
			const struct found *other = &h->found[k];
			bool same = memcmp(&other->attr.handle, &f->attr.handle,
					   sizeof(f->attr.handle)) == 0;

			names += same;
			if (in_flight(l, f->path) || in_flight(l, other->path))
				continue;
			if (same != (s == sim_model_get(model, other->path)))
				return wrong(h->w, "%s and %s: %s file", f->path, other->path,
					     same ? "one" : "not one");
		}
		if (S_ISDIR(f->attr.mode) || f->attr.nlink == names)
			continue;
		*late = f->attr.nlink > names;
		return wrong(h->w, "%s: %u links, %u names", f->path, f->attr.nlink, names);
	}
	return true;
}

/* `path` is that of an entry of `dir`. */
static bool is_in(const char *path, const char *dir)
{
	const size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && path[len] == '/' && !strchr(path + len + 1, '/');
}

/* A directory tells of two links, and of one for each directory in it. */
static bool dirs_hold(struct hunt *h)
{
	for (uint32_t i = 0; i < h->count; i++) {
		const struct found *f = &h->found[i];
		uint32_t links = 2;

		if (!S_ISDIR(f->attr.mode))
			continue;
		for (uint32_t k = 0; k < h->count; k++)
			links += S_ISDIR(h->found[k].attr.mode) && is_in(h->found[k].path, f->path);
		if (f->attr.nlink != links)
			return wrong(h->w, "%s: %u links, not %u", f->path, f->attr.nlink, links);
	}
	return true;
}

static bool list_all(struct hunt *h)
{
	h->count = 0;
	if (!list_dir(h, "", NULL))
		return false;
	for (uint32_t i = 0; i < h->count; i++)
		if (S_ISDIR(h->found[i].attr.mode) &&
		    !list_dir(h, h->found[i].path, &h->found[i].attr.handle))
			return false;
	return true;
}

bool sim_verify(struct sim_world *w, struct sim_model *model, struct sim_load *l, bool settle)
{
	static struct hunt h;
	bool late = false;
	char text[2][96];

	h.w = w;
	if (!list_all(&h))
		return false;
	for (uint32_t i = 0; i < model->count; i++) {
		const struct sim_node *n = &model->node[i];

		if (in_flight(l, n->path) || sim_is_hold(n->path))
			continue;
		if (!is_state(&h, n->path, n->state))
			return wrong(w, "%s: %s: %s, not %s", n->path,
				     find(&h, n->path) ? "not as it was acknowledged"
						       : "acknowledged, and it is gone",
				     describe(&h, n->path, text[0]),
				     describe_state(n->state, text[1]));
		explain(&h, n->path);
	}
	for (uint32_t i = 0; l && i < SIM_OPS_MAX; i++)
		if (l->op[i].used && l->op[i].change.count > 0 &&
		    !verify_change(&h, &l->op[i].change, settle ? model : NULL))
			return false;
	for (uint32_t i = 0; i < h.count; i++)
		if (!h.found[i].explained)
			return wrong(w, "%s: nobody made it, or it was removed", h.found[i].path);
	if (!dirs_hold(&h))
		return false;
	if (links_hold(&h, model, l, &late))
		return true;
	if (!late)
		return false;
	sim_world_settle(w);
	return list_all(&h) && links_hold(&h, model, l, &late);
}

static const void *block_at(const struct sim_world *w, uint64_t baddr)
{
	return sim_drive_durable(w->sim[META_BADDR_DRIVE(baddr)]) +
	       META_BADDR_BLOCK(baddr) * BLOCK_SIZE;
}

/* The root in this place; 0, -EUCLEAN. */
static int root_at(const struct sim_world *w, const struct meta *m, uint64_t baddr,
		   struct meta__root_seen *out)
{
	return meta__root_parse(block_at(w, baddr), m->uuid, out);
}

bool sim_roots_hold(struct sim_world *w, const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;

	for (uint32_t shard = 0; shard < g->nshards; shard++) {
		bool whole = false;

		for (uint32_t slot = 0; slot < 2; slot++) {
			struct meta__root_seen copy[2];

			whole |= !root_at(w, m, meta__geo_root(g, 0, slot, shard), &copy[0]) &&
				 !root_at(w, m, meta__geo_root(g, 1, slot, shard), &copy[1]) &&
				 copy[0].version == copy[1].version && copy[0].version > 0;
		}
		if (!whole)
			return wrong(w, "shard %u: no root of it has two whole copies", shard);
	}
	return true;
}

bool sim_heads_hold(struct sim_world *w, const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;

	for (uint32_t i = 0; i < 2 * g->nzones; i++) {
		const struct meta__zone *zone = meta__zone_at(m, i / 2);
		uint64_t baddr = meta__geo_zone_head(g, i / 2, i & 1);
		struct meta__zone_seen seen;

		if (zone->state == ZONE_FREE || zone->state == ZONE_DEALLOCATING || zone->mending ||
		    zone->state == ZONE_OPENING)
			continue;
		if (meta__zone_parse(block_at(w, baddr), m->uuid, i / 2, &seen) ||
		    seen.incarnation != zone->incarnation)
			return wrong(w, "zone %u is in use without copy %u of its header", i / 2,
				     i & 1);
	}
	return true;
}
