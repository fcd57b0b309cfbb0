/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The malloc seal: a polling thread takes all its memory at start, and is then sealed:
 * from there on malloc, calloc, realloc, free and their kin abort with a line that says so.
 *
 * The seal bites only in a program that links base/seal_malloc.c, which stands before
 * libc's malloc (in make: PROGRAM_objects += base/seal_malloc.c).  Elsewhere, and
 * under sanitizers, which have a malloc of their own, these calls only set a mark.
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

/* From now on they are counted, from 0; a test reads the count after what it looks at. */
void seal_thread_count(void);

/* Allow them again: for a thread that leaves its loop and tears down. */
void seal_thread_open(void);

/*
 * For a call into a library that allocates when it likes, in the few places that say so: what the
 * seal was, and back to it.
 */
must_check enum seal_mode seal_thread_lift(void);
void seal_thread_back(enum seal_mode was);

/* Memory calls of this thread since seal_thread_count(). */
uint64_t seal_count(void);

/* Whether this program's malloc can be sealed at all.  A test that counts asserts this first. */
bool seal_works(void);

/* What base/seal_malloc.c asks at each memory call `what`. */
void seal_check(const char *what);

#endif
