/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The appliance's queue pairs, when their drive is taken away. */
#include "appliance/media/app_media.h"
#include "test/lib/nvme_faulty.h"
#include "test/lib/nvme_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

TestSuite(app_media, .timeout = 30);

struct rig {
	struct nvme_faulty faulty;
	struct sim_power power;
	struct sim_drive *sim;
	struct nvme_drive *drive;
	struct nvme_qpair *qp;
	struct nvme_dma *dma;
	struct app_media md;
	uint64_t now_ns;
};

static void rig_up(struct rig *r)
{
	struct nvme_options options = { .io_timeout_ns = 1000000000 };
	struct sim_drive_options sim_options = { .nblocks = 1000,
						 .power = &r->power,
						 .frees = true };
	char err_text[NVME_ERR_TEXT];

	*r = (struct rig){ .now_ns = 1000000000 };
	sim_power_init(&r->power);
	cr_assert_eq(sim_drive_create(&r->sim, &sim_options), 0);
	cr_assert_eq(nvme_dma_create(&r->dma), 0);
	cr_assert_eq(nvme_faulty_open(&r->faulty, r->sim, r->dma, &options, 1, &r->drive, err_text),
		     0);
	cr_assert_eq(nvme_qpair_create(r->drive, 64, &r->qp), 0);
	cr_assert_eq(app_media_init(&r->md, NULL, &r->qp, 1, NULL, 0, 0), 0);
}

static void rig_down(struct rig *r)
{
	app_media_fini(&r->md);
	nvme_qpair_destroy(r->qp);
	nvme_close(r->drive);
	sim_drive_destroy(r->sim);
	nvme_dma_destroy(r->dma);
}

/* A turn of the core; false: it would sleep. */
static bool turn(struct rig *r, uint32_t *back_count)
{
	struct app_io *done[4];
	bool progress, more;

	r->now_ns += 1000000;
	more = nvme_drive_step(r->drive, r->now_ns);
	app_media_ring(&r->md);
	*back_count += app_media_poll(&r->md, done, 4, &progress);
	if (more || progress)
		return true;
	more = !nvme_qpair_arm(r->qp) | !nvme_drive_arm(r->drive);
	nvme_qpair_disarm(r->qp);
	nvme_drive_disarm(r->drive);
	return more;
}

/* The host wants a device back that nobody uses just now: it gets it all the same. */
Test(app_media, idle_queue_pair_obeys_too)
{
	struct rig r;
	uint32_t back_count = 0;

	rig_up(&r);
	nvme_faulty_set(&r.faulty, &(struct nvme_faults){ .has_release = true,
							  .release_stops = true,
							  .alarms = NVME_ALARM_REQUEST });
	for (uint32_t i = 0; i < 1000 && nvme_drive_health(r.drive) != NVME_HEALTH_DEAD; i++)
		(void)turn(&r, &back_count);
	cr_assert_eq(back_count, 0);
	cr_assert_eq(nvme_drive_health(r.drive), NVME_HEALTH_DEAD);
	cr_assert_eq(r.faulty.release_count, 1);
	rig_down(&r);
}

/* A core does not sleep while an I/O that a drive refused waits to be returned. */
Test(app_media, nobody_sleeps_over_an_io_that_a_drive_which_is_away_refuses)
{
	struct app_io io = { .nvme = { .op = NVME_FLUSH } };
	uint32_t back_count = 0;
	struct rig r;

	rig_up(&r);
	r.faulty.faults.fatal = true;
	(void)snprintf(sim_drive_traits(r.sim)->serial, 21, "another");
	while (nvme_drive_health(r.drive) != NVME_HEALTH_RESETTING)
		(void)turn(&r, &back_count);
	app_media_submit(&r.md, &io);
	cr_assert_eq(r.md.in_flight, 1);
	while (nvme_drive_health(r.drive) != NVME_HEALTH_AWAY)
		cr_assert(turn(&r, &back_count) || list_empty(&r.md.refused));
	for (uint32_t i = 0; i < 10 && back_count == 0; i++)
		cr_assert(turn(&r, &back_count) || list_empty(&r.md.refused));
	cr_assert_eq(back_count, 1);
	cr_assert_eq(io.nvme.status, -EIO);
	cr_assert_eq(r.md.in_flight, 0);
	rig_down(&r);
}

/* A drive that is reset under a hint is not given it again: perhaps it was the hint. */
Test(app_media, what_a_drive_was_told_before_it_was_reset_is_not_told_again)
{
	struct app_io io[2] = { { .nvme = { .op = NVME_DEALLOCATE, .nblocks = 8, .block = 8 } },
				{ .nvme = { .op = NVME_FLUSH } } };
	uint32_t back_count = 0;
	struct rig r;

	rig_up(&r);
	sim_drive_faults(r.sim, &(struct sim_faults){ .delay_min_ns = 1, .delay_max_ns = 1 });
	app_media_submit(&r.md, &io[0]);
	app_media_submit(&r.md, &io[1]);
	r.faulty.faults.fatal = true;
	while (nvme_drive_health(r.drive) != NVME_HEALTH_RESETTING)
		(void)turn(&r, &back_count);
	cr_assert_eq(back_count, 0, "it was reset with both in flight");
	r.faulty.faults.fatal = false;
	sim_drive_faults(r.sim, &(struct sim_faults){ 0 });
	for (uint32_t i = 0; i < 100000 && back_count < 2; i++)
		(void)turn(&r, &back_count);
	cr_assert_eq(back_count, 2);
	cr_assert_lt(io[0].nvme.status, 0);
	cr_assert_eq(io[1].nvme.status, 0, "what counts is done again");
	cr_assert_eq(r.md.retry_count, 1);
	rig_down(&r);
}

/* One that the drive has, and one that still waits for its queue. */
Test(app_media, moved_ios_come_back_as_their_copies_in_their_order)
{
	enum { COUNT = 70, GIVEN = 3, WAITS = 65 };
	static _Alignas(4096) char page[4096];
	static struct app_io io[COUNT], copy[2];
	struct app_io *done[COUNT];
	uint32_t count = 0;
	uint64_t iova;
	struct rig r;
	bool progress;

	rig_up(&r);
	cr_assert_eq(nvme_dma_map(r.dma, page, sizeof(page), &iova), 0);
	for (uint32_t i = 0; i < COUNT; i++) {
		io[i].nvme =
			(struct nvme_io){ .op = NVME_READ, .nblocks = 1, .block = i, .iova = iova };
		app_media_submit(&r.md, &io[i]);
	}
	cr_assert(app_media_move(&r.md, &io[GIVEN], &copy[0]));
	cr_assert(app_media_move(&r.md, &io[WAITS], &copy[1]));
	for (uint32_t turns = 0; turns < 10; turns++) {
		app_media_ring(&r.md);
		count += app_media_poll(&r.md, done + count, COUNT - count, &progress);
	}
	cr_assert_eq(count, COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		const struct app_io *want = i == GIVEN ? &copy[0] : i == WAITS ? &copy[1] : &io[i];

		cr_assert_eq(done[i], want, "%u", i);
		cr_assert_eq(done[i]->nvme.status, 0);
	}
	cr_assert_not(app_media_move(&r.md, &io[0], &copy[0]), "it is back");
	cr_assert_eq(r.md.in_flight, 0);
	nvme_dma_unmap(r.dma, iova, sizeof(page));
	rig_down(&r);
}
