/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Two threads, a ring each way, a bell each.  Balls go to and fro, several at a time; a thread with
 * nothing to do sleeps until its bell is rung.  All balls must arrive, in order; no thread may
 * sleep for ever.  Run under TSan.
 */
#include "appliance/core/app_ring.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { BALLS = 3, PLACES = 4, ROUNDS = 200000, PATIENCE_MS = 120000 };

static struct app_ring ring[2]; /* to player 0, to player 1 */
static struct app_message slot[2][PLACES];
static struct app_bell bell[2];
static uint64_t rounds = ROUNDS, slept[2], rung[2];

static void tell(uint32_t to)
{
	uint64_t one = 1;

	if (!app_ring_tell(&ring[to]) || !app_bell_must_ring(&bell[to]))
		return;
	rung[!to]++;
	ASSERT(write(bell[to].fd, &one, sizeof(one)) == sizeof(one));
}

static void rest(uint32_t me)
{
	struct pollfd p = { .fd = bell[me].fd, .events = POLLIN };
	uint64_t rings;

	app_bell_set(&bell[me], true);
	if (app_ring_quiet(&ring[me])) {
		slept[me]++;
		ASSERT(poll(&p, 1, PATIENCE_MS) == 1); /* else nobody rang */
	}
	app_bell_set(&bell[me], false);
	(void)!read(bell[me].fd, &rings, sizeof(rings));
}

static void *play(void *arg)
{
	uint32_t me = *(uint32_t *)arg, turns = 0;
	uint64_t want = 0;
	struct app_message m;

	while (want < rounds) {
		uint32_t heard = 0;

		while (heard < BALLS && want < rounds && app_ring_pop(&ring[me], &m)) {
			heard++;
			ASSERT(m.pin == want && m.what == me);
			want++;
			if (me == 1 || want + BALLS <= rounds)
				app_ring_put(&ring[!me], (struct app_message){
								 .pin = me ? m.pin : m.pin + BALLS,
								 .what = !me });
			if (++turns % 3 == 0) /* now at once, now with those behind it */
				tell(!me);
		}
		tell(!me);
		if (heard == 0)
			rest(me);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static uint32_t player[2] = { 0, 1 };
	pthread_t thread;

	if (argc > 1)
		rounds = strtoull(argv[1], NULL, 0);
	for (uint32_t i = 0; i < 2; i++) {
		app_ring_init(&ring[i], slot[i], PLACES);
		bell[i].fd = eventfd(0, EFD_NONBLOCK);
		ASSERT(bell[i].fd >= 0);
	}
	for (uint64_t i = 0; i < BALLS; i++)
		app_ring_put(&ring[1], (struct app_message){ .pin = i, .what = 1 });
	tell(1);
	ASSERT(pthread_create(&thread, NULL, play, &player[1]) == 0);
	play(&player[0]);
	pthread_join(thread, NULL);
	ASSERT(slept[0] && slept[1]);
	printf("torture_app_ring: %llu rounds, in order; slept %llu and %llu times, rang %llu\n",
	       (unsigned long long)rounds, (unsigned long long)slept[0],
	       (unsigned long long)slept[1], (unsigned long long)(rung[0] + rung[1]));
	return 0;
}
