/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Bytes of a format, frozen in test/golden/.  A difference means that stores in the field can no
 * longer be read: the format's version must move, and a new file stand beside the old one.
 * (WK_GOLDEN_MAKE=1 writes a file that is not there yet.)
 */
#ifndef TEST_META_GOLDEN_H
#define TEST_META_GOLDEN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool golden_make(const char *path, const void *bytes, size_t size_bytes)
{
	FILE *f = getenv("WK_GOLDEN_MAKE") ? fopen(path, "wbx") : NULL;

	return f && fwrite(bytes, 1, size_bytes, f) == size_bytes && fclose(f) == 0;
}

/* Are these the bytes of the file, no more and no fewer?  Says what differs. */
__attribute__((warn_unused_result)) static inline bool golden_is(const char *path,
								 const void *bytes,
								 size_t size_bytes)
{
	uint8_t *frozen = malloc(size_bytes + 1);
	FILE *f = fopen(path, "rb");
	size_t got, at = 0;

	if (!f) {
		free(frozen);
		return golden_make(path, bytes, size_bytes);
	}
	got = fread(frozen, 1, size_bytes + 1, f);
	while (at < got && at < size_bytes && frozen[at] == ((const uint8_t *)bytes)[at])
		at++;
	if (got != size_bytes || at != size_bytes)
		fprintf(stderr, "%s: differs at byte %zu of %zu\n", path, at, size_bytes);
	(void)fclose(f);
	free(frozen);
	return got == size_bytes && at == size_bytes;
}

#endif
