/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/hostile_peer.h"
#include "test/lib/fab_samples.h"

#include <string.h>

enum { OUT_MAX = 64 + FAB_LONG_BODY_MAX, ITEMS_MAX = 64 };

#define POOL_BYTES   (2u << 20)
#define WINDOW_BYTES (128u << 10)
#define SUMS_AT      (64u << 10) /* in a window that is written from */

static uint8_t out[OUT_MAX], body[FAB_LONG_BODY_MAX];
static uint8_t zeros[FAB_PAYLOAD_MAX], heard[FAB_PAYLOAD_MAX];

static uint32_t below(struct hostile *h, uint32_t n)
{
	return (uint32_t)rand_below(h->rand, n);
}

static bool breaks_a_rule(struct hostile *h)
{
	return below(h, 1000) < h->malice;
}

/* Numbers at which something changes, more often than others. */
static uint64_t odd_number(struct hostile *h)
{
	static const uint64_t edges[] = {
		0,         1,         2,          7,          4095,
		4096,      4097,      65536,      (1u << 20), (4u << 20) + 1,
		64u << 20, INT32_MAX, UINT32_MAX, INT64_MAX,  UINT64_MAX
	};

	if (below(h, 3))
		return edges[below(h, sizeof(edges) / sizeof(edges[0]))];
	return rand_u64(h->rand) >> below(h, 64);
}

/* ---- capsules ------------------------------------------------------------------------------- */

/* Checks are made good, mostly: a wrong one is no way in. */
static void say(struct hostile *h, struct fab_hdr_wire *w, const void *bytes, uint32_t claimed,
		uint32_t there)
{
	bool behind = claimed > FAB_SMALL_MAX;
	uint64_t id = le64_get(w->request_id);

	h->odd_ids |= id == 0 || id > h->next_id;
	w->body_bytes = le32_of(claimed);
	if (!behind && claimed)
		memcpy(w->small, bytes, claimed);
	else if (behind)
		w->body.crc32c = le32_of(crc32c(bytes, there));
	if (behind && breaks_a_rule(h) && below(h, 8) == 0)
		w->body.crc32c = le32_of((uint32_t)rand_u64(h->rand));
	w->check = le32_of(fab__hdr_check(w));
	if (breaks_a_rule(h) && below(h, 16) == 0)
		w->check = le32_of((uint32_t)rand_u64(h->rand));
	memcpy(out, w, sizeof(*w));
	if (behind)
		memcpy(out + sizeof(*w), bytes, there);
	sim_link_inject(&h->server_end, out, (uint32_t)sizeof(*w) + (behind ? there : 0));
	h->seen->capsules++;
}

/* A field of a good header becomes another's, or a strange number. */
static bool twist_header(struct hostile *h, struct fab_hdr_wire *w)
{
	switch (below(h, 9)) {
	case 0:
		w->version = (uint8_t)odd_number(h);
		return true;
	case 1:
		w->type = (uint8_t)odd_number(h);
		return true;
	case 2:
		w->window_region = le16_of((uint16_t)odd_number(h));
		return true;
	case 3:
		w->deadline = le32_of(below(h, 3));
		return false;
	case 4:
		w->window_block = le32_of((uint32_t)odd_number(h));
		return true;
	case 5:
		w->window_blocks = le32_of((uint32_t)odd_number(h));
		return true;
	case 6:
		w->request_id = le64_of(h->next_id - below(h, 8));
		return true;
	case 7:
		((uint8_t *)w)[below(h, sizeof(*w))] ^= (uint8_t)(1u << below(h, 8));
		return true;
	default:
		return false;
	}
}

static void twist_body(struct hostile *h, uint32_t bytes)
{
	for (uint32_t n = 1 + below(h, 3); bytes && n; n--) {
		uint32_t at = below(h, bytes), size = 1u << below(h, 4);
		le64 number = le64_of(odd_number(h));

		memcpy(body + at, &number, min_u32(size, bytes - at));
	}
}

/* ---- requests ------------------------------------------------------------------------------- */

/* made: the name will be made, moved or removed, so a handle cannot name it. */
static struct fab_name own_name(struct hostile *h, bool made)
{
	static const char *const names[] = { "/",       "/h",        "/h/a",   "/h/b",
					     "/h/link", "/h/../h/a", "/h/a/b", "//h//c",
					     "/h/.",    "..",        "h/d",    "/h/new" };
	struct fab_name name = { .by = (enum fab_by)(1 + below(h, 4)), .nofollow = below(h, 2) };

	if (made && name.by == FAB_BY_HANDLE && !breaks_a_rule(h))
		name.by = FAB_BY_PATH;
	name.name = names[below(h, sizeof(names) / sizeof(names[0]))];
	name.name_bytes = (uint16_t)strlen(name.name);
	name.dir = h->dir;
	name.handle = h->handle;
	if (name.by == FAB_BY_HANDLE)
		name.name_bytes = 0;
	if (below(h, 20) == 0)
		name.handle.bytes[below(h, FAB_HANDLE_BYTES)] ^= 1;
	return name;
}

static void own_batch(struct hostile *h, struct fab_call *call)
{
	static struct fab_read_item reads[ITEMS_MAX];
	static struct fab_name names[ITEMS_MAX];
	static struct fab_put_item puts[2];
	/* More than 20 make a long body, of which it may have one. */
	uint32_t most = h->in_flight == 0 || breaks_a_rule(h) ? ITEMS_MAX : 20;
	uint32_t count = 1 + below(h, call->type == FAB_PUT ? 2 : most);

	for (uint32_t i = 0; i < count; i++) {
		struct fab_name name = { .by = FAB_BY_PATH, .name = "/h/a", .name_bytes = 4 };

		if (call->type == FAB_LET_GO || (call->type != FAB_UNLINK_BATCH && below(h, 2)))
			name = (struct fab_name){ .by = FAB_BY_HANDLE, .handle = h->handle };
		names[i] = name;
		reads[i] = (struct fab_read_item){
			.name = name,
			.offset_bytes = below(h, 3) ? 0 : odd_number(h) >> 1,
			.length_bytes = below(h, 2) ? FAB_TO_END : odd_number(h),
			.ctime_ns = below(h, 8) ? 0 : (int64_t)odd_number(h)
		};
	}
	for (uint32_t i = 0; call->type == FAB_PUT && i < count; i++)
		puts[i] = (struct fab_put_item){
			.name = { .by = FAB_BY_PATH, .name = i ? "/h/a" : "/h/b", .name_bytes = 4 },
			.mode = 0644,
			.size_bytes = below(h, 9000),
			.payload_at = i * 32768,
			.sums_at = SUMS_AT + i * 64,
		};
	call->args.batch.count = count;
	if (call->type == FAB_READ_BATCH)
		call->args.batch.reads = reads;
	else if (call->type == FAB_PUT)
		call->args.batch.puts = puts;
	else
		call->args.batch.names = names;
}

/* The sample's arguments, with names, handles and sizes that mean something here. */
static const struct fab_name fresh = { .by = FAB_BY_PATH, .name = "/h/new", .name_bytes = 6 };
static const struct fab_name root = { .by = FAB_BY_PATH, .name = "/", .name_bytes = 1 };

static void own_range(struct hostile *h, struct fab_call *call)
{
	call->args.range.handle = h->handle;
	call->args.range.offset_bytes = below(h, 100000);
	if (call->type == FAB_PUNCH)
		call->args.range.length_bytes =
			below(h, 8) ? 1 + below(h, 20000) : odd_number(h) >> 2;
}

static bool is_batch(enum fab_type type)
{
	return type == FAB_READ_BATCH || type == FAB_PUT || type == FAB_STAT ||
	       type == FAB_UNLINK_BATCH || type == FAB_HOLD || type == FAB_LET_GO;
}

static void own_args(struct hostile *h, struct fab_call *call)
{
	if (is_batch(call->type)) {
		own_batch(h, call);
		return;
	}
	switch (call->type) {
	case FAB_READ:
		call->args.read.handle = h->handle;
		call->args.read.offset_bytes =
			below(h, 8) ? 4096 * below(h, 4) : odd_number(h) >> 1;
		call->args.read.length_bytes = 1 + below(h, 20000);
		return;
	case FAB_WRITE:
		call->args.write.handle = h->handle;
		call->args.write.offset_bytes = below(h, 100000);
		call->args.write.length_bytes = 1 + below(h, 20000);
		call->args.write.flags = below(h, 2);
		call->args.write.payload_at = 64 * below(h, 4);
		call->args.write.sums_at = SUMS_AT;
		return;
	case FAB_PUT_COMMIT:
	case FAB_PUT_ABORT:
	case FAB_TRUNCATE:
		call->args.size.handle = h->handle;
		call->args.size.size_bytes = call->type == FAB_PUT_ABORT ? 0 : below(h, 300000);
		return;
	case FAB_PUNCH:
	case FAB_SEEK:
		own_range(h, call);
		return;
	case FAB_LIST:
		call->args.list.dir = below(h, 2) ? own_name(h, false) : root;
		if (below(h, 4))
			memset(call->args.list.cookie, 0, FAB_COOKIE_BYTES);
		return;
	case FAB_OPEN:
		call->args.open.name = own_name(h, true);
		return;
	case FAB_SETATTR:
		call->args.setattr.name = own_name(h, false);
		return;
	case FAB_PUT_BEGIN:
	case FAB_MKDIR:
		call->args.make.name = own_name(h, true);
		return;
	case FAB_XATTR_LIST:
	case FAB_TOTALS:
	case FAB_READLINK:
		call->args.name.name = own_name(h, false);
		return;
	case FAB_RMDIR:
	case FAB_RMTREE:
	case FAB_UNLINK:
	case FAB_DRAIN:
	case FAB_PROTECT:
		call->args.name.name = own_name(h, true);
		return;
	case FAB_RENAME:
	case FAB_LINK:
		call->args.rename.from = own_name(h, true);
		call->args.rename.to = fresh;
		return;
	case FAB_SYMLINK:
		call->args.symlink.name = own_name(h, true);
		return;
	default: /* XATTR_GET, XATTR_SET, XATTR_DEL, UNDRAIN, and what names nothing */
		if (call->type >= FAB_XATTR_GET && call->type < FAB_LOG)
			call->args.xattr.name = own_name(h, false);
		if (call->type == FAB_XATTR_SET)
			call->args.xattr.flags = below(h, 3);
	}
}

static void say_request(struct hostile *h)
{
	static const struct fab_limits wide = { .batch_max = 1024,
						.window_max_bytes = FAB_WINDOW_MAX };
	struct fab_hdr_wire w;
	struct fab_call call;
	int64_t bytes;
	bool twisted = false;

	if (h->in_flight >= h->credits && !breaks_a_rule(h))
		return;
	fab_sample(&call, (enum fab_type)(FAB_PING + below(h, FAB_TYPE_END - FAB_PING)));
	if (below(h, 8))
		own_args(h, &call);
	call.window_bytes = WINDOW_BYTES;
	bytes = fab__call_measure(&call, &wide);
	if (bytes < 0)
		return; /* the library's own check: names may not fit their place */
	fab__call_build(&call, body);
	fab__hdr_build(&w, (uint8_t)call.type, ++h->next_id);
	w.window_region = le16_of(1);
	w.window_block = le32_of(below(h, 8) * 32);
	w.window_blocks = le32_of(WINDOW_BYTES / BLOCK_SIZE);
	if (breaks_a_rule(h))
		twisted = twist_header(h, &w);
	if (breaks_a_rule(h) || h->malice > 500)
		twist_body(h, (uint32_t)bytes);
	h->in_flight++;
	h->type_of[h->next_id % HOSTILE_IDS] = twisted ? 0 : (uint8_t)call.type;
	if (breaks_a_rule(h) && below(h, 4) == 0) /* less, or more, than it says */
		say(h, &w, body, (uint32_t)bytes, below(h, (uint32_t)bytes + 1));
	else
		say(h, &w, body, (uint32_t)bytes, (uint32_t)bytes);
}

/* ---- everything else ------------------------------------------------------------------------ */

/* It writes zeros; their checksums are right, or wrong (zeros, too). */
static const void *sums_of_zeros(void)
{
	static le32 sums[FAB_PAYLOAD_MAX / sizeof(le32)];

	for (uint32_t i = 0; le32_get(sums[i]) == 0 && i < sizeof(sums) / sizeof(le32) - 1; i++)
		sums[i] = le32_of(crc32c_block(zeros, BLOCK_SIZE));
	return sums;
}

static void say_data(struct hostile *h)
{
	struct fab_piece_wire piece = { le32_of(0), le32_of(4096), le32_of(1) };
	uint64_t id = h->next_id;
	struct fab_hdr_wire w;
	uint32_t bytes;

	if (h->pull_count == 0 && !breaks_a_rule(h))
		return;
	if (h->pull_count) {
		uint32_t i = below(h, h->pull_count);

		piece = h->pull[i];
		id = h->pull_id[i];
		h->pull[i] = h->pull[--h->pull_count];
		h->pull_id[i] = h->pull_id[h->pull_count];
	}
	if (breaks_a_rule(h))
		((uint8_t *)&piece)[below(h, sizeof(piece))] ^= (uint8_t)(1u << below(h, 8));
	fab__hdr_build(&w, FAB_DATA, id);
	say(h, &w, &piece, sizeof(piece), sizeof(piece));
	bytes = min_u32(le32_get(piece.length_bytes), FAB_PAYLOAD_MAX);
	if (breaks_a_rule(h))
		bytes = below(h, bytes + 1);
	if (bytes && le32_get(piece.window_at) >= SUMS_AT && below(h, 4))
		sim_link_inject(&h->server_end, sums_of_zeros(), bytes);
	else if (bytes)
		sim_link_inject(&h->server_end, zeros, bytes);
}

static void say_pool(struct hostile *h)
{
	struct fab_pool_wire pool = { le64_of(breaks_a_rule(h) ? odd_number(h) : POOL_BYTES) };
	uint64_t region = ++h->pools;
	struct fab_hdr_wire w;

	if (breaks_a_rule(h))
		region = odd_number(h);
	else if (region > FAB_POOLS_MAX)
		return;
	fab__hdr_build(&w, FAB_POOL_ADD, ++h->next_id);
	w.window_region = le16_of((uint16_t)region);
	say(h, &w, &pool, sizeof(pool), sizeof(pool));
}

static void say_cancel(struct hostile *h)
{
	uint64_t id = h->next_id - below(h, 6);
	struct fab_hdr_wire w;

	if (!h->type_of[id % HOSTILE_IDS] && !breaks_a_rule(h))
		return;
	h->type_of[id % HOSTILE_IDS] = 0; /* once */
	fab__hdr_build(&w, FAB_CANCEL, id);
	say(h, &w, NULL, 0, 0);
}

/* Any type at all, of the appliance's or of nobody's, with a body of any size. */
static void say_nonsense(struct hostile *h)
{
	uint32_t bytes = below(h, 4) ? below(h, 64) : below(h, FAB_LONG_BODY_MAX);
	struct fab_hdr_wire w;

	fab__hdr_build(&w, (uint8_t)below(h, 48), odd_number(h));
	for (uint32_t i = 0; i < min_u32(bytes, 256); i++)
		body[i] = (uint8_t)rand_u64(h->rand);
	say(h, &w, body, bytes, bytes);
}

void hostile_say(struct hostile *h)
{
	uint32_t dice = below(h, 100);

	if (!h->has_pool && !breaks_a_rule(h))
		return;
	if (breaks_a_rule(h) && below(h, 3) == 0)
		say_nonsense(h);
	else if (dice < 30 && h->pull_count)
		say_data(h);
	else if (dice < 75)
		say_request(h);
	else if (dice < 88)
		say_data(h);
	else if (dice < 97)
		say_cancel(h);
	else
		say_pool(h);
}

/* ---- answers -------------------------------------------------------------------------------- */

static void note_reply(struct hostile *h, const struct fab_hdr_wire *w)
{
	uint64_t id = le64_get(w->request_id);
	uint8_t type = h->type_of[id % HOSTILE_IDS];

	h->in_flight -= h->in_flight != 0;
	if (id == 0 || id > h->next_id) {
		h->seen->strange += !h->odd_ids;
		h->seen->strange_type = w->type;
		return;
	}
	if (type && le32_get(w->deadline) == 0)
		h->seen->good[type]++;
	else if (type)
		h->seen->refused[type]++;
}

static void note(struct hostile *h, const struct fab_hdr_wire *w)
{
	struct fab_piece_wire piece;
	uint32_t bytes = le32_get(w->body_bytes);

	h->skip_bytes = bytes > FAB_SMALL_MAX ? bytes : 0;
	memcpy(&piece, w->small, sizeof(piece));
	if (w->type == FAB_REPLY) {
		note_reply(h, w);
		h->skip_bytes += le32_get(w->window_blocks) * BLOCK_SIZE;
	}
	if (w->type == FAB_POOL_ADDED && le16_get(w->window_region) == 1)
		h->has_pool = le32_get(w->deadline) == 0;
	if (w->type == FAB_PART)
		h->skip_bytes += le32_get(piece.length_bytes);
	if (w->type != FAB_PULL)
		return;
	h->seen->pulls++;
	if (h->pull_count == HOSTILE_PULLS)
		return;
	h->pull[h->pull_count] = piece;
	h->pull_id[h->pull_count++] = le64_get(w->request_id);
}

bool hostile_hear(struct hostile *h)
{
	struct fab_link *link = &h->client_end.link;
	struct fab_hdr_wire w;
	uint32_t got = 0;
	int rc = 1;

	while (rc > 0 || h->skip_bytes) {
		if (h->skip_bytes) {
			got = 0;
			rc = link->ops->recv_bytes(link, 0, heard, h->skip_bytes, &got);
			h->skip_bytes -= got;
			if (rc < 0 || got == 0)
				break;
			continue;
		}
		rc = link->ops->recv_header(link, &w);
		if (rc > 0)
			note(h, &w);
	}
	return !h->client_end.cut;
}

/* ---- a session ------------------------------------------------------------------------------- */

void hostile_begin(struct hostile *h, struct fab_server *srv, const struct fab_limits *limits)
{
	static const uint32_t malice[] = { 0, 0, 2, 10, 50, 1000 };

	h->malice = malice[below(h, sizeof(malice) / sizeof(malice[0]))];
	h->credits = limits->credits;
	h->in_flight = h->pull_count = h->skip_bytes = h->pools = 0;
	h->has_pool = false;
	h->next_id = 0;
	h->odd_ids = false;
	memset(h->type_of, 0, sizeof(h->type_of));
	sim_link_pair(h->net, &h->server_end, &h->client_end);
	h->conn = sim_net_connect(srv, &h->server_end, &h->client_end, limits);
	say_pool(h);
	h->seen->sessions++;
}

void hostile_end(struct hostile *h)
{
	h->seen->ended += h->server_end.cut;
	sim_link_cut(&h->client_end);
	fab_close(h->conn);
}
