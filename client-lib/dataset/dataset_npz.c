/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The rows of one array in an archive that numpy.savez() wrote: a zip (PKWARE's APPNOTE) whose
 * members are stored as they are.
 *
 *    | member a.npy | member b.npy | directory: a, b | (64-bit end, its place) | end |
 *      ^-- place of its header, in the directory --'
 */
#include "client-lib/dataset/dataset_internal.h"

#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define END_BYTES   22u
#define END64_BYTES 56u
#define PLACE_BYTES 20u
#define ENTRY_BYTES 46u
#define LOCAL_BYTES 30u
#define TAIL_MAX    (65535u + END_BYTES) /* the end, and the longest comment after it */
#define DIR_MAX     (16u << 20)

struct entry {
	uint64_t packed;
	uint64_t bytes;
	uint64_t header_at;
	uint32_t method;
	uint32_t flags;
};

static uint64_t number(const uint8_t *from, uint32_t bytes)
{
	uint64_t v = 0;

	while (bytes-- > 0)
		v = v << 8 | from[bytes];
	return v;
}

/* ---- the directory ----------------------------------------------------------------------- */

/* The 64-bit end, if there is one before the end at `end_at`. */
static int end64_read(struct dataset__source *source, uint64_t end_at, uint64_t *at,
		      uint64_t *bytes)
{
	uint8_t place[PLACE_BYTES], end[END64_BYTES];
	int err;

	if (end_at < PLACE_BYTES)
		return 0;
	err = dataset__get(source, end_at - PLACE_BYTES, PLACE_BYTES, place);
	if (err || memcmp(place, "PK\x06\x07", 4) != 0)
		return err;
	err = dataset__get(source, number(place + 8, 8), END64_BYTES, end);
	if (err)
		return err;
	if (memcmp(end, "PK\x06\x06", 4) != 0)
		return dataset__bad(source, "the end of the archive is damaged");
	*bytes = number(end + 40, 8);
	*at = number(end + 48, 8);
	return 0;
}

static int directory_find(struct dataset__source *source, uint64_t *at, uint64_t *bytes)
{
	const uint32_t tail = (uint32_t)min_u64(TAIL_MAX, source->file_bytes);
	uint8_t *text = malloc(tail + 1);
	int err = text ? dataset__get(source, source->file_bytes - tail, tail, text) : -ENOMEM;
	uint32_t i = tail < END_BYTES ? 0 : tail - END_BYTES + 1;

	while (!err && i > 0 && memcmp(text + i - 1, "PK\x05\x06", 4) != 0)
		i--;
	if (!err && i == 0)
		err = dataset__bad(source, "it is no archive of numpy.savez(), or cut");
	if (!err) {
		*bytes = number(text + i - 1 + 12, 4);
		*at = number(text + i - 1 + 16, 4);
		err = end64_read(source, source->file_bytes - tail + i - 1, at, bytes);
	}
	free(text);
	return err;
}

/* Sizes and places that do not fit 32 bits stand in an extra field, in this order. */
static bool extra64(const uint8_t *extra, uint32_t bytes, struct entry *e)
{
	uint64_t *const want[] = { &e->bytes, &e->packed, &e->header_at };

	while (bytes >= 4) {
		const uint32_t kind = (uint32_t)number(extra, 2),
			       n = (uint32_t)number(extra + 2, 2);
		uint32_t used = 0;

		if (n > bytes - 4)
			return false;
		for (uint32_t i = 0; kind == 1 && i < 3; i++) {
			if (*want[i] != UINT32_MAX)
				continue;
			if (used + 8 > n)
				return false;
			*want[i] = number(extra + 4 + used, 8);
			used += 8;
		}
		extra += 4 + n;
		bytes -= 4 + n;
	}
	return true;
}

/* Looks for the member in the directory's bytes.  -ENOENT: it is not there. */
static int entry_find(struct dataset__source *source, const uint8_t *dir, uint64_t bytes,
		      struct entry *out)
{
	const size_t want = strlen(source->member);
	uint64_t at = 0;

	while (bytes - at >= ENTRY_BYTES && memcmp(dir + at, "PK\x01\x02", 4) == 0) {
		const uint8_t *e = dir + at;
		const uint64_t name = number(e + 28, 2), extra = number(e + 30, 2);
		const uint64_t whole = ENTRY_BYTES + name + extra + number(e + 32, 2);

		if (whole > bytes - at)
			break;
		at += whole;
		if (name != want + 4 || memcmp(e + ENTRY_BYTES, source->member, want) != 0 ||
		    memcmp(e + ENTRY_BYTES + want, ".npy", 4) != 0)
			continue;
		*out = (struct entry){
			.flags = (uint32_t)number(e + 8, 2),
			.method = (uint32_t)number(e + 10, 2),
			.packed = number(e + 20, 4),
			.bytes = number(e + 24, 4),
			.header_at = number(e + 42, 4),
		};
		return extra64(e + ENTRY_BYTES + name, (uint32_t)extra, out)
			       ? 0
			       : dataset__bad(source, "its directory is damaged");
	}
	return at == bytes ? -ENOENT : dataset__bad(source, "its directory is damaged");
}

static int member_find(struct dataset__source *source, struct entry *out)
{
	uint64_t at, bytes;
	uint8_t *dir;
	int err = directory_find(source, &at, &bytes);

	if (err)
		return err;
	if (bytes > DIR_MAX)
		return dataset__bad(source, "its directory has %llu bytes",
				    (unsigned long long)bytes);
	dir = malloc(bytes + 1);
	if (!dir)
		return -ENOMEM;
	err = dataset__get(source, at, (uint32_t)bytes, dir);
	if (!err)
		err = entry_find(source, dir, bytes, out);
	free(dir);
	return err == -ENOENT ? dataset__bad(source, "it has no array %.60s", source->member) : err;
}

/* ---- the array --------------------------------------------------------------------------- */

int dataset__npz(struct dataset__source *source)
{
	uint8_t local[LOCAL_BYTES];
	struct entry e;
	uint64_t at;
	int err = member_find(source, &e);

	if (!err && (e.method != 0 || (e.flags & 1)))
		err = dataset__bad(source, "array %.60s is compressed: write it with numpy.savez()",
				   source->member);
	if (!err)
		err = dataset__get(source, e.header_at, LOCAL_BYTES, local);
	if (err)
		return err;
	if (memcmp(local, "PK\x03\x04", 4) != 0 || e.packed != e.bytes)
		return dataset__bad(source, "the header of array %.60s is damaged", source->member);
	at = e.header_at + LOCAL_BYTES + number(local + 26, 2) + number(local + 28, 2);
	if (at > source->file_bytes || e.bytes > source->file_bytes - at)
		return dataset__bad(source, "array %.60s ends after the end of the file",
				    source->member);
	ASSERT(at >= LOCAL_BYTES && e.method == 0);
	return dataset__npy_at(source, at, e.bytes);
}
