/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The crank, and data, of whatever store a test runs on. */
#include "test/lib/meta_world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 100000u

int meta_world_run(struct meta_world *w, struct meta_op *op)
{
	uint32_t steps = 0;

	if (meta_op_start(w->m, op)) {
		if (meta_is_durable(w->m, op->seen_seq))
			return op->status;
		meta_op_wait_durable(w->m, op);
	}
	for (;;) {
		struct meta_op *done = meta_op_poll(w->m);

		if (!done) {
			if (steps++ == STEPS_MAX) {
				fprintf(stderr, "op %d hangs: state %u, %u misses, %u reruns\n",
					(int)op->type, op->state, op->misses, op->reruns);
				abort();
			}
			w->step(w);
			continue;
		}
		ASSERT(done == op);
		if (meta_is_durable(w->m, op->seen_seq) || op->status == -EROFS)
			return op->status;
		meta_op_wait_durable(w->m, op);
	}
}

void meta_world_settle(struct meta_world *w)
{
	struct meta_statfs st = { .orphans = 1 };

	for (uint32_t steps = 0; st.orphans || meta_totals_pending(w->m); steps++) {
		struct meta_op op = { .type = META_OP_STATFS, .statfs = &st };

		ASSERT(steps < STEPS_MAX);
		meta_totals_round(w->m);
		w->step(w);
		ASSERT(meta_op_poll(w->m) == NULL);
		ASSERT(meta_world_run(w, &op) == 0);
	}
}

int meta_world_data(struct meta_world *w, const void *bytes, uint64_t size_bytes,
		    struct meta_run *runs, uint32_t *nruns, uint32_t *crcs)
{
	const uint32_t nblocks = (uint32_t)div_up(size_bytes, BLOCK_SIZE);
	const uint8_t *from = bytes;
	uint32_t at = 0;
	int err;

	*nruns = 0;
	if (nblocks == 0)
		return 0;
	for (uint32_t steps = 0;; steps++) {
		err = meta_data_alloc(w->m, rand_u64(&w->rand), nblocks, runs, 64, nruns);
		if (err != -EAGAIN)
			break;
		ASSERT(steps < STEPS_MAX);
		w->step(w);
		ASSERT(meta_op_poll(w->m) == NULL); /* collection goes on by it, too */
	}
	for (uint32_t i = 0; !err && i < *nruns; i++) {
		uint8_t *to = w->drive[META_BADDR_DRIVE(runs[i].baddr)] +
			      META_BADDR_BLOCK(runs[i].baddr) * BLOCK_SIZE;

		for (uint32_t k = 0; k < runs[i].nblocks; k++, at++, to += BLOCK_SIZE) {
			const uint64_t left = size_bytes - (uint64_t)at * BLOCK_SIZE;
			const uint32_t n = (uint32_t)min_u64(left, BLOCK_SIZE);

			memset(to, 0, BLOCK_SIZE);
			memcpy(to, from + (size_t)at * BLOCK_SIZE, n);
			crcs[at] = crc32c(to, BLOCK_SIZE);
		}
	}
	return err;
}

int meta_world_fetch(struct meta_world *w, const struct meta_op *op, void *bytes)
{
	uint8_t *to = bytes;
	uint32_t at = 0;

	for (uint32_t i = 0; i < op->nruns; i++) {
		const struct meta_run *r = &op->runs[i];

		for (uint32_t k = 0; k < r->nblocks; k++, at++, to += BLOCK_SIZE) {
			if (r->baddr)
				memcpy(to,
				       w->drive[META_BADDR_DRIVE(r->baddr)] +
					       (META_BADDR_BLOCK(r->baddr) + k) * BLOCK_SIZE,
				       BLOCK_SIZE);
			else
				memset(to, 0, BLOCK_SIZE);
			if (op->inline_len && at == op->inline_at)
				memcpy(to, op->inline_buf, op->inline_len);
			if (crc32c(to, BLOCK_SIZE) != op->crcs[at])
				return -EBADMSG;
		}
	}
	return at == op->nblocks ? 0 : -EBADMSG;
}
