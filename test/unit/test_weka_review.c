/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* What a hostile reader of the client asked: numbers at their ends. */
#include "test/lib/script_server.h"

#include "client-lib/weka_client.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <unistd.h>

static struct script server;
static struct weka_client *client;
static struct weka_options options;
static struct weka_key key;

static void set_up(void)
{
	script_init(&server);
	script_add(&server, "a", 10000);
	key = (struct weka_key){ .secret = server.cfg.key.secret };
	options = (struct weka_options){ .size_bytes = sizeof(options), .pool_bytes = 4 << 20 };
}

static void tear_down(void)
{
	weka_close(client);
	script_destroy(&server);
}

TestSuite(weka_review, .init = set_up, .fini = tear_down, .timeout = 60);

/* The end of the time must not come before its beginning. */
Test(weka_review, who_has_for_ever_to_connect_connects)
{
	options.connect_timeout_ns = WEKA_FOREVER;
	script_start(&server, "tcp");
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), 0, "%s",
		     weka_error(NULL));
}

Test(weka_review, a_request_that_has_nearly_for_ever_is_not_over_at_once)
{
	struct weka_req req = { .timeout_ns = WEKA_FOREVER - 1 }, *done;

	script_start(&server, "tcp");
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), 0, "%s",
		     weka_error(NULL));
	atomic_store(&server.silent, 1ull << FAB_PING);
	cr_assert_eq(weka_submit_ping(client, &req), 0);
	while (atomic_load(&server.held) == 0)
		cr_assert_eq(weka_reap(client, &done, 1), 0);
	for (int i = 0; i < 20; i++) { /* its deadline is looked at each millisecond */
		cr_assert_eq(weka_reap(client, &done, 1), 0, "%d", req.status);
		usleep(1000);
	}
}
