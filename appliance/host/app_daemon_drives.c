/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Drives that come and leave while the store serves.  drive[] and conf.drive[] have them by place:
 *
 *   0 .. store_drives - 1         the store's, by its numbers; NULL: gone, or missing
 *   store_drives .. ndrives - 1   open and offered to the store, in the order of the configuration
 *
 *             the first offered one                      0
 *   offered ------------------------> adding (one) ----------> the store's --- empty ---> NULL
 *                                       ^   | an error
 *                                SIGHUP |   v
 *                                      no_more, and has_queues if the cores have its queue pairs
 *
 *  (1) A place keeps its drive's number for ever, so drives are added one after the other, each at
 *      place store_drives, and one that leaves makes its place NULL
 *      [e2e_grow, e2e_drain].
 *  (2) With has_queues the store has refused the drive: only the cores may look at it, and another
 *      try uses the queue pairs that they have.
 */
#include "appliance/host/app_daemon.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>

/* Returns the number, plus 1, of the drive of this store that the offered one replaces, or 0. */
static uint32_t replaced(struct app_daemon *d, const struct meta_offer *offer)
{
	uint8_t uuid[16];

	meta_store_uuid(app_core_meta(d->run.core), uuid);
	if (!offer->replaces || memcmp(uuid, offer->uuid, sizeof(uuid)) != 0)
		return 0;
	log_info("%s: takes the place of drive %u, which is drained from then on",
		 d->conf.drive[d->store_drives], offer->drive);
	return offer->drive + 1;
}

/* Gives the first offered drive to the cores, which add it to the store. */
static int add_drive(struct app_daemon *d)
{
	struct nvme_drive *drive = d->drive[d->store_drives];
	struct app_new_drive new = { .info = { 0 } };
	struct app_found found;
	int err = app_drive_look(drive, d->dma, &found);

	if (!err && found.kind != APP_FOUND_OFFER)
		err = -ENODEV;
	if (!err)
		err = app_run_queues(&d->run, drive, (uint32_t)d->conf.queue_depth, &new);
	if (err)
		return err;
	app_drive_info(drive, d->conf.drive[d->store_drives], found.offer.tag,
		       app_conf_tell(&d->conf), &new.info);
	new.info.replaces = replaced(d, &found.offer);
	new.info.domain = app_domains_of(&d->conf.domains, d->conf.drive[d->store_drives]);
	new.number = d->store_drives;
	log_info("%s: being added to the store", d->conf.drive[d->store_drives]);
	app_run_drive(&d->run, &new);
	d->tried = new;
	d->adding = true;
	return 0;
}

/* Tries again to add a drive that the store has refused: (2). */
static int add_again(struct app_daemon *d)
{
	ASSERT(d->has_queues && !d->adding); /* (2) */
	log_info("%s: being added to the store", d->conf.drive[d->store_drives]);
	app_run_drive_again(&d->run, &d->tried);
	d->adding = true;
	return 0;
}

void app_daemon_add_drives(struct app_daemon *d)
{
	int err = d->adding ? app_run_drive_status(&d->run) : 0;

	if (err == -EAGAIN)
		return;
	if (d->adding)
		d->has_queues = err != 0;
	if (d->adding && !err) {
		log_info("%s: is drive %u of the store now", d->conf.drive[d->store_drives],
			 d->store_drives);
		d->store_drives++;
	}
	d->adding = false;
	if (!err && !d->no_more && d->store_drives < d->ndrives)
		err = d->has_queues ? add_again(d) : add_drive(d);
	if (!err || d->no_more)
		return;
	d->no_more = d->failed = true;
	log_error("WEKA-213: %s: cannot be added to the store: %s; SIGHUP or a start tries again",
		  d->conf.drive[d->store_drives],
		  err == -ENOSPC  ? "it is too small for what lives on the drive that it replaces"
		  : err == -EPERM ? "without the drive that it replaces, blocks could not be in as "
				    "many failure domains as they have copies: change its domain"
				  : strerror(-err));
}

void app_daemon_keep_numbers(struct app_daemon *d)
{
	const uint32_t places = meta_drives(app_core_meta(d->run.core));
	const uint32_t shift = places - d->store_drives;

	if (d->ndrives + shift > APP_CONF_DRIVES_MAX) {
		d->no_more = d->ndrives > d->store_drives;
		return;
	}
	for (uint32_t i = d->ndrives; shift && i-- > d->store_drives;) {
		d->drive[i + shift] = d->drive[i];
		memcpy(d->conf.drive[i + shift], d->conf.drive[i], APP_CONF_TEXT_MAX);
		d->drive[i] = NULL;
		d->conf.drive[i][0] = '\0';
	}
	d->ndrives += shift;
	d->store_drives = places;
}

void app_daemon_close_gone(struct app_daemon *d)
{
	int i;

	while ((i = app_run_drive_gone(&d->run)) >= 0) {
		if ((uint32_t)i >= d->ndrives || !d->drive[i])
			continue;
		log_info("%s: empty and removed from the store; its line in the configuration can "
			 "be removed",
			 d->conf.drive[i]);
		nvme_close(d->drive[i]);
		d->drive[i] = NULL;
		d->conf.drive[i][0] = '\0';
	}
}
