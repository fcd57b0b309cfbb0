/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files that come and go in an appliance that stays equally full: each file that is removed is
 * written again, with another size.  Readers that run meanwhile: bench_readers.c.
 */
#ifndef BENCH_CHURN_H
#define BENCH_CHURN_H

#include "base/assert.h"
#include "client-lib/weka_client.h"

#include <stdbool.h>
#include <stdint.h>

#define BENCH_CHURN_LEAST 4096u /* bytes of a file: each number in between is as likely */
#define BENCH_CHURN_MOST  (128u << 10)
#define BENCH_CHURN_BATCH 16u /* files a put */

#define BENCH_CHURN_PATH_MOST 96

struct bench_churn_conf {
	const char *path; /* of a directory of its own, which is there */
	uint32_t dirs;
	uint32_t dir_files;
	uint32_t writers; /* requests in flight */
	bool whole_dirs;  /* a directory goes with all that is in it; else any file, one by one */
};

struct bench_churn;

/* Mean size of a file on an appliance, in whole blocks. */
double bench_churn_mean_bytes(void);
/* The client's pool, and how many requests. */
void bench_churn_options(const struct bench_churn_conf *conf, struct weka_options *o);

/* Makes the directories.  All: 0, or 1 after a line on stderr. */
must_check int bench_churn_create(struct bench_churn **out, struct weka_client *client,
				  const struct bench_churn_conf *conf);
void bench_churn_destroy(struct bench_churn *c);

/* Every file is written once. */
must_check int bench_churn_fill(struct bench_churn *c);
/* Until `bytes` more have been written, or a little more: *written. */
must_check int bench_churn_replace(struct bench_churn *c, uint64_t bytes, uint64_t *written);
/* Each file is there as it was written last, or is not, when it was removed last. */
must_check int bench_churn_verify(struct bench_churn *c);

/* The name of a file, and whether what was read is some version of it: by any thread. */
void bench_churn_file_path(const struct bench_churn_conf *conf, uint32_t file,
			   char out[BENCH_CHURN_PATH_MOST]);
bool bench_churn_is_file(const struct weka_read_item *item, uint32_t file, uint64_t *version);

#endif
