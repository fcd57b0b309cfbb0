/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* allow_missing: which drive it names, and what an operator may have got wrong. */
#include "appliance/media/app_missing.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DRIVES 4u

static struct meta_set set;
static struct app_found found[DRIVES];
static uint32_t count;
static char why[512];

static void setup(void)
{
	set = (struct meta_set){ .number = 3, .ndrives = DRIVES };
	for (uint32_t d = 0; d < DRIVES; d++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "file:/a/directory/of/a/long/name/d%u", d);
		app_drive_name(name, set.name[d]);
		set.nblocks[d] = 1000 + d;
	}
}

TestSuite(app_missing, .init = setup);

/* All drives but this one, and the next one if `two`. */
static void all_but(uint32_t place, bool two)
{
	count = 0;
	for (uint32_t d = 0; d < DRIVES; d++)
		if (d != place && !(two && d == place + 1))
			found[count++] = (struct app_found){ .kind = APP_FOUND_STORE, .place = d };
}

static int find(const char *allow, uint32_t *place)
{
	struct app_missing missing = { .allow = allow };
	int err = app_missing_find(&missing, &set, found, count, why, sizeof(why));

	cr_assert_eq(err == 0, missing.drive < META_DRIVES_MAX);
	cr_assert(err || missing.nblocks == set.nblocks[missing.drive]);
	*place = missing.drive;
	return err;
}

static void expect_refused(const char *allow, const char *says)
{
	uint32_t place;

	cr_assert_eq(find(allow, &place), -ENODEV, "%s", allow);
	cr_assert(strstr(why, says), "%s: %s", allow, why);
	cr_assert(strstr(why, allow) && !strchr(why, '\n'), "%s", why);
}

Test(app_missing, it_is_named_by_number_or_name)
{
	static const char *const names[] = { "2", "file:/a/directory/of/a/long/name/d2",
					     ".../directory/of/a/long/name/d2" };

	all_but(2, false);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t place;

		cr_assert_eq(find(names[i], &place), 0, "%s: %s", names[i], why);
		cr_assert_eq(place, 2);
	}
}

Test(app_missing, what_an_operator_gets_wrong_is_said)
{
	all_but(2, false);
	expect_refused("7", "no such drive; it has 4");
	expect_refused("file:/another", "no such drive");
	expect_refused("1", "drive 1 is present; the missing one is drive 2, ...");
	all_but(DRIVES, false);
	expect_refused("2", "drive 2 is present: remove the line");
	all_but(2, true);
	expect_refused("2", "drive 3, ...");
	expect_refused("2", "is missing as well");
	set.gone[2] = true;
	expect_refused("2", "no such drive");
}

/* A store that keeps three copies of each block serves without two drives. */
Test(app_missing, several_are_named_by_numbers)
{
	struct app_missing missing = { .allow = "3, 2" };

	set.copies = set.sure = 3;
	all_but(2, true);
	cr_assert_eq(app_missing_find(&missing, &set, found, count, why, sizeof(why)), 0, "%s",
		     why);
	cr_assert(missing.told == 0xc && missing.drive == 2);
	expect_refused("2", "drive 3, ...");
	expect_refused("2", "name both");
	expect_refused("1,2", "drive 1 is present");
	expect_refused("2,5", "has no drive 5");
	expect_refused("1,2,3", "keeps 3 copies of each block, and serves without 2 at most");
	all_but(2, false);
	expect_refused("2,3", "drive 3 is present");
	set.copies = set.sure = 2;
	all_but(2, true);
	expect_refused("2,3", "serves without 1 at most");
}

/* Drives of one domain are one loss, unless the store's drives are in fewer domains than it has
 * copies. */
Test(app_missing, drives_of_one_domain_are_one_loss_where_domains_count)
{
	for (uint32_t others = 1; others <= 2; others++) {
		struct app_domains domains = { .count = 2 };
		struct app_missing missing = { .allow = "2,3", .domains = &domains };

		for (uint32_t d = 0; d < DRIVES; d++)
			app_domains_put(&domains, set.name[d], d < 2 ? others : 1);
		set.copies = set.sure = 2;
		all_but(2, true);
		cr_assert_eq(app_missing_find(&missing, &set, found, count, why, sizeof(why)),
			     others == 1 ? -ENODEV : 0, "%u: %s", others, why);
		cr_assert(others == 2 || strstr(why, "serves without 1 at most"), "%s", why);
	}
}

/* Two domains are too few for three copies, though most blocks have two by now. */
Test(app_missing, drives_of_one_domain_are_two_losses_while_third_copies_are_made)
{
	struct app_domains domains = { .count = 2 };
	struct app_missing missing = { .allow = "2,3", .domains = &domains };

	for (uint32_t d = 0; d < DRIVES; d++)
		app_domains_put(&domains, set.name[d], d < 2 ? 1 : 2);
	set.copies = 3;
	set.sure = 2;
	all_but(2, true);
	cr_assert_eq(app_missing_find(&missing, &set, found, count, why, sizeof(why)), -ENODEV);
	cr_assert(strstr(why, "keeps 2 copies of each block, and serves without 1"), "%s", why);
}

Test(app_missing, as_many_are_left_out_as_are_named)
{
	static struct app_conf conf;
	struct app_missing missing = { .allow = "2,3" };

	conf.ndrives = DRIVES;
	cr_assert(app_missing_leaves_out(&missing, &conf, 1, "d1 cannot be opened"));
	cr_assert(app_missing_leaves_out(&missing, &conf, 1, "d2 cannot be opened"));
	cr_assert(!app_missing_leaves_out(&missing, &conf, 1, "d3 cannot be opened"));
	cr_assert_eq(conf.ndrives, DRIVES - 2);
}

/* Nothing is left of a store that had one. */
Test(app_missing, where_no_drive_is_left_none_may_be_missing)
{
	struct app_missing missing = { .allow = "0" };

	cr_assert_eq(app_missing_find(&missing, NULL, found, 0, why, sizeof(why)), -ENODEV);
	cr_assert(strstr(why, "no other drive of the store"), "%s", why);
	set.ndrives = 1;
	all_but(DRIVES, false);
	expect_refused("0", "drive 0 is present");
}

Test(app_missing, what_is_no_drive_is_known_without_one)
{
	static const char *const good[] = {
		"0",        "63", "0,63", "1, 2", "file:/x", "pci:0000:01:00.0", "vfio-user:/x",
		"...end/d1"
	};
	static const char *const bad[] = { "64", "d1",   "-1",   "1x",     "007",
					   "1,", "1,64", "1,d2", "mem:1G", "/dev/nvme0n1" };

	for (uint32_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		cr_assert(app_conf_drive_named(good[i]), "%s", good[i]);
	for (uint32_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_assert(!app_conf_drive_named(bad[i]), "%s", bad[i]);
}

/* ---- drives that cannot be opened ---------------------------------------------------------- */

static char line[APP_CONF_WHY];

/* These of the configuration's four, by bits: what the start says then. */
static int without(uint32_t closed, uint32_t copies)
{
	static struct app_missing missing;
	static struct app_conf conf;

	missing = (struct app_missing){ .allow = "" };
	conf.ndrives = 0;
	for (uint32_t d = 0; d < DRIVES; d++)
		(void)snprintf(conf.drive[conf.ndrives++], sizeof(conf.drive[0]),
			       "file:/a/directory/of/a/long/name/d%u", d);
	(void)snprintf(conf.drive[3], sizeof(conf.drive[3]), "mem:1G"); /* it is there */
	for (uint32_t d = DRIVES; d-- > 0;) {
		(void)snprintf(line, sizeof(line), "d%u cannot be opened", d);
		if (closed >> d & 1)
			cr_assert(app_missing_puts_off(&missing, &conf, d, -ENOENT, line));
	}
	set.copies = set.sure = copies;
	app_missing_count(&missing, &set);
	*line = '\0';
	return app_missing_put_off(&missing, 0, line);
}

Test(app_missing, one_of_two_copies_may_stay_closed_and_drives_that_are_gone_do_not_count)
{
	cr_assert_eq(without(1u << 2, 2), 0);
	cr_assert_eq(without(1u << 2 | 1u << 1, 2), -ENOENT);
	cr_assert_eq(without(1u << 2, 1), -ENOENT);
	cr_assert_eq(without(1u << 2 | 1u << 1, 3), 0);
	cr_assert_eq(without(1u << 2 | 1u << 1 | 1u << 0, 3), -ENOENT);
	set.gone[2] = true;
	cr_assert_eq(without(1u << 2, 1), 0, "nothing is there");
	cr_assert_eq(without(1u << 2 | 1u << 1, 2), 0);
	cr_assert_eq(without(1u << 2 | 1u << 1, 1), -ENOENT);
	cr_assert_eq(without(1u << 2 | 1u << 1 | 1u << 0, 2), -ENOENT);
	memcpy(set.name[3], set.name[2], sizeof(set.name[3])); /* it was added again */
	cr_assert_eq(without(1u << 2, 1), -ENOENT);
}

/* allow_missing helps a store of one copy without one drive; salvage helps otherwise. */
Test(app_missing, start_without_drives_names_the_way_out_that_there_is)
{
	cr_assert_eq(without(1u << 2, 1), -ENOENT);
	cr_assert(strstr(line, "d2 cannot be opened; if it is lost: allow_missing = file:/a/"),
		  "%s", line);
	cr_assert_eq(without(1u << 2 | 1u << 1, 1), -ENOENT);
	cr_assert(strstr(line, "d2 cannot be opened; 2 drives are missing: wekactl check"), "%s",
		  line);
	cr_assert_eq(without(1u << 2 | 1u << 1, 2), -ENOENT);
	cr_assert(strstr(line, "; 2 drives are missing") && !strstr(line, "allow"), "%s", line);
	cr_assert_eq(without(1u << 2 | 1u << 1 | 1u << 0, 3), -ENOENT);
	cr_assert(strstr(line, "; 3 drives are missing") && !strstr(line, "allow"), "%s", line);
}
