/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The server's thread: accept, poll, answer; see script_ops.c for the answers. */
#include "test/lib/script_internal.h"

#include "base/clock.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

void script_init(struct script *s)
{
	memset(s, 0, sizeof(*s));
	s->port_fd = -1;
	memcpy(s->cfg.key.id, "weka", 5);
	memset(s->cfg.key.secret, 7, sizeof(s->cfg.key.secret));
}

void script_destroy(struct script *s)
{
	uint32_t i;

	if (s->server)
		script_stop(s);
	if (s->port_fd >= 0)
		close(s->port_fd);
	s->port_fd = -1;
	for (i = 0; i < SCRIPT_FILES_MAX; i++) {
		free(s->files[i].name);
		free(s->files[i].bytes);
	}
	memset(s->files, 0, sizeof(s->files));
}

unsigned char script_byte(const char *name, uint64_t at)
{
	return (unsigned char)(at * 7 + at / 251 + (unsigned char)name[strlen(name) - 1] * 31u);
}

struct script_file *script__make(struct script *s, const char *name, uint32_t name_bytes)
{
	uint32_t i;

	for (i = 0; i < SCRIPT_FILES_MAX; i++) {
		struct script_file *f = &s->files[i];

		if (f->name)
			continue;
		memset(f, 0, sizeof(*f));
		f->name = strndup(name, name_bytes);
		f->bytes = calloc(1, 1);
		f->mode = S_IFREG | 0644;
		return f;
	}
	UNREACHABLE();
}

void script_add(struct script *s, const char *name, uint64_t size_bytes)
{
	struct script_file *f = script__make(s, name, (uint32_t)strlen(name));
	uint64_t i;

	free(f->bytes);
	f->bytes = malloc(size_bytes + 1);
	f->size_bytes = size_bytes;
	for (i = 0; i < size_bytes; i++)
		f->bytes[i] = (char)script_byte(name, i);
}

const struct script_file *script_find(const struct script *s, const char *name)
{
	return script__find((struct script *)(uintptr_t)s, name, (uint32_t)strlen(name));
}

struct script_file *script__find(struct script *s, const char *name, uint32_t name_bytes)
{
	uint32_t i;

	while (name_bytes > 0 && *name == '/')
		name++, name_bytes--;
	for (i = 0; i < SCRIPT_FILES_MAX; i++) {
		struct script_file *f = &s->files[i];

		if (f->name && !f->hidden && strlen(f->name) == name_bytes &&
		    memcmp(f->name, name, name_bytes) == 0)
			return f;
	}
	return NULL;
}

/* ---- the thread ------------------------------------------------------------------------ */

static void hold(struct script *s, struct fab_req *req)
{
	uint32_t i;

	for (i = 0; i < ARRAY_LEN(s->held_req); i++) {
		if (!s->held_req[i]) {
			s->held_req[i] = req;
			atomic_fetch_add(&s->held, 1);
			return;
		}
	}
	UNREACHABLE();
}

static bool unhold(struct script *s, uint32_t i, const struct fab_req *req)
{
	if (!s->held_req[i] || (req && s->held_req[i] != req))
		return false;
	s->held_req[i] = NULL;
	atomic_fetch_sub(&s->held, 1);
	return true;
}

/* Answers held requests whose types are not silent any more. */
static void answer_held(struct script *s)
{
	uint32_t i;

	for (i = 0; i < ARRAY_LEN(s->held_req); i++) {
		struct fab_req *req = s->held_req[i];

		if (!req || (atomic_load(&s->silent) >> req->type & 1))
			continue;
		if (unhold(s, i, req))
			script__request(s, req);
	}
}

static void cancel(struct script *s, struct fab_req *req, int status)
{
	uint32_t i;

	atomic_fetch_add(&s->cancels, 1);
	if (atomic_load(&s->deaf_to_cancels) && status != -ECONNRESET)
		return;
	for (i = 0; i < ARRAY_LEN(s->held_req); i++) {
		if (s->held_req[i] == req && unhold(s, i, req)) {
			fab_reply(req, status, NULL, 0);
			return;
		}
	}
}

static void note_change(struct script *s, const struct fab_req *req)
{
	struct fab_change change;

	if (!fab_req_change(req, &change))
		return;
	atomic_store(&s->change_again, change.again);
	atomic_store(&s->change_sure, change.sure);
	atomic_store(&s->change, change.number);
}

static void event(struct script *s, const struct fab_event *e)
{
	switch (e->type) {
	case FAB_EVENT_SESSION_NEW:
		atomic_fetch_add(&s->sessions, 1);
		break;
	case FAB_EVENT_REQUEST:
		atomic_fetch_add(&s->seen[e->req->type], 1);
		note_change(s, e->req);
		if (atomic_load(&s->cannot_tell) >> e->req->type & 1) {
			fab_reply(e->req, -ECONNRESET, NULL, 0);
		} else if (atomic_load(&s->put_off) > 0) {
			atomic_fetch_sub(&s->put_off, 1);
			fab_reply_busy(e->req, atomic_load(&s->put_off_ms));
		} else if (atomic_load(&s->silent) >> e->req->type & 1)
			hold(s, e->req);
		else
			script__request(s, e->req);
		break;
	case FAB_EVENT_CANCEL:
		cancel(s, e->req, e->status);
		break;
	case FAB_EVENT_PULLED:
		script__pulled(s, e->piece);
		break;
	case FAB_EVENT_SENT:
		script__sent(e->piece);
		break;
	case FAB_EVENT_SESSION_CLOSED:
		atomic_fetch_sub(&s->sessions, 1);
		break;
	}
}

static void listen_too(struct script *s)
{
	const char *address = atomic_load(&s->listen_too);
	char why[256] = "";

	if (!address)
		return;
	if (fab_server_listen(s->server, address, why))
		fprintf(stderr, "script: %s: %s\n", address, why);
	atomic_store(&s->listen_too, NULL);
}

static uint32_t core_turn(struct script *s, struct fab_server *core, uint64_t now_ns)
{
	struct fab_event events[32];
	uint32_t count = fab_server_poll(core, now_ns, events, 32), i;

	for (i = 0; i < count; i++)
		event(s, &events[i]);
	return count;
}

static bool turn(struct script *s, uint64_t now_ns)
{
	struct fab_control_event control[8];
	uint32_t count, i, all;

	all = count = fab_server_control_step(s->server, now_ns, control, 8);
	for (i = 0; i < count; i++) {
		if (control[i].type == FAB_CONTROL_POOL_ADDED)
			fab_pool_ready(control[i].pool, 0, 1ull << 30);
		else if (control[i].type == FAB_CONTROL_POOL_GONE)
			fab_pool_release(control[i].pool);
	}
	for (i = 0; i < SCRIPT_CORES_MAX && s->core[i]; i++)
		all += core_turn(s, s->core[i], now_ns);
	answer_held(s);
	for (i = 0; i < SCRIPT_CORES_MAX && s->core[i]; i++)
		fab_server_flush(s->core[i]);
	listen_too(s);
	return all > 0;
}

static void *serve(void *arg)
{
	struct script *s = arg;
	uint32_t quiet = 0;

	while (!atomic_load(&s->quit)) {
		if (turn(s, clock_now_ns()))
			quiet = 0;
		else if (++quiet > 100)
			usleep(100);
	}
	for (quiet = 0; quiet < SCRIPT_CORES_MAX && s->core[quiet]; quiet++)
		fab_server_stop(s->core[quiet]);
	for (quiet = 0; quiet < 100; quiet++) {
		if (turn(s, clock_now_ns()) || atomic_load(&s->sessions) > 0)
			quiet = 0;
		usleep(100);
	}
	return NULL;
}

static void start(struct script *s)
{
	const uint64_t forgotten = atomic_load_explicit(&s->forgotten, memory_order_relaxed);
	char why[256] = "";
	int err = fab_server_create(&s->server, &s->cfg);

	ASSERT(err == 0 && s->cfg.core_count <= SCRIPT_CORES_MAX);
	s->core[0] = s->server;
	for (uint32_t i = 1; i < s->cfg.core_count; i++)
		ASSERT(fab_server_add(s->server, &s->core[i]) == 0);
	fab_server_marks(s->server, forgotten, forgotten);
	err = fab_server_listen(s->server, s->address, why);
	if (err)
		fprintf(stderr, "script: %s: %s\n", s->address, why);
	ASSERT(err == 0);
	snprintf(s->address, sizeof(s->address), "%s", fab_server_address(s->server, 0));
	atomic_store(&s->quit, false);
	err = pthread_create(&s->thread, NULL, serve, s);
	ASSERT(err == 0);
}

/* Nobody else gets it while the server is away; who connects then is refused. */
static void take_port(struct script *s)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(in);
	const int one = 1;
	int err;

	if (s->port_fd >= 0)
		close(s->port_fd);
	s->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	err = setsockopt(s->port_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	ASSERT(err == 0);
	err = bind(s->port_fd, (const struct sockaddr *)&in, sizeof(in));
	ASSERT(err == 0);
	err = getsockname(s->port_fd, (struct sockaddr *)&in, &bytes);
	ASSERT(err == 0);
	snprintf(s->address, sizeof(s->address), "tcp://127.0.0.1:%u", ntohs(in.sin_port));
}

void script_start(struct script *s, const char *address)
{
	if (strcmp(address, "shm") == 0)
		snprintf(s->address, sizeof(s->address), "shm:/tmp/weka-script-%d-%u", getpid(),
			 s->generation++);
	else if (strcmp(address, "tcp") == 0)
		take_port(s);
	else
		snprintf(s->address, sizeof(s->address), "%s", address);
	start(s);
}

void script_restart(struct script *s)
{
	start(s);
}

void script_stop(struct script *s)
{
	atomic_store(&s->quit, true);
	ASSERT(pthread_join(s->thread, NULL) == 0);
	for (uint32_t i = SCRIPT_CORES_MAX; i-- > 0;)
		if (s->core[i])
			fab_server_destroy(s->core[i]);
	memset(s->core, 0, sizeof(s->core));
	s->server = NULL;
}
