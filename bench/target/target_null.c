/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A target that does nothing: what is measured over it is the loop. */
#include "bench/target/target_internal.h"

static int null_open(struct target *t, const char *where)
{
	(void)where;
	t->promise = (struct target_promise){ "no", "none", "no", "no" };
	return 0;
}

static void null_close(struct target *t)
{
	(void)t;
}

static int null_session_open(struct target_session *s)
{
	(void)s;
	return 0;
}

static void null_session_close(struct target_session *s)
{
	(void)s;
}

static void null_submit(struct target_session *s, struct target_group *g)
{
	for (uint32_t i = 0; i < g->count; i++) {
		g->io[i].status = 0;
		g->io[i].got_bytes =
			g->io[i].length_bytes == TARGET_TO_END ? 0 : g->io[i].length_bytes;
	}
	g->ended = g->count;
	target__group_ended(s, g);
}

static void null_wait(struct target_session *s, uint64_t timeout_ns)
{
	(void)s;
	target__sleep(timeout_ns);
}

const struct target__kind target__null = {
	.scheme = "null:",
	.what = "nothing: the cost of the loop",
	.open = null_open,
	.close = null_close,
	.session_open = null_session_open,
	.session_close = null_session_close,
	.submit = null_submit,
	.wait = null_wait,
};
