/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Samples in a tar as WebDataset writes them: members that follow each other and have one name up
 * to the first dot of its last component.
 *
 *    | 001.jpg | 001.cls | 002.jpg | 002.cls | zeros |
 *      sample "001"        sample "002"
 *
 * A sample is the piece of the file from the first header of its members, with what describes it
 * (a long name, pax attributes), to the end of the last one's data: itself a tar, which any reader
 * takes apart.  Formats: POSIX.1-1988 (ustar), POSIX.1-2001 (pax), and GNU's long names and sizes.
 */
#include "client-lib/dataset/dataset_internal.h"

#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK     512u
#define TEXT_MAX  (1u << 20) /* of a pax header */
#define NAME_ROOM 4096u

struct tar {
	struct dataset__source *source;
	uint64_t at;           /* of the next header */
	char name[NAME_ROOM];  /* the next member's, if a header before it says so */
	uint64_t size;         /* the same; UINT64_MAX: its header says */
	uint64_t described_at; /* where what describes the next member begins */
	char key[NAME_ROOM];   /* the sample's; "": none has begun */
	uint64_t sample_at;
	uint64_t sample_end;
};

struct header {
	char name[NAME_ROOM];
	uint64_t size;
	char type;
	bool is_end;
};

/* Octal digits, or with the highest bit set a number of base 256 (GNU).  UINT64_MAX: neither. */
static uint64_t number_of(const uint8_t *field, uint32_t bytes)
{
	uint64_t v = 0;
	uint32_t i = 0;

	if (field[0] & 0x80) {
		for (i = 0; i < bytes; i++) {
			if (v >> 55)
				return UINT64_MAX;
			v = v << 8 | (i ? field[i] : field[i] & 0x7f);
		}
		return v;
	}
	while (i < bytes && field[i] == ' ')
		i++;
	for (; i < bytes && field[i] && field[i] != ' '; i++) {
		if (field[i] < '0' || field[i] > '7')
			return UINT64_MAX;
		v = v << 3 | (field[i] - (uint64_t)'0');
	}
	return v;
}

static bool sum_is_right(const uint8_t block[BLOCK])
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : block[i];
	return sum == number_of(block + 148, 8);
}

static bool is_zero(const uint8_t block[BLOCK])
{
	for (uint32_t i = 0; i < BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

/* "prefix/name"; neither has a NUL if it fills its field. */
static void name_of(char to[NAME_ROOM], const uint8_t block[BLOCK])
{
	const size_t prefix = memcmp(block + 257, "ustar\0", 6) == 0
				      ? strnlen((const char *)block + 345, 155)
				      : 0;
	const size_t name = strnlen((const char *)block, 100);

	memcpy(to, block + 345, prefix);
	to[prefix] = '/';
	memcpy(to + prefix + (prefix > 0), block, name);
	to[prefix + (prefix > 0) + name] = 0;
}

static int header_read(struct tar *t, struct header *h)
{
	uint8_t block[BLOCK];
	int err;

	h->is_end = t->at >= t->source->file_bytes;
	if (h->is_end)
		return 0; /* some writers leave out the zeros */
	err = dataset__get(t->source, t->at, BLOCK, block);
	if (err)
		return err;
	h->is_end = is_zero(block);
	if (h->is_end)
		return 0;
	if (!sum_is_right(block))
		return dataset__bad(t->source, "no tar header at byte %llu",
				    (unsigned long long)t->at);
	name_of(h->name, block);
	h->size = number_of(block + 124, 12);
	h->type = (char)block[156];
	if (h->size > INT64_MAX)
		return dataset__bad(t->source, "a member of an impossible size at byte %llu",
				    (unsigned long long)t->at);
	return 0;
}

/* ---- what describes the next member ------------------------------------------------------- */

static void name_set(struct tar *t, const char *name, size_t bytes)
{
	bytes = strnlen(name, bytes);
	ASSERT(t->described_at <= t->at);
	bytes = bytes < NAME_ROOM ? bytes : NAME_ROOM - 1; /* its key is too long, and said so */
	memcpy(t->name, name, bytes);
	t->name[bytes] = 0;
}

/* Digits up to the end of the line.  False: they are no size that a file can have. */
static bool size_set(struct tar *t, const char *digits, size_t bytes)
{
	uint64_t v = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (digits[i] < '0' || digits[i] > '9' || v > INT64_MAX / 10 - 1)
			return false;
		v = v * 10 + (uint64_t)(digits[i] - '0');
	}
	ASSERT(v <= INT64_MAX);
	t->size = v;
	return bytes > 0;
}

/* Lines "LENGTH KEY=VALUE\n", of which path and size count. */
static int pax_parse(struct tar *t, const char *text, size_t bytes)
{
	size_t at = 0;

	while (at < bytes) {
		char *end;
		const unsigned long length = strtoul(text + at, &end, 10);
		const size_t head = (size_t)(end - (text + at)) + 1;

		if (*end != ' ' || length <= head || length > bytes - at ||
		    text[at + length - 1] != '\n')
			return dataset__bad(t->source, "a damaged pax header before byte %llu",
					    (unsigned long long)t->at);
		if (length - head > 5 && memcmp(text + at + head, "path=", 5) == 0)
			name_set(t, text + at + head + 5, length - head - 6);
		else if (length - head > 5 && memcmp(text + at + head, "size=", 5) == 0 &&
			 !size_set(t, text + at + head + 5, length - head - 6))
			return dataset__bad(t->source, "an impossible size before byte %llu",
					    (unsigned long long)t->at);
		at += length;
	}
	return 0;
}

static int text_read(struct tar *t, const struct header *h)
{
	char *text;
	int err;

	if (h->size > TEXT_MAX)
		return dataset__bad(t->source, "a header of %llu bytes at byte %llu",
				    (unsigned long long)h->size, (unsigned long long)t->at);
	text = calloc(1, h->size + 1);
	if (!text)
		return -ENOMEM;
	err = dataset__get(t->source, t->at + BLOCK, (uint32_t)h->size, text);
	if (!err && h->type == 'x')
		err = pax_parse(t, text, h->size);
	else if (!err)
		name_set(t, text, h->size);
	free(text);
	return err;
}

/* ---- samples ----------------------------------------------------------------------------- */

/* The length of a name up to the first dot of its last component. */
static size_t key_bytes(const char *name)
{
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;

	return (size_t)(last - name) + strcspn(last, ".");
}

static int sample_end(struct tar *t)
{
	const size_t bytes = strlen(t->key);
	int err;

	if (bytes == 0)
		return 0;
	ASSERT(t->sample_end > t->sample_at && t->sample_end <= t->source->file_bytes);
	if (bytes > WEKA_MEMBER_MAX)
		return dataset__bad(t->source, "a name of more than %u bytes at byte %llu",
				    WEKA_MEMBER_MAX, (unsigned long long)t->sample_at);
	err = t->source->found(t->source->found_arg, t->sample_at, t->sample_end - t->sample_at,
			       t->key, bytes);
	t->key[0] = 0;
	return err;
}

static int member_take(struct tar *t, const struct header *h, uint64_t end)
{
	const size_t bytes = key_bytes(h->name);
	int err = 0;

	if (bytes == 0 || h->name[bytes - 1] == '/')
		return 0; /* ".hidden": no sample's */
	if (strlen(t->key) != bytes || memcmp(t->key, h->name, bytes) != 0) {
		err = sample_end(t);
		memcpy(t->key, h->name, bytes);
		t->key[bytes] = 0;
		t->sample_at = t->described_at;
	}
	t->sample_end = end;
	ASSERT(t->key[0] && t->sample_at < t->sample_end);
	return err;
}

/* Takes one header and its data.  Returns 1 at the end. */
static int step(struct tar *t)
{
	struct header h;
	uint64_t end;
	int err = header_read(t, &h);

	if (err || h.is_end)
		return err ? err : 1;
	if (h.type == 'x' || h.type == 'L') {
		err = text_read(t, &h);
		t->at += BLOCK + align_up(h.size, BLOCK);
		return err;
	}
	if (t->name[0])
		memcpy(h.name, t->name, sizeof(h.name));
	if (t->size != UINT64_MAX)
		h.size = t->size;
	if (h.type == 'S')
		return dataset__bad(t->source, "%.60s is sparse, which is not supported", h.name);
	if (h.type == '1' || h.type == '2' || h.type == '5' || h.type == 'g')
		h.size = h.type == 'g' ? h.size : 0;
	if (h.size > INT64_MAX || t->at + BLOCK > t->source->file_bytes ||
	    h.size > t->source->file_bytes - t->at - BLOCK)
		return dataset__bad(t->source,
				    "%.60s, at byte %llu, ends after the end of the file", h.name,
				    (unsigned long long)t->at);
	end = min_u64(t->at + BLOCK + align_up(h.size, BLOCK), t->source->file_bytes);
	if (h.type == '0' || h.type == 0 || h.type == '7')
		err = member_take(t, &h, end);
	t->name[0] = 0;
	t->size = UINT64_MAX;
	ASSERT(end > t->at);
	t->at = t->described_at = end;
	return err;
}

int dataset__tar(struct dataset__source *source)
{
	struct tar *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	t->source = source;
	t->size = UINT64_MAX;
	while ((rc = step(t)) == 0)
		ASSERT(t->at <= source->file_bytes + BLOCK);
	if (rc == 1)
		rc = sample_end(t);
	free(t);
	return rc;
}
