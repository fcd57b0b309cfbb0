/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A request's whole way, over both transports: hello, pool, capsule, payload, reply. */
#include "base/crc32c.h"
#include "fabric/fab_internal.h"
#include "test/lib/fab_rig.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL_BYTES (8u << 20)

static struct fab_rig rig;

struct transport {
	char name[4];
};
static struct transport transports[] = { { "shm" }, { "tcp" } };

#define BOTH(test)                                                                                 \
	ParameterizedTestParameters(fab_path, test)                                                \
	{                                                                                          \
		return cr_make_param_array(struct transport, transports, 2);                       \
	}                                                                                          \
	ParameterizedTest(struct transport *t, fab_path, test)

static void begin(const struct transport *t)
{
	fab_rig_serve(&rig, t->name, NULL);
	fab_rig_connect(&rig, POOL_BYTES);
}

static struct fab_call *call_of(enum fab_type type)
{
	static struct fab_call call;

	memset(&call, 0, sizeof(call));
	call.type = type;
	return &call;
}

static struct fab_call *read_call(uint64_t offset, uint32_t length)
{
	struct fab_call *call = call_of(FAB_READ);

	call->args.read.handle.bytes[3] = 77;
	call->args.read.offset_bytes = offset;
	call->args.read.length_bytes = length;
	call->region = rig.region;
	call->window_offset = 1 << 20;
	call->window_bytes = (uint32_t)align_up(length, BLOCK_SIZE);
	return call;
}

/* Put bytes where the client wants them, as an appliance would. */
static void deliver(struct fab_req *req, struct fab_piece *piece)
{
	uint64_t iova;
	void *at = fab_window_addr(req, piece->window_at, piece->length_bytes, &iova);

	if (at)
		memcpy(at, piece->bytes, piece->length_bytes);
	else
		cr_assert_eq(fab_send_part(req, piece), 0);
}

BOTH(a_ping_comes_back)
{
	struct fab_call *call;

	begin(t);
	call = call_of(FAB_PING);
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	fab_reply(fab_rig_request(&rig), 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), call);
	cr_assert_eq(call->status, 0);
	fab_rig_end(&rig);
}

BOTH(a_read_lands_in_the_window_with_its_checksums)
{
	static uint8_t bytes[BLOCK_SIZE * 3];
	struct fab_piece piece = { .bytes = bytes, .length_bytes = sizeof(bytes) };
	const uint32_t sums[3] = { 11, 22, 33 };
	struct fab_call *call;
	struct fab_req *req;

	begin(t);
	memset(bytes, 0x5a, sizeof(bytes));
	call = read_call(UINT64_C(5) << 32, 9000);
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	req = fab_rig_request(&rig);
	cr_assert_eq(req->type, FAB_READ);
	cr_assert_eq(req->args.read.offset_bytes, UINT64_C(5) << 32);
	cr_assert_eq(req->args.read.length_bytes, 9000);
	cr_assert_eq(req->args.read.handle.bytes[3], 77);
	cr_assert_eq(req->window.length_bytes, 12288);
	deliver(req, &piece);
	fab_reply_read(req, 9000, sums, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), call);
	cr_assert_eq(call->status, 0);
	cr_assert_eq(call->length_bytes, 9000);
	cr_assert_eq(fab_call_sum(call, 2), 33);
	cr_assert_eq(
		memcmp((uint8_t *)fab_region_memory(rig.region) + (1 << 20), bytes, sizeof(bytes)),
		0);
	fab_rig_end(&rig);
}

BOTH(a_batch_of_many_names_is_read_item_by_item)
{
	enum { COUNT = 256 };
	static struct fab_read_item items[COUNT];
	static char names[COUNT][64];
	static uint8_t table[COUNT * FAB_ANSWER_BYTES];
	struct fab_piece piece = { .bytes = table, .length_bytes = sizeof(table) };
	struct fab_call *call;
	struct fab_req *req;
	struct fab_answer answer;

	begin(t);
	for (int i = 0; i < COUNT; i++) {
		snprintf(names[i], sizeof(names[i]), "/a/directory/file-%d", i);
		items[i].name = (struct fab_name){ .by = FAB_BY_PATH,
						   .name = names[i],
						   .name_bytes = (uint16_t)strlen(names[i]) };
		items[i].length_bytes = FAB_TO_END;
	}
	call = call_of(FAB_READ_BATCH);
	call->args.batch.count = COUNT;
	call->args.batch.reads = items;
	call->region = rig.region;
	call->window_bytes = 2 << 20;
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	req = fab_rig_request(&rig);
	cr_assert_eq(req->args.batch.count, COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct fab_read_item item;

		fab_req_read_item(req, i, &item);
		cr_assert_eq(item.name.name_bytes, strlen(names[i]));
		cr_assert_eq(memcmp(item.name.name, names[i], item.name.name_bytes), 0);
		cr_assert_eq(item.length_bytes, FAB_TO_END);
		answer = (struct fab_answer){ .length_bytes = 4096,
					      .data_at = 4096 * i,
					      .sums_at = 4096 * COUNT + 4 * i,
					      .status = i == 7 ? -ENOENT : 0 };
		fab_build_answer_read(table + i * FAB_ANSWER_BYTES, &answer);
	}
	piece.window_at = fab_answers_at(req->window.length_bytes, COUNT);
	deliver(req, &piece);
	fab_reply(req, 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), call);
	for (uint32_t i = 0; i < COUNT; i++) {
		cr_assert_eq(fab_call_answer(call, i, &answer), 0);
		cr_assert_eq(answer.status, i == 7 ? -ENOENT : 0);
	}
	fab_rig_end(&rig);
}

BOTH(a_put_is_pulled)
{
	static const uint32_t size = 3 << 20;
	struct fab_put_item item = {
		.name = { .by = FAB_BY_DIR, .dir = 12, .name = "f", .name_bytes = 1 },
		.mode = 0644,
		.mtime_ns = -5,
		.size_bytes = size,
		.sums_at = size,
	};
	uint8_t table[FAB_ANSWER_BYTES], *bytes = malloc(size), *from;
	struct fab_piece piece = { .bytes = bytes, .length_bytes = size };
	struct fab_piece answer_piece = { .bytes = table, .length_bytes = sizeof(table) };
	struct fab_answer answer = { .handle.bytes = { 9, 8, 7 } };
	struct fab_put_item got;
	struct fab_call *call;
	struct fab_req *req;

	begin(t);
	from = fab_region_memory(rig.region);
	for (uint32_t i = 0; i < size; i++)
		from[i] = (uint8_t)(i * 7 + i / 4096);
	call = call_of(FAB_PUT);
	call->args.batch.count = 1;
	call->args.batch.puts = &item;
	call->region = rig.region;
	call->window_bytes = 4 << 20;
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	req = fab_rig_request(&rig);
	fab_req_put_item(req, 0, &got);
	cr_assert_eq(got.name.dir, 12);
	cr_assert_eq(got.mtime_ns, -5);
	piece.window_at = got.payload_at;
	if (fab_pull(req, &piece) == 0) {
		struct fab_event event = fab_rig_event(&rig);

		cr_assert_eq(event.type, FAB_EVENT_PULLED);
		cr_assert_eq(event.piece, &piece);
		cr_assert_eq(event.status, 0);
	}
	cr_assert_eq(memcmp(bytes, from, size), 0);
	fab_build_answer_put(table, &answer);
	answer_piece.window_at = fab_answers_at(req->window.length_bytes, 1);
	cr_assert_geq(fab_send_part(req, &answer_piece), 0);
	fab_reply(req, 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), call);
	cr_assert_eq(fab_call_answer(call, 0, &answer), 0);
	cr_assert_eq(answer.handle.bytes[1], 8);
	free(bytes);
	fab_rig_end(&rig);
}
