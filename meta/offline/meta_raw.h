/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store as it lies on its drives, with nobody having mounted it: to be looked at, structure by
 * structure (dump), or to have brought back what can be proven of it (salvage).
 *
 * Nothing is ever written.  Each read is waited for; what cannot be read, or is not what it should
 * be, is told with its place and its reason, and everything else goes on.
 */
#ifndef META_RAW_H
#define META_RAW_H

#include "meta/meta.h"

#include <stdio.h>

/* The drives, in any order; some may be missing. */
struct meta_raw_drives {
	uint32_t count;
	uint64_t nblocks[META_DRIVES_MAX];
	/* 0, or -errno: these blocks cannot be read. */
	int (*read)(void *arg, uint32_t drive, uint64_t block, uint32_t nblocks, void *buf);
	void *arg;
};

struct meta_raw;

/* Reads superblocks, roots and headers of zones, whatever is left of them.  -ENOMEM. */
must_check int meta_raw_open(struct meta_raw **out, const struct meta_raw_drives *drives);
void meta_raw_close(struct meta_raw *r);
/* "", or why these drives are no store: then only superblocks can be shown. */
const char *meta_raw_problem(const struct meta_raw *r);

/* What meta_dump() shows, number `i`: its name, its argument ("": none; in brackets: if wanted),
 * and what it is.  False: there are fewer. */
bool meta_dump_what(uint32_t i, const char **name, const char **arg, const char **text);

/**
 * meta_dump - one structure in words: tables, or one JSON object a line
 *
 * Returns 0; -EUCLEAN when something of it is damaged (and was shown as far as it can be proven);
 * -EINVAL: no such structure, or argument; -ENOENT: it is not there; -ENODATA: no store.
 */
must_check int meta_dump(struct meta_raw *r, const char *what, const char *arg, FILE *out,
			 bool json);

/* ---- salvage: what can be proven of a store that no mount accepts ------------------------ */

/* What of it is lost, before the first file is looked at. */
struct meta_raw_loss {
	uint64_t pages;       /* damaged, on the way from a root to a leaf */
	uint64_t shards;      /* without a root that surely is the newest */
	uint64_t leaves;      /* found in zones of pages instead */
	uint64_t zones;       /* without a header: one may have been the log's newest */
	uint64_t log_missing; /* sequence of the first block of the log that is lost; 0: none */
	char first[160];      /* the first damaged page, in words */
};

/**
 * meta_raw_salvage - all that is left becomes visible to the calls below
 *
 * The trees as far as their pages are whole; where one is not, the newest whole leaf for each key,
 * found in the zones of pages; over both the log, that behind a missing block, too.  A record of
 * which a newer version is known to be lost is in doubt.  -ENOMEM, -ENODATA: no store.
 */
must_check int meta_raw_salvage(struct meta_raw *r, struct meta_raw_loss *loss);

struct meta_raw_place { /* where a walk goes on; zeros: at the begin */
	uint32_t shard;
	uint32_t seen; /* attributes so far */
	uint64_t key[3];
};

struct meta_raw_entry {
	struct meta_handle handle;
	enum meta_type type;
	uint64_t dir; /* a directory's number */
	bool doubt;
	char name[META_NAME_MAX + 1];
};

/* The next name of a directory.  0, -ENOENT: that was all. */
must_check int meta_raw_entry_next(struct meta_raw *r, uint64_t dir, struct meta_raw_place *at,
				   struct meta_raw_entry *out);
/* The next object that there is, of any name or none.  0, -ENOENT. */
must_check int meta_raw_object_next(struct meta_raw *r, struct meta_raw_place *at,
				    struct meta_attr *out, bool *going);
/* 0; -ENOENT: it is lost; *doubt: an older version of it.  blocks: how many there must be for
 * meta_raw_block_next(); UINT64_MAX: nobody knows, for it is being truncated. */
must_check int meta_raw_attr(struct meta_raw *r, const struct meta_handle *h, struct meta_attr *out,
			     bool *doubt);
/* The next block of a file at or behind *index that is no hole, zeros behind its end.  0; -EIO: it
 * is there, and does not match its checksum; -ENOENT: there is none. */
must_check int meta_raw_block_next(struct meta_raw *r, const struct meta_handle *h, uint64_t *index,
				   void *block, bool *doubt);
/* A symlink's text, META_PATH_MAX + 1 bytes.  0, -EIO: a piece is lost. */
must_check int meta_raw_link(struct meta_raw *r, const struct meta_handle *h, char *text);
/* The next extended attribute: name META_XATTR_NAME_MAX + 1 bytes, value META_XATTR_MAX.  0,
 * -ENOENT; -EIO: this one's value is lost; -EUCLEAN: that was all, and some are lost. */
must_check int meta_raw_xattr_next(struct meta_raw *r, const struct meta_handle *h,
				   struct meta_raw_place *at, char *name, void *value,
				   uint32_t *value_len);

#endif
