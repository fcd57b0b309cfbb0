/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/sim_load.h"
#include "base/crc32c.h"
#include "base/num.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX 49152u
#define SUMS_AT        (96u << 10) /* in a window: behind any payload */

static const char *const dirs[] = { "d0", "d1", "d2", "d0/e0", "d1/e1" };

static const char *const kind_names[SIM_KINDS] = {
	"put",    "write",   "append", "truncate", "unlink",   "mkdir", "rmdir",
	"rename", "symlink", "chmod",  "read",     "long put", "link",  "exchange",
};

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
	rand_seed(&l->rand, seed);
}

/* ---- what to do next ------------------------------------------------------------------ */

static void pick_path(struct sim_load *l, char out[SIM_PATH_MAX], const char *letter)
{
	uint64_t d = rand_below(&l->rand, ARRAY_LEN(dirs) + 2);
	unsigned n = (unsigned)rand_below(&l->rand, l->names);

	if (d < ARRAY_LEN(dirs))
		snprintf(out, SIM_PATH_MAX, "%s/%s%u", dirs[d], letter, n);
	else
		snprintf(out, SIM_PATH_MAX, "%s%u", letter, n);
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

		if (!o->used || o == mine || o->kind == SIM_READ)
			continue;
		if (meet(l, o->path, mine->path) || meet(l, o->other, mine->path) ||
		    meet(l, o->path, mine->other) || meet(l, o->other, mine->other))
			return true;
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

/* ---- what a read may find ---------------------------------------------------------------- */

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

/* What is there, or a change under way may make of it. */
static void may_find_all(struct sim_load *l, struct sim_op *reader)
{
	may_find(reader, sim_model_get(l->model, reader->path), true);
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++)
		if (l->op[i].used)
			may_find_change(reader, &l->op[i].change, false);
}

/* Readers under way may see what this change makes; when it is acknowledged: for sure. */
static void readers_may_find(struct sim_load *l, const struct sim_change *ch, bool sure)
{
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++)
		if (l->op[i].used && l->op[i].kind == SIM_READ)
			may_find_change(&l->op[i], ch, sure);
}

static bool answer_is(const struct sim_call *c, const struct fab_answer *a,
		      const struct sim_state *s)
{
	if (!s)
		return a->status == -ENOENT || a->status == -ENOTDIR;
	return sim_answer_holds(c, 0, s);
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

/* Whole, as it was at some moment since the read was sent.  If only a change under way made it so,
 * that change has been seen: no power cut may undo it. */
static bool found_what_it_may(struct sim_load *l, struct sim_op *o, const struct fab_answer *a)
{
	struct sim_change *ch = NULL;
	bool found = o->may_count == SIM_MAY_MAX;

	for (uint32_t i = 0; i < o->may_count && !(found && !ch); i++) {
		if (!answer_is(o->call, a, o->may[i]))
			continue;
		found = true;
		ch = o->sure[i] ? NULL : made_by(l, o->path, o->may[i]);
	}
	if (ch)
		ch->seen = true;
	return found;
}

/* Fill in a free operation; false when it would meet one that is under way. */
static bool prepare(struct sim_load *l, struct sim_op *o)
{
	memset(o, 0, sizeof(*o));
	o->kind = pick_kind(l);
	if (o->kind == SIM_MKDIR || o->kind == SIM_RMDIR)
		snprintf(o->path, SIM_PATH_MAX, "%s", dirs[rand_below(&l->rand, ARRAY_LEN(dirs))]);
	else
		pick_path(l, o->path, o->kind == SIM_SYMLINK ? "l" : "f");
	if (o->kind == SIM_UNLINK && rand_below(&l->rand, 3) == 0)
		pick_path(l, o->path, "l");
	if (o->kind == SIM_RENAME || o->kind == SIM_GIVE_LINK || o->kind == SIM_EXCHANGE)
		pick_path(l, o->other, "f");
	if (*o->other && sim_paths_meet(o->path, o->other))
		return false;
	if (o->kind != SIM_READ && meets_any(l, o))
		return false;
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
		if (expect_linked(l, o))
			return true;
		sim_change_drop(&o->change);
		return false;
	case SIM_CHMOD:
		expect_chmod(l, o);
		return true;
	case SIM_READ:
		may_find_all(l, o);
		return true;
	default:
		expect_written(l, o);
		return true;
	}
}

/* ---- requests ------------------------------------------------------------------------- */

static struct fab_name by_path(const char *path)
{
	return (struct fab_name){
		.by = FAB_BY_PATH,
		.nofollow = true,
		.name = path,
		.name_bytes = (uint16_t)strlen(path),
	};
}

/* Payload into the window, and the sum of each piece of a block of the file behind it. */
static void fill(struct sim_call *c, const uint8_t *bytes, uint32_t size, uint64_t file_offset)
{
	uint32_t *sums = (uint32_t *)(void *)(c->window + SUMS_AT);
	uint32_t at = 0, n = 0;

	ASSERT(size <= SUMS_AT);
	if (size)
		memcpy(c->window, bytes, size);
	while (at < size) {
		uint32_t piece = min_u32(size - at,
					 BLOCK_SIZE - (uint32_t)((file_offset + at) % BLOCK_SIZE));

		sums[n++] = crc32c_block(bytes + at, piece);
		at += piece;
	}
}

static void request_put(struct sim_op *o, struct sim_call *c, struct fab_put_item *item)
{
	fill(c, o->content->bytes, o->content->size, 0);
	*item = (struct fab_put_item){
		.name = by_path(o->path),
		.mode = o->content->mode,
		.mtime_ns = 1,
		.size_bytes = o->content->size,
		.payload_at = 0,
		.sums_at = SUMS_AT,
	};
	c->call.type = FAB_PUT;
	c->call.args.batch.count = 1;
	c->call.args.batch.puts = item;
}

static void request_write(struct sim_op *o, struct sim_call *c, uint64_t offset, uint32_t from,
			  uint32_t length, uint32_t flags)
{
	fill(c, o->content->bytes + from, length, flags & FAB_WRITE_APPEND ? 0 : offset);
	c->call.type = FAB_WRITE;
	c->call.args.write.handle = o->handle;
	c->call.args.write.offset_bytes = offset;
	c->call.args.write.length_bytes = length;
	c->call.args.write.flags = flags;
	c->call.args.write.sums_at = SUMS_AT;
}

static void request_open(struct sim_op *o, struct sim_call *c)
{
	c->call.type = FAB_OPEN;
	c->call.args.open.name = by_path(o->path);
}

/* A long put: 0 begin, 1.. pieces, last commit.  Returns the stage after the one requested. */
static void request_long_put(struct sim_op *o, struct sim_call *c)
{
	uint32_t at = o->length;

	if (o->stage == 0) {
		c->call.type = FAB_PUT_BEGIN;
		c->call.args.make.name = by_path(o->path);
		c->call.args.make.mode = o->content->mode;
		c->call.args.make.mtime_ns = 1;
		c->call.args.make.size_bytes = o->content->size;
	} else if (at < o->content->size) {
		o->length = min_u32(at + 20480, o->content->size);
		request_write(o, c, at, at, o->length - at, 0);
	} else {
		o->stage = 2;
		c->call.type = FAB_PUT_COMMIT;
		c->call.args.size.handle = o->handle;
		c->call.args.size.size_bytes = o->content->size;
	}
}

struct call_items { /* what a call's arguments point to */
	struct fab_put_item put;
	struct fab_read_item read;
};
static struct call_items items[SIM_OPS_MAX];

static void request_by_handle(struct sim_op *o, struct sim_call *c)
{
	if (o->stage == 0) {
		request_open(o, c);
	} else if (o->kind == SIM_TRUNCATE) {
		c->call.type = FAB_TRUNCATE;
		c->call.args.size.handle = o->handle;
		c->call.args.size.size_bytes = o->length;
	} else {
		request_write(o, c, o->offset, 0, o->content->size,
			      o->kind == SIM_APPEND ? FAB_WRITE_APPEND : 0);
	}
}

static void request_read(struct sim_op *o, struct sim_call *c, struct fab_read_item *item)
{
	*item = (struct fab_read_item){ .name = by_path(o->path), .length_bytes = FAB_TO_END };
	c->call.type = FAB_READ_BATCH;
	c->call.args.batch.count = 1;
	c->call.args.batch.reads = item;
}

/* What happens, for who looks for a cause: SIM_TRACE=1. */
static void trace(const struct sim_load *l, const struct sim_op *o, const char *what, int status)
{
	static int on = -1;

	if (on < 0)
		on = getenv("SIM_TRACE") != NULL;
	if (on)
		printf("# %llu %s %s %s %s: stage %u, offset %llu, content %u, length %u: %d\n",
		       (unsigned long long)l->w->power.write_count, what, kind_names[o->kind],
		       o->path, o->other, o->stage, (unsigned long long)o->offset,
		       o->content ? o->content->size : 0, o->length, status);
}

static void request(struct sim_load *l, struct sim_op *o)
{
	struct sim_call *c = o->call;
	bool window = true;

	switch (o->kind) {
	case SIM_PUT:
		request_put(o, c, &items[o - l->op].put);
		break;
	case SIM_READ:
		request_read(o, c, &items[o - l->op].read);
		break;
	case SIM_LONG_PUT:
		request_long_put(o, c);
		window = c->call.type == FAB_WRITE;
		break;
	case SIM_WRITE:
	case SIM_APPEND:
	case SIM_TRUNCATE:
		request_by_handle(o, c);
		window = c->call.type == FAB_WRITE;
		break;
	case SIM_MKDIR:
		c->call.type = FAB_MKDIR;
		c->call.args.make.name = by_path(o->path);
		c->call.args.make.mode = 0755;
		window = false;
		break;
	case SIM_SYMLINK:
		c->call.type = FAB_SYMLINK;
		c->call.args.symlink.name = by_path(o->path);
		c->call.args.symlink.target = (const char *)o->content->bytes;
		c->call.args.symlink.target_bytes = (uint16_t)o->content->size;
		window = false;
		break;
	case SIM_CHMOD:
		c->call.type = FAB_SETATTR;
		c->call.args.setattr.name = by_path(o->path);
		c->call.args.setattr.mask = FAB_SET_MODE;
		c->call.args.setattr.mode = o->length;
		window = false;
		break;
	case SIM_RENAME:
	case SIM_EXCHANGE:
	case SIM_GIVE_LINK:
		c->call.type = o->kind == SIM_GIVE_LINK ? FAB_LINK : FAB_RENAME;
		c->call.args.rename.flags = o->kind == SIM_EXCHANGE ? FAB_RENAME_EXCHANGE : 0;
		c->call.args.rename.from = by_path(o->path);
		c->call.args.rename.to = by_path(o->other);
		window = false;
		break;
	default:
		c->call.type = o->kind == SIM_RMDIR ? FAB_RMDIR : FAB_UNLINK;
		c->call.args.name.name = by_path(o->path);
		window = false;
		break;
	}
	c->user = o;
	trace(l, o, "sends", 0);
	sim_world_submit(l->w, c, window);
}

/* ---- answers -------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static bool wrong(struct sim_load *l, const struct sim_op *o,
							const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(l->why, sizeof(l->why), "%s %s %s: ", kind_names[o->kind], o->path,
			 o->other);

	va_start(ap, fmt);
	vsnprintf(l->why + n, sizeof(l->why) - (size_t)n, fmt, ap);
	va_end(ap);
	return false;
}

bool sim_answer_holds(const struct sim_call *c, uint32_t i, const struct sim_state *s)
{
	struct fab_answer a;

	if (fab_call_answer(&c->call, i, &a) || a.status || !s || s->type != SIM_FILE ||
	    a.length_bytes != s->size)
		return false;
	for (uint32_t b = 0; b * BLOCK_SIZE < s->size; b++) {
		const uint8_t *block = c->window + a.data_at + b * BLOCK_SIZE;

		if (crc32c(block, BLOCK_SIZE) != fab_answer_sum(&c->call, &a, b))
			return false;
	}
	return memcmp(c->window + a.data_at, s->bytes, s->size) == 0;
}

static bool take_read(struct sim_load *l, struct sim_op *o)
{
	struct fab_answer a;

	if (o->call->call.status)
		return wrong(l, o, "status %d", o->call->call.status);
	if (fab_call_answer(&o->call->call, 0, &a))
		return wrong(l, o, "nonsense");
	return found_what_it_may(l, o, &a) ||
	       wrong(l, o, "status %d, %llu bytes: never was so since it was asked", a.status,
		     (unsigned long long)a.length_bytes);
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
	if (o->kind == SIM_LONG_PUT)
		return o->stage < 2;
	return (o->kind == SIM_WRITE || o->kind == SIM_APPEND || o->kind == SIM_TRUNCATE) &&
	       o->stage == 0;
}

/* A full store says so, and nothing has changed; but deleting always works. */
static bool may_be_full(const struct sim_op *o, int status)
{
	if (status == -EMFILE && o->kind == SIM_LONG_PUT)
		return true; /* those that were refused halfway stay open as long as the session */
	return status == -ENOSPC && o->kind != SIM_UNLINK && o->kind != SIM_RMDIR;
}

static bool is_expected(const struct sim_op *o, int status)
{
	if (o->kind == SIM_LONG_PUT && more_stages(o) && status == 0)
		return true; /* that its directory is missing may show at the end only */
	return status == o->expect || may_be_full(o, status) ||
	       (status == 0 && more_stages(o) && !o->expect) ||
	       (status == -ENOTDIR && o->expect == -ENOENT);
}

static bool take(struct sim_load *l, struct sim_op *o)
{
	int status = o->call->call.status;
	struct fab_attr attr;
	struct fab_answer answer;

	if (o->kind == SIM_READ) {
		bool good = take_read(l, o);

		finish(l, o);
		return good;
	}
	if (o->kind == SIM_PUT && !status)
		status = fab_call_answer(&o->call->call, 0, &answer) ? -EPROTO : answer.status;
	trace(l, o, "is answered", status);
	if (!is_expected(o, status))
		return wrong(l, o, "answered %d, not %d", status, o->expect);
	if (status == 0 && more_stages(o)) {
		if (o->stage == 0 && fab_call_attr(&o->call->call, 0, &attr))
			return wrong(l, o, "no attributes");
		if (o->stage == 0)
			o->handle = attr.handle;
		o->stage = 1;
		o->call = sim_world_call_on(l->w, o->call->lane);
		request(l, o);
		return true;
	}
	l->full += status == -ENOSPC;
	if (!status) {
		readers_may_find(l, &o->change, true);
		sim_change_apply(&o->change, l->model);
	}
	finish(l, o);
	return true;
}

bool sim_load_idle(const struct sim_load *l)
{
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++)
		if (l->op[i].used)
			return false;
	return true;
}

bool sim_load_step(struct sim_load *l, bool send)
{
	struct sim_call *done[SIM_CALLS_MAX];
	uint32_t count;

	for (uint32_t i = 0; send && i < l->in_flight_max; i++) {
		struct sim_op *o = &l->op[i];

		if (o->used || !prepare(l, o))
			continue;
		readers_may_find(l, &o->change, false);
		o->used = true;
		o->call = sim_world_call(l->w);
		request(l, o);
	}
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

void sim_load_forget(struct sim_load *l)
{
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++)
		if (l->op[i].used)
			finish(l, &l->op[i]);
}
