/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The appliance's queue pairs, when their drive is taken away. */
#include "appliance/app_media.h"
#include "test/lib/nvme_faulty.h"
#include "test/lib/nvme_fixture.h"

#include <criterion/criterion.h>

TestSuite(app_media, .timeout = 30);

/* The host wants a device back that nobody uses just now: it gets it all the same. */
Test(app_media, idle_queue_pair_obeys_too)
{
	struct nvme_options options = { .io_timeout_ns = 1000000000 };
	struct nvme_faulty faulty = { 0 };
	struct sim_drive_options sim_options = { .nblocks = 1000 };
	struct sim_power power;
	struct sim_drive *sim;
	struct nvme_drive *drive;
	struct nvme_qpair *qp;
	struct nvme_dma *dma;
	struct app_media md;
	struct app_io *done[4];
	char err_text[NVME_ERR_TEXT];
	uint64_t now_ns = 1000000000;
	bool progress;

	sim_power_init(&power);
	sim_options.power = &power;
	cr_assert_eq(sim_drive_create(&sim, &sim_options), 0);
	cr_assert_eq(nvme_dma_create(&dma), 0);
	cr_assert_eq(nvme_faulty_open(&faulty, sim, dma, &options, 1, &drive, err_text), 0);
	cr_assert_eq(nvme_qpair_create(drive, 64, &qp), 0);
	cr_assert_eq(app_media_init(&md, NULL, &qp, 1, NULL, 0, 0), 0);
	nvme_faulty_set(&faulty, &(struct nvme_faults){ .has_release = true,
							.release_stops = true,
							.alarms = NVME_ALARM_REQUEST });
	for (uint32_t i = 0; i < 1000 && nvme_drive_health(drive) != NVME_HEALTH_DEAD; i++) {
		now_ns += 1000000;
		(void)nvme_drive_step(drive, now_ns);
		app_media_ring(&md);
		cr_assert_eq(app_media_poll(&md, done, 4, &progress), 0);
	}
	cr_assert_eq(nvme_drive_health(drive), NVME_HEALTH_DEAD);
	cr_assert_eq(faulty.release_count, 1);
	app_media_fini(&md);
	nvme_qpair_destroy(qp);
	nvme_close(drive);
	sim_drive_destroy(sim);
	nvme_dma_destroy(dma);
}
