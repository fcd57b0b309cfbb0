/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An open dataset: samples by number, out of a manifest of any size.
 *
 *    manifest  |  page 0  |  page 1  |  page 2  | ...       read when somebody looks at them
 *    pages[]        *         NULL        *                 at most kept_bytes in memory
 *
 * A page that has to go is the next one that a hand comes by: the samples of a shuffled epoch are
 * looked at in no order, so none is worth more than another.
 *
 *   U1 -> U2   a user's last look at the dataset comes before another one frees it
 *
 * Invariants:
 *  (1) pages_in counts the pages in memory, which are at most kept_bytes, unless the dataset is
 *      being made.
 *  (2) The file is the one that was opened: it is read by its handle.  A version is never written
 *      again; if somebody does, a sample of it still has the state of its file, so no other bytes
 *      are taken for it [test_app_dataset:a_manifest_that_was_tampered_with_is_refused].
 */
#include "client-lib/dataset/dataset_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int dataset__fail(struct weka_dataset *d, int err, const char *what)
{
	if (d->header.version)
		return client__say(d->client, err, "dataset %s, version %u: %s", d->name,
				   d->header.version, what);
	return client__say(d->client, err, "dataset %s: %s", d->name, what);
}

/* ---- names ------------------------------------------------------------------------------- */

const char *dataset__name_wrong(const char *name)
{
	size_t length = strnlen(name, WEKA_DATASET_NAME_MAX + 1);

	if (length == 0 || length > WEKA_DATASET_NAME_MAX)
		return "the name of a dataset has 1 to 100 bytes";
	if (name[0] == '.' || name[0] == '-' ||
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") !=
		    length)
		return "a dataset's name has only A-Z a-z 0-9 . _ - and begins with none of . -";
	return NULL;
}

void dataset__place(char to[DATASET__PATH_BYTES], const char *name, uint32_t version)
{
	int bytes = version ? snprintf(to, DATASET__PATH_BYTES, "%s/%s/%u", WEKA_DATASETS, name,
				       version)
			    : snprintf(to, DATASET__PATH_BYTES, "%s/%s", WEKA_DATASETS, name);

	ASSERT(bytes > 0 && (size_t)bytes < DATASET__PATH_BYTES);
}

/* A version's name is its number, without zeros before it. */
static uint32_t version_of(const struct weka_entry *e)
{
	char back[12];
	unsigned long number = strtoul(e->name, NULL, 10);

	if (number == 0 || number > UINT32_MAX)
		return 0;
	snprintf(back, sizeof(back), "%lu", number);
	return strcmp(back, e->name) == 0 ? (uint32_t)number : 0;
}

int dataset__newest(struct weka_client *c, const char *name, uint32_t *version)
{
	char path[DATASET__PATH_BYTES];
	struct weka_entry entry;
	struct weka_ref ref;
	struct weka_dir *dir;
	int rc;

	*version = 0;
	dataset__place(path, name, 0);
	ref = weka_ref_path(path);
	rc = weka_list(c, &ref, &dir);
	if (rc)
		return rc;
	while ((rc = weka_list_next(dir, &entry)) == 1)
		*version = max_u32(*version, version_of(&entry));
	weka_list_end(dir);
	return rc;
}

/* ---- pages ------------------------------------------------------------------------------- */

int dataset__pages(struct weka_dataset *d)
{
	const bool is_small = d->header.file_bytes <= DATASET__KEPT_BYTES;

	d->kept_bytes = DATASET__KEPT_BYTES;
	ASSERT(!d->pages && d->header.file_bytes >= DATASET__HEADER_BYTES);
	d->page_shift = is_small ? DATASET__SMALL_SHIFT : DATASET__LARGE_SHIFT;
	d->page_count = div_up(d->header.file_bytes, UINT64_C(1) << d->page_shift);
	d->pages = calloc(d->page_count, sizeof(*d->pages));
	return d->pages ? 0 : dataset__fail(d, -ENOMEM, "no memory for its table of pages");
}

static void page_drop(struct weka_dataset *d)
{
	ASSERT(d->pages_in > 0 && d->hand < d->page_count && !d->whole);
	while (!d->pages[d->hand])
		d->hand = (d->hand + 1) % d->page_count;
	free(d->pages[d->hand]);
	d->pages[d->hand] = NULL;
	d->pages_in--;
}

static int page_read(struct weka_dataset *d, uint64_t n)
{
	const uint64_t page_bytes = UINT64_C(1) << d->page_shift, at = n << d->page_shift;
	const uint64_t bytes = min_u64(page_bytes, d->header.file_bytes - at);
	uint8_t *page = malloc(page_bytes);
	uint64_t began = clock_now_ns();
	int64_t got;

	ASSERT(n < d->page_count && !d->pages[n] && bytes > 0);
	if (!page)
		return dataset__fail(d, -ENOMEM, "no memory for a part of its manifest");
	got = weka_pread(d->client, &d->file, page, bytes, at);
	d->manifest_ns += clock_now_ns() - began;
	if (got != (int64_t)bytes) {
		free(page);
		return got < 0 ? (int)got : dataset__fail(d, -EPROTO, "its manifest was cut");
	}
	if (d->pages[n]) { /* another call has read it during a pause */
		free(page);
		return 0;
	}
	if (d->pages_in << d->page_shift == d->kept_bytes)
		page_drop(d);
	d->pages[n] = page;
	d->pages_in++;
	ASSERT(d->pages_in << d->page_shift <= d->kept_bytes); /* (1) */
	return 0;
}

/* Copies bytes of the file, which lie in it. */
static int copy(struct weka_dataset *d, uint64_t at, uint32_t bytes, void *to)
{
	ASSERT(at + bytes <= d->header.file_bytes);
	while (bytes > 0) {
		const uint64_t page_bytes = UINT64_C(1) << d->page_shift;
		const uint64_t n = at >> d->page_shift, from = at & (page_bytes - 1);
		const uint32_t here = min_u32(bytes, (uint32_t)(page_bytes - from));

		ASSERT(n < d->page_count && here > 0);
		if (unlikely(!d->pages[n])) {
			int err = page_read(d, n);

			if (err)
				return err;
		}
		memcpy(to, d->pages[n] + from, here);
		to = (char *)to + here;
		at += here;
		bytes -= here;
	}
	return 0;
}

int dataset__record(struct weka_dataset *d, uint64_t index, struct dataset__record *out)
{
	uint8_t bytes[DATASET__RECORD_BYTES];
	const char *wrong;
	int err;

	ASSERT(index < d->header.samples);
	err = copy(d, DATASET__HEADER_BYTES + index * DATASET__RECORD_BYTES, sizeof(bytes), bytes);
	if (err)
		return err;
	wrong = dataset__record_parse(out, bytes, &d->header);
	return wrong ? dataset__fail(d, -EPROTO, wrong) : 0;
}

/* Copies a name.  With a NUL in it, its readers would see another one. */
static int name_copy(struct weka_dataset *d, uint64_t at, uint32_t bytes, char *to)
{
	int err = copy(d, at, bytes, to);

	if (err || !memchr(to, 0, bytes))
		return err;
	return dataset__fail(d, -EPROTO, "a path in its manifest has a NUL");
}

int dataset__path(struct weka_dataset *d, const struct dataset__record *r, char *to)
{
	ASSERT(r->name_bytes <= WEKA_PATH_MAX && r->name_at < d->header.names_bytes);
	return name_copy(d, d->header.names_at + r->name_at, r->name_bytes, to);
}

int dataset__member(struct weka_dataset *d, const struct dataset__record *r, char *to)
{
	ASSERT(r->member_bytes <= WEKA_MEMBER_MAX);
	return name_copy(d, d->header.names_at + r->name_at + r->name_bytes, r->member_bytes, to);
}

/* ---- opening ----------------------------------------------------------------------------- */

int dataset__labels(struct weka_dataset *d)
{
	const struct dataset__header *h = &d->header;
	uint64_t at = 0;

	if (dataset__classes_count(d->classes, h->classes_bytes) != h->classes)
		return dataset__fail(d, -EPROTO, "the names of its classes are damaged");
	d->labels = calloc(h->classes + 1, sizeof(*d->labels));
	if (!d->labels)
		return dataset__fail(d, -ENOMEM, "no memory for its classes");
	for (uint32_t i = 0; i < h->classes; i++) {
		d->labels[i] = d->classes + at;
		at += strlen(d->classes + at) + 1;
	}
	ASSERT(at == h->classes_bytes);
	return 0;
}

static int classes_read(struct weka_dataset *d)
{
	const struct dataset__header *h = &d->header;
	int err;

	ASSERT(!d->classes && h->classes_bytes <= DATASET__CLASSES_MAX);
	d->classes = malloc(h->classes_bytes + 1);
	if (!d->classes)
		return dataset__fail(d, -ENOMEM, "no memory for its classes");
	err = copy(d, h->classes_at, (uint32_t)h->classes_bytes, d->classes);
	return err ? err : dataset__labels(d);
}

/*
 * Are the handles in the manifest this client's?  Those of a key with a subtree or a user are good
 * for the client that got them only; then the samples are found by path.  The first, a middle and
 * the last sample decide, since any of them may be gone.
 */
static int handles_try(struct weka_dataset *d)
{
	static const uint32_t tries = 3;
	char path[3][WEKA_PATH_MAX + 1];
	struct weka_stat_item item[6] = { 0 };
	struct weka_req req = { 0 };
	int err = 0;

	for (uint32_t i = 0; i < tries && !err; i++) {
		struct dataset__record r;

		err = dataset__record(d, (d->header.samples - 1) * i / 2, &r);
		if (!err)
			err = dataset__path(d, &r, path[i]);
		if (err)
			return err;
		path[i][r.name_bytes] = 0;
		item[i].ref = weka_ref_handle(&r.handle);
		item[tries + i].ref = weka_ref_path(path[i]);
	}
	ASSERT(2 * tries <= ARRAY_LEN(item) && !d->by_path);
	err = weka_submit_stat(d->client, &req, item, 2 * tries, NULL);
	err = client__run(d->client, &req, err, "stat samples of the dataset", d->name);
	for (uint32_t i = 0; i < tries && !err; i++)
		d->by_path |= item[i].status == -ESTALE && item[tries + i].status == 0;
	for (uint32_t i = 0; i < tries && !err; i++)
		d->by_path &= item[i].status != 0;
	return err;
}

static int header_read(struct weka_dataset *d)
{
	uint8_t bytes[DATASET__HEADER_BYTES];
	const uint32_t version = d->header.version;
	char path[DATASET__PATH_BYTES];
	struct weka_attr attr;
	const char *wrong;
	int64_t got;
	int err;

	ASSERT(d->header.version > 0);
	dataset__place(path, d->name, d->header.version);
	err = weka_stat(d->client, path, &attr);
	if (err)
		return err == -ENOENT ? dataset__fail(d, err, "there is no such version") : err;
	d->file = attr.handle;
	got = weka_pread(d->client, &d->file, bytes, sizeof(bytes), 0);
	if (got < 0)
		return (int)got;
	if (got != (int64_t)sizeof(bytes))
		return dataset__fail(d, -EPROTO, "the file is no manifest");
	wrong = dataset__header_parse(&d->header, bytes, attr.size_bytes);
	if (!wrong && d->header.version != version)
		wrong = "its manifest is that of another version";
	d->header.version = version; /* for the line */
	return wrong ? dataset__fail(d, -EPROTO, wrong) : 0;
}

static int open_version(struct weka_dataset *d, uint32_t version)
{
	int err = 0;

	if (version == 0) {
		err = dataset__newest(d->client, d->name, &version);
		if (err == -ENOENT || (!err && version == 0))
			return dataset__fail(d, -ENOENT, "there is no such dataset");
		if (err)
			return err;
	}
	d->header.version = version;
	err = header_read(d);
	if (err)
		return err;
	err = dataset__pages(d);
	if (!err)
		err = classes_read(d);
	return err ? err : handles_try(d);
}

int weka_dataset_open(struct weka_client *c, const char *name, uint32_t version,
		      struct weka_dataset **out)
{
	struct weka_dataset *d;
	const char *wrong;
	int err;

	CLIENT_NEED(c, name);
	CLIENT_NEED(c, out);
	wrong = dataset__name_wrong(name);
	CLIENT_REFUSE(c, wrong, -EINVAL, wrong);
	d = calloc(1, sizeof(*d));
	CLIENT_REFUSE(c, !d, -ENOMEM, "no memory");
	dataset__use(d);
	d->client = c;
	memcpy(d->name, name, strlen(name));
	err = CLIENT_BEGUN(c, open_version(d, version));
	if (err) {
		dataset__leave(d);
		return err;
	}
	*out = d;
	return 0;
}

void dataset__use(struct weka_dataset *d)
{
	uint32_t users = atomic_fetch_add_explicit(&d->users, 1, memory_order_relaxed);

	ASSERT(users < UINT32_MAX);
}

void dataset__leave(struct weka_dataset *d)
{
	uint32_t users = atomic_fetch_sub_explicit(&d->users, 1, memory_order_acq_rel); /* U1, U2 */

	ASSERT(users > 0);
	if (users > 1)
		return;
	for (uint64_t i = 0; d->pages && !d->whole && i < d->page_count; i++)
		free(d->pages[i]);
	free(d->whole);
	free(d->pages);
	free(d->labels);
	free(d->classes);
	free(d);
}

void weka_dataset_close(struct weka_dataset *d)
{
	if (d)
		dataset__leave(d);
}

/* ---- what is in it ------------------------------------------------------------------------- */

int weka_dataset_get_info(const struct weka_dataset *d, struct weka_dataset_info *out)
{
	struct weka_dataset_info all = { .size_bytes = sizeof(all) };

	if (!d || !out || out->size_bytes < sizeof(out->size_bytes))
		return client__stray_fail(-EINVAL, "weka_dataset_get_info: NULL, or size_bytes 0");
	all.version = d->header.version;
	all.samples = d->header.samples;
	all.total_bytes = d->header.total_bytes;
	all.largest_bytes = d->header.largest_bytes;
	all.created_ns = d->header.created_ns;
	all.classes = d->header.classes;
	all.is_quick = d->header.is_quick;
	memcpy(all.content, d->header.content, sizeof(all.content));
	all.size_bytes = min_u32(out->size_bytes, sizeof(all));
	memcpy(out, &all, all.size_bytes);
	return 0;
}

const char *weka_dataset_class(const struct weka_dataset *d, uint32_t label)
{
	return d && label < d->header.classes ? d->labels[label] : NULL;
}

static int sample(struct weka_dataset *d, uint64_t index, struct weka_sample *out)
{
	struct dataset__record r;
	int err = dataset__record(d, index, &r);

	if (!err)
		err = dataset__path(d, &r, out->path);
	if (!err)
		err = dataset__member(d, &r, out->member);
	if (err)
		return err;
	out->path[r.name_bytes] = 0;
	out->member[r.member_bytes] = 0;
	out->offset_bytes = r.offset_bytes;
	out->size_bytes = r.length_bytes;
	out->check = r.check;
	out->label = r.label;
	out->reserved0 = 0;
	out->ctime_ns = r.ctime_ns;
	return 0;
}

int weka_dataset_sample(struct weka_dataset *d, uint64_t index, struct weka_sample *out)
{
	int err;

	if (!d)
		return client__stray_fail(-EINVAL, "weka_dataset_sample: the dataset is NULL");
	CLIENT_NEED(d->client, out);
	CLIENT_REFUSE(d->client, index >= d->header.samples, -ERANGE,
		      "the dataset has no sample of that number");
	dataset__use(d); /* it may be closed during a pause */
	err = CLIENT_BEGUN(d->client, sample(d, index, out));
	dataset__leave(d);
	return err;
}
