/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The bare pair: what it does, and what it leaves out:
 *
 *   client thread                                     server thread
 *   send: requests of all completed ones  ---------> recv: all that have arrived
 *                                                     memcpy 2 GiB[anywhere] -> slot, per item
 *   recv, CRC32C of each block, compare   <--------- sendmsg: all replies gathered
 *
 *   reply    | head 64 | le32 a block, rounded up to 64 | items |
 *
 * Small payload (under 16 KiB) is received in bulk and checked there; larger payload is received
 * straight into its place, with the next head behind it in the same call.  There are no names, no
 * windows, no credits and no deadlines, and nothing is copied twice: the difference to a workload
 * is the cost of its protocol.
 *
 *  (1) Replies leave in the order of the requests; request n of a connection has slot n % depth.
 *  (2) Outside of bench_pair_run() nothing is in flight.
 *
 *   R1 -> A1   when the server sees `running`, what the run set up before is set up;
 *   R2 -> A2   once `stopped` is seen, the server touches no socket.
 */
#define _GNU_SOURCE
#include "bench/bench_pair.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_BYTES 64u
#define BULK_BYTES (256u << 10)
#define DIRECT_MIN (16u << 10)
#define CONNS_MAX  256u
#define IOV_PAIRS  64
#define MEMORY_MAX (2ull << 30)

struct pair_conn {
	int server_fd;
	int client_fd;
	uint8_t *slots;   /* the server's: depth x slot_bytes, payload first, then the head */
	uint32_t asked;   /* requests that came and have no reply yet      */
	uint32_t partial; /* bytes of the request that is coming           */
	uint32_t filled;  /* replies not wholly sent                       */
	uint32_t fill_at; /* slot of the next reply                        */
	uint32_t send_at; /* slot of the first of `filled`                 */
	uint64_t sent;    /* bytes of that one that have left              */
	uint8_t *bulk;    /* the client's                                  */
	uint8_t *places;  /* depth x payload_bytes, for large payload      */
	uint32_t bulk_bytes;
	uint64_t placed; /* bytes of the payload that is coming            */
	uint32_t due;    /* bytes of requests still to send                */
	uint32_t in_flight;
	uint32_t next;   /* which reply comes next                         */
	uint64_t *began; /* depth                                          */
};

struct bench_pair {
	struct bench_pair_shape shape;
	struct bench_pipe *pipe;
	const uint8_t *source;
	uint64_t source_bytes;
	uint32_t *sums; /* of the source's blocks; of its pieces where these are smaller */
	uint32_t sum_bytes;
	uint32_t blocks; /* with a checksum, a reply */
	uint32_t head_bytes;
	uint64_t payload_bytes;
	uint64_t stride; /* of payloads in memory */
	uint64_t slot_bytes;
	struct pair_conn *conn;
	uint8_t *memory;
	uint64_t memory_bytes;
	uint8_t *zeros; /* requests */
	uint64_t next;
	struct rand_state rand;
	int epoll[2]; /* server's, client's: with several connections */
	int core_server;
	int core_client;
	pthread_t server;
	bool started;
	sem_t go;
	_Atomic bool quit;
	_Atomic bool running;
	_Atomic bool stopped;
	uint64_t wrong; /* checksums */
	bool broken;
};

/* ---- the server -------------------------------------------------------------------- */

static void fill_item(struct bench_pair *p, uint8_t *to, uint32_t *sums)
{
	uint64_t bytes = p->shape.item_bytes, pieces = p->source_bytes / bytes;
	uint64_t i = p->shape.sequential ? p->next++ % pieces : rand_below(&p->rand, pieces);
	uint64_t first = i * bytes / p->sum_bytes;

	memcpy(to, p->source + i * bytes, bytes);
	for (uint64_t b = 0; b < div_up(bytes, p->sum_bytes); b++)
		sums[b] = p->sums[first + b];
}

static void fill_reply(struct bench_pair *p, struct pair_conn *c)
{
	uint8_t *slot = c->slots + c->fill_at * p->slot_bytes;
	uint32_t *sums = (void *)(slot + p->stride + HEAD_BYTES);

	DASSERT(c->fill_at == (c->send_at + c->filled) % p->shape.depth); /* (1) */
	for (uint32_t i = 0; p->shape.item_bytes && i < p->shape.items; i++)
		fill_item(p, slot + i * p->shape.item_bytes,
			  sums + i * (p->blocks / p->shape.items));
	c->fill_at = (c->fill_at + 1) % p->shape.depth;
	c->filled++;
	c->asked--;
}

static void server_receive(struct bench_pair *p, struct pair_conn *c)
{
	uint8_t in[64 << 10]; /* requests have nothing in them */
	ssize_t got = recv(c->server_fd, in, sizeof(in), MSG_DONTWAIT);

	if (got <= 0)
		return;
	c->partial += (uint32_t)got;
	c->asked += c->partial / p->shape.request_bytes;
	c->partial %= p->shape.request_bytes;
}

static uint32_t gather(struct iovec *iov, uint8_t *at, uint64_t bytes, uint64_t *skip)
{
	if (*skip >= bytes) {
		*skip -= bytes;
		return 0;
	}
	iov->iov_base = at + *skip;
	iov->iov_len = bytes - *skip;
	*skip = 0;
	return 1;
}

static void server_send(struct bench_pair *p, struct pair_conn *c)
{
	struct iovec iov[2 * IOV_PAIRS];
	struct msghdr msg = { .msg_iov = iov };
	uint64_t skip = c->sent, whole = p->head_bytes + p->payload_bytes;
	uint32_t at = c->send_at;
	ssize_t sent;

	for (uint32_t i = 0; i < c->filled && msg.msg_iovlen + 2 <= ARRAY_LEN(iov); i++) {
		uint8_t *slot = c->slots + at * p->slot_bytes;

		msg.msg_iovlen +=
			gather(&iov[msg.msg_iovlen], slot + p->stride, p->head_bytes, &skip);
		msg.msg_iovlen += gather(&iov[msg.msg_iovlen], slot, p->payload_bytes, &skip);
		at = (at + 1) % p->shape.depth;
	}
	if (msg.msg_iovlen == 0)
		return;
	sent = sendmsg(c->server_fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent <= 0)
		return;
	c->sent += (uint64_t)sent;
	while (c->filled > 0 && c->sent >= whole) {
		c->sent -= whole;
		c->send_at = (c->send_at + 1) % p->shape.depth;
		c->filled--;
	}
}

static void serve(struct bench_pair *p, struct pair_conn *c)
{
	server_receive(p, c);
	while (c->asked > 0)
		fill_reply(p, c);
	server_send(p, c);
}

/* Calls `each` for the connections that are ready; a single connection is not polled. */
static void each_ready(struct bench_pair *p, int epoll,
		       void (*turn)(struct bench_pair *p, struct pair_conn *c))
{
	struct epoll_event ev[64];
	int count;

	if (p->shape.conns == 1) {
		turn(p, &p->conn[0]);
		return;
	}
	count = epoll_wait(epoll, ev, ARRAY_LEN(ev), 0);
	for (int i = 0; i < count; i++)
		turn(p, ev[i].data.ptr);
}

static void send_stuck(struct bench_pair *p)
{
	for (uint32_t i = 0; p->shape.conns > 1 && i < p->shape.conns; i++)
		if (p->conn[i].filled > 0)
			server_send(p, &p->conn[i]);
}

static void *server_main(void *arg)
{
	struct bench_pair *p = arg;

	bench_pin(p->core_server);
	for (;;) {
		while (sem_wait(&p->go) != 0)
			;
		if (atomic_load_explicit(&p->quit, memory_order_relaxed))
			return NULL;
		while (atomic_load_explicit(&p->running, memory_order_acquire)) { /* A1 */
			each_ready(p, p->epoll[0], serve);
			send_stuck(p);
		}
		atomic_store_explicit(&p->stopped, true, memory_order_release); /* R2 */
	}
}

/* ---- the client ---------------------------------------------------------------------- */

struct client_run {
	struct bench_run *run;
	uint64_t now;
	uint64_t end;
	uint64_t last; /* when a reply came that counts */
};

static _Thread_local struct client_run client; /* of the one thread that runs */

static void check(struct bench_pair *p, const uint8_t *payload, const uint8_t *head)
{
	const uint8_t *sums = head + HEAD_BYTES;

	for (uint32_t b = 0; b < p->blocks; b++) {
		uint64_t at = (uint64_t)b * p->sum_bytes;
		uint32_t want;

		memcpy(&want, sums + 4u * b, sizeof(want));
		if (crc32c(payload + at, min_u64(p->sum_bytes, p->payload_bytes - at)) != want)
			p->wrong++;
	}
}

static void reply_done(struct bench_pair *p, struct pair_conn *c)
{
	uint32_t slot = c->next;

	c->next = (c->next + 1) % p->shape.depth;
	c->in_flight--;
	if (client.now > client.end && client.run->ops > 0)
		return;
	client.last = client.now;
	client.run->ops += max_u32(p->shape.items, 1);
	client.run->bytes += p->payload_bytes;
	if (client.run->hist)
		stat_hist_record(client.run->hist, client.now - c->began[slot]);
	c->began[slot] = client.now;
	c->in_flight++;
	c->due += p->shape.request_bytes;
}

/* Requests are zeros, so it does not matter which bytes of them are due. */
static void client_send(struct bench_pair *p, struct pair_conn *c)
{
	while (c->due > 0) {
		ssize_t sent = send(c->client_fd, p->zeros, c->due, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent <= 0)
			return;
		c->due -= (uint32_t)sent;
	}
}

static void client_bulk(struct bench_pair *p, struct pair_conn *c)
{
	uint64_t whole = p->head_bytes + p->payload_bytes, at = 0;
	ssize_t got = recv(c->client_fd, c->bulk + c->bulk_bytes, BULK_BYTES - c->bulk_bytes,
			   MSG_DONTWAIT);

	if (got <= 0) {
		p->broken |= got == 0;
		return;
	}
	client.now = clock_now_ns();
	c->bulk_bytes += (uint32_t)got;
	for (; c->bulk_bytes - at >= whole; at += whole) {
		check(p, c->bulk + at + p->head_bytes, c->bulk + at);
		reply_done(p, c);
	}
	c->bulk_bytes -= (uint32_t)at;
	memmove(c->bulk, c->bulk + at, c->bulk_bytes);
}

/* bulk: the head that was received, and behind it the next one's first bytes. */
static void client_direct(struct bench_pair *p, struct pair_conn *c)
{
	uint8_t *place = c->places + c->next * p->stride;
	bool head = c->bulk_bytes >= p->head_bytes;
	struct iovec iov[2] = {
		{ place + c->placed, head ? p->payload_bytes - c->placed : 0 },
		{ c->bulk + c->bulk_bytes, (head ? 2 : 1) * p->head_bytes - c->bulk_bytes },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t got = recvmsg(c->client_fd, &msg, MSG_DONTWAIT);
	uint64_t placed;

	if (got <= 0) {
		p->broken |= got == 0;
		return;
	}
	placed = min_u64((uint64_t)got, iov[0].iov_len);
	c->placed += placed;
	c->bulk_bytes += (uint32_t)((uint64_t)got - placed);
	if (!head || c->placed < p->payload_bytes)
		return;
	client.now = clock_now_ns();
	check(p, place, c->bulk);
	c->placed = 0;
	c->bulk_bytes -= p->head_bytes;
	memmove(c->bulk, c->bulk + p->head_bytes, c->bulk_bytes);
	reply_done(p, c);
}

static void client_turn(struct bench_pair *p, struct pair_conn *c)
{
	if (p->payload_bytes >= DIRECT_MIN)
		client_direct(p, c);
	else
		client_bulk(p, c);
	client_send(p, c);
}

static void begin(struct bench_pair *p)
{
	for (uint32_t i = 0; i < p->shape.conns; i++) {
		struct pair_conn *c = &p->conn[i];

		ASSERT(c->in_flight == 0 && c->bulk_bytes == 0 && c->due == 0); /* (2) */
		for (uint32_t slot = 0; slot < p->shape.depth; slot++)
			c->began[slot] = client.now;
		c->in_flight = p->shape.depth;
		c->due = p->shape.depth * p->shape.request_bytes;
		client_send(p, c);
	}
}

static bool all_back(const struct bench_pair *p)
{
	for (uint32_t i = 0; i < p->shape.conns; i++)
		if (p->conn[i].in_flight > 0)
			return false;
	return true;
}

static void send_due(struct bench_pair *p)
{
	for (uint32_t i = 0; p->shape.conns > 1 && i < p->shape.conns; i++)
		if (p->conn[i].due > 0)
			client_send(p, &p->conn[i]);
}

int bench_pair_run(void *pair, double seconds, struct bench_run *run)
{
	struct bench_pair *p = pair;
	uint64_t start = clock_now_ns();

	bench_pin(p->core_client);
	client = (struct client_run){ run, start, start + (uint64_t)(seconds * 1e9), start };
	atomic_store_explicit(&p->stopped, false, memory_order_relaxed);
	atomic_store_explicit(&p->running, true, memory_order_release); /* R1 */
	sem_post(&p->go);
	begin(p);
	do {
		each_ready(p, p->epoll[1], client_turn);
		send_due(p);
	} while (!all_back(p) && !p->broken && !bench_interrupted());
	run->ns = client.last - start;
	atomic_store_explicit(&p->running, false, memory_order_release); /* R1 */
	while (!atomic_load_explicit(&p->stopped, memory_order_acquire)) /* A2 */
		;
	if (p->wrong)
		return bench_fail("the bare pair: %llu wrong checksums",
				  (unsigned long long)p->wrong);
	return p->broken ? bench_fail("the bare pair: the connection broke") : 0;
}

/* ---- making ------------------------------------------------------------------------- */

static int no_delay(int fd)
{
	int one = 1;

	return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ? -errno : 0;
}

static int watch(int epoll, int fd, struct pair_conn *c)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* A connected pair of TCP sockets over loopback. */
static int connect_one(struct bench_pair *p, int listener, const struct sockaddr_in *at,
		       struct pair_conn *c)
{
	int err;

	c->client_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->client_fd < 0 || connect(c->client_fd, (const struct sockaddr *)at, sizeof(*at)) < 0)
		return -errno;
	c->server_fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (c->server_fd < 0)
		return -errno;
	err = no_delay(c->client_fd);
	if (!err)
		err = no_delay(c->server_fd);
	if (!err)
		err = watch(p->epoll[0], c->server_fd, c);
	return err ? err : watch(p->epoll[1], c->client_fd, c);
}

static int connect_all(struct bench_pair *p)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), err = 0;

	p->epoll[0] = epoll_create1(EPOLL_CLOEXEC);
	p->epoll[1] = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0 || p->epoll[0] < 0 || p->epoll[1] < 0 ||
	    bind(fd, (struct sockaddr *)&at, bytes) < 0 || listen(fd, 8) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &bytes) < 0)
		err = -errno;
	for (uint32_t i = 0; !err && i < p->shape.conns; i++)
		err = connect_one(p, fd, &at, &p->conn[i]);
	if (fd >= 0)
		close(fd);
	return err;
}

/* All of it page-aligned, so that no copy meets its source at an odd place in a page. */
static int take_memory(struct bench_pair *p)
{
	uint64_t places = p->payload_bytes >= DIRECT_MIN ? p->shape.depth * p->stride : 0;
	uint64_t each = p->shape.depth * p->slot_bytes + BULK_BYTES + places;
	uint8_t *at;

	if (each > MEMORY_MAX / p->shape.conns)
		return -EINVAL;
	p->memory_bytes = each * p->shape.conns;
	at = mmap(NULL, p->memory_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	p->memory = at;
	for (uint32_t i = 0; i < p->shape.conns; i++, at += each) {
		struct pair_conn *c = &p->conn[i];

		c->slots = at;
		c->bulk = at + p->shape.depth * p->slot_bytes;
		c->places = c->bulk + BULK_BYTES;
		c->began = calloc(p->shape.depth, sizeof(*c->began));
		if (!c->began)
			return -ENOMEM;
	}
	p->zeros = calloc(p->shape.depth, p->shape.request_bytes);
	return p->zeros ? 0 : -ENOMEM;
}

static int take_sums(struct bench_pair *p)
{
	uint64_t count;

	if (p->shape.item_bytes == 0)
		return 0;
	count = p->source_bytes / p->sum_bytes;
	p->sums = malloc(count * sizeof(*p->sums));
	if (!p->sums)
		return -ENOMEM;
	for (uint64_t i = 0; i < count; i++)
		p->sums[i] = crc32c(p->source + i * p->sum_bytes, p->sum_bytes);
	return 0;
}

static int shape_check(struct bench_pair *p)
{
	const struct bench_pair_shape *s = &p->shape;

	if (s->depth == 0 || s->conns == 0 || s->conns > CONNS_MAX || s->request_bytes == 0 ||
	    (s->item_bytes > 0) != (s->items > 0) || s->item_bytes > p->source_bytes ||
	    (s->item_bytes > BLOCK_SIZE && s->item_bytes % BLOCK_SIZE))
		return -EINVAL;
	p->sum_bytes = s->item_bytes < BLOCK_SIZE ? (uint32_t)s->item_bytes : BLOCK_SIZE;
	p->blocks = s->items ? s->items * (uint32_t)(s->item_bytes / p->sum_bytes) : 0;
	p->head_bytes = HEAD_BYTES + (uint32_t)align_up(4 * p->blocks, 64);
	p->payload_bytes = s->items * s->item_bytes;
	p->stride = align_up(p->payload_bytes, BLOCK_SIZE);
	p->slot_bytes = align_up(p->stride + p->head_bytes, BLOCK_SIZE);
	return p->head_bytes > BULK_BYTES / 2 || p->slot_bytes > MEMORY_MAX / s->depth ? -EINVAL
										       : 0;
}

int bench_pair_create(struct bench_pair **out, struct bench_pipe *pipe,
		      const struct bench_pair_shape *shape, const struct bench_conf *conf)
{
	struct bench_pair *p = calloc(1, sizeof(*p));
	int err;

	*out = p;
	if (!p)
		return -ENOMEM;
	p->shape = *shape;
	p->source = bench_pipe_source(pipe, &p->source_bytes);
	p->core_server = conf->core_appliance;
	p->core_client = conf->core_client;
	p->epoll[0] = p->epoll[1] = -1;
	rand_seed(&p->rand, 2);
	sem_init(&p->go, 0, 0);
	err = shape_check(p);
	if (err)
		return err;
	p->conn = calloc(shape->conns, sizeof(*p->conn));
	if (!p->conn)
		return -ENOMEM;
	for (uint32_t i = 0; i < shape->conns; i++)
		p->conn[i].server_fd = p->conn[i].client_fd = -1;
	err = take_memory(p);
	if (!err)
		err = take_sums(p);
	if (!err)
		err = connect_all(p);
	if (!err)
		err = -pthread_create(&p->server, NULL, server_main, p);
	p->started = !err;
	return err;
}

void bench_pair_destroy(struct bench_pair *p)
{
	if (!p)
		return;
	if (p->started) {
		atomic_store_explicit(&p->quit, true, memory_order_relaxed);
		sem_post(&p->go);
		pthread_join(p->server, NULL);
	}
	for (uint32_t i = 0; p->conn && i < p->shape.conns; i++) {
		if (p->conn[i].server_fd >= 0)
			close(p->conn[i].server_fd);
		if (p->conn[i].client_fd >= 0)
			close(p->conn[i].client_fd);
		free(p->conn[i].began);
	}
	for (int i = 0; i < 2; i++)
		if (p->epoll[i] >= 0)
			close(p->epoll[i]);
	if (p->memory)
		munmap(p->memory, p->memory_bytes);
	sem_destroy(&p->go);
	free(p->zeros);
	free(p->sums);
	free(p->conn);
	free(p);
}
