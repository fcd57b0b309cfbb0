/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Capsules through rings in shared memory.
 *
 *    count                     the writer's; the reader has its own
 *      v
 *   [lap 1][lap 1][lap 0][lap 0]      a slot is full when its lap is the one the reader expects
 *    read   new
 *
 * One thread writes a ring, and one thread in another process reads it.  Both are wait-free: the
 * credits guarantee that the slot to be written was read long ago, without a check.
 *
 *   R1 -> A1   header and body are stored before the slot's lap marks it as full;
 *   R1 -> A1   and, through the ring of the other direction, a slot is read before it is written
 *              again: its reply (or a later one) was written after it was read.
 *   R2 -> A2   a writer stores its lap, then exchanges the bell; a reader exchanges the bell,
 *              then reads the lap.  The second exchange sees everything before the first: either
 *              the writer finds 1 and rings, or the reader finds the capsule.
 *
 * The two sides are woken in different ways, since the appliance trusts no client:
 *
 *   client's eventfd write ------> the appliance's epoll (edges: it never reads, so it cannot wait)
 *   appliance's socket, send ----> the client's socket, which reads what has come
 *
 * A process that shares an eventfd shares its flags, and could make the other side's write block;
 * so could a process that holds a pipe's lock.  The ends of a socket pair have their own flags, and
 * a send with MSG_DONTWAIT does not wait, whatever the reader does.
 *
 * Invariants:
 *  (1) Data written by the other side is copied once, and only the copy is used
 *      [test_fab_hostile:what_was_checked_cannot_be_changed_afterwards].
 *  (2) No word in shared memory is used as an index or a length, except after (1) and a check
 *      [test_fab_hostile:garbage_in_the_ring_costs_only_its_own_session].
 */
#include "fabric/fab_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LAP_AT   offsetof(struct fab_hdr_wire, check)
#define SLEEPING 1u
#define AWAKE    0u

static uint32_t pow2_up(uint32_t v)
{
	uint32_t p = 1;

	ASSERT(v > 0 && v <= 1u << 31);
	while (p < v)
		p <<= 1;
	return p;
}

void fab__shm_layout(struct fab_shm_layout *out, const struct fab_limits *limits)
{
	uint32_t c = pow2_up(limits->credits);

	ASSERT(limits->credits <= FAB_CREDITS_MAX && limits->long_bodies <= FAB_LONG_MAX);
	out->request_slots = 4 * c;
	out->reply_slots = c;
	out->requests_at = BLOCK_SIZE;
	out->replies_at = out->requests_at +
			  align_up((uint64_t)out->request_slots * FAB_SLOT_BYTES, BLOCK_SIZE);
	out->bodies_at =
		out->replies_at + align_up((uint64_t)out->reply_slots * FAB_SLOT_BYTES, BLOCK_SIZE);
	out->size_bytes = out->bodies_at + (uint64_t)limits->long_bodies * FAB_LONG_BODY_MAX;
	ASSERT(out->size_bytes % BLOCK_SIZE == 0 && out->bodies_at % BLOCK_SIZE == 0);
}

/* ---- one direction ------------------------------------------------------------------ */

static void ring_init(struct fab_ring *r, uint8_t *slots, uint32_t slot_count, void *bell)
{
	ASSERT((uintptr_t)slots % 64 == 0 && (uintptr_t)bell % 64 == 0);
	ASSERT(is_pow2(slot_count));
	*r = (struct fab_ring){
		.slots = slots,
		.bell = bell,
		.mask = slot_count - 1,
		.lap = 1,
	};
}

static uint8_t *ring_slot(const struct fab_ring *r)
{
	DASSERT(r->at <= r->mask);
	return r->slots + (size_t)r->at * FAB_SLOT_BYTES;
}

static _Atomic uint32_t *slot_lap(uint8_t *slot)
{
	DASSERT((uintptr_t)slot % 64 == 0);
	return (_Atomic uint32_t *)(void *)(slot + LAP_AT);
}

static void ring_next(struct fab_ring *r)
{
	r->at = (r->at + 1) & r->mask;
	if (r->at == 0)
		r->lap++;
	DASSERT(r->at <= r->mask);
}

static bool ring_ready(const struct fab_ring *r)
{
	return atomic_load_explicit(slot_lap(ring_slot(r)), memory_order_acquire) ==
	       r->lap; /* A1 */
}

static void ring_put(struct fab_ring *r, const struct fab_tx *tx)
{
	uint8_t *slot = ring_slot(r);

	DASSERT(tx->body_bytes == 0 || (tx->body && tx->body_bytes > FAB_SMALL_MAX));
	if (tx->body_bytes > 0 && tx->body_bytes <= FAB_BODY_MAX)
		memcpy(slot + sizeof(tx->hdr), tx->body, tx->body_bytes);
	memcpy(slot, &tx->hdr, LAP_AT);
	atomic_store_explicit(slot_lap(slot), r->lap, memory_order_release); /* R1 */
	ring_next(r);
}

/* ---- struct fab_transport ----------------------------------------------------------- */

static struct fab_shm *shm_of(struct fab_link *link)
{
	return container_of(link, struct fab_shm, link);
}

static int shm_recv_header(struct fab_link *link, struct fab_hdr_wire *out)
{
	struct fab_shm *shm = shm_of(link);

	if (!ring_ready(&shm->in))
		return 0;
	shm->in_body = ring_slot(&shm->in) + sizeof(*out);
	memcpy(out, ring_slot(&shm->in), LAP_AT);
	ring_next(&shm->in);
	__builtin_prefetch(ring_slot(&shm->in)); /* it is in the other core's cache */
	return 1;
}

static int shm_recv_bytes(struct fab_link *link, uint32_t slot, void *dst, uint32_t size_bytes,
			  uint32_t *done_bytes)
{
	struct fab_shm *shm = shm_of(link);

	DASSERT(shm->in_body && *done_bytes == 0);
	if (size_bytes <= FAB_BODY_MAX) {
		memcpy(dst, shm->in_body, size_bytes);
	} else {
		if (slot >= shm->long_bodies || size_bytes > FAB_LONG_BODY_MAX)
			return -EPROTO;
		memcpy(dst, shm->bodies + (size_t)slot * FAB_LONG_BODY_MAX, size_bytes);
	}
	*done_bytes = size_bytes;
	return 1;
}

static int shm_send(struct fab_link *link, struct fab_tx *tx)
{
	struct fab_shm *shm = shm_of(link);

	DASSERT(tx->body_bytes <= FAB_LONG_BODY_MAX);
	ASSERT(!tx->payload);
	if (!shm->closed) {
		ring_put(&shm->out, tx);
		shm->unrung = true;
	}
	return 1;
}

static struct fab_tx *shm_sent(struct fab_link *link)
{
	(void)link;
	return NULL;
}

/* A full doorbell suffices: the other side is awake, or will wake up. */
static int ring(const struct fab_shm *shm)
{
	const uint64_t one = 1;
	ssize_t rc;

	if (shm->server)
		rc = send(shm->doorbell_fd, &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		rc = write(shm->doorbell_fd, &one, sizeof(one));
	return rc < 0 && errno != EAGAIN ? -errno : 0;
}

void fab__shm_bell_read(int fd)
{
	uint8_t rings[256];

	while (recv(fd, rings, sizeof(rings), MSG_DONTWAIT) == (ssize_t)sizeof(rings))
		;
}

static int shm_flush(struct fab_link *link)
{
	struct fab_shm *shm = shm_of(link);
	uint32_t was;

	if (!shm->unrung)
		return 0;
	shm->unrung = false;
	was = atomic_exchange_explicit(shm->out.bell, AWAKE, memory_order_seq_cst); /* R2 */
	if (likely(was == AWAKE))
		return 0;
	shm->rung_count++;
	return ring(shm);
}

static bool shm_arm(struct fab_link *link)
{
	struct fab_shm *shm = shm_of(link);

	atomic_exchange_explicit(shm->in.bell, SLEEPING, memory_order_seq_cst); /* A2 */
	return !ring_ready(&shm->in);
}

static void shm_disarm(struct fab_link *link)
{
	struct fab_shm *shm = shm_of(link);

	atomic_exchange_explicit(shm->in.bell, AWAKE, memory_order_seq_cst); /* A2: undone */
}

static void shm_close(struct fab_link *link)
{
	shm_of(link)->closed = true;
}

static const struct fab_transport shm_transport = {
	.name = "shm",
	.direct = true,
	.recv_header = shm_recv_header,
	.recv_bytes = shm_recv_bytes,
	.send = shm_send,
	.sent = shm_sent,
	.flush = shm_flush,
	.arm = shm_arm,
	.disarm = shm_disarm,
	.close = shm_close,
};

void fab__shm_init(struct fab_shm *shm, void *memory, const struct fab_limits *limits, bool server,
		   int doorbell_fd)
{
	struct fab_shm_layout at;
	uint8_t *base = memory;
	struct fab_ring *requests = server ? &shm->in : &shm->out;
	struct fab_ring *replies = server ? &shm->out : &shm->in;

	ASSERT((uintptr_t)memory % BLOCK_SIZE == 0);
	fab__shm_layout(&at, limits);
	*shm = (struct fab_shm){
		.link = { .ops = &shm_transport },
		.bodies = base + at.bodies_at,
		.long_bodies = limits->long_bodies,
		.server = server,
		.doorbell_fd = doorbell_fd,
		.memory = memory,
		.memory_bytes = at.size_bytes,
	};
	ring_init(requests, base + at.requests_at, at.request_slots, base);
	ring_init(replies, base + at.replies_at, at.reply_slots, base + 64);
}
