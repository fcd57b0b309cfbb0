/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Prints pages in words: one by its address, and the path of a key from root to leaf.
 *
 *  (1) A page with a wrong checksum proves nothing.  If its content is nevertheless consistent,
 *      it is printed, and called unproven
 *      [test_meta_dump:changed_byte_of_a_page_is_named_and_its_records_are_called_unproven].
 */
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct meta__column head_columns[] = {
	{ "place", -10 },   { "state", -9 },    { "says_place", -10 }, { "generation", 13 },
	{ "shard", 5 },     { "level", 5 },     { "count", 5 },        { "heap_start", 10 },
	{ "heap_dead", 9 }, { "checksum", -8 }, { "is", -8 },          { "first", -28 },
	{ "why", -1 },      { NULL, 0 },
};

static const struct meta__column leaf_columns[] = { META__RECORD_COLUMNS, { NULL, 0 } };

static const struct meta__column inner_columns[] = {
	{ "child", 5 }, { "place", -10 }, { "generation", 13 }, { "from_key", -1 }, { NULL, 0 },
};

static void cell_gen(struct meta__table *t, uint64_t gen)
{
	ASSERT(t->column[t->at].name);
	meta__cell_text(t, "%llu.%llu", (unsigned long long)(gen >> 32),
			(unsigned long long)(gen & UINT32_MAX));
}

static void cell_key(struct meta__table *t, const struct meta_key *key)
{
	ASSERT(t->column[t->at].name);
	meta__cell_text(t, "%llx.%llx.%u.%llx.%u.%llx", (unsigned long long)meta__key_dir(key),
			(unsigned long long)meta__key_hash(key), (uint32_t)meta__key_class(key),
			(unsigned long long)meta__key_uniq(key), (uint32_t)meta__key_kind(key),
			(unsigned long long)meta__key_index(key));
}

static struct meta__page_want says_itself(const void *page)
{
	const struct meta_page_disk *h = page;

	ASSERT(page);
	return (struct meta__page_want){ .baddr = le64_get(h->baddr),
					 .gen = le64_get(h->gen),
					 .shard = le32_get(h->shard),
					 .level = le16_get(h->level) };
}

static void head_row(const void *page, uint64_t baddr, const char *why, struct meta__table *t)
{
	const struct meta_page_disk *h = page;
	struct meta_key first = { { le64_get(h->first.w[0]), le64_get(h->first.w[1]),
				    le64_get(h->first.w[2]) } };

	ASSERT(t->at == 0);
	meta__cell_place(t, baddr);
	meta__cell_text(t, "%s", why ? "damaged" : "whole");
	meta__cell_place(t, le64_get(h->baddr));
	cell_gen(t, le64_get(h->gen));
	meta__cell(t, le32_get(h->shard));
	meta__cell(t, le16_get(h->level));
	meta__cell(t, le16_get(h->count));
	meta__cell(t, le16_get(h->heap_start));
	meta__cell(t, le16_get(h->heap_dead));
	meta__cell_text(t, "%08x", le32_get(h->crc32c));
	meta__cell_text(t, "%08x", crc32c((const uint8_t *)page + 4, META_PAGE_BYTES - 4));
	cell_key(t, &first);
	meta__cell_text(t, "%s", why ? why : "");
	ASSERT(t->at == 0);
}

static int leaf_rows(const void *page, const char *what, struct meta__table *t)
{
	const uint32_t shard = le32_get(((const struct meta_page_disk *)page)->shard);
	int err = 0;

	ASSERT(meta__page_count(page) > 0);
	meta__table_begin(t, what, leaf_columns);
	for (uint32_t i = 0; i < meta__page_count(page); i++) {
		struct meta_key key;
		const void *value;
		uint32_t len;

		meta__page_record(page, i, &key, &value, &len);
		if (meta__dump_record(t, shard, &key, false, value, len))
			err = -EUCLEAN;
	}
	ASSERT(t->at == 0);
	return err;
}

static void inner_rows(const void *page, const char *what, struct meta__table *t)
{
	ASSERT(meta__page_count(page) > 0);
	meta__table_begin(t, what, inner_columns);
	for (uint32_t i = 0; i < meta__page_count(page); i++) {
		struct meta_key key;
		uint64_t baddr, gen;

		meta__page_child(page, i, &key, &baddr, &gen);
		meta__cell(t, i);
		meta__cell_place(t, baddr);
		cell_gen(t, gen);
		cell_key(t, &key);
	}
	ASSERT(t->at == 0);
}

static int page_rows(struct meta_raw *r, uint64_t baddr, uint8_t *page, struct meta__table *t)
{
	const struct meta__page_want itself = says_itself(page);
	const char *why = meta__page_check(page, &itself), *what = "record";
	int err = 0;

	ASSERT(page);
	if (!why && itself.baddr != baddr)
		why = "it belongs elsewhere";
	else if (!why && itself.shard >= r->geo.nshards)
		why = "it is of no shard";
	meta__table_begin(t, "page", head_columns);
	head_row(page, baddr, why, t);
	if (why && meta__page_count(page) == 0)
		return -EUCLEAN; /* nothing in it can be shown */
	if (why) {
		meta__page_seal(page); /* (1) */
		what = "unproven";
		err = -EUCLEAN;
		if (meta__page_check(page, &itself))
			return err;
	}
	ASSERT(!why || err); /* (1) */
	if (itself.level)
		inner_rows(page, what, t);
	else if (leaf_rows(page, what, t))
		err = -EUCLEAN;
	return err;
}

int meta__dump_page(struct meta_raw *r, const char *arg, struct meta__table *t)
{
	const char *colon = strchr(arg, ':');
	uint64_t drive, block;
	uint8_t *page;
	char text[24];
	int err;

	ASSERT(arg);
	if (!colon || (size_t)(colon - arg) >= sizeof(text))
		return -EINVAL;
	memcpy(text, arg, (size_t)(colon - arg));
	text[colon - arg] = 0;
	if (meta__dump_number(text, META_DRIVES_MAX - 1, &drive) ||
	    meta__dump_number(colon + 1, META__MASK48, &block))
		return -EINVAL;
	page = aligned_alloc(4096, META_PAGE_BYTES);
	if (!page)
		return -ENOMEM;
	err = meta__raw_read(r, META_BADDR(drive, block), META_PAGE_BLOCKS, page);
	if (!err && le32_get(((const struct meta_page_disk *)page)->magic) != META_PAGE_MAGIC)
		err = -ENOENT;
	if (!err)
		err = page_rows(r, META_BADDR(drive, block), page, t);
	free(page);
	return err;
}

/* ---- the way of a path ------------------------------------------------------------------ */

static const struct meta__column way_columns[] = {
	{ "of", -16 },    { "shard", 5 }, { "level", 5 },  { "place", -10 }, { "generation", 13 },
	{ "follows", 7 }, { "count", 5 }, { "state", -1 }, { NULL, 0 },
};

/* Prints whether the record is in its place in the tree, or in the log. */
static int way_rows(struct meta_raw *r, const char *of, uint32_t shard, const struct meta_key *key,
		    struct meta__table *t)
{
	uint8_t value[META_VALUE_MAX];
	struct meta__raw_way way;
	uint32_t len;
	int err = meta__raw_get(r, shard, key, value, &len, &way);

	ASSERT(shard < r->geo.nshards);
	ASSERT(way.steps <= META_PAGE_LEVELS_MAX);
	for (uint32_t i = 0; i < way.steps; i++) {
		const struct meta__raw_step *s = &way.step[i];

		meta__cell_text(t, "%s", of);
		meta__cell(t, shard);
		meta__cell(t, s->page.level);
		meta__cell_place(t, s->page.baddr);
		cell_gen(t, s->page.gen);
		meta__cell(t, s->pos);
		meta__cell(t, s->count);
		meta__cell_text(t, "%s", s->why ? s->why : "whole");
		if (s->why)
			err = -EUCLEAN;
	}
	ASSERT(t->at == 0);
	return err == -EIO ? -EUCLEAN : err;
}

static int follow(struct meta_raw *r, struct meta__raw_path *p, struct meta__table *t)
{
	char of[META_NAME_MAX + 1];
	int err = 0, rc;

	while ((rc = meta__raw_path_next(r, p)) == 1) {
		struct meta_key key = meta__obj_key(&p->name.handle, META__KIND_INODE, 0);

		(void)snprintf(of, sizeof(of), "%.*s", (int)p->name.len, p->name.bytes);
		meta__table_begin(t, "way", way_columns);
		if (way_rows(r, of, p->shard, &p->key, t))
			err = -EUCLEAN;
		if (way_rows(r, "its inode", meta__dir_shard(&r->m, p->name.handle.dir), &key, t))
			err = -EUCLEAN;
		meta__table_begin(t, "record", leaf_columns);
		if (meta__dump_record(t, p->shard, &p->key, false, p->value, p->value_len))
			err = -EUCLEAN;
	}
	ASSERT(rc <= 0);
	if (rc == -EIO || rc == -ENOENT) { /* where it ended */
		meta__table_begin(t, "way", way_columns);
		if (way_rows(r, "not found", p->shard, &p->key, t) == -EUCLEAN)
			rc = -EUCLEAN;
	}
	return rc ? rc : err;
}

int meta__dump_path(struct meta_raw *r, const char *arg, struct meta__table *t)
{
	const struct meta_handle root = { .dir = META_ROOT_DIR };
	const struct meta_key key = meta__obj_key(&root, META__KIND_INODE, 0);
	struct meta__raw_path p;
	int err = meta__raw_log_over(r, false);

	if (err)
		return err;
	if (!arg[strspn(arg, "/")]) { /* it has no name */
		meta__table_begin(t, "way", way_columns);
		return way_rows(r, "/", meta__dir_shard(&r->m, META_ROOT_DIR), &key, t);
	}
	ASSERT(r->over_log);
	meta__raw_path_begin(&p, arg);
	return follow(r, &p, t);
}
