/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A scheme of protection, as wekactl format --protect takes it, and what it costs by arithmetic. */
#ifndef BENCH_PROTECT_SCHEME_H
#define BENCH_PROTECT_SCHEME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* K zones of data and M others: of parity, or copies if K is 1. */
struct protect_scheme {
	char name[12]; /* "none", "mirror", "4+2" */
	uint32_t data; /* K */
	uint32_t more; /* M: drives that may be lost */
};

/* Returns false for text that is no scheme. */
bool protect_scheme_parse(const char *text, size_t size, struct protect_scheme *out);
/* Returns the drives on which the scheme still has its width after as many losses as it allows. */
uint32_t protect_scheme_drives(const struct protect_scheme *s);

/* Bytes on drives for a byte of files, once all is folded. */
double protect_scheme_space(const struct protect_scheme *s);
/* Bytes given to the drives for a byte of new data, in writes of so many bytes of which each is
 * durable before the next: the copies, and a block of the log for each write. */
double protect_scheme_written(const struct protect_scheme *s, uint32_t bytes, uint32_t drives);
/* The same with the parity that folding writes later. */
double protect_scheme_written_later(const struct protect_scheme *s, uint32_t bytes,
				    uint32_t drives);
/* Bytes read from drives for a byte of files while `lost` of so many drives are lost. */
double protect_scheme_read(const struct protect_scheme *s, uint32_t lost, uint32_t drives);

#endif
