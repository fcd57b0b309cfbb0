/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Drives that come to a world's store while it serves, and that leave it: what the control thread
 * and main() do of it (app_run.c), by steps of a turn.
 *
 *   offered (its two ends say so) -> listed in the configuration -> a queue pair for each core,
 *   core 0's last -> the store has it: app_core_drive_add() -> joined
 *
 * A start looks at all that is listed, as shipped (app_drives_sort): what has a superblock is
 * mounted, what is offered is added behind the mount.  Drives come one at a time, and each has the
 * number that it has among sim[].
 */
#include "test/sim/sim_drives.h"
#include "meta/meta_set.h"
#include "test/lib/sim_nvme_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

uint64_t sim_drives_added;

static char names[META_DRIVES_MAX][APP_CONF_TEXT_MAX];

static uint32_t next_place(const struct sim_world *w)
{
	return meta_drives(app_core_meta(w->core));
}

/* While on, the drives answer without delays and faults: app_drives_sort() waits for them, and
 * simulated time does not advance meanwhile. */
static void hurry(struct sim_world *w, bool on, struct sim_faults was[SIM_DRIVES_MAX])
{
	for (uint32_t d = 0; d < w->sims; d++) {
		if (on)
			was[d] = w->sim[d]->faults;
		sim_drive_faults(w->sim[d], on ? &(struct sim_faults){ 0 } : &was[d]);
	}
}

/* ---- a start ------------------------------------------------------------------------------ */

/* The newest set of drives that any superblock names. */
static struct meta_set newest_set(const struct sim_world *w)
{
	struct meta_set newest = { 0 }, set;

	for (uint32_t d = 0; d < w->sims; d++)
		for (uint32_t i = 0; i < 2; i++) {
			const uint64_t end = i ? sim_drive_bytes(w->sim[d]) - BLOCK_SIZE : 0;

			if (meta_super_set(sim_drive_durable(w->sim[d]) + end, &set) &&
			    set.number > newest.number)
				newest = set;
		}
	return newest;
}

/* Its store has let it go: it need not know that itself. */
static bool is_gone(const struct sim_world *w, uint32_t d)
{
	const uint8_t *image = sim_drive_durable(w->sim[d]);
	const uint64_t end[2] = { 0, sim_drive_bytes(w->sim[d]) - BLOCK_SIZE };
	const struct meta_set newest = newest_set(w);
	uint8_t uuid[16];
	uint32_t place;
	bool gone[2] = { false, false };

	for (uint32_t i = 0; i < 2; i++)
		if (meta_super_place(image + end[i], uuid, &place, &gone[i]) &&
		    place < newest.ndrives)
			gone[i] |= newest.gone[place];
	return gone[0] || gone[1];
}

/* Nothing that is listed is left out, but for those that are gone: what a power cut did to one that
 * was being added does not keep it from being added. */
static int none_is_missed(struct sim_world *w, struct nvme_drive *const *given,
			  struct nvme_drive *const *drive)
{
	for (uint32_t d = 0; d < w->sims; d++) {
		bool there = false;

		for (uint32_t i = 0; i < SIM_DRIVES_MAX; i++)
			there |= given[d] && drive[i] == given[d];
		if (!given[d] || there || is_gone(w, d))
			continue;
		snprintf(w->why, sizeof(w->why), "drive %u was being added, and is not used", d);
		return -EUCLEAN;
	}
	return 0;
}

int sim_drives_open(struct sim_world *w)
{
	struct sim_faults was[SIM_DRIVES_MAX];
	struct nvme_drive *drive[META_DRIVES_MAX] = { NULL }, *given[SIM_DRIVES_MAX] = { NULL };
	uint32_t count = 0;
	int err;

	for (uint32_t d = 0; d < w->sims; d++) {
		if (!w->listed[d] || w->pulled[d])
			continue;
		snprintf(names[count], sizeof(names[count]), "sim:d%u", d);
		sim_drive_open(w->sim[d], w->dma, &given[d]);
		drive[count++] = given[d];
	}
	hurry(w, true, was);
	err = app_drives_sort(drive, names, &count, w->dma, &w->places, w->why, sizeof(w->why));
	hurry(w, false, was);
	ASSERT(count <= SIM_DRIVES_MAX);
	memcpy(w->drive, drive, sizeof(w->drive));
	return err ? err : none_is_missed(w, given, drive);
}

/* Takes the drive that is offered to the store, if any: the first one behind the store's own
 * drives, which keep their numbers. */
static struct nvme_drive *take_offered(struct sim_world *w)
{
	struct nvme_drive *offered = w->places < SIM_DRIVES_MAX ? w->drive[w->places] : NULL;

	if (offered)
		w->drive[w->places] = NULL;
	w->places = next_place(w);
	return offered;
}

/* ---- one more ----------------------------------------------------------------------------- */

static void join_begin(struct sim_world *w, struct nvme_drive *drive)
{
	struct sim_join *j = &w->join;
	struct sim_faults was[SIM_DRIVES_MAX];
	struct app_found found;
	char name[16];
	int err;

	hurry(w, true, was);
	err = app_drive_look(drive, w->dma, &found);
	hurry(w, false, was);
	*j = (struct sim_join){ .looked = true, .number = next_place(w), .status = -EAGAIN };
	w->drive[j->number] = drive;
	if (err || found.kind != APP_FOUND_OFFER) { /* the power fails */
		j->status = -ENODEV;
		return;
	}
	snprintf(name, sizeof(name), "sim:d%u", j->number);
	app_drive_info(drive, name, found.offer.tag, APP_TELL_OWN, &j->info);
	for (uint32_t c = 0; c < w->ncores; c++)
		ASSERT(nvme_qpair_create(drive, SIM_QUEUE_DEPTH, &j->qp[c]) == 0);
	j->under_way = true;
}

static bool others_have(const struct sim_world *w)
{
	for (uint32_t c = 1; c < w->ncores; c++)
		if (w->join.qp[c])
			return false;
	return true;
}

static void give(struct sim_world *w, uint32_t c)
{
	struct sim_join *j = &w->join;

	app_core_drive(w->each[c], j->number, j->qp[c], &j->info);
	j->qp[c] = NULL;
}

static void join_step(struct sim_world *w)
{
	struct sim_join *j = &w->join;

	for (uint32_t c = 1; c < w->ncores; c++)
		if (j->qp[c] && rand_below(&w->order, 4) == 0)
			give(w, c);
	if (!others_have(w))
		return;
	if (j->qp[0]) {
		give(w, 0);
		j->status = app_core_drive_add(w->core, &j->info);
		if (!j->status)
			j->status = -EAGAIN;
	} else if (j->status == -EAGAIN) {
		j->status = app_core_drive_status(w->core);
	}
	j->under_way = j->status == -EAGAIN;
	if (j->status)
		return;
	w->joined |= 1u << j->number;
	sim_drives_added++;
}

int sim_drives_offer(struct sim_world *w)
{
	const uint32_t d = next_place(w);
	struct sim_faults was[SIM_DRIVES_MAX];
	struct nvme_drive *drive;
	int err;

	if (w->power.off || w->join.under_way || w->join.status)
		return -EBUSY; /* what could not be added is tried by the next start */
	if (d >= w->sims)
		return -ENOSPC;
	ASSERT(!w->drive[d]);
	sim_drive_open(w->sim[d], w->dma, &drive);
	hurry(w, true, was);
	err = app_drive_offer(drive, w->dma, &(struct meta_offer){ .tag = rand_u64(&w->order) });
	hurry(w, false, was);
	if (err) {
		nvme_close(drive);
		return err;
	}
	w->listed[d] = true;
	w->left_out[d] = false;
	join_begin(w, drive);
	return 0;
}

/* ---- one less ----------------------------------------------------------------------------- */

static bool leaves(struct app_core *core, uint32_t d)
{
	struct nvme_qpair *qp;

	if (!app_core_has_drive(core, d))
		return true;
	qp = app_core_drive_leave(core, d);
	if (!qp)
		return false;
	nvme_qpair_stop(qp);
	nvme_qpair_destroy(qp);
	return true;
}

/* The store's core is the last. */
static void leave_step(struct sim_world *w, uint32_t d)
{
	for (uint32_t c = w->ncores; c-- > 0;)
		if (rand_below(&w->order, 4) == 0 || !leaves(w->each[c], d))
			return;
	nvme_close(w->drive[d]);
	w->drive[d] = NULL;
	w->left |= 1u << d;
}

void sim_drives_turn(struct sim_world *w)
{
	uint64_t gone;

	if (w->power.off || !w->serving)
		return;
	if (w->sims > w->cfg.ndrives && !w->join.looked) {
		struct nvme_drive *offered = take_offered(w);

		w->joined = (1u << w->places) - 1; /* a mount has settled it */
		if (offered)
			join_begin(w, offered);
		w->join.looked = true;
	}
	if (w->join.under_way)
		join_step(w);
	gone = app_core_drives_gone(w->core);
	for (uint32_t d = 0; gone >> d; d++)
		if (gone >> d & 1 && w->drive[d])
			leave_step(w, d);
}

void sim_drives_down(struct sim_world *w)
{
	for (uint32_t c = 0; c < w->ncores; c++)
		if (w->join.qp[c]) {
			nvme_qpair_stop(w->join.qp[c]);
			nvme_qpair_destroy(w->join.qp[c]);
		}
	memset(&w->join, 0, sizeof(w->join));
	w->left = 0;
}
