/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A real store on drives of memory that lose power.
 *
 *   store --write--> in flight --complete--> cached --flush--> image
 *                                  |  FUA, or a drive without a cache ---^
 *
 * At a power cut each 512 bytes of a write in flight or cached are on the image, or not, as the
 * seed says; writes that were flushed, or had FUA and completed, are.  Reads see the newest write.
 * All order comes from the seed.
 */
#ifndef TEST_META_RIG_H
#define TEST_META_RIG_H

#include "base/rand.h"
#include "meta/meta_store.h"

#define RIG_DRIVES_ROOM 14u /* drives that a rig has room for */
#define RIG_DRIVES_MAX  6u  /* ... that most tests use at most */
#define RIG_WRITES_MAX  8192u
#define RIG_PATIENCE    60u /* steps until a drive that does not answer counts as dead */

struct rig_write {
	uint32_t drive;
	uint64_t block;
	uint32_t nblocks;
	uint8_t *bytes;
	bool complete;
};

struct rig {
	struct meta *m;
	struct meta_conf conf;
	struct rand_state rand;
	uint32_t ndrives;                /* that there are; conf.ndrives are given to a mount */
	uint8_t *image[RIG_DRIVES_ROOM]; /* what is durable                           */
	uint8_t *view[RIG_DRIVES_ROOM];  /* what a read sees                          */
	uint8_t *under
		[RIG_DRIVES_ROOM]; /* ... of files, where the store's writes lie in an overlay */
	struct list queue;         /* I/Os that the drives have, in their order */
	struct rig_write write[RIG_WRITES_MAX]; /* not durable yet, oldest first     */
	uint32_t nwrites;
	uint64_t spread;      /* of the allocation that was last                     */
	struct meta_op *over; /* the one that came back last                         */
	uint64_t writes;      /* all that were taken, since the rig was made            */
	uint64_t cut_at;      /* stop before this one is complete; 0: never             */
	bool cut;             /* the power is off: nothing completes any more           */
	uint64_t fail_at;     /* from this write on all fail; 0: none                   */
	uint32_t bad_supers;  /* drives, by bits, whose first and last block is not written, */
	uint32_t bad_heads;   /* ... the first header of which, and nothing else, is not written, */
	uint32_t dead;        /* ... that are dead: nothing is done there any more, */
	uint32_t dying;       /* ... that are from the write `dies_at` on,        */
	uint32_t failing;     /* ... that take no writes from there on,           */
	uint32_t hanging;     /* ... that answer nothing from there on,           */
	uint32_t silent;      /* ... that answer nothing now, and are dead after  */
	uint32_t patience;    /* ... so many steps,                               */
	uint64_t dies_at;     /* 0: none                                        */
	uint32_t hiccups;     /* `failing` ones take writes again after so many; 0: never */
	uint32_t bad_writes;  /* ... that take no writes, */
	uint32_t bad_flushes; /* ... that do not flush, */
	uint32_t bad_reads;   /* ... of which nothing is read                          */
	bool copied;          /* the store has two copies: a write of files to a dead drive fails */
	uint32_t never;       /* drives, by bits, of which nothing may be asked any more */
	bool data_failed;     /* one did, and the store cannot go on without that drive */
	bool lifo;            /* the newest I/O completes first                         */
	bool cut_garbles;     /* sectors on their way at a cut may become garbage       */
	bool cut_spoils;      /* ... and those of incomplete writes always do           */
	bool own_writes_only; /* others write to image[] and view[] alike: faster cuts      */
	uint64_t lost_from;   /* reads of drive 0 that meet these blocks end with       */
	uint64_t lost_to;     /* lost_status; of none when the two are equal            */
	int lost_status;
	struct { /* of each drive: reads that meet these end with -EIO     */
		uint64_t from, to;
	} unread[META_DRIVES_MAX];
	uint64_t stalled[2]; /* places: what begins there does not end; 0: none */
	bool ignore_flush;   /* lies: to show that the tests notice                    */
	bool ignore_fua;
	bool shared;                                     /* the store has readers */
	void (*on_over)(void *user, struct meta_op *op); /* each that comes back; NULL: nobody's */
	void *on_over_user;
	uint32_t deallocated;    /* I/Os, of drives that conf.drive[] says take them: garbage, */
	bool refuses_deallocate; /* ... or an error                                            */
};

void rig_make(struct rig *r, uint64_t seed, uint32_t ndrives, uint64_t drive_bytes,
	      uint32_t nshards, bool volatile_cache);
/* ... with drives of these sizes. */
void rig_make_of(struct rig *r, uint64_t seed, uint32_t ndrives, const uint64_t *drive_bytes,
		 uint32_t nshards, bool volatile_cache);
void rig_end(struct rig *r);
/* conf has changed: what memory it takes. */
void rig_memory(struct rig *r);
/* One more drive is there; its number. */
uint32_t rig_drive(struct rig *r, uint64_t drive_bytes, bool volatile_cache);
/* The store takes it: to its end, or until the power is off (-ECANCELED). */
int rig_drive_add(struct rig *r, uint32_t drive);

/* A fresh struct meta on the drives; then to the end of format or mount: its status. */
int rig_format(struct rig *r);
int rig_mount(struct rig *r);
int rig_stop(struct rig *r);       /* clean */
void rig_power_cut(struct rig *r); /* and the store is gone */
void rig_kill(struct rig *r);      /* the process dies: what the drives have they keep */

/* One turn of the loop: some I/O completes.  False: nothing is left to do. */
bool rig_step(struct rig *r);
/* Start it, and turn until it is over; -ECANCELED when the power went off before. */
int rig_run(struct rig *r, struct meta_op *op);
void rig_idle(struct rig *r); /* turn until nothing is left to do */
int rig_check(struct rig *r, struct meta_check *out);
/* Zones of live pages and data that lack a copy which can be read: in a store of two copies. */
uint32_t rig_thin_zones(struct rig *r);
/* Folds of which all zones can be read, and do not sum up to zero: meta_fold.c (1). */
uint32_t rig_wrong_folds(struct rig *r);

/* Put a file of `blocks` blocks that are filled from `fill`, or inline when blocks is 0. */
int rig_put(struct rig *r, const char *path, uint32_t blocks, uint64_t fill);
/* Returns how full the store is now, as statfs has it. */
struct meta_statfs rig_statfs(struct rig *r);
/* Is it there, and filled so?  0, -ENOENT ..., -EBADMSG. */
int rig_get(struct rig *r, const char *path, uint32_t *blocks, uint64_t *fill);
int rig_unlink(struct rig *r, const char *path);
int rig_mkdir(struct rig *r, const char *path);

/* These blocks, filled from `fill`, and their sums: complete, as the appliance writes new bytes. */
void rig_data(struct rig *r, const struct meta_run *runs, uint32_t nruns, uint64_t fill,
	      uint32_t *crcs);
/* Is a block of them, number `index`, as that left it, and as its sum says? */
bool rig_is_data(struct rig *r, uint64_t baddr, uint64_t fill, uint32_t index, uint32_t crc);

/* The bytes of a block as a drive has them. */
uint8_t *rig_block(struct rig *r, uint64_t baddr);

#endif
