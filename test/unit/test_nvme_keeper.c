/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A thread that waits for others: asked, answered later, ended at any time. */
#include "nvme/common/nvme_keeper.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>

static struct nvme_keeper keeper;
static sem_t begun, go;
static int result, works, lasts;

static int work(void *of)
{
	cr_assert_eq(of, &keeper);
	works++;
	sem_post(&begun);
	sem_wait(&go);
	return result;
}

static void last(void *of)
{
	(void)of;
	lasts++;
}

static void setup(void)
{
	sem_init(&begun, 0, 0);
	sem_init(&go, 0, 0);
	nvme__keeper_init(&keeper, work, last, &keeper);
}

TestSuite(nvme_keeper, .init = setup, .timeout = 30);

static int answer(void)
{
	int rc;

	while ((rc = nvme__keeper_ask(&keeper)) == -EAGAIN)
		sched_yield();
	return rc;
}

Test(nvme_keeper, who_asks_does_not_wait_and_is_told_once)
{
	cr_assert_eq(nvme__keeper_start(&keeper), 0);
	cr_assert_eq(nvme__keeper_ask(&keeper), -EAGAIN);
	sem_wait(&begun); /* it is at work, and cannot end */
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(nvme__keeper_ask(&keeper), -EAGAIN);
	cr_assert_eq(works, 1);
	result = 1;
	sem_post(&go);
	cr_assert_eq(answer(), 1);
	cr_assert_eq(works, 1);

	result = -ENOTSUP;
	cr_assert_eq(nvme__keeper_ask(&keeper), -EAGAIN, "the first answer was given");
	sem_wait(&begun);
	sem_post(&go);
	cr_assert_eq(answer(), -ENOTSUP);
	cr_assert_eq(works, 2);
	nvme__keeper_destroy(&keeper);
	cr_assert_eq(lasts, 1);
}

Test(nvme_keeper, what_says_again_is_begun_again)
{
	cr_assert_eq(nvme__keeper_start(&keeper), 0);
	result = -EAGAIN;
	cr_assert_eq(nvme__keeper_ask(&keeper), -EAGAIN);
	sem_wait(&begun);
	sem_post(&go);
	while (sem_trywait(&begun)) {
		cr_assert_eq(nvme__keeper_ask(&keeper), -EAGAIN);
		sched_yield();
	}
	result = 0;
	sem_post(&go);
	cr_assert_eq(answer(), 0);
	cr_assert_eq(works, 2);
	nvme__keeper_destroy(&keeper);
}

Test(nvme_keeper, the_end_comes_behind_the_work_and_its_answer_is_nobodys)
{
	cr_assert_eq(nvme__keeper_start(&keeper), 0);
	cr_assert_eq(nvme__keeper_ask(&keeper), -EAGAIN);
	sem_wait(&begun);
	nvme__keeper_end(&keeper);
	cr_assert_eq(nvme__keeper_ask(&keeper), -ENODEV);
	cr_assert_eq(lasts, 0, "it is at work");
	sem_post(&go);
	nvme__keeper_destroy(&keeper);
	cr_assert_eq(lasts, 1);
	cr_assert_eq(works, 1);
}

Test(nvme_keeper, one_that_never_ran_is_ended_too)
{
	nvme__keeper_destroy(&keeper);
	cr_assert_eq(lasts, 0);
}
