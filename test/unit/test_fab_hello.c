/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The hello, bytes in and bytes out: who agrees, and everybody who must not. */
#include "fabric/hello/fab_server_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct fab_key key = { .id = "training", .secret = { 1, 2, 3 } };
static const struct fab_key same_id = { .id = "training", .secret = { 1, 2, 4 } };
static const struct fab_key other_id = { .id = "nobody", .secret = { 1, 2, 3 } };

static const struct fab_limits most = {
	.credits = 128,
	.long_bodies = 8,
	.batch_max = 1024,
	.window_max_bytes = 64 << 20,
	.pool_max_bytes = 1 << 30,
};

/* The appliance's, which holds `key`. */
static struct fab__keys *the_keys(void)
{
	static struct fab__keys keys;
	struct fab_grant grant = { .key = key };
	uint32_t ended;

	if (!keys.slot) {
		cr_assert_eq(fab__keys_create(&keys, 4), 0);
		cr_assert_eq(fab__keys_set(&keys, &grant, &ended), 1);
	}
	return &keys;
}

struct pair {
	struct fab_hello client, server;
	int client_err, server_err; /* what the last step said */
	uint8_t heard[1024];        /* all that the appliance was sent */
	uint32_t heard_bytes;
	void (*spoil)(uint8_t *bytes, uint32_t size, bool to_server);
};

static void pair_begin(struct pair *p, const struct fab_key *client_key,
		       const struct fab_limits *want)
{
	uint8_t nonce[32], id[FAB_CLIENT_ID_BYTES];
	static const struct fab_limits none;

	memset(p, 0, sizeof(*p));
	memset(nonce, 'c', sizeof(nonce));
	memset(id, 'i', sizeof(id));
	fab__hello_client(&p->client, client_key, FAB_TRANSPORT_TCP, want ? want : &none, id, nonce,
			  NULL);
	memset(nonce, 's', sizeof(nonce));
	fab__hello_server(&p->server, the_keys(), FAB_TRANSPORT_TCP, &most, nonce);
}

/* Carry what `from` says to `to`, as much at a time as it wants. */
static int carry(struct pair *p, struct fab_hello *from, struct fab_hello *to)
{
	uint8_t bytes[sizeof(from->out)];
	uint32_t size = from->out_bytes, at = 0;
	int err = 0;

	memcpy(bytes, from->out, size);
	from->out_bytes = 0;
	if (to == &p->server) {
		memcpy(p->heard + p->heard_bytes, bytes, size);
		p->heard_bytes += size;
	}
	if (p->spoil)
		p->spoil(bytes, size, to == &p->server);
	while (at < size && err == 0) {
		uint32_t n = min_u32(fab__hello_want(to), size - at);

		memcpy(to->in + to->in_bytes, bytes + at, n);
		to->in_bytes += n;
		at += n;
		err = fab__hello_step(to);
	}
	return err;
}

/* Until both are content, or one is not. */
static void talk(struct pair *p)
{
	for (int i = 0; i < 4; i++) {
		p->server_err = carry(p, &p->client, &p->server);
		if (p->server_err == 1)
			fab__hello_welcome(&p->server, 77, 3);
		p->client_err = carry(p, &p->server, &p->client);
		if (p->server_err < 0 || p->client_err)
			return;
	}
}

Test(fab_hello, two_that_hold_the_key_agree)
{
	struct fab_limits want = { .credits = 16, .batch_max = 5000 };
	struct pair p;

	pair_begin(&p, &key, &want);
	talk(&p);
	cr_assert_eq(p.server_err, 1);
	cr_assert_eq(p.client_err, 1);
	cr_assert_eq(p.client.place.session_id, 77);
	cr_assert_str_eq(p.server.key_id, "training");
	cr_assert_eq(memcmp(&p.client.limits, &p.server.limits, sizeof(most)), 0);
	cr_assert_eq(p.client.limits.credits, 16);
	cr_assert_eq(p.client.limits.batch_max, 1024);
	cr_assert_eq(p.client.limits.pool_max_bytes, 1 << 30);
}

Test(fab_hello, a_wrong_key_is_noticed_by_the_client_first)
{
	struct pair p;

	pair_begin(&p, &same_id, NULL);
	talk(&p);
	cr_assert_eq(p.client_err, -EACCES);
	cr_assert_neq(strstr(p.client.why, "does not hold our key \"training\""), NULL);
	cr_assert_eq(p.server.at, HELLO_CHALLENGED);
}

Test(fab_hello, an_unknown_id_looks_just_like_a_wrong_key)
{
	struct pair p;

	pair_begin(&p, &other_id, NULL);
	talk(&p);
	cr_assert_eq(p.server_err, 0);
	cr_assert_eq(p.client_err, -EACCES);
}

/* A client that does not mind: it goes on with a proof of its own making. */
Test(fab_hello, a_proof_that_is_wrong_is_refused)
{
	static const struct fab_key *keys[] = { &same_id, &other_id };

	for (int i = 0; i < 2; i++) {
		struct fab_hdr_wire w;
		struct pair p;

		pair_begin(&p, keys[i], NULL);
		cr_assert_eq(carry(&p, &p.client, &p.server), 0);
		fab__hdr_build(&w, FAB_PROOF, 0);
		w.body_bytes = le32_of(32);
		memcpy(p.client.out + sizeof(w), &w, 32);
		w.body.crc32c = le32_of(crc32c(&w, 32));
		memcpy(p.client.out + sizeof(w), &w, 32);
		w.body.crc32c = le32_of(crc32c(p.client.out + sizeof(w), 32));
		w.check = le32_of(fab__hdr_check(&w));
		memcpy(p.client.out, &w, sizeof(w));
		p.client.out_bytes = 96;
		cr_assert_eq(carry(&p, &p.client, &p.server), -EACCES);
	}
}

Test(fab_hello, a_recorded_hello_is_worth_nothing)
{
	struct pair p;
	uint8_t tape[1024], nonce[32];
	uint32_t tape_bytes, at = 0;
	int err = 0;

	pair_begin(&p, &key, NULL);
	talk(&p);
	cr_assert_eq(p.server_err, 1);
	tape_bytes = p.heard_bytes;
	memcpy(tape, p.heard, tape_bytes);
	memset(nonce, 't', sizeof(nonce)); /* the next connection's */
	fab__hello_server(&p.server, the_keys(), FAB_TRANSPORT_TCP, &most, nonce);
	while (at < tape_bytes && err == 0) {
		uint32_t n = min_u32(fab__hello_want(&p.server), tape_bytes - at);

		memcpy(p.server.in + p.server.in_bytes, tape + at, n);
		p.server.in_bytes += n;
		at += n;
		err = fab__hello_step(&p.server);
	}
	cr_assert_eq(err, -EACCES);
}

static uint32_t spoil_at;
static bool spoil_server;

static void spoil_bit(uint8_t *bytes, uint32_t size, bool to_server)
{
	static uint32_t seen;

	if (spoil_at == UINT32_MAX) {
		seen = 0;
		return;
	}
	if (to_server != spoil_server)
		return;
	if (spoil_at / 8 >= seen && spoil_at / 8 < seen + size)
		bytes[spoil_at / 8 - seen] ^= (uint8_t)(1u << (spoil_at % 8));
	seen += size;
}

/* CRCs would find it; so they are made good again: only the proofs are left. */
static void mend(uint8_t *bytes, uint32_t size)
{
	struct fab_hdr_wire w;

	if (size < sizeof(w))
		return;
	memcpy(&w, bytes, sizeof(w));
	if (size > sizeof(w))
		w.body.crc32c = le32_of(crc32c(bytes + sizeof(w), size - sizeof(w)));
	w.check = le32_of(fab__hdr_check(&w));
	memcpy(bytes, &w, sizeof(w));
}

static void spoil_and_mend(uint8_t *bytes, uint32_t size, bool to_server)
{
	spoil_bit(bytes, size, to_server);
	if (spoil_at != UINT32_MAX)
		mend(bytes, size);
}

/* A changed bit of HELLO's, CHALLENGE's or PROOF's body that no CRC betrays. */
Test(fab_hello, nobody_in_between_can_change_what_is_agreed)
{
	struct pair p;

	for (int side = 0; side < 2; side++) {
		/* to the appliance: HELLO and PROOF; to the client: CHALLENGE */
		uint32_t bodies[2][2] = { { 64, 64 + 128 }, { 64, 64 + 128 } };

		for (uint32_t byte = bodies[side][0]; byte < bodies[side][1]; byte++) {
			for (uint32_t bit = 0; bit < 8; bit += 3) {
				spoil_at = UINT32_MAX;
				spoil_bit(NULL, 0, false);
				spoil_at = byte * 8 + bit;
				spoil_server = side == 0;
				pair_begin(&p, &key, NULL);
				p.spoil = spoil_and_mend;
				talk(&p);
				cr_assert(p.client_err < 0 || p.server_err < 0, "side %d byte %u",
					  side, byte);
				cr_assert_neq(p.client_err, 1);
				cr_assert_neq(p.server_err, 1);
			}
		}
	}
}

Test(fab_hello, damage_is_found_by_its_checksum)
{
	struct pair p;

	for (uint32_t bit = 0; bit < 8 * 192; bit += 5) {
		spoil_at = UINT32_MAX;
		spoil_bit(NULL, 0, false);
		spoil_at = bit;
		spoil_server = true;
		pair_begin(&p, &key, NULL);
		p.spoil = spoil_bit;
		talk(&p);
		cr_assert_eq(p.server_err, -EPROTO, "bit %u", bit);
	}
}

static int feed(struct fab_hello *h, const void *bytes, uint32_t size)
{
	const uint8_t *from = bytes;
	int err = 0;

	for (uint32_t at = 0; at < size && err == 0; at++) { /* byte by byte */
		cr_assert_gt(fab__hello_want(h), 0);
		h->in[h->in_bytes++] = from[at];
		err = fab__hello_step(h);
	}
	return err;
}

Test(fab_hello, another_protocol_is_told_so_at_its_fourth_byte)
{
	struct pair p;
	const struct fab_hdr_wire *refuse = (void *)p.server.out;

	pair_begin(&p, &key, NULL);
	cr_assert_eq(feed(&p.server, "GE", 2), 0);
	cr_assert_eq(feed(&p.server, "T / HTTP/1.1\r\n", 14), -EPROTO);
	cr_assert_neq(strstr(p.server.why, "another protocol"), NULL);
	cr_assert_neq(strstr(p.server.why, "\"GET \""), NULL);
	cr_assert_eq(refuse->type, FAB_REFUSE);
	pair_begin(&p, &key, NULL);
	cr_assert_eq(feed(&p.client, "HTTP/1.1 400 Bad Request\r\n", 26), -EPROTO);
}

Test(fab_hello, versions_that_do_not_meet_are_named)
{
	struct pair p;

	pair_begin(&p, &key, NULL);
	p.client.hello.version_min = FAB_VERSION_MAX + 1;
	p.client.hello.version_max = FAB_VERSION_MAX + 2;
	memcpy(p.client.out + 64, &p.client.hello, sizeof(p.client.hello));
	mend(p.client.out, p.client.out_bytes);
	talk(&p);
	cr_assert_eq(p.server_err, -EPROTONOSUPPORT);
	cr_assert_eq(p.client_err, -EPROTONOSUPPORT);
	cr_assert_neq(strstr(p.client.why, "versions 2 to 2, the peer 3 to 4"), NULL, "%s",
		      p.client.why);
}

Test(fab_hello, only_the_next_capsule_in_its_size_is_looked_at)
{
	static const uint8_t types[] = { FAB_PROOF, FAB_WELCOME, FAB_READ, FAB_REFUSE,
					 FAB_POOL_ADD };

	for (uint32_t i = 0; i < ARRAY_LEN(types); i++) {
		struct fab_hdr_wire w;
		struct pair p;

		pair_begin(&p, &key, NULL);
		fab__hdr_build(&w, types[i], 0);
		w.body_bytes = le32_of(128);
		w.check = le32_of(fab__hdr_check(&w));
		cr_assert_eq(feed(&p.server, &w, sizeof(w)), -EPROTO);
		pair_begin(&p, &key, NULL);
		fab__hdr_build(&w, FAB_HELLO, 0);
		w.body_bytes = le32_of(127 + (i & 1) * 2);
		w.check = le32_of(fab__hdr_check(&w));
		cr_assert_eq(feed(&p.server, &w, sizeof(w)), -EPROTO);
	}
}

/* An appliance that grants more than was wished would make the client map too little. */
Test(fab_hello, a_client_does_not_take_more_than_it_asked_for)
{
	struct fab_limits want = { .credits = 4 };
	struct pair p;

	pair_begin(&p, &key, &want);
	cr_assert_eq(carry(&p, &p.client, &p.server), 0);
	p.server.out_bytes = 0;
	p.server.challenge.limits.credits = le32_of(5);
	fab__hello_proof(p.server.challenge.proof, &key,
			 "weka fabric appliance\0\0\0\0\0\0\0\0\0\0\0", &p.server.hello,
			 &p.server.challenge);
	p.server.at = HELLO_CHALLENGED;
	{
		struct fab_hdr_wire w;

		fab__hdr_build(&w, FAB_CHALLENGE, 0);
		w.body_bytes = le32_of(128);
		memcpy(p.server.out + 64, &p.server.challenge, 128);
		memcpy(p.server.out, &w, sizeof(w));
		p.server.out_bytes = 192;
		mend(p.server.out, 192);
	}
	cr_assert_eq(carry(&p, &p.server, &p.client), -EPROTO);
	cr_assert_neq(strstr(p.client.why, "not asked for"), NULL, "%s", p.client.why);
}

/* Its session's key, and how a lane of it begins. */
static uint32_t lane_bytes(const struct pair *p, uint8_t *out)
{
	struct fab__join join = { .session_id = 0x0102030405060708, .number = 2, .core = 3 };
	struct fab_hello lane;
	struct fab_key session = key;
	uint8_t nonce[32];

	memset(nonce, 'l', sizeof(nonce));
	fab__hello_session_key(&p->server, &key, session.secret);
	memcpy(out, session.secret, 32);
	fab__hello_client(&lane, &session, FAB_TRANSPORT_TCP, &most, NULL, nonce, &join);
	memcpy(out + 32, lane.out, 192);
	return 32 + 192;
}

/* The proofs for fixed nonces: PROTOCOL.md 3, frozen. */
Test(fab_hello, bytes_are_those_of_protocol_version_2)
{
	static uint8_t golden[1024];
	const char *path = "test/golden/fab_hello.bin";
	bool write = getenv("FAB_GOLDEN_WRITE");
	uint8_t now[1024], mine[32];
	uint32_t bytes = 0, size;
	struct pair p;
	FILE *f = fopen(path, write ? "wb" : "rb");

	cr_assert_not_null(f, "run from the top of the tree: %s", path);
	pair_begin(&p, &key, &most);
	p.server.place = (struct fab_place){ .core_count = 4, .shard_count = 64, .lanes_max = 4 };
	memset(p.server.place.appliance, 'a', FAB_APPLIANCE_BYTES);
	memcpy(now, p.client.out, 192);
	cr_assert_eq(carry(&p, &p.client, &p.server), 0);
	memcpy(now + 192, p.server.out, 192);
	cr_assert_eq(carry(&p, &p.server, &p.client), 0);
	memcpy(now + 384, p.client.out, 96);
	cr_assert_eq(carry(&p, &p.client, &p.server), 1);
	p.server.mark = 0x1112131415161718;
	p.server.forgotten = 0x2122232425262728;
	fab__hello_welcome(&p.server, 0x0102030405060708, 3);
	memcpy(now + 480, p.server.out, 64);
	cr_assert_eq(carry(&p, &p.server, &p.client), 1);
	cr_assert_eq(memcmp(&p.server.place, &p.client.place, sizeof(p.client.place)), 0);
	size = 544 + lane_bytes(&p, now + 544);
	fab__hello_session_key(&p.client, &key, mine);
	cr_assert_arr_eq(mine, now + 544, 32);
	if (write)
		cr_assert_eq(fwrite(now, 1, size, f), size);
	else
		bytes = (uint32_t)fread(golden, 1, sizeof(golden), f);
	fclose(f);
	if (!write) {
		cr_assert_eq(bytes, size);
		cr_assert_arr_eq(golden, now, size);
	}
}
