/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A witness: appends numbered records to a file, several at once, until it is told to stop
 *(SIGTERM); then says which of them were acknowledged.  "verify" reads such a file and compares.
 *
 *	fault_writer ADDRESS KEY PATH > acknowledged
 *	fault_writer ADDRESS KEY PATH verify acknowledged
 *
 * A line of what it says: the number of a record, and its status, when that came.  The file is
 *right if each record in it is whole and stands there once, and every one with status 0 is there.
 */
#define _GNU_SOURCE
#include "base/crc32c.h"
#include "client-lib/weka_client.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLIGHT = 8, RECORD = 256, RECORDS_MAX = 4 << 20 };

static volatile sig_atomic_t told;

static void tell(int signal_number)
{
	told = signal_number;
}

static void record_build(uint32_t number, char out[RECORD])
{
	uint32_t sum;

	memset(out, (int)('a' + number % 26), RECORD);
	memcpy(out, &number, sizeof(number));
	sum = crc32c(out, RECORD - sizeof(sum));
	memcpy(out + RECORD - sizeof(sum), &sum, sizeof(sum));
}

static int fail(struct weka_client *c, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, weka_error(c));
	return 1;
}

struct writer {
	struct weka_req req[FLIGHT];
	struct weka_window window[FLIGHT];
	uint32_t number[FLIGHT];
	bool out[FLIGHT];
	uint32_t next, in_flight;
};

/* 0, or the appliance is gone for good. */
static int reap(struct weka_client *c, struct writer *w)
{
	struct weka_req *done[FLIGHT];
	int count = weka_reap(c, done, FLIGHT);

	for (int k = 0; k < count; k++) {
		uint32_t i = (uint32_t)(done[k] - w->req);

		printf("%u %d\n", w->number[i], done[k]->status);
		w->out[i] = false;
		w->in_flight--;
	}
	if (count == 0)
		(void)!weka_wait(c, 100000000);
	return count < 0 ? count : 0;
}

static void submit(struct weka_client *c, struct writer *w, const struct weka_handle *h)
{
	for (uint32_t i = 0; i < FLIGHT && w->next < RECORDS_MAX; i++) {
		if (w->out[i])
			continue;
		w->number[i] = w->next;
		record_build(w->next, w->window[i].lease->data);
		if (weka_submit_write(c, &w->req[i], h, 0, RECORD, WEKA_APPEND, &w->window[i]))
			return;
		w->out[i] = true;
		w->in_flight++;
		w->next++;
	}
}

static int append(struct weka_client *c, const char *path)
{
	static struct writer w;
	struct weka_attr attr;

	if (weka_open(c, path, WEKA_CREATE, 0644, &attr))
		return fail(c, path);
	for (uint32_t i = 0; i < FLIGHT; i++) {
		w.window[i].size_bytes = 4096;
		if (weka_lease(c, 4096, &w.window[i].lease))
			return fail(c, "lease");
	}
	while (!told || w.in_flight > 0) {
		if (!told)
			submit(c, &w, &attr.handle);
		if (reap(c, &w))
			return fail(c, "reap");
	}
	return 0;
}

static int verify(struct weka_client *c, const char *path, const char *acknowledged)
{
	uint8_t *seen = calloc(1, RECORDS_MAX);
	FILE *f = fopen(acknowledged, "r");
	uint32_t number, acked = 0, unknown = 0, wrong = 0;
	char want[RECORD], *at;
	size_t size;
	void *bytes;
	int status;

	if (!f || !seen || weka_read_file(c, path, &bytes, &size))
		return fail(c, path);
	wrong += size % RECORD != 0;
	for (at = bytes; at + RECORD <= (char *)bytes + size; at += RECORD) {
		memcpy(&number, at, sizeof(number));
		record_build(number, want);
		if (number >= RECORDS_MAX || memcmp(at, want, RECORD) != 0)
			wrong += fprintf(stderr, "byte %td: no record\n", at - (char *)bytes) > 0;
		else if (seen[number]++)
			wrong += fprintf(stderr, "record %u stands there twice\n", number) > 0;
	}
	while (fscanf(f, "%u %d", &number, &status) == 2) {
		acked += status == 0;
		unknown += status == -ECONNRESET;
		if (status == 0 && !seen[number])
			wrong += fprintf(stderr, "record %u was acknowledged and is not there\n",
					 number) > 0;
	}
	fclose(f);
	free(bytes);
	free(seen);
	printf("%u acknowledged, %u of unknown outcome, %u wrong\n", acked, unknown, wrong);
	return wrong > 0;
}

int main(int argc, char **argv)
{
	struct weka_options options = { .size_bytes = sizeof(options), .pool_bytes = 4 << 20 };
	struct weka_key key = { 0 };
	struct weka_client *c;
	int code;

	if (argc != 4 && argc != 6) {
		fprintf(stderr, "usage: fault_writer ADDRESS KEYFILE PATH [verify FILE]\n");
		return 2;
	}
	key.file = argv[2];
	signal(SIGTERM, tell);
	setvbuf(stdout, NULL, _IOLBF, 0); /* what was said stays said when it is killed */
	if (weka_connect(argv[1], &key, &options, &c))
		return fail(NULL, argv[1]);
	code = argc == 6 ? verify(c, argv[3], argv[5]) : append(c, argv[3]);
	weka_close(c);
	return code;
}
