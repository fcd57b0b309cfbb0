/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Many processes connect at the same moment:
 *
 *   crowd_client ADDRESS KEY_FILE CLIENTS POOL_BYTES TIMEOUT_MS [ROUNDS]
 *
 * Each connects, leases a block, asks for the root's attributes and stays until all are done.
 * Prints what failed, and "N of CLIENTS, slowest M ms" a round.
 */
#include "base/clock.h"
#include "base/num.h"
#include "client-lib/weka_client.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct seat {
	uint64_t connect_ns;
	uint64_t close_ns;
	int err;
	char why[256];
};

static struct weka_options options = { .size_bytes = sizeof(options), .lanes = 1 };
static struct weka_key key;
static const char *address;

static int work(struct weka_client *client)
{
	struct weka_lease *lease;
	struct weka_attr attr;
	int err = weka_lease(client, WEKA_BLOCK, &lease);

	return err ? err : weka_stat(client, "/", &attr);
}

/* `begin` ends when all processes are there, `end` when all are done. */
static void visit(struct seat *seat, int begin, int end)
{
	struct weka_client *client = NULL;
	uint64_t at_ns;
	char none;

	if (read(begin, &none, 1) < 0)
		_exit(1);
	at_ns = clock_now_ns();
	seat->err = weka_connect(address, &key, &options, &client);
	seat->connect_ns = clock_now_ns() - at_ns;
	if (!seat->err)
		seat->err = work(client);
	if (seat->err)
		snprintf(seat->why, sizeof(seat->why), "%s", weka_error(client));
	if (read(end, &none, 1) < 0)
		_exit(1);
	at_ns = clock_now_ns();
	weka_close(client);
	seat->close_ns = clock_now_ns() - at_ns;
	_exit(0);
}

/* Waits until every process has been inside, or given up. */
static void all_inside(const struct seat *seats, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		while (__atomic_load_n(&seats[i].connect_ns, __ATOMIC_ACQUIRE) == 0)
			usleep(1000);
}

static bool report(const struct seat *seats, uint32_t count)
{
	uint64_t slowest_ns = 0, closed_ns = 0;
	uint32_t in = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (seats[i].err)
			printf("client %u: %d: %s\n", i, seats[i].err, seats[i].why);
		in += !seats[i].err;
		slowest_ns = max_u64(slowest_ns, seats[i].connect_ns);
		closed_ns = max_u64(closed_ns, seats[i].close_ns);
	}
	printf("%u of %u, slowest %llu ms, slowest close %llu ms\n", in, count,
	       (unsigned long long)(slowest_ns / 1000000),
	       (unsigned long long)(closed_ns / 1000000));
	return in == count;
}

static bool round_of(struct seat *seats, uint32_t count)
{
	int begin[2], end[2];

	memset(seats, 0, count * sizeof(*seats));
	if (pipe(begin) || pipe(end))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return false;
		if (pid == 0) {
			close(begin[1]);
			close(end[1]);
			visit(&seats[i], begin[0], end[0]);
		}
	}
	close(begin[1]);
	all_inside(seats, count);
	close(end[1]);
	while (wait(NULL) > 0)
		;
	close(begin[0]);
	close(end[0]);
	return report(seats, count);
}

int main(int argc, char **argv)
{
	uint32_t count, rounds = argc > 6 ? (uint32_t)atoi(argv[6]) : 1;
	struct seat *seats;
	bool good = true;

	if (argc < 6)
		return 2;
	address = argv[1];
	key.file = strcmp(argv[2], "none") == 0 ? NULL : argv[2];
	count = (uint32_t)atoi(argv[3]);
	options.pool_bytes = strtoull(argv[4], NULL, 10);
	options.connect_timeout_ns = strtoull(argv[5], NULL, 10) * 1000000;
	seats = mmap(NULL, count * sizeof(*seats), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seats == MAP_FAILED)
		return 2;
	while (rounds-- > 0)
		good &= round_of(seats, count);
	return good ? 0 : 1;
}
