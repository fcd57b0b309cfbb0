/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Connect, write a file, read it back.
 *
 *	hello shm:/run/weka.sock,tcp://127.0.0.1:7010 KEYFILE
 */
#include <weka_client.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(struct weka_client *client, const char *what)
{
	fprintf(stderr, "hello: %s: %s\n", what, weka_error(client));
	weka_close(client);
	return 1;
}

int main(int argc, char **argv)
{
	static const char text[] = "hello, world\n";
	struct weka_key key = { 0 };
	struct weka_client *client;
	void *bytes;
	size_t size;
	int same;

	if (argc != 3) {
		fprintf(stderr, "usage: hello ADDRESSES KEYFILE\n");
		return 2;
	}
	key.file = argv[2];
	if (weka_connect(argv[1], &key, NULL, &client) < 0)
		return fail(NULL, "connect");

	/* When this returns 0 the file is there, whole, for every client and after any crash. */
	if (weka_write_file(client, "/hello.txt", text, strlen(text), NULL) < 0)
		return fail(client, "write");

	if (weka_read_file(client, "/hello.txt", &bytes, &size) < 0)
		return fail(client, "read");
	same = size == strlen(text) && memcmp(bytes, text, size) == 0;
	printf("%s", (const char *)bytes);
	free(bytes);

	if (weka_unlink(client, "/hello.txt") < 0)
		return fail(client, "unlink");
	weka_close(client);
	return same ? 0 : 1;
}
