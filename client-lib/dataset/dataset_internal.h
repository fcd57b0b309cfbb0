/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Datasets and epoch streams: what the files of this room share.
 *
 *   dataset_order.c      which sample is where in an epoch, and whose step it is; a pure function
 *   dataset_weights.c    the same for samples that are drawn by weight
 *   dataset_cursor.c     the 64 bytes of a cursor
 *   dataset_manifest.c   the bytes of a manifest, built and checked
 *   dataset_open.c       a manifest that is open: its samples by number, in pages
 *   dataset_stream.c     batches of an epoch, read ahead
 *   dataset_why.c        why the consumer waited
 *   dataset_batch.c      one batch: its samples, windows and requests
 *   dataset_walk.c       the files below a directory, sorted
 *   dataset_records.c    records in files: the formats, and what reads them piece by piece
 *   dataset_tar.c, _tfrecord.c, _npy.c, _npz.c   each format
 *   dataset_hash.c       the content hash
 *   dataset_make.c       a new version from the files
 */
#ifndef CLIENT_LIB_DATASET_INTERNAL_H
#define CLIENT_LIB_DATASET_INTERNAL_H

#include "client-lib/client_internal.h"
#include "client-lib/weka_dataset.h"
#include "fabric/fab_report.h"

#include <stdbool.h>
#include <stdint.h>

#define DATASET__ROUNDS      8u
#define DATASET__SAMPLES_MAX (UINT64_C(1) << 48)

/* ---- the order: dataset_order.c --------------------------------------------------- */

struct dataset__order {
	uint64_t count;
	uint32_t right_bits;
	uint64_t left_mask;
	uint64_t right_mask;
	uint64_t key[DATASET__ROUNDS];
};

void dataset__order_init(struct dataset__order *o, uint64_t count, uint64_t seed, uint64_t epoch);
/* The sample at a position below count. */
uint64_t dataset__order_at(const struct dataset__order *o, uint64_t position);
/* The permutation of any numbers, by any key; keys come from these two. */
void dataset__order_of(struct dataset__order *o, uint64_t count, uint64_t key);
uint64_t dataset__key(uint64_t a, uint64_t b);
uint64_t dataset__epoch_key(uint64_t seed, uint64_t epoch);

/* How the positions [from, count) are divided into steps of `world` batches. */
struct dataset__plan {
	uint64_t from;
	uint64_t count;
	uint32_t rank;
	uint32_t world;
	uint32_t batch;
	bool drop_last;
};

/* A rank's share of one step. */
struct dataset__piece {
	uint64_t at; /* first position */
	uint32_t count;
	uint64_t end; /* of the step, for all ranks */
};

uint64_t dataset__steps(const struct dataset__plan *p);
struct dataset__piece dataset__piece(const struct dataset__plan *p, uint64_t step);

/* ---- samples by weight: dataset_weights.c ------------------------------------------ */

struct dataset__weights {
	uint64_t groups; /* classes or samples */
	uint64_t length; /* positions of the epoch */
	uint64_t key;    /* of seed and epoch */
	uint64_t mark;   /* tells these weights from others */
	uint64_t *begin; /* groups + 1: first place of the wheel of each */
	uint64_t *first; /* by class: first sample of each; NULL: by sample */
	uint64_t *count; /* ... and how many it has */
	uint64_t round;  /* whose order this is; UINT64_MAX: none */
	struct dataset__order order;
};

/* Returns 0, or an error with its line. */
must_check int dataset__weights_make(struct dataset__weights **out, struct weka_dataset *d,
				     const struct weka_weights *from, uint64_t seed,
				     uint64_t epoch);
void dataset__weights_free(struct dataset__weights *w); /* NULL is fine */
/* The sample at a position below length, and the label that it must have, if that is known. */
uint64_t dataset__weights_at(struct dataset__weights *w, uint64_t position, uint32_t *label);

/* ---- cursors: dataset_cursor.c ---------------------------------------------------- */

struct dataset__place {
	uint64_t count; /* samples of the dataset */
	uint64_t seed;
	uint64_t epoch;
	uint64_t position;
	bool in_order;
	bool is_weighted;
	/* The first bytes of the dataset's; with weights 12 of them, and the mark. */
	uint8_t content[20];
};

#define DATASET__CURSOR_CONTENT 12u /* bytes of a dataset's content that every cursor has */

void dataset__cursor_build(struct weka_cursor *out, const struct dataset__place *p);
/* Returns NULL, or why the bytes are no cursor. */
const char *dataset__cursor_parse(struct dataset__place *out, const struct weka_cursor *cursor);

/* ---- the bytes of a manifest: dataset_manifest.c ---------------------------------- */

#define DATASET__HEADER_BYTES 4096u
#define DATASET__RECORD_BYTES 64u
#define DATASET__LABELS_MAX   (1u << 24)
#define DATASET__CLASSES_MAX  (16u << 20) /* bytes of all their names */

struct dataset__header {
	uint64_t samples;
	uint64_t total_bytes;
	uint64_t largest_bytes;
	int64_t created_ns;
	uint64_t file_bytes; /* the manifest's length */
	uint64_t names_at;
	uint64_t names_bytes;
	uint64_t classes_at;
	uint64_t classes_bytes;
	uint32_t classes;
	uint32_t version;
	uint32_t root_bytes; /* of each path: the dataset's directory, with its slash */
	bool is_quick;
	uint8_t content[32];
};

struct dataset__record {
	struct weka_handle handle;
	int64_t ctime_ns;
	uint64_t offset_bytes;
	uint64_t length_bytes;
	uint64_t name_at; /* of the names: the path, and then the record's name in its file */
	uint32_t name_bytes;
	uint32_t member_bytes; /* of the record's name; 0: the sample is a whole file */
	uint32_t label;
	uint64_t check; /* the first 8 bytes of the sample's SHA-256; 0: quick */
};

void dataset__header_build(uint8_t to[DATASET__HEADER_BYTES], const struct dataset__header *h);
/* `file_bytes` is the length that the file has.  Returns NULL, or what is wrong. */
const char *dataset__header_parse(struct dataset__header *out,
				  const uint8_t from[DATASET__HEADER_BYTES], uint64_t file_bytes);
void dataset__record_build(uint8_t to[DATASET__RECORD_BYTES], const struct dataset__record *r);
const char *dataset__record_parse(struct dataset__record *out,
				  const uint8_t from[DATASET__RECORD_BYTES],
				  const struct dataset__header *h);
/* Counts the names, each with its NUL.  UINT32_MAX: one is empty, or the last has no NUL. */
uint32_t dataset__classes_count(const char *names, uint64_t bytes);

/* ---- an open manifest: dataset_open.c --------------------------------------------- */

#define DATASET__KEPT_BYTES  (UINT64_C(256) << 20) /* of a manifest, in memory */
#define DATASET__SMALL_SHIFT 20u                   /* of one that is kept whole: pages of 1 MiB */
#define DATASET__LARGE_SHIFT 16u /* of one that is not: 64 KiB, for less in vain */

struct weka_dataset {
	struct weka_client *client;
	_Atomic uint32_t users;  /* its opener, streams of it, and calls that use it */
	struct weka_handle file; /* the manifest */
	struct dataset__header header;
	uint8_t **pages; /* of the file; NULL: not in memory */
	uint32_t page_shift;
	uint64_t kept_bytes; /* at most, of pages */
	uint64_t page_count;
	uint64_t pages_in;   /* in memory */
	uint64_t hand;       /* where the next one to go is looked for */
	uint8_t *whole;      /* it is being made: all pages lie in here, and there is no file */
	bool by_path;        /* handles in it are another client's: samples are found by path */
	char *classes;       /* their names */
	const char **labels; /* each one's */
	uint64_t manifest_ns;
	char name[WEKA_DATASET_NAME_MAX + 1];
};

/* Records what dataset, and what is wrong with it, as the client's error; returns err. */
wk_cold int dataset__fail(struct weka_dataset *d, int err, const char *what);
must_check int dataset__record(struct weka_dataset *d, uint64_t index, struct dataset__record *out);
/* Copies the record's path, without a NUL, to `to`, which has room for WEKA_PATH_MAX bytes. */
must_check int dataset__path(struct weka_dataset *d, const struct dataset__record *r, char *to);
/* The same for its name in that file: room for WEKA_MEMBER_MAX bytes. */
must_check int dataset__member(struct weka_dataset *d, const struct dataset__record *r, char *to);
/* NULL: it may be a dataset's name; else why not. */
const char *dataset__name_wrong(const char *name);
/* The path of a version's manifest, or with 0 of the dataset's directory. */
#define DATASET__PATH_BYTES (sizeof(WEKA_DATASETS) + WEKA_DATASET_NAME_MAX + 12)
void dataset__place(char to[DATASET__PATH_BYTES], const char *name, uint32_t version);
/* The newest version, 0: none. */
must_check int dataset__newest(struct weka_client *c, const char *name, uint32_t *version);
must_check int dataset__labels(struct weka_dataset *d);
/* Makes the table of pages, once the manifest's length is known.  0, or -ENOMEM with its line. */
must_check int dataset__pages(struct weka_dataset *d);
/* The first user is who makes it; the last one that leaves it frees it. */
void dataset__use(struct weka_dataset *d);
void dataset__leave(struct weka_dataset *d);

/* ---- batches: dataset_batch.c ------------------------------------------------------ */

/* A request of a batch, with its share of the lease. */
struct dataset__part {
	struct weka_req req;
	uint32_t first; /* item */
	uint32_t count;
	uint64_t window_at;
	uint64_t window_bytes;
	bool is_sent; /* and its answer has not been awaited */
	bool is_done;
};

struct dataset__batch {
	struct weka_batch pub; /* first: what callers have */
	struct dataset__batch *next;
	struct dataset__piece piece;
	uint32_t room; /* of the arrays */
	struct weka_read_item *items;
	uint64_t *samples;
	uint32_t *labels;
	uint64_t *lengths; /* that the samples must have */
	struct dataset__part *parts;
	uint32_t parts_room;
	uint32_t part_count;
	char *text; /* by path: the paths */
	uint64_t text_room;
	uint64_t lease_bytes;
	struct weka_pool *pool; /* of the lease; NULL: the library's own */
	bool is_ready;          /* the parts are planned */
};

/* How a position becomes a sample. */
struct dataset__draw {
	bool in_order; /* the one of that number */
	struct dataset__order order;
	struct dataset__weights *weights; /* NULL: each comes once */
};

/* Reports of a stream to the appliance: dataset_report.c. */
struct dataset__report {
	struct weka_req req;
	bool is_sent;
	uint64_t next_ns; /* no other before; 0: none was considered yet */
	uint8_t body[FAB_REPORT_BYTES];
};

/* Sends one if it is time.  `plan` and `stats` are the stream's. */
void dataset__report(struct dataset__report *r, const struct weka_stream *s,
		     const struct weka_dataset *d, const struct dataset__plan *plan,
		     struct weka_client *c);
/* Ends the one in flight. */
void dataset__report_end(struct dataset__report *r, struct weka_client *c);

struct dataset__limits {
	uint32_t items_max;
	uint64_t window_max;
	uint64_t pool_max;
	struct weka_pool *pool; /* the caller's, or NULL */
};

must_check struct dataset__batch *dataset__batch_new(uint32_t room);
void dataset__batch_free(struct dataset__batch *b);
/* Finds the samples of b->piece and divides them into requests.  0, or an error with its line. */
must_check int dataset__batch_plan(struct dataset__batch *b, struct weka_dataset *d,
				   struct dataset__draw *draw,
				   const struct dataset__limits *limits);
/* Takes the lease and submits what can be: 0 all; -EAGAIN: not now; or an error with its line. */
must_check int dataset__batch_send(struct dataset__batch *b, struct weka_client *c,
				   uint64_t timeout_ns);
bool dataset__batch_is_sent(const struct dataset__batch *b); /* in part, at least */
bool dataset__batch_is_here(const struct dataset__batch *b);
/* Waits for the requests.  After an error all parts can be sent again. */
must_check int dataset__batch_await(struct dataset__batch *b, struct weka_client *c);
/* Cancels its requests and returns its memory; then it can be planned for another step. */
void dataset__batch_return(struct dataset__batch *b, struct weka_client *c);
/* All parts are done: what was read is what the manifest says, or has a status. */
void dataset__batch_finish(struct dataset__batch *b);

/* ---- why it waited: dataset_why.c ---------------------------------------------------- */

/* Adds a wait for a batch; is_short: fewer batches were under way than were wanted. */
void dataset__waited(struct weka_stream_stats *stats, const struct dataset__batch *b,
		     uint64_t waited_ns, bool is_short);
/* Gives back the memory of all that was read ahead, which is read again: dataset_stream.c.  Returns
 * false if nothing was. */
bool dataset__stream_shrink(struct weka_stream *s);
/* The counters of now: dataset_stream.c. */
void dataset__stats(const struct weka_stream *s, struct weka_stream_stats *out);

/* ---- the content hash: dataset_hash.c ---------------------------------------------- */

/* Reads all samples and computes the content hash. */
struct dataset__hash {
	bool is_read; /* false: only for a quick dataset, whose bytes do not count */
	const struct weka_progress *progress; /* NULL: none */
	/* Called for each sample, in order, with the first 8 bytes of its SHA-256 (0: quick), or
	 * with the status with which it could not be read.  Not 0 ends the work with that. */
	int (*each)(void *arg, uint64_t index, int status, uint64_t check);
	void *arg;
	uint8_t content[32]; /* the result */
};
must_check int dataset__hash(struct weka_dataset *d, struct dataset__hash *h);

/* ---- making: dataset_walk.c --------------------------------------------------------- */

struct dataset__file {
	struct weka_handle handle;
	int64_t ctime_ns;
	uint64_t offset_bytes; /* of the sample in the file */
	uint64_t size_bytes;
	uint64_t path_at;   /* in dataset__files.text, NUL-terminated */
	uint64_t member_at; /* likewise; DATASET__WHOLE: the sample is the file */
};
#define DATASET__WHOLE UINT64_MAX

struct dataset__files {
	struct dataset__file *file;
	uint64_t count;
	uint64_t room;
	char *text;
	uint64_t text_bytes;
	uint64_t text_room;
	uint32_t root_bytes; /* of each path: the directory's, with its slash */
};

/* The regular files below `path` that match, sorted by path.  0, or an error with its line. */
must_check int dataset__walk(struct weka_client *c, const char *path, const char *glob,
			     struct dataset__files *out);
void dataset__files_free(struct dataset__files *f);
/* Adds one to the list; 0 or -ENOMEM. */
must_check int dataset__files_add(struct dataset__files *f, const struct dataset__file *file);
/* Adds text with a NUL; returns its offset, or DATASET__WHOLE: no memory. */
uint64_t dataset__text_add(struct dataset__files *f, const char *text, size_t bytes);

/* ---- records: dataset_records.c ----------------------------------------------------- */

/*
 * A file that is being indexed.  `read` copies `bytes` bytes from an offset on, all of which lie in
 * the file, and returns 0 or -errno.  Bytes of the file are checked before they are believed.
 */
struct dataset__source {
	int (*read)(void *arg, uint64_t at, uint32_t bytes, void *to);
	void *arg;
	uint64_t file_bytes;
	bool is_thorough; /* read checksums of the content, too */
	/* Called for each record, in order; 0, or an error that ends the work. */
	int (*found)(void *arg, uint64_t offset_bytes, uint64_t length_bytes, const char *member,
		     size_t member_bytes);
	void *found_arg;
	const char *member; /* npz: the array's name */
	char why[160];      /* after -EPROTO: what is wrong with the file */
};

/* Each finds all records of a file.  -EPROTO: the file is not what it must be: source->why. */
must_check int dataset__tar(struct dataset__source *source);
must_check int dataset__tfrecord(struct dataset__source *source);
must_check int dataset__npy(struct dataset__source *source);
must_check int dataset__npz(struct dataset__source *source);
/* The rows of an array whose .npy image has `bytes` bytes from `at` on: dataset_npy.c. */
must_check int dataset__npy_at(struct dataset__source *source, uint64_t at, uint64_t bytes);

/* Says what is wrong, and returns -EPROTO. */
__attribute__((format(printf, 2, 3))) wk_cold int dataset__bad(struct dataset__source *source,
							       const char *format, ...);
/* Reads, or says that the file ends before. */
must_check int dataset__get(struct dataset__source *source, uint64_t at, uint32_t bytes, void *to);

/* NULL: `format` is known; else why not.  (weka_dataset_make.records) */
const char *dataset__records_wrong(const char *format);
/* Replaces each file of the list by its records.  0, or an error with its line. */
must_check int dataset__records(struct weka_client *c, const char *format, bool is_thorough,
				struct dataset__files *files);

#endif
