/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Sessions, and the connections of each: its lanes.
 *
 *   fab__lanes_begin()      fab__lanes_enter()        fab__lanes_leave()
 *   FREE ----------> a key, one lane ----> more lanes ------> ... the last one: FREE, key wiped
 *
 *   session id:   | serial, 51 bits | its place in the table, 13 bits |
 *
 * A lane is an ordinary connection with its own place, credits, pools and core, and a fault of one
 * lane breaks no other.  The lanes of a session share its identity: id, key, rights, rates.
 *
 * Invariants, true between any two calls of the control side, which alone uses this file:
 *
 *  (1) A session exists while a connection of it has a place.
 *  (2) No two connections have one number, except for one that was told to end.
 *  (3) A session's key is valid as long as the key that began the session.
 *  (4) A quarter of all places is never given to lanes: they cannot keep out another client
 *      [test_fab_lanes:lanes_leave_a_quarter_of_all_places_to_others].
 */
#include "fabric/hello/fab_server_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_BITS 13
#define PLACE_MASK ((UINT64_C(1) << PLACE_BITS) - 1)

static_assert(sizeof(((struct fab_hello_wire *)0)->lane) == 16, "PROTOCOL.md 3");

int fab__lanes_create(struct fab__lanes *lanes, const struct fab__keys *keys, uint32_t sessions_max,
		      uint32_t lanes_max)
{
	void *memory;
	int err;

	ASSERT(sessions_max <= PLACE_MASK + 1 && lanes_max <= FAB_LANES_MAX);
	lanes->of = calloc(sessions_max, sizeof(*lanes->of));
	if (!lanes->of)
		return -ENOMEM;
	err = secret_create(sessions_max * sizeof(*lanes->secret), &memory, &lanes->locked);
	if (err) {
		free(lanes->of);
		lanes->of = NULL;
		return err;
	}
	lanes->secret = memory;
	lanes->keys = keys;
	lanes->max = sessions_max;
	lanes->lanes_max = lanes_max;
	return 0;
}

void fab__lanes_destroy(struct fab__lanes *lanes)
{
	if (!lanes->of)
		return;
	secret_destroy(lanes->secret, lanes->max * sizeof(*lanes->secret));
	free(lanes->of);
	lanes->of = NULL;
}

/* NULL: there is no such session. */
static struct fab__lanes_of *session_find(const struct fab__lanes *lanes, uint64_t id)
{
	uint64_t place = id & PLACE_MASK;

	return place < lanes->max && lanes->of[place].id == id && id ? &lanes->of[place] : NULL;
}

const struct fab_key *fab__lanes_find(const struct fab__lanes *lanes, const struct fab_hello *h,
				      uint32_t *slot)
{
	uint64_t id = le64_get(h->hello.lane.session_id);
	const struct fab__lanes_of *of = session_find(lanes, id);

	/* The key must still be good, and for this peer. */
	(void)fab__keys_find(lanes->keys, h->key_id, h->peer, slot);
	if (of && *slot != FAB_KEY_NONE && of->key_slot == *slot)
		return &lanes->secret[id & PLACE_MASK].key;
	*slot = FAB_KEY_NONE;
	return fab__keys_nobody(lanes->keys);
}

int fab__lanes_secret(const struct fab__lanes *lanes, const char *id, uint8_t secret[FAB_KEY_BYTES])
{
	char same[FAB_KEY_ID_MAX + 1];
	uint64_t session = strtoull(strchr(id, ' ') + 1, NULL, 10);
	const struct fab__lanes_of *of = session_find(lanes, session);

	fab__tls_lane_id(same, session);
	if (!of || strcmp(same, id) != 0 || lanes->keys->slot[of->key_slot].at != KEY_LIVE)
		return -ENOENT;
	memcpy(secret, lanes->secret[session & PLACE_MASK].key.secret, FAB_KEY_BYTES);
	return 0;
}

static struct fab__session_secret *secret_of(const struct fab__lanes *lanes,
					     const struct fab__lanes_of *of)
{
	ASSERT(of->id && (of->id & PLACE_MASK) < lanes->max);
	return &lanes->secret[of->id & PLACE_MASK];
}

static void secret_make(struct fab__lanes *lanes, const struct fab__lanes_of *of,
			const struct fab_hello *h, const struct fab_key *key)
{
	const uint8_t *handles = fab__keys_handle_secret(lanes->keys, of->key_slot);
	struct fab__session_secret *secret = secret_of(lanes, of);

	ASSERT(lanes->keys->slot[of->key_slot].at == KEY_LIVE); /* (3) */
	secret->key = *key;
	fab__hello_session_key(h, key, secret->key.secret);
	secret->confined = handles;
	if (handles)
		fab__scope_init(&secret->scope, handles, of->client, secret->key.secret,
				fab__keys_rights(lanes->keys, of->key_slot));
}

uint64_t fab__lanes_begin(struct fab__lanes *lanes, const struct fab_hello *h)
{
	uint32_t i, slot;
	const struct fab_key *key = fab__keys_find(lanes->keys, h->key_id, h->peer, &slot);

	ASSERT(!fab__hello_joins(h) && h->at == HELLO_DONE);
	for (i = 0; lanes->of[i].id; i++)
		ASSERT(i + 1 < lanes->max); /* as many as there are places */
	ASSERT(slot == h->key_slot);
	lanes->of[i] = (struct fab__lanes_of){
		.id = ++lanes->serial << PLACE_BITS | i,
		.key_slot = slot,
		.client = h->client,
	};
	secret_make(lanes, &lanes->of[i], h, key);
	return lanes->of[i].id;
}

uint64_t fab__lanes_client(const struct fab__lanes *lanes, const struct fab_hello *h)
{
	const struct fab__lanes_of *of = session_find(lanes, le64_get(h->hello.lane.session_id));

	return of ? of->client : h->client;
}

int fab__lanes_may_enter(const struct fab__lanes *lanes, const struct fab_hello *h,
			 uint32_t places_free, struct fab__session **holder)
{
	const struct fab__lanes_of *of = session_find(lanes, le64_get(h->hello.lane.session_id));
	uint16_t number = le16_get(h->hello.lane.number);

	ASSERT(of);                                          /* its key was just proved */
	ASSERT(of->count > 0 && of->count <= FAB_LANES_MAX); /* (1) */
	ASSERT(number < FAB_LANES_MAX);
	*holder = NULL;
	if (h->transport == FAB_TRANSPORT_SHM || of->is_shm)
		return -EOPNOTSUPP;
	*holder = of->lane[number];
	return number < lanes->lanes_max && of->count < lanes->lanes_max &&
			       places_free > lanes->max / 4 /* (4) */
		       ? 0
		       : -EUSERS;
}

static void session_end(struct fab__lanes *lanes, struct fab__lanes_of *of)
{
	ASSERT(of && of->id);
	ASSERT(of && of->count == 0);
	secret_wipe(secret_of(lanes, of), sizeof(*lanes->secret));
	*of = (struct fab__lanes_of){ 0 };
}

void fab__lanes_enter(struct fab__lanes *lanes, struct fab__session *s, uint32_t number)
{
	struct fab__lanes_of *of = session_find(lanes, s->pub.id);
	const struct fab__session_secret *secret;

	ASSERT(of && of->count < lanes->lanes_max);
	ASSERT(number < lanes->lanes_max);
	ASSERT(!of->lane[number] || of->lane[number]->control.lost_told); /* (2) */
	ASSERT(lanes->keys->slot[of->key_slot].at == KEY_LIVE);           /* (3) */
	secret = secret_of(lanes, of);
	s->pub.scope = secret->confined ? &secret->scope : NULL;
	of->count++;
	of->is_shm |= s->direct;
	of->lane[number] = s;
	s->pub.lane = number;
	s->control.in_session = true;
}

void fab__lanes_leave(struct fab__lanes *lanes, struct fab__session *s)
{
	struct fab__lanes_of *of = session_find(lanes, s->pub.id);

	ASSERT(s->pub.lane < FAB_LANES_MAX);
	ASSERT(of && of->count > 0 && s->control.in_session);
	s->control.in_session = false;
	if (of->lane[s->pub.lane] == s)
		of->lane[s->pub.lane] = NULL;
	if (--of->count == 0)
		session_end(lanes, of);
}

void fab__lanes_undo(struct fab__lanes *lanes, uint64_t id)
{
	ASSERT(id != 0);
	session_end(lanes, session_find(lanes, id));
}
