/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The drives that allow_missing lets a store serve without.
 *
 * The operator names one, by its number in the store or by its name; or several of a store that
 * keeps three copies, by their numbers.  The present drives tell which ones the store has, so each
 * mistake is found before the mount: a drive that the store does not have, one that is present,
 * another one that is missing.
 */
#ifndef APP_MISSING_H
#define APP_MISSING_H

#include "appliance/media/app_drives.h"

struct app_missing {
	const struct app_domains *domains; /* NULL: drives have none */
	const char *allow; /* as configured; "": every drive of the store must be there */
	uint64_t told;     /* all of them, by their bits */
	uint32_t drive;    /* the first one's place; META_DRIVES_MAX: none is missing */
	uint64_t nblocks;
	char name[META_DRIVE_NAME]; /* as the store keeps it; "": it has none */
	uint32_t left_outs;         /* drives of the configuration that could not be opened */
	uint32_t copies; /* of each block in the store, which serves without one less; 0: unknown */
	struct {         /* drives of the configuration that could not be opened */
		int err;
		uint32_t domain;               /* 0: its own */
		bool others;                   /* another one of the configuration is there */
		char drive[APP_CONF_TEXT_MAX]; /* as configured */
		char why[APP_CONF_WHY];
	} put_off[META_DRIVES_MAX];
	uint32_t put_offs;
	uint32_t needed; /* ... domains of these that the store has not given up; the first is: */
	uint32_t first;
};

/**
 * app_missing_find - finds the drives of `set` that allow_missing names; may the store do without?
 *
 * found[]: the drives that are there.  set NULL: none of them is of a store.
 * Errors:  -ENODEV, with a line in `why`.
 */
must_check int app_missing_find(struct app_missing *missing, const struct meta_set *set,
				const struct app_found *found, uint32_t count, char *why,
				size_t why_size);

/* Drive `at` of the configuration cannot be opened, for the reason in `why` (APP_CONF_WHY).
 * Returns true after removing it from *conf, with a line in the log: as often as allow_missing
 * names a drive.
 * app_missing_find() checks whether it is the drive that may be missing. */
must_check bool app_missing_leaves_out(struct app_missing *missing, struct app_conf *conf,
				       uint32_t at, const char *why);

/* Drive `at` of the configuration cannot be opened, for the reason in err and `why` (APP_CONF_WHY).
 * The others decide whether the store can do without it: it is removed from *conf.  Returns false,
 * with the way out in `why`, if there are no others. */
must_check bool app_missing_puts_off(struct app_missing *missing, struct app_conf *conf,
				     uint32_t at, int err, char *why);
/* The others say what the store has: the drives that were put off count, but for those that are
 * gone or lost.  set NULL: they are of no store. */
void app_missing_count(struct app_missing *missing, const struct meta_set *set);
/* When the others have been looked at, with this result: returns it, or why the store does need the
 * drive that could not be opened. */
must_check int app_missing_put_off(const struct app_missing *missing, int err, char *why);

#endif
