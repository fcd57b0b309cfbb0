/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Alarms: what is wrong now, and what to do.
 *
 * An alarm has no history.  It is raised by the snapshot alone, and ends with its cause.
 * Prometheus has the alarms that need a rate, such as a store that fills: weka.rules.yml.
 */
#include "appliance/core/app_alarms.h"
#include "base/crc32c.h"
#include "base/num.h"

#include <stdarg.h>
#include <stdio.h>

struct alarms {
	struct app_alarm *out;
	uint32_t count;
	bool critical; /* of this pass */
};

__attribute__((format(printf, 5, 6))) static void raise_alarm(struct alarms *a, const char *id,
							      bool critical, const char *action,
							      const char *fmt, ...)
{
	struct app_alarm *alarm = &a->out[a->count];
	va_list args;

	ASSERT(a->count <= APP_ALARMS_MAX && id && action);
	if (critical != a->critical || a->count == APP_ALARMS_MAX)
		return;
	*alarm = (struct app_alarm){ .id = id, .critical = critical, .action = action };
	va_start(args, fmt);
	(void)vsnprintf(alarm->text, sizeof(alarm->text), fmt, args);
	va_end(args);
	a->count++;
}

/* ---- the store --------------------------------------------------------------------------- */

static uint32_t serving(const struct app_snapshot *s)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < s->ndrives; i++)
		count += s->drive[i].is_there && !s->drive[i].store.draining &&
			 !s->drive[i].store.gone && !s->drive[i].store.lost;
	ASSERT(count <= s->ndrives);
	return count;
}

static void of_changes(struct alarms *a, const struct app_snapshot *s)
{
	ASSERT(s->ndrives <= META_DRIVES_MAX);
	if (s->has_missing)
		raise_alarm(a, "read_only_missing", true,
			    "Put the drive back, take allow_missing out of the configuration, and "
			    "start again.",
			    "Read only: drive %u is missing", s->missing_drive);
	else if (s->store_health)
		raise_alarm(a, "read_only", true,
			    "The log says which drive refuses writes; the store goes on by itself "
			    "when they can be written.",
			    "The store takes no changes");
	if (s->statfs.log_copies == 1 && serving(s) > 1)
		raise_alarm(
			a, "log_on_one_drive", false,
			"It ends with the next change, unless a second drive has no empty zone: "
			"then make room.",
			"The log is on one drive only");
}

static void of_space(struct alarms *a, const struct app_snapshot *s)
{
	const uint64_t all = s->statfs.blocks_total, left = s->statfs.blocks_free;

	ASSERT(left <= all || all == 0);
	if (all && left < all / 50)
		raise_alarm(
			a, "space_out", true,
			"Remove data: deleting always works. Or add a drive: wekactl drives add.",
			"The store is full: %llu MB are free",
			(unsigned long long)(left * BLOCK_SIZE / 1000000));
	else if (all && left < all / 10)
		raise_alarm(a, "space_low", false,
			    "Find out who uses most (wekactl du), or add a drive (wekactl drives "
			    "add).",
			    "Only %llu per cent of the space is free",
			    (unsigned long long)(100 * left / all));
}

static void of_damage(struct alarms *a, const struct app_snapshot *s)
{
	const struct app_core_stat *c = &s->sum;

	if (c->damaged_files || c->damaged_pages)
		raise_alarm(a, "damaged", true,
			    "wekactl damaged lists the files: restore them from their source.",
			    "%llu files and %llu pages of the index are damaged",
			    (unsigned long long)c->damaged_files,
			    (unsigned long long)c->damaged_pages);
	if (c->unreachable_files)
		raise_alarm(a, "unreachable", true,
			    "Bring the drive back; wekactl damaged lists the files.",
			    "%llu files lie on drives that do not answer",
			    (unsigned long long)c->unreachable_files);
	if (s->statfs.bad_blocks)
		raise_alarm(a, "unmovable", false,
			    "Remove or replace the files that wekactl damaged lists.",
			    "%llu damaged blocks keep their zones from being collected",
			    (unsigned long long)s->statfs.bad_blocks);
	if (c->bad_sums)
		raise_alarm(
			a, "wrong_checksums", false,
			"Check memory and network card of the client; nothing wrong was stored.",
			"%llu writes came with a wrong checksum and were refused",
			(unsigned long long)c->bad_sums);
}

/* ---- drives ------------------------------------------------------------------------------- */

static void of_health(struct alarms *a, const struct app_drive_snapshot *d, uint32_t i)
{
	ASSERT(i < META_DRIVES_MAX);
	if (d->health == NVME_HEALTH_RESETTING) {
		raise_alarm(a, "drive_resetting", false,
			    "Requests wait for it. If it happens often, replace the drive.",
			    "Drive %u is being reset", i);
		return;
	}
	raise_alarm(a, "drive_failed", true,
		    d->failed ? "Check power, cabling and slot."
			      : "The log says what it refuses; check its space and health.",
		    "Drive %u is %s", i,
		    d->health == NVME_HEALTH_READ_ONLY ? "read only" : app_drive_health_name(d));
}

static void of_wear(struct alarms *a, const struct app_drive_snapshot *d, uint32_t i)
{
	const struct nvme_smart *smart = &d->smart;

	ASSERT(d->has_smart && i < META_DRIVES_MAX);
	if (smart->spare_percent < smart->spare_least_percent)
		raise_alarm(a, "drive_spare", true, "Replace it: wekactl drives replace.",
			    "Drive %u runs out of spare blocks", i);
	else if (smart->warnings)
		raise_alarm(a, "drive_warns", false, "wekactl drives says of what.",
			    "Drive %u warns of itself", i);
	if (smart->used_percent >= 90)
		raise_alarm(a, "drive_worn", false,
			    "Order a drive, add it, then drain this one: wekactl drives drain.",
			    "Drive %u has used %u per cent of its life", i, smart->used_percent);
}

/* Nothing is asked of it any more, so nothing else of it matters. */
static void of_loss(struct alarms *a, const struct app_drive_snapshot *d, uint32_t i,
		    uint64_t copies)
{
	ASSERT(d->store.lost);
	raise_alarm(a, "drive_lost", true,
		    "The store copies what had lain there to the other drives: wekactl status says "
		    "how far it has come. Then it is whole. Replace the drive.",
		    copies > 2 ? "Drive %u is lost: there is one copy less of what it had"
			       : "Drive %u is lost: there is one copy of what it had",
		    i);
}

/* It needs a person. */
static void of_rebuild(struct alarms *a, const struct app_rebuild_snapshot *r, bool two_copies)
{
	const bool drain = r->store.what == META_REBUILD_DRAIN;

	ASSERT(r->store.what != META_REBUILD_NONE);
	if (r->store.alone)
		raise_alarm(
			a, "rebuild_stuck", !drain, "Add a drive: wekactl drives add.",
			two_copies ? "Files have two copies, because only two drives can be written"
				   : "Files have one copy, because only one drive can be written");
	else if (app_rebuild_missing(r))
		raise_alarm(
			a, "rebuild_stuck", !drain,
			"Add a drive (wekactl drives add), or remove files.",
			"The %s cannot go on: the other drives have no room for %llu MB",
			drain ? "drain" : "rebuild",
			(unsigned long long)div_up(app_rebuild_missing(r) * BLOCK_SIZE, 1000000));
	else
		raise_alarm(a, "rebuild_stuck", !drain, "wekactl status says why, and what to do.",
			    "The %s cannot go on: %s", drain ? "drain" : "rebuild",
			    r->store.cannot        ? "a superblock cannot be written"
			    : r->store.kept_blocks ? "blocks cannot be read"
						   : "nothing has moved for some time");
}

static void of_drive(struct alarms *a, const struct app_drive_snapshot *d, uint32_t i,
		     uint64_t copies)
{
	ASSERT(i < META_DRIVES_MAX);
	if (d->store.lost) {
		of_loss(a, d, i, copies);
		return;
	}
	if (!d->is_there || d->store.gone)
		return;
	if (d->health != NVME_HEALTH_GOOD || d->failed || d->no_writes)
		of_health(a, d, i);
	if (d->has_smart && d->smart.has_temperature)
		of_wear(a, d, i);
	if (d->counts.quarantined_bytes)
		raise_alarm(a, "drive_quarantined", false, "Restart the machine when it suits.",
			    "Drive %u cannot be stopped, and keeps %llu bytes of memory", i,
			    (unsigned long long)d->counts.quarantined_bytes);
}

static void pass(struct alarms *a, const struct app_snapshot *s, bool critical)
{
	ASSERT(s->ndrives <= META_DRIVES_MAX);
	a->critical = critical;
	of_changes(a, s);
	for (uint32_t i = 0; i < s->ndrives; i++)
		of_drive(a, &s->drive[i], i, s->statfs.copies);
	if (app_rebuild_is_stuck(&s->rebuild))
		of_rebuild(a, &s->rebuild, s->statfs.copies > 2 && serving(s) > 1);
	of_damage(a, s);
	of_space(a, s);
}

uint32_t app_alarms(const struct app_snapshot *s, struct app_alarm out[APP_ALARMS_MAX])
{
	struct alarms a = { .out = out };

	pass(&a, s, true);
	pass(&a, s, false);
	ASSERT(a.count <= APP_ALARMS_MAX);
	return a.count;
}
