/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Mount reads all copies of all roots: each shard goes on from its newest whole one.
 *
 *   copy 0 of slots 0 and 1 of all shards --> copy 1 --> copy 2, if there is one --> which log is
 *   replayed
 *
 *  (1) One whole copy of each slot is enough.  A slot without one is damage: the mount is refused,
 *      and names it [test_meta_boot:any_one_copy_of_any_root_may_be_damaged].
 *  (2) Except if one copy of the slot is on a drive that is not lost: a crash may have torn that
 *      one.  Then the other slot and the log are there
 *      [test_meta_pair:death_and_power_cuts_lose_nothing].
 *  (3) A damaged copy is the first to be written when its slot is (meta_super.c (2))
 *      [test_meta_boot:any_one_copy_of_any_root_may_be_damaged].
 */
#include "meta/meta_store.h"

#include <errno.h>

/* A shard continues from its newest valid root. */
static void root_take(struct meta *m, uint32_t slot, const struct meta__root_seen *r)
{
	struct meta__shard *s = &m->shard[r->shard];
	struct meta__boot_root *seen = &m->boot->root_seen[r->shard];
	bool newest = !(seen->slot[0] || seen->slot[1]) || r->version > s->root_version;

	ASSERT(slot < 2);
	ASSERT(r->shard < m->nshards); /* meta__root_belongs() has seen to it */
	meta__marks_said(m, r);
	m->boot->mount_max = max_u64(m->boot->mount_max, r->mount);
	seen->slot[slot] = true;
	if (!newest)
		return;
	seen->log_epoch = r->log_epoch;
	seen->log_base = r->log_base;
	seen->log_seq = r->root.log_seq;
	s->root_version = r->version;
	s->root_slot = slot;
	s->root_baddr = s->durable_root_baddr = r->root.root_baddr;
	s->root_gen = r->root.root_gen;
	s->height = r->root.height;
	s->seq = s->durable_seq = r->root.seq;
	s->uniq_next = r->root.uniq_next;
	s->dir_next = r->root.dir_next;
	s->files = r->root.files;
	s->dirs = r->root.dirs;
}

/* With one copy of a root on drives that are not lost a crash may leave one slot without a whole
 * copy: then the other slot and the log still exist. */
static bool may_be_torn(const struct meta *m, uint32_t slot, uint32_t shard)
{
	const struct meta__geo *g = &m->boot->geo;
	uint32_t left = 0;

	ASSERT(m->copies > 0);
	for (uint32_t copy = 0; copy < g->root_copies; copy++)
		left += g->state[META_BADDR_DRIVE(meta__geo_root(g, copy, slot, shard))] !=
			DRIVE_LOST;
	ASSERT(left > 0); /* meta_drives.c has refused it */
	return left == 1; /* (2) */
}

/* The log of the oldest root must be replayed; what the other roots say of it counts too. */
static int roots_agree(struct meta *m)
{
	struct meta__boot *b = m->boot;

	b->log_epoch = UINT64_MAX;
	for (uint32_t i = 0; i < m->nshards; i++) {
		const struct meta__boot_root *seen = &b->root_seen[i];

		if (!seen->slot[0] && !seen->slot[1])
			return meta__boot_fail(m, -EUCLEAN, "shard %u: no root is whole", i);
		if ((!seen->slot[0] && !may_be_torn(m, 0, i)) ||
		    (!seen->slot[1] && !may_be_torn(m, 1, i)))
			return meta__boot_fail(m, -EUCLEAN,
					       "shard %u: %s copies of a root are damaged", i,
					       b->geo.root_copies > 2 ? "all" : "both");
		b->log_epoch = min_u64(b->log_epoch, seen->log_epoch);
	}
	for (uint32_t i = 0; i < m->nshards; i++) {
		const struct meta__boot_root *seen = &b->root_seen[i];

		if (seen->log_epoch == b->log_epoch)
			b->log_base = seen->log_base;
		b->log_known =
			max_u64(b->log_known,
				seen->log_epoch == b->log_epoch ? seen->log_seq : seen->log_base);
	}
	ASSERT(b->log_epoch != UINT64_MAX);
	ASSERT(b->log_epoch <= b->mount_max);
	m->epoch = b->mount_max + 1;
	return 0;
}

static void note_bad_root(struct meta *m, uint32_t slot, uint32_t shard)
{
	const struct meta__boot *b = m->boot;
	const uint32_t d = META_BADDR_DRIVE(meta__geo_root(&b->geo, b->step, slot, shard));

	ASSERT(shard < m->nshards);
	ASSERT(b->step < b->geo.root_copies);
	if (m->conf.drive[d].missing || b->geo.state[d] == DRIVE_LOST)
		return; /* meta_boot.c (6) */
	meta__boot_note(m, "shard %u: copy %u of a root is damaged, or torn by a crash; %s", shard,
			b->step,
			b->geo.root_copies > 2 ? "another one is used" : "the other one is used");
}

/* Of this copy; on a drive that is lost nothing is read: then the next copy, again. */
static uint64_t root_to_read(const struct meta *m, uint32_t at)
{
	const struct meta__geo *g = &m->boot->geo;
	const uint32_t slot = at / m->nshards, shard = at % m->nshards;
	uint64_t baddr = meta__geo_root(g, m->boot->step, slot, shard);

	ASSERT(m->boot->step < g->root_copies && slot < 2);
	for (uint32_t i = 1; g->state[META_BADDR_DRIVE(baddr)] == DRIVE_LOST; i++) {
		ASSERT(i < g->root_copies); /* meta_drives.c: one is not lost */
		baddr = meta__geo_root(g, (m->boot->step + i) % g->root_copies, slot, shard);
	}
	return baddr;
}

/* step: copy; at: block of its area, of both slots. */
int meta__roots_read(struct meta *m)
{
	struct meta__boot *b = m->boot;
	uint32_t area = 2 * m->nshards;
	int err;

	ASSERT(b->step < b->geo.root_copies);
	ASSERT(b->at <= area);
	if (b->sent) {
		for (uint32_t i = 0; i < b->count; i++) {
			struct meta__root_seen r;

			if (b->io[i].io.status ||
			    meta__root_parse(b->io[i].io.buf, m->uuid, &r) != 0 ||
			    !meta__root_belongs(&r, (b->at + i) % m->nshards,
						(b->at + i) / m->nshards)) {
				note_bad_root(m, (b->at + i) / m->nshards,
					      (b->at + i) % m->nshards);
				m->shard[(b->at + i) % m->nshards]
					.copy_first[(b->at + i) / m->nshards] = (uint8_t)b->step;
				continue; /* another copy must be good (1) */
			}
			root_take(m, (b->at + i) / m->nshards, &r);
		}
		b->at += b->count;
	}
	if (b->at == area) {
		b->at = 0;
		b->step++;
	}
	if (b->step == b->geo.root_copies) {
		err = roots_agree(m);
		if (!err)
			meta__boot_next(m, meta__heads_read);
		return err;
	}
	b->count = min_u32(META__BOOT_BLOCKS, area - b->at);
	for (uint32_t i = 0; i < b->count; i++)
		meta__boot_io(m, META_IO_READ, root_to_read(m, b->at + i), 1, i);
	return 0;
}
