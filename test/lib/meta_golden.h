/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Bytes of a format, frozen in test/golden/.  A difference means that stores in the field can no
 * longer be read: the format's version must move, and a new file stand beside the old one.
 * (WK_GOLDEN_MAKE=1 writes a file that is not there yet.)
 */
#ifndef TEST_META_GOLDEN_H
#define TEST_META_GOLDEN_H

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void golden_check(const char *path, const void *bytes, size_t size_bytes)
{
	uint8_t *frozen = malloc(size_bytes + 1);
	FILE *f = fopen(path, "rb");

	if (!f && getenv("WK_GOLDEN_MAKE")) {
		f = fopen(path, "wb");
		cr_assert(f && fwrite(bytes, 1, size_bytes, f) == size_bytes);
		cr_assert_eq(fclose(f), 0);
		free(frozen);
		return;
	}
	cr_assert_not_null(f, "%s", path);
	cr_assert_eq(fread(frozen, 1, size_bytes + 1, f), size_bytes, "%s: its length", path);
	for (size_t i = 0; i < size_bytes; i++)
		cr_assert_eq(frozen[i], ((const uint8_t *)bytes)[i], "%s: byte %zu", path, i);
	(void)fclose(f);
	free(frozen);
}

#endif
