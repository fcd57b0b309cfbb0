/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Prints a file in words: its records, and each of its blocks, compared with its checksum. */
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct meta__column record_columns[] = { META__RECORD_COLUMNS, { NULL, 0 } };

static const struct meta__column block_columns[] = {
	{ "block", 8 }, { "place", -10 }, { "checksum", -8 },
	{ "is", -8 },   { "state", -1 },  { NULL, 0 },
};

/* ... in a store of several copies: of a third one the state is said only. */
static const struct meta__column pair_columns[] = {
	{ "block", 8 },  { "place", -10 },  { "checksum", -8 }, { "is", -8 },
	{ "twin", -10 }, { "twin_is", -8 }, { "state", -1 },    { NULL, 0 },
};

/* All that has the handle's key, but its extents' blocks. */
static int records(struct meta_raw *r, const struct meta_handle *h, struct meta__table *t)
{
	const uint32_t shard = meta__dir_shard(&r->m, h->dir);
	struct meta_key key = meta__obj_key(h, META__KIND_INODE, 0);
	const struct meta_key end = meta__obj_key(h, (enum meta__kind)255, META__MASK48);
	uint8_t value[META_VALUE_MAX];
	uint64_t lost = 0;
	uint32_t len;
	int err = 0;

	ASSERT(shard < r->geo.nshards);
	meta__table_begin(t, "record", record_columns);
	while (meta__raw_next(r, shard, &key, value, &len, &lost) == 0 &&
	       meta__key_cmp(&key, &end) <= 0) {
		if (meta__dump_record(t, shard, &key, false, value, len))
			err = -EUCLEAN;
		key = meta__key_next(key);
	}
	ASSERT(t->at == 0);
	return lost ? -EUCLEAN : err;
}

/* Returns what is wrong with a copy, NULL: nothing; *is: its checksum. */
static const char *copy_why(struct meta_raw *r, uint64_t at, uint32_t crc, uint32_t *is)
{
	uint8_t bytes[META__BLOCK];
	const int err = at ? meta__raw_read(r, at, 1, bytes) : -ENOENT;

	ASSERT(r->m.copies <= META__RAW_COPIES);
	*is = err ? 0 : crc32c(bytes, sizeof(bytes));
	if (err == -ENODEV)
		return "its drive is missing";
	return err ? "it cannot be read" : *is != crc ? "it does not match its checksum" : NULL;
}

/* The same, and shows its checksum. */
static const char *copy_cells(struct meta_raw *r, uint64_t at, uint32_t crc, struct meta__table *t)
{
	uint32_t is;
	const char *why = copy_why(r, at, crc, &is);

	ASSERT(t->at > 0);
	meta__cell_text(t, "%08x", is);
	return why;
}

/* Shows the state of a block with twins: what is wrong with which copy.  Returns -EUCLEAN if
 * anything is. */
static int twins_state(struct meta_raw *r, uint64_t twin, uint32_t crc, const char *why,
		       const char *twin_why, struct meta__table *t)
{
	const uint64_t other = meta__raw_twin(r, twin);
	uint32_t is;
	const char *const whose[] = { "", "its twin: ", "its other twin: " };
	const char *const wrong[] = { why, twin_why, other ? copy_why(r, other, crc, &is) : NULL };
	char text[256];
	size_t len = 0;

	ASSERT(twin != other);
	for (uint32_t i = 0; i < ARRAY_LEN(wrong); i++)
		if (wrong[i])
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s%s",
						len ? "; " : "", whose[i], wrong[i]);
	ASSERT(len < sizeof(text));
	meta__cell_text(t, "%s", len ? text : "whole");
	return len ? -EUCLEAN : 0;
}

/* Shows the state of a block without a twin. */
static int lone_state(struct meta_raw *r, uint64_t baddr, const char *why, struct meta__table *t)
{
	const uint32_t zone = meta__geo_zone_of(&r->geo, baddr);
	const uint32_t parity = zone == META__ZONE_NONE ? zone : meta__raw_parity(r, zone);

	ASSERT(baddr);
	if (r->m.copies > 1 && parity != META__ZONE_NONE)
		meta__cell_text(t, "%s%sits parity is in zone %u", why ? why : "whole",
				why ? "; " : ", ", parity);
	else if (!why && r->m.copies > 1)
		meta__cell_text(t, "whole, and has no twin");
	else
		meta__cell_text(t, "%s", why ? why : "whole");
	return why ? -EUCLEAN : 0;
}

static int block_row(struct meta_raw *r, uint64_t block, uint64_t baddr, uint32_t crc,
		     struct meta__table *t)
{
	const uint64_t twin = meta__raw_twin(r, baddr);
	const char *why, *twin_why = NULL;
	int err;

	ASSERT(baddr);
	meta__cell(t, block);
	meta__cell_place(t, baddr);
	meta__cell_text(t, "%08x", crc);
	why = copy_cells(r, baddr, crc, t);
	if (r->m.copies > 1 && twin)
		meta__cell_place(t, twin);
	else if (r->m.copies > 1)
		meta__cell_text(t, "%s", "-");
	if (r->m.copies > 1)
		twin_why = copy_cells(r, twin, crc, t);
	err = twin ? twins_state(r, twin, crc, why, twin_why, t) : lone_state(r, baddr, why, t);
	ASSERT(t->at == 0);
	return err;
}

static int extent_rows(struct meta_raw *r, uint64_t first, const struct meta__extent *x,
		       struct meta__table *t)
{
	uint32_t at = 0;
	int err = 0;

	ASSERT(first % META_CHUNK_BLOCKS == 0);
	for (uint32_t i = 0; i < x->nruns; i++) {
		struct meta_run run = meta__extent_run(x, i);

		for (uint32_t k = 0; k < run.nblocks && at < x->nblocks; k++, at++) {
			le32 crc;

			memcpy(&crc, x->crcs + at * sizeof(crc), sizeof(crc));
			if (run.baddr && block_row(r, first + at, run.baddr + k, le32_get(crc), t))
				err = -EUCLEAN;
		}
	}
	ASSERT(at <= x->nblocks);
	return err;
}

static int blocks(struct meta_raw *r, const struct meta_handle *h, struct meta__table *t)
{
	const uint32_t shard = meta__dir_shard(&r->m, h->dir);
	struct meta_key key = meta__obj_key(h, META__KIND_EXTENT, 0);
	uint8_t value[META_VALUE_MAX];
	uint64_t lost = 0;
	uint32_t len;
	int err = 0;

	ASSERT(shard < r->geo.nshards);
	meta__table_begin(t, "block", r->m.copies > 1 ? pair_columns : block_columns);
	while (meta__raw_next(r, shard, &key, value, &len, &lost) == 0 &&
	       meta__key_is_obj(&key, h, META__KIND_EXTENT)) {
		struct meta__extent x;

		if (meta__extent_parse(value, len, &x) ||
		    extent_rows(r, meta__key_index(&key) * META_CHUNK_BLOCKS, &x, t))
			err = -EUCLEAN;
		key = meta__key_next(key);
	}
	return lost ? -EUCLEAN : err;
}

int meta__dump_file(struct meta_raw *r, const char *arg, struct meta__table *t)
{
	struct meta_handle h = { .dir = META_ROOT_DIR };
	struct meta__raw_path p;
	int err = meta__raw_log_over(r, false), rc;

	if (err)
		return err;
	ASSERT(arg);
	ASSERT(r->over_log);
	meta__raw_path_begin(&p, arg);
	while ((rc = meta__raw_path_next(r, &p)) == 1)
		h = p.name.handle;
	if (rc)
		return rc == -EIO ? -EUCLEAN : rc;
	err = records(r, &h, t);
	rc = blocks(r, &h, t);
	return rc ? rc : err;
}
