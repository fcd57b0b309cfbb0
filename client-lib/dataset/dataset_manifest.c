/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The bytes of a manifest: PROTOCOL.md 11.
 *
 *   | header, 4096 | samples x 64 bytes | paths, one after the other | names of classes |
 *   0              4096                 names_at                     classes_at         end
 *
 * Whoever may write below WEKA_DATASETS decides what is in it, so every field is checked before it
 * is used: the header when a manifest is opened, a record whenever it is looked at.
 */
#include "client-lib/dataset/dataset_internal.h"

#include "base/crc32c.h"
#include "base/le.h"

#include <string.h>

#define MANIFEST_MAGIC   UINT64_C(0x5445534144414b57) /* "WKADASET" */
#define MANIFEST_VERSION 1u
#define MANIFEST_QUICK   1u

struct header_disk {
	le64 magic;
	le32 format;
	le32 flags;
	le64 samples;
	le64 total_bytes;
	le64 largest_bytes;
	le64 created_ns;
	le64 file_bytes;
	le64 names_at;
	le64 names_bytes;
	le64 classes_at;
	le64 classes_bytes;
	le32 classes;
	le32 version;
	uint8_t content[32];
	le32 root_bytes;
	uint8_t zero[DATASET__HEADER_BYTES - 136];
	le32 check; /* CRC32C of the bytes before it */
};
static_assert(sizeof(struct header_disk) == DATASET__HEADER_BYTES, "PROTOCOL.md 11");

struct record_disk {
	uint8_t handle[16];
	le64 ctime_ns;
	le64 offset_bytes;
	le64 length_bytes;
	le64 name_at;
	le16 name_bytes;
	le16 member_bytes;
	le32 label;
	le64 check;
};
static_assert(sizeof(struct record_disk) == DATASET__RECORD_BYTES, "PROTOCOL.md 11");

void dataset__header_build(uint8_t to[DATASET__HEADER_BYTES], const struct dataset__header *h)
{
	struct header_disk d = {
		.magic = le64_of(MANIFEST_MAGIC),
		.format = le32_of(MANIFEST_VERSION),
		.flags = le32_of(h->is_quick ? MANIFEST_QUICK : 0),
		.samples = le64_of(h->samples),
		.total_bytes = le64_of(h->total_bytes),
		.largest_bytes = le64_of(h->largest_bytes),
		.created_ns = le64_of((uint64_t)h->created_ns),
		.file_bytes = le64_of(h->file_bytes),
		.names_at = le64_of(h->names_at),
		.names_bytes = le64_of(h->names_bytes),
		.classes_at = le64_of(h->classes_at),
		.classes_bytes = le64_of(h->classes_bytes),
		.classes = le32_of(h->classes),
		.version = le32_of(h->version),
		.root_bytes = le32_of(h->root_bytes),
	};

	memcpy(d.content, h->content, sizeof(d.content));
	d.check = le32_of(crc32c(&d, offsetof(struct header_disk, check)));
	memcpy(to, &d, sizeof(d));
}

/* [at, at + bytes) lies in the file. */
static bool inside(uint64_t at, uint64_t bytes, uint64_t file_bytes)
{
	return at <= file_bytes && bytes <= file_bytes - at;
}

static const char *places_wrong(const struct dataset__header *h)
{
	const uint64_t records_end = DATASET__HEADER_BYTES + h->samples * DATASET__RECORD_BYTES;

	if (h->samples == 0 || h->samples > DATASET__SAMPLES_MAX)
		return "it has no samples, or too many";
	if (h->names_at < records_end || !inside(h->names_at, h->names_bytes, h->file_bytes) ||
	    !inside(h->classes_at, h->classes_bytes, h->file_bytes) ||
	    h->classes_bytes > DATASET__CLASSES_MAX || h->classes > DATASET__LABELS_MAX)
		return "a part of it is outside the file";
	if (h->largest_bytes > h->total_bytes || h->version == 0)
		return "its sizes contradict each other";
	return NULL;
}

const char *dataset__header_parse(struct dataset__header *out,
				  const uint8_t from[DATASET__HEADER_BYTES], uint64_t file_bytes)
{
	struct header_disk d;

	memcpy(&d, from, sizeof(d));
	if (le64_get(d.magic) != MANIFEST_MAGIC ||
	    le32_get(d.check) != crc32c(&d, offsetof(struct header_disk, check)))
		return "the file is no manifest";
	if (le32_get(d.format) != MANIFEST_VERSION || (le32_get(d.flags) & ~MANIFEST_QUICK))
		return "it was made by a newer version of this software";
	*out = (struct dataset__header){
		.samples = le64_get(d.samples),
		.total_bytes = le64_get(d.total_bytes),
		.largest_bytes = le64_get(d.largest_bytes),
		.created_ns = (int64_t)le64_get(d.created_ns),
		.file_bytes = le64_get(d.file_bytes),
		.names_at = le64_get(d.names_at),
		.names_bytes = le64_get(d.names_bytes),
		.classes_at = le64_get(d.classes_at),
		.classes_bytes = le64_get(d.classes_bytes),
		.classes = le32_get(d.classes),
		.version = le32_get(d.version),
		.root_bytes = le32_get(d.root_bytes),
		.is_quick = le32_get(d.flags) & MANIFEST_QUICK,
	};
	memcpy(out->content, d.content, sizeof(out->content));
	if (out->file_bytes != file_bytes)
		return "the file does not have the length that its header says";
	return places_wrong(out);
}

void dataset__record_build(uint8_t to[DATASET__RECORD_BYTES], const struct dataset__record *r)
{
	struct record_disk d = {
		.ctime_ns = le64_of((uint64_t)r->ctime_ns),
		.offset_bytes = le64_of(r->offset_bytes),
		.length_bytes = le64_of(r->length_bytes),
		.name_at = le64_of(r->name_at),
		.name_bytes = le16_of((uint16_t)r->name_bytes),
		.member_bytes = le16_of((uint16_t)r->member_bytes),
		.label = le32_of(r->label),
		.check = le64_of(r->check),
	};

	ASSERT(r->name_bytes > 0 && r->name_bytes <= WEKA_PATH_MAX);
	ASSERT(r->member_bytes <= WEKA_MEMBER_MAX);
	memcpy(d.handle, r->handle.bytes, sizeof(d.handle));
	memcpy(to, &d, sizeof(d));
}

const char *dataset__record_parse(struct dataset__record *out,
				  const uint8_t from[DATASET__RECORD_BYTES],
				  const struct dataset__header *h)
{
	struct record_disk d;

	memcpy(&d, from, sizeof(d));
	*out = (struct dataset__record){
		.ctime_ns = (int64_t)le64_get(d.ctime_ns),
		.offset_bytes = le64_get(d.offset_bytes),
		.length_bytes = le64_get(d.length_bytes),
		.name_at = le64_get(d.name_at),
		.name_bytes = le16_get(d.name_bytes),
		.member_bytes = le16_get(d.member_bytes),
		.label = le32_get(d.label),
		.check = le64_get(d.check),
	};
	memcpy(out->handle.bytes, d.handle, sizeof(out->handle.bytes));
	if (out->ctime_ns == 0 || out->length_bytes > h->largest_bytes ||
	    out->length_bytes > INT64_MAX ||
	    out->offset_bytes > (uint64_t)INT64_MAX - out->length_bytes)
		return "a sample is impossible";
	if (out->name_bytes <= h->root_bytes || out->name_bytes > WEKA_PATH_MAX ||
	    out->member_bytes > WEKA_MEMBER_MAX ||
	    !inside(out->name_at, out->name_bytes + out->member_bytes, h->names_bytes))
		return "a sample's path is outside the file";
	if (out->label != WEKA_NO_LABEL && out->label >= h->classes)
		return "a sample has a label without a class";
	return NULL;
}

uint32_t dataset__classes_count(const char *names, uint64_t bytes)
{
	uint32_t count = 0;
	uint64_t at = 0;

	while (at < bytes) {
		const uint64_t length = strnlen(names + at, bytes - at);

		if (length == 0 || length == bytes - at)
			return UINT32_MAX;
		at += length + 1;
		count++;
	}
	return count;
}
