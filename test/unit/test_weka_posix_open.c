/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files that are open and lose their names, through the client library and a whole appliance: who
 * keeps them, until when, and what becomes of it when a session, a client or the appliance ends.
 * The tables of test_weka_posix_files.c and _names.c test what POSIX says of a single client.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "client-lib/client_internal.h"
#include "fabric/client/fab_client_internal.h"
#include "test/lib/app_rig.h"
#include "test/lib/nvme_faulty.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OPENS_MAX = 16, DRIVE_BLOCKS = 32768, BYTES = 9 << 20 };

static struct sim_power power;
static struct sim_drive *sim;
static struct nvme_faulty faulty;
static struct weka_client *client;
static struct weka_attr attr;
static uint8_t bytes[BYTES], back[BYTES];

/* Drives that are the same ones after a restart. */
static void open_sim(struct app_rig *rig, uint32_t i)
{
	struct nvme_options options = { 0 };
	char err_text[NVME_ERR_TEXT];

	cr_assert_eq(
		nvme_faulty_open(&faulty, sim, rig->dma, &options, 1, &rig->drive[i], err_text), 0,
		"%s", err_text);
}

static struct app_rig rig = { .cfg = { .ndrives = 1,
				       .nshards = 4,
				       .cache_bytes = 16 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 32,
				       .opens_max = OPENS_MAX },
			      .open_drive = open_sim,
			      .one_core = true };

static void setup(void)
{
	struct sim_drive_options options = { .nblocks = DRIVE_BLOCKS, .power = &power };

	sim_power_init(&power);
	cr_assert_eq(sim_drive_create(&sim, &options), 0);
	for (uint32_t i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 4096);
	rig.cfg.boot = APP_BOOT_FORMAT;
}

static void teardown(void)
{
	sim_drive_destroy(sim);
}

TestSuite(weka_posix_open, .init = setup, .fini = teardown, .timeout = 600);

static void begin(const char *transport)
{
	client = app_rig_begin_over(&rig, transport);
}

/* With as many cores as APP_CORES says. */
static void begin_any(const char *transport)
{
	rig.open_drive = NULL;
	rig.one_core = false;
	begin(transport);
}

static void end(void)
{
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

/* ---- asking --------------------------------------------------------------------------------- */

static uint64_t number(struct weka_client *c, const char *name)
{
	const char *at;
	uint64_t count;
	char *text;

	cr_assert_eq(weka_status(c, &text), 0, "%s", weka_error(c));
	at = strstr(text, name);
	cr_assert(at, "%s", text);
	count = strtoull(at + strlen(name), NULL, 10);
	free(text);
	return count;
}

static uint64_t opens(struct weka_client *c)
{
	return number(c, "\"opens\":");
}

static uint64_t connections(struct weka_client *c)
{
	return number(c, "\"sessions_open\":");
}

static void wait_opens(struct weka_client *c, uint64_t want)
{
	while (opens(c) != want)
		usleep(1000);
}

static int fstat_of(struct weka_client *c, const struct weka_handle *h, struct weka_attr *out)
{
	struct weka_stat_item item = { .ref = weka_ref_handle(h) };
	struct weka_req req = { 0 }, *done;

	cr_assert_eq(weka_submit_stat(c, &req, &item, 1, NULL), 0);
	while (weka_reap(c, &done, 1) == 0)
		cr_assert_eq(weka_wait(c, WEKA_FOREVER), 0);
	*out = item.attr;
	return req.status ? req.status : item.status;
}

static void put(const char *path, size_t size)
{
	cr_assert_eq(weka_write_file(client, path, bytes, size, NULL), 0, "%s", weka_error(client));
}

static void open_as(struct weka_client *c, const char *path)
{
	cr_assert_eq(weka_open(c, path, 0, 0, &attr), 0, "%s", weka_error(c));
}

/* Without a name, and whole. */
static void is_kept(struct weka_client *c, size_t size)
{
	struct weka_attr a;

	cr_assert_eq(fstat_of(c, &attr.handle, &a), 0);
	cr_assert_eq(a.nlink, 0);
	cr_assert_eq(a.size_bytes, size);
	memset(back, 0xee, size);
	cr_assert_eq(weka_pread(c, &attr.handle, back, size, 0), (int64_t)size, "%s",
		     weka_error(c));
	cr_assert_eq(memcmp(back, bytes, size), 0);
}

static void wait_stale(struct weka_client *c, const struct weka_handle *h)
{
	struct weka_attr a;
	int err;

	while ((err = fstat_of(c, h, &a)) == 0)
		usleep(1000);
	cr_assert_eq(err, -ESTALE);
}

static uint64_t free_bytes(void)
{
	struct weka_statfs s;

	cr_assert_eq(weka_statfs(client, &s), 0);
	return s.free_bytes;
}

static void cut(uint32_t lane)
{
	cr_assert_eq(client->lanes[lane].at, CLIENT_UP);
	shutdown(client->lanes[lane].conn->fd, SHUT_RDWR);
}

static struct weka_counters counters(void)
{
	struct weka_counters c = { .size_bytes = sizeof(c) };

	cr_assert_eq(weka_get_counters(client, &c), 0);
	return c;
}

/* ---- one appliance ------------------------------------------------------------------------- */

Test(weka_posix_open, it_keeps_its_room_until_it_is_closed)
{
	uint64_t before;

	begin_any("shm");
	put("/other", 1);
	before = free_bytes();
	put("/f", BYTES);
	open_as(client, "/f");
	cr_assert_eq(opens(client), 1);
	cr_assert_eq(weka_unlink(client, "/f"), 0);
	is_kept(client, BYTES);
	cr_assert_lt(free_bytes(), before - BYTES / 2);
	cr_assert_eq(weka_close_file(client, &attr.handle), 0);
	wait_stale(client, &attr.handle);
	wait_opens(client, 0);
	while (free_bytes() < before - (1 << 20)) /* freed gradually; the index has grown */
		usleep(1000);
	cr_assert_eq(weka_close_file(client, &attr.handle), -EBADF);
	end();
}

Test(weka_posix_open, the_last_of_two_clients_closes_it)
{
	struct weka_client *other;

	begin_any("tcp");
	other = app_rig_connect(&rig);
	put("/shard", 100000);
	open_as(client, "/shard");
	open_as(other, "/shard");
	put("/shard", 10); /* a newer version */
	is_kept(client, 100000);
	cr_assert_eq(weka_close_file(client, &attr.handle), 0);
	wait_opens(client, 1);
	is_kept(other, 100000);
	is_kept(client, 100000);
	cr_assert_eq(weka_close_file(other, &attr.handle), 0);
	wait_stale(client, &attr.handle);
	weka_close(other);
	end();
}

Test(weka_posix_open, a_tree_goes_and_what_is_open_in_it_stays)
{
	begin_any("shm");
	cr_assert_eq(weka_mkdir(client, "/t", 0755), 0);
	cr_assert_eq(weka_mkdir(client, "/t/u", 0755), 0);
	put("/t/u/f", 5 << 20);
	put("/t/u/g", 5 << 20);
	open_as(client, "/t/u/f");
	cr_assert_eq(weka_rmtree(client, "/t"), 0);
	do
		cr_assert_eq(fstat_of(client, &attr.handle, &attr), 0);
	while (attr.nlink > 0); /* its turn will come */
	is_kept(client, 5 << 20);
	cr_assert_eq(weka_close_file(client, &attr.handle), 0);
	wait_stale(client, &attr.handle);
	end();
}

/* Open, read and close of many files is one round trip, and nothing is left behind it. */
Test(weka_posix_open, only_what_is_opened_is_held)
{
	struct weka_attr a;
	size_t size;
	void *copy;

	begin_any("shm");
	put("/small", 1000);
	put("/large", BYTES);
	cr_assert_eq(weka_read_file(client, "/small", &copy, &size), 0);
	free(copy);
	cr_assert_eq(client->counters.submitted, counters().submitted);
	cr_assert_eq(client->opens, 0);
	cr_assert_eq(opens(client), 0);
	cr_assert_eq(weka_read_file(client, "/large", &copy, &size), 0); /* while it reads */
	free(copy);
	wait_opens(client, 0);
	cr_assert_eq(weka_open(client, "/", 0, 0, &a), 0);
	cr_assert_eq(opens(client), 0, "a directory has no bytes");
	end();
}

Test(weka_posix_open, an_open_that_is_given_up_is_let_go)
{
	struct weka_ref ref = weka_ref_path("/f");
	struct weka_req req, *done;

	begin_any("tcp");
	put("/f", 10);
	for (int i = 0; i < 3 * OPENS_MAX; i++) {
		req = (struct weka_req){ 0 };
		while (weka_submit_open(client, &req, &ref, WEKA_HOLD, NULL, &attr) == -EMFILE)
			cr_assert_eq(weka_reap(client, &done, 1), 0);
		weka_flush(client);
		weka_cancel(client, &req);
		cr_assert_eq(weka_reap(client, &done, 1), 1);
	}
	wait_opens(client, 0);
	end();
}

/* ---- limits ---------------------------------------------------------------------------------- */

Test(weka_posix_open, there_are_limits_and_they_say_so)
{
	struct weka_options options = { .size_bytes = sizeof(options), .opens_max = 2 };
	struct weka_key key = { .id = "weka", .secret = app_rig_secret };
	struct weka_client *few;
	char path[16];

	begin("shm");
	for (int i = 0; i < OPENS_MAX; i++) {
		snprintf(path, sizeof(path), "/f%d", i);
		put(path, 10);
	}
	cr_assert_eq(weka_connect(fab_server_address(rig.srv, 0), &key, &options, &few), 0);
	open_as(few, "/f0");
	open_as(few, "/f1");
	cr_assert_eq(weka_open(few, "/f2", 0, 0, &attr), -EMFILE);
	cr_assert(strstr(weka_error(few), "opens_max, of weka_options"), "%s", weka_error(few));
	weka_close(few);
	for (int i = 0; i < OPENS_MAX / 2; i++) { /* and what `few` had open is in nobody's way */
		snprintf(path, sizeof(path), "/f%d", i);
		while (weka_open(client, path, 0, 0, &attr) != 0)
			usleep(1000);
	}
	cr_assert_eq(weka_open(client, "/f9", 0, 0, &attr), -EMFILE, "it leaves as many to others");
	cr_assert(strstr(weka_error(client), "opens_max, of the appliance"), "%s",
		  weka_error(client));
	cr_assert_eq(weka_close_file(client, &attr.handle), 0);
	while (weka_open(client, "/f9", 0, 0, &attr) != 0)
		usleep(1000);
	end();
}

/* ---- ends -------------------------------------------------------------------------------- */

/* Clients whose holds leave no room for files that linger: each file that the appliance keeps open
 * is then one that somebody has asked for. */
enum { CROWD = 8 };
static struct weka_client *others[CROWD];

static void crowd(uint32_t held)
{
	for (int i = 0; i < CROWD; i++) {
		int err;

		others[i] = app_rig_connect(&rig);
		while (held < OPENS_MAX - 1 &&
		       (err = weka_open(others[i], "/g", 0, 0, &attr)) != -EMFILE)
			held += err == 0;
	}
	cr_assert_eq(held, OPENS_MAX - 1);
	wait_opens(client, held);
}

static void crowd_ends(void)
{
	for (int i = 0; i < CROWD; i++)
		weka_close(others[i]);
}

Test(weka_posix_open, it_outlives_a_session_that_breaks)
{
	struct weka_attr f;

	begin("tcp");
	put("/f", 100000);
	put("/g", 10);
	open_as(client, "/f");
	open_as(client, "/g");
	open_as(client, "/f");
	f = attr;
	cr_assert_eq(weka_unlink(client, "/f"), 0);
	for (int i = 0; i < 3; i++) {
		cut(0);
		is_kept(client, 100000);
	}
	cr_assert_geq(counters().reconnects, 3);
	cr_assert_eq(counters().opens_lost, 0);
	crowd(2);
	attr = f;
	is_kept(client, 100000);
	cr_assert_eq(weka_close_file(client, &f.handle), 0);
	is_kept(client, 100000);
	cr_assert_eq(weka_close_file(client, &f.handle), 0);
	cr_assert_eq(weka_close_file(client, &f.handle), -EBADF);
	wait_stale(client, &f.handle);
	crowd_ends();
	end();
}

/* Held twice for a while, and what lingers is the same client's: that is no want of places. */
Test(weka_posix_open, so_does_all_that_it_may_have_open)
{
	struct weka_attr f[OPENS_MAX / 2];
	char path[16];

	begin("tcp");
	for (int i = 0; i < OPENS_MAX / 2; i++) {
		snprintf(path, sizeof(path), "/f%d", i);
		put(path, 5000);
		open_as(client, path);
		f[i] = attr;
		cr_assert_eq(weka_unlink(client, path), 0);
	}
	for (int round = 0; round < 4; round++) {
		cut(0);
		for (int i = 0; i < OPENS_MAX / 2; i++) {
			attr = f[i];
			is_kept(client, 5000);
		}
		wait_opens(client, OPENS_MAX / 2);
	}
	cr_assert_eq(counters().opens_lost, 0);
	for (int i = 0; i < OPENS_MAX / 2; i++)
		cr_assert_eq(weka_close_file(client, &f[i].handle), 0);
	wait_opens(client, 0);
	end();
}

/* Its LET_GO is in nobody's way: who may have one request gets one. */
Test(weka_posix_open, closing_takes_no_place_of_a_request)
{
	struct weka_options options = { .size_bytes = sizeof(options), .requests_max = 1 };
	struct weka_key key = { .id = "weka", .secret = app_rig_secret };
	struct weka_client *one;

	begin_any("shm");
	put("/f", 10);
	cr_assert_eq(weka_connect(fab_server_address(rig.srv, 0), &key, &options, &one), 0);
	for (int i = 0; i < 100; i++) {
		open_as(one, "/f");
		cr_assert_eq(weka_close_file(one, &attr.handle), 0);
	}
	weka_close(one);
	end();
}

Test(weka_posix_open, it_outlives_a_lane)
{
	struct weka_options options = { .size_bytes = sizeof(options), .lanes = 2 };
	struct weka_key key = { .id = "weka", .secret = app_rig_secret };
	struct weka_client *first;

	begin_any("tcp");
	first = client;
	cr_assert_eq(weka_connect(fab_server_address(rig.srv, 0), &key, &options, &client), 0);
	put("/f", 100000);
	open_as(client, "/f");
	cr_assert_eq(weka_unlink(client, "/f"), 0);
	for (int i = 0; i < 4; i++) {
		while (client->lanes_up < 2)
			cr_assert_eq(weka_reap(client, NULL, 0), 0);
		cut(client->file_lane);
		is_kept(client, 100000);
	}
	cr_assert_eq(counters().reconnects, 0);
	cr_assert_eq(counters().opens_lost, 0);
	cr_assert_eq(weka_close_file(client, &attr.handle), 0);
	weka_close(first);
	end();
}

/* A turn, and a sleep if there is nothing for it. */
static void turn_asleep(struct weka_client *c)
{
	struct pollfd fd = { .fd = weka_fd(c), .events = POLLIN };

	if (weka_arm(c))
		cr_assert_eq(poll(&fd, 1, -1), 1);
	cr_assert_eq(weka_reap(c, NULL, 0), 0);
}

/* Others have all the places, and it is still there: so it is asked for until there is one. */
Test(weka_posix_open, no_place_for_it_is_not_the_end_of_it)
{
	struct weka_client *first;
	struct weka_attr f;
	uint32_t held = 0;

	begin("tcp");
	put("/f", 1000);
	put("/g", 10);
	first = client;
	client = app_rig_connect(&rig);
	open_as(client, "/f");
	f = attr;
	cut(0);
	for (int i = 0; i < CROWD; i++) {
		others[i] = app_rig_connect(&rig);
		while (weka_open(others[i], "/g", 0, 0, &attr) == 0)
			held++;
	}
	while (held < OPENS_MAX) /* the last of them is what lingers */
		held += weka_open(others[CROWD - 1], "/g", 0, 0, &attr) == 0;
	cr_assert_eq(opens(first), OPENS_MAX);
	while (list_empty(&client->open_late) && counters().opens_lost == 0)
		cr_assert_eq(weka_reap(client, NULL, 0), 0);
	cr_assert_eq(counters().opens_lost, 0);
	crowd_ends();
	while (client->own_out || !list_empty(&client->open_late) || !list_empty(&client->open_due))
		turn_asleep(client);
	cr_assert_eq(counters().opens_lost, 0);
	wait_opens(first, 1);
	cr_assert_eq(weka_unlink(first, "/f"), 0);
	attr = f;
	is_kept(client, 1000);
	weka_close(client);
	client = first;
	wait_opens(client, 0);
	end();
}

/*
 * An OPEN that makes its file goes again by the lane that broke under it, which is not the file
 * lane any more when it is back: `done`, it had been made and the answer was lost, else not.
 * Either way it is held once, and by the file lane.  Returns how many holds are left when both
 * files are closed.
 */
static uint64_t opens_over_an_old_lane(bool done)
{
	struct weka_options options = { .size_bytes = sizeof(options), .lanes = 2 };
	struct weka_key key = { .id = "weka", .secret = app_rig_secret };
	struct weka_ref ref = weka_ref_path("/made");
	struct weka_req req = { 0 }, *reaped;
	struct weka_create create = { .mode = 0644 };
	struct weka_client *first;
	struct weka_attr f, a;
	uint64_t before, left;
	uint32_t old;

	begin("tcp");
	first = client;
	cr_assert_eq(weka_connect(fab_server_address(rig.srv, 0), &key, &options, &client), 0);
	put("/f", 10);
	open_as(client, "/f");
	f = attr;
	while (client->lanes_up < 2)
		cr_assert_eq(weka_reap(client, NULL, 0), 0);
	old = client->file_lane;
	cr_assert_eq(weka_submit_open(client, &req, &ref, WEKA_CREATE | WEKA_HOLD, &create, &attr),
		     0);
	if (done)
		weka_flush(client);
	while (done && weka_stat(first, "/made", &a) != 0)
		usleep(1000);
	before = connections(first);
	cut(old);
	while (connections(first) == before) /* and what it held lingers */
		usleep(1000);
	while (recv(client->lanes[old].conn->fd, back, sizeof(back), 0) > 0)
		; /* the answer is lost */
	while (weka_reap(client, &reaped, 1) == 0)
		cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	cr_assert_eq(req.status, 0);
	cr_assert_eq(counters().replays, 1);
	cr_assert_eq(counters().reconnects, 0);
	cr_assert_neq(client->file_lane, old);
	while (client->own_out || !list_empty(&client->open_due))
		cr_assert_eq(weka_reap(client, NULL, 0), 0);
	cr_assert_eq(opens(first), 2);
	cr_assert_eq(weka_unlink(first, "/made"), 0);
	is_kept(client, 0);
	cr_assert_eq(weka_close_file(client, &attr.handle), 0);
	cr_assert_eq(weka_close_file(client, &f.handle), 0);
	while (client->opens > 0)
		cr_assert_eq(weka_reap(client, NULL, 0), 0);
	left = opens(first);
	cr_assert_eq(counters().opens_lost, 0);
	weka_close(first);
	end();
	return left;
}

Test(weka_posix_open, an_open_that_goes_by_an_old_lane_is_held_by_the_file_lane)
{
	cr_assert_eq(opens_over_an_old_lane(false), 0, "nobody would let go of it");
	teardown();
	setup();
	cr_assert_eq(opens_over_an_old_lane(true), 0, "nobody would let go of it");
}

/* Its connection ends, as if it broke; places that others want come back at once. */
Test(weka_posix_open, a_client_that_is_gone_keeps_nothing_that_is_wanted)
{
	struct weka_client *killed;
	struct weka_attr f;

	begin("tcp");
	killed = app_rig_connect(&rig);
	put("/f", 100000);
	put("/g", 10);
	open_as(killed, "/f");
	f = attr;
	cr_assert_eq(weka_unlink(client, "/f"), 0);
	shutdown(killed->lanes[0].conn->fd, SHUT_RDWR);
	weka_close(killed);
	crowd(0);
	wait_stale(client, &f.handle);
	crowd_ends();
	end();
}

/* It has said so, and was answered: nothing lingers, and the room is there again.  Returns how
 * many holds are left after each of them, added up. */
static uint64_t left_by_who_closes(const char *transport)
{
	struct weka_ref ref = weka_ref_path("/f");
	struct weka_client *closing;
	uint64_t left = 0, begun_ns;

	begin_any(transport);
	put("/f", 10);
	put("/g", 10);
	for (int i = 0; i < 8; i++) {
		struct weka_req req = { 0 };

		closing = app_rig_connect(&rig);
		open_as(closing, "/f");
		open_as(closing, "/f");
		open_as(closing, "/g");
		if (i & 1)
			cr_assert_eq(weka_close_file(closing, &attr.handle), 0);
		if (i & 2)
			cr_assert_eq(weka_submit_open(closing, &req, &ref, WEKA_HOLD, NULL, &attr),
				     0);
		if (i & 4)
			weka_flush(closing);
		begun_ns = clock_now_ns();
		weka_close(closing);
		if (clock_now_ns() - begun_ns < NS_PER_S)
			left += opens(client);
		else /* it waits for the answer so long; then they linger */
			wait_opens(client, 0);
	}
	end();
	return left;
}

Test(weka_posix_open, a_client_that_closes_keeps_nothing)
{
	cr_assert_eq(left_by_who_closes("shm"), 0);
	teardown();
	setup();
	cr_assert_eq(left_by_who_closes("tcp"), 0);
}

Test(weka_posix_open, an_appliance_that_starts_again_knows_of_none)
{
	struct weka_attr f, g, a;

	begin("shm");
	put("/f", BYTES);
	put("/g", 1000);
	open_as(client, "/f");
	f = attr;
	open_as(client, "/g");
	g = attr;
	cr_assert_eq(weka_unlink(client, "/f"), 0);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
	rig.cfg.boot = APP_BOOT_MOUNT;
	app_rig_begin(&rig);
	cr_assert_eq(fstat_of(client, &f.handle, &a), -ESTALE, "from the first moment on");
	cr_assert_eq(fstat_of(client, &g.handle, &a), 0);
	while (counters().opens_lost == 0)
		cr_assert_eq(weka_reap(client, NULL, 0), 0);
	wait_opens(client, 1);
	cr_assert_eq(weka_unlink(client, "/g"), 0);
	attr = g;
	is_kept(client, 1000);
	cr_assert_eq(weka_close_file(client, &f.handle), 0, "it was open, after all");
	cr_assert_eq(weka_close_file(client, &g.handle), 0);
	wait_stale(client, &g.handle);
	cr_assert_eq(counters().opens_lost, 1);
	end();
}
