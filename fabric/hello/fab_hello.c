/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The hello: PROTOCOL.md 3, both sides, bytes in and bytes out.
 *
 *   client                     appliance
 *   HELLO_SENT  --HELLO-->     HELLO_WAITS
 *               <-CHALLENGE-   HELLO_CHALLENGED
 *   HELLO_PROVED --PROOF-->    HELLO_DONE
 *               <-WELCOME---
 *   HELLO_DONE
 *
 * Invariants:
 *  (1) Before the proof only four capsules of fixed size are accepted, each in one state.
 *  (2) The client's secret is used only after the appliance has shown that it knows it.
 *  (3) The agreed limits never exceed either side's offer.
 *  (4) No secret is copied here: secrets stay in their own pages.  The key is looked up again for
 *      each proof, so a key that was removed meanwhile is no longer valid
 *      [test_fab_keys:a_key_that_is_revoked_in_the_middle_of_the_hello_is_refused].
 *  (5) A lane proves a key that the session's first hello derived from the client's.  So the
 *      client's key is used once a session, and no other client can join the session
 *      [test_fab_lanes:the_clients_key_does_not_open_a_session].
 */
#include "fabric/fab_internal.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#define LABEL_BYTES 32

static const char label_appliance[LABEL_BYTES] = "weka fabric appliance";
static const char label_client[LABEL_BYTES] = "weka fabric client";
static const char label_lane[LABEL_BYTES] = "weka fabric lane";
static const char label_client_id[LABEL_BYTES] = "weka fabric client id";

void fab__hello_proof(uint8_t out[32], const struct fab_key *key, const char *label,
		      const struct fab_hello_wire *hello,
		      const struct fab_challenge_wire *challenge)
{
	uint8_t text[LABEL_BYTES + sizeof(*hello) + sizeof(*challenge)];
	struct fab_challenge_wire bare = *challenge;
	unsigned int out_bytes = 0;

	ASSERT(strnlen(label, LABEL_BYTES) < LABEL_BYTES);
	memset(bare.proof, 0, sizeof(bare.proof));
	memcpy(text, label, LABEL_BYTES);
	memcpy(text + LABEL_BYTES, hello, sizeof(*hello));
	memcpy(text + LABEL_BYTES + sizeof(*hello), &bare, sizeof(bare));
	ASSERT(HMAC(EVP_sha256(), key->secret, FAB_KEY_BYTES, text, sizeof(text), out, &out_bytes));
	ASSERT(out_bytes == 32);
}

void fab__hello_session_key(const struct fab_hello *h, const struct fab_key *key,
			    uint8_t out[FAB_KEY_BYTES])
{
	fab__hello_proof(out, key, label_lane, &h->hello, &h->challenge);
}

/*
 * Returns the client's identity, made of its id and the key that it proved.  It depends on the
 * secret, so that no holder of another key can choose an id with the same result.
 */
static uint64_t client_of(const struct fab_key *key, const uint8_t id[FAB_CLIENT_ID_BYTES])
{
	static const uint8_t none[FAB_CLIENT_ID_BYTES];
	uint8_t text[LABEL_BYTES + FAB_CLIENT_ID_BYTES], mac[32];
	unsigned int mac_bytes = 0;
	le64 first;

	if (memcmp(id, none, sizeof(none)) == 0)
		return 0;
	memcpy(text, label_client_id, LABEL_BYTES);
	memcpy(text + LABEL_BYTES, id, FAB_CLIENT_ID_BYTES);
	ASSERT(HMAC(EVP_sha256(), key->secret, FAB_KEY_BYTES, text, sizeof(text), mac, &mac_bytes));
	ASSERT(mac_bytes == sizeof(mac));
	memcpy(&first, mac, sizeof(first));
	return max_u64(le64_get(first), 1);
}

static struct fab_limits_wire limits_build(const struct fab_limits *l)
{
	return (struct fab_limits_wire){
		.credits = le32_of(l->credits),
		.long_bodies = le32_of(l->long_bodies),
		.batch_max = le32_of(l->batch_max),
		.window_max_bytes = le32_of(l->window_max_bytes),
		.pool_max_bytes = le64_of(l->pool_max_bytes),
	};
}

static struct fab_limits limits_parse(const struct fab_limits_wire *w)
{
	return (struct fab_limits){
		.credits = le32_get(w->credits),
		.long_bodies = le32_get(w->long_bodies),
		.batch_max = le32_get(w->batch_max),
		.window_max_bytes = le32_get(w->window_max_bytes),
		.pool_max_bytes = le64_get(w->pool_max_bytes),
	};
}

/* 0 is no wish. */
static uint64_t grant(uint64_t wish, uint64_t most)
{
	return wish == 0 ? most : min_u64(wish, most);
}

static void limits_grant(struct fab_limits *most, const struct fab_limits *wish)
{
	most->credits = (uint32_t)grant(wish->credits, most->credits);
	most->long_bodies = (uint32_t)grant(wish->long_bodies, most->long_bodies);
	most->batch_max = (uint32_t)grant(wish->batch_max, most->batch_max);
	most->window_max_bytes = (uint32_t)align_down(
		grant(wish->window_max_bytes, most->window_max_bytes), BLOCK_SIZE);
	most->pool_max_bytes = grant(wish->pool_max_bytes, most->pool_max_bytes);
	ASSERT(wish->credits == 0 || most->credits <= wish->credits); /* (3) */
	ASSERT(wish->pool_max_bytes == 0 || most->pool_max_bytes <= wish->pool_max_bytes);
}

/* The client's memory is sized by these limits: an appliance may not exceed those of PROTOCOL.md.
 */
static bool limits_sane(const struct fab_limits *l, const struct fab_limits *wish)
{
	struct fab_limits most = *l;

	limits_grant(&most, wish);
	return memcmp(&most, l, sizeof(most)) == 0 && l->credits > 0 &&
	       l->credits <= FAB_CREDITS_MAX && l->long_bodies <= FAB_LONG_MAX &&
	       l->batch_max <= FAB_BATCH_MAX && l->window_max_bytes <= FAB_WINDOW_MAX;
}

/* ---- capsules out ------------------------------------------------------------------- */

static void put_capsule_retry(struct fab_hello *h, uint8_t type, int status, uint32_t retry_ms,
			      const void *body, uint32_t bytes)
{
	struct fab_hdr_wire w;

	ASSERT(bytes <= FAB_BODY_MAX);
	ASSERT(h->out_bytes + sizeof(w) + bytes <= sizeof(h->out));
	fab__hdr_build(&w, type, 0);
	w.deadline = le32_of((uint32_t)status);
	w.window_block = le32_of(retry_ms);
	w.body_bytes = le32_of(bytes);
	if (bytes <= FAB_SMALL_MAX)
		memcpy(w.small, body, bytes);
	else
		w.body.crc32c = le32_of(crc32c(body, bytes));
	w.check = le32_of(fab__hdr_check(&w));
	memcpy(h->out + h->out_bytes, &w, sizeof(w));
	h->out_bytes += (uint32_t)sizeof(w);
	if (bytes > FAB_SMALL_MAX) {
		memcpy(h->out + h->out_bytes, body, bytes);
		h->out_bytes += bytes;
	}
}

static void put_capsule(struct fab_hello *h, uint8_t type, int status, const void *body,
			uint32_t bytes)
{
	put_capsule_retry(h, type, status, 0, body, bytes);
}

void fab__hello_refuse(struct fab_hello *h, int status, const char *text)
{
	ASSERT(h->server);
	h->out_bytes = 0;
	put_capsule(h, FAB_REFUSE, status, text, (uint32_t)strnlen(text, FAB_REFUSE_MAX));
}

void fab__hello_refuse_busy(struct fab_hello *h, uint32_t retry_ms, const char *text)
{
	ASSERT(h->server);
	h->out_bytes = 0;
	put_capsule_retry(h, FAB_REFUSE, -EBUSY, retry_ms, text,
			  (uint32_t)strnlen(text, FAB_REFUSE_MAX));
}

static int fail(struct fab_hello *h, int err, const char *text)
{
	ASSERT(err < 0);
	snprintf(h->why, sizeof(h->why), "%s", text);
	if (h->server)
		fab__hello_refuse(h, err, text);
	return err;
}

void fab__hello_client(struct fab_hello *h, const struct fab_key *key, uint8_t transport,
		       const struct fab_limits *want, const uint8_t client_id[FAB_CLIENT_ID_BYTES],
		       const uint8_t nonce[32], const struct fab__join *join)
{
	ASSERT(key && transport != 0);
	memset(h, 0, sizeof(*h));
	h->at = HELLO_SENT;
	h->key = key;
	h->transport = transport;
	h->limits = *want;
	h->hello.version_min = FAB_VERSION_MIN;
	h->hello.version_max = FAB_VERSION_MAX;
	h->hello.transport = transport;
	h->hello.limits = limits_build(want);
	memcpy(h->hello.key_id, key->id, strnlen(key->id, FAB_KEY_ID_MAX));
	memcpy(h->hello.nonce, nonce, sizeof(h->hello.nonce));
	if (join) {
		h->hello.lane.session_id = le64_of(join->session_id);
		h->hello.lane.number = le16_of(join->number);
		h->hello.lane.core = le16_of(join->core);
		memcpy(h->place.appliance, join->appliance, sizeof(h->place.appliance));
	}
	if (client_id)
		memcpy(h->hello.client_id, client_id, sizeof(h->hello.client_id));
	put_capsule(h, FAB_HELLO, 0, &h->hello, sizeof(h->hello));
}

void fab__hello_server(struct fab_hello *h, const struct fab__keys *keys, uint8_t transport,
		       const struct fab_limits *most, const uint8_t nonce[32])
{
	ASSERT(keys && most->credits > 0);
	memset(h, 0, sizeof(*h));
	h->at = HELLO_WAITS;
	h->server = true;
	h->keys = keys;
	h->key_slot = FAB_KEY_NONE;
	h->transport = transport;
	h->limits = *most;
	memcpy(h->challenge.nonce, nonce, sizeof(h->challenge.nonce));
}

bool fab__hello_joins(const struct fab_hello *h)
{
	return le64_get(h->hello.lane.session_id) != 0;
}

void fab__hello_welcome(struct fab_hello *h, uint64_t session_id, uint32_t core)
{
	struct fab_welcome_wire w = {
		.session_low = le32_of((uint32_t)session_id),
		.session_high = le32_of((uint32_t)(session_id >> 32)),
		.core = le32_of(core),
		.mark_low = le32_of((uint32_t)h->mark),
		.mark_high = le32_of((uint32_t)(h->mark >> 32)),
		.forgotten_low = le32_of((uint32_t)h->forgotten),
		.forgotten_high = le32_of((uint32_t)(h->forgotten >> 32)),
	};

	ASSERT(session_id != 0);
	ASSERT(h->server && h->at == HELLO_DONE);
	h->place.session_id = session_id;
	h->place.core = core;
	put_capsule(h, FAB_WELCOME, 0, &w, sizeof(w));
}

/* ---- capsules in -------------------------------------------------------------------- */

/* The body that may come in this state; REFUSE is looked at by its own length. */
static uint32_t body_expected(const struct fab_hello *h)
{
	switch (h->at) {
	case HELLO_WAITS:
		return sizeof(struct fab_hello_wire);
	case HELLO_SENT:
		return sizeof(struct fab_challenge_wire);
	case HELLO_CHALLENGED:
		return sizeof(struct fab_proof_wire);
	case HELLO_PROVED:
		return sizeof(struct fab_welcome_wire);
	case HELLO_DONE:
		break;
	}
	UNREACHABLE();
}

static uint8_t type_expected(const struct fab_hello *h)
{
	static const uint8_t types[] = {
		[HELLO_WAITS] = FAB_HELLO,
		[HELLO_SENT] = FAB_CHALLENGE,
		[HELLO_CHALLENGED] = FAB_PROOF,
		[HELLO_PROVED] = FAB_WELCOME,
	};

	ASSERT(h->at < ARRAY_LEN(types));
	return types[h->at];
}

static struct fab_hdr_wire header_of(const struct fab_hello *h)
{
	struct fab_hdr_wire w;

	ASSERT(h->in_bytes >= sizeof(w));
	memcpy(&w, h->in, sizeof(w));
	return w;
}

/* Returns the number of bytes after a header that has passed header_check(). */
static uint32_t behind(const struct fab_hdr_wire *w)
{
	uint32_t bytes = le32_get(w->body_bytes);

	return bytes > FAB_SMALL_MAX ? bytes : 0;
}

uint32_t fab__hello_want(const struct fab_hello *h)
{
	struct fab_hdr_wire w;

	ASSERT(h->in_bytes <= sizeof(h->in));
	if (h->in_bytes < sizeof(w))
		return (uint32_t)sizeof(w) - h->in_bytes;
	w = header_of(h);
	ASSERT(h->in_bytes <= sizeof(w) + behind(&w));
	return (uint32_t)sizeof(w) + behind(&w) - h->in_bytes;
}

static int other_protocol(struct fab_hello *h)
{
	char text[FAB_REFUSE_MAX], seen[5];

	for (int i = 0; i < 4; i++)
		seen[i] = (char)(h->in[i] >= ' ' && h->in[i] < 127 ? h->in[i] : '.');
	seen[4] = 0;
	snprintf(text, sizeof(text), "the peer speaks another protocol: its first bytes are \"%s\"",
		 seen);
	return fail(h, -EPROTO, text);
}

static int header_check(struct fab_hello *h)
{
	struct fab_hdr_wire w = header_of(h);
	bool refuse = !h->server && w.type == FAB_REFUSE;

	ASSERT(h->in_bytes == sizeof(w));
	if (fab__hdr_check(&w) != le32_get(w.check))
		return fail(h, -EPROTO, "a capsule of the hello is damaged");
	if (w.version != 1 || (w.type != type_expected(h) && !refuse))
		return fail(h, -EPROTO, "a capsule that has no place in the hello");
	if (refuse ? le32_get(w.body_bytes) > FAB_REFUSE_MAX
		   : le32_get(w.body_bytes) != body_expected(h))
		return fail(h, -EPROTO, "a capsule of the hello has the wrong size");
	return 0;
}

/* Copies the peer's text for people; bytes that are not printable become dots. */
static int refused(struct fab_hello *h, const struct fab_hdr_wire *w, const uint8_t *body)
{
	int status = (int32_t)le32_get(w->deadline);
	uint32_t bytes = le32_get(w->body_bytes);
	int used = snprintf(h->why, sizeof(h->why), "the appliance refused: ");

	ASSERT(!h->server && bytes <= FAB_REFUSE_MAX);
	for (uint32_t i = 0; i < bytes; i++)
		h->why[used++] = (char)(body[i] >= ' ' && body[i] < 127 ? body[i] : '.');
	h->why[used] = 0;
	h->retry_ms = status == -EBUSY ? le32_get(w->window_block) : 0;
	return status < 0 && status >= -4095 ? status : -EPROTO;
}

static bool key_id_sane(const uint8_t id[32])
{
	uint32_t bytes = (uint32_t)strnlen((const char *)id, 32);

	for (uint32_t i = 0; i < 32; i++)
		if (i < bytes ? id[i] <= ' ' || id[i] > '~' : id[i] != 0)
			return false;
	return bytes > 0 && bytes <= FAB_KEY_ID_MAX;
}

/* Unknown ids and sessions are answered in the same way, by a key that no client has. */
static const struct fab_key *key_find(struct fab_hello *h)
{
	ASSERT(h->server && h->keys);
	h->key_slot = FAB_KEY_NONE;
	if (!fab__hello_joins(h))
		return fab__keys_find(h->keys, h->key_id, h->peer, &h->key_slot);
	return h->lanes ? fab__lanes_find(h->lanes, h, &h->key_slot) : fab__keys_nobody(h->keys);
}

/* A hello that joins no session has zeros in the fields for lanes. */
static bool lane_sane(const struct fab_lane_wire *w)
{
	if (le32_get(w->zero) || le16_get(w->number) >= FAB_LANES_MAX)
		return false;
	return le64_get(w->session_id) || (!le16_get(w->number) && !le16_get(w->core));
}

static int hello_step(struct fab_hello *h, const uint8_t *body)
{
	struct fab_limits wish;
	const struct fab_key *key;

	ASSERT(h->server && h->at == HELLO_WAITS); /* (1) */
	memcpy(&h->hello, body, sizeof(h->hello));
	if (h->hello.version_min > FAB_VERSION_MAX || h->hello.version_max < FAB_VERSION_MIN) {
		char text[FAB_REFUSE_MAX];

		snprintf(text, sizeof(text),
			 "this side speaks protocol versions %u to %u, the peer %u to %u",
			 FAB_VERSION_MIN, FAB_VERSION_MAX, h->hello.version_min,
			 h->hello.version_max);
		return fail(h, -EPROTONOSUPPORT, text);
	}
	if (h->hello.transport != h->transport || !key_id_sane(h->hello.key_id) ||
	    !lane_sane(&h->hello.lane))
		return fail(h, -EPROTO, "a hello that makes no sense");
	memcpy(h->key_id, h->hello.key_id, FAB_KEY_ID_MAX);
	h->version = (uint8_t)min_u32(h->hello.version_max, FAB_VERSION_MAX);
	wish = limits_parse(&h->hello.limits);
	limits_grant(&h->limits, &wish);
	if (h->limits.window_max_bytes == 0)
		return fail(h, -EPROTO, "a hello that wishes for windows of less than a block");

	h->challenge.version = h->version;
	h->challenge.limits = limits_build(&h->limits);
	h->challenge.core_count = le32_of(h->place.core_count);
	h->challenge.shard_count = le32_of(h->place.shard_count);
	h->challenge.lanes_max = le32_of(h->place.lanes_max);
	h->challenge.features = le32_of(h->place.features);
	memcpy(h->challenge.appliance, h->place.appliance, sizeof(h->challenge.appliance));
	key = key_find(h);
	fab__hello_proof(h->challenge.proof, key, label_appliance, &h->hello, &h->challenge);
	put_capsule(h, FAB_CHALLENGE, 0, &h->challenge, sizeof(h->challenge));
	h->at = HELLO_CHALLENGED;
	return 0;
}

static int challenge_step(struct fab_hello *h, const uint8_t *body)
{
	struct fab_limits granted;
	uint8_t proof[32];

	ASSERT(!h->server && h->at == HELLO_SENT); /* (1) */
	memcpy(&h->challenge, body, sizeof(h->challenge));
	if (fab__hello_joins(h) &&
	    memcmp(h->place.appliance, h->challenge.appliance, sizeof(h->place.appliance)) != 0)
		return fail(h, -EXDEV, "another appliance answers at this address");
	fab__hello_proof(proof, h->key, label_appliance, &h->hello, &h->challenge);
	if (CRYPTO_memcmp(proof, h->challenge.proof, sizeof(proof)) != 0) {
		char text[FAB_WHY_MAX];

		snprintf(text, sizeof(text), "the appliance does not hold our key \"%s\"",
			 h->key->id);
		return fail(h, -EACCES, text);
	}
	granted = limits_parse(&h->challenge.limits);
	if (h->challenge.version != FAB_VERSION_MAX || !limits_sane(&granted, &h->limits))
		return fail(h, -EPROTO, "the appliance granted what was not asked for");
	h->version = h->challenge.version;
	h->limits = granted;
	h->place.core_count = max_u32(le32_get(h->challenge.core_count), 1);
	h->place.shard_count = le32_get(h->challenge.shard_count);
	h->place.lanes_max = min_u32(le32_get(h->challenge.lanes_max), FAB_LANES_MAX);
	h->place.features = le32_get(h->challenge.features);
	memcpy(h->place.appliance, h->challenge.appliance, sizeof(h->place.appliance));
	fab__hello_proof(proof, h->key, label_client, &h->hello, &h->challenge);
	put_capsule(h, FAB_PROOF, 0, proof, sizeof(proof));
	h->at = HELLO_PROVED;
	return 0;
}

uint32_t fab__hello_key_slot(const struct fab_hello *h)
{
	struct fab_hello again = *h;

	ASSERT(h->server);
	(void)key_find(&again);
	return again.key_slot;
}

static int proof_step(struct fab_hello *h, const uint8_t *body)
{
	const struct fab_key *key = key_find(h);
	uint8_t proof[32];

	ASSERT(h->server && h->at == HELLO_CHALLENGED);
	fab__hello_proof(proof, key, label_client, &h->hello, &h->challenge);
	if (CRYPTO_memcmp(proof, body, sizeof(proof)) != 0 || h->key_slot == FAB_KEY_NONE)
		return fail(h, -EACCES, "the proof of the key is wrong");
	ASSERT(key != fab__keys_nobody(h->keys));
	h->client = fab__hello_joins(h) ? 0 : client_of(key, h->hello.client_id);
	h->at = HELLO_DONE;
	return 1;
}

static uint64_t word(le32 low, le32 high)
{
	return (uint64_t)le32_get(high) << 32 | le32_get(low);
}

static int welcome_step(struct fab_hello *h, const uint8_t *body)
{
	struct fab_welcome_wire w;
	uint64_t id;

	ASSERT(!h->server && h->at == HELLO_PROVED); /* (2): the appliance has proved itself */
	memcpy(&w, body, sizeof(w));
	id = word(w.session_low, w.session_high);
	if (id == 0 || (fab__hello_joins(h) && id != le64_get(h->hello.lane.session_id)))
		return fail(h, -EPROTO, "the appliance welcomed us to another session");
	h->place.session_id = id;
	h->place.core = le32_get(w.core);
	h->mark = word(w.mark_low, w.mark_high);
	h->forgotten = word(w.forgotten_low, w.forgotten_high);
	h->at = HELLO_DONE;
	return 1;
}

int fab__hello_step(struct fab_hello *h)
{
	static const le32 magic = { FAB_MAGIC };
	struct fab_hdr_wire w;
	const uint8_t *body;
	int err;

	ASSERT(h->at != HELLO_DONE);
	/* As soon as they are there: another protocol may never send 64 bytes. */
	if (memcmp(h->in, &magic, min_u32(h->in_bytes, sizeof(magic))) != 0) {
		return h->in_bytes < sizeof(magic) ? 0 : other_protocol(h);
	}
	if (h->in_bytes < sizeof(w))
		return 0;
	w = header_of(h);
	if (h->in_bytes == sizeof(w)) {
		err = header_check(h);
		if (err)
			return err;
	}
	if (h->in_bytes < sizeof(w) + behind(&w))
		return 0;
	body = behind(&w) ? h->in + sizeof(w) : w.small;
	if (behind(&w) && crc32c(body, behind(&w)) != le32_get(w.body.crc32c))
		return fail(h, -EPROTO, "a capsule of the hello is damaged");
	h->in_bytes = 0;
	if (w.type == FAB_REFUSE)
		return refused(h, &w, body);
	switch (h->at) {
	case HELLO_WAITS:
		return hello_step(h, body);
	case HELLO_SENT:
		return challenge_step(h, body);
	case HELLO_CHALLENGED:
		return proof_step(h, body);
	case HELLO_PROVED:
		return welcome_step(h, body);
	case HELLO_DONE:
		break;
	}
	UNREACHABLE();
}
