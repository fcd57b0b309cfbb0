/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Identifies a drive and its place in a store, by its two ends, while no core polls it.
 */
#ifndef APP_DRIVES_H
#define APP_DRIVES_H

#include "appliance/conf/app_conf.h"
#include "meta/meta.h"
#include "meta/meta_set.h"
#include "nvme/nvme.h"

enum app_found_kind {
	APP_FOUND_OTHER, /* neither of: */
	APP_FOUND_STORE, /* a whole superblock: it is in `place` */
	APP_FOUND_OFFER, /* to be added to a store */
};

struct app_found {
	struct meta_set set; /* of a store, as its newest superblock says; ndrives 0: of none */
	enum app_found_kind kind;
	uint8_t uuid[16];
	uint32_t place;
	bool gone; /* ... and the store has let it go */
	struct meta_offer offer;
	int err; /* app_drives_sort(): neither end can be read */
};

/* Errors: what mapping, queue pair and reads say. */
must_check int app_drive_look(struct nvme_drive *drive, struct nvme_dma *dma,
			      struct app_found *out);

/* After each reset, one of its ends must say that it is this drive of this store. */
must_check int app_drive_prove(struct nvme_drive *drive, const struct app_found *found);

/* Both of its ends say that a store may take it; durable.  Errors: as above. */
must_check int app_drive_offer(struct nvme_drive *drive, struct nvme_dma *dma,
			       const struct meta_offer *offer);

/**
 * app_drives_sort - move drives and their names to their places in the store, from any order
 *
 * A place without a drive, because it was removed or is missing, is NULL and "".  A drive that was
 * removed is closed, with a line in the log; so is one that cannot be read, if another belongs to a
 * store: it may have been removed, else the mount reports it as missing.  Offered drives come last
 * (if no place is left they are closed, with a line, too); *store_count: places before them.  If
 * none has a superblock the order stays, and all count: the mount reports the error.  The arrays
 * have META_DRIVES_MAX entries.
 *
 * Errors:  -ENODEV: one neither belongs to the store nor is offered, with a line in `why`.
 */
must_check int app_drives_sort(struct nvme_drive **drive, char (*name)[APP_CONF_TEXT_MAX],
			       uint32_t *count, struct nvme_dma *dma, uint32_t *store_count,
			       char *why, size_t why_size);

/**
 * app_drives_sort_without - the same, where the store may miss the drive that missing->allow names
 *
 * Its place is NULL, and has the name that the store keeps.  A drive without a superblock, which
 * may be the missing one, is closed, with a line in the log.
 */
struct app_missing;
must_check int app_drives_sort_without(struct nvme_drive **drive, char (*name)[APP_CONF_TEXT_MAX],
				       uint32_t *count, struct nvme_dma *dma, uint32_t *store_count,
				       struct app_missing *missing, char *why, size_t why_size);

/* The place of the set that none of these drives is in, and that is not gone; of several the one
 * of this name, if it is not NULL and the set knows it; META_DRIVES_MAX: none is missing. */
uint32_t app_drives_missing(const struct meta_set *set, const struct app_found *found,
			    uint32_t count, const char *name);

/* A drive's name as a store keeps it: "...", and its end, if it is too long. */
void app_drive_name(const char *name, char out[META_DRIVE_NAME]);

/* Describes a drive to be added, for the store. */
void app_drive_info(const struct nvme_drive *drive, const char *name, uint64_t tag,
		    enum app_tell deallocate, struct meta_drive_info *out);

#endif
