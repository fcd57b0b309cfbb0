/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store for tests of its operations, with drives in memory and a crank.
 * Either the real store, or its names over a transaction made of a sorted array
 * (test/unit/meta_tx_fake.h), which misses pages, stalls and fails when its seed says so.
 */
#ifndef TEST_META_WORLD_H
#define TEST_META_WORLD_H

#include "base/num.h"
#include "base/rand.h"
#include "meta/meta_internal.h"

#include <errno.h>

struct meta_world {
	struct meta *m;
	struct rand_state rand;
	uint8_t *drive[META_DRIVES_MAX];       /* its bytes: tests read and write data there */
	void (*step)(struct meta_world *w);    /* some I/O is done, a turn of the loop is over */
	void (*remount)(struct meta_world *w); /* all operations are over: stop, and mount again */
	void (*end)(struct meta_world *w);
};

/* In the store of an odd seed, fake or real, directories are spread from three names on. */

/* In 100: how often a page is not there; how often a plan is told to come again later. */
struct meta_world *meta_world_fake(uint64_t seed, uint32_t miss_percent, uint32_t busy_percent);
/* The shipped store on two memory drives, with a cache of so many bytes. */
struct meta_world *meta_world_real(uint64_t seed, uint64_t drive_bytes, uint64_t cache_bytes);

/* Start, and turn the crank until it is over and durable; op->status. */
int meta_world_run(struct meta_world *w, struct meta_op *op);
/* Turn the crank until no file waits to be freed, and all totals are passed up. */
void meta_world_settle(struct meta_world *w);
/* Checks all invariants of the shipped store, and its number of inodes.  Returns NULL, or the first
 * fault. */
const char *meta_world_check(struct meta_world *w, uint64_t inodes);
/* Blocks for `bytes`, with the bytes in them; runs_max 64, crcs for all.  0, -ENOSPC. */
int meta_world_data(struct meta_world *w, const void *bytes, uint64_t size_bytes,
		    struct meta_run *runs, uint32_t *nruns, uint32_t *crcs);
/* Copies the blocks that a READ planned from the drives, and checks them; `bytes` begins with block
 * offset / 4096. */
int meta_world_fetch(struct meta_world *w, const struct meta_op *op, void *bytes);

/* ---- of the fake alone ------------------------------------------------------------- */

uint64_t meta_fake_records(const struct meta_world *w);
/* Blocks that ZONE records count as alive. */
uint64_t meta_fake_live(const struct meta_world *w);
uint64_t meta_fake_mutations(const struct meta_world *w);                  /* applied so far */
uint64_t meta_fake_kind(const struct meta_world *w, enum meta__kind kind); /* records of it */
/* Blocks that were allocated and neither applied nor dropped. */
uint64_t meta_fake_pending(const struct meta_world *w);
/* The record number `index`, in order of shard and key; its value may be overwritten. */
bool meta_fake_record(struct meta_world *w, uint64_t index, uint32_t *shard, struct meta_key *key,
		      void **value, uint32_t *value_len);
/* From now on `count` reads of pages fail. */
void meta_fake_fail_pages(struct meta_world *w, uint32_t count);
/* How full the store says that it is. */
void meta_fake_space(struct meta_world *w, int space_ok);
/* Sets the status of META__OP_TOUCH. */
void meta_fake_touch(struct meta_world *w, int status);
void meta_fake_drive(struct meta_world *w, int status);
/* Sets how many of a hundred transactions are told to come later. */
void meta_fake_busy(struct meta_world *w, uint32_t percent);
/* Sets the status of META__OP_FREE_ORPHAN, which is then not applied. */
void meta_fake_orphans(struct meta_world *w, int status);

#endif
