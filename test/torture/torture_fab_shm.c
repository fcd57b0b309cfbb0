/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The rings of fab_shm.c between two threads: capsules small and large, in order, whole; then with
 * both sides sleeping whenever they may, where a lost wake-up would stop everything.  For TSan and
 * for hours: torture_fab_shm [rounds].
 */
#include "fabric/fab_internal.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CREDITS = 4, CAPSULES = 60000, SLEEPS = 10000, WAKE_MAX_MS = 120000 };

static const struct fab_limits limits = { .credits = CREDITS, .long_bodies = 1 };

struct side {
	struct fab_shm shm;
	int bell_fd; /* wakes this side */
	bool sleeps;
	uint64_t slept;
};

static uint32_t size_of(uint64_t i)
{
	static const uint32_t sizes[] = { 0, 8, 28, 29, 100, 1024, 64, 16 };

	return sizes[i % ARRAY_LEN(sizes)];
}

static void send_one(struct side *s, uint64_t i, uint8_t type)
{
	uint8_t body[FAB_BODY_MAX];
	struct fab_tx tx;

	memset(body, (int)(i & 0xff), sizeof(body));
	fab__hdr_build(&tx.hdr, type, i);
	fab__tx_body(&tx, body, size_of(i));
	ASSERT(s->shm.link.ops->send(&s->shm.link, &tx) == 1);
}

static void body_check(const uint8_t *body, uint64_t i)
{
	for (uint32_t k = 0; k < size_of(i); k++)
		ASSERT(body[k] == (uint8_t)i);
}

/* Take the capsule numbered `i` if it is here. */
static bool recv_one(struct side *s, uint64_t i)
{
	uint8_t body[FAB_BODY_MAX];
	struct fab_hdr_wire w;
	uint32_t done = 0;

	if (!s->shm.link.ops->recv_header(&s->shm.link, &w))
		return false;
	ASSERT(le32_get(w.magic) == FAB_MAGIC && le64_get(w.request_id) == i);
	ASSERT(le32_get(w.body_bytes) == size_of(i));
	if (size_of(i) <= FAB_SMALL_MAX) {
		body_check(w.small, i);
		return true;
	}
	ASSERT(s->shm.link.ops->recv_bytes(&s->shm.link, 0, body, size_of(i), &done) == 1);
	body_check(body, i);
	return true;
}

static void sleep_if_may(struct side *s)
{
	struct pollfd p = { .fd = s->bell_fd, .events = POLLIN };
	uint64_t rung;

	if (s->shm.link.ops->arm(&s->shm.link)) {
		ASSERT(poll(&p, 1, WAKE_MAX_MS) == 1); /* else a wake-up was lost */
		if (s->shm.server)
			ASSERT(read(s->bell_fd, &rung, sizeof(rung)) == sizeof(rung));
		else
			fab__shm_bell_read(s->bell_fd);
		s->slept++;
	}
	s->shm.link.ops->disarm(&s->shm.link);
}

static uint64_t total;

/* The appliance: answers each request. */
static void *serve(void *arg)
{
	struct side *s = arg;

	for (uint64_t i = 0; i < total;) {
		bool any = false;

		while (i < total && recv_one(s, i)) {
			send_one(s, i++, FAB_REPLY);
			any = true;
		}
		ASSERT(s->shm.link.ops->flush(&s->shm.link) == 0);
		if (!any && s->sleeps)
			sleep_if_may(s);
		else if (!any)
			sched_yield(); /* there may be one core only */
	}
	return NULL;
}

static void ask(struct side *s)
{
	uint64_t sent = 0, got = 0;

	while (got < total) {
		bool any = false;

		while (sent < total && sent - got < CREDITS)
			send_one(s, sent++, FAB_PING);
		ASSERT(s->shm.link.ops->flush(&s->shm.link) == 0);
		while (got < sent && recv_one(s, got)) {
			got++;
			any = true;
		}
		if (!any && s->sleeps)
			sleep_if_may(s);
		else if (!any)
			sched_yield(); /* there may be one core only */
	}
}

static void round_run(uint64_t capsules, bool sleeps)
{
	static struct side server, client;
	struct fab_shm_layout at;
	pthread_t thread;
	int pair[2];
	void *memory;

	fab__shm_layout(&at, &limits);
	memory = aligned_alloc(BLOCK_SIZE, at.size_bytes);
	ASSERT(memory);
	memset(memory, 0, at.size_bytes);
	ASSERT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	server = (struct side){ .bell_fd = eventfd(0, 0), .sleeps = sleeps };
	client = (struct side){ .bell_fd = pair[0], .sleeps = sleeps };
	ASSERT(server.bell_fd >= 0);
	fab__shm_init(&server.shm, memory, &limits, true, pair[1]);
	fab__shm_init(&client.shm, memory, &limits, false, server.bell_fd);
	total = capsules;
	ASSERT(pthread_create(&thread, NULL, serve, &server) == 0);
	ask(&client);
	pthread_join(thread, NULL);
	printf("torture_fab_shm: %lu capsules there and back, in order; slept %lu and %lu times\n",
	       (unsigned long)capsules, (unsigned long)server.slept, (unsigned long)client.slept);
	close(server.bell_fd);
	close(pair[0]);
	close(pair[1]);
	free(memory);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;

	for (int i = 0; i < rounds; i++) {
		round_run(CAPSULES, false);
		round_run(SLEEPS, true);
	}
	return 0;
}
