/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The purpose of each block of a store at rest, from its images and FORMAT.md alone: the data of a
 * file, a page of a shard's tree, a copy of another structure, or nothing.
 *
 *   superblocks, roots  -->  the trees that the roots name  -->  leaves: names, inodes, extents
 *   zone headers        -->  the log: its blocks, and which of them a mount needs
 *
 * For each file it knows the keys that a lookup of it needs, and so the pages that it needs.
 */
#ifndef SIM_MAP_H
#define SIM_MAP_H

#include "meta/format/meta_record.h"
#include "meta/meta_store.h"
#include "test/sim/sim_load.h"

#define SIM_MAP_BLOCKS 1024u
#define SIM_MAP_FILES  256u
#define SIM_MAP_SPANS  20u /* of keys, of one file */

enum sim_life {
	SIM_DEAD,
	SIM_DATA,
	SIM_PAGE,
	SIM_SUPER,
	SIM_ROOT,
	SIM_HEADER,
	SIM_LOG,     /* a block that a mount must find    */
	SIM_LOG_END, /* the newest: nobody vouches for it */
	SIM_LIVES
};
extern const char *const sim_life_names[SIM_LIVES];

struct sim_owner {
	enum sim_life life;
	uint32_t file, file_block; /* DATA: which file of the map, which block of it    */
	uint32_t shard;            /* PAGE, ROOT                                        */
	uint32_t level;            /* PAGE                                              */
	uint64_t baddr;            /* PAGE: where it begins                             */
	bool has_hi;               /* PAGE: it answers for the keys from lo up to hi    */
	struct meta_key lo, hi;
	uint32_t copy; /* SUPER, ROOT                                       */
	uint32_t zone; /* HEADER                                            */
	uint64_t seq;  /* LOG                                               */
	bool copied;   /* LOG: another zone has it, too                     */
};

struct sim_map_span {
	uint32_t shard;
	bool must;                 /* what is there of it is read; else it may be */
	struct meta_key low, high; /* both included */
};

struct sim_map_file {
	const char *path; /* the model's */
	const struct sim_state *state;
	uint32_t nspans;
	struct sim_map_span span[SIM_MAP_SPANS];
};

struct sim_map {
	uint32_t ndrives;
	const uint8_t *image[SIM_DRIVES_MAX];
	struct sim_owner owner[SIM_DRIVES_MAX][SIM_MAP_BLOCKS];
	uint32_t nfiles;
	struct sim_map_file file[SIM_MAP_FILES];
	uint64_t log_first, log_known;
};

/* `w` has mounted the images that `map` names, and has looked at every file; it is asked for names
 * and extents. */
void sim_map_make(struct sim_map *map, struct sim_world *w, const struct sim_model *model);
/* May reading this file look at this page?  Must it: is a record of it there? */
bool sim_map_may_need(const struct sim_map *map, const struct sim_owner *page, uint32_t file);
bool sim_map_must_need(const struct sim_map *map, const struct sim_owner *page, uint32_t file);

#endif
