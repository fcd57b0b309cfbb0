/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Picks the next operation, and its right answer, from the model: see sim_load.h. */
#include "test/sim/sim_load_internal.h"
#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_LONG 24u /* of a directory: nothing is made below */

static const char *const dirs[] = { "d0", "d1", "d2", "d0/e0", "d1/e1" };

static const enum sim_kind everything[] = {
	SIM_PUT,      SIM_PUT,      SIM_PUT,      SIM_PUT,      SIM_WRITE,     SIM_WRITE,
	SIM_APPEND,   SIM_APPEND,   SIM_TRUNCATE, SIM_UNLINK,   SIM_MKDIR,     SIM_MKDIR,
	SIM_MKDIR,    SIM_RMDIR,    SIM_RENAME,   SIM_RENAME,   SIM_SYMLINK,   SIM_CHMOD,
	SIM_READ,     SIM_READ,     SIM_READ,     SIM_LONG_PUT, SIM_GIVE_LINK, SIM_GIVE_LINK,
	SIM_EXCHANGE, SIM_MOVE_DIR, SIM_MOVE_DIR, SIM_RMTREE,   SIM_PUNCH,     SIM_PUNCH,
	SIM_SEEK,     SIM_LIST,     SIM_LIST,     SIM_OPEN,     SIM_OPEN,      SIM_OPEN,
	SIM_OPEN,     SIM_OPEN,     SIM_LET_GO,
};

void sim_load_everything(struct sim_load *l)
{
	l->mix = everything;
	l->mix_count = ARRAY_LEN(everything);
	l->moves = true;
}

/* ---- paths and bytes ------------------------------------------------------------------- */

/* One of those that there are from the beginning, or where it was moved to. */
static void pick_dir(struct sim_load *l, char out[SIM_PATH_MAX])
{
	const struct sim_model *m = l->model;
	uint32_t i = m->count ? (uint32_t)rand_below(&l->rand, m->count) : 0;

	snprintf(out, SIM_PATH_MAX, "%s", dirs[rand_below(&l->rand, ARRAY_LEN(dirs))]);
	if (l->moves && i < m->count && m->node[i].state->type == SIM_DIR &&
	    rand_below(&l->rand, 2))
		snprintf(out, SIM_PATH_MAX, "%s", m->node[i].path);
}

/* Returns a name of the open file, or NULL if it has none. */
static const char *name_of_held(const struct sim_load *l, const char *held)
{
	const struct sim_state *s = sim_model_get(l->model, held);

	for (uint32_t i = 0; s && i < l->model->count; i++)
		if (l->model->node[i].state == s && !sim_is_hold(l->model->node[i].path))
			return l->model->node[i].path;
	return NULL;
}

/* A hold, or the place for one. */
static void pick_hold(struct sim_load *l, char out[SIM_PATH_MAX])
{
	snprintf(out, SIM_PATH_MAX, "#%u", (unsigned)rand_below(&l->rand, SIM_HOLDS));
}

/* Picks a name of an open file in half of the cases, so that open files lose their names often. */
static bool pick_held_path(struct sim_load *l, char out[SIM_PATH_MAX])
{
	const char *name;
	char held[SIM_PATH_MAX];

	if (!l->moves || rand_below(&l->rand, 2))
		return false;
	pick_hold(l, held);
	name = name_of_held(l, held);
	if (name)
		snprintf(out, SIM_PATH_MAX, "%s", name);
	return name;
}

static void pick_path(struct sim_load *l, char out[SIM_PATH_MAX], const char *letter)
{
	char dir[SIM_PATH_MAX];
	unsigned n = (unsigned)rand_below(&l->rand, l->names);

	if (*letter == 'f' && pick_held_path(l, out))
		return;
	pick_dir(l, dir);
	if (rand_below(&l->rand, ARRAY_LEN(dirs) + 2) >= ARRAY_LEN(dirs) ||
	    strlen(dir) >= PATH_LONG)
		snprintf(out, SIM_PATH_MAX, "%s%u", letter, n);
	else
		ASSERT(snprintf(out, SIM_PATH_MAX, "%s/%s%u", dir, letter, n) < SIM_PATH_MAX);
}

/* Picks a file by path or, now and then, an open one by handle, whether it has a name or not. */
static void pick_file(struct sim_load *l, struct sim_op *o)
{
	char held[SIM_PATH_MAX];

	pick_path(l, o->path, "f");
	if (!l->moves || rand_below(&l->rand, 2))
		return;
	pick_hold(l, held);
	if (!sim_model_get(l->model, held))
		return;
	memcpy(o->path, held, SIM_PATH_MAX);
	o->handle = l->hold[held[1] - '0'].handle;
	o->stage = o->kind != SIM_READ;
	l->nameless += !name_of_held(l, held);
}

static enum sim_kind pick_kind(struct sim_load *l)
{
	return l->mix[rand_below(&l->rand, l->mix_count)];
}

/* Sizes at which something changes, and anything between. */
static uint32_t pick_size(struct sim_load *l)
{
	static const uint32_t edges[] = { 0, 1, 511, 512, 513, 4095, 4096, 4097, 8192, 12288 };

	if (l->big)
		return 20000 + (uint32_t)rand_below(&l->rand, FILE_BYTES_MAX - 20000);
	if (rand_below(&l->rand, 3) == 0)
		return edges[rand_below(&l->rand, ARRAY_LEN(edges))];
	return (uint32_t)rand_below(&l->rand, rand_below(&l->rand, 4) ? 6000 : FILE_BYTES_MAX);
}

static struct sim_state *random_file(struct sim_load *l, uint32_t mode, uint32_t size)
{
	struct sim_state *s = sim_state_new(SIM_FILE, mode, NULL, size);

	for (uint32_t i = 0; i < size; i += 8) {
		uint64_t v = rand_u64(&l->rand);

		memcpy(s->bytes + i, &v, min_u32(8, size - i));
	}
	return s;
}

/* `old` with `length` bytes of `with` at `offset`, or cut to `size`. */
static struct sim_state *changed(const struct sim_state *old, uint64_t offset,
				 const struct sim_state *with, uint32_t size)
{
	struct sim_state *s = sim_state_new(SIM_FILE, old->mode, NULL, size);

	memset(s->bytes, 0, size);
	memcpy(s->bytes, old->bytes, min_u32(old->size, size));
	if (with)
		memcpy(s->bytes + offset, with->bytes, with->size);
	s->rotten = old->rotten; /* what of it was overwritten may be good again, or not */
	return s;
}

/* Is one in the way of the other, or are they names of one file? */
static bool meet(const struct sim_load *l, const char *a, const char *b)
{
	const struct sim_state *s = sim_model_get(l->model, a);

	if (!*a || !*b)
		return false;
	return sim_paths_meet(a, b) || (s && s == sim_model_get(l->model, b));
}

static bool meets_any(const struct sim_load *l, const struct sim_op *mine)
{
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++) {
		const struct sim_op *o = &l->op[i];

		if (!o->used || o == mine || sim__is_reader(o))
			continue;
		if (meet(l, o->path, mine->path) || meet(l, o->other, mine->path) ||
		    meet(l, o->path, mine->other) || meet(l, o->other, mine->other))
			return true;
	}
	return false;
}

/* Is a path of its change one of another's, or the file that another works on? */
static bool change_meets(const struct sim_load *l, const struct sim_op *mine)
{
	const struct sim_change *c = &mine->change;

	for (uint32_t i = 0; i < SIM_OPS_MAX; i++) {
		const struct sim_op *o = &l->op[i];

		if (!o->used || o == mine || sim__is_reader(o))
			continue;
		for (uint32_t k = 0; k < c->count; k++) {
			if (meet(l, c->path[k], o->path) || meet(l, c->path[k], o->other))
				return true;
			for (uint32_t n = 0; n < o->change.count; n++)
				if (strcmp(c->path[k], o->change.path[n]) == 0)
					return true;
		}
	}
	return false;
}

/* What the change is and what the answer must be, from the model. */
static void expect_new(struct sim_load *l, struct sim_op *o, struct sim_state *after,
		       bool may_replace)
{
	const struct sim_state *old = sim_model_get(l->model, o->path);

	o->expect = sim_model_parent(l->model, o->path);
	if (!o->expect && old && !may_replace)
		o->expect = -EEXIST;
	if (o->expect)
		sim_state_drop(after);
	else
		sim_change_add(&o->change, l->model, o->path, after);
}

static void expect_removed(struct sim_load *l, struct sim_op *o, enum sim_type type)
{
	const struct sim_state *old = sim_model_get(l->model, o->path);

	o->expect = sim_model_parent(l->model, o->path);
	if (!o->expect && !old)
		o->expect = -ENOENT;
	if (!o->expect && type == SIM_DIR && sim_model_has_children(l->model, o->path))
		o->expect = -ENOTEMPTY;
	if (!o->expect)
		sim_change_add(&o->change, l->model, o->path, NULL);
}

/* All that is at or below `path` is gone, or is at or below `to` instead.  False: too much. */
static bool put_tree(struct sim_load *l, struct sim_op *o, const char *path, const char *to)
{
	const struct sim_node *n;
	uint32_t i = 0;

	while ((n = sim_model_below(l->model, path, &i))) {
		char at[2 * SIM_PATH_MAX];

		snprintf(at, sizeof(at), "%s%s", to ? to : "", n->path + strlen(path));
		if (!sim_change_put(&o->change, l->model, to ? at : n->path,
				    to ? sim_state_hold(n->state) : NULL))
			return false;
	}
	return true;
}

static bool expect_tree_removed(struct sim_load *l, struct sim_op *o)
{
	o->expect = sim_model_get(l->model, o->path) ? 0 : -ENOENT;
	return o->expect || put_tree(l, o, o->path, NULL);
}

/* Returns the right answer to a move of directories: PROTOCOL.md has the order of checks. */
static int move_answer(struct sim_load *l, const struct sim_op *o)
{
	const struct sim_state *a = sim_model_get(l->model, o->path);
	const struct sim_state *b = sim_model_get(l->model, o->other);
	size_t from = strlen(o->path), to = strlen(o->other);

	if (!a || sim_model_parent(l->model, o->other) || (o->swap && !b))
		return -ENOENT;
	if (a == b)
		return 0;
	if (strncmp(o->path, o->other, from) == 0 && o->other[from] == '/')
		return -EINVAL;
	if (o->swap && strncmp(o->other, o->path, to) == 0 && o->path[to] == '/')
		return -EINVAL;
	return !o->swap && b && sim_model_has_children(l->model, o->other) ? -ENOTEMPTY : 0;
}

static bool expect_dir_moved(struct sim_load *l, struct sim_op *o)
{
	o->expect = move_answer(l, o);
	if (o->expect || strcmp(o->path, o->other) == 0)
		return true;
	return put_tree(l, o, o->path, NULL) && put_tree(l, o, o->other, NULL) &&
	       put_tree(l, o, o->path, o->other) && (!o->swap || put_tree(l, o, o->other, o->path));
}

static void expect_punched(struct sim_load *l, struct sim_op *o)
{
	const struct sim_state *old = sim_model_get(l->model, o->path);
	struct sim_state *after;
	uint32_t end;

	o->expect = old ? 0 : -ENOENT;
	if (!old)
		return;
	o->offset = rand_below(&l->rand, old->size + 2);
	o->length = 1 + (uint32_t)rand_below(&l->rand, rand_below(&l->rand, 2) ? 6000 : 20000);
	if (rand_below(&l->rand, 2))
		o->offset = align_down(o->offset, BLOCK_SIZE);
	after = changed(old, 0, NULL, old->size);
	end = (uint32_t)min_u64(o->offset + o->length, old->size);
	if (o->offset < end)
		memset(after->bytes + o->offset, 0, end - o->offset);
	sim_change_file(&o->change, l->model, o->path, after);
}

static void expect_written(struct sim_load *l, struct sim_op *o)
{
	const struct sim_state *old = sim_model_get(l->model, o->path);
	uint32_t size;

	o->expect = !old ? -ENOENT : 0;
	if (!old)
		return;
	if (o->kind == SIM_TRUNCATE) {
		o->length = pick_size(l);
		sim_change_file(&o->change, l->model, o->path, changed(old, 0, NULL, o->length));
		return;
	}
	/* Small ones often: what they leave of their last block lies in the index. */
	size = rand_below(&l->rand, 2) ? 9000 : 900;
	o->content = random_file(l, 0, 1 + (uint32_t)rand_below(&l->rand, size));
	o->offset = o->kind == SIM_APPEND ? old->size
					  : rand_below(&l->rand, min_u32(old->size, 30000) + 2000);
	if (o->offset + o->content->size > FILE_BYTES_MAX)
		o->offset = FILE_BYTES_MAX - o->content->size;
	if (o->kind == SIM_APPEND && o->offset != old->size)
		o->kind = SIM_WRITE; /* it has grown enough */
	size = max_u32(old->size, (uint32_t)o->offset + o->content->size);
	sim_change_file(&o->change, l->model, o->path, changed(old, o->offset, o->content, size));
}

static void expect_renamed(struct sim_load *l, struct sim_op *o)
{
	struct sim_state *old = sim_model_get(l->model, o->path);

	o->expect = sim_model_parent(l->model, o->path);
	if (!o->expect && !old)
		o->expect = -ENOENT;
	if (!o->expect)
		o->expect = sim_model_parent(l->model, o->other);
	if (o->expect || sim_model_get(l->model, o->other) == old)
		return; /* two names of one file: nothing is done */
	sim_change_add(&o->change, l->model, o->path, NULL);
	sim_change_add(&o->change, l->model, o->other, sim_state_hold(old));
}

static void expect_exchanged(struct sim_load *l, struct sim_op *o)
{
	struct sim_state *a = sim_model_get(l->model, o->path);
	struct sim_state *b = sim_model_get(l->model, o->other);

	o->expect = a && b ? 0 : -ENOENT;
	if (o->expect || a == b)
		return;
	sim_change_add(&o->change, l->model, o->path, sim_state_hold(b));
	sim_change_add(&o->change, l->model, o->other, sim_state_hold(a));
}

/* False: it has as many names as a change of it may have paths. */
static bool expect_linked(struct sim_load *l, struct sim_op *o)
{
	struct sim_state *old = sim_model_get(l->model, o->path);

	o->expect = old ? sim_model_parent(l->model, o->other) : -ENOENT;
	if (!o->expect && sim_model_get(l->model, o->other))
		o->expect = -EEXIST;
	if (o->expect)
		return true;
	sim_change_add(&o->change, l->model, o->other, sim_state_hold(old));
	return sim_model_names(l->model, old) < SIM_LINKS_MAX;
}

/* Is one of this kind under way with the same hold? */
static bool is_used(const struct sim_load *l, const struct sim_op *mine, enum sim_kind kind)
{
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++) {
		const struct sim_op *o = &l->op[i];

		if (o->used && o != mine && o->kind == kind && strcmp(o->path, mine->path) == 0)
			return true;
	}
	return false;
}

/* False: it has too many names, or the place is taken. */
static bool expect_opened(struct sim_load *l, struct sim_op *o)
{
	struct sim_state *old = sim_model_get(l->model, o->path);

	if (sim_model_get(l->model, o->other))
		return false;
	o->expect = old ? 0 : -ENOENT;
	if (o->expect)
		return true;
	sim_change_add(&o->change, l->model, o->other, sim_state_hold(old));
	return sim_model_names(l->model, old) < SIM_LINKS_MAX;
}

static bool expect_let_go(struct sim_load *l, struct sim_op *o)
{
	if (!sim_model_get(l->model, o->path) || is_used(l, o, SIM_READ))
		return false;
	o->handle = l->hold[o->path[1] - '0'].handle;
	sim_change_add(&o->change, l->model, o->path, NULL);
	return true;
}

static void expect_chmod(struct sim_load *l, struct sim_op *o)
{
	const struct sim_state *old = sim_model_get(l->model, o->path);
	struct sim_state *after;

	o->expect = old ? 0 : -ENOENT;
	if (!old)
		return;
	o->length = 0600 + (uint32_t)rand_below(&l->rand, 0200);
	after = changed(old, 0, NULL, old->size);
	after->mode = o->length;
	sim_change_file(&o->change, l->model, o->path, after);
}

/* ---- the next one ---------------------------------------------------------------------- */

static void pick_names(struct sim_load *l, struct sim_op *o)
{
	switch (o->kind) {
	case SIM_MKDIR:
	case SIM_RMDIR:
		snprintf(o->path, SIM_PATH_MAX, "%s", dirs[rand_below(&l->rand, ARRAY_LEN(dirs))]);
		return;
	case SIM_MOVE_DIR:
		pick_dir(l, o->path);
		pick_dir(l, o->other);
		o->swap = rand_below(&l->rand, 4) == 0;
		return;
	case SIM_RMTREE:
		pick_dir(l, o->path);
		return;
	case SIM_LIST:
		if (rand_below(&l->rand, 3))
			pick_dir(l, o->path);
		return;
	case SIM_RENAME:
	case SIM_GIVE_LINK:
	case SIM_EXCHANGE:
		pick_path(l, o->path, "f");
		pick_path(l, o->other, "f");
		return;
	case SIM_UNLINK:
		pick_path(l, o->path, rand_below(&l->rand, 3) ? "f" : "l");
		return;
	case SIM_OPEN:
		pick_path(l, o->path, "f");
		pick_hold(l, o->other);
		return;
	case SIM_LET_GO:
		pick_hold(l, o->path);
		return;
	case SIM_READ:
	case SIM_WRITE:
	case SIM_APPEND:
	case SIM_TRUNCATE:
	case SIM_PUNCH:
		pick_file(l, o);
		return;
	default:
		pick_path(l, o->path, o->kind == SIM_SYMLINK ? "l" : "f");
		return;
	}
}

/* The change and the answer; false: it cannot be told, or is too much. */
static bool expect(struct sim_load *l, struct sim_op *o)
{
	switch (o->kind) {
	case SIM_PUT:
	case SIM_LONG_PUT:
		o->content = random_file(l, 0640, pick_size(l));
		expect_new(l, o, sim_state_hold(o->content), true);
		return true;
	case SIM_MKDIR:
		expect_new(l, o, sim_state_new(SIM_DIR, 0755, NULL, 0), false);
		return true;
	case SIM_SYMLINK:
		o->content = random_file(l, 0, 1 + (uint32_t)rand_below(&l->rand, 700));
		for (uint32_t i = 0; i < o->content->size; i++)
			o->content->bytes[i] = (uint8_t)('a' + o->content->bytes[i] % 26);
		expect_new(l, o, sim_state_new(SIM_LINK, 0777, o->content->bytes, o->content->size),
			   false);
		return true;
	case SIM_UNLINK:
		expect_removed(l, o, SIM_FILE);
		return true;
	case SIM_RMDIR:
		expect_removed(l, o, SIM_DIR);
		return true;
	case SIM_RENAME:
		expect_renamed(l, o);
		return true;
	case SIM_EXCHANGE:
		expect_exchanged(l, o);
		return true;
	case SIM_GIVE_LINK:
		return expect_linked(l, o);
	case SIM_MOVE_DIR:
		return expect_dir_moved(l, o);
	case SIM_RMTREE:
		return expect_tree_removed(l, o);
	case SIM_PUNCH:
		expect_punched(l, o);
		return true;
	case SIM_SEEK:
		o->content = sim_state_hold(sim_model_get(l->model, o->path));
		o->expect = o->content ? 0 : -ENOENT;
		o->swap = rand_below(&l->rand, 2);
		o->offset = o->content ? rand_below(&l->rand, o->content->size + 2) : 0;
		return true;
	case SIM_CHMOD:
		expect_chmod(l, o);
		return true;
	case SIM_OPEN:
		return expect_opened(l, o);
	case SIM_LET_GO:
		return expect_let_go(l, o);
	case SIM_READ:
	case SIM_LIST:
		if (sim_is_hold(o->path) && is_used(l, o, SIM_LET_GO))
			return false;
		sim__may_find_all(l, o);
		return true;
	default:
		expect_written(l, o);
		return true;
	}
}

bool sim__pick(struct sim_load *l, struct sim_op *o)
{
	bool reads;

	rand_seed(&l->rand, l->seed * 0x9e3779b97f4a7c15u + (l->next << 20) + l->tries++);
	memset(o, 0, sizeof(*o));
	o->kind = pick_kind(l);
	reads = sim__is_reader(o);
	pick_names(l, o);
	if (*o->other && sim_paths_meet(o->path, o->other) && o->kind != SIM_MOVE_DIR)
		return false;
	if (!reads && meets_any(l, o))
		return false;
	if (expect(l, o) && (reads || !change_meets(l, o)))
		return true;
	sim_change_drop(&o->change);
	sim_state_drop(o->content);
	return false;
}
