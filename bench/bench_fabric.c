/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * fabric: what a transport costs, without a store behind it.
 *
 *   client thread                             server thread
 *   FAB_READ on each of N connections  ----->  memcpy 2 GiB[anywhere] -> the window itself (shared
 *   checks each block's checksum       <-----  memory), or a buffer that fab_send_part() sends;
 *                                              rdma: written from where it lies, nothing is copied
 *
 * Requests, windows, checksums and credits are the product's; there are no files.  The rows are
 * sizes, depths and numbers of connections; each beside a bare pair of sockets of the same shape.
 * The address decides the transport.  The comparison for rdma is in bench/guest_rdma.sh.
 *
 *   R1 -> A1   when the server sees `quit`, every connection has been closed
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/bench_pair.h"
#include "fabric/fab.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CONNS_MAX    256u
#define BYTES_MAX    (256ull << 20) /* of all windows of a row */
#define DIAL_NS      (10 * NS_PER_S)
#define CONTROL_EACH 64u
#define RDMA_SOURCE  (64ull << 20) /* a card knows all of it, and guests are small */

static const struct row {
	uint32_t size_bytes;
	uint32_t depth;
	uint32_t conns;
} rows[] = {
	{ 64, 1, 1 },      { 4096, 1, 1 },      { 64, 32, 1 },       { 4096, 32, 1 },
	{ 4096, 128, 1 },  { 16 << 10, 32, 1 }, { 128 << 10, 1, 1 }, { 128 << 10, 8, 1 },
	{ 1 << 20, 8, 1 }, { 4 << 20, 1, 1 },   { 4 << 20, 8, 1 },   { 4096, 8, 16 },
	{ 4096, 2, 64 },   { 4096, 1, 256 },
};

#define PART_BYTES (1u << 20) /* as the appliance cuts them */
#define PARTS_MAX  6
/* A reply's payload is ours again a while after its client has it and asks for more: when a
 * completion arrives of a send queue of at most 1024 places, two for each reply. */
#define RDMA_SLOTS_MORE 512u

/* Memory from which a transport sends, in parts: a copy and its
 * checksums, or (rdma) checksums alone. */
struct slot {
	struct slot *next; /* free */
	uint8_t *bytes;
	uint32_t out;
	struct fab_piece part[PARTS_MAX];
};

struct lane {
	struct fab_conn *conn;
	struct fab_region *region;
	struct fab_call *call; /* depth */
};

struct fabric {
	const struct bench_conf *conf;
	struct row row;
	bool rdma;
	struct bench_pipe *pipe;
	const uint8_t *source;
	uint64_t source_bytes;
	uint32_t *sums;
	uint32_t window_bytes; /* of one request */
	uint32_t slot_bytes;
	uint64_t slots;
	struct fab_server *srv;
	struct fab_key key;
	char dir[64];
	/* the server's */
	pthread_t thread;
	bool threaded;
	_Atomic bool quit;
	struct slot *slot;
	struct slot *slot_free;
	uint8_t *staging;
	struct rand_state rand;
	/* the client's */
	struct lane lane[CONNS_MAX];
	uint64_t *began;
	uint64_t now, end, last;
	uint32_t in_flight;
	struct bench_run *run;
};

/* ---- the server ---------------------------------------------------------------------- */

static void control(struct fabric *f)
{
	struct fab_control_event e[8];
	uint32_t count = fab_server_control_step(f->srv, clock_now_ns(), e, ARRAY_LEN(e));

	for (uint32_t i = 0; i < count; i++) {
		if (e[i].type == FAB_CONTROL_POOL_ADDED)
			fab_pool_ready(e[i].pool, 0, 1ull << 40);
		else if (e[i].type == FAB_CONTROL_POOL_GONE)
			fab_pool_release(e[i].pool);
		else
			fprintf(stderr, "weka-bench: refused: %s\n", e[i].text);
	}
}

static void slot_sent(struct fabric *f, struct slot *slot)
{
	if (--slot->out > 0)
		return;
	slot->next = f->slot_free;
	f->slot_free = slot;
}

/* `bytes` from `from` to the window at `at`, in as many parts as it takes; those are slot's. */
static uint32_t slot_send(struct fab_req *req, struct slot *slot, uint32_t i, const uint8_t *from,
			  uint32_t at, uint32_t bytes)
{
	for (uint32_t end = at + bytes; at < end; i++) {
		struct fab_piece *part = &slot->part[i];

		ASSERT(i < PARTS_MAX);
		*part = (struct fab_piece){ .user = slot, .window_at = at };
		part->length_bytes = min_u32(end - at, PART_BYTES);
		part->bytes = (void *)(uintptr_t)from;
		from += part->length_bytes;
		at += part->length_bytes;
		slot->out += fab_send_part(req, part) == 0;
	}
	return i;
}

/* Sends the payload itself, or a copy; and checksums for which the reply has no place. */
static void answer_in_place(struct fabric *f, struct fab_req *req, uint64_t at, uint32_t bytes,
			    uint32_t sums_bytes)
{
	struct slot *slot = f->slot_free;
	const uint32_t *sums = f->sums + at / BLOCK_SIZE;
	const uint8_t *from = f->source + at;
	uint8_t *tail;
	uint32_t parts;

	ASSERT(slot);
	f->slot_free = slot->next;
	slot->out = 1; /* ours */
	if (!f->rdma)
		from = memcpy(slot->bytes, from, bytes);
	tail = f->rdma ? slot->bytes : slot->bytes + bytes;
	if (sums_bytes)
		memcpy(tail, sums, sums_bytes);
	if (!f->rdma) {
		(void)slot_send(req, slot, 0, from, 0, bytes + sums_bytes);
	} else {
		parts = slot_send(req, slot, 0, from, 0, bytes);
		(void)slot_send(req, slot, parts, tail, bytes, sums_bytes);
	}
	slot_sent(f, slot);
}

static void answer(struct fabric *f, struct fab_req *req)
{
	uint32_t bytes = req->args.read.length_bytes, sums[FAB_SUMS_INLINE];
	uint64_t step = align_up(bytes, BLOCK_SIZE), iova;
	uint64_t at = rand_below(&f->rand, f->source_bytes / step) * step;
	uint32_t blocks = (uint32_t)div_up(bytes, BLOCK_SIZE);
	uint32_t sums_bytes = blocks > FAB_SUMS_INLINE ? 4 * blocks : 0;
	const uint32_t *from = f->sums + at / BLOCK_SIZE;
	uint8_t *to = fab_window_addr(req, 0, bytes + sums_bytes, &iova);

	if (to) {
		memcpy(to, f->source + at, bytes);
		memcpy(to + bytes, from, sums_bytes);
	} else {
		answer_in_place(f, req, at, bytes, sums_bytes);
	}
	for (uint32_t i = 0; i < min_u32(blocks, FAB_SUMS_INLINE); i++)
		sums[i] = from[i];
	fab_reply_read(req, bytes, sums_bytes ? NULL : sums, sums_bytes ? bytes : 0);
}

static uint32_t serve(struct fabric *f)
{
	struct fab_event e[64];
	uint32_t count = fab_server_poll(f->srv, clock_now_ns(), e, ARRAY_LEN(e));

	for (uint32_t i = 0; i < count; i++) {
		if (e[i].type == FAB_EVENT_REQUEST) {
			answer(f, e[i].req);
		} else if (e[i].type == FAB_EVENT_SENT) {
			slot_sent(f, e[i].piece->user);
		} else {
			ASSERT(e[i].type != FAB_EVENT_CANCEL); /* requests end in their turn */
		}
	}
	fab_server_flush(f->srv);
	return count;
}

static void *server_main(void *arg)
{
	struct fabric *f = arg;

	bench_pin(f->conf->core_appliance);
	for (uint32_t turn = 0;; turn++) {
		if (atomic_load_explicit(&f->quit, memory_order_acquire)) /* A1 */
			break;
		(void)serve(f);
		if (turn % CONTROL_EACH == 0)
			control(f);
	}
	fab_server_stop(f->srv);
	for (uint32_t turn = 0; turn < 2000; turn++) { /* sessions close, pools go */
		(void)serve(f);
		control(f);
	}
	return NULL;
}

/* ---- the client ---------------------------------------------------------------------- */

static int submit(struct fabric *f, struct lane *l, uint32_t i)
{
	struct fab_call *call = &l->call[i];
	int err;

	call->type = FAB_READ;
	call->args.read.offset_bytes = 0;
	call->args.read.length_bytes = f->row.size_bytes;
	call->region = l->region;
	call->window_offset = (uint64_t)i * f->window_bytes;
	call->window_bytes = f->window_bytes;
	call->user = l;
	f->began[(l - f->lane) * f->row.depth + i] = f->now;
	err = fab_submit(l->conn, call);
	f->in_flight += !err;
	return err ? bench_fail("fabric: %s", strerror(-err)) : 0;
}

static int finish(struct fabric *f, struct fab_call *call)
{
	struct lane *l = call->user;
	uint32_t i = (uint32_t)(call - l->call), bytes = f->row.size_bytes;
	const uint8_t *data = (const uint8_t *)fab_region_memory(l->region) + call->window_offset;

	f->in_flight--;
	if (call->status || call->length_bytes != bytes)
		return bench_fail("fabric: %s", strerror(-call->status));
	/* Less than a block: its sum is of the whole block, which did not travel. */
	for (uint32_t b = 0; b < bytes / BLOCK_SIZE; b++)
		if (crc32c(data + (size_t)b * BLOCK_SIZE, BLOCK_SIZE) != fab_call_sum(call, b))
			return bench_fail("fabric: block %u of a reply is damaged", b);
	if (f->now > f->end && f->run->ops > 0)
		return 0;
	f->last = f->now;
	f->run->ops++;
	f->run->bytes += bytes;
	if (f->run->hist)
		stat_hist_record(f->run->hist, f->now - f->began[(l - f->lane) * f->row.depth + i]);
	return submit(f, l, i);
}

static int turn(struct fabric *f, struct lane *l)
{
	struct fab_call *done[64];
	uint32_t count = fab_poll(l->conn, f->now, done, ARRAY_LEN(done));
	int err = 0;

	if (fab_conn_status(l->conn))
		return bench_fail("fabric: %s", fab_conn_error(l->conn));
	if (count == 0)
		return 0;
	f->now = clock_now_ns();
	for (uint32_t i = 0; i < count && !err; i++)
		err = finish(f, done[i]);
	fab_flush(l->conn);
	return err;
}

static int fabric_run(void *ctx, double seconds, struct bench_run *run)
{
	struct fabric *f = ctx;
	uint64_t start = clock_now_ns();
	int err = 0;

	f->run = run;
	f->now = f->last = start;
	f->end = start + (uint64_t)(seconds * 1e9);
	for (uint32_t c = 0; c < f->row.conns && !err; c++) {
		for (uint32_t i = 0; i < f->row.depth && !err; i++)
			err = submit(f, &f->lane[c], i);
		fab_flush(f->lane[c].conn);
	}
	while (!err && f->in_flight > 0 && !bench_interrupted())
		for (uint32_t c = 0; c < f->row.conns && !err; c++)
			err = turn(f, &f->lane[c]);
	run->ns = f->last - start;
	return err;
}

/* ---- a row ------------------------------------------------------------------------------- */

static int dial(struct fabric *f, struct lane *l, const char *address)
{
	struct fab_connect_cfg cfg = { .address = address, .key = f->key };
	uint64_t until = clock_now_ns() + DIAL_NS;
	struct fab_call *none;
	int err;

	cfg.want.credits = f->row.depth;
	cfg.want.long_bodies = 1;
	l->call = calloc(f->row.depth, sizeof(*l->call));
	err = l->call ? fab_connect(&l->conn, &cfg, clock_now_ns()) : -ENOMEM;
	while (!err && (err = fab_connect_step(l->conn, clock_now_ns())) == -EINPROGRESS)
		err = clock_now_ns() < until ? 0 : -ETIMEDOUT;
	if (!err)
		err = fab_pool_add(l->conn, (uint64_t)f->row.depth * f->window_bytes, &l->region);
	while (!err && fab_region_status(l->region) == -EINPROGRESS) {
		(void)!fab_poll(l->conn, clock_now_ns(), &none, 1);
		err = clock_now_ns() < until ? 0 : -ETIMEDOUT;
	}
	if (!err)
		err = fab_region_status(l->region);
	return err ? bench_fail("%s: %s", address,
				l->conn && *fab_conn_error(l->conn) ? fab_conn_error(l->conn)
								    : strerror(-err))
		   : 0;
}

static int server_open(struct fabric *f)
{
	struct fab_server_cfg cfg = { .key = f->key, .sessions_max = CONNS_MAX };
	uint64_t calls = (uint64_t)f->row.conns * f->row.depth;
	char address[160], why[256];
	int err;

	cfg.limits.credits = f->row.depth;
	cfg.limits.long_bodies = 1;
	cfg.limits.pool_max_bytes = align_up(f->row.depth * (uint64_t)f->window_bytes, 2u << 20);
	cfg.pools_max_bytes = f->row.conns * cfg.limits.pool_max_bytes;
	f->slots = calls + (f->rdma ? f->row.conns * RDMA_SLOTS_MORE : 0);
	f->slot_bytes = f->rdma ? BLOCK_SIZE : f->window_bytes;
	f->slot = calloc(f->slots, sizeof(*f->slot));
	f->began = calloc(calls, sizeof(*f->began));
	f->staging = mmap(NULL, f->slots * f->slot_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!f->slot || !f->began || f->staging == MAP_FAILED)
		return bench_fail("out of memory");
	f->slot_free = NULL;
	for (uint64_t i = 0; i < f->slots; i++) {
		f->slot[i].bytes = f->staging + i * f->slot_bytes;
		f->slot[i].next = f->slot_free;
		f->slot_free = &f->slot[i];
	}
	if (f->conf->connect_count > 0)
		snprintf(address, sizeof(address), "%s", f->conf->connect[0]);
	else if (strcmp(f->conf->transport, "tcp") == 0)
		snprintf(address, sizeof(address), "tcp://127.0.0.1:0");
	else
		snprintf(address, sizeof(address), "shm:%s/sock", f->dir);
	err = fab_server_create(&f->srv, &cfg);
	if (err)
		return bench_fail("fabric: %s", strerror(-err));
	fab_server_memory(f->srv, f->staging, f->slots * f->slot_bytes);
	fab_server_memory(f->srv, (void *)(uintptr_t)f->source, f->source_bytes);
	err = fab_server_listen(f->srv, address, why);
	if (err)
		return bench_fail("%s", why);
	err = pthread_create(&f->thread, NULL, server_main, f);
	f->threaded = !err;
	return err ? bench_fail("fabric: %s", strerror(err)) : 0;
}

static void row_close(struct fabric *f)
{
	for (uint32_t c = 0; c < f->row.conns; c++) {
		if (f->lane[c].conn)
			fab_close(f->lane[c].conn);
		free(f->lane[c].call);
		f->lane[c] = (struct lane){ 0 };
	}
	if (f->threaded) {
		atomic_store_explicit(&f->quit, true, memory_order_release); /* R1 */
		pthread_join(f->thread, NULL);
	}
	f->threaded = false;
	atomic_store_explicit(&f->quit, false, memory_order_relaxed);
	if (f->srv)
		fab_server_destroy(f->srv);
	f->srv = NULL;
	if (f->staging && f->staging != MAP_FAILED)
		munmap(f->staging, f->slots * f->slot_bytes);
	free(f->slot);
	free(f->began);
	f->slot = NULL;
	f->began = NULL;
	f->staging = NULL;
}

static int row_measure(struct fabric *f, const char *transport)
{
	struct bench_part part[BENCH_ROLES] = { 0 };
	struct bench_conf conf = *f->conf;
	struct bench_pair_shape shape = { 64,           1,    f->row.size_bytes, f->row.depth,
					  f->row.conns, false };
	struct bench_pair *pair = NULL;
	char name[48];
	int err = f->rdma ? 0 : bench_pair_create(&pair, f->pipe, &shape, f->conf);

	if (err)
		err = bench_fail("the bare pair: %s", strerror(-err));
	conf.size_bytes = f->row.size_bytes;
	conf.depth = f->row.depth;
	snprintf(name, sizeof(name), "fabric %u x%u c%u", f->row.size_bytes, f->row.depth,
		 f->row.conns);
	part[BENCH_WORK] = (struct bench_part){ fabric_run, f };
	if (pair)
		part[BENCH_VS_PAIR] = (struct bench_part){ bench_pair_run, pair };
	if (!err)
		err = bench_measure(&conf, name, transport, part);
	if (pair)
		bench_pair_destroy(pair);
	return err;
}

static int run_row(struct fabric *f, const struct row *row)
{
	const char *address;
	int err;

	f->row = *row;
	f->window_bytes = (uint32_t)align_up(row->size_bytes, BLOCK_SIZE);
	if (f->window_bytes / BLOCK_SIZE > FAB_SUMS_INLINE)
		f->window_bytes += (uint32_t)align_up(f->window_bytes / BLOCK_SIZE * 4, BLOCK_SIZE);
	if ((uint64_t)row->conns * row->depth * f->window_bytes > BYTES_MAX)
		return 0;
	err = server_open(f);
	address = err ? NULL : fab_server_address(f->srv, 0);
	for (uint32_t c = 0; c < row->conns && !err; c++)
		err = dial(f, &f->lane[c], address);
	if (!err)
		err = row_measure(f, strncmp(address, "tls", 3) == 0
					     ? "tls"
					     : fab_conn_transport(f->lane[0].conn));
	row_close(f);
	return err;
}

static int run_all(struct fabric *f)
{
	struct row one = { (uint32_t)f->conf->size_bytes, f->conf->depth, f->conf->threads };
	int err = 0;

	if (f->conf->size_bytes)
		return run_row(f, &one);
	for (size_t i = 0; i < ARRAY_LEN(rows) && !err; i++)
		err = run_row(f, &rows[i]);
	return err;
}

static int source_create(struct fabric *f)
{
	if (f->rdma)
		return bench__pipe_create(&f->pipe, RDMA_SOURCE, BLOCK_SIZE, 1, false, f->conf);
	return bench_pipe_create(&f->pipe, BLOCK_SIZE, 1, false, f->conf);
}

int bench_workload_fabric(const struct bench_conf *conf)
{
	struct fabric *f = calloc(1, sizeof(*f));
	int err = 0;

	if (!f)
		return bench_fail("out of memory");
	bench_catch_signals();
	f->conf = conf;
	f->rdma = conf->connect_count > 0 && strncmp(conf->connect[0], "rdma", 4) == 0;
	f->key = (struct fab_key){ .id = "bench", .secret = { 1 } };
	rand_seed(&f->rand, 6);
	snprintf(f->dir, sizeof(f->dir), "/dev/shm/weka-bench.XXXXXX");
	if (!mkdtemp(f->dir))
		err = bench_fail("%s: %s", f->dir, strerror(errno));
	if (!err && source_create(f))
		err = bench_fail("no memory for the payload (2 GiB; rdma: 64 MiB)");
	if (!err) {
		f->source = bench_pipe_source(f->pipe, &f->source_bytes);
		f->sums = malloc(f->source_bytes / BLOCK_SIZE * sizeof(*f->sums));
	}
	if (!err && !f->sums)
		err = bench_fail("out of memory");
	for (uint64_t i = 0; !err && i < f->source_bytes / BLOCK_SIZE; i++)
		f->sums[i] = crc32c(f->source + i * BLOCK_SIZE, BLOCK_SIZE);
	bench_pin(conf->core_client);
	if (!err)
		err = run_all(f);
	(void)rmdir(f->dir);
	free(f->sums);
	bench_pipe_destroy(f->pipe);
	free(f);
	return err;
}
