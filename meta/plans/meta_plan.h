/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Building blocks of plans.  A plan is a function over meta__tx_*; it runs from its start each
 * time, and its transaction is applied in the same turn or forgotten.
 *
 * Rules of a plan:
 *
 *  (1) It changes nothing but the transaction and the results in its operation
 *      [test_meta_op:the_same_when_pages_are_missing_and_room_is_short].
 *  (2) After a miss it continues with independent reads, so that one rerun finds more
 *      (meta__stop()); it never concludes anything from unread records
 *      [test_meta_op:the_same_when_pages_are_missing_and_room_is_short].
 *  (3) It reaches a shard only by the functions here and by meta__tx_*, never by pointer: the
 *      shard may belong to another core [test_meta_share:a_reader_plans_what_the_store_would].
 */
#ifndef META_PLAN_H
#define META_PLAN_H

#include "meta/engine/meta_ops.h"
#include "meta/format/meta_record.h"

#include <errno.h>

/* Directories above one another that a plan climbs: deeper than any path is long. */
#define META__DEPTH_MAX 4096u

/* Remembers a miss and continues; true: the plan ends here with rc. */
static inline bool meta__stop(int rc, int *miss)
{
	if (rc == META__MISSES)
		*miss = rc;
	return rc != 0 && rc != META__MISSES;
}

/* As meta__tx_get() and meta__tx_seek(); they also count how far the plan came. */
static inline int meta__get(struct meta *m, uint32_t shard, const struct meta_key *key,
			    const void **value, uint32_t *value_len)
{
	int rc = meta__tx_get(m, shard, key, value, value_len);

	m->ops->hits += rc != META__MISSES;
	return rc;
}

static inline int meta__seek(struct meta *m, uint32_t shard, struct meta_key *key,
			     const struct meta_key *last, const void **value, uint32_t *value_len)
{
	int rc = meta__tx_seek(m, shard, key, last, value, value_len);

	m->ops->hits += rc != META__MISSES;
	return rc;
}

/* Every change of a file raises its ctime, also within one turn and when the clock goes back: so a
 * ctime names one state of the file, and a reader can ask for that state (meta_op.ctime_ns). */
static inline void meta__ctime_raise(struct meta__inode *in, int64_t wall_ns)
{
	const int64_t was = in->ctime_ns;

	in->ctime_ns = wall_ns > was || was == INT64_MAX ? wall_ns : was + 1;
	ASSERT(in->ctime_ns != was || was == INT64_MAX);
}

/* Names a malformed record in meta_error() and returns -EIO. */
wk_cold int meta__bad_record(struct meta *m, const char *what, uint32_t shard,
			     const struct meta_key *key);

/* ---- meta_name.c ---------------------------------------------------------------- */

enum meta__last { META__LAST_NAME, META__LAST_ROOT, META__LAST_DOT, META__LAST_DOTDOT };

/* The end of a path. */
struct meta__at {
	enum meta__last last; /* the last component: a name, or the directory itself in some way */
	bool found;     /* always, when it is not a name                                     */
	bool slash;     /* slashes after the last name: it must be a directory               */
	uint64_t dir;   /* the directory with the name; of LAST_ROOT ...: the directory meant */
	uint32_t shard; /* of its entries                                                    */
	const char *name;
	uint32_t len;
	uint64_t hash;
	uint64_t name_uniq;   /* of the NAME record, when found                */
	struct meta__name is; /* handle, child, type, when found (bytes unset) */
	bool group_given;     /* new files here get the directory's group:        */
	uint32_t group;       /* ... meta__may_change() says both                 */
};

/* Symlinks on the way are followed, and in the last place too if `follow`.
 * `which`: 0 or 1, for two walks at a time.  0 also when the last name is not there (!at->found),
 * though then the directory may not be there either. */
must_check int meta__walk(struct meta *m, const struct meta_target *t, uint32_t which, bool follow,
			  struct meta__at *at);
/* Climbs from a directory to `root`.  -ENOENT: it is not below it; -EACCES: it is, but the user may
 * not descend to it. */
must_check int meta__climb(struct meta *m, uint64_t dir, uint64_t root);
/* at->name, of at->hash, in the directory itself, or in a fragment, and nowhere else. */
must_check int meta__name_in(struct meta *m, uint64_t dir, struct meta__at *at);
/* Finds the next name from *key on in the directory or fragment.  1: `at` is it; 0: continue at
 * *key; -ENOENT: no more. */
must_check int meta__entry_next(struct meta *m, uint64_t dir, struct meta_key *key,
				struct meta__at *at);
/* Looks up `name` in at->dir; sets all of *at but last and slash. */
must_check int meta__lookup(struct meta *m, uint64_t dir, const char *name, uint32_t len,
			    struct meta__at *at);
/* The name at->name becomes that of this object: a new record, or another value of the old. */
must_check int meta__name_put(struct meta *m, const struct meta__at *at,
			      const struct meta_handle *h, uint64_t child, enum meta_type type);
must_check int meta__name_del(struct meta *m, const struct meta__at *at);

/* ---- meta_inode.c ----------------------------------------------------------------- */

/* -ESTALE: none, or freed (nlink 0 and not hidden). */
must_check int meta__inode_get(struct meta *m, const struct meta_handle *h,
			       struct meta__inode *out);
/* Reads the inode of a name that will change: it must exist and match the name; else -EIO. */
must_check int meta__inode_named(struct meta *m, const struct meta__name *is,
				 struct meta__inode *out);
/* The same as meta__inode_get(), freed or not; -ENOENT: none, but handle and shard are set. */
must_check int meta__inode_load(struct meta *m, const struct meta_handle *h,
				struct meta__inode *out);
/* Also updates its directory's counts: meta_totals.c. */
must_check int meta__inode_put(struct meta *m, struct meta__inode *in);
/* A new one, beside the name that `at` will get: handle and ino are set, the rest from op. */
void meta__inode_new(struct meta *m, const struct meta_op *op, const struct meta__at *at,
		     enum meta_type type, uint32_t mode, struct meta__inode *out);
/* Sets the fields in op->set_mask from op->set. */
void meta__inode_set(struct meta__inode *in, const struct meta_op *op);
/* The object of a target.  -ESTALE for a handle that names none (any more). */
must_check int meta__resolve(struct meta *m, const struct meta_target *t, bool follow,
			     struct meta__inode *out);
/* A symlink's text, in->size bytes; `text` holds META_PATH_MAX. */
must_check int meta__link_text(struct meta *m, const struct meta__inode *in, char *text);
/* Makes a stat's result; reads a directory's record for it. */
must_check int meta__attr(struct meta *m, const struct meta__inode *in, struct meta_attr *out);

/* ---- meta_access.c ---------------------------------------------------------------- */

#define META__MAY_X 1u
#define META__MAY_W 2u
#define META__MAY_R 4u

/* 0, or -EACCES, or what reading says: the file, or directory, of op->target. */
must_check int meta__may_use(struct meta *m, const struct meta_op *op, const struct meta__inode *in,
			     uint32_t want);
/* Extended attributes of op->target may be changed: -EPERM (sticky), or as meta__may_use(). */
must_check int meta__may_mark(struct meta *m, const struct meta_op *op,
			      const struct meta__inode *in);
/* META_HOLD: checks the right to hold the file, by handle. */
must_check int meta__may_hold(struct meta *m, const struct meta_op *op,
			      const struct meta__inode *in);
/* Names of this directory may be looked up. */
must_check int meta__may_search(struct meta *m, uint64_t dir);
/* Checks that the name `at`, found or not, may be made, removed or replaced: -EACCES, -EPERM. */
must_check int meta__may_change(struct meta *m, struct meta__at *at);
/* Checks that a directory `at` may get another parent: its ".." changes. */
must_check int meta__may_move(struct meta *m, const struct meta__at *at, uint64_t to);
/* Sets the owner of `in`, made at `at`, after meta__may_change(). */
void meta__born(struct meta *m, const struct meta_op *op, const struct meta__at *at,
		struct meta__inode *in);
/* setattr, by op->set_mask: -EPERM. */
must_check int meta__may_set(struct meta *m, const struct meta_op *op,
			     const struct meta__inode *in);
/* Bits of the mode that go when bytes, owner or mode were changed. */
void meta__written(struct meta *m, struct meta__inode *in);
void meta__was_set(struct meta *m, const struct meta_op *op, struct meta__inode *in);

/* ---- meta_dir.c ------------------------------------------------------------------- */

must_check int meta__dir_get(struct meta *m, uint64_t dir, struct meta__dir *out);
/* The same, also of one that is going with its tree. */
must_check int meta__dir_load(struct meta *m, uint64_t dir, struct meta__dir *out);
must_check int meta__dir_put(struct meta *m, uint64_t dir, const struct meta__dir *in);
/* An entry came (+1), went (-1), or changed (0) in `dir`, at this time; `subdirs`: of directories,
 * how many more (or fewer) it has. */
must_check int meta__dir_entry(struct meta *m, uint64_t dir, int names, int subdirs,
			       int64_t wall_ns);

/* An empty directory's record and inode go; its name is the caller's.  -ENOTEMPTY. */
must_check int meta__dir_free(struct meta *m, const struct meta__name *is, int64_t wall_ns);

/* ---- meta_spread.c ---------------------------------------------------------------- */

/* Directories that were seen to be spread are remembered by this hash of their number. */
static_assert(META__SPREAD_KNOWN == 1u << 12, "as many as twelve bits say");
static inline uint32_t meta__spread_place(uint64_t dir)
{
	return (uint32_t)(dir * 0x9e3779b97f4a7c15ull >> 52);
}

/* It has been seen to be spread: which it is for ever. */
static inline bool meta__spread_known(const struct meta *m, uint64_t dir)
{
	return m->spread[meta__spread_place(dir)] == dir;
}

/* The fragment, or directory, where this name would be put, as far as is known without looking. */
uint64_t meta__names_in(const struct meta *m, uint64_t dir, const char *name, uint64_t len);
/* Returns 1: spread; 0: not, or no such directory. */
must_check int meta__is_spread(struct meta *m, uint64_t dir);
/* For a spread directory: returns true if it has no name of this hash itself, as of *seq. */
must_check bool meta__home_lacks(const struct meta *m, uint64_t dir, uint64_t hash, uint64_t *seq);
/* The running plan has found none; search other shards. */
void meta__home_note(struct meta *m, uint64_t dir, uint64_t hash);
/* One more name is in it: does it become spread? */
void meta__spread_grown(const struct meta *m, uint64_t dir, struct meta__dir *d);
/* A fragment, in which a name comes, goes or changes; made with its first. */
must_check int meta__fragment_get(struct meta *m, uint64_t fragment, struct meta__dir *out);
/* Like meta__dir_get(), plus its fragments' counts and times. */
must_check int meta__dir_whole(struct meta *m, uint64_t dir, struct meta__dir *out);
/* Returns the next fragment that has a record, from `from` on; META__FRAGMENTS: no more. */
uint32_t meta__fragment_next(const struct meta__dir *d, uint32_t from);

/* ---- meta_read.c, meta_write.c -------------------------------------------------------- */

/* An extent record of `in`, checked against the drives. */
must_check int meta__extent_check(struct meta *m, const struct meta__inode *in,
				  const struct meta_key *key, const void *value, uint32_t value_len,
				  struct meta__extent *out);
/* The same, in slots; an empty one when the chunk is all hole. */
must_check int meta__chunk_get(struct meta *m, const struct meta__inode *in, uint64_t index,
			       struct meta__chunk *out);
/* Puts the chunk's record, or deletes it if empty; `had` a record before. */
must_check int meta__chunk_put(struct meta *m, const struct meta__inode *in, uint64_t index,
			       bool had, const struct meta__chunk *c);
/* 0, or -EINVAL: runs and crcs of `op` do not make `nblocks` blocks. */
must_check int meta__runs_check(const struct meta_op *op, uint64_t nblocks);
/* Blocks [first, end) of the file become the operation's, and holes when it has no more;
 * in->blocks follows.  `fresh`: the file has no extents yet. */
must_check int meta__write_runs(struct meta *m, const struct meta_op *op, struct meta__inode *in,
				uint64_t first, uint64_t end, bool fresh);

/* The operation's blocks, one after the other. */
struct meta__source {
	const struct meta_op *op;
	uint32_t run;
	uint32_t used; /* of that run */
	uint32_t at;   /* in all      */
};

/* Returns the next block's address and checksum; after the last: a hole. */
uint64_t meta__source_next(struct meta__source *s, uint32_t *crc);
/* Reads the file of op, for access `want`: -EISDIR, -EINVAL for other types. */
must_check int meta__file_of(struct meta *m, const struct meta_op *op, uint32_t want,
			     struct meta__inode *in);
/* Its bytes have changed; op->attr. */
must_check int meta__file_changed(struct meta *m, struct meta_op *op, struct meta__inode *in);
/* Moves slots [from, end) of c to `dead`; the caller makes them holes. */
void meta__kill_slots(const struct meta__chunk *c, uint32_t from, uint32_t end,
		      struct meta__chunk *dead);
void meta__blocks_moved(struct meta__inode *in, uint64_t came, const struct meta__chunk *dead);
/* The operation's blocks come to life; what dies may change as many zones as records are left. */
must_check int meta__runs_live(struct meta *m, const struct meta_op *op, uint32_t shard);

/* ---- meta_tail.c ------------------------------------------------------------------- */

/* The block whose bytes are in the index, their number and place.  len 0: none. */
struct meta__tail {
	uint64_t block;
	uint32_t len;
	bool in_inode; /* ... or in TAIL records */
};

must_check int meta__tail_find(struct meta *m, const struct meta__inode *in,
			       struct meta__tail *out);
/* Its bytes; `bytes` holds META_TAIL_MAX. */
must_check int meta__tail_read(struct meta *m, const struct meta__inode *in,
			       const struct meta__tail *t, void *bytes);
/* These change records, and `in`, which the caller puts.  `old`: as found. */
must_check int meta__tail_drop(struct meta *m, struct meta__inode *in,
			       const struct meta__tail *old);
/* The tail becomes t->len bytes of t->block, which stay where they are until the inode is put. */
must_check int meta__tail_put(struct meta *m, struct meta__inode *in, const struct meta__tail *old,
			      const struct meta__tail *t, const void *bytes);
/* Zeroes its bytes in [from, end); if these are all, drops the tail. */
must_check int meta__tail_punch(struct meta *m, struct meta__inode *in,
				const struct meta__tail *old, uint32_t from, uint32_t end);
/* Keeps the first `keep` of its bytes. */
must_check int meta__tail_cut(struct meta *m, struct meta__inode *in, const struct meta__tail *old,
			      uint32_t keep);

/* ---- meta_xattr.c ------------------------------------------------------------------ */

/* Records of its attributes that go with an inode in one transaction. */
#define META__XATTR_FREE 12u

/* Are there no more than that?  0, -E2BIG. */
must_check int meta__xattrs_fit(struct meta *m, const struct meta__inode *in);
/* Frees some of them; *all: no more are left. */
must_check int meta__xattrs_free(struct meta *m, const struct meta__inode *in, bool *all);

/* ---- meta_hold.c: open files --------------------------------------------------------- */

must_check int meta__holds_create(struct meta *m);
void meta__holds_destroy(struct meta *m);
bool meta__is_held(const struct meta *m, const struct meta_handle *h);
uint64_t meta__holds_count(const struct meta *m);
/* The plan of a STAT or PUT is made: 0, -ENFILE; and in the same turn, when it is applied: */
must_check int meta__hold_ready(const struct meta *m, const struct meta_op *op);
void meta__hold_take(struct meta *m, const struct meta_op *op);
/* A LET_GO is over, whatever became of it. */
void meta__let_go(struct meta *m, const struct meta_op *op);
int meta__plan_let_go(struct meta *m, struct meta_op *op);

/* ---- meta_orphan.c ----------------------------------------------------------------- */

/* The blocks in `dead`, which were those of chunk `index` of `in`, die with this transaction: they
 * are counted in their zones' records, or given to an orphan when those are too many. */
must_check int meta__dead_blocks(struct meta *m, const struct meta__inode *in, uint64_t index,
				 const struct meta__chunk *dead);
/* Chunks from `from` on are not the file's any more: freed here if they are few, else marked to be
 * trimmed in the background.  Changes `in` only; the caller puts it. */
must_check int meta__free_chunks(struct meta *m, struct meta__inode *in, uint64_t from);
/* The object has lost its last name: freed here if small, else it becomes an orphan. */
must_check int meta__free_inode(struct meta *m, struct meta__inode *in);
/* It has lost one of its names, which was in `dir`; perhaps the last. */
must_check int meta__unlink_inode(struct meta *m, struct meta__inode *in, uint64_t dir,
				  int64_t wall_ns);
must_check int meta__orphan_put(struct meta *m, const struct meta__inode *in, uint64_t mount_epoch);
must_check int meta__orphan_del(struct meta *m, const struct meta__inode *in);
/* A bounded step of freeing orphans; true: there is more to do at once. */
bool meta__orphan_turn(struct meta *m);
void meta__orphan_op_done(struct meta *m, struct meta_op *op);

/* ---- meta_rmtree.c ------------------------------------------------------------------- */

/* Some entries of a directory without a link go, from hash *from on, where the next step begins;
 * at last itself. */
must_check int meta__rmtree_step(struct meta *m, struct meta__inode *in, uint64_t *from);
/* A directory without its name, which is the caller's: it goes with all that is in it. */
must_check int meta__tree_detach(struct meta *m, const struct meta__name *is, int64_t wall_ns);

/* ---- meta_put.c ---------------------------------------------------------------------- */

/* `at` names `in` from now on, in place of `old` when at->found: what put, commit, rename and link
 * share.  `born`: `in` never had a name. */
must_check int meta__name_give(struct meta *m, struct meta__at *at, const struct meta__inode *in,
			       bool born, struct meta__inode *old, int64_t wall_ns);

/* ---- meta_links.c --------------------------------------------------------------------- */

/* These change LINKS records, and `in`, which the caller puts. */
/* One name more, in `dir`. */
must_check int meta__links_more(struct meta *m, struct meta__inode *in, uint64_t dir);
/* One name fewer, in `dir`: not the last. */
must_check int meta__links_less(struct meta *m, struct meta__inode *in, uint64_t dir);
/* A name of it, whatever it is, went to another directory. */
must_check int meta__links_moved(struct meta *m, struct meta__inode *in, uint64_t from,
				 uint64_t to);

/* ---- meta_totals.c -------------------------------------------------------------------- */

/* When a plan succeeds: adds the sums that it owes to directories' records. */
must_check int meta__owed_settle(struct meta *m);
/* Without a record: zeros. */
must_check int meta__totals_get(struct meta *m, uint64_t dir, struct meta__totals *out);
/* Notes that a directory's count of `in` has changed since it was read: it is owed. */
must_check int meta__owe(struct meta *m, struct meta__inode *in, bool gone);
/* Adds the directory's own owed sums to *d; true: there were some. */
bool meta__owed_take(struct meta *m, uint64_t dir, struct meta__dir *d);
/* The total of *d, which the caller puts, may now differ from the total that it passed up. */
must_check int meta__dir_pend(struct meta *m, uint64_t dir, struct meta__dir *d);
/* The directory with record *d loses its name: the total that it passed up goes with it.
 * The caller puts *d, or deletes it. */
must_check int meta__totals_leave(struct meta *m, uint64_t dir, struct meta__dir *d);
/* Its records are deleted beside its own. */
must_check int meta__totals_del(struct meta *m, uint64_t dir);
/* It has another parent. */
must_check int meta__totals_moved(struct meta *m, uint64_t dir, uint64_t from, uint64_t to);
void meta__sums_add(struct meta__sums *to, const struct meta__sums *s, bool minus);
must_check int meta__totals_put(struct meta *m, uint64_t dir, const struct meta__totals *in);
/* Owes a change of the sums below the directory. */
must_check int meta__owe_below(struct meta *m, uint64_t dir, const struct meta__sums *s,
			       bool minus);
must_check int meta__pending_del(struct meta *m, uint64_t dir, struct meta__dir *d);

/* ---- meta_totals_up.c ---------------------------------------------------------------------- */

/* A bounded step of passing up; true: there is more to do at once. */
bool meta__totals_turn(struct meta *m);
void meta__totals_mounted(struct meta *m);

/* ---- plans ------------------------------------------------------------------------ */

int meta__plan_stat(struct meta *m, struct meta_op *op);
int meta__plan_read(struct meta *m, struct meta_op *op);
int meta__plan_list(struct meta *m, struct meta_op *op);
int meta__plan_readlink(struct meta *m, struct meta_op *op);
int meta__plan_statfs(struct meta *m, struct meta_op *op);
int meta__plan_drive(struct meta *m, struct meta_op *op); /* meta_drain.c */
int meta__plan_put(struct meta *m, struct meta_op *op);
int meta__plan_put_begin(struct meta *m, struct meta_op *op);
int meta__plan_put_commit(struct meta *m, struct meta_op *op);
int meta__plan_put_abort(struct meta *m, struct meta_op *op);
int meta__plan_write(struct meta *m, struct meta_op *op);
int meta__plan_truncate(struct meta *m, struct meta_op *op);
int meta__plan_punch(struct meta *m, struct meta_op *op);
int meta__plan_seek(struct meta *m, struct meta_op *op);
int meta__plan_xattr_set(struct meta *m, struct meta_op *op);
int meta__plan_xattr_del(struct meta *m, struct meta_op *op);
int meta__plan_xattr_get(struct meta *m, struct meta_op *op);
int meta__plan_xattr_list(struct meta *m, struct meta_op *op);
int meta__plan_setattr(struct meta *m, struct meta_op *op);
int meta__plan_mkdir(struct meta *m, struct meta_op *op);
int meta__plan_symlink(struct meta *m, struct meta_op *op);
int meta__plan_unlink(struct meta *m, struct meta_op *op);
int meta__plan_rmdir(struct meta *m, struct meta_op *op);
int meta__plan_rmtree(struct meta *m, struct meta_op *op);
int meta__plan_totals(struct meta *m, struct meta_op *op);
int meta__plan_rename(struct meta *m, struct meta_op *op);
int meta__plan_link(struct meta *m, struct meta_op *op);
int meta__plan_free_orphan(struct meta *m, struct meta_op *op);

#endif
