/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Prints a store in words: the list of structures, and those with fixed places: superblocks, roots,
 * zone headers.  Both copies of each; if they differ, or one is damaged, the fields.
 */
#include "meta/offline/meta_raw_internal.h"
#include "meta/meta_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const meta__zone_kinds[] = {
	"free", "log", "pages", "data", "roots", "twin", "parity"
};

static const struct {
	const char *name, *arg, *text;
	int (*run)(struct meta_raw *r, const char *arg, struct meta__table *t);
} structures[] = {
	{ "super", "", "superblocks, both copies of each drive", meta__dump_super },
	{ "set", "", "the set of drives: which serve, which are lost, groups of zones",
	  meta__dump_set },
	{ "roots", "[SHARD]", "where each shard's tree begins: both slots, all copies",
	  meta__dump_roots },
	{ "zones", "", "headers of all zones, and how much lives in each", meta__dump_zones },
	{ "zone", "NUMBER", "one zone: its header, and what lies in it", meta__dump_zone },
	{ "log", "[SEQUENCE]", "blocks of the log in order; of one of them, its records",
	  meta__dump_log },
	{ "page", "DRIVE:BLOCK", "a page: its header, and each record", meta__dump_page },
	{ "path", "PATH", "the way to a file, from root to leaf, for each of its names",
	  meta__dump_path },
	{ "file", "PATH", "a file's inode and blocks, each compared with its checksum",
	  meta__dump_file },
};

bool meta_dump_what(uint32_t i, const char **name, const char **arg, const char **text)
{
	if (i >= ARRAY_LEN(structures))
		return false;
	ASSERT(structures[i].run);
	*name = structures[i].name;
	*arg = structures[i].arg;
	*text = structures[i].text;
	return true;
}

int meta_dump(struct meta_raw *r, const char *what, const char *arg, FILE *out, bool json)
{
	struct meta__table *t;
	int err = -EINVAL;

	ASSERT(r->from.count <= META_DRIVES_MAX);
	ASSERT(out);
	for (size_t i = 0; i < ARRAY_LEN(structures); i++) {
		if (strcmp(structures[i].name, what) != 0)
			continue;
		if ((!arg && structures[i].arg[0] && structures[i].arg[0] != '[') ||
		    (arg && !structures[i].arg[0]))
			return -EINVAL;
		if (r->problem[0] && i > 0)
			return -ENODATA;
		t = calloc(1, sizeof(*t));
		if (!t)
			return -ENOMEM;
		t->out = out;
		t->json = json;
		err = structures[i].run(r, arg, t);
		free(t);
	}
	return err;
}

int meta__dump_number(const char *arg, uint64_t max, uint64_t *out)
{
	char *end;

	ASSERT(arg);
	errno = 0;
	*out = strtoull(arg, &end, 10);
	return *end || end == arg || arg[0] == '-' || errno || *out > max ? -EINVAL : 0;
}

/* ---- fields, and what differs ------------------------------------------------------- */

struct field {
	const char *name;
	uint32_t at, size;
};

#define FIELD(type, name)                                                                          \
	{                                                                                          \
#name, offsetof(struct type, name), sizeof(((struct type *)0)->name)               \
	}

static const struct field super_fields[] = {
	FIELD(meta_super_disk, magic),
	FIELD(meta_super_disk, crc),
	FIELD(meta_super_disk, version),
	FIELD(meta_super_disk, incompat),
	FIELD(meta_super_disk, compat),
	FIELD(meta_super_disk, uuid),
	FIELD(meta_super_disk, drive),
	FIELD(meta_super_disk, ndrives),
	FIELD(meta_super_disk, nshards),
	FIELD(meta_super_disk, zone_blocks),
	FIELD(meta_super_disk, nzones),
	FIELD(meta_super_disk, secret),
	FIELD(meta_super_disk, format_ns),
	FIELD(meta_super_disk, drive_nblocks),
	FIELD(meta_super_disk, incompat_name),
	FIELD(meta_super_disk, set),
	FIELD(meta_super_disk, root_at),
	FIELD(meta_super_disk, drive_tag),
	FIELD(meta_super_disk, drive_name),
	FIELD(meta_super_disk, drive_state),
	FIELD(meta_super_disk, root_zone),
	FIELD(meta_super_disk, copies),
	FIELD(meta_super_disk, converts),
	FIELD(meta_super_disk, fold),
	FIELD(meta_super_disk, root_at_third),
	FIELD(meta_super_disk, root_zone_third),
	{ NULL, 0, 0 },
};

static const struct field root_fields[] = {
	FIELD(meta_root_disk, magic),    FIELD(meta_root_disk, crc),
	FIELD(meta_root_disk, uuid),     FIELD(meta_root_disk, shard),
	FIELD(meta_root_disk, height),   FIELD(meta_root_disk, version),
	FIELD(meta_root_disk, mount),    FIELD(meta_root_disk, log_epoch),
	FIELD(meta_root_disk, log_base), FIELD(meta_root_disk, log_seq),
	FIELD(meta_root_disk, seq),      FIELD(meta_root_disk, root_baddr),
	FIELD(meta_root_disk, root_gen), FIELD(meta_root_disk, uniq_next),
	FIELD(meta_root_disk, dir_next), FIELD(meta_root_disk, files),
	FIELD(meta_root_disk, dirs),     { NULL, 0, 0 },
};

static const struct field zone_fields[] = {
	FIELD(meta_zone_disk, magic),
	FIELD(meta_zone_disk, crc),
	FIELD(meta_zone_disk, uuid),
	FIELD(meta_zone_disk, zone),
	FIELD(meta_zone_disk, kind),
	FIELD(meta_zone_disk, incarnation),
	FIELD(meta_zone_disk, epoch),
	FIELD(meta_zone_disk, stream),
	FIELD(meta_zone_disk, reserved),
	FIELD(meta_zone_disk, order),
	FIELD(meta_zone_disk, oldest_order),
	FIELD(meta_zone_disk, mark),
	FIELD(meta_zone_disk, twin),
	FIELD(meta_zone_disk, twin2),
	FIELD(meta_zone_disk, pair),
	FIELD(meta_zone_disk, members),
	FIELD(meta_zone_disk, role),
	FIELD(meta_zone_disk, member),
	{ NULL, 0, 0 },
};

/* Names of the fields in which two copies differ; what no field has is "byte N". */
static void differences(const struct field *f, const uint8_t *a, const uint8_t *b, char out[256])
{
	uint32_t end = 0;
	size_t used = 0;

	ASSERT(f->name);
	ASSERT(a != b);
	out[0] = 0;
	for (; f->name && used < 200; f++) {
		end = f->at + f->size;
		if (memcmp(a + f->at, b + f->at, f->size) != 0)
			used += (size_t)snprintf(out + used, 256 - used, "%s%s", used ? ", " : "",
						 f->name);
	}
	for (uint32_t i = end; i < META__BLOCK && used < 200; i++)
		if (a[i] != b[i]) {
			(void)snprintf(out + used, 256 - used, "%sbyte %u", used ? ", " : "", i);
			return;
		}
}

/* How one of two copies differs from the other, in a cell. */
static void cell_differs(struct meta_raw *r, struct meta__table *t, const struct field *f,
			 uint64_t here, uint64_t other)
{
	uint8_t a[META__BLOCK], b[META__BLOCK];
	char text[256];

	ASSERT(here != other);
	if (meta__raw_read(r, here, 1, a) || meta__raw_read(r, other, 1, b)) {
		meta__cell_text(t, "?");
		return;
	}
	differences(f, a, b, text);
	meta__cell_text(t, "%s", text[0] ? text : "nothing");
}

/* ---- superblocks ---------------------------------------------------------------------- */

static const struct meta__column super_columns[] = {
	{ "drive", 5 },         { "copy", 4 },         { "place", -10 }, { "state", -8 },
	{ "version", 7 },       { "uuid", -32 },       { "index", 5 },   { "drives", 6 },
	{ "shards", 6 },        { "zone_blocks", 11 }, { "zones", 7 },   { "blocks", 10 },
	{ "formatted_ns", 19 }, { "differs_by", -10 }, { "why", -1 },    { NULL, 0 },
};

static void cell_uuid(struct meta__table *t, const uint8_t uuid[16])
{
	char text[33];

	for (int i = 0; i < 16; i++)
		(void)snprintf(text + 2 * i, 3, "%02x", uuid[i]);
	meta__cell_text(t, "%s", text);
}

/* Before there is a geometry, drives are as they were given. */
static int read_given(struct meta_raw *r, uint32_t d, uint32_t copy, uint8_t *block)
{
	uint64_t n = r->from.nblocks[d];

	ASSERT(d < r->from.count);
	ASSERT(copy < 2);
	return n == 0 ? -ENXIO : r->from.read(r->from.arg, d, copy ? n - 1 : 0, 1, block);
}

static void super_differs(struct meta_raw *r, uint32_t d, uint32_t copy, struct meta__table *t)
{
	uint8_t a[META__BLOCK], b[META__BLOCK];
	char text[256] = "?";

	ASSERT(copy < 2);
	if (read_given(r, d, copy, a) == 0 && read_given(r, d, copy ^ 1, b) == 0)
		differences(super_fields, a, b, text);
	meta__cell_text(t, "%s", text[0] ? text : "nothing");
}

static void super_row(struct meta_raw *r, uint32_t d, uint32_t copy, struct meta__table *t)
{
	const struct meta__raw_super *x = &r->super[d][copy];
	const struct meta__super *s = &x->s;

	ASSERT(d < r->from.count);
	ASSERT(t->at == 0); /* a row begins */
	meta__cell(t, d);
	meta__cell(t, copy);
	meta__cell_place(t, META_BADDR(d, copy ? r->from.nblocks[d] - 1 : 0));
	meta__cell_text(t, "%s",
			x->err == -EPROTONOSUPPORT ? "foreign"
			: x->err                   ? "damaged"
						   : "whole");
	meta__cell(t, x->err ? 0 : META_FORMAT_VERSION);
	cell_uuid(t, s->uuid);
	meta__cell(t, s->drive);
	meta__cell(t, s->ndrives);
	meta__cell(t, s->nshards);
	meta__cell(t, s->zone_blocks);
	meta__cell(t, s->nzones);
	meta__cell(t, x->err ? 0 : s->drive_nblocks[s->drive]);
	meta__cell(t, (uint64_t)s->format_ns);
	super_differs(r, d, copy, t);
	meta__cell_text(t, "%s", x->err ? x->why : "");
	ASSERT(t->at == 0); /* ... and ends: as many cells as columns */
}

int meta__dump_super(struct meta_raw *r, const char *arg, struct meta__table *t)
{
	int err = 0;

	(void)arg;
	ASSERT(r->from.count <= META_DRIVES_MAX);
	meta__table_begin(t, "super", super_columns);
	for (uint32_t i = 0; i < 2 * r->from.count; i++) {
		super_row(r, i / 2, i % 2, t);
		if (r->super[i / 2][i % 2].err)
			err = -EUCLEAN;
	}
	return err;
}

/* ---- roots ------------------------------------------------------------------------------ */

/* Returns why a copy with this error does not count. */
static const char *why_not(const struct meta_raw *r, uint64_t baddr)
{
	const uint32_t d = META_BADDR_DRIVE(baddr);

	ASSERT(d < META_DRIVES_MAX);
	if (r->geo.state[d] == DRIVE_LOST)
		return "lost";
	return r->drive_at[d] == META__RAW_NOWHERE ? "missing" : "damaged";
}

/* A drive that is LOST has nothing that counts: no damage is there. */
static bool is_damage(const struct meta_raw *r, uint64_t baddr, int err)
{
	ASSERT(META_BADDR_DRIVE(baddr) < META_DRIVES_MAX);
	return err && r->geo.state[META_BADDR_DRIVE(baddr)] != DRIVE_LOST;
}

static const struct meta__column root_columns[] = {
	{ "shard", 5 },     { "slot", 4 },        { "copy", 4 },        { "place", -10 },
	{ "state", -8 },    { "version", 7 },     { "mount", 5 },       { "height", 6 },
	{ "root", -10 },    { "generation", 13 }, { "seq", 8 },         { "log_epoch", 9 },
	{ "log_base", 8 },  { "log_seq", 8 },     { "files", 8 },       { "dirs", 7 },
	{ "next_uniq", 9 }, { "next_dir", 8 },    { "differs_by", -1 }, { NULL, 0 },
};

static void root_row(struct meta_raw *r, uint32_t shard, int slot, int copy, struct meta__table *t)
{
	const struct meta__raw_root *x = &r->root[shard];
	const struct meta__root_seen *s = &x->seen[slot][copy];
	uint64_t here = meta__geo_root(&r->geo, (uint32_t)copy, (uint32_t)slot, shard);
	uint64_t other = meta__geo_root(&r->geo, ((uint32_t)copy + 1) % r->geo.root_copies,
					(uint32_t)slot, shard);

	ASSERT(shard < r->geo.nshards);
	ASSERT(slot == 0 || slot == 1);
	ASSERT(copy >= 0 && (uint32_t)copy < r->geo.root_copies);
	meta__cell(t, shard);
	meta__cell(t, (uint64_t)slot);
	meta__cell(t, (uint64_t)copy);
	meta__cell_place(t, here);
	meta__cell_text(t, "%s",
			x->err[slot][copy] ? why_not(r, here)
			: slot == x->slot  ? "counts"
					   : "older");
	meta__cell(t, s->version);
	meta__cell(t, s->mount);
	meta__cell(t, s->root.height);
	meta__cell_place(t, s->root.root_baddr);
	meta__cell_text(t, "%llu.%llu", (unsigned long long)(s->root.root_gen >> 32),
			(unsigned long long)(s->root.root_gen & UINT32_MAX));
	meta__cell(t, s->root.seq);
	meta__cell(t, s->log_epoch);
	meta__cell(t, s->log_base);
	meta__cell(t, s->root.log_seq);
	meta__cell(t, s->root.files);
	meta__cell(t, s->root.dirs);
	meta__cell(t, s->root.uniq_next);
	meta__cell(t, s->root.dir_next);
	cell_differs(r, t, root_fields, here, other);
	ASSERT(t->at == 0);
}

int meta__dump_roots(struct meta_raw *r, const char *arg, struct meta__table *t)
{
	uint64_t shard = 0, end = r->geo.nshards;
	int err = 0;

	ASSERT(end > 0);
	ASSERT(r->root);
	if (arg && meta__dump_number(arg, end - 1, &shard))
		return -EINVAL;
	if (arg)
		end = shard + 1;
	meta__table_begin(t, "root", root_columns);
	for (; shard < end; shard++)
		for (uint32_t i = 0; i < 2 * r->geo.root_copies; i++) {
			const uint32_t slot = i / r->geo.root_copies, copy = i % r->geo.root_copies;

			root_row(r, (uint32_t)shard, (int)slot, (int)copy, t);
			if (is_damage(r, meta__geo_root(&r->geo, copy, slot, (uint32_t)shard),
				      r->root[shard].err[slot][copy]))
				err = -EUCLEAN;
		}
	return err;
}

/* ---- headers of zones ------------------------------------------------------------------ */

static const struct meta__column zone_columns[] = {
	{ "zone", 6 },  { "copy", 4 },  { "place", -10 }, { "state", -8 },        { "kind", -5 },
	{ "taken", 6 }, { "mount", 5 }, { "order", 6 },   { "oldest_order", 12 }, { "lives", 8 },
	{ "pair", 6 },  { "role", -5 }, { "with", -6 },   { "differs_by", -1 },   { NULL, 0 },
};

/* The other zones of a group, the first one first: "8", or "8,12". */
static void others_of(const struct meta_raw *r, uint32_t zone, char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t at = r->zone[zone].first; at != META__ZONE_NONE;
	     at = meta__raw_twin_zone(r, at))
		if (at != zone)
			used += (size_t)snprintf(out + used, size - used, "%s%u", used ? "," : "",
						 at);
	ASSERT(used > 0 && used < size);
}

/* Number of the group, what this zone is in it, and the other zones.  A header that says a group
 * which the others do not: an earlier one. */
static void pair_cells(struct meta_raw *r, uint32_t zone, const struct meta__zone_seen *s,
		       struct meta__table *t)
{
	const struct meta__raw_zone *x = &r->zone[zone];
	char others[32] = "";

	ASSERT(zone < r->geo.nzones);
	meta__cell(t, x->pair ? x->pair : s->pair);
	if (x->fold) {
		meta__cell_text(t, "%s",
				x->is_second          ? "sum2"
				: x->fold == zone + 1 ? "sum"
						      : "fold");
		meta__cell_text(t, "%u", x->fold - 1);
		return;
	}
	meta__cell_text(t, "%s", x->pair ? x->is_twin ? "twin" : "first" : s->twin ? "past" : "");
	if (x->pair)
		others_of(r, zone, others, sizeof(others));
	else if (s->twin2)
		(void)snprintf(others, sizeof(others), "%u,%u", s->twin - 1, s->twin2 - 1);
	else if (s->twin)
		(void)snprintf(others, sizeof(others), "%u", s->twin - 1);
	meta__cell_text(t, "%s", others);
}

static void zone_row(struct meta_raw *r, uint32_t zone, int copy, uint64_t lives,
		     struct meta__table *t)
{
	const struct meta__raw_zone *x = &r->zone[zone];
	const struct meta__zone_seen *s = &x->seen[copy];
	uint64_t here = meta__geo_zone_head(&r->geo, zone, (uint32_t)copy);

	ASSERT(zone < r->geo.nzones);
	ASSERT(copy == 0 || copy == 1);
	meta__cell(t, zone);
	meta__cell(t, (uint64_t)copy);
	meta__cell_place(t, here);
	meta__cell_text(t, "%s",
			x->err[copy]                                     ? why_not(r, here)
			: copy == x->copy                                ? "counts"
			: s->incarnation == x->seen[x->copy].incarnation ? "same"
									 : "older");
	meta__cell_text(t, "%s", x->err[copy] ? "?" : meta__zone_kinds[s->kind]);
	meta__cell(t, s->incarnation);
	meta__cell(t, s->epoch);
	meta__cell(t, s->order);
	meta__cell(t, s->oldest_order);
	meta__cell(t, lives);
	pair_cells(r, zone, s, t);
	cell_differs(r, t, zone_fields, here,
		     meta__geo_zone_head(&r->geo, zone, (uint32_t)copy ^ 1));
	ASSERT(t->at == 0);
}

/* Pages that a tree names, from its root down; ZONE records: blocks that live in each zone. */
static int count_shard(struct meta_raw *r, uint32_t shard, uint32_t *lives)
{
	struct meta_key key = { { 0 } };
	uint8_t value[META_VALUE_MAX];
	struct meta__raw_way way;
	uint64_t lost = 0;
	uint32_t len;

	ASSERT(shard < r->geo.nshards);
	for (bool more = true; more;) {
		const void *leaf = meta__raw_go(r, shard, &key, 0, &way);
		const struct meta__raw_step *s = &way.step[way.steps ? way.steps - 1 : 0];

		lost += !leaf && way.steps;
		for (uint32_t i = way.steps, fresh = 1; i-- > 0 && fresh;) {
			uint32_t zone = meta__geo_zone_of(&r->geo, way.step[i].page.baddr);

			lives[zone == META__ZONE_NONE ? r->geo.nzones : zone] += META_PAGE_BLOCKS;
			fresh = i && way.step[i - 1].pos == 0;
		}
		more = way.steps && s->has_hi && meta__key_cmp(&s->hi, &key) > 0;
		key = s->hi;
	}
	key = meta__key(0, 0, META__CLASS_ZONE, 0, META__KIND_NONE, 0);
	while (meta__raw_next(r, shard, &key, value, &len, &lost) == 0 &&
	       meta__key_dir(&key) == 0 && meta__key_class(&key) == META__CLASS_ZONE) {
		uint64_t at = meta__key_uniq(&key), index = meta__key_index(&key);
		le64 live;

		if (at < r->geo.ndrives && index < r->geo.zone_count[at] && len == sizeof(live)) {
			memcpy(&live, value, sizeof(live));
			lives[r->geo.zone_base[at] + index] += (uint32_t)le64_get(live);
		}
		key = meta__key_next(key);
	}
	return lost ? -EUCLEAN : 0;
}

static uint32_t *count_lives(struct meta_raw *r, int *err)
{
	uint32_t *lives = calloc(r->geo.nzones + 1ul, sizeof(*lives));

	ASSERT(r->geo.nzones > 0);
	for (uint32_t i = 0; lives && i < r->geo.nshards; i++)
		if (count_shard(r, i, lives))
			*err = -EUCLEAN;
	return lives;
}

static void zone_rows(struct meta_raw *r, uint32_t zone, uint32_t lives, struct meta__table *t,
		      int *err)
{
	ASSERT(zone < r->geo.nzones);
	for (int copy = 0; copy < 2; copy++) {
		zone_row(r, zone, copy, lives, t);
		if (is_damage(r, meta__geo_zone_head(&r->geo, zone, (uint32_t)copy),
			      r->zone[zone].err[copy]))
			*err = -EUCLEAN;
	}
}

int meta__dump_zones(struct meta_raw *r, const char *arg, struct meta__table *t)
{
	int err = 0;
	uint32_t *lives = count_lives(r, &err);

	ASSERT(r->zone);
	(void)arg;
	if (!lives)
		return -ENOMEM;
	meta__table_begin(t, "zone", zone_columns);
	for (uint32_t i = 0; i < r->geo.nzones; i++)
		if (meta__geo_zone_there(&r->geo, i))
			zone_rows(r, i, lives[i], t, &err);
	free(lives);
	return err;
}

/* ---- one zone -------------------------------------------------------------------------- */

static const struct meta__column page_columns[] = {
	{ "place", -10 }, { "state", -8 },  { "shard", 5 }, { "level", 5 }, { "generation", 13 },
	{ "records", 7 }, { "first", -28 }, { "why", -1 },  { NULL, 0 },
};

/* Every page place of it, or of a twin `where`: does the tree still lead there? */
static int pages_of_zone(struct meta_raw *r, uint32_t zone, uint32_t where, struct meta__table *t)
{
	const uint8_t *bytes = meta__raw_zone_bytes(r, where);
	int err = 0;

	ASSERT(zone < r->geo.nzones);
	ASSERT(1 + r->geo.zone_pages * META_PAGE_BLOCKS <= r->geo.zone_blocks);
	if (!bytes)
		return -ENOMEM;
	meta__table_begin(t, "page", page_columns);
	for (uint32_t i = 0; i < r->geo.zone_pages; i++) {
		const uint8_t *page = bytes + (1 + (size_t)i * META_PAGE_BLOCKS) * META__BLOCK;
		uint64_t baddr = meta__geo_zone_baddr(&r->geo, zone) + 1 + i * META_PAGE_BLOCKS;
		uint64_t here = meta__geo_zone_baddr(&r->geo, where) + 1 + i * META_PAGE_BLOCKS;
		struct meta__page_look look;
		struct meta__raw_way way;
		bool lives;

		if (le32_get(((const struct meta_page_disk *)page)->magic) != META_PAGE_MAGIC)
			continue;
		meta__cell_place(t, here);
		if (meta__page_look(page, &look) ||
		    le64_get(((const struct meta_page_disk *)page)->baddr) != baddr ||
		    look.shard >= r->geo.nshards) {
			meta__cell_text(t, "damaged");
			for (int k = 0; k < 4; k++)
				meta__cell_text(t, "?");
			meta__cell_text(t, "?");
			meta__cell_text(t, "it is not whole, or belongs elsewhere");
			err = -EUCLEAN; /* unless it is dead: unknown */
			continue;
		}
		(void)meta__raw_go(r, look.shard, &look.first, look.level, &way);
		lives = way.steps && way.step[way.steps - 1].page.baddr == baddr &&
			way.step[way.steps - 1].page.gen == look.gen;
		meta__cell_text(t, "%s", lives ? "lives" : "dead");
		meta__cell(t, look.shard);
		meta__cell(t, look.level);
		meta__cell_text(t, "%llu.%llu", (unsigned long long)(look.gen >> 32),
				(unsigned long long)(look.gen & UINT32_MAX));
		meta__cell(t, look.count);
		meta__cell_text(t, "%llx.%llx.%llx", (unsigned long long)meta__key_dir(&look.first),
				(unsigned long long)meta__key_hash(&look.first),
				(unsigned long long)meta__key_uniq(&look.first));
		meta__cell_text(t, "%s", "");
	}
	ASSERT(t->at == 0);
	return err;
}

static const struct meta__column data_columns[] = {
	{ "place", -10 }, { "blocks", 6 },      { "shard", 5 },
	{ "file", -28 },  { "from_block", 10 }, { NULL, 0 },
};

static void runs_of_zone(struct meta_raw *r, uint32_t zone, uint32_t shard,
			 const struct meta_key *key, const struct meta__extent *x,
			 struct meta__table *t)
{
	uint64_t block = meta__key_index(key) * META_CHUNK_BLOCKS;

	ASSERT(shard < r->geo.nshards);
	ASSERT(meta__key_kind(key) == META__KIND_EXTENT);
	for (uint32_t i = 0; i < x->nruns; i++) {
		struct meta_run run = meta__extent_run(x, i);

		if (run.baddr && meta__geo_zone_of(&r->geo, run.baddr) == zone) {
			meta__cell_place(t, run.baddr);
			meta__cell(t, run.nblocks);
			meta__cell(t, shard);
			meta__cell_text(t, "%llx.%llx.%llx", (unsigned long long)meta__key_dir(key),
					(unsigned long long)meta__key_hash(key),
					(unsigned long long)meta__key_uniq(key));
			meta__cell(t, block);
		}
		block += run.nblocks;
	}
}

/* Finds the extents with blocks there: only the index has them. */
static int data_of_zone(struct meta_raw *r, uint32_t zone, struct meta__table *t)
{
	uint64_t lost = 0;

	ASSERT(zone < r->geo.nzones);
	meta__table_begin(t, "run", data_columns);
	for (uint32_t shard = 0; shard < r->geo.nshards; shard++) {
		struct meta_key key = { { 0 } };
		uint8_t value[META_VALUE_MAX];
		uint32_t len;

		while (meta__raw_next(r, shard, &key, value, &len, &lost) == 0) {
			struct meta__extent x;

			if (meta__key_class(&key) == META__CLASS_OBJ &&
			    meta__key_kind(&key) == META__KIND_EXTENT &&
			    meta__extent_parse(value, len, &x) == 0)
				runs_of_zone(r, zone, shard, &key, &x, t);
			key = meta__key_next(key);
		}
	}
	ASSERT(t->at == 0);
	return lost ? -EUCLEAN : 0;
}

/* Blocks of files are shown with the first zone: the index has no address in a twin. */
static int pages_of_twin(struct meta_raw *r, uint32_t twin, struct meta__table *t)
{
	const uint32_t first = r->zone[twin].first;
	const struct meta__zone_seen *z = meta__raw_zone(r, first);

	ASSERT(r->zone[first].first == first && first != twin);
	return z && z->kind != META__ZONE_PAGE ? 0 : pages_of_zone(r, first, twin, t);
}

int meta__dump_zone(struct meta_raw *r, const char *arg, struct meta__table *t)
{
	const struct meta__zone_seen *z;
	uint64_t zone;
	uint32_t *lives;
	int err = 0, more = 0;

	if (meta__dump_number(arg, r->geo.nzones - 1, &zone))
		return -EINVAL;
	ASSERT(zone < r->geo.nzones);
	lives = count_lives(r, &err);
	if (!lives)
		return -ENOMEM;
	meta__table_begin(t, "zone", zone_columns);
	zone_rows(r, (uint32_t)zone, lives[zone], t, &err);
	free(lives);
	z = meta__raw_zone(r, (uint32_t)zone);
	if (r->zone[zone].pair && r->zone[zone].is_twin)
		more = pages_of_twin(r, (uint32_t)zone, t);
	else if (z && z->kind == META__ZONE_PAGE)
		more = pages_of_zone(r, (uint32_t)zone, (uint32_t)zone, t);
	else if (z && z->kind == META__ZONE_DATA)
		more = meta__raw_log_over(r, false) ? -ENOMEM : data_of_zone(r, (uint32_t)zone, t);
	else if (z && z->kind == META__ZONE_LOG)
		more = meta__dump_log_zone(r, (uint32_t)zone, t);
	return more ? more : err;
}
