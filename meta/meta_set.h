/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The ends of a drive: the store that it belongs to, and the set of that store's drives. */
#ifndef META_SET_H
#define META_SET_H

#include "meta/meta.h"

/* Returns true if the first block of a drive is a superblock of ours, with its store's uuid. */
bool meta_super_recognize(const void *block, uint8_t uuid_out[16]);
/* Returns true for a root or the header of a zone: then the drive was a store's. */
bool meta_is_of_store(const void *block);
/* Parses a superblock: its store's uuid, the number of its drive, and whether that drive has left
 * the store.  Returns false if the block is not a valid one. */
bool meta_super_place(const void *block, uint8_t uuid_out[16], uint32_t *drive, bool *gone);
struct meta_set { /* all drives of a store, by a superblock; the highest number counts */
	uint64_t number;
	uint32_t ndrives;
	uint32_t copies, sure;      /* of each block: 1, 2, 3; and those that each has by now */
	bool gone[META_DRIVES_MAX]; /* it has left the store */
	bool lost[META_DRIVES_MAX]; /* it counts as failed: the store does not want it back */
	uint64_t nblocks[META_DRIVES_MAX];
	char name[META_DRIVES_MAX][META_DRIVE_NAME];
};
/* Parses a superblock: the set of drives.  Returns false if the block is not a valid one. */
bool meta_super_set(const void *block, struct meta_set *out);

/* Marks a drive at both ends as offered to the store that is told to take it. */
struct meta_offer {
	uint64_t tag;
	bool replaces;    /* it takes the place of a drive, which the store then drains: */
	uint32_t drive;   /* ... of this number,                                        */
	uint8_t uuid[16]; /* ... in this store; no other store may take it              */
};
void meta_offer_build(const struct meta_offer *offer, void *block);
bool meta_offer_parse(const void *block, struct meta_offer *out);
/* The uuid of a mounted store.  Any thread. */
void meta_store_uuid(const struct meta *m, uint8_t out[16]);

#endif
