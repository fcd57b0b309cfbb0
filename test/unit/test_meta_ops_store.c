/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The same random operations as test_meta_op.c, on the whole store. */
#include "test/lib/meta_random.h"
#include "test/lib/meta_shell.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(meta_ops_store);

static struct meta_random r;

static void check(struct meta_world *w, uint64_t files)
{
	const char *why = meta_world_check(w, files);

	cr_assert_null(why, "%s", why);
}

static void random_run(uint64_t seed, uint64_t cache_bytes, uint64_t ops)
{
	struct meta_world *w = meta_world_real(seed, 256u << 20, cache_bytes);

	meta_random_init(&r, w, seed);
	r.remounts_every = 500;
	meta_random_run(&r, ops);
	meta_random_compare(&r);
	meta_world_settle(w);
	check(w, model_count(r.fs));
	cr_assert_gt(r.results[1], ops / 20);
	meta_random_end(&r);
	w->end(w);
}

Test(meta_ops_store, random_operations_give_what_the_model_gives)
{
	random_run(1, 16u << 20, 5000);
}

Test(meta_ops_store, the_same_in_a_cache_far_smaller_than_the_tree)
{
	random_run(2, META__CACHE_FRAMES_MIN * META_PAGE_BYTES, 5000);
}

/* ---- many at once ------------------------------------------------------------------------ */

#define WORKERS 48
#define FILES   120 /* a worker's own: so that it knows what each of its operations must say */
#define DIRS    5

struct worker {
	struct meta_op op;
	char path[32], to[32];
	uint32_t file, file_to, size_new;
	uint32_t size[FILES]; /* 0: not there */
	struct meta_run runs[8];
	uint32_t crcs[8];
	char buf[META_INLINE_MAX];
	_Alignas(8) uint8_t list[3000];
};

static struct worker workers[WORKERS];
static struct rand_state rand_;

static void path_of(uint32_t worker, uint32_t file, char *out)
{
	snprintf(out, 32, "d%u/w%u-%u", (file + worker) % DIRS, worker, file);
}

static void next_put(struct worker *k)
{
	k->op.type = META_OP_PUT;
	k->op.flags = META_BY_INLINE;
	k->size_new = 1 + (uint32_t)rand_below(&rand_, META_INLINE_MAX);
	k->op.size = k->op.inline_len = k->size_new;
	memset(k->buf, (char)(k->file + k->size_new), k->size_new);
}

static void next_op(struct meta_world *w, uint32_t worker)
{
	struct worker *k = &workers[worker];

	(void)w;
	k->file = (uint32_t)rand_below(&rand_, FILES);
	k->file_to = (uint32_t)rand_below(&rand_, FILES);
	path_of(worker, k->file, k->path);
	path_of(worker, k->file_to, k->to);
	k->op = (struct meta_op){
		.target = { .path = k->path, .path_len = (uint32_t)strlen(k->path) },
		.other = { .path = k->to, .path_len = (uint32_t)strlen(k->to) },
		.runs = k->runs,
		.crcs = k->crcs,
		.runs_max = 8,
		.blocks_max = 8,
		.length = 4096,
		.inline_buf = k->buf,
		.list_out = k->list,
		.list_max_bytes = sizeof(k->list),
		.wall_ns = 5,
		.owner = k,
	};
	switch (rand_below(&rand_, 8)) {
	case 0 ... 2:
		next_put(k);
		return;
	case 3:
		k->op.type = META_OP_UNLINK;
		return;
	case 4:
		k->op.type = META_OP_RENAME;
		return;
	case 5:
		k->op.type = META_OP_LIST;
		k->op.target.path_len = 2;
		k->op.cookie.hash = rand_below(&rand_, 1ull << 40);
		return;
	default:
		k->op.type = META_OP_READ;
	}
}

static void came_back(struct meta_world *w, struct meta_op *op)
{
	struct worker *k = op->owner;
	const uint32_t had = k->size[k->file];

	if (op->type == META_OP_LIST) {
		cr_assert_eq(op->status, 0, "list: %d", op->status);
		return;
	}
	if (op->type == META_OP_PUT) {
		cr_assert_eq(op->status, 0, "put: %d, %s", op->status, w->m->error);
		k->size[k->file] = k->size_new;
		return;
	}
	cr_assert_eq(op->status, had ? 0 : -ENOENT, "type %d: %d", (int)op->type, op->status);
	if (op->type == META_OP_READ) {
		meta_read_end(w->m, op);
		if (had)
			cr_assert_eq(op->inline_len, had);
	} else if (op->type == META_OP_UNLINK) {
		k->size[k->file] = 0;
	} else if (had && k->file != k->file_to) {
		k->size[k->file_to] = had;
		k->size[k->file] = 0;
	}
}

static uint64_t many_at_once(struct meta_world *w, uint64_t ops)
{
	uint64_t started = 0, ended = 0, files = 0;
	bool idle[WORKERS];
	uint32_t quiet = 0;

	memset(workers, 0, sizeof(workers));
	memset(idle, true, sizeof(idle));
	while (ended < ops) {
		struct meta_op *op;

		for (uint32_t i = 0; i < WORKERS && started < ops; i++) {
			if (!idle[i] || rand_below(&rand_, 3) == 0)
				continue;
			next_op(w, i);
			idle[i] = false;
			started++;
			if (meta_op_start(w->m, &workers[i].op))
				meta_op_wait_durable(w->m, &workers[i].op);
		}
		w->step(w);
		for (quiet++; (op = meta_op_poll(w->m)); ended++, quiet = 0) {
			if (!meta_is_durable(w->m, op->seen_seq)) {
				meta_op_wait_durable(w->m, op);
				ended--;
				continue;
			}
			came_back(w, op);
			idle[(struct worker *)op->owner - workers] = true;
		}
		cr_assert_lt(quiet, 100000, "%llu of %llu ended", (unsigned long long)ended,
			     (unsigned long long)ops);
	}
	for (uint32_t i = 0; i < WORKERS; i++)
		for (uint32_t f = 0; f < FILES; f++)
			files += workers[i].size[f] != 0;
	return files;
}

Test(meta_ops_store, many_operations_at_once_in_the_smallest_cache)
{
	struct meta_world *w =
		meta_world_real(7, 64u << 20, META__CACHE_FRAMES_MIN * META_PAGE_BYTES);
	char dir[8];

	rand_seed(&rand_, 7);
	for (uint32_t d = 0; d < DIRS; d++) {
		snprintf(dir, sizeof(dir), "d%u", d);
		cr_assert_eq(sh_mkdir(w, dir), 0);
	}
	for (int round = 0; round < 3; round++) {
		const uint64_t files = many_at_once(w, 15000);

		meta_world_settle(w);
		check(w, files + DIRS + 1);
		w->remount(w);
		if (round < 2)
			for (uint32_t i = 0; i < WORKERS; i++)
				for (uint32_t f = 0; f < FILES; f++) {
					char path[32];

					path_of(i, f, path);
					if (workers[i].size[f])
						cr_assert_eq(sh_unlink(w, path), 0);
				}
	}
	w->end(w);
}

/* ---- a tree that is ten times the cache ----------------------------------------------------- */

#define LOTS 30000

static char lot[64];

static const char *lot_path(const char *dir, uint32_t i)
{
	snprintf(lot, sizeof(lot), "%s/sample-%08u.bin", dir, i * 2654435761u);
	return lot;
}

Test(meta_ops_store, thirty_thousand_files_in_one_directory_and_a_small_cache)
{
	struct meta_world *w =
		meta_world_real(8, 256u << 20, META__CACHE_FRAMES_MIN * META_PAGE_BYTES);
	static uint8_t bytes[BLOCK_SIZE], back[2 * BLOCK_SIZE];
	struct meta_statfs st;
	struct meta_op op = { .type = META_OP_STATFS, .statfs = &st };
	char to[64];

	rand_seed(&rand_, 8);
	cr_assert_eq(sh_mkdir(w, "a"), 0);
	cr_assert_eq(sh_mkdir(w, "b"), 0);
	for (uint32_t i = 0; i < LOTS; i++) {
		memcpy(bytes, &i, sizeof(i));
		cr_assert_eq(sh_put(w, lot_path("a", i), META_EXCL, bytes, 200 + i % 300), 0);
	}
	w->remount(w);
	for (uint32_t n = 0; n < 3000; n++) {
		const uint32_t i = (uint32_t)rand_below(&rand_, LOTS);

		cr_assert_eq(sh_read(w, lot_path("a", i), back, sizeof(back)), 200 + i % 300);
		cr_assert_eq(memcmp(back, &i, sizeof(i)), 0);
	}
	cr_assert_eq(sh_count(w, "a", 0), LOTS);
	for (uint32_t i = 0; i < LOTS; i += 3) { /* their inodes stay where they were born */
		memcpy(to, lot_path("b", i), sizeof(to));
		cr_assert_eq(sh_rename(w, lot_path("a", i), to, META_EXCL), 0);
	}
	cr_assert_eq(sh_count(w, "a", 0), LOTS - LOTS / 3);
	cr_assert_eq(sh_count(w, "b", 0), LOTS / 3);
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_gt(st.page_reads, 1000);
	cr_assert_eq(st.files, LOTS);
	cr_assert_eq(st.dirs, 3);
	check(w, LOTS + 3);
	for (uint32_t i = 0; i < LOTS; i++)
		cr_assert_eq(sh_unlink(w, lot_path(i % 3 ? "a" : "b", i)), 0);
	cr_assert_eq(sh_rmdir(w, "a"), 0);
	cr_assert_eq(sh_rmdir(w, "b"), 0);
	meta_world_settle(w);
	check(w, 1);
	w->end(w);
}

/* ---- full ---------------------------------------------------------------------------------- */

static uint32_t fill(struct meta_world *w, const void *bytes, uint64_t size)
{
	uint32_t n = 0;
	int rc;

	while ((rc = sh_put(w, lot_path("a", n), META_EXCL, bytes, size)) == 0)
		n++;
	cr_assert_eq(rc, -ENOSPC, "%d: %s", rc, w->m->error);
	return n;
}

/* Filled with names, with blocks, and with large files: emptied each time, and filled as far again.
 */
Test(meta_ops_store, a_full_store_can_always_delete_and_be_filled_again)
{
	static const uint32_t sizes[] = { 100, 20000, 1000000 };
	static uint8_t bytes[1000000];

	for (uint32_t s = 0; s < ARRAY_LEN(sizes); s++) {
		struct meta_world *w = meta_world_real(9, 8u << 20, 256 * META_PAGE_BYTES);
		uint32_t first = 0, n;

		cr_assert_eq(sh_mkdir(w, "a"), 0);
		for (int round = 0; round < 2; round++) {
			n = fill(w, bytes, sizes[s]);
			first = round ? first : n;
			cr_assert_gt(n, first * 9 / 10, "%u files at first, then %u", first, n);
			for (uint32_t i = 0; i < n; i++)
				cr_assert_eq(sh_unlink(w, lot_path("a", i)), 0);
			meta_world_settle(w);
			w->remount(w);
		}
		check(w, 2);
		w->end(w);
	}
}
