/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Drives of one failure domain fail together: no group, fold, zone of the log or root has two
 * copies there, whatever was opened, moved and lost before; so all of them may go at once. */
#include "test/unit/meta_fold_store.h"
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_log.h"

TestSuite(meta_domain, .timeout = 300);

/* Drives 0 to 5, by the first letters of their domains: "aabbcc"; '-' is a domain of its own. */
static void name_domains(const char *names)
{
	for (uint32_t d = 0; names[d]; d++)
		r.conf.drive[d].domain = names[d] == '-' ? 0 : (uint32_t)(names[d] - 'a' + 1);
}

static void make(uint64_t seed, const char *names, uint32_t copies, uint32_t width)
{
	uint64_t bytes[RIG_DRIVES_MAX];

	for (uint32_t d = 0; d < RIG_DRIVES_MAX; d++)
		bytes[d] = DRIVE_BYTES;
	rig_make_of(&r, seed, (uint32_t)strlen(names), bytes, 4, seed % 2);
	memset(fill_of, 0, sizeof(fill_of));
	memset(unsure, 0, sizeof(unsure));
	memset(big_fill, 0, sizeof(big_fill));
	fills = 0;
	r.conf.copies = copies;
	r.conf.fold = width;
	r.copied = copies > 1;
	name_domains(names);
}

static void domains_of(uint64_t seed, const char *names, uint32_t copies, uint32_t width)
{
	make(seed, names, copies, width);
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
}

static bool is_apart(uint64_t drives)
{
	return meta__domains_in(r.m, drives) == (uint32_t)__builtin_popcountll(drives);
}

static void log_is_apart(const uint32_t zone[META__LOG_COPIES])
{
	uint64_t drives = 0;

	for (uint32_t i = 0; i < meta__log_copies(zone); i++)
		drives |= 1ull << drive_of(zone[i]);
	cr_assert(is_apart(drives), "drives %llx", (unsigned long long)drives);
}

static bool roots_are_apart(void)
{
	bool share = false;

	for (uint32_t copy = 1; copy < r.m->zones->geo.root_copies; copy++)
		share |= meta__geo_roots_share(&r.m->zones->geo, copy, r.m->mates);
	return !share;
}

static uint32_t nears(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
		if (meta__zone_at(r.m, i)->state != ZONE_FREE &&
		    meta__zone_at(r.m, i)->state != ZONE_GONE)
			count += !is_apart(meta__drives_of(r.m, i));
	return count;
}

/* Groups, folds and the log; the roots follow when a drive leaves. */
static void all_is_apart(void)
{
	const struct meta__log *l = r.m->log;

	cr_assert(r.m->domains);
	cr_assert_eq(nears(), 0);
	cr_assert_eq(r.m->zones->nears, 0);
	log_is_apart(l->ahead);
	for (uint32_t i = 0; i < l->zones_count; i++)
		log_is_apart(l->zones[i].zone);
}

static void all_are_there(void)
{
	all_is_there();
	bigs_are_there();
}

/* Names whose groups of so many copies, and folds, need each domain or leave some room. */
static const char *const layouts[] = { "aabbcc", "abcabc", "aab-c-", "aaabbc", "ab-acd", "a-bbc" };
#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

Test(meta_domain, nothing_has_two_zones_in_one_domain)
{
	uint32_t folds = 0;

	for (uint64_t seed = 1; seed <= 24; seed++) {
		const uint32_t copies = 2 + (uint32_t)(seed % 2);

		domains_of(seed, layouts[seed % LAYOUTS], copies,
			   seed % 4 == 0 ? 2 : 0); /* 2 + 1 */
		cr_assert(roots_are_apart());
		for (uint32_t n = 0; n < 6; n++) {
			changes(40);
			all_is_apart();
			fold();
			all_is_apart();
			folds += r.m->zones->folds;
		}
		cr_assert(roots_are_apart());
		all_are_there();
		folds_are_right();
		rig_end(&r);
	}
	cr_assert_gt(folds, 8);
}

/* ---- a domain is lost ---------------------------------------------------------------------- */

/* Returns the drives of a domain that has several. */
static uint32_t a_domain(void)
{
	uint32_t d;

	do
		d = (uint32_t)rand_below(&r.rand, r.ndrives);
	while (!(r.m->mates[d] & (r.m->mates[d] - 1)));
	return (uint32_t)r.m->mates[d];
}

static void wreck_all(uint32_t drives)
{
	for (; drives; drives &= drives - 1)
		wreck((uint32_t)__builtin_ctz(drives));
}

/* A mount does not find them; `told` by the operator, too. */
static void take_away(uint32_t drives, bool told)
{
	for (; drives; drives &= drives - 1) {
		r.conf.drive[__builtin_ctz(drives)].nblocks = 0;
		r.conf.drive[__builtin_ctz(drives)].missing = told;
	}
}

static void no_error(uint64_t seed)
{
	cr_assert_eq(meta_health(r.m), 0, "seed %llu: %s", (unsigned long long)seed,
		     meta_error(r.m));
}

/* The drives die at this moment, one a little later than the other, while files are written. */
static void all_die(uint32_t drives, uint64_t seed)
{
	for (uint32_t left = drives; left; left &= left - 1) {
		const uint32_t d = (uint32_t)__builtin_ctz(left);

		r.dead |= 1u << d;
		cr_assert(meta_drive_failed(r.m, d), "seed %llu, drive %u: %s",
			  (unsigned long long)seed, d, meta_error(r.m));
		for (uint64_t n = rand_below(&r.rand, 40) * (seed % 3); n > 0 && !r.cut; n--)
			(void)rig_step(&r);
	}
}

Test(meta_domain, whole_domain_dies_at_any_moment)
{
	for (uint64_t seed = 1; seed <= 36; seed++) {
		const uint32_t copies = 2 + (uint32_t)(seed % 2);
		uint32_t drives;

		domains_of(seed, layouts[seed % 3], copies, seed % 4 == 0 ? 2 : 0);
		drives = a_domain();
		changes(40 + (uint32_t)rand_below(&r.rand, 60));
		for (uint64_t n = rand_below(&r.rand, 400); n > 0; n--)
			(void)rig_step(&r);
		r.cut_at = seed % 3 == 0 ? r.writes + 1 + rand_below(&r.rand, 60) : 0;
		all_die(drives, seed);
		changes(20);
		no_error(seed);
		rig_power_cut(&r);
		r.cut_at = 0;
		r.dead = 0;
		if (seed % 2) {
			wreck_all(drives);
		} else {
			take_away(drives, (uint32_t)__builtin_popcount(drives) * 2 >= r.ndrives);
		}
		cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
			     meta_error(r.m));
		clear_unsure();
		all_are_there();
		put_some(20);
		is_whole();
		no_error(seed);
		rig_end(&r);
	}
}

/* In the very same write. */
Test(meta_domain, drives_of_a_domain_die_at_the_same_write)
{
	for (uint64_t seed = 1; seed <= 18; seed++) {
		domains_of(seed, layouts[seed % 2], 2 + (uint32_t)(seed % 2),
			   seed % 4 == 0 ? 2 : 0);
		changes(40);
		r.dying = a_domain();
		r.dies_at = r.writes + 1 + rand_below(&r.rand, 200);
		changes(60);
		no_error(seed);
		all_are_there();
		rig_power_cut(&r);
		wreck_all(r.dying);
		r.dying = 0;
		cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
			     meta_error(r.m));
		clear_unsure();
		all_are_there();
		is_whole();
		rig_end(&r);
	}
}

/* Without its name the store is refused: two drives are more than it can do without. */
Test(meta_domain, mount_without_a_domain)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		domains_of(seed, "aabbcc", 2, seed % 2 ? 2 : 0);
		changes(80);
		fold();
		cr_assert_eq(rig_stop(&r), 0);
		take_away(0x0c, false);
		name_domains("------");
		cr_assert_eq(rig_mount(&r), -ENODEV);
		cr_assert(strstr(meta_error(r.m), "drive 2"), "%s", meta_error(r.m));
		meta_destroy(r.m);
		r.m = NULL;
		name_domains("aabbcc");
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert(stat_of(2).lost && stat_of(3).lost);
		all_are_there();
		for (uint32_t n = 0; n < 300 && !(stat_of(2).gone && stat_of(3).gone); n++)
			rig_idle(&r);
		cr_assert(stat_of(2).gone && stat_of(3).gone, "they are rebuilt on the others");
		cr_assert_eq(rig_thin_zones(&r), 0);
		cr_assert(roots_are_apart());
		all_is_apart();
		is_whole();
		rig_end(&r);
	}
}

/* ---- named later --------------------------------------------------------------------------- */

static void becomes_apart(void)
{
	for (uint32_t n = 0; n < 300 && (r.m->zones->nears > 0 || !roots_are_apart()); n++)
		rig_idle(&r);
	cr_assert_eq(r.m->zones->nears, 0);
	cr_assert(roots_are_apart());
	rig_idle(&r);
}

Test(meta_domain, domains_that_are_named_later_are_kept)
{
	uint32_t before = 0;

	for (uint64_t seed = 1; seed <= 16; seed++) {
		const uint32_t copies = 2 + (uint32_t)(seed % 2);
		uint32_t drives;

		domains_of(seed, "------", copies, seed % 4 == 0 ? 2 : 0);
		cr_assert(!r.m->domains);
		changes(150);
		fold();
		cr_assert_eq(rig_stop(&r), 0);
		name_domains(layouts[seed % 2]);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		before += r.m->zones->nears;
		cr_assert_eq(r.m->zones->nears > 0, nears() > 0);
		if (seed % 3 == 0) {
			r.cut_at = r.writes + 1 + rand_below(&r.rand, 400);
			changes(40);
			rig_power_cut(&r);
			r.cut_at = 0;
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			clear_unsure();
		}
		becomes_apart();
		all_is_apart();
		all_are_there();
		drives = a_domain();
		all_die(drives, seed);
		rig_power_cut(&r);
		wreck_all(drives);
		r.dead = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_are_there();
		is_whole();
		rig_end(&r);
	}
	cr_assert_gt(before, 40);
}

/* A mount that is told of a domain only when it is missing decides by the groups. */
Test(meta_domain, domain_that_is_named_when_it_is_missing_is_not_believed)
{
	uint32_t refused = 0;

	for (uint64_t seed = 1; seed <= 4; seed++) {
		int err;

		domains_of(seed, "------", 2, seed % 2 ? 2 : 0);
		changes(120);
		fold();
		cr_assert_eq(rig_stop(&r), 0);
		take_away(0x0c, false);
		name_domains("aabbcc");
		err = rig_mount(&r);
		cr_assert(err, "some group had both copies there");
		refused++;
		meta_destroy(r.m);
		r.m = NULL;
		for (uint32_t d = 2; d < 4; d++)
			r.conf.drive[d].nblocks = DRIVE_BYTES / 4096;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_are_there();
		is_whole();
		rig_end(&r);
	}
	cr_assert_eq(refused, 4);
}

Test(meta_domain, too_few_domains_do_not_count)
{
	static const char *const few[] = { "aaaa", "aabb" };

	for (uint32_t copies = 2; copies <= 3; copies++) {
		make(1, few[copies - 2], copies, 0);
		cr_assert_str_eq(meta_conf_problem(&r.conf),
				 "copies of a block need as many failure domains");
		name_domains("----");
		cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
		changes(60);
		cr_assert_eq(rig_stop(&r), 0);
		name_domains(few[copies - 2]);
		r.conf.copies = 0; /* the store says it */
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert(!r.m->domains && r.m->domains_few);
		cr_assert_eq(meta__width(r.m), copies);
		changes(60);
		cr_assert_eq(rig_thin_zones(&r), 0);
		is_whole();
		rig_end(&r);
	}
	make(1, "aabb--", 2, 4);
	cr_assert(strstr(meta_conf_problem(&r.conf), "a fold needs a failure domain"));
	r.conf.fold = 3;
	cr_assert(!meta_conf_problem(&r.conf));
	rig_format(&r);
	rig_end(&r);
}

/* ---- drives come and go -------------------------------------------------------------------- */

Test(meta_domain, drains_leave_as_many_domains_as_copies)
{
	domains_of(3, "aaabbb", 2, 0);
	changes(30);
	cr_assert_eq(meta_drive_drain(r.m, 0), 0);
	for (uint32_t n = 0; n < 300 && !stat_of(0).gone; n++)
		rig_idle(&r);
	cr_assert(stat_of(0).gone);
	all_is_apart();
	cr_assert(roots_are_apart());
	cr_assert_eq(meta_drive_drain(r.m, 1), 0);
	for (uint32_t n = 0; n < 300 && !stat_of(1).gone; n++)
		rig_idle(&r);
	cr_assert(stat_of(1).gone);
	cr_assert_eq(meta_drive_drain(r.m, 2), -EPERM, "the last of its domain");
	all_is_apart();
	is_whole();
	rig_end(&r);
}

static void add_to(uint32_t domain)
{
	const uint32_t added = rig_drive(&r, DRIVE_BYTES, true);

	r.conf.drive[added].tag = added + 7;
	r.conf.drive[added].domain = domain;
	cr_assert_eq(rig_drive_add(&r, added), 0, "%s", meta_error(r.m));
	r.conf.ndrives = meta_drives(r.m);
}

/* Two copies need two domains while the old drive is emptied, too. */
Test(meta_domain, replacement_leaves_as_many_domains_as_copies)
{
	for (uint32_t domain = 0; domain <= 2; domain++) {
		uint32_t added;

		domains_of(5, "abb", 2, 0);
		changes(30);
		added = rig_drive(&r, DRIVE_BYTES, true);
		r.conf.drive[added].tag = added + 7;
		r.conf.drive[added].domain = domain;
		r.conf.drive[added].replaces = 1;
		cr_assert_eq(rig_drive_add(&r, added), domain == 2 ? -EPERM : 0, "domain %u",
			     domain);
		r.conf.ndrives = meta_drives(r.m);
		cr_assert_eq(r.conf.ndrives, domain == 2 ? 3 : 4);
		r.conf.drive[added].replaces = 0;
		for (uint32_t n = 0; domain != 2 && n < 300 && !stat_of(0).gone; n++) {
			cr_assert_eq(meta__width(r.m), 2);
			rig_idle(&r);
		}
		cr_assert_eq(stat_of(0).gone, domain != 2);
		all_is_apart();
		is_whole();
		rig_end(&r);
	}
}

/* Two domains, one of which is lost: groups are narrow until drives of another one are added. */
Test(meta_domain, domain_that_is_added_takes_the_place_of_a_lost_one)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		domains_of(seed, "aabb", 2, 0);
		changes(60);
		all_die(0x0c, seed);
		rig_idle(&r);
		cr_assert(stat_of(2).lost && stat_of(3).lost);
		cr_assert_eq(meta__width(r.m), 1);
		changes(30);
		add_to(3);
		cr_assert_eq(meta__width(r.m), 2);
		add_to(3);
		for (uint32_t n = 0; n < 300 && !(stat_of(2).gone && stat_of(3).gone); n++)
			rig_idle(&r);
		cr_assert(stat_of(2).gone && stat_of(3).gone, "seed %llu",
			  (unsigned long long)seed);
		cr_assert_eq(rig_thin_zones(&r), 0);
		cr_assert(roots_are_apart());
		all_is_apart();
		is_whole();
		all_die(0x03, seed);
		all_are_there();
		rig_end(&r);
	}
}

Test(meta_domain, store_of_one_copy_gets_its_second_ones_in_other_domains)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		domains_of(seed, seed % 2 ? "aabb" : "aabbcc", 1, 0);
		cr_assert(roots_are_apart());
		changes(60);
		r.copied = true;
		cr_assert_eq(meta_protect(r.m, 2), 0);
		for (uint32_t n = 0; n < 300 && (r.m->converts || r.m->copies < 2); n++)
			rig_idle(&r);
		cr_assert(!r.m->converts && r.m->copies == 2, "%s", meta_error(r.m));
		all_is_apart();
		all_die(0x03, seed);
		changes(20);
		all_are_there();
		no_error(seed);
		rig_end(&r);
	}
	domains_of(1, "aaa", 1, 0);
	cr_assert_eq(meta_protect(r.m, 2), -EPERM);
	rig_end(&r);
}

/* ---- space (4) ----------------------------------------------------------------------------- */

static uint32_t any_with_room(const uint32_t *zones)
{
	uint32_t d;

	do
		d = (uint32_t)rand_below(&r.rand, 6);
	while (zones[d] == 0);
	return d;
}

/* Whatever drive the first zone is on, no zones are left that could have made a group. */
Test(meta_domain, twins_are_picked_so_that_all_groups_can_be_made)
{
	for (uint32_t k = 0; k < 5; k++) {
		uint32_t *zones, was[6];

		domains_of(1, layouts[k], 3, 0);
		zones = r.m->zones->free_count;
		memcpy(was, zones, sizeof(was));
		for (uint32_t i = 0; i < 300; i++) {
			const uint32_t width = 2 + i % 2;
			uint32_t groups, twin[META__TWINS_MAX];

			for (uint32_t d = 0; d < 6; d++)
				zones[d] = (uint32_t)rand_below(&r.rand, i % 3 ? 9 : 60);
			groups = meta__groups_on(r.m, zones, width);
			for (uint32_t n = 0; n < groups; n++) {
				const uint32_t d = any_with_room(zones);
				const uint32_t zone = meta__zone_next(r.m, d);

				cr_assert_eq(meta__zone_pick_twins(r.m, zone, width - 1, twin),
					     width - 1);
				zones[d]--;
				for (uint32_t t = 0; t < width - 1; t++)
					zones[drive_of(twin[t])]--;
				cr_assert_geq(meta__groups_on(r.m, zones, width), groups - n - 1);
			}
		}
		memcpy(zones, was, sizeof(was));
		rig_end(&r);
	}
}

static const char *full_path(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/full %u", i);
	return path;
}

Test(meta_domain, files_fill_what_groups_of_domains_can_hold)
{
	static const char *const names[] = { "aabbcc", "aaaab-", "aaabbb", "aab-c-" };

	for (uint32_t k = 0; k < 8; k++) {
		const uint32_t width = k < 4 || k % 4 == 1 || k % 4 == 2 ? 0 : 2;
		uint64_t promised, had = 0, fill;
		uint32_t count = 0, blocks;

		make(k + 1, names[k % 4], 2, width);
		r.conf.spare_drives = k % 2 ? 0 : META_SPARE_AUTO;
		cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
		promised = rig_statfs(&r).blocks_free;
		cr_assert_gt(promised, 0);
		while (rig_put(&r, full_path(count), 12, count + 1) == 0) {
			had += 12;
			count++;
			if (count % 40 == 0)
				fold();
		}
		cr_assert_geq(had + 600, promised, "%u: %llu of %llu", k, (unsigned long long)had,
			      (unsigned long long)promised);
		all_is_apart();
		all_die(a_domain(), 1);
		for (uint32_t i = 0; i < count; i++) {
			cr_assert_eq(rig_get(&r, full_path(i), &blocks, &fill), 0);
			cr_assert_eq(fill, i + 1);
			if (i % 2)
				cr_assert_eq(rig_unlink(&r, full_path(i)), 0, "%s",
					     meta_error(r.m));
		}
		rig_idle(&r);
		is_whole();
		rig_end(&r);
	}
}

/* ---- format -------------------------------------------------------------------------------- */

Test(meta_domain, format_puts_roots_into_different_domains)
{
	static const struct {
		const char *names;
		uint32_t copies, on[3];
		uint64_t set;
	} of[] = {
		{ "aabbcc", 2, { 0, 2 }, 1 },    { "aabbcc", 3, { 0, 2, 4 }, 1 },
		{ "abcabc", 3, { 0, 1, 2 }, 0 }, { "a-a-", 2, { 0, 1 }, 0 },
		{ "aa-", 1, { 0, 2 }, 1 },       { "aaa", 1, { 0, 1 }, 0 },
	};

	for (uint32_t k = 0; k < sizeof(of) / sizeof(of[0]); k++) {
		domains_of(1, of[k].names, of[k].copies, 0);
		for (uint32_t copy = 0; copy < max_u32(2, of[k].copies); copy++)
			cr_assert_eq(meta__geo_root_drive(&r.m->zones->geo, copy, 0),
				     of[k].on[copy]);
		cr_assert_eq(r.m->boot->super.set, of[k].set);
		changes(20);
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_are_there();
		is_whole();
		rig_end(&r);
	}
}
