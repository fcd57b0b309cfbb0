/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* One of the appliances that `weka-bench protect` measures beside each other, and its loads. */
#ifndef BENCH_PROTECT_PROTECT_H
#define BENCH_PROTECT_PROTECT_H

#include "bench/bench.h"
#include "client-lib/weka_client.h"

struct protect_conf {
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
	PROTECT_READ_RANDOM, /* 4 KiB of the large file     */
	PROTECT_READ_ORDER,  /* 1 MiB of it, from its start */
	PROTECT_WRITE,       /* 1 MiB of it, from its start: replaces what is there */
	PROTECT_CREATE,      /* files of 4 KiB, 64 a request */
	PROTECT_LOADS
};

struct protect_side;

/**
 * protect_open - start an appliance on fresh drives, and write its large file
 *
 * @how: none or mirror, as wekactl format --protect takes it
 *
 * Owns:    *out is the caller's, also after a failure: protect_close().
 * Errors:  1, after a line on stderr.
 */
must_check int protect_open(struct protect_side **out, const struct protect_conf *conf,
			    const char *how);
int protect_close(struct protect_side *s);

/* Runs a load for so long; 1 after a line on stderr.  *amplification: bytes that the drives were
 * given for one of the payload. */
must_check int protect_run(struct protect_side *s, enum protect_load load, double seconds,
			   struct bench_run *run, double *amplification);

/* Cuts the file of one drive to nothing, again and again, and reads, until the appliance says that
 * it is lost. */
must_check int protect_lose(struct protect_side *s, uint32_t drive);
/* How fast what was on lost drives is copied: bytes a second, 0: as fast as it goes. */
must_check int protect_pace(struct protect_side *s, uint64_t bytes_per_second);
/* Bytes that must still be copied, and that were; *over: nothing is left. */
must_check int protect_rebuild(struct protect_side *s, uint64_t *left, uint64_t *done, bool *over);

#endif
