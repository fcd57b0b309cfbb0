/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files with holes: finds the data of the source, so that only data is moved.
 *
 *    source   | data |      hole      | data |   hole   |
 *             ^ next ^ data_end       ^ the next call moves `next` here
 *
 * The source of a write is a descriptor, that of a read is a file of the appliance.
 */
#define _GNU_SOURCE
#include "client-lib/client_internal.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* Waits for a seek without a line in weka_error(): -ENXIO is an answer. */
static int64_t seek_store(struct weka_client *c, const struct client_bulk *b, uint64_t at,
			  uint32_t flags)
{
	struct weka_req req = { 0 };
	int err = weka_submit_seek(c, &req, &b->handle, b->offset_bytes + at, flags);

	ASSERT(c->nested > 0 && b->op == CLIENT_BULK_READ);
	if (err)
		return err;
	client__req(&req)->is_sync = true;
	client__await(c, &req);
	return req.status ? req.status : (int64_t)(req.length_bytes - b->offset_bytes);
}

static int64_t seek_here(int fd, uint64_t at, int whence)
{
	off_t got = lseek(fd, (off_t)at, whence);

	return got < 0 ? -errno : got;
}

static int64_t find(struct weka_client *c, const struct client_bulk *b, uint64_t at, bool hole)
{
	if (b->op == CLIENT_BULK_WRITE)
		return seek_here(b->fd, at, hole ? SEEK_HOLE : SEEK_DATA);
	return seek_store(c, b, at, hole ? WEKA_SEEK_HOLE : 0);
}

int client__bulk_data(struct weka_client *c, struct client_bulk *b, uint64_t *next)
{
	int64_t from = find(c, b, *next, false), to;

	ASSERT(b->is_sparse && *next <= b->length_bytes);
	if (from == -ENXIO) {
		*next = b->length_bytes;
		return 0;
	}
	if (from == -EAGAIN || from == -ETIMEDOUT || from == -ENOTCONN || from == -ESTALE)
		return (int)from;
	to = from < 0 ? from : find(c, b, (uint64_t)from, true);
	if (to < 0) { /* holes cannot be found here: treat everything as data */
		b->is_sparse = false;
		return 0;
	}
	*next = max_u64(*next, align_down((uint64_t)from, WEKA_BLOCK));
	*next = min_u64(*next, b->length_bytes);
	b->data_end = min_u64(align_up((uint64_t)to, WEKA_BLOCK), b->length_bytes);
	if (b->data_end <= *next) /* it has become a hole since */
		b->is_sparse = false;
	ASSERT(*next <= b->length_bytes && b->data_end <= b->length_bytes);
	return 0;
}

bool client__keeps_holes(int fd, const struct weka_attr *a)
{
	struct stat st;

	if (align_down(a->size_bytes, WEKA_BLOCK) <= a->allocated_bytes)
		return false; /* there are none */
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
}
