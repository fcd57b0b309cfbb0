/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Folds that are being made while their zones die, headers of folds that were given up, and full
 * stores of folds that lose a drive.
 */
#include "meta/engine/meta_log.h"
#include "test/lib/runs.h"
#include "test/unit/meta_fold_store.h"

TestSuite(meta_fold_late, .timeout = 600);

static bool is_folding(void)
{
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
		if (meta__zone_at(r.m, i)->folding)
			return true;
	return false;
}

/* The reads of the folder come last, and checkpoints end before them. */
Test(meta_fold_late, pairs_are_freed_while_they_are_read)
{
	uint32_t freed = 0;

	for (uint64_t seed = 1; seed <= test_runs(30); seed++) {
		folds_of(seed, 4, 3, true);
		put_bigs(BIG);
		meta__ckpt_want(r.m);
		for (uint64_t k = rand_below(&r.rand, 20); k > 0 || !is_folding(); k -= k > 0)
			(void)rig_step(&r);
		r.lifo = true;
		for (uint32_t i = 0; i < BIG; i++)
			cr_assert_eq(rig_unlink(&r, big_path(i)), 0);
		memset(big_fill, 0, sizeof(big_fill));
		for (uint32_t n = 0; n < 3; n++) {
			const bool was = is_folding();

			meta__ckpt_want(r.m);
			for (uint32_t k = 0; k < 40; k++)
				(void)rig_step(&r);
			freed += was && !is_folding();
			put_bigs(10);
		}
		r.lifo = false;
		fold();
		folds_are_right();
		bigs_are_there();
		is_whole();
		rig_end(&r);
	}
	cr_assert_gt(freed, 0);
}

static uint64_t base_of(uint32_t zone)
{
	return meta__geo_zone_baddr(&r.m->zones->geo, zone);
}

/* Free, on another drive than these two. */
static uint32_t free_but(uint32_t a, uint32_t b)
{
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
		if (meta__zone_at(r.m, i)->state == ZONE_FREE && drive_of(i) != drive_of(a) &&
		    drive_of(i) != drive_of(b) && meta__mark_drive(r.m, i) == META_DRIVES_MAX)
			return i;
	return META__ZONE_NONE;
}

/* A zone in a fold, and one that is in a pair with a lower number, on another drive. */
static bool find_two(uint32_t *folded, uint32_t *paired)
{
	for (uint32_t a = 0; a < r.m->zones->geo.nzones; a++) {
		const struct meta__zone *at = meta__zone_at(r.m, a);
		uint64_t number;

		if (!meta__in_fold(at) || at->parity)
			continue;
		number = meta__zone_at(r.m, meta__fold_parity(r.m, a))->pair;
		for (uint32_t b = 0; b < r.m->zones->geo.nzones; b++) {
			const struct meta__zone *p = meta__zone_at(r.m, b);

			if (p->kind != META__ZONE_DATA || !p->twin || !p->live ||
			    p->state != ZONE_CLOSED || p->pair + 1 >= number ||
			    drive_of(b) == drive_of(a))
				continue;
			*folded = a;
			*paired = b;
			return true;
		}
	}
	return false;
}

/* A header names both, of a fold that was given up when it was durable: one of them is in a later
 * fold by now.  The other one's drive is missing. */
Test(meta_fold_late, fold_that_was_given_up_leaves_pairs_alone)
{
	uint32_t found = 0;

	for (uint64_t seed = 1; seed <= test_runs(30); seed++) {
		struct meta__zone_seen head = { .kind = META__ZONE_PARITY, .members = 2 };
		uint8_t block[4096];
		uint32_t drive;

		folds_of(seed, 4, 3, true);
		changes(100);
		fold();
		if (!find_two(&head.member[0], &head.member[1])) {
			rig_end(&r);
			continue;
		}
		found++;
		head.zone = free_but(head.member[0], head.member[1]);
		cr_assert_neq(head.zone, META__ZONE_NONE);
		head.incarnation = meta__zone_at(r.m, head.zone)->incarnation + 1;
		head.pair = meta__zone_at(r.m, meta__fold_parity(r.m, head.member[0]))->pair - 1;
		for (uint32_t i = 0; i < 2; i++)
			head.member_incarnation[i] =
				meta__zone_at(r.m, head.member[i])->incarnation;
		drive = drive_of(head.member[1]);
		for (uint32_t b = 1; b < r.m->zones->geo.zone_end; b++) { /* what it says is true */
			memset(block, 0, sizeof(block));
			for (uint32_t i = 0; i < 2; i++)
				xor_into(block, view_at(base_of(head.member[i]) + b), 4096);
			write_at(base_of(head.zone) + b, block, 1);
		}
		meta__zone_build(&head, r.m->uuid, block);
		for (uint32_t copy = 0; copy < 2; copy++)
			write_at(meta__geo_zone_head(&r.m->zones->geo, head.zone, copy), block, 1);
		rig_power_cut(&r);
		wreck(drive);
		r.conf.drive[drive].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_is_there();
		clear_unsure();
		rebuilt(drive);
		is_whole();
		rig_end(&r);
	}
	cr_assert_gt(found, 3);
}

/* A zone of parity whose header with members is being written. */
static uint32_t being_named(void)
{
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
		const struct meta__zone *at = meta__zone_at(r.m, i);

		if (at->kind == META__ZONE_PARITY && at->state == ZONE_CLOSED && !at->parity &&
		    at->mending)
			return i;
	}
	return META__ZONE_NONE;
}

/* Its write takes long: meanwhile files are removed, and zones are freed, deallocated and used
 * again.  Then it ends, and a drive is missing at a mount, or none. */
Test(meta_fold_late, zones_die_while_the_header_is_written)
{
	for (uint64_t seed = 1; seed <= test_runs(60); seed++) {
		const uint32_t drive = (uint32_t)seed % 6;
		uint32_t parity;

		folds_of(seed, 4, 3, true);
		put_bigs(BIG);
		meta__ckpt_want(r.m);
		while ((parity = being_named()) == META__ZONE_NONE)
			(void)rig_step(&r);
		for (uint32_t copy = 0; copy < 2; copy++)
			r.stalled[copy] = meta__geo_zone_head(&r.m->zones->geo, parity, copy);
		for (uint32_t i = 0; i < BIG; i++) {
			if (seed % 2 && rand_below(&r.rand, 3) == 0)
				continue;
			cr_assert_eq(rig_unlink(&r, big_path(i)), 0);
			big_fill[i] = 0;
		}
		for (uint32_t n = 0; n < 4; n++) {
			meta__ckpt_want(r.m);
			for (uint32_t k = 0; k < 200; k++)
				(void)rig_step(&r);
			put_bigs(n);
		}
		r.stalled[0] = r.stalled[1] = 0;
		for (uint64_t k = rand_below(&r.rand, 100); k > 0; k--)
			(void)rig_step(&r);
		rig_power_cut(&r);
		if (drive < 4) {
			wreck(drive);
			r.conf.drive[drive].nblocks = 0;
		}
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		folds_are_right();
		bigs_are_there();
		rig_end(&r);
	}
}

/* A store of folds that is full, but for its spare room, loses a drive. */
Test(meta_fold_late, full_store_is_rebuilt)
{
	uint32_t stuck = 0;

	for (uint64_t seed = 1; seed <= 6; seed++) {
		const uint32_t drives = 4 + (uint32_t)seed % 2, drive = (uint32_t)seed % drives;
		char path[32];
		uint32_t n = 0;
		int err;

		folds_of(seed, drives, drives - 1, true);
		meta_rebuild_spare(r.m, META_SPARE_AUTO);
		do {
			(void)snprintf(path, sizeof(path), "/fill %u", n);
			err = rig_put(&r, path, 12, 7 + n);
			n += err == 0;
		} while (err == 0);
		cr_assert_eq(err, -ENOSPC);
		r.dead = 1u << drive;
		cr_assert(meta_drive_failed(r.m, drive));
		for (uint32_t turns = 0; turns < 300 && !stat_of(drive).gone; turns++)
			rig_idle(&r);
		stuck += !stat_of(drive).gone;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t got;
			uint64_t fill;

			(void)snprintf(path, sizeof(path), "/fill %u", i);
			cr_assert_eq(rig_get(&r, path, &got, &fill), 0, "%s", path);
			cr_assert_eq(fill, 7 + i);
		}
		folds_are_right();
		rig_end(&r);
	}
	cr_assert_eq(stuck, 0);
}

/* An I/O that a slow drive has: taken out of the rig's queue.  NULL: none is like that. */
static struct meta__io *hold_io(bool (*is_it)(const struct meta__io *x))
{
	for (struct list *l = r.queue.next; l != &r.queue; l = l->next) {
		struct meta__io *x = list_entry(l, struct meta__io, io.link);

		if (!is_it(x))
			continue;
		list_del(l);
		list_init(l);
		return x;
	}
	return NULL;
}

static bool is_fold_io(const struct meta__io *x)
{
	return x->kind == META__IO_FOLD;
}

/* The write of the last copy of a header that names the members of a fold. */
static bool is_naming(const struct meta__io *x)
{
	const struct meta__zone_io *io = x->owner;
	const struct meta__zone *at;

	if (x->kind != META__IO_ZONE || x->io.op != META_IO_WRITE || !io->mends || io->copies)
		return false;
	at = meta__zone_at(r.m, io->zone);
	return at->kind == META__ZONE_PARITY && at->state == ZONE_CLOSED && !at->parity;
}

/* Turns until a drive has such an I/O, and takes it. */
static struct meta__io *step_until(bool (*is_it)(const struct meta__io *x))
{
	struct meta__io *x = NULL;

	for (uint32_t n = 0; n < 20000 && !x; n++) {
		if (n % 50 == 0)
			meta__ckpt_want(r.m);
		(void)rig_step(&r);
		x = hold_io(is_it);
	}
	cr_assert(x);
	return x;
}

static struct meta__io *naming_begins(void)
{
	uint32_t parity;
	struct meta__io *x;

	meta__ckpt_want(r.m);
	while ((parity = being_named()) == META__ZONE_NONE)
		(void)rig_step(&r);
	for (uint32_t copy = 0; copy < 2; copy++) /* so that no drive ends it at once */
		r.stalled[copy] = meta__geo_zone_head(&r.m->zones->geo, parity, copy);
	for (x = hold_io(is_naming); !x; x = hold_io(is_naming)) {
		r.stalled[0] = 0;
		(void)rig_step(&r);
	}
	r.stalled[0] = r.stalled[1] = 0;
	return x;
}

static uint32_t parity_being_made(void)
{
	uint32_t zone = 0;

	while (meta__zone_at(r.m, zone)->kind != META__ZONE_PARITY ||
	       meta__zone_at(r.m, zone)->parity)
		zone++;
	return zone;
}

/* The write of this header that the store wants fails at once. */
static void head_fails(uint32_t zone)
{
	struct meta__io *x = NULL;

	for (uint32_t i = 0; i < META__ZONE_IOS; i++)
		if (r.m->zones->io[i].zone == zone)
			x = &r.m->zones->io[i].x;
	cr_assert(x);
	list_del(&x->io.link);
	list_init(&x->io.link);
	x->io.status = -EIO;
	meta_io_done(r.m, &x->io);
}

/* The scrub finds a damaged copy of it while its fold is made, and cannot write it. */
Test(meta_fold_late, header_that_could_not_be_mended_once_is_no_lost_drive)
{
	struct meta__io *x;
	struct meta__zone_seen head;

	folds_of(1, 4, 3, true);
	put_bigs(BIG);
	x = step_until(is_fold_io);
	head = meta__zone_head(r.m, parity_being_made());
	cr_assert(meta__zone_mend(r.m, &head, 1));
	head_fails(head.zone);
	list_push_back(&r.queue, &x->io.link);
	fold();
	for (uint32_t d = 0; d < 4; d++)
		cr_assert_eq(r.m->zones->geo.state[d], DRIVE_SERVES, "drive %u", d);
	cr_assert_eq(r.m->failed, 0);
	folds_are_right();
	rig_end(&r);
}

static void ends(struct meta__io *x)
{
	x->io.status = 0;
	memcpy(view_at(META_BADDR(x->io.drive, x->io.block)), x->io.buf, 4096);
	memcpy(rig_block(&r, META_BADDR(x->io.drive, x->io.block)), x->io.buf, 4096);
	meta_io_done(r.m, &x->io);
}

/* The header with the members is durable, and the store has not had a turn since: whoever writes
 * it again writes the same one, and a write that fails then does no harm. */
Test(meta_fold_late, header_that_is_written_again_at_once_has_its_members)
{
	for (uint64_t seed = 1; seed <= test_runs(10); seed++) {
		struct meta__zone_seen head;
		struct meta__io *x;
		uint32_t zone, folds;

		folds_of(seed, 4, 3, true);
		put_bigs(BIG);
		x = naming_begins();
		cr_assert(x->io.must);
		zone = parity_being_made();
		cr_assert_eq(meta__zone_head(r.m, zone).members, 3);
		ends(x);
		head = meta__zone_head(r.m, zone);
		cr_assert_eq(head.members, 3);
		cr_assert_eq(head.incarnation, meta__zone_at(r.m, zone)->incarnation);
		folds = r.m->zones->folds;
		if (seed % 2) {
			cr_assert(meta__zone_mend(r.m, &head, 3));
			head_fails(zone);
		}
		fold();
		cr_assert_gt(r.m->zones->folds, folds);
		for (uint32_t d = 0; d < 4; d++)
			cr_assert_eq(r.m->zones->geo.state[d], DRIVE_SERVES, "drive %u", d);
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		folds_are_right();
		bigs_are_there();
		rig_end(&r);
	}
}

/* A check begins while a fold is made: then none is under way while it looks. */
Test(meta_fold_late, check_waits_for_folds)
{
	for (uint64_t seed = 1; seed <= test_runs(20); seed++) {
		struct meta_check check = { 0 };
		struct meta__io *x;

		folds_of(seed, 4, 3, true);
		put_bigs(BIG);
		x = seed % 2 ? naming_begins() : step_until(is_fold_io);
		meta_check_start(r.m, &check);
		for (uint32_t n = 0; n < 200; n++)
			(void)rig_step(&r);
		cr_assert_eq(meta_check_status(r.m), -EAGAIN);
		list_push_back(&r.queue, &x->io.link);
		while (meta_check_status(r.m) == -EAGAIN) {
			(void)rig_step(&r);
			cr_assert(check.pages == 0 || meta__folder_idle(r.m));
		}
		cr_assert_eq(meta_check_status(r.m), 0, "%s", check.first[0]);
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		folds_are_right();
		bigs_are_there();
		fold();
		folds_are_right();
		rig_end(&r);
	}
}

static void drains(uint32_t drive, int (*how)(struct meta *m, uint32_t drive), bool draining)
{
	int err;

	while ((err = how(r.m, drive)) == -EBUSY) /* superblocks are being written */
		(void)rig_step(&r);
	cr_assert_eq(err, 0, "%u: %d", drive, err);
	while (stat_of(drive).draining != draining)
		(void)rig_step(&r);
}

/* Zones of folds that have ended are opened again without a twin, while one drive serves.  The
 * headers of parity on the others still name them, in an earlier use. */
Test(meta_fold_late, zones_that_were_opened_again_alone_are_in_no_fold)
{
	uint32_t again = 0;

	for (uint64_t seed = 1; seed <= 6; seed++) {
		bool was[RIG_DRIVES_MAX * 256] = { false };

		folds_of(seed, 3, 2, true);
		put_bigs(BIG);
		fold();
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
			was[i] = meta__in_fold(meta__zone_at(r.m, i)) && drive_of(i) == 0 &&
				 !meta__zone_at(r.m, i)->parity;
		for (uint32_t i = 4; i < BIG; i++) {
			cr_assert_eq(rig_unlink(&r, big_path(i)), 0);
			big_fill[i] = 0;
		}
		fold();
		meta_rebuild_pace(r.m, 1, 0); /* what is on the others stays there */
		drains(1, meta_drive_drain, true);
		drains(2, meta_drive_drain, true);
		for (uint32_t i = 4; i < BIG / 2; i++)
			cr_assert_eq(put_big(i), 0, "%s", meta_error(r.m));
		drains(1, meta_drive_undrain, false);
		drains(2, meta_drive_undrain, false);
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
			again += was[i] && meta__zone_at(r.m, i)->lone &&
				 meta__zone_at(r.m, i)->live;
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		folds_are_right();
		bigs_are_there();
		rig_idle(&r);
		cr_assert_eq(rig_thin_zones(&r), 0);
		folds_are_right();
		is_whole();
		rig_end(&r);
	}
	cr_assert_gt(again, 10, "%u", again);
}

/* Returns whether the header says what the zone was when it was used last. */
static bool is_as_it_was(uint32_t zone, uint64_t incarnation)
{
	const struct meta__zone *at = meta__zone_at(r.m, zone);
	struct meta__zone_seen seen;

	return at->state == ZONE_FREE && at->incarnation == incarnation &&
	       meta__zone_parse(view_at(meta__geo_zone_head(&r.m->zones->geo, zone, 0)), r.m->uuid,
				zone, &seen) == 0 &&
	       seen.kind == META__ZONE_DATA;
}

/* A free zone's header is that of the parity of a fold that has ended.  One zone of that fold is in
 * a pair by now, and all others are as they were.  Returns the one.  META__ZONE_NONE: none. */
static uint32_t used_again(uint32_t parity)
{
	const struct meta__geo *g = &r.m->zones->geo;
	uint32_t again = META__ZONE_NONE;
	struct meta__zone_seen head;

	if (meta__zone_at(r.m, parity)->state != ZONE_FREE ||
	    meta__zone_parse(view_at(meta__geo_zone_head(g, parity, 0)), r.m->uuid, parity,
			     &head) ||
	    head.kind != META__ZONE_PARITY || head.members == 0)
		return META__ZONE_NONE;
	for (uint32_t i = 0; i < head.members; i++) {
		const struct meta__zone *at = meta__zone_at(r.m, head.member[i]);

		if (is_as_it_was(head.member[i], head.member_incarnation[i]))
			continue;
		if (again != META__ZONE_NONE || at->kind != META__ZONE_DATA || !at->twin ||
		    !at->live)
			return META__ZONE_NONE;
		again = head.member[i];
	}
	return again;
}

/* The header of a zone is lost, so the store does not know its use.  The header of its twin says
 * that it is in a pair, and an older one that it is in a fold. */
Test(meta_fold_late, zone_whose_header_is_lost_is_what_the_newest_says)
{
	uint32_t found = 0;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		uint32_t lost = META__ZONE_NONE;

		folds_of(seed, 4, 2 + seed % 2, true);
		put_bigs(BIG);
		fold();
		for (uint32_t i = 0; i < BIG; i++)
			cr_assert_eq(rig_unlink(&r, big_path(i)), 0);
		memset(big_fill, 0, sizeof(big_fill));
		fold();
		for (uint32_t n = 0; n < 6 * BIG && lost == META__ZONE_NONE; n++) {
			cr_assert_eq(put_big(n % BIG), 0);
			for (uint32_t i = 0; i < r.m->zones->geo.nzones && lost == META__ZONE_NONE;
			     i++)
				lost = used_again(i);
		}
		for (uint32_t copy = 0; copy < 2 && lost != META__ZONE_NONE; copy++) {
			static const uint8_t garbage[4096] = { 0x55 };

			write_at(meta__geo_zone_head(&r.m->zones->geo, lost, copy), garbage, 1);
		}
		found += lost != META__ZONE_NONE;
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		folds_are_right();
		cr_assert_eq(rig_thin_zones(&r), 0);
		bigs_are_there();
		rig_end(&r);
	}
	cr_assert_gt(found, 1, "%u", found);
}

/* Is the zone named as a twin by a zone of data that is in a fold by now? */
static bool was_twin(uint32_t zone)
{
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
		const struct meta__zone *at = meta__zone_at(r.m, i);
		struct meta__zone_seen head;

		if (meta__in_fold(at) && !at->parity &&
		    meta__zone_parse(view_at(meta__geo_zone_head(&r.m->zones->geo, i, 0)),
				     r.m->uuid, i, &head) == 0 &&
		    head.twin == zone + 1)
			return true;
	}
	return false;
}

/* Returns a copy of the last zone of the log where a fold has freed a twin, and the other copy. */
static bool find_log(uint32_t *zone, uint32_t *other)
{
	const struct meta__log *l = r.m->log;
	const uint32_t *last = l->zones[l->zones_count - 1].zone;

	if (l->zones_count == 0 || meta__log_copies(last) < 2)
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		*zone = last[i];
		*other = last[i ^ 1];
		if (was_twin(*zone) && !was_twin(*other))
			return true;
	}
	return false;
}

/* Both headers of such a zone are lost, and the log cannot be read in its other copy. */
Test(meta_fold_late, log_is_found_in_a_zone_that_a_fold_has_freed)
{
	uint32_t found = 0;

	for (uint64_t seed = 1; seed <= 30; seed++) {
		static const uint8_t garbage[4096] = { 0x55 };
		uint32_t zone, other;
		bool is = false;

		folds_of(seed, 4, 2 + (uint32_t)(seed % 2), true);
		put_bigs(BIG);
		fold();
		for (uint32_t n = 0; n < 40 && !is; n++) {
			put_some(5);
			meta__ckpt_want(r.m);
			rig_idle(&r);
			put_some(5);
			is = find_log(&zone, &other);
		}
		for (uint32_t copy = 0; copy < 2 && is; copy++)
			write_at(meta__geo_zone_head(&r.m->zones->geo, zone, copy), garbage, 1);
		for (uint32_t i = 1; i < r.m->zones->geo.zone_end && is; i++)
			write_at(base_of(other) + i, garbage, 1);
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_is_there();
		bigs_are_there();
		folds_are_right();
		is_whole();
		rig_end(&r);
		found += is;
	}
	cr_assert_gt(found, 5);
}
