/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An unmounted store as it is on its drives: printed structure by structure (dump), or copied as
 * far as it can be verified (salvage).
 *
 * Nothing is ever written.  Each read waits; anything unreadable or malformed is reported with its
 * place and the reason, and everything else continues.
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
/* Returns how many copies of each block the store keeps: 1, 2, 3; 0 if there is a problem. */
uint32_t meta_raw_copies(const struct meta_raw *r);

/* Returns structure number `i` of meta_dump(): its name, its argument ("": none; in brackets:
 * optional), and a description.  False: no more. */
bool meta_dump_what(uint32_t i, const char **name, const char **arg, const char **text);

/**
 * meta_dump - one structure in words: tables, or one JSON object a line
 *
 * Returns 0; -EUCLEAN when something of it is damaged (and was shown as far as it can be proven);
 * -EINVAL: no such structure, or argument; -ENOENT: it is not there; -ENODATA: no store.
 */
must_check int meta_dump(struct meta_raw *r, const char *what, const char *arg, FILE *out,
			 bool json);

/* ---- compare: all copies of each block that lives ----------------------------------------- */

struct meta_raw_compared {
	uint64_t pages, blocks; /* that were compared                             */
	uint64_t few;           /* of these: there are fewer copies than the store keeps */
	uint64_t bad[3];        /* the first, second, third copy is wrong, another one is right */
	uint64_t bad_all;       /* no copy is as the index says                   */
};

/* Compares all copies of each page and block with what the index says of it; a line for each copy
 * that is wrong.  -ENOMEM, -ENODATA: no store. */
must_check int meta_raw_compare(struct meta_raw *r, struct meta_raw_compared *out,
				void (*line)(void *arg, const char *line), void *arg);

/* ---- salvage: the verifiable data of a store that no mount accepts ----------------------- */

/* The known losses, before the first file is read. */
struct meta_raw_loss {
	uint64_t pages;       /* damaged, on the way from a root to a leaf */
	uint64_t shards;      /* without a root that surely is the newest */
	uint64_t leaves;      /* found in zones of pages instead */
	uint64_t zones;       /* without a header: one may have been the log's newest */
	uint64_t log_missing; /* sequence of the first block of the log that is lost; 0: none */
	char first[160];      /* the first damaged page, in words */
};

/**
 * meta_raw_salvage - make all remaining records visible to the calls below
 *
 * The trees as far as their pages are whole; elsewhere the newest whole leaf for each key, found in
 * the page zones; the log over both, including the part after a missing block.  A record of which a
 * newer version is known to be lost is in doubt.  -ENOMEM, -ENODATA: no store.
 */
must_check int meta_raw_salvage(struct meta_raw *r, struct meta_raw_loss *loss);

/* Counts pages and blocks whose first copy was damaged or missing, and another copy of which was
 * read from this drive. */
struct meta_raw_taken {
	uint64_t pages, blocks;
	char first_page[96], first_block[96]; /* one of them: its address, and why */
};
/* False: no such drive. */
bool meta_raw_taken(const struct meta_raw *r, uint32_t drive, struct meta_raw_taken *out);

struct meta_raw_place { /* position of a walk; zeros: the start */
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
/* Reads the next block of a file from *index on that is not a hole, zeros after its end.  0; -EIO:
 * the block does not match its checksum; -ENOENT: no more blocks. */
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
