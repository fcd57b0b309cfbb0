/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The content hash of a dataset: PROTOCOL.md 11.
 *
 *   content = SHA-256 of, for each sample: path below the directory, length, label, SHA-256
 *             of its bytes; and then the names of the classes
 *
 * The samples are read by an epoch stream in order, which keeps the appliance busy while this
 * thread computes.  So two datasets of the same bytes, names and labels have the same content,
 * wherever they lie.  A quick one has the time of the file's last change in place of the bytes.
 */
#include "client-lib/dataset/dataset_internal.h"

#include "base/le.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES  (8u << 20)
#define PIECE_BYTES  (1u << 20)
#define QUICK_REPORT 4096u /* samples between two reports when nothing is read */

struct hasher {
	struct weka_dataset *dataset;
	struct dataset__hash *h;
	struct weka_stream *stream; /* what it reads */
	EVP_MD_CTX *all;
	EVP_MD_CTX *one;
	uint8_t *piece; /* of a sample that is too large for a batch */
	uint64_t done;
};

static int broken(const struct hasher *k)
{
	return dataset__fail(k->dataset, -ENOMEM, "SHA-256 failed: no memory?");
}

static bool add_number(EVP_MD_CTX *ctx, uint64_t number)
{
	const le64 bytes = le64_of(number);

	return EVP_DigestUpdate(ctx, &bytes, sizeof(bytes));
}

/* The sample's record, its path and behind a NUL its name in that file. */
static int name_get(struct hasher *k, uint64_t index, struct dataset__record *r, char *name)
{
	int err = dataset__record(k->dataset, index, r);

	if (!err)
		err = dataset__path(k->dataset, r, name);
	if (err)
		return err;
	ASSERT(r->name_bytes > k->dataset->header.root_bytes);
	name[r->name_bytes] = 0;
	return dataset__member(k->dataset, r, name + r->name_bytes + 1);
}

/* Makes room if the batches that were read ahead hold the whole pool.  False: the error stays. */
static bool try_again(struct hasher *k, int err)
{
	return err == -EAGAIN && k->stream && dataset__stream_shrink(k->stream);
}

/* Adds a sample to the whole. */
static int sample_add(struct hasher *k, uint64_t index, const uint8_t *digest)
{
	const uint32_t root = k->dataset->header.root_bytes;
	char name[WEKA_PATH_MAX + 1 + WEKA_MEMBER_MAX];
	struct dataset__record r;
	int err = name_get(k, index, &r, name);
	uint32_t bytes;
	bool ok;

	if (try_again(k, err))
		err = name_get(k, index, &r, name);
	if (err)
		return err;
	bytes = r.name_bytes - root + (r.member_bytes ? r.member_bytes + 1 : 0);
	ok = add_number(k->all, bytes) && EVP_DigestUpdate(k->all, name + root, bytes) &&
	     add_number(k->all, r.length_bytes) && add_number(k->all, r.label);
	if (ok && k->dataset->header.is_quick)
		ok = add_number(k->all, (uint64_t)r.ctime_ns);
	else if (ok)
		ok = EVP_DigestUpdate(k->all, digest, 32);
	return ok ? 0 : broken(k);
}

/* A sample that no window holds, piece by piece; it must be the same file before and after. */
static int large_read(struct hasher *k, uint64_t index, int *status)
{
	struct weka_client *c = k->dataset->client;
	char path[WEKA_PATH_MAX + 1 + WEKA_MEMBER_MAX];
	struct dataset__record r;
	struct weka_attr a;
	int err = name_get(k, index, &r, path);
	uint64_t at = 0;

	if (err)
		return err;
	if (!EVP_DigestInit_ex2(k->one, NULL, NULL))
		return broken(k);
	*status = weka_stat(c, path, &a);
	if (*status == 0 && a.ctime_ns != r.ctime_ns)
		*status = -ESTALE;
	while (*status == 0 && at < r.length_bytes) {
		int64_t got =
			weka_pread(c, &a.handle, k->piece,
				   min_u64(PIECE_BYTES, r.length_bytes - at), r.offset_bytes + at);

		if (got > 0 && !EVP_DigestUpdate(k->one, k->piece, (size_t)got))
			return broken(k);
		*status = got > 0 ? 0 : got < 0 ? (int)got : -ESTALE;
		at += got > 0 ? (uint64_t)got : 0;
	}
	if (*status == 0)
		*status = weka_stat(c, path, &a);
	if (*status == 0 && a.ctime_ns != r.ctime_ns)
		*status = -ESTALE;
	return 0;
}

static int item_add(struct hasher *k, const struct weka_batch *batch, uint32_t i)
{
	const struct weka_read_item *item = &batch->items[i];
	const uint64_t index = batch->samples[i];
	int status = item->status, err = 0;
	uint8_t digest[32] = { 0 };
	uint64_t check;

	ASSERT(index < k->dataset->header.samples && index == k->done + i);
	if (!EVP_DigestInit_ex2(k->one, NULL, NULL))
		return broken(k);
	if (status == -EMSGSIZE) {
		err = large_read(k, index, &status);
		if (try_again(k, err ? err : status))
			err = large_read(k, index, &status);
	} else if (status == 0 && !EVP_DigestUpdate(k->one, item->data, item->got_bytes)) {
		return broken(k);
	}
	if (err)
		return err;
	if (!EVP_DigestFinal_ex(k->one, digest, NULL))
		return broken(k);
	memcpy(&check, digest, sizeof(check)); /* no number, but the bytes as they are */
	err = k->h->each(k->h->arg, index, status, check);
	return err ? err : sample_add(k, index, digest);
}

static int report(const struct hasher *k)
{
	const struct weka_progress *p = k->h->progress;

	ASSERT(k->done <= k->dataset->header.samples);
	if (p && p->report(p->user, k->done, k->dataset->header.samples))
		return dataset__fail(k->dataset, -ECANCELED, "stopped");
	return 0;
}

static int batch_add(struct hasher *k, const struct weka_batch *batch)
{
	int err = 0;

	for (uint32_t i = 0; i < batch->count && !err; i++)
		err = item_add(k, batch, i);
	k->done += batch->count;
	return err ? err : report(k);
}

/* Returns a number of samples with which several batches fit the pool. */
static uint32_t batch_samples(struct weka_dataset *d)
{
	struct weka_limits limits = { .size_bytes = sizeof(limits) };
	uint64_t bytes = BATCH_BYTES, each;

	if (weka_get_limits(d->client, &limits) == 0)
		bytes = min_u64(bytes, limits.pool_bytes / 4);
	each = align_up(min_u64(d->header.largest_bytes, WEKA_READ_MAX) + 2 * WEKA_BLOCK,
			WEKA_BLOCK);
	return (uint32_t)max_u64(1, min_u64(bytes / each, 256));
}

static int read_all(struct hasher *k)
{
	const struct weka_epoch epoch = { .batch = batch_samples(k->dataset),
					  .flags = WEKA_IN_ORDER };
	struct weka_batch *batch;
	int rc = weka_stream_open(k->dataset->client, k->dataset, &epoch, NULL, &k->stream);

	if (rc)
		return rc;
	while ((rc = weka_stream_next(k->stream, &batch)) == 1) {
		rc = batch_add(k, batch);
		if (!rc)
			rc = weka_stream_release(k->stream, batch);
		if (rc)
			break;
	}
	weka_stream_close(k->stream);
	k->stream = NULL;
	return rc;
}

/* Nothing is read: names, lengths and times are all that counts. */
static int look_at_all(struct hasher *k)
{
	int err = 0;

	ASSERT(k->dataset->header.is_quick);
	for (uint64_t i = 0; i < k->dataset->header.samples && !err; i++) {
		err = k->h->each(k->h->arg, i, 0, 0);
		if (!err)
			err = sample_add(k, i, NULL);
		k->done++;
		if (!err && k->done % QUICK_REPORT == 0)
			err = report(k);
	}
	return err;
}

static int hash(struct hasher *k)
{
	const struct dataset__header *h = &k->dataset->header;
	int err;

	if (!k->all || !k->one || !k->piece || !EVP_DigestInit_ex2(k->all, EVP_sha256(), NULL) ||
	    !EVP_DigestInit_ex2(k->one, EVP_sha256(), NULL))
		return broken(k);
	err = k->h->is_read ? read_all(k) : look_at_all(k);
	if (err)
		return err;
	if (!EVP_DigestUpdate(k->all, k->dataset->classes, h->classes_bytes) ||
	    !EVP_DigestFinal_ex(k->all, k->h->content, NULL))
		return broken(k);
	return 0;
}

int dataset__hash(struct weka_dataset *d, struct dataset__hash *h)
{
	struct hasher k = { .dataset = d,
			    .h = h,
			    .all = EVP_MD_CTX_new(),
			    .one = EVP_MD_CTX_new(),
			    .piece = malloc(PIECE_BYTES) };
	int err = hash(&k);

	EVP_MD_CTX_free(k.all);
	EVP_MD_CTX_free(k.one);
	free(k.piece);
	return err;
}

/* ---- the check ----------------------------------------------------------------------------- */

struct check {
	struct weka_dataset *dataset;
	uint64_t changed;
	uint64_t first;
};

/* Does a status say nothing of the sample, but only of the way to it? */
static bool is_of_the_way(int status)
{
	static const int of_the_way[] = { -ENOTCONN, -ETIMEDOUT, -ECONNRESET, -EAGAIN,
					  -ENOMEM,   -ECANCELED, -EBUSY };

	for (uint32_t i = 0; i < ARRAY_LEN(of_the_way); i++)
		if (status == of_the_way[i])
			return true;
	return false;
}

static int compare(void *arg, uint64_t index, int status, uint64_t check)
{
	struct check *v = arg;
	struct dataset__record r;
	int err = dataset__record(v->dataset, index, &r);

	if (err)
		return err;
	if (is_of_the_way(status))
		return client__fail(v->dataset->client, status, "read a sample of dataset",
				    v->dataset->name);
	if (status || (r.check != check && !v->dataset->header.is_quick)) {
		v->first = v->changed ? v->first : index;
		v->changed++;
	}
	return 0;
}

static int verify(struct check *v, struct dataset__hash *h)
{
	struct weka_dataset *d = v->dataset;
	int err = dataset__hash(d, h);

	if (!err && v->changed == 0 && memcmp(h->content, d->header.content, 32) != 0)
		return dataset__fail(d, -EPROTO,
				     "its list is not the one that its content hash was made of");
	return err;
}

int weka_dataset_verify(struct weka_dataset *d, const struct weka_progress *progress,
			uint64_t *changed, uint64_t *first)
{
	struct check v = { .dataset = d };
	struct dataset__hash h = { true, progress, compare, &v, { 0 } };
	int err;

	if (!d)
		return client__stray_fail(-EINVAL, "weka_dataset_verify: the dataset is NULL");
	CLIENT_NEED(d->client, changed);
	CLIENT_NEED(d->client, first);
	dataset__use(d); /* it may be closed during a pause */
	err = CLIENT_BEGUN(d->client, verify(&v, &h));
	dataset__leave(d);
	*changed = v.changed;
	*first = v.first;
	return err;
}
