/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Decides when a drive has failed.
 *
 *          an I/O failed           a probe finds nothing, twice
 *    WELL --------------> DOUBTED ------------------------------> FAILED
 *      ^                     |                                      |
 *      +--- a probe reads ---+------------ a probe reads -----------+
 *
 * A probe reads APP_PROBE_PLACES blocks, spread evenly over the drive, its second and its last
 * among them (the address of drive 0, block 0 stands for a hole).  It finds nothing when none of
 * them can be read.
 *
 * Invariants:
 *
 *  (1) A drive is doubted from the first I/O that failed, retries included, until a probe has been
 *      answered.  While it is doubted, nobody calls its blocks damaged.
 *  (2) A drive has failed when BAD_PROBES probes in a row, at least AGAIN_NS apart, have found
 *      nothing.  So neither a bad block, nor a bad region, nor a short fault makes it failed.
 *  (3) One block that can be read ends both states.  A failed drive is probed every FAILED_NS.
 *  (4) The result of a good probe holds for GOOD_NS, so reads of a damaged region cost one probe in
 *      that time, not one each [test_app_failing:one_bad_sector_makes_no_drive_fail].
 *  (5) A drive that the driver has given up (NVME_HEALTH_DEAD) is not probed.
 */
#include "appliance/media/app_failing.h"

#include "base/clock.h"
#include "base/num.h"

#define BAD_PROBES 2u
#define AGAIN_NS   NS_PER_S
#define FAILED_NS  (5 * NS_PER_S)
#define GOOD_NS    NS_PER_S

void app_failing_doubt(struct app_failing *f, uint64_t drives, uint64_t now_ns)
{
	ASSERT((f->doubted & f->failed) == 0); /* (1) */
	drives &= ~(f->doubted | f->failed);
	for (uint32_t d = 0; drives; d++, drives >>= 1) {
		if (!(drives & 1) ||
		    (f->drive[d].good_ns && now_ns - f->drive[d].good_ns < GOOD_NS)) /* (4) */
			continue;
		f->doubted |= 1ull << d; /* (1) */
		f->drive[d].bad_probes = 0;
		f->drive[d].probe_ns = now_ns;
	}
}

uint32_t app_failing_due(const struct app_failing *f, uint64_t now_ns)
{
	uint64_t drives = f->doubted | f->failed;

	ASSERT((f->doubted & f->failed) == 0);
	for (uint32_t d = 0; drives; d++, drives >>= 1)
		if (drives & 1 && f->drive[d].probe_ns <= now_ns)
			return d;
	return META_DRIVES_MAX;
}

uint64_t app_failing_deadline(const struct app_failing *f)
{
	uint64_t drives = f->doubted | f->failed, at_ns = UINT64_MAX;

	ASSERT((f->doubted & f->failed) == 0);
	for (uint32_t d = 0; drives; d++, drives >>= 1)
		if (drives & 1)
			at_ns = min_u64(at_ns, f->drive[d].probe_ns);
	return at_ns;
}

uint64_t app_failing_place(uint64_t nblocks, uint32_t i)
{
	ASSERT(nblocks > 1 && i < APP_PROBE_PLACES);
	return 1 + (nblocks - 2) / (APP_PROBE_PLACES - 1) * i +
	       (nblocks - 2) % (APP_PROBE_PLACES - 1) * i / (APP_PROBE_PLACES - 1);
}

bool app_failing_probed(struct app_failing *f, uint32_t drive, uint32_t good, uint64_t now_ns,
			enum app_fault_what *what)
{
	const uint64_t bit = 1ull << drive;
	const bool failed = f->failed & bit;

	ASSERT(drive < META_DRIVES_MAX && good <= APP_PROBE_PLACES);
	ASSERT((f->doubted | f->failed) & bit);
	if (good > 0) {
		f->doubted &= ~bit;
		f->failed &= ~bit;
		f->drive[drive].good_ns = now_ns;
		ASSERT(!((f->doubted | f->failed) & bit)); /* (3) */
		*what = APP_FAULT_ANSWERS;
		return failed;
	}
	f->drive[drive].bad_probes++;
	f->drive[drive].probe_ns = now_ns + (failed ? FAILED_NS : AGAIN_NS);
	if (failed || f->drive[drive].bad_probes < BAD_PROBES) /* (2) */
		return false;
	f->doubted &= ~bit;
	ASSERT(f->drive[drive].bad_probes >= BAD_PROBES); /* (2) */
	f->failed |= bit;
	f->drive[drive].probe_ns = now_ns + FAILED_NS;
	*what = APP_FAULT_FAILED;
	return true;
}

void app_failing_forget(struct app_failing *f, uint32_t drive)
{
	ASSERT(drive < META_DRIVES_MAX);
	f->doubted &= ~(1ull << drive);
	f->failed &= ~(1ull << drive);
	f->drive[drive].good_ns = 0;
}
