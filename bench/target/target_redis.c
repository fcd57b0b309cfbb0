/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * redis://HOST:PORT - an object per file, in a redis server: SET, GET, GETRANGE, STRLEN, DEL.
 *
 * The commands of a group are sent together (a pipeline), and their answers come in order.  A group
 * is done before submit returns.  Keys begin with the name of this process; closing removes them.
 * A listing has no equal there: -ENOTSUP.
 */
#define _GNU_SOURCE
#include "base/num.h"
#include "bench/bench.h"
#include "bench/target/target_internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_BYTES (1u << 20)
#define AHEAD_BYTES  (4u << 20) /* of puts that are sent before answers are read */

struct session {
	FILE *in, *out;
	uint8_t *buffer;
};

struct server {
	char host[64], port[8];
};

static int redis_open(struct target *t, const char *where)
{
	struct server *server = calloc(1, sizeof(*server));

	if (!server)
		return bench_fail("out of memory");
	if (sscanf(where, "%63[^:/]:%7[0-9]", server->host, server->port) != 2) {
		free(server);
		return bench_fail("redis://%s: expected redis://HOST:PORT", where);
	}
	snprintf(t->root, sizeof(t->root), "weka-bench.%d", (int)getpid());
	t->promise = (struct target_promise){ "no (memory)", "all in memory", "no", "no" };
	t->own = server;
	return 0;
}

static int dial(const struct server *server)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list, *a;
	int fd = -1, one = 1;

	if (getaddrinfo(server->host, server->port, &hints, &list) != 0)
		return -1;
	for (a = list; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(list);
	if (fd >= 0)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void session_close(struct target_session *s)
{
	struct session *p = s->own;

	if (p->in)
		fclose(p->in);
	if (p->out)
		fclose(p->out);
	free(p->buffer);
	free(p);
}

static int session_open(struct target_session *s)
{
	const struct server *server = s->target->own;
	struct session *p = calloc(1, sizeof(*p));
	int fd = dial(server);

	if (!p || fd < 0) {
		free(p);
		return bench_fail("redis://%s:%s: %s", server->host, server->port, strerror(errno));
	}
	s->own = p;
	p->in = fdopen(fd, "rb");
	p->out = fdopen(dup(fd), "wb");
	p->buffer = malloc(BUFFER_BYTES);
	if (!p->in || !p->out || !p->buffer) {
		session_close(s);
		return bench_fail("out of memory");
	}
	target__scramble(p->buffer, BUFFER_BYTES);
	setvbuf(p->in, NULL, _IOFBF, 256 << 10);
	setvbuf(p->out, NULL, _IOFBF, 256 << 10);
	return 0;
}

/* ---- commands and answers -------------------------------------------------------------- */

static void argument(FILE *f, const char *text)
{
	fprintf(f, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void number(FILE *f, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	argument(f, text);
}

static void send_put(struct session *p, const struct target_io *io, const char *key)
{
	fprintf(p->out, "*3\r\n$3\r\nSET\r\n");
	argument(p->out, key);
	fprintf(p->out, "$%llu\r\n", (unsigned long long)io->length_bytes);
	for (uint64_t at = 0; at < io->length_bytes;) {
		uint64_t n = min_u64(io->length_bytes - at, BUFFER_BYTES);

		io->content->fill(io->content, io->file, at, p->buffer, n);
		fwrite(p->buffer, 1, n, p->out);
		at += n;
	}
	fprintf(p->out, "\r\n");
}

static void send_one(struct target_session *s, const struct target_group *g,
		     const struct target_io *io)
{
	struct session *p = s->own;
	char key[TARGET__ROOT_MAX + TARGET_PATH_MAX];

	target__path(s->target, io->path, key, sizeof(key));
	if (g->op == TARGET_PUT) {
		send_put(p, io, key);
	} else if (g->op == TARGET_READ && io->length_bytes != TARGET_TO_END) {
		fprintf(p->out, "*4\r\n$8\r\nGETRANGE\r\n");
		argument(p->out, key);
		number(p->out, io->offset_bytes);
		number(p->out, io->offset_bytes + io->length_bytes - 1);
	} else {
		const char *verb = g->op == TARGET_READ     ? "$3\r\nGET"
				   : g->op == TARGET_REMOVE ? "$3\r\nDEL"
							    : "$6\r\nSTRLEN";

		fprintf(p->out, "*2\r\n%s\r\n", verb);
		argument(p->out, key);
	}
}

/* The bytes of an answer: 0 or -errno. */
static int take_bytes(struct session *p, struct target_io *io, long long count)
{
	uint64_t left = (uint64_t)count, at = io->offset_bytes;
	char end[2];

	while (left > 0) {
		size_t n = fread(p->buffer, 1, min_u64(left, BUFFER_BYTES), p->in);

		if (n == 0)
			return -EPIPE;
		target__landed(io, at, p->buffer, n);
		at += n;
		left -= n;
	}
	return fread(end, 1, 2, p->in) == 2 ? 0 : -EPIPE;
}

static int take_answer(struct session *p, const struct target_group *g, struct target_io *io)
{
	char line[256];
	long long value;

	if (!fgets(line, sizeof(line), p->in))
		return -EPIPE;
	value = strtoll(line + 1, NULL, 10);
	switch (line[0]) {
	case '+':
		return 0;
	case ':':
		if (g->op == TARGET_STAT)
			io->got_bytes = (uint64_t)value;
		return value > 0 ? 0 : -ENOENT;
	case '$':
		return value < 0 ? -ENOENT : take_bytes(p, io, value);
	default:
		fprintf(stderr, "weka-bench: redis answered %s", line);
		return -EPROTO;
	}
}

static void submit(struct target_session *s, struct target_group *g)
{
	struct session *p = s->own;

	while (g->ended < g->count) {
		uint64_t bytes = 0;

		while (g->begun < g->count && bytes < AHEAD_BYTES && g->op != TARGET_LIST) {
			struct target_io *io = &g->io[g->begun++];

			io->status = 0;
			io->got_bytes = 0;
			send_one(s, g, io);
			bytes += g->op == TARGET_PUT ? io->length_bytes : 0;
		}
		fflush(p->out);
		while (g->ended < g->begun) {
			struct target_io *io = &g->io[g->ended];

			target__ended(s, g, io, take_answer(p, g, io));
		}
		if (g->op == TARGET_LIST)
			target__ended(s, g, &g->io[g->begun++], -ENOTSUP);
	}
}

static void wait_nothing(struct target_session *s, uint64_t timeout_ns)
{
	(void)s;
	target__sleep(timeout_ns);
}

/* Removes our keys: KEYS is slow, and the server is there to be measured. */
static void remove_keys(struct target *t)
{
	struct target_session s = { .target = t };
	char pattern[TARGET__ROOT_MAX], answer[64];
	struct session *p;

	if (session_open(&s))
		return;
	p = s.own;
	snprintf(pattern, sizeof(pattern), "%.*s/*", (int)sizeof(pattern) - 3, t->root);
	fprintf(p->out, "*4\r\n$4\r\nEVAL\r\n");
	argument(p->out, "for _,k in ipairs(redis.call('KEYS',ARGV[1])) do "
			 "redis.call('UNLINK',k) end return 1");
	number(p->out, 0);
	argument(p->out, pattern);
	fflush(p->out);
	(void)!fgets(answer, sizeof(answer), p->in);
	session_close(&s);
}

static void redis_close(struct target *t)
{
	remove_keys(t);
	free(t->own);
}

const struct target__kind target__redis = {
	.scheme = "redis://",
	.what = "a redis server: an object per file",
	.open = redis_open,
	.close = redis_close,
	.session_open = session_open,
	.session_close = session_close,
	.submit = submit,
	.wait = wait_nothing,
};
