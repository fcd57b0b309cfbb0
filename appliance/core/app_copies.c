/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Tells people how many copies the store has of its blocks: a drive is lost, all is copied again, a
 * store gets second copies or third ones (meta_protect.c), all have them.  At a start it says what
 * may be lost, since a store may have got its last copies just before the end of the program.
 *
 * Each turn of the store's core compares the state with the one that was told last, which costs a
 * few loads.  A line that finds no room in the ring is tried again in a later turn.
 */
#include "appliance/core/app_op.h"
#include "appliance/core/app_wants.h"
#include "appliance/media/app_lines.h"

#include <stdio.h>

static bool tell(struct app_core *core, const char *line)
{
	ASSERT(core->meta);
	if (core->cfg.lines && !app_lines_push(core->cfg.lines, line))
		return false;
	core->lines++;
	return true;
}

static const char *name_of(const struct app_core *core, uint32_t d)
{
	ASSERT(d < META_DRIVES_MAX);
	return core->cfg.drive_name && d < core->nqps ? core->cfg.drive_name[d] : "";
}

/* Returns what else the store may lose, while some drives are lost. */
static const char *others_may(const struct meta_copies *now)
{
	ASSERT(now->sure > 0 && now->lost_domains > 0);
	if (now->domains > 0)
		return now->lost_domains + 1 < now->sure
			       ? "only drives of one other failure domain may be lost"
			       : "only drives of the same failure domain may be lost";
	return now->lost_domains + 1 < now->sure ? "only one other may be lost"
						 : "no other may be lost";
}

/* One drive that is newly lost, or no more. */
static wk_cold void tell_lost(struct app_core *core, const struct meta_copies *now)
{
	const uint64_t lost = now->lost;
	const uint32_t d = (uint32_t)__builtin_ctzll(lost ^ core->copies_told.lost);
	char line[APP_LINE_SIZE];

	ASSERT(lost != core->copies_told.lost && d < META_DRIVES_MAX);
	if (lost >> d & 1)
		(void)snprintf(
			line, sizeof(line),
			"WEKA-313: drive %u (%.200s) is lost: its blocks are read from other "
			"drives, and copied there; until wekactl status does not name it any more, "
			"%s",
			d, name_of(core, d), others_may(now));
	else if (lost)
		(void)snprintf(line, sizeof(line),
			       "drive %u is gone from the store: all that lay there has been "
			       "copied; drive %u is still lost",
			       d, (uint32_t)__builtin_ctzll(lost));
	else
		(void)snprintf(line, sizeof(line),
			       "drive %u is gone from the store: each block has %s copies again", d,
			       now->copies > 2 ? "three" : "two");
	if (tell(core, line))
		core->copies_told.lost ^= 1ull << d;
}

/* From one copy, or from two. */
static const char *meanwhile(const struct meta_copies *now)
{
	ASSERT(now->sure > 0 && now->sure < now->copies);
	if (now->sure > now->lost_domains + 1)
		return "one drive may be lost";
	return now->lost ? "no other drive may be lost" : "no drive may be lost";
}

static wk_cold bool tell_begun(struct app_core *core, const struct meta_copies *now)
{
	char line[APP_LINE_SIZE];

	ASSERT(now->converts && now->sure < now->copies);
	(void)snprintf(line, sizeof(line), "each block of the store gets %s: until all have %s, %s",
		       now->copies == 2 ? "a second copy"
		       : now->sure > 1  ? "a third copy"
					: "a second and a third copy",
		       now->copies > 2 ? "three" : "two", meanwhile(now));
	return tell(core, line);
}

/* A drive that is lost has a line of its own, tell_lost().  Where blocks lack copies nothing is
 * promised: wekactl protect says why. */
static wk_cold bool tell_sure(struct app_core *core, const struct meta_copies *now)
{
	char line[APP_LINE_SIZE];

	ASSERT(now->sure > 0 && now->sure <= now->copies);
	if (now->sure == 1 || !now->whole || now->lost)
		return true;
	(void)snprintf(line, sizeof(line),
		       "each block of the store has %s copies%s: %s may be lost",
		       now->sure > 2 ? "three" : "two",
		       !now->folds     ? ""
		       : now->sure > 2 ? ", or parity twice"
				       : ", or parity",
		       now->sure > 2 ? "two drives" : "one drive");
	return tell(core, line);
}

static wk_cold bool tell_cannot(struct app_core *core, const struct meta_copies *now)
{
	char line[APP_LINE_SIZE];

	ASSERT(now->converts && now->copies > 1);
	(void)snprintf(line, sizeof(line),
		       "WEKA-314: the store cannot end getting %s copies, because a superblock "
		       "could not be written: check the drives, then type wekactl protect %s "
		       "again; until then %s",
		       now->copies > 2 ? "third" : "second", now->copies > 2 ? "1+2" : "mirror",
		       meanwhile(now));
	return tell(core, line);
}

static wk_cold void tell_copies(struct app_core *core, const struct meta_copies *now)
{
	ASSERT(now->lost == core->copies_told.lost);
	if (now->converts && !core->copies_told.converts && !tell_begun(core, now))
		return;
	if (now->sure != core->copies_told.sure && !tell_sure(core, now))
		return;
	if (now->few && !core->copies_told.few &&
	    !tell(core, "WEKA-315: the configuration puts the drives into fewer failure domains "
			"than a block has copies, so the domains do not count: name more"))
		return;
	if (now->near && !core->copies_told.near &&
	    !tell(core, "WEKA-316: some blocks have two copies in one failure domain, since before "
			"it was named: they are being moved, and until then no domain may be lost"))
		return;
	if (!now->near && core->copies_told.near &&
	    !tell(core, "all copies of a block are in different failure domains"))
		return;
	if (now->cannot && !core->copies_told.cannot && !tell_cannot(core, now))
		return;
	core->copies_told.sure = now->sure;
	core->copies_told.converts = now->converts;
	core->copies_told.cannot = now->cannot;
	core->copies_told.few = now->few;
	core->copies_told.near = now->near;
}

void app_copies_turn(struct app_core *core)
{
	struct meta_copies now;

	ASSERT(core->index == 0 || !core->meta);
	if (!core->meta || core->life != APP_SERVING)
		return;
	now = meta_copies(core->meta);
	if (likely(now.lost == core->copies_told.lost && now.sure == core->copies_told.sure &&
		   now.converts == core->copies_told.converts &&
		   now.cannot == core->copies_told.cannot && now.few == core->copies_told.few &&
		   now.near == core->copies_told.near))
		return;
	if (now.lost != core->copies_told.lost)
		tell_lost(core, &now);
	else
		tell_copies(core, &now);
}
