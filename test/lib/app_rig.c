/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The appliance whole, but for main(): see app_rig.h. */
#define _GNU_SOURCE
#include "test/lib/app_rig.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { DRIVES_DEFAULT = 1, SHARDS_DEFAULT = 16 };
/* Little memory, since it is cleared at each beginning. */
enum { CACHE_DEFAULT = 32 << 20, STAGING_DEFAULT = 16 << 20 };

const uint8_t app_rig_secret[FAB_KEY_BYTES] = "any thirty-two bytes are a key.";

/* A pool that is made piece by piece, for one. */
static bool is_due(const struct app_rig *rig)
{
	return fab_server_control_deadline(rig->srv) <= clock_now_ns();
}

static void *control_thread(void *arg)
{
	struct app_rig *rig = arg;
	struct pollfd fds[2] = { { .fd = fab_server_control_fd(rig->srv), .events = POLLIN },
				 { .fd = rig->run.event_fd, .events = POLLIN } };
	bool stopping = false;
	uint64_t count;

	while (atomic_load(&rig->run.at) != APP_RUN_ENDED) {
		if (rig->turn)
			rig->turn(rig);
		if (!stopping && atomic_load(&rig->stop)) {
			stopping = true;
			fab_server_shut(rig->srv);
			app_run_stop(&rig->run);
		}
		if (!app_control_step(rig->srv, rig->dma, clock_now_ns()) && !is_due(rig))
			(void)poll(fds, 2, 100);
		(void)!read(rig->run.event_fd, &count, sizeof(count));
	}
	if (rig->turn)
		rig->turn(rig);
	return NULL;
}

static void open_drives(struct app_rig *rig)
{
	struct nvme_options wanted = { .qpair_count_max = rig->cores };
	char err_text[NVME_ERR_TEXT];

	cr_assert_leq(rig->cfg.ndrives, APP_RIG_DRIVES);
	cr_assert_eq(nvme_dma_create(&rig->dma), 0);
	for (uint32_t i = 0; i < rig->cfg.ndrives; i++) {
		if (rig->open_drive)
			rig->open_drive(rig, i);
		else
			cr_assert_eq(nvme_open(&rig->drive[i], "mem:256M", rig->dma, &wanted,
					       err_text, sizeof(err_text)),
				     0, "%s", err_text);
	}
}

static void listen_for_clients(struct app_rig *rig)
{
	struct fab_server_cfg cfg = { .key = { .id = "weka" },
				      .core_count = rig->cores,
				      .shard_count = rig->cfg.nshards };
	char address[64] = "tcp://127.0.0.1:0", why[256] = "";

	memcpy(cfg.key.secret, app_rig_secret, FAB_KEY_BYTES);
	if (strcmp(rig->transport, "shm") == 0)
		snprintf(address, sizeof(address), "shm:/tmp/weka-rig-%d.sock", (int)getpid());
	cr_assert_eq(fab_server_create(&rig->srv, &cfg), 0);
	for (uint32_t i = 1; i < rig->cores; i++)
		cr_assert_eq(fab_server_add(rig->srv, &rig->run.srv[i]), 0);
	cr_assert_eq(fab_server_listen(rig->srv, address, why), 0, "%s", why);
}

void app_rig_begin(struct app_rig *rig)
{
	if (rig->cfg.ndrives == 0)
		rig->cfg.ndrives = DRIVES_DEFAULT;
	if (rig->cfg.nshards == 0)
		rig->cfg.nshards = SHARDS_DEFAULT;
	if (rig->cfg.cache_bytes == 0)
		rig->cfg.cache_bytes = CACHE_DEFAULT;
	if (rig->cfg.staging_bytes == 0)
		rig->cfg.staging_bytes = STAGING_DEFAULT;
	rig->cores = 1;
	if (getenv("APP_CORES") && !rig->one_core)
		rig->cores = (uint32_t)atoi(getenv("APP_CORES"));
	rig->run = (struct app_run){ 0 };
	atomic_init(&rig->stop, false);
	open_drives(rig);
	listen_for_clients(rig);
	rig->cfg.dma = rig->dma;
	rig->cfg.drive = rig->drive;
	rig->cfg.srv = rig->srv;
	rig->cfg.secret = 7;
	rig->cfg.lend_after = 1;
	rig->cfg.wall_ns = (int64_t)clock_wall_ns();
	rig->run.cfg = rig->cfg;
	rig->run.cores = rig->cores;
	rig->run.spin_max_ns = 50 * NS_PER_US;
	rig->run.event_fd = eventfd(0, EFD_NONBLOCK);
	cr_assert_eq(app_run_start(&rig->run), 0);
	while (atomic_load(&rig->run.at) == APP_RUN_STARTING)
		usleep(1000);
	cr_assert_eq(atomic_load(&rig->run.at), APP_RUN_SERVING, "%s", rig->run.why);
	cr_assert_eq(pthread_create(&rig->control, NULL, control_thread, rig), 0);
	for (uint32_t i = 0; i + 1 < rig->cores; i++)
		rig->parked[i] = app_rig_connect(rig);
}

void app_rig_stat(const struct app_rig *rig, struct app_core_stat *out)
{
	uint64_t *sum = (uint64_t *)(void *)out;

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < rig->cores; i++) {
		struct app_core_stat of_one;
		const uint64_t *more = (const uint64_t *)(const void *)&of_one;

		app_core_stat(rig->run.thread[i].core, &of_one);
		for (size_t k = 0; k < sizeof(of_one) / sizeof(*sum); k++)
			sum[k] += more[k];
	}
}

struct weka_client *app_rig_connect(struct app_rig *rig)
{
	struct weka_key key = { .id = "weka", .secret = app_rig_secret };
	struct weka_client *client;
	int err = weka_connect(fab_server_address(rig->srv, 0), &key, NULL, &client);

	cr_assert_eq(err, 0, "%s", weka_error(NULL));
	return client;
}

struct weka_client *app_rig_connect_as(struct app_rig *rig, const char *id, uint8_t secret,
				       const struct weka_options *options)
{
	uint8_t bytes[FAB_KEY_BYTES];
	const struct weka_key key = { .id = id, .secret = bytes };
	struct weka_client *c;
	int err = -EACCES;

	memset(bytes, secret, sizeof(bytes));
	for (int tries = 0; err == -EACCES && tries < 100; tries++) {
		err = weka_connect(fab_server_address(rig->srv, 0), &key, options, &c);
		if (err) /* the control thread has not woken yet */
			usleep(10000);
	}
	cr_assert_eq(err, 0, "%s: %s", id, weka_error(NULL));
	return c;
}

struct weka_client *app_rig_begin_over(struct app_rig *rig, const char *transport)
{
	rig->transport = transport;
	app_rig_begin(rig);
	return app_rig_connect(rig);
}

void app_rig_stop(struct app_rig *rig)
{
	uint64_t one = 1;

	atomic_store(&rig->stop, true);
	(void)!write(rig->run.event_fd, &one, sizeof(one));
}

int app_rig_end(struct app_rig *rig)
{
	for (uint32_t i = 0; i + 1 < rig->cores; i++)
		weka_close(rig->parked[i]);
	app_rig_stop(rig);
	pthread_join(rig->control, NULL);
	app_run_join(&rig->run);
	while (app_control_step(rig->srv, rig->dma, clock_now_ns()))
		;
	for (uint32_t i = rig->cores; i-- > 1;)
		fab_server_destroy(rig->run.srv[i]);
	fab_server_destroy(rig->srv);
	for (uint32_t i = 0; i < rig->cfg.ndrives; i++)
		nvme_close(rig->drive[i]);
	cr_assert_eq(nvme_dma_fault_count(rig->dma), 0);
	nvme_dma_destroy(rig->dma);
	close(rig->run.event_fd);
	return rig->run.status;
}
