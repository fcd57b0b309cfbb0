/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The inodes that the kernel knows, by the handle of the file.
 *
 *     handle --hash--> part (64, a lock each) --> bucket --> node --> node
 *
 * The kernel's number of an inode is the address of its node, so a request finds its node without a
 * search and without a lock.  Only an answer that carries an entry, and a FORGET, take the lock of
 * one part.  A file has one node, whatever the number of its names, so the kernel has one page
 * cache for it.
 *
 *     get: lookups 0 -> 1 makes the node ...  get, get ...  forget: the last lookup frees it
 *
 * Invariants, true while no thread holds the part's lock:
 *
 *  (1) A node is in the bucket of its handle while its lookups are not 0; no two nodes of a part
 *      have the same handle.
 *  (2) The kernel sends requests only for inodes with lookups, so nobody reads a freed node.
 *      The number of a node is reused only with a new generation.
 *  (3) A part has at most one node a bucket on average, unless memory is short.
 */
#include "client-lib/mount/mount.h"

#include "base/hash.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_FIRST 64u

static uint64_t hash_of(const struct weka_handle *handle)
{
	return hash_bytes(0, handle->bytes, sizeof(handle->bytes));
}

/* The part's number comes from the top bits, the bucket's from the others. */
static struct mount_part *part_of(struct mount_nodes *nodes, uint64_t hash)
{
	return &nodes->part[hash >> 58];
}

int mount_nodes_create(struct mount_nodes *nodes)
{
	static_assert(MOUNT_PARTS == 1u << 6, "part_of() takes six bits");
	for (uint32_t i = 0; i < MOUNT_PARTS; i++) {
		struct mount_part *p = &nodes->part[i];

		p->bucket = calloc(BUCKETS_FIRST, sizeof(struct mount_node *));
		if (!p->bucket)
			return -ENOMEM;
		p->mask = BUCKETS_FIRST - 1;
		pthread_mutex_init(&p->lock, NULL);
	}
	return 0;
}

void mount_nodes_destroy(struct mount_nodes *nodes)
{
	for (uint32_t i = 0; i < MOUNT_PARTS; i++) {
		struct mount_part *p = &nodes->part[i];

		for (uint64_t b = 0; p->bucket && b <= p->mask; b++) {
			struct mount_node *next;

			for (struct mount_node *n = p->bucket[b]; n; n = next) {
				next = n->next;
				free(n);
			}
		}
		free(p->bucket);
		p->bucket = NULL;
	}
}

/* Doubles the buckets.  Without memory the chains grow instead. */
static void part_grow(struct mount_part *p)
{
	const uint64_t mask = 2 * p->mask + 1;
	struct mount_node **bucket = calloc(mask + 1, sizeof(struct mount_node *));

	ASSERT(is_pow2(mask + 1)); /* (3) */
	if (!bucket)
		return;
	for (uint64_t b = 0; b <= p->mask; b++) {
		struct mount_node *next;

		for (struct mount_node *n = p->bucket[b]; n; n = next) {
			const uint64_t to = hash_of(&n->handle) & mask;

			ASSERT((to & p->mask) == b); /* (1) */
			next = n->next;
			n->next = bucket[to];
			bucket[to] = n;
		}
	}
	free(p->bucket);
	p->bucket = bucket;
	p->mask = mask;
}

static struct mount_node *find(const struct mount_part *p, uint64_t hash,
			       const struct weka_handle *handle)
{
	struct mount_node *n = p->bucket[hash & p->mask];

	while (n && memcmp(&n->handle, handle, sizeof(*handle)) != 0)
		n = n->next;
	ASSERT(!n || n->lookups > 0); /* (1) */
	return n;
}

static struct mount_node *add(struct mount_nodes *nodes, struct mount_part *p, uint64_t hash,
			      const struct weka_attr *attr)
{
	struct mount_node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	if (p->count > p->mask)
		part_grow(p);
	n->handle = attr->handle;
	n->ino = attr->ino;
	n->generation =
		atomic_fetch_add_explicit(&nodes->generation, 1, memory_order_relaxed); /* (2) */
	n->next = p->bucket[hash & p->mask];
	p->bucket[hash & p->mask] = n;
	p->count++;
	return n;
}

struct mount_node *mount_node_get(struct mount_nodes *nodes, const struct weka_attr *attr)
{
	const uint64_t hash = hash_of(&attr->handle);
	struct mount_part *p = part_of(nodes, hash);
	struct mount_node *n;

	pthread_mutex_lock(&p->lock);
	n = find(p, hash, &attr->handle);
	if (!n)
		n = add(nodes, p, hash, attr);
	if (n)
		n->lookups++;
	pthread_mutex_unlock(&p->lock);
	if (n)
		mount_node_saw(n, attr);
	return n;
}

void mount_node_saw(struct mount_node *node, const struct weka_attr *attr)
{
	ASSERT(memcmp(&node->handle, &attr->handle, sizeof(attr->handle)) == 0); /* (1) */
	atomic_store_explicit(&node->mode, attr->mode, memory_order_relaxed);
	atomic_store_explicit(&node->gid, attr->gid, memory_order_relaxed);
}

void mount_node_forget(struct mount_nodes *nodes, struct mount_node *node, uint64_t lookups)
{
	const uint64_t hash = hash_of(&node->handle);
	struct mount_part *p = part_of(nodes, hash);
	struct mount_node **link;

	pthread_mutex_lock(&p->lock);
	ASSERT(lookups <= node->lookups); /* (2) */
	node->lookups -= lookups;
	if (node->lookups > 0) {
		pthread_mutex_unlock(&p->lock);
		return;
	}
	for (link = &p->bucket[hash & p->mask]; *link != node; link = &(*link)->next)
		ASSERT(*link); /* (1) */
	*link = node->next;
	ASSERT(p->count > 0);
	p->count--;
	pthread_mutex_unlock(&p->lock);
	free(node);
}
