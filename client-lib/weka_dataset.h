/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * libweka-client - datasets and epoch streams.  Part of weka_client.h: include that header.
 *
 * A dataset is an immutable, named list of samples: the files of a tree, or records in them.  Each
 * version of it is a manifest, a file below WEKA_DATASETS.  Opening one takes the same time for any
 * number of samples, sample i needs no name, and a content hash says what a model was trained on.
 * A sample whose file was changed, replaced or removed since is -ESTALE: its bytes are never
 * silently different.
 *
 * An epoch stream reads every sample of a dataset once, in an order that only {seed, epoch} decide:
 *
 *	weka_dataset_open(client, "imagenet", 0, &dataset);
 *	weka_stream_open(client, dataset, &epoch, NULL, &stream);
 *	while (weka_stream_next(stream, &batch) == 1) {
 *		train(batch->items, batch->labels, batch->count);
 *		weka_stream_release(stream, batch);
 *	}
 *	weka_stream_close(stream);
 *
 * The ranks of a job share the order: step s of `world` ranks takes the next world * batch samples,
 * and rank r the r-th `batch` of them.  So the order is the same for every number of ranks, and a
 * cursor, saved with the model after a step, continues it with any number of them.  In the last
 * step the samples that are left are divided evenly: the batches of ranks may differ by one sample,
 * and be empty when fewer samples than ranks are left.  PROTOCOL.md 11 and 12 have the manifest and
 * the order, to the bit.
 */
#ifndef WEKA_DATASET_H
#define WEKA_DATASET_H

#include "weka_client.h"
#include "weka_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEKA_DATASETS         "/.weka/datasets" /* NAME/1, NAME/2, ... are manifests    */
#define WEKA_DATASET_NAME_MAX 100u              /* bytes of A-Z a-z 0-9 . _ -; not first: . and - */
#define WEKA_MEMBER_MAX       511u /* bytes of a record's name in its file              */
#define WEKA_NO_LABEL         UINT32_MAX
#define WEKA_STREAM_BATCH_MAX 65536u /* samples of one batch                            */
#define WEKA_WORLD_MAX        65536u

struct weka_dataset; /* opaque: one version of a dataset, open */
struct weka_stream;  /* opaque: one rank's way through one epoch */

/* ---- datasets -------------------------------------------------------------------- */

struct weka_dataset_info {
	uint32_t size_bytes; /* sizeof(struct weka_dataset_info): set it           */
	uint32_t version;    /* from 1 on                                          */
	uint64_t samples;
	uint64_t total_bytes;   /* of all samples                                  */
	uint64_t largest_bytes; /* of one                                          */
	int64_t created_ns;     /* since 1970                                      */
	uint32_t classes;       /* labels are 0 .. classes - 1; 0: none            */
	uint32_t is_quick;      /* 1: `content` covers names, sizes and times, not bytes */
	uint8_t content[32];    /* SHA-256 of what the samples are: PROTOCOL.md 11 */
	uint64_t reserved[4];
};

struct weka_sample {
	char path[WEKA_PATH_MAX + 1];     /* of its file */
	char member[WEKA_MEMBER_MAX + 1]; /* the record in that file; "": the whole file */
	uint64_t offset_bytes;            /* in the file */
	uint64_t size_bytes;
	uint64_t check; /* the first 8 bytes of its SHA-256, as they are; 0: the dataset is quick */
	uint32_t label; /* or WEKA_NO_LABEL */
	uint32_t reserved0;
	int64_t ctime_ns; /* for weka_read_item.ctime_ns: the state in which the file was listed */
};

/**
 * weka_dataset_open - open a version of a dataset; 0 is the newest
 *
 * Reads the manifest's first block, and its samples when they are needed (64 bytes each, of which
 * at most 256 MiB stay in memory).
 *
 * Owns:    *out until weka_dataset_close(), which may come after weka_close() of the client.
 * Thread:  the client's; waits.
 * Errors:  -ENOENT (no such dataset or version), -EPROTO (the manifest is damaged, or of a newer
 *          version of the format).
 */
WEKA_MUST_CHECK int weka_dataset_open(struct weka_client *client, const char *name,
				      uint32_t version, struct weka_dataset **out);
void weka_dataset_close(struct weka_dataset *dataset); /* NULL is fine */

/* Fills in *out, up to its size_bytes. */
int weka_dataset_get_info(const struct weka_dataset *dataset, struct weka_dataset_info *out);
/* The class of a label: the name of its directory.  NULL: no such label. */
const char *weka_dataset_class(const struct weka_dataset *dataset, uint32_t label);
/* Where sample `index` is.  May wait for a part of the manifest.  Errors: -ERANGE, -EPROTO. */
WEKA_MUST_CHECK int weka_dataset_sample(struct weka_dataset *dataset, uint64_t index,
					struct weka_sample *out);

/* Long work calls `report` now and then, when it has read `done` of `total` samples.  If `report`
 * does not return 0, the work ends with -ECANCELED. */
struct weka_progress {
	int (*report)(void *user, uint64_t done, uint64_t total);
	void *user;
};

#define WEKA_DATASET_QUICK    1u /* do not read the samples: `content` covers their times instead */
#define WEKA_DATASET_NO_LABEL 2u /* no labels, although all samples lie in subdirectories */
struct weka_dataset_make {
	uint32_t flags;
	uint32_t reserved0;
	const char *glob; /* only paths below the directory that match fnmatch(3); NULL: all */
	/*
	 * NULL: a sample is a file.  Otherwise it is a record of one:
	 *   "tar"       WebDataset: members that follow each other and whose names are the same up
	 *               to the first dot of the last component; the sample is that piece of the tar
	 *   "tfrecord"  a record's data
	 *   "npy"       a row of an array, that is, an index of its first dimension
	 *   "npz:NAME"  a row of the array NAME in an uncompressed archive
	 */
	const char *records;
	const struct weka_progress *progress; /* NULL: none */
	uint64_t reserved[4];
};

/**
 * weka_dataset_create - make a new version of a dataset from the files below a directory
 *
 * Samples are all regular files below `path` (symlinks to files are followed, those to directories
 * are not), in the order of their paths' bytes.  If each of them lies in a subdirectory, the names
 * of these first directories, sorted, are the classes.  The version is one more than the newest,
 * and appears atomically.  `how` may be NULL; *info, if not NULL, says what was made.
 *
 * Thread:  the client's; waits as long as reading all samples takes.
 * Errors:  -ENODATA (no file matches, or none has records), -ESTALE (a file was changed meanwhile:
 *          weka_error() names it), -EPROTO (a file is not of the format of its records, or cut),
 *          -EFBIG (the samples have 2^64 bytes or more together),
 *          -ECANCELED (progress stopped it), -EINVAL (a name that cannot be a dataset's).
 */
WEKA_MUST_CHECK int weka_dataset_create(struct weka_client *client, const char *name,
					const char *path, const struct weka_dataset_make *how,
					struct weka_dataset_info *info);

/**
 * weka_dataset_verify - read all samples again and compare them with the content hash
 *
 * *changed counts samples that are not what they were, and *first is the first of them.
 * A quick dataset has no hashes of bytes: only files that were changed or removed are found.
 */
WEKA_MUST_CHECK int weka_dataset_verify(struct weka_dataset *dataset,
					const struct weka_progress *progress, uint64_t *changed,
					uint64_t *first);

/* Removes a version; 0: all versions and the name.  The samples' files stay. */
WEKA_MUST_CHECK int weka_dataset_drop(struct weka_client *client, const char *name,
				      uint32_t version);

/* ---- epoch streams --------------------------------------------------------------- */

/* The sample at a position (below `count`) of an epoch's order: PROTOCOL.md 12. */
uint64_t weka_order(uint64_t count, uint64_t seed, uint64_t epoch, uint64_t position);

#define WEKA_BY_CLASS  1u
#define WEKA_BY_SAMPLE 2u
/*
 * Draws samples by weight.  In each round of as many positions as the weights have in sum, a class
 * (or a sample) comes exactly as often as its weight says, in an order that only seed and epoch
 * decide; and each sample of a class comes once before any of that class comes twice.  With weights
 * that are all 1, classes are balanced.  Cursors, ranks and batches are as without weights.
 */
struct weka_weights {
	uint32_t by; /* WEKA_BY_CLASS, WEKA_BY_SAMPLE */
	uint32_t reserved0;
	const uint32_t
		*weight; /* of each label, or sample; NULL: 1 each; read by weka_stream_open() */
	uint64_t count;  /* of them: all classes, or all samples, of the dataset */
	uint64_t length; /* positions of the epoch; 0: as many as the dataset has samples */
	uint64_t reserved[2];
};

#define WEKA_IN_ORDER  1u /* do not shuffle: sample i is at position i */
#define WEKA_DROP_LAST 2u /* leave out the last step if it is not full for every rank */
struct weka_epoch {
	uint64_t seed;
	uint64_t epoch; /* another number is another order */
	uint32_t rank;  /* below world */
	uint32_t world; /* ranks; 0: 1 */
	uint32_t batch; /* samples of one batch of this rank, 1 .. WEKA_STREAM_BATCH_MAX */
	uint32_t ahead; /* batches that are read ahead; 0: 4 */
	uint32_t flags;
	uint32_t reserved0;
	uint64_t timeout_ns;    /* of a request, as weka_req.timeout_ns */
	struct weka_pool *pool; /* where batches are: weka_pool.h; NULL: the library's own */
	const struct weka_weights *weights; /* NULL: each sample comes once */
	uint64_t reserved[2];
};

/* A place between two steps of an epoch, to be saved with the model.  It knows dataset, seed and
 * epoch, but neither rank nor world nor batch, so it is the same for all ranks. */
struct weka_cursor {
	uint8_t bytes[64];
};

/* A batch.  The library owns it, and the caller reads it, until weka_stream_release(). */
struct weka_batch {
	struct weka_lease *lease;           /* where all data is; NULL: no bytes */
	const struct weka_read_item *items; /* data, got_bytes and status of each sample */
	const uint64_t *samples;            /* their numbers in the dataset */
	const uint32_t *labels;             /* WEKA_NO_LABEL: none */
	uint64_t step;                      /* from 0 on, since the stream was opened */
	uint32_t count;                     /* 0: fewer samples than ranks were left */
	uint32_t failed;                    /* items whose status is not 0 */
};

/* Since weka_stream_open().  Where the time went while the consumer waited: */
struct weka_stream_stats {
	uint32_t size_bytes; /* sizeof(struct weka_stream_stats): set it */
	uint32_t reserved0;
	uint64_t batches;
	uint64_t samples;
	uint64_t bytes;
	uint64_t open_ns;   /* the stream's age                                      */
	uint64_t waited_ns; /* in weka_stream_next(), for bytes                      */
	/* ... of that, with fewer than `ahead` batches under way, since the pool or the limit of
	 * requests was too small; and the rest, as the requests spent their time (weka_req) */
	uint64_t waited_short_ns;
	uint64_t waited_queue_ns;
	uint64_t waited_network_ns;
	uint64_t waited_appliance_ns;
	uint64_t waited_drive_ns;
	uint64_t manifest_ns; /* reading parts of the manifest */
};

#define WEKA_VERDICT_BYTES 160u

/**
 * weka_stream_open - begin an epoch, or continue it at a cursor
 *
 * Owns:    *out until weka_stream_close(), which must come before weka_close() of the client.  It
 *          keeps what it needs of the dataset, which may be closed before.
 * Errors:  -EINVAL (too many ranks, a rank that is not below world, a batch of 0 or too many
 *          samples; weights that do not fit the dataset; a cursor that is damaged, or of a newer
 *          format), -ESTALE (the cursor is of another dataset or version, seed, epoch, order, or
 *          of other weights), -E2BIG (weights of more than 2^48 in sum), and with weights by class
 *          those of weka_dataset_sample().
 */
WEKA_MUST_CHECK int weka_stream_open(struct weka_client *client, struct weka_dataset *dataset,
				     const struct weka_epoch *epoch,
				     const struct weka_cursor *cursor, struct weka_stream **out);

/**
 * weka_stream_next - the next batch, which was read ahead
 *
 * After an error nothing is lost: the next call tries the same batch again.
 *
 * Owns:    *out until weka_stream_release(); several may be held at once.
 * Returns: 1 and *out; 0 at the end of the epoch.
 * Errors:  -EAGAIN (no memory is left in the pool: release batches or leases), -EMSGSIZE (the batch
 *          is larger than the pool), -EBUSY (another thread waits in this call: weka_set_pause()),
 *          -ESTALE (the stream was closed meanwhile), and those of a request: -ETIMEDOUT,
 *          -ENOTCONN, ...
 *          Items have a status of their own: -ESTALE (the file was changed, replaced or removed),
 *          -EMSGSIZE (the sample is larger than WEKA_READ_MAX: read it in pieces, by its path),
 *          -EIO, -EACCES, ...
 * Thread:  the client's; waits.  weka_reap() never returns the stream's own requests.
 */
WEKA_MUST_CHECK int weka_stream_next(struct weka_stream *stream, struct weka_batch **out);
/* Gives a batch back, with its memory.  Errors: -EINVAL (not held: it was given back before). */
int weka_stream_release(struct weka_stream *stream, struct weka_batch *batch);
/* The place after the last batch that weka_stream_next() returned. */
int weka_stream_cursor(const struct weka_stream *stream, struct weka_cursor *out);
/* Fills in *out, up to its size_bytes. */
int weka_stream_get_stats(const struct weka_stream *stream, struct weka_stream_stats *out);
/**
 * weka_stream_verdict - say in a line why the consumer waited, if it did
 *
 * Such as "starved 31 % of 12.0 s: drives 84 %, network 11 %, appliance 5 %", or "not starved: it
 * waited 0.4 % of 12.0 s".  The first cause named is the one to work on.
 */
int weka_stream_verdict(const struct weka_stream *stream, char line[WEKA_VERDICT_BYTES]);
/* Ends requests and gives back all batches, held ones too.  NULL is fine. */
void weka_stream_close(struct weka_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
