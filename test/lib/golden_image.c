/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/golden_image.h"

#include "base/le.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define REPEAT 0x80000000u
#define SAME   4u /* words, and more, are written once */

static const char magic[8] = "WKIMAGE1";

struct run_head {
	le32 drive;
	le32 words;
	le64 offset;
};

static bool load_run(FILE *f, const struct run_head *h, uint8_t *const drive[], uint32_t ndrives,
		     uint64_t drive_bytes)
{
	uint32_t d = le32_get(h->drive), words = le32_get(h->words) & ~REPEAT;
	bool repeat = le32_get(h->words) & REPEAT;
	uint64_t offset = le64_get(h->offset);
	uint8_t *to;

	if (d >= ndrives || offset > drive_bytes || words > (drive_bytes - offset) / 8)
		return false;
	to = drive[d] + offset;
	if (fread(to, 8, repeat ? 1 : words, f) != (repeat ? 1 : words))
		return false;
	for (uint32_t i = 1; repeat && i < words; i++)
		memcpy(to + i * 8ul, to, 8);
	return true;
}

int golden_image_load(const char *path, uint8_t *const drive[], uint32_t ndrives,
		      uint64_t drive_bytes)
{
	FILE *f = fopen(path, "rb");
	struct run_head h;
	char seen[8];
	bool good;

	if (!f)
		return -errno;
	for (uint32_t d = 0; d < ndrives; d++)
		memset(drive[d], 0, drive_bytes);
	good = fread(seen, 1, 8, f) == 8 && memcmp(seen, magic, 8) == 0;
	while (good && fread(&h, sizeof(h), 1, f) == 1)
		good = load_run(f, &h, drive, ndrives, drive_bytes);
	good = good && feof(f);
	(void)fclose(f);
	return good ? 0 : -EUCLEAN;
}

/* Returns the number of equal words from `at` on. */
static uint32_t same(const uint8_t *bytes, uint64_t at, uint64_t size)
{
	uint32_t n = 1;

	while (at + n * 8ul < size && memcmp(bytes + at, bytes + at + n * 8ul, 8) == 0)
		n++;
	return n;
}

static bool save_run(FILE *f, uint32_t d, const uint8_t *bytes, uint64_t at, uint32_t words,
		     bool repeat)
{
	const struct run_head h = { .drive = le32_of(d),
				    .words = le32_of(words | (repeat ? REPEAT : 0)),
				    .offset = le64_of(at) };

	return fwrite(&h, sizeof(h), 1, f) == 1 &&
	       fwrite(bytes + at, 8, repeat ? 1 : words, f) == (repeat ? 1 : words);
}

static bool save_drive(FILE *f, uint32_t d, const uint8_t *bytes, uint64_t size)
{
	static const uint8_t zeros[8];
	bool good = true;
	uint64_t from = 0; /* words from here to `at` are not written yet */

	for (uint64_t at = 0; good && at < size;) {
		uint32_t n = same(bytes, at, size);
		bool last = at + n * 8ul == size;

		if (n < SAME && !last) {
			at += n * 8ul;
			continue;
		}
		if (at > from)
			good = save_run(f, d, bytes, from, (uint32_t)((at - from) / 8), false);
		if (good && memcmp(bytes + at, zeros, 8) != 0)
			good = save_run(f, d, bytes, at, n, true);
		from = at += n * 8ul;
	}
	return good;
}

int golden_image_save(const char *path, uint8_t *const drive[], uint32_t ndrives,
		      uint64_t drive_bytes)
{
	FILE *f = fopen(path, "wb");
	bool good;

	if (!f)
		return -errno;
	good = fwrite(magic, 1, 8, f) == 8;
	for (uint32_t d = 0; good && d < ndrives; d++)
		good = save_drive(f, d, drive[d], drive_bytes);
	return fclose(f) == 0 && good ? 0 : -EIO;
}
