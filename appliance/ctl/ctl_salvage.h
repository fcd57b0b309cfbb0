/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl check --salvage: between the walk over the store and the files that it makes. */
#ifndef CTL_SALVAGE_H
#define CTL_SALVAGE_H

#include "appliance/ctl/ctl.h"
#include "meta/offline/meta_raw.h"

#include <stdio.h>

enum ctl_saved {
	CTL_COMPLETE, /* proven, every byte                                       */
	CTL_OLDER,    /* a newer version is known to be lost                      */
	CTL_DAMAGED,  /* blocks or attributes are missing: zeros are in their place */
	CTL_LOST,     /* a name, or an object, of which nothing else is left      */
	CTL_FAILED,   /* it could not be written here                             */
	CTL_SAVED_KINDS,
};

struct ctl_salvage {
	struct ctl *c;
	struct meta_raw *r;
	const char *to; /* the local directory */
	FILE *report;
	uint64_t count[CTL_SAVED_KINDS];
	bool links_begun; /* symlinks are being made: no more files */
	char why[160];    /* reason for the last result             */
};

/* Copies one file or symlink of the store to TO/.part and returns its quality.  TO/.part exists
 * unless that is CTL_LOST or CTL_FAILED. */
enum ctl_saved ctl_salvage_object(struct ctl_salvage *s, const struct meta_attr *a);
/* TO/.part gets its place, TO/PLACE; directories are made as needed. */
must_check int ctl_salvage_place(struct ctl_salvage *s, const char *place);
/* `local`, below TO, becomes a directory, with those that it stands in, or is one: 0, else
 * -ENOTDIR: something else has that place, a symlink too. */
must_check int ctl_salvage_dir(const struct ctl_salvage *s, char *local);
/* The directories that `local`, which is below TO, stands in. */
must_check int ctl_salvage_parents(const struct ctl_salvage *s, char *local);

#endif
