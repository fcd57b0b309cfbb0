/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Format, in stages.
 *
 *   old superblocks wiped -> zone headers -> roots -> first log zone -> root directory
 *   -> checkpoint, which flushes all drives -> superblocks -> serving
 *
 *  (1) Superblocks are wiped first and written last.  A crash anywhere leaves drives without a
 *      store [test_meta_power:format_that_is_cut_leaves_no_store_or_a_whole_one].
 *  (2) Only the superblocks make a store, so the one flush of the checkpoint,
 *      before them, suffices for everything that was written without FUA.
 */
#include "meta/engine/meta_domain.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <string.h>

static int write_failed(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->count <= META__BOOT_BLOCKS);
	for (uint32_t i = 0; b->sent && i < b->count; i++)
		if (b->io[i].io.status)
			return meta__boot_fail(m, -EIO, "drive %u: block %llu cannot be written",
					       b->io[i].io.drive,
					       (unsigned long long)b->io[i].io.block);
	return 0;
}

/* ---- superblocks ------------------------------------------------------------------ */

static int super_address(const struct meta *m, uint32_t i, uint64_t *baddr)
{
	uint32_t drive = i % m->conf.ndrives;
	bool second = i < m->conf.ndrives;

	ASSERT(m->conf.ndrives <= META_DRIVES_MAX);
	if (i >= 2 * m->conf.ndrives)
		return -EALREADY;
	*baddr = META_BADDR(drive, second ? m->conf.drive[drive].nblocks - 1 : 0);
	ASSERT(m->conf.drive[drive].nblocks > 1);
	return 0;
}

static void super_make(struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;
	struct meta__super *s = &m->boot->super;

	ASSERT(g->ndrives == m->conf.ndrives);
	ASSERT(g->nshards == m->nshards);
	*s = (struct meta__super){
		.ndrives = g->ndrives,
		.nshards = g->nshards,
		.zone_blocks = g->zone_blocks,
		.secret = m->secret,
		.format_ns = m->conf.wall_ns,
		.spread = true,
		.copies = m->copies,
		.fold = m->fold,
	};
	memcpy(s->uuid, m->uuid, sizeof(s->uuid));
	memcpy(s->drive_nblocks, g->nblocks, sizeof(s->drive_nblocks));
	if (!meta__geo_roots_first(g)) { /* meta_geo.c (3) */
		s->set = 1;
		memcpy(s->root_at, g->root_area, sizeof(s->root_at));
	}
	for (uint32_t d = 0; d < g->ndrives; d++) {
		memcpy(s->drive_name[d], m->conf.drive[d].name, META_DRIVE_NAME);
		m->boot->super_first[d] = 1;
	}
}

static int write_supers(struct meta *m)
{
	struct meta__boot *b = m->boot;
	uint64_t baddr;
	int err = write_failed(m);

	ASSERT(m->shard[0].durable_seq == m->shard[0].seq); /* (2): the root directory is there */
	if (err)
		return err;
	if (super_address(m, b->at, &baddr) != 0) {
		meta__boot_next(m, meta__boot_serve);
		return 0;
	}
	super_make(m);
	m->boot->super.drive = META_BADDR_DRIVE(baddr);
	m->boot->super.nzones = m->zones->geo.zone_count[m->boot->super.drive];
	meta__super_build(&m->boot->super, m->boot->buf);
	meta__boot_io(m, META_IO_WRITE, baddr, 1, 0);
	b->at++;
	b->count = 1;
	return 0;
}

/* ---- the root directory -------------------------------------------------------------- */

static int settle(struct meta *m)
{
	int err = meta__boot_settled(m);

	if (!err)
		meta__boot_next(m, write_supers);
	return err;
}

static int make_root_dir(struct meta *m)
{
	int err;

	ASSERT(m->boot->step <= 1);
	if (m->boot->step == 0 && !meta__log_ready(m))
		return -EAGAIN;
	m->boot->step = 1;
	err = meta__boot_run_op(m, META__OP_MKROOT);
	if (!err)
		meta__boot_next(m, settle);
	return err;
}

/* ---- headers and roots ------------------------------------------------------------------ */

/* step: slot 0 with version 1, slot 1 with version 0; at: shard. */
static int write_roots(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const struct meta__root empty = { 0 };
	const uint32_t copies = m->zones->geo.root_copies;
	uint64_t copy[META__ROOT_COPIES];
	int err = write_failed(m);

	ASSERT(b->step <= 2);
	ASSERT(b->at <= m->nshards);
	if (err)
		return err;
	if (b->at == m->nshards) {
		b->at = 0;
		b->step++;
	}
	if (b->step == 2) {
		for (uint32_t i = 0; i < m->nshards; i++) {
			m->shard[i].root_slot = 0;
			m->shard[i].root_version = 1;
		}
		meta__boot_next(m, make_root_dir);
		return 0;
	}
	b->count = 0;
	for (uint32_t i = 0; i < META__BOOT_BLOCKS / copies && b->at < m->nshards; i++, b->at++) {
		m->shard[b->at].root_slot = b->step ^ 1;
		m->shard[b->at].root_version = b->step ? UINT64_MAX : 0;
		(void)meta__root_build(m, b->at, &empty, b->buf + (size_t)i * META__BLOCK, copy);
		for (uint32_t k = 0; k < copies; k++)
			meta__boot_io(m, META_IO_WRITE, copy[k], 1, i);
		b->count += copies;
	}
	return 0;
}

static int write_zones(struct meta *m)
{
	struct meta__boot *b = m->boot;
	int err = write_failed(m);

	if (err)
		return err;
	b->at += b->sent ? b->count / 2 : 0;
	ASSERT(b->at <= b->geo.nzones);
	if (b->at == b->geo.nzones) {
		err = meta__zones_setup(m, &b->geo);
		if (err)
			return meta__boot_fail(m, err, "no memory for %u zones", b->geo.nzones);
		m->zones->counted = true;
		meta__log_start(m, 0);
		meta__boot_next(m, write_roots);
		return 0;
	}
	b->count = 2 * min_u32(META__BOOT_BLOCKS / 2, b->geo.nzones - b->at);
	for (uint32_t i = 0; i < b->count; i++) {
		const struct meta__zone_seen z = { .zone = b->at + i / 2, .kind = META__ZONE_FREE };

		meta__zone_build(&z, m->uuid, b->buf + (size_t)i * META__BLOCK);
		meta__boot_io(m, META_IO_WRITE, meta__geo_zone_head(&b->geo, z.zone, i & 1), 1, i);
		b->io[i].io.fua = false; /* the checkpoint flushes, before anything counts */
	}
	return 0;
}

static int wipe_supers(struct meta *m)
{
	struct meta__boot *b = m->boot;
	uint64_t baddr;
	int err = write_failed(m);

	ASSERT(!m->mounted);
	ASSERT(b->in_flight == 0);
	if (err)
		return err;
	if (super_address(m, b->at, &baddr) != 0) {
		meta__boot_next(m, write_zones);
		return 0;
	}
	memset(b->buf, 0, META__BLOCK);
	meta__boot_io(m, META_IO_WRITE, baddr, 1, 0);
	b->at++;
	b->count = 1;
	return 0;
}

int meta__format_begin(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(!m->mounted);
	ASSERT(m->epoch == 0);
	for (uint32_t d = 0; d < m->conf.ndrives; d++)
		if (m->conf.drive[d].nblocks == 0)
			return meta__boot_fail(m, -EINVAL, "drive %u is not given", d);
	if (m->conf.nshards == 0)
		return meta__boot_fail(m, -EINVAL, "the number of shards is not given");
	m->nshards = m->conf.nshards;
	m->secret = m->conf.secret;
	m->epoch = 1;
	m->spread_at = meta__spread_at(&m->conf);
	memcpy(m->uuid, m->conf.uuid, sizeof(m->uuid));
	meta__domains_take(m, m->copies, m->conf.ndrives, NULL);
	meta__geo_make(&b->geo, &m->conf, m->nshards, 0);
	meta__boot_next(m, wipe_supers);
	return 0;
}
