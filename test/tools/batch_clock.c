/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Batches of files read by name, one after the other: the C side of bench/python.sh.
 *
 * usage: batch_clock ADDRESS KEYFILE DIRECTORY COUNT TURNS
 *
 * DIRECTORY has files "0" to "COUNT - 1".  Prints the nanoseconds of each of TURNS turns, one a
 * line: a lease, a request of COUNT files, the wait, a look at each file, the release.
 */
#include "base/clock.h"
#include "client-lib/weka_client.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT_MAX    1024u
#define NAME_BYTES   300u
#define WINDOW_BYTES (32u << 20)

static struct weka_read_item items[COUNT_MAX];
static char names[COUNT_MAX][NAME_BYTES];

static int turn(struct weka_client *client, uint32_t count, uint64_t *sum)
{
	struct weka_window window = { .size_bytes = WINDOW_BYTES };
	struct weka_req req = { 0 }, *done;
	int err = weka_lease(client, WINDOW_BYTES, &window.lease), got = 0;
	uint32_t i;

	for (i = 0; i < count; i++)
		items[i] = (struct weka_read_item){ .ref = weka_ref_path(names[i]),
						    .length_bytes = WEKA_TO_END };
	if (!err)
		err = weka_submit_read_batch(client, &req, items, count, &window);
	while (!err && (got = weka_reap(client, &done, 1)) == 0)
		err = weka_wait(client, WEKA_FOREVER);
	if (!err)
		err = got < 0 ? got : req.status;
	for (i = 0; i < count && !err; i++) {
		err = items[i].status;
		*sum += items[i].got_bytes;
	}
	weka_release(client, window.lease);
	return err;
}

int main(int argc, char **argv)
{
	uint32_t count = argc == 6 ? (uint32_t)atoi(argv[4]) : 0, turns, i;
	struct weka_key key = { .file = argc == 6 ? argv[2] : NULL };
	struct weka_client *client;
	uint64_t sum = 0;
	int err;

	if (count == 0 || count > COUNT_MAX) {
		fprintf(stderr, "usage: batch_clock ADDRESS KEYFILE DIRECTORY COUNT TURNS\n");
		return 2;
	}
	if (weka_connect(argv[1], &key, NULL, &client)) {
		fprintf(stderr, "batch_clock: %s\n", weka_error(NULL));
		return 1;
	}
	turns = (uint32_t)atoi(argv[5]);
	for (i = 0; i < count; i++)
		snprintf(names[i], NAME_BYTES, "%.200s/%u", argv[3], i);
	for (i = 0, err = 0; i < turns && !err; i++) {
		uint64_t begin_ns = clock_now_ns();

		err = turn(client, count, &sum);
		printf("%llu\n", (unsigned long long)(clock_now_ns() - begin_ns));
	}
	if (err)
		fprintf(stderr, "batch_clock: %s\n", weka_error(client));
	weka_close(client);
	return err || sum == 0;
}
