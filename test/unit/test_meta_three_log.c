/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The log of a store of three copies: each block on three drives, any of which is enough. */
#include "test/lib/runs.h"
#include "test/unit/meta_three_store.h"
#include "meta/engine/meta_log.h"

TestSuite(meta_three_log, .timeout = 120);

#define BLOCKS_MAX 512u

static struct found {
	uint64_t seq, durable, trim, baddr[3];
} found[BLOCKS_MAX];
static uint32_t nfound;
static uint8_t *saved[3];

/* ---- what the drives have ---------------------------------------------------------------- */

static struct found *found_of(uint64_t seq)
{
	for (uint32_t i = 0; i < nfound; i++)
		if (found[i].seq == seq)
			return &found[i];
	cr_assert_lt(nfound, BLOCKS_MAX);
	found[nfound] = (struct found){ .seq = seq };
	return &found[nfound++];
}

static void find_in(uint32_t zone, uint64_t order)
{
	const struct meta__geo *g = &r.m->zones->geo;
	const uint64_t tag = meta__log_tag(r.m, r.m->epoch, order);

	for (uint32_t at = 1; at < g->zone_end; at++) {
		const uint64_t baddr = meta__geo_zone_baddr(g, zone) + at;
		struct meta__log_head h;
		struct found *f;

		if (meta__log_open(rig_block(&r, baddr), g->zone_end - at, tag, &h) != 0)
			continue;
		f = found_of(h.seq);
		f->durable = h.durable;
		f->trim = h.trim;
		f->baddr[META_BADDR_DRIVE(baddr)] = baddr;
	}
}

/* Finds the blocks that a mount needs: from the trimmed part to the last that is vouched for. */
static void find_needed(void)
{
	uint64_t trim = 0, durable = 0;
	uint32_t kept = 0;

	nfound = 0;
	for (uint32_t i = 0; i < r.m->log->zones_count; i++)
		for (uint32_t k = 0; k < meta__log_copies(r.m->log->zones[i].zone); k++)
			find_in(r.m->log->zones[i].zone[k], r.m->log->zones[i].order);
	for (uint32_t i = 0; i < nfound; i++) {
		trim = max_u64(trim, found[i].trim);
		durable = max_u64(durable, found[i].durable);
	}
	for (uint32_t i = 0; i < nfound; i++)
		if (found[i].seq > trim && found[i].seq <= durable)
			found[kept++] = found[i];
	nfound = kept;
	cr_assert_gt(nfound, 10);
}

/* A store of three drives after a power cut, with changes in its log only. */
static void store_of_log(void)
{
	three(7, 3, 4, true);
	put_some(60);
	rig_idle(&r);
	find_needed();
	rig_power_cut(&r);
	for (uint32_t d = 0; d < 3; d++) {
		saved[d] = malloc(DRIVE_BYTES);
		cr_assert_not_null(saved[d]);
		memcpy(saved[d], r.image[d], DRIVE_BYTES);
	}
}

static void images_back(void)
{
	if (r.m)
		rig_power_cut(&r);
	for (uint32_t d = 0; d < 3; d++) {
		memcpy(r.image[d], saved[d], DRIVE_BYTES);
		memcpy(r.view[d], saved[d], DRIVE_BYTES);
	}
}

static void store_of_log_end(void)
{
	rig_end(&r);
	for (uint32_t d = 0; d < 3; d++)
		free(saved[d]);
}

static void damage(uint64_t baddr, uint32_t byte)
{
	const uint32_t drive = META_BADDR_DRIVE(baddr);
	const uint64_t at = META_BADDR_BLOCK(baddr) * 4096 + byte;

	r.image[drive][at] ^= 0x10;
	r.view[drive][at] ^= 0x10;
}

static bool says(const char *text)
{
	return strstr(meta_error(r.m), text);
}

Test(meta_three_log, each_block_is_on_three_drives)
{
	store_of_log();
	for (uint32_t i = 0; i < nfound; i++)
		for (uint32_t d = 0; d < 3; d++) {
			cr_assert(found[i].baddr[d]);
			cr_assert_arr_eq(rig_block(&r, found[i].baddr[d]),
					 rig_block(&r, found[i].baddr[0]), 4096);
		}
	cr_assert_eq(rig_mount(&r), 0);
	cr_assert_str_eq(meta_error(r.m), "");
	cr_assert_eq(rig_statfs(&r).log_copies, 3);
	is_whole();
	store_of_log_end();
}

/* Now this one, now that one: no zone is whole, all three together are. */
Test(meta_three_log, one_copy_of_each_block_is_enough_whichever_it_is)
{
	struct rand_state rand;

	store_of_log();
	rand_seed(&rand, 7);
	for (uint32_t n = 0; n < 60; n++) {
		images_back();
		for (uint32_t i = 0; i < nfound; i++) {
			const uint32_t whole = n < 3 ? n : (uint32_t)rand_below(&rand, 3);

			for (uint32_t d = 0; d < 3; d++)
				if (d != whole)
					damage(found[i].baddr[d],
					       (uint32_t)rand_below(&rand, 4096));
		}
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert(says("a copy of the log is damaged"), "%s", meta_error(r.m));
		all_is_there();
	}
	store_of_log_end();
}

Test(meta_three_log, block_that_all_have_lost_refuses_the_mount_by_name)
{
	store_of_log();
	for (uint32_t i = 0; i < nfound; i += 3) {
		char name[64];

		images_back();
		for (uint32_t d = 0; d < 3; d++)
			damage(found[i].baddr[d], 100 + 1000 * d);
		cr_assert_eq(rig_mount(&r), -EUCLEAN);
		(void)snprintf(name, sizeof(name), "log block %llu ",
			       (unsigned long long)found[i].seq);
		cr_assert(says(name), "%s", meta_error(r.m));
	}
	store_of_log_end();
}

/* Reads of the zone that this block is in fail, as those of a drive that is about to go. */
static void zone_unreadable(uint64_t baddr)
{
	const struct meta__geo *g = &r.m->zones->geo;
	const uint64_t head = meta__geo_zone_baddr(g, meta__geo_zone_of(g, baddr));

	r.unread[META_BADDR_DRIVE(baddr)].from = META_BADDR_BLOCK(head) + 1;
	r.unread[META_BADDR_DRIVE(baddr)].to = META_BADDR_BLOCK(head) + g->zone_end;
}

Test(meta_three_log, two_copies_that_cannot_be_read_are_not_needed_and_all_three_are)
{
	const struct found *f;

	store_of_log();
	f = &found[nfound / 2];
	cr_assert_eq(rig_mount(&r), 0); /* for its geometry */
	for (uint32_t kept = 0; kept < 4; kept++) {
		memset(r.unread, 0, sizeof(r.unread));
		for (uint32_t d = 0; d < 3; d++)
			if (d != kept)
				zone_unreadable(f->baddr[d]);
		images_back();
		cr_assert_eq(rig_mount(&r), kept < 3 ? 0 : -EIO, "%s", meta_error(r.m));
		cr_assert(says("cannot be read"), "%s", meta_error(r.m));
		if (kept < 3)
			all_is_there();
	}
	store_of_log_end();
}

/* ---- as the log is written --------------------------------------------------------------- */

static uint64_t append(void)
{
	const struct meta__mut mut = { .key = { { 9, 9, 9 } }, .value = "x", .value_len = 1 };

	return meta__log_append(r.m, &mut, 1, 0);
}

static struct meta__io *one_io(void)
{
	struct meta_io *io = meta_io_next(r.m);

	cr_assert_not_null(io);
	return container_of(io, struct meta__io, io);
}

static void one_done(struct meta__io *x, int status)
{
	x->io.status = status;
	meta_io_done(r.m, &x->io);
}

Test(meta_three_log, block_counts_when_all_copies_of_it_are_durable)
{
	static const uint8_t order[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					    { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

	three(1, 4, 4, false);
	rig_idle(&r);
	for (size_t n = 0; n < ARRAY_LEN(order); n++) {
		const uint64_t seq = append();
		struct meta__io *x[3];
		uint64_t drives = 0;

		meta__log_turn(r.m);
		for (uint32_t i = 0; i < 3; i++) {
			x[i] = one_io();
			drives |= 1ull << x[i]->io.drive;
			cr_assert(x[i]->io.fua && x[i]->io.buf == x[0]->io.buf);
		}
		cr_assert_eq(__builtin_popcountll(drives), 3);
		for (uint32_t i = 0; i < 3; i++) {
			cr_assert_not(meta_is_durable(r.m, seq));
			one_done(x[order[n][i]], 0);
		}
		cr_assert(meta_is_durable(r.m, seq));
	}
	r.cut = true; /* these records are of no tree */
	rig_end(&r);
}

static uint32_t copies_now(void)
{
	const struct meta__log *l = r.m->log;

	return meta__log_copies(l->zones[l->zones_count - 1].zone);
}

/* Writes until the log has so many copies, or it has long had time for that.  Returns how many. */
static uint32_t soon(uint32_t copies)
{
	for (uint32_t n = 0; n < 200 && copies_now() != copies; n++) {
		(void)put((uint32_t)rand_below(&r.rand, FILES));
		rig_idle(&r);
	}
	cr_assert_eq(rig_statfs(&r).log_copies, copies_now());
	return copies_now();
}

/* A drive is added: half a zone is not filled before there are as many copies.  Returns their
 * number. */
static uint32_t soon_with_another_drive(uint32_t copies)
{
	uint64_t before;

	rig_idle(&r);
	add_drive();
	before = meta__log_blocks(r.m);
	for (uint32_t n = 0; n < 2000 && copies_now() != copies; n++)
		if (!rig_step(&r))
			(void)put((uint32_t)rand_below(&r.rand, FILES));
	cr_assert_eq(copies_now(), copies);
	cr_assert_leq(meta__log_blocks(r.m) - before, r.m->zones->geo.zone_end / 3);
	return soon(copies);
}

/* As many copies as there are drives, up to three. */
Test(meta_three_log, log_is_soon_on_as_many_drives_as_there_are)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		three(seed, 3, 4, seed % 2);
		put_some(10);
		cr_assert_eq(soon(3), 3);
		lose_drive(2);
		cr_assert_eq(soon(2), 2);
		if (seed % 3 == 0) {
			lose_drive(1);
			cr_assert_eq(soon(1), 1);
			cr_assert_eq(soon_with_another_drive(2), 2);
		}
		cr_assert_eq(soon_with_another_drive(3), 3);
		is_whole();
		rig_end(&r);
	}
}

/* Two drives fail, at once or one after the other, and the power at any write after that.  Returns
 * what a mount without these two says, and leaves the store for its caller; -EAGAIN: the second
 * one could not be lost in the same step. */
static int two_fail(uint64_t seed, uint32_t ndrives, bool at_once)
{
	const uint32_t a = (uint32_t)(seed % ndrives),
		       b = (a + 1 + (uint32_t)(seed / 5 % (ndrives - 1))) % ndrives;

	three(seed, ndrives, 4, seed % 2);
	put_some(30);
	r.dead |= 1u << a;
	cr_assert(meta_drive_failed(r.m, a), "%s", meta_error(r.m));
	if (!at_once)
		put_some((uint32_t)rand_below(&r.rand, 4));
	r.cut_at = r.writes + 1 + rand_below(&r.rand, 80);
	r.dead |= 1u << b;
	if (!meta_drive_failed(r.m, b)) { /* at most as many are lost in a step as stay */
		cr_assert(ndrives == 3 && r.m->losing);
		return -EAGAIN;
	}
	for (uint32_t n = 0; n < 60 && !r.cut; n++)
		(void)put((uint32_t)rand_below(&r.rand, FILES));
	cr_assert(r.cut || meta_health(r.m) == 0, "%s", meta_error(r.m));
	rig_power_cut(&r);
	r.cut_at = r.dead = 0;
	take_away(a);
	take_away(b);
	return rig_mount(&r);
}

/* Each file that was acknowledged is there. */
Test(meta_three_log, two_drives_and_the_power_fail_and_nothing_is_lost)
{
	uint32_t mounts = 0;

	for (uint64_t seed = 1; seed <= test_runs(120); seed++) {
		const int err = two_fail(seed, 3 + (uint32_t)(seed % 3), seed / 3 % 2);

		cr_assert(err == 0 || err == -EAGAIN, "seed %llu: %d, %s", (unsigned long long)seed,
			  err, meta_error(r.m));
		if (!err) {
			all_is_there();
			put_some(10);
			is_whole();
			mounts++;
		}
		rig_end(&r);
	}
	cr_assert_gt(mounts, test_runs(120) / 2);
}
