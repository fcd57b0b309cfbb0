/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A crew of threads for blocking work on local files, which a client library's single thread must
 * not do one by one.  A mutex is fine here: each piece of work is system calls.
 */
#include "appliance/ctl/ctl.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define CREW_MAX 64

struct ctl_crew {
	pthread_mutex_t lock;
	pthread_cond_t work; /* there is a round, or the end */
	pthread_cond_t idle; /* a round is finished          */
	pthread_t thread[CREW_MAX];
	uint32_t threads;
	uint32_t count; /* of the round                   */
	uint32_t next;  /* not yet taken                  */
	uint32_t left;  /* not yet finished               */
	bool quit;
	void (*fn)(void *arg, uint32_t i);
	void *arg;
};

/* Take and do pieces until none is left; called and returns with the lock held. */
static void work(struct ctl_crew *crew)
{
	while (crew->next < crew->count) {
		uint32_t i = crew->next++;

		pthread_mutex_unlock(&crew->lock);
		crew->fn(crew->arg, i);
		pthread_mutex_lock(&crew->lock);
		if (--crew->left == 0)
			pthread_cond_signal(&crew->idle);
	}
}

static void *member(void *arg)
{
	struct ctl_crew *crew = arg;

	pthread_mutex_lock(&crew->lock);
	while (!crew->quit) {
		work(crew);
		if (!crew->quit)
			pthread_cond_wait(&crew->work, &crew->lock);
	}
	pthread_mutex_unlock(&crew->lock);
	return NULL;
}

void ctl_crew_run(struct ctl_crew *crew, uint32_t count, void (*fn)(void *arg, uint32_t i),
		  void *arg)
{
	if (count == 0)
		return;
	pthread_mutex_lock(&crew->lock);
	ASSERT(crew->left == 0);
	crew->fn = fn;
	crew->arg = arg;
	crew->next = 0;
	crew->count = count;
	crew->left = count;
	pthread_cond_broadcast(&crew->work);
	work(crew);
	while (crew->left > 0)
		pthread_cond_wait(&crew->idle, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
}

int ctl_crew_create(struct ctl_crew **out, uint32_t threads)
{
	struct ctl_crew *crew = calloc(1, sizeof(*crew));

	if (!crew)
		return -ENOMEM;
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->work, NULL);
	pthread_cond_init(&crew->idle, NULL);
	/* Fewer threads than wished for are slower, not wrong: the caller works too. */
	while (crew->threads < threads && crew->threads < CREW_MAX &&
	       pthread_create(&crew->thread[crew->threads], NULL, member, crew) == 0)
		crew->threads++;
	*out = crew;
	return 0;
}

void ctl_crew_destroy(struct ctl_crew *crew)
{
	if (!crew)
		return;
	pthread_mutex_lock(&crew->lock);
	crew->quit = true;
	pthread_cond_broadcast(&crew->work);
	pthread_mutex_unlock(&crew->lock);
	for (uint32_t i = 0; i < crew->threads; i++)
		pthread_join(crew->thread[i], NULL);
	pthread_cond_destroy(&crew->idle);
	pthread_cond_destroy(&crew->work);
	pthread_mutex_destroy(&crew->lock);
	free(crew);
}
