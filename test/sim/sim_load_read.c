/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The states that readers may find.
 *
 *    sent                                          answered
 *   --|----[ change A ]-------------[ change B ...]---|-----> time
 *     \__ the state before A, after A, and after B, which may also be made later
 *
 *  (1) A read finds a file whole, as it was at some moment between the two.
 *  (2) A change that one reader has seen is there for all later ones, at all of its paths at once,
 *      and no power cut undoes it.
 *  (3) A listing has each name that was there throughout exactly once, and none that never was.
 */
#include "test/sim/sim_load_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- reads ------------------------------------------------------------------------------- */

static void may_find(struct sim_op *reader, struct sim_state *s, bool sure)
{
	if (reader->may_count == SIM_MAY_MAX)
		return;
	reader->sure[reader->may_count] = sure;
	reader->may[reader->may_count++] = sim_state_hold(s);
}

static void may_find_change(struct sim_op *reader, const struct sim_change *ch, bool sure)
{
	for (uint32_t k = 0; k < ch->count; k++)
		if (strcmp(ch->path[k], reader->path) == 0)
			may_find(reader, ch->after[k], sure);
}

/* The change under way that made `s` of the path; NULL: none. */
static struct sim_change *made_by(struct sim_load *l, const char *path, const struct sim_state *s)
{
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++) {
		struct sim_change *ch = &l->op[i].change;

		for (uint32_t k = 0; l->op[i].used && k < ch->count; k++)
			if (strcmp(ch->path[k], path) == 0 && ch->after[k] == s)
				return ch;
	}
	return NULL;
}

static bool answer_is(const struct sim_call *c, const struct fab_answer *a,
		      const struct sim_state *s)
{
	if (!s)
		return a->status == -ENOENT || a->status == -ENOTDIR;
	return sim_answer_holds(c, 0, s);
}

/* (1), (2).  If only a change under way made it so, that change has been seen. */
static bool found_what_it_may(struct sim_load *l, struct sim_op *o, const struct fab_answer *a)
{
	struct sim_change *ch = NULL;
	bool found = o->may_count == SIM_MAY_MAX;

	for (uint32_t i = 0; i < o->may_count && !(found && !ch); i++) {
		if (!answer_is(o->call, a, o->may[i]))
			continue;
		found = true;
		ch = o->sure[i] || (o->may[i] && o->may[i]->rotten)
			     ? NULL
			     : made_by(l, o->path, o->may[i]);
	}
	if (ch)
		ch->seen = true;
	return found;
}

static bool take_read(struct sim_load *l, struct sim_op *o)
{
	struct fab_answer a;

	if (o->call->call.status)
		return sim__wrong(l, o, "status %d", o->call->call.status);
	if (fab_call_answer(&o->call->call, 0, &a))
		return sim__wrong(l, o, "nonsense");
	return found_what_it_may(l, o, &a) ||
	       sim__wrong(l, o, "status %d, %llu bytes: never was so since it was asked", a.status,
			  (unsigned long long)a.length_bytes);
}

/* ---- listings ---------------------------------------------------------------------------- */

/* Returns the path below the directory, or NULL if the path is not in it. */
static const char *behind(const char *dir, const char *path)
{
	size_t length = strlen(dir);

	if (sim_is_hold(path))
		return NULL;
	if (length == 0)
		return path;
	return strncmp(path, dir, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

static uint32_t entry_of(struct sim_listing *g, const char *name, size_t length, bool add)
{
	uint32_t i = 0;

	while (i < g->count &&
	       (strlen(g->entry[i].name) != length || memcmp(g->entry[i].name, name, length) != 0))
		i++;
	if (i < g->count || !add)
		return i;
	if (g->count == SIM_NAMES_MAX || length >= sizeof(g->entry[i].name)) {
		g->lax = true;
		return g->count;
	}
	snprintf(g->entry[i].name, sizeof(g->entry[i].name), "%.*s", (int)length, name);
	g->entry[i].must = false;
	g->entry[i].seen = 0;
	g->count++;
	return i;
}

/* Is the path the directory, or above it? */
static bool holds(const char *path, const char *dir)
{
	size_t length = strlen(path);

	return strncmp(path, dir, length) == 0 && (!dir[length] || dir[length] == '/');
}

/* One of its names comes or goes, or the directory itself. */
static void listing_changes(struct sim_op *o, const struct sim_change *ch)
{
	struct sim_listing *g = &o->listing;

	for (uint32_t k = 0; k < ch->count; k++) {
		const char *name = behind(o->path, ch->path[k]);
		uint32_t i;

		if (holds(ch->path[k], o->path) && *o->path)
			g->lax = true;
		if (!name || strchr(name, '/') || (ch->before[k] && ch->after[k]))
			continue; /* of another directory; or there all the time */
		i = entry_of(g, name, strlen(name), true);
		if (i < g->count)
			g->entry[i].must = false;
	}
}

static void listing_begins(struct sim_load *l, struct sim_op *o)
{
	struct sim_listing *g = &o->listing;

	for (uint32_t i = 0; i < l->model->count; i++) {
		const char *name = behind(o->path, l->model->node[i].path);
		uint32_t at;

		if (!name || strchr(name, '/'))
			continue;
		at = entry_of(g, name, strlen(name), true);
		if (at < g->count)
			g->entry[at].must = true;
	}
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++)
		if (l->op[i].used)
			listing_changes(o, &l->op[i].change);
}

static bool take_names(struct sim_load *l, struct sim_op *o)
{
	struct sim_listing *g = &o->listing;
	struct fab_entry e;
	uint32_t at = 0, i;
	int got;

	while ((got = fab_call_entry(&o->call->call, &at, &e)) == 1) {
		i = entry_of(g, e.name, e.name_bytes, false);
		if (g->lax)
			continue;
		if (i == g->count)
			return sim__wrong(l, o, "%.*s: nobody made it", (int)e.name_bytes, e.name);
		if (g->entry[i].seen++ && g->entry[i].must)
			return sim__wrong(l, o, "%s: it comes twice", g->entry[i].name);
	}
	return got == 0 || sim__wrong(l, o, "a listing that cannot be");
}

static bool take_list(struct sim_load *l, struct sim_op *o, bool *more)
{
	struct sim_listing *g = &o->listing;
	int status = o->call->call.status;
	uint32_t count;
	bool at_end;

	if (status == -ENOENT && *o->path &&
	    (g->lax || o->expect || !sim_model_get(l->model, o->path)))
		return true;
	if (status == -ESTALE && g->lax) /* another directory has the name now */
		return true;
	if (status)
		return sim__wrong(l, o, "status %d", status);
	if (o->expect && !g->lax)
		return sim__wrong(l, o, "it is not there, and is listed");
	if (fab_call_listed(&o->call->call, &count, &at_end, g->cookie))
		return sim__wrong(l, o, "nonsense");
	if (!take_names(l, o))
		return false;
	*more = !at_end;
	for (uint32_t i = 0; at_end && !g->lax && i < g->count; i++)
		if (g->entry[i].must && !g->entry[i].seen)
			return sim__wrong(l, o, "%s: there throughout, and not listed",
					  g->entry[i].name);
	return true;
}

/* ---- both -------------------------------------------------------------------------------- */

void sim__may_find_all(struct sim_load *l, struct sim_op *reader)
{
	struct sim_state *now = sim_model_get(l->model, reader->path);
	bool undone = true; /* (2) */

	if (reader->kind == SIM_LIST) {
		reader->expect = *reader->path && !now ? -ENOENT : 0;
		listing_begins(l, reader);
		return;
	}
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++) {
		const struct sim_change *ch = &l->op[i].change;

		if (!l->op[i].used)
			continue;
		may_find_change(reader, ch, ch->seen);
		for (uint32_t k = 0; ch->seen && k < ch->count; k++)
			undone = undone && strcmp(ch->path[k], reader->path) != 0;
	}
	if (undone)
		may_find(reader, now, true);
}

void sim__readers_may_find(struct sim_load *l, const struct sim_change *ch, bool sure)
{
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++) {
		struct sim_op *o = &l->op[i];

		if (o->used && o->kind == SIM_READ)
			may_find_change(o, ch, sure);
		else if (o->used && o->kind == SIM_LIST)
			listing_changes(o, ch);
	}
}

bool sim__reader_failed(const struct sim_op *o)
{
	struct fab_answer a;

	if (o->call->call.status)
		return true;
	return o->kind == SIM_READ && !fab_call_answer(&o->call->call, 0, &a) && a.status &&
	       a.status != -ENOENT && a.status != -ENOTDIR;
}

bool sim__take_reader(struct sim_load *l, struct sim_op *o, bool *more)
{
	*more = false;
	return o->kind == SIM_READ ? take_read(l, o) : take_list(l, o, more);
}
