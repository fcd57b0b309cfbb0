/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A directory, entry by entry, fetched in pages. */
#include "client-lib/client_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_ENTRIES 512u
#define PAGE_BYTES   (128u << 10)
#define PAGE_LEAST   (16u << 10)

struct weka_dir {
	struct weka_client *client;
	struct weka_lease *lease;
	struct weka_ref ref;
	struct weka_cookie cookie;
	struct weka_entry *entries;
	uint32_t count;
	uint32_t at;
	bool at_end;
	char name[WEKA_NAME_MAX + 1]; /* name of the last entry returned */
	char path[];                  /* ref.name's */
};

static int page_fetch(struct weka_dir *d)
{
	struct weka_window window = { .lease = d->lease, .size_bytes = d->lease->size_bytes };
	struct weka_client *c = d->client;
	struct weka_req req = { 0 };
	int err;

	ASSERT(d->lease && d->at == d->count && !d->at_end);
	err = weka_submit_list(c, &req, &d->ref, &d->cookie, d->entries, PAGE_ENTRIES, &window);
	err = client__run(c, &req, err, "list", d->path[0] ? d->path : "a handle");
	if (err)
		return err;
	d->count = req.count;
	ASSERT(d->count <= PAGE_ENTRIES);
	d->at = 0;
	d->at_end = req.length_bytes == 0;
	if (d->count == 0 && !d->at_end) /* else it would never end */
		return client__fail(c, -EPROTO, "list", d->path[0] ? d->path : "a handle");
	return 0;
}

static int list(struct weka_client *c, const struct weka_ref *dir, struct weka_dir **out)
{
	struct fab_name name;
	struct weka_dir *d;
	int err = client__name(dir, &name);

	if (err)
		return client__fail(c, err, "list", "a directory");
	d = calloc(1, sizeof(*d) + name.name_bytes + 1);
	if (!d)
		return client__fail(c, -ENOMEM, "list", "a directory");
	d->client = c;
	d->ref = *dir;
	memcpy(d->path, name.name ? name.name : "", name.name_bytes);
	ASSERT(d->path[name.name_bytes] == 0);
	d->ref.name = name.name_bytes ? d->path : NULL;
	d->ref.name_bytes = name.name_bytes;
	d->entries = calloc(PAGE_ENTRIES, sizeof(*d->entries));
	err = d->entries ? client__lease_some(c, PAGE_BYTES, PAGE_LEAST, &d->lease) : -ENOMEM;
	if (err && d->entries)
		err = client__fail_said(c, err, "list", d->path);
	else if (err)
		err = client__fail(c, err, "list", d->path);
	else
		err = page_fetch(d);
	if (err) {
		weka_list_end(d);
		return err;
	}
	*out = d;
	return 0;
}

int weka_list(struct weka_client *c, const struct weka_ref *dir, struct weka_dir **out)
{
	CLIENT_NEED(c, dir);
	CLIENT_NEED(c, out);
	return CLIENT_BEGUN(c, list(c, dir, out));
}

static int list_next(struct weka_dir *d, struct weka_entry *entry)
{
	int err;

	ASSERT(d->at <= d->count && d->count <= PAGE_ENTRIES);
	if (d->at == d->count) {
		if (d->at_end)
			return 0;
		err = page_fetch(d);
		if (err || d->count == 0)
			return err;
	}
	*entry = d->entries[d->at++];
	ASSERT(entry->name_bytes > 0 && entry->name_bytes <= WEKA_NAME_MAX);
	memcpy(d->name, entry->name, entry->name_bytes);
	d->name[entry->name_bytes] = 0;
	entry->name = d->name;
	return 1;
}

int weka_list_next(struct weka_dir *d, struct weka_entry *entry)
{
	if (!d)
		return client__stray_fail(-EINVAL, "weka_list_next: the listing is NULL");
	CLIENT_NEED(d->client, entry);
	return CLIENT_BEGUN(d->client, list_next(d, entry));
}

void weka_list_end(struct weka_dir *d)
{
	if (!d)
		return;
	if (d->lease)
		weka_release(d->client, d->lease);
	free(d->entries);
	free(d);
}
