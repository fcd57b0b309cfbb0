/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The list of damaged files: entries come in, get names, and leave. */
#include "meta/check/meta_scrub.h"
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DRIVE_BYTES (8u << 20)

static struct rig r;
static struct meta_scrub *scrub;
static struct meta_damaged entry;
static uint32_t lines;
static uint64_t no_drive; /* by their bits: reads fail, and nobody knows why */
static uint8_t bytes[META_SCRUB_BLOCKS_MAX * 4096];

static void store(void)
{
	rig_make(&r, 9, 2, DRIVE_BYTES, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
	cr_assert_eq(rig_mkdir(&r, "/a"), 0);
}

static void store_end(void)
{
	meta_scrub_destroy(scrub);
	rig_end(&r);
}

TestSuite(meta_damage, .init = store, .fini = store_end, .timeout = 120);

static int read_run(struct meta_run run)
{
	const uint32_t d = META_BADDR_DRIVE(run.baddr);

	memcpy(bytes, r.view[d] + META_BADDR_BLOCK(run.baddr) * 4096, run.nblocks * 4096ul);
	return no_drive >> d & 1 ? -EAGAIN : 0;
}

/* One thing; what came of it. */
static enum meta_scrub_next step(bool round)
{
	struct meta_run run;
	const enum meta_scrub_next next =
		round ? meta_scrub_next(scrub, &run) : meta_scrub_errand(scrub, &run);

	lines += next == META_SCRUB_FOUND;
	if (next == META_SCRUB_READ)
		meta_scrub_done(scrub, bytes, read_run(run));
	return next;
}

static void round_of_it(void)
{
	for (uint32_t i = 0; step(true) != META_SCRUB_ROUND; i++)
		cr_assert_lt(i, 1000000);
}

static void errands(void)
{
	for (uint32_t i = 0; step(false) != META_SCRUB_IDLE; i++)
		cr_assert_lt(i, 1000000);
}

static bool list(uint32_t from)
{
	meta_scrub_list(scrub, from, &entry);
	for (uint32_t i = 0; step(false) != META_SCRUB_LISTED; i++)
		cr_assert_lt(i, 1000000);
	return !entry.end;
}

static struct meta_damage_stat stat(void)
{
	struct meta_damage_stat s;

	(void)meta_scrub_damaged(scrub, &s);
	return s;
}

static struct meta_handle handle;

/* Where that block of it lies. */
static uint64_t place(const char *path, uint32_t block)
{
	struct meta_run runs[128];
	uint32_t crcs[META_IO_BLOCKS_MAX];
	char small[4096];
	struct meta_op op = { .type = META_OP_READ,
			      .target = { .path = path, .path_len = (uint32_t)strlen(path) },
			      .offset = block * 4096ul,
			      .length = 4096,
			      .runs = runs,
			      .crcs = crcs,
			      .runs_max = 128,
			      .blocks_max = 1,
			      .inline_buf = small };

	cr_assert_eq(rig_run(&r, &op), 0, "%s", path);
	meta_read_end(r.m, &op);
	cr_assert_eq(op.nruns, 1);
	handle = op.attr.handle;
	return runs[0].baddr;
}

static void flip(const char *path, uint32_t block)
{
	const uint64_t baddr = place(path, block);
	const uint32_t d = META_BADDR_DRIVE(baddr);

	r.view[d][META_BADDR_BLOCK(baddr) * 4096 + 17] ^= 4;
	r.image[d][META_BADDR_BLOCK(baddr) * 4096 + 17] ^= 4;
}

static void name_op(enum meta_op_type type, const char *from, const char *to)
{
	struct meta_op op = { .type = type,
			      .wall_ns = 5,
			      .target = { .path = from, .path_len = (uint32_t)strlen(from) },
			      .other = { .path = to, .path_len = to ? (uint32_t)strlen(to) : 0 } };

	cr_assert_eq(rig_run(&r, &op), 0, "%s", from);
}

/* ---- in ----------------------------------------------------------------------------------- */

/* More than lines are remembered for (META__SCRUB_TOLD): this is what hid 2,495 of 2,855 files. */
Test(meta_damage, every_damaged_file_is_listed_however_many)
{
	enum { FILES = 1200 };
	char path[64];
	uint32_t count = 0;

	for (uint32_t i = 0; i < FILES; i++) {
		(void)snprintf(path, sizeof(path), "/a/f%u", i);
		cr_assert_eq(rig_put(&r, path, 1, i), 0);
	}
	for (uint32_t i = 0; i < FILES; i++) {
		(void)snprintf(path, sizeof(path), "/a/f%u", i);
		flip(path, 0);
	}
	round_of_it();
	cr_assert_eq(stat().files, FILES);
	cr_assert_eq(stat().blocks, FILES);
	cr_assert(stat().complete);
	for (bool more = list(0); more; more = list(entry.next), count++)
		cr_assert_eq(strncmp(entry.path, "/a/f", 4), 0, "%s", entry.path);
	cr_assert_eq(count, FILES);
	round_of_it();
	cr_assert_eq(stat().files, FILES);
	cr_assert_eq(stat().blocks, FILES);
}

/* Large files with many damaged blocks leave lines for the others: the log names each. */
Test(meta_damage, every_damaged_file_has_a_line_beside_large_ones)
{
	enum { LARGE = 10, BLOCKS = 120, FILES = 200 };
	bool named[FILES] = { false };
	char path[64];
	uint32_t n;

	static_assert(LARGE * BLOCKS > META__SCRUB_TOLD, "");
	for (uint32_t i = 0; i < FILES; i++) {
		(void)snprintf(path, sizeof(path), "/a/f%u", i);
		cr_assert_eq(rig_put(&r, path, i < LARGE ? BLOCKS : 1, i), 0);
		for (uint32_t b = 0; b < (i < LARGE ? BLOCKS : 1); b++)
			flip(path, b);
	}
	for (enum meta_scrub_next next = step(true); next != META_SCRUB_ROUND; next = step(true))
		if (next == META_SCRUB_FOUND &&
		    sscanf(meta_scrub_line(scrub), "/a/f%u: block", &n) == 1 && n < FILES)
			named[n] = true;
	for (uint32_t i = 0; i < FILES; i++)
		cr_assert(named[i], "/a/f%u", i);
	cr_assert_leq(lines, META__SCRUB_TOLD);
}

Test(meta_damage, a_list_that_was_given_up_leaves_nothing_to_the_next_one)
{
	cr_assert_eq(rig_put(&r, "/a/f", 1, 1), 0);
	flip("/a/f", 0);
	round_of_it();
	meta_scrub_list(scrub, 0, &entry);
	for (uint32_t i = 0; !scrub->list_named; i++) {
		cr_assert_lt(i, 1000000);
		(void)step(false);
	}
	meta_scrub_list_end(scrub);
	cr_assert(list(0));
	cr_assert_str_eq(entry.path, "/a/f");
}

Test(meta_damage, what_a_read_has_met_is_looked_at_at_once)
{
	cr_assert_eq(rig_put(&r, "/a/f", 40, 1), 0);
	flip("/a/f", 7);
	flip("/a/f", 9);
	flip("/a/f", 30); /* nobody has read that */
	(void)meta_scrub_suspect(scrub, &handle, 5, 10);
	cr_assert(meta_scrub_has_errand(scrub));
	errands();
	cr_assert_eq(stat().files, 1);
	cr_assert_eq(stat().blocks, 2);
	cr_assert_eq(lines, 2);
	cr_assert(list(0));
	cr_assert_str_eq(entry.path, "/a/f");
	cr_assert_eq(entry.block, 7);
	cr_assert_eq(entry.end_block, 10);
	cr_assert_not(list(entry.next));
	(void)meta_scrub_suspect(scrub, &handle, 7, 1); /* it is known */
	cr_assert_not(meta_scrub_has_errand(scrub));
	round_of_it();
	cr_assert_eq(stat().blocks, 3);
}

Test(meta_damage, nobodys_word_is_believed)
{
	cr_assert_eq(rig_put(&r, "/a/f", 40, 1), 0);
	(void)place("/a/f", 0);
	(void)meta_scrub_suspect(scrub, &handle, 0, 40);
	(void)meta_scrub_suspect(scrub, &handle, 100, 1000); /* behind its end */
	(void)meta_scrub_suspect(scrub, &handle, UINT64_MAX, 1);
	(void)meta_scrub_suspect(scrub, &handle, 0, UINT64_MAX);
	handle.uniq++;
	(void)meta_scrub_suspect(scrub, &handle, 0, 1); /* nobody's */
	for (uint32_t i = 0; i < 10000; i++)
		(void)meta_scrub_suspect(scrub, &handle, i, 1);
	errands();
	cr_assert_eq(stat().files, 0);
	cr_assert_eq(lines, 0);
}

/* In the midst of a round, which goes on where it was. */
Test(meta_damage, suspects_do_not_disturb_a_round)
{
	struct meta_scrub_stat before, after;
	char path[64];

	for (uint32_t i = 0; i < 50; i++) {
		(void)snprintf(path, sizeof(path), "/a/f%u", i);
		cr_assert_eq(rig_put(&r, path, 3, i), 0);
	}
	round_of_it();
	meta_scrub_stat(scrub, &before);
	flip("/a/f7", 1);
	for (uint32_t i = 0; step(true) != META_SCRUB_ROUND; i++)
		if (i % 5 == 0)
			(void)meta_scrub_suspect(scrub, &handle, i % 3, 1);
	meta_scrub_stat(scrub, &after);
	cr_assert_eq(after.blocks, 2 * before.blocks - 1);
	cr_assert_eq(after.last_bad_blocks, 1);
	cr_assert_eq(stat().blocks, 1);
	cr_assert_eq(lines, 1);
}

/* ---- pages of the index that an operation could not read ----------------------------------- */

/* Mounts the store again, so that no leaf is in memory.  Returns the root of /a's shard, which is
 * its only page. */
static uint64_t cold_page(void)
{
	const struct meta__shard *shard;

	cr_assert_eq(rig_put(&r, "/a/f", 40, 1), 0);
	(void)place("/a/f", 0);
	meta_scrub_destroy(scrub);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
	shard = &r.m->shard[meta__dir_shard(r.m, handle.dir)];
	cr_assert_eq(shard->height, 1);
	return shard->root_baddr;
}

static void flip_page(uint64_t baddr)
{
	r.view[META_BADDR_DRIVE(baddr)][META_BADDR_BLOCK(baddr) * 4096 + 777] ^= 4;
}

static int get(const char *path)
{
	uint32_t blocks;
	uint64_t fill;

	return rig_get(&r, path, &blocks, &fill);
}

Test(meta_damage, damaged_page_that_a_read_has_met_is_listed_at_once)
{
	const uint64_t page = cold_page();
	struct meta_scrub_stat s;

	flip_page(page);
	cr_assert_not(meta_scrub_has_errand(scrub));
	cr_assert_eq(get("/a/f"), -EIO);
	cr_assert(meta_scrub_has_errand(scrub));
	errands();
	cr_assert_eq(stat().pages, 1);
	cr_assert_eq(lines, 1);
	cr_assert(list(0));
	cr_assert_eq(entry.kinds, 1u << META_DAMAGE_PAGE);
	cr_assert_eq(entry.baddr, page);
	meta_scrub_stat(scrub, &s);
	cr_assert_eq(s.bad_pages, 0, "that is for rounds");
	cr_assert_eq(get("/a/f"), -EIO);
	cr_assert_not(meta_scrub_has_errand(scrub), "it is known");
	round_of_it();
	meta_scrub_stat(scrub, &s);
	cr_assert_eq(s.last_bad_pages, 1);
	cr_assert_eq(stat().pages, 1);
	cr_assert_eq(lines, 1);
}

Test(meta_damage, page_on_a_drive_that_has_failed_is_listed_as_unreachable)
{
	const uint64_t page = cold_page();
	uint32_t listed = 0, met = 0;

	r.bad_reads = 1u << META_BADDR_DRIVE(page);
	meta_scrub_unreachable(scrub, r.bad_reads);
	for (uint32_t i = 0; i < 5; i++) { /* more than there are pages on its way */
		cr_assert_eq(get("/a/f"), -EIO);
		errands();
	}
	for (bool more = list(0); more; more = list(entry.next), listed++) {
		cr_assert_eq(entry.kinds, 1u << META_DAMAGE_PAGE | 1u << META_DAMAGE_UNREACHABLE);
		cr_assert_eq(entry.drives, r.bad_reads);
		met += entry.baddr == page;
	}
	cr_assert_eq(met, 1);
	cr_assert_eq(stat().unreachable_pages, listed);
	cr_assert_eq(stat().pages + stat().files, 0);
	cr_assert_eq(lines, 0);
	r.bad_reads = 0;
	meta_scrub_unreachable(scrub, 0);
	meta_scrub_sweep(scrub);
	errands();
	cr_assert_eq(stat().unreachable_pages, 0);
	cr_assert_eq(get("/a/f"), 0);
}

/* The round has just read it. */
Test(meta_damage, page_that_was_good_a_moment_ago_is_listed)
{
	const uint64_t page = cold_page();
	uint32_t met = 0;

	for (uint32_t i = 0; scrub->page[0].baddr != page || scrub->page[0].fails; i++) {
		cr_assert_lt(i, 1000000);
		(void)step(true);
	}
	r.bad_reads = 1u << META_BADDR_DRIVE(page);
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(get("/a/f"), -EIO);
	meta_scrub_unreachable(scrub, r.bad_reads);
	errands();
	for (bool more = list(0); more; more = list(entry.next))
		met += entry.baddr == page;
	cr_assert_eq(met, 1);
}

Test(meta_damage, page_that_is_good_again_is_not_listed)
{
	const uint64_t page = cold_page();

	flip_page(page);
	cr_assert_eq(get("/a/f"), -EIO);
	flip_page(page);
	errands();
	cr_assert_not(list(0));
	flip_page(page);
	cr_assert_eq(get("/a/f"), -EIO);
	flip_page(page);
	cr_assert_eq(rig_put(&r, "/a/g", 1, 1), 0); /* the page is replaced */
	errands();
	cr_assert_not(list(0));
	cr_assert_eq(lines, 0);
}

/* ---- unreachable ---------------------------------------------------------------------------- */

Test(meta_damage, files_on_a_drive_that_has_failed_are_unreachable_and_no_line_names_them)
{
	struct meta_scrub_stat s;
	char path[64];
	uint32_t far = 0;

	for (uint32_t i = 0; i < 50; i++) {
		(void)snprintf(path, sizeof(path), "/a/f%u", i);
		cr_assert_eq(rig_put(&r, path, 3, i), 0);
		far += META_BADDR_DRIVE(place(path, 0)) == 1;
	}
	cr_assert_gt(far, 0);
	meta_scrub_unreachable(scrub, 1u << 1);
	round_of_it();
	meta_scrub_stat(scrub, &s);
	cr_assert_eq(s.last_bad_blocks + s.last_bad_pages, 0);
	cr_assert_eq(lines, 0);
	cr_assert_geq(s.unreachable_blocks, 3ul * far);
	cr_assert_eq(stat().files, 0);
	cr_assert_geq(stat().unreachable_files, far);
	meta_scrub_unreachable(scrub, 0);
	meta_scrub_sweep(scrub);
	errands();
	cr_assert_eq(stat().unreachable_files, 0);
	round_of_it();
	cr_assert_eq(stat().files, 0);
}

Test(meta_damage, read_of_which_nobody_knows_why_it_failed_is_made_again)
{
	cr_assert_eq(rig_put(&r, "/a/f", 3, 1), 0);
	no_drive = UINT64_MAX;
	for (uint32_t i = 0; i < 100; i++)
		(void)step(true);
	no_drive = 0;
	round_of_it();
	cr_assert_eq(stat().files + stat().pages, 0);
	cr_assert_eq(lines, 0);
}

/* ---- out ------------------------------------------------------------------------------------ */

static void sweep(void)
{
	meta_scrub_sweep(scrub);
	errands();
}

Test(meta_damage, what_is_removed_or_written_anew_leaves_the_list)
{
	for (uint32_t i = 0; i < 3; i++) {
		char path[] = "/a/f0";

		path[4] = (char)('0' + i);
		cr_assert_eq(rig_put(&r, path, 5, i), 0);
		flip(path, 1);
		flip(path, 3);
	}
	round_of_it();
	cr_assert_eq(stat().files, 3);
	sweep();
	cr_assert_eq(stat().files, 3);
	name_op(META_OP_UNLINK, "/a/f0", NULL);
	cr_assert_eq(rig_put(&r, "/a/f1", 5, 9), 0);
	sweep();
	cr_assert_eq(stat().files, 1);
	cr_assert(list(0));
	cr_assert_str_eq(entry.path, "/a/f2");
	cr_assert_not(list(entry.next));
}

Test(meta_damage, what_is_found_whole_by_a_round_leaves_the_list)
{
	cr_assert_eq(rig_put(&r, "/a/f", 5, 1), 0);
	flip("/a/f", 1);
	round_of_it();
	cr_assert_eq(stat().files, 1);
	flip("/a/f", 1);
	sweep();
	cr_assert_eq(stat().files, 1);
	round_of_it();
	cr_assert_eq(stat().files, 0);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* One file is looked for at the round's end, and is gone by then; a list was asked for before. */
Test(meta_damage, list_in_the_midst_of_a_round_does_not_take_what_its_end_says)
{
	uint32_t told;

	cr_assert_eq(rig_put(&r, "/a/f", 5, 1), 0);
	cr_assert_eq(rig_mkdir(&r, "/b"), 0);
	flip("/a/f", 1);
	name_op(META_OP_RENAME, "/a/f", "/b/g");
	for (uint32_t i = 0; scrub->lost_count == 0; i++) {
		cr_assert_neq(step(true), META_SCRUB_ROUND);
		cr_assert_lt(i, 1000000);
	}
	cr_assert(list(0));
	name_op(META_OP_UNLINK, "/b/g", NULL);
	told = lines;
	round_of_it();
	cr_assert_eq(lines, told + 1);
	cr_assert_not_null(strstr(meta_scrub_line(scrub), "a file without a name"), "%s",
			   meta_scrub_line(scrub));
}

Test(meta_damage, file_that_was_moved_is_listed_under_its_name_of_now)
{
	cr_assert_eq(rig_put(&r, "/a/f", 5, 1), 0);
	cr_assert_eq(rig_mkdir(&r, "/b"), 0);
	flip("/a/f", 1);
	round_of_it();
	cr_assert(list(0));
	cr_assert_str_eq(entry.path, "/a/f");
	name_op(META_OP_RENAME, "/a/f", "/b/g");
	cr_assert(list(0));
	cr_assert_eq(entry.path_len, 0); /* not where it was made: the next round looks for it */
	round_of_it();
	cr_assert(list(0));
	cr_assert_str_eq(entry.path, "/b/g");
	name_op(META_OP_RENAME, "/b", "/c");
	cr_assert(list(0));
	cr_assert_str_eq(entry.path, "/c/g");
}

Test(meta_damage, list_that_nobody_wants_any_more_is_left)
{
	cr_assert_eq(rig_put(&r, "/a/f", 5, 1), 0);
	flip("/a/f", 1);
	round_of_it();
	meta_scrub_list(scrub, 0, &entry);
	(void)step(false);
	meta_scrub_list_end(scrub);
	errands();
	cr_assert(list(0));
	cr_assert_str_eq(entry.path, "/a/f");
}

/* ---- the table ------------------------------------------------------------------------------ */

Test(meta_damage, table_that_is_full_says_so_and_has_room_again)
{
	static struct meta__damages t;
	struct meta__damage_find find = { .nblocks = 2, .baddr = META_BADDR(1, 5), .round = 1 };

	cr_assert_eq(meta__damages_init(&t), 0);
	for (uint32_t i = 0; i < META__DAMAGE_MAX + 10; i++) {
		find.file = (struct meta_handle){ 1, i * 7, i };
		cr_assert_eq(meta__damage_add(&t, &find) == META__DAMAGE_NONE,
			     i >= META__DAMAGE_MAX);
	}
	cr_assert_eq(t.stat.files, META__DAMAGE_MAX);
	cr_assert_eq(t.stat.blocks, 2 * META__DAMAGE_MAX);
	meta__damage_round_end(&t, 1, false);
	cr_assert_not(t.stat.complete);
	for (uint32_t i = 0; i < META__DAMAGE_MAX; i += 2)
		meta__damage_drop(&t, i);
	cr_assert_eq(t.stat.files, META__DAMAGE_MAX / 2);
	cr_assert_neq(meta__damage_add(&t, &find), META__DAMAGE_NONE);
	meta__damage_round_end(&t, 2, true); /* blind: nothing goes */
	cr_assert_eq(t.count, META__DAMAGE_MAX / 2 + 1);
	meta__damage_round_end(&t, 3, false);
	cr_assert_eq(t.count, 0);
	cr_assert_eq(t.stat.files + t.stat.blocks, 0);
	cr_assert(t.stat.complete);
	meta__damages_fini(&t);
}

/* A flood of reports waits, and loses none: whoever reports is told when there is no place. */
Test(meta_damage, suspects_that_find_no_place_are_told_so)
{
	uint32_t taken = 0;

	cr_assert_eq(rig_put(&r, "/a/f", 40, 1), 0);
	(void)place("/a/f", 0);
	for (handle.uniq = 1; meta_scrub_suspect(scrub, &handle, 0, 1); handle.uniq++)
		cr_assert_lt(++taken, 100000);
	cr_assert_gt(taken, 100);
	errands();
	cr_assert(meta_scrub_suspect(scrub, &handle, 0, 1));
	errands();
	cr_assert_eq(stat().files, 0);
}
