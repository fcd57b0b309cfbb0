/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/raw_files.h"
#include "base/num.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void begin(struct raw_files *s, uint32_t ndrives, uint32_t copies, uint32_t fold)
{
	memset(s, 0, sizeof(*s));
	s->ndrives = ndrives;
	rig_make(&s->rig, 3, ndrives, RAW_DRIVE_BYTES, 4, true);
	s->rig.conf.copies = copies;
	s->rig.conf.fold = fold;
	s->rig.copied = true;
	cr_assert_eq(rig_format(&s->rig), 0, "%s", meta_error(s->rig.m));
}

void raw_files_begin(struct raw_files *s, uint32_t ndrives, uint32_t fold)
{
	begin(s, ndrives, 2, fold);
}

void raw_files_begin_three(struct raw_files *s, uint32_t ndrives, uint32_t fold)
{
	begin(s, ndrives, 3, fold);
}

void raw_files_end(struct raw_files *s)
{
	rig_end(&s->rig);
}

void raw_files_put(struct raw_files *s, uint32_t count)
{
	char path[32];

	for (uint32_t n = 0; n < count; n++) {
		const uint32_t i = (uint32_t)rand_below(&s->rig.rand, RAW_FILES);
		const uint64_t fill = ++s->fills;

		(void)snprintf(path, sizeof(path), "/file %u", i);
		cr_assert_eq(rig_put(&s->rig, path, (uint32_t)(fill % 9), fill), 0, "%s",
			     meta_error(s->rig.m));
		s->fill_of[i] = fill;
	}
}

void raw_files_look_at(struct raw_files *s)
{
	raw_mem_init(&s->mem, s->rig.view, s->ndrives, RAW_DRIVE_BYTES);
}

uint8_t *raw_files_at(const struct raw_files *s, uint64_t baddr)
{
	return s->rig.view[META_BADDR_DRIVE(baddr)] + META_BADDR_BLOCK(baddr) * 4096;
}

struct meta_raw *raw_files_open(struct raw_files *s)
{
	struct meta_raw *raw;

	cr_assert_eq(meta_raw_open(&raw, &s->mem.from), 0);
	cr_assert_str_eq(meta_raw_problem(raw), "");
	return raw;
}

/* ---- what is brought back ------------------------------------------------------------------- */

static bool is_file(struct meta_raw *raw, const struct meta_handle *h, uint64_t fill)
{
	uint64_t block[512], index = 0, at = 0;
	bool doubt;

	while (meta_raw_block_next(raw, h, &index, block, &doubt) == 0) {
		const uint64_t want = fill % 9 ? fill * 1000 + at : fill;

		if (index != at || doubt || block[0] != want)
			return false;
		for (uint32_t i = 1; i < 512; i++)
			if (block[i] != (fill % 9 ? want : 0))
				return false;
		at = ++index;
	}
	return at == max_u64(fill % 9, 1);
}

void raw_files_are_salvaged(const struct raw_files *s, struct meta_raw *raw,
			    struct meta_raw_loss *loss)
{
	struct meta_raw_place at = { 0 };
	struct meta_raw_entry e;
	uint32_t found = 0, want = 0;

	cr_assert_eq(meta_raw_salvage(raw, loss), 0);
	while (meta_raw_entry_next(raw, META_ROOT_DIR, &at, &e) == 0) {
		const unsigned long i = strtoul(e.name + strlen("file "), NULL, 10);

		cr_assert_lt(i, RAW_FILES, "%s", e.name);
		cr_assert_not(e.doubt, "%s", e.name);
		cr_assert(is_file(raw, &e.handle, s->fill_of[i]), "%s", e.name);
		found++;
	}
	for (uint32_t i = 0; i < RAW_FILES; i++)
		want += s->fill_of[i] != 0;
	cr_assert_eq(found, want);
}

struct meta_raw_taken raw_files_salvage(struct raw_files *s, struct meta_raw_loss *loss)
{
	struct meta_raw *raw = raw_files_open(s);
	struct meta_raw_taken sum = { 0 }, one;

	raw_files_are_salvaged(s, raw, loss);
	for (uint32_t d = 0; meta_raw_taken(raw, d, &one); d++) {
		sum.pages += one.pages;
		sum.blocks += one.blocks;
	}
	meta_raw_close(raw);
	return sum;
}

/* ---- both copies, compared ------------------------------------------------------------------ */

static void line_of(void *arg, const char *line)
{
	struct raw_files *s = arg;

	s->lines_wrong[strstr(line, "first copy")    ? 0
		       : strstr(line, "second copy") ? 1
		       : strstr(line, "third copy")  ? 3
						     : 2]++;
}

struct meta_raw_compared raw_files_compare(struct raw_files *s)
{
	struct meta_raw_compared out;
	struct meta_raw *raw = raw_files_open(s);

	memset(s->lines_wrong, 0, sizeof(s->lines_wrong));
	cr_assert_eq(meta_raw_compare(raw, &out, line_of, s), 0);
	meta_raw_close(raw);
	return out;
}
