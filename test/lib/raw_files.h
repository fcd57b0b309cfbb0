/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of two or three copies on drives of memory, with files, and what each of them has: to be
 * looked at without a mount.  Whatever is not as it should be fails the test.
 *
 *	static struct raw_files s;
 *
 *	raw_files_begin(&s, 4, 3);
 *	raw_files_put(&s, 500);
 *	cr_assert_eq(rig_stop(&s.rig), 0);
 *	raw_files_look_at(&s);
 *	taken = raw_files_salvage(&s, &loss);
 *	raw_files_end(&s);
 */
#ifndef TEST_RAW_FILES_H
#define TEST_RAW_FILES_H

#include "meta/offline/meta_raw_internal.h"
#include "test/lib/meta_rig.h"
#include "test/lib/raw_mem.h"

#define RAW_FILES       120u
#define RAW_DRIVE_BYTES (8u << 20)

struct raw_files {
	struct rig rig;
	struct raw_mem mem;
	uint32_t ndrives;
	uint64_t fill_of[RAW_FILES]; /* 0: it is not there */
	uint64_t fills;
	uint32_t lines_wrong[4]; /* of the last comparison: first copy, second, else; third */
};

/* Two copies; fold: data zones of a fold, 0: the store has pairs only. */
void raw_files_begin(struct raw_files *s, uint32_t ndrives, uint32_t fold);
/* Three copies; fold: as there. */
void raw_files_begin_three(struct raw_files *s, uint32_t ndrives, uint32_t fold);
void raw_files_end(struct raw_files *s);
/* Writes that many files, which may have been there. */
void raw_files_put(struct raw_files *s, uint32_t count);

/* From now on the store is read from all drives, as they are. */
void raw_files_look_at(struct raw_files *s);
uint8_t *raw_files_at(const struct raw_files *s, uint64_t baddr);
/* The caller closes it. */
struct meta_raw *raw_files_open(struct raw_files *s);

/* Salvages every file, byte for byte and beyond doubt, and no other. */
void raw_files_are_salvaged(const struct raw_files *s, struct meta_raw *raw,
			    struct meta_raw_loss *loss);
/* ... and returns what was taken from second copies, on all drives together. */
struct meta_raw_taken raw_files_salvage(struct raw_files *s, struct meta_raw_loss *loss);
struct meta_raw_compared raw_files_compare(struct raw_files *s);

#endif
