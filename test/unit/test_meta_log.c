/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The log: blocks and records as bytes; then what is written when, in a store. */
#include "test/lib/meta_golden.h"
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static uint8_t block[64 * 4096];
static struct meta m;
static struct meta__shard shards[4];

static const struct meta__log_head a_head = {
	.tag = 0x1234567890,
	.epoch = 7,
	.seq = 42,
	.durable = 40,
	.trim = 3,
	.nblocks = 1,
};

static uint32_t records_make(struct meta__log_head *h)
{
	static uint8_t value[META_VALUE_MAX];
	struct meta__mut mut[5];

	for (uint32_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)(i * 7);
	for (uint32_t i = 0; i < 5; i++)
		mut[i] = (struct meta__mut){
			.shard = i % 2 ? 3 : 1,
			.del = i == 2,
			.key = { { i, 2 * i, 3 * i } },
			.value = value,
			.value_len = i == 2 ? 0 : i * 50 + 1,
		};
	for (uint32_t s = 0; s < 4; s++)
		shards[s] = (struct meta__shard){
			.seq = 10 + s,
			.uniq_next = 20 + s,
			.dir_next = 30 + s,
			.files = 40 + s,
			.dirs = 50 + s,
		};
	m = (struct meta){ .nshards = 4, .shard = shards };
	*h = a_head;
	h->bytes = meta__record_write(&m, block + 64, mut, 5);
	h->bytes += meta__record_write(&m, block + 64 + h->bytes, mut, 1);
	h->records = 2;
	meta__log_seal(block, h);
	return h->bytes;
}

Test(meta_log, records_come_back_by_shard_in_their_order)
{
	struct meta__mut mut[META__TX_RECORDS_MAX];
	struct meta__record_reader r;
	struct meta__log_head h;
	struct meta__part p;

	records_make(&h);
	cr_assert_eq(meta__log_open(block, 64, a_head.tag, &h), 0);
	cr_assert_eq(h.seq, 42);
	cr_assert_eq(h.durable, 40);
	cr_assert_eq(h.trim, 3);
	meta__reader_init(&r, block, &h, 4);
	cr_assert_eq(meta__reader_next(&r, &p, mut), 1);
	cr_assert_eq(p.shard, 1);
	cr_assert_eq(p.count, 3);
	cr_assert_eq(p.seq, 11);
	cr_assert_eq(p.uniq_next, 21);
	cr_assert_eq(p.dir_next, 31);
	cr_assert_eq(p.files, 41);
	cr_assert_eq(p.dirs, 51);
	cr_assert_eq(mut[0].value_len, 1);
	cr_assert(mut[1].del);
	cr_assert_eq(mut[2].value_len, 201);
	cr_assert_eq(((const uint8_t *)mut[2].value)[200], (uint8_t)(200 * 7));
	cr_assert_not(r.last_part);
	cr_assert_eq(meta__reader_next(&r, &p, mut), 1);
	cr_assert_eq(p.shard, 3);
	cr_assert_eq(p.count, 2);
	cr_assert(r.last_part);
	cr_assert_eq(meta__reader_next(&r, &p, mut), 1);
	cr_assert_eq(p.count, 1);
	cr_assert_eq(meta__reader_next(&r, &p, mut), 0);
}

/* No key comes after it: who goes from key to key would begin again. */
Test(meta_log, last_of_all_keys_is_none)
{
	struct meta__mut mut[META__TX_RECORDS_MAX] = {
		{ .shard = 1, .key = { { UINT64_MAX, UINT64_MAX, UINT64_MAX } }, .value = "" }
	};
	struct meta__record_reader r;
	struct meta__log_head h;
	struct meta__part p;

	records_make(&h);
	h.bytes = meta__record_write(&m, block + 64, mut, 1);
	h.records = 1;
	meta__log_seal(block, &h);
	meta__reader_init(&r, block, &h, 4);
	cr_assert_eq(meta__reader_next(&r, &p, mut), -EUCLEAN);
}

Test(meta_log, every_flipped_bit_of_a_block_is_seen)
{
	struct meta__log_head h;

	records_make(&h);
	for (uint32_t bit = 0; bit < 4096 * 8; bit++) {
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_eq(meta__log_open(block, 64, a_head.tag, &h), -ENODATA, "bit %u", bit);
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

Test(meta_log, every_torn_block_is_seen)
{
	struct meta__log_head h = a_head;
	static uint8_t whole[3 * 4096];

	h.nblocks = 3;
	memset(block + 64, 0x5a, sizeof(whole) - 64);
	h.bytes = sizeof(whole) - 64;
	meta__log_seal(block, &h);
	memcpy(whole, block, sizeof(whole));
	for (uint32_t lost = 0; lost < sizeof(whole) / 512; lost++) {
		memcpy(block, whole, sizeof(whole));
		memset(block + lost * 512, 0, 512);
		cr_assert_eq(meta__log_open(block, 64, a_head.tag, &h), -ENODATA, "%u", lost);
	}
	memcpy(block, whole, sizeof(whole));
	cr_assert_eq(meta__log_open(block, 64, a_head.tag, &h), 0);
	cr_assert_eq(meta__log_open(block, 2, a_head.tag, &h), -ENODATA, "cut off");
}

Test(meta_log, block_of_another_use_of_the_zone_is_none)
{
	struct meta__log_head h;
	struct meta other = { .secret = 1 };
	uint64_t tag = meta__log_tag(&m, 2, 3);

	records_make(&h);
	cr_assert_eq(meta__log_open(block, 64, a_head.tag + 1, &h), -ENODATA);
	cr_assert_neq(tag, meta__log_tag(&other, 2, 3));
	other.secret = m.secret;
	cr_assert_eq(tag, meta__log_tag(&other, 2, 3));
	other.uuid[15] = 1;
	cr_assert_neq(tag, meta__log_tag(&other, 2, 3));
	cr_assert_neq(tag, meta__log_tag(&m, 3, 3));
	cr_assert_neq(tag, meta__log_tag(&m, 2, 4));
}

Test(meta_log, bytes_are_what_they_were)
{
	struct meta__log_head h;

	records_make(&h);
	cr_assert(golden_is("test/golden/meta_log.bin", block, 4096));
}

/* ---- in a store ------------------------------------------------------------------- */

static struct rig r;

static void store(void)
{
	rig_make(&r, 1, 2, 8u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	rig_idle(&r);
}

static void store_end(void)
{
	rig_end(&r);
}

TestSuite(meta_log_store, .init = store, .fini = store_end, .timeout = 30);

static struct meta__mut a_mut(void)
{
	return (struct meta__mut){
		.shard = 0, .key = { { 9, 9, 9 } }, .value = "x", .value_len = 1
	};
}

static uint64_t append(uint64_t drives)
{
	struct meta__mut mut = a_mut();

	return meta__log_append(r.m, &mut, 1, drives);
}

static struct meta__io *one_io(void)
{
	struct meta_io *io = meta_io_next(r.m);

	cr_assert_not_null(io);
	cr_assert_eq(container_of(io, struct meta__io, io)->kind, META__IO_LOG);
	return container_of(io, struct meta__io, io);
}

static void one_done(struct meta__io *x, int status)
{
	x->io.status = status;
	meta_io_done(r.m, &x->io);
}

#define COPIES 2u /* of a block of this store's log */

static struct meta__io *write_of[META__LOG_BUFS][COPIES];
static uint32_t writes;

/* The next I/O that the log wants, straight from the store.  A write is two, of the same bytes to
 * two drives: done() both at once. */
static struct meta__io *log_io(void)
{
	struct meta__io *x = one_io(), *second;

	if (x->io.op != META_IO_WRITE)
		return x;
	second = one_io();
	cr_assert_eq(second->io.op, META_IO_WRITE);
	cr_assert(second->io.fua);
	cr_assert_eq(second->io.buf, x->io.buf);
	cr_assert_eq(second->io.nblocks, x->io.nblocks);
	cr_assert_neq(second->io.drive, x->io.drive);
	write_of[writes % META__LOG_BUFS][0] = x;
	write_of[writes++ % META__LOG_BUFS][1] = second;
	return x;
}

static void done(struct meta__io *x, int status)
{
	one_done(x, status);
	for (uint32_t i = 0; i < META__LOG_BUFS; i++)
		if (write_of[i][0] == x) {
			write_of[i][0] = NULL;
			one_done(write_of[i][1], status);
		}
}

Test(meta_log_store, one_turn_is_one_block_by_fua)
{
	uint64_t seq = append(0);
	struct meta__io *x;

	cr_assert_eq(append(0), seq);
	cr_assert_null(meta_io_next(r.m), "nothing before the turn ends");
	meta__log_turn(r.m);
	x = log_io();
	cr_assert_eq(x->io.op, META_IO_WRITE);
	cr_assert(x->io.fua);
	cr_assert_eq(x->io.nblocks, 1);
	cr_assert_null(meta_io_next(r.m));
	cr_assert_eq(append(0), seq + 1, "later records go to a later block");
	cr_assert_not(meta_is_durable(r.m, seq));
	done(x, 0);
	cr_assert(meta_is_durable(r.m, seq));
}

/* Zones are as small as they may be: two checkpoints can still record their trims. */
Test(meta_log_store, largest_record_leaves_the_blocks_that_the_log_keeps)
{
	static const uint8_t value[META_VALUE_MAX];
	const uint32_t most = meta__log_record_max(r.m), end = r.m->zones->geo.zone_end;
	struct meta__mut mut[META__TX_RECORDS_MAX];
	struct meta__io *x;
	uint32_t n = 0, left = most, at;

	cr_assert_eq(end, META__ZONE_BYTES_MIN / META__BLOCK - 1);
	for (; left > META_VALUE_MAX + sizeof(struct meta_mut_disk); n++) {
		mut[n] = (struct meta__mut){ .key = { { 9, 9, n } },
					     .value = value,
					     .value_len = META_VALUE_MAX };
		left = most - meta__log_record_bytes(mut, n + 1);
	}
	mut[n] = a_mut();
	mut[n].value = value;
	mut[n].value_len = left - (uint32_t)sizeof(struct meta_mut_disk);
	cr_assert_eq(meta__log_record_bytes(mut, n + 1), most);
	meta__log_append(r.m, mut, n + 1, 0);
	meta__log_turn(r.m);
	x = log_io();
	at = (uint32_t)(META_BADDR(x->io.drive, x->io.block) -
			meta__geo_zone_baddr(
				&r.m->zones->geo,
				meta__zone_of(r.m, META_BADDR(x->io.drive, x->io.block))));
	cr_assert_leq(at + x->io.nblocks + META__LOG_KEEP_BLOCKS, end, "%u + %u", at,
		      x->io.nblocks);
	done(x, 0);
}

Test(meta_log_store, data_is_flushed_before_the_block_that_names_it_is_submitted)
{
	uint64_t seq = append(3);
	struct meta__io *flush[2], *x;

	meta__log_turn(r.m);
	flush[0] = log_io();
	flush[1] = log_io();
	cr_assert_eq(flush[0]->io.op, META_IO_FLUSH);
	cr_assert_eq(flush[1]->io.op, META_IO_FLUSH);
	cr_assert_eq(flush[0]->io.drive + flush[1]->io.drive, 1);
	done(flush[1], 0);
	cr_assert_null(meta_io_next(r.m));
	done(flush[0], 0);
	x = log_io();
	cr_assert_eq(x->io.op, META_IO_WRITE);
	done(x, 0);
	cr_assert(meta_is_durable(r.m, seq));
}

Test(meta_log_store, block_counts_when_all_before_it_are_durable)
{
	struct meta__io *x[3];
	uint64_t seq[3];

	for (int i = 0; i < 3; i++) {
		seq[i] = append(0);
		meta__log_turn(r.m);
		x[i] = log_io();
	}
	done(x[2], 0);
	done(x[1], 0);
	cr_assert_not(meta_is_durable(r.m, seq[0]));
	cr_assert_not(meta_is_durable(r.m, seq[2]));
	done(x[0], 0);
	cr_assert(meta_is_durable(r.m, seq[2]));
}

Test(meta_log_store, block_counts_when_both_copies_of_it_are_durable)
{
	for (uint32_t first = 0; first < COPIES; first++) {
		const uint64_t seq = append(0);
		struct meta__io *x[COPIES];

		meta__log_turn(r.m);
		x[0] = one_io();
		x[1] = one_io();
		one_done(x[first], 0);
		cr_assert_not(meta_is_durable(r.m, seq));
		one_done(x[!first], 0);
		cr_assert(meta_is_durable(r.m, seq));
	}
}

Test(meta_log_store, only_so_many_blocks_are_in_flight)
{
	uint32_t bytes, n = 0;
	struct meta__mut mut = a_mut();
	struct meta__io *first = NULL;

	bytes = meta__log_record_bytes(&mut, 1);
	for (; meta__log_room(r.m, bytes); n++) {
		(void)append(0);
		meta__log_turn(r.m);
		if (n == 0)
			first = log_io();
	}
	cr_assert_eq(n, META__LOG_BUFS);
	cr_assert_not(meta__log_full(r.m, bytes), "it is not space that is missing");
	done(first, 0);
	cr_assert(meta__log_room(r.m, bytes));
}

/* Of drives that answer at once: what has no room then gets some by a checkpoint only. */
static bool log_turn(uint32_t bytes)
{
	struct meta_io *io;

	meta__log_turn(r.m);
	while ((io = meta_io_next(r.m)))
		done(container_of(io, struct meta__io, io), 0);
	return meta__log_room(r.m, bytes);
}

Test(meta_log_store, is_full_when_only_a_checkpoint_makes_room)
{
	struct meta__mut mut = a_mut();
	const uint32_t bytes = meta__log_record_bytes(&mut, 1);
	uint32_t n = 0;

	for (; log_turn(bytes) && n < 10000; n++)
		(void)append(0);
	cr_assert(n > 100 && n < 10000, "%u", n);
	cr_assert(meta__log_full(r.m, bytes));
	meta__log_trim(r.m, meta__log_last(r.m));
	for (n = 0; !log_turn(bytes) && n < 100; n++)
		;
	cr_assert_lt(n, 100, "there is room again");
}

Test(meta_log_store, quiet_log_writes_one_block_to_vouch_and_then_nothing)
{
	uint64_t before = meta__log_blocks(r.m);

	(void)append(0);
	rig_idle(&r);
	cr_assert_eq(meta__log_blocks(r.m), before + 2, "the record's and the one that vouches");
	for (int i = 0; i < 1000; i++)
		cr_assert_not(meta_turn(r.m));
	cr_assert_eq(meta__log_blocks(r.m), before + 2);
}

/* The records of one turn are one write, of as many blocks of 4 KiB as they need. */
Test(meta_log_store, all_blocks_of_a_write_are_counted)
{
	const uint64_t before = meta__log_blocks(r.m);
	struct meta__mut mut = a_mut();
	const uint32_t bytes = meta__log_record_bytes(&mut, 1), count = 5 * META__BLOCK / bytes;

	for (uint32_t i = 0; i < count; i++)
		(void)append(0);
	rig_idle(&r);
	cr_assert_geq((meta__log_blocks(r.m) - before) * META__BLOCK, count * bytes);
	cr_assert_eq(rig_statfs(&r).log_blocks, meta__log_blocks(r.m));
}

Test(meta_log_store, failed_write_stops_changes_and_acknowledges_nothing)
{
	uint64_t seq = append(0);

	meta__log_turn(r.m);
	done(log_io(), -EIO);
	cr_assert_eq(meta_health(r.m), -EROFS);
	cr_assert_not_null(strstr(meta_error(r.m), "log"), "%s", meta_error(r.m));
	cr_assert_not(meta_is_durable(r.m, seq));
	cr_assert_not(meta__log_room(r.m, 100));
}

Test(meta_log_store, zones_come_back_only_when_a_durable_block_says_so)
{
	uint32_t zones = 0;
	struct meta__io *x;

	while (r.m->zones->log_count < 4 * COPIES) {
		(void)append(0);
		meta__log_turn(r.m);
		while (meta__log_durable(r.m) < meta__log_last(r.m))
			(void)rig_step(&r);
	}
	rig_idle(&r);
	zones = r.m->zones->log_count;
	meta__log_trim(r.m, meta__log_last(r.m));
	cr_assert_eq(r.m->zones->log_count, zones);
	meta__log_turn(r.m);
	x = log_io();
	cr_assert_eq(r.m->zones->log_count, zones);
	done(x, 0);
	cr_assert_lt(r.m->zones->log_count, zones);
}
