/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The bytes of a cursor: PROTOCOL.md 12. */
#include "client-lib/dataset/dataset_internal.h"

#include "base/crc32c.h"
#include "base/le.h"

#include <string.h>

#define CURSOR_MAGIC    0x55434b57u /* "WKCU" */
#define CURSOR_VERSION  1u
#define CURSOR_IN_ORDER 1u
#define CURSOR_WEIGHTED 2u

struct cursor_disk {
	le32 magic;
	le16 version;
	le16 flags;
	le64 count;
	le64 seed;
	le64 epoch;
	le64 position;
	uint8_t content[20];
	le32 check; /* CRC32C of the 60 bytes before it */
};
static_assert(sizeof(struct cursor_disk) == sizeof(struct weka_cursor), "PROTOCOL.md 12");

void dataset__cursor_build(struct weka_cursor *out, const struct dataset__place *p)
{
	struct cursor_disk d = {
		.magic = le32_of(CURSOR_MAGIC),
		.version = le16_of(CURSOR_VERSION),
		.flags = le16_of((p->in_order ? CURSOR_IN_ORDER : 0) |
				 (p->is_weighted ? CURSOR_WEIGHTED : 0)),
		.count = le64_of(p->count),
		.seed = le64_of(p->seed),
		.epoch = le64_of(p->epoch),
		.position = le64_of(p->position),
	};

	ASSERT(p->is_weighted || p->position <= p->count);
	memcpy(d.content, p->content, sizeof(d.content));
	d.check = le32_of(crc32c(&d, offsetof(struct cursor_disk, check)));
	memcpy(out, &d, sizeof(d));
}

const char *dataset__cursor_parse(struct dataset__place *out, const struct weka_cursor *cursor)
{
	struct cursor_disk d;

	memcpy(&d, cursor, sizeof(d));
	if (le32_get(d.magic) != CURSOR_MAGIC ||
	    le32_get(d.check) != crc32c(&d, offsetof(struct cursor_disk, check)))
		return "these bytes are not a cursor, or not whole";
	if (le16_get(d.version) != CURSOR_VERSION ||
	    (le16_get(d.flags) & ~(CURSOR_IN_ORDER | CURSOR_WEIGHTED)))
		return "the cursor was made by a newer library";
	*out = (struct dataset__place){
		.count = le64_get(d.count),
		.seed = le64_get(d.seed),
		.epoch = le64_get(d.epoch),
		.position = le64_get(d.position),
		.in_order = le16_get(d.flags) & CURSOR_IN_ORDER,
		.is_weighted = le16_get(d.flags) & CURSOR_WEIGHTED,
	};
	memcpy(out->content, d.content, sizeof(out->content));
	if (out->is_weighted)
		return NULL; /* the weights say how long the epoch is */
	return out->position > out->count ? "the cursor is behind the end of its epoch" : NULL;
}
