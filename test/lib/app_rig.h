/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The appliance whole, but for main(): a core's thread, a control thread, drives, and clients of
 * libweka-client.  Everything is as in the daemon; what a test does not set is the daemon's
 *default.
 *
 *	static struct app_rig rig = { .transport = "shm", .cfg = { .ops_max = 32 } };
 *
 *	app_rig_begin(&rig);
 *	client = app_rig_connect(&rig);
 *	...
 *	weka_close(client);
 *	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
 */
#ifndef TEST_LIB_APP_RIG_H
#define TEST_LIB_APP_RIG_H

#include "appliance/host/app_run.h"
#include "client-lib/weka_client.h"

enum { APP_RIG_DRIVES = 4 };

struct app_rig {
	/* The test's to fill. */
	const char *transport;   /* "shm" or "tcp"                                           */
	struct app_core_cfg cfg; /* limits, ndrives (0: 1), nshards (0: 16), boot (MOUNT: 0!)  */
	bool one_core; /* whatever APP_CORES says: its drives are simulated by one thread */
	/* Opens drive i; fails the test by itself.  NULL: memory of 256 MiB. */
	void (*open_drive)(struct app_rig *rig, uint32_t i);
	/* The control thread calls it, too, each time it wakes, and once when the core has
	 * ended. */
	void (*turn)(struct app_rig *rig);

	/* The rig's. */
	struct nvme_dma *dma;
	struct nvme_drive *drive[APP_RIG_DRIVES];
	struct fab_server *srv;
	struct app_run run;
	pthread_t control;
	_Atomic bool stop; /* control is to stop it */
	/* As many as the environment's APP_CORES says; 1.  With several each but the last has a
	 * client that does nothing, so that the test's first client is not where the store is. */
	uint32_t cores;
	struct weka_client *parked[APP_CORES_MAX];
};

/* The key "weka", which is the only one. */
extern const uint8_t app_rig_secret[FAB_KEY_BYTES];

/* Until it serves.  May be begun again after its end. */
void app_rig_begin(struct app_rig *rig);

/* ... over "shm" or "tcp", with a client, which the test closes. */
struct weka_client *app_rig_begin_over(struct app_rig *rig, const char *transport);

/* A client more, with the right key; the test closes it. */
struct weka_client *app_rig_connect(struct app_rig *rig);

/* The same with a key of fab_rig_grant(), which the control thread may just be adding: it waits for
 * that.  options: NULL for the default ones. */
struct weka_client *app_rig_connect_as(struct app_rig *rig, const char *id, uint8_t secret,
				       const struct weka_options *options);

/* Adds up the counters of all cores, which their threads may be changing. */
void app_rig_stat(const struct app_rig *rig, struct app_core_stat *out);

/* Told to stop, as a daemon is: the doors first, then the cores.  Does not wait. */
void app_rig_stop(struct app_rig *rig);

/* Stops it, clients' sessions and all.  Returns: how the store ended, with a line in rig->run.why.
 */
int app_rig_end(struct app_rig *rig);

#endif
