/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The malloc seal: a polling thread takes all its memory at start, and is then sealed: from then on
 * malloc, calloc, realloc, free and similar calls abort with a line.
 *
 * The seal works only in a program that links base/seal_malloc.c, which comes before libc's malloc
 * (in make: PROGRAM_objects += base/seal_malloc.c).  In other programs, and under sanitizers, which
 * have their own malloc, these calls only set a mark.
 */
#ifndef BASE_SEAL_H
#define BASE_SEAL_H

#include "base/assert.h"

#include <stdbool.h>
#include <stdint.h>

#if defined(__has_feature)
#define SEAL__CLANG_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SEAL__CLANG_SANITIZED 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || SEAL__CLANG_SANITIZED
#define SEAL_SANITIZED 1 /* malloc is the sanitizer's: no seal */
#else
#define SEAL_SANITIZED 0
#endif

enum seal_mode { SEAL_OPEN, SEAL_COUNT, SEAL_ABORT };

/* From now on memory calls of this thread abort. */
void seal_thread(void);

/* Counts allocations from now on, from 0; a test reads the count afterwards. */
void seal_thread_count(void);

/* Allow them again: for a thread that leaves its loop and tears down. */
void seal_thread_open(void);

/*
 * For a call into a library that allocates at any time, in the few places that need it: lifts the
 * seal and returns its old state, to be restored.
 */
must_check enum seal_mode seal_thread_lift(void);
void seal_thread_back(enum seal_mode was);

/* Memory calls of this thread since seal_thread_count(). */
uint64_t seal_count(void);

/* Returns true if this program's malloc can be sealed.  A test that counts asserts this first. */
bool seal_works(void);

/* Called by base/seal_malloc.c at each memory call `what`. */
void seal_check(const char *what);

#endif
