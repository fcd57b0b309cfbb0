/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Small arithmetic, where off-by-one lives. */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static inline bool is_pow2(uint64_t v)
{
	return v != 0 && (v & (v - 1)) == 0;
}

/* Returns how many pieces of `unit` hold `v`; `unit` > 0. */
static inline uint64_t div_up(uint64_t v, uint64_t unit)
{
	return v / unit + (v % unit != 0);
}

/* `v` rounded to a multiple of `align`, a power of two; the caller knows that up fits. */
static inline uint64_t align_down(uint64_t v, uint64_t align)
{
	return v & ~(align - 1);
}

static inline uint64_t align_up(uint64_t v, uint64_t align)
{
	return (v + align - 1) & ~(align - 1);
}

/* Checked: true when the sum or product did not fit. */
static inline bool add_overflows(uint64_t a, uint64_t b, uint64_t *out)
{
	return __builtin_add_overflow(a, b, out);
}

static inline bool mul_overflows(uint64_t a, uint64_t b, uint64_t *out)
{
	return __builtin_mul_overflow(a, b, out);
}

#endif
