/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* With WEKA_POISON_WINDOWS nobody writes into a window that was given back without being found. */
#include "test/lib/death.h"
#include "test/lib/script_server.h"

#include "base/clock.h"
#include "client-lib/client_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POOL (2u << 20)

static struct script server;
static struct weka_client *client;

static void begin(const char *transport)
{
	struct weka_options options = { .size_bytes = sizeof(options), .pool_bytes = POOL };
	struct weka_key key = { .secret = server.cfg.key.secret };

	script_init(&server);
	script_add(&server, "a", 60000);
	script_start(&server, transport);
	cr_assert_eq(setenv("WEKA_POISON_WINDOWS", "1", 1), 0);
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), 0);
}

static void end(void)
{
	weka_close(client);
	script_destroy(&server);
}

static struct weka_lease *leased(uint64_t bytes)
{
	struct weka_lease *lease;

	cr_assert_eq(weka_lease(client, bytes, &lease), 0);
	return lease;
}

static const char *const transports[] = { "tcp", "shm" };
static const char *transport;

static void written_to_when_it_was_given_back(void)
{
	struct weka_lease *lease;
	char *at;

	begin(transport);
	lease = leased(20000);
	at = lease->data;
	weka_release(client, lease);
	at[12345] ^= 1;
	(void)leased(20000);
}

static void written_to_at_the_end(void)
{
	struct weka_lease *lease;
	char *at;

	begin(transport);
	lease = leased(20000);
	at = lease->data;
	weka_release(client, lease);
	at[0] = 7;
	end();
}

Test(weka_poison, a_late_write_is_found_when_the_window_is_taken_again_or_at_the_end)
{
	for (uint32_t i = 0; i < ARRAY_LEN(transports); i++) {
		transport = transports[i];
		cr_assert(dies_saying(written_to_when_it_was_given_back,
				      "weka: byte 12345 of a free"),
			  "%s: %s", transport, death_said());
		cr_assert(dies_saying(written_to_at_the_end, "weka: byte 0 of a free"), "%s: %s",
			  transport, death_said());
	}
}

/* A read that its caller gave up, with its lease, before the appliance answers it. */
static struct weka_lease *given_up(struct weka_req *req)
{
	struct weka_window window = { .lease = leased(65536), .size_bytes = 65536 };
	struct weka_attr attr;

	cr_assert_eq(weka_stat(client, "/a", &attr), 0);
	atomic_store(&server.deaf_to_cancels, true);
	atomic_store(&server.silent, UINT64_C(1) << FAB_READ);
	*req = (struct weka_req){ .timeout_ns = NS_PER_MS };
	cr_assert_eq(weka_submit_read(client, req, &attr.handle, 0, 60000, &window), 0);
	cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	return window.lease;
}

Test(weka_poison, what_the_appliance_writes_late_finds_a_window_that_is_nobody_elses)
{
	for (uint32_t i = 0; i < ARRAY_LEN(transports); i++) {
		struct weka_lease *lease, *all;
		struct weka_req req, *done;
		uint64_t looks;

		begin(transports[i]);
		lease = given_up(&req);
		cr_assert_eq(weka_reap(client, &done, 1), 1);
		cr_assert_eq(req.status, -ETIMEDOUT);
		weka_release(client, lease);
		cr_assert_eq(weka_lease(client, POOL, &all), -EAGAIN);
		atomic_store(&server.silent, 0);
		while (weka_lease(client, POOL, &all) == -EAGAIN)
			(void)!weka_reap(client, &done, 1);
		looks = client->poison_looks;
		weka_release(client, all);
		weka_release(client, leased(4096));
		cr_assert_eq(client->poison_looks, looks + 1);
		end();
	}
}
