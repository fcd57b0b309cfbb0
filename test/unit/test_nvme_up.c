/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The way up: namespaces and formats of all kinds, controllers that do not answer, time that the
 * test itself hands out; and what a drive is like afterwards.
 */
#include "test/lib/nvme_fixture.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct nvme_fixture f;

static void setup(void)
{
	fixture_up(&f, &(struct sim_drive_options){ .nblocks = 256 }, 8);
}

static void teardown(void)
{
	fixture_down(&f);
}

TestSuite(nvme_up, .init = setup, .fini = teardown, .timeout = 60);

/* Instead of the fixture's drive, one that `change` has changed. */
static void other_drive(void (*change)(struct nvme_soft_traits *traits))
{
	fixture_down(&f);
	fixture_up_traits(&f, &(struct sim_drive_options){ .nblocks = 256 }, change, 8);
}

/* Brings up a second drive, by a name that asks for a namespace; 0: for none. */
static int bring_up(void (*change)(struct nvme_soft_traits *), uint32_t nsid,
		    struct nvme_info *info, char *err_text)
{
	struct nvme_options options = { .qpair_count_max = 4 };
	char name[64] = "pci:0000:00:00.0";
	struct nvme_drive *drive;
	struct sim_drive *sim;
	struct nvme_soft *soft;
	int err;

	if (nsid)
		(void)snprintf(name, sizeof(name), "pci:0000:00:00.0?nsid=%u", nsid);
	cr_assert_eq(sim_drive_create(&sim, &(struct sim_drive_options){ .nblocks = 256 }), 0);
	if (change)
		change(sim_drive_traits(sim));
	cr_assert_eq(nvme__soft_create(&soft, f.dma, sim_drive_back(sim)), 0);
	err = nvme__drive_up(&drive, &nvme__soft_ops, soft, name, f.dma, &options, err_text,
			     NVME_ERR_TEXT);
	if (!err) {
		nvme_drive_info(drive, info);
		nvme_close(drive);
	}
	sim_drive_destroy(sim);
	return err;
}

static void expect_refusal(int want, const char *why, void (*change)(struct nvme_soft_traits *),
			   uint32_t nsid)
{
	char err_text[NVME_ERR_TEXT] = "";
	struct nvme_info info;

	cr_assert_eq(bring_up(change, nsid, &info, err_text), want, "%s", err_text);
	cr_assert_eq(strncmp(err_text, "pci:0000:00:00.0", 16), 0, "%s", err_text);
	cr_assert_not_null(strstr(err_text, why), "%s", err_text);
}

/* ---- namespaces -------------------------------------------------------------------------- */

static struct nvme_soft_ns ns[3000];

static void three_namespaces(struct nvme_soft_traits *traits)
{
	ns[0] = (struct nvme_soft_ns){ .nsid = 2, .lba_shift = 9, .size_lbas = 8 * 100 + 3 };
	ns[1] = (struct nvme_soft_ns){
		.nsid = 7, .lba_shift = 12, .first_block = 128, .size_lbas = 64
	};
	ns[2] = (struct nvme_soft_ns){ .nsid = 9, .lba_shift = 12 };
	traits->ns = ns;
	traits->ns_count = 3;
}

Test(nvme_up, namespace_is_the_first_active_one_or_the_one_that_the_name_asks_for)
{
	struct nvme_info info;
	char err_text[NVME_ERR_TEXT];

	cr_assert_eq(bring_up(three_namespaces, 0, &info, err_text), 0);
	cr_assert_eq(info.nsid, 2);
	cr_assert_eq(info.lba_bytes, 512);
	cr_assert_eq(info.nblocks, 100, "the last three LBAs fill no block");
	cr_assert_eq(bring_up(three_namespaces, 7, &info, err_text), 0);
	cr_assert_eq(info.nsid, 7);
	cr_assert_eq(info.lba_bytes, 4096);
	cr_assert_eq(info.nblocks, 64);
	expect_refusal(-ENODEV, "no namespace 9, but 2, 7", three_namespaces, 9);
	expect_refusal(-ENODEV, "no namespace 1, but 2", three_namespaces, 1);
	expect_refusal(-ENODEV, "no namespace 4294967294", three_namespaces, 4294967294u);
}

static void many_namespaces(struct nvme_soft_traits *traits)
{
	for (uint32_t i = 0; i < ARRAY_LEN(ns); i++)
		ns[i] = (struct nvme_soft_ns){ .nsid = 3 * i + 1, .lba_shift = 12, .size_lbas = 1 };
	traits->ns = ns;
	traits->ns_count = ARRAY_LEN(ns);
}

static void full_page_of_namespaces(struct nvme_soft_traits *traits)
{
	many_namespaces(traits);
	traits->ns_count = 1024;
}

Test(nvme_up, list_of_namespaces_goes_on_over_many_pages)
{
	static const uint32_t there[] = { 1, 4, 3 * 1022 + 1, 3 * 1023 + 1, 3 * 1024 + 1, 8998 };
	struct nvme_info info;
	char err_text[NVME_ERR_TEXT];

	for (size_t i = 0; i < ARRAY_LEN(there); i++) {
		cr_assert_eq(bring_up(many_namespaces, there[i], &info, err_text), 0, "%s",
			     err_text);
		cr_assert_eq(info.nsid, there[i]);
	}
	expect_refusal(-ENODEV, "no namespace 9000, but 1, 4, 7, 10, 13, 16, 19, 22, ...",
		       many_namespaces, 9000);
	expect_refusal(-ENODEV, "no namespace 5,", many_namespaces, 5);
	expect_refusal(-ENODEV, "no namespace 9000,", full_page_of_namespaces, 9000);
}

#define CHANGE(name, ...)                                                                          \
	static void name(struct nvme_soft_traits *traits)                                          \
	{                                                                                          \
		three_namespaces(traits);                                                          \
		__VA_ARGS__;                                                                       \
	}

CHANGE(metadata, ns[0].metadata_bytes = 8)
CHANGE(protection, ns[0].metadata_bytes = 8; ns[0].protection = 1)
CHANGE(zoned, ns[0].command_set = NVME_COMMAND_SET_ZONED)
CHANGE(key_value, ns[0].command_set = NVME_COMMAND_SET_KEY_VALUE)
CHANGE(unknown_set, ns[0].command_set = 0x30)
CHANGE(protected, ns[0].write_protected = true)
CHANGE(large_lbas, ns[0].lba_shift = 13)
CHANGE(discovery, traits->controller_type = 2)
CHANGE(out_of_order, ns[0].nsid = 8)

Test(nvme_up, what_is_of_no_use_is_refused_by_name)
{
	expect_refusal(-ENOTSUP, "8 bytes of metadata a block:", metadata, 0);
	expect_refusal(-ENOTSUP, "and protection information", protection, 0);
	expect_refusal(-ENOTSUP, "zoned", zoned, 0);
	expect_refusal(-ENOTSUP, "keys and values", key_value, 0);
	expect_refusal(-ENOTSUP, "command set that is unknown", unknown_set, 0);
	expect_refusal(-EROFS, "write protected", protected, 0);
	expect_refusal(-ENOTSUP, "2^13", large_lbas, 0);
	expect_refusal(-ENOTSUP, "discovery", discovery, 0);
	expect_refusal(-EIO, "out of order", out_of_order, 9);
}

Test(nvme_up, namespaces_share_a_controller_and_no_block)
{
	struct nvme_io io;

	other_drive(three_namespaces); /* nsid 2: blocks 0 .. 99, LBAs of 512 */
	io = write_of(&f, 99, 1, 5);
	cr_assert_eq(fixture_run(&f, &io), 0);
	io = read_of(&f, 100, 1);
	cr_assert_eq(fixture_run(&f, &io), -ERANGE);
	fixture_down(&f);
	fixture_up(&f, &(struct sim_drive_options){ .nblocks = 256 }, 8);
}

CHANGE(second_first, ns[0].size_lbas = 0)

Test(nvme_up, second_namespace_begins_where_it_lies)
{
	struct nvme_io io;

	other_drive(second_first); /* the first active is nsid 7, from block 128 on */
	cr_assert_eq(f.info.nblocks, 64);
	io = write_of(&f, 1, 2, 6);
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert(holds(sim_drive_visible(f.sim) + 129 * 4096, 8192, 6));
	io = read_of(&f, 63, 2);
	cr_assert_eq(fixture_run(&f, &io), -ERANGE);
}

/* ---- limits -------------------------------------------------------------------------------- */

static uint32_t mdts;

CHANGE(with_mdts, traits->mdts = mdts)
CHANGE(with_mdts_sgl, traits->mdts = mdts; traits->sgl = true)

Test(nvme_up, transfers_are_as_long_as_mdts_says)
{
	struct nvme_info info;
	char err_text[NVME_ERR_TEXT];

	for (mdts = 1; mdts <= 8; mdts++) {
		cr_assert_eq(bring_up(with_mdts, 0, &info, err_text), 0);
		cr_assert_eq(info.transfer_max_bytes, 4096u << mdts);
		cr_assert_eq(bring_up(with_mdts_sgl, 0, &info, err_text), 0);
		cr_assert_eq(info.transfer_max_bytes, 4096u << mdts);
	}
}

CHANGE(few_queues, traits->queue_count_max = 2)
CHANGE(cmb, traits->cmb = true)
CHANGE(old, traits->version = 0x00010200; ns[0].command_set = NVME_COMMAND_SET_ZONED)

Test(nvme_up, queues_are_those_that_both_agree_on)
{
	struct nvme_info info;
	char err_text[NVME_ERR_TEXT];

	cr_assert_eq(bring_up(three_namespaces, 0, &info, err_text), 0);
	cr_assert_eq(info.qpair_count_max, 4, "as many as were asked for");
	cr_assert_eq(bring_up(few_queues, 0, &info, err_text), 0);
	cr_assert_eq(info.qpair_count_max, 2, "as many as there are");
}

Test(nvme_up, memory_buffer_is_noted_and_descriptors_are_not_asked_of_an_old_controller)
{
	struct nvme_info info;
	char err_text[NVME_ERR_TEXT];

	cr_assert_eq(bring_up(three_namespaces, 0, &info, err_text), 0);
	cr_assert_str_eq(info.note, "");
	cr_assert_eq(bring_up(cmb, 0, &info, err_text), 0);
	cr_assert_not_null(strstr(info.note, "controller memory buffer"), "%s", info.note);
	cr_assert_eq(bring_up(old, 0, &info, err_text), 0, "%s", err_text);
}

/* ---- SGLs ------------------------------------------------------------------------------------ */

CHANGE(sgl, (void)ns; traits->ns = NULL; traits->sgl = true; traits->mdts = 6)

Test(nvme_up, long_transfers_are_one_descriptor_where_the_controller_takes_them)
{
	other_drive(sgl);
	for (uint32_t nblocks = 1; nblocks <= 2 * 64; nblocks++) {
		struct nvme_sqe *sqe = &f.qp->rings.sq[f.qp->rings.sq_tail];
		struct nvme_io io = write_of(&f, 7, nblocks, nblocks);

		cr_assert_eq(nvme_submit(f.qp, &io), 0);
		cr_assert_eq(sqe->flags, nblocks > 2 ? NVME_SQE_SGL : 0, "%u blocks", nblocks);
		if (nblocks > 2)
			cr_assert_eq(le64_get(sqe->prp2), min_u32(nblocks, 64) * 4096ull,
				     "type 0, the length");
		cr_assert_eq(fixture_finish(&f, &io), 0);
		fixture_clear(&f);
		io = read_of(&f, 7, nblocks);
		cr_assert_eq(fixture_run(&f, &io), 0);
		cr_assert(fixture_holds(&f, nblocks, nblocks));
	}
	cr_assert_eq(nvme_dma_fault_count(f.dma), 0);
}

/* ---- doorbells in memory -------------------------------------------------------------------- */

CHANGE(shadow, traits->ns = NULL; traits->shadow = true)

Test(nvme_up, doorbell_is_written_when_the_controller_sleeps_and_else_not)
{
	struct nvme_io io[4], *done[4];
	struct nvme_soft_queue *q;

	other_drive(shadow);
	q = fixture_soft(&f)->queue[1];
	cr_assert_not_null(q->sq_shadow);
	cr_assert_eq(nvme_poll(f.qp, done, 4), 0);
	cr_assert(q->asleep);
	for (uint32_t i = 0; i < 4; i++) {
		io[i] = read_of(&f, i, 1);
		cr_assert_eq(nvme_submit(f.qp, &io[i]), 0);
		nvme_ring(f.qp);
		cr_assert_eq(*q->sq_shadow, i + 1);
		cr_assert_eq(*f.qp->rings.sq_doorbell, 1, "woken once; then it is awake");
	}
	cr_assert_eq(nvme_poll(f.qp, done, 4), 4);
	cr_assert_eq(q->wake_count, 1);
}

Test(nvme_up, no_wake_up_is_lost_with_doorbells_in_memory_whatever_the_order)
{
	struct nvme_io io[7], *done[7];
	struct rand_state rand;
	uint32_t out = 0, used = 0;

	other_drive(shadow);
	rand_seed(&rand, 3);
	for (uint32_t turn = 0; turn < 20000; turn++) {
		uint32_t count = (uint32_t)rand_below(&rand, 8 - out);

		for (uint32_t i = 0; i < count; i++) {
			uint32_t at = 0;

			while (used >> at & 1)
				at++;
			io[at] = read_of(&f, at, 1);
			cr_assert_eq(nvme_submit(f.qp, &io[at]), 0);
			used |= 1u << at;
			out++;
			if (rand_below(&rand, 2))
				nvme_ring(f.qp);
		}
		nvme_ring(f.qp);
		count = nvme_poll(f.qp, done, 1 + (uint32_t)rand_below(&rand, 7));
		cr_assert(out == 0 || count > 0, "turn %u: the controller sleeps over %u", turn,
			  out);
		for (uint32_t i = 0; i < count; i++)
			used &= ~(1u << (done[i] - io));
		out -= count;
	}
	cr_assert_gt(fixture_soft(&f)->queue[1]->wake_count, 100);
	while (out > 0)
		out -= nvme_poll(f.qp, done, 7);
}

/* The controller on a thread of its own, as a device is: it sleeps while nobody calls. */
static _Atomic bool serving;

static void *serve(void *soft)
{
	while (atomic_load_explicit(&serving, memory_order_relaxed)) {
		for (uint32_t i = 0; i < 100; i++)
			nvme__soft_ops.service(soft, 1);
		sched_yield();
	}
	return NULL;
}

Test(nvme_up, no_wake_up_is_lost_when_the_controller_is_on_a_processor_of_its_own)
{
	struct nvme_ctrl_ops alone = nvme__soft_ops;
	struct nvme_io io, *done[1];
	uint64_t deadline_ns;
	pthread_t thread;

	other_drive(shadow);
	alone.service = NULL;
	f.qp->ops = &alone;
	atomic_store_explicit(&serving, true, memory_order_relaxed);
	cr_assert_eq(pthread_create(&thread, NULL, serve, fixture_soft(&f)), 0);
	for (uint32_t i = 0; i < 30000; i++) {
		io = read_of(&f, i % 256, 1);
		cr_assert_eq(nvme_submit(f.qp, &io), 0);
		nvme_ring(f.qp);
		deadline_ns = clock_now_ns() + 10 * NS_PER_S;
		for (uint32_t spins = 1; nvme_poll(f.qp, done, 1) == 0; spins++) {
			if (spins % 1000 == 0)
				sched_yield();
			if (spins % 100000 == 0)
				cr_assert(clock_now_ns() < deadline_ns, "it sleeps over I/O %u", i);
		}
		/* Now and then, or the two would march in step. */
		for (volatile uint32_t wait = i * 7 % 64; wait > 0; wait--) /* not optimized away */
			;
	}
	atomic_store_explicit(&serving, false, memory_order_relaxed);
	pthread_join(thread, NULL);
	f.qp->ops = &nvme__soft_ops;
}

CHANGE(shadow_many, shadow(traits))

Test(nvme_up, too_many_queues_for_a_page_of_doorbells_go_without)
{
	struct nvme_options options = { .qpair_count_max = 64 };
	struct nvme_drive *drive;
	struct sim_drive *sim;
	char err_text[NVME_ERR_TEXT];
	struct nvme_soft *soft;

	cr_assert_eq(sim_drive_create(&sim, &(struct sim_drive_options){ .nblocks = 16 }), 0);
	shadow_many(sim_drive_traits(sim));
	cr_assert_eq(nvme__soft_create(&soft, f.dma, sim_drive_back(sim)), 0);
	cr_assert_eq(nvme__drive_up(&drive, &nvme__soft_ops, soft, "x", f.dma, &options, err_text,
				    sizeof(err_text)),
		     0);
	cr_assert_not(drive->shadow);
	nvme_close(drive);
	sim_drive_destroy(sim);
}

/* ---- zeroes, deallocate, durability
 * --------------------------------------------------------------- */

CHANGE(ranges, traits->ns = NULL; traits->deallocate = true; traits->range_lbas_max = 50;
       traits->mdts = 1)

Test(nvme_up, zeroes_are_written_and_ranges_given_up_within_their_limits)
{
	struct nvme_io io;

	other_drive(ranges);
	cr_assert_eq(f.info.deallocate_max_blocks, 50);
	cr_assert_eq(f.info.zero_max_blocks, 32, "two times 64 KiB");
	io = write_of(&f, 0, 14, 9);
	cr_assert_eq(fixture_run(&f, &io), 0);
	io = (struct nvme_io){ .op = NVME_ZERO, .block = 2, .nblocks = 32 };
	cr_assert_eq(fixture_run(&f, &io), 0);
	io = read_of(&f, 0, 14);
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert(fixture_holds(&f, 2, 9));
	for (uint32_t i = 2 * 4096; i < 14 * 4096; i++)
		cr_assert_eq(f.buf[i], 0, "%u", i);
	io = (struct nvme_io){ .op = NVME_DEALLOCATE, .block = 200, .nblocks = 50 };
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(fixture_soft(&f)->queue[1]->freed_lbas, 50);
	io.nblocks = 51;
	cr_assert_eq(nvme_submit(f.qp, &io), -EINVAL);
	io = (struct nvme_io){ .op = NVME_DEALLOCATE, .block = 255, .nblocks = 2 };
	cr_assert_eq(fixture_run(&f, &io), -ERANGE);
	io = (struct nvme_io){ .op = NVME_ZERO, .block = 255, .nblocks = 2 };
	cr_assert_eq(fixture_run(&f, &io), -ERANGE);
	io.nblocks = 33;
	cr_assert_eq(nvme_submit(f.qp, &io), -EINVAL);
	cr_assert_eq(nvme_dma_fault_count(f.dma), 0);
}

CHANGE(no_zeroes, traits->ns = NULL; traits->no_zeroes = true)

Test(nvme_up, drive_without_such_commands_is_not_sent_them)
{
	struct nvme_io io = { .op = NVME_ZERO, .nblocks = 1 };

	other_drive(no_zeroes);
	cr_assert_eq(nvme_submit(f.qp, &io), -EOPNOTSUPP);
	io.op = NVME_DEALLOCATE;
	cr_assert_eq(nvme_submit(f.qp, &io), -EOPNOTSUPP);
	cr_assert_eq(nvme_qpair_in_flight(f.qp), 0);
}

CHANGE(one_range, traits->frees = true; traits->thin = true; traits->range_lbas_max = 400)

/* NVM command set 1.0c, figures 39 to 42. */
Test(nvme_up, a_deallocation_is_a_dataset_command_of_one_range_as_the_specification_has_it)
{
	struct nvme_io io = { .op = NVME_DEALLOCATE, .block = 20, .nblocks = 50 };
	const struct nvme_sqe *sqe;
	const uint8_t *at;
	uint64_t iova;

	other_drive(one_range);
	cr_assert(f.info.thin);
	cr_assert_eq(f.info.deallocate_max_blocks, 50, "400 LBAs of 512");
	sqe = &f.qp->rings.sq[f.qp->rings.sq_tail];
	cr_assert_eq(nvme_submit(f.qp, &io), 0);
	at = (const uint8_t *)sqe;
	cr_assert_eq(at[0], 0x09, "opcode");
	cr_assert_eq(at[1], 0, "PRPs, not fused");
	cr_assert_eq(le32_get(sqe->nsid), f.info.nsid);
	cr_assert_eq(le32_get(sqe->cdw10), 0, "one range, less one");
	cr_assert_eq(le32_get(sqe->cdw11), 1 << 2, "attribute: deallocate");
	cr_assert_eq(le32_get(sqe->cdw12), 0);
	iova = le64_get(sqe->prp1);
	cr_assert_eq(le64_get(sqe->prp2), 0);
	at = (const uint8_t *)f.qp->prp_lists + (iova - f.qp->prp_lists_iova);
	cr_assert_arr_eq(at, ((const uint8_t[16]){ 0, 0, 0, 0, 0x90, 1, 0, 0, 160 }), 16,
			 "attributes, 400 LBAs, from 160 on");
	cr_assert_eq(fixture_finish(&f, &io), 0);
	cr_assert_eq(fixture_soft(&f)->queue[1]->freed_lbas, 400);
}

Test(nvme_up, force_unit_access_is_said_only_where_there_is_a_volatile_cache)
{
	struct nvme_io io = write_of(&f, 0, 1, 1);

	io.fua = true;
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(sim_drive_counts(f.sim).fua_count, 0);
	fixture_down(&f);
	fixture_up(&f, &(struct sim_drive_options){ .nblocks = 256, .volatile_cache = true }, 8);
	io = write_of(&f, 0, 1, 1);
	io.fua = true;
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(sim_drive_counts(f.sim).fua_count, 1);
}

/* ---- time, step by step --------------------------------------------------------------------- */

static struct nvme_ctrl_ops slow;
static uint32_t (*read32)(void *ctrl, uint32_t offset);
static bool ready_sticks;
static uint32_t crto;

static uint32_t slow_read32(void *ctrl, uint32_t offset)
{
	if (offset == NVME_REG_CSTS && ready_sticks)
		return NVME_CSTS_RDY;
	if (offset == NVME_REG_CRTO)
		return crto;
	return read32(ctrl, offset);
}

static uint64_t slow_read64(void *ctrl, uint32_t offset)
{
	uint64_t v = nvme__soft_ops.read64(ctrl, offset);

	return offset == NVME_REG_CAP && crto ? v | NVME_CAP_CRWMS : v;
}

static void make_slow(void)
{
	slow = nvme__soft_ops;
	read32 = slow.read32;
	slow.read32 = slow_read32;
	slow.read64 = slow_read64;
	f.drive->ops = &slow;
}

static int rise(struct nvme_up *up, uint64_t now_ns)
{
	nvme__up_begin(up, f.drive, true, f.info.qpair_count_max);
	return nvme__up_step(up, now_ns);
}

/* As a reset does it: the queue pair's queues go with the controller. */
static void down(void)
{
	struct nvme_io *done[8];

	nvme_qpair_stop(f.qp);
	while (nvme_poll(f.qp, done, 8))
		;
	nvme_qpair_destroy(f.qp);
}

static void up_again(void)
{
	struct nvme_up up;
	int rc;

	f.drive->ops = &nvme__soft_ops;
	ready_sticks = false;
	rc = rise(&up, 1);
	cr_assert_eq(rc, 0, "%s", up.text);
	cr_assert_eq(nvme_qpair_create(f.drive, 8, &f.qp), 0);
}

Test(nvme_up, same_drive_comes_up_again_and_works)
{
	struct nvme_io io;

	down();
	up_again();
	io = write_of(&f, 3, 1, 8);
	cr_assert_eq(fixture_run(&f, &io), 0);
}

Test(nvme_up, controller_that_stays_ready_is_waited_for_as_long_as_it_asks)
{
	struct nvme_up up;

	down();
	make_slow();
	ready_sticks = true;
	cr_assert_eq(rise(&up, 1000), 1);
	cr_assert_eq(nvme__up_step(&up, 5000001000), 1, "5 s: CAP.TO");
	cr_assert_eq(nvme__up_step(&up, 5000001001), -ETIMEDOUT);
	cr_assert_not_null(strstr(up.text, "cannot be disabled"), "%s", up.text);
	crto = 60; /* 30 s */
	cr_assert_eq(rise(&up, 0), 1);
	cr_assert_eq(nvme__up_step(&up, 30000000000), 1);
	cr_assert_eq(nvme__up_step(&up, 30000000001), -ETIMEDOUT);
	crto = 0;
	up_again();
}

Test(nvme_up, command_that_never_ends_is_lost_whichever_stage_it_belongs_to)
{
	struct nvme_up up;

	down();
	make_slow();
	for (uint32_t served = 0; served < 7; served++) {
		uint64_t now_ns = 0;

		slow.service = NULL;
		cr_assert_eq(rise(&up, now_ns), 1);
		for (uint32_t i = 0; i < served; i++) {
			nvme__soft_ops.service(f.drive->ctrl, 0);
			cr_assert_eq(nvme__up_step(&up, ++now_ns), 1, "%u of %u", i, served);
		}
		cr_assert_eq(nvme__up_step(&up, now_ns + 6000000000), -ETIMEDOUT, "%u", served);
		cr_assert(f.drive->failed);
		cr_assert_eq(f.drive->admin.slots_used, 1, "lost, not forgotten");
	}
	up_again();
}

static int rise_changed(void)
{
	struct nvme_up up;
	int rc = rise(&up, 1);

	cr_assert_eq(rc <= 0, true);
	cr_assert(rc == 0 || strlen(up.text) > 10);
	return rc;
}

Test(nvme_up, other_drive_than_before_is_refused)
{
	struct nvme_soft_traits *traits = sim_drive_traits(f.sim);
	struct nvme_soft *soft = fixture_soft(&f);
	uint32_t atomic_lbas;

	down();
	traits->serial[0] = 'x';
	cr_assert_eq(rise_changed(), -ENODEV, "another serial number");
	traits->serial[0] = 's';
	cr_assert_eq(rise_changed(), 0);
	soft->own_ns.size_lbas -= 1;
	cr_assert_eq(rise_changed(), -ENODEV, "smaller");
	soft->own_ns.size_lbas += 2;
	cr_assert_eq(rise_changed(), 0, "larger: it may be");
	cr_assert_eq(f.drive->info.nblocks, 256, "but that is for the next opening");
	soft->own_ns.nsid = 2;
	cr_assert_eq(rise_changed(), -ENODEV, "its namespace is gone");
	soft->own_ns.nsid = 1;
	soft->own_ns.lba_shift = 9;
	soft->own_ns.size_lbas = 256 * 8;
	cr_assert_eq(rise_changed(), -ENODEV, "another format");
	soft->own_ns.lba_shift = 12;
	soft->own_ns.size_lbas = 256;
	soft->own_ns.id[23] = 1;
	cr_assert_eq(rise_changed(), -ENODEV, "another namespace, of the same size and place");
	soft->own_ns.id[23] = 0;
	atomic_lbas = traits->atomic_lbas;
	traits->atomic_lbas = 8;
	f.drive->info.atomic_bytes = 8 * NVME_BLOCK_SIZE;
	cr_assert_eq(rise_changed(), 0);
	traits->atomic_lbas = 4;
	cr_assert_eq(rise_changed(), -ENODEV, "a power cut tears more");
	traits->atomic_lbas = atomic_lbas;
	f.drive->info.atomic_bytes = NVME_BLOCK_SIZE;
	traits->no_zeroes = true;
	cr_assert_eq(rise_changed(), -ENODEV, "no more zeroes to be written");
	traits->no_zeroes = false;
	traits->mdts = 1;
	cr_assert_eq(rise_changed(), -ENODEV, "shorter transfers");
	traits->mdts = 5;
	traits->queue_count_max = 1;
	cr_assert_eq(rise_changed(), -ENODEV, "fewer queues");
	traits->queue_count_max = 0;
	up_again();
}

/* ---- the end -------------------------------------------------------------------------------- */

static struct nvme_ctrl_ops ending;
static uint32_t told[8], told_count; /* what was written to CC */
static bool shutdown_sticks;

static void note_write32(void *ctrl, uint32_t offset, uint32_t value)
{
	if (offset == NVME_REG_CC && told_count < ARRAY_LEN(told))
		told[told_count++] = value;
	nvme__soft_ops.write32(ctrl, offset, value);
}

static uint32_t hide_shutdown(void *ctrl, uint32_t offset)
{
	uint32_t v = nvme__soft_ops.read32(ctrl, offset);

	return offset == NVME_REG_CSTS && shutdown_sticks ? v & ~(3u << 2) : v;
}

/* Closes the fixture's drive and opens it again. */
static void close_and_open(void)
{
	ending = nvme__soft_ops;
	ending.write32 = note_write32;
	ending.read32 = hide_shutdown;
	f.drive->ops = &ending;
	told_count = 0;
	fixture_reopen(&f);
	cr_assert_eq(told_count, 2);
	cr_assert(told[0] & NVME_CC_EN);
	cr_assert_eq(NVME_CC_SHN(told[0]), 1, "first it is told to shut down");
	cr_assert_not(told[1] & NVME_CC_EN, "then it is disabled");
}

Test(nvme_up, controller_is_told_to_shut_down_and_writes_its_cache_back)
{
	struct nvme_io io;

	fixture_down(&f);
	fixture_up(&f, &(struct sim_drive_options){ .nblocks = 256, .volatile_cache = true }, 8);
	io = write_of(&f, 4, 1, 11);
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(sim_drive_unflushed(f.sim), 1);
	close_and_open();
	cr_assert_eq(sim_drive_unflushed(f.sim), 0);
}

Test(nvme_up, controller_that_never_shuts_down_is_disabled_all_the_same)
{
	cr_assert_geq(f.drive->shutdown_ns, 5000000000, "no less than it may take to be ready");
	f.drive->shutdown_ns = 2000000;
	shutdown_sticks = true;
	close_and_open();
	shutdown_sticks = false;
}
