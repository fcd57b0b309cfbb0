/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Makes a new version of a dataset: walk, label, hash, write.
 *
 *    walk ---> files, sorted ---> (records) ---> manifest in memory ---> hash: reads all
 *                                                                          |
 *                            DATASETS/NAME/N <--- written at once <--------'
 *
 * While it is hashed the manifest is a dataset like one that was opened, whose pages all lie in one
 * piece of memory.  A file that changes between the walk and its read is noticed by its state.
 */
#include "client-lib/dataset/dataset_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VERSIONS_TRIED 16u /* when others make versions at the same time */

struct maker {
	struct weka_client *client;
	const struct weka_dataset_make *how;
	struct dataset__files files;
	struct weka_dataset *d;
	uint32_t class_count;
};

static const char *path_of(const struct maker *m, uint64_t i)
{
	return m->files.text + m->files.file[i].path_at;
}

static const char *member_of(const struct maker *m, uint64_t i)
{
	const uint64_t at = m->files.file[i].member_at;

	return at == DATASET__WHOLE ? "" : m->files.text + at;
}

/* ---- labels ------------------------------------------------------------------------------ */

/* The first directory of a path below the dataset's, and its length; 0: it has none. */
static uint32_t class_of(const struct maker *m, uint64_t i, const char **out)
{
	const char *below = path_of(m, i) + m->files.root_bytes, *slash = strchr(below, '/');

	ASSERT(strlen(path_of(m, i)) > m->files.root_bytes);
	*out = below;
	return slash ? (uint32_t)(slash - below) : 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Paths are sorted, so those of one directory follow each other.  -ENODATA: one has none. */
static int classes_find(struct maker *m, char **names)
{
	const char *last = NULL, *name;
	uint32_t last_bytes = 0;

	for (uint64_t i = 0; i < m->files.count; i++) {
		uint32_t bytes = class_of(m, i, &name);

		if (bytes == 0)
			return -ENODATA;
		if (last && bytes == last_bytes && memcmp(name, last, bytes) == 0)
			continue;
		if (m->class_count == DATASET__LABELS_MAX)
			return -ENODATA;
		if (names) {
			names[m->class_count] = strndup(name, bytes);
			if (!names[m->class_count])
				return -ENOMEM;
		}
		m->class_count++;
		last = name;
		last_bytes = bytes;
	}
	return 0;
}

static void names_free(char **names, uint32_t count)
{
	for (uint32_t i = 0; names && i < count; i++)
		free(names[i]);
	free(names);
}

static int names_join(struct weka_dataset *d, char **names, uint32_t count)
{
	uint64_t bytes = 0, at = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += strlen(names[i]) + 1;
	if (bytes > DATASET__CLASSES_MAX)
		return dataset__fail(d, -E2BIG, "the names of its classes are too long together");
	d->classes = malloc(bytes + 1);
	if (!d->classes)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		memcpy(d->classes + at, names[i], strlen(names[i]) + 1);
		at += strlen(names[i]) + 1;
	}
	d->header.classes = count;
	d->header.classes_bytes = bytes;
	return 0;
}

/* The classes, sorted by name as ImageFolder does, in the dataset's memory. */
static int classes_make(struct maker *m)
{
	char **names;
	int err = -ENODATA;

	if (!(m->how->flags & WEKA_DATASET_NO_LABEL))
		err = classes_find(m, NULL);
	if (err == -ENODATA) /* no labels */
		return names_join(m->d, NULL, 0);
	names = calloc(m->class_count + 1, sizeof(*names));
	m->class_count = 0;
	err = names ? classes_find(m, names) : -ENOMEM;
	if (!err) {
		qsort(names, m->class_count, sizeof(*names), by_name);
		err = names_join(m->d, names, m->class_count);
	}
	names_free(names, m->class_count);
	return err;
}

static int class_compare(const void *key, const void *at)
{
	return strcmp(key, *(const char *const *)at);
}

static uint32_t label_of(const struct maker *m, uint64_t i)
{
	const struct weka_dataset *d = m->d;
	char name[WEKA_NAME_MAX + 1];
	const char *from, **at;
	uint32_t bytes;

	if (d->header.classes == 0)
		return WEKA_NO_LABEL;
	bytes = class_of(m, i, &from);
	ASSERT(bytes > 0 && bytes < sizeof(name));
	memcpy(name, from, bytes);
	name[bytes] = 0;
	at = bsearch(name, d->labels, d->header.classes, sizeof(*d->labels), class_compare);
	ASSERT(at);
	return (uint32_t)(at - d->labels);
}

/* ---- the manifest ------------------------------------------------------------------------ */

static int places_set(struct maker *m)
{
	struct dataset__header *h = &m->d->header;

	ASSERT(m->files.count > 0 && h->names_bytes == 0);
	h->samples = m->files.count;
	for (uint64_t i = 0; i < m->files.count; i++) {
		const uint64_t bytes = m->files.file[i].size_bytes;

		h->names_bytes += strlen(path_of(m, i)) + strlen(member_of(m, i));
		if (add_overflows(h->total_bytes, bytes, &h->total_bytes))
			return client__say(m->client, -EFBIG,
					   "the samples have 2^64 bytes or more together");
		h->largest_bytes = max_u64(h->largest_bytes, bytes);
	}
	h->names_at = DATASET__HEADER_BYTES + h->samples * DATASET__RECORD_BYTES;
	h->classes_at = h->names_at + h->names_bytes;
	h->file_bytes = h->classes_at + h->classes_bytes;
	h->root_bytes = m->files.root_bytes;
	h->is_quick = m->how->flags & WEKA_DATASET_QUICK;
	h->created_ns = (int64_t)clock_wall_ns();
	return 0;
}

static int pages_make(struct weka_dataset *d)
{
	int err = dataset__pages(d);

	if (err)
		return err;
	d->whole = calloc(d->page_count, (size_t)1 << d->page_shift);
	if (!d->whole)
		return dataset__fail(d, -ENOMEM, "no memory for its manifest");
	for (uint64_t i = 0; i < d->page_count; i++)
		d->pages[i] = d->whole + (i << d->page_shift);
	return 0;
}

static void records_make(struct maker *m)
{
	const struct dataset__header *h = &m->d->header;
	uint8_t *to = m->d->whole + DATASET__HEADER_BYTES;
	uint64_t name_at = 0;

	for (uint64_t i = 0; i < m->files.count; i++) {
		const struct dataset__file *f = &m->files.file[i];
		const char *path = path_of(m, i), *member = member_of(m, i);
		const struct dataset__record r = {
			.handle = f->handle,
			.ctime_ns = f->ctime_ns,
			.offset_bytes = f->offset_bytes,
			.length_bytes = f->size_bytes,
			.name_at = name_at,
			.name_bytes = (uint32_t)strlen(path),
			.member_bytes = (uint32_t)strlen(member),
			.label = label_of(m, i),
		};

		dataset__record_build(to + i * DATASET__RECORD_BYTES, &r);
		memcpy(m->d->whole + h->names_at + name_at, path, r.name_bytes);
		name_at += r.name_bytes;
		memcpy(m->d->whole + h->names_at + name_at, member, r.member_bytes);
		name_at += r.member_bytes;
	}
	ASSERT(name_at == h->names_bytes);
	memcpy(m->d->whole + h->classes_at, m->d->classes, h->classes_bytes);
}

/* Keeps a sample's hash in its record; a sample that cannot be read is no part of a dataset. */
static int sample_seen(void *arg, uint64_t index, int status, uint64_t check)
{
	struct maker *m = arg;
	struct dataset__record r;
	int err;

	ASSERT(index < m->files.count && status <= 0);
	if (status)
		return client__say(m->client, status, "%.300s: %s", path_of(m, index),
				   status == -ESTALE
					   ? "changed while the dataset was made: begin again"
					   : strerror(-status));
	err = dataset__record(m->d, index, &r);
	if (err)
		return err;
	r.check = check;
	dataset__record_build(m->d->whole + DATASET__HEADER_BYTES + index * DATASET__RECORD_BYTES,
			      &r);
	return 0;
}

/* ---- the file ---------------------------------------------------------------------------- */

static int dirs_make(struct weka_client *c, const char *name)
{
	static const char *const above[] = { "/.weka", WEKA_DATASETS };
	char path[DATASET__PATH_BYTES];
	int err = 0;

	for (uint32_t i = 0; i < 2 && (!err || err == -EEXIST); i++)
		err = weka_mkdir(c, above[i], 0755);
	dataset__place(path, name, 0);
	if (!err || err == -EEXIST)
		err = weka_mkdir(c, path, 0755);
	return err == -EEXIST ? 0 : err;
}

/* Two that make a version at once get two versions: the file must not exist yet. */
static int version_write(struct maker *m)
{
	const struct weka_create create = { .mode = 0444, .flags = WEKA_EXCL };
	struct weka_dataset *d = m->d;
	char path[DATASET__PATH_BYTES];
	int err = -EEXIST;

	for (uint32_t i = 0; i < VERSIONS_TRIED && err == -EEXIST; i++) {
		err = dataset__newest(m->client, d->name, &d->header.version);
		if (err)
			return err;
		if (d->header.version == UINT32_MAX)
			return dataset__fail(d, -EOVERFLOW, "it has no number left for a version");
		d->header.version++;
		dataset__header_build(d->whole, &d->header);
		dataset__place(path, d->name, d->header.version);
		err = weka_write_file(m->client, path, d->whole, d->header.file_bytes, &create);
	}
	return err;
}

static int make(struct maker *m, const char *path)
{
	struct dataset__hash h = { .is_read = !(m->how->flags & WEKA_DATASET_QUICK),
				   .progress = m->how->progress,
				   .each = sample_seen,
				   .arg = m };
	int err = dataset__walk(m->client, path, m->how->glob, &m->files);

	if (!err && m->how->records)
		err = dataset__records(m->client, m->how->records, h.is_read, &m->files);
	if (err)
		return err;
	if (m->files.count == 0)
		return client__say(m->client, -ENODATA, "%.300s: no file below it %s", path,
				   m->how->records ? "has records"
				   : m->how->glob  ? "matches"
						   : "can be a sample");
	if (m->files.count > DATASET__SAMPLES_MAX)
		return dataset__fail(m->d, -EOVERFLOW, "too many files");
	err = classes_make(m);
	if (!err)
		err = dataset__labels(m->d);
	if (!err)
		err = places_set(m);
	if (!err)
		err = pages_make(m->d);
	if (err == -ENOMEM)
		return dataset__fail(m->d, err, "no memory for its manifest");
	if (err)
		return err;
	records_make(m);
	err = dataset__hash(m->d, &h);
	if (err)
		return err;
	memcpy(m->d->header.content, h.content, sizeof(h.content));
	err = dirs_make(m->client, m->d->name);
	return err ? err : version_write(m);
}

int weka_dataset_create(struct weka_client *c, const char *name, const char *path,
			const struct weka_dataset_make *how, struct weka_dataset_info *info)
{
	static const struct weka_dataset_make plain;
	struct maker m = { .client = c, .how = how ? how : &plain };
	const char *wrong;
	int err;

	CLIENT_NEED(c, name);
	CLIENT_NEED(c, path);
	wrong = dataset__name_wrong(name);
	CLIENT_REFUSE(c, wrong, -EINVAL, wrong);
	CLIENT_REFUSE(c, m.how->flags & ~(WEKA_DATASET_QUICK | WEKA_DATASET_NO_LABEL), -EINVAL,
		      "a flag that does not exist");
	for (uint32_t i = 0; i < ARRAY_LEN(m.how->reserved); i++)
		CLIENT_REFUSE(c, m.how->reserved[i] || m.how->reserved0, -EINVAL,
			      "a reserved field is not 0");
	wrong = m.how->records ? dataset__records_wrong(m.how->records) : NULL;
	CLIENT_REFUSE(c, wrong, -EINVAL, wrong);
	m.d = calloc(1, sizeof(*m.d));
	CLIENT_REFUSE(c, !m.d, -ENOMEM, "no memory");
	dataset__use(m.d);
	m.d->client = c;
	memcpy(m.d->name, name, strlen(name));
	err = CLIENT_BEGUN(c, make(&m, path));
	if (!err && info)
		err = weka_dataset_get_info(m.d, info);
	dataset__files_free(&m.files);
	dataset__leave(m.d);
	return err;
}

/* ---- removal ----------------------------------------------------------------------------- */

static int drop(struct weka_client *c, const char *name, uint32_t version)
{
	char path[DATASET__PATH_BYTES];

	dataset__place(path, name, version);
	return version ? weka_unlink(c, path) : weka_rmtree(c, path);
}

int weka_dataset_drop(struct weka_client *c, const char *name, uint32_t version)
{
	const char *wrong;

	CLIENT_NEED(c, name);
	wrong = dataset__name_wrong(name);
	CLIENT_REFUSE(c, wrong, -EINVAL, wrong);
	return CLIENT_BEGUN(c, drop(c, name, version));
}
