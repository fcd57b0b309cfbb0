/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A full store of two copies: each block of its log is on two drives while two serve. */
#include "test/lib/runs.h"
#include "test/unit/meta_pair_store.h"

#include "meta/meta_protect.h"

TestSuite(meta_full_log, .timeout = 120);

static uint32_t single, looks; /* how often some zone of the log had no copy */

static const char *at(const char *what, uint64_t i)
{
	static char path[40];

	(void)snprintf(path, sizeof(path), "/%s %u", what, (uint32_t)i);
	return path;
}

static void look(void)
{
	looks++;
	single += !meta__log_is_copied(r.m);
}

/* As many files as fit, and then as many names. */
static void fill(uint32_t *files, uint32_t *names)
{
	while (rig_put(&r, at("file", *files), 1 + (uint32_t)rand_below(&r.rand, 20), 1) == 0) {
		look();
		++*files;
	}
	while (rig_put(&r, at("name", *names), 0, 1) == 0) {
		look();
		++*names;
	}
}

static void remove_some(uint32_t files, uint32_t names)
{
	for (uint32_t i = 0; i < files / 3; i++) {
		(void)rig_unlink(&r, at("file", rand_below(&r.rand, files)));
		look();
		(void)rig_put(&r, at("file", rand_below(&r.rand, files)), 3, i + 1);
		look();
	}
	for (uint32_t i = 0; i < names / 2; i++) {
		(void)rig_unlink(&r, at("name", rand_below(&r.rand, names)));
		look();
	}
}

Test(meta_full_log, each_block_of_it_is_on_two_drives)
{
	const uint64_t bytes[] = { 2u << 20, 2u << 20, 2u << 20 };

	for (uint64_t seed = 1; seed <= test_runs(20); seed++) {
		uint32_t files = 0, names = 0;

		store_of(seed, 2 + (uint32_t)(seed % 2), bytes, seed % 3 == 0);
		for (uint32_t round = 0; round < 6; round++) {
			fill(&files, &names);
			remove_some(files, names);
			rig_power_cut(&r);
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			look();
		}
		rig_end(&r);
	}
	cr_assert_eq(single, 0, "%u of %u", single, looks);
}
