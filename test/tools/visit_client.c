/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One client after the other connects, leases a block and closes:
 *
 *   visit_client ADDRESS KEY_FILE VISITS [LIMIT_MS COMMAND]
 *
 * Prints how long the slowest connect, lease and close took.  A second thread runs the shell's
 * COMMAND once for each visit that has taken longer than LIMIT_MS, while the visit is under way.
 * $1 is this process, so that COMMAND can show where both sides are.
 */
#include "base/clock.h"
#include "base/num.h"
#include "client-lib/weka_client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum step { CONNECT, LEASE, CLOSE, STEPS };
static const char *const step_name[STEPS] = { "connect", "lease", "close" };

static struct weka_options options = { .size_bytes = sizeof(options) };
static struct weka_key key;
static uint64_t slowest_ns[STEPS], limit_ns = UINT64_MAX;
static const char *command;
static _Atomic uint64_t began_ns; /* the visit that is under way; 0: none */
static _Atomic uint32_t step_now;
static _Atomic uint32_t overdue;

static void show(uint64_t visit_ns)
{
	char line[4096];

	atomic_fetch_add(&overdue, 1);
	printf("a visit has taken %llu ms so far, in %s\n",
	       (unsigned long long)((clock_now_ns() - visit_ns) / NS_PER_MS),
	       step_name[atomic_load(&step_now)]);
	fflush(stdout);
	(void)snprintf(line, sizeof(line), "set -- %d; %s", getpid(), command);
	if (system(line))
		printf("'%s' failed\n", command);
}

static void *watch(void *unused)
{
	uint64_t shown_ns = 0;

	(void)unused;
	for (;;) {
		uint64_t at_ns = atomic_load(&began_ns);

		if (at_ns && at_ns != shown_ns && clock_now_ns() - at_ns > limit_ns) {
			shown_ns = at_ns;
			show(at_ns);
		}
		usleep(20000);
	}
	return NULL;
}

/* Returns when `step` has ended that began at `at_ns`: now. */
static uint64_t step_ends(enum step step, uint64_t at_ns)
{
	const uint64_t now_ns = clock_now_ns();

	slowest_ns[step] = max_u64(slowest_ns[step], now_ns - at_ns);
	return now_ns;
}

static bool visit(const char *address)
{
	struct weka_client *client = NULL;
	struct weka_lease *lease;
	uint64_t at_ns = clock_now_ns();
	int err;

	atomic_store(&step_now, CONNECT);
	atomic_store(&began_ns, at_ns);
	err = weka_connect(address, &key, &options, &client);
	at_ns = step_ends(CONNECT, at_ns);
	atomic_store(&step_now, LEASE);
	if (!err)
		err = weka_lease(client, WEKA_BLOCK, &lease);
	at_ns = step_ends(LEASE, at_ns);
	if (err)
		printf("%s\n", weka_error(client));
	atomic_store(&step_now, CLOSE);
	weka_close(client);
	(void)step_ends(CLOSE, at_ns);
	atomic_store(&began_ns, 0);
	return err == 0;
}

static bool starts_watch(char **argv)
{
	pthread_t thread;

	limit_ns = strtoull(argv[0], NULL, 10) * NS_PER_MS;
	command = argv[1];
	return pthread_create(&thread, NULL, watch, NULL) == 0;
}

int main(int argc, char **argv)
{
	uint32_t visits, failed = 0;

	if ((argc != 4 && argc != 6) || (argc == 6 && !starts_watch(argv + 4))) {
		fprintf(stderr, "usage: visit_client ADDRESS KEY_FILE VISITS [LIMIT_MS COMMAND]\n");
		return 2;
	}
	key.file = argv[2];
	visits = (uint32_t)strtoul(argv[3], NULL, 10);
	for (uint32_t i = 0; i < visits; i++)
		failed += !visit(argv[1]);
	printf("%u visits, %u failed, %u overdue; slowest connect %llu us, lease %llu us, "
	       "close %llu us\n",
	       visits, failed, atomic_load(&overdue),
	       (unsigned long long)slowest_ns[CONNECT] / 1000,
	       (unsigned long long)slowest_ns[LEASE] / 1000,
	       (unsigned long long)slowest_ns[CLOSE] / 1000);
	return failed > 0;
}
