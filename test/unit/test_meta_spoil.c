/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Records are spoiled while operations run: a bit, a word, a record of another in its place, a key.
 * Each of them may be whole and disagree with all others.  Whatever the operations return then,
 * none ends the appliance, and the background work comes to an end.
 */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS       60u
#define OPS_BEFORE  150u
#define OPS         400u
#define SPOIL_EVERY 8u
#define STEPS       3000u
#define APPLIES_MAX                                                                                \
	12000u /* behind the last operation: a round over a circle of parents, and more */

static struct meta_world *w;
static struct fake *f;
static struct rand_state rng;
static struct meta_handle handle; /* of some object, or of a file that is being put */
static uint8_t bytes[40000];

TestSuite(meta_spoil, .timeout = 300);

static uint32_t below(uint32_t end)
{
	return (uint32_t)rand_below(&rng, end);
}

/* ---- operations ------------------------------------------------------------------------------ */

static const char *path(char *out)
{
	static const char *const dirs[] = { "", "a/", "b/", "a/c/", "a/c/e/", "b/g/" };
	static const char *const names[] = { "x", "y", "z", "c", "e", "g", "a", "b" };

	snprintf(out, 32, "%s%s", dirs[below(ARRAY_LEN(dirs))], names[below(ARRAY_LEN(names))]);
	return out;
}

/* Runs one operation; its result may be anything. */
static void one(void)
{
	char from[32], to[32];
	struct meta_attr a;
	struct meta_totals t;
	struct meta_op op;

	path(from);
	path(to);
	switch (below(20)) {
	case 0 ... 1:
		(void)sh_mkdir(w, from);
		return;
	case 2 ... 3:
		(void)sh_put(w, from, 0, bytes, below(2) ? below(500) : below(sizeof(bytes)));
		return;
	case 4 ... 5:
		(void)sh_link(w, from, to);
		return;
	case 6:
		(void)sh_unlink(w, from);
		return;
	case 7:
		(void)(below(2) ? sh_xattr_set(w, from, "user.a", bytes, below(3000), 0)
				: sh_xattr_del(w, from, "user.a"));
		return;
	case 8 ... 10:
		(void)sh_rename(w, from, to, below(3) ? 0 : META_EXCHANGE);
		return;
	case 11:
		(void)sh_rmdir(w, from);
		return;
	case 12:
		op = sh_op(below(3) ? META_OP_TOTALS : META_OP_RMTREE, from);
		op.totals = &t;
		(void)meta_world_run(w, &op);
		return;
	case 13:
		(void)sh_put_begin(w, from, &handle);
		return;
	case 14:
		(void)sh_put_commit(w, &handle, from);
		return;
	case 15 ... 16:
		if (sh_stat(w, from, META_NOFOLLOW, &a) == 0)
			handle = a.handle;
		return;
	case 17:
		(void)sh_truncate(w, &handle, below(10) * (uint64_t)BLOCK_SIZE);
		return;
	case 18:
		(void)sh_symlink(w, to, from);
		return;
	default:
		meta_totals_round(w->m);
	}
}

static void steps(uint32_t count)
{
	while (count-- > 0) {
		w->step(w);
		while (meta_op_poll(w->m))
			;
	}
}

/* ---- what is spoiled ------------------------------------------------------------------------- */

static void plant(uint32_t shard, struct meta_key key, const struct record *of)
{
	struct record r = { .shard = shard, .key = key, .len = of->len };

	r.value = malloc(of->len + 1);
	cr_assert_not_null(r.value);
	memcpy(r.value, of->value, of->len);
	commit(f, &r, false);
	free(r.value); /* none, but for one that nothing was done with */
}

static bool is_like(const struct meta_key *a, const struct meta_key *b)
{
	return meta__key_class(a) == meta__key_class(b) && meta__key_kind(a) == meta__key_kind(b);
}

static void spoil_value(struct record *r)
{
	static const uint64_t words[] = { 0, 1, 2, 3, UINT64_MAX, 1ull << 47, META__MASK48 };

	if (r->len == 0)
		return;
	if (below(2) || r->len < 8)
		r->value[below(r->len)] ^= (uint8_t)(1u << below(8));
	else
		memcpy(r->value + 8ull * below(r->len / 8), &words[below(ARRAY_LEN(words))], 8);
}

static void spoil_key(const struct record *r)
{
	struct meta_key key = r->key;
	uint32_t shard = r->shard;

	if (below(2))
		key.w[2] ^= 1ull << below(64);
	else if (below(2))
		shard = below(SHARDS);
	else
		key.w[2] = (key.w[2] & ~META__MASK48) | below(12);
	plant(shard, key, r);
}

/* The value of another of its kind. */
static void spoil_place(const struct record *r)
{
	for (uint32_t i = 0; i < 200; i++) {
		const struct record *other = &f->record[below(f->records)];

		if (other == r || !is_like(&other->key, &r->key))
			continue;
		plant(r->shard, r->key, other);
		return;
	}
}

/* Blocks are not the matter here: the fake counts them more strictly than a store does. */
static void spoil(void)
{
	struct record *r;
	enum meta__class class_;
	enum meta__kind kind;

	do {
		r = &f->record[below(f->records)];
		class_ = meta__key_class(&r->key);
		kind = meta__key_kind(&r->key);
	} while (class_ == META__CLASS_ZONE ||
		 (class_ == META__CLASS_OBJ &&
		  (kind == META__KIND_EXTENT || kind == META__KIND_TAIL)));
	switch (below(4)) {
	case 0:
		spoil_key(r);
		return;
	case 1:
		spoil_place(r);
		return;
	default:
		spoil_value(r);
	}
}

static void run_seed(uint64_t seed)
{
	uint64_t before;

	w = meta_world_fake(seed, seed % 3 ? 0 : 10, seed % 2 ? 0 : 5);
	f = container_of(w, struct fake, w);
	f->spoiled = true;
	rand_seed(&rng, seed);
	for (uint32_t i = 0; i < OPS_BEFORE; i++)
		one();
	for (uint32_t i = 0; i < OPS; i++) {
		if (i % SPOIL_EVERY == 0)
			spoil();
		if (below(100) == 0)
			w->remount(w);
		if (below(100) == 0)
			steps(300);
		one();
	}
	before = f->last;
	steps(STEPS);
	cr_assert_leq(f->last - before, APPLIES_MAX, "seed %llu: %llu", (unsigned long long)seed,
		      (unsigned long long)(f->last - before));
	w->end(w);
}

Test(meta_spoil, whatever_records_say_nothing_ends_and_nothing_is_endless)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		run_seed(seed);
}
