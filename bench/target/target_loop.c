/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The loop that measures every target: `depth` groups in flight, each made and submitted again as
 * soon as it was reaped.  test/unit/test_bench_loop.c counts its instructions.
 *
 * Invariant:
 *
 *  (1) Between two turns of the loop, in_flight groups are the session's. [test_bench_loop]
 */
#include "base/clock.h"
#include "base/num.h"
#include "base/stat.h"
#include "bench/bench.h"
#include "bench/target/target.h"

#include <string.h>

#define WAIT_NS (NS_PER_S / 10) /* then it looks whether somebody interrupted */

/* The buffers of a session hold bytes that nothing makes smaller; each file gets its stamp. */
static void fill_plain(const struct target_content *content, uint64_t file, uint64_t offset,
		       uint8_t *out, uint64_t count)
{
	const uint64_t stamp = target_stamp(file);

	(void)content;
	if (offset == 0)
		memcpy(out, &stamp, min_u64(count, sizeof(stamp)));
}

const struct target_content target_plain = { .fill = fill_plain };

/* Adds what a group brought; 1 after a line on stderr. */
static int count(const struct target_group *g, struct target_figures *out)
{
	for (uint32_t i = 0; i < g->count; i++) {
		const struct target_io *io = &g->io[i];

		if (io->status)
			return bench_fail("%s: %s", io->path, strerror(-io->status));
		out->bytes += g->op == TARGET_PUT ? io->length_bytes : io->got_bytes;
	}
	out->ops += g->count;
	return 0;
}

static bool begin(struct target_loop *l, struct target_group *g, uint64_t now_ns)
{
	if (!l->next(l->ctx, g))
		return false;
	g->began_ns = now_ns;
	target_submit(l->session, g);
	return true;
}

int target_loop_run(struct target_loop *l, double seconds, struct target_figures *out)
{
	uint64_t start = clock_now_ns(), now = start, until = start + (uint64_t)(seconds * 1e9);
	uint32_t in_flight = 0;
	bool more = true;
	int err = 0;

	for (uint32_t i = 0; i < l->depth && more; i++) {
		more = begin(l, &l->groups[i], now);
		in_flight += more;
	}
	while (in_flight > 0) {
		struct target_group *g = target_reap(l->session);

		if (!g) {
			target_wait(l->session, WAIT_NS);
			more = more && !bench_interrupted();
			continue;
		}
		in_flight--; /* (1) */
		now = clock_now_ns();
		if (out->hist)
			stat_hist_record(out->hist, now - g->began_ns);
		err = err ? err : count(g, out);
		more = more && !err && now < until && begin(l, g, now);
		in_flight += more;
	}
	out->ns += now - start;
	return err;
}
