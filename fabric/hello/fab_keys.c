/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The keys of a server, and the sessions of each.
 *
 *   slot    FREE --set--> LIVE --removed or replaced--> GONE --its last session is over--> FREE
 *
 *   secrets in their own pages (base/secret.h):  | key 0 | key 1 | ... | the null key |
 *
 * Invariants, true between any two calls:
 *
 *  (1) At most one LIVE slot has any one id.
 *  (2) The content of a slot does not change before it is FREE again: sessions point into it.
 *  (3) Looking for an id touches every slot in the same way, and finds the null key if there is no
 *      such key: time and bytes reveal nothing about which ids exist
 *      [test_fab_hello:an_unknown_id_looks_just_like_a_wrong_key].
 */
#include "fabric/hello/fab_server_internal.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static struct fab__secret *nobody(const struct fab__keys *keys)
{
	ASSERT(keys->secret);
	return &keys->secret[keys->max];
}

static size_t secret_bytes(uint32_t keys_max)
{
	ASSERT(keys_max > 0 && keys_max <= FAB_KEYS_MAX);
	return (keys_max + (size_t)1) * sizeof(struct fab__secret);
}

int fab__keys_create(struct fab__keys *keys, uint32_t keys_max)
{
	void *memory;
	int err;

	ASSERT(!keys->slot);
	keys->slot = calloc(keys_max, sizeof(*keys->slot));
	if (!keys->slot)
		return -ENOMEM;
	err = secret_create(secret_bytes(keys_max), &memory, &keys->locked);
	if (err) {
		free(keys->slot);
		keys->slot = NULL;
		return err;
	}
	keys->secret = memory;
	keys->max = keys_max;
	ASSERT(getrandom(nobody(keys)->key.secret, FAB_KEY_BYTES, 0) == FAB_KEY_BYTES);
	return 0;
}

void fab__keys_destroy(struct fab__keys *keys)
{
	if (!keys->slot)
		return;
	secret_destroy(keys->secret, secret_bytes(keys->max));
	free(keys->slot);
	keys->slot = NULL;
}

/* ---- looking -------------------------------------------------------------------------- */

const struct fab_key *fab__keys_find(const struct fab__keys *keys,
				     const char id[FAB_KEY_ID_MAX + 1], enum fab_peer peer,
				     uint32_t *slot)
{
	uint32_t found = keys->max;

	for (uint32_t i = 0; i < keys->max; i++) { /* (3) */
		bool good = keys->slot[i].at == KEY_LIVE;

		good &= CRYPTO_memcmp(keys->secret[i].key.id, id, FAB_KEY_ID_MAX + 1) == 0;
		good &= peer >= keys->slot[i].rights.peer;
		found = good ? i : found;
	}
	*slot = found == keys->max ? FAB_KEY_NONE : found;
	ASSERT(*slot == FAB_KEY_NONE || keys->slot[*slot].at == KEY_LIVE);
	return &keys->secret[found].key;
}

const struct fab_key *fab__keys_nobody(const struct fab__keys *keys)
{
	return &nobody(keys)->key;
}

/* By an id of ours, which may be shorter than its field. */
uint32_t fab__keys_slot_of(const struct fab__keys *keys, const char *id)
{
	char padded[FAB_KEY_ID_MAX + 1] = { 0 };
	uint32_t slot;

	if (strlen(id) > FAB_KEY_ID_MAX)
		return FAB_KEY_NONE;
	memcpy(padded, id, strlen(id));
	(void)fab__keys_find(keys, padded, FAB_PEER_OWNER, &slot);
	return slot;
}

const struct fab_rights *fab__keys_rights(const struct fab__keys *keys, uint32_t slot)
{
	ASSERT(slot < keys->max && keys->slot[slot].at != KEY_FREE);
	return &keys->slot[slot].rights;
}

const uint8_t *fab__keys_handle_secret(const struct fab__keys *keys, uint32_t slot)
{
	const struct fab_rights *r = &keys->slot[slot].rights;

	ASSERT(slot < keys->max && keys->slot[slot].at != KEY_FREE);
	return r->subtree[0] || r->has_uid ? keys->secret[slot].handle_secret : NULL;
}

struct fab__rate *fab__keys_rate(struct fab__keys *keys, uint32_t slot)
{
	struct fab__key_slot *s = &keys->slot[slot];

	ASSERT(slot < keys->max && s->at != KEY_FREE);
	return s->rights.ops_per_s || s->rights.bytes_per_s ? &s->rate : NULL;
}

void fab__keys_enter(struct fab__keys *keys, uint32_t slot)
{
	ASSERT(slot < keys->max);
	ASSERT(keys->slot[slot].at == KEY_LIVE);
	keys->slot[slot].sessions++;
}

static void slot_free(struct fab__keys *keys, uint32_t slot)
{
	ASSERT(keys->slot[slot].at == KEY_GONE && keys->slot[slot].sessions == 0); /* (2) */
	secret_wipe(&keys->secret[slot], sizeof(keys->secret[slot]));
	keys->slot[slot].at = KEY_FREE;
	keys->slot[slot].rights = (struct fab_rights){ 0 };
	keys->slot[slot].rate = (struct fab__rate){ 0 };
}

void fab__keys_leave(struct fab__keys *keys, uint32_t slot)
{
	ASSERT(slot < keys->max && keys->slot[slot].at != KEY_FREE);
	ASSERT(keys->slot[slot].sessions > 0);
	if (--keys->slot[slot].sessions == 0 && keys->slot[slot].at == KEY_GONE)
		slot_free(keys, slot);
}

/* ---- setting, removing ------------------------------------------------------------------ */

static bool id_sane(const char id[FAB_KEY_ID_MAX + 1])
{
	uint32_t bytes = (uint32_t)strnlen(id, FAB_KEY_ID_MAX + 1);

	for (uint32_t i = 0; i <= FAB_KEY_ID_MAX; i++)
		if (i < bytes ? id[i] <= ' ' || id[i] > '~' : id[i] != 0)
			return false;
	return bytes > 0 && bytes <= FAB_KEY_ID_MAX;
}

static bool subtree_sane(const char *path)
{
	size_t bytes = strnlen(path, FAB_SUBTREE_MAX + 1);

	if (bytes == 0)
		return true;
	return bytes <= FAB_SUBTREE_MAX && bytes > 1 && path[0] == '/' && path[bytes - 1] != '/';
}

static bool same_user(const struct fab_rights *a, const struct fab_rights *b)
{
	return a->has_uid == b->has_uid && a->uid == b->uid && a->gids == b->gids &&
	       memcmp(a->gid, b->gid, a->gids * sizeof(a->gid[0])) == 0;
}

static bool same_grant(const struct fab__keys *keys, uint32_t slot, const struct fab_grant *g)
{
	const struct fab__secret *s = &keys->secret[slot];
	const struct fab_rights *a = &keys->slot[slot].rights, *b = &g->rights;

	return CRYPTO_memcmp(s->key.secret, g->key.secret, FAB_KEY_BYTES) == 0 &&
	       CRYPTO_memcmp(s->handle_secret, g->handle_secret, FAB_KEY_BYTES) == 0 &&
	       strcmp(a->subtree, b->subtree) == 0 && a->may_write == b->may_write &&
	       a->peer == b->peer && a->ops_per_s == b->ops_per_s &&
	       a->bytes_per_s == b->bytes_per_s && same_user(a, b);
}

/* Returns how many sessions are in by it. */
static int slot_end(struct fab__keys *keys, uint32_t slot)
{
	uint32_t sessions = keys->slot[slot].sessions;

	ASSERT(slot < keys->max && keys->slot[slot].at == KEY_LIVE);
	keys->slot[slot].at = KEY_GONE;
	if (sessions == 0)
		slot_free(keys, slot);
	return (int)sessions;
}

int fab__keys_set(struct fab__keys *keys, const struct fab_grant *grant, uint32_t *ended)
{
	uint32_t old, slot;

	*ended = FAB_KEY_NONE;
	if (!id_sane(grant->key.id) || !subtree_sane(grant->rights.subtree) ||
	    grant->rights.gids > FAB_GROUPS_MAX ||
	    (grant->rights.has_uid && grant->rights.gids == 0))
		return -EINVAL;
	old = fab__keys_slot_of(keys, grant->key.id);
	if (old != FAB_KEY_NONE && same_grant(keys, old, grant))
		return 0;
	for (slot = 0; slot < keys->max && keys->slot[slot].at != KEY_FREE; slot++)
		;
	/* Without other room, an idle old one gives up its place. */
	if (slot == keys->max && old != FAB_KEY_NONE && keys->slot[old].sessions == 0)
		slot = old;
	if (slot == keys->max)
		return -ENOSPC;
	if (old != FAB_KEY_NONE) {
		(void)slot_end(keys, old); /* (1) */
		*ended = old;
	}
	ASSERT(keys->slot[slot].at == KEY_FREE && keys->slot[slot].sessions == 0); /* (2) */
	ASSERT(fab__keys_slot_of(keys, grant->key.id) == FAB_KEY_NONE);            /* (1) */
	keys->slot[slot].at = KEY_LIVE;
	keys->slot[slot].rights = grant->rights;
	keys->secret[slot].key = grant->key;
	memcpy(keys->secret[slot].handle_secret, grant->handle_secret, FAB_KEY_BYTES);
	return 1;
}

int fab__keys_remove(struct fab__keys *keys, const char *id, uint32_t *ended)
{
	uint32_t slot = fab__keys_slot_of(keys, id);

	*ended = slot;
	return slot == FAB_KEY_NONE ? -ENOENT : slot_end(keys, slot);
}

bool fab__keys_is_live(const struct fab__keys *keys, uint32_t slot)
{
	ASSERT(slot < keys->max);
	return keys->slot[slot].at == KEY_LIVE;
}
