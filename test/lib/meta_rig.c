/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/meta_rig.h"

#include "base/num.h"
#include "base/gf.h"
#include "meta/engine/meta_fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 512u

/* ---- drives ----------------------------------------------------------------- */

uint8_t *rig_block(struct rig *r, uint64_t baddr)
{
	return r->image[META_BADDR_DRIVE(baddr)] + META_BADDR_BLOCK(baddr) * 4096;
}

static void write_forget(struct rig *r, uint32_t i)
{
	free(r->write[i].bytes);
	memmove(&r->write[i], &r->write[i + 1], (r->nwrites - i - 1) * sizeof(r->write[0]));
	r->nwrites--;
}

static void write_to(uint8_t *image, const struct rig_write *w)
{
	memcpy(image + w->block * 4096, w->bytes, (size_t)w->nblocks * 4096);
}

/* Everything complete in this drive's cache goes to the image. */
static void drive_flush(struct rig *r, uint32_t drive)
{
	for (uint32_t i = 0; i < r->nwrites;) {
		if (r->write[i].drive != drive || !r->write[i].complete) {
			i++;
			continue;
		}
		write_to(r->image[drive], &r->write[i]);
		write_forget(r, i);
	}
}

static void write_begin(struct rig *r, const struct meta_io *io)
{
	struct rig_write *w = &r->write[r->nwrites++];
	size_t size_bytes = (size_t)io->nblocks * 4096;

	ASSERT(r->nwrites <= RIG_WRITES_MAX);
	*w = (struct rig_write){ .drive = io->drive, .block = io->block, .nblocks = io->nblocks };
	w->bytes = malloc(size_bytes);
	ASSERT(w->bytes != NULL);
	memcpy(w->bytes, io->buf, size_bytes);
	r->writes++;
	if (r->cut_at && r->writes >= r->cut_at)
		r->cut = true;
}

/* An older write of the same blocks that is still in the cache must not overwrite this one later:
 * the older write gets these bytes, too. */
static void supersede(struct rig *r, const struct rig_write *by)
{
	for (uint32_t i = 0; i < r->nwrites; i++) {
		struct rig_write *w = &r->write[i];

		for (uint32_t k = 0; w->complete && w != by && k < w->nblocks; k++) {
			uint64_t block = w->block + k;

			if (w->drive == by->drive && block >= by->block &&
			    block < by->block + by->nblocks)
				memcpy(w->bytes + (size_t)k * 4096,
				       by->bytes + (block - by->block) * 4096, 4096);
		}
	}
}

static void write_complete(struct rig *r, const struct meta_io *io)
{
	bool durable = !r->conf.drive[io->drive].volatile_cache || (io->fua && !r->ignore_fua);

	for (uint32_t i = 0; i < r->nwrites; i++) {
		struct rig_write *w = &r->write[i];

		if (w->complete || w->drive != io->drive || w->block != io->block)
			continue;
		w->complete = true;
		write_to(r->view[io->drive], w);
		if (durable) {
			supersede(r, w);
			write_to(r->image[io->drive], w);
			write_forget(r, i);
		}
		return;
	}
	UNREACHABLE(); /* a write that nobody began */
}

static void write_lost(struct rig *r, const struct meta_io *io)
{
	for (uint32_t i = 0; i < r->nwrites; i++)
		if (!r->write[i].complete && r->write[i].drive == io->drive &&
		    r->write[i].block == io->block) {
			write_forget(r, i);
			return;
		}
}

static bool write_is_bad(const struct rig *r, const struct meta_io *io)
{
	if (r->bad_heads >> io->drive & 1 && io->block == r->m->zones->geo.zones_at[io->drive])
		return true;
	return r->bad_supers >> io->drive & 1 &&
	       (io->block == 0 || io->block == r->conf.drive[io->drive].nblocks - 1);
}

/* Garbage, at once and for good. */
static void deallocate(struct rig *r, struct meta_io *io)
{
	const size_t at = (size_t)io->block * 4096, size = (size_t)io->nblocks * 4096;

	r->deallocated++;
	io->status = r->refuses_deallocate ? -EOPNOTSUPP : 0;
	if (io->status)
		return;
	memset(r->view[io->drive] + at, 0xd5, size);
	memset(r->image[io->drive] + at, 0xd5, size);
}

/* A write that was on its way may have come through. */
static void die(struct rig *r, struct meta_io *io)
{
	io->status = -EIO;
	io->gone = true;
	if (io->op == META_IO_WRITE && rand_below(&r->rand, 2))
		write_complete(r, io);
	else if (io->op == META_IO_WRITE)
		write_lost(r, io);
	meta_io_done(r->m, io);
}

/* The write is reached from which on drives are dead, take no writes, or answer nothing. */
static void strike(struct rig *r)
{
	if (!r->dies_at || r->writes < r->dies_at)
		return;
	r->dead |= r->dying;
	r->bad_writes |= r->failing;
	if (!r->hanging)
		return;
	r->silent |= r->hanging;
	r->hanging = 0;
	r->patience = RIG_PATIENCE;
}

/* A drive did not take a write; the last one that it does not take, perhaps. */
static void refused_write(struct rig *r, uint32_t drive)
{
	if (!(r->failing >> drive & 1) || r->hiccups == 0 || --r->hiccups > 0)
		return;
	r->bad_writes &= ~r->failing;
	r->failing = 0;
}

/* Drives that have answered nothing for so long are given up, with all that they were asked. */
static void lose_patience(struct rig *r)
{
	if (!r->silent || --r->patience > 0)
		return;
	r->dead |= r->silent;
	r->silent = 0;
}

static void complete(struct rig *r, struct meta_io *io)
{
	io->status = 0;
	strike(r);
	if (r->dead >> io->drive & 1) {
		die(r, io);
		return;
	}
	switch (io->op) {
	case META_IO_READ:
		if (io->block < r->unread[io->drive].to &&
		    io->block + io->nblocks > r->unread[io->drive].from)
			io->status = -EIO;
		if (io->drive == 0 && io->block < r->lost_to &&
		    io->block + io->nblocks > r->lost_from)
			io->status = r->lost_status;
		if (r->bad_reads >> io->drive & 1)
			io->status = -EIO;
		memcpy(io->buf, r->view[io->drive] + io->block * 4096, (size_t)io->nblocks * 4096);
		break;
	case META_IO_WRITE:
		if ((r->fail_at && r->writes >= r->fail_at) || r->bad_writes >> io->drive & 1)
			io->status = -EIO;
		if (r->bad_writes >> io->drive & 1)
			refused_write(r, io->drive);
		if (write_is_bad(r, io)) {
			io->status = -EIO;
			write_lost(r, io);
		} else if (io->status == 0 || rand_below(&r->rand, 2))
			write_complete(r, io);
		else
			write_lost(r, io);
		break;
	case META_IO_FLUSH:
		if (r->bad_flushes >> io->drive & 1)
			io->status = -EIO;
		else if (!r->ignore_flush)
			drive_flush(r, io->drive);
		break;
	case META_IO_DEALLOCATE:
		deallocate(r, io);
		break;
	}
	meta_io_done(r->m, io);
}

/* ---- power -------------------------------------------------------------------- */

static void queue_drop(struct rig *r)
{
	while (list_pop_front(&r->queue))
		;
	meta_destroy(r->m);
	r->m = NULL;
}

/* The drives have only what is durable. */
static void forget_caches(struct rig *r)
{
	for (uint32_t d = 0; d < r->ndrives && !r->own_writes_only; d++)
		memcpy(r->view[d], r->image[d], r->conf.drive[d].nblocks * 4096);
	while (r->nwrites) {
		const struct rig_write *w = &r->write[r->nwrites - 1];
		const uint64_t at = w->block * 4096;

		memcpy(r->view[w->drive] + at, r->image[w->drive] + at, (size_t)w->nblocks * 4096);
		write_forget(r, r->nwrites - 1);
	}
}

void rig_power_cut(struct rig *r)
{
	for (uint32_t i = 0; i < r->nwrites; i++) {
		const struct rig_write *w = &r->write[i];
		uint8_t *to = r->image[w->drive] + w->block * 4096;
		/* lost, there, torn, or garbage */
		uint64_t how = rand_below(&r->rand, r->cut_garbles ? 4 : 3);

		for (size_t s = 0; s < (size_t)w->nblocks * 4096; s += SECTOR)
			if (r->cut_spoils && !w->complete)
				memset(to + s, 0xa5, SECTOR);
			else if (how == 3 && rand_below(&r->rand, 2))
				memset(to + s, (int)rand_below(&r->rand, 256), SECTOR);
			else if (how == 1 || (how >= 2 && rand_below(&r->rand, 2)))
				memcpy(to + s, w->bytes + s, SECTOR);
	}
	forget_caches(r);
	r->cut = false;
	r->cut_at = 0;
	queue_drop(r);
}

void rig_kill(struct rig *r)
{
	for (uint32_t i = 0; i < r->nwrites; i++) {
		if (r->write[i].complete || rand_below(&r->rand, 2) == 0)
			continue;
		write_to(r->view[r->write[i].drive], &r->write[i]); /* it had got so far */
		r->write[i].complete = true;
	}
	for (uint32_t i = r->nwrites; i-- > 0;)
		if (!r->write[i].complete)
			write_forget(r, i);
	for (uint32_t d = 0; d < r->ndrives; d++)
		if (!r->conf.drive[d].volatile_cache)
			drive_flush(r, d);
	queue_drop(r);
}

/* ---- made, ended ------------------------------------------------------------------ */

void rig_make(struct rig *r, uint64_t seed, uint32_t ndrives, uint64_t drive_bytes,
	      uint32_t nshards, bool volatile_cache)
{
	uint64_t bytes[RIG_DRIVES_ROOM];

	for (uint32_t d = 0; d < ndrives; d++)
		bytes[d] = drive_bytes;
	rig_make_of(r, seed, ndrives, bytes, nshards, volatile_cache);
}

uint32_t rig_drive(struct rig *r, uint64_t drive_bytes, bool volatile_cache)
{
	uint32_t d = r->ndrives++;

	ASSERT(d < RIG_DRIVES_ROOM);
	r->conf.drive[d].nblocks = drive_bytes / 4096;
	r->conf.drive[d].volatile_cache = volatile_cache;
	r->image[d] = calloc(1, drive_bytes);
	r->view[d] = calloc(1, drive_bytes);
	ASSERT(r->image[d] && r->view[d]);
	return d;
}

int rig_drive_add(struct rig *r, uint32_t drive)
{
	int err = meta_drive_add(r->m, &r->conf.drive[drive]);
	uint32_t idle = 0;

	while (!err && meta_drive_add_status(r->m) == -EAGAIN) {
		if (r->cut)
			return -ECANCELED;
		idle = rig_step(r) ? 0 : idle + 1;
		ASSERT(idle < 1000); /* else it waits for nothing */
	}
	return err ? err : meta_drive_add_status(r->m);
}

void rig_make_of(struct rig *r, uint64_t seed, uint32_t ndrives, const uint64_t *drive_bytes,
		 uint32_t nshards, bool volatile_cache)
{
	memset(r, 0, sizeof(*r));
	rand_seed(&r->rand, seed);
	list_init(&r->queue);
	r->conf = (struct meta_conf){
		.cache_bytes = 128 * META_PAGE_BYTES,
		.ops_max = 1,
		.nshards = nshards,
		.secret = seed * 77 + 1,
		.wall_ns = 1000,
	};
	memcpy(r->conf.uuid, "rig uuid", 8);
	while (r->conf.ndrives < ndrives)
		r->conf.ndrives = rig_drive(r, drive_bytes[r->conf.ndrives], volatile_cache) + 1;
	rig_memory(r);
}

void rig_memory(struct rig *r)
{
	free(r->conf.memory);
	r->conf.memory_bytes = meta_memory_needed(&r->conf);
	ASSERT(r->conf.memory_bytes > 0);
	r->conf.memory = aligned_alloc(4096, r->conf.memory_bytes);
	ASSERT(r->conf.memory != NULL);
}

void rig_end(struct rig *r)
{
	if (r->m)
		queue_drop(r);
	while (r->nwrites)
		write_forget(r, r->nwrites - 1);
	for (uint32_t d = 0; d < r->ndrives; d++) {
		free(r->image[d]);
		free(r->view[d]);
	}
	free(r->conf.memory);
}

static int boot(struct rig *r, void (*start)(struct meta *m))
{
	int err = meta_create(&r->m, &r->conf);
	uint32_t idle = 0;

	ASSERT(err == 0);
	ASSERT(!r->shared || meta_share(r->m) == 0);
	start(r->m);
	while (meta_boot_status(r->m) == -EAGAIN) {
		if (r->cut)
			return -ECANCELED;
		(void)rig_step(r);
		idle = list_empty(&r->queue) ? idle + 1 : 0;
		ASSERT(idle < 1000); /* else it waits for nothing */
	}
	return meta_boot_status(r->m);
}

int rig_format(struct rig *r)
{
	return boot(r, meta_format_start);
}

int rig_mount(struct rig *r)
{
	return boot(r, meta_mount_start);
}

int rig_stop(struct rig *r)
{
	int err;

	rig_idle(r);
	meta_stop_start(r->m);
	while ((err = meta_stop_status(r->m)) == -EAGAIN && !r->cut)
		(void)rig_step(r);
	if (!r->cut)
		queue_drop(r);
	return err;
}

/* ---- the crank ----------------------------------------------------------------------- */

static bool is_stalled(const struct rig *r, const struct list *l)
{
	const struct meta_io *io = list_entry(l, struct meta_io, link);
	const uint64_t at = META_BADDR(io->drive, io->block);

	if (r->silent >> io->drive & 1)
		return true;
	return at != 0 && io->nblocks && (at == r->stalled[0] || at == r->stalled[1]);
}

static bool complete_one(struct rig *r)
{
	struct list *l = r->queue.next;
	uint64_t skip = rand_below(&r->rand, 4);

	if (list_empty(&r->queue))
		return false;
	if (r->lifo)
		l = r->queue.prev;
	while (!r->lifo && skip-- && l->next != &r->queue)
		l = l->next;
	while (l != &r->queue && is_stalled(r, l))
		l = r->lifo ? l->prev : l->next;
	if (l == &r->queue)
		return false;
	list_del(l);
	complete(r, list_entry(l, struct meta_io, link));
	return true;
}

bool rig_step(struct rig *r)
{
	struct meta_io *io;
	struct meta_op *op;
	bool more;

	if (r->cut)
		return false;
	lose_patience(r);
	more = meta_turn(r->m);
	while ((io = meta_io_next(r->m))) {
		ASSERT(!(r->never >> io->drive & 1));
		list_push_back(&r->queue, &io->link);
		if (io->op == META_IO_WRITE)
			write_begin(r, io);
	}
	for (uint64_t n = 1 + rand_below(&r->rand, 4); n > 0 && !r->cut; n--)
		more |= complete_one(r);
	while ((op = meta_op_poll(r->m))) {
		r->over = op;
		if (r->on_over)
			r->on_over(r->on_over_user, op);
	}
	return more || !list_empty(&r->queue);
}

void rig_idle(struct rig *r)
{
	for (int quiet = 0; quiet < 3 && !r->cut;)
		quiet = rig_step(r) ? 0 : quiet + 1;
}

int rig_run(struct rig *r, struct meta_op *op)
{
	uint32_t idle = 0;

	r->over = meta_op_start(r->m, op) ? op : NULL;
	while (!r->over || (!meta_is_durable(r->m, op->seen_seq) && meta__log_lives(r->m))) {
		if (r->cut)
			return -ECANCELED;
		idle = rig_step(r) ? 0 : idle + 1;
		ASSERT(idle < 1000); /* else it waits for nothing */
	}
	ASSERT(r->over == op);
	return op->status;
}

struct meta_statfs rig_statfs(struct rig *r)
{
	struct meta_statfs st = { 0 };
	struct meta_op op = { .type = META_OP_STATFS, .statfs = &st };
	const int err = rig_run(r, &op);

	ASSERT(err == 0);
	return st;
}

int rig_check(struct rig *r, struct meta_check *out)
{
	rig_idle(r);
	meta_check_start(r->m, out);
	while (meta_check_status(r->m) == -EAGAIN)
		(void)rig_step(r);
	return meta_check_status(r->m);
}

/* ---- files ------------------------------------------------------------------------------ */

static struct meta_target target_of(const char *path)
{
	return (struct meta_target){ .path = path, .path_len = (uint32_t)strlen(path) };
}

static void fill_block(uint8_t block[4096], uint64_t fill, uint32_t index)
{
	for (uint32_t i = 0; i < 4096; i += 8)
		memcpy(block + i, &(uint64_t){ fill * 1000 + index }, 8);
}

static void block_write(struct rig *r, uint64_t baddr, void *block)
{
	struct meta_io io = {
		.op = META_IO_WRITE,
		.drive = META_BADDR_DRIVE(baddr),
		.block = META_BADDR_BLOCK(baddr),
		.nblocks = 1,
		.buf = block,
	};

	write_begin(r, &io);
	strike(r);
	while (r->silent >> io.drive & 1 && !r->cut)
		(void)rig_step(r);
	if (r->silent >> io.drive & 1)
		return; /* the power fails first */
	if (r->copied && (r->dead | r->bad_writes) >> io.drive & 1) {
		write_lost(r, &io);
		refused_write(r, io.drive);
		r->data_failed |= !meta_drive_failed(r->m, io.drive);
	} else {
		write_complete(r, &io);
	}
}

/* New bytes, as the appliance writes them: complete, not flushed; the store does that. */
static void data_write(struct rig *r, struct meta_run run, uint64_t fill, uint32_t first,
		       uint32_t *crcs)
{
	for (uint32_t i = 0; i < run.nblocks; i++) {
		uint8_t block[4096];
		uint64_t next;

		fill_block(block, fill, first + i);
		crcs[first + i] = crc32c(block, 4096);
		for (uint64_t at = run.baddr + i; at; at = next) {
			next = meta_twin_of(meta_twins(r->m), at); /* before a drive is lost */
			block_write(r, at, block);
		}
	}
}

void rig_data(struct rig *r, const struct meta_run *runs, uint32_t nruns, uint64_t fill,
	      uint32_t *crcs)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < nruns && !r->cut; i++) {
		data_write(r, runs[i], fill, at, crcs);
		at += runs[i].nblocks;
	}
}

static const uint8_t *bytes_at(const struct rig *r, uint64_t baddr)
{
	const uint32_t d = META_BADDR_DRIVE(baddr);

	return (r->under[d] ? r->under[d] : r->view[d]) + META_BADDR_BLOCK(baddr) * 4096;
}

static uint32_t unreadable(const struct rig *r)
{
	return r->dead | r->silent | r->bad_reads;
}

static bool answers(const struct rig *r, uint64_t baddr)
{
	const uint32_t d = META_BADDR_DRIVE(baddr);

	return meta_twins_has(meta_twins(r->m), d) && !(unreadable(r) >> d & 1);
}

/* The block of a fold, from its others; NULL: it is in none, or they cannot be read. */
static const uint8_t *data_of_fold(const struct rig *r, uint64_t baddr)
{
	static uint8_t block[4096];
	const struct meta_twins *t = meta_twins(r->m);
	struct meta_fold_term term[META_FOLD_MAX];
	const uint32_t count =
		meta_fold_terms(t, baddr, meta_twins_away(t) | unreadable(r), false, term);

	memset(block, 0, sizeof(block));
	for (uint32_t i = 0; i < count; i++)
		gf_add(block,
		       r->view[META_BADDR_DRIVE(term[i].at)] + META_BADDR_BLOCK(term[i].at) * 4096,
		       4096, term[i].by);
	return count ? block : NULL;
}

/* The copy of which the checksum is this, if one is; of a fold the sum of its others; else the
 * first that can be read. */
static const uint8_t *data_of(const struct rig *r, uint64_t baddr, uint32_t crc)
{
	const uint8_t *any = NULL;

	for (uint64_t at = baddr; at; at = meta_twin_of(meta_twins(r->m), at)) {
		const uint8_t *p = bytes_at(r, at);

		if (!answers(r, at))
			continue;
		if (crc32c(p, 4096) == crc)
			return p;
		any = any ? any : p;
	}
	if (meta_twin_of(meta_twins(r->m), baddr) == 0) {
		const uint8_t *sum = data_of_fold(r, baddr);

		any = sum ? sum : any;
	}
	return any ? any : bytes_at(r, baddr);
}

bool rig_is_data(struct rig *r, uint64_t baddr, uint64_t fill, uint32_t index, uint32_t crc)
{
	const uint8_t *p = data_of(r, baddr, crc);
	uint8_t block[4096];

	fill_block(block, fill, index);
	return memcmp(block, p, 4096) == 0 && crc == crc32c(p, 4096);
}

static int data_alloc(struct rig *r, uint32_t blocks, struct meta_run *runs, uint32_t *nruns)
{
	int err;
	uint32_t idle = 0;

	r->spread++;
	while ((err = meta_data_alloc(r->m, r->spread, blocks, runs, 64, nruns)) == -EAGAIN) {
		if (r->cut)
			return -ECANCELED;
		idle = rig_step(r) ? 0 : idle + 1;
		ASSERT(idle < 100); /* else it waits for nothing */
	}
	return err;
}

uint32_t rig_thin_zones(struct rig *r)
{
	uint32_t thin = 0;

	for (uint32_t i = 0; i < r->m->zones->geo.nzones; i++) {
		const struct meta__zone *at = meta__zone_at(r->m, i);

		if ((at->kind == META__ZONE_PAGE || at->kind == META__ZONE_DATA) && at->live)
			thin += meta__is_thin(r->m, i);
	}
	return thin;
}

int rig_put(struct rig *r, const char *path, uint32_t blocks, uint64_t fill)
{
	struct meta_run runs[64];
	uint32_t crcs[META_IO_BLOCKS_MAX];
	struct meta_op op = {
		.type = META_OP_PUT,
		.target = target_of(path),
		.wall_ns = 5,
		.runs = runs,
		.crcs = crcs,
		.nblocks = blocks,
		.size = (uint64_t)blocks * 4096,
	};
	int err;

	if (blocks == 0) {
		op.flags = META_BY_INLINE;
		op.inline_buf = &fill;
		op.inline_len = sizeof(fill);
		op.size = sizeof(fill);
		return rig_run(r, &op);
	}
	err = data_alloc(r, blocks, runs, &op.nruns);
	if (err)
		return err;
	r->data_failed = false;
	rig_data(r, runs, op.nruns, fill, crcs);
	if (r->data_failed && !r->cut) {
		meta_data_free(r->m, runs, op.nruns);
		return -EIO;
	}
	return r->cut ? -ECANCELED : rig_run(r, &op);
}

int rig_get(struct rig *r, const char *path, uint32_t *blocks, uint64_t *fill)
{
	struct meta_run runs[128];
	uint32_t crcs[META_IO_BLOCKS_MAX], at = 0;
	uint8_t inline_buf[4096];
	struct meta_op op = {
		.type = META_OP_READ,
		.target = target_of(path),
		.length = META_IO_BLOCKS_MAX * 4096,
		.runs = runs,
		.crcs = crcs,
		.runs_max = 128,
		.blocks_max = META_IO_BLOCKS_MAX,
		.inline_buf = inline_buf,
	};
	int err = rig_run(r, &op);

	if (err)
		return err;
	*blocks = op.nblocks;
	if (op.inline_len) {
		memcpy(fill, inline_buf, sizeof(*fill));
		*blocks = 0;
	}
	for (uint32_t i = 0; i < op.nruns && !op.inline_len; i++) {
		for (uint32_t k = 0; k < runs[i].nblocks; k++, at++) {
			const uint64_t baddr = runs[i].baddr + k;

			if (at == 0)
				memcpy(fill, data_of(r, baddr, crcs[at]), 8);
			if (at == 0)
				*fill /= 1000;
			if (!rig_is_data(r, baddr, *fill, at, crcs[at]))
				err = -EBADMSG;
		}
	}
	meta_read_end(r->m, &op);
	return err;
}

int rig_unlink(struct rig *r, const char *path)
{
	struct meta_op op = { .type = META_OP_UNLINK, .target = target_of(path), .wall_ns = 6 };

	return rig_run(r, &op);
}

int rig_mkdir(struct rig *r, const char *path)
{
	struct meta_op op = { .type = META_OP_MKDIR, .target = target_of(path), .wall_ns = 6 };

	return rig_run(r, &op);
}
