/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* nfs://HOST/EXPORT - an NFS server, its directories, and a connection to it. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"
#include "bench/target/target_nfs.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct server {
	const struct nfs__calls *call;
	char url[192];
	uint32_t dir_count; /* that we made, below the root; the root is the first */
	char dir[NFS__DIRS][TARGET__ROOT_MAX + TARGET_PATH_MAX];
};

/* ---- the server ---------------------------------------------------------------------------- */

static struct nfs_context *mount_it(const struct server *server)
{
	const struct nfs__calls *call = server->call;
	struct nfs_context *nfs = call->init_context();
	struct nfs_url *url = nfs ? call->parse_url_dir(nfs, server->url) : NULL;
	int err = -EINVAL;

	if (nfs)
		call->set_dircache(nfs, 0); /* a listing is to be one of the server's */
	if (url)
		err = call->mount(nfs, url->server, url->path);

	if (err)
		(void)bench_fail("%s: %s", server->url, nfs ? call->get_error(nfs) : "no memory");
	if (url)
		call->destroy_url(url);
	if (err && nfs)
		call->destroy_context(nfs);
	return err ? NULL : nfs;
}

/* Removes the files of a directory, and it. */
static void remove_dir(const struct nfs__calls *call, struct nfs_context *nfs, const char *path)
{
	char below[TARGET__ROOT_MAX + 2 * TARGET_PATH_MAX];
	const struct nfsdirent *e;
	struct nfsdir *dir;

	if (call->opendir(nfs, path, &dir) != 0)
		return;
	while ((e = call->readdir(nfs, dir))) {
		snprintf(below, sizeof(below), "%s/%s", path, e->name);
		(void)call->unlink(nfs, below); /* not of "." and ".." */
	}
	call->closedir(nfs, dir);
	(void)call->rmdir(nfs, path);
}

static void nfs_close_target(struct target *t)
{
	struct server *server = t->own;
	struct nfs_context *nfs = mount_it(server);

	for (uint32_t i = server->dir_count; nfs && i-- > 0;)
		remove_dir(server->call, nfs, server->dir[i]);
	if (nfs)
		server->call->destroy_context(nfs);
	free(server);
}

static int make_dir(struct server *server, struct nfs_context *nfs, const char *path)
{
	int err = server->call->mkdir(nfs, path);

	if (err)
		return err;
	if (server->dir_count == NFS__DIRS)
		return -ENOSPC;
	snprintf(server->dir[server->dir_count++], sizeof(server->dir[0]), "%s", path);
	return 0;
}

static int nfs_open_target(struct target *t, const char *where)
{
	static _Atomic uint32_t made;
	struct server *server = calloc(1, sizeof(*server));
	struct nfs_context *nfs;
	int err;

	if (!server)
		return bench_fail("out of memory");
	server->call = nfs__load();
	snprintf(server->url, sizeof(server->url), "nfs://%s", where);
	nfs = server->call ? mount_it(server) : NULL;
	if (!nfs) {
		free(server);
		return 1;
	}
	snprintf(t->root, sizeof(t->root), "/weka-bench.%d.%u", (int)getpid(),
		 atomic_fetch_add_explicit(&made, 1, memory_order_relaxed));
	err = make_dir(server, nfs, t->root);
	if (err)
		(void)bench_fail("%s%s: %s", server->url, t->root, server->call->get_error(nfs));
	server->call->destroy_context(nfs);
	if (err) {
		free(server);
		return 1;
	}
	t->promise = (struct target_promise){ "by COMMIT", "the server's page cache", "no", "no" };
	t->own = server;
	return 0;
}

/* ---- a session ------------------------------------------------------------------------------ */

static void session_close(struct target_session *s)
{
	struct nfs__session *p = s->own;

	ASSERT(p->busy == 0);
	for (uint32_t i = 0; i < NFS__KEPT; i++)
		if (p->kept[i].file)
			(void)p->call->close(p->nfs, p->kept[i].file);
	p->call->destroy_context(p->nfs);
	munmap(p->memory, (uint64_t)p->slot_count * NFS__PIECE);
	free(p);
}

static int session_open(struct target_session *s)
{
	const struct server *server = s->target->own;
	struct nfs__session *p = calloc(1, sizeof(*p));

	if (!p)
		return bench_fail("out of memory");
	p->call = server->call;
	p->waiting_last = &p->waiting;
	p->slot_count = min_u32(s->target->options.depth, NFS__SLOTS);
	p->memory = target__pages((uint64_t)p->slot_count * NFS__PIECE);
	p->nfs = p->memory ? mount_it(server) : NULL;
	if (!p->nfs) {
		if (p->memory)
			munmap(p->memory, (uint64_t)p->slot_count * NFS__PIECE);
		free(p);
		return 1;
	}
	for (uint32_t i = 0; i < p->slot_count; i++) {
		p->slot[i].session = s;
		p->slot[i].buffer = p->memory + (uint64_t)i * NFS__PIECE;
	}
	s->own = p;
	return 0;
}

static void submit(struct target_session *s, struct target_group *g)
{
	struct nfs__session *p = s->own;

	g->next = NULL;
	*p->waiting_last = g;
	p->waiting_last = &g->next;
	nfs__fill_slots(s);
}

/* Sends and receives; the library calls back for calls that have ended. */
static void serve(struct nfs__session *p, int timeout_ms)
{
	struct pollfd fd = { .fd = p->call->get_fd(p->nfs),
			     .events = (short)p->call->which_events(p->nfs) };

	if (p->busy == 0 || poll(&fd, 1, timeout_ms) < 0)
		return;
	if (fd.revents && p->call->service(p->nfs, fd.revents) < 0)
		(void)bench_fail("nfs: %s", p->call->get_error(p->nfs));
}

static void poll_server(struct target_session *s)
{
	serve(s->own, 0);
	nfs__fill_slots(s);
}

static void wait_server(struct target_session *s, uint64_t timeout_ns)
{
	struct nfs__session *p = s->own;

	if (p->busy == 0)
		target__sleep(timeout_ns);
	serve(p, (int)min_u64(div_up(timeout_ns, NS_PER_MS), 1000));
	nfs__fill_slots(s);
}

static int session_mkdir(struct target_session *s, const char *path)
{
	struct nfs__session *p = s->own;
	char full[TARGET__ROOT_MAX + TARGET_PATH_MAX];

	target__path(s->target, path, full, sizeof(full));
	return make_dir(s->target->own, p->nfs, full);
}

const struct target__kind target__nfs = {
	.scheme = "nfs://",
	.what = "an NFS server (version 3), by libnfs: nfs://HOST/EXPORT",
	.open = nfs_open_target,
	.close = nfs_close_target,
	.session_open = session_open,
	.session_close = session_close,
	.submit = submit,
	.poll = poll_server,
	.wait = wait_server,
	.mkdir = session_mkdir,
};
