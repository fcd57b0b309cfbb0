/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The whole store, from format to mount, its operations' plans on the real tree. */
#include "test/lib/meta_rig.h"
#include "test/lib/runs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct rig r;

static void path_of(char path[64], uint32_t i)
{
	(void)snprintf(path, 64, "/dir%u/a file with number %u", i % 7, i);
}

static void expect(uint32_t i, bool there, uint64_t fill)
{
	char path[64];
	uint32_t blocks;
	uint64_t is;
	int err;

	path_of(path, i);
	err = rig_get(&r, path, &blocks, &is);
	cr_assert_eq(err, there ? 0 : -ENOENT, "%s: %d, %s", path, err, meta_error(r.m));
	if (there)
		cr_assert_eq(is, fill);
}

static void make_dirs(void)
{
	char path[64];

	for (uint32_t i = 0; i < 7; i++) {
		(void)snprintf(path, sizeof(path), "/dir%u", i);
		cr_assert_eq(rig_mkdir(&r, path), 0);
	}
}

static void check(void)
{
	static struct meta_check found;

	memset(&found, 0, sizeof(found));
	cr_assert_eq(rig_check(&r, &found), 0, "%s", found.first[0]);
}

TestSuite(meta_store, .timeout = 120);

Test(meta_store, has_after_a_clean_stop_what_it_had_before)
{
	char path[64];

	rig_make(&r, 1, 2, 64u << 20, 8, true);
	cr_assert_eq(rig_format(&r), 0);
	make_dirs();
	for (uint32_t i = 0; i < 500; i++) {
		path_of(path, i);
		cr_assert_eq(rig_put(&r, path, i % 4, i + 1), 0, "%s", meta_error(r.m));
	}
	for (uint32_t i = 0; i < 500; i += 3) {
		path_of(path, i);
		cr_assert_eq(rig_unlink(&r, path), 0);
	}
	for (uint32_t mount = 0; mount < 3; mount++) {
		for (uint32_t i = 0; i < 500; i++)
			expect(i, i % 3 != 0, i + 1);
		check();
		cr_assert_eq(rig_stop(&r), 0);
		cr_assert_eq(rig_mount(&r), 0);
	}
	rig_end(&r);
}

Test(meta_store, works_with_a_cache_far_smaller_than_its_tree)
{
	static struct meta_statfs st;
	struct meta_op op = { .type = META_OP_STATFS, .statfs = &st };
	const uint32_t files = 30000;
	char path[64];

	rig_make(&r, 2, 2, 128u << 20, 8, true);
	cr_assert_eq(rig_format(&r), 0);
	make_dirs();
	for (uint32_t i = 0; i < files; i++) {
		path_of(path, i);
		cr_assert_eq(rig_put(&r, path, 0, i), 0, "%s", meta_error(r.m));
	}
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	for (uint32_t i = 0; i < files; i++)
		expect(i * 7919u % files, true, i * 7919u % files);
	cr_assert_eq(rig_run(&r, &op), 0);
	cr_assert_gt(st.page_reads, 4 * st.cache_pages, "%lu reads, a cache of %lu",
		     (unsigned long)st.page_reads, (unsigned long)st.cache_pages);
	check();
	rig_end(&r);
}

Test(meta_store, has_after_a_power_cut_all_that_was_acknowledged)
{
	static bool there[300];
	char path[64];
	int err;

	rig_make(&r, 3, 2, 64u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	make_dirs();
	for (uint32_t round = 0; round < test_runs(30); round++) {
		uint32_t i = 0;

		r.cut_at = r.writes + 1 + rand_below(&r.rand, 400);
		do {
			i = (uint32_t)rand_below(&r.rand, 300);
			path_of(path, i);
			err = there[i] ? rig_unlink(&r, path) : rig_put(&r, path, i % 3, i);
			if (err == 0)
				there[i] = !there[i];
		} while (err == 0);
		cr_assert_eq(err, -ECANCELED, "%d %s", err, meta_error(r.m));
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		for (uint32_t k = 0; k < 300; k++)
			if (k != i) /* that one may be there or not */
				expect(k, there[k], k);
		path_of(path, i);
		there[i] = rig_get(&r, path, &(uint32_t){ 0 }, &(uint64_t){ 0 }) == 0;
		check();
	}
	rig_end(&r);
}

/* Files of `blocks` blocks (0: only names) until the store is full; how many went in. */
static uint32_t fill(uint32_t blocks)
{
	char path[64];
	uint32_t n = 0;
	int err;

	do {
		path_of(path, n);
		err = rig_put(&r, path, blocks, n);
		n += err == 0;
	} while (err == 0);
	cr_assert_eq(err, -ENOSPC, "%d, %s", err, meta_error(r.m));
	return n;
}

Test(meta_store, that_is_full_can_be_emptied_and_filled_again)
{
	static const uint32_t blocks[] = { 0, 5, 0, 40, 5 };
	uint32_t first = 0;
	char path[64];

	rig_make(&r, 4, 2, 4u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	make_dirs();
	for (uint32_t round = 0; round < 5; round++) {
		uint32_t n = fill(blocks[round]);

		first = round == 1 ? n : first;
		if (round == 2) {
			rig_power_cut(&r);
			cr_assert_eq(rig_mount(&r), 0);
		}
		check();
		for (uint32_t i = 0; i < n; i++) {
			path_of(path, (uint32_t)((i * 7919ull) % n));
			cr_assert_eq(rig_unlink(&r, path), 0, "%s", meta_error(r.m));
		}
		rig_idle(&r); /* orphans, collection */
		check();
		if (round == 4)
			cr_assert_geq(n, first - first / 10, "%u, %u at first", n, first);
	}
	rig_end(&r);
}
