/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * nvme - blocks of one NVMe namespace, read and written by polling.
 *
 *	struct nvme_dma    memory that drives may reach, and its addresses for them (IOVAs)
 *	struct nvme_drive  a controller that has been brought up, and its namespace
 *	struct nvme_qpair  one submission and one completion queue; belongs to one thread
 *	struct nvme_io     one read, write or flush; the caller's memory
 *
 * A thread submits I/Os, rings once for the batch, and polls for completed ones; no call blocks or
 * calls back.
 *
 *	while (work_left) {
 *		while (next && nvme_submit(qp, next) == 0)
 *			next = take_next();
 *		nvme_ring(qp);
 *		done_count = nvme_poll(qp, done, ARRAY_LEN(done));
 *	}
 *
 * A name selects a drive; code above this header does not know its kind:
 *
 *	pci:0000:01:00.0     an NVMe controller of this machine that is bound to vfio-pci; its
 *	                     first namespace, or ?nsid=N.  Several of its namespaces may be drives:
 *	                     the controller is opened once, and reset for all of them
 *	vfio-user:PATH       one that another process emulates, behind the socket PATH, or
 *	                     PATH/cntrl if that is a directory; ?nsid=N too.  Its memory must be
 *	                     files: nvme_dma_map_file()
 *	file:PATH            a file or block device (a volatile write cache: flush, or FUA)
 *	file:PATH?size=8G    the same; the size of a file to be made
 *	mem:4G               memory of this process, gone when closed (no volatile cache)
 *	mem:4G?copy=off      moves and keeps no data: the cost of the driver without the drive;
 *	                     copy=past, copy=through: the caches, whatever this machine's cards do
 *
 * Units: a block is 4096 bytes, whatever format the namespace has.
 */
#ifndef NVME_NVME_H
#define NVME_NVME_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVME_BLOCK_SIZE       4096u
#define NVME_BLOCK_SHIFT      12
#define NVME_IO_BLOCKS_MAX    1024u      /* of one nvme_io: 4 MiB, split as the drive needs it */
#define NVME_RANGE_BLOCKS_MAX (1u << 18) /* of one that moves no data: 1 GiB */
#define NVME_DEPTH_MIN        2u
#define NVME_DEPTH_MAX        4096u
#define NVME_ERR_TEXT         256u /* enough for any text that nvme_open() writes */

struct nvme_dma;
struct nvme_drive;
struct nvme_qpair;

/* ---- memory that drives may reach --------------------------------------------- */

/**
 * nvme_dma_create - an empty table of mapped memory
 *
 * One serves all drives of a process: an IOVA is good for each of them.
 *
 * Owns:    the caller ends it with nvme_dma_destroy(), after every drive that uses it.
 * Errors:  -ENOMEM.
 */
must_check int nvme_dma_create(struct nvme_dma **out);
void nvme_dma_destroy(struct nvme_dma *dma);

/**
 * nvme_dma_map - let drives reach `size_bytes` at `addr`
 *
 * `addr` and `size_bytes` are multiples of 4096.  The IOVA is never the address, is a
 * multiple of 64 MiB (so that pages of 2 MiB stay such), and has 39 bits at most.
 *
 * Owns:    the memory stays the caller's, and there, until nvme_dma_unmap().
 * Thread:  any; calls exclude each other.  Polling threads are not disturbed.
 * Errors:  -ENOSPC when the 512 GiB of IOVAs are used up; else as nvme_dma_map_file().
 */
must_check int nvme_dma_map(struct nvme_dma *dma, void *addr, uint64_t size_bytes, uint64_t *iova);

/**
 * nvme_dma_map_file - the same for memory that is a shared mapping of a file
 *
 * `addr` is where `fd` is mapped from `fd_offset` on, a multiple of 4096.  Another process's drive
 * can get memory only by its file: see nvme_dma_wants_files().
 *
 * Owns:    `fd` stays the caller's and may be closed.
 * Errors:  as nvme_dma_map(), and errors of a drive's IOMMU or server: -ENOMEM (the limit of
 *          locked memory), -EINVAL (a server that needs a file and got none), ...
 */
must_check int nvme_dma_map_file(struct nvme_dma *dma, void *addr, uint64_t size_bytes, int fd,
				 uint64_t fd_offset, uint64_t *iova);

/*
 * nvme_dma_near - mark a mapping: the thread that reads into it uses the data next
 *
 * A hint, for as long as it is mapped: the soft controller then stores through the caches, as a
 * card's DMA goes into the last cache, and not past them to memory for another core or process.
 */
void nvme_dma_near(struct nvme_dma *dma, uint64_t iova, uint64_t size_bytes);

/* nvme_dma_why - why the last mapping failed, for people; "" when its errno says it all */
const char *nvme_dma_why(const struct nvme_dma *dma);

/* nvme_dma_wants_files - whether a drive is open that nvme_dma_map() would not do for */
bool nvme_dma_wants_files(struct nvme_dma *dma);

/**
 * nvme_dma_unmap - the reverse; `iova` and `size_bytes` as they were mapped
 *
 * Owns:    the memory may be freed when this returns, provided that the last I/O which
 *          named it had come back before: the caller sees to that.
 * Thread:  as nvme_dma_map().
 */
void nvme_dma_unmap(struct nvme_dma *dma, uint64_t iova, uint64_t size_bytes);

/* How often a soft controller was given an address that is not mapped: 0, or we have a bug. */
uint64_t nvme_dma_fault_count(const struct nvme_dma *dma);

/* ---- drives -------------------------------------------------------------------- */

struct nvme_options {
	bool create;              /* file: make it, and allocate its space, when it is missing */
	uint32_t qpair_count_max; /* how many queue pairs are wanted; 0: 1 */
	/* A command that takes longer is aborted (see nvme_reset.c for further steps), if some
	 * thread calls nvme_drive_step(); 0: 10 s.  file: and mem: drives have no such limit: the
	 * kernel below has its own. */
	uint64_t io_timeout_ns;
	uint64_t memory_bytes; /* that will be mapped: a limit that forbids it is found now */
	/* Number of namespaces of its controller that will be drives, including this one, each with
	 * as many queue pairs; 0: 1.  The first namespace that is opened decides. */
	uint32_t namespace_count;
};

struct nvme_info {
	uint64_t nblocks;
	uint32_t transfer_max_bytes; /* of one command; longer I/Os are split */
	uint32_t atomic_bytes;       /* a power cut tears no aligned write of this size */
	uint32_t qpair_count_max;    /* how many the controller has granted */
	uint32_t depth_max;
	uint32_t buffer_align; /* an I/O's iova is a multiple of this: 4 to 4096 */
	bool volatile_cache;   /* a completed write is durable only after a flush, or by FUA */
	uint32_t nsid;
	uint32_t lba_bytes;             /* of its format: 512 to 4096; blocks are made of them */
	uint32_t zero_max_blocks;       /* of one NVME_ZERO; 0: the drive has no such command */
	uint32_t deallocate_max_blocks; /* of one NVME_DEALLOCATE; the same */
	bool thin; /* space that it was given back may be others' when it is written again */
	char model[41];
	char serial[21];
	char firmware[9];
	char note[160]; /* what does not work as well as it might here, and why; often "" */
};

/**
 * nvme_open - bring up the drive called `name`
 *
 * `options` may be NULL.  After a failure `err_text` has one line for people, which begins with the
 * name.  A drive has one user: if another process holds a file, the call waits for up to 5 s, since
 * a killed process's last writes hold it for a moment.
 *
 * Owns:    the caller ends it with nvme_close(); `dma` outlives the drive.
 * Thread:  may block; not for a polling thread.  This holds for the whole section.
 * Errors:  -EINVAL a bad name; -ENOENT no such file; -EBUSY in use;
 *          -ENOSPC, -EACCES, ... from the file system; -ENODEV, -EIO, -ETIMEDOUT the
 *          controller does not come up; -EAGAIN it is open for another namespace, and is being
 *          reset; -ENOTSUP we cannot use its namespace.
 */
must_check int nvme_open(struct nvme_drive **out, const char *name, struct nvme_dma *dma,
			 const struct nvme_options *options, char *err_text, size_t err_text_size);

/*
 * nvme_poisons_reads - return true if WEKA_POISON_READS is set: for tests
 *
 * Drives opened from then on overwrite the buffer of each read before they submit it, so that old
 * bytes in the buffer cannot pass for read data.  Reads cost more; off, nothing.
 */
bool nvme_poisons_reads(void);

/* nvme_close - shut the controller down (caches flushed); all queue pairs are destroyed before. */
void nvme_close(struct nvme_drive *drive);

/* nvme_drive_info - properties of the drive; `note` may change when queue pairs are made. */
void nvme_drive_info(const struct nvme_drive *drive, struct nvme_info *info);

/* The drive's report of its own health.  Values that it does not report are UINT64_MAX. */
struct nvme_smart {
	uint32_t warnings; /* bits: spare, temperature, reliability, read-only, backup; 0: good */
	bool has_temperature;
	int32_t celsius;
	uint32_t spare_percent; /* of its spare blocks, that are left */
	uint32_t spare_least_percent;
	uint32_t used_percent; /* of its life, as its maker reckons; may pass 100 */
	uint64_t read_bytes;
	uint64_t written_bytes;
	uint64_t power_hours;
	uint64_t power_cycles;
	uint64_t unsafe_shutdowns;
	uint64_t media_errors;
	uint64_t error_entries;
	uint32_t warm_minutes; /* above its warning temperature, and above its critical one */
	uint32_t hot_minutes;
};

/* nvme_drive_smart - as it was read last, once a minute while the drive is stepped; false: never.
 * Any thread. */
must_check bool nvme_drive_smart(struct nvme_drive *drive, struct nvme_smart *smart);

/* nvme_name_check - 0, or -EINVAL and a line in `err_text`: is this a drive's name at all? */
must_check int nvme_name_check(const char *name, char *err_text, size_t err_text_size);

/* nvme_name_shares - whether these are names of namespaces, or of a namespace, of one controller */
bool nvme_name_shares(const char *a, const char *b);

/**
 * nvme_name_look - could this drive be opened?  As far as that shows without opening it
 *
 * A drive that another process has in use is no error.
 * Errors:  -EINVAL (no drive's name), -ENOENT, -ENODEV, -EACCES, -EBUSY (it has another driver),
 *          with a line in `err_text`.
 */
must_check int nvme_name_look(const char *name, char *err_text, size_t err_text_size);

/* ---- when it goes wrong ---------------------------------------------------------- */

/*
 * Threads that may call a function, when a drive has queue pairs of several threads:
 *
 *	the owner, one thread at a time      nvme_drive_step, _fd, _arm, _disarm, _deadline
 *	a queue pair's thread                nvme_submit, _ring, _poll, nvme_qpair_arm, _disarm, ...
 *	any that may wait, at any time       nvme_qpair_create
 *	the queue pair's, if it may wait     nvme_qpair_stop, nvme_qpair_destroy
 *	any, at any time                     nvme_drive_health, _counts, _smart, _line, _info
 *	the opener, when all have ended      nvme_close
 *
 * One thread owns a drive's admin queue, events and timeouts: it calls nvme_drive_step() in its
 * loop.  A command that does not end is aborted; if that fails, its queue pair is deleted and
 * created again; then the controller is reset.  I/Os that were in flight come back from
 * nvme_poll(), once each, when the controller can no longer write, with -ECANCELED and io->retry.
 * Meanwhile nvme_submit() returns -EAGAIN, and -EHOSTDOWN once that has taken longer than a command
 * may: the drive is away.  The reset is repeated for ever, less and less often, and the drive is
 * used again if the same drive comes back.  -ENODEV: the drive was given up, because the host wants
 * it back, or because it can be neither reset nor asked again.
 *
 * A drive that no thread steps works as well, but a queue pair that fails stays failed.
 */

/**
 * nvme_drive_step - look after the drive: bounded work, never blocks
 *
 * `now_ns` is monotonic.  Returns: true: call again at once.
 *
 * Thread:  the owner's: one at a time; another may take over between two calls.  Other threads may
 *          make, stop and destroy queue pairs meanwhile.
 */
bool nvme_drive_step(struct nvme_drive *drive, uint64_t now_ns);

/* Sleep: readable when the drive has something for nvme_drive_step(), once armed; for epoll. */
int nvme_drive_fd(const struct nvme_drive *drive);
/* Like nvme_qpair_arm() and _disarm().  The owner's. */
must_check bool nvme_drive_arm(struct nvme_drive *drive);
void nvme_drive_disarm(struct nvme_drive *drive);
/* When to step it at the latest, readable or not; UINT64_MAX: idle.  The owner's. */
uint64_t nvme_drive_deadline(struct nvme_drive *drive);

#define NVME_PROOF_BLOCKS 2u

/* The proof that a drive has kept its content: `holds` must accept at least one of these blocks. */
struct nvme_proof {
	uint32_t count;
	uint64_t block[NVME_PROOF_BLOCKS];
	/* Called by the owner's thread, in nvme_drive_step(): neither waits nor allocates. */
	bool (*holds)(const uint8_t of[32], const void *block);
	uint8_t of[32]; /* the user's */
};

#define NVME_WITNESS_BLOCKS 8u

/* The user's present knowledge of a drive's content, beyond its proof. */
struct nvme_witness {
	/* Both are called as `holds` is.  Chooses, at each reset, the blocks that are read. */
	uint32_t (*choose)(void *user, uint64_t block[NVME_WITNESS_BLOCKS]);
	/* Returns NULL, or what is wrong, for people: a constant.  A block is NULL that could not
	 * be read. */
	const char *(*judge)(void *user, const void *const block[NVME_WITNESS_BLOCKS]);
	void *user;
};

/**
 * nvme_drive_prove - believe the drive after a reset only if `proof` holds
 *
 * Another drive, or this one emptied, may answer with the same serial number.  Until the proof has
 * been read no I/O is submitted, and none again; a drive that fails it is away, and is asked again.
 *
 * Thread:  before the drive is stepped by another.
 * Errors:  as nvme_dma_map_file().
 */
must_check int nvme_drive_prove(struct nvme_drive *drive, const struct nvme_proof *proof);

/**
 * nvme_drive_witness - ... and only if `witness` finds nothing wrong; NULL: it is asked no more
 *
 * A drive that nvme_drive_prove() was not called for has no witness.
 *
 * Thread:  the owner's, between two steps.
 */
void nvme_drive_witness(struct nvme_drive *drive, const struct nvme_witness *witness);

enum nvme_health {
	NVME_HEALTH_GOOD,
	NVME_HEALTH_RESETTING, /* I/Os wait                                                     */
	NVME_HEALTH_AWAY,      /* ... for longer than a command may take: they fail, and it is tried
				* again until it comes back */
	NVME_HEALTH_READ_ONLY, /* it was restarted and may have lost unflushed writes: writes and
				* flushes return -EROFS until it is opened again */
	NVME_HEALTH_DEAD,
};

struct nvme_drive_counts {
	uint64_t timeout_count;       /* commands that took too long                 */
	uint64_t abort_count;         /* of these: aborted                           */
	uint64_t queue_restart_count; /* queue pairs deleted and created again       */
	uint64_t reset_count;         /* of the controller, begun                    */
	uint64_t quarantined_bytes;   /* of the driver's memory, never used again    */
};

/* Any thread. */
enum nvme_health nvme_drive_health(struct nvme_drive *drive);
void nvme_drive_counts(struct nvme_drive *drive, struct nvme_drive_counts *counts);

/**
 * nvme_drive_line - return the next line for people: an event of the drive, and the reaction
 *
 * Returns: false: there is no line.
 * Thread:  one, any: the control thread.
 */
must_check bool nvme_drive_line(struct nvme_drive *drive, char *text, size_t text_size);
/* Returns the number of lines so far.  Any thread. */
uint32_t nvme_drive_line_count(const struct nvme_drive *drive);

/* ---- queue pairs --------------------------------------------------------------- */

/*
 * A flush makes durable everything that had completed before it was submitted; needed only if the
 * drive has a volatile cache.  NVME_ZERO and NVME_DEALLOCATE name blocks and no buffer: zeroes are
 * written; the content of deallocated blocks is undefined until they are written again.
 */
enum nvme_op { NVME_READ, NVME_WRITE, NVME_FLUSH, NVME_ZERO, NVME_DEALLOCATE };

/* One I/O.  The caller owns the memory and fills in all but the last part. */
struct nvme_io {
	enum nvme_op op;
	bool fua;         /* a write (zeroes too) is durable when it is done; else ignored */
	uint32_t nblocks; /* 1 .. nvme_qpair_io_blocks_max(); of these ops nvme_info; flush: 0 */
	uint64_t block;   /* the first one */
	uint64_t iova;    /* the buffer, contiguous; a multiple of 4096 is always good */
	void *owner;      /* the caller's; the driver does not look at it */

	int status; /* when polled: 0, or the first -errno among its commands: nvme_status.c */
	uint32_t commands_left; /* the driver's: those that have not completed */
	uint64_t covers;        /* the driver's: cached writes that this flush makes durable */
	/* When status is not 0: */
	bool retry; /* it may well succeed if submitted again: it was aborted, or a reset came */
	bool quarantined; /* the drive could not be stopped: it may still write to the buffer, which
			   * must never be used again */
	uint16_t nvme_status; /* of the first command that failed, as nvme_status_text() takes it;
			       * 0: the driver ended it, without an answer from the drive */
};

/* nvme_status_text - a status for people: its words; type and code are status >> 8 and & 0xff */
const char *nvme_status_text(uint32_t nvme_status);

/**
 * nvme_qpair_create - create a queue pair for one thread
 *
 * At most `depth` - 1 commands are in flight on it; an I/O up to
 * nvme_info.transfer_max_bytes is one command.
 *
 * A reset gives back the I/Os of all queue pairs of a drive, and creates all of them again; it
 * waits until the thread of each has called nvme_poll().
 *
 * Owns:    ended by nvme_qpair_destroy(), when nothing is in flight.
 * Thread:  any that may wait, which may hand it on; also while others create or use theirs, and the
 *          drive's owner steps it.  If the thread has another queue pair on the same drive, a reset
 *          waits until this call ends.
 * Errors:  -EINVAL a depth out of range; -ENOSPC the controller grants no more queue
 *          pairs; -ENOMEM; -EAGAIN the drive is being reset; -ENODEV it was given up;
 *          -EIO, -ETIMEDOUT the controller.
 */
must_check int nvme_qpair_create(struct nvme_drive *drive, uint32_t depth, struct nvme_qpair **out);
void nvme_qpair_destroy(struct nvme_qpair *qp);

/**
 * nvme_qpair_stop - take the queues away from the controller
 *
 * For a queue pair that has failed, or whose I/Os nobody wants any more.  When this
 * returns the controller touches no buffer; every I/O in flight comes back from
 * nvme_poll(), once, with -ECANCELED or its own status.  A reset that is under way gives it back
 * too; one that does not within 5 s, or has nobody to step it but this thread, and a drive that
 * does not give the queues back: these drives are stopped altogether, and dead from then on.
 *
 * Thread:  the queue pair's, or any when nobody polls it any more.  May block; others may step the
 *          drive, and use theirs, meanwhile.
 */
void nvme_qpair_stop(struct nvme_qpair *qp);

/* The largest nvme_io that fits: NVME_IO_BLOCKS_MAX, unless depth or drive are very small. */
uint32_t nvme_qpair_io_blocks_max(const struct nvme_qpair *qp);

/* Returns how many submitted I/Os nvme_poll() has not returned yet. */
uint32_t nvme_qpair_in_flight(const struct nvme_qpair *qp);

/**
 * nvme_submit - put an I/O on the submission queue
 *
 * The device sees it at the next nvme_ring().  An I/O longer than the drive's limit is
 * split; it comes back once, when its last command has completed.
 *
 * Owns:    `io` and its buffer belong to the driver until nvme_poll() returns `io`.
 * Thread:  the queue pair's.  Never blocks.
 * Errors:  -EAGAIN when its commands do not fit, or the drive is being reset: poll, try again.
 *          -EHOSTDOWN it is away; -ENODEV it was given up; -EROFS it is read-only now (enum
 *          nvme_health).
 *          -EIO the queue pair was stopped, or has failed and nobody steps the drive.
 */
must_check int nvme_submit(struct nvme_qpair *qp, struct nvme_io *io);

/* nvme_ring - tell the device of all that was submitted since the last ring. */
void nvme_ring(struct nvme_qpair *qp);

/**
 * nvme_poll - collect finished I/Os
 *
 * Fills done[0 .. returned) with at most `done_max` I/Os, oldest completion first.
 *
 * Owns:    each returned I/O is the caller's again, its `status` set.
 * Thread:  the queue pair's.  Never blocks; 0 means that nothing has finished.
 */
must_check uint32_t nvme_poll(struct nvme_qpair *qp, struct nvme_io **done, uint32_t done_max);

/**
 * nvme_move - let `to`, a copy of `from`, take the place of an I/O in flight
 *
 * nvme_poll() will return `to` in its place, and the driver forgets `from`.
 *
 * Owns:    as after nvme_submit(`to`).  The buffer is the same.
 * Thread:  the queue pair's.  It looks at each command in flight.
 * Returns: false: `from` is not in flight.
 */
must_check bool nvme_move(struct nvme_qpair *qp, const struct nvme_io *from, struct nvme_io *to);

/* nvme_qpair_is_away - whether nvme_submit() says -EHOSTDOWN */
bool nvme_qpair_is_away(const struct nvme_qpair *qp);

/* nvme_qpair_ordered - whether nvme_poll() is due with nothing in flight: its drive is being reset
 */
bool nvme_qpair_ordered(const struct nvme_qpair *qp);

/* ---- sleep --------------------------------------------------------------------- */

/* nvme_qpair_fd - readable when an armed queue pair has something to poll; for epoll */
int nvme_qpair_fd(const struct nvme_qpair *qp);

/**
 * nvme_qpair_arm - before this thread sleeps: let completions wake it through the fd
 *
 * Returns false when there is, or may soon be, something to poll: do not sleep then.
 * (epoll_wait may end with EINTR when a completion arrives: poll then, as if woken.)
 *
 * Thread:  the queue pair's.
 */
must_check bool nvme_qpair_arm(struct nvme_qpair *qp);

/* nvme_qpair_disarm - after arm, slept or not: completions are silent again, the fd is drained. */
void nvme_qpair_disarm(struct nvme_qpair *qp);

/* ---- counters ------------------------------------------------------------------ */

struct nvme_stats {
	uint64_t command_count;      /* submitted */
	uint64_t ring_count;         /* doorbells, or their words in memory */
	uint64_t error_count;        /* commands that completed with an error */
	uint64_t soft_copied_bytes;  /* by a soft controller's CPU: mem: drives */
	uint64_t soft_through_bytes; /* of these: read with stores through the caches */
	uint64_t syscall_count;      /* by a soft controller: file: drives */
};

/* nvme_qpair_stats - of this queue pair since its creation.  The queue pair's thread. */
void nvme_qpair_stats(const struct nvme_qpair *qp, struct nvme_stats *stats);

#endif
