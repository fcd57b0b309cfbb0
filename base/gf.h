/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The field of 256 elements, in which a second parity is computed: gf.c. */
#ifndef BASE_GF_H
#define BASE_GF_H

#include "base/xor.h"

/* Returns the product of two elements; the sum is their exclusive or. */
uint8_t gf_times(uint8_t a, uint8_t b);
/* Returns the element whose product with this one is 1.  `a` must not be 0. */
uint8_t gf_inverse(uint8_t a);
/* Returns the n-th power of the generator, 2.  The first 255 powers are all different. */
uint8_t gf_power(uint32_t n);

/* Each byte of `to` becomes that of `from`, times `by`.  A multiple of XOR_LANE bytes. */
void gf_set(void *restrict to, const void *restrict from, size_t bytes, uint8_t by);
/* ... is increased by that. */
void gf_add(void *restrict to, const void *restrict from, size_t bytes, uint8_t by);

#endif
