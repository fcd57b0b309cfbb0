/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl doctor: drives that do not belong together, because one of them comes from another
 * machine or an earlier store, and drives of the store that are not configured.
 *
 * Only the superblocks of file: drives are read; a pci: drive says what it holds when the appliance
 * starts.
 */
#include "appliance/ctl/ctl_doctor.h"
#include "meta/meta.h"
#include "meta/meta_set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 4096

struct stores {
	const char *first; /* the first drive that has a store */
	uint8_t uuid[16];
	uint32_t drives; /* those that have the same */
	uint64_t here;   /* their numbers in the store, by bits */
	uint32_t others; /* those that could not be read, or have none */
	struct meta_set set;
};

/* The first block of a drive.  False: it is no file, or is not there, or may not be read. */
static bool read_block(const struct ctl_doctor *d, const char *drive, char block[BLOCK])
{
	char path[CTL_PATH_SIZE];
	bool whole;
	int fd;

	if (strncmp(drive, "file:", 5) != 0 ||
	    ctl_sysfs_path(path, d->root, "%.*s", (int)strcspn(drive + 5, "?"), drive + 5))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	whole = pread(fd, block, BLOCK, 0) == BLOCK;
	close(fd);
	return whole;
}

static void look_drive(struct ctl_doctor *d, struct stores *s, const char *drive)
{
	char block[BLOCK];
	struct meta_set set;
	uint8_t uuid[16];
	uint32_t number;
	bool gone;

	if (!read_block(d, drive, block) || !meta_super_recognize(block, uuid)) {
		s->others++;
		return;
	}
	if (!s->first) {
		s->first = drive;
		memcpy(s->uuid, uuid, sizeof(uuid));
	}
	if (memcmp(s->uuid, uuid, sizeof(uuid)) != 0) {
		ctl_doctor_wrong_is(d, "store",
				    "%.120s is of another store than %.120s: it comes from another "
				    "machine, or an earlier format",
				    drive, s->first);
		ctl_doctor_fix(d,
			       "sed -i '\\|%.*s|d' %s   # and to use it here without its files: "
			       "wekactl drives add --force '%.120s'",
			       (int)strcspn(drive, "?"), drive, d->conf_file, drive);
		return;
	}
	s->drives++;
	if (meta_super_place(block, uuid, &number, &gone) && number < META_DRIVES_MAX)
		s->here |= 1ull << number;
	if (meta_super_set(block, &set) && set.number >= s->set.number)
		s->set = set;
}

/* The names of drives that are not here, as the store knows them. */
static void name_missing(const struct stores *s, char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < s->set.ndrives && used < size; i++)
		if (!s->set.gone[i] && !(s->here >> i & 1))
			used += (size_t)snprintf(out + used, size - used, "%sdrive %u (%s)",
						 used ? ", " : "", i, s->set.name[i]);
}

/* The store's drives that the configuration does not have. */
static void look_set(struct ctl_doctor *d, const struct stores *s)
{
	uint32_t of_store = 0;
	char names[200];

	ASSERT(s->first && s->drives > 0);
	for (uint32_t i = 0; i < s->set.ndrives; i++)
		of_store += !s->set.gone[i];
	if (of_store <= s->drives + s->others) {
		ctl_doctor_ok(d, "store", "%s and %u more are of one store", s->first,
			      s->drives - 1);
		return;
	}
	name_missing(s, names, sizeof(names));
	ctl_doctor_wrong_is(d, "store",
			    "the store of %.120s has %u drives, and the configuration %u of them: "
			    "%s not there, or the store comes from another machine",
			    s->first, of_store, s->drives + s->others, names);
	ctl_doctor_fix(d, "wekactl drives   # find them; add a line for each to %s", d->conf_file);
}

void ctl_doctor_store(struct ctl_doctor *d)
{
	struct stores s = { 0 };

	for (uint32_t i = 0; d->conf && i < d->conf->ndrives; i++)
		look_drive(d, &s, d->conf->drive[i]);
	if (s.first)
		look_set(d, &s);
}
