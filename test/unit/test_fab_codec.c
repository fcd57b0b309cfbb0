/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The bytes of PROTOCOL.md: frozen, there and back, and everything else refused.
 *
 * test/golden/fab_requests.bin: for each type from PING on, a header and its body as
 * test/lib/fab_samples.c fills them.  FAB_GOLDEN_WRITE=1 in the environment makes it again:
 * only ever together with a new version of the protocol.
 */
#include "fabric/fab_internal.h"
#include "fabric/fab_took.h"
#include "test/lib/fab_samples.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct fab_limits limits = {
	.credits = 8,
	.long_bodies = 2,
	.batch_max = 1024,
	.window_max_bytes = FAB_WINDOW_MAX,
};

static uint32_t encode(const struct fab_call *call, void *body)
{
	int64_t bytes = fab__call_measure(call, &limits);

	cr_assert_geq(bytes, 0);
	fab__call_build(call, body);
	return (uint32_t)bytes;
}

static int decode(struct fab_req *req, enum fab_type type, const void *body, uint32_t bytes)
{
	*req = (struct fab_req){ .type = type, .window.length_bytes = FAB_SAMPLE_WINDOW };
	return fab__req_parse(req, body, bytes, &limits);
}

/* The header of sample `type`, as fab_submit() would make it. */
static struct fab_hdr_wire header_of(const struct fab_call *call, const void *body, uint32_t bytes)
{
	struct fab_tx tx;

	fab__hdr_build(&tx.hdr, (uint8_t)call->type, 0x1122334455667700u + call->type);
	tx.hdr.window_region = le16_of(3);
	tx.hdr.window_block = le32_of(0x100);
	tx.hdr.window_blocks = le32_of(FAB_SAMPLE_WINDOW / BLOCK_SIZE);
	tx.hdr.deadline = le32_of(call->deadline_us);
	fab__tx_body(&tx, body, bytes);
	if (tx.body)
		tx.hdr.body.crc32c = le32_of(crc32c(body, bytes));
	tx.hdr.check = le32_of(fab__hdr_check(&tx.hdr));
	return tx.hdr;
}

Test(fab_codec, every_request_comes_back_as_it_went)
{
	_Alignas(8) uint8_t body[FAB_BODY_MAX];
	struct fab_call call;
	struct fab_req req;

	for (int type = FAB_PING; type < FAB_TYPE_END; type++) {
		uint32_t bytes;

		fab_sample(&call, (enum fab_type)type);
		bytes = encode(&call, body);
		cr_assert_eq(decode(&req, call.type, body, bytes), 0, "type %d", type);
		cr_assert(fab_sample_same(&call, &req, body, bytes), "type %d", type);
	}
}

Test(fab_codec, bytes_are_those_of_protocol_version_2)
{
	static uint8_t now[32 << 10], golden[sizeof(now)];
	const char *path = "test/golden/fab_requests.bin";
	bool write = getenv("FAB_GOLDEN_WRITE");
	struct fab_call call;
	size_t at = 0, golden_bytes;
	FILE *f;

	for (int type = FAB_PING; type < FAB_TYPE_END; type++) {
		struct fab_hdr_wire w;
		_Alignas(8) uint8_t body[FAB_BODY_MAX];
		uint32_t bytes;

		fab_sample(&call, (enum fab_type)type);
		bytes = encode(&call, body);
		w = header_of(&call, body, bytes);
		memcpy(now + at, &w, sizeof(w));
		at += sizeof(w);
		if (bytes > FAB_SMALL_MAX) {
			memcpy(now + at, body, bytes);
			at += bytes;
		}
	}
	f = fopen(path, write ? "wb" : "rb");
	cr_assert_not_null(f, "run from the top of the tree: %s", path);
	if (write)
		cr_assert_eq(fwrite(now, 1, at, f), at);
	golden_bytes = write ? at : fread(golden, 1, sizeof(golden), f);
	fclose(f);
	cr_assert_eq(golden_bytes, at);
	if (!write)
		cr_assert_arr_eq(golden, now, at);
}

Test(fab_codec, every_flipped_bit_of_a_header_is_seen)
{
	struct fab_hdr_wire w, bad;
	struct fab_call call;
	_Alignas(8) uint8_t body[FAB_BODY_MAX];
	uint8_t *bytes = (uint8_t *)&bad;

	fab_sample(&call, FAB_READ);
	w = header_of(&call, body, encode(&call, body));
	for (size_t bit = 0; bit < 8 * offsetof(struct fab_hdr_wire, check); bit++) {
		bad = w;
		bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		cr_assert_neq(fab__hdr_check(&bad), le32_get(bad.check), "bit %zu", bit);
	}
}

Test(fab_codec, a_header_that_promises_too_much_is_refused)
{
	struct fab_hdr_wire w, bad;
	struct fab_hdr hdr;

	fab__hdr_build(&w, FAB_READ, 1);
	cr_assert_eq(fab__hdr_parse(&hdr, &w), 0);
	bad = w;
	bad.magic = le32_of(0x20544547); /* "GET " */
	cr_assert_eq(fab__hdr_parse(&hdr, &bad), -EPROTO);
	bad = w;
	bad.version = 2;
	cr_assert_eq(fab__hdr_parse(&hdr, &bad), -EPROTO);
	bad = w;
	bad.body_bytes = le32_of(FAB_LONG_BODY_MAX + 1);
	cr_assert_eq(fab__hdr_parse(&hdr, &bad), -EPROTO);
	bad = w;
	bad.window_blocks = le32_of(FAB_WINDOW_MAX / BLOCK_SIZE + 1);
	cr_assert_eq(fab__hdr_parse(&hdr, &bad), -EPROTO);
	bad.type = FAB_REPLY; /* whose body is never long */
	bad.window_blocks = le32_of(0);
	bad.body_bytes = le32_of(FAB_BODY_MAX + 1);
	cr_assert_eq(fab__hdr_parse(&hdr, &bad), -EPROTO);
	for (int type = 0; type < 256; type++) {
		bool known = (type >= FAB_HELLO && type <= FAB_REPLY) ||
			     (type >= FAB_PING && type < FAB_TYPE_END);

		bad = w;
		bad.type = (uint8_t)type;
		cr_assert_eq(fab__hdr_parse(&hdr, &bad), known ? 0 : -EPROTO, "type %d", type);
	}
}

Test(fab_codec, a_body_cut_anywhere_is_refused)
{
	_Alignas(8) uint8_t body[FAB_BODY_MAX];
	struct fab_call call;
	struct fab_req req;

	for (int type = FAB_PING; type < FAB_TYPE_END; type++) {
		uint32_t bytes;

		fab_sample(&call, (enum fab_type)type);
		bytes = encode(&call, body);
		for (uint32_t cut = 0; cut < bytes; cut++)
			cr_assert_eq(decode(&req, call.type, body, cut), -EPROTO,
				     "type %d, %u of %u", type, cut, bytes);
	}
}

/* The name of a FAB_UNLINK, spoiled in each way. */
static int spoiled_name(void (*spoil)(struct fab_name_wire *w, uint8_t *text))
{
	_Alignas(8) uint8_t body[64];
	struct fab_name_wire w;
	struct fab_call call;
	struct fab_req req;
	uint32_t bytes;

	fab_sample(&call, FAB_UNLINK);
	bytes = encode(&call, body);
	memcpy(&w, body, sizeof(w));
	spoil(&w, body + sizeof(w));
	memcpy(body, &w, sizeof(w));
	return decode(&req, FAB_UNLINK, body, bytes);
}

/* clang-format off */
#define NAME_SPOILED struct fab_name_wire *w, uint8_t *s
static void spoil_nothing(NAME_SPOILED) { (void)w; (void)s; }
static void spoil_nul(NAME_SPOILED) { (void)w; s[2] = 0; }
static void spoil_by(NAME_SPOILED) { w->by = 5; (void)s; }
static void spoil_by0(NAME_SPOILED) { w->by = 0; (void)s; }
static void spoil_flags(NAME_SPOILED) { w->flags = 2; (void)s; }
static void spoil_empty(NAME_SPOILED) { w->name_bytes = le16_of(0); (void)s; }
static void spoil_long(NAME_SPOILED) { w->name_bytes = le16_of(6); (void)s; }
static void spoil_at(NAME_SPOILED) { w->name_at = le32_of(25); (void)s; }
static void spoil_early(NAME_SPOILED) { w->name_at = le32_of(23); (void)s; }
static void spoil_far(NAME_SPOILED) { w->name_at = le32_of(UINT32_MAX); (void)s; }
static void spoil_dir(NAME_SPOILED) { w->id[6] = 1; (void)s; }
static void spoil_dir_high(NAME_SPOILED) { w->id[15] = 1; (void)s; }
static void spoil_place(NAME_SPOILED)
{
	*w = (struct fab_name_wire){ .by = FAB_BY_HANDLE };
	(void)s;
}
/* clang-format on */

Test(fab_codec, a_name_that_lies_is_refused)
{
	cr_assert_eq(spoiled_name(spoil_nothing), 0);
	cr_assert_eq(spoiled_name(spoil_nul), -EPROTO);
	cr_assert_eq(spoiled_name(spoil_by), -EPROTO);
	cr_assert_eq(spoiled_name(spoil_by0), -EPROTO);
	cr_assert_eq(spoiled_name(spoil_flags), -EPROTO);
	cr_assert_eq(spoiled_name(spoil_empty), -EPROTO);
	cr_assert_eq(spoiled_name(spoil_long), -EPROTO);
	cr_assert_eq(spoiled_name(spoil_at), -EPROTO);
	cr_assert_eq(spoiled_name(spoil_early), -EPROTO);
	cr_assert_eq(spoiled_name(spoil_far), -EPROTO);
	cr_assert_eq(spoiled_name(spoil_dir), -EPROTO);
	cr_assert_eq(spoiled_name(spoil_dir_high), -EPROTO);
	cr_assert_eq(spoiled_name(spoil_place), -EPROTO);
}

/* ---- the state of a file ---------------------------------------------------------------- */

enum { STATES = 2, STATES_FIXED = 8 + STATES * 40 };

/* Item 0 by path, item 1 by handle, both in a state; `spoil` may change the body. */
static int read_states(struct fab_read_item got[STATES], void (*spoil)(uint8_t *body),
		       uint32_t cut_bytes)
{
	static _Alignas(8) uint8_t body[256];
	struct fab_read_item item[STATES] = {
		{ .name = { .by = FAB_BY_PATH, .name = "ab", .name_bytes = 2 },
		  .length_bytes = 1,
		  .ctime_ns = -5 },
		{ .name = { .by = FAB_BY_HANDLE, .handle.bytes = { 7 } },
		  .length_bytes = 2,
		  .ctime_ns = INT64_C(1700000000123456789) },
	};
	struct fab_call call = { .type = FAB_READ_BATCH,
				 .args.batch = { .count = STATES, .reads = item } };
	struct fab_req req = { .type = FAB_READ_BATCH, .window.length_bytes = 1 << 20 };
	uint32_t bytes = encode(&call, body) - cut_bytes;
	int err;

	if (spoil)
		spoil(body);
	err = fab__req_parse(&req, body, bytes, &limits);
	for (uint32_t i = 0; !err && got && i < STATES; i++)
		err = fab__read_item_parse(&got[i], body, bytes, i);
	return err;
}

static void state_of_0(uint8_t *body)
{
	memset(body + STATES_FIXED, 0, 8);
}

static void state_in_the_items(uint8_t *body)
{
	body[8 + 4] = STATES_FIXED - 1;
}

static void state_far_away(uint8_t *body)
{
	memset(body + 8 + 4, 0xff, 4);
}

Test(fab_codec, the_state_of_a_file_goes_with_its_name)
{
	struct fab_read_item got[STATES];

	cr_assert_eq(read_states(got, NULL, 0), 0);
	cr_assert_eq(got[0].ctime_ns, -5);
	cr_assert_eq(got[0].name.name_bytes, 2);
	cr_assert_eq(memcmp(got[0].name.name, "ab", 2), 0);
	cr_assert_eq(got[1].ctime_ns, INT64_C(1700000000123456789));
	cr_assert_eq(got[1].name.by, FAB_BY_HANDLE);
	cr_assert_eq(got[1].name.handle.bytes[0], 7);
}

Test(fab_codec, a_state_that_lies_is_refused)
{
	cr_assert_eq(read_states(NULL, NULL, 1), -EPROTO); /* of the last item a byte is missing */
	cr_assert_eq(read_states(NULL, state_of_0, 0), -EPROTO);
	cr_assert_eq(read_states(NULL, state_in_the_items, 0), -EPROTO);
	cr_assert_eq(read_states(NULL, state_far_away, 0), -EPROTO);
}

/* A batch of names in `window` bytes, the last of which is by path or by handle. */
static int names_of(enum fab_type type, uint32_t count, enum fab_by last, uint32_t window)
{
	static _Alignas(8) uint8_t body[64 << 10];
	static struct fab_name names[1024];
	struct fab_call call = { .type = type, .args.batch = { .count = count, .names = names } };
	struct fab_req req = { .type = type, .window.length_bytes = window };

	for (uint32_t i = 0; i < count; i++)
		names[i] = (struct fab_name){ .by = FAB_BY_PATH, .name = "x", .name_bytes = 1 };
	if (last == FAB_BY_HANDLE)
		names[count - 1] = (struct fab_name){ .by = FAB_BY_HANDLE };
	return fab__req_parse(&req, body, encode(&call, body), &limits);
}

Test(fab_codec, what_is_removed_is_not_named_by_handle)
{
	cr_assert_eq(names_of(FAB_STAT, 3, FAB_BY_HANDLE, 0), 0);
	cr_assert_eq(names_of(FAB_UNLINK_BATCH, 3, FAB_BY_PATH, 0), 0);
	cr_assert_eq(names_of(FAB_UNLINK_BATCH, 3, FAB_BY_HANDLE, 0), -EPROTO);
}

Test(fab_codec, only_handles_are_let_go)
{
	cr_assert_eq(names_of(FAB_HOLD, 3, FAB_BY_HANDLE, 0), 0);
	cr_assert_eq(names_of(FAB_LET_GO, 1, FAB_BY_HANDLE, 0), 0);
	cr_assert_eq(names_of(FAB_LET_GO, 3, FAB_BY_HANDLE, 0), -EPROTO);
}

Test(fab_codec, answers_to_names_must_have_room)
{
	cr_assert_eq(names_of(FAB_STAT, 9, FAB_BY_PATH, 0), 0);
	cr_assert_eq(names_of(FAB_STAT, 10, FAB_BY_PATH, 0), -EPROTO);
	cr_assert_eq(names_of(FAB_STAT, 39, FAB_BY_PATH, 4096), 0);
	cr_assert_eq(names_of(FAB_STAT, 40, FAB_BY_PATH, 4096), -EPROTO);
	cr_assert_eq(names_of(FAB_UNLINK_BATCH, 256, FAB_BY_PATH, 0), 0);
	cr_assert_eq(names_of(FAB_UNLINK_BATCH, 257, FAB_BY_PATH, 0), -EPROTO);
	cr_assert_eq(names_of(FAB_UNLINK_BATCH, 1024, FAB_BY_PATH, 4096), 0);
	cr_assert_eq(names_of(FAB_HOLD, 256, FAB_BY_PATH, 0), 0);
	cr_assert_eq(names_of(FAB_HOLD, 257, FAB_BY_PATH, 0), -EPROTO);
}

static int read_of(uint32_t length, uint32_t window)
{
	_Alignas(8) uint8_t body[64];
	struct fab_call call;
	struct fab_req req = { .type = FAB_READ, .window.length_bytes = window };

	fab_sample(&call, FAB_READ);
	call.args.read.length_bytes = length;
	return fab__req_parse(&req, body, encode(&call, body), &limits);
}

Test(fab_codec, a_read_stays_in_its_window)
{
	cr_assert_eq(read_of(4096, 4096), 0);
	cr_assert_eq(read_of(1, 4096), 0);
	cr_assert_eq(read_of(4097, 4096), -EPROTO);
	cr_assert_eq(read_of(0, 4096), -EPROTO);
	cr_assert_eq(read_of(UINT32_MAX, FAB_WINDOW_MAX), -EPROTO);
	cr_assert_eq(read_of(1, 0), -EPROTO);
}

static int put_of(uint32_t size, uint32_t payload_at, uint32_t sums_at)
{
	_Alignas(8) uint8_t body[256];
	struct fab_call call;
	struct fab_put_item item;
	struct fab_req req;

	fab_sample(&call, FAB_PUT);
	item = call.args.batch.puts[0];
	item.size_bytes = size;
	item.payload_at = payload_at;
	item.sums_at = sums_at;
	call.args.batch.puts = &item;
	call.args.batch.count = 1;
	return decode(&req, FAB_PUT, body, encode(&call, body));
}

Test(fab_codec, payload_and_checksums_stay_in_the_window)
{
	cr_assert_eq(put_of(8192, FAB_SAMPLE_WINDOW - 8192, 0), 0);
	cr_assert_eq(put_of(8193, FAB_SAMPLE_WINDOW - 8192, 0), -EPROTO);
	cr_assert_eq(put_of(8192, FAB_SAMPLE_WINDOW - 8192 + 64, 0), -EPROTO);
	cr_assert_eq(put_of(8192, 63, 0), -EPROTO);
	cr_assert_eq(put_of(8192, 0, FAB_SAMPLE_WINDOW - 8), 0);
	cr_assert_eq(put_of(8192, 0, FAB_SAMPLE_WINDOW - 4), -EPROTO);
	cr_assert_eq(put_of(8192, 0, 2), -EPROTO);
	cr_assert_eq(put_of(0, FAB_SAMPLE_WINDOW, FAB_SAMPLE_WINDOW), 0);
	cr_assert_eq(put_of((4 << 20) + 1, 0, 0), -EPROTO);
	cr_assert_eq(put_of(UINT32_MAX, 64, 0), -EPROTO);
}

Test(fab_codec, a_count_that_lies_is_refused)
{
	_Alignas(8) uint8_t body[FAB_BODY_MAX];
	static const uint32_t counts[] = { 0, 5, 1024, 1025, UINT32_MAX, 0x80000000, 107374183 };
	struct fab_call call;
	struct fab_req req;
	uint32_t bytes;

	fab_sample(&call, FAB_READ_BATCH);
	bytes = encode(&call, body);
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		memcpy(body, &counts[i], sizeof(counts[i]));
		cr_assert_eq(decode(&req, FAB_READ_BATCH, body, bytes), -EPROTO, "count %u",
			     counts[i]);
	}
}

Test(fab_codec, the_table_of_answers_must_have_room)
{
	_Alignas(8) uint8_t body[FAB_BODY_MAX];
	struct fab_req req = { .type = FAB_READ_BATCH, .window.length_bytes = 4096 };
	struct fab_name name = { .by = FAB_BY_HANDLE };
	static struct fab_read_item items[200];
	static _Alignas(8) uint8_t big[16 << 10];
	struct fab_call call = { .type = FAB_READ_BATCH };

	(void)body;
	for (int i = 0; i < 200; i++)
		items[i] = (struct fab_read_item){ .name = name, .length_bytes = 1 };
	call.args.batch.reads = items;
	call.args.batch.count = 168; /* 4032 bytes */
	cr_assert_eq(fab__req_parse(&req, big, encode(&call, big), &limits), 0);
	call.args.batch.count = 171; /* 4104 bytes */
	cr_assert_eq(fab__req_parse(&req, big, encode(&call, big), &limits), -EPROTO);
}

/* ---- how long it took ------------------------------------------------------------------------ */

Test(fab_codec, a_duration_in_a_byte_is_at_most_an_eighth_too_short)
{
	for (uint32_t byte = 0; byte < 256; byte++)
		cr_assert_eq(fab_took_byte(fab_took_ns((uint8_t)byte)), byte);
	for (uint64_t ns = 1; ns < UINT64_MAX / 3; ns += ns / 2 + 1) {
		const uint64_t back = fab_took_ns(fab_took_byte(ns));

		cr_assert_leq(back, ns);
		if (ns < fab_took_ns(255))
			cr_assert_leq(ns - back, max_u64(ns / 8, 255), "%llu",
				      (unsigned long long)ns);
	}
	cr_assert_eq(fab_took_byte(UINT64_MAX), 255);
}
