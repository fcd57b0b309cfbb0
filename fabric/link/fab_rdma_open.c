/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Makes and destroys the objects of a connection over verbs.
 *
 *   appliance   one protection domain a device, with all memory that payload moves from and to;
 *               every registration LOCAL_WRITE only: our keys are of no use to anybody else
 *   client      one protection domain a session and device, shared by its lanes with the pool: a
 *               key given to one appliance's queue pair opens nothing through another's
 *
 *   device -- pd -- mr ...           connection:  channel -- cq -- qp -- (id)
 *                                                 capsules -- mr
 *
 * A completion queue belongs to one queue pair, and has room for everything that can be in flight,
 * so it cannot overflow, and no completion waits for another connection's.
 *
 *   R1 -> A1   (fab_rdma.c) a registration is stored before the count of them includes it.
 *
 * Invariant: (1) memory that a device may still reach is deregistered only after the queue pair is
 * destroyed, and freed only after that.
 */
#include "fabric/link/fab_rdma.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Allowed for a work request and its completion in the queues of a card's library: the inline data
 * that is asked for, 64 bytes of completion, and rounding up to powers of two. */
#define WORK_BYTES 640u

#define DEPTH_MIN   4u
#define DEPTH_MAX   1024u
#define SIGNAL_MAX  16u
#define INLINE_WANT 256u /* a capsule with a few checksums */
#define CHUNK_MAX   (1u << 30)
#define SGES        1

#define LOCAL_ONLY IBV_ACCESS_LOCAL_WRITE
#define OFFERED    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static int say(char why[FAB_WHY_MAX], int err, const char *what)
{
	ASSERT(err < 0);
	snprintf(why, FAB_WHY_MAX, "RDMA: %s: %s", what, strerror(-err));
	return err;
}

static int errno_now(void)
{
	return errno > 0 ? -errno : -EIO; /* not every provider sets it */
}

/* ---- a device --------------------------------------------------------------------------- */

static int device_check(const struct ibv_device_attr *a, char why[FAB_WHY_MAX])
{
	const struct {
		const char *what;
		int has, needs;
	} rows[] = {
		{ "pieces", a->max_sge, SGES },
		{ "work requests", a->max_qp_wr, (int)DEPTH_MIN },
		{ "completions", a->max_cqe, 2 * (int)DEPTH_MIN },
	};

	for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].has >= rows[i].needs)
			continue;
		snprintf(why, FAB_WHY_MAX, "RDMA: the device can too little: %d %s, %d are needed",
			 rows[i].has, rows[i].what, rows[i].needs);
		return -EOPNOTSUPP;
	}
	return 0;
}

int fab__rdma_device_open(struct fab_rdma_device *dev, const struct fab_verbs *v,
			  struct ibv_context *verbs, char why[FAB_WHY_MAX])
{
	int err;

	memset(dev, 0, sizeof(*dev));
	dev->v = v;
	dev->verbs = verbs;
	err = -v->query_device(verbs, &dev->attr);
	if (err)
		return say(why, err, "what the device can do");
	err = device_check(&dev->attr, why);
	if (err)
		return err;
	dev->pd = v->alloc_pd(verbs);
	return dev->pd ? 0 : say(why, errno_now(), "a protection domain");
}

void fab__rdma_device_close(struct fab_rdma_device *dev)
{
	uint32_t count = atomic_load_explicit(&dev->mr_count, memory_order_relaxed);

	ASSERT(count <= FAB_RDMA_RANGES_MAX);
	for (uint32_t i = 0; i < count; i++)
		(void)dev->v->dereg_mr(dev->mrs[i]);
	if (dev->pd)
		(void)dev->v->dealloc_pd(dev->pd);
	memset(dev, 0, sizeof(*dev));
}

void fab__rdma_device_put(struct fab_rdma_device *dev, bool child)
{
	bool of_client = dev->of_client;

	ASSERT(dev->users > 0);
	if (--dev->users > 0)
		return;
	ASSERT(dev->users == 0); /* fab_rdma_async.c (2) */
	if (!child && (of_client || dev->gone))
		fab__rdma_device_close(dev);
	if (of_client)
		free(dev);
}

int fab__rdma_device_add(struct fab_rdma_device *dev, void *base, uint64_t size_bytes)
{
	uint32_t count = atomic_load_explicit(&dev->mr_count, memory_order_relaxed);
	struct ibv_mr *mr;

	ASSERT(dev->pd && count <= FAB_RDMA_RANGES_MAX);
	if (count == FAB_RDMA_RANGES_MAX)
		return -ENOSPC;
	mr = dev->v->reg_mr(dev->pd, base, size_bytes, LOCAL_ONLY);
	if (!mr)
		return errno_now();
	dev->mrs[count] = mr;
	atomic_store_explicit(&dev->mr_count, count + 1, memory_order_release); /* R1 */
	return 0;
}

/* ---- a connection ----------------------------------------------------------------------- */

static uint32_t pow2_down(uint32_t v)
{
	ASSERT(v > 0);
	while (v & (v - 1))
		v &= v - 1;
	return v;
}

/* Returns the most bytes that the port lets one work request move. */
static int chunk_of(const struct fab_verbs *v, const struct rdma_cm_id *id, uint32_t *out)
{
	struct ibv_port_attr port;
	int err;

	memset(&port, 0, sizeof(port));
	err = -v->query_port(id->verbs, id->port_num, (void *)&port);
	if (!err && port.state != IBV_PORT_ACTIVE)
		err = -ENETDOWN; /* and nothing may be said through it: fab_rdma_leave.c */
	if (err)
		return err;
	*out = min_u32(port.max_msg_sz, CHUNK_MAX);
	if (*out >= BLOCK_SIZE)
		*out = (uint32_t)align_down(*out, BLOCK_SIZE);
	ASSERT(*out <= CHUNK_MAX);
	return *out >= FAB_SLOT_BYTES ? 0 : -EOPNOTSUPP;
}

static int limits_of(struct fab_rdma *r, const struct fab_rdma_cfg *cfg,
		     struct fab_rdma_limits *out)
{
	const struct ibv_device_attr *a = &r->device->attr;
	uint32_t most = min_u32((uint32_t)a->max_qp_wr, DEPTH_MAX);

	r->receives_max = min_u32(cfg->receives_max, (uint32_t)a->max_qp_wr);
	if ((uint32_t)a->max_cqe < r->receives_max + DEPTH_MIN)
		r->receives_max = (uint32_t)a->max_cqe / 2;
	most = min_u32(most, (uint32_t)a->max_cqe - r->receives_max);
	*out = (struct fab_rdma_limits){
		.depth = pow2_down(max_u32(min_u32(cfg->sends, most), DEPTH_MIN)),
		.reads_max = cfg->reads_max,
		.pack_max = FAB_RDMA_PACK_MAX,
		.pass_max = FAB_RDMA_PASS_MAX,
	};
	out->signal_every = min_u32(SIGNAL_MAX, out->depth / 4);
	ASSERT(out->depth >= DEPTH_MIN && out->depth <= DEPTH_MAX);
	ASSERT(out->signal_every > 0 && r->receives_max > 0);
	return chunk_of(r->v, r->id, &out->chunk_max);
}

/* The maximum of inline data cannot be queried, only tried. */
static int qp_create(struct fab_rdma *r, struct fab_rdma_limits *limits)
{
	static const uint32_t tries[] = { INLINE_WANT, 128, 64, 0 };
	int err = -EINVAL;

	ASSERT(r->cq && !r->qp);
	for (uint32_t i = 0; i < ARRAY_LEN(tries) && err; i++) {
		struct ibv_qp_init_attr attr = {
			.qp_context = r,
			.send_cq = r->cq,
			.recv_cq = r->cq,
			.qp_type = IBV_QPT_RC,
			.cap = {
				.max_send_wr = limits->depth,
				.max_recv_wr = r->receives_max,
				.max_send_sge = SGES,
				.max_recv_sge = 1,
				.max_inline_data = tries[i],
			},
		};

		err = r->v->create_qp(r->id, r->device->pd, &attr) ? errno_now() : 0;
		/* 64 must fit, or two entries would go where one does. */
		limits->inline_max = attr.cap.max_inline_data;
	}
	if (!err)
		r->qp = r->id->qp;
	return err;
}

static uint64_t capsules_bytes(uint32_t receives, uint32_t sends)
{
	return align_up((uint64_t)(receives + sends) * FAB_SLOT_BYTES, BLOCK_SIZE);
}

uint64_t fab__rdma_bytes(uint32_t receives, uint32_t sends)
{
	ASSERT(receives > 0 && sends > 0);
	return sizeof(struct fab_rdma) + capsules_bytes(receives, sends) +
	       sends * sizeof(struct fab_rdma_posted) + receives * sizeof(uint32_t) +
	       (uint64_t)(receives + sends) * WORK_BYTES;
}

static int capsules_create(struct fab_rdma *r, uint32_t sends)
{
	ASSERT(sends > 0 && !r->capsules);
	r->capsules_bytes = capsules_bytes(r->receives_max, sends);
	r->capsules = mmap(NULL, r->capsules_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->capsules == MAP_FAILED) {
		r->capsules = NULL;
		return -ENOMEM;
	}
	r->ring = calloc(sends, sizeof(*r->ring));
	r->received_bytes = calloc(r->receives_max, sizeof(*r->received_bytes));
	if (!r->ring || !r->received_bytes)
		return -ENOMEM;
	r->capsules_mr = r->v->reg_mr(r->device->pd, r->capsules, r->capsules_bytes, LOCAL_ONLY);
	if (!r->capsules_mr)
		return errno_now();
	r->capsules_key = r->capsules_mr->lkey;
	return 0;
}

static int parts_create(struct fab_rdma *r, const struct fab_rdma_cfg *cfg, char why[FAB_WHY_MAX])
{
	struct fab_rdma_limits limits;
	int err = limits_of(r, cfg, &limits);

	ASSERT(!r->channel && !r->cq);
	if (err)
		return say(why, err, "the port");
	r->channel = r->v->create_comp_channel(r->id->verbs);
	if (!r->channel)
		return say(why, errno_now(), "a completion channel");
	err = fab__fd_nonblock(r->channel->fd);
	if (err)
		return say(why, err, "a completion channel");
	r->cq = r->v->create_cq(r->id->verbs, (int)(r->receives_max + limits.depth), r, r->channel,
				0);
	if (!r->cq)
		return say(why, errno_now(), "a completion queue");
	err = capsules_create(r, limits.depth);
	if (err)
		return say(why, err,
			   "memory for capsules (is the limit of locked memory too low?)");
	err = qp_create(r, &limits);
	if (err)
		return say(why, err, "a queue pair");
	fab__rdma_plan_init(&r->plan, &limits, r->ring);
	return 0;
}

static int device_own(struct fab_rdma *r, char why[FAB_WHY_MAX])
{
	int err;

	ASSERT(!r->server);
	r->device = calloc(1, sizeof(*r->device));
	if (!r->device)
		return say(why, -ENOMEM, "a device");
	err = fab__rdma_device_open(r->device, r->v, r->id->verbs, why);
	r->device->of_client = true;
	r->device->users = 1;
	return err;
}

int fab__rdma_open(struct fab_rdma **out, const struct fab_verbs *v, struct rdma_cm_id *id,
		   const struct fab_rdma_cfg *cfg, char why[FAB_WHY_MAX])
{
	struct fab_rdma *r = calloc(1, sizeof(*r));
	int err = 0;

	ASSERT(!cfg->server || cfg->device);
	if (!r)
		return say(why, -ENOMEM, "a connection");
	fab__rdma_link_init(r, v, cfg->server);
	list_init(&r->plan.out);
	list_init(&r->plan.reads);
	list_init(&r->plan.done);
	r->id = id;
	if (cfg->device && cfg->device->verbs == id->verbs) {
		r->device = cfg->device;
		r->device->users++;
	} else {
		err = device_own(r, why);
	}
	if (!err)
		err = parts_create(r, cfg, why);
	if (err) {
		r->id = NULL; /* the caller's still */
		if (r->qp)
			v->destroy_qp(id);
		r->qp = NULL;
		fab__rdma_free(r);
		return err;
	}
	*out = r;
	return 0;
}

void fab__rdma_halt(struct fab_rdma *r)
{
	if (!r->qp)
		return;
	ASSERT(r->id);
	if (r->established && !r->unreachable && fab__rdma_may_speak(r->v, r->id))
		(void)r->v->disconnect(r->id);
	r->v->destroy_qp(r->id);
	r->qp = NULL;
}

void fab__rdma_forget(struct fab_rdma *r)
{
	ASSERT(!r->device || r->device->users > 0);
	if (r->capsules)
		munmap(r->capsules, r->capsules_bytes);
	free(r->ring);
	free(r->received_bytes);
	if (r->device)
		fab__rdma_device_put(r->device, true);
	free(r);
}

static void dereg(const struct fab_verbs *v, struct ibv_mr *mr)
{
	if (mr)
		(void)v->dereg_mr(mr);
}

/* Lanes of a session have the same pool: it is registered, and counts as locked, once a device. */
static struct fab_rdma_offered *offered_find(struct fab_rdma_device *dev, const void *memory,
					     uint64_t size_bytes)
{
	struct fab_rdma_offered *free_one = NULL;

	ASSERT(memory && size_bytes > 0);
	for (uint32_t i = 0; i < FAB_POOLS_MAX; i++) {
		struct fab_rdma_offered *o = &dev->offered[i];

		if (!o->mr)
			free_one = o;
		else if (o->mr->addr == memory && o->mr->length == size_bytes)
			return o;
	}
	return free_one;
}

static struct ibv_mr *pool_reg(struct fab_rdma *r, void *memory, uint64_t size_bytes)
{
	struct fab_rdma_offered *o = offered_find(r->device, memory, size_bytes);

	ASSERT(r->device && size_bytes > 0);
	if (o && o->mr) {
		o->users++;
		return o->mr;
	}
	if (!o)
		return r->v->reg_mr(r->device->pd, memory, size_bytes, OFFERED);
	o->mr = r->v->reg_mr(r->device->pd, memory, size_bytes, OFFERED);
	o->users = 1;
	return o->mr;
}

static void pool_dereg(struct fab_rdma *r, struct ibv_mr *mr)
{
	for (uint32_t i = 0; i < FAB_POOLS_MAX && mr; i++) {
		struct fab_rdma_offered *o = &r->device->offered[i];

		if (o->mr != mr)
			continue;
		ASSERT(o->users > 0);
		if (--o->users > 0)
			return;
		o->mr = NULL;
	}
	dereg(r->v, mr);
}

void fab__rdma_free(struct fab_rdma *r)
{
	const struct fab_verbs *v = r->v;
	struct ibv_cq *cq;
	void *context;

	fab__rdma_halt(r); /* (1) */
	ASSERT(!r->qp);    /* (1) */
	dereg(v, r->capsules_mr);
	dereg(v, r->longs_mr);
	for (uint32_t i = 0; i < FAB_POOLS_MAX; i++)
		pool_dereg(r, r->pool_mrs[i]);
	if (r->cq) {
		/* One that is not acknowledged would be waited for. */
		while (v->get_cq_event(r->channel, &cq, &context) == 0)
			v->ack_cq_events(cq, 1);
		(void)v->destroy_cq(r->cq);
	}
	if (r->channel)
		(void)v->destroy_comp_channel(r->channel);
	if (r->device)
		fab__rdma_device_put(r->device, false);
	r->device = NULL;
	if (r->id)
		fab__rdma_leave(v, r->id, r->cm, r->unreachable);
	fab__rdma_forget(r);
}

/* ---- memory of a connection ---------------------------------------------------------------- */

static struct ibv_mr **mr_place(struct fab_rdma *r, uint32_t region)
{
	ASSERT(r->device);
	ASSERT(region <= FAB_POOLS_MAX);
	return region == 0 ? &r->longs_mr : &r->pool_mrs[region - 1];
}

int fab__rdma_offer(struct fab_rdma *r, uint32_t region, void *memory, uint64_t size_bytes,
		    struct fab_remote *out)
{
	struct ibv_mr **mr = mr_place(r, region);

	ASSERT(memory && size_bytes > 0);
	ASSERT(!r->server && !*mr);
	if (region == 0)
		*mr = r->v->reg_mr(r->device->pd, memory, size_bytes, OFFERED);
	else
		*mr = pool_reg(r, memory, size_bytes);
	if (!*mr)
		return errno_now();
	*out = (struct fab_remote){ .address = (uintptr_t)memory, .key = (*mr)->rkey };
	return 0;
}

int fab__rdma_longs(struct fab_rdma *r, void *memory, uint64_t size_bytes)
{
	ASSERT(memory && size_bytes > 0);
	ASSERT(r->server && !r->longs_mr);
	r->longs_mr = r->v->reg_mr(r->device->pd, memory, size_bytes, LOCAL_ONLY);
	return r->longs_mr ? 0 : errno_now();
}
