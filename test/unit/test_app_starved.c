/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Why a stream waited: each cause is made on purpose, and must be the one that is named first.
 *
 *   slow drive     each I/O takes 200 ms        slow network   a relay that sends 4 MB a second
 *   small pool     it holds three of 32         slow consumer  it takes its time
 *
 * Each cause outweighs by far what a busy machine adds: a turn that comes some 20 ms late.
 */
#define _GNU_SOURCE /* accept4 */
#include "base/clock.h"
#include "base/num.h"
#include "client-lib/weka_client.h"
#include "test/lib/app_rig.h"
#include "test/lib/sim_nvme.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DRIVES = 2, DRIVE_BLOCKS = 16384, FILES = 96, BATCH = 16, FILE_BYTES = 32768 };
enum { MANY_FILES = 640 }; /* of which only the last three batches find room at once */

static struct sim_power power;
static struct sim_drive *sim[DRIVES];
static struct weka_client *client;
static struct weka_dataset *dataset;
static char verdict[WEKA_VERDICT_BYTES];
static struct weka_stream_stats stats;

static void open_sim(struct app_rig *rig, uint32_t i)
{
	sim_drive_open(sim[i], rig->dma, &rig->drive[i]);
}

static struct app_rig rig = { .cfg = { .boot = APP_BOOT_FORMAT,
				       .ndrives = DRIVES,
				       .nshards = 4,
				       .cache_bytes = 16 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 64 },
			      .open_drive = open_sim,
			      .one_core = true };

/* The drives' time, which goes as ours does. */
static pthread_t clock_thread;
static _Atomic bool clock_stop;

static void *clock_run(void *arg)
{
	(void)arg;
	while (!atomic_load(&clock_stop)) {
		__atomic_store_n(&power.now_ns, clock_now_ns(), __ATOMIC_RELAXED);
		usleep(200);
	}
	return NULL;
}

TestSuite(app_starved, .timeout = 120);

/* An appliance with a dataset of `files` files, whose drives now take `delay_ns` for each I/O. */
static void begin(const char *transport, uint64_t delay_ns, int files)
{
	const struct sim_faults slow = { .delay_min_ns = delay_ns, .delay_max_ns = delay_ns };
	struct sim_drive_options options = { .nblocks = DRIVE_BLOCKS, .power = &power };
	static char bytes[FILE_BYTES];
	char path[32];

	sim_power_init(&power);
	atomic_store(&clock_stop, false);
	cr_assert_eq(pthread_create(&clock_thread, NULL, clock_run, NULL), 0);
	for (int i = 0; i < DRIVES; i++) {
		cr_assert_eq(sim_drive_create(&sim[i], &options), 0);
	}
	rig.transport = transport;
	app_rig_begin(&rig);
	client = app_rig_connect(&rig);
	cr_assert_eq(weka_mkdir(client, "/data", 0755), 0);
	for (int i = 0; i < files; i++) {
		snprintf(path, sizeof(path), "/data/%03d", i);
		cr_assert_eq(weka_write_file(client, path, bytes, sizeof(bytes), NULL), 0);
	}
	cr_assert_eq(weka_dataset_create(client, "set", "/data", NULL, NULL), 0);
	for (int i = 0; i < DRIVES; i++)
		sim_drive_faults(sim[i], &slow);
}

static void end(void)
{
	weka_dataset_close(dataset);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
	atomic_store(&clock_stop, true);
	pthread_join(clock_thread, NULL);
	for (int i = 0; i < DRIVES; i++)
		sim_drive_destroy(sim[i]);
}

static void reconnect(const char *address, uint64_t pool_bytes)
{
	struct weka_options o = { .size_bytes = sizeof(o), .pool_bytes = pool_bytes, .lanes = 1 };
	const struct weka_key key = { .secret = app_rig_secret };

	weka_close(client);
	cr_assert_eq(weka_connect(address, &key, &o, &client), 0, "%s", weka_error(NULL));
}

/* Runs an epoch; the consumer works for so long on each batch. */
static void run(uint64_t work_ns, uint32_t ahead)
{
	const struct weka_epoch epoch = { .seed = 1, .batch = BATCH, .ahead = ahead };
	struct weka_stream *stream;
	struct weka_batch *batch;
	int rc;

	cr_assert_eq(weka_dataset_open(client, "set", 0, &dataset), 0, "%s", weka_error(client));
	cr_assert_eq(weka_stream_open(client, dataset, &epoch, NULL, &stream), 0);
	while ((rc = weka_stream_next(stream, &batch)) == 1) {
		cr_assert_eq(batch->failed, 0);
		usleep((useconds_t)(work_ns / 1000));
		cr_assert_eq(weka_stream_release(stream, batch), 0);
	}
	cr_assert_eq(rc, 0, "%s", weka_error(client));
	stats.size_bytes = sizeof(stats);
	cr_assert_eq(weka_stream_get_stats(stream, &stats), 0);
	cr_assert_eq(weka_stream_verdict(stream, verdict), 0);
	cr_assert_eq(stats.waited_ns, stats.waited_short_ns + stats.waited_queue_ns +
					      stats.waited_network_ns + stats.waited_drive_ns +
					      stats.waited_appliance_ns);
	weka_stream_close(stream);
}

static void expect_cause(const char *cause)
{
	const char *colon = strchr(verdict, ':');

	cr_assert_not_null(colon, "%s", verdict);
	cr_assert_eq(strncmp(colon + 2, cause, strlen(cause)), 0, "%s", verdict);
}

Test(app_starved, slow_drives)
{
	begin("shm", 200 * NS_PER_MS, FILES);
	run(0, 2);
	expect_cause("drives");
	end();
}

/* The consumer takes longer than any batch: it hardly waits, and nobody else is blamed. */
Test(app_starved, a_slow_consumer)
{
	begin("shm", NS_PER_MS / 10, FILES);
	run(150 * NS_PER_MS, 4);
	cr_assert_lt(stats.waited_ns, stats.open_ns / 2, "%s", verdict);
	cr_assert_gt(stats.open_ns, FILES / BATCH * 150 * (uint64_t)NS_PER_MS);
	end();
}

Test(app_starved, a_pool_for_one_batch)
{
	begin("shm", 40 * NS_PER_MS, MANY_FILES);
	reconnect(fab_server_address(rig.srv, 0), 2 << 20); /* for three batches */
	run(0, 32);
	expect_cause("a pool too small");
	end();
}

/* ---- a slow network ------------------------------------------------------------------------ */

struct relay {
	pthread_t thread;
	int listener;
	uint16_t port;
	uint16_t to_port;
	_Atomic bool stop;
};

static int tcp_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	return fd;
}

static struct sockaddr_in local(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* Moves what is there from one side to the other; false: it has ended. */
static bool pass(int from, int to, size_t most)
{
	static char bytes[16384];
	ssize_t got = read(from, bytes, most);

	for (ssize_t at = 0; at < got;) {
		ssize_t put = send(to, bytes + at, (size_t)(got - at), MSG_NOSIGNAL);

		if (put < 0)
			return false;
		at += put;
	}
	return got > 0;
}

/* From the appliance 4 KiB a millisecond. */
static void *relay_run(void *arg)
{
	struct relay *r = arg;
	int in = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC), out = tcp_socket();
	const struct sockaddr_in to = local(r->to_port);
	struct pollfd fds[2] = { { .fd = in, .events = POLLIN }, { .fd = out, .events = POLLIN } };
	bool alive = in >= 0 && connect(out, (const struct sockaddr *)&to, sizeof(to)) == 0;

	while (alive && !atomic_load(&r->stop)) {
		if (poll(fds, 2, 50) <= 0)
			continue;
		if (fds[0].revents)
			alive = pass(in, out, 16384);
		if (alive && fds[1].revents) {
			alive = pass(out, in, 4096);
			usleep(1000);
		}
	}
	if (in >= 0)
		close(in);
	close(out);
	return NULL;
}

static void relay_begin(struct relay *r, const char *address)
{
	struct sockaddr_in at = local(0);
	socklen_t length = sizeof(at);

	r->to_port = (uint16_t)atoi(strrchr(address, ':') + 1);
	r->listener = tcp_socket();
	cr_assert_eq(bind(r->listener, (const struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(r->listener, 4), 0);
	cr_assert_eq(getsockname(r->listener, (struct sockaddr *)&at, &length), 0);
	r->port = ntohs(at.sin_port);
	cr_assert_eq(pthread_create(&r->thread, NULL, relay_run, r), 0);
}

Test(app_starved, a_slow_network)
{
	struct relay relay = { .stop = false };
	char address[64];

	begin("tcp", 0, FILES);
	relay_begin(&relay, fab_server_address(rig.srv, 0));
	snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", relay.port);
	reconnect(address, 16 << 20);
	run(0, 2);
	expect_cause("network");
	weka_dataset_close(dataset);
	dataset = NULL;
	weka_close(client);
	client = NULL;
	atomic_store(&relay.stop, true);
	pthread_join(relay.thread, NULL);
	close(relay.listener);
	end();
}
