/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * When a drive goes wrong, one thing at a time; all at once, from seeds, is test/sim/drive.c.
 */
#include "test/lib/nvme_faulty.h"
#include "base/clock.h"
#include "base/num.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TIMEOUT_NS NS_PER_S
#define BUF_BYTES  (64u << 12)

static struct sim_power power;
static struct sim_drive *sim;
static struct nvme_dma *dma;
static struct nvme_faulty faulty;
static struct nvme_drive *drive;
static struct nvme_qpair *qp[2];
static uint8_t *buf;
static uint64_t iova;
static char lines[4096];

static void up(bool volatile_cache)
{
	struct sim_drive_options options = {
		.power = &power, .nblocks = 64, .volatile_cache = volatile_cache, .frees = true
	};
	struct nvme_options how = { .qpair_count_max = 2, .io_timeout_ns = TIMEOUT_NS };
	char err_text[NVME_ERR_TEXT];

	sim_power_init(&power);
	cr_assert_eq(nvme_dma_create(&dma), 0);
	buf = mmap(NULL, BUF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_eq(nvme_dma_map(dma, buf, BUF_BYTES, &iova), 0);
	cr_assert_eq(sim_drive_create(&sim, &options), 0);
	cr_assert_eq(nvme_faulty_open(&faulty, sim, dma, &how, 1, &drive, err_text), 0, "%s",
		     err_text);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(nvme_qpair_create(drive, 8, &qp[i]), 0);
	nvme_faulty_autonomous(&faulty, true);
	lines[0] = 0;
	power.now_ns = NS_PER_S;
	(void)nvme_drive_step(drive, power.now_ns);
}

static void setup(void)
{
	up(false);
}

static void teardown(void)
{
	struct nvme_io *done[8];

	nvme_faulty_autonomous(&faulty, false);
	for (int i = 0; i < 2; i++) {
		if (!qp[i])
			continue;
		nvme_qpair_stop(qp[i]);
		while (nvme_poll(qp[i], done, 8))
			;
		nvme_qpair_destroy(qp[i]);
	}
	nvme_close(drive);
	sim_drive_destroy(sim);
	nvme_dma_unmap(dma, iova, BUF_BYTES);
	nvme_dma_destroy(dma);
	munmap(buf, BUF_BYTES);
}

TestSuite(nvme_reset, .init = setup, .fini = teardown, .timeout = 60);
TestSuite(nvme_reset_cache, .fini = teardown, .timeout = 60);

static struct nvme_io an_io(enum nvme_op op, uint64_t block)
{
	return (struct nvme_io){
		.op = op, .nblocks = 1, .block = block, .iova = iova, .status = 1
	};
}

static void submit(struct nvme_qpair *q, struct nvme_io *io)
{
	cr_assert_eq(nvme_submit(q, io), 0);
	nvme_ring(q);
}

/* One turn of everybody; how many I/Os came back. */
static uint32_t turn(void)
{
	struct nvme_io *done[8];
	char text[NVME_LINE_BYTES];
	uint32_t count = 0;

	nvme_faulty_run(&faulty);
	for (int i = 0; i < 2; i++)
		count += qp[i] ? nvme_poll(qp[i], done, 8) : 0;
	(void)nvme_drive_step(drive, power.now_ns);
	while (nvme_drive_line(drive, text, sizeof(text)))
		(void)snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", text);
	return count;
}

/* Time goes on, step by step, for `span_ns` at most, or until `count` I/Os have come back. */
static uint32_t run(uint64_t span_ns, uint32_t count)
{
	uint64_t end_ns = power.now_ns + span_ns;
	uint32_t back = 0;

	while (power.now_ns < end_ns && (count == 0 || back < count)) {
		uint64_t next_ns = 0;

		back += turn();
		if (drive->reset.life == NVME_LIVE || drive->reset.life == NVME_DEAD ||
		    drive->reset.life == NVME_RESTING) /* else threads wait, too */
			next_ns = min_u64(sim_power_next_ns(&power), nvme_drive_deadline(drive));
		power.now_ns = min_u64(end_ns, max_u64(next_ns, power.now_ns + NS_PER_MS / 10));
	}
	return back + turn();
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static int read_now(struct nvme_qpair *q)
{
	struct nvme_io io = an_io(NVME_READ, 3);

	submit(q, &io);
	cr_assert_eq(run(100 * NS_PER_MS, 1), 1);
	return io.status;
}

Test(nvme_reset, idle_drive_wants_no_step_and_the_next_io_wakes_its_owner)
{
	struct nvme_io io = an_io(NVME_READ, 0);

	cr_assert_eq(read_now(qp[0]), 0);
	cr_assert_neq(nvme_drive_deadline(drive), UINT64_MAX, "something was in flight just now");
	run(TIMEOUT_NS, 0);
	cr_assert_eq(nvme_drive_deadline(drive), UINT64_MAX);
	cr_assert(nvme_drive_arm(drive));
	cr_assert_not(readable(nvme_drive_fd(drive)));
	submit(qp[0], &io);
	cr_assert(readable(nvme_drive_fd(drive)), "from another thread it would have to wake it");
	cr_assert_not(nvme_drive_arm(drive));
	nvme_drive_disarm(drive);
	cr_assert_eq(run(NS_PER_S, 1), 1);
	cr_assert_neq(nvme_drive_deadline(drive), UINT64_MAX);
	cr_assert_not(readable(nvme_drive_fd(drive)));
}

Test(nvme_reset, lost_command_is_aborted_and_may_be_tried_again)
{
	struct nvme_io io = an_io(NVME_READ, 0);
	struct nvme_drive_counts counts;

	sim_drive_faults(sim, &(struct sim_faults){ .lose_ppm = 1000000 });
	submit(qp[0], &io);
	cr_assert_eq(run(TIMEOUT_NS - NS_PER_MS, 1), 0, "not before its time");
	cr_assert_eq(run(TIMEOUT_NS / 2, 1), 1);
	cr_assert_eq(io.status, -ECANCELED);
	cr_assert(io.retry && !io.quarantined);
	nvme_drive_counts(drive, &counts);
	cr_assert_eq(counts.timeout_count, 1);
	run(NS_PER_S, 0);
	nvme_drive_counts(drive, &counts);
	cr_assert_eq(counts.abort_count, 1);
	cr_assert_eq(counts.queue_restart_count + counts.reset_count, 0);
}

Test(nvme_reset, abort_that_does_not_help_costs_its_queue_pair_and_no_other)
{
	struct nvme_io io = an_io(NVME_READ, 0), other;
	struct nvme_drive_counts counts;

	sim_drive_faults(sim, &(struct sim_faults){ .lose_ppm = 1000000, .ignore_aborts = true });
	submit(qp[0], &io);
	turn();
	sim_drive_faults(sim, &(struct sim_faults){ .ignore_aborts = true });
	for (int i = 0; i < 16 && io.commands_left; i++) {
		other = an_io(NVME_READ, 1);
		submit(qp[1], &other);
		(void)!run(TIMEOUT_NS / 10, 0);
		cr_assert_eq(other.status, 0, "the other queue pair works on");
	}
	cr_assert_eq(io.status, -ECANCELED);
	cr_assert(io.retry);
	nvme_drive_counts(drive, &counts);
	cr_assert_eq(counts.queue_restart_count, 1);
	cr_assert_eq(counts.reset_count, 0);
	cr_assert_eq(read_now(qp[0]), 0);
}

Test(nvme_reset, fatal_status_resets_the_controller_and_nothing_is_taken_meanwhile)
{
	struct nvme_io io[2] = { an_io(NVME_READ, 0), an_io(NVME_WRITE, 1) };

	sim_drive_faults(sim, &(struct sim_faults){ .delay_min_ns = 10 * TIMEOUT_NS,
						    .delay_max_ns = 10 * TIMEOUT_NS });
	submit(qp[0], &io[0]);
	submit(qp[1], &io[1]);
	turn();
	sim_drive_faults(sim, &(struct sim_faults){ 0 });
	faulty.faults.fatal = true;
	while (nvme_drive_health(drive) == NVME_HEALTH_GOOD) {
		power.now_ns += 10 * NS_PER_MS;
		(void)nvme_drive_step(drive, power.now_ns);
	}
	cr_assert(nvme_faulty_lives(&faulty), "nobody has obeyed yet: it is left alone");
	cr_assert_eq(io[0].status, 0, "and still the drive's");
	cr_assert_eq(run(NS_PER_S, 2), 2);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_RESETTING);
	cr_assert_eq(nvme_submit(qp[0], &io[0]), -EAGAIN);
	for (int i = 0; i < 2; i++)
		cr_assert(io[i].status == -ECANCELED && io[i].retry && !io[i].quarantined);
	run(NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD);
	cr_assert_eq(read_now(qp[0]), 0);
	cr_assert_eq(read_now(qp[1]), 0);
	cr_assert(strstr(lines, "CSTS.CFS") && strstr(lines, "back after a reset"), "%s", lines);
}

Test(nvme_reset, thread_that_sleeps_is_woken_to_obey)
{
	cr_assert_eq(read_now(qp[0]), 0);
	cr_assert(nvme_qpair_arm(qp[0]));
	cr_assert_not(readable(nvme_qpair_fd(qp[0])));
	find_trouble(drive, NVME_CAUSE_BUS, power.now_ns);
	cr_assert(readable(nvme_qpair_fd(qp[0])));
	cr_assert_not(nvme_qpair_arm(qp[0]), "it has something to do");
	nvme_qpair_disarm(qp[0]);
	run(NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD);
	cr_assert(nvme_qpair_arm(qp[0]));
	cr_assert_not(readable(nvme_qpair_fd(qp[0])), "and no more than that");
	nvme_qpair_disarm(qp[0]);
}

/* The owner stores it, the other thread polls and obeys, and only then the owner wakes it. */
Test(nvme_reset, order_whose_wake_up_comes_after_it_was_obeyed_keeps_nobody_awake)
{
	uint64_t one = 1;

	find_trouble(drive, NVME_CAUSE_BUS, power.now_ns);
	run(NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD);
	cr_assert_eq(write(qp[0]->order_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
	cr_assert(nvme_qpair_arm(qp[0]));
	cr_assert_not(readable(nvme_qpair_fd(qp[0])), "it would never sleep again");
	nvme_qpair_disarm(qp[0]);
}

Test(nvme_reset, completion_that_comes_twice_is_not_taken_for_the_next_command_of_that_id)
{
	struct nvme_io io = an_io(NVME_READ, 0);
	uint16_t cid;

	cr_assert_eq(read_now(qp[0]), 0);
	cid = le16_get(((const struct nvme_soft *)faulty.soft)->queue[1]->cq[0].cid);
	sim_drive_faults(sim, &(struct sim_faults){ .delay_min_ns = TIMEOUT_NS / 2,
						    .delay_max_ns = TIMEOUT_NS / 2 });
	submit(qp[0], &io);
	turn();
	faulty.soft->queue[1]->owed_count++;
	nvme__soft_post(faulty.soft->queue[1], cid, NVME_SC_SUCCESS, 0);
	cr_assert_eq(run(NS_PER_MS, 0), 1);
	cr_assert_eq(io.status, -ECANCELED, "the drive still works on its buffer");
	cr_assert(strstr(lines, "which is not there"), "%s", lines);
	run(NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD);
}

Test(nvme_reset, device_that_is_wanted_back_is_given_back_within_a_second)
{
	struct nvme_io io = an_io(NVME_READ, 0);

	nvme_faulty_set(&faulty, &(struct nvme_faults){ .has_release = true,
							.release_stops = true,
							.stuck_ready = true,
							.alarms = NVME_ALARM_REQUEST });
	sim_drive_faults(sim, &(struct sim_faults){ .lose_ppm = 1000000 });
	submit(qp[0], &io);
	cr_assert_eq(run(NS_PER_S, 1), 1);
	cr_assert_eq(io.status, -ENODEV);
	cr_assert(!io.retry && !io.quarantined);
	cr_assert_eq(faulty.release_count, 1);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_DEAD);
	cr_assert_eq(nvme_submit(qp[0], &io), -ENODEV);
	turn();
	cr_assert_eq(nvme_submit(qp[1], &io), -ENODEV);
	cr_assert_eq(nvme_drive_deadline(drive), UINT64_MAX);
	cr_assert(strstr(lines, "asks for the device back"), "%s", lines);
}

Test(nvme_reset, what_nothing_stops_is_quarantined_and_said_to_be)
{
	struct nvme_io io = an_io(NVME_READ, 0);
	struct nvme_drive_counts counts;

	sim_drive_faults(sim, &(struct sim_faults){ .lose_ppm = 1000000 });
	submit(qp[0], &io);
	turn();
	nvme_faulty_set(&faulty, &(struct nvme_faults){ .stuck_ready = true, .fatal = true });
	cr_assert_eq(run(20 * NS_PER_S, 1), 1);
	cr_assert_eq(io.status, -ENODEV);
	cr_assert(!io.retry && io.quarantined);
	memset(buf, 0x5a, NVME_BLOCK_SIZE);
	for (int i = 0; i < 20; i++) {
		power.now_ns += 10 * NS_PER_MS;
		nvme_faulty_run(&faulty);
	}
	cr_assert_neq(buf[0], 0x5a, "and it does write there");
	nvme_faulty_autonomous(&faulty, false);
	for (int i = 0; i < 2; i++)
		nvme_qpair_destroy(qp[i]);
	qp[0] = qp[1] = NULL;
	nvme_drive_counts(drive, &counts);
	cr_assert_gt(counts.quarantined_bytes, 0);
	cr_assert(strstr(lines, "quarantined"), "%s", lines);
}

/* It was dead for good; whoever put the wrong one there may put the right one back. */
Test(nvme_reset, another_drive_that_answers_after_a_reset_is_not_written_to_and_the_right_one_is)
{
	struct nvme_soft_traits *traits = sim_drive_traits(sim);
	struct nvme_io io = an_io(NVME_WRITE, 5);
	char serial[21];

	memcpy(serial, traits->serial, sizeof(serial));
	faulty.faults.fatal = true;
	(void)snprintf(traits->serial, 21, "another");
	(void)!run(10 * TIMEOUT_NS, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_AWAY);
	cr_assert_eq(nvme_submit(qp[0], &io), -EHOSTDOWN);
	cr_assert(strstr(lines, "does not come back: another drive answers"), "%s", lines);
	memcpy(traits->serial, serial, sizeof(serial));
	(void)!run(5 * NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD, "%s", lines);
	cr_assert_eq(read_now(qp[0]), 0);
}

static uint8_t mark; /* what the proof wants to find */

static bool holds_mark(const uint8_t of[32], const void *block)
{
	return *(const uint8_t *)block == mark && of[0] == 7;
}

/* Nothing is written before the proof holds, however often a write was cut off and tried again. */
Test(nvme_reset, drive_whose_proof_fails_is_away_until_it_holds)
{
	struct nvme_proof proof = { .count = 2, .block = { 1, 63 }, .of = { 7 } };
	struct nvme_io io = an_io(NVME_WRITE, 5);

	proof.holds = holds_mark;
	cr_assert_eq(nvme_drive_prove(drive, &proof), 0);
	faulty.faults.fatal = true; /* both blocks are zeroes, and 0 is what is wanted */
	(void)!run(5 * NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD, "%s", lines);
	cr_assert_eq(read_now(qp[0]), 0);
	mark = 9;
	faulty.faults.fatal = true;
	(void)!run(20 * NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_AWAY);
	cr_assert_eq(nvme_submit(qp[0], &io), -EHOSTDOWN);
	cr_assert(strstr(lines, "its content has changed"), "%s", lines);
	mark = 0;
	(void)!run(20 * NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD, "%s", lines);
	cr_assert_eq(read_now(qp[1]), 0);
}

/* A controller that does not complete the proof's reads is reset again. */
Test(nvme_reset, proof_that_is_never_read_ends_in_another_attempt)
{
	struct nvme_proof proof = { .count = 1, .block = { 1 }, .of = { 7 } };

	mark = 0;
	proof.holds = holds_mark;
	cr_assert_eq(nvme_drive_prove(drive, &proof), 0);
	sim_drive_faults(sim, &(struct sim_faults){ .lose_ppm = 1000000 });
	faulty.faults.fatal = true;
	(void)!run(20 * NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_AWAY);
	cr_assert(strstr(lines, "cannot be read"), "%s", lines);
	sim_drive_faults(sim, &(struct sim_faults){ 0 });
	(void)!run(20 * NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD, "%s", lines);
	cr_assert_eq(read_now(qp[0]), 0);
}

/* Three attempts within a third of a second, and it was dead, however soon it was back. */
Test(nvme_reset, controller_that_takes_a_minute_to_get_ready_is_tried_again_until_it_is)
{
	uint64_t begin_ns = power.now_ns;
	uint32_t attempts;

	faulty.faults.fatal = true;
	faulty.faults.slow_up = 100;
	(void)!run(60 * NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_AWAY);
	attempts = 100 - faulty.faults.slow_up;
	cr_assert_gt(attempts, 3);
	cr_assert_lt(attempts, 40, "too fast a pace: %u in a minute", attempts);
	cr_assert_lt(strlen(lines), 2000, "too many lines: %s", lines);
	faulty.faults.slow_up = 0;
	(void)!run(10 * NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD, "%s", lines);
	cr_assert_lt(power.now_ns, begin_ns + 71 * NS_PER_S);
	cr_assert(strstr(lines, "back after a reset"), "%s", lines);
	cr_assert_eq(read_now(qp[1]), 0);
}

/* I/Os wait as long as a command may take; then whoever waits is woken and told. */
Test(nvme_reset, drive_that_is_away_wakes_and_tells_who_waits_for_it)
{
	struct nvme_io io = an_io(NVME_READ, 5);

	faulty.faults.fatal = true;
	faulty.faults.slow_up = 100;
	(void)!run(NS_PER_S / 2, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_RESETTING);
	cr_assert_eq(nvme_submit(qp[0], &io), -EAGAIN);
	cr_assert(nvme_qpair_arm(qp[0]));
	cr_assert_not(readable(nvme_qpair_fd(qp[0])));
	for (uint32_t i = 0; nvme_drive_health(drive) != NVME_HEALTH_AWAY; i++) {
		cr_assert_lt(i, 1000);
		power.now_ns = max_u64(power.now_ns + 1, nvme_drive_deadline(drive));
		(void)nvme_drive_step(drive, power.now_ns);
		cr_assert_leq(power.now_ns, 30 * NS_PER_S);
	}
	cr_assert(readable(nvme_qpair_fd(qp[0])));
	cr_assert_not(nvme_qpair_arm(qp[0]), "it may have polled before that was so");
	nvme_qpair_disarm(qp[0]);
	cr_assert_eq(nvme_submit(qp[0], &io), -EHOSTDOWN);
	cr_assert(nvme_qpair_arm(qp[0]));
	cr_assert_not(readable(nvme_qpair_fd(qp[0])));
}

Test(nvme_reset, owner_of_a_dead_drive_sleeps)
{
	faulty.faults.fatal = true;
	faulty.faults.stuck_ready = true;
	(void)!run(10 * TIMEOUT_NS, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_DEAD);
	for (int i = 0; i < 3; i++)
		(void)!turn(); /* the queue pairs' threads have heard */
	cr_assert(nvme_drive_arm(drive));
	cr_assert_not(readable(nvme_drive_fd(drive)));
	nvme_drive_disarm(drive);
}

/* The controller speaks after the owner's last look, and before it sleeps. */
Test(nvme_reset, what_an_idle_controller_says_before_the_arming_is_heard)
{
	cr_assert_eq(read_now(qp[0]), 0);
	(void)!run(2 * TIMEOUT_NS, 0);
	cr_assert_gt(faulty.soft->event_cid_count, 0);
	cr_assert(nvme_drive_arm(drive));
	nvme_drive_disarm(drive);
	(void)nvme_drive_step(drive, power.now_ns);
	nvme__soft_event(faulty.soft, NVME_EVENT_HEALTH, 1, NVME_LOG_HEALTH);
	cr_assert_not(nvme_drive_arm(drive), "its interrupt went to nobody");
	nvme_drive_disarm(drive);
	(void)nvme_drive_step(drive, power.now_ns);
	cr_assert_eq(drive->events.event_count, 1, "at once, and not when it is time to look");
	(void)!run(TIMEOUT_NS, 0);
	cr_assert(nvme_drive_arm(drive));
	nvme_drive_disarm(drive);
}

Test(nvme_reset, dead_drive_is_given_back_when_it_is_asked_for)
{
	faulty.faults.fatal = true;
	faulty.faults.stuck_ready = true;
	(void)!run(10 * TIMEOUT_NS, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_DEAD);
	nvme_faulty_set(&faulty, &(struct nvme_faults){ .has_release = true,
							.release_stops = true,
							.alarms = NVME_ALARM_REQUEST });
	(void)!run(NS_PER_S, 0);
	cr_assert_eq(faulty.release_count, 1);
}

Test(nvme_reset, drive_that_is_away_is_given_back_when_it_is_asked_for)
{
	struct nvme_io io = an_io(NVME_READ, 0);

	faulty.faults.fatal = true;
	(void)snprintf(sim_drive_traits(sim)->serial, 21, "another");
	(void)!run(10 * TIMEOUT_NS, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_AWAY);
	nvme_faulty_set(&faulty, &(struct nvme_faults){ .has_release = true,
							.release_stops = true,
							.alarms = NVME_ALARM_REQUEST });
	(void)!run(NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_DEAD);
	cr_assert_eq(faulty.release_count, 1);
	(void)!turn();
	cr_assert_eq(nvme_submit(qp[0], &io), -ENODEV);
}

Test(nvme_reset, queue_pair_that_cannot_be_made_anew_is_no_reason_to_surprise_the_others)
{
	struct nvme_io io = an_io(NVME_READ, 0);
	uint64_t end_ns;

	sim_drive_faults(sim, &(struct sim_faults){ .lose_ppm = 1000000, .ignore_aborts = true });
	submit(qp[0], &io);
	turn();
	sim_drive_faults(sim, &(struct sim_faults){ .ignore_aborts = true });
	for (int i = 0; i < 10000 && drive->reset.life != NVME_CREATING; i++) {
		power.now_ns += 10 * NS_PER_MS;
		(void)!turn();
		if (drive->reset.life == NVME_RETURNING)
			faulty.faults.deaf = 1000;
	}
	cr_assert_eq(drive->reset.life, NVME_CREATING);
	cr_assert_eq(drive->reset.qid, 1);
	for (end_ns = power.now_ns + 2 * drive->timeout_ns; power.now_ns < end_ns;) {
		power.now_ns += 100 * NS_PER_MS;
		nvme_faulty_run(&faulty);
		(void)nvme_drive_step(drive, power.now_ns);
		cr_assert(nvme_faulty_lives(&faulty), "the other thread has not obeyed yet");
	}
	faulty.faults.deaf = 0;
	(void)!run(2 * NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD, "%s", lines);
	cr_assert_eq(read_now(qp[0]), 0);
	cr_assert_eq(read_now(qp[1]), 0);
}

static void restart_it(void)
{
	nvme_faulty_set(&faulty, &(struct nvme_faults){ .has_reset = true,
							.reset_restarts = true,
							.reset_tries = 3,
							.gone = true,
							.alarms = NVME_ALARM_GONE });
	(void)!run(NS_PER_S, 0);
}

static void write_one(void)
{
	struct nvme_io io = an_io(NVME_WRITE, 5);

	submit(qp[0], &io);
	cr_assert_eq(run(100 * NS_PER_MS, 1), 1);
	cr_assert_eq(io.status, 0);
}

Test(nvme_reset_cache, drive_that_was_restarted_with_an_unflushed_cache_is_read_only)
{
	struct nvme_io io = an_io(NVME_WRITE, 5);

	up(true);
	write_one();
	restart_it();
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_READ_ONLY);
	cr_assert_eq(nvme_submit(qp[0], &io), -EROFS);
	io.op = NVME_FLUSH;
	cr_assert_eq(nvme_submit(qp[0], &io), -EROFS, "a flush that says well done would lie");
	cr_assert_eq(read_now(qp[0]), 0);
	cr_assert(strstr(lines, "read-only until it is opened anew"), "%s", lines);
}

/* A queue pair that is made after the reset has the same rules as those that were there before. */
Test(nvme_reset_cache, queue_pair_made_on_a_read_only_drive_takes_no_writes)
{
	struct nvme_io io;

	up(true);
	io = an_io(NVME_WRITE, 0);
	submit(qp[0], &io);
	cr_assert_eq(run(NS_PER_S, 1), 1);
	cr_assert_eq(io.status, 0);
	nvme_faulty_set(&faulty, &(struct nvme_faults){
					 .gone = true, .has_reset = true, .reset_restarts = true });
	run(20 * NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_READ_ONLY);
	nvme_faulty_autonomous(&faulty, false);
	nvme_qpair_destroy(qp[1]);
	cr_assert_eq(nvme_qpair_create(drive, 8, &qp[1]), 0);
	nvme_faulty_autonomous(&faulty, true);
	io = an_io(NVME_WRITE, 0);
	cr_assert_eq(nvme_submit(qp[1], &io), -EROFS);
	cr_assert_eq(read_now(qp[1]), 0);
}

Test(nvme_reset, queue_pair_cannot_be_made_amid_a_reset_and_can_after_it)
{
	struct nvme_qpair *third;

	nvme_faulty_autonomous(&faulty, false);
	nvme_qpair_destroy(qp[1]);
	nvme_faulty_autonomous(&faulty, true);
	qp[1] = NULL;
	find_trouble(drive, NVME_CAUSE_FATAL, power.now_ns);
	cr_assert_eq(nvme_qpair_create(drive, 8, &third), -EAGAIN);
	run(NS_PER_S, 0);
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD);
	nvme_faulty_autonomous(&faulty, false);
	cr_assert_eq(nvme_qpair_create(drive, 8, &qp[1]), 0);
	nvme_faulty_autonomous(&faulty, true);
	cr_assert_eq(read_now(qp[1]), 0);
	cr_assert_eq(nvme_qpair_create(drive, 8, &third), -ENOSPC);
}

Test(nvme_reset_cache, drive_that_was_restarted_with_all_flushed_goes_on)
{
	struct nvme_io io = an_io(NVME_FLUSH, 0);

	up(true);
	write_one();
	submit(qp[0], &io);
	cr_assert_eq(run(100 * NS_PER_MS, 1), 1);
	restart_it();
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD);
	write_one();
}

/* A flush is the drive's: it covers what was done on any queue pair, whatever else is in flight. */
Test(nvme_reset_cache, flush_on_another_queue_pair_with_a_read_in_flight_covers_all)
{
	struct nvme_io read, flush;

	up(true);
	read = an_io(NVME_READ, 9);
	flush = an_io(NVME_FLUSH, 0);
	write_one();
	submit(qp[1], &read);
	submit(qp[1], &flush);
	cr_assert_eq(run(100 * NS_PER_MS, 2), 2);
	cr_assert_eq(flush.status, 0);
	restart_it();
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD, "%s", lines);
	write_one();
}

Test(nvme_reset_cache, write_through_leaves_nothing_to_flush)
{
	struct nvme_io io;

	up(true);
	io = an_io(NVME_WRITE, 7);
	io.fua = true;
	submit(qp[0], &io);
	cr_assert_eq(run(100 * NS_PER_MS, 1), 1);
	cr_assert_eq(io.status, 0);
	restart_it();
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD, "%s", lines);
}

/* A hint that is lost is no loss. */
Test(nvme_reset_cache, deallocation_needs_no_flush)
{
	struct nvme_io io;

	up(true);
	io = an_io(NVME_DEALLOCATE, 7);
	submit(qp[0], &io);
	cr_assert_eq(run(100 * NS_PER_MS, 1), 1);
	cr_assert_eq(io.status, 0);
	restart_it();
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_GOOD, "%s", lines);
}

/* A write that completes while a flush is under way may be newer than the flush covers. */
Test(nvme_reset_cache, flush_does_not_cover_a_write_that_was_done_after_it_was_submitted)
{
	struct nvme_io write, flush;

	up(true);
	write = an_io(NVME_WRITE, 7);
	flush = an_io(NVME_FLUSH, 0);
	submit(qp[1], &write);
	submit(qp[0], &flush);
	cr_assert_eq(run(100 * NS_PER_MS, 2), 2);
	cr_assert_eq(flush.status | write.status, 0);
	restart_it();
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_READ_ONLY);
}

Test(nvme_reset, stopping_a_queue_pair_of_a_drive_that_is_gone_ends)
{
	struct nvme_io io = an_io(NVME_READ, 0), *done[2];

	sim_drive_faults(sim, &(struct sim_faults){ .lose_ppm = 1000000 });
	submit(qp[0], &io);
	turn();
	faulty.faults.gone = true;
	nvme_qpair_stop(qp[0]);
	cr_assert_eq(nvme_poll(qp[0], done, 2), 1);
	cr_assert_eq(io.status, -ECANCELED);
	cr_assert(io.quarantined, "nobody knows whether it is still there");
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_DEAD);
}

Test(nvme_reset, only_what_the_drive_has_not_tried_is_tried_again)
{
	static const struct {
		uint32_t status;
		bool retry;
	} rows[] = {
		{ NVME_SC_ABORT_REQUESTED, true },    { NVME_SC_ABORT_SQ_DELETED, true },
		{ NVME_SC_NS_NOT_READY, true },       { NVME_SC_INTERRUPTED, true },
		{ NVME_SC_PATH_TRANSITION, true },    { NVME_SC_INTERNAL, false },
		{ NVME_SC_WRITE_FAULT, false },       { NVME_SC_UNRECOVERED_READ, false },
		{ NVME_SC_LBA_RANGE, false },         { 0x7ff, false },
		{ NVME_SC_INVALID_NAMESPACE, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_eq(nvme__status_retry(rows[i].status), rows[i].retry, "%x",
			     rows[i].status);
		cr_assert_not(nvme__status_retry(rows[i].status | NVME_STATUS_NO_RETRY));
	}
}
