/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The list of damaged files (app_damaged.c), and failing drives (app_ailing.c), for the rest of a
 * core.  Part of app_op.h. */
#ifndef APP_DAMAGED_H
#define APP_DAMAGED_H

#include "appliance/core/app_core.h"
#include "base/spsc.h"

struct app_op;

/* Blocks of files that a read has found bad: app_damaged.c. */
#define APP_SUSPECTS 256u
struct app_suspect {
	struct meta_handle file;
	uint64_t block, nblocks;
};
struct app_suspects {
	struct spsc_ends ends; /* from the core to the store's */
	struct app_suspect slot[APP_SUSPECTS];
};

/* ---- app_damaged.c: the list of damaged files ----------------------------------------------- */

/* Notes that a read of these blocks of the file has failed, or that a client says that they are
 * damaged.  Any core.  Returns false if the ring to the store's core is full. */
bool app_suspect(struct app_core *core, const struct meta_handle *file, uint64_t block,
		 uint64_t nblocks);
/* Gives the scrub what all cores have noted.  On the store's core. */
void app_suspects_take(struct app_core *core, struct meta_scrub *of);
/* A client's request for a page of the list, on the store's core.  app_damage_ask() queues it.  The
 * scrub's operation fetches the entries, one at a time: app_damage_begin() starts the fetch of the
 * next entry into *entry, if a request waits; app_damage_listed() adds the entry to the page, and
 * answers when the page is full or the list ends; app_damage_stop() answers all requests when the
 * scrub ends. */
void app_damage_ask(struct app_core *core, struct app_op *op);
void app_damage_begin(struct app_core *core, struct meta_scrub *of, struct meta_damaged *entry);
void app_damage_listed(struct app_core *core, struct meta_scrub *of,
		       const struct meta_damaged *entry);
void app_damage_stop(struct app_core *core, struct meta_scrub *of);
enum app_next app_damaged_step(struct app_op *op);
void app_damaged_answer(struct app_op *op);

/* FAB_LOG: app_log.c. */
void app_log_begin(struct app_op *op);
enum app_next app_log_step(struct app_op *op);
void app_log_answer(struct app_op *op);
must_check int app_report_take(struct app_op *op); /* FAB_REPORT: app_report.c */

/* ---- app_ailing.c: drives that fail, on the core that has the store ------------------------ */

/* Sends new errors of this core's drives to the store's core. */
void app_ailing_tell(struct app_core *core);
/* Drives whose blocks cannot be reached, by their bits: failed, or given up by the driver. */
uint64_t app_ailing_unreachable(const struct app_core *core);
/* Returns true if a probe is due: op->runs and op->nblocks say what to read. */
must_check bool app_ailing_probe(struct app_op *op, uint32_t *drive);
/* Ends the probe of a drive. */
void app_ailing_probed(struct app_op *op, uint32_t drive);

#endif
