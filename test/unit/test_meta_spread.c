/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Directories that are spread over shards (meta_spread.c); here from three names on. */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define FILES 300u

static struct meta_world *w;
static struct meta_attr a, b;
static bool seen[2 * FILES];
static _Alignas(8) uint8_t buf[2048];

static void setup(void)
{
	w = meta_world_fake(41, 10, 5);
	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &a), 0);
}

static void teardown(void)
{
	cr_assert_eq(meta_fake_pending(w), 0);
	w->end(w);
}

TestSuite(meta_spread, .init = setup, .fini = teardown);

static char *path_of(const char *dir, uint32_t i)
{
	static char path[2][64];
	static uint32_t turn;

	snprintf(path[++turn % 2], sizeof(path[0]), "%s/f%u", dir, i);
	return path[turn % 2];
}

static void fill(const char *dir, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		cr_assert_eq(sh_put(w, path_of(dir, i), META_EXCL, "1234567", i % 7), 0);
}

/* Returns the directory or fragment that has the name. */
static uint64_t stands_in(uint64_t dir, const char *name)
{
	struct meta_op op = { .type = META_OP_STAT };
	struct meta__at at;
	int rc;

	do {
		meta__tx_begin(w->m, &op);
		rc = meta__lookup(w->m, dir, name, (uint32_t)strlen(name), &at);
		while (op.misses)
			w->step(w);
	} while (rc == META__MISSES);
	cr_assert_eq(rc, 0);
	cr_assert(at.found, "%s", name);
	return at.dir;
}

static struct meta__dir record_of(uint64_t dir)
{
	struct meta_op op = { .type = META_OP_STAT };
	struct meta__dir d;
	int rc;

	do {
		meta__tx_begin(w->m, &op);
		rc = meta__dir_load(w->m, dir, &d);
		while (op.misses)
			w->step(w);
	} while (rc == META__MISSES);
	cr_assert_eq(rc, 0);
	return d;
}

Test(meta_spread, names_go_to_the_fragments_for_their_hashes_from_a_number_on)
{
	uint64_t shards = 0, fragments = 0;
	char name[16];

	fill("d", 0, 100);
	for (uint32_t i = 0; i < 100; i++) {
		uint64_t in;

		snprintf(name, sizeof(name), "f%u", i);
		in = stands_in(a.dir, name);
		cr_assert_eq(meta__is_fragment(in), i >= SPREAD_AT, "%s", name);
		cr_assert_eq(meta__whole_of(in), a.dir);
		if (meta__is_fragment(in)) {
			cr_assert_eq(in, meta__fragment_of(
						 a.dir, meta__name_hash(w->m, a.dir, name,
									(uint32_t)strlen(name))));
			fragments |= 1ull << meta__fragment_index(in);
		}
		shards |= 1ull << meta__dir_shard(w->m, in);
		cr_assert_eq(sh_stat(w, path_of("d", i), 0, &b), 0);
		cr_assert_eq(b.size, i % 7);
	}
	cr_assert_eq(fragments, 0xffff);
	cr_assert_geq(__builtin_popcountll(shards), 5, "of 8: %llx", (unsigned long long)shards);
	cr_assert_eq(record_of(a.dir).count, SPREAD_AT);
	cr_assert_eq(record_of(a.dir).fragments, 0xffff);
}

Test(meta_spread, a_store_that_was_formatted_before_there_were_fragments_has_none)
{
	w->m->spread_at = 0;
	fill("d", 0, 100);
	cr_assert_not(record_of(a.dir).spread);
	cr_assert_eq(record_of(a.dir).count, 100);
}

Test(meta_spread, the_whole_counts_and_a_name_is_there_once)
{
	fill("d", 0, FILES);
	w->remount(w);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_eq(b.size, FILES);
	cr_assert_eq(b.nlink, 2);
	cr_assert_eq(sh_count(w, "d", 0), FILES);
	cr_assert_eq(sh_count(w, "d", 7), FILES);
	for (uint32_t i = 0; i < FILES; i += 37) {
		cr_assert_eq(sh_put(w, path_of("d", i), META_EXCL, "x", 1), -EEXIST);
		cr_assert_eq(sh_put(w, path_of("d", i), 0, "xyz", 3), 0);
		cr_assert_eq(sh_mkdir(w, path_of("d", i)), -EEXIST);
	}
	cr_assert_eq(sh_count(w, "d", 0), FILES);
	for (uint32_t i = 0; i < FILES; i++)
		cr_assert_eq(sh_unlink(w, path_of("d", i)), 0);
	cr_assert_eq(sh_unlink(w, path_of("d", 0)), -ENOENT);
	cr_assert_eq(sh_unlink(w, path_of("d", 200)), -ENOENT);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_eq(b.size, 0);
	cr_assert_eq(sh_count(w, "d", 0), 0);
}

/* One page of a listing; each name is seen once. */
static void list_page(struct meta_op *op)
{
	cr_assert_eq(meta_world_run(w, op), 0);
	for (uint32_t i = 0, at = 0; i < op->list_count; i++) {
		struct meta_dirent e;
		unsigned n;

		memcpy(&e, buf + at, sizeof(e));
		cr_assert_eq(sscanf((char *)buf + at + sizeof(e), "f%u", &n), 1);
		cr_assert_not(seen[n], "f%u comes twice", n);
		seen[n] = true;
		at += e.entry_bytes;
	}
}

/* It becomes spread while it is listed. */
Test(meta_spread, what_stays_is_listed_once_while_others_come_and_go)
{
	struct meta_op op = sh_op(META_OP_LIST, "d");
	uint32_t gone = 0, came = FILES;

	w->m->spread_at = FILES + 1;
	fill("d", 0, FILES);
	op.list_out = buf;
	op.list_max_bytes = sizeof(buf);
	while (!op.list_end) {
		list_page(&op);
		if (gone + 2 < FILES && came < 2 * FILES) {
			cr_assert_eq(sh_unlink(w, path_of("d", gone)), 0);
			fill("d", came, came + 2);
			came += 2;
			gone += 2;
		}
	}
	cr_assert(record_of(a.dir).spread);
	for (uint32_t i = 1; i < FILES; i += 2)
		cr_assert(seen[i], "f%u was there throughout", i);
}

Test(meta_spread, a_cookie_of_no_fragment_is_an_error)
{
	struct meta_op op = sh_op(META_OP_LIST, "d");

	op.list_out = buf;
	op.list_max_bytes = sizeof(buf);
	op.cookie.fragment = 1; /* it is not spread */
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	fill("d", 0, 200);
	op.cookie.fragment = META__FRAGMENTS;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_gt(op.list_count, 0, "of the last part");
	op.cookie = (struct meta_cookie){ .fragment = META__FRAGMENTS + 1 };
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
}

/* A directory's number may leave no room for those of its fragments: they belong to other
 * directories. */
Test(meta_spread, a_cookie_leads_into_no_other_directory)
{
	struct meta_op op;
	uint64_t lower;

	fill("d", 0, 200);
	lower = a.dir & META__COUNTER_MASK;
	for (uint32_t s = 0; s < w->m->nshards; s++)
		w->m->shard[s].dir_next = 1ull << META__FRAGMENT_SHIFT | lower;
	for (uint32_t i = 0; i < 30; i++) { /* one of them in the shard that gave d its number */
		char path[16];

		snprintf(path, sizeof(path), "e%u", i);
		cr_assert_eq(sh_mkdir(w, path), 0);
		cr_assert_eq(sh_stat(w, path, 0, &b), 0);
		op = sh_op(META_OP_LIST, path);
		op.list_out = buf;
		op.list_max_bytes = sizeof(buf);
		for (op.cookie.fragment = 1; op.cookie.fragment <= META__FRAGMENTS;
		     op.cookie.fragment++)
			cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	}
}

Test(meta_spread, directories_in_fragments_know_the_whole_as_their_parent)
{
	fill("d", 0, 10);
	cr_assert_eq(sh_mkdir(w, "d/sub"), 0);
	cr_assert_eq(sh_mkdir(w, "d/sub/deep"), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_eq(b.size, 11);
	cr_assert_eq(b.nlink, 3);
	cr_assert_eq(sh_stat(w, "d/sub/..", 0, &b), 0);
	cr_assert_eq(b.dir, a.dir);
	cr_assert_eq(sh_stat(w, "d/sub/deep/../../f7", 0, &b), 0);
	cr_assert_eq(sh_put(w, "d/sub/../new", META_EXCL, "x", 1), 0);
	cr_assert_eq(sh_rename(w, "d", "d/sub/deep/d", 0), -EINVAL);
	cr_assert_eq(sh_rename(w, "d/sub", "d/sub/deep/sub", 0), -EINVAL);
	cr_assert_eq(sh_rename(w, "d/sub", "d/other", 0), 0); /* another fragment */
	cr_assert_eq(sh_stat(w, "d/other/deep/../..", 0, &b), 0);
	cr_assert_eq(b.dir, a.dir);
	cr_assert_eq(sh_rename(w, "d/other", "out", 0), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_eq(b.size, 11);
	cr_assert_eq(b.nlink, 2);
	cr_assert_eq(sh_stat(w, "out/..", 0, &b), 0);
	cr_assert_eq(b.dir, META_ROOT_DIR);
}

Test(meta_spread, names_move_between_the_directory_and_its_fragments)
{
	fill("d", 0, 40);
	for (uint32_t i = 0; i < 40; i++)
		cr_assert_eq(sh_rename(w, path_of("d", i), path_of("d", 100 + i), 0), 0);
	cr_assert_eq(sh_rename(w, path_of("d", 100), path_of("d", 139), 0), 0); /* over another */
	cr_assert_eq(sh_rename(w, path_of("d", 101), path_of("d", 120), META_EXCHANGE), 0);
	cr_assert_eq(sh_stat(w, path_of("d", 101), 0, &b), 0);
	cr_assert_eq(b.size, 20 % 7);
	cr_assert_eq(sh_link(w, path_of("d", 102), "d/linked"), 0);
	cr_assert_eq(sh_unlink(w, path_of("d", 102)), 0);
	cr_assert_eq(sh_stat(w, "d/linked", 0, &b), 0);
	cr_assert_eq(b.nlink, 1);
	cr_assert_eq(record_of(a.dir).count, 0);
	cr_assert_eq(sh_count(w, "d", 0), 39);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_eq(b.size, 39);
}

static void set_mtime(int64_t ns)
{
	struct meta_op op = sh_op(META_OP_SETATTR, "d");

	op.set_mask = META_SET_MTIME;
	op.set.mtime_ns = ns;
	cr_assert_eq(meta_world_run(w, &op), 0);
}

/* The last event counts, whether it was in the directory, in a fragment, or a setattr. */
Test(meta_spread, mtime_is_that_of_the_last_change_or_as_set)
{
	const int64_t later = INT64_MAX / 2;

	fill("d", 0, 50);
	cr_assert_eq(sh_stat(w, "d", 0, &a), 0);
	cr_assert_eq(sh_put(w, "d/g", META_EXCL, "x", 1), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_gt(b.mtime_ns, a.mtime_ns);
	cr_assert_eq(b.ctime_ns, b.mtime_ns);
	set_mtime(5);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_eq(b.mtime_ns, 5, "though parts changed later than 5");
	set_mtime(later);
	cr_assert_eq(sh_unlink(w, path_of("d", 30)), 0); /* of a fragment */
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_lt(b.mtime_ns, later);
	cr_assert_gt(b.mtime_ns, a.mtime_ns);
	set_mtime(later);
	cr_assert_eq(sh_unlink(w, path_of("d", 0)), 0); /* of its own */
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_lt(b.mtime_ns, later);
	cr_assert_gt(b.mtime_ns, a.mtime_ns);
}

Test(meta_spread, an_empty_one_is_removed_with_its_fragments)
{
	const uint64_t before = meta_fake_records(w) - 3;

	fill("d", 0, 60);
	cr_assert_eq(sh_mkdir(w, "e"), 0);
	for (uint32_t i = 0; i < 60; i++) {
		cr_assert_eq(sh_rmdir(w, "d"), -ENOTEMPTY);
		cr_assert_eq(sh_rename(w, "e", "d", 0), -ENOTEMPTY);
		cr_assert_eq(sh_unlink(w, path_of("d", i)), 0);
	}
	cr_assert_eq(sh_rename(w, "e", "d", 0), 0); /* that there was goes */
	cr_assert_eq(sh_stat_handle(w, &a.handle, &b), -ESTALE);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_neq(b.dir, a.dir);
	fill("d", 0, 60);
	for (uint32_t i = 0; i < 60; i++)
		cr_assert_eq(sh_unlink(w, path_of("d", i)), 0);
	cr_assert_eq(sh_rmdir(w, "d"), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &b), -ENOENT);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_records(w), before, "records of its parts are left");
}

Test(meta_spread, a_tree_goes_with_the_fragments_of_all_that_is_in_it)
{
	const uint64_t before = meta_fake_records(w) - 3;
	struct meta_op op = sh_op(META_OP_RMTREE, "d");
	static uint8_t bytes[6 * BLOCK_SIZE];

	fill("d", 0, 100);
	for (uint32_t i = 0; i < 6; i++) {
		char dir[32];

		snprintf(dir, sizeof(dir), "d/s%u", i);
		cr_assert_eq(sh_mkdir(w, dir), 0);
		fill(dir, 0, 30);
		cr_assert_eq(sh_put(w, path_of(dir, 900), 0, bytes, sizeof(bytes)), 0);
	}
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &b), -ENOENT);
	for (uint32_t i = 0; i < 30; i++) {
		w->step(w);
		w->remount(w); /* it goes on where it was */
	}
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(meta_fake_records(w), before, "records of it are left");
}

/* Its fragments are there for a while; nothing is put into them. */
Test(meta_spread, nothing_is_made_in_one_that_goes)
{
	struct meta_op op = sh_op(META_OP_RMTREE, "d");
	char name[16];

	fill("d", 0, 20);
	meta_fake_orphans(w, META__NEEDS_ROOM);
	cr_assert_eq(meta_world_run(w, &op), 0);
	for (uint32_t i = 100; i < 140; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		op = sh_op(META_OP_PUT, name);
		op.target.dir = a.dir;
		op.flags = META_BY_INLINE;
		op.inline_buf = buf;
		cr_assert_eq(meta_world_run(w, &op), -ENOENT, "%s", name);
	}
	meta_fake_orphans(w, 0);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
}

Test(meta_spread, no_fragment_is_named_by_its_number)
{
	struct meta_op op = sh_op(META_OP_STAT, "f20");
	char name[] = "f20";

	fill("d", 0, 60);
	op.target.dir = stands_in(a.dir, name);
	cr_assert(meta__is_fragment(op.target.dir));
	cr_assert_eq(meta_world_run(w, &op), -ENOENT);
	op = sh_op(META_OP_PUT, "f2000");
	op.target.dir = meta__fragment_at(a.dir, 3);
	op.flags = META_BY_INLINE;
	op.inline_buf = buf;
	cr_assert_eq(meta_world_run(w, &op), -ENOENT);
	op.target.dir = a.dir;
	cr_assert_eq(meta_world_run(w, &op), 0);
}

Test(meta_spread, totals_are_of_the_whole)
{
	struct meta_totals t;
	struct meta_op op = sh_op(META_OP_TOTALS, "d");

	fill("d", 0, 70); /* 0 + 1 ... + 6 each seven */
	cr_assert_eq(sh_mkdir(w, "d/sub"), 0);
	fill("d/sub", 0, 7);
	meta_world_settle(w);
	op.totals = &t;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(t.entries, 78);
	cr_assert_eq(t.dirs, 1);
	cr_assert_eq(t.bytes, 11 * 21);
	cr_assert(t.settled);
	op = sh_op(META_OP_TOTALS, "/");
	op.totals = &t;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(t.entries, 79, "its parts are no entries");
	cr_assert_eq(t.dirs, 2);
}

/* A user who may not write to the directory may not write to a new fragment of it, either. */
Test(meta_spread, rights_are_those_of_the_whole)
{
	const struct meta_who who = { .uid = 7, .gids = 1, .gid = { 7 } };
	struct meta_op op;

	fill("d", 0, SPREAD_AT);
	op = sh_op(META_OP_PUT, "d/new");
	op.flags = META_BY_INLINE;
	op.inline_buf = buf;
	op.who = &who;
	cr_assert_eq(meta_world_run(w, &op), -EACCES);
	op = sh_op(META_OP_SETATTR, "d");
	op.set_mask = META_SET_MODE;
	op.set.mode = 0777;
	cr_assert_eq(meta_world_run(w, &op), 0);
	op = sh_op(META_OP_PUT, "d/new");
	op.flags = META_BY_INLINE;
	op.inline_buf = buf;
	op.who = &who;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert(meta__is_fragment(stands_in(a.dir, "new")));
}

Test(meta_spread, a_number_without_room_for_fragments_is_not_spread)
{
	for (uint32_t s = 0; s < w->m->nshards; s++)
		w->m->shard[s].dir_next = 1ull << META__FRAGMENT_SHIFT;
	cr_assert_eq(sh_mkdir(w, "e"), 0);
	fill("e", 0, 20);
	cr_assert_eq(sh_stat(w, "e", 0, &b), 0);
	cr_assert_eq(record_of(b.dir).count, 20);
	for (uint32_t s = 0; s < w->m->nshards; s++)
		w->m->shard[s].dir_next = META__FRAGMENT;
	cr_assert_eq(sh_mkdir(w, "last"), -ENOSPC, "no number is given that a part could have");
}
