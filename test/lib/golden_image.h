/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Whole drives, frozen in a file of test/golden/: what is not zero, and words that repeat but once.
 *
 *	"WKIMAGE1"  then, until the end:  drive (4)  words (4)  offset on the drive (8)
 *	            so many words of 8 bytes; or one, that often: bit 31 of `words`
 *
 * Integers are little-endian.
 */
#ifndef TEST_GOLDEN_IMAGE_H
#define TEST_GOLDEN_IMAGE_H

#include <stdint.h>

/* Drives of drive_bytes each, zeros but for what the file says.  0; -errno, or -EUCLEAN: it is no
 * image of such drives. */
int golden_image_load(const char *path, uint8_t *const drive[], uint32_t ndrives,
		      uint64_t drive_bytes);
int golden_image_save(const char *path, uint8_t *const drive[], uint32_t ndrives,
		      uint64_t drive_bytes);

#endif
