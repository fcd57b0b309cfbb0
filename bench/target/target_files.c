/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Groups over the files of one directory, by name; and over the pieces of one large file. */
#include "base/num.h"
#include "base/rand.h"
#include "bench/target/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct target_group *target_groups_create(uint32_t depth, uint32_t count)
{
	struct target_group *g = calloc(depth, sizeof(*g));
	struct target_io *io = calloc((size_t)depth * count, sizeof(*io));

	if (!g || !io) {
		free(g);
		free(io);
		return NULL;
	}
	for (uint32_t i = 0; i < depth; i++) {
		g[i].io = io + (size_t)i * count;
		g[i].room = count;
	}
	return g;
}

void target_groups_destroy(struct target_group *groups)
{
	if (groups)
		free(groups[0].io);
	free(groups);
}

/* The eight hexadecimal digits of `v`, the highest first: all at once, as names are made in the
 * measured loop. */
static uint64_t hex_digits(uint64_t v)
{
	v = (v & 0xffff0000u) << 16 | (v & 0xffffu);
	v = (v << 8 | v) & 0x00ff00ff00ff00ffull;
	v = (v << 4 | v) & 0x0f0f0f0f0f0f0f0full; /* a digit a byte, the lowest first */
	v += 0x3030303030303030ull +
	     ((v + 0x0606060606060606ull) >> 4 & 0x0101010101010101ull) * 39;
	return __builtin_bswap64(v);
}

/* Writes the fields that are the same in all groups. */
static void prepare(const struct target_files *f, struct target_io *io)
{
	snprintf(io->path, sizeof(io->path), "%s/f%08x", f->dir, (unsigned)f->first);
	io->named_by = f;
	io->length_bytes = f->range ? f->range : f->bytes;
	io->stamp_at = f->range ? TARGET_STAMP_NONE : 0;
	io->content = &target_plain;
}

static void set_file(const struct target_files *f, struct target_io *io, uint64_t file)
{
	const uint64_t digits = hex_digits(file);

	memcpy(io->path + f->dir_bytes + 2, &digits, sizeof(digits));
	io->file = file;
	io->stamp = target_stamp(file);
}

bool target_files_next(void *files, struct target_group *g)
{
	struct target_files *f = files;
	struct rand_state rand = { .at = f->random_state };

	ASSERT(f->first + f->count <= UINT32_MAX || f->range);
	f->dir_bytes = (uint32_t)strlen(f->dir);
	g->op = f->op;
	g->flags = f->flags;
	g->count = f->random ? g->room : (uint32_t)min_u64(g->room, f->count - f->next);
	for (uint32_t i = 0; i < g->count; i++) {
		uint64_t number = f->random ? rand_below(&rand, f->count) : f->next++;

		if (g->io[i].named_by != f)
			prepare(f, &g->io[i]);
		if (f->range)
			g->io[i].offset_bytes = number * f->range;
		else
			set_file(f, &g->io[i], f->first + number);
	}
	f->random_state = rand.at;
	return g->count > 0;
}
