/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Shares of several sessions, over the mean. */
#include "bench/bench_fair.h"
#include "base/num.h"

void bench__shares(const uint64_t *had, uint32_t count, struct bench__shares *out)
{
	uint64_t least = UINT64_MAX, most = 0;

	*out = (struct bench__shares){ 0 };
	for (uint32_t i = 0; i < count; i++) {
		least = min_u64(least, had[i]);
		most = max_u64(most, had[i]);
		out->all += had[i];
	}
	if (out->all == 0)
		return;
	out->mean = (double)out->all / count;
	out->least = (double)least / out->mean;
	out->most = (double)most / out->mean;
	out->worst = out->most - 1 > 1 - out->least ? out->most - 1 : 1 - out->least;
}
