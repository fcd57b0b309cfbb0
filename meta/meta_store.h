/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Shared by the files that manage the drives: meta_super.c, meta_zone.c, meta_alloc.c,
 * meta_space.c, meta_log.c, meta_boot.c, meta_mend.c, meta_format.c, meta_replay.c, meta_walk.c,
 * meta_collect.c, meta_check.c; and by their tests.
 */
#ifndef META_STORE_H
#define META_STORE_H

#include "meta/meta_internal.h"
#include "meta/meta_store_disk.h"
#include "meta/meta_twins.h"

#define META__BLOCK           4096u
#define META__ZONE_BYTES_MIN  (64u << 10)
#define META__ZONE_BYTES_MAX  (64u << 20)
#define META__LOG_BLOCKS_MAX  64u         /* of one log block: 256 KiB     */
#define META__LOG_BYTES_MAX   (64u << 20) /* of log that a mount replays   */
#define META__LOG_KEEP_BLOCKS 2u          /* of a zone, for empty blocks   */
#define META__LOG_BUFS        8u
#define META__FOLD_MIN        2u /* data zones: of one, it would be a pair */
#define META__LOG_COPIES      3u /* of each block, at most: meta__log_copies_max() */
#define META__LOG_ZONES_MAX   (META__LOG_BYTES_MAX / META__ZONE_BYTES_MIN + 1)
#define META__BOOT_BLOCKS     64u
#define META__WALK_HEIGHT_MAX 12u
#define META__ZONE_IOS        8u
#define META__ZONE_NONE       UINT32_MAX

/* ---- meta_geo.c: where things lie; meta_super.c: the codecs of what does not move ---- */

/* The log keeps the copies of a zone in an array: those that there are come first, and then
 * META__ZONE_NONE.  Returns how many there are. */
static inline uint32_t meta__log_copies(const uint32_t zone[META__LOG_COPIES])
{
	uint32_t count = 0;

	while (count < META__LOG_COPIES && zone[count] != META__ZONE_NONE)
		count++;
	return count;
}

static inline void meta__log_no_copies(uint32_t zone[META__LOG_COPIES])
{
	for (uint32_t i = 0; i < META__LOG_COPIES; i++)
		zone[i] = META__ZONE_NONE;
}

/* State of a drive of the set. */
enum meta__drive_state {
	DRIVE_SERVES,
	DRIVE_DRAINS, /* no new writes; live data is moved away */
	DRIVE_GONE,   /* nothing is there any more, nor need it be: its numbers stay its own */
	DRIVE_LOST,   /* it failed or is missing; what was there is read from twins: meta_pair.c */
	DRIVE_AWAY,   /* in memory only: it is missing, and the store was mounted without it */
};

struct meta__super {
	uint8_t uuid[16];
	uint32_t drive, ndrives, nshards, zone_blocks;
	uint64_t nzones, secret;
	int64_t format_ns;
	uint64_t set; /* 0: as it was formatted; then root_at is not given */
	uint64_t root_at[META__ROOT_COPIES];
	uint64_t drive_nblocks[META_DRIVES_MAX];
	uint64_t drive_tag[META_DRIVES_MAX];
	char drive_name[META_DRIVES_MAX][META_DRIVE_NAME];
	bool spread;  /* directories may have parts      */
	bool drained; /* once: these may be other than 0 */
	uint8_t drive_state[META_DRIVES_MAX];
	uint32_t root_zone[META__ROOT_COPIES][META__ROOT_ZONES_MAX]; /* + 1 */
	uint32_t copies;                                             /* of each block: 1, 2, 3 */
	uint32_t converts; /* ... but some may still have so many; 0: none (meta_protect.c) */
	uint32_t fold;     /* data zones of a fold, at most; 0: none (meta_fold.c) */
};

struct meta__geo {
	uint32_t ndrives;
	uint32_t nshards;
	uint32_t zone_blocks; /* with both copies of its header               */
	uint32_t zone_end;    /* of the part between them, from block 1 on    */
	uint32_t zone_pages;
	uint32_t nzones; /* of all drives, those that are gone included */
	uint32_t zones_serving;
	uint32_t drives_serving;
	uint32_t log_zones_max;
	uint64_t log_bytes_max;
	uint64_t nblocks[META_DRIVES_MAX];
	uint64_t zones_at[META_DRIVES_MAX];  /* first block of the first zone        */
	uint32_t zone_base[META_DRIVES_MAX]; /* global index of the first zone       */
	uint32_t zone_count[META_DRIVES_MAX];
	uint32_t root_copies;                  /* of the root area: 2, or 3 */
	uint32_t root_zones;                   /* that a copy uses if it is not at root_area */
	uint64_t root_area[META__ROOT_COPIES]; /* baddr: slot 0 of all shards, then slot 1 */
	/* A copy's zones, each + 1; 0: it is at root_area. */
	uint32_t root_zone[META__ROOT_COPIES][META__ROOT_ZONES_MAX];
	uint8_t state[META_DRIVES_MAX]; /* enum meta__drive_state */
};

/* As a superblock says. */
void meta__geo_of(struct meta__geo *g, const struct meta__super *s);
/* As format makes it.  zone_blocks 0: as format chooses it. */
void meta__geo_make(struct meta__geo *g, const struct meta_conf *conf, uint32_t nshards,
		    uint32_t zone_blocks);
uint32_t meta__geo_zone_blocks(const struct meta_conf *conf);
/* This drive is missing: nothing is put there. */
void meta__geo_away(struct meta__geo *g, uint32_t drive);
uint64_t meta__geo_zone_baddr(const struct meta__geo *g, uint32_t zone); /* of its first block */
uint64_t meta__geo_zone_head(const struct meta__geo *g, uint32_t zone, uint32_t copy);
/* The zone of a block; UINT32_MAX: it is in none. */
uint32_t meta__geo_zone_of(const struct meta__geo *g, uint64_t baddr);
/* Returns true if a page fits there: in a zone, on a multiple of pages after its header. */
bool meta__geo_is_page(const struct meta__geo *g, uint64_t baddr);
uint64_t meta__geo_root(const struct meta__geo *g, uint32_t copy, uint32_t slot, uint32_t shard);
/* Is this zone on a drive that the store has, and is a copy of the root area in it? */
bool meta__geo_zone_there(const struct meta__geo *g, uint32_t zone);
bool meta__geo_zone_roots(const struct meta__geo *g, uint32_t zone);
/* Is a copy of the root area, or a part of it, on this drive? */
bool meta__geo_roots_on(const struct meta__geo *g, uint32_t copy, uint32_t drive);
bool meta__geo_any_roots_on(const struct meta__geo *g, uint32_t drive); /* ... of any copy? */
/* Returns the copies on drives that are not lost, of the roots with the fewest. */
uint32_t meta__geo_roots_left(const struct meta__geo *g);
/* Returns the pieces of a copy, each of which is on one drive. */
uint32_t meta__geo_root_pieces(const struct meta__geo *g);
/* Returns true if a piece of this copy is on the drive of the same piece of a lower copy, or on one
 * of its mates. */
bool meta__geo_roots_share(const struct meta__geo *g, uint32_t copy, const uint64_t *mates);
/* Are the root areas on the first drives, where a superblock need not say it? */
bool meta__geo_roots_first(const struct meta__geo *g);
/* Returns the drive with this piece of a copy: a zone of it, or all. */
uint32_t meta__geo_root_drive(const struct meta__geo *g, uint32_t copy, uint32_t piece);

void meta__super_build(const struct meta__super *s, void *block);
/* 0, -ENODATA (not ours, or damaged), -EPROTONOSUPPORT (why names it), -EUCLEAN. */
int meta__super_parse(const void *block, struct meta__super *out, char why[128]);

struct meta__root_seen {
	uint32_t shard;
	uint64_t version, mount, log_epoch, log_base;
	uint64_t mark[META_DRIVES_MAX];
	struct meta__root root;
};
int meta__root_parse(const void *block, const uint8_t uuid[16], struct meta__root_seen *out);

/* Returns true if it is this shard's, and of this slot.  Versions are odd in slot 0, even in slot
 * 1: they count on as the slots take turns.  So a write meant for the other slot is detected. */
bool meta__root_belongs(const struct meta__root_seen *r, uint32_t shard, uint32_t slot);

struct meta__zone_seen {
	uint32_t zone;
	enum meta__zone_kind kind;
	uint64_t incarnation, epoch, order, oldest_order, mark;
	uint32_t twin, twin2; /* the others of its group, each + 1: meta__group_head(); 0: none */
	uint64_t pair;
	/* of parity; twin is the other zone of parity then: */
	uint32_t members;
	uint32_t role; /* 0: P, 1: Q */
	uint32_t member[META_FOLD_MAX];
	uint64_t member_incarnation[META_FOLD_MAX];
};
void meta__zone_build(const struct meta__zone_seen *z, const uint8_t uuid[16], void *block);
/* Do these two, which were parsed, say the same fold, one as P and one as Q? */
bool meta__parity_agrees(const struct meta__zone_seen *a, const struct meta__zone_seen *b);
/* One copy.  0, -EUCLEAN: it is not whole. */
int meta__zone_parse(const void *block, const uint8_t uuid[16], uint32_t zone,
		     struct meta__zone_seen *out);

/* ---- meta_log_codec.c ------------------------------------------------------ */

struct meta__log_head {
	uint64_t tag, epoch, seq, durable, trim;
	uint32_t nblocks, bytes, records;
};
/* Names the store, the mount and the zone's order in its log, which its copies have too: blocks
 * that an earlier use or a client left in the zone are none of this log. */
uint64_t meta__log_tag(const struct meta *m, uint64_t epoch, uint64_t order);
void meta__log_seal(void *block, const struct meta__log_head *h);
/* Returns the length stated by the block that starts here, if it has our tag; else 0. */
uint32_t meta__log_peek(const void *block, uint64_t tag);
/* The block that starts here, of at most max_blocks.  0, -ENODATA: none that is whole. */
int meta__log_open(const void *block, uint32_t max_blocks, uint64_t tag,
		   struct meta__log_head *out);

uint32_t meta__record_write(const struct meta *m, void *out, const struct meta__mut *mut,
			    uint32_t count);

/* Walk the records of an open block; every length is checked here and nowhere else. */
struct meta__record_reader {
	const uint8_t *at, *end; /* of the records of this block */
	const uint8_t *record_end;
	uint32_t parts_left, records_left;
	uint32_t nshards;
	bool last_part; /* this part ends its record */
};
struct meta__part {
	uint32_t shard, count;
	uint64_t seq, uniq_next, dir_next, files, dirs;
};
void meta__reader_init(struct meta__record_reader *r, const void *block,
		       const struct meta__log_head *h, uint32_t nshards);
/* 1: the next part and its mutations (values point into the block); 0: the end; -EUCLEAN. */
int meta__reader_next(struct meta__record_reader *r, struct meta__part *part,
		      struct meta__mut mut[META__TX_RECORDS_MAX]);

/* ---- meta_zone.c, meta_alloc.c --------------------------------------------- */

/*
 *   FREE --> OPENING --> READY --> OPEN --> CLOSED --> EMPTY --> FROZEN --> LEAVING --> FREE
 *       header      durable   filled    full   nothing   freeze    rooted     older
 *       written                                 alive                         reads ended
 *   FREE --> DEALLOCATING --> FREE     meta_deallocate.c
 */
enum meta__zone_state {
	ZONE_FREE,
	ZONE_OPENING,
	ZONE_READY,
	ZONE_OPEN,
	ZONE_CLOSED,
	ZONE_EMPTY,
	ZONE_FROZEN,
	ZONE_LEAVING,
	ZONE_DEALLOCATING, /* its drive is being told that it is empty */
	ZONE_MENDING,      /* free, and its header is being written as it was */
	ZONE_GONE,         /* its drive is: for ever */
};

#define META__PARITY_P 1u
#define META__PARITY_Q 2u

struct meta__zone {
	struct list link;     /* of the list of its state                                 */
	uint64_t incarnation; /* as in its header                                         */
	uint64_t left;        /* FROZEN, LEAVING: the read epoch that must have been left */
	uint32_t live;        /* blocks: of data by ZONE records, of pages as counted     */
	uint32_t pending;     /* blocks between meta_data_alloc() and an apply            */
	uint32_t used;        /* blocks from its start, header included                   */
	uint8_t kind;
	uint8_t state;
	uint8_t head_first; /* copy of its header that is written first                */
	bool head_lost;     /* mount: no copy of it is whole                           */
	bool mending;       /* it is being written as it was (meta_zone_mend.c)        */
	bool mend_failed;   /* ... which could not be done: not tried again            */
	bool freed;         /* ... and the zone is free when that is over              */
	bool stuck; /* collection could not empty it: not tried again before a page of it dies */
	uint64_t order;  /* as in its header */
	uint64_t closed; /* epoch in which its last place was given out */
	uint64_t tried;  /* ... in which its pages were last moved from a drive that drains */
	bool moved;      /* of data: opened for what collection moves */
	bool upper;      /* of pages: opened for those above leaves */
	bool victim;     /* collection is emptying it */
	uint32_t kept;   /* blocks that collection had to leave in it; 0: none */
	uint32_t twin;   /* the next zone of its group, + 1; 0: it has none (meta_pair.c) */
	uint8_t lone;    /* zones of its group, if that lacks some; else 0 */
	uint32_t heads;  /* OPENING: zones of the group whose headers are not durable yet */
	uint64_t pair;   /* number of the group, or of parity the fold, that it is or was in */
	uint32_t next;   /* of its fold: the next zone in the ring, + 1; 0: it is in none */
	uint8_t parity;  /* ... and this is parity: META__PARITY_P or _Q; else 0 */
	bool folding;    /* a fold is being made of it: it is no victim */
	bool unlike;     /* its copies differ somewhere: it is emptied, not folded */
	bool near;       /* two zones of its group or fold are in one domain: the same */
	bool bare;       /* a twin that was freed alone: its content must stay (meta_fold.c (3)) */
};

/* A stream of new addresses: the data of one drive, or what collection moves (unit: block), or
 * leaves, or the pages above them (unit: page). */
struct meta__supply {
	struct list ready; /* zones, in the order of their use                       */
	uint32_t open;     /* zone, or META__ZONE_NONE                               */
	uint32_t opening;  /* zones whose headers are in flight                      */
	uint64_t room;     /* units in the open and the ready zones                  */
	uint64_t want;     /* units that should be there                             */
	uint64_t want_min; /* ... unless more are requested                          */
};

#define META__PAGE_SUPPLIES 2u
#define META__EPOCHS        64u

struct meta__zone_io {
	struct meta__io x;
	uint32_t zone;  /* META__ZONE_NONE: idle */
	bool second;    /* copy that is being written */
	bool mends;     /* the header of a zone that has one: */
	bool names;     /* ... with other content: meta__zone_name() */
	uint8_t copies; /* copies still to be written, as bits */
	uint32_t next;  /* if it was free: the zone after it; NONE: it was the last */
};

/* Deallocation state of one drive. */
struct meta__deallocation {
	struct meta__io x;
	uint32_t zone; /* that it is being told of; META__ZONE_NONE: none */
	uint32_t at;   /* of its blocks: the next                         */
	bool refused;  /* it is not asked again                           */
};

struct meta__marks {                  /* of drives (meta_mark.c) */
	uint64_t of[META_DRIVES_MAX]; /* durable */
	uint64_t busy_mark[META_DRIVES_MAX];
	uint64_t next;
	uint64_t due, busy; /* drives, as bits: their mark must be written, is being written */
};

struct meta__zones {
	struct meta__geo geo;
	struct meta__zone *zone; /* geo.nzones */
	struct list free[META_DRIVES_MAX];
	struct list fresh[META_DRIVES_MAX]; /* free zones, to be deallocated */
	uint32_t free_count[META_DRIVES_MAX];
	uint32_t free_total;
	struct meta__deallocation deallocation[META_DRIVES_MAX];
	uint32_t deallocating; /* zones */
	uint64_t deallocated_blocks, deallocate_failures;
	struct list empty, frozen, leaving;
	uint32_t coming;      /* zones in empty and frozen: free after a checkpoint */
	uint32_t coming_data; /* of data, in empty: the next checkpoint frees them */
	uint32_t leaving_us;  /* as `coming`, of drives that must leave: for no use */
	uint32_t drain_zones; /* zones that the live data of a draining drive needs elsewhere */
	struct meta__supply data[META_DRIVES_MAX];
	struct meta__supply moved; /* of data that collection moves, on any drive */
	struct meta__supply page[META__PAGE_SUPPLIES]; /* leaves; the pages above them */
	bool counted; /* boot has found the free zones: zones may be opened          */
	uint32_t log_ready[META__LOG_COPIES]; /* taken for the log, not yet given to it */
	uint32_t log_opening;                 /* zones whose headers are being written */
	uint32_t log_count;                   /* the log's zones, copies and those ahead included */
	uint64_t log_order;                   /* of the log zone opened last                     */
	uint64_t log_oldest;                  /* order of the oldest one that is needed         */
	uint32_t page_zones, data_zones;      /* in use                                         */
	uint32_t data_turn;                   /* of data[]: whose zone is opened next           */
	uint64_t live_pages;
	uint64_t live_blocks;    /* of data */
	uint64_t given_blocks;   /* for new data, since mount */
	uint64_t promised;       /* blocks for new data that are pending */
	bool promises;           /* room is counted for statfs: meta_space.c (7) */
	uint64_t yielded;        /* places that new data leaves to a change: meta_protect.c (8) */
	uint64_t missing_blocks; /* that another protection had no room for, asked for last */
	uint64_t claim;          /* blocks that collection has yet to find places for */
	uint64_t deaths;         /* of data blocks, and other events that make collection useful */
	uint64_t gone;           /* drives, by their bits */
	uint32_t dirty_pages_max;
	uint64_t wear_least, wear_most; /* incarnations: of any zone                    */
	uint32_t wear_least_zones;      /* that have the least; 0: to be searched     */
	uint64_t epoch, epoch_oldest;   /* of reads: now; the oldest not yet left */
	uint64_t ended[META__EPOCHS];   /* ... readers that have left this pin a later one */
	uint32_t readers[META__EPOCHS]; /* of epoch e: at e % META__EPOCHS        */
	struct meta__marks marks;
	uint64_t mended; /* headers that were damaged */
	struct meta_twins twins;
	uint64_t pair_last; /* number */
	uint32_t lone;      /* groups of pages and data that have fewer zones than they should, */
	uint32_t lone_by[META_COPIES_MAX]; /* ... of so many zones each, */
	uint32_t lone_on[META_DRIVES_MAX]; /* ... and their zones on each drive */
	uint32_t folds;                    /* that there are, */
	uint32_t folded;                   /* ... and their data zones */
	uint32_t unlikes, nears;
	uint64_t parity_blocks; /* written since mount */
	/* The headers of P and Q that name the members of a fold, from the write of each until the
	 * fold is made; NULL at other times.  The status is -EAGAIN until the write has ended. */
	const struct meta__zone_seen *naming[META_FOLD_PARITIES];
	int naming_status;
	struct meta__zone_io io[META__ZONE_IOS];
};

/* Boot, when the geometry is known: all zones free.  -ENOMEM. */
int meta__zones_setup(struct meta *m, const struct meta__geo *geo);
/* Memory for the zones of one more drive; then they are there, all of them free. */
int meta__zones_grow(struct meta *m, const struct meta__geo *geo);
void meta__zones_join(struct meta *m, const struct meta__geo *geo);
/* Sets the state of a drive and its zones, and the new place of the roots. */
void meta__drive_state_set(struct meta *m, uint32_t drive, enum meta__drive_state state);
bool meta__drive_serves(const struct meta *m, uint32_t drive);
/* ... and is not dead: zones of it may be taken into use. */
bool meta__drive_takes(const struct meta *m, uint32_t drive);
/* Computes the zones that the live data of the draining drive, if any, needs on others. */
void meta__zones_drain(struct meta *m, uint32_t drive);
void meta__zones_root(struct meta *m, const struct meta__geo *geo);
void meta__zone_give_root(struct meta *m, uint32_t zone); /* taken for them, and not used */
void meta__zone_use(struct meta *m, uint32_t zone, enum meta__zone_kind kind); /* free -> closed */
void meta__zone_page_add(struct meta *m, uint64_t baddr); /* boot: a page that lives */
/* Counts zones that the next checkpoint frees: for all, or on a drive that is to leave. */
void meta__zone_coming(struct meta *m, uint32_t zone, bool more);
void meta__zone_settle(struct meta *m, uint32_t zone); /* closed and nothing alive: empty */
/* Its fold is durable: the first of this group stays, the twins will be free. */
void meta__zone_untwin(struct meta *m, uint32_t first);
void meta__zone_hold(struct meta *m, uint32_t zone, bool hold); /* boot: a log record names it */
/* meta_alloc.c's half of a zone's life: */
bool meta__zone_open(struct meta *m, uint32_t zone,
		     enum meta__zone_kind kind); /* false: no I/O left */
/* How often zones have been used: the least, and the most. */
void meta__zone_wear(struct meta *m, struct meta_statfs *out);
uint32_t meta__zone_pick(const struct meta *m); /* a free one, or META__ZONE_NONE */
/* ... on another drive than these, by bits. */
uint32_t meta__zone_pick_but(const struct meta *m, uint64_t drives);
/* ... up to so many, which ascend, for the other copies of what this zone will have.  Returns how
 * many there are. */
uint32_t meta__zone_pick_twins(const struct meta *m, uint32_t zone, uint32_t most, uint32_t *twin);
/* The zone's group lacks some, and has so many; 0: it lacks none. */
void meta__zone_lone(struct meta *m, uint32_t zone, uint32_t width);
uint32_t meta__zone_ios_idle(const struct meta__zones *z);      /* how many there are */
uint32_t meta__zone_next(const struct meta *m, uint32_t drive); /* the same of this drive */
/* Zones of a drive that are free, or open ahead for data. */
uint64_t meta__zone_free_on(const struct meta *m, uint32_t drive);
void meta__zone_close(struct meta *m, uint32_t zone);
void meta__supply_init(struct meta *m);
void meta__supply_join(struct meta *m, uint32_t drive);
void meta__supply_shut(struct meta *m, uint32_t drive); /* nothing more of this one */
void meta__supply_yield(struct meta *m);                /* new data has no room ahead any more */
void meta__supply_less(struct meta *m); /* the store has two copies now: half the room ahead */
void meta__supply_turn(struct meta *m);
void meta__supply_ready(struct meta *m, uint32_t zone);
struct meta__zone *meta__zone_at(const struct meta *m, uint32_t zone);
/* Places for data that collection moves: 0, -EAGAIN: a zone is being opened, -ENOSPC, -EROFS. */
int meta__moved_alloc(struct meta *m, uint32_t nblocks, struct meta_run *runs, uint32_t runs_max,
		      uint32_t *nruns);
uint64_t meta__moved_room(const struct meta *m); /* blocks, sooner or later */
/* Groups that blocks which get their second copies leave for other collection: meta_gc.c (8). */
#define META__LEFT_ZONES 2u

/* ---- meta_space.c -------------------------------------------------------- */

/* Free zones that data (or, with data false, new names) must leave alone. */
uint32_t meta__zone_reserve(const struct meta *m, bool data);
uint32_t meta__zones_of_reserve(const struct meta *m); /* ... those for pages */
/* ... and these collection keeps free of everything that it can. */
uint32_t meta__zones_kept(const struct meta *m);
/* Free zones that moved data, or new data, may take now. */
uint32_t meta__zones_for_moved(const struct meta *m);
uint32_t meta__zones_for_data(const struct meta *m);
/* Returns the most blocks that a supply should have ready: a small part of the serving drives. */
uint64_t meta__ahead_max(const struct meta *m);
/* Returns true if files may have so many blocks more. */
bool meta__files_fit(const struct meta *m, uint32_t nblocks);
/* Returns the places for data, garbage included, which is collected before -ENOSPC. */
uint64_t meta__data_places(const struct meta *m);
/* Returns the blocks for which groups of so many zones have no room: meta_space.c (6). */
uint64_t meta__wider_short(const struct meta *m, uint32_t copies);
uint64_t meta__pages_ahead(const struct meta__zones *z); /* addresses in open and ready zones */

/* ---- meta_zone_mend.c ---------------------------------------------------- */

/* Writes these copies of a header (bits) with the zone's state.  False: not now. */
struct meta__zone_io *meta__zone_io_idle(struct meta__zones *z); /* NULL: none */
void meta__zone_freed(struct meta *m, uint32_t zone);            /* nothing lives there any more */
void meta__zone_mended(struct meta *m, uint64_t baddr); /* a damaged block there is good again */
bool meta__zone_mend(struct meta *m, const struct meta__zone_seen *head, uint32_t copies);
void meta__zone_mend_done(struct meta *m, struct meta__zone_io *io);
/* Writes a header of parity with its members: zones->naming, which the caller keeps and ends. */
bool meta__zone_name(struct meta *m, const struct meta__zone_seen *head);
/* Returns the header of a zone as the store serves by it. */
struct meta__zone_seen meta__zone_head(const struct meta *m, uint32_t zone);

/* ---- meta_mark.c: the last mark of each drive ------------------------------- */

/* Returns a drive's first zone; and whether that has a mark (4). */
uint32_t meta__first_zone(const struct meta__zones *z, uint32_t drive);
bool meta__has_mark(const struct meta *m, uint32_t drive);
/* Writes the mark to every drive; call the turn until true: all have it, or cannot. */
void meta__marks_begin(struct meta *m, uint64_t mark);
bool meta__marks_turn(struct meta *m);
/* The drive whose mark stands in the header of this zone; META_DRIVES_MAX: none. */
uint32_t meta__mark_drive(const struct meta *m, uint32_t zone);
/* Ends the write of a header.  Returns true if it was for a mark. */
bool meta__mark_done(struct meta *m, uint32_t zone, bool durable);

/* ---- meta_deallocate.c --------------------------------------------------------- */

void meta__deallocate_init(struct meta *m);
bool meta__deallocate_wanted(const struct meta *m, uint32_t drive); /* when a zone of it is free */
void meta__deallocate_forget(struct meta *m, uint32_t drive); /* those of it need not be told */
void meta__deallocate_turn(struct meta *m);
void meta__deallocate_io_done(struct meta *m, struct meta__io *x);
bool meta__deallocate_idle(const struct meta *m);
void meta__deallocate_stat(const struct meta *m, struct meta_statfs *out);

/* ---- meta_log.c ------------------------------------------------------------ */

/* Begins a stream after `base`, all of it durable; then call turns until meta__log_ready(). */
void meta__log_start(struct meta *m, uint64_t base);
bool meta__log_ready(const struct meta *m);
/* Returns the number of zones by order, of which each may have two, including the next one. */
uint32_t meta__log_zones(const struct meta *m);
/* Returns the copies of a block of the log if there are as many drives: two, or as many as a block
 * of data has. */
static inline uint32_t meta__log_copies_max(const struct meta *m)
{
	return m->copies > 2 ? META__LOG_COPIES : 2;
}

uint32_t meta__log_copies_now(const struct meta *m); /* ... on the drives that serve now */

/* Boot: roots written now record that the log of this epoch must be replayed on them; all of it up
 * to seq is in the trees, and durable. */
void meta__log_replaying(struct meta *m, uint64_t epoch, uint64_t base, uint64_t seq);
bool meta__log_quiet(const struct meta *m); /* nothing open, in flight, to be vouched for */
bool meta__log_more(const struct meta *m);
uint64_t meta__log_blocks(const struct meta *m);                    /* written since mount */
void meta__log_stat(const struct meta *m, struct meta_statfs *out); /* log_* */
uint64_t meta__log_base(const struct meta *m);  /* roots written now say: this log, */
uint64_t meta__log_epoch(const struct meta *m); /* epoch of the log to be replayed on them */

/* ---- meta_walk.c: the tree of one shard as it is on the drives, page by page ------- */

enum meta__walk_event {
	WALK_WAIT, /* for its read                                                  */
	WALK_PAGE, /* at[depth] is in memory: meta__walk_page()                     */
	WALK_LEAF, /* a leaf that was named and not read: w->leaf_baddr             */
	WALK_AWAY, /* a page on a missing drive; it and the pages below are not read: leaf_baddr */
	WALK_END,
	WALK_BAD, /* w->err, w->why: which page, and why                               */
};

struct meta__walk_level {
	uint64_t baddr, gen;
	uint32_t level, next, count; /* next: child to be visited */
	bool has_high;
	struct meta_key low, high; /* low <= every key < high */
};

struct meta__walk {
	uint8_t again; /* from which further copy a page is being read */
	struct meta__io x;
	uint8_t *buf; /* META_PAGE_LEVELS_MAX pages */
	uint32_t shard;
	uint32_t depth;
	bool started, reading, fresh;
	bool all_leaves; /* else only those that may hold keys below `until` are read */
	struct meta_key until;
	uint64_t leaf_baddr;
	int err; /* -EUCLEAN or -EIO, and: */
	char why[128];
	struct meta__walk_level at[META_PAGE_LEVELS_MAX];
};

uint64_t meta__walk_memory(void);
void meta__walk_start(struct meta *m, struct meta__walk *w, uint32_t shard);
enum meta__walk_event meta__walk_step(struct meta *m, struct meta__walk *w);
const void *meta__walk_page(const struct meta__walk *w);
void meta__walk_io_done(struct meta__walk *w);

/* ---- meta_boot.c, meta_format.c, meta_replay.c ------------------------- */

struct meta__log_span { /* a zone of the log that is being scanned */
	uint32_t zone;
	uint64_t order, oldest_order;
	uint64_t last_seq;       /* of the blocks found in it; 0: none */
	uint32_t end;            /* block after the last one found     */
	bool stale;              /* its zone is something else by now  */
	bool unread;             /* some of it cannot be read: content unknown */
	uint64_t counted, count; /* replay: how many of those that must be there, and the last */
};

struct meta__seq_run { /* log blocks that were found, without a gap */
	uint64_t first, last;
};

struct meta__boot_root { /* of a shard, as found */
	bool slot[2];    /* a copy of it is whole */
	uint64_t log_epoch, log_base, log_seq;
};

/* The damaged copy of a pair, to be written again (meta_mend.c). */
struct meta__mend {
	uint64_t good, bad;
	uint32_t zone; /* META__ZONE_NONE: a superblock */
	bool unnames;  /* not damaged: its fold was not made, and it says so from now on */
};
#define META__MENDS_MAX 64u

/* The drive that is being drained, and its state (meta_drain.c). */
struct meta__drain {
	bool moves[META__ROOT_COPIES]; /* copies of the roots that move now */
	uint64_t drives;               /* that a change of the set concerns, by bits */
	enum meta__drive_state to;     /* their next state */
	bool roots;                    /* the change moves roots, and checkpoints are held */
	bool writing;                  /* roots: the copy that was read is being written */
	bool cannot;                   /* move them: not tried again until asked for */
	bool log_bound;                /* its limit is that of the drives that serve */
	uint32_t take[META__ROOT_COPIES][META__ROOT_ZONES_MAX]; /* zones for them, each + 1 */
	uint32_t taken;                                         /* ... how many */
	uint32_t asked; /* checkpoints, since anything was won by one */
	uint64_t epoch; /* as it was when that was last read, and: */
	uint32_t free_count, free_total, coming;
};

#define HEAD_LOST 0xffu /* in head_kind[]: content of the zone not known yet */

struct meta__boot {
	int status;                   /* -EAGAIN while in progress */
	char note[160];               /* the first thing that was not whole, and not needed; "" */
	int (*stage)(struct meta *m); /* 0: continue at once; -EAGAIN: wait; else the end */
	uint8_t *buf;                 /* META__BOOT_BLOCKS blocks */
	struct meta__io io[META__BOOT_BLOCKS];
	uint32_t in_flight;
	bool sent;          /* the stage's I/Os are sent: when in_flight is 0 again, look at them */
	uint32_t at, count; /* of the stage: drive, shard, zone ...; those in flight */
	uint32_t step;
	struct meta__geo geo;
	struct meta__super super;            /* of the set of drives that is in use */
	struct meta__super top;              /* mount: of the highest number */
	struct meta__super before;           /* ... of the highest with one drive less */
	bool clash;                          /* ... which others say, too, and mean another set */
	uint32_t clash_count;                /* ... of fewest drives */
	uint64_t tag[META_DRIVES_MAX];       /* ... each drive's, as it says itself */
	uint64_t old_set[META_DRIVES_MAX];   /* ... the lowest number that a copy of it says, */
	uint32_t old_count[META_DRIVES_MAX]; /* ... and how many drives that set has */
	uint8_t says[META_DRIVES_MAX];       /* state of the newest by its own superblock */
	int unread[META_DRIVES_MAX];         /* ... why it says nothing, and that for people */
	char unread_why[META_DRIVES_MAX][128];
	bool mixed;                           /* ... they do not all say the same */
	bool told_missing;                    /* the operator says that a drive is lost */
	bool behind;                          /* one that is gone does not record that */
	uint8_t super_first[META_DRIVES_MAX]; /* the copy that is written first */
	struct meta__super next;              /* superblock being written */
	uint32_t write_from;                  /* this drive's first, */
	bool write_both;                      /* ... both its copies before any of the others */
	bool write_gone;                      /* of those that are gone only */
	uint64_t set_tried; /* highest number of a change that failed: some may have it */
	bool adding;        /* the set of drives changes, while serving */
	int *told;          /* ... of the two below: its owner; NULL: not requested */
	int add_status;     /* of the last drive that was to be added */
	int drain_status;   /* of the last one that was to be drained, or to stay */
	struct meta__drain drain;
	struct { /* meta_supers.c: of this drive, copies by bits */
		uint32_t drive, wrong;
		bool mends, mended; /* some were; these were */
	} supers;
	struct meta__mend mend[META__MENDS_MAX];
	uint32_t mend_count;
	uint64_t mount_max;               /* highest number of a mount that was seen */
	uint64_t marked[META_DRIVES_MAX]; /* mark that each drive must have, by the roots */
	struct meta__zone_seen first_head[META_DRIVES_MAX]; /* of each drive's first zone */
	struct meta__boot_root *root_seen;                  /* by shard */
	uint8_t *head_kind;                                 /* by zone: as its header says */
	uint32_t in_turn;                                   /* roots that are being written */
	uint32_t *head_twin, *head_twin2;
	uint64_t *head_pair;
	struct meta__zone_seen *fold; /* headers of parity with members */
	uint32_t fold_count, fold_max;
	uint32_t lost_heads, lost_first; /* zones of which no header is whole (meta_heads.c) */
	uint64_t away_pages;   /* on a missing drive, as far as pages that can be read name them */
	uint64_t away_changes; /* of the log, to leaves that cannot be reached */
	/* the log that is replayed */
	uint64_t log_epoch, log_base, log_known; /* log_known: roots say that it was durable */
	struct meta__log_span *span;
	uint32_t span_count, span_at;
	uint32_t later_count;         /* zones of newer logs that some root names: span[]'s end */
	uint32_t block_at;            /* where the chunk in buf begins in its zone    */
	uint32_t chunk_at, chunk_end; /* block of the chunk that is being checked; of all */
	uint64_t durable, trim;
	bool log_judged;           /* all required blocks are present */
	uint32_t log_end;          /* block after the last one of its newest zone, */
	uint32_t log_copies;       /* ... of which there are so many */
	struct meta__seq_run *run; /* in order; as many as there are gaps, and one */
	uint32_t run_count, run_max;
	uint64_t first, last; /* to be replayed */
	uint64_t seq_next;    /* ... now */
	bool replaying;       /* the second pass */
	bool got_some;        /* ... of this zone, or the copies of it */
	uint64_t group_first; /* ... whose first block that is, or may be */
	uint64_t must;        /* all up to this were durable, or an earlier mount took them */
	bool claims;          /* its root is being written: nothing is replayed yet */
	struct meta__record_reader reader;
	struct meta__log_head head;
	bool in_block, in_record;
	struct meta__part part;
	struct meta__mut mut[META__TX_RECORDS_MAX];
	struct meta_op op;
	bool op_running, op_over;
	struct meta__walk walk;
};

/* Queue one; the stage is looked at again when all are back. */
void meta__boot_io(struct meta *m, enum meta_io_op op, uint64_t baddr, uint32_t nblocks,
		   uint32_t buf_block);
uint32_t meta__boot_flush(struct meta *m); /* how many drives */
void meta__boot_next(struct meta *m, int (*stage)(struct meta *m));
int meta__boot_fail(struct meta *m, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A copy is damaged, and another one whole: the mount continues, and notes it in meta_error(). */
void meta__boot_note(struct meta *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int meta__boot_run_op(struct meta *m, uint32_t type); /* 0: it is over; -EAGAIN; else its status */
/* The last stages of both: all trees durable; roots that name this mount's log; serve. */
int meta__boot_settle(struct meta *m);
int meta__boot_settled(struct meta *m); /* 0: all trees are in durable roots */
int meta__boot_serve(struct meta *m);
int meta__boot_claim(struct meta *m);
int meta__boot_count(struct meta *m); /* mount: the trees */
/* meta_roots.c, a stage of a mount: all roots. */
int meta__roots_read(struct meta *m);
/* meta_heads.c, stages of a mount: headers of zones, and those that no copy of is whole. */
int meta__heads_read(struct meta *m);
/* meta_mark.c: takes the marks in a root; checks whether a drive is behind them. */
void meta__marks_said(struct meta *m, const struct meta__root_seen *r);
int meta__marks_judge(struct meta *m);
/* Is the zone's header unknown: are both copies lost, or its drive, or is that missing? */
bool meta__head_unknown(const struct meta *m, uint32_t zone);
int meta__heads_judge(struct meta *m);
int meta__heads_write(struct meta *m);
/* meta_pairs.c: which zones are pairs, by their headers; those in which nothing lives are none. */
void meta__pairs_find(struct meta *m);
void meta__pairs_settle(struct meta *m);
void meta__pair_forget(struct meta *m, uint32_t zone); /* a later group, or a fold, has it */
/* May the mount count drives as lost that are missing?  When all trees are counted. */
must_check int meta__pairs_judge(struct meta *m);
/* meta_folds.c: which zones are folds, by the headers of parity; after the pairs. */
must_check int meta__folds_take(struct meta *m, const struct meta__zone_seen *seen);
void meta__folds_find(struct meta *m);
void meta__folds_settle(struct meta *m);
/* Notes that the zone has content of this kind.  False: its header contradicts. */
bool meta__heads_adopt(struct meta *m, uint32_t zone, enum meta__zone_kind kind);
/* meta_mend.c: to be written again once the log was looked at; that stage: -EALREADY at its end. */
void meta__mend_want(struct meta *m, uint64_t good, uint64_t bad, uint32_t zone);
/* The header of a zone of parity gets no members. */
void meta__mend_unname(struct meta *m, uint32_t zone);
int meta__mend(struct meta *m);
int meta__format_begin(struct meta *m);
/* Mount: the header of a log zone was read. */
void meta__replay_take(struct meta *m, const struct meta__zone_seen *seen);
/* Stages of meta_replay.c: scan the log, then replay it, then continue with meta__boot_settle(). */
int meta__replay_scan(struct meta *m);
int meta__replay_begin(struct meta *m);
struct meta__walk *meta__boot_walk(struct meta *m); /* the check's when nothing boots */

/* ---- meta_drives.c: which drives the store has --------------------------------------- */

uint64_t meta__super_baddr(const struct meta *m, uint32_t drive, uint32_t copy);
/* Mount: a whole copy of a drive's superblock; all of them; a stage, -EALREADY when all say the
 * same. */
int meta__drives_take(struct meta *m, uint32_t drive, const struct meta__super *s);
int meta__drives_choose(struct meta *m);
int meta__drives_settle(struct meta *m);
bool meta__drives_turn(struct meta *m);                        /* drives being added or drained */
bool meta__drives_given(const struct meta *m, uint32_t drive); /* it is there */
uint32_t meta__drives_missing(const struct meta *m);           /* META_DRIVES_MAX: none is */
/* A change of the set begins, stage by stage, and ends; meta__drives_write() is one of them. */
void meta__drives_begin(struct meta *m, int *status, int (*stage)(struct meta *m));
void meta__drives_end(struct meta *m, int status);
uint64_t meta__drives_next_set(const struct meta *m);
int meta__drives_write(struct meta *m); /* boot->next, everywhere: -EALREADY at its end */

/* meta_supers.c: writes superblocks of a drive again that are damaged (copies, by bits).  Returns
 * false if it cannot now.  Then: does that go on; have they been written? */
must_check bool meta__supers_mend(struct meta *m, uint32_t drive, uint32_t wrong);
bool meta__supers_mending(struct meta *m);
bool meta__supers_mended(const struct meta *m);

/* ---- meta_drain.c: drives to be emptied, and then gone ------------------------------------ */

uint32_t meta__drain_drive(const struct meta *m); /* META_DRIVES_MAX: none */
/* Returns the drives, by bits, that roots must leave: that one, and all that are lost, but for
 * those that keep them for ever. */
uint64_t meta__drives_leave(const struct meta *m);
/* meta_roots_move.c: does a copy of the roots have to move; that is done, step by step; zones that
 * were taken for it are given back. */
bool meta__roots_must_move(const struct meta *m);
void meta__roots_turn(struct meta *m);
void meta__roots_drop(struct meta *m);
bool meta__drain_empty(const struct meta *m, uint32_t drive); /* all that was there has left */
bool meta__drain_ends(const struct meta *m);                  /* ... and soon it is gone      */
void meta__drain_turn(struct meta *m);
void meta__drain_failed(struct meta *m); /* a change of the set for it */
/* The set that adds a drive also drains this one.  Errors: as meta_drive_drain(). */
must_check int meta__drain_replaced(struct meta *m, uint32_t drive);
void meta__drain_begun(struct meta *m); /* that set counts now */
void meta__next_set(struct meta *m);    /* boot->next: as it is now, with the next number */
/* meta_protect.c: each block has all copies.  True: that is being written. */
bool meta__protect_turn(struct meta *m);
bool meta__log_is_copied(const struct meta *m); /* each of its zones has its copies */
/* meta_gc.c, meta_collect.c: live data there is being moved, or will be in the next turns. */
bool meta__drain_moves(const struct meta *m);
bool meta__gc_drains(const struct meta *m);

bool meta__boot_turn(struct meta *m);
bool meta__boot_run(struct meta *m, int *rc); /* the stages that may run; true: one waits */
void meta__boot_io_done(struct meta *m, struct meta__io *x);
bool meta__collect_turn(struct meta *m);
void meta__collect_look_drains(struct meta *m);
bool meta__collect_hopes(const struct meta *m);
/* Is it emptying zones right now?  Then a checkpoint had better wait for it. */
bool meta__collect_busy(const struct meta *m);
bool meta__collect_idle(const struct meta *m); /* nothing of it is under way */
void meta__collect_io_done(struct meta *m, struct meta__io *x);
bool meta__gc_turn(struct meta *m);
void meta__gc_look_drains(struct meta *m); /* another drive is to be emptied now */
void meta__gc_look_even(struct meta *m);   /* are drives equally full? at the next checkpoint */
void meta__gc_stat(const struct meta *m, struct meta_statfs *out);
bool meta__gc_hopes(const struct meta *m); /* will it win zones, without anything deleted? */
bool meta__gc_busy(const struct meta *m);  /* it is emptying zones */
bool meta__gc_idle(const struct meta *m);  /* nothing of it is under way */
void meta__gc_io_done(struct meta *m, struct meta__io *x);
bool meta__folder_turn(struct meta *m);
bool meta__folder_hopes(const struct meta *m); /* will it win zones? */
bool meta__folder_idle(const struct meta *m);  /* nothing of it is under way */
void meta__folder_io_done(struct meta *m, struct meta__io *x);
bool meta__check_turn(struct meta *m);
static inline bool meta__check_running(const struct meta *m)
{
	return m->checking;
}
void meta__check_io_done(struct meta *m, struct meta__io *x);

#endif
