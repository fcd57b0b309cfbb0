/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Open files: a file exists as long as it has a name, or a hold.
 *
 *   STAT, PUT with META_HOLD --> one hold more          LET_GO --> one less
 *
 *                          last name gone                last hold gone
 *   named, held  -------------------------> kept  ------------------------> freed, like a file
 *        \---- last hold gone ----> named    |  a mount                      that loses its name
 *                                            `----> freed
 *
 *  (1) Holds are in memory, counted by handle, and change in the turn in which their operation
 *      is applied: so an unlink sees the holds of its own moment
 *      [test_meta_hold:the_last_of_several_holds_and_names_decides].
 *  (2) A kept file is an inode without a name whose ORPHAN record has this mount's epoch and that
 *      is not hidden.  So every core sees it in the records alone, and the next mount, which knows
 *      of no holds, treats it as an ordinary orphan [test_meta_hold:a_mount_knows_of_none].
 *  (3) A hold survives everything that happens to its file: LET_GO finds it even if the file is
 *      gone [test_meta_hold:an_unlinked_file_stays_until_it_is_let_go].
 */
#include "meta/plans/meta_plan.h"

#include "base/hash.h"

#include <stdlib.h>

#define HOLDS_USUAL 1024u

struct hold {
	struct list link; /* of its bucket, or of `free` */
	struct meta_handle handle;
	uint64_t count;
};

struct meta__holds {
	uint64_t count; /* of all files */
	uint32_t *of;   /* of each shard: files that are held */
	uint32_t bucket_mask;
	struct list *bucket;
	struct list free;
	struct hold *hold;
};

static bool same(const struct meta_handle *a, const struct meta_handle *b)
{
	return a->uniq == b->uniq && a->hash == b->hash && a->dir == b->dir;
}

static struct list *bucket_of(const struct meta *m, const struct meta_handle *h)
{
	const uint64_t key = hash_bytes(m->secret, h, sizeof(*h));

	return &m->ops->holds->bucket[key & m->ops->holds->bucket_mask];
}

static struct hold *find(const struct meta *m, const struct meta_handle *h)
{
	struct list *node, *bucket = bucket_of(m, h);

	list_for_each (node, bucket) {
		struct hold *hold = list_entry(node, struct hold, link);
		DASSERT(hold->count > 0);

		if (same(&hold->handle, h))
			return hold;
	}
	return NULL;
}

bool meta__is_held(const struct meta *m, const struct meta_handle *h)
{
	if (unlikely(m->home))
		return false; /* a borrower's shard has none: meta_lend.c */
	return m->ops->holds->count > 0 && find(m, h);
}

uint64_t meta__holds_count(const struct meta *m)
{
	return m->ops->holds->count;
}

/* ---- taken and let go: (1) ----------------------------------------------------------------- */

/* Only bytes are kept: a directory or a symlink that is removed has none that anybody could use. */
static bool takes_one(const struct meta_op *op)
{
	return op->flags & META_HOLD && op->attr.type == META_TYPE_FILE;
}

int meta__hold_ready(const struct meta *m, const struct meta_op *op)
{
	if (!takes_one(op) || !list_empty(&m->ops->holds->free) || find(m, &op->attr.handle))
		return 0;
	return -ENFILE;
}

void meta__hold_take(struct meta *m, const struct meta_op *op)
{
	struct meta__holds *h = m->ops->holds;
	struct hold *hold;

	ASSERT(!m->home);
	if (!takes_one(op))
		return;
	h->count++;
	hold = find(m, &op->attr.handle);
	if (hold) {
		hold->count++;
		return;
	}
	ASSERT(!list_empty(&h->free)); /* meta__hold_ready() has looked */
	hold = list_entry(list_pop_front(&h->free), struct hold, link);
	hold->handle = op->attr.handle;
	hold->count = 1;
	ASSERT(meta__handle_ok(&hold->handle));
	h->of[meta__dir_shard(m, hold->handle.dir)]++;
	list_push_front(bucket_of(m, &hold->handle), &hold->link);
}

/* The last one of a file without a name is its end. */
int meta__plan_let_go(struct meta *m, struct meta_op *op)
{
	const struct hold *hold = find(m, &op->target.handle);
	struct meta__inode in;
	int rc;

	ASSERT(!m->home);
	if (!hold || hold->count > 1)
		return 0;
	rc = meta__inode_load(m, &op->target.handle, &in);
	if (rc || in.nlink > 0 || in.flags & META__INODE_HIDDEN)
		return rc == -ENOENT ? 0 : rc; /* (3) */
	return meta__free_inode(m, &in);
}

void meta__let_go(struct meta *m, const struct meta_op *op)
{
	struct meta__holds *h = m->ops->holds;
	struct hold *hold = find(m, &op->target.handle);

	if (!hold)
		return;
	ASSERT(hold->count > 0 && h->count > 0);
	h->count--;
	if (--hold->count > 0)
		return;
	ASSERT(h->of[meta__dir_shard(m, hold->handle.dir)] > 0);
	h->of[meta__dir_shard(m, hold->handle.dir)]--;
	ASSERT(h->count >= h->of[meta__dir_shard(m, hold->handle.dir)]);
	list_del(&hold->link);
	list_push_front(&h->free, &hold->link);
}

/* ---- made, ended --------------------------------------------------------------------------- */

static uint32_t buckets_for(uint32_t holds_max)
{
	uint32_t n = 1;

	ASSERT(holds_max <= 1u << 31);
	while (n < holds_max)
		n <<= 1;
	return n;
}

uint64_t meta_holds_bytes(uint32_t holds_max)
{
	const uint64_t max = holds_max ? holds_max : HOLDS_USUAL;

	return sizeof(struct meta__holds) + META_SHARDS_MAX * sizeof(uint32_t) +
	       buckets_for((uint32_t)max) * sizeof(struct list) + max * sizeof(struct hold);
}

int meta__holds_create(struct meta *m)
{
	const uint32_t max = m->conf.holds_max ? m->conf.holds_max : HOLDS_USUAL;
	const uint32_t buckets = buckets_for(max);
	struct meta__holds *h = calloc(1, sizeof(*h));

	m->ops->holds = h;
	if (!h)
		return -ENOMEM;
	h->bucket = calloc(buckets, sizeof(*h->bucket));
	h->hold = calloc(max, sizeof(*h->hold));
	h->of = calloc(META_SHARDS_MAX, sizeof(*h->of));
	if (!h->bucket || !h->hold || !h->of)
		return -ENOMEM;
	m->ops->files_held = h->of;
	ASSERT(is_pow2(buckets));
	ASSERT(buckets >= max);
	h->bucket_mask = buckets - 1;
	for (uint32_t i = 0; i < buckets; i++)
		list_init(&h->bucket[i]);
	list_init(&h->free);
	for (uint32_t i = 0; i < max; i++) {
		list_init(&h->hold[i].link);
		list_push_back(&h->free, &h->hold[i].link);
	}
	return 0;
}

void meta__holds_destroy(struct meta *m)
{
	struct meta__holds *h = m->ops->holds;

	if (!h)
		return;
	free(h->bucket);
	free(h->hold);
	free(h->of);
	free(h);
	m->ops->holds = NULL;
	m->ops->files_held = NULL;
}
