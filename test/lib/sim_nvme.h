/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Drives with faults, under the shipped driver and the shipped soft controller.
 *
 * A sim_drive is the back end of a soft controller: an image in memory, with a volatile cache or
 * without.  All that it does follows from its seed, its commands and the time that it is handed.
 *
 *   write, completed     -> the cache; read back from there            (volatile_cache)
 *   write + FUA, flush   -> durable
 *   power cut            -> each write that is not durable, completed or in flight, is kept,
 *                           lost, or torn at the atomic unit, each by itself; with cut_garbles
 *                           its units may also be garbage, or not be readable any more
 *
 *   deallocate           -> (frees) until they are written again the blocks hold what they held, or
 *                           garbage, at once or from a power cut on; one that fails has done some
 *
 * A flush makes durable what had completed when it was *submitted*, and no more: the least
 * that the specification promises.  Without a cache a completed write is durable.
 *
 * Drives that lose their power together share a sim_power:
 *
 *	sim_power_init(&power);
 *	sim_drive_create(&sim, &(struct sim_drive_options){ .power = &power, .nblocks = 1024 });
 *	sim_drive_open(sim, dma, &drive);            ... as after nvme_open()
 *	sim_power_cut_at(&power, 17, seed);          ... the 17th write or flush from now
 *	  ... run; when power.off every command fails; take the program down as after errors
 *	nvme_close(drive);
 *	sim_power_on(&power);                        ... then open again: what survived is there
 */
#ifndef SIM_NVME_H
#define SIM_NVME_H

#include "nvme/soft/nvme_soft.h"

#include "base/rand.h"

#define SIM_POWER_DRIVES 16u

struct sim_drive;

struct sim_power {
	uint64_t now_ns;      /* the time; set it, it never goes by itself */
	uint64_t write_count; /* writes and flushes that arrived, of all drives */
	uint64_t cut_at;      /* the power fails when write_count gets there; 0: never */
	uint64_t cut_seed;
	bool off;
	uint32_t drive_count;
	struct sim_drive *drive[SIM_POWER_DRIVES];
};

struct sim_faults {
	/* How many of a million commands fail, with the kind's usual status. */
	uint32_t read_error_ppm;
	uint64_t read_error_from; /* ... but none of the blocks before this one */
	uint32_t write_error_ppm; /* leaves some of the atomic units written, some not */
	uint32_t flush_error_ppm;
	uint32_t status_ppm;  /* with any status that there is, and may be told not to try again */
	uint32_t lose_ppm;    /* work on, again and again, and never complete: until aborted */
	uint64_t fail_nth;    /* the n-th command from now fails; 1: the next; 0: none */
	uint16_t fail_status; /* with this; 0: the kind's usual one */
	/* The time of a command, random between these two: commands complete in another order. */
	uint64_t delay_min_ns;
	uint64_t delay_max_ns;
	/* Returns the time to add to a command's, to make some commands slow; may be NULL. */
	uint64_t (*dawdle_ns)(void *user, const struct nvme_soft_cmd *cmd);
	void *dawdle_user;
	bool ignore_aborts;
	/* Lies. */
	bool ignore_flush;       /* says done, makes nothing durable */
	bool ignore_fua;         /* the write lands in the cache only */
	uint32_t drop_write_ppm; /* says done, writes nothing */
	uint32_t flip_read_ppm;  /* one bit of the bytes read is wrong */
	uint32_t skip_read_ppm;  /* says done, moves nothing: as QEMU's does when its DMA faults */
};

struct sim_drive_options {
	struct sim_power *power; /* NULL: a power of its own; else it outlives the drive */
	uint32_t nblocks;        /* of 4096 bytes */
	bool volatile_cache;
	uint32_t atomic_bytes; /* 4096 or 512; 0: 4096 */
	uint32_t mdts;         /* transfers up to 4096 << mdts; 0: 5 */
	/* For a write that is larger than AWUPF, even of one logical block, the specification
	 * promises nothing when the power fails.  This drive treats every write like that. */
	bool cut_garbles;
	bool frees; /* takes deallocations */
	uint64_t seed;
};

struct sim_counts {
	uint64_t read_count;
	uint64_t write_count;
	uint64_t fua_count;
	uint64_t flush_count;
	uint64_t free_count; /* deallocations */
	uint64_t error_count;
};

/* ---- power and time ------------------------------------------------------------------ */

void sim_power_init(struct sim_power *power);

/* Returns when the next command in flight ends, or UINT64_MAX.  Set now_ns to it to go on. */
uint64_t sim_power_next_ns(const struct sim_power *power);

/* The power fails when the `nth` write or flush from now arrives (1: the next), or never (0). */
void sim_power_cut_at(struct sim_power *power, uint64_t nth, uint64_t seed);

/*
 * It fails now.  Buffers of I/Os in flight are still looked at, here and not later.  From
 * now on every command fails with "aborted due to power loss".
 */
void sim_power_cut(struct sim_power *power, uint64_t seed);

/* It is back; drives that were open have been closed. */
void sim_power_on(struct sim_power *power);

/* ---- drives --------------------------------------------------------------------------- */

must_check int sim_drive_create(struct sim_drive **out, const struct sim_drive_options *options);
void sim_drive_destroy(struct sim_drive *sim);

/* As nvme_open(), ended by nvme_close(); one at a time.  Aborts when it fails: it has no cause to.
 */
void sim_drive_open(struct sim_drive *sim, struct nvme_dma *dma, struct nvme_drive **out);

/* Faults from now on; all zero: none. */
void sim_drive_faults(struct sim_drive *sim, const struct sim_faults *faults);
struct sim_counts sim_drive_counts(const struct sim_drive *sim);

/* The image as reads see it, and as it would be if all that is not durable were lost. */
const uint8_t *sim_drive_visible(const struct sim_drive *sim);
const uint8_t *sim_drive_durable(const struct sim_drive *sim);
uint64_t sim_drive_bytes(const struct sim_drive *sim);

/* How many writes are complete but not durable. */
uint32_t sim_drive_unflushed(const struct sim_drive *sim);

/* Flip a bit of the image, for readers and for good. */
void sim_drive_flip(struct sim_drive *sim, uint64_t byte, uint32_t bit);

/* A block of 4096 bytes cannot be read until it is written again. */
void sim_drive_ruin(struct sim_drive *sim, uint64_t block);

/* Replace the image (sim_drive_bytes() of it); what was not durable is gone.  Nothing is in flight.
 */
void sim_drive_restore(struct sim_drive *sim, const uint8_t *image);

/*
 * Copies the image that a power cut would now leave of `sim` to `into`, which has the same size and
 * is idle; `sim` goes on undisturbed.  For several drives call it for each, with the same seed.
 */
void sim_drive_cut_copy(const struct sim_drive *sim, uint64_t seed, struct sim_drive *into);

/* The back end of the soft controller, for tests that open it themselves or change its traits. */
struct nvme_soft_back *sim_drive_back(struct sim_drive *sim);
/* A test that opens it itself must call this. */
void sim_drive_opens(struct sim_drive *sim);
struct nvme_soft_traits *sim_drive_traits(struct sim_drive *sim);

/* ---- a controller that lies --------------------------------------------------------------- */

/* Post a completion for `cid` that no command asked for. */
void sim_nvme_lie(struct nvme_qpair *qp, uint16_t cid);

/* The drive's owner finds trouble with the controller. */
static inline void find_trouble(struct nvme_drive *drive, enum nvme_cause cause, uint64_t now_ns)
{
	nvme__helm_take(drive);
	nvme__trouble(drive, cause, 0, now_ns);
	nvme__helm_leave(drive);
}

#endif
