/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Invariants, true whenever the lock is free:
 *
 *  (1) work() runs in WANTED only, one call at a time, and without the lock
 *      [test_nvme_keeper:who_asks_does_not_wait_and_is_told_once].
 *  (2) END is final: nothing begins after it, and a later result is dropped
 *      [test_nvme_keeper:the_end_comes_behind_the_work_and_its_answer_is_nobodys].
 */
#include "nvme/common/nvme_keeper.h"

#include "base/assert.h"

#include <errno.h>

static _Thread_local const struct nvme_keeper *mine;

bool nvme__keeper_is_me(const struct nvme_keeper *k)
{
	ASSERT(k->work);
	return mine == k || !k->running;
}

void nvme__keeper_init(struct nvme_keeper *k, int (*work)(void *of), void (*last)(void *of),
		       void *of)
{
	ASSERT(work);
	*k = (struct nvme_keeper){ .work = work, .last = last, .of = of };
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->changed, NULL);
}

static void *keep(void *arg)
{
	struct nvme_keeper *k = arg;

	mine = k;
	pthread_mutex_lock(&k->lock);
	while (k->job != NVME_KEEPER_END) {
		int result;

		if (k->job != NVME_KEEPER_WANTED) {
			pthread_cond_wait(&k->changed, &k->lock);
			continue;
		}
		pthread_mutex_unlock(&k->lock);
		result = k->work(k->of);
		pthread_mutex_lock(&k->lock);
		if (k->job == NVME_KEEPER_WANTED)
			k->job = NVME_KEEPER_DONE;
		k->result = result;
	}
	pthread_mutex_unlock(&k->lock);
	if (k->last)
		k->last(k->of);
	return NULL;
}

int nvme__keeper_start(struct nvme_keeper *k)
{
	int err = -pthread_create(&k->thread, NULL, keep, k);

	ASSERT(k->work);
	k->running = err == 0;
	return err;
}

int nvme__keeper_ask(struct nvme_keeper *k)
{
	int result = -EAGAIN;

	ASSERT(k->running);
	pthread_mutex_lock(&k->lock);
	if (k->job == NVME_KEEPER_END) {
		result = -ENODEV;
	} else if (k->job == NVME_KEEPER_DONE && k->result != -EAGAIN) {
		k->job = NVME_KEEPER_IDLE;
		result = k->result;
	} else if (k->job != NVME_KEEPER_WANTED) {
		k->job = NVME_KEEPER_WANTED;
		pthread_cond_signal(&k->changed);
	}
	pthread_mutex_unlock(&k->lock);
	return result;
}

void nvme__keeper_end(struct nvme_keeper *k)
{
	pthread_mutex_lock(&k->lock);
	k->job = NVME_KEEPER_END;
	pthread_cond_signal(&k->changed);
	pthread_mutex_unlock(&k->lock);
}

void nvme__keeper_destroy(struct nvme_keeper *k)
{
	if (k->running) {
		nvme__keeper_end(k);
		pthread_join(k->thread, NULL);
		k->running = false;
	}
	pthread_cond_destroy(&k->changed);
	pthread_mutex_destroy(&k->lock);
}
