/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The appliance's end of pools: memory of a client that has its windows.
 *
 *   shm   the appliance's memory, made by the control side
 *   rdma  the client's: address and key; region 0 has its long bodies
 *   tcp   the client's: a size only
 */
#include "fabric/hello/fab_server_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/*
 * Over shm the control side makes pools ready and the core uses them:
 *   R1 -> A1   (fab_server_internal.h) memory, size and IOVA are stored before `ready` is set.
 */
void fab__pool_publish(struct fab_pool *pool)
{
	ASSERT(pool->size_bytes > 0 && pool->size_bytes % FAB_POOL_ALIGN == 0);
	ASSERT(!fab__pool_is_ready(pool));
	atomic_store_explicit(&pool->ready, true, memory_order_release); /* R1 */
}

/* Parses a POOL_ADD; over tcp it has no address. */
static int offer_parse(const struct fab__session *s, const struct fab_hdr *hdr,
		       const struct fab_hdr_wire *w, struct fab_remote *remote, uint64_t *size)
{
	struct fab_offer_wire body = { 0 };
	uint32_t bytes = s->onesided ? sizeof(body) : sizeof(struct fab_pool_wire);
	uint64_t end;

	if (hdr->body_bytes != bytes || hdr->window_region > FAB_POOLS_MAX ||
	    (hdr->window_region == 0 && !s->onesided))
		return -EPROTO;
	memcpy(&body, w->small, bytes);
	*size = le64_get(body.size_bytes);
	*remote = (struct fab_remote){ le64_get(body.address), le32_get(body.key) };
	return add_overflows(remote->address,
			     align_up(min_u64(*size, UINT64_MAX / 2), FAB_POOL_ALIGN), &end)
		       ? -EPROTO
		       : 0;
}

/* Over rdma, region 0: where the client keeps its long bodies.  Once, and there is no answer. */
static int longs_offered(struct fab__session *s, const struct fab_remote *remote, uint64_t size)
{
	ASSERT(s->onesided && s->rdma);
	if (s->rdma->longs_count > 0 ||
	    size != (uint64_t)s->pub.limits.long_bodies * FAB_LONG_BODY_MAX)
		return -EPROTO;
	s->rdma->longs = *remote;
	s->rdma->longs_count = s->pub.limits.long_bodies;
	return 0;
}

/* Over tcp and rdma the memory is the client's; over tcp it has not even an address. */
int fab__pool_add(struct fab__session *s, const struct fab_hdr *hdr, const struct fab_hdr_wire *w)
{
	struct fab_pool_wire body;
	struct fab_remote remote;
	struct fab_pool *pool;
	uint64_t size;
	int status = 0, err;

	ASSERT(!s->direct && s->at == SESSION_OPEN);
	ASSERT(s->pools_bytes <= s->pub.limits.pool_max_bytes);
	err = offer_parse(s, hdr, w, &remote, &size);
	if (err)
		return err;
	if (hdr->window_region == 0)
		return longs_offered(s, &remote, size);
	pool = &s->pools[hdr->window_region - 1];
	if (fab__pool_is_ready(pool) || pool->tx_busy || size == 0)
		return -EPROTO;
	if (size > s->pub.limits.pool_max_bytes - s->pools_bytes ||
	    align_up(size, FAB_POOL_ALIGN) > s->pub.limits.pool_max_bytes - s->pools_bytes)
		status = -ENOSPC;
	size = status ? 0 : align_up(size, FAB_POOL_ALIGN);
	pool->size_bytes = size;
	pool->remote = remote;
	s->pools_bytes += size;
	ASSERT(s->pools_bytes <= s->pub.limits.pool_max_bytes);
	if (status == 0)
		fab__pool_publish(pool);

	fab__hdr_build(&pool->tx.hdr, FAB_POOL_ADDED, hdr->request_id);
	pool->tx.hdr.window_region = le16_of(hdr->window_region);
	pool->tx.hdr.deadline = le32_of((uint32_t)status);
	pool->tx.kind = FAB_TX_CONTROL;
	body.size_bytes = le64_of(size);
	fab__tx_body(&pool->tx, &body, sizeof(body));
	pool->tx_busy = !fab__session_send(s, &pool->tx);
	return 0;
}
