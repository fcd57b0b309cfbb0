/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Targets by their names, and what all kinds share. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/target/target_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const struct target__kind *const kinds[] = {
	&target__null,  &target__posix, &target__cold, &target__direct,
	&target__uring, &target__weka,  &target__shm,  &target__tcp,
	&target__tls,   &target__rdma,  &target__nfs,  &target__redis,
};

static const struct target__kind *kind_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strncmp(name, kinds[i]->scheme, strlen(kinds[i]->scheme)) == 0)
			return kinds[i];
	return NULL;
}

static void say_kinds(void)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		fprintf(stderr, "  %-9s %s\n", kinds[i]->scheme, kinds[i]->what);
}

int target_open(struct target **out, const char *name, const struct target_options *options)
{
	const struct target__kind *kind = kind_of(name);
	struct target *t;

	*out = NULL;
	if (!kind) {
		(void)bench_fail("'%s' is no target; a target's name begins with one of", name);
		say_kinds();
		return 1;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return bench_fail("out of memory");
	t->kind = kind;
	t->options = *options;
	t->options.depth = options->depth ? options->depth : 256;
	snprintf(t->name, sizeof(t->name), "%s", name);
	if (kind->open(t, name + strlen(kind->scheme))) {
		free(t);
		return 1;
	}
	*out = t;
	return 0;
}

void target_close(struct target *t)
{
	if (!t)
		return;
	t->kind->close(t);
	free(t);
}

const char *target_name(const struct target *t)
{
	return t->name;
}

const struct target_promise *target_promise(const struct target *t)
{
	return &t->promise;
}

bool target_is_local(const struct target *t)
{
	return t->kind->mkdir == target__dir_mkdir;
}

bool target_is_cold(const struct target *t)
{
	return t->is_cold;
}

int target_server_pid(const struct target *t)
{
	return t->server_pid;
}

int target_session_open(struct target *t, struct target_session **out)
{
	struct target_session *s = calloc(1, sizeof(*s));

	*out = NULL;
	if (!s)
		return bench_fail("out of memory");
	s->target = t;
	s->done_last = &s->done_first;
	if (t->kind->session_open(s)) {
		free(s);
		return 1;
	}
	*out = s;
	return 0;
}

void target_session_close(struct target_session *s)
{
	if (!s)
		return;
	s->target->kind->session_close(s);
	free(s);
}

void target_submit(struct target_session *s, struct target_group *g)
{
	ASSERT(g->count <= TARGET_GROUP_MAX);
	g->begun = 0;
	g->ended = 0;
	g->next = NULL;
	if (g->count == 0)
		target__group_ended(s, g);
	else
		s->target->kind->submit(s, g);
}

struct target_group *target_reap(struct target_session *s)
{
	struct target_group *g;

	if (!s->done_first && s->target->kind->poll)
		s->target->kind->poll(s);
	g = s->done_first;
	if (!g)
		return NULL;
	s->done_first = g->next;
	if (!s->done_first)
		s->done_last = &s->done_first;
	g->next = NULL;
	return g;
}

void target_wait(struct target_session *s, uint64_t timeout_ns)
{
	if (!s->done_first)
		s->target->kind->wait(s, timeout_ns);
}

int target_do(struct target_session *s, struct target_group *g)
{
	struct target_group *done;

	target_submit(s, g);
	while (!(done = target_reap(s)))
		target_wait(s, NS_PER_S);
	ASSERT(done == g);
	for (uint32_t i = 0; i < g->count; i++)
		if (g->io[i].status)
			return g->io[i].status;
	return 0;
}

int target_mkdir(struct target_session *s, const char *path)
{
	int err = s->target->kind->mkdir ? s->target->kind->mkdir(s, path) : 0;

	return err == -EEXIST ? 0 : err;
}

int target_drop_caches(struct target *t)
{
	return t->kind->drop_caches ? t->kind->drop_caches(t) : -ENOTSUP;
}

/* ---- for the kinds ----------------------------------------------------------------- */

void target__group_ended(struct target_session *s, struct target_group *g)
{
	ASSERT(g->ended == g->count);
	g->next = NULL;
	*s->done_last = g;
	s->done_last = &g->next;
}

void target__ended(struct target_session *s, struct target_group *g, struct target_io *io,
		   int status)
{
	if (status)
		io->status = status;
	ASSERT(g->ended < g->count);
	g->ended++;
	if (g->ended == g->count)
		target__group_ended(s, g);
}

void target__landed(struct target_io *io, uint64_t offset_bytes, const void *data, uint64_t count)
{
	uint64_t found;

	io->got_bytes += count;
	if (io->stamp_at < offset_bytes || io->stamp_at == TARGET_STAMP_NONE ||
	    io->stamp_at + sizeof(found) > offset_bytes + count)
		return;
	memcpy(&found, (const uint8_t *)data + (io->stamp_at - offset_bytes), sizeof(found));
	if (found != io->stamp)
		io->status = -EBADMSG;
}

void target__path(const struct target *t, const char *path, char *out, uint32_t size)
{
	int n = snprintf(out, size, "%s/%s", t->root, path);

	ASSERT(n > 0 && (uint32_t)n < size);
}

void *target__pages(uint64_t bytes)
{
	uint64_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	target__scramble(p, bytes);
	return p;
}

void target__sleep(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };

	(void)nanosleep(&t, NULL);
}

void target__scramble(void *at, uint64_t bytes)
{
	struct rand_state rand = { .at = bytes };
	uint64_t *word = at;

	for (uint64_t i = 0; i < bytes / sizeof(*word); i++)
		word[i] = rand_u64(&rand);
}
