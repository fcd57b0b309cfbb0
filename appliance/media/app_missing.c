/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "appliance/media/app_missing.h"
#include "base/log.h"
#include "base/num.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* META_DRIVES_MAX: the store has no drive of this number, or name. */
static uint32_t place_of(const struct meta_set *set, const char *allow)
{
	char kept[META_DRIVE_NAME];
	uint32_t number;

	ASSERT(set->ndrives <= META_DRIVES_MAX);
	if (app_conf_drive_number(allow, &number))
		return number < set->ndrives && !set->gone[number] ? number : META_DRIVES_MAX;
	app_drive_name(allow, kept);
	for (uint32_t d = 0; d < set->ndrives; d++)
		if (!set->gone[d] && strcmp(set->name[d], kept) == 0)
			return d;
	return META_DRIVES_MAX;
}

static bool is_there(const struct app_found *found, uint32_t count, uint32_t place)
{
	ASSERT(count <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < count; i++)
		if (found[i].kind == APP_FOUND_STORE && found[i].place == place)
			return true;
	return false;
}

/* A drive that is missing, other than those `but`, by bits; META_DRIVES_MAX: none is. */
static uint32_t other_missing(const struct meta_set *set, const struct app_found *found,
			      uint32_t count, uint64_t but)
{
	ASSERT(set->ndrives <= META_DRIVES_MAX && but);
	for (uint32_t d = 0; d < set->ndrives; d++)
		if (!(but >> d & 1) && !set->gone[d] && !set->lost[d] && !is_there(found, count, d))
			return d;
	return META_DRIVES_MAX;
}

__attribute__((format(printf, 4, 5))) static int refuse(const struct app_missing *missing,
							char *why, size_t why_size, const char *fmt,
							...)
{
	const int used = snprintf(why, why_size, "allow_missing = %.150s: ", missing->allow);
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(why + used, why_size - (size_t)used, fmt, args);
	va_end(args);
	return -ENODEV;
}

/* Returns in how many domains these drives are. */
static uint32_t domains_in(const struct app_missing *missing, const struct meta_set *set,
			   uint64_t drives)
{
	uint64_t seen = 0;
	uint32_t alone = 0;

	ASSERT(set->ndrives <= META_DRIVES_MAX);
	for (; drives; drives &= drives - 1) {
		const uint32_t d = (uint32_t)__builtin_ctzll(drives);
		const uint32_t domain = missing->domains && d < set->ndrives
						? app_domains_of(missing->domains, set->name[d])
						: 0;

		if (domain)
			seen |= 1ull << (domain - 1);
		else
			alone++;
	}
	return alone + (uint32_t)__builtin_popcountll(seen);
}

/* Returns how many losses these drives are: those of one domain are one, if the store's drives are
 * in as many as a block has copies (meta_domain.c (3)). */
static uint32_t losses(const struct app_missing *missing, const struct meta_set *set,
		       uint64_t drives)
{
	uint64_t all = 0;

	for (uint32_t d = 0; d < set->ndrives; d++)
		all |= (uint64_t)!set->gone[d] << d;
	if (domains_in(missing, set, all) < max_u32(2, set->copies))
		return (uint32_t)__builtin_popcountll(drives);
	return domains_in(missing, set, drives);
}

/* Several drives, by their numbers. */
static int find_several(struct app_missing *missing, const struct meta_set *set,
			const struct app_found *found, uint32_t count, char *why, size_t why_size)
{
	const uint32_t named = losses(missing, set, missing->told);

	ASSERT(named > 0);
	if (named >= set->sure)
		return refuse(missing, why, why_size,
			      "the store keeps %u cop%s of each block, and serves without %u at "
			      "most",
			      set->sure, set->sure == 1 ? "y" : "ies", max_u32(set->sure, 2) - 1);
	for (uint64_t left = missing->told; left; left &= left - 1) {
		const uint32_t d = (uint32_t)__builtin_ctzll(left);

		if (d >= set->ndrives || set->gone[d])
			return refuse(missing, why, why_size, "the store has no drive %u", d);
		if (is_there(found, count, d))
			return refuse(missing, why, why_size,
				      "drive %u is present: take it out of the line", d);
	}
	return 0;
}

static int find_one(struct app_missing *missing, const struct meta_set *set,
		    const struct app_found *found, uint32_t count, char *why, size_t why_size)
{
	const uint32_t d = place_of(set, missing->allow);
	uint32_t other;

	ASSERT(count <= META_DRIVES_MAX);
	if (d == META_DRIVES_MAX)
		return refuse(missing, why, why_size,
			      "the store has no such drive; it has %u, whose numbers begin with 0",
			      set->ndrives);
	other = other_missing(set, found, count, 1ull << d);
	if (is_there(found, count, d) && other == META_DRIVES_MAX)
		return refuse(missing, why, why_size,
			      "drive %u is present: remove the line from the configuration", d);
	if (is_there(found, count, d))
		return refuse(missing, why, why_size,
			      "drive %u is present; the missing one is drive %u, %s", d, other,
			      set->name[other]);
	missing->told = 1ull << d;
	return 0;
}

int app_missing_find(struct app_missing *missing, const struct meta_set *set,
		     const struct app_found *found, uint32_t count, char *why, size_t why_size)
{
	uint32_t d, other;
	int err;

	ASSERT(count <= META_DRIVES_MAX);
	missing->drive = META_DRIVES_MAX;
	if (!set)
		return refuse(missing, why, why_size, "no other drive of the store is present");
	if (!app_conf_drive_numbers(missing->allow, &missing->told))
		missing->told = 0;
	err = (missing->told & (missing->told - 1) ? find_several : find_one)(missing, set, found,
									      count, why, why_size);
	if (err)
		return err;
	other = other_missing(set, found, count, missing->told);
	if (other < META_DRIVES_MAX &&
	    losses(missing, set, missing->told | 1ull << other) < set->sure)
		return refuse(missing, why, why_size,
			      "drive %u, %s, is missing as well: name both, as in 0,1, if both are "
			      "lost",
			      other, set->name[other]);
	if (other < META_DRIVES_MAX)
		return refuse(missing, why, why_size,
			      "drive %u, %s, is missing as well, and a store serves without %s at "
			      "most; wekactl check --salvage DIR saves what is on the others",
			      other, set->name[other], set->sure > 2 ? "two" : "one");
	d = (uint32_t)__builtin_ctzll(missing->told);
	ASSERT(d < set->ndrives && !set->gone[d]);
	missing->drive = d;
	missing->nblocks = set->nblocks[d];
	memcpy(missing->name, set->name[d], sizeof(missing->name));
	return 0;
}

/* ---- before the drives have been looked at ------------------------------------------------- */

bool app_missing_leaves_out(struct app_missing *missing, struct app_conf *conf, uint32_t at,
			    const char *why)
{
	if (missing->left_outs >= app_conf_drives_named(missing->allow) || conf->ndrives == 1)
		return false;
	ASSERT(at < conf->ndrives);
	log_info("%s: left out, since allow_missing = %s", why, missing->allow);
	conf->ndrives--;
	memmove(conf->drive[at], conf->drive[at + 1],
		(conf->ndrives - at) * sizeof(conf->drive[0]));
	missing->left_outs++;
	return true;
}

static bool others_there(const struct app_conf *conf, uint32_t at)
{
	char text[NVME_ERR_TEXT];

	for (uint32_t i = 0; i < conf->ndrives; i++)
		if (i != at && nvme_name_look(conf->drive[i], text, sizeof(text)) == 0)
			return true;
	return false;
}

/* Appends what the operator can do. */
__attribute__((format(printf, 2, 3))) static void add_why(char *why, const char *fmt, ...)
{
	const size_t used = strlen(why);
	va_list args;

	ASSERT(used < APP_CONF_WHY);
	va_start(args, fmt);
	(void)vsnprintf(why + used, APP_CONF_WHY - used, fmt, args);
	va_end(args);
}

static void way_out_of_one(char *why, const char *drive)
{
	add_why(why,
		"; if it is lost: allow_missing = %s serves the files on the other drives, read "
		"only; wekactl check --salvage DIR copies them",
		drive);
}

bool app_missing_puts_off(struct app_missing *missing, struct app_conf *conf, uint32_t at, int err,
			  char *why)
{
	const bool told = *missing->allow != '\0', others = !told && others_there(conf, at);
	const uint32_t i = missing->put_offs;

	ASSERT(err < 0 && at < conf->ndrives);
	if (missing->left_outs > 1)
		add_why(why, "; %u others are missing as well, and allow_missing permits only %u",
			missing->left_outs, missing->left_outs);
	else if (missing->left_outs)
		add_why(why, "; another drive is missing as well, and allow_missing permits only "
			     "one");
	if (i < META_DRIVES_MAX && conf->ndrives > 1 && !told) {
		missing->put_off[i].err = err;
		missing->put_off[i].others = others;
		missing->put_off[i].domain = app_domains_of(&conf->domains, conf->drive[at]);
		memcpy(missing->put_off[i].drive, conf->drive[at], sizeof(conf->drive[at]));
		memcpy(missing->put_off[i].why, why, APP_CONF_WHY);
		missing->put_offs++;
		conf->ndrives--;
		memmove(conf->drive[at], conf->drive[at + 1],
			(conf->ndrives - at) * sizeof(conf->drive[0]));
		return true;
	}
	if (others)
		way_out_of_one(why, conf->drive[at]);
	return false;
}

/* The store has given up the drive of this name, and has no other one of it. */
static bool is_given_up(const struct meta_set *set, const char *drive)
{
	char name[META_DRIVE_NAME];
	bool given_up = false;

	ASSERT(!set || set->ndrives <= META_DRIVES_MAX);
	app_drive_name(drive, name);
	for (uint32_t d = 0; set && d < set->ndrives; d++) {
		if (strcmp(set->name[d], name) != 0)
			continue;
		if (!set->gone[d] && !set->lost[d])
			return false;
		given_up = true;
	}
	return given_up;
}

void app_missing_count(struct app_missing *missing, const struct meta_set *set)
{
	uint64_t seen = 0;

	ASSERT(missing->put_offs <= META_DRIVES_MAX);
	missing->copies = set ? max_u32(set->sure, 1) : 1;
	missing->needed = 0;
	for (uint32_t i = missing->put_offs; i-- > 0;) {
		const uint32_t domain = missing->put_off[i].domain;

		if (is_given_up(set, missing->put_off[i].drive))
			continue;
		missing->needed += domain == 0 || !(seen >> (domain - 1) & 1);
		seen |= domain ? 1ull << (domain - 1) : 0;
		missing->first = i;
	}
}

int app_missing_put_off(const struct app_missing *missing, int err, char *why)
{
	const uint32_t count = missing->copies ? missing->needed : missing->put_offs;

	ASSERT(missing->needed <= missing->put_offs && err <= 0);
	if (missing->put_offs == 0 || (missing->copies > 0 && missing->needed == 0) ||
	    (err == 0 && missing->needed < missing->copies))
		return err;
	memcpy(why, missing->put_off[missing->first].why, APP_CONF_WHY);
	if (count > 1)
		add_why(why,
			"; %u drives are missing: wekactl check --salvage DIR copies what is on "
			"the others",
			count);
	else if (missing->copies < 2 && missing->put_off[missing->first].others)
		way_out_of_one(why, missing->put_off[missing->first].drive);
	return missing->put_off[missing->first].err;
}
