/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Reads or makes small files by name, one request after the other: test/way.sh counts what it runs.
 *
 * usage: way_client ADDRESS KEYFILE read|put FILES REQUESTS
 *
 * A request has FILES files of 4 KiB: "/0" to "/FILES - 1", or new names.  The names that are read
 * are made first, and read once, so that a run of twice as many requests differs by reads alone.
 */
#include "client-lib/weka_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 256, NAME_BYTES = 32 };

static struct weka_client *client;
static struct weka_window window;
static struct weka_read_item reads[FILES_MAX];
static struct weka_put_item puts_[FILES_MAX];
static char names[FILES_MAX][NAME_BYTES];
static uint32_t files;

/* Waits for the one request in flight.  Returns its status. */
static int end(struct weka_req *req)
{
	struct weka_req *done;
	int got, err;

	while ((got = weka_reap(client, &done, 1)) == 0) {
		err = weka_wait(client, WEKA_FOREVER);
		if (err)
			return err;
	}
	return got < 0 ? got : req->status;
}

static int put(uint32_t first)
{
	struct weka_req req = { 0 };
	int err;

	for (uint32_t i = 0; i < files; i++) {
		snprintf(names[i], NAME_BYTES, "/%u", first + i);
		puts_[i] = (struct weka_put_item){ .ref = weka_ref_path(names[i]),
						   .create.mode = 0644,
						   .window_at = i * WEKA_BLOCK,
						   .size_bytes = WEKA_BLOCK };
	}
	err = weka_submit_put(client, &req, puts_, files, &window);
	if (!err)
		err = end(&req);
	for (uint32_t i = 0; i < files && !err; i++)
		err = puts_[i].status;
	return err;
}

static int read_all(void)
{
	struct weka_req req = { 0 };
	int err;

	for (uint32_t i = 0; i < files; i++)
		reads[i] = (struct weka_read_item){ .ref = weka_ref_path(names[i]),
						    .length_bytes = WEKA_TO_END };
	err = weka_submit_read_batch(client, &req, reads, files, &window);
	if (!err)
		err = end(&req);
	for (uint32_t i = 0; i < files && !err; i++)
		err = reads[i].status ? reads[i].status : -(reads[i].got_bytes != WEKA_BLOCK);
	return err;
}

static int run(const char *what, uint32_t requests)
{
	int err;

	window.size_bytes = weka_window_bytes(files, WEKA_BLOCK);
	err = weka_lease(client, window.size_bytes, &window.lease);
	if (!err) {
		memset(window.lease->data, 7, window.size_bytes);
		err = put(0);
	}
	for (uint32_t i = 1; i <= requests && !err; i++)
		err = strcmp(what, "put") == 0 ? put(i * files) : read_all();
	weka_release(client, window.lease);
	return err;
}

int main(int argc, char **argv)
{
	struct weka_key key = { .file = argc == 6 ? argv[2] : NULL };
	int err;

	files = argc == 6 ? (uint32_t)atoi(argv[4]) : 0;
	if (files == 0 || files > FILES_MAX) {
		fprintf(stderr, "usage: way_client ADDRESS KEYFILE read|put FILES REQUESTS\n");
		return 2;
	}
	err = weka_connect(argv[1], &key, NULL, &client);
	if (err) {
		fprintf(stderr, "way_client: %s\n", weka_error(NULL));
		return 1;
	}
	err = run(argv[3], (uint32_t)atoi(argv[5]));
	if (err)
		fprintf(stderr, "way_client: %s\n", weka_error(client));
	weka_close(client);
	return err != 0;
}
