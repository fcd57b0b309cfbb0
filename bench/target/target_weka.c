/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An appliance: one that is started on a fresh drive (weka:shm, weka:tcp, weka:tls), or a running
 * one by its address.  A group becomes as many requests as its windows need, usually one.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"
#include "bench/bench_env.h"
#include "bench/target/target_weka.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct appliance {
	struct bench_conf conf;
	struct bench_env *env;
	char address[96];
	uint64_t root_dir;
};

static int connect_to(struct appliance *a, uint64_t pool_bytes, struct weka_client **out)
{
	const struct weka_options o = {
		.size_bytes = sizeof(o),
		.pool_bytes = pool_bytes,
		.requests_max = APPL__SLOTS + 8,
		.batches_max = APPL__SLOTS,
		.batch_items_max = APPL__ITEMS,
	};

	return bench_env_connect(a->env, 0, &o, out);
}

static int make_root(struct target *t)
{
	static _Atomic uint32_t made;
	struct appliance *a = t->own;
	struct weka_client *client;
	struct weka_attr attr;
	int err;

	snprintf(t->root, sizeof(t->root), "/weka-bench.%d.%u", (int)getpid(),
		 atomic_fetch_add_explicit(&made, 1, memory_order_relaxed));
	if (connect_to(a, 2u << 20, &client))
		return 1;
	err = weka_mkdir(client, t->root, 0700);
	if (!err)
		err = weka_stat(client, t->root, &attr);
	if (err)
		(void)bench_fail("%s: %s", t->root, weka_error(client));
	else
		a->root_dir = attr.dir;
	weka_close(client);
	return err ? 1 : 0;
}

static void close_appliance(struct target *t)
{
	struct appliance *a = t->own;
	struct weka_client *client;

	if (a->env && a->root_dir && a->conf.connect_count > 0 && !t->options.keep &&
	    !connect_to(a, 2u << 20, &client)) {
		if (weka_rmtree(client, t->root))
			fprintf(stderr, "weka-bench: %s stays: %s\n", t->root, weka_error(client));
		weka_close(client);
	}
	(void)bench_env_close(a->env);
	free(a);
}

/* transport NULL: the address says it. */
static int open_appliance(struct target *t, const char *transport, const char *scheme,
			  const char *rest)
{
	struct appliance *a = calloc(1, sizeof(*a));

	if (!a)
		return bench_fail("out of memory");
	t->own = a;
	a->conf = (struct bench_conf){
		.drive = t->options.drive ? t->options.drive : "mem:2G",
		.transport = transport ? transport : "",
		.key_file = t->options.key_file,
		.core_client = -1,
		.core_appliance = t->options.core_server,
	};
	if (!transport) {
		snprintf(a->address, sizeof(a->address), "%s%s", scheme, rest);
		a->conf.connect[0] = a->address;
		a->conf.connect_count = 1;
	}
	if (bench_env_open(&a->env, &a->conf) || make_root(t)) {
		close_appliance(t);
		return 1;
	}
	t->server_pid = bench_env_pid(a->env);
	t->promise = (struct target_promise){
		.durable = "each change",
		.cache = "none of data",
		.checksums = "end to end",
		.encrypted = strcmp(bench_env_transport(a->env, 0), "tls") == 0 ? "TLS 1.3" : "no",
	};
	return 0;
}

static int open_own(struct target *t, const char *where)
{
	if (strcmp(where, "shm") != 0 && strcmp(where, "tcp") != 0 && strcmp(where, "tls") != 0)
		return bench_fail("weka:%s: it is weka:shm, weka:tcp or weka:tls", where);
	return open_appliance(t, where, NULL, NULL);
}

static int open_shm(struct target *t, const char *where)
{
	return open_appliance(t, NULL, "shm:", where);
}

static int open_tcp(struct target *t, const char *where)
{
	return open_appliance(t, NULL, "tcp://", where);
}

static int open_tls(struct target *t, const char *where)
{
	return open_appliance(t, NULL, "tls://", where);
}

static int open_rdma(struct target *t, const char *where)
{
	return open_appliance(t, NULL, "rdma://", where);
}

/* ---- a session ------------------------------------------------------------------------------ */

static void session_close(struct target_session *s)
{
	struct appl__session *p = s->own;

	weka_close(p->client);
	free(p);
}

static int lease_windows(struct appl__session *p)
{
	for (uint32_t i = 0; i < APPL__SLOTS; i++) {
		struct appl__slot *slot = &p->slot[i];
		int err = weka_lease(p->client, APPL__WINDOW, &slot->window.lease);

		if (err)
			return bench_fail("no buffer of %u MiB: %s", APPL__WINDOW >> 20,
					  strerror(-err));
		slot->window.size_bytes = APPL__WINDOW;
		slot->req.user = slot;
	}
	return 0;
}

static int session_open(struct target_session *s)
{
	struct appliance *a = s->target->own;
	struct appl__session *p = calloc(1, sizeof(*p));

	if (!p)
		return bench_fail("out of memory");
	s->own = p;
	p->root_dir = a->root_dir;
	p->waiting_last = &p->waiting;
	if (connect_to(a, (uint64_t)APPL__SLOTS * APPL__WINDOW + (4u << 20), &p->client) ||
	    lease_windows(p)) {
		session_close(s);
		return 1;
	}
	return 0;
}

static void take_waiting(struct target_session *s)
{
	struct appl__session *p = s->own;

	for (uint32_t i = 0; i < APPL__SLOTS && p->waiting; i++) {
		struct appl__slot *slot = &p->slot[i];
		struct target_group *g = p->waiting;
		int err;

		if (slot->busy)
			continue;
		err = appl__begin(p, slot, g);
		if (g->begun == g->count) {
			p->waiting = g->next;
			if (!p->waiting)
				p->waiting_last = &p->waiting;
		}
		if (err) { /* it was not submitted: its ios end with that */
			slot->req.status = err;
			appl__finish(s, slot);
		}
	}
}

/* Large files and listings have no form in flight: the caller waits for them. */
static bool is_waited_for(const struct target_group *g)
{
	if (g->op != TARGET_PUT)
		return g->op == TARGET_LIST;
	for (uint32_t i = 0; i < g->count; i++)
		if (g->io[i].length_bytes > APPL__PIECE)
			return true;
	return false;
}

static void poll_client(struct target_session *s);
static void wait_client(struct target_session *s, uint64_t timeout_ns);

static void wait_for(struct target_session *s, struct target_group *g)
{
	struct appl__session *p = s->own;

	while (p->busy > 0 || p->waiting) {
		wait_client(s, NS_PER_S);
		poll_client(s);
	}
	for (uint32_t i = 0; i < g->count; i++)
		target__ended(s, g, &g->io[i],
			      g->op == TARGET_LIST ? appl__list(p, &g->io[i])
						   : appl__put_large(p, &g->io[i]));
}

static void submit(struct target_session *s, struct target_group *g)
{
	struct appl__session *p = s->own;

	for (uint32_t i = 0; i < g->count; i++) {
		g->io[i].status = 0;
		g->io[i].got_bytes = 0;
		g->io[i].next_bytes = 0;
		g->io[i].parts = 0;
	}
	if (is_waited_for(g)) {
		wait_for(s, g);
		return;
	}
	g->next = NULL;
	*p->waiting_last = g;
	p->waiting_last = &g->next;
	take_waiting(s);
}

static void poll_client(struct target_session *s)
{
	struct appl__session *p = s->own;
	struct weka_req *done[APPL__SLOTS];
	int n = weka_reap(p->client, done, APPL__SLOTS);

	for (int i = 0; i < n; i++)
		appl__finish(s, done[i]->user);
	take_waiting(s);
	if (n >= 0)
		return;
	for (uint32_t i = 0; i < APPL__SLOTS; i++) /* the client is broken */
		if (p->slot[i].busy) {
			p->slot[i].req.status = n;
			appl__finish(s, &p->slot[i]);
		}
}

static void wait_client(struct target_session *s, uint64_t timeout_ns)
{
	struct appl__session *p = s->own;

	if (p->busy == 0)
		target__sleep(timeout_ns);
	else
		(void)!weka_wait(p->client, timeout_ns);
}

static int make_dir(struct target_session *s, const char *path)
{
	struct appl__session *p = s->own;
	char full[TARGET__ROOT_MAX + TARGET_PATH_MAX];

	target__path(s->target, path, full, sizeof(full));
	return weka_mkdir(p->client, full, 0700);
}

#define APPLIANCE(NAME, SCHEME, WHAT, OPEN)                                                        \
	const struct target__kind NAME = {                                                         \
		.scheme = SCHEME,                                                                  \
		.what = WHAT,                                                                      \
		.open = OPEN,                                                                      \
		.close = close_appliance,                                                          \
		.session_open = session_open,                                                      \
		.session_close = session_close,                                                    \
		.submit = submit,                                                                  \
		.poll = poll_client,                                                               \
		.wait = wait_client,                                                               \
		.mkdir = make_dir,                                                                 \
	}

APPLIANCE(target__weka, "weka:", "an appliance that is started: weka:shm, weka:tcp, weka:tls",
	  open_own);
APPLIANCE(target__shm, "shm:", "a running appliance, shared memory", open_shm);
APPLIANCE(target__tcp, "tcp://", "a running appliance, TCP", open_tcp);
APPLIANCE(target__tls, "tls://", "a running appliance, TCP within TLS 1.3", open_tls);
APPLIANCE(target__rdma, "rdma://", "a running appliance, RDMA", open_rdma);
