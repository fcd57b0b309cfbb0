/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One core of the appliance: one thread's loop over the fabric, the store and the drives, and all
 * that it owns.  It reads no clock, never waits and takes no memory once created, so that a test
 * can simulate clock, network and drives.
 *
 *	app_core_create(&core, &cfg, why);
 *	while (app_core_boot_status(core) == -EAGAIN)
 *		app_core_step(core, now_ns, wall_ns);
 *	...
 *	app_core_stop(core);
 *	while (app_core_stop_status(core) == -EAGAIN)
 *		app_core_step(core, now_ns, wall_ns);
 *	app_core_destroy(core);
 */
#ifndef APP_CORE_H
#define APP_CORE_H

#include "appliance/conf/app_conf.h"
#include "fabric/fab.h"
#include "meta/meta.h"
#include "nvme/nvme.h"

struct app_ask;
struct app_core;
struct app_cores;
struct app_full;
struct app_lines;
struct app_faults;
struct app_missing;

#define APP_WHY 512u /* enough for any line that these calls write */

enum app_boot { APP_BOOT_MOUNT, APP_BOOT_FORMAT };

struct app_core_cfg {
	struct nvme_dma *dma;
	struct nvme_drive **drive; /* open, in the order of the store; those to come, too */
	char (*drive_name)[APP_CONF_TEXT_MAX]; /* NULL: they have none */
	const struct app_domains *domains;     /* by these names; NULL: they have none */
	uint32_t ndrives;
	struct fab_server *srv; /* NULL: no clients (format, check) */
	enum app_boot boot;
	/* Limits; 0: the defaults of app_conf.c. */
	uint64_t cache_bytes;
	uint64_t staging_bytes;
	uint32_t early_pages; /* the store's: meta.h */
	uint32_t ops_max;
	uint32_t spare_percent;  /* the store's: meta.h; 0: none */
	uint32_t spare_drives;   /* ... */
	uint64_t rebuild_rate;   /* bytes a second; 0: no bound */
	uint32_t hedge_reads;    /* multiple of a drive's usual latency: app_hedge.c; 0: off */
	uint64_t hedge_floor_ns; /* 0: APP_HEDGE_FLOOR_NS; tests set it */
	uint64_t told_missing;   /* drives, by bits: the operator says that they are */
	uint32_t copies;         /* format: of each block, on as many drives; 0: one */
	uint32_t fold;           /* format: zones of a fold, of several copies; 0: none is made */
	uint32_t spread_at;      /* the store's: meta.h; tests set it */
	uint32_t lend_after;     /* the same                          */
	uint32_t batch_in_flight;
	uint32_t open_puts_max;
	uint32_t opens_max; /* files that clients may have open on this core: app_hold.c */
	uint32_t queue_depth;
	uint32_t queue_max; /* requests that wait to be begun */
	/* At format only: */
	uint32_t nshards;
	uint64_t secret;
	uint8_t uuid[16];
	int64_t wall_ns;
	/* One of several: number `index`, with clients of its own (srv).  0 has the store and looks
	 * after the drives.  NULL: alone. */
	struct app_cores *cores;
	uint32_t index;
	const struct app_account *account; /* for the status; NULL: none is kept */
	uint64_t scrub_rate;               /* bytes a second; 0: no scrub        */
	enum app_tell deallocate;
	/* how long a failed write of the store is repeated (app_patience.c); 0: not at all */
	uint64_t patience_ns;
	/* app_core_wants() reports it, and the caller restarts or calls app_core_refuse(); clients
	 * get no answer meanwhile.  Otherwise the store has failed. */
	bool anew;
	/* The drives cannot be written: the store is mounted from the readable ones, and takes no
	 * changes. */
	bool read_only;
	uint64_t overlay_bytes; /* limit of its own writes in memory; 0: APP_OVERLAY_MAX */
	/* The drive that the store serves without: drive[] is NULL at its place, and read_only is
	 * set.  NULL: no drive is missing. */
	const struct app_missing *missing;
	struct app_lines *lines;   /* its lines for people; NULL: none */
	struct app_faults *faults; /* of drives, for the log, one for each core; the same */
	struct app_full *full;     /* that writers are refused; the same */
	struct app_ask *ask;       /* the asker of snapshots; NULL: none */
	/* Memory for the store and for staging, app_core_memory_needed() bytes, 4096-aligned and
	 * mapped in `dma` at `memory_iova`; NULL: the core takes and maps its own. */
	void *memory;
	uint64_t memory_iova;
};

/* Why such limits are refused, as one line, or NULL: to be asked before drives are opened. */
const char *app_core_cfg_problem(const struct app_core_cfg *cfg);

/* For app_core_cfg.memory; 0: cfg cannot be. */
uint64_t app_core_memory_needed(const struct app_core_cfg *cfg);

/* On the heap: tables of the files that clients may have open, of all `cores` and the store. */
uint64_t app_core_holds_bytes(const struct app_core_cfg *cfg, uint32_t cores);

/* Returns the memory that drives need without such memory, including their own queues. */
uint64_t app_core_dma_needed(const struct app_core_cfg *cfg);

/**
 * app_core_create - take all memory and queue pairs, begin to format or to mount
 *
 * Owns:    dma, drives and server stay the caller's and outlive the core.  `why` (APP_WHY
 *          bytes) gets one line on failure.
 * Errors:  -ENOMEM, -EINVAL, what nvme_qpair_create() says.
 */
must_check int app_core_create(struct app_core **out, const struct app_core_cfg *cfg, char *why);

/**
 * app_cores_create - what `count` cores, each with ops_max at most, need to talk to each other
 *
 * All are created before any is stepped, each is stopped, and all have been stopped (or
 * abandoned) before the first is destroyed; number 0 is created and destroyed first.
 * Owns:    outlives the cores.
 * Errors:  -ENOMEM, what eventfd() says.
 */
must_check int app_cores_create(struct app_cores **out, uint32_t count, uint32_t ops_max);
void app_cores_destroy(struct app_cores *cores);

/* Nothing may be in flight to the drives any more: after app_core_stop_status(), or -- power lost
 * -- when the drives are gone too: app_core_abandon() first. */
void app_core_destroy(struct app_core *core);

/* The queue pairs are stopped and destroyed, whatever was in flight: for a failed boot, and for a
 * simulated power cut. */
void app_core_abandon(struct app_core *core);

/**
 * app_core_step - one turn of the loop: bounded work, no waiting
 *
 * now_ns is monotonic, wall_ns since 1970.
 * Returns: true: call again at once; false: nothing to do until one of the fds of
 *          app_core_arm() wakes or app_core_deadline() passes.
 */
bool app_core_step(struct app_core *core, uint64_t now_ns, uint64_t wall_ns);

/* -EAGAIN: not yet; 0: serving; else why not, with a line in app_core_error(). */
int app_core_boot_status(const struct app_core *core);

enum app_wants {
	APP_WANTS_NOTHING,
	APP_WANTS_ANEW, /* to restart: the drives must be opened again             */
	APP_WANTS_ROOM, /* the same, to read: they cannot be written, for some time */
};
/* For the core that has the store.  Changes wait until app_core_refuse(). */
enum app_wants app_core_wants(const struct app_core *core);
/* On every core: the daemon cannot restart; fails the writes that were kept. */
void app_core_refuse(struct app_core *core);

/* Answers open requests, closes all sessions, checkpoints.  -EAGAIN: not yet; 0, or the error. */
void app_core_stop(struct app_core *core);
int app_core_stop_status(const struct app_core *core);
const char *app_core_error(const struct app_core *core);

/**
 * app_core_arm - about to sleep: make the fds readable when there is something to do
 *
 * Returns: false: there may be something already: step again.  Else app_core_disarm() after
 *          waking.  app_core_fds() are the same for the life of the core.
 */
must_check bool app_core_arm(struct app_core *core);
void app_core_disarm(struct app_core *core);
/* Only the scrub waits for the drives, and clients have asked for nothing lately: sleep at once. */
bool app_core_scrubs_alone(const struct app_core *core);
uint32_t app_core_fds(const struct app_core *core, int *fds, uint32_t fds_max);
uint64_t app_core_deadline(const struct app_core *core); /* UINT64_MAX: none */

/* Its thread has slept for so long, and polled for so long without finding anything. */
void app_core_rested(struct app_core *core, uint64_t slept_ns, uint64_t spun_ns);

/* Returns the number of lines for people so far: nvme_drive_line(), app_lines_take(). */
uint32_t app_core_lines(const struct app_core *core);

/**
 * app_core_drive - add a drive, as number d, with a queue pair for this core
 *
 * cfg.drive[d] has it already.  Call it for all cores before the first's app_core_drive_add().
 */
void app_core_drive(struct app_core *core, uint32_t d, struct nvme_qpair *qp,
		    const struct meta_drive_info *info);
/* Returns the drives that the store has removed, as bits: 0 if another core has the store. */
uint64_t app_core_drives_gone(const struct app_core *core);
bool app_core_has_drive(const struct app_core *core, uint32_t d);
/* Returns the queue pair of a removed drive, which is the caller's again; NULL: I/O is still in
 * flight.  cfg.drive[d] is not used any more. */
must_check struct nvme_qpair *app_core_drive_leave(struct app_core *core, uint32_t d);
/* The store's core: adds the drive to the store, as meta_drive_add().  Allocates. */
must_check int app_core_drive_add(struct app_core *core, const struct meta_drive_info *info);
int app_core_drive_status(const struct app_core *core); /* as meta_drive_add_status() */

/* The store's core: changes what the configuration says, while it serves. */
void app_core_rebuild(struct app_core *core, uint64_t rate, uint32_t spare_drives);

/* Returns the store, for checks and tests, between steps.  NULL: another core has it. */
struct meta *app_core_meta(struct app_core *core);

struct app_core_stat {
	uint64_t turns;
	uint64_t requests[FAB_TYPE_END]; /* by type, begun                              */
	uint64_t items;                  /* of batches                                  */
	uint64_t errors;                 /* requests and items answered with an error   */
	uint64_t not_found;              /* ... with that there is no such thing        */
	uint64_t declined; /* ... with that it is not as was asked: there already, not empty */
	uint64_t cancelled;
	uint64_t busy;                 /* requests told to come again later           */
	uint64_t read_bytes;           /* of files, to clients                        */
	uint64_t written_bytes;        /* of files, from clients                      */
	uint64_t payload_copied_bytes; /* read payload moved by this CPU: stays 0     */
	uint64_t inline_bytes;         /* of files that lie in the index              */
	uint64_t merged_blocks;        /* partial writes                              */
	uint64_t bad_sums;             /* payload that did not fit its checksum       */
	uint64_t bad_blocks;           /* blocks of drives that did not fit theirs    */
	uint64_t staging_waits;
	uint64_t busy_file_waits;
	uint64_t drive_read_bytes;
	uint64_t drive_written_bytes;
	uint64_t drive_errors;
	uint64_t drive_retries;      /* I/Os submitted again after a reset             */
	uint64_t scrub_healed;       /* copies of pages and blocks, from the others    */
	uint64_t turned_reads;       /* answered from other copies, after an error     */
	uint64_t staging_lost_bytes; /* a drive that nothing stops may still write there */
	uint64_t sleeps;             /* app_core_arm() that said yes                */
	uint64_t slept_ns;           /* app_core_rested()                           */
	uint64_t spun_ns;            /* the same: it polled, and found nothing      */
	uint64_t planned;            /* plans of its own, on another core's store   */
	uint64_t made;               /* changes of its own, in lent shards           */
	uint64_t asked;              /* questions to the store's core               */
	uint64_t served;             /* questions of other cores                    */
	uint64_t bells;              /* it woke another core                        */
	/* The scrub's; of the core that has the store. */
	uint64_t scrub_rate; /* bytes a second; 0: no scrub                  */
	uint64_t scrub_rounds;
	uint64_t scrub_pages;     /* found good, in all rounds                    */
	uint64_t scrub_blocks;    /* blocks of files found good                   */
	uint64_t scrub_bad_pages; /* of this round or of the last, the more       */
	uint64_t scrub_bad_blocks;
	uint64_t scrub_unreachable_pages; /* on drives that have failed or are dead; likewise */
	uint64_t scrub_unreachable_blocks;
	/* The list of damaged files, as it is now; the same core's. */
	uint64_t damaged_files, damaged_blocks, damaged_pages;
	uint64_t unreachable_files, unreachable_blocks;
	uint64_t damage_complete;
	uint64_t scrub_permille; /* of this round                                */
	uint64_t scrub_ended_ns; /* the last one, since 1970; 0: none has        */
};
void app_core_stat(const struct app_core *core, struct app_core_stat *out);
/* The scrub's last line; "": it has found nothing yet. */
const char *app_core_scrub_line(const struct app_core *core);

/* ---- the control thread's services for clients ---------------------------------------- */

/**
 * app_control_step - accept clients, map and unmap their memory for the drives; never waits
 *
 * Thread:  control; the simulation runs it on its only one.
 * Returns: true: call again at once.
 */
bool app_control_step(struct fab_server *srv, struct nvme_dma *dma, uint64_t now_ns);

#endif
