/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Several namespaces of one controller, each a drive: what they share, and what each has alone. */
#include "test/lib/nvme_faulty.h"
#include "base/clock.h"
#include "base/num.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define BUF_BYTES (64u << 12)
#define DRIVES    2u

static struct nvme_soft_ns ns[3];
static struct sim_power power;
static struct sim_drive *sim;
static struct nvme_dma *dma;
static struct nvme_faulty faulty;
static struct nvme_drive *drive[DRIVES];
static struct nvme_qpair *qp[DRIVES]; /* one of each */
static uint8_t *buf;
static uint64_t iova;
static char lines[4096], err_text[NVME_ERR_TEXT];

static int join(uint32_t nsid, struct nvme_drive **out)
{
	char name[64] = "pci:0000:00:00.0";

	if (nsid)
		(void)snprintf(name, sizeof(name), "pci:0000:00:00.0?nsid=%u", nsid);
	return nvme__share_join(out, drive[0], name, err_text, sizeof(err_text));
}

/* Namespaces 2, of 512-byte LBAs, and 7, behind it; 9 is not active. */
static void namespaces(struct nvme_soft_traits *traits)
{
	ns[0] = (struct nvme_soft_ns){ .nsid = 2, .lba_shift = 9, .size_lbas = 8 * 64 };
	ns[1] = (struct nvme_soft_ns){
		.nsid = 7, .lba_shift = 12, .first_block = 64, .size_lbas = 32
	};
	ns[2] = (struct nvme_soft_ns){ .nsid = 9, .lba_shift = 12 };
	traits->ns = ns;
	traits->ns_count = 3;
}

static void up(bool volatile_cache)
{
	struct sim_drive_options options = { .power = &power,
					     .nblocks = 128,
					     .volatile_cache = volatile_cache };
	struct nvme_options how = { .qpair_count_max = 4, .io_timeout_ns = NS_PER_S };

	sim_power_init(&power);
	cr_assert_eq(nvme_dma_create(&dma), 0);
	buf = mmap(NULL, BUF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_eq(nvme_dma_map(dma, buf, BUF_BYTES, &iova), 0);
	cr_assert_eq(sim_drive_create(&sim, &options), 0);
	namespaces(sim_drive_traits(sim));
	cr_assert_eq(nvme_faulty_open(&faulty, sim, dma, &how, 1, &drive[0], err_text), 0, "%s",
		     err_text);
	cr_assert_eq(join(7, &drive[1]), 0, "%s", err_text);
	for (uint32_t i = 0; i < DRIVES; i++)
		cr_assert_eq(nvme_qpair_create(drive[i], 8, &qp[i]), 0);
	nvme_faulty_autonomous(&faulty, true);
	lines[0] = 0;
	power.now_ns = NS_PER_S;
	(void)nvme_drive_step(drive[0], power.now_ns);
}

static void setup(void)
{
	up(false);
}

static void end_queues(uint32_t i)
{
	struct nvme_io *done[8];

	if (!qp[i])
		return;
	nvme_faulty_autonomous(&faulty, false);
	nvme_qpair_stop(qp[i]);
	while (nvme_poll(qp[i], done, 8))
		;
	nvme_qpair_destroy(qp[i]);
	qp[i] = NULL;
	nvme_faulty_autonomous(&faulty, true);
}

static void close_one(uint32_t i)
{
	end_queues(i);
	nvme_faulty_autonomous(&faulty, false);
	nvme_close(drive[i]);
	drive[i] = NULL;
	nvme_faulty_autonomous(&faulty, true);
}

static void teardown(void)
{
	for (uint32_t i = 0; i < DRIVES; i++)
		close_one(i);
	sim_drive_destroy(sim);
	nvme_dma_unmap(dma, iova, BUF_BYTES);
	nvme_dma_destroy(dma);
	munmap(buf, BUF_BYTES);
}

TestSuite(nvme_share, .init = setup, .fini = teardown, .timeout = 60);
TestSuite(nvme_share_cache, .fini = teardown, .timeout = 60);

/* One turn of everybody; the drives that are there look after their controller. */
static uint32_t turn(void)
{
	struct nvme_io *done[8];
	char text[NVME_LINE_BYTES];
	uint32_t count = 0;

	nvme_faulty_run(&faulty);
	for (uint32_t i = 0; i < DRIVES; i++) {
		if (!drive[i])
			continue;
		count += qp[i] ? nvme_poll(qp[i], done, 8) : 0;
		(void)nvme_drive_step(drive[i], power.now_ns);
		while (nvme_drive_line(drive[i], text, sizeof(text)))
			(void)snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n",
				       text);
	}
	return count;
}

static uint32_t run(uint64_t span_ns, uint32_t count)
{
	uint64_t end_ns = power.now_ns + span_ns;
	uint32_t back = 0;

	for (; power.now_ns < end_ns && (count == 0 || back < count); power.now_ns += NS_PER_MS / 2)
		back += turn();
	return back;
}

/* Writes or reads one block, filled with `fill`. */
static int io_now(uint32_t i, enum nvme_op op, uint64_t block, uint8_t fill)
{
	struct nvme_io io = {
		.op = op, .nblocks = op != NVME_FLUSH, .block = block, .iova = iova, .status = 1
	};
	int err;

	if (op == NVME_WRITE)
		memset(buf, fill, NVME_BLOCK_SIZE);
	err = nvme_submit(qp[i], &io);
	if (err)
		return err;
	nvme_ring(qp[i]);
	cr_assert_eq(run(NS_PER_S, 1), 1);
	if (!io.status && op == NVME_READ)
		cr_assert(buf[0] == fill && buf[NVME_BLOCK_SIZE - 1] == fill, "%u, not %u", buf[0],
			  fill);
	return io.status;
}

static enum nvme_health health(uint32_t i)
{
	return nvme_drive_health(drive[i]);
}

Test(nvme_share, each_drive_has_its_own_size_format_and_blocks)
{
	struct nvme_info info[DRIVES];

	for (uint32_t i = 0; i < DRIVES; i++)
		nvme_drive_info(drive[i], &info[i]);
	cr_assert(info[0].nsid == 2 && info[0].nblocks == 64 && info[0].lba_bytes == 512);
	cr_assert(info[1].nsid == 7 && info[1].nblocks == 32 && info[1].lba_bytes == 4096);
	cr_assert_str_eq(info[0].serial, info[1].serial);
	cr_assert_eq(io_now(0, NVME_WRITE, 3, 0x11), 0);
	cr_assert_eq(io_now(1, NVME_WRITE, 3, 0x22), 0);
	cr_assert_eq(io_now(0, NVME_READ, 3, 0x11), 0);
	cr_assert_eq(io_now(1, NVME_READ, 3, 0x22), 0);
	cr_assert_eq(io_now(1, NVME_READ, 32, 0), -ERANGE, "its end is its own, too");
	cr_assert_eq(sim_drive_visible(sim)[67 * 4096], 0x22);
}

Test(nvme_share, namespace_is_a_drive_once_and_one_that_is_not_there_is_none)
{
	struct nvme_drive *other;

	nvme_faulty_autonomous(&faulty, false);
	cr_assert_eq(join(7, &other), -EBUSY);
	cr_assert(strstr(err_text, "namespace 7 of its controller is already a drive"), "%s",
		  err_text);
	cr_assert_eq(join(2, &other), -EBUSY);
	cr_assert_eq(join(0, &other), -EBUSY, "without a number it is the first active one");
	cr_assert_eq(join(9, &other), -ENODEV);
	cr_assert(strstr(err_text, "no namespace 9, but 2, 7"), "%s", err_text);
	nvme_faulty_autonomous(&faulty, true);
	cr_assert_eq(io_now(1, NVME_READ, 0, 0), 0);
}

/* Each that is refused leaves a controller that works, and joins when it can. */
Test(nvme_share, namespace_cannot_join_amid_a_reset_and_can_after_it)
{
	close_one(1);
	find_trouble(drive[0], NVME_CAUSE_FATAL, power.now_ns);
	cr_assert_eq(join(7, &drive[1]), -EAGAIN);
	cr_assert(strstr(err_text, "is being reset"), "%s", err_text);
	run(NS_PER_S, 0);
	cr_assert_eq(health(0), NVME_HEALTH_GOOD);
	nvme_faulty_autonomous(&faulty, false);
	cr_assert_eq(join(7, &drive[1]), 0, "%s", err_text);
	cr_assert_eq(nvme_qpair_create(drive[1], 8, &qp[1]), 0);
	nvme_faulty_autonomous(&faulty, true);
	cr_assert_eq(io_now(1, NVME_WRITE, 1, 5), 0);
}

Test(nvme_share, reset_is_one_of_all_and_gives_back_the_ios_of_all)
{
	struct nvme_io io[DRIVES];
	struct nvme_drive_counts counts;

	sim_drive_faults(sim, &(struct sim_faults){ .lose_ppm = 1000000 });
	for (uint32_t i = 0; i < DRIVES; i++) {
		io[i] = (struct nvme_io){ .op = NVME_READ, .nblocks = 1, .iova = iova };
		cr_assert_eq(nvme_submit(qp[i], &io[i]), 0);
		nvme_ring(qp[i]);
	}
	turn();
	sim_drive_faults(sim, &(struct sim_faults){ 0 });
	faulty.faults.fatal = true;
	cr_assert_eq(run(NS_PER_S, 2), 2);
	for (uint32_t i = 0; i < DRIVES; i++)
		cr_assert(io[i].status == -ECANCELED && io[i].retry && !io[i].quarantined);
	cr_assert_eq(health(1), NVME_HEALTH_RESETTING);
	run(NS_PER_S, 0);
	for (uint32_t i = 0; i < DRIVES; i++) {
		cr_assert_eq(health(i), NVME_HEALTH_GOOD);
		cr_assert_eq(io_now(i, NVME_WRITE, 9, (uint8_t)i), 0);
		nvme_drive_counts(drive[i], &counts);
		cr_assert_eq(counts.reset_count, 1);
	}
}

static uint8_t mark[DRIVES]; /* what the proofs want to find */

static bool holds_mark(const uint8_t of[32], const void *block)
{
	return *(const uint8_t *)block == mark[of[0]];
}

static void prove_both(void)
{
	for (uint32_t i = 0; i < DRIVES; i++) {
		struct nvme_proof proof = {
			.count = 2, .block = { 1, 31 }, .holds = holds_mark, .of = { (uint8_t)i }
		};

		mark[i] = (uint8_t)(0x40 + i);
		cr_assert_eq(io_now(i, NVME_WRITE, 1, mark[i]), 0);
		cr_assert_eq(nvme_drive_prove(drive[i], &proof), 0);
	}
}

/* Each namespace is read for its own proof, and one of them alone keeps the controller away. */
Test(nvme_share, namespace_that_was_emptied_keeps_all_away_until_it_is_what_it_was)
{
	for (uint32_t i = 0; i < DRIVES; i++) {
		if (i == 0)
			prove_both();
		mark[i] ^= 0xff;
		lines[0] = 0;
		faulty.faults.fatal = true;
		run(10 * NS_PER_S, 0);
		cr_assert_eq(health(0), NVME_HEALTH_AWAY, "%s", lines);
		cr_assert_eq(io_now(1 - i, NVME_WRITE, 2, 1), -EHOSTDOWN);
		cr_assert(strstr(lines, i ? "namespace 7: its content has changed"
					  : "namespace 2: its content has changed"),
			  "%s", lines);
		mark[i] ^= 0xff;
		run(10 * NS_PER_S, 0);
		cr_assert_eq(health(1), NVME_HEALTH_GOOD, "%s", lines);
		cr_assert_eq(io_now(i, NVME_READ, 1, mark[i]), 0);
	}
}

Test(nvme_share, second_namespace_that_shrank_over_a_reset_is_not_believed)
{
	ns[1].size_lbas = 16;
	faulty.faults.fatal = true;
	run(10 * NS_PER_S, 0);
	cr_assert_eq(health(0), NVME_HEALTH_AWAY);
	cr_assert(strstr(lines, "namespace 7 is not what it was: 32 blocks"), "%s", lines);
	ns[1].size_lbas = 32;
	run(10 * NS_PER_S, 0);
	cr_assert_eq(health(0), NVME_HEALTH_GOOD, "%s", lines);
}

Test(nvme_share, second_namespace_that_vanishes_is_named)
{
	ns[1].size_lbas = 0;
	faulty.soft->changed_ns[0] = le32_of(7);
	nvme__soft_event(faulty.soft, NVME_EVENT_NOTICE, NVME_NOTICE_NAMESPACE,
			 NVME_LOG_CHANGED_NS);
	run(10 * NS_PER_S, 0);
	cr_assert(strstr(lines, "namespace 7 has vanished"), "%s", lines);
	cr_assert(strstr(lines, "no namespace 7, but 2"), "%s", lines);
	cr_assert_eq(health(0), NVME_HEALTH_AWAY, "one controller comes back as a whole");
	ns[1].size_lbas = 32;
	run(10 * NS_PER_S, 0);
	cr_assert_eq(health(0), NVME_HEALTH_GOOD, "%s", lines);
	cr_assert_eq(io_now(1, NVME_READ, 0, 0), 0);
}

/* The first one has the controller: it stays for the other, and nothing is asked of its
 * namespace any more. */
Test(nvme_share, drive_goes_on_without_the_one_that_was_opened_first)
{
	struct nvme_drive *again;

	prove_both();
	close_one(0);
	cr_assert_eq(io_now(1, NVME_WRITE, 4, 0x33), 0);
	mark[0] ^= 0xff;
	ns[0].size_lbas = 0;
	faulty.faults.fatal = true;
	run(5 * NS_PER_S, 0);
	cr_assert_eq(health(1), NVME_HEALTH_GOOD, "%s", lines);
	cr_assert(strstr(lines, "back after a reset"), "its lines come by the other: %s", lines);
	cr_assert_eq(io_now(1, NVME_READ, 4, 0x33), 0);
	ns[0].size_lbas = 8 * 64;
	nvme_faulty_autonomous(&faulty, false);
	cr_assert_eq(nvme__share_join(&again, drive[1]->share.ctl, "pci:0000:00:00.0?nsid=2",
				      err_text, sizeof(err_text)),
		     0, "%s", err_text);
	nvme_close(again);
	nvme_faulty_autonomous(&faulty, true);
	cr_assert_eq(io_now(1, NVME_READ, 4, 0x33), 0);
}

/* A reset that is reading the namespace begins again without it. */
Test(nvme_share, drive_that_is_closed_amid_a_proof_is_not_looked_at_any_more)
{
	prove_both();
	end_queues(1);
	mark[1] ^= 0xff;
	faulty.faults.fatal = true;
	for (uint32_t i = 0; i < 20000 && (drive[0]->reset.life != NVME_PROVING ||
					   drive[0]->proving.ns != drive[1]);
	     i++) {
		power.now_ns += NS_PER_MS / 10;
		(void)turn();
	}
	cr_assert_eq(drive[0]->proving.ns, drive[1]);
	close_one(1);
	run(10 * NS_PER_S, 0);
	cr_assert_eq(health(0), NVME_HEALTH_GOOD, "%s", lines);
	cr_assert_eq(io_now(0, NVME_READ, 1, mark[0]), 0);
}

Test(nvme_share, each_has_a_descriptor_to_sleep_on_and_any_wakes_the_owner)
{
	cr_assert_neq(nvme_drive_fd(drive[0]), nvme_drive_fd(drive[1]));
	run(3 * NS_PER_S, 0);
	for (uint32_t i = 0; i < DRIVES; i++)
		cr_assert(nvme_drive_arm(drive[i]));
	nvme__kick(drive[0]);
	for (uint32_t i = 0; i < DRIVES; i++) {
		struct pollfd p = { .fd = nvme_drive_fd(drive[i]), .events = POLLIN };

		cr_assert_eq(poll(&p, 1, 0), 1);
	}
	for (uint32_t i = 0; i < DRIVES; i++)
		nvme_drive_disarm(drive[i]);
}

static void restart_it(void)
{
	nvme_faulty_set(&faulty, &(struct nvme_faults){ .has_reset = true,
							.reset_restarts = true,
							.reset_tries = 3,
							.gone = true,
							.alarms = NVME_ALARM_GONE });
	run(NS_PER_S, 0);
}

/* A flush is of one namespace (NVM command set 3.2.1): it covers nothing of the other. */
Test(nvme_share_cache, flush_of_one_namespace_covers_nothing_of_the_other)
{
	up(true);
	cr_assert_eq(io_now(0, NVME_WRITE, 3, 1), 0);
	cr_assert_eq(io_now(1, NVME_WRITE, 3, 1), 0);
	cr_assert_eq(io_now(1, NVME_FLUSH, 0, 0), 0);
	restart_it();
	cr_assert_eq(health(0), NVME_HEALTH_READ_ONLY, "%s", lines);
	cr_assert_eq(health(1), NVME_HEALTH_GOOD);
	cr_assert(strstr(lines, "namespace 2: what its cache held"), "%s", lines);
	cr_assert_eq(io_now(0, NVME_WRITE, 3, 1), -EROFS);
	cr_assert_eq(io_now(1, NVME_WRITE, 3, 1), 0);
}

Test(nvme_share, names_of_one_controller_are_known_by_its_place)
{
	cr_assert(nvme_name_shares("pci:0000:01:00.0", "pci:0000:01:00.0?nsid=2"));
	cr_assert(nvme_name_shares("pci:0:1:0.0?nsid=3", "pci:0000:01:00.0?nsid=2"));
	cr_assert_not(nvme_name_shares("pci:0000:01:00.0", "pci:0000:02:00.0?nsid=2"));
	cr_assert(nvme_name_shares("vfio-user:/a?nsid=1", "vfio-user:/a?nsid=2"));
	cr_assert_not(nvme_name_shares("vfio-user:/a?nsid=1", "vfio-user:/b?nsid=2"));
	cr_assert_not(nvme_name_shares("file:/a", "file:/a"), "a file is no controller");
	cr_assert_not(nvme_name_shares("nonsense", "nonsense"));
}
