/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Totals of whole trees, on a drive that says what no appliance wrote: records that are whole each,
 * and do not agree.  It is an error then, and never the end of the appliance, nor work without end.
 */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define BLOCK 4096u

static struct meta_world *w;
static struct fake *f;
static struct meta_attr a;
static uint8_t bytes[8 * BLOCK];

static void setup(void)
{
	w = meta_world_fake(91, 0, 0);
	f = container_of(w, struct fake, w);
	cr_assert_eq(sh_mkdir(w, "a"), 0);
	cr_assert_eq(sh_mkdir(w, "a/b"), 0);
	cr_assert_eq(sh_mkdir(w, "c"), 0);
	cr_assert_eq(sh_put(w, "a/b/f", 0, bytes, 5 * BLOCK), 0);
	meta_world_settle(w);
}

static void teardown(void)
{
	w->end(w);
}

TestSuite(meta_totals_bad, .init = setup, .fini = teardown);

static struct meta_attr stat_of(const char *path)
{
	cr_assert_eq(sh_stat(w, path, META_NOFOLLOW, &a), 0);
	return a;
}

/* Puts this record into the tree, in place of the old one. */
static void plant(uint32_t shard, struct meta_key key, const void *value, uint32_t len)
{
	struct record r = { .shard = shard, .key = key, .len = len, .value = malloc(len + 1) };

	cr_assert_not_null(r.value);
	memcpy(r.value, value, len);
	commit(f, &r, false);
}

static void plant_inode(const char *path, enum meta_type type, uint32_t flags, uint32_t nlink,
			uint64_t counted)
{
	const struct meta_handle h = stat_of(path).handle;
	const struct meta__inode in = {
		.handle = h,
		.shard = meta__dir_shard(w->m, h.dir),
		.type = type,
		.child = type == META_TYPE_DIR ? a.dir : 0,
		.mode = 0644,
		.nlink = nlink,
		.flags = flags & ~(nlink ? (uint32_t)META__INODE_HIDDEN : 0),
		.counted = counted,
	};
	uint8_t value[META_VALUE_MAX];
	const uint32_t len = meta__inode_build(&in, value);

	value[offsetof(struct meta_inode_disk, fields)] |= (uint8_t)flags;
	plant(meta__dir_shard(w->m, h.dir), meta__obj_key(&h, META__KIND_INODE, 0), value, len);
}

static void plant_links(const struct meta_handle *h, uint64_t dir, uint64_t names)
{
	const le64 value = le64_of(names);

	plant(meta__dir_shard(w->m, h->dir), meta__obj_key(h, META__KIND_LINKS, dir), &value,
	      sizeof(value));
}

static void plant_pending(uint32_t shard, struct meta_key key)
{
	const le64 round = le64_of(0);

	plant(shard, key, &round, sizeof(round));
}

/* The name of `path` is said to be of another type, or of another object. */
static void plant_name(const char *path, const struct meta_handle *h, uint64_t child,
		       enum meta_type type)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char dir[64] = "/";
	struct meta_op op = { .type = META_OP_STAT };
	struct meta__at at;

	if (slash)
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	stat_of(dir);
	meta__tx_begin(w->m, &op);
	cr_assert_eq(meta__lookup(w->m, a.dir, name, (uint32_t)strlen(name), &at), 0);
	cr_assert(at.found);
	at.last = META__LAST_NAME;
	cr_assert_eq(meta__name_put(w->m, &at, h, child, type), 0);
	meta__tx_apply(w->m);
}

static struct meta_totals of(const char *path)
{
	struct meta_totals t;
	struct meta_op op = sh_op(META_OP_TOTALS, path);

	op.totals = &t;
	cr_assert_eq(meta_world_run(w, &op), 0);
	return t;
}

/* Rounds end, and soon: so many changes at most. */
static bool is_quiet_soon(void)
{
	const uint64_t before = f->last;

	for (uint32_t i = 0; i < 20 && meta_totals_pending(w->m); i++) {
		meta_totals_round(w->m);
		for (uint32_t steps = 0; w->m->ops->passes && steps < 100; steps++)
			w->step(w);
	}
	return !meta_totals_pending(w->m) && f->last - before < 100;
}

/* ---- PENDING records ---------------------------------------------------------------------- */

Test(meta_totals_bad, who_is_pending_in_a_shard_that_is_not_its_own)
{
	const uint64_t dir = stat_of("a/b").dir;

	plant_pending((meta__dir_shard(w->m, dir) + 1) % SHARDS, meta__pending_key(dir));
	w->remount(w);
	cr_assert(is_quiet_soon());
	cr_assert_not(of("/").settled);
}

Test(meta_totals_bad, a_pending_record_with_more_in_its_key)
{
	const uint64_t dir = stat_of("a/b").dir;

	plant_pending(meta__dir_shard(w->m, dir),
		      meta__key(0, 0, META__CLASS_PENDING, 0, META__KIND_INODE, dir));
	w->remount(w);
	cr_assert(is_quiet_soon());
}

Test(meta_totals_bad, directories_that_are_each_other_s_parents)
{
	const char *const path[3] = { "a", "c", "a/b" };
	uint64_t dir[3];

	for (uint32_t i = 0; i < 3; i++)
		dir[i] = stat_of(path[i]).dir;
	for (uint32_t i = 0; i < 3; i++) {
		const struct meta__dir d = { .count = 1,
					     .subdirs = 1,
					     .inode = stat_of(path[i]).handle,
					     .parent = dir[i < 2 ? !i : i], /* or its own */
					     .pending = true };
		struct meta_dir_disk disk;

		meta__dir_build(&d, &disk);
		plant(meta__dir_shard(w->m, dir[i]), meta__dir_key(dir[i]), &disk, sizeof(disk));
		plant_pending(meta__dir_shard(w->m, dir[i]), meta__pending_key(dir[i]));
	}
	w->remount(w);
	for (uint32_t i = 0; i < 20; i++) {
		meta_totals_round(w->m);
		for (uint32_t steps = 0; w->m->ops->passes && steps < 20000; steps++)
			w->step(w);
		cr_assert_not(w->m->ops->passes, "a round ends");
	}
}

Test(meta_totals_bad, one_directory_that_cannot_be_passed_up_keeps_no_other_from_it)
{
	const uint64_t a_dir = stat_of("a").dir;
	char path[32];

	plant(meta__dir_shard(w->m, a_dir), meta__totals_key(a_dir), "short", 5);
	plant_pending(meta__dir_shard(w->m, stat_of("a/b").dir), meta__pending_key(a.dir));
	for (uint32_t i = 0; i < 60; i++) {
		snprintf(path, sizeof(path), "c/%u", i);
		cr_assert_eq(sh_mkdir(w, path), 0);
	}
	for (uint32_t i = 0; i < 60; i++) { /* some are in the shard of a/b, behind it */
		snprintf(path, sizeof(path), "c/%u/f", i);
		cr_assert_eq(sh_put(w, path, 0, bytes, BLOCK), 0);
		cr_assert_eq(sh_put(w, "a/b/g", 0, bytes, (1 + i % 2) * BLOCK), 0);
		cr_assert(is_quiet_soon());
		cr_assert_eq(of("c").bytes, (i + 1) * BLOCK);
		cr_assert_not(of("c").settled);
	}
}

/* ---- names and inodes ------------------------------------------------------------------------ */

Test(meta_totals_bad, a_hidden_file_with_a_name_gets_another)
{
	plant_inode("a/b/f", META_TYPE_FILE, META__INODE_HIDDEN, 0, 0);
	cr_assert_eq(sh_link(w, "a/b/f", "c/g"), -EIO);
}

Test(meta_totals_bad, a_hidden_file_with_a_name_moves)
{
	plant_inode("a/b/f", META_TYPE_FILE, META__INODE_HIDDEN, 0, 0);
	cr_assert_eq(sh_rename(w, "a/b/f", "c/g", 0), -EIO);
}

Test(meta_totals_bad, a_directory_whose_name_says_file_gets_another)
{
	const struct meta_handle h = stat_of("c").handle;

	plant_name("c", &h, 0, META_TYPE_FILE);
	cr_assert_eq(sh_link(w, "c", "a/g"), -EIO);
}

Test(meta_totals_bad, a_file_whose_name_says_directory_goes_with_its_tree)
{
	const struct meta_handle h = stat_of("a/b/f").handle;
	struct meta_op op = sh_op(META_OP_RMTREE, "c");

	plant_name("c", &h, stat_of("c").dir, META_TYPE_DIR);
	cr_assert_eq(meta_world_run(w, &op), -EIO);
}

Test(meta_totals_bad, a_name_in_no_directory_is_to_count)
{
	const struct meta_handle h = stat_of("a/b/f").handle;
	const uint64_t b = stat_of("a/b").dir;

	plant_inode("a/b/f", META_TYPE_FILE, META__INODE_LINKED, 3, b);
	plant_links(&h, b, 1);
	plant_links(&h, 0, 2);
	cr_assert_eq(sh_unlink(w, "a/b/f"), -EIO);
}

Test(meta_totals_bad, a_hidden_file_with_several_names_is_put)
{
	const struct meta_handle h = stat_of("a/b/f").handle;

	plant_inode("a/b/f", META_TYPE_FILE, META__INODE_HIDDEN | META__INODE_LINKED, 2,
		    stat_of("a/b").dir);
	cr_assert_eq(sh_put_commit(w, &h, "c/g"), -EIO);
}

Test(meta_totals_bad, a_name_whose_number_none_has_gets_another_file)
{
	struct meta_key key = meta__pending_key(0);
	const struct meta_handle h = stat_of("a/b/f").handle;
	const uint64_t b = stat_of("a/b").dir;
	struct record name = { 0 };

	for (uint32_t i = 0; i < f->records; i++) {
		key = f->record[i].key;
		if (meta__key_class(&key) == META__CLASS_NAME && meta__key_dir(&key) == b)
			name = f->record[i];
	}
	plant(name.shard, meta__key(b, h.hash, META__CLASS_NAME, 0, META__KIND_NONE, 0), name.value,
	      name.len);
	cr_assert_eq(sh_put(w, "a/b/f", 0, bytes, BLOCK), -EIO);
}
