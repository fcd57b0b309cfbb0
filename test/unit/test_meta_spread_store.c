/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Directories that are spread, on drives: who reads them without the store's plans (the check, the
 * scrub, the dump, a salvage) knows of their fragments.
 */
#include "meta/format/meta_page.h"
#include "meta/plans/meta_plan.h"
#include "meta/offline/meta_raw_internal.h"
#include "test/lib/meta_rig.h"
#include "test/lib/raw_mem.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BYTES (8u << 20)
#define FILES       40u

static struct rig r;
static struct meta_check check;
static uint64_t dir;

static struct meta_attr stat_of(const char *path)
{
	struct meta_op op = { .type = META_OP_STAT,
			      .target = { .path = path, .path_len = (uint32_t)strlen(path) } };

	cr_assert_eq(rig_run(&r, &op), 0, "%s", path);
	return op.attr;
}

static void setup(void)
{
	char path[32];

	rig_make(&r, 9, 1, DRIVE_BYTES, 4, true);
	r.conf.spread_at = 3;
	cr_assert_eq(rig_format(&r), 0);
	cr_assert_eq(rig_mkdir(&r, "/d"), 0);
	for (uint32_t i = 0; i < FILES; i++) {
		(void)snprintf(path, sizeof(path), "/d/f%u", i);
		cr_assert_eq(rig_put(&r, path, i % 3, i + 1), 0);
	}
	dir = stat_of("/d").dir;
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
}

static void teardown(void)
{
	rig_end(&r);
}

TestSuite(meta_spread_store, .init = setup, .fini = teardown, .timeout = 60);

/* ---- the check ------------------------------------------------------------------------------- */

static uint8_t *leaf_of(uint64_t of)
{
	const struct meta__shard *shard = &r.m->shard[meta__dir_shard(r.m, of)];

	cr_assert_eq(shard->height, 1, "this test's trees are single leaves");
	return rig_block(&r, shard->root_baddr);
}

/* Puts the changed page on the drive.  Returns true if the check refuses it, with `what` in its
 * message. */
static bool is_refused(uint8_t *page, const char *what)
{
	struct meta_page_disk *head = (struct meta_page_disk *)page;
	bool named = false;

	head->crc32c = le32_of(crc32c(page + 4, META_PAGE_BYTES - 4));
	memcpy(r.view[0], r.image[0], DRIVE_BYTES);
	if (rig_check(&r, &check) != -EUCLEAN)
		return false;
	for (uint32_t i = 0; i < ARRAY_LEN(check.first); i++)
		named |= strstr(check.first[i], what) != NULL;
	if (!named)
		fprintf(stderr, "it says: %s\n", check.first[0]);
	return named;
}

static struct meta__dir record_of(uint64_t of, uint32_t *pos)
{
	const struct meta_key key = meta__dir_key(of);
	struct meta__dir d;
	const void *value;
	uint32_t len;

	cr_assert(meta__leaf_find(leaf_of(of), &key, pos));
	meta__leaf_value(leaf_of(of), *pos, &value, &len);
	cr_assert_eq(meta__dir_parse(value, len, &d), 0);
	return d;
}

static void change_record(uint64_t of, const struct meta__dir *d)
{
	struct meta_dir_disk disk;
	uint32_t pos;

	(void)record_of(of, &pos);
	meta__dir_build(d, &disk);
	cr_assert(meta__leaf_replace(leaf_of(of), pos, &disk, sizeof(disk)));
}

Test(meta_spread_store, is_sound_and_its_fragments_are_no_directories)
{
	struct meta_statfs fs;
	struct meta_op op = { .type = META_OP_STATFS, .statfs = &fs };

	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
	cr_assert_eq(check.names, FILES + 1);
	cr_assert_eq(check.inodes, FILES + 2);
	cr_assert_eq(rig_run(&r, &op), 0);
	cr_assert_eq(fs.dirs, 2);
	cr_assert_eq(fs.files, FILES);
}

Test(meta_spread_store, a_fragment_that_the_directory_does_not_know_is_wrong)
{
	uint32_t pos;
	struct meta__dir d = record_of(dir, &pos);

	d.fragments &= ~(1u << 5);
	change_record(dir, &d);
	cr_assert(is_refused(leaf_of(dir), "part of a directory of"));
}

Test(meta_spread_store, a_fragment_without_a_record_is_wrong)
{
	uint32_t pos;
	const uint64_t fragment = meta__fragment_at(dir, 5);

	(void)record_of(fragment, &pos);
	meta__leaf_remove(leaf_of(fragment), pos);
	cr_assert(is_refused(leaf_of(fragment), "directory of"));
}

Test(meta_spread_store, a_fragment_of_another_directory_is_wrong)
{
	uint32_t pos;
	const uint64_t fragment = meta__fragment_at(dir, 5);
	struct meta__dir d = record_of(fragment, &pos);

	d.parent = META_ROOT_DIR;
	change_record(fragment, &d);
	cr_assert(is_refused(leaf_of(fragment), "is not what it should be"));
}

/* Readers refuse such a record, too: it would lead them into another directory. */
Test(meta_spread_store, a_record_that_cannot_be_a_fragments_is_not_believed)
{
	uint32_t pos;
	const uint64_t fragment = meta__fragment_at(dir, 5);
	struct meta__dir d = record_of(fragment, &pos);
	struct meta_op op = { .type = META_OP_STAT, .target = { .path = "/d", .path_len = 2 } };

	d.spread = true;
	change_record(fragment, &d);
	cr_assert(is_refused(leaf_of(fragment), "is not what it should be"));
	rig_kill(&r);
	cr_assert_eq(rig_mount(&r), 0);
	cr_assert_eq(rig_run(&r, &op), -EIO);
	cr_assert(strstr(meta_error(r.m), "bad directory record"), "%s", meta_error(r.m));
}

Test(meta_spread_store, a_fragment_that_counts_wrongly_is_wrong)
{
	uint32_t pos;
	const uint64_t fragment = meta__fragment_at(dir, 5);
	struct meta__dir d = record_of(fragment, &pos);

	d.count++;
	change_record(fragment, &d);
	cr_assert(is_refused(leaf_of(fragment), "counts"));
}

/* The store is made to believe that no name lies in the directory itself. */
static void forget_home(void)
{
	for (uint32_t i = 0; i < META__HOMES; i++) {
		struct meta__home *h = &r.m->ops->home[i];

		*h = (struct meta__home){ .dir = dir };
		memset(h->seen, 0xff, sizeof(h->seen));
	}
}

Test(meta_spread_store, a_name_in_the_directory_and_in_a_fragment_is_wrong)
{
	bool named = false;

	(void)stat_of("/d/f0"); /* that it is spread is known now */
	(void)stat_of("/d/f30");
	forget_home();
	cr_assert_eq(rig_put(&r, "/d/f2", 0, 7), 0);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	cr_assert_eq(stat_of("/d").size, FILES + 1, "it did not find the one that is there");
	cr_assert_eq(rig_check(&r, &check), -EUCLEAN);
	for (uint32_t i = 0; i < ARRAY_LEN(check.first); i++)
		named |= strstr(check.first[i], "a part: f2") != NULL;
	cr_assert(named, "%s", check.first[0]);
	cr_assert_eq(check.problems, 1);
}

Test(meta_spread_store, a_name_in_the_wrong_fragment_is_wrong)
{
	const uint64_t fragment = meta__fragment_at(dir, 5);
	uint8_t *page = leaf_of(fragment);
	struct meta_key key;
	uint8_t copy[META_VALUE_MAX];
	const void *value;
	uint32_t pos = 0, len;

	for (; pos < meta__page_count(page); pos++) {
		key = meta__leaf_key(page, pos);
		if (meta__key_dir(&key) == fragment && meta__key_class(&key) == META__CLASS_NAME)
			break;
	}
	cr_assert_lt(pos, meta__page_count(page), "the part has a name");
	meta__leaf_value(page, pos, &value, &len);
	memcpy(copy, value, len);
	meta__leaf_remove(page, pos);
	/* The same name, as if its hash led there: before all others of the fragment. */
	key = meta__key(fragment, meta__key_hash(&key) & 0xfff, META__CLASS_NAME,
			meta__key_uniq(&key), META__KIND_NONE, 0);
	cr_assert_not(meta__leaf_find(page, &key, &pos));
	meta__leaf_insert(page, pos, &key, copy, len);
	cr_assert(is_refused(page, "a name is malformed"));
}

/* ---- what the directory itself has no names of ---------------------------------------- */

static bool lacks(const char *name)
{
	uint64_t seq;

	return meta__home_lacks(r.m, dir, meta__name_hash(r.m, dir, name, (uint32_t)strlen(name)),
				&seq);
}

/* seq: of the newest change that it has seen. */
static int look_for(enum meta_op_type type, const char *name, uint64_t *seq)
{
	char path[64];
	struct meta_op op = { .type = type, .wall_ns = 5 };
	int rc;

	(void)snprintf(path, sizeof(path), "/d/%s", name);
	op.target = (struct meta_target){ .path = path, .path_len = (uint32_t)strlen(path) };
	rc = rig_run(&r, &op);
	*seq = op.seen_seq;
	return rc;
}

/* /d has so many names: 500 of its own, on some leaves, the others in fragments. */
static void many_names(uint32_t count)
{
	char name[32];

	rig_end(&r);
	rig_make(&r, 9, 1, DRIVE_BYTES, 4, true);
	r.conf.spread_at = 500;
	cr_assert_eq(rig_format(&r), 0);
	cr_assert_eq(rig_mkdir(&r, "/d"), 0);
	dir = stat_of("/d").dir;
	for (uint32_t i = 0; i < count; i++) {
		(void)snprintf(name, sizeof(name), "/d/f%u", i);
		cr_assert_eq(rig_put(&r, name, 0, i + 1), 0);
	}
}

static void look_around(void)
{
	char name[32];
	uint64_t seq;

	for (uint32_t i = 0; i < 400; i++) {
		(void)snprintf(name, sizeof(name), "none%u", i);
		cr_assert_eq(look_for(META_OP_STAT, name, &seq), -ENOENT);
	}
}

Test(meta_spread_store, names_that_are_in_fragments_only_need_not_be_looked_for_elsewhere)
{
	uint32_t known = 0;
	char name[32];
	uint64_t seq;

	many_names(600);
	look_around();
	for (uint32_t i = 0; i < 500; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		cr_assert_not(lacks(name), "%s is there", name);
		cr_assert_eq(look_for(META_OP_STAT, name, &seq), 0);
	}
	for (uint32_t i = 1000; i < 2000; i++) {
		(void)snprintf(name, sizeof(name), "none%u", i);
		known += lacks(name);
	}
	cr_assert_gt(known, 950, "of names that were never looked for: %u", known);
}

/* A cut could bring back the name that went; then nobody may have been told that it is gone. */
Test(meta_spread_store, who_knows_that_it_is_not_there_has_seen_what_took_it_away)
{
	uint64_t gone, seq;
	uint32_t known = 0;
	char name[32];

	many_names(500);
	cr_assert_eq(look_for(META_OP_UNLINK, "f3", &gone), 0);
	look_around();
	for (uint32_t i = 1000; i < 1100; i++) {
		(void)snprintf(name, sizeof(name), "none%u", i);
		if (!lacks(name))
			continue;
		known++;
		cr_assert_eq(look_for(META_OP_STAT, name, &seq), -ENOENT);
		cr_assert_geq(seq, gone);
	}
	cr_assert_gt(known, 50);
}

/* ---- dump and salvage -------------------------------------------------------------- */

static uint32_t entries(struct meta_raw *raw)
{
	struct meta_raw_place at = { 0 };
	static bool seen[FILES];
	struct meta_raw_entry e;
	uint32_t count = 0;
	unsigned n;

	memset(seen, 0, sizeof(seen));
	while (meta_raw_entry_next(raw, dir, &at, &e) == 0) {
		cr_assert_eq(sscanf(e.name, "f%u", &n), 1);
		cr_assert_not(seen[n]);
		seen[n] = true;
		count++;
	}
	return count;
}

static struct meta_raw *look(struct raw_mem *mem)
{
	struct meta_raw *raw;
	struct meta_raw_loss loss;

	cr_assert_eq(meta_raw_open(&raw, &mem->from), 0);
	cr_assert_str_eq(meta_raw_problem(raw), "");
	cr_assert_eq(meta_raw_salvage(raw, &loss), 0);
	return raw;
}

Test(meta_spread_store, all_names_are_found_in_a_store_that_nobody_mounted)
{
	struct raw_mem mem;
	struct meta_raw *raw;
	int err;
	char *text;

	cr_assert_eq(rig_stop(&r), 0);
	raw_mem_init(&mem, r.image, 1, DRIVE_BYTES);
	raw = look(&mem);
	cr_assert_eq(entries(raw), FILES);
	meta_raw_close(raw);
	for (uint32_t i = 0; i < FILES; i += 13) {
		char path[32];

		(void)snprintf(path, sizeof(path), "/d/f%u", i);
		text = raw_mem_dump(&mem, "file", path, false, &err);
		cr_assert_eq(err, 0, "%s: %s", path, text);
		free(text);
	}
	text = raw_mem_dump(&mem, "path", "/d", false, &err);
	cr_assert_eq(err, 0);
	free(text);
	text = raw_mem_dump(&mem, "file", "/d/f1000", false, &err);
	cr_assert_eq(err, -ENOENT);
	free(text);
	cr_assert_eq(rig_mount(&r), 0);
}

/* The directory's own record is lost: which fragments it had has to be tried. */
Test(meta_spread_store, names_in_fragments_outlive_the_directorys_own_page)
{
	struct raw_mem mem;
	struct meta_raw *raw;
	uint32_t lost = 0;
	uint8_t *page = leaf_of(dir); /* a stop changes no page of a store that was not changed */

	cr_assert_eq(rig_stop(&r), 0);
	for (uint32_t i = 0; i < meta__page_count(page); i++) {
		const struct meta_key key = meta__leaf_key(page, i);

		lost += meta__whole_of(meta__key_dir(&key)) == dir &&
			meta__key_class(&key) == META__CLASS_NAME;
	}
	cr_assert_eq(le32_get(((struct meta_page_disk *)page)->magic), META_PAGE_MAGIC);
	memset(page, 0x5a, META_PAGE_BYTES);
	raw_mem_init(&mem, r.image, 1, DRIVE_BYTES);
	raw = look(&mem);
	cr_assert_lt(lost, FILES);
	cr_assert_geq(entries(raw), FILES - lost, "%u lay in that page", lost);
	meta_raw_close(raw);
}

/* ---- the scrub ----------------------------------------------------------------------- */

static uint64_t place(const char *path)
{
	struct meta_run runs[128];
	uint32_t crcs[META_IO_BLOCKS_MAX];
	char small[4096];
	struct meta_op op = { .type = META_OP_READ,
			      .target = { .path = path, .path_len = (uint32_t)strlen(path) },
			      .length = 4096,
			      .runs = runs,
			      .crcs = crcs,
			      .runs_max = 128,
			      .blocks_max = 1,
			      .inline_buf = small };

	cr_assert_eq(rig_run(&r, &op), 0, "%s", path);
	meta_read_end(r.m, &op);
	cr_assert_eq(op.nruns, 1);
	return runs[0].baddr;
}

/* All that the scrub says in a round. */
static const char *round_of(struct meta_scrub *s)
{
	static uint8_t bytes[META_SCRUB_BLOCKS_MAX * 4096];
	static char said[4096];
	struct meta_run run;

	said[0] = 0;
	for (;;) {
		switch (meta_scrub_next(s, &run)) {
		case META_SCRUB_READ:
			memcpy(bytes, r.view[0] + META_BADDR_BLOCK(run.baddr) * 4096,
			       run.nblocks * 4096ul);
			meta_scrub_done(s, bytes, 0);
			break;
		case META_SCRUB_FOUND:
			(void)snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n",
				       meta_scrub_line(s));
			break;
		case META_SCRUB_ROUND:
			return said;
		case META_SCRUB_WRITE: /* this store has one copy of each block */
		case META_SCRUB_MORE:
		case META_SCRUB_LISTED:
		case META_SCRUB_IDLE:
			break;
		}
	}
}

Test(meta_spread_store, damage_in_a_fragment_is_named_by_the_files_path)
{
	struct meta_scrub *s;
	const char *said;
	uint64_t at;

	cr_assert_eq(rig_mkdir(&r, "/d/sub"), 0);
	cr_assert_eq(rig_put(&r, "/d/sub/deep", 2, 1), 0);
	cr_assert_eq(meta_scrub_create(&s, r.m), 0);
	at = META_BADDR_BLOCK(place("/d/f32")) * 4096;
	r.view[0][at] ^= 1;
	at = META_BADDR_BLOCK(place("/d/sub/deep")) * 4096;
	r.view[0][at] ^= 1;
	said = round_of(s);
	cr_assert(strstr(said, "/d/f32: block 0 of the file"), "%s", said);
	cr_assert(strstr(said, "/d/sub/deep: block 0 of the file"), "%s", said);
	meta_scrub_destroy(s);
}

/* A leaf that begins with something of a fragment of /d. */
static uint64_t leaf_of_a_fragment(void)
{
	for (uint32_t shard = 0; shard < r.m->nshards; shard++) {
		const void *root = rig_block(&r, r.m->shard[shard].root_baddr);

		for (uint32_t i = 1; r.m->shard[shard].height == 2 && i < meta__page_count(root);
		     i++) {
			const struct meta_key first = meta__inner_key(root, i);
			uint64_t baddr, gen;

			meta__inner_child(root, i, &baddr, &gen);
			if (meta__is_fragment(meta__key_dir(&first)))
				return baddr;
		}
	}
	return 0;
}

Test(meta_spread_store, a_damaged_page_of_a_fragment_is_named_by_the_directory)
{
	struct meta_scrub *s;
	const char *said;
	char path[32];
	uint64_t leaf;

	for (uint32_t i = FILES; i < 900; i++) {
		(void)snprintf(path, sizeof(path), "/d/f%u", i);
		cr_assert_eq(rig_put(&r, path, 0, i), 0);
	}
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	leaf = leaf_of_a_fragment();
	cr_assert_neq(leaf, 0);
	cr_assert_eq(meta_scrub_create(&s, r.m), 0);
	r.view[0][META_BADDR_BLOCK(leaf) * 4096 + 200] ^= 1;
	said = round_of(s);
	cr_assert(strstr(said, "a page of the index"), "%s", said);
	cr_assert(strstr(said, "with it is what stands from /d on"), "%s", said);
	meta_scrub_destroy(s);
}
