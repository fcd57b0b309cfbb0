/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <string.h>

/* A zone of the fake has 31 blocks, so that 4 MiB lie in more of them than one apply may touch. */

static struct meta_world *w;
static struct meta_attr a, b;
static uint8_t bytes[4 << 20], back[4 << 20];
static struct meta_handle h;

static void setup(void)
{
	w = meta_world_fake(15, 10, 5);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 11 + i / 4096);
}

static void teardown(void)
{
	cr_assert_eq(meta_fake_pending(w), 0);
	w->end(w);
}

TestSuite(meta_orphan, .init = setup, .fini = teardown);

static uint64_t orphans(void)
{
	uint64_t n = 0;
	struct meta_key key;
	uint32_t shard, len;
	void *value;

	for (uint64_t i = 0; meta_fake_record(w, i, &shard, &key, &value, &len); i++)
		n += meta__key_class(&key) == META__CLASS_ORPHAN;
	return n;
}

static void put(const char *path, uint64_t size)
{
	cr_assert_eq(sh_put(w, path, 0, bytes, size), 0);
	cr_assert_eq(sh_stat(w, path, 0, &a), 0);
	h = a.handle;
}

Test(meta_orphan, a_small_file_is_freed_with_its_name)
{
	put("f", 300000);
	cr_assert_eq(sh_unlink(w, "f"), 0);
	cr_assert_eq(orphans(), 0);
	cr_assert_eq(meta_fake_live(w), 0);
}

Test(meta_orphan, a_large_file_is_gone_at_once_and_freed_step_by_step)
{
	const uint64_t before = meta_fake_records(w);

	put("f", sizeof(bytes));
	cr_assert_eq(meta_fake_live(w), 1024);
	cr_assert_eq(sh_unlink(w, "f"), 0);
	cr_assert_eq(sh_stat_handle(w, &h, &b), -ESTALE);
	meta_world_settle(w);
	cr_assert_eq(orphans(), 0);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(meta_fake_records(w), before);
}

Test(meta_orphan, what_a_mount_finds_half_freed_is_freed)
{
	const uint64_t before = meta_fake_records(w);

	for (int i = 0; i < 3; i++) {
		put("f", sizeof(bytes));
		cr_assert_eq(sh_unlink(w, "f"), 0);
	}
	for (int i = 0; i < 20 && orphans(); i++) {
		w->step(w);
		w->remount(w);
	}
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(meta_fake_records(w), before);
}

Test(meta_orphan, a_write_over_blocks_in_many_zones_is_one_apply)
{
	put("f", sizeof(bytes));
	meta_fake_orphans(w, META__NEEDS_ROOM); /* none is freed while we look */
	cr_assert_eq(sh_write(w, &h, 0, bytes, sizeof(bytes), 0), 0);
	cr_assert_eq(sh_stat_handle(w, &h, &a), 0);
	cr_assert_eq(a.blocks, 1024);
	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), (int64_t)sizeof(back));
	cr_assert_eq(memcmp(back, bytes, sizeof(back)), 0);
	cr_assert_gt(meta_fake_live(w), 1024); /* the old ones, an orphan's now */
	meta_fake_orphans(w, 0);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 1024);
	cr_assert_eq(orphans(), 0);
}

/* Each block of a chunk in another zone: its record alone is more than one apply may free. */
static void scatter(void)
{
	put("f", 128 * 4096);
	for (uint32_t i = 0; i < 128; i++) {
		put("filler", 31 * 4096);
		cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
		cr_assert_eq(sh_write(w, &a.handle, i * 4096, bytes, 4096, 0), 0);
	}
	cr_assert_eq(sh_unlink(w, "filler"), 0);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 128);
}

Test(meta_orphan, a_chunk_in_a_hundred_zones_is_freed_from_its_tail)
{
	scatter();
	cr_assert_eq(sh_unlink(w, "f"), 0);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(orphans(), 0);
}

Test(meta_orphan, a_chunk_in_a_hundred_zones_is_cut_in_one_apply)
{
	scatter();
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	cr_assert_eq(sh_truncate(w, &a.handle, 3 * 4096), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	cr_assert_eq(a.blocks, 3);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 3);
	cr_assert_eq(orphans(), 0);
}

/* ---- trimming -------------------------------------------------------------------------- */

Test(meta_orphan, a_large_file_is_short_at_once_and_trimmed_later)
{
	put("f", sizeof(bytes));
	cr_assert_eq(sh_truncate(w, &h, 4096), 0);
	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), 4096);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	cr_assert_eq(a.size, 4096);
	meta_world_settle(w);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	cr_assert_eq(a.blocks, 1);
	cr_assert_eq(meta_fake_live(w), 1);
	cr_assert_eq(orphans(), 0);
}

Test(meta_orphan, a_write_behind_the_cut_waits_and_no_old_byte_comes_back)
{
	put("f", sizeof(bytes));
	cr_assert_eq(sh_truncate(w, &h, 4096), 0);
	cr_assert_eq(sh_write(w, &h, 3 << 20, bytes, 4096, (3 << 20) + 4096), 0);
	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), (3 << 20) + 4096);
	cr_assert_eq(memcmp(back, bytes, 4096), 0);
	for (uint32_t i = 4096; i < 3u << 20; i++)
		cr_assert_eq(back[i], 0);
	cr_assert_eq(memcmp(back + (3 << 20), bytes, 4096), 0);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 2);
}

Test(meta_orphan, growing_again_after_a_cut_reads_as_zeros)
{
	put("f", sizeof(bytes));
	cr_assert_eq(sh_truncate(w, &h, 0), 0);
	cr_assert_eq(sh_truncate(w, &h, 2 << 20), 0);
	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), 2 << 20);
	for (uint32_t i = 0; i < 2u << 20; i++)
		cr_assert_eq(back[i], 0);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
}

Test(meta_orphan, a_trimmed_file_may_be_cut_again_removed_and_replaced)
{
	put("f", sizeof(bytes));
	put("g", sizeof(bytes));
	put("h", sizeof(bytes));
	for (const char *n = "f\0g\0h\0"; *n; n += 2) {
		cr_assert_eq(sh_stat(w, n, 0, &a), 0);
		cr_assert_eq(sh_truncate(w, &a.handle, 600000 / 4096 * 4096), 0);
		cr_assert_eq(sh_truncate(w, &a.handle, 8192), 0);
	}
	cr_assert_eq(sh_unlink(w, "g"), 0);
	cr_assert_eq(sh_put(w, "h", 0, bytes, 8192), 0);
	w->remount(w);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 4);
	cr_assert_eq(orphans(), 0);
	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), 8192);
}

Test(meta_orphan, a_bad_orphan_is_named_and_does_not_stop_the_others)
{
	struct meta_key key;
	uint32_t shard, len;
	void *value;
	uint64_t i;

	put("f", sizeof(bytes));
	put("g", sizeof(bytes));
	cr_assert_eq(sh_unlink(w, "f"), 0);
	cr_assert_eq(sh_unlink(w, "g"), 0);
	for (i = 0; meta_fake_record(w, i, &shard, &key, &value, &len); i++)
		if (meta__key_class(&key) == META__CLASS_ORPHAN)
			break;
	if (!meta_fake_record(w, i, &shard, &key, &value, &len))
		return; /* both were freed already */
	memset(value, 0xff, len);
	meta_world_settle(w);
	cr_assert(strstr(w->m->error, "bad orphan record"));
	cr_assert_eq(orphans(), 1);
	cr_assert_leq(meta_fake_live(w), 1024);
}

/* It would be looked for by its uniquifier alone, and not be found, without end. */
Test(meta_orphan, an_orphan_record_with_more_in_its_key_is_left)
{
	struct fake *f = container_of(w, struct fake, w);
	struct meta_orphan_disk d = { .inode_dir = le64_of(META_ROOT_DIR),
				      .inode_uniq = le64_of(1000) };
	struct record r = {
		.shard = meta__dir_shard(w->m, META_ROOT_DIR),
		.key = meta__key(0, 0, META__CLASS_ORPHAN, 1000, META__KIND_NONE, 5),
		.value = malloc(sizeof(d)),
		.len = sizeof(d),
	};
	uint64_t before;

	cr_assert_not_null(r.value);
	memcpy(r.value, &d, sizeof(d));
	commit(f, &r, false);
	before = f->last;
	w->remount(w);
	put("f", sizeof(bytes));
	cr_assert_eq(sh_unlink(w, "f"), 0);
	meta_world_settle(w);
	cr_assert(strstr(w->m->error, "bad orphan record"));
	cr_assert_eq(orphans(), 1);
	cr_assert_lt(f->last - before, 1000);
}
