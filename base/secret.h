/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Memory for keys: separate pages, left out of core dumps, never written to swap, zeros in a child
 * after fork(), and zeroed before they are given back.
 *
 * A process stays dumpable: a core that shows why it died is worth having, and a user that may
 * trace the process may read the files with its keys as well.  Data that must not be in a core is
 * kept here.
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>

/**
 * secret_create - `size_bytes` of zeros
 *
 * *locked (or NULL) says whether they are kept out of swap: RLIMIT_MEMLOCK may be too low.
 * Errors:  -ENOMEM.
 */
must_check int secret_create(size_t size_bytes, void **out, bool *locked);

/* secret_destroy - zeroed and unmapped; NULL is allowed */
void secret_destroy(void *memory, size_t size_bytes);

/* For keys on a stack: the compiler does not leave it out. */
void secret_wipe(void *memory, size_t size_bytes);

#endif
