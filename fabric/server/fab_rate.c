/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Rate limits of a key, for all its sessions and cores together.
 *
 *   now       now + BURST_NS
 *   |---------|----------------------> paid_ns: the time up to which past use is paid for
 *    begins    waits, for the excess
 *
 * An operation costs its share of a second before it begins, a batch the share of each item, and
 * bytes when they have been moved: so a large request begins, and the next one waits.  One word for
 * each rate, advanced by compare and exchange: the loop ends unless another core makes progress.
 */
#include "fabric/hello/fab_server_internal.h"

#include <stdatomic.h>

#define BURST_NS  UINT64_C(100000000) /* unused time that may be used at once */
#define SECOND_NS UINT64_C(1000000000)

static uint64_t wait_of(uint64_t paid_ns, uint64_t now_ns)
{
	uint64_t ahead_ns = paid_ns > now_ns ? paid_ns - now_ns : 0;

	return ahead_ns > BURST_NS ? ahead_ns - BURST_NS : 0;
}

static void pay(_Atomic uint64_t *paid, uint64_t now_ns, uint64_t cost_ns)
{
	uint64_t old = atomic_load_explicit(paid, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(paid, &old, max_u64(old, now_ns) + cost_ns,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

uint64_t fab__rate_take(struct fab__rate *rate, const struct fab_rights *rights, uint32_t count,
			uint64_t now_ns)
{
	uint64_t ops = atomic_load_explicit(&rate->ops_ns, memory_order_relaxed);
	uint64_t bytes = atomic_load_explicit(&rate->bytes_ns, memory_order_relaxed);
	uint64_t wait_ns = max_u64(wait_of(ops, now_ns), wait_of(bytes, now_ns));

	ASSERT(count > 0);
	/* Two that check at once may both be sent: one too many, at the cost of the next. */
	if (wait_ns == 0 && rights->ops_per_s)
		pay(&rate->ops_ns, now_ns, count * max_u64(SECOND_NS / rights->ops_per_s, 1));
	return wait_ns;
}

void fab__rate_spend(struct fab__rate *rate, const struct fab_rights *rights, uint64_t bytes,
		     uint64_t now_ns)
{
	if (rights->bytes_per_s && bytes)
		pay(&rate->bytes_ns, now_ns,
		    (uint64_t)((double)bytes * (double)SECOND_NS / (double)rights->bytes_per_s));
}

uint64_t fab_session_rate_take(const struct fab_session *session, uint32_t count, uint64_t now_ns)
{
	ASSERT(session->rate);
	DASSERT(session->rights);
	return fab__rate_take(session->rate, session->rights, count, now_ns);
}

void fab_session_rate_spend(const struct fab_session *session, uint64_t bytes, uint64_t now_ns)
{
	ASSERT(session->rate);
	fab__rate_spend(session->rate, session->rights, bytes, now_ns);
}
