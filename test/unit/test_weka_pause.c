/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Pauses of calls that wait: others use the client meanwhile, a call ends early, a fork. */
#include "test/lib/script_server.h"

#include "base/num.h"
#include "client-lib/weka_client.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct script server;
static struct weka_client *client;
static uint32_t pauses;

static void start(const char *transport)
{
	struct weka_key key = { .secret = server.cfg.key.secret };
	struct weka_options options = { .size_bytes = sizeof(options), .pool_bytes = 8 << 20 };

	script_init(&server);
	script_add(&server, "a", 100000);
	script_start(&server, transport);
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), 0, "%s",
		     weka_error(NULL));
	pauses = 0;
}

static void tear_down(void)
{
	struct weka_counters c = { .size_bytes = sizeof(c) };

	for (uint32_t i = 0; i < 1000; i++) { /* a cancelled read gives its window back soon */
		cr_assert_eq(weka_get_counters(client, &c), 0);
		if (c.pool_used_bytes == 0)
			break;
		(void)!weka_stat(client, "a", NULL);
		usleep(1000);
	}
	cr_assert_eq(c.pool_used_bytes, 0, "leases were leaked");
	weka_close(client);
	script_destroy(&server);
}

TestSuite(weka_pause, .fini = tear_down, .timeout = 100);

static void silence(bool on)
{
	atomic_store(&server.silent,
		     on ? UINT64_C(1) << FAB_READ | UINT64_C(1) << FAB_READ_BATCH : 0);
}

static int third_ends(void *user)
{
	cr_assert_eq(user, &pauses);
	return ++pauses == 3;
}

static void read_to_the_end(void)
{
	void *bytes;
	size_t size;

	silence(false);
	cr_assert_eq(weka_set_pause(client, NULL, NULL), 0);
	cr_assert_eq(weka_read_file(client, "a", &bytes, &size), 0, "%s", weka_error(client));
	cr_assert_eq(size, 100000);
	free(bytes);
}

static int read_with(int (*pause)(void *))
{
	void *bytes;
	size_t size;
	int err;

	silence(true);
	cr_assert_eq(weka_set_pause(client, pause, &pauses), 0);
	err = weka_read_file(client, "a", &bytes, &size);
	if (!err) {
		cr_assert_eq(size, 100000);
		free(bytes);
	}
	return err;
}

static void expect_it_ends(const char *transport)
{
	start(transport);
	cr_assert_eq(read_with(third_ends), -ECANCELED);
	cr_assert_eq(pauses, 3);
	read_to_the_end();
}

Test(weka_pause, ends_shm)
{
	expect_it_ends("shm");
}

Test(weka_pause, ends_tcp)
{
	expect_it_ends("tcp");
}

/* Another call, a close that is refused, and in the end the answer. */
static int uses(void *user)
{
	struct weka_attr attr;

	(void)user;
	weka_close(client);
	cr_assert_eq(weka_stat(client, "a", &attr), 0, "%s", weka_error(client));
	cr_assert_eq(attr.size_bytes, 100000);
	if (++pauses == 3)
		cr_assert_eq(weka_set_pause(client, NULL, NULL), 0);
	return pauses == 3 ? -1 : 0;
}

Test(weka_pause, others_use_the_client)
{
	start("shm");
	cr_assert_eq(read_with(uses), -ECANCELED);
	cr_assert_eq(pauses, 3);
	read_to_the_end();
}

/* The child's call ends, and touches nothing that is the parent's. */
static int forks(void *user)
{
	int status;
	pid_t child;

	(void)user;
	if (++pauses > 1)
		return 1;
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0)
		return 0;
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 17, "status %x", status);
	return 0;
}

Test(weka_pause, a_fork)
{
	const pid_t parent = getpid();
	int err;

	start("shm");
	err = read_with(forks);
	if (getpid() != parent) {
		weka_close(client);
		_exit(err == -ESTALE ? 17 : 1);
	}
	cr_assert_eq(err, -ECANCELED);
	read_to_the_end();
}
