/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* One of the appliances that `weka-bench protect` measures beside each other, and its loads. */
#ifndef BENCH_PROTECT_PROTECT_H
#define BENCH_PROTECT_PROTECT_H

#include "bench/bench.h"
#include "bench/protect/protect_scheme.h"
#include "client-lib/weka_client.h"

enum { PROTECT_SCHEMES_MAX = 8, PROTECT_TURNS_MAX = 8 };

struct protect_conf {
	struct protect_scheme scheme[PROTECT_SCHEMES_MAX];
	uint32_t schemes;
	uint32_t turn[PROTECT_TURNS_MAX]; /* bytes of a write that is alone in its turn */
	uint32_t turns;
	uint32_t drives;      /* of each appliance                                  */
	uint64_t drive_bytes; /* of each of them                                    */
	uint64_t file_bytes;  /* of the large file                                  */
	const char *dir;      /* where the drives' files are made; NULL: in memory  */
	bool files;           /* its drives are files, even in memory: they can be lost */
	double seconds;
	uint32_t runs;
	bool json;
};

enum protect_load {
	PROTECT_READ,   /* of the large file, at random                           */
	PROTECT_STREAM, /* of it, from its start                                  */
	PROTECT_WRITE,  /* of it, from its start: replaces what is there          */
	PROTECT_TURN,   /* the same, one write at a time: each has a turn for itself */
	PROTECT_CREATE, /* files of 4 KiB, 64 a request                           */
	PROTECT_LOADS
};

#define PROTECT_PIECE (1u << 20) /* bytes of a request, where nothing else is said */

struct protect_side;

/* Figures of wekactl-status(5). */
struct protect_status {
	uint64_t read_bytes, written_bytes; /* to and from clients, since it began          */
	uint64_t drive_read_bytes, drive_written_bytes;
	uint64_t total_bytes; /* that the store can hold                                    */
	uint64_t live_bytes;  /* of files, on drives                                        */
	uint64_t zone_bytes, zones_used; /* zones without those of the log                  */
	uint64_t folded_bytes;           /* places for files in folds                       */
	uint64_t parity_bytes, log_bytes, moved_bytes; /* written since it began, all copies;
							* moved: one copy                      */
	uint64_t checkpoints;
	uint64_t lost; /* drives, by bits, of which not all is moved yet */
};

/* The cost of a file that is written once. */
struct protect_cost {
	double at_once; /* bytes given to the drives, for each of the file, when the last write
			     * was durable                                                  */
	double later;   /* ... when nothing is left to be folded                        */
	double space;   /* bytes of zones that are in use for it then, for each of it             */
	double folded;  /* part of the file that is in folds then                       */
	double capacity; /* part of the drives that is for files                         */
};

/**
 * protect_open - start an appliance on fresh drives
 *
 * Owns:    *out is the caller's, also after a failure: protect_close().
 * Errors:  1, after a line on stderr, as all that return int here.
 */
must_check int protect_open(struct protect_side **out, const struct protect_conf *conf,
			    const struct protect_scheme *scheme);
int protect_close(struct protect_side *s);

/* Removes the large file and writes it again, in requests of so many bytes.  Then waits until it is
 * folded. */
must_check int protect_fill(struct protect_side *s, enum protect_load load, uint32_t bytes,
			    struct protect_cost *out);
/* Runs a load for so long, in requests of so many bytes. */
must_check int protect_run(struct protect_side *s, enum protect_load load, uint32_t bytes,
			   double seconds, struct bench_run *run);

must_check int protect_look(struct protect_side *s, struct protect_status *out);
/* Waits until the store writes nothing by itself any more. */
must_check int protect_quiet(struct protect_side *s, struct protect_status *out);
/* Waits until all is folded that can be.  *spent_bytes: given to the drives for the changes that it
 * made for that. */
must_check int protect_settle(struct protect_side *s, struct protect_status *out,
			      uint64_t *spent_bytes);

/* Cuts the file of one drive to nothing, again and again, and reads, until the appliance says that
 * it is lost. */
must_check int protect_lose(struct protect_side *s, uint32_t drive);
/* How fast what was on lost drives is copied: bytes a second, 0: as fast as it goes. */
must_check int protect_pace(struct protect_side *s, uint64_t bytes_per_second);

#endif
