/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Links base/seal_malloc.c (see test.mk), so that the seal bites here as in the daemon. */
#include "base/seal.h"
#include "test/lib/death.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

/* Under a sanitizer the seal is off by design, and there is nothing to see. */
static void needs_seal(void)
{
	if (SEAL_SANITIZED)
		cr_skip_test("malloc belongs to the sanitizer");
	cr_assert(seal_works());
}

/* The compiler may not drop a malloc whose result went through here. */
static void *volatile sink;

Test(base_seal, an_open_thread_allocates_and_nobody_counts)
{
	uint64_t before = seal_count();

	sink = malloc(10);
	free(sink);
	cr_assert_eq(seal_count(), before);
}

Test(base_seal, a_counting_thread_counts_each_call)
{
	void *p = NULL;

	needs_seal();
	seal_thread_count();
	sink = malloc(10);
	sink = realloc(sink, 1000);
	free(sink);
	sink = calloc(3, 5);
	free(sink);
	cr_expect_eq(seal_count(), 5);
	cr_expect_eq(posix_memalign(&p, 4096, 100), 0);
	sink = p;
	free(sink);
	sink = aligned_alloc(64, 64);
	free(sink);
	seal_thread_open();
	cr_expect_eq(seal_count(), 9);
	seal_thread_count();
	cr_expect_eq(seal_count(), 0);
	seal_thread_open();
}

Test(base_seal, memory_is_what_was_asked_for)
{
	unsigned char *bytes = calloc(100, 3);
	void *p = NULL;

	for (int i = 0; i < 300; i++)
		cr_assert_eq(bytes[i], 0);
	free(bytes);
	cr_assert_eq(posix_memalign(&p, 8192, 1), 0);
	cr_assert_eq((uintptr_t)p % 8192, 0);
	free(p);
	if (!SEAL_SANITIZED) /* which ends the process here */
		cr_assert_neq(posix_memalign(&p, 3, 1), 0);
}

static void *allocated;

static void *allocates(void *arg)
{
	allocated = malloc(32);
	return arg;
}

Test(base_seal, seals_this_thread_and_no_other)
{
	pthread_t other;

	needs_seal();
	cr_assert_eq(pthread_create(&other, NULL, allocates, NULL), 0);
	seal_thread();
	pthread_join(other, NULL); /* joins without memory: the thread's own is cached */
	seal_thread_open();
	cr_assert_not_null(allocated);
	free(allocated);
}

#if !SEAL_SANITIZED /* there it is off: nothing would abort, and nothing is claimed */
static void malloc_in_a_sealed_thread(void)
{
	seal_thread();
	sink = malloc(1);
}

Test(base_seal, a_sealed_malloc_aborts)
{
	cr_assert(
		dies_saying(malloc_in_a_sealed_thread, "malloc: called in a thread that is sealed"),
		"%s", death_said());
}

static void free_in_a_sealed_thread(void)
{
	sink = malloc(1);
	seal_thread();
	free(sink);
}

Test(base_seal, a_sealed_free_aborts)
{
	cr_assert(dies_saying(free_in_a_sealed_thread, "free: called in a thread that is sealed"),
		  "%s", death_said());
}
#endif
