/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The hello, of either side: | side | what the other one says |.  The appliance has a session that
 * could be joined, and the client may be about to join one.  Checksums of headers and bodies
 * are made good, else nothing would get past them; proofs are not: nobody may ever get in.
 */
#include "fabric/hello/fab_server_internal.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define SESSION 8192u /* the first serial, in place 0 of 2^13: fab_lanes.c */

static const struct fab_key key = { .id = "fuzz", .secret = { 1 } };
static const struct fab_limits limits = {
	.credits = 64,
	.long_bodies = 4,
	.batch_max = 256,
	.window_max_bytes = 1 << 20,
	.pool_max_bytes = 1 << 30,
};

static const struct fab__keys *the_keys(void)
{
	static struct fab__keys keys;
	struct fab_grant grant = { .key = key };
	uint32_t ended;

	if (!keys.slot) {
		ASSERT(fab__keys_create(&keys, 2) == 0);
		ASSERT(fab__keys_set(&keys, &grant, &ended) == 1);
	}
	return &keys;
}

/* One session, SESSION: as if somebody had begun it. */
static const struct fab__lanes *the_lanes(void)
{
	static struct fab__lanes lanes;
	struct fab_hello h = { .at = HELLO_DONE, .key_id = "fuzz" };

	if (!lanes.of) {
		ASSERT(fab__lanes_create(&lanes, the_keys(), 2, 2) == 0);
		(void)fab__keys_find(the_keys(), h.key_id, FAB_PEER_ANY, &h.key_slot);
		ASSERT(fab__lanes_begin(&lanes, &h) == SESSION);
	}
	return &lanes;
}

static void mend(struct fab_hello *h)
{
	struct fab_hdr_wire w;

	memcpy(&w, h->in, sizeof(w));
	if (h->in_bytes == sizeof(w))
		w.check = le32_of(fab__hdr_check(&w));
	memcpy(h->in, &w, sizeof(w));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const struct fab__join join = { .session_id = SESSION, .number = 1 };
	static const uint8_t nonce[32] = { 7 };
	struct fab_hello h;
	bool server, mends;
	size_t at = 1;
	int err = 0;

	if (size == 0)
		return 0;
	server = bytes[0] & 1;
	mends = bytes[0] & 2;
	if (server)
		fab__hello_server(&h, the_keys(), FAB_TRANSPORT_TCP, &limits, nonce);
	else
		fab__hello_client(&h, &key, FAB_TRANSPORT_TCP, &limits, nonce, nonce,
				  bytes[0] & 4 ? &join : NULL);
	h.lanes = server ? the_lanes() : NULL;
	while (at < size && err == 0) {
		uint32_t n = min_u32(fab__hello_want(&h), (uint32_t)(size - at));

		ASSERT(n > 0 && h.in_bytes + n <= sizeof(h.in));
		h.out_bytes = 0;
		memcpy(h.in + h.in_bytes, bytes + at, n);
		h.in_bytes += n;
		at += n;
		if (mends)
			mend(&h);
		err = fab__hello_step(&h);
	}
	ASSERT(err <= 0); /* no proof can be guessed */
	if (err < 0) {
		ASSERT(h.why[0] != 0 && memchr(h.why, 0, sizeof(h.why)));
		for (const char *c = h.why; *c; c++)
			ASSERT(*c >= ' ' && *c <= '~');
		ASSERT(!server || h.out_bytes >= sizeof(struct fab_hdr_wire));
	}
	return 0;
}
