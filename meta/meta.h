/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * meta - maps bytes of files to blocks of drives.
 *
 * Sans-I/O: nothing here waits, reads a clock, or knows a drive.  The owner of a store (the
 * appliance's core, wekactl, a simulation) runs this loop:
 *
 *	while ((io = meta_io_next(m)))          reads and writes that the store wants
 *		submit(io);
 *	...                                     a drive has answered:
 *	meta_io_done(m, io);                    io->status is set
 *	while ((op = meta_op_poll(m)))          operations that have ended
 *		finish(op);
 *
 * An operation is a plan and then an apply.  meta_op_start() runs the plan over the pages in
 * memory; if pages are missing, the store asks for them and the operation comes back from
 * meta_op_poll() later.  The apply follows in the same turn as a plan that missed nothing, and
 * cannot fail.  An operation that changed something is handed back when its log record, and all
 * records that its plan saw, are durable.
 *
 * Thread:  a store belongs to one thread; every call here is that thread's.  Other threads may be
 *          readers (struct meta_reader), and plan operations that change nothing by themselves.
 */
#ifndef META_META_H
#define META_META_H

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/list.h"
#include "meta/meta_keeps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define META_DRIVES_MAX      64u
#define META_SHARDS_MAX      4096u
#define META_NAME_MAX        255u
#define META_PATH_MAX        4095u
#define META_SYMLINKS_MAX    40u
#define META_LINKS_MAX       0x7fffffffu /* names of one file */
#define META_INLINE_MAX      512u        /* bytes of a file that lie in its inode record       */
#define META_TAIL_MAX        4095u       /* bytes of one block of it that lie in the index     */
#define META_NO_TAIL         UINT64_MAX
#define META_CHUNK_BLOCKS    128u  /* one extent record: 512 KiB                         */
#define META_IO_BLOCKS_MAX   1024u /* one read plan, write or put: 4 MiB                 */
#define META_XATTR_NAME_MAX  255u
#define META_XATTR_MAX       65536u /* bytes of a value, and of a list of names */
#define META_XATTRS_MAX      256u   /* of one file or directory: so its list is not longer */
#define META_ROOT_DIR        1u     /* the number of the root directory                   */
#define META_READERS_MAX     16u
#define META_DRIVE_BYTES_MIN (2u << 20)
#define META_DRIVE_NAME      32u /* bytes of a drive's name that the store keeps, 0 included */

struct meta; /* opaque: one mounted store */

/* A block of a drive: drive 16 bits, block number 48.  0 is never data: it is a superblock. */
#define META_BADDR(drive, block) ((uint64_t)(drive) << 48 | (block))
#define META_BADDR_DRIVE(a)      ((uint32_t)((a) >> 48))
#define META_BADDR_BLOCK(a)      ((a)&0xffffffffffffull)

/* ---- the store and its drives ------------------------------------------------ */

struct meta_drive_info {
	uint64_t nblocks;    /* of 4096 bytes */
	bool volatile_cache; /* a completed write is durable only after a flush, unless FUA */
	char name[META_DRIVE_NAME];     /* for people: what is missing at a mount, ... */
	uint64_t tag;                   /* meta_drive_add(): as its offer says, and: */
	uint32_t replaces;              /* 1 + the drive that is drained from then on; 0: none */
	uint32_t deallocate_max_blocks; /* of one META_IO_DEALLOCATE; 0: it gets none */
	uint32_t domain; /* drives of one number fail together: meta_domain.c; 0: alone */
	bool missing;    /* mount: the store serves without it; see meta_mount_start() */
};

#define META_SPARE_AUTO UINT32_MAX /* of several copies, on more drives than that: 1; else none */

struct meta_conf {
	uint32_t ndrives;
	struct meta_drive_info drive[META_DRIVES_MAX];
	void *memory;           /* 4096-aligned, DMA-able: frames and log buffers are cut from it */
	uint64_t memory_bytes;  /* meta_memory_needed() of this conf                              */
	uint64_t cache_bytes;   /* of page frames, 16 KiB each                                    */
	uint32_t early_pages;   /* dirty leaves: more are written early; 0: half of what may be   */
	uint32_t ops_max;       /* operations admitted at once                                    */
	uint32_t holds_max;     /* files held at once (META_HOLD); 0: 1024                        */
	uint32_t spare_percent; /* of zones, that no file fills: what is collected costs less so */
	uint32_t spare_drives;  /* for whose rebuild files leave room; META_SPARE_AUTO */
	uint32_t spread_at;     /* names, then a directory is spread over shards; 0: 4096 */
	uint32_t lend_after; /* changes in a row by one reader, then their shard is lent; 0: 16 */
	bool vouch_later;    /* the caller calls meta_log_vouch(); else 32 quiet turns are enough */
	/* At format only.  nshards: a power of two, 64 is usual; the others: meta_protect.h. */
	uint32_t nshards, copies, fold;
	uint64_t secret;  /* seeds the hash of names           */
	uint8_t uuid[16]; /* of the new store                  */
	int64_t wall_ns;  /* now, for the root directory       */
};

/* DEALLOCATE: what these blocks hold is not wanted any more.  It has no buf, and may fail. */
enum meta_io_op { META_IO_READ, META_IO_WRITE, META_IO_FLUSH, META_IO_DEALLOCATE };

/* I/O that the store wants.  Lent to the caller from meta_io_next() to meta_io_done(). */
struct meta_io {
	enum meta_io_op op;
	bool fua;  /* a write: durable when it completes         */
	bool must; /* a write or flush without which the store fails: better repeated  */
	uint32_t drive;
	uint32_t nblocks; /* 0 for a flush                              */
	uint64_t block;   /* first block on the drive                   */
	void *buf;        /* in conf.memory, 4096-aligned               */
	int status;       /* set by the caller; -ENODATA: only these blocks of the drive are lost */
	bool lost;        /* set with it: buf may still be written to, never use it again */
	bool gone;        /* set with it: the drive is dead, and this will never be done  */
	bool spare;       /* the store can do without it if the drive is gone              */
	bool hasty;   /* after an error that does not pass the store goes on without the drive */
	uint8_t copy; /* the store's own: the number of this copy of a write; 0: the first */
	struct list link; /* the store's until taken, then the caller's */
};

/* Bytes of DMA-able memory that a store with this configuration takes; 0: conf is impossible. */
uint64_t meta_memory_needed(const struct meta_conf *conf);

/* Returns the bytes on the heap for `holds_max` holds at once; 0: the default number. */
uint64_t meta_holds_bytes(uint32_t holds_max);

/* Why `conf` is refused, as one line; NULL when it is fine. */
const char *meta_conf_problem(const struct meta_conf *conf);

/**
 * meta_create - a store that is not yet there: format or mount comes next
 *
 * Errors:  -EINVAL (see meta_conf_problem), -ENOMEM.
 */
must_check int meta_create(struct meta **out, const struct meta_conf *conf);
void meta_destroy(struct meta *m);

/*
 * Begin to format, or to mount.  Run the loop until meta_boot_status() is no longer -EAGAIN: 0:
 * mounted (a format mounts what it made), else why not, with a line in meta_error().  Errors of a
 * mount: -ENODATA (no store there), -EPROTONOSUPPORT (newer format or unknown incompatible feature,
 * named), -EUCLEAN (corruption, named), -ENODEV (a drive of the set is missing or from another
 * store), -EIO.
 */
void meta_format_start(struct meta *m);

/* With a missing drive (at most one) the mount leaves out its blocks, and the store is frozen when
 * it serves: meta_freeze().  meta_error() says what of the index cannot be reached; operations that
 * need a page there end with -EIO.  Reads of the missing drive must fail.  Writes must reach no
 * drive: the caller keeps them for the store's own reads, and reads files from the drives. */
void meta_mount_start(struct meta *m);
int meta_boot_status(const struct meta *m);
const char *meta_error(const struct meta *m);

/* Checkpoint everything and leave an empty log; turn the crank until 0 (or the store failed). */
void meta_stop_start(struct meta *m);
int meta_stop_status(const struct meta *m);

/* Returns 0, or why the store takes no more changes (its log could not be written): reads go on. */
int meta_health(const struct meta *m);

/* Stops all changes and writes: the drives of the mount cannot be written. */
void meta_freeze(struct meta *m);

/**
 * meta_drive_add - add a drive to a store that serves; it becomes number conf.ndrives
 *
 * From now on meta_io_next() returns I/O for it.  Its old content is overwritten.  When
 * meta_drive_add_status() is 0 it is part of the store, also after a crash, and in use.
 *
 * Allocates.
 * Errors:  -EBUSY: one is being added, or the store is stopping; -EFBIG: it is too large for the
 *          zones of this store; -EINVAL: it is too small; -ENOSPC: there are 64, or it is too small
 *          for live data of the drive that it replaces; -ENOMEM; -EROFS.
 */
must_check int meta_drive_add(struct meta *m, const struct meta_drive_info *drive);
/* 0, or -EAGAIN: turn the crank; else why not: the store has the drives that it had. */
int meta_drive_add_status(const struct meta *m);
uint32_t meta_drives(const struct meta *m); /* numbers that are given, gone ones included */

/**
 * meta_drive_drain - stop new writes to this drive, and move its live data to the others
 *
 * When the drive is empty the store removes it by itself: meta_drive_stat() reports it as gone, the
 * drive gets no more I/O, and its number is never used again.  This and meta_drive_undrain() (which
 * moves nothing back) are durable when meta_drive_drain_status() is no longer -EAGAIN.
 * META_OP_DRIVE does either, and waits.
 *
 * Errors:  -EBUSY: the set of drives is being changed, or the store is stopping; -ENODEV: no such
 *          drive; -EALREADY: nothing to change (but a set that could not be written is written
 *          again, and that is 0); -EPERM: no other drive serves, or while it converts fewer than
 *          copies; -ENOSPC: the live data does not fit on the others; -EFBIG: this store's zones
 *          are too small for the roots on it; -EIO: its superblock cannot be written; -EROFS.
 */
must_check int meta_drive_drain(struct meta *m, uint32_t drive);
must_check int meta_drive_undrain(struct meta *m, uint32_t drive);
int meta_drive_drain_status(const struct meta *m); /* of either, the last */

/* A write of the caller's to this drive has failed for good.  Returns true if the store goes on
 * without the drive, with other copies: then the write has been done if one of these has. */
must_check bool meta_drive_failed(struct meta *m, uint32_t drive);

struct meta_drive_stat {
	uint32_t drive, domain; /* the second: as meta_drive_info says */
	bool draining, gone, missing;
	bool lost;           /* it failed or is missing: its blocks are read from their twins */
	bool roots, counted; /* a copy of them is there; the blocks below are set */
	uint32_t zones, zones_used;
	uint64_t live_blocks; /* of files and pages                                        */
	uint64_t kept_blocks; /* ... in zones of which not all could be moved: damaged, say */
};
/* Those that are gone, by their bits. */
uint64_t meta_drives_gone(const struct meta *m);
/* The thread that turns the crank.  The second counts blocks, too, in all zones of the drive. */
void meta_drive_stat(const struct meta *m, uint32_t drive, struct meta_drive_stat *out);
void meta_drive_count(const struct meta *m, struct meta_drive_stat *out);

/* The next I/O that the store requests; NULL: none now. */
must_check struct meta_io *meta_io_next(struct meta *m);
/* It has been done, io->status says how: the io is the store's again. */
void meta_io_done(struct meta *m, struct meta_io *io);

/* ---- operations ---------------------------------------------------------------- */

/* Names a file for ever: where its inode record was born.  Never reused. */
struct meta_handle {
	uint64_t dir;  /* 48 bits: the directory it was born in */
	uint64_t hash; /* 40 bits: of the name it was born with */
	uint64_t uniq; /* 40 bits                               */
};

enum meta_type { META_TYPE_NONE, META_TYPE_FILE, META_TYPE_DIR, META_TYPE_SYMLINK };

struct meta_attr {
	struct meta_handle handle;
	uint64_t ino; /* 64 bits, for people and st_ino           */
	uint64_t dir; /* a directory's number; 0 for other files */
	enum meta_type type;
	uint32_t mode; /* permission bits, 07777 */
	uint32_t uid;
	uint32_t gid;
	uint32_t nlink;
	uint32_t xattrs;
	uint64_t size;   /* bytes; of a directory: its entries */
	uint64_t blocks; /* of 4096 bytes, in use              */
	int64_t mtime_ns;
	int64_t ctime_ns;
	int64_t atime_ns;
};

/*
 * One file by handle (path == NULL), or by a path that starts at directory `dir`, or at the root
 * when it begins with '/'.  A name in a directory is a path of one component.
 *
 * A path is confined to the tree below directory `root` (0: everything): it begins there, and so do
 * symlinks that begin with '/'.  ".." out of it is -EACCES; a `dir` that is not below it, or that
 * op->who could not reach, is -ENOENT, like one that does not exist.  A handle is not confined: the
 * caller must know whose it is.  But op->who must be able to reach a directory from `root` to use
 * its handle: else -EACCES, or -ESTALE when it is not below.
 */
struct meta_target {
	const char *path;
	uint32_t path_len;
	uint64_t dir;
	struct meta_handle handle;
	uint64_t root;
	bool no_links; /* a symlink on the way is -ELOOP */
};

/* nblocks blocks that lie together; baddr 0: a hole, which reads as zeros. */
struct meta_run {
	uint64_t baddr;
	uint32_t nblocks;
};

#define META_GROUPS_MAX 16u

/* The user of an operation, and the owner of new files: POSIX's effective user and groups. */
struct meta_who {
	uint32_t uid;
	uint32_t gids;                 /* at least 1 */
	uint32_t gid[META_GROUPS_MAX]; /* the first is the group of new files */
};

enum meta_op_type {
	META_OP_STAT,     /* target, flags NOFOLLOW -> attr                                     */
	META_OP_READ,     /* target, offset, length -> attr, runs, crcs or inline bytes         */
	META_OP_LIST,     /* target (a directory), cookie -> list_out, list_used, cookie        */
	META_OP_READLINK, /* target -> link text in inline_buf (META_PATH_MAX + 1 bytes), length*/
	META_OP_STATFS,   /* -> statfs                                                          */
	META_OP_PUT, /* target = path; size, runs+crcs or inline_buf, set                         */
	META_OP_PUT_BEGIN,  /* -> attr.handle of a hidden file; target = where it will be put     */
	META_OP_PUT_COMMIT, /* target = path, other.handle = the hidden file; setattr fields too  */
	META_OP_PUT_ABORT,  /* target.handle = the hidden file                                    */
	META_OP_WRITE,      /* target.handle; whole blocks from offset; see below                 */
	META_OP_TRUNCATE,   /* target.handle or path; size; perhaps the new last block            */
	META_OP_PUNCH,      /* target.handle; bytes [offset, + length) become zeros; see below    */
	META_OP_SEEK,       /* target, offset, flags SEEK_HOLE -> length, seek_more               */
	META_OP_SETATTR,    /* target; set_mask, set                                              */
	META_OP_MKDIR,      /* target = path; mode ... -> attr                                    */
	META_OP_SYMLINK,    /* target = path; inline_buf, length = the text                       */
	META_OP_UNLINK,     /* target = path                                                      */
	META_OP_RMDIR,      /* target = path                                                      */
	META_OP_RENAME,     /* target = from, other = to                                          */
	META_OP_LINK,       /* target (a file), flags NOFOLLOW; other = path of its new name      */
	META_OP_RMTREE,     /* target = path of a directory: it and all in it                     */
	META_OP_XATTR_SET,  /* target; xattr, list_out[0 .. list_used); flags EXCL, MUST_EXIST    */
	META_OP_XATTR_DEL,  /* target; xattr                                                      */
	META_OP_XATTR_GET,  /* target; xattr -> list_out, list_used                               */
	META_OP_XATTR_LIST, /* target, offset -> list_out, list_used, seek_more, length: goes on  */
	META_OP_LET_GO,     /* target.handle: a META_HOLD of it less                              */
	META_OP_TOTALS,     /* target, flags NOFOLLOW -> totals: of all below; attr               */
	META_OP_DRIVE,  /* offset = number: as meta_drive_drain(); flags UNDRAIN, PROTECT         */
	META_OP_RECALL, /* receipt -> was that change made?  attr.size or attr.handle         */
};

enum meta_op_flags {
	META_NOFOLLOW = 1 << 0,  /* the last component may be a symlink, and is meant itself      */
	META_EXCL = 1 << 1,      /* put, rename: -EEXIST when the name exists                     */
	META_BY_INLINE = 1 << 2, /* put: the content is in inline_buf; write, truncate: a tail is */
	META_MUST_EXIST = 1 << 3, /* put: replace only */
	META_SEEK_HOLE = 1 << 4,  /* seek: a hole is looked for, not data */
	META_EXCHANGE = 1 << 5,   /* rename: both names are there, and get each other's file */
	META_TO_WRITE = 1 << 6,   /* read, seek, stat: for a change, which must be allowed */
	META_UNDRAIN = 1 << 7,    /* drive: it serves again */
	META_HOLD = 1 << 8,       /* stat, put: of a file; it stays, nameless too, until LET_GO */
	META_MAY_HOLD = 1 << 9,   /* stat: check whether the holder may still hold it */
	META_SAFE = 1 << 10,      /* put, write: the blocks of `runs` are durable: no flush first */
	META_FOLLOW = 1 << 11,    /* put, with EXCL: the target of a symlink must not exist */
	META_PROTECT = 1 << 12,   /* drive: all of them, as meta_protect() */
};

enum meta_set_mask {
	META_SET_MODE = 1 << 0,
	META_SET_UID = 1 << 1,
	META_SET_GID = 1 << 2,
	META_SET_MTIME = 1 << 3,
	META_SET_ATIME = 1 << 4,
};

/* The position of a listing; zeros: the start.  Stays valid while files come and go. */
struct meta_cookie {
	uint64_t fragment; /* of a directory that is spread; 0: itself, or none of it yet */
	uint64_t hash;
	uint64_t uniq;
	uint64_t dir; /* the directory's number; 0: not given */
};

/* One entry of a listing, followed by its name; the next begins at the next multiple of 8. */
struct meta_dirent {
	struct meta_attr attr;
	struct meta_cookie next; /* position after this entry */
	uint32_t name_len;
	uint32_t entry_bytes; /* of this entry with its name and padding */
};

#define META_RECEIPT_SLOTS 64u

/*
 * The client and number of a change.  Its receipt is part of its log record, so that META_OP_RECALL
 * can tell later, also after a crash, whether it was made.  The store remembers the newest change
 * of each slot, as long as it remembers the client (meta_clients_age()).
 */
struct meta_receipt_id {
	uint64_t client; /* 0: no receipt */
	uint64_t number; /* 1 .. 2^48 - 1: of the slot, each higher than all before */
	uint16_t slot;   /* below META_RECEIPT_SLOTS */
	uint16_t item;   /* of a batch: each is a change */
	bool part;       /* more changes of the same follow, and all together are it */
	/* RECALL: its client cannot have been forgotten if nobody was since `forgotten` */
	bool sure;
	uint64_t forgotten;
};

/* Totals of everything below a directory; for anything else, its own size.  A file with several
 * names is counted once, at one of them. */
struct meta_totals {
	uint64_t entries;
	uint64_t dirs; /* of the entries, those that are directories */
	uint64_t bytes;
	uint64_t blocks;
	bool settled; /* exact: nothing is pending, or going with its tree, or cannot be read */
};

struct meta_statfs {
	uint64_t blocks_total; /* of 4096 bytes, that files could use     */
	uint64_t blocks_free;  /* ... and may still have: meta_space.c (2).  New files are taken
				* to be like those that are there (meta_leaf_room.c): large ones
				* in a store of small ones may find less. */
	uint64_t files;        /* and symlinks, including those still to be freed */
	uint64_t dirs;
	uint64_t zones_total;
	uint64_t zones_free;
	uint64_t cache_pages;
	uint64_t cache_pages_dirty;
	uint64_t page_reads, page_hits; /* from drives, since mount; in the cache */
	uint64_t log_blocks;            /* written since mount                     */
	uint64_t log_copies, copies; /* of a log block that is written now, of all others: 1, 2 */
	uint64_t checkpoints;        /* completed since mount                   */
	uint64_t leaves_early;       /* written ahead of one                    */
	uint64_t orphans;            /* shards with files waiting to be freed   */
	uint64_t tree_entries;       /* freed with the trees they were in, since mount */
	uint64_t holds;              /* of files, now: META_HOLD                       */
	/* since mount, in blocks of 4096 bytes: writes by purpose */
	uint64_t data_blocks;  /* new bytes of files: places given out      */
	uint64_t page_blocks;  /* the index, its roots, headers of zones    */
	uint64_t moved_blocks; /* of files, by collection; log_blocks: log  */
	uint64_t zones_collected;
	uint64_t wear_least, wear_most; /* uses of the zones used least and most, since format */
	uint64_t bad_blocks;            /* of files, rotten: found so often by collection */
	uint64_t deallocated_blocks, deallocate_failures; /* since mount */
	/* now; kept zones are never for files: log, reserve, spare; zone_blocks: with its header */
	uint64_t live_blocks, live_pages, log_zones, kept_zones, zone_blocks, parity_blocks;
	uint64_t lone_blocks, converts, sure_copies, fold, folded_blocks, protect_missing_blocks;
	uint64_t near_blocks, domains, domains_few; /* meta_protect.h */
};

/*
 * An operation: the caller owns the memory and fills in the first part.  Pointers must stay valid
 * until the operation has come back.
 *
 * READ    covers the block-aligned range around [offset, offset + length), clipped to the end of
 *         the file and to runs_max and blocks_max.  Result: attr; runs[0 .. nruns) from
 *         block offset / 4096 on, crcs[] one a block (a hole's is that of zeros), nblocks in all;
 *         0: offset is at or after the end.  If inline_len > 0, block inline_at of these
 *         is the file's tail, a hole in runs[]: inline_buf has its first bytes, followed by zeros.
 *         tail_offset: offset of the tail's block in the file, wanted or not, else META_NO_TAIL.
 *         inline_buf holds 4096 bytes.  meta_read_end() must follow once the
 *         drives have answered: until then the blocks cannot be reused.
 * LIST    a page without entries is the end.
 * PUT     runs make div_up(size, 4096) blocks; BY_INLINE: inline_len is size, 512 at most.
 *         Replacing a file keeps its mode and owners where set_mask does not say.
 * PUT_COMMIT  may name another place than PUT_BEGIN; size, if larger than written, is a hole.
 *         A hidden file that is neither committed nor aborted is freed after the next mount only.
 * WRITE   replaces blocks from offset / 4096 on by runs (allocated by meta_data_alloc(), written
 *         and complete) with crcs; size grows to `size` if that is larger.  With META_BY_INLINE
 *         the block after them (or at offset, without runs) becomes the file's tail: inline_buf,
 *         inline_len bytes (at most META_TAIL_MAX, no fewer than a tail there had), followed by
 *         zeros.  A file has one tail: -EINVAL if another block is the tail and stays it.
 *         The caller keeps one change of a file in flight at a time (writes, truncates).
 * TRUNCATE to `size`.  Down, and size inside a block that is no hole and no tail: runs/crcs hold
 *         its zero-tailed replacement (nblocks 1), or META_BY_INLINE its size % 4096 bytes, which
 *         become the tail (as above).  A hole or a tail needs neither.  Up: size only.
 * PUNCH   makes zeros of the bytes [offset, + length), at most META_IO_BLOCKS_MAX blocks of the
 *         file; bytes after the end are ignored, and the size stays.  Whole
 *         blocks become holes (the last one of the file is whole up to the end).  For a block of
 *         which a part stays, and that is neither hole nor tail, runs/crcs hold a replacement with
 *         the zeros; so they have 0, 1 or 2 blocks, in the file's order.
 * SEEK    length: the first byte from offset on that is data, or (SEEK_HOLE) in a hole; the
 *         end of the file is a hole.  A block on a drive, or the tail, is data as a whole.
 *         seek_more: nothing was found up to there, ask again from there.  -ENXIO:
 *         offset is not in the file, or no data follows.
 * XATTR_SET, _DEL, _GET, _LIST: an extended attribute of a file or directory, named by xattr (which
 *         begins with "user.").  XATTR_SET takes the value from list_out[0 .. list_used_bytes).
 *         XATTR_GET writes the value there, at most list_max_bytes, and XATTR_LIST the names, each
 *         followed by a 0; with seek_more the list continues at length, as offset.  -ERANGE: the
 *         name is empty or too long, or no room in list_out.  -EOPNOTSUPP: another prefix; -EINVAL:
 *         nothing after "user.".  -ENODATA: it does not exist, with MUST_EXIST; -EEXIST:
 *         it exists, with EXCL.  -E2BIG: a value above META_XATTR_MAX, or above 40 KiB on drives
 *         below 128 MiB; -E2BIG: META_XATTRS_MAX exist.  -EPERM: a symlink, which has none.
 * LET_GO  ends a META_HOLD, once for each; with the last one a file without a
 *         name is freed.  It counts whatever status says.  Holds end with the mount, too.
 * RECALL  0: the change was made; attr.size is the size of a WRITE's file after it, attr.handle the
 *         handle of a PUT, MKDIR, SYMLINK or TRUNCATE.  -ENOENT: it was not made, and is not in
 *         progress if the caller says so.  -ECONNRESET: unknown.
 * If a PUT, WRITE, TRUNCATE or PUNCH fails (status != 0), the store frees the blocks given to it.
 * Blocks never given to one: meta_data_free().
 *
 * Errors in status: -ENOENT, -EACCES (out of target.root), -ENOTDIR, -EISDIR, -EEXIST, -ENOTEMPTY,
 * -ELOOP, -ENAMETOOLONG, -EINVAL, -ESTALE (handle freed), -EPERM, -EMLINK,
 * -ENFILE (holds_max files are held),
 * -ENOSPC, -EIO (which page is in meta_error()), -EROFS (the log failed), -EFBIG (also: blocks in
 * more zones than one change can count, which takes drives below 128 MiB).
 */
struct meta_op {
	enum meta_op_type type;
	uint32_t flags;
	const struct meta_who *who; /* while the store has the operation; NULL: may everything */
	struct meta_target target;
	uint64_t offset;
	uint64_t length;
	int64_t ctime_ns; /* READ: not 0: -ESTALE if the file has another */
	struct meta_run *runs;
	uint32_t *crcs;
	uint32_t runs_max;   /* READ */
	uint32_t blocks_max; /* READ */
	uint32_t nruns;
	uint32_t nblocks;
	void *inline_buf;
	uint32_t inline_len;
	uint32_t inline_at;   /* READ: which of the blocks it is         */
	uint64_t tail_offset; /* READ: of the tail's block, META_NO_TAIL */

	int status;           /* result                                              */
	uint64_t data_drives; /* that hold data of its record which no flush had covered     */
	uint64_t seen_seq;    /* highest log sequence the plan saw, or its own record */
	void *owner;          /* the caller's                                        */

	/* private: */
	struct list link;
	uint32_t misses; /* page reads this waits for     */
	uint32_t reruns;
	uint32_t state;
	uint32_t unseen;         /* a reader's: the shard that it may not look at, if that was it */
	uint32_t into;           /* ... that it would change, if it is known which */
	uint32_t reader;         /* ... 1 + its number; 0: the store's thread's    */
	bool again, pinned;      /* ... it may do it itself now; it has pinned epoch */
	struct meta__made *made; /* its changes */
	uint64_t epoch;          /* a read's: see meta_zone.c     */
	union meta_op_keeps keeps;

	struct meta_attr attr; /* result; from here on READ and STAT look at nothing */
	struct meta_target other;
	uint64_t size;
	int64_t wall_ns;   /* now: ctime, mtime of parents */
	uint32_t set_mask; /* SETATTR, PUT, PUT_COMMIT, MKDIR, SYMLINK: which of `set` to take */
	struct meta_attr set;
	/* PUT, WRITE, TRUNCATE, PUNCH: drives, by bits, that did not take their copies of `runs`:
	 * the store goes on without them, or the operation ends with -EIO. */
	uint64_t drives_failed;
	struct meta_cookie cookie; /* LIST: from; updated                    */
	void *list_out;            /* 8-aligned; meta_dirents are packed     */
	uint32_t list_max_bytes;
	uint32_t list_max_entries;
	uint32_t list_used_bytes;
	uint32_t list_count;
	bool list_end, seek_more; /* no entries after the returned ones; SEEK: to be asked again */
	const char *xattr;        /* XATTR_*: its name */
	uint32_t xattr_len;
	struct meta_statfs *statfs;
	struct meta_totals *totals;
	struct meta_receipt_id receipt; /* changes, RECALL */
};

#define META_OP_READ_BYTES offsetof(struct meta_op, keeps) /* to be cleared for a READ or STAT */

/**
 * meta_op_start - run an operation
 *
 * Returns true when it is over at once: op->status and results are set, and for a READ, STAT,
 * LIST ... the reply may leave when meta_is_durable(m, op->seen_seq).  Returns false when the
 * store keeps it: it comes back from meta_op_poll(), over.  A change is over only when durable.
 */
must_check bool meta_op_start(struct meta *m, struct meta_op *op);
bool meta_op_changes(const struct meta_op *op); /* by its type: it may, something */

/* Returns the next operation that has ended, oldest first; NULL: none now. */
must_check struct meta_op *meta_op_poll(struct meta *m);

/* May a reply that saw `seq` leave?  If not: */
bool meta_is_durable(const struct meta *m, uint64_t seq);
uint64_t meta_durable_seq(const struct meta *m); /* up to here it may */
/* ... hand the finished operation back; meta_op_poll() returns it when it may. */
void meta_op_wait_durable(struct meta *m, struct meta_op *op);

/* An operation that will be started soon, in this turn, and the records that it will read. */
struct meta_ahead {
	struct meta *meta;
	void *frame;    /* of the leaf that has it, or had it at the last lookup */
	uint64_t baddr; /* of that leaf, while its frame is not known */
	uint64_t key[3];
	uint32_t link; /* of the chain: meta_ahead.c */
	uint32_t shard;
	uint32_t pos;
	uint32_t block; /* of the record's, whose checksum will be needed */
};

/* Announces the records of the operation on `t`: call it for each to be started, and then: */
void meta_ahead_begin(struct meta *m, const struct meta_target *t, uint64_t offset,
		      struct meta_ahead *a);
/* Bring it into the CPU's cache, for all of them together.  Changes nothing of the store; no other
 * call since the first of them began, and these operations next. */
void meta_ahead_run(struct meta_ahead *a, uint32_t count);

/* The reads that a READ planned are finished: their blocks may be reused from now on. */
void meta_read_end(struct meta *m, struct meta_op *op);
/* The same in two halves, for an operation that ended on another thread: takes the operation's pin
 * (0: it had none), and ends it. */
must_check uint64_t meta_read_pin_take(struct meta_op *op);
void meta_read_pin_end(struct meta *m, uint64_t pin);

/**
 * meta_data_alloc - allocate blocks for new bytes, to be given to an operation or freed
 *
 * Fills runs[0 .. *nruns) with `nblocks` in all, nruns <= runs_max; successive calls, each with
 * the next `spread`, use all drives, each in proportion to its free space.
 * Errors:  -ENOSPC; -EAGAIN: a zone is being opened, try again after the next meta_io_done();
 *          -EROFS.
 */
must_check int meta_data_alloc(struct meta *m, uint64_t spread, uint32_t nblocks,
			       struct meta_run *runs, uint32_t runs_max, uint32_t *nruns);
void meta_data_free(struct meta *m, const struct meta_run *runs, uint32_t nruns);

/* End of a turn of the loop: what this turn gathered becomes one log write.  Also moves
 * checkpoints, collection and the freeing of orphans on, a bounded step a call.
 * Returns true when there is more to do at once. */
bool meta_turn(struct meta *m);

/* Returns true while the newest log block is durable and no later block vouches for it.  Until one
 * does, a mount takes damage of that block for a torn write. */
bool meta_log_unvouched(const struct meta *m);
/* Writes an empty log block that vouches for the newest one, if that is still needed.  For a caller
 * with a clock, which calls it after a pause in changes: the block competes with the next change
 * for the drives, so one change after the other must not bring one each. */
void meta_log_vouch(struct meta *m);

/* ---- readers: other threads beside the store's ------------------------------------- */

struct meta_reader;

/* There will be readers.  Before the store is formatted or mounted.  -ENOMEM. */
must_check int meta_share(struct meta *m);
/* Number `index` of them.  Made, like the store, before any of their threads runs. */
must_check int meta_reader_create(struct meta_reader **out, struct meta *m, uint32_t index);
void meta_reader_destroy(struct meta_reader *r); /* the store may be gone */

/* The reader's thread: begins after the store was mounted (its caller has synchronized). */
void meta_reader_begin(struct meta_reader *r);
void meta_reader_end(struct meta_reader *r); /* for good */
/* The store is going to have one more drive: before meta_drive_add(). */
void meta_reader_drive(struct meta_reader *r, uint32_t drive, const struct meta_drive_info *info);
/* Plans are made between these two; results of a plan (except blocks named by a READ) are invalid
 * after the second.  To enter again is both.  A sleeping reader has left. */
void meta_reader_enter(struct meta_reader *r);
void meta_reader_leave(struct meta_reader *r);
/* Like meta_op_start().  False: the reader cannot plan it; ask the store's thread to start it and
 * to call meta_reader_asked() with the same op->unseen. */
must_check bool meta_reader_plan(struct meta_reader *r, struct meta_op *op);
void meta_reader_asked(struct meta *m, uint32_t shard);
/* Or the reader waits until it sees that shard, and plans again: the store's thread is told that
 * the reader knocks, and opens the shard whenever it has run all it could and no change waits. */
bool meta_reader_sees(const struct meta_reader *r, uint32_t shard);
void meta_reader_knocks(struct meta *m, uint32_t shard, uint32_t reader);
bool meta_readers_let_in(struct meta *m); /* true: it did, all of them */
/* As meta_read_end().  False: it was not this reader that planned it. */
bool meta_reader_read_end(struct meta_reader *r, struct meta_op *op);
void meta_reader_ahead_begin(struct meta_reader *r, const struct meta_target *t, uint64_t offset,
			     struct meta_ahead *a);

/*
 * Who alone changes a shard for a while is lent it: then changes are planned and applied there,
 * too, and the store's thread is given the log record.
 *
 *   the reader's thread                          the store's
 *   meta_reader_change(op) -- true -----------> meta_op_made(op) ... meta_op_poll(): op, durable
 *   meta_reader_made_end(op) <----------------
 *        \-- false --> meta_reader_has(op)? ---> no: meta_op_start(op)
 *   again <----------- yes ------------------'
 *
 * What is given to the store's thread, changes and other operations, is to come in the order in
 * which the reader planned it.
 */
must_check bool meta_reader_change(struct meta_reader *r, struct meta_op *op);
/* It could not, for want of something that comes in a moment: it had better knock. */
static inline bool meta_reader_short(const struct meta_op *op)
{
	return op->into < META_SHARDS_MAX && op->unseen == op->into;
}
/* It has come back from the store's thread: durable, or it failed. */
void meta_reader_made_end(struct meta_reader *r, struct meta_op *op);
/* The store's thread: returns true if the shard is lent to the asking reader. */
bool meta_reader_has(const struct meta *m, const struct meta_op *op);
void meta_op_made(struct meta *m, struct meta_op *op);
/* op->seen_seq of a plan that has seen its own reader's changes: meta_op_made() returns their
 * sequence once they are durable. */
#define META_SEEN_MADE UINT64_MAX

/* ---- clients that may ask for their changes again --------------------------------- */

/*
 * A client is remembered from its first change on, until meta_clients_age() was called three times
 * without a change, RECALL or meta_client_keep() of it in between, or other clients need the room.
 * Call it every five minutes, after meta_client_keep() for all connected clients.
 */
void meta_client_keep(struct meta *m, uint64_t client);
void meta_clients_age(struct meta *m);
/* Nothing was forgotten about clients that came when meta_durable_seq() was this, or more. */
uint64_t meta_clients_forgotten(const struct meta *m);

/* ---- totals of whole trees --------------------------------------------------------- */

/*
 * Changes in a tree reach the totals of the directories above it in rounds.  Call this about once a
 * second while meta_totals_pending(); then run the loop.  Nothing is pending when all totals are
 * exact, or when the rest cannot be read.
 */
void meta_totals_round(struct meta *m);
bool meta_totals_pending(const struct meta *m);

/* ---- check ----------------------------------------------------------------------- */

/* The result of a check; each problem is one line. */
struct meta_check {
	uint64_t pages, names, inodes, extents, blocks, problems;
	char first[8][160];
};

/* Walk everything of a mounted, quiet store (turn the crank, meta_op_poll() too, until
 * meta_check_status() is not -EAGAIN): every invariant of FORMAT.md.  0, or -EUCLEAN with
 * out->problems > 0. */
void meta_check_start(struct meta *m, struct meta_check *out);
int meta_check_status(const struct meta *m);

/* ---- scrub ------------------------------------------------------------------------- */

/*
 * Verifies every page of the index, and every block of every file, from the drives, round after
 * round, while the store serves.  It says what to read; the owner of the drives reads it, into
 * memory that nobody else writes to, and gives it back.
 */
#define META_SCRUB_BLOCKS_MAX 256u
#define META_SCRUB_LINE       512u /* bytes of a line */

enum meta_scrub_next {
	META_SCRUB_READ,   /* read these blocks, then meta_scrub_done()  */
	META_SCRUB_WRITE,  /* write meta_scrub_bytes() there, durably, then meta_scrub_written() */
	META_SCRUB_MORE,   /* nothing to read yet: call it again         */
	META_SCRUB_FOUND,  /* meta_scrub_line() has something for people */
	META_SCRUB_ROUND,  /* a round has ended; the next call begins another */
	META_SCRUB_LISTED, /* meta_scrub_list()'s entry is there        */
	META_SCRUB_IDLE,   /* meta_scrub_errand(): no errand is left    */
};

enum meta_damage_kind {
	META_DAMAGE_SUM,         /* a block does not match its checksum          */
	META_DAMAGE_UNREADABLE,  /* its drive cannot read it                     */
	META_DAMAGE_UNREACHABLE, /* its drive has failed: it may be well          */
	META_DAMAGE_PAGE,        /* a page of the index, with all that it leads to */
};

/* Totals of the list of damage. */
struct meta_damage_stat {
	uint64_t files, blocks;
	uint64_t unreachable_files, unreachable_blocks; /* ... of which no other block is damaged */
	uint64_t pages, unreachable_pages;              /* the latter only if a read has met them */
	bool complete; /* the last round has checked everything, and no entry was dropped */
};

/* An entry of the list of damage. */
struct meta_damaged {
	bool end;      /* there is no more, and nothing else is set */
	uint32_t next; /* position of the list                      */
	uint8_t kinds; /* enum meta_damage_kind, by their bits      */
	struct meta_handle file;
	uint64_t block, end_block; /* of the file: the first, and one past the last    */
	uint64_t blocks;           /* number of damaged blocks                        */
	uint64_t drives;           /* by their bits                                   */
	uint64_t baddr;            /* of the first                                    */
	uint32_t path_len;         /* 0: it has no name, or that is not known yet     */
	char path[META_PATH_MAX + 2];
};

struct meta_scrub_stat {
	uint64_t rounds; /* that have ended                                        */
	uint64_t healed_pages, healed_blocks; /* copies written again from the others */
	uint64_t pages; /* found good, in all rounds                               */
	uint64_t blocks;
	uint64_t doubts; /* reads that did not match: damage, or changed during the read */
	/* of this round, so far, and of the last: */
	uint64_t bad_pages, bad_blocks;
	uint64_t last_bad_pages, last_bad_blocks;
	/* On drives that cannot be reached, of this round, so far, or of the last, the more: */
	uint64_t unreachable_pages, unreachable_blocks;
	uint64_t position_permille; /* of the round */
	uint64_t heads_mended;      /* zone headers and superblocks: damaged, and written again */
};

struct meta_scrub;

/* Beside a store that outlives it, of the store's thread.  -ENOMEM. */
must_check int meta_scrub_create(struct meta_scrub **out, struct meta *m);
void meta_scrub_destroy(struct meta_scrub *s);
/* The store serves, and nothing is being read for it.  At most META_SCRUB_BLOCKS_MAX blocks. */
must_check enum meta_scrub_next meta_scrub_next(struct meta_scrub *s, struct meta_run *read);
/* status -EAGAIN: it is unknown whether that can be read; it is read again. */
void meta_scrub_done(struct meta_scrub *s, const void *bytes, int status);
/* Returns the bytes for META_SCRUB_WRITE: a block or a page, whose other copy is good. */
const void *meta_scrub_bytes(const struct meta_scrub *s);
void meta_scrub_written(struct meta_scrub *s, int status);
/* Names the drives, as bits, that cannot be reached: their blocks are not read, nor damaged. */
void meta_scrub_unreachable(struct meta_scrub *s, uint64_t drives);
/*
 * Errands: they are done between two steps of a round, also without one by meta_scrub_errand().
 */
must_check enum meta_scrub_next meta_scrub_errand(struct meta_scrub *s, struct meta_run *read);
bool meta_scrub_has_errand(const struct meta_scrub *s);
/* A read says that these blocks of a file are damaged: they are read and compared.  False: there is
 * no place now. */
bool meta_scrub_suspect(struct meta_scrub *s, const struct meta_handle *file, uint64_t block,
			uint64_t nblocks);
/* Removes entries from the list of damage whose blocks were removed or rewritten. */
void meta_scrub_sweep(struct meta_scrub *s);
/* Asks for the next entry of the list from number `from` on, 0 first: META_SCRUB_LISTED reports
 * that it is in *out.  One at a time; meta_scrub_list_end() cancels. */
void meta_scrub_list(struct meta_scrub *s, uint32_t from, struct meta_damaged *out);
void meta_scrub_list_end(struct meta_scrub *s);
/* Returns the number of entries in the list. */
uint32_t meta_scrub_damaged(const struct meta_scrub *s, struct meta_damage_stat *out);
/* Good until the next call. */
const char *meta_scrub_line(const struct meta_scrub *s);
void meta_scrub_stat(const struct meta_scrub *s, struct meta_scrub_stat *out);
#endif
